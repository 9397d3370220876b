//! Rules that look at pods on other nodes: for now they refuse what they cannot simulate.

use std::sync::Arc;

use crate::scheduling::refusal::Refusal;
use crate::scheduling::snapshot::{ClassIx, NodeIx, Snapshot};

impl Snapshot<'_> {
    /// Whether pods elsewhere have a say in where a pod of `class` goes.
    #[must_use]
    pub fn has_topology_rules(&self, class: ClassIx) -> bool {
        let class = self.class(class);
        !class.pod_affinity.is_empty()
            || !class.pod_anti_affinity.is_empty()
            || !class.topology_spread.is_empty()
    }

    pub(super) fn check_topology(&mut self, class: ClassIx, _node: NodeIx) -> Result<(), Refusal> {
        if self.has_topology_rules(class) {
            Err(Refusal::Unsupported { what: Arc::from("pod affinity and topology spread") })
        } else {
            Ok(())
        }
    }
}
