//! Gangs: for pods that are scheduled together, nodes are bought together or not at all. It places no pod itself.
//!
//! All pods are placed at once, gangs among the others, as without gangs. Only where a gang comes out short, gangs are
//! tried one by one, and those that cannot have all that they need do not count as demand of this plan: they hold no
//! room, so that a smaller one may have it, and nothing is bought for a part of them. `domains` chooses where those go that
//! must run in one domain.

pub mod domains;
mod trial;
mod units;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::context::Context;
use crate::demand::{Demand, PodGroup};
use headroom_cluster::scheduling::{ClassIx, PodRef, Shares};
use headroom_cluster::world::gang::GangRef;
use headroom_pools::plan::GangVerdict;
use headroom_values::reason::Reason;

use units::Unit;
pub use units::marked;

/// A gang: its namespace, and how its pods name it.
pub type GangId = (Arc<str>, Arc<GangRef>);

/// Rounds in which one gang at a time gives way to pods of others; after them all that come out short do.
const ROUNDS_MAX: usize = 8;
/// Most gangs that are tried one by one in a plan, in order; the others wait for a later plan.
const TRIALS_MAX: usize = 200;

/// As [`crate::serve_all`], with all or nothing for gangs.
pub fn serve_all(ctx: &mut Context<'_>) {
    let mut units = units::units(ctx);
    if units.is_empty() {
        return crate::serve_all(ctx);
    }
    for unit in &mut units {
        if let Some(reason) = unit.barrier() {
            unit.verdict.reason = Some(reason);
            skip(ctx, unit);
        }
    }
    let base = ctx.purchases.clone();
    domains::narrow(ctx, &mut units, &base);
    let mut left = Vec::new();
    for unit in units.iter().filter(|unit| unit.barrier().is_none()) {
        let groups = skip(ctx, unit);
        if !groups.is_empty() {
            left.push((groups, unit.need()));
        }
    }
    units.retain(|unit| unit.is_whole() || !unit.is_asked());
    let all = ctx.demand.clone();
    crate::serve_all(ctx);
    if !short(ctx, &mut units).is_empty() {
        choose(ctx, &mut units, &all, &base);
        settle(ctx, &mut units, &all, &base);
    }
    ctx.gangs_left.extend(left);
    ctx.gangs_apart = apart(ctx, &units);
    ctx.reasons.gangs = units.into_iter().map(|unit| unit.verdict).collect();
}

/// Plans Preview pools for the gangs that Apply pools left, each whole or not at all; the caller takes it back.
pub fn serve_preview(ctx: &mut Context<'_>) {
    for (groups, need) in std::mem::take(&mut ctx.gangs_left) {
        trial::preview(ctx, groups, need);
    }
}

/// Tries gangs one by one, the most important and oldest first, and notes which cannot have what they need.
fn choose(ctx: &mut Context<'_>, units: &mut [Unit], all: &Demand, base: &crate::context::Purchases) {
    begin(ctx, Demand::default(), base);
    for (tried, unit) in units.iter_mut().filter(|unit| unit.is_asked()).enumerate() {
        if TRIALS_MAX <= tried {
            unit.verdict.reason = Some(Reason::WorkLimitReached);
            continue;
        }
        let groups: Vec<PodGroup> =
            all.groups.iter().filter(|group| is_of(ctx, group, unit)).cloned().collect();
        let classes: Vec<ClassIx> = groups.iter().map(|group| group.class).collect();
        if !trial::fits(ctx, unit, groups) {
            unit.verdict.reason = ctx.expander.reason_of(classes).or(Some(Reason::GangDoesNotFit));
        }
    }
}

/// Serves everything but the gangs that were found to have no room, until each that takes part has all that it needs.
fn settle(ctx: &mut Context<'_>, units: &mut [Unit], all: &Demand, base: &crate::context::Purchases) {
    // Each round leaves out a gang at least.
    for round in 0..=ROUNDS_MAX + units.len() {
        begin(ctx, all.clone(), base);
        ctx.gangs_left.clear();
        for unit in units.iter_mut().filter(|unit| unit.verdict.reason.is_some() && unit.barrier().is_none())
        {
            let mut groups = skip(ctx, unit);
            // Another domain may have room with the nodes of Preview pools.
            for group in &mut groups {
                group.class = domains::original_of(&unit.narrowed, group.class);
            }
            ctx.gangs_left.push((groups, unit.need()));
        }
        crate::serve_all(ctx);
        let short = short(ctx, units);
        let Some(last) = short.last().copied() else { break };
        let out = if round < ROUNDS_MAX { vec![last] } else { short };
        for at in out {
            units[at].verdict.pools = trial::answers(ctx, &units[at]);
            units[at].verdict.reason = Some(Reason::GangDoesNotFit);
        }
    }
}

