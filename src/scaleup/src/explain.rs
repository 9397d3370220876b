//! Reasons why pods did or did not get a node, and why pools do not grow. It changes no decision.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::context::Context;
use crate::demand;
use crate::limits::{self, Limit};
use headroom_cluster::history::{Considered, EXAMPLES_MAX, History, Refusal as Refused};
use headroom_cluster::scheduling::{ClassIx, Refusal, TemplateNode};
use headroom_pools::config::Mode;
use headroom_pools::plan::{PodVerdict, PoolReason};
use headroom_values::reason::Reason;
use headroom_values::resources::Resources;

/// Most groups of pods whose pools are asked one by one; beyond it only counts are reported.
const EXPLAINED_MAX: usize = 500;

/// The field of a node that `matchFields` of a pod may name.
const NODE_NAME: &str = "metadata.name";

/// The pools' answers to each group of pods that did not fit what was there, by index in the demand.
#[must_use]
pub fn answers(ctx: &mut Context<'_>) -> BTreeMap<usize, Vec<PoolReason>> {
    let asked: Vec<usize> = ctx
        .demand
        .groups
        .iter()
        .enumerate()
        .filter(|(_, group)| !group.pods.is_empty() || !group.on_new.is_empty())
        .map(|(index, _)| index)
        .take(EXPLAINED_MAX)
        .collect();
    let pools: Vec<Arc<str>> = ctx.config.pools.iter().map(|pool| pool.name.clone()).collect();
    let mut answers = BTreeMap::new();
    for index in asked {
        let group = &ctx.demand.groups[index];
        let (class, unplaced) = (group.class, group.unplaced());
        let others: Vec<Arc<str>> =
            pools.iter().filter(|pool| unplaced != 0 || !group.on_new.contains_key(*pool)).cloned().collect();
        let reasons = others.iter().map(|pool| answer(ctx, pool, class, unplaced)).collect();
        answers.insert(index, reasons);
    }
    answers
}

/// Reason why a pool did not take (all of) these pods: the first rule that its nodes fail, or what keeps it from growing.
fn answer(ctx: &mut Context<'_>, pool: &Arc<str>, class: ClassIx, unplaced: u32) -> PoolReason {
    let limit = answer_limit(ctx, pool, class, unplaced);
    PoolReason { pool: pool.clone(), reason: limit.reason, message: limit.message }
}

fn answer_limit(ctx: &mut Context<'_>, pool: &Arc<str>, class: ClassIx, unplaced: u32) -> Limit {
    if ctx.quarantine.pools.contains(pool) {
        return Limit::new(Reason::Internal, "the pool was set aside for this tick");
    }
    if let Some(refusal) = refusal(ctx, pool, class) {
        return refusal;
    }
    if let Some(barrier) = crate::barrier(ctx, pool).or_else(|| groups_barrier(ctx, pool, class)) {
        return barrier;
    }
    let preview = ctx.config.pool(pool).is_some_and(|pool| pool.mode == Mode::Preview);
    if preview {
        return Limit::new(Reason::PreviewOnly, "the pool is in Preview");
    }
    if unplaced == 0 {
        return Limit::new(Reason::AnotherPoolChosen, "another pool was chosen");
    }
    let capacity = crate::new_capacity(ctx, pool);
    let full = crate::rooms(ctx, pool, &capacity).into_iter().find(|room| room.nodes == 0);
    match full {
        Some(room) => room.limit,
        None if let Some(reason) = ctx.expander.reason_of([class]) => Limit::new(reason, reason.doc()),
        None => {
            let most = ctx.config.cluster.max_nodes_per_scale_up;
            Limit::new(Reason::PoolLimitReached, format!("one plan adds at most {most} nodes to a group"))
        }
    }
}

