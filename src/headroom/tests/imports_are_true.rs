//! The imports of examples/import print what stands beside them and in docs/migration.md; UPDATE=1 rewrites both.

#[cfg(test)]
mod pages;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::pages::{section, with_section};

    /// Folders of examples/import, each with the import it is for and its files.
    const IMPORTS: &[(&str, &str, &[&str])] = &[
        ("ca-tags", "cluster-autoscaler", &["deployment.yaml", "groups.json"]),
        ("ca-nodes", "cluster-autoscaler", &["deployment.yaml"]),
        ("ca-many", "cluster-autoscaler", &["deployment.yaml"]),
        ("hpa", "hpa", &["hpa.yaml"]),
        ("karpenter", "karpenter", &["nodepool.yaml"]),
        ("keda", "keda", &["scaledobject.yaml"]),
    ];
    const PAGE: &str = "docs/migration.md";

    fn path(file: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
    }

    /// The command as a reader would type it, and what it prints.
    fn printed((folder, kind, files): &(&str, &str, &[&str])) -> (String, String) {
        let files: Vec<String> =
            files.iter().map(|file| format!("examples/import/{folder}/{file}")).collect();
        let output = Command::new(env!("CARGO_BIN_EXE_headroom"))
            .args(["import", kind])
            .args(&files)
            .current_dir(path(""))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let command = format!("headroom import {kind} {}", files.join(" "));
        (command, String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn imports_print_what_their_examples_and_the_page_show() {
        for import in IMPORTS {
            let (folder, _, _) = import;
            let (command, text) = printed(import);
            let file = path(&format!("examples/import/{folder}/printed.yaml"));
            let shown = format!("```console\n$ {command}\n{}\n```", text.trim_end());
            let page = std::fs::read_to_string(path(PAGE)).unwrap();
            let name = format!("import:{folder}");
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&file, &text).unwrap();
                if section(&page, &name).is_some() {
                    std::fs::write(path(PAGE), with_section(&page, &name, &shown).unwrap()).unwrap();
                }
            }
            let stored = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(
                stored == text,
                "{} is stale: run `make pages` and commit the result\n{text}",
                file.display()
            );
            let page = std::fs::read_to_string(path(PAGE)).unwrap();
            let same = section(&page, &name).is_none_or(|stored| stored == shown);
            assert!(same, "{name} in {PAGE} is stale: run `make pages` and commit the result");
        }
    }

    #[test]
    fn the_page_of_fields_is_what_the_tables_say() {
        let (file, fresh) = ("docs/migration-fields.md", headroom::import::tables::fields_page());
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path(file), &fresh).unwrap();
        }
        let stored = std::fs::read_to_string(path(file)).unwrap_or_default();
        assert!(stored == fresh, "{file} is stale: run `make pages` and commit the result");
    }

    #[test]
    fn the_page_shows_an_import_of_each_kind() {
        let page = std::fs::read_to_string(path(PAGE)).unwrap();
        for (folder, kind, _) in
            IMPORTS.iter().filter(|(folder, _, _)| !["ca-many", "ca-nodes"].contains(folder))
        {
            assert!(section(&page, &format!("import:{folder}")).is_some(), "no import {kind} in {PAGE}");
        }
    }

    #[test]
    fn what_cannot_be_imported_says_what_to_do() {
        let output = Command::new(env!("CARGO_BIN_EXE_headroom"))
            .args(["import", "hpa", "examples/import/keda/scaledobject.yaml"])
            .current_dir(path(""))
            .output()
            .unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && words.contains("there is no HorizontalPodAutoscaler"), "{words}");
    }
}
