//! True if enough of the cluster is well to remove nodes from it. It counts; it removes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{Config, Pool};
use crate::state::foreign::{Members, Ownership};
use crate::state::template;
use headroom_cluster::scheduling::constraints::Taint;
use headroom_cluster::world::World;
use headroom_cluster::world::node::{Node, Readiness};
use headroom_values::time::UnixTime;

/// Removals stop when more than this part of a zone or of the cluster is unready, and more nodes than
/// `ok_unready_count`. Upstream: none; Karpenter stops its repairs at the same 20 %.
const VOLUNTARY_UNREADY_PERCENT_MAX: u64 = 20;

/// Counts of nodes, in the cluster and by zone.
#[derive(Clone, Debug, Default)]
pub struct Health {
    cluster: Count,
    zones: BTreeMap<Arc<str>, Count>,
    /// Ready nodes by pool.
    pub ready: BTreeMap<Arc<str>, u32>,
    max_unready_percent: u64,
    ok_unready_count: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: u64,
    unready: u64,
}

impl Health {
    /// Counts all nodes. Those that no pool's provider lists, that have not started yet or that are suspended are not
    /// unready.
    #[must_use]
    pub fn of(world: &World, config: &Config, members: &Members<'_>, now: UnixTime) -> Self {
        let mut health = Self {
            max_unready_percent: config.cluster.max_unready_percent.into(),
            ok_unready_count: config.cluster.ok_unready_count.into(),
            ..Self::default()
        };
        let mut ready = vec![0u32; config.pools.len()];
        let mut by_badge = vec![Count::default(); world.badges().capacity()];
        for (id, digest) in world.digests_unordered() {
            let pool = match members.ownership(id) {
                Ownership::Member(membership) => Some(membership.pool),
                Ownership::Unlisted { .. }
                | Ownership::SharedId { .. }
                | Ownership::Foreign
                | Ownership::NotManaged => None,
            };
            let ready_of_pool = pool.and_then(|pool| ready.get_mut(pool));
            if let (Some(count), Readiness::Ready) = (ready_of_pool, digest.ready) {
                *count += 1;
            }
            let starting = || {
                let pool = pool.and_then(|pool| config.pools.get(pool));
                let node = world.node(id).node.as_ref();
                pool.zip(node).is_some_and(|(pool, node)| not_started(node, pool, now))
            };
            let count = &mut by_badge[digest.badge.0 as usize];
            count.all += 1;
            let well = matches!(digest.ready, Readiness::Ready | Readiness::Suspended);
            count.unready += u64::from(!well && pool.is_some() && !starting());
        }
        for (id, badge) in world.badges().iter() {
            let counted = by_badge[id.0 as usize];
            let zone = badge.zone.clone().unwrap_or_default();
            for count in [&mut health.cluster, health.zones.entry(zone).or_default()] {
                count.all += counted.all;
                count.unready += counted.unready;
            }
        }
        let counted = config.pools.iter().zip(ready).filter(|(_, count)| *count != 0);
        health.ready = counted.map(|(pool, count)| (pool.name.clone(), count)).collect();
        health
    }

    /// True if so much of the cluster is unready that nothing may be done to it at all: more than
    /// `max_unready_percent` and more than `ok_unready_count`.
    ///
    /// Source: Cluster Autoscaler, clusterstate.go, IsClusterHealthy.
    #[must_use]
    pub fn cluster_unhealthy(&self) -> bool {
        self.cluster.unready > self.ok_unready_count && self.cluster.above(self.max_unready_percent)
    }

    /// True if a removal in `zone` must wait.
    ///
    /// Differs from upstream: nodes also stay while more than 20 % of the zone or cluster and more than
    /// `ok_unready_count` nodes of it are unready, and while any zone is out, because then their pods may be the last ones
    /// running, and those of the others may need the room.
    #[must_use]
    pub fn forbids(&self, zone: &str) -> bool {
        if self.cluster_unhealthy() || self.zones.values().any(|zone| zone.is_out()) {
            return true;
        }
        let zone = self.zones.get(zone).copied().unwrap_or_default();
        [self.cluster, zone]
            .into_iter()
            .any(|count| self.ok_unready_count < count.unready && count.above(VOLUNTARY_UNREADY_PERCENT_MAX))
    }
}

impl Count {
    /// True of a zone in which at least two nodes, and more than half, are unready.
    fn is_out(self) -> bool {
        2 <= self.unready && self.all < 2 * self.unready
    }

    fn above(self, percent: u64) -> bool {
        self.unready * 100 > self.all * percent
    }
}

/// True if the node is young enough to be still starting: unready, or with a startup taint of its pool.
#[must_use]
pub fn not_started(node: &Node, pool: &Pool, now: UnixTime) -> bool {
    let startup = |taint: &Taint| pool.startup_taints.iter().any(|other| other.key == taint.key);
    let startup = |taint: &Taint| startup(taint) || template::is_startup(taint, pool);
    let started = node.ready == Readiness::Ready && !node.taints.iter().any(startup);
    !started && now < node.created_at.plus(pool.scale_up.startup_timeout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, config, node, pool, world};

    fn health(ready: usize, unready: usize) -> Health {
        let config = config([pool("general")]);
        let mut builder = world();
        for index in 0..ready {
            builder = builder.node(node(&format!("ready-{index}")).of("general", "g").zone("a"));
        }
        for index in 0..unready {
            let node = node(&format!("unready-{index}")).of("general", "g").zone("a");
            builder = builder.node(node.unready_for(3600));
        }
        let listed = u32::try_from(ready + unready).expect("a small count");
        let world = builder.group("general", "g", "a", listed).build();
        Health::of(&world, &config, &Members::of(&world, &config), NOW)
    }

    #[test]
    fn nodes_stay_while_more_than_a_fifth_and_more_than_a_few_are_unready() {
        assert!(!health(16, 4).forbids("a"));
        assert!(health(15, 4).forbids("a"));
        assert!(!health(3, 3).forbids("a"));
    }

    #[test]
    fn all_nodes_stay_while_more_than_half_of_a_zone_and_more_than_one_node_of_it_are_unready() {
        assert!(health(2, 3).forbids("b"));
        assert!(health(0, 2).forbids("b"));
        assert!(!health(2, 2).forbids("b"));
        assert!(!health(0, 1).forbids("b"));
    }

    #[test]
    fn unhealthy_needs_both_the_share_and_the_count() {
        assert!(!health(0, 3).cluster_unhealthy());
        assert!(health(4, 4).cluster_unhealthy());
        assert!(!health(5, 4).cluster_unhealthy());
    }
}
