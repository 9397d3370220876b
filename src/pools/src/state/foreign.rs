//! Owner of a node, and our mark on it: nodes of others are recognized here, and left alone.

use std::sync::Arc;

use crate::config::Config;
use headroom_cluster::world::digest::NodeDigest;
use headroom_cluster::world::node::{DELETION_TAINT, INTENT_ANNOTATION, Node, is_karpenters};
use headroom_cluster::world::{NodeId, World};

/// Owner of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership<'w> {
    /// Of a pool, and the provider lists its instance.
    Member(Membership<'w>),
    /// Labelled as a pool's, but the pool's provider does not list it, or has not answered.
    Unlisted {
        /// Index into [`Config::pools`].
        pool: usize,
    },
    /// Of a pool, but another node carries the same provider id: which of them is the machine is not known.
    SharedId {
        /// Index into [`Config::pools`].
        pool: usize,
    },
    /// Cluster Autoscaler or Karpenter works on it.
    Foreign,
    /// Of no pool.
    NotManaged,
}

/// The place of a node in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership<'w> {
    /// Index into [`Config::pools`].
    pub pool: usize,
    /// The group.
    pub group: &'w Arc<str>,
    /// The instance's provider id.
    pub instance: &'w Arc<str>,
}

/// The ownership of every delivered node.
#[derive(Clone, Debug)]
pub struct Members<'w> {
    by_id: Vec<Ownership<'w>>,
}

impl<'w> Members<'w> {
    /// Asks each pool's provider view for each node: by provider id, or by node name where the provider knows it.
    /// An instance that two pools list belongs to the older pool (tie: by name).
    #[must_use]
    pub fn of(world: &'w World, config: &Config) -> Self {
        let mut youngest_first: Vec<usize> = (0..config.pools.len()).collect();
        youngest_first.sort_by_key(|index| config.pools[*index].created_at);
        youngest_first.reverse();
        let listings = youngest_first.iter().filter_map(|pool| {
            let listing = world.listing(&config.pools[*pool].name)?;
            Some((*pool, listing))
        });
        let listings: Vec<_> = listings.collect();
        let mut by_id = vec![Ownership::NotManaged; world.node_capacity()];
        // The last entry counts: the older pool, and the id before the name.
        for (pool, listing) in &listings {
            for (node, group, instance) in listing.by_name() {
                by_id[node.0 as usize] = Ownership::Member(Membership { pool: *pool, group, instance });
            }
        }
        for (pool, listing) in &listings {
            for (node, group, instance) in listing.by_id() {
                by_id[node.0 as usize] = Ownership::Member(Membership { pool: *pool, group, instance });
            }
        }
        // By badge: the index of the pool that its label names.
        let labelled = |name: &Arc<str>| config.pools.iter().position(|pool| pool.name == *name);
        let mut pools = vec![None; world.badges().capacity()];
        for (badge, known) in world.badges().iter() {
            pools[badge.0 as usize] = known.pool.as_ref().and_then(labelled);
        }
        for (id, digest) in world.digests_unordered() {
            let ownership = &mut by_id[id.0 as usize];
            if foreign(id, digest, world) {
                *ownership = Ownership::Foreign;
            } else if *ownership == Ownership::NotManaged
                && let Some(pool) = pools[digest.badge.0 as usize]
            {
                *ownership = Ownership::Unlisted { pool };
            }
        }
        for id in world.twins() {
            let ownership = &mut by_id[id.0 as usize];
            if let Ownership::Member(Membership { pool, .. }) | Ownership::Unlisted { pool } = *ownership {
                *ownership = Ownership::SharedId { pool };
            }
        }
        Self { by_id }
    }

    /// The ownership of a node; `NotManaged` for one that has not been delivered.
    #[must_use]
    pub fn ownership(&self, id: NodeId) -> &Ownership<'w> {
        self.by_id.get(id.0 as usize).unwrap_or(&Ownership::NotManaged)
    }

    /// The membership of a node.
    #[must_use]
    pub fn member(&self, id: NodeId) -> Option<&Membership<'w>> {
        match self.ownership(id) {
            Ownership::Member(membership) => Some(membership),
            Ownership::Unlisted { .. }
            | Ownership::SharedId { .. }
            | Ownership::Foreign
            | Ownership::NotManaged => None,
        }
    }
}

/// The same as [`is_foreign`] for a node of the world.
fn foreign(id: NodeId, digest: &NodeDigest, world: &World) -> bool {
    let unmarked = || world.node(id).node.as_ref().is_some_and(|node| marked_by(node).is_none());
    world.badges().get(digest.badge).karpenter || digest.deletion_taint && unmarked()
}

/// The intent whose mark a node carries, whatever became of the taint: the annotation is ours alone.
#[must_use]
pub fn marked_by(node: &Node) -> Option<&str> {
    node.annotations.get(INTENT_ANNOTATION)
}

/// True if a node carries the whole mark of this intent: taint and annotation.
#[must_use]
pub fn carries_mark(node: &Node, intent: &str) -> bool {
    has_deletion_taint(node) && marked_by(node) == Some(intent)
}

/// True if another autoscaler works on the node: Karpenter's labels or annotations, or the deletion taint without
/// our annotation, which is then Cluster Autoscaler's.
#[must_use]
pub fn is_foreign(node: &Node) -> bool {
    node.labels.iter().any(|(key, _)| is_karpenters(key))
        || node.annotations.iter().any(|(key, _)| is_karpenters(key))
        || has_deletion_taint(node) && marked_by(node).is_none()
}

fn has_deletion_taint(node: &Node) -> bool {
    node.taints.iter().any(|taint| &*taint.key == DELETION_TAINT)
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
        assert!(is_foreign(&node("n").annotation("karpenter.sh/nodepool-hash", "1").build()));
        assert!(!is_foreign(&node("n").annotation("karpenter.sh/do-not-disrupt", "true").build()));
    }

    #[test]
    fn a_label_without_an_instance_is_not_membership() {
        let config = config([pool("a")]);
        let world = world().group("a", "a-1", "", 0).node(node("n").of("a", "a-1")).build();
        let (id, _, _) = world.node_named("n").expect("delivered");
        assert_eq!(Members::of(&world, &config).ownership(id), &Ownership::Unlisted { pool: 0 });
    }
}
