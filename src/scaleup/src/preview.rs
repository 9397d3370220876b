//! Plan of Preview pools for the pods that Apply pools left. It changes nothing but its report.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::context::Context;
use crate::{buffers, explain, gangs};
use headroom_pools::config::Mode;
use headroom_pools::plan::PreviewAction;
use headroom_values::reason::Reason;

/// Plans Preview pools as if they were applied, on what the plan for Apply pools has left, and takes it all back.
pub fn shadow(ctx: &mut Context<'_>) {
    if ctx.config.pools.iter().all(|pool| pool.mode != Mode::Preview) {
        return;
    }
    let mark = ctx.snapshot.checkpoint();
    let (demand, standby_left) = (ctx.demand.clone(), ctx.standby_left.clone());
    let purchases = std::mem::take(&mut ctx.purchases);
    let planned = std::mem::take(&mut ctx.planned);
    let capacity = ctx.unseen_capacity.clone();

    crate::enforce_min(ctx, Mode::Preview);
    crate::serve(ctx, Mode::Preview);
    crate::note_pods(ctx);
    gangs::serve_preview(ctx);
    buffers::serve_preview(ctx);
    explain::preview_pools(ctx);
    let actions = report(ctx);

    ctx.snapshot.rollback(mark);
    ctx.demand = demand;
    ctx.standby_left = standby_left;
    ctx.purchases = purchases;
    ctx.planned = planned;
    ctx.unseen_capacity = capacity;
    ctx.reasons.preview.extend(actions);
}

fn report(ctx: &Context<'_>) -> Vec<PreviewAction> {
    let mut by_pool: BTreeMap<&Arc<str>, (u32, u32, u32)> = BTreeMap::new();
    for ((pool, _), purchase) in &ctx.purchases {
        let (nodes, pods, standby) = by_pool.entry(pool).or_default();
        *nodes += purchase.nodes;
        *pods += purchase.pods;
        *standby += purchase.standby;
    }
    by_pool
        .into_iter()
        .map(|(pool, (nodes, pods, standby))| {
            let from = ctx.cluster.pools.get(pool).map_or(0, |state| state.target());
            let reason = match (pods, standby) {
                (0, 0) => Reason::BelowMinNodes,
                (0, _) => Reason::StandbyCapacity,
                _ => Reason::PodsUnschedulable,
            };
            let node = if nodes == 1 { "node" } else { "nodes" };
            let pod = if pods == 1 { "pod" } else { "pods" };
            let beside =
                if standby == 0 { String::new() } else { format!(" and {standby} standby pods of buffers") };
            PreviewAction {
                pool: pool.clone(),
                from,
                to: from.saturating_add(nodes),
                reason,
                message: format!("would add {nodes} {node} for {pods} {pod}{beside}").into(),
            }
        })
        .collect()
}
