//! COMPARE: holds the mutants that no test sees against those that `docs/development/mutants.md` lists with a reason. It judges no reason.

use std::collections::{BTreeMap, BTreeSet};

use crate::list::Mutant;
use crate::trial::Verdicts;

/// The key that distinguishes mutants on the page: several places of a function may have equal ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Without `src` folders: `scaleup/balance.rs`.
    pub file: String,
    pub function: String,
    /// As [`Mutant::text`].
    pub text: String,
}

impl Key {
    /// How the page calls `mutant`.
    pub fn of(mutant: &Mutant) -> Self {
        let file = mutant.file.replacen("src/", "", 2);
        Self { file, function: mutant.function.clone(), text: mutant.text.clone() }
    }
}

/// The mutants of a page, and how many places of each it lists.
pub type Listed = BTreeMap<Key, usize>;

/// Reads `docs/development/mutants.md`: below a heading with the file's name, rows of function, mutants, kind and reason. Bars within a
/// mutant are written `\|`.
///
/// # Errors
/// A row is not of this form.
pub fn read(page: &str) -> Result<Listed, String> {
    let mut listed = Listed::new();
    let mut file = None;
    for (line, number) in page.lines().zip(1..) {
        if line.starts_with('#') {
            file = line.strip_prefix("### `").and_then(|rest| rest.strip_suffix('`'));
        }
        let Some(file) = file else { continue };
        let head = line == "| in | mutant | kind | why |" || line.starts_with("| --- ");
        if !line.starts_with('|') || head {
            continue;
        }
        let (function, mutants) = row(line).ok_or_else(|| format!("failed to read line {number}: {line}"))?;
        for (text, places) in mutants {
            let key = Key { file: file.to_owned(), function: function.clone(), text };
            *listed.entry(key).or_default() += places;
        }
    }
    Ok(listed)
}

/// The function of a row, and its mutants, each with its number of places.
fn row(line: &str) -> Option<(String, Vec<(String, usize)>)> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [function, mutants, kind, reason] = cells[..] else { return None };
    if kind.is_empty() || reason.is_empty() {
        return None;
    }
    let function = function.strip_prefix('`')?.strip_suffix('`')?;
    // Texts stand between backquotes, so what is outside of them comes first and last.
    let parts: Vec<&str> = mutants.split('`').collect();
    if parts.len() < 3 || parts.len().is_multiple_of(2) || !parts[0].is_empty() {
        return None;
    }
    let places = |after: &str| match after.trim_end_matches(", ") {
        "" => Some(1),
        count => count.strip_prefix(" (")?.strip_suffix(" places)")?.parse().ok(),
    };
    let mutant = |pair: &[&str]| Some((pair[0].replace("\\|", "|"), places(pair[1])?));
    let mutants = parts[1..].chunks_exact(2).map(mutant).collect::<Option<Vec<_>>>()?;
    Some((function.to_owned(), mutants))
}

/// Where a run and the page differ.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// More mutants that no test sees than the page lists: their numbers, and how many of them are listed.
    pub unlisted: BTreeMap<Key, (Vec<usize>, usize)>,
    /// Listed, and tests see so many places.
    pub seen: BTreeMap<Key, usize>,
    /// Listed, and the code has so many places less, or they cannot be tried any more.
    pub gone: BTreeMap<Key, usize>,
}

