//! Removing one candidate after the other on the snapshot: what one takes is gone for the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::status::{Unremovable, Why};
use super::{Candidate, Pass, eligibility};
use crate::labels::ObjectKey;
use crate::nodes::context::Context;
use crate::nodes::drainability::Disruptions;
use crate::scheduling::{NodeIx, PodRef, Presence};
use crate::time::Seconds;
use crate::world::PodId;

/// A node whose pods all have another place.
#[derive(Clone, Debug)]
pub struct Found {
    /// The node.
    pub candidate: Candidate,
    /// Whether pods have to be moved.
    pub drain: bool,
    /// Whether a pod must run to its end before.
    pub waits: bool,
    /// Whether its pods use up a PodDisruptionBudget.
    pub risky: bool,
}

/// Finds the nodes that could go, keeps their clocks, and says why the others could not.
///
/// Source: scaledown/planner/planner.go, categorizeNodes.
pub fn categorize(
    ctx: &mut Context<'_>,
    pass: &Pass<'_>,
    candidates: &[Candidate],
    disruptions: &mut Disruptions<'_>,
) -> (Vec<Found>, Vec<Unremovable>) {
    let limit = limit(ctx);
    forget_rechecks(ctx);
    let mut unremovable = Vec::new();
    let mut eligible = Vec::new();
    for candidate in sorted(ctx, pass, candidates, disruptions) {
        match eligibility::ineligible(ctx, pass, &candidate) {
            Some(why) => unremovable.push(Unremovable { node: candidate.name.clone(), why, pod: None }),
            None => eligible.push(candidate),
        }
    }
    let mut places = Places::new(ctx, pass);
    let mut found: Vec<Found> = Vec::new();
    let mut counted = 0;
    for candidate in eligible {
        if limit <= counted {
            break;
        }
        match simulate(ctx, pass, &candidate, disruptions, &mut places) {
            Ok(one) => {
                counted += usize::from(!pass.groups[candidate.group].zero_or_max);
                found.push(one);
            }
            Err(why) => {
                let until = ctx.now.plus(ctx.config.cluster.upstream.down.recheck_after);
                ctx.next.shrinking.rechecks.insert(candidate.name.clone(), until);
                unremovable.push(why);
            }
        }
    }
    ctx.next.shrinking.hints = places.hints;
    keep_clocks(ctx, &found);
    (found, unremovable)
}

/// How many nodes of groups that are not atomic may be unneeded at once.
///
/// Source: planner.go, unneededNodesLimit.
fn limit(ctx: &mut Context<'_>) -> usize {
    let each = ctx.config.cluster.max_removals as usize;
    let unneeded_for = ctx.config.cluster.upstream.down.unneeded_for.0;
    let memory = &mut ctx.next.shrinking;
    if let Some(last) = memory.last_loop {
        let interval = ctx.now.since(last);
        memory.shortest_loop = Some(memory.shortest_loop.map_or(interval, |before| before.min(interval)));
    }
    memory.last_loop = Some(ctx.now);
    let by_growth = memory.unneeded.len() + 2 * each;
    let loops = match memory.shortest_loop {
        Some(Seconds(interval)) if 0 < interval => unneeded_for.max(interval) / interval,
        _ => 1,
    };
    let by_time = each.saturating_mul(usize::try_from(loops).unwrap_or(usize::MAX)).saturating_add(each);
    by_growth.min(by_time)
}

/// Rechecks that are due, and those of nodes that have gone.
fn forget_rechecks(ctx: &mut Context<'_>) {
    let (world, now) = (ctx.world, ctx.now);
    let rechecks = &mut ctx.next.shrinking.rechecks;
    rechecks.retain(|node, until| now < *until && world.node_named(node).is_some());
}

/// Empty nodes first, then those that were unneeded before, then by name; without those in deletion.
fn sorted(
    ctx: &Context<'_>,
    pass: &Pass<'_>,
    candidates: &[Candidate],
    disruptions: &mut Disruptions<'_>,
) -> Vec<Candidate> {
    let left = candidates.iter().filter(|one| !pass.in_flight.contains(&one.name));
    let mut keyed: Vec<((bool, bool), Candidate)> = left
        .map(|one| {
            let load = eligibility::load(ctx, pass, one, disruptions);
            let empty = matches!(load, Ok((movable, _)) if movable.is_empty());
            let before = ctx.next.shrinking.unneeded.contains_key(&one.name);
            ((!empty, !before), one.clone())
        })
        .collect();
    keyed.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.name.cmp(&b.1.name)));
    keyed.into_iter().map(|(_, one)| one).collect()
}

