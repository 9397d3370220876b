//! Tries one gang: on what is there and on its way, then with new nodes of all pools. What does not fit whole leaves no trace.

use super::{Unit, domains, is_of};
use crate::context::{Context, Purchases};
use crate::demand::{Demand, PodGroup};
use crate::explain;
use crate::placement;
use headroom_cluster::scheduling::Mark;
use headroom_pools::config::Mode;
use headroom_pools::plan::PoolReason;
use headroom_values::resources::Resources;

/// Places a gang and buys for it; true, with everything in its place, if all that it needs have room.
pub(super) fn fits(ctx: &mut Context<'_>, unit: &mut Unit, groups: Vec<PodGroup>) -> bool {
    let need = unit.need().saturating_sub(unit.nominated_count);
    let mut short = None;
    let fits = whole(ctx, groups, need, Mode::Apply, |ctx, fit| {
        short = Some((fit, answers(ctx, unit)));
    });
    if let Some((fit, pools)) = short {
        unit.verdict.fit_count = fit.saturating_add(unit.nominated_count);
        unit.verdict.pools = pools;
    }
    fits
}

/// Places these pods and buys for them, so that those after them find what is left; nothing, if fewer than `need` have room.
pub(super) fn occupy(ctx: &mut Context<'_>, groups: Vec<PodGroup>, need: u32) {
    whole(ctx, groups, need, Mode::Apply, |_, _| {});
}

/// Number of these pods that have room, and of nodes that are bought for them; it leaves no trace.
pub(super) fn try_out(ctx: &mut Context<'_>, groups: Vec<PodGroup>, mode: Mode) -> (u32, u32) {
    let before = Before::of(ctx);
    let demand = std::mem::replace(&mut ctx.demand, Demand { groups, ..Demand::default() });
    let bought = ctx.purchased_total();
    placement::place(ctx);
    crate::serve(ctx, mode);
    let found = (placed(&ctx.demand.groups), ctx.purchased_total().saturating_sub(bought));
    before.take_back(ctx);
    ctx.demand = demand;
    found
}

fn placed(groups: &[PodGroup]) -> u32 {
    groups.iter().map(|group| group.pods_count.saturating_sub(group.unplaced())).sum()
}

/// Buys for a gang in Preview pools, if all that it needs have room then.
pub(super) fn preview(ctx: &mut Context<'_>, groups: Vec<PodGroup>, need: u32) {
    let known = ctx.planned.len();
    let groups = domains::for_preview(ctx, groups, need);
    if !whole(ctx, groups, need, Mode::Preview, |_, _| {}) {
        return;
    }
    for planned in &ctx.planned[known..] {
        let daemons =
            ctx.snapshot.node(planned.node).template().map_or(0, |template| template.daemon_pods.len());
        let pods = ctx.snapshot.pods(planned.node).count().saturating_sub(daemons);
        if let Some(purchase) = ctx.purchases.get_mut(&(planned.pool.clone(), planned.group.clone())) {
            purchase.pods = purchase.pods.saturating_add(u32::try_from(pods).unwrap_or(u32::MAX));
        }
    }
}

fn whole(
    ctx: &mut Context<'_>,
    groups: Vec<PodGroup>,
    need: u32,
    mode: Mode,
    note: impl FnOnce(&mut Context<'_>, u32),
) -> bool {
    let before = Before::of(ctx);
    let demand = std::mem::replace(&mut ctx.demand, Demand { groups, ..Demand::default() });
    placement::place(ctx);
    crate::serve(ctx, mode);
    let fit = placed(&ctx.demand.groups);
    let fits = need <= fit;
    if !fits {
        note(ctx, fit);
        before.take_back(ctx);
    }
    ctx.demand = demand;
    fits
}

/// State of the plan before a trial.
struct Before {
    mark: Mark,
    purchases: Purchases,
    planned: usize,
    capacity: Resources,
}

impl Before {
    fn of(ctx: &Context<'_>) -> Self {
        let (purchases, planned) = (ctx.purchases.clone(), ctx.planned.len());
        let (mark, capacity) = (ctx.snapshot.checkpoint(), ctx.unseen_capacity.clone());
        Self { mark, purchases, planned, capacity }
    }

    /// Takes back all that was placed and bought since.
    fn take_back(self, ctx: &mut Context<'_>) {
        ctx.snapshot.rollback(self.mark);
        ctx.purchases = self.purchases;
        ctx.planned.truncate(self.planned);
        ctx.unseen_capacity = self.capacity;
    }
}

/// Reason why pools take no more pods of the gang, asked while the others have their places.
pub(super) fn answers(ctx: &mut Context<'_>, unit: &Unit) -> Vec<PoolReason> {
    let at = ctx.demand.groups.iter().position(|group| !group.pods.is_empty() && is_of(ctx, group, unit));
    let Some(at) = at else { return Vec::new() };
    let group = ctx.demand.groups[at].clone();
    let demand = std::mem::replace(&mut ctx.demand, Demand { groups: vec![group], ..Demand::default() });
    let answers = explain::answers(ctx).remove(&0).unwrap_or_default();
    ctx.demand = demand;
    answers
}
