//! Nodes of the instances that a pool's provider lists, kept up to date with both. It does not decide whose a node is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::world::NodeId;
use crate::world::provider::ProviderState;
use headroom_values::time::UnixTime;

/// Instances that one pool's provider lists, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Ids of the groups, in order.
    groups: Vec<Arc<str>>,
    /// Nodes that carry the provider id of an instance.
    by_id: BTreeMap<NodeId, Listed>,
    /// Nodes whose name the provider gives an instance, of those that carry no instance's provider id: the id goes before the
    /// name.
    by_name: BTreeMap<NodeId, Listed>,
    /// Ids of instances that no node carries.
    unseen: BTreeSet<Arc<str>>,
    /// Those of them whose node was there and has left, with the time since which the provider has listed them without
    /// it.
    left: BTreeMap<Arc<str>, Option<UnixTime>>,
    /// The first instance of each name that the provider gives.
    names: FxHashMap<Arc<str>, Listed>,
}

/// An instance: the index of its group, and its id.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    group: usize,
    instance: Arc<str>,
}

/// Nodes by their provider ids; empty ids are left out.
pub(super) type ProviderIds = BTreeSet<(Arc<str>, NodeId)>;

impl Listing {
    /// The listing of `state`. `ids` and `named` find the delivered nodes that carry an id and a name.
    pub(super) fn new(
        state: &ProviderState,
        ids: &ProviderIds,
        named: impl Fn(&str) -> Option<NodeId>,
    ) -> Self {
        let mut listing = Self { groups: state.groups.keys().cloned().collect(), ..Self::default() };
        for (group, state) in state.groups.values().enumerate() {
            for (instance, in_state) in &state.instances {
                let listed = Listed { group, instance: instance.clone() };
                let mut carried = false;
                for node in carriers(ids, instance) {
                    listing.by_id.entry(node).or_insert_with(|| listed.clone());
                    carried = true;
                }
                if !carried {
                    listing.unseen.insert(instance.clone());
                }
                if let Some(name) = &in_state.node {
                    if let Some(node) = named(name) {
                        listing.by_name.entry(node).or_insert_with(|| listed.clone());
                    }
                    listing.names.entry(name.clone()).or_insert(listed);
                }
            }
        }
        let Self { by_id, by_name, .. } = &mut listing;
        by_name.retain(|node, _| !by_id.contains_key(node));
        listing
    }

    /// A node with this name and provider id has been delivered.
    pub(super) fn node_came(&mut self, node: NodeId, name: &str, id: &str, state: &ProviderState) {
        let carried = state.groups.values().enumerate().find_map(|(group, state)| {
            let (instance, _) = state.instances.get_key_value(id)?;
            Some(Listed { group, instance: instance.clone() })
        });
        if let Some(listed) = carried.filter(|_| !id.is_empty()) {
            self.unseen.remove(&listed.instance);
            self.left.remove(&listed.instance);
            self.by_id.insert(node, listed);
        }
        if let Some(listed) = self.names.get(name).filter(|_| !self.by_id.contains_key(&node)) {
            self.by_name.insert(node, listed.clone());
        }
    }

    /// A node is gone; `ids` no longer names it.
    pub(super) fn node_went(&mut self, node: NodeId, ids: &ProviderIds) {
        self.by_name.remove(&node);
        if let Some(listed) = self.by_id.remove(&node)
            && carriers(ids, &listed.instance).next().is_none()
        {
            self.left.insert(listed.instance.clone(), None);
            self.unseen.insert(listed.instance);
        }
    }

    /// Takes over which nodes had left; those of instances that are no longer listed, or have a node, are dropped.
    pub(super) fn remember(&mut self, before: Self) {
        self.left = before.left;
        self.left.retain(|instance, _| self.unseen.contains(instance));
    }

    /// The provider was read at this instant.
    pub(super) fn read(&mut self, at: UnixTime) {
        for since in self.left.values_mut() {
            since.get_or_insert(at);
        }
    }

    /// Nodes that carry the provider id of an instance, with its group and id.
    pub fn by_id(&self) -> impl Iterator<Item = (NodeId, &Arc<str>, &Arc<str>)> {
        self.listed_nodes(&self.by_id)
    }

    /// Nodes that carry no instance's provider id and whose name the provider gives one, with its group and id.
    pub fn by_name(&self) -> impl Iterator<Item = (NodeId, &Arc<str>, &Arc<str>)> {
        self.listed_nodes(&self.by_name)
    }

    /// True if an instance has the node's provider id or name.
    #[must_use]
    pub fn lists(&self, node: NodeId) -> bool {
        self.by_id.contains_key(&node) || self.by_name.contains_key(&node)
    }

    /// Ids of instances that no node carries.
    #[must_use]
    pub fn unseen(&self) -> &BTreeSet<Arc<str>> {
        &self.unseen
    }

    /// For an instance whose node was there and has left: the time since which the provider has listed it without one,
    /// or `None` where it has not been read since.
    #[must_use]
    pub fn left(&self, instance: &str) -> Option<Option<UnixTime>> {
        self.left.get(instance).copied()
    }

    fn listed_nodes<'l>(
        &'l self,
        nodes: &'l BTreeMap<NodeId, Listed>,
    ) -> impl Iterator<Item = (NodeId, &'l Arc<str>, &'l Arc<str>)> {
        nodes.iter().map(|(node, listed)| (*node, &self.groups[listed.group], &listed.instance))
    }
}

/// The nodes that carry a provider id.
pub(super) fn carriers<'i>(ids: &'i ProviderIds, id: &Arc<str>) -> impl Iterator<Item = NodeId> + 'i {
    let from = (id.clone(), NodeId(0));
    let to = if id.is_empty() { from.clone() } else { (id.clone(), NodeId(u32::MAX)) };
    ids.range(from..to).map(|(_, node)| *node)
}
