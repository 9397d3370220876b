//! Whether enough of the cluster is well to remove nodes from it. It counts; it removes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{Config, Pool};
use crate::nodes::foreign::{Members, Standing};
use crate::nodes::template;
use crate::reason::Reason;
use crate::scheduling::constraints::Taint;
use crate::time::UnixTime;
use crate::world::World;
use crate::world::node::{Node, Readiness};

/// Voluntary removals stop when more than this part of a zone or of the cluster is unready. Upstream: none; Karpenter
/// stops its repairs at the same 20 %.
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
    /// Counts all nodes, managed or not; those that have not started yet are not unready.
    #[must_use]
    pub fn of(world: &World, config: &Config, members: &Members<'_>, now: UnixTime) -> Self {
        let mut health = Self {
            max_unready_percent: config.cluster.max_unready_percent.into(),
            ok_unready_count: config.cluster.ok_unready_count.into(),
            ..Self::default()
        };
        let mut ready = vec![0u32; config.pools.len()];
        let mut by_badge = vec![Count::default(); world.badges().capacity()];
        for (id, _, digest) in world.digests() {
            let pool = match members.standing(id) {
                Standing::Member(membership) => Some(membership.pool),
                Standing::Unlisted { .. }
                | Standing::SharedId { .. }
                | Standing::Foreign
                | Standing::NotManaged => None,
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
            count.unready += u64::from(digest.ready != Readiness::Ready && !starting());
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

    /// Whether so much of the cluster is unready that nothing may be done to it at all: more than
    /// `max_unready_percent` and more than `ok_unready_count`.
    ///
    /// Source: Cluster Autoscaler, clusterstate.go, IsClusterHealthy.
    #[must_use]
    pub fn cluster_unhealthy(&self) -> bool {
        self.cluster.unready > self.ok_unready_count && self.cluster.above(self.max_unready_percent)
    }

    /// Whether a removal for `reason` in `zone` must wait.
    ///
    /// Differs from upstream: healthy nodes also stay while more than 20 % of the zone or cluster is unready, because
    /// then their pods may be the last ones running. Nodes that are unready themselves, or that a person wants gone,
    /// may go as long as no more than `ok_unready_count` are unready.
    #[must_use]
    pub fn forbids(&self, reason: Reason, zone: &str) -> bool {
        if self.cluster_unhealthy() {
            return true;
        }
        let zone = self.zones.get(zone).copied().unwrap_or_default();
        [self.cluster, zone].into_iter().any(|count| {
            let excused = matches!(reason, Reason::Unready | Reason::RemovalRequested)
                && count.unready <= self.ok_unready_count;
            count.above(VOLUNTARY_UNREADY_PERCENT_MAX) && !excused
        })
    }
}

impl Count {
    fn above(self, percent: u64) -> bool {
        self.unready * 100 > self.all * percent
    }
}

/// Whether the node is young enough to be still starting: unready, or with a startup taint of its pool.
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
    use crate::testing::{NOW, config, node, world};

    fn health(ready: usize, unready: usize) -> Health {
        let config = config([]);
        let mut builder = world();
        for index in 0..ready {
            builder = builder.node(node(&format!("ready-{index}")).zone("a"));
        }
        for index in 0..unready {
            builder = builder.node(node(&format!("unready-{index}")).zone("a").unready_for(60));
        }
        let world = builder.build();
        Health::of(&world, &config, &Members::of(&world, &config), NOW)
    }

    #[test]
    fn healthy_nodes_stay_while_more_than_a_fifth_is_unready() {
        assert!(!health(8, 2).forbids(Reason::Empty, "a"));
        assert!(health(7, 2).forbids(Reason::Empty, "a"));
    }

    #[test]
    fn a_few_unready_nodes_may_go_themselves() {
        assert!(!health(3, 3).forbids(Reason::Unready, "a"));
        assert!(health(11, 4).forbids(Reason::Unready, "a"));
    }

    #[test]
    fn unhealthy_needs_both_the_share_and_the_count() {
        assert!(!health(0, 3).cluster_unhealthy());
        assert!(health(4, 4).cluster_unhealthy());
        assert!(!health(5, 4).cluster_unhealthy());
    }
}