/// Goes back to what was bought before any pod was looked at, with this demand.
fn begin(ctx: &mut Context<'_>, demand: Demand, base: &crate::context::Purchases) {
    ctx.purchases.clone_from(base);
    ctx.demand = demand;
    ctx.start_over();
    let namespaces: BTreeSet<&Arc<str>> =
        ctx.demand.groups.iter().map(|group| &group.key.namespace).collect();
    ctx.snapshot.shares = Shares::new(ctx.config.cluster.max_work_units, namespaces.len());
}

/// Takes a gang out of the demand, and notes how it stands; its pods as they were.
fn skip(ctx: &mut Context<'_>, unit: &Unit) -> Vec<PodGroup> {
    let Some(reason) = unit.verdict.reason else { return Vec::new() };
    let groups = std::mem::take(&mut ctx.demand.groups);
    let (out, kept): (Vec<PodGroup>, Vec<PodGroup>) =
        groups.into_iter().partition(|group| is_of(ctx, group, unit));
    ctx.demand.groups = kept;
    for group in &out {
        ctx.demand.skipped.push(group.clone().skipped(reason));
    }
    out
}

/// Counts how many pods of each gang have room; those that take part and have too few, by their place in `units`.
fn short(ctx: &Context<'_>, units: &mut [Unit]) -> Vec<usize> {
    let mut short = Vec::new();
    for (at, unit) in units.iter_mut().enumerate().filter(|(_, unit)| unit.is_asked()) {
        let groups = ctx.demand.groups.iter().filter(|group| is_of(ctx, group, unit));
        let fit: u32 = groups.map(|group| group.pods_count.saturating_sub(group.unplaced())).sum();
        unit.verdict.fit_count = fit.saturating_add(unit.nominated_count);
        if unit.verdict.fit_count < unit.need() {
            short.push(at);
        }
    }
    short
}

fn is_of(ctx: &Context<'_>, group: &PodGroup, unit: &Unit) -> bool {
    let class = ctx.snapshot.class(group.class);
    class.namespace == unit.verdict.namespace && class.gang.as_ref() == Some(&unit.verdict.gang)
}

/// Classes of gangs that have room in part on nodes that are ready: their scheduler cannot bind them before the rest is.
fn apart(ctx: &Context<'_>, units: &[Unit]) -> BTreeSet<ClassIx> {
    let mut ready: std::collections::BTreeMap<GangId, u32> = std::collections::BTreeMap::new();
    for ix in ctx.snapshot.changed() {
        let is_ready = ctx.snapshot.node(ix).real().is_some_and(|(id, _)| ctx.cluster.is_ready(id));
        for pod in ctx.snapshot.pods(ix).filter(|_| is_ready) {
            let PodRef::Real(id) = pod else { continue };
            let pod = &ctx.world.pod(id).pod;
            if let Some(gang) = pod.class.gang.as_ref().filter(|_| pod.node.is_none()) {
                *ready.entry((pod.class.namespace.clone(), gang.clone())).or_insert(0) += 1;
            }
        }
    }
    let waits = |unit: &&Unit| {
        let id = (unit.verdict.namespace.clone(), unit.verdict.gang.clone());
        ready.get(&id).copied().unwrap_or(0) < unit.need()
    };
    let waiting: Vec<&Unit> = units.iter().filter(waits).collect();
    let class = |group: &PodGroup| {
        let unit = waiting.iter().find(|unit| is_of(ctx, group, unit))?;
        Some(domains::original_of(&unit.narrowed, group.class))
    };
    ctx.demand.groups.iter().filter_map(class).collect()
}

/// The verdict on the gang of a pod's class, if there is one.
#[must_use]
pub fn verdict_of<'a>(
    gangs: &'a [GangVerdict],
    class: &headroom_cluster::world::pod::PodClass,
) -> Option<&'a GangVerdict> {
    let gang = class.gang.as_ref()?;
    gangs.iter().find(|verdict| verdict.namespace == class.namespace && verdict.gang == *gang)
}
