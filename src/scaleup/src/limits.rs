//! Number of nodes that a pool and its groups may still get, and the limit that sets it. It plans nothing.

use std::sync::Arc;

use headroom_cluster::history::{BACKOFFS_MAX, INTENTS_MAX, PoolHistory};
use headroom_pools::config::{ClusterSettings, Config, Mode};
use headroom_pools::state::cluster_state::{ClusterState, GroupCounts, PoolState};
use headroom_values::reason::Reason;
use headroom_values::resources::Resources;

/// A "no" with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Reason that names the limit.
    pub reason: Reason,
    /// The values, for a person.
    pub message: Arc<str>,
}

impl Limit {
    /// A limit in words.
    pub fn new(reason: Reason, message: impl Into<Arc<str>>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// Nodes that may still be added, and the limit that stops more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// So many nodes.
    pub nodes: u32,
    /// Limit that stops one more than that.
    pub limit: Limit,
}

/// Reason why a pool as a whole cannot grow now, before any number is looked at.
#[must_use]
pub fn pool_barrier(state: &PoolState<'_>, memory: Option<&PoolHistory>) -> Option<Limit> {
    let pool = state.pool;
    if pool.deleting {
        return Some(Limit::new(Reason::PoolDeleting, "the pool is being deleted"));
    }
    if pool.mode == Mode::Suspend {
        return Some(Limit::new(Reason::Suspended, "the pool is suspended"));
    }
    if !pool.scale_up.enabled {
        return Some(Limit::new(Reason::ScaleUpDisabled, "scaleUp.enabled is false"));
    }
    if state.provider.is_none() {
        let why = state.provider_unknown.clone().unwrap_or_default();
        return Some(Limit::new(Reason::ProviderUnknown, format!("sizes are unknown: {why}")));
    }
    let full =
        |memory: &PoolHistory| INTENTS_MAX <= memory.intents.len() || BACKOFFS_MAX <= memory.backoffs.len();
    if memory.is_some_and(full) {
        return Some(Limit::new(
            Reason::JournalFull,
            "the journal has no room for one more intent or backoff",
        ));
    }
    None
}

/// Reason why one group cannot grow now; `None` when it can by at least one node.
#[must_use]
pub fn group_barrier(id: &str, group: &GroupCounts<'_>) -> Option<Limit> {
    let Some(state) = group.state else {
        return Some(Limit::new(Reason::ProviderUnknown, format!("the provider has no group {id}")));
    };
    if let Some(until) = group.backed_off_until {
        return Some(Limit::new(Reason::BackingOff, format!("group {id} is held back until {until}")));
    }
    if group.unhealthy {
        let message =
            format!("{} of the {} nodes that group {id} wants are ready", group.ready, state.target);
        return Some(Limit::new(Reason::PoolUnhealthy, message));
    }
    if state.max <= group.target {
        let message = format!("group {id} has {} of at most {} nodes", group.target, state.max);
        return Some(Limit::new(Reason::GroupMaxNodesReached, message));
    }
    None
}

/// Number of nodes that a pool may still get by its own bounds and limits.
///
/// `planned` are nodes that this plan has added to it, `used` is what its nodes have together, those to come and these too, and
/// `capacity` is what one new node has.
#[must_use]
pub fn pool_room(state: &PoolState<'_>, planned: u32, used: &Resources, capacity: &Resources) -> Room {
    let wanted = state.target().saturating_add(planned);
    let mut room = Room {
        nodes: state.bounds.max.saturating_sub(wanted),
        limit: Limit::new(
            Reason::MaxNodesReached,
            format!("pool has {wanted} of at most {} nodes", state.bounds.max),
        ),
    };
    let amounts = [
        ("cpu", state.pool.limit_cpu_milli, used.cpu_milli, capacity.cpu_milli),
        ("memory", state.pool.limit_memory_bytes, used.memory_bytes, capacity.memory_bytes),
    ];
    for (word, limit, used, each) in amounts {
        narrow_amount(&mut room, Reason::PoolLimitReached, word, limit, used, each);
    }
    room
}

/// Number of nodes that the cluster's limits leave, foreign nodes counted.
///
/// `planned` and `planned_capacity` are what this plan has added to any pool.
#[must_use]
pub fn cluster_room(
    settings: &ClusterSettings,
    cluster: &ClusterState<'_>,
    planned: u32,
    planned_capacity: &Resources,
    capacity: &Resources,
) -> Room {
    let total = cluster.nodes_total().saturating_add(planned);
    let max = settings.max_nodes.unwrap_or(u32::MAX);
    let mut room = Room {
        nodes: max.saturating_sub(total),
        limit: Limit::new(Reason::ClusterLimitReached, format!("cluster has {total} of at most {max} nodes")),
    };
    let mut used = cluster.capacity.clone();
    used.add(planned_capacity);
    let amounts = [
        ("cpu", settings.max_cpu_milli, used.cpu_milli, capacity.cpu_milli),
        ("memory", settings.max_memory_bytes, used.memory_bytes, capacity.memory_bytes),
    ];
    for (word, limit, used, each) in amounts {
        narrow_amount(&mut room, Reason::ClusterLimitReached, word, limit, used, each);
    }
    room
}

/// Lowers `room` to what a limit on one amount leaves; rounds down, since half a node is none. Of nodes that have nothing of
/// it, or of which that is not known, none is left where the limit is reached.
fn narrow_amount(room: &mut Room, reason: Reason, word: &str, limit: Option<i64>, used: i64, each: i64) {
    let Some(limit) = limit else { return };
    let left = limit.saturating_sub(used).max(0);
    let nodes = match each {
        ..=0 if left == 0 => 0,
        ..=0 => u32::MAX,
        each => u32::try_from(left / each).unwrap_or(u32::MAX),
    };
    if nodes < room.nodes {
        let unit = if word == "cpu" { "m" } else { " bytes" };
        *room = Room {
            nodes,
            limit: Limit::new(reason, format!("{word}: {used}{unit} of at most {limit}{unit} are used")),
        };
    }
}

/// Reason why a group that grows to its maximum at once cannot: these rooms leave less than the `missing` nodes.
#[must_use]
pub fn whole_barrier(id: &str, missing: u32, most: u32, rooms: Vec<Room>) -> Option<Limit> {
    if most < missing {
        let message = format!("group {id} grows by {missing} nodes at once, and a plan adds at most {most}");
        return Some(Limit::new(Reason::PoolLimitReached, message));
    }
    let narrow = rooms.into_iter().find(|room| room.nodes < missing)?;
    let message = format!("group {id} grows by {missing} nodes at once; {}", narrow.limit.message);
    Some(Limit::new(narrow.limit.reason, message))
}

/// The most nodes that one plan may add to one group.
#[must_use]
pub fn per_scale_up(config: &Config) -> u32 {
    match config.cluster.max_nodes_per_scale_up {
        0 => u32::MAX,
        most => most,
    }
}