/// The rule that a new node of every group fails; `None` when one group's node would take the pod.
fn refusal(ctx: &mut Context<'_>, pool: &Arc<str>, class: ClassIx) -> Option<Limit> {
    let state = ctx.cluster.pools.get(pool)?;
    let groups: Vec<Arc<str>> = state.groups.keys().cloned().collect();
    let mut refusals: Vec<Refusal> = Vec::new();
    let mut first: Option<Arc<TemplateNode>> = None;
    for group in &groups {
        let Some(template) = ctx.template(pool, group) else { continue };
        refusals.push(check(ctx, &template, class).err()?);
        first = first.or(Some(template));
    }
    match refusals.first().zip(first) {
        Some((refusal, _)) if refusal.label_found().is_some_and(|(key, _)| key == NODE_NAME) => {
            let message = format!("{}; a new node has another name", refusal.wanted());
            Some(Limit::new(Reason::NodeNameMismatch, message))
        }
        Some((refusal, template)) => {
            let mut message = words(refusal, &refusals);
            if let Some(sets) = daemon_sets_in_the_way(ctx, &template, class) {
                message = format!("{message}; {sets}");
            }
            Some(Limit::new(refusal.reason(), message))
        }
        // Without a shape, whether a pod would fit is unknown.
        None if groups.is_empty() => None,
        None => Some(Limit::new(Reason::TemplateUnknown, "no template is declared or known")),
    }
}

/// What keeps each group from growing whose new node would take the pod, of the first such group; `None` when one of them may
/// grow. A pod that is bound to a zone gains nothing by the groups of others.
fn groups_barrier(ctx: &mut Context<'_>, pool: &Arc<str>, class: ClassIx) -> Option<Limit> {
    let groups = &ctx.cluster.pools.get(pool)?.groups;
    let barred = |(id, group): (&Arc<str>, _)| (id.clone(), limits::group_barrier(id, group));
    let groups: Vec<(Arc<str>, Option<Limit>)> = groups.iter().map(barred).collect();
    if groups.iter().all(|(_, barrier)| barrier.is_none()) {
        return None;
    }
    let mut first = None;
    for (group, barrier) in groups {
        let Some(template) = ctx.template(pool, &group) else { continue };
        if check(ctx, &template, class).is_ok() {
            first = first.or(Some(barrier?));
        }
    }
    first
}

fn check(ctx: &mut Context<'_>, template: &Arc<TemplateNode>, class: ClassIx) -> Result<(), Refusal> {
    let mark = ctx.snapshot.checkpoint();
    let trial = ctx.snapshot.add_node(template, Arc::from("trial"));
    let answer = ctx.snapshot.check(class, trial);
    ctx.snapshot.rollback(mark);
    answer
}

/// The DaemonSets of a new node, the largest first, if a pod would fit without them.
fn daemon_sets_in_the_way(
    ctx: &mut Context<'_>,
    template: &Arc<TemplateNode>,
    class: ClassIx,
) -> Option<String> {
    if template.daemon_sets.is_empty() {
        return None;
    }
    let bare = TemplateNode {
        daemon_pods: Vec::new(),
        daemon_sets: Vec::new(),
        daemon_requested: Resources::default(),
        ..TemplateNode::clone(template)
    };
    check(ctx, &Arc::new(bare), class).ok()?;
    let weight = |class: &ClassIx| demand::weight(ctx.snapshot.class(*class));
    let mut sets: Vec<_> = template.daemon_pods.iter().map(weight).zip(&template.daemon_sets).collect();
    sets.sort_by_key(|(weight, key)| (Reverse(*weight), (*key).clone()));
    let names: Vec<String> = sets.iter().take(EXAMPLES_MAX).map(|(_, key)| key.to_string()).collect();
    let more = sets.len() - names.len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!("fits without DaemonSets {}{more}", names.join(", ")))
}

/// Returns the requirement of a pod and the values of all groups: `needs topology.kubernetes.io/zone=b; pool has a, c`.
fn words(first: &Refusal, all: &[Refusal]) -> String {
    let Some((key, _)) = first.label_found() else { return first.to_string() };
    let found: BTreeSet<&str> = all
        .iter()
        .filter_map(Refusal::label_found)
        .filter(|(other, _)| *other == key)
        .filter_map(|(_, found)| found)
        .collect();
    if found.is_empty() {
        return format!("{}; pool has none", first.wanted());
    }
    format!("{}; pool has {}", first.wanted(), found.into_iter().collect::<Vec<_>>().join(", "))
}