/// Compares `verdicts` on `mutants`, those that can be tried, with the page.
///
/// A mutant without a verdict is not reported. Only a mutant with a place among those of the `part` is; one that is gone
/// has none, and is reported where `part` is everything (`None`).
pub fn compare(
    listed: &Listed,
    mutants: &[&Mutant],
    verdicts: &Verdicts,
    part: Option<&BTreeSet<usize>>,
) -> Difference {
    let mut places: BTreeMap<Key, Vec<usize>> = listed.keys().map(|key| (key.clone(), Vec::new())).collect();
    for mutant in mutants {
        places.entry(Key::of(mutant)).or_default().push(mutant.id);
    }
    let mut difference = Difference::default();
    for (key, ids) in places {
        if part.is_some_and(|part| !ids.iter().any(|id| part.contains(id))) {
            continue;
        }
        let n_listed = listed.get(&key).copied().unwrap_or_default();
        let survivors: Vec<usize> = ids
            .iter()
            .copied()
            .filter(|id| verdicts.get(id).is_some_and(|verdict| verdict.survives()))
            .collect();
        let n_unknown = ids.iter().filter(|id| !verdicts.contains_key(id)).count();
        let n_gone = n_listed.saturating_sub(ids.len());
        let n_seen = n_listed.saturating_sub(n_gone).saturating_sub(survivors.len() + n_unknown);
        if n_gone > 0 {
            difference.gone.insert(key.clone(), n_gone);
        }
        if n_seen > 0 {
            difference.seen.insert(key.clone(), n_seen);
        }
        if n_listed < survivors.len() {
            difference.unlisted.insert(key, (survivors, n_listed));
        }
    }
    difference
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::Genre;
    use crate::trial::Verdict::{Missed, Seen};

    const PAGE: &str = "# Mutants\n\n| kind | means |\n| --- | --- |\n| equal | no |\n\n### `scaleup/a.rs`\n\n\
        | in | mutant | kind | why |\n| --- | --- | --- | --- |\n\
        | `Pass<'w>::grown` | `< with ==`, `&& with \\|\\|` (2 places), `delete !` | equal | Says `why`. |\n\
        | `Pass<'w>::grown` | `< with ==` | open | Another place. |\n";

    fn key(text: &str) -> Key {
        Key { file: "scaleup/a.rs".to_owned(), function: "Pass<'w>::grown".to_owned(), text: text.to_owned() }
    }

    fn mutant(id: usize, text: &str) -> Mutant {
        Mutant {
            id,
            file: "src/scaleup/src/a.rs".to_owned(),
            start: (id, 1),
            genre: Genre::BinaryOperator,
            replacement: String::new(),
            function: "Pass<'w>::grown".to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn page_is_read_with_bars_and_places() {
        let expected = Listed::from([(key("< with =="), 2), (key("&& with ||"), 2), (key("delete !"), 1)]);
        assert_eq!(read(PAGE).unwrap(), expected);
    }

    #[test]
    fn row_of_another_form_is_refused() {
        for row in [
            "| `f` | < with == | equal | Why. |",
            "| `f` | `<` (two places) | equal | Why. |",
            "| `f` | `<` | equal |",
        ] {
            assert!(read(&format!("### `scaleup/a.rs`\n{row}\n")).is_err(), "{row}");
        }
    }

    #[test]
    fn page_of_the_repository_can_be_read() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/development/mutants.md");
        let listed = read(&std::fs::read_to_string(page).unwrap()).unwrap();
        assert!(!listed.is_empty());
    }

    /// A page that lists `< with ==` twice, against two places of it, of which the tests see as said.
    fn check(verdicts: &[(usize, crate::trial::Verdict)], expected: Difference) {
        let listed = Listed::from([(key("< with =="), 2)]);
        let mutants = [mutant(1, "< with =="), mutant(2, "< with =="), mutant(3, "delete !")];
        let verdicts = verdicts.iter().copied().collect();
        assert_eq!(compare(&listed, &mutants.iter().collect::<Vec<_>>(), &verdicts, None), expected);
    }

    #[test]
    fn survivor_that_is_not_listed_is_reported() {
        let unlisted = BTreeMap::from([(key("delete !"), (vec![3], 0))]);
        check(&[(1, Missed), (2, Missed), (3, Missed)], Difference { unlisted, ..Difference::default() });
    }

    #[test]
    fn listed_one_that_is_seen_now_is_reported() {
        let seen = BTreeMap::from([(key("< with =="), 1)]);
        check(&[(1, Missed), (2, Seen), (3, Seen)], Difference { seen, ..Difference::default() });
    }

    #[test]
    fn nothing_is_said_of_what_was_not_tried() {
        check(&[(1, Missed), (3, Seen)], Difference::default());
    }

    #[test]
    fn listed_one_that_is_gone_is_reported_with_all_and_not_with_a_part() {
        let listed = Listed::from([(key("delete -"), 1)]);
        let gone = BTreeMap::from([(key("delete -"), 1)]);
        let there = mutant(1, "delete !");
        let compare = |part| compare(&listed, &[&there], &Verdicts::new(), part);
        assert_eq!(compare(None), Difference { gone, ..Difference::default() });
        assert_eq!(compare(Some(&BTreeSet::from([1]))), Difference::default());
    }
}
