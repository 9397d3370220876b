//! The expander chain in the words of the vectors.

use std::collections::BTreeMap;

use headroom_core::config::Expander;

/// The map of the priority expander.
pub(crate) type Priorities = BTreeMap<String, Option<Vec<String>>>;

/// The expander of a word; random for any other.
pub(crate) fn expander_named(word: &str) -> Expander {
    match word {
        "least-waste" => Expander::LeastWaste,
        "least-nodes" => Expander::LeastNodes,
        "most-pods" => Expander::MostPods,
        "priority" => Expander::Priority,
        "price" => Expander::Price,
        _ => Expander::Random,
    }
}

/// The highest number whose patterns match, by group; negative numbers and an invalid map count for nothing.
pub(crate) fn priorities<'a>(
    written: Option<&Priorities>,
    ids: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, i32> {
    let mut patterns: Vec<(i32, regex::Regex)> = Vec::new();
    for (number, all) in written.into_iter().flatten() {
        let Ok(number) = number.parse::<i32>() else { return BTreeMap::new() };
        for pattern in all.iter().flatten() {
            match regex::Regex::new(pattern) {
                Ok(pattern) => patterns.push((number, pattern)),
                Err(_) => return BTreeMap::new(),
            }
        }
    }
    let highest = |id: &str| {
        let matching = patterns.iter().filter(|(number, pattern)| 0 <= *number && pattern.is_match(id));
        matching.map(|(number, _)| *number).max()
    };
    ids.filter_map(|id| Some((id.to_owned(), highest(id)?))).collect()
}
