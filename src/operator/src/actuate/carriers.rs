//! Nodes by the provider ids that they carry, as the API server has them at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Age up to which any deletion relies on a look at all nodes.
const AGE_MAX: Duration = Duration::from_secs(2);
/// Where it may be older than that, so much for each node, and no more than the longest.
const AGE_PER_NODE: Duration = Duration::from_millis(2);
const AGE_LONGEST: Duration = Duration::from_secs(30);

/// Names of nodes by the provider id that they carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carriers {
    by_id: BTreeMap<String, BTreeSet<String>>,
    nodes_count: u32,
}

impl Carriers {
    /// Adds a node; an empty provider id is not an id.
    pub fn add(&mut self, node: &str, provider_id: &str) {
        self.nodes_count = self.nodes_count.saturating_add(1);
        if provider_id.is_empty() {
            return;
        }
        for id in [provider_id, machine_id(provider_id)] {
            self.by_id.entry(id.to_owned()).or_default().insert(node.to_owned());
        }
    }

    /// Age up to which a deletion relies on this look. Looks are shared by the deletions of a turn, and in a large cluster, where a
    /// look reads some 15 kB a node, by those of several turns; but not where the victim has never been seen as a node: it may
    /// become one at any time.
    #[must_use]
    pub fn age_max(&self, unseen: bool) -> Duration {
        let scaled = AGE_PER_NODE.saturating_mul(self.nodes_count);
        if unseen { AGE_MAX } else { scaled.clamp(AGE_MAX, AGE_LONGEST) }
    }

    /// The first node, by name, that carries the id of this instance and is not the node of this name.
    #[must_use]
    pub fn other(&self, instance: &str, node: &str) -> Option<&str> {
        self.by_id.get(instance)?.iter().map(String::as_str).find(|name| *name != node)
    }
}

/// True if a node with this provider id is this instance: by the whole id, or by the machine's own id at its end.
#[must_use]
pub fn is_instance(provider_id: &str, instance: &str) -> bool {
    provider_id == instance || machine_id(provider_id) == instance
}

/// The machine's own id, at the end of a provider id.
fn machine_id(provider_id: &str) -> &str {
    provider_id.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_known_by_its_own_id_whatever_stands_before_it() {
        let mut carriers = Carriers::default();
        carriers.add("a", "aws:///eu-west-1a/i-1");
        carriers.add("b", "aws:///eu-west-1b/i-1");
        carriers.add("c", "");
        assert_eq!(carriers.other("i-1", "a"), Some("b"));
        assert_eq!(carriers.other("aws:///eu-west-1a/i-1", "a"), None);
        assert_eq!((carriers.other("i-2", ""), carriers.other("", "")), (None, None));
        assert!(is_instance("aws:///eu-west-1a/i-1", "i-1") && !is_instance("aws:///eu-west-1a/i-1", "i-2"));
    }
}
