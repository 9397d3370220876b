//! Choice of the nodes to replace now: the oldest outdated nodes of a pool, as many as budgets allow, and the nodes
//! that are bought in their place. It removes nothing: each purchase is stored with the nodes that it replaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::budgets::Allowance;
use crate::candidates::{self, Candidate};
use crate::consolidation::{Offer, Purchase, buy, may_leave, packed, spares};
use crate::drainability::Disruptions;
use crate::minimums::{self, Room};
use crate::relocation::Destinations;
use crate::removal::Scene;
use crate::rotation::{is_proven, is_stopped, repair, resumes_at};
use crate::trial::pods_to_move;
use headroom_cluster::history::{Action, PoolHistory, REPLACED_MAX};
use headroom_cluster::scheduling::snapshot::{ClassIx, NodeIx, PodRef, Presence};
use headroom_pools::config::{Mode, Pool};
use headroom_scaleup::context::Context;
use headroom_scaleup::limits;
use headroom_scaleup::{bounds, serve};
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;

/// Nodes bought at once while no node of the present template is known to start.
const UNPROVEN_MAX: usize = 1;

/// Buys nodes in place of the next outdated `nodes` of each pool, if the pool rotates now, and remembers which ones they
/// replace. Nothing is bought where the pods fit on nodes that are not outdated.
///
/// The snapshot must be as it was before removals were tried, and is left so.
pub fn consider(ctx: &mut Context<'_>, scene: &Scene<'_>, nodes: Vec<Candidate>) {
    let stopped = ctx.next.pools.values().filter_map(resumes_at).collect::<Vec<_>>();
    stopped.into_iter().for_each(|at| ctx.wake.note(at));
    if nodes.is_empty()
        || scene.config.cluster.voluntary_disruption_stopped
        || scene.health.cluster_unhealthy()
    {
        return;
    }
    let outdated: BTreeSet<NodeIx> = nodes.iter().map(|one| one.ix).collect();
    let mut by_pool: BTreeMap<usize, Vec<Candidate>> = BTreeMap::new();
    for one in nodes {
        by_pool.entry(one.pool).or_default().push(one);
    }
    for (index, nodes) in by_pool {
        let pool = &scene.config.pools[index];
        if !may_turn(ctx, pool, scene) || !scene.work_on(&pool.name) {
            continue;
        }
        let mut turn = next_turn(ctx, scene, pool, nodes);
        if !is_proven(index, pool, scene) {
            turn.truncate(UNPROVEN_MAX);
        }
        while !turn.is_empty() {
            if let Some(offer) = offer(ctx, scene, pool, &turn, &outdated) {
                begin(ctx, offer);
                break;
            }
            // Fewer nodes may do where the pool has little room to grow.
            turn.truncate(turn.len() / 2);
        }
    }
    scene.work_done();
}

/// True if the pool may begin to replace more nodes: one turn after the other, and nothing else is on its way.
pub(super) fn may_turn(ctx: &Context<'_>, pool: &Pool, scene: &Scene<'_>) -> bool {
    let quiet = |memory: &PoolHistory| {
        let held = memory.consolidation_backoff.is_some_and(|held| ctx.now <= held.until);
        let grows = memory.intents.iter().any(|intent| matches!(intent.action, Action::Increase(_)));
        memory.replacement.is_none() && !held && !grows && !is_stopped(memory, pool, scene)
    };
    pool.mode == Mode::Apply
        && ctx.next.pools.get(&pool.name).is_none_or(quiet)
        && ctx.purchased(&pool.name) == 0
        && ctx.demand.groups.iter().all(|group| group.unplaced() == 0)
}