/// The verdicts on all groups of pods, those that did not count as demand among them.
#[must_use]
pub fn verdicts(ctx: &Context<'_>, answers: &BTreeMap<usize, Vec<PoolReason>>) -> Vec<PodVerdict> {
    // A group whose pods were all set aside is among those that did not count as demand.
    let wanted = ctx.demand.groups.iter().enumerate().filter(|(_, group)| group.pods_count != 0);
    let wanted = wanted.map(|(index, group)| PodVerdict {
        namespace: group.key.namespace.clone(),
        owner: group.owner.clone(),
        pods_count: group.pods_count,
        anticipated_count: group.anticipated_count,
        examples: group.examples.clone(),
        on_existing_count: group.on_existing,
        on_new: group.on_new.clone(),
        unplaced_count: group.unplaced(),
        skipped: None,
        pools: answers.get(&index).cloned().unwrap_or_default(),
    });
    let skipped = ctx.demand.skipped.iter().map(|skipped| PodVerdict {
        namespace: skipped.namespace.clone(),
        owner: skipped.owner.clone(),
        pods_count: skipped.pods_count,
        anticipated_count: skipped.anticipated_count,
        examples: skipped.examples.clone(),
        on_existing_count: 0,
        on_new: BTreeMap::new(),
        unplaced_count: 0,
        skipped: Some(skipped.reason),
        pools: Vec::new(),
    });
    wanted.chain(skipped).collect()
}

/// Converts the answers of other pools to the form in which decisions record them.
#[must_use]
pub fn considered(answers: &BTreeMap<usize, Vec<PoolReason>>) -> BTreeMap<usize, Vec<Considered>> {
    let record = |reason: &PoolReason| Considered {
        pool: reason.pool.clone(),
        reason: reason.reason,
        message: reason.message.clone(),
    };
    answers.iter().map(|(index, reasons)| (*index, reasons.iter().map(record).collect())).collect()
}

/// Rewrites each pool's refusals: pods without any place, by reason; `since` stays while a reason holds.
pub fn remember_refusals(ctx: &mut Context<'_>, answers: &BTreeMap<usize, Vec<PoolReason>>) {
    let mut all = Refusals::new();
    for (index, reasons) in answers {
        let group = &ctx.demand.groups[*index];
        let unplaced = group.unplaced();
        if unplaced == 0 {
            continue;
        }
        for reason in reasons {
            let key = (reason.pool.clone(), reason.reason);
            let (refused, largest) = all.entry(key).or_insert_with(|| {
                let refused = Refused {
                    reason: reason.reason,
                    message: reason.message.clone(),
                    pods_count: 0,
                    examples: Vec::new(),
                    since: ctx.now,
                };
                (refused, 0)
            });
            if *largest < unplaced {
                refused.message = reason.message.clone();
                *largest = unplaced;
            }
            refused.pods_count = refused.pods_count.saturating_add(unplaced);
            refused.examples.extend(group.examples.iter().cloned());
        }
    }
    note_gangs(ctx, &mut all);
    let mut by_pool: BTreeMap<Arc<str>, Vec<Refused>> = BTreeMap::new();
    for ((pool, _), (mut refused, _)) in all {
        refused.examples.sort();
        refused.examples.dedup();
        refused.examples.truncate(EXAMPLES_MAX);
        refused.since = since(ctx.history, &pool, refused.reason).unwrap_or(refused.since);
        by_pool.entry(pool).or_default().push(refused);
    }
    for pool in &ctx.config.pools {
        let refusals = by_pool.remove(&pool.name).unwrap_or_default();
        if !refusals.is_empty() || ctx.next.pools.contains_key(&pool.name) {
            ctx.next.pools.entry(pool.name.clone()).or_default().refusals = refusals;
        }
    }
}

/// Refusals by pool and reason, with the largest group of pods so far.
type Refusals = BTreeMap<(Arc<str>, Reason), (Refused, u32)>;

/// Adds the pods of gangs that did not fit whole, by what stopped the first pod too many.
fn note_gangs(ctx: &Context<'_>, all: &mut Refusals) {
    for gang in &ctx.reasons.gangs {
        for answer in gang.pools.iter().filter(|_| gang.reason == Some(Reason::GangDoesNotFit)) {
            let (refused, _) = all.entry((answer.pool.clone(), answer.reason)).or_insert_with(|| {
                let refused = Refused {
                    reason: answer.reason,
                    message: format!("{}; {}", gang.describe(), answer.message).into(),
                    pods_count: 0,
                    examples: Vec::new(),
                    since: ctx.now,
                };
                (refused, 0)
            });
            refused.pods_count = refused.pods_count.saturating_add(gang.pods_count);
            refused.examples.extend(gang.examples.iter().cloned());
        }
    }
}

