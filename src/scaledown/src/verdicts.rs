//! One reason for each node, and what status keeps of them. It gives no verdict of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_cluster::history::{Blocked, EXAMPLES_MAX, History, PoolHistory};
use headroom_cluster::world::node::{Node, REMOVE_ANNOTATION};
use headroom_cluster::world::{NodeId, World};
use headroom_pools::verdicts::{NodeVerdict, NodeVerdicts};
use headroom_values::labels::ObjectKey;
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;

/// Reason why a node stays, with the object in the way as `kind/namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Reason.
    pub reason: Reason,
    /// The object in the way.
    pub object: Option<Arc<str>>,
}

impl From<Reason> for Verdict {
    fn from(reason: Reason) -> Self {
        Self { reason, object: None }
    }
}

impl Verdict {
    /// A pod is in the way.
    #[must_use]
    pub fn pod(reason: Reason, key: &ObjectKey) -> Self {
        Self { reason, object: Some(format!("pod/{key}").into()) }
    }

    /// Another node carries the same provider id.
    #[must_use]
    pub fn twin(other: Option<&Arc<str>>) -> Self {
        Self { reason: Reason::ProviderIdShared, object: other.map(|name| format!("node/{name}").into()) }
    }

    /// A PodDisruptionBudget is in the way.
    #[must_use]
    pub fn pdb(key: &ObjectKey) -> Self {
        Self { reason: Reason::NotEnoughPdb, object: Some(format!("pdb/{key}").into()) }
    }
}

/// True if a user can act upon it. Only such reasons reach status: an idle cluster writes nothing, and what time
/// alone changes is shown by `headroom explain`.
#[must_use]
pub fn actionable(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::NoPlaceToMovePods
            | Reason::NoPlaceForClaims
            | Reason::GangWouldBreak
            | Reason::DevicePoolIncomplete
            | Reason::ClaimNotReady
            | Reason::HoldsBuffer
            | Reason::ControllerNotFound
            | Reason::MinReplicasReached
            | Reason::NotReplicated
            | Reason::LocalStorageRequested
            | Reason::NotSafeToEvictAnnotation
            | Reason::DoNotDisruptAnnotation
            | Reason::UnmovableKubeSystemPod
            | Reason::NotEnoughPdb
            | Reason::BlockedByOnCompletionPod
            | Reason::UnreadablePod
            | Reason::ScaleDownDisabledAnnotation
            | Reason::MinNodesReached
            | Reason::ClusterMinimumReached
            | Reason::BudgetExhausted
            | Reason::DisruptionStopped
            | Reason::ClusterUnhealthy
            | Reason::ForeignNode
            | Reason::ProviderIdShared
            | Reason::GroupGoesAsWhole
            | Reason::JournalFull
            | Reason::NoRoomToRotate
            | Reason::RotationStopped
            | Reason::GroupRollingOut
            | Reason::GroupPaused
            | Reason::CannotNameMachine
            | Reason::WorkLimitReached
    )
}

/// True if the node is on its way out, or would be if its pool was applied.
fn leaves(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Empty
            | Reason::Underutilized
            | Reason::Consolidated
            | Reason::Drifted
            | Reason::Expired
            | Reason::Unhealthy
            | Reason::NotPreferred
            | Reason::Interrupted
            | Reason::Unready
            | Reason::RemovalRequested
            | Reason::NeverRegistered
            | Reason::NodeGone
            | Reason::PreviewOnly
    )
}

/// Writes each pool's [`Blocked`] list anew: one entry a reason, in order of reasons, with the first node's object.
/// `since` stays while the reason holds for any node. For a node whose removal a person requested, every reason is reported.
pub fn remember(history: &mut History, verdicts: &NodeVerdicts, world: &World, now: UnixTime) {
    let mut found: BTreeMap<&str, BTreeMap<Reason, Blocked>> = BTreeMap::new();
    let requested = |node: &Node| node.annotations.get(REMOVE_ANNOTATION) == Some("requested");
    let asked: BTreeSet<NodeId> =
        world.annotated_nodes().filter(|(_, node)| requested(node)).map(|(id, _)| id).collect();
    let is_reported = |verdict: &NodeVerdict<'_>| {
        actionable(verdict.reason)
            || !asked.is_empty() && !leaves(verdict.reason) && asked.contains(&verdict.id)
    };
    for verdict in verdicts.iter().filter(is_reported) {
        let Some(pool) = verdict.pool else { continue };
        let of_pool = found.entry(pool).or_default();
        let entry = of_pool.entry(verdict.reason).or_insert_with(|| Blocked {
            reason: verdict.reason,
            count: 0,
            examples: Vec::new(),
            object: verdict.object.map(Arc::from),
            since: now,
        });
        entry.count += 1;
        if entry.examples.len() < EXAMPLES_MAX {
            entry.examples.push(verdict.node.clone());
        }
    }
    for pool in found.keys() {
        if !history.pools.contains_key(*pool) {
            history.pools.insert((*pool).into(), PoolHistory::default());
        }
    }
    for (pool, memory) in &mut history.pools {
        let mut list: Vec<Blocked> = found.remove(&**pool).unwrap_or_default().into_values().collect();
        for entry in &mut list {
            if let Some(before) = memory.blocked.iter().find(|before| before.reason == entry.reason) {
                entry.since = before.since;
            }
        }
        memory.blocked = list;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_pools::testing::{NOW, config, node, pool, world};

    fn blocked(verdicts: &[(&str, Reason)], history: &mut History, now: UnixTime) -> Vec<Blocked> {
        let (world, config) = (world().node(node("n1")).node(node("n2")).build(), config([pool("a")]));
        let mut said = NodeVerdicts::new(&world, &config);
        for (name, reason) in verdicts {
            let (id, _, _) = world.node_named(name).expect("one of the two");
            said.push(id, Some(0), *reason, None);
        }
        history.pools.entry("a".into()).or_default();
        remember(history, &said, &world, now);
        history.pools["a"].blocked.clone()
    }

    #[test]
    fn since_stays_while_the_reason_holds_though_nodes_change() {
        let mut history = History::default();
        blocked(&[("n1", Reason::NotEnoughPdb)], &mut history, NOW);
        let later = UnixTime(NOW.0 + 60);
        let list = blocked(&[("n2", Reason::NotEnoughPdb)], &mut history, later);
        assert_eq!((list[0].since, &*list[0].examples[0]), (NOW, "n2"));
        assert!(blocked(&[], &mut history, later).is_empty());
        assert_eq!(blocked(&[("n2", Reason::NotEnoughPdb)], &mut history, later)[0].since, later);
    }

    #[test]
    fn timers_and_utilization_never_reach_status() {
        let idle = [("n1", Reason::NotUnderutilized), ("n2", Reason::NotUnneededLongEnough)];
        assert!(blocked(&idle, &mut History::default(), NOW).is_empty());
    }
}
