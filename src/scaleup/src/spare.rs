//! Gives up bought nodes that the pods do not need after all. It buys nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::context::Context;
use crate::demand::{Demand, PodGroup};
use crate::placement;
use headroom_pools::config::Mode;

/// Most that all trials of single nodes may cost, in looks of a group of pods at a node: a few milliseconds.
const LOOKS_MAX: usize = 60_000;
/// Cost of placing one pod, in looks.
const PLACING: usize = 20;

/// Takes nodes out of the purchases as long as all that had a place still has one: those without a pod first, then one at
/// a time, least important pools first.
///
/// Pools are packed one by one, and for new nodes alone. Placed anew over all nodes, pods may need fewer of them, and
/// without this a node is bought that gets no pod. Differs from upstream, which does not look again.
///
/// The snapshot ends with the placements of what is bought.
pub(crate) fn give_up_unneeded(ctx: &mut Context<'_>, wanted: &Demand) {
    let unused = unused(ctx);
    if !unused.is_empty() {
        try_without(ctx, wanted, &unused);
    }
    let mut keys: Vec<(Arc<str>, Arc<str>)> = ctx.purchases.keys().cloned().collect();
    keys.sort_by_key(|(pool, _)| ctx.config.pool(pool).map_or(0, |pool| pool.priority));
    let pods: usize = wanted.groups.iter().map(|group| group.pods.len()).sum();
    let trial = ctx.snapshot.nodes_capacity() * wanted.groups.len().max(1) + PLACING * pods;
    let mut looks_left = LOOKS_MAX;
    for key in keys {
        while trial <= looks_left && spareable(ctx, &key) != 0 {
            looks_left -= trial;
            // A group that is bought as a whole is given up as a whole.
            let step = if ctx.config.scales_whole(&key.0) { spareable(ctx, &key) } else { 1 };
            if !try_without(ctx, wanted, &BTreeMap::from([(key.clone(), step)])) {
                break;
            }
        }
    }
    ctx.purchases.retain(|_, purchase| purchase.nodes != 0);
}

/// Bought nodes by pool and group.
type Counts = BTreeMap<(Arc<str>, Arc<str>), u32>;

/// Bought nodes on which only pods of DaemonSets stand, as many as may be spared.
fn unused(ctx: &Context<'_>) -> Counts {
    let mut counts = Counts::new();
    for planned in ctx.planned.iter().filter(|planned| planned.bought) {
        let view = ctx.snapshot.node(planned.node);
        let daemons = view.template().map_or(0, |template| template.daemon_pods.len());
        if ctx.snapshot.pods(planned.node).count() <= daemons {
            *counts.entry((planned.pool.clone(), planned.group.clone())).or_insert(0) += 1;
        }
    }
    for (key, count) in &mut counts {
        let spareable = spareable(ctx, key);
        *count =
            if ctx.config.scales_whole(&key.0) && *count < spareable { 0 } else { (*count).min(spareable) };
    }
    counts.retain(|_, count| *count != 0);
    counts
}

/// Returns the number of nodes of a group in the purchases that may be given up.
fn spareable(ctx: &Context<'_>, key: &(Arc<str>, Arc<str>)) -> u32 {
    ctx.purchases.get(key).map_or(0, |purchase| purchase.nodes.saturating_sub(purchase.kept))
}

/// Gives up so many nodes, unless a pod loses its place by it or the next plan would buy them again; returns true if
/// they are given up.
fn try_without(ctx: &mut Context<'_>, wanted: &Demand, fewer: &Counts) -> bool {
    let (before, purchases) = (left(ctx), ctx.purchases.clone());
    for (key, count) in fewer {
        if let Some(purchase) = ctx.purchases.get_mut(key) {
            purchase.nodes = purchase.nodes.saturating_sub(*count);
        }
    }
    place_anew(ctx, wanted);
    let after = left(ctx);
    let worse = after.iter().zip(&before).any(|(after, before)| before < after);
    if !worse && (after.iter().all(|left| *left == 0) || is_settled(ctx)) {
        return true;
    }
    ctx.purchases = purchases;
    place_anew(ctx, wanted);
    false
}

/// True if nothing more would be bought for the pods that are left.
fn is_settled(ctx: &mut Context<'_>) -> bool {
    let (bought, consultation) = (ctx.purchased_total(), ctx.expander.clone());
    crate::serve(ctx, Mode::Apply);
    // Questions about a trial are not asked; and nodes for pods that wait for an answer may be bought.
    let asked = ctx.expander.waiting != consultation.waiting;
    ctx.expander = consultation;
    ctx.purchased_total() == bought && !asked
}

/// Places all pods on what is there, on its way or bought so far, as the next plan will.
pub(crate) fn place_anew(ctx: &mut Context<'_>, wanted: &Demand) {
    ctx.start_over();
    ctx.demand = wanted.clone();
    placement::place(ctx);
}

/// Returns the number of pods of each group that have no place.
pub(crate) fn left(ctx: &Context<'_>) -> Vec<u32> {
    ctx.demand.groups.iter().map(PodGroup::unplaced).collect()
}
