//! The pages show what the program prints today: simulations, and what the README takes from the quick start; UPDATE=1 rewrites them.

#[cfg(test)]
mod pages;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::pages::{section, with_section};

    fn path(file: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file)
    }

    fn read(file: &str) -> String {
        std::fs::read_to_string(path(file)).unwrap()
    }

    fn fenced(text: &str) -> String {
        format!("```text\n{}\n```", text.trim_matches('\n'))
    }

    /// Compares the section of the page with `fresh`, or writes it.
    fn check(file: &str, name: &str, fresh: &str) {
        if std::env::var_os("UPDATE").is_some() {
            let page = with_section(&read(file), name, &fenced(fresh)).unwrap();
            std::fs::write(path(file), page).unwrap();
        }
        let page = read(file);
        let stored = section(&page, name).unwrap_or_else(|| panic!("{file} has no section {name}"));
        assert!(
            likeness(stored) == likeness(&fenced(fresh)),
            "{name} in {file} is stale: run `make pages` and commit the result\n{fresh}"
        );
    }

    /// What is alike in two runs: lines without the blanks at their ends.
    fn likeness(text: &str) -> Vec<&str> {
        text.lines().map(str::trim_end).collect()
    }

    /// All that is printed but how long it took: that depends on the machine, and tests run a slow build.
    fn lasting(printed: &str) -> String {
        let lines = printed.lines().filter(|line| !line.trim_start().starts_with("simulated "));
        lines.map(|line| format!("{}\n", line.trim_end())).collect()
    }

    fn simulated(arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_headroom"))
            .arg("simulate")
            .args(arguments)
            .current_dir(path(""))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        lasting(&String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn the_rush_hour_of_the_quick_start_is_what_simulate_prints() {
        let printed = simulated(&["examples/rush-hour"]);
        let (_, summary) = printed.rsplit_once("\n\n").unwrap();
        check("docs/quickstart.md", "simulate:rush-hour", summary);
    }

    #[test]
    fn the_day_of_the_readme_is_what_simulate_prints() {
        check("README.md", "simulate:a-day", &simulated(&["examples/a-day", "--every", "1h"]));
    }

    #[test]
    fn every_field_of_the_json_is_documented() {
        fn names(value: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
            match value {
                serde_json::Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                    found.insert(name.clone());
                    names(value, found);
                }),
                serde_json::Value::Array(items) => items.iter().for_each(|item| names(item, found)),
                _ => {}
            }
        }
        let printed = simulated(&["e2e/pages/scenario", "-o", "json"]);
        let document: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(document["schema"], "headroom.dev/page/v1");
        let mut found = std::collections::BTreeSet::new();
        names(&document, &mut found);
        assert!(40 < found.len(), "{found:?}");
        let page = read("docs/scenarios.md");
        let silent: Vec<&String> = found.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
        assert!(silent.is_empty(), "docs/scenarios.md says nothing of {silent:?}");
    }

    #[test]
    fn the_readme_shows_what_the_quick_start_shows() {
        let (readme, guide) = (read("README.md"), read("docs/quickstart.md"));
        for name in ["quickstart:get", "quickstart:describe"] {
            let shown = section(&readme, name).unwrap();
            assert!(shown.contains("$ kubectl") && Some(shown) == section(&guide, name), "{name} differs");
        }
    }
}
