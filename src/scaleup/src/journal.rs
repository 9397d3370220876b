//! Purchases as intents in the memory of their pools, each with the decision that it stands for. It buys nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::anticipation;
use crate::context::{Context, Purchase};
use crate::demand::PodGroup;
use headroom_cluster::history::{
    Action, Considered, Decision, DecisionAction, DecisionOutcome, Increase, Intent, PoolHistory,
};
use headroom_cluster::scheduling::Snapshot;
use headroom_cluster::world::IntentId;
use headroom_pools::state::group_settings::GroupSettings;
use headroom_values::quantity::format_price;
use headroom_values::reason::Reason;

/// Writes the purchases down as intents, with the decision that each stands for.
///
/// `considered` has the answers of other pools to a group of pods.
pub fn journal(ctx: &mut Context<'_>, considered: &BTreeMap<usize, Vec<Considered>>) {
    // A pool that grows in two groups at once grows by one decision after the other, as its reader sees it.
    let mut sizes: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    for ((pool, group), purchase) in ctx.purchases.clone() {
        let Some(state) = ctx.cluster.pools.get(&pool) else { continue };
        let Some(counts) = state.groups.get(&group) else { continue };
        let from = counts.target;
        let size = sizes.entry(pool.clone()).or_insert_with(|| state.target());
        let pool_from = *size;
        *size = size.saturating_add(purchase.nodes);
        let reason = reason(&purchase);
        let message = whole_message(ctx, (&pool, &group), &purchase, reason);
        let controllers = controllers(ctx, &pool);
        anticipation::note(&mut ctx.next, &pool, &controllers, ctx.now);
        let increase = Increase::journalled(group.clone(), from, from.saturating_add(purchase.nodes));
        let own = counts.state.and_then(|state| state.options.as_deref());
        let deadline = ctx.now.plus(GroupSettings::new(state.pool, own).provision_timeout());
        let memory = ctx.next.pools.entry(pool.clone()).or_default();
        let id = unused_intent_id(memory, &ctx.snapshot, (&pool, &increase), ctx.config.epoch);
        memory.intents.push(Intent {
            id: id.clone(),
            epoch: ctx.config.epoch,
            action: Action::Increase(increase),
            reason,
            started_at: ctx.now,
            deadline,
        });
        let mut examples = purchase.examples.clone();
        examples.sort();
        memory.record(Decision {
            id,
            time: ctx.now,
            action: DecisionAction::ScaleUp,
            group,
            from: pool_from,
            to: pool_from.saturating_add(purchase.nodes),
            reason,
            message,
            outcome: DecisionOutcome::InProgress,
            pods_count: purchase.pods,
            examples,
            considered: answers_of_others(&pool, &purchase, considered),
        });
    }
}

fn reason(purchase: &Purchase) -> Reason {
    match () {
        () if purchase.nodes <= purchase.for_min => Reason::BelowMinNodes,
        () if purchase.pods == 0 && 0 < purchase.requested => Reason::RequestedCapacity,
        () if purchase.pods == 0 && 0 < purchase.standby => Reason::StandbyCapacity,
        () if 0 < purchase.pods && purchase.anticipated == purchase.pods => Reason::ReplicasAnticipated,
        () => Reason::PodsUnschedulable,
    }
}

/// The message of a decision, with what the expander noted of the pool and, for groups of several shapes, the price of one node.
fn whole_message(
    ctx: &Context<'_>,
    (pool, group): (&Arc<str>, &Arc<str>),
    purchase: &Purchase,
    reason: Reason,
) -> Arc<str> {
    let Some(state) = ctx.cluster.pools.get(pool) else { return Arc::from("") };
    let mut message = message(ctx, purchase, reason, state.bounds.min);
    if let Some(note) = ctx.expander.notes.get(pool).filter(|_| purchase.for_min < purchase.nodes) {
        message = format!("{message}; {note}").into();
    }
    if state.rank_of(group).is_some() {
        let price = match ctx.cluster.price_per_hour_micro(pool, group) {
            Some(micro) => format!("{} an hour each", format_price(micro)),
            None => "unknown price".to_owned(),
        };
        message = format!("{message}; {price}").into();
    }
    message
}

/// The answers of other pools to the group that has most of the pods.
fn answers_of_others(
    pool: &Arc<str>,
    purchase: &Purchase,
    considered: &BTreeMap<usize, Vec<Considered>>,
) -> Vec<Considered> {
    let all = purchase.largest.and_then(|(index, _)| considered.get(&index));
    all.into_iter().flatten().filter(|other| other.pool != *pool).cloned().collect()
}

/// Controllers of the pods that go onto new nodes of the pool.
fn controllers(ctx: &Context<'_>, pool: &str) -> Vec<Arc<str>> {
    let served = ctx.demand.groups.iter().filter(|group| group.on_new.contains_key(pool));
    served.flat_map(|group| group.controllers.clone()).collect()
}

/// The next id under which no node of the increase has the name of one that is there.
///
/// A pool that was deleted leaves its nodes behind. One that is made anew under its name counts from one again, and a node
/// that it asked for under the name of such an orphan would never come.
pub fn unused_intent_id(
    memory: &mut PoolHistory,
    snapshot: &Snapshot<'_>,
    (pool, increase): (&str, &Increase),
    epoch: u64,
) -> IntentId {
    loop {
        let id = memory.next_intent_id(epoch);
        if increase.node_names(pool, &id).iter().all(|name| snapshot.named(name).is_none()) {
            return id;
        }
    }
}

/// Returns the message of a decision.
fn message(ctx: &Context<'_>, purchase: &Purchase, reason: Reason, min: u32) -> Arc<str> {
    let nodes = purchase.nodes;
    let plural = if nodes == 1 { "" } else { "s" };
    let one = purchase.pods == 1;
    let owner = purchase.largest.map(|(index, _)| owner_of(&ctx.demand.groups[index])).unwrap_or_default();
    let text = match reason {
        Reason::BelowMinNodes => format!("+{nodes} node{plural}: the pool is to have at least {min}"),
        Reason::ReplicasAnticipated => {
            let replicas = if one { "replica that does" } else { "replicas that do" };
            format!("+{nodes} node{plural} for {} {replicas} not exist yet, most of {owner}", purchase.pods)
        }
        Reason::RequestedCapacity => {
            let pods = if purchase.requested == 1 { "pod" } else { "pods" };
            let request = purchase.requested_by.as_deref().unwrap_or_default();
            format!(
                "+{nodes} node{plural} for {} {pods} of ProvisioningRequest {request}",
                purchase.requested
            )
        }
        Reason::StandbyCapacity => {
            let standby = if purchase.standby == 1 { "standby pod" } else { "standby pods" };
            let buffer = purchase.standby_of.as_deref().unwrap_or_default();
            format!(
                "+{nodes} node{plural} for {} {standby}, most of CapacityBuffer {buffer}",
                purchase.standby
            )
        }
        // Pods that spread, or that follow others, were counted on it before all were placed anew.
        _ if purchase.pods == 0 => {
            format!("+{nodes} node{plural} for pods that choose nodes by where others stand")
        }
        _ => {
            let missing = match purchase.anticipated {
                0 => String::new(),
                count => format!(", {count} of them not created yet"),
            };
            let pods = if one { "pod that fits" } else { "pods that fit" };
            format!("+{nodes} node{plural} for {} {pods} no node{missing}, most of {owner}", purchase.pods)
        }
    };
    text.into()
}

fn owner_of(group: &PodGroup) -> String {
    format!("{}/{}", group.key.namespace, group.owner)
}
