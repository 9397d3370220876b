//! Interruptions: nodes that their cloud is about to take. Their pods want other nodes at once, and they are drained before
//! all others. What holds other removals back does not hold these, since the node goes anyway. It evicts nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::{Config, Mode, Pool};
use crate::state::foreign::{Members, Membership};
use headroom_cluster::history::{History, PoolHistory, RemovalPhase};
use headroom_cluster::world::node::Node;
use headroom_cluster::world::pod::Pod;
use headroom_cluster::world::provider::ProviderState;
use headroom_cluster::world::{NodeId, PodId, World};
use headroom_values::known::Known;
use headroom_values::reason::Reason;

/// Taints by which others announce that a node is about to be taken: the node termination handler of AWS, and GKE.
///
/// Source: aws-node-termination-handler, the keys of its setting TAINT_NODE; GKE, maintenance handler.
const TAINTS: [&str; 5] = [
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/asg-lifecycle-termination",
    "aws-node-termination-handler/rebalance-recommendation",
    "cloud.google.com/impending-node-termination",
];

/// The nodes that their cloud is about to take, with the source of that: of pools in Apply, by a taint, by a notice, or
/// because their removal for that reason has begun, which outlives both.
#[must_use]
pub fn of(world: &World, history: &History, config: &Config) -> BTreeMap<NodeId, Arc<str>> {
    let provider = |pool: &Pool| world.provider(&pool.name).and_then(Known::value);
    let notes = |state: &ProviderState| state.groups.values().any(|group| !group.interrupted.is_empty());
    let noted = config.pools.iter().any(|pool| provider(pool).is_some_and(notes));
    let leaving = leaving(history);
    let node = |id: NodeId| world.node(id).node.as_ref();
    let tainted = |id: NodeId| node(id).is_some_and(|node| taint(node).is_some());
    let any_tainted = || world.digests_unordered().any(|(id, digest)| digest.tainted && tainted(id));
    if !noted && leaving.is_empty() && !any_tainted() {
        return BTreeMap::new();
    }
    let members = Members::of(world, config);
    let found = world.digests().filter_map(|(id, name, _)| {
        let member = members.member(id)?;
        let pool = &config.pools[member.pool];
        if !concerns(pool) {
            return None;
        }
        let begun = || leaving.contains(&**name).then(|| Arc::from("its removal has begun"));
        Some((id, notice(node(id)?, member, provider(pool)).or_else(begun)?))
    });
    found.collect()
}

/// Returns the source that announces the node's interruption; `None` when nothing does.
fn notice(node: &Node, member: &Membership<'_>, provider: Option<&ProviderState>) -> Option<Arc<str>> {
    let by_taint = taint(node).map(|key| format!("taint {key}").into());
    by_taint.or_else(|| provider?.groups.get(member.group)?.interrupted.get(member.instance).cloned())
}

fn taint(node: &Node) -> Option<&str> {
    let taint = node.taints.iter().find(|taint| TAINTS.contains(&&*taint.key));
    taint.map(|taint| &*taint.key)
}

/// True if the operator acts on interruptions of the pool's nodes.
fn concerns(pool: &Pool) -> bool {
    pool.mode == Mode::Apply && !pool.deleting
}

/// Nodes whose removal has begun because of an interruption.
fn leaving(history: &History) -> BTreeSet<&str> {
    let removals = history.pools.values().flat_map(PoolHistory::removals);
    let open = removals.filter(|(intent, removal)| {
        intent.reason == Reason::Interrupted && removal.phase != RemovalPhase::Undoing
    });
    open.flat_map(|(_, removal)| removal.victims.iter().map(|victim| &*victim.node)).collect()
}

/// The pods of an interrupted node that will run elsewhere, and want a place now: those of controllers, unless they are on
/// their way out already.
pub fn displaced(id: NodeId, world: &World, config: &Config) -> Vec<PodId> {
    let cutoff = config.cluster.expendable_pods_priority_cutoff;
    let wanted = |pod: &Pod| {
        let owner = pod.owner.as_ref().filter(|owner| &*owner.kind != "DaemonSet");
        owner.is_some()
            && !pod.phase.finished()
            && pod.deletion_at.is_none()
            && !pod.class.mirror
            && !pod.class.daemon_set
            && cutoff <= pod.class.priority
    };
    world.node(id).pods.iter().copied().filter(|pod| wanted(&world.pod(*pod).pod)).collect()
}