/// The nodes of one group that come next: those to be repaired and then the oldest first, as many as budgets of nodes and
/// of pods let go at once. Those whose removal has just come to nothing come last.
pub(super) fn next_turn(
    ctx: &Context<'_>,
    scene: &Scene<'_>,
    pool: &Pool,
    mut nodes: Vec<Candidate>,
) -> Vec<Candidate> {
    let memory = ctx.next.pools.get(&pool.name);
    let made_at =
        |one: &Candidate| scene.world.node_named(&one.victim.node).map(|(_, node, _)| node.created_at);
    let vain_at = |one: &Candidate| memory.and_then(|memory| memory.removed_in_vain(&one.victim.node));
    nodes.sort_by_cached_key(|one| {
        let vain_at = vain_at(one).unwrap_or(UnixTime(i64::MIN));
        (vain_at, one.reason != Reason::Unhealthy, made_at(one).unwrap_or_default(), one.victim.node.clone())
    });
    let Some(group) = nodes.first().map(|one| one.group.clone()) else { return Vec::new() };
    let mut allowance = Allowance::new(scene.config, &ctx.next, scene.health.ready.clone(), scene.now);
    let mut disruptions = Disruptions::of(scene.world);
    let mut turn: Vec<Candidate> = Vec::new();
    let mut surging = BTreeSet::new();
    let ready = scene.health.ready.get(&pool.name).copied().unwrap_or(0);
    let mut repairs_left = repair::most_at_once(ready).saturating_sub(memory.map_or(0, repair::under_way));
    for one in nodes.into_iter().filter(|one| one.group == group) {
        let pods = one.movable.iter().filter(|pod| !one.gets_surge_for(**pod));
        let pods = pods.map(|pod| scene.world.pod(*pod));
        let pods: Vec<_> = pods.map(|entry| (entry.class, &*entry.pod.class)).collect();
        if REPLACED_MAX <= turn.len() {
            break;
        }
        let unhealthy = one.reason == Reason::Unhealthy;
        if unhealthy && repairs_left == 0 {
            continue;
        }
        if scene.health.forbids(&one.zone)
            || !disruptions.allow_all(pods.iter().copied())
            || one.surges.iter().any(|surge| surging.contains(&surge.policy))
            || allowance.take(pool, one.reason).is_err()
        {
            continue;
        }
        pods.into_iter().for_each(|(id, class)| disruptions.spend(id, class));
        surging.extend(one.surges.iter().map(|surge| surge.policy.clone()));
        repairs_left -= usize::from(unhealthy);
        turn.push(one);
    }
    turn
}

/// Returns the nodes to buy so that the nodes of this turn can leave; `None` when that cannot be.
fn offer(
    ctx: &mut Context<'_>,
    scene: &Scene<'_>,
    pool: &Pool,
    turn: &[Candidate],
    outdated: &BTreeSet<NodeIx>,
) -> Option<Offer> {
    let mark = ctx.snapshot.checkpoint();
    let (rest, pods_count) = homeless(ctx, scene, turn, outdated);
    let found = purchase(ctx, scene, pool, turn, &rest);
    ctx.snapshot.rollback(mark);
    let (group, count) = found?;
    Some(Offer {
        pool: pool.name.clone(),
        group,
        count,
        saving_micro: 0,
        before_micro: 0,
        pods_count,
        replaced: turn.to_vec(),
    })
}

/// The pods of these nodes that fit on no node which stays and is not outdated itself, and how many move in all. Others are
/// placed in the snapshot, and the nodes take no more pods.
pub(super) fn homeless(
    ctx: &mut Context<'_>,
    scene: &Scene<'_>,
    turn: &[Candidate],
    outdated: &BTreeSet<NodeIx>,
) -> (BTreeMap<ClassIx, Vec<PodRef>>, usize) {
    let removals = ctx.next.pools.values().flat_map(PoolHistory::removals);
    let leaving: BTreeSet<Arc<str>> =
        removals.flat_map(|(_, removal)| &removal.victims).map(|victim| victim.node.clone()).collect();
    let nodes = ctx.snapshot.nodes();
    let stays = nodes.filter(|(ix, view)| !outdated.contains(ix) && !leaving.contains(view.name()));
    let stays: Vec<NodeIx> = stays.map(|(ix, _)| ix).collect();
    let order = stays.into_iter().filter(|ix| candidates::takes_pods(*ix, &ctx.snapshot)).collect();
    let mut destinations = Destinations::new(order);
    turn.iter().for_each(|one| ctx.snapshot.set_presence(one.ix, Presence::Ghost));
    let mut rest: BTreeMap<ClassIx, Vec<PodRef>> = BTreeMap::new();
    let mut pods_count = 0;
    for one in turn {
        for pod in pods_to_move(one, &ctx.snapshot, scene) {
            pods_count += 1;
            if destinations.move_all(&mut ctx.snapshot, &[pod], one.ix).is_err() {
                rest.entry(ctx.snapshot.class_of(pod)).or_default().push(pod);
            }
        }
    }
    (rest, pods_count)
}

