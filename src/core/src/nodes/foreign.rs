//! Whose a node is, and whether it carries our mark: what belongs to others is told apart here, and left alone.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::config::Config;
use crate::known::Known;
use crate::world::node::{DELETION_TAINT, INTENT_ANNOTATION, Node, POOL_LABEL};
use crate::world::{NodeId, World};

/// Labels and annotations that Karpenter puts on its nodes begin so.
const KARPENTER_PREFIX: &str = "karpenter.sh/";

/// Whose a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Of a pool, and the provider lists its instance.
    Member(Membership),
    /// Labelled as a pool's, but the pool's provider does not list it, or has not answered.
    Unlisted {
        /// Index into [`Config::pools`].
        pool: usize,
    },
    /// Cluster Autoscaler or Karpenter works on it.
    Foreign,
    /// Of no pool.
    NotManaged,
}

/// The place of a node in a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Index into [`Config::pools`].
    pub pool: usize,
    /// The group.
    pub group: Arc<str>,
    /// The instance's provider id.
    pub instance: Arc<str>,
}

/// The standing of every delivered node.
#[derive(Clone, Debug)]
pub struct Members {
    by_id: Vec<Option<Standing>>,
}

impl Members {
    /// Asks each pool's provider view for each node: by provider id, or by node name where the provider knows it.
    /// An instance that two pools list belongs to the older pool (tie: by name).
    #[must_use]
    pub fn of(world: &World, config: &Config) -> Self {
        let listed = Listed::of(world, config);
        let mut by_id = vec![None; world.node_capacity()];
        for (id, node, _) in world.nodes() {
            by_id[id.0 as usize] = Some(listed.standing(node, config));
        }
        Self { by_id }
    }

    /// The standing of a node; `NotManaged` for one that has not been delivered.
    #[must_use]
    pub fn standing(&self, id: NodeId) -> &Standing {
        self.by_id.get(id.0 as usize).and_then(Option::as_ref).unwrap_or(&Standing::NotManaged)
    }

    /// The membership of a node.
    #[must_use]
    pub fn member(&self, id: NodeId) -> Option<&Membership> {
        match self.standing(id) {
            Standing::Member(membership) => Some(membership),
            Standing::Unlisted { .. } | Standing::Foreign | Standing::NotManaged => None,
        }
    }
}

/// The intent whose mark a node carries, whatever became of the taint: the annotation is ours alone.
#[must_use]
pub fn marked_by(node: &Node) -> Option<&str> {
    node.annotations.get(INTENT_ANNOTATION)
}

/// Whether a node carries the whole mark of this intent: taint and annotation.
#[must_use]
pub fn carries_mark(node: &Node, intent: &str) -> bool {
    has_deletion_taint(node) && marked_by(node) == Some(intent)
}

/// Whether another autoscaler works on the node: Karpenter's labels or annotations, or the deletion taint without
/// our annotation, which is then Cluster Autoscaler's.
#[must_use]
pub fn is_foreign(node: &Node) -> bool {
    let karpenter = |key: &str| key.starts_with(KARPENTER_PREFIX);
    node.labels.iter().any(|(key, _)| karpenter(key))
        || node.annotations.iter().any(|(key, _)| karpenter(key))
        || has_deletion_taint(node) && marked_by(node).is_none()
}

fn has_deletion_taint(node: &Node) -> bool {
    node.taints.iter().any(|taint| &*taint.key == DELETION_TAINT)
}

/// Instances by provider id and by node name. Looked up, never iterated.
struct Listed<'w> {
    by_instance: FxHashMap<&'w str, Membership>,
    by_node: FxHashMap<&'w str, Membership>,
}

impl<'w> Listed<'w> {
    fn of(world: &'w World, config: &Config) -> Self {
        let mut order: Vec<usize> = (0..config.pools.len()).collect();
        order.sort_by_key(|index| config.pools[*index].created_at);
        let mut listed = Self { by_instance: FxHashMap::default(), by_node: FxHashMap::default() };
        for pool in order {
            let Some(state) = world.provider(&config.pools[pool].name).and_then(Known::value) else {
                continue;
            };
            for (group, state) in &state.groups {
                for (id, instance) in &state.instances {
                    let membership = Membership { pool, group: group.clone(), instance: id.clone() };
                    if let Some(node) = &instance.node {
                        listed.by_node.entry(node).or_insert_with(|| membership.clone());
                    }
                    listed.by_instance.entry(id).or_insert(membership);
                }
            }
        }
        listed
    }

    fn standing(&self, node: &Node, config: &Config) -> Standing {
        if is_foreign(node) {
            return Standing::Foreign;
        }
        let found = self.by_instance.get(&*node.provider_id).or_else(|| self.by_node.get(&*node.name));
        if let Some(membership) = found {
            return Standing::Member(membership.clone());
        }
        let labelled = node.labels.get(POOL_LABEL);
        let pool = labelled.and_then(|name| config.pools.iter().position(|pool| &*pool.name == name));
        pool.map_or(Standing::NotManaged, |pool| Standing::Unlisted { pool })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{config, node, pool, world};

    #[test]
    fn the_deletion_taint_without_our_annotation_is_cluster_autoscalers() {
        assert!(is_foreign(&node("n").taint(DELETION_TAINT, "1").build()));
        let ours = node("n").taint(DELETION_TAINT, "1").annotation(INTENT_ANNOTATION, "1-1").build();
        assert!(!is_foreign(&ours));
    }

    #[test]
    fn karpenter_labels_or_annotations_make_a_node_foreign() {
        assert!(is_foreign(&node("n").label("karpenter.sh/nodepool", "x").build()));
        assert!(is_foreign(&node("n").annotation("karpenter.sh/do-not-disrupt", "true").build()));
    }

    #[test]
    fn a_label_without_an_instance_is_not_membership() {
        let config = config([pool("a")]);
        let world = world().group("a", "a-1", "", 0).node(node("n").of("a", "a-1")).build();
        let (id, _, _) = world.node_named("n").expect("delivered");
        assert_eq!(Members::of(&world, &config).standing(id), &Standing::Unlisted { pool: 0 });
    }
}
