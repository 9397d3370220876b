//! The pages show what the program prints today: simulations, and what the README takes from the quick start; UPDATE=1 rewrites them.

#[cfg(test)]
mod pages;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::{Command, Output};

    use super::pages::{section, with_section};

    fn path(file: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
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

    /// Returns the parts that are equal in two runs: lines without the blanks at their ends.
    fn likeness(text: &str) -> Vec<&str> {
        text.lines().map(str::trim_end).collect()
    }

    /// All that is printed but how long it took: that depends on the machine, and tests run a slow build.
    fn lasting(printed: &str) -> String {
        let lines = printed.lines().filter(|line| !line.trim_start().starts_with("simulated "));
        lines.map(|line| format!("{}\n", line.trim_end())).collect()
    }

    fn simulate(arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.arg("simulate").args(arguments).current_dir(path("")).output().unwrap()
    }

    #[test]
    fn what_lint_says_of_the_bad_example_is_what_the_page_shows() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        let output = command.args(["lint", "examples/lint"]).current_dir(path("")).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        let found = String::from_utf8(output.stdout).unwrap();
        for words in [
            "minNodes",
            "no pod of these",
            "fit no pool",
            "utilizationThreshold",
            "no node with them",
            "the older acts",
        ] {
            assert!(found.contains(words), "nothing of {words}:\n{found}");
        }
        check("docs/explain.md", "lint", &format!("$ headroom lint examples/lint\n{found}"));
    }

    /// The rest of what `make manifests` writes needs helm, and an end-to-end test compares it.
    #[test]
    fn definitions_and_their_copies_are_what_the_program_prints() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        let output = command.arg("crds").output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let mut n_definitions = 0;
        for entry in std::fs::read_dir(path("crds")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !name.ends_with(".yaml") {
                continue;
            }
            n_definitions += 1;
            let stored = read(&format!("crds/{name}"));
            assert!(
                printed.contains(stored.trim()),
                "crds/{name} is stale: run `make crds` and commit the result"
            );
            let copy = read(&format!("config/crd/{name}"));
            assert!(copy == stored, "config/crd/{name} is stale: run `make manifests` and commit the result");
        }
        assert_eq!(
            n_definitions,
            printed.matches("kind: CustomResourceDefinition").count(),
            "definitions in crds/"
        );
    }

    fn simulated(arguments: &[&str]) -> String {
        let output = simulate(arguments);
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
        check(
            "docs/development/a-day.md",
            "simulate:a-day",
            &simulated(&["examples/a-day", "--every", "1h"]),
        );
    }

    /// Names and versions of the crates that `cargo tree` finds under these packages, each once.
    fn crates(arguments: &[&str]) -> std::collections::BTreeSet<String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
            .args(["--target", "x86_64-unknown-linux-musl"])
            .args(arguments)
            .current_dir(path(""))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn the_first_command_of_the_readme_builds_no_cloud() {
        let built = crates(&["--package", "headroom", "--no-default-features"]);
        assert!(built.len() > 100, "{built:?}");
        let of_clouds: Vec<&String> = built.iter().filter(|name| name.contains("aws")).collect();
        assert!(of_clouds.is_empty(), "{of_clouds:?}");
        let alias = read(".cargo/config.toml");
        assert!(alias.contains("try = \"run --profile quick --no-default-features"), "{alias}");
        assert!(read("README.md").contains("\ncargo try simulate examples/rush-hour"));
    }

    #[test]
    fn the_crates_are_as_many_as_the_page_says_and_within_the_bound() {
        let locked = read("Cargo.lock").matches("[[package]]").count();
        assert!(locked <= 450, "{locked} packages in Cargo.lock");
        let operator = crates(&["--package", "headroom"]);
        let mut table = String::new();
        for (what, count) in [
            ("in Cargo.lock, for tests and for other platforms too", locked),
            ("in the operator", operator.len()),
            ("of these under kube", crates(&["--package", "kube"]).intersection(&operator).count()),
            (
                "of these under aws-config and aws-sdk-autoscaling",
                crates(&["--package", "aws-config", "--package", "aws-sdk-autoscaling"])
                    .intersection(&operator)
                    .count(),
            ),
        ] {
            table.push_str(&format!("{what:<55}{count:>5}\n"));
        }
        check("docs/supply-chain.md", "supply:crates", &table);
    }

    #[test]
    fn the_what_if_of_the_scenarios_is_what_simulate_prints() {
        let commands: [&[&str]; 2] = [
            &[
                "examples/what-if/cluster.json.gz",
                "--load",
                "4",
                "--with",
                "examples/what-if/larger.yaml",
                "--compare",
            ],
            &["examples/what-if/cluster.json.gz", "--zone-down", "b", "--for", "30m"],
        ];
        let shown = commands.map(|arguments| {
            let printed = simulated(arguments);
            assert!(printed.lines().all(|line| line.chars().count() <= 100), "{printed}");
            format!("$ headroom simulate {}\n{printed}", arguments.join(" "))
        });
        check("docs/scenarios.md", "simulate:what-if", &shown.join("\n"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_field_and_the_fix() {
        let refused = |arguments: &[&str]| {
            let output = simulate(arguments);
            assert!(!output.status.success(), "{arguments:?}");
            String::from_utf8(output.stderr).unwrap()
        };
        let zone = refused(&["examples/rush-hour", "--zone-down", "z"]);
        assert!(zone.contains("--zone-down z") && zone.contains("use one of: a, b"), "{zone}");
        let pool = refused(&["examples/rush-hour", "--price", "smal=1"]);
        assert!(pool.contains("--price smal=1") && pool.contains("general, large"), "{pool}");
        let load = refused(&["examples/rush-hour", "--load", "much"]);
        assert!(load.contains("--load") && load.contains("such as 10 or 1.5"), "{load}");
        let nothing = refused(&["examples/rush-hour", "--compare"]);
        assert!(nothing.contains("--with") && nothing.contains("--zone-down"), "{nothing}");
        let cloud = refused(&["examples/rush-hour", "--with", "examples/aws/pool.yaml"]);
        assert!(cloud.contains("spec.provider.type") && cloud.contains("kwok.zones"), "{cloud}");
        let missing = refused(&["no-such-thing"]);
        assert!(missing.contains("headroom snapshot -o"), "{missing}");
        let pools = refused(&["examples/rush-hour/workloads.yaml"]);
        assert!(pools.contains("no NodePool"), "{pools}");
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
        let shown = section(&readme, "quickstart:get").unwrap();
        assert!(shown.contains("$ kubectl") && Some(shown) == section(&guide, "quickstart:get"));
    }
}