/// Tries to move the pods of one node.
fn simulate(
    ctx: &mut Context<'_>,
    pass: &Pass<'_>,
    candidate: &Candidate,
    disruptions: &mut Disruptions<'_>,
    places: &mut Places,
) -> Result<Found, Unremovable> {
    let no = |why| Unremovable { node: candidate.name.clone(), why, pod: None };
    let (movable, waits) = eligibility::load(ctx, pass, candidate, disruptions)?;
    let ix = ctx.snapshot.index_of(candidate.id).ok_or_else(|| no(Why::UnexpectedError))?;
    if !places.move_all(ctx, &movable, ix) {
        return Err(no(Why::NoPlaceToMovePods));
    }
    places.open.remove(&ix);
    let classes = || movable.iter().map(|id| ctx.world.pod(*id));
    let risky = !disruptions.allow_all(classes().map(|entry| (entry.class, &*entry.pod.class)));
    for entry in classes() {
        disruptions.spend(entry.class, &entry.pod.class);
    }
    Ok(Found { candidate: candidate.clone(), drain: !movable.is_empty(), waits, risky })
}

/// A node keeps its clock only if it is found in every loop. Source: scaledown/unneeded/nodes.go, Update.
fn keep_clocks(ctx: &mut Context<'_>, found: &[Found]) {
    let before = std::mem::take(&mut ctx.next.shrinking.unneeded);
    let since = |name: &Arc<str>| before.get(name).copied().unwrap_or(ctx.now);
    ctx.next.shrinking.unneeded =
        found.iter().map(|one| (one.candidate.name.clone(), since(&one.candidate.name))).collect();
}

/// Nodes that may take pods, the way round them, and where pods went before.
struct Places {
    /// Real nodes that are not in deletion and have not been found removable.
    open: BTreeSet<NodeIx>,
    order: Vec<NodeIx>,
    next: usize,
    before: BTreeMap<ObjectKey, Arc<str>>,
    hints: BTreeMap<ObjectKey, Arc<str>>,
}

impl Places {
    fn new(ctx: &mut Context<'_>, pass: &Pass<'_>) -> Self {
        let takes = |name: &Arc<str>| !pass.in_flight.contains(name) && !pass.starting.contains(name);
        let order: Vec<NodeIx> = ctx
            .snapshot
            .nodes()
            .filter(|(_, view)| view.real().is_some() && takes(view.name()))
            .map(|(ix, _)| ix)
            .collect();
        let before = std::mem::take(&mut ctx.next.shrinking.hints);
        Self { open: order.iter().copied().collect(), order, next: 0, before, hints: BTreeMap::new() }
    }

    /// Moves all pods off the node, or none.
    fn move_all(&mut self, ctx: &mut Context<'_>, pods: &[PodId], from: NodeIx) -> bool {
        let mark = ctx.snapshot.checkpoint();
        for pod in pods {
            ctx.snapshot.remove(PodRef::Real(*pod), from);
        }
        ctx.snapshot.set_presence(from, Presence::Ghost);
        for pod in pods {
            let Some(place) = self.find(ctx, *pod, from) else {
                ctx.snapshot.rollback(mark);
                return false;
            };
            ctx.snapshot.place(PodRef::Real(*pod), place);
            let name = ctx.snapshot.node(place).name().clone();
            self.hints.insert(ctx.world.pod(*pod).pod.key.clone(), name);
        }
        true
    }

    /// Where the pod went before, if that still takes it; else the first that does, from behind the last one taken.
    fn find(&mut self, ctx: &mut Context<'_>, pod: PodId, from: NodeIx) -> Option<NodeIx> {
        let class = ctx.snapshot.class_of(PodRef::Real(pod));
        let hint = self.before.get(&ctx.world.pod(pod).pod.key).and_then(|name| ctx.snapshot.named(name));
        if let Some(hint) = hint
            && hint != from
            && self.open.contains(&hint)
            && ctx.snapshot.fits(class, hint)
        {
            return Some(hint);
        }
        for step in 0..self.order.len() {
            let at = (self.next + step) % self.order.len();
            let ix = self.order[at];
            if ix != from && self.open.contains(&ix) && ctx.snapshot.fits(class, ix) {
                self.next = (at + 1) % self.order.len();
                return Some(ix);
            }
        }
        None
    }
}
