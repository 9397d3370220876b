//! The pages leave nothing out and name nothing that is not there: conditions, reasons, alerts, tests, links. It runs nothing.

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::{Path, PathBuf};

    use headroom_api::conditions::{reasons, types};
    use headroom_core::reason::{Actor, Reason};
    use headroom_core::world::provider::NoticeKind;

    fn root() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    fn read(file: &str) -> String {
        fs::read_to_string(root().join(file)).unwrap()
    }

    /// README.md and its neighbours, and all of docs/, as paths from the root.
    fn pages() -> Vec<String> {
        let mut pages = Vec::new();
        for folder in ["", "docs/", "docs/decisions/", "docs/development/"] {
            for entry in fs::read_dir(root().join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if name.ends_with(".md") {
                    pages.push(format!("{folder}{name}"));
                }
            }
        }
        assert!(pages.len() > 20, "{pages:?}");
        pages
    }

    /// Every Rust file of the repository's own.
    fn sources() -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![root().join("src"), root().join("e2e")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    files.push(path);
                }
            }
        }
        files
    }

    #[test]
    fn every_file_says_what_it_is_for() {
        let files = sources();
        assert!(400 < files.len());
        let silent: Vec<PathBuf> =
            files.into_iter().filter(|file| !fs::read_to_string(file).unwrap().starts_with("//! ")).collect();
        assert!(silent.is_empty(), "files without a first line `//! …`: {silent:#?}");
    }

    /// The lines of a page that are not an example: text between fences is left out.
    fn prose(page: &str) -> Vec<&str> {
        let mut fenced = false;
        let outside = |line: &&str| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            !fenced && !fence
        };
        page.lines().filter(outside).collect()
    }

    /// The names by which headings can be linked to, as GitHub makes them.
    fn anchors(page: &str) -> BTreeSet<String> {
        let headings = prose(page).into_iter().filter(|line| line.starts_with('#'));
        let of = |heading: &str| {
            let text = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = text.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
            kept.map(|it| if it == ' ' { '-' } else { it }).collect()
        };
        headings.map(of).collect()
    }

    #[test]
    fn links_between_pages_and_to_files_lead_somewhere() {
        let mut broken = Vec::new();
        for page in pages() {
            let text = read(&page);
            let folder = root().join(Path::new(&page).parent().unwrap());
            for target in prose(&text).iter().flat_map(|line| line.split("](").skip(1)) {
                let target = target.split(')').next().unwrap();
                if target.starts_with("http") {
                    continue;
                }
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let file = if file.is_empty() { root().join(&page) } else { folder.join(file) };
                let there = file.exists()
                    && (anchor.is_empty() || anchors(&fs::read_to_string(&file).unwrap()).contains(anchor));
                if !there {
                    broken.push(format!("{page}: {target}"));
                }
            }
        }
        assert!(broken.is_empty(), "{broken:#?}");
    }

    #[test]
    fn the_runbook_has_every_condition_its_reasons_and_every_alert() {
        let page = read("docs/runbook.md");
        let chart = read("charts/headroom/files/alerts.yaml");
        let alerts: Vec<&str> =
            chart.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        assert!(alerts.len() >= 8, "{alerts:?}");
        let (advice, by_alert) = page.split_once("## By alert").unwrap();
        let code: Vec<&str> = advice.split('`').skip(1).step_by(2).collect();
        let named = |word: &str| code.iter().any(|code| code.split('=').next() == Some(word));
        let notices = NoticeKind::ALL
            .iter()
            .filter(|kind| **kind != NoticeKind::BoundsClamped)
            .map(|kind| kind.as_str());
        let mut silent: Vec<&str> = types::ALL
            .iter()
            .chain(reasons::ALL)
            .copied()
            .chain(notices)
            .filter(|word| !named(word))
            .collect();
        silent.extend(alerts.iter().filter(|alert| !by_alert.contains(*alert)));
        assert!(silent.is_empty(), "docs/runbook.md says nothing of {silent:?}");
    }

    #[test]
    fn the_page_of_reasons_has_each_with_its_meaning() {
        let section = |actor: &Actor| {
            let (heading, advice) = actor.words();
            let of_actor = Reason::ALL.iter().filter(|reason| reason.actor() == *actor);
            let rows: Vec<String> =
                of_actor.map(|reason| format!("| `{}` | {} |\n", reason.as_str(), reason.doc())).collect();
            format!("## {heading}\n\n{advice}\n\n| Reason | Meaning |\n| --- | --- |\n{}", rows.concat())
        };
        let sections: Vec<String> = Actor::ALL.iter().map(section).collect();
        let page = read("docs/reasons.md");
        let (before, rest) = page.split_once("<!-- reasons:start -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- reasons:end -->").unwrap();
        let table = sections.join("\n");
        let fresh = format!("{before}<!-- reasons:start -->\n{table}<!-- reasons:end -->{after}");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(root().join("docs/reasons.md"), &fresh).unwrap();
        }
        assert!(
            read("docs/reasons.md") == fresh,
            "docs/reasons.md is stale: run `make pages` and commit the result"
        );
    }

    /// After "end-to-end test" and its plural come file names in backquotes, until the sentence goes on with other
    /// words.
    fn tests_named(page: &str) -> BTreeSet<String> {
        let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut named = BTreeSet::new();
        for word in ["nd-to-end test `", "nd-to-end tests `"] {
            for rest in text.split(word).skip(1) {
                let mut parts = rest.split('`');
                while let Some(name) = parts.next() {
                    named.insert(name.to_owned());
                    if !matches!(parts.next(), Some(", " | " and " | ", and ")) {
                        break;
                    }
                }
            }
        }
        named
    }

    #[test]
    fn stories_that_pages_name_exist() {
        let there = |name: &String| root().join(format!("e2e/tests/end_to_end/{name}.rs")).exists();
        let mut missing = Vec::new();
        let mut n_named = 0;
        for page in pages() {
            let named = tests_named(&read(&page));
            n_named += named.len();
            missing
                .extend(named.into_iter().filter(|name| !there(name)).map(|name| format!("{page}: {name}")));
        }
        assert!(missing.is_empty() && n_named > 25, "{n_named} named, and not there: {missing:?}");
    }

    /// A name that no test has would leave a long test in `make test`, or run one on a version that it is not for.
    #[test]
    fn tests_that_lists_name_exist() {
        let source = |module: &str| {
            let path = root().join("e2e/tests/end_to_end").join(module.replace("::", "/"));
            let forms = [path.with_extension("rs"), path.join("mod.rs")];
            forms.iter().find_map(|form| fs::read_to_string(form).ok())
        };
        for list in ["e2e/long-tests", "e2e/since"] {
            let text = read(list);
            let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            for name in lines.filter_map(|line| line.split(' ').next()) {
                let (module, test) = name.rsplit_once("::").unwrap_or((name, ""));
                let is_there = match test {
                    "" => source(module).is_some(),
                    test => source(module).is_some_and(|text| text.contains(&format!("fn {test}"))),
                };
                assert!(is_there, "{list} names {name}, and no test is called so");
            }
        }
    }

    /// Names of tests in backquotes, wherever a page has them: small letters and at least three words. Metrics look the same.
    #[test]
    fn tests_that_pages_name_exist() {
        let code: Vec<String> = sources().iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        let is_name = |text: &str| {
            let allowed = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
            let metric = ["headroom_", "cluster_autoscaler_"].iter().any(|prefix| text.starts_with(prefix));
            text.matches('_').count() >= 2 && text.chars().all(allowed) && !metric
        };
        let is_there = |name: &str| {
            let forms = [format!("fn {name}("), format!("{name}:")];
            root().join(format!("e2e/tests/end_to_end/{name}.rs")).exists()
                || code.iter().any(|text| forms.iter().any(|form| text.contains(form)))
        };
        let mut named = 0;
        for page in pages().into_iter().filter(|page| page != "docs/metrics.md") {
            let text = read(&page);
            let names: BTreeSet<&str> = prose(&text)
                .into_iter()
                .flat_map(|line| line.split('`').skip(1).step_by(2))
                .filter(|name| is_name(name))
                .collect();
            named += names.len();
            let missing: Vec<&str> = names.into_iter().filter(|name| !is_there(name)).collect();
            assert!(missing.is_empty(), "{page} names {missing:?}, and no test or field has this name");
        }
        assert!(named > 100, "{named} names");
    }

    #[test]
    fn every_answer_of_the_faq_names_what_shows_it() {
        let page = read("docs/faq.md");
        let mut answers: Vec<String> = Vec::new();
        for line in page.lines() {
            let numbered = line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
            match answers.last_mut() {
                _ if numbered => answers.push(line.to_owned()),
                Some(answer) => *answer += &format!(" {}", line.trim()),
                None => {}
            }
        }
        assert!(answers.len() >= 25, "{} answers", answers.len());
        let shown =
            |answer: &&String| ["est `", "ests `", "ests of `"].iter().any(|word| answer.contains(word));
        let bare: Vec<&String> = answers.iter().filter(|answer| !shown(answer)).collect();
        assert!(bare.is_empty(), "no test shows {bare:#?}");
    }

    #[test]
    fn every_threat_names_tests_that_are_there() {
        let page = read("docs/threat-model.md");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
        assert!(rows.len() >= 10, "{rows:#?}");
        let packages = fs::read_dir(root().join("src")).unwrap();
        let packages: Vec<String> =
            packages.map(|package| package.unwrap().file_name().into_string().unwrap()).collect();
        let code: Vec<String> = sources().iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        for row in rows {
            let shown = row.trim_end_matches('|').rsplit('|').next().unwrap();
            let names: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
            assert!(!names.is_empty(), "no test shows {row}");
            for name in names {
                let mut places = vec![
                    format!("e2e/tests/end_to_end/{name}.rs"),
                    format!("src/{name}.rs"),
                    format!("{name}.rs"),
                ];
                places.push(name.to_owned());
                for package in &packages {
                    places.extend([
                        format!("src/{package}/src/{name}.rs"),
                        format!("src/{package}/src/{name}"),
                    ]);
                }
                let is_test = code.iter().any(|text| text.contains(&format!("fn {name}(")));
                if let Some(bench) = name.strip_prefix("make bench-") {
                    places.push(format!("src/core/examples/bench_{bench}.rs"));
                }
                let there =
                    name == "make deny" || is_test || places.iter().any(|place| root().join(place).exists());
                assert!(there, "{name} is not there: {row}");
            }
        }
    }

    /// A row of docs/development/mutants.md may name several mutants, and one of them several places: `` `< with <=` (2 places) ``.
    #[test]
    fn numbers_of_mutants_are_those_of_the_rows() {
        let page = read("docs/development/mutants.md");
        let (head, sections) = page.split_once("\n### ").unwrap();
        let mut by_kind: BTreeMap<&str, usize> = BTreeMap::new();
        for row in sections.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.split(" | ").collect();
            let after_each = cells[1].split('`').skip(2).step_by(2);
            let places = |after: &str| match after.strip_prefix(" (") {
                Some(count) => count.split(' ').next().unwrap().parse().unwrap(),
                None => 1,
            };
            *by_kind.entry(cells[2]).or_default() += after_each.map(places).sum::<usize>();
        }
        let stated = head.lines().filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            Some((*cells.first()?, cells.get(2)?.parse::<usize>().ok()?))
        });
        assert_eq!(stated.collect::<BTreeMap<_, _>>(), by_kind);
        let total: usize = by_kind.values().sum();
        assert!(total > 0);
        assert!(
            head.contains(&format!("the other {total} are below")),
            "docs/development/mutants.md has another number"
        );
        let invariants = read("docs/development/invariants.md");
        assert!(
            invariants.contains(&format!("| no test sees them now | {total} |")),
            "docs/development/invariants.md"
        );
        assert!(
            read("README.md").contains(&format!("no test sees {total};")),
            "README.md has another number"
        );
    }
}