/// The group that grows, and by how many nodes; 0 where nothing need be bought.
fn purchase(
    ctx: &mut Context<'_>,
    scene: &Scene<'_>,
    pool: &Pool,
    turn: &[Candidate],
    rest: &BTreeMap<ClassIx, Vec<PodRef>>,
) -> Option<(Arc<str>, u32)> {
    let room = minimums::of(scene, &BTreeMap::new());
    let own = turn.first()?.group.clone();
    let capacity =
        |one: &Candidate| scene.world.node_named(&one.victim.node).map(|(_, node, _)| node.capacity.clone());
    let old = capacity(&turn[0])?;
    if rest.is_empty() && may_leave(turn, scene, &room, &pool.name, &own, 0) && spares(turn, scene, &old, 0) {
        return Some((own, 0));
    }
    let state = ctx.cluster.pools.get(&pool.name)?;
    if limits::pool_barrier(state, ctx.next.pools.get(&pool.name)).is_some() {
        return None;
    }
    let mut groups = serve::growables(ctx, &pool.name);
    // The zone of the old nodes first: volumes may be bound to it.
    groups.sort_by_key(|group| group.id != own);
    groups.into_iter().find_map(|group| {
        let needed = if rest.is_empty() { 0 } else { packed(ctx, pool, &group, rest)? };
        let new = &group.template.node.capacity;
        let most = bounds::room(ctx, &pool.name, new).min(group.size.max.saturating_sub(group.size.current));
        let short = minimum_short(turn, &room, &pool.name);
        let count = needed.max(short);
        let fits = count <= most
            && may_leave(turn, scene, &room, &pool.name, &group.id, count)
            && spares(turn, scene, new, count);
        fits.then_some((group.id, count))
    })
}

/// Number of nodes that the pool or the group would be short of its minimum when these leave.
fn minimum_short(turn: &[Candidate], room: &Room, pool: &Arc<str>) -> u32 {
    let leaving = u32::try_from(turn.len()).unwrap_or(u32::MAX);
    let keys = [None, turn.first().map(|one| one.group.clone())].map(|group| (pool.clone(), group));
    let short = keys.iter().map(|key| leaving.saturating_sub(room.get(key).copied().unwrap_or(0)));
    short.max().unwrap_or(0)
}

/// Journals what is bought, and what it replaces.
fn begin(ctx: &mut Context<'_>, offer: Offer) {
    let reason = offer.replaced.first().map_or(Reason::Drifted, |one| one.reason);
    let why = match reason {
        Reason::Unhealthy => "have been unhealthy",
        Reason::Expired => "have expired",
        _ => "have drifted",
    };
    let names: Vec<&str> = offer.replaced.iter().take(3).map(|one| &*one.victim.node).collect();
    let more = if names.len() < offer.replaced.len() { " and others" } else { "" };
    let message = format!(
        "+{} nodes in place of {} that {why} ({}{more}); {} pods move",
        offer.count,
        offer.replaced.len(),
        names.join(", "),
        offer.pods_count,
    );
    buy(ctx, Purchase { offer, reason: Reason::OutdatedNodes, message: message.into() });
}
