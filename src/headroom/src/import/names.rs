//! Names of objects made from names of other things.

use std::collections::BTreeSet;

/// Longest name of a NodePool.
const POOL_MAX: usize = 40;

/// A name for a NodePool: lower case letters, digits and `-`, at most 40, and none of those `taken`.
pub(super) fn pool(wish: &str, taken: &mut BTreeSet<String>) -> String {
    unique(wish, POOL_MAX, "pool", taken)
}

/// A name of at most `max` characters that Kubernetes takes as a label, and none of those `taken`.
pub(super) fn unique(wish: &str, max: usize, fallback: &str, taken: &mut BTreeSet<String>) -> String {
    let lower = wish.to_ascii_lowercase();
    let dashed: String = lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let mut base: String = dashed.trim_matches('-').chars().take(max).collect();
    while base.ends_with('-') {
        base.pop();
    }
    if base.is_empty() {
        fallback.clone_into(&mut base);
    }
    let mut name = base.clone();
    let mut number = 2;
    while !taken.insert(name.clone()) {
        let suffix = format!("-{number}");
        let kept: String = base.chars().take(max - suffix.len()).collect();
        name = format!("{}{suffix}", kept.trim_end_matches('-'));
        number += 1;
    }
    name
}

/// Returns the common beginning of names, without a part of a word; the first name where that is nothing.
#[must_use]
pub(super) fn common(names: &[&str]) -> String {
    let Some((first, others)) = names.split_first() else { return String::new() };
    if others.is_empty() {
        return (*first).to_owned();
    }
    let same = |name: &&str| first.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    let length = others.iter().map(same).min().unwrap_or(0);
    let prefix = first.get(..length).unwrap_or_default();
    let whole = prefix.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    if whole.len() < 2 { (*first).to_owned() } else { whole.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_common_beginnings_made_fit() {
        assert_eq!(common(&["web-a", "web-b"]), "web");
        assert_eq!(common(&["x", "y"]), "x");
        let mut taken = BTreeSet::new();
        assert_eq!(pool("Nodes.prod_A/", &mut taken), "nodes-prod-a");
        assert_eq!(pool("nodes.prod.a", &mut taken), "nodes-prod-a-2");
        assert_eq!(pool(&"x".repeat(60), &mut taken).len(), 40);
        assert_eq!(pool(&"x".repeat(60), &mut taken).len(), 40);
        assert_eq!(pool("--", &mut taken), "pool");
    }
}
