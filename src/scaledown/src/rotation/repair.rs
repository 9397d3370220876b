//! Repair: nodes whose conditions report an error are replaced as outdated ones are. It looks at no pods.
//!
//! Source: Karpenter, node repair: a tolerated time for each condition, and none while more than 20 % of a pool is unhealthy.
//! Differs: others are bought first, evictions respect budgets, and a fifth of the pool is a bound on what leaves at once.

use headroom_cluster::history::PoolHistory;
use headroom_cluster::world::node::Node;
use headroom_pools::config::Rotation;
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;

/// Most nodes of a pool that are repaired at once, in percent of its ready nodes, and always one.
const AT_ONCE_PERCENT: usize = 20;

/// Time at which the first rule of the pool calls for the node's replacement; `None` while no condition matches a rule.
pub(super) fn due_at(node: &Node, rotation: &Rotation) -> Option<UnixTime> {
    let due = rotation.repair.iter().filter_map(|rule| {
        let wrong =
            node.conditions.iter().find(|one| one.kind == rule.condition && one.status == rule.status);
        wrong.map(|condition| condition.since.plus(rule.after))
    });
    due.min()
}

/// Most nodes of a pool with `ready` nodes that are repaired at once.
pub(super) fn most_at_once(ready: u32) -> usize {
    (ready as usize * AT_ONCE_PERCENT / 100).max(1)
}

/// Nodes of the pool that are leaving to be repaired.
pub(super) fn under_way(memory: &PoolHistory) -> usize {
    let repairs = memory.removals().filter(|(intent, _)| intent.reason == Reason::Unhealthy);
    repairs.map(|(_, removal)| removal.victims.len()).sum()
}
