//! Whose a node is, and whether it carries our mark: what belongs to others is told apart here, and left alone.

use std::collections::BTreeSet;
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
    /// Provider ids of listed instances that no node carries.
    unseen: BTreeSet<Arc<str>>,
}

impl Members {
    /// Asks each pool's provider view for each node: by provider id, or by node name where the provider knows it.
    /// An instance that two pools list belongs to the older pool (tie: by name).
    #[must_use]
    pub fn of(world: &World, config: &Config) -> Self {
        let mut listed = Listed::of(world, config);
        let mut by_id = vec![None; world.node_capacity()];
        for (id, node, _) in world.nodes() {
            by_id[id.0 as usize] = Some(listed.standing(node, config));
        }
        Self { by_id, unseen: listed.unseen() }
    }

    /// The standing of a node; `NotManaged` for one that has not been delivered.
    #[must_use]
    pub fn standing(&self, id: NodeId) -> &Standing {
        self.by_id.get(id.0 as usize).and_then(Option::as_ref).unwrap_or(&Standing::NotManaged)
    }

    /// Whether a pool's provider lists an instance of this id and no node carries it.
    #[must_use]
    pub fn unseen(&self, instance: &str) -> bool {
        self.unseen.contains(instance)
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

/// Instances by provider id and by node name. The maps are looked up, never iterated.
struct Listed<'w> {
    /// All instances, those of the oldest pool first.
    instances: Vec<ListedInstance<'w>>,
    /// By provider id, the first instance of that id.
    by_instance: FxHashMap<&'w str, usize>,
    /// By the name of the node that the provider knows; made when a node is first found by nothing else.
    by_node: Option<FxHashMap<&'w str, usize>>,
    /// By instance: whether a node carries its id. Of instances of one id the first stands for all.
    seen: Vec<bool>,
}

/// An instance as its pool's provider lists it.
struct ListedInstance<'w> {
    pool: usize,
    group: &'w Arc<str>,
    id: &'w Arc<str>,
    node: Option<&'w Arc<str>>,
}

impl<'w> Listed<'w> {
    fn of(world: &'w World, config: &Config) -> Self {
        let mut order: Vec<usize> = (0..config.pools.len()).collect();
        order.sort_by_key(|index| config.pools[*index].created_at);
        let mut instances = Vec::new();
        for pool in order {
            let Some(state) = world.provider(&config.pools[pool].name).and_then(Known::value) else {
                continue;
            };
            for (group, state) in &state.groups {
                let all = state.instances.iter();
                instances.extend(all.map(|(id, instance)| ListedInstance {
                    pool,
                    group,
                    id,
                    node: instance.node.as_ref(),
                }));
            }
        }
        let mut by_instance = FxHashMap::default();
        by_instance.reserve(instances.len());
        for (index, instance) in instances.iter().enumerate() {
            by_instance.entry(&**instance.id).or_insert(index);
        }
        let seen = vec![false; instances.len()];
        Self { instances, by_instance, by_node: None, seen }
    }

    fn standing(&mut self, node: &Node, config: &Config) -> Standing {
        let by_instance = self.by_instance.get(&*node.provider_id).copied();
        if let Some(index) = by_instance {
            self.seen[index] = true;
        }
        if is_foreign(node) {
            return Standing::Foreign;
        }
        if let Some(index) = by_instance.or_else(|| self.of_node(&node.name)) {
            let ListedInstance { pool, group, id, .. } = &self.instances[index];
            return Standing::Member(Membership {
                pool: *pool,
                group: Arc::clone(group),
                instance: Arc::clone(id),
            });
        }
        let labelled = node.labels.get(POOL_LABEL);
        let pool = labelled.and_then(|name| config.pools.iter().position(|pool| &*pool.name == name));
        pool.map_or(Standing::NotManaged, |pool| Standing::Unlisted { pool })
    }

    /// The first instance that its provider knows as the node of this name.
    fn of_node(&mut self, name: &str) -> Option<usize> {
        let instances = &self.instances;
        let by_node = self.by_node.get_or_insert_with(|| {
            let mut by_node = FxHashMap::default();
            for (index, instance) in instances.iter().enumerate() {
                if let Some(node) = instance.node {
                    by_node.entry(&**node).or_insert(index);
                }
            }
            by_node
        });
        by_node.get(name).copied()
    }

    /// Ids that no node carries, once all nodes have been asked for.
    fn unseen(&self) -> BTreeSet<Arc<str>> {
        let seen = |id: &str| self.by_instance.get(id).is_some_and(|first| self.seen[*first]);
        self.instances
            .iter()
            .zip(&self.seen)
            .filter(|(instance, own)| !**own && !seen(instance.id))
            .map(|(instance, _)| Arc::clone(instance.id))
            .collect()
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
