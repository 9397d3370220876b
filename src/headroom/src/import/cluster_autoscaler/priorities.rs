//! The ConfigMap of the priority expander: numbers, each with regexes over names of groups.

use std::collections::BTreeMap;

use anyhow::Context;
use regex::Regex;

use crate::import::input::Source;

/// Name of the ConfigMap.
pub(super) const CONFIG_MAP: &str = "cluster-autoscaler-priority-expander";
/// Its key.
const KEY: &str = "priorities";
/// The largest rank of a pool.
const PRIORITY_MAX: i64 = 1_000_000;

/// Keys of the ConfigMap that mean nothing to Cluster Autoscaler.
#[must_use]
pub(super) fn strangers(source: &Source) -> Vec<String> {
    let parts = [("data", &source.object["data"]), ("binaryData", &source.object["binaryData"])];
    let keys = parts.into_iter().flat_map(|(part, keys)| {
        let keys = keys.as_object().into_iter().flatten();
        keys.filter(move |(key, _)| part != "data" || key.as_str() != KEY)
            .map(move |(key, _)| format!("{part}.{key}"))
    });
    keys.map(|key| {
        format!(
            "{}: {key}: UNKNOWN key: its ranks are under data.{KEY}. Nothing was made of it.",
            source.title()
        )
    })
    .collect()
}

/// Ranks, each with its regexes, as written.
#[derive(Clone, Debug, Default)]
pub(super) struct Priorities(BTreeMap<i64, Vec<(String, Option<Regex>)>>);

impl Priorities {
    /// Reads the ConfigMap.
    ///
    /// # Errors
    /// If it holds no priorities. An invalid regex matches nothing, as there.
    pub(super) fn read(source: &Source) -> anyhow::Result<Self> {
        let text = source.object["data"][KEY].as_str();
        let text = text.with_context(|| format!("{} has no key {KEY}", source.title()))?;
        let ranks: BTreeMap<i64, Vec<String>> = serde_saphyr::from_str(text).with_context(|| {
            format!("{}: {KEY} is not a map of numbers to lists of regexes", source.title())
        })?;
        let compiled = ranks.into_iter().map(|(rank, rules)| {
            let rules = rules.into_iter().map(|rule| {
                let regex = Regex::new(&rule).ok();
                (rule, regex)
            });
            (rank, rules.collect())
        });
        Ok(Self(compiled.collect()))
    }

    /// The highest rank whose regexes match the name, and that regex; none for ranks under 0, which never match.
    ///
    /// Source: Cluster Autoscaler, expander/priority/priority.go, BestOptions.
    #[must_use]
    pub(super) fn of(&self, group: &str) -> Option<(i64, &str)> {
        self.0.iter().rev().filter(|(rank, _)| 0 <= **rank).find_map(|(rank, rules)| {
            let hit = |(_, regex): &&(String, Option<Regex>)| {
                regex.as_ref().is_some_and(|regex| regex.is_match(group))
            };
            rules.iter().find(hit).map(|(rule, _)| ((*rank).min(PRIORITY_MAX), rule.as_str()))
        })
    }

    /// Rules that match none of these names or cannot be used, in words.
    #[must_use]
    pub(super) fn unused(&self, groups: &[&str]) -> Vec<String> {
        let mut words = Vec::new();
        for (rank, rules) in &self.0 {
            for (rule, regex) in rules {
                let used =
                    regex.as_ref().is_some_and(|regex| groups.iter().any(|group| regex.is_match(group)));
                let why = match regex {
                    None => "it is not a regex that this program understands",
                    Some(_) if *rank < 0 => "ranks under 0 never match",
                    Some(_) if !used => "it matches none of the groups that are known",
                    Some(_) => continue,
                };
                words.push(format!("ConfigMap {CONFIG_MAP}, {rank}: {rule}: no effect here: {why}."));
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_rank_that_matches_counts_and_regexes_are_not_anchored() {
        let text = "10:\n  - .*\n50:\n  - spot\n  - '('\n-5:\n  - web\n";
        let object =
            serde_json::json!({"kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}, "data": {KEY: text}});
        let priorities = Priorities::read(&Source { from: "f".to_owned(), object }).unwrap();
        assert_eq!(priorities.of("web-spot-a"), Some((50, "spot")));
        assert_eq!(priorities.of("web"), Some((10, ".*")));
        assert_eq!(priorities.unused(&["web-spot-a"]).len(), 2);
    }
}
