//! Nodes that carry the provider id of another node: which of them is the machine cannot be known.

use std::sync::Arc;

use super::listing::carriers;
use super::{NodeId, World};

impl World {
    /// Nodes that share their provider id with another node, in no particular order: almost always none.
    pub fn twins(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.twins.iter().copied()
    }

    /// The first other node, by name, that carries the provider id of this one.
    #[must_use]
    pub fn twin_of(&self, id: NodeId) -> Option<&Arc<str>> {
        if !self.twins.contains(&id) {
            return None;
        }
        let node = self.node(id).node.as_ref()?;
        self.carried_by_other(&node.provider_id, &node.name)
    }

    /// The first node, by name, that carries this provider id and is not the node of this name.
    #[must_use]
    pub fn carried_by_other(&self, provider_id: &Arc<str>, name: &str) -> Option<&Arc<str>> {
        let names = carriers(&self.provider_ids, provider_id).map(|id| &self.node(id).name);
        names.filter(|other| &***other != name).min()
    }

    /// True if an older node carries the provider id of this one: one machine counts once.
    #[must_use]
    pub fn is_later_twin(&self, id: NodeId) -> bool {
        if !self.twins.contains(&id) {
            return false;
        }
        let Some(node) = &self.node(id).node else { return false };
        let others =
            carriers(&self.provider_ids, &node.provider_id).filter_map(|id| self.node(id).node.as_ref());
        let mut earlier =
            others.filter(|other| (other.created_at, &other.name) < (node.created_at, &node.name));
        earlier.next().is_some()
    }

    /// Notes whether the nodes that carry this provider id are several.
    pub(super) fn note_carriers(&mut self, provider_id: &Arc<str>) {
        let mut nodes = carriers(&self.provider_ids, provider_id);
        match (nodes.next(), nodes.next()) {
            (Some(only), None) => {
                self.twins.remove(&only);
            }
            (Some(_), Some(_)) => self.twins.extend(carriers(&self.provider_ids, provider_id)),
            (None, _) => {}
        }
    }
}