fn since(history: &History, pool: &str, reason: Reason) -> Option<headroom_values::time::UnixTime> {
    let refusals = &history.pools.get(pool)?.refusals;
    refusals.iter().find(|refusal| refusal.reason == reason).map(|refusal| refusal.since)
}

/// Reason why a pool of this mode has fewer nodes than its minimum and gets none, or more than its maximum; `None`
/// where another condition of the pool reports it.
fn out_of_bounds(ctx: &mut Context<'_>, pool: &Arc<str>, mode: Mode) -> Option<Limit> {
    let state = ctx.cluster.pools.get(pool)?;
    let known_otherwise = state.pool.deleting || state.provider.is_none();
    if state.pool.mode != mode || known_otherwise || ctx.quarantine.pools.contains(pool) {
        return None;
    }
    let (bounds, target) = (state.bounds, state.target());
    if bounds.max < target {
        let message =
            format!("pool has {target} of at most {} nodes: lower its load, or raise maxNodes", bounds.max);
        return Some(Limit::new(Reason::MaxNodesExceeded, message));
    }
    let wanted = target.saturating_add(ctx.purchased(pool));
    if bounds.min <= wanted {
        return None;
    }
    let barrier = crate::barrier(ctx, pool);
    if barrier.as_ref().is_some_and(|limit| limit.reason == Reason::BackingOff) {
        return None;
    }
    let capacity = crate::new_capacity(ctx, pool);
    let full = || crate::rooms(ctx, pool, &capacity).into_iter().find(|room| room.nodes == 0);
    let limit = barrier.or_else(|| full().map(|room| room.limit))?;
    let each = match limit.reason {
        Reason::PoolLimitReached | Reason::ClusterLimitReached => format!(
            "; a new node has cpu {} and memory {}",
            headroom_values::quantity::format_cpu(capacity.cpu_milli),
            headroom_values::quantity::format_bytes(capacity.memory_bytes)
        ),
        _ => String::new(),
    };
    let (min, why) = (bounds.min, limit.reason.as_str());
    let message = format!("pool has {wanted} of at least {min} nodes: {why}, {}{each}", limit.message);
    Some(Limit::new(Reason::MinNodesUnreachable, message))
}

/// Records the reasons why pools as a whole do not grow.
pub fn pools(ctx: &mut Context<'_>) {
    for pool in &ctx.config.pools {
        let mut reasons = Vec::new();
        if ctx.quarantine.pools.contains(&pool.name) {
            reasons.push(Limit::new(Reason::Internal, "the pool was set aside for this tick"));
        }
        reasons.extend(out_of_bounds(ctx, &pool.name, Mode::Apply));
        reasons.extend(crate::barrier(ctx, &pool.name));
        if let Some(state) = ctx.cluster.pools.get(&pool.name) {
            let partly = state.groups.iter().filter_map(|(id, group)| {
                let barrier = limits::group_barrier(id, group)?;
                (barrier.reason == Reason::BackingOff).then_some(barrier)
            });
            let known: BTreeSet<Arc<str>> = reasons.iter().map(|limit| limit.message.clone()).collect();
            reasons.extend(partly.filter(|limit| !known.contains(&limit.message)));
        }
        if reasons.is_empty() {
            continue;
        }
        let pool_reasons = reasons.into_iter().map(|limit| PoolReason {
            pool: pool.name.clone(),
            reason: limit.reason,
            message: limit.message,
        });
        ctx.reasons.pools.entry(pool.name.clone()).or_default().extend(pool_reasons);
    }
}

/// The same for Preview pools that are out of their bounds, first among their reasons. Called while the purchases of Preview
/// pools are in the plan.
pub fn preview_pools(ctx: &mut Context<'_>) {
    for pool in &ctx.config.pools {
        let Some(limit) = out_of_bounds(ctx, &pool.name, Mode::Preview) else { continue };
        let reason = PoolReason { pool: pool.name.clone(), reason: limit.reason, message: limit.message };
        ctx.reasons.pools.entry(pool.name.clone()).or_default().insert(0, reason);
    }
}
