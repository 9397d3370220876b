//! Which groups grow by how much: valid groups, options, one winner, limits, balancing. It calls no cloud.
//!
//! Source: core/scaleup/orchestrator/orchestrator.go.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::observe::GPU;
use super::quota::Quota;
use super::status::{Offered, RefusedPods, Rejection, Resized, ScaleUpResult, ScaleUpStatus, Skip};
use super::templates::Group;
use super::trial::{PodGroup, takers, try_group};
use crate::config::Profile;
use crate::nodes::balance::{self, Size};
use crate::nodes::context::Context;
use crate::nodes::expander::{self, Offer, Surroundings};
use crate::nodes::packing::Wanted;
use crate::nodes::registry::Report;
use crate::nodes::similarity::Shape;
use crate::nodes::{equivalence, estimator};
use crate::resources::Resources;
use crate::scheduling::{PodRef, TemplateNode};
use crate::time::Seconds;
use crate::world::PodId;
use crate::world::pod::Pod;

/// Pods younger than this are waited for: more may come. Source: static_autoscaler.go, unschedulablePodTimeBuffer.
const BUFFER: Seconds = Seconds(2);
/// The same for pods that ask for GPUs, of which more come later.
const BUFFER_WITH_GPU: Seconds = Seconds(30);

/// What one group could do.
struct GroupOption {
    group: usize,
    nodes: u32,
    scheduled: Vec<usize>,
    pods: usize,
    similar: Vec<usize>,
}

/// Decides for the pods that wait.
pub fn decide(
    ctx: &mut Context<'_>,
    groups: &[Group],
    report: &Report,
    waiting: &[PodId],
    ready: i64,
) -> ScaleUpStatus {
    let pods: Vec<&Pod> = waiting.iter().map(|id| &ctx.world.pod(*id).pod).collect();
    if pods.is_empty() {
        return ScaleUpStatus::of(ScaleUpResult::NotNeeded);
    }
    if ctx.config.cluster.max_nodes.is_some_and(|max| i64::from(max) <= ready) {
        let mut status = ScaleUpStatus::of(ScaleUpResult::LimitedByMaxNodesTotal);
        let (pods, none) = (waiting.to_vec(), BTreeMap::new());
        status.refused = vec![RefusedPods { pods, rejected: none, skipped: BTreeMap::new() }];
        return status;
    }
    if ctx.config.cluster.upstream.bypassed_schedulers.is_empty() && all_new(ctx, &pods) {
        return ScaleUpStatus::of(ScaleUpResult::InCooldown);
    }
    let pod_groups = pod_groups(ctx, waiting, &pods);
    choose(ctx, groups, report, &pod_groups)
}

fn all_new(ctx: &Context<'_>, pods: &[&Pod]) -> bool {
    let oldest = |gpu_only: bool| {
        let counted = pods.iter().filter(|pod| !gpu_only || 0 < pod.class.requests.extended(GPU));
        counted.map(|pod| pod.created_at).min()
    };
    oldest(false).is_some_and(|at| ctx.now < at.plus(BUFFER))
        || oldest(true).is_some_and(|at| ctx.now < at.plus(BUFFER_WITH_GPU))
}

fn pod_groups(ctx: &Context<'_>, waiting: &[PodId], pods: &[&Pod]) -> Vec<PodGroup> {
    let group = |members: Vec<usize>| {
        let ids: Vec<PodId> = members.iter().map(|index| waiting[*index]).collect();
        let pods: Vec<PodRef> = ids.iter().map(|id| PodRef::Real(*id)).collect();
        PodGroup { class: ctx.snapshot.class_of(pods[0]), ids, pods }
    };
    equivalence::groups(pods).into_iter().map(group).collect()
}

fn choose(ctx: &mut Context<'_>, groups: &[Group], report: &Report, pods: &[PodGroup]) -> ScaleUpStatus {
    let quota = quota(ctx, groups);
    let mut skipped: BTreeMap<Arc<str>, Skip> = BTreeMap::new();
    let mut valid = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        match skip(ctx, group, report, &quota) {
            Some(why) => {
                skipped.insert(group.id.clone(), why);
            }
            None => valid.push(index),
        }
    }
    let verdicts: BTreeMap<usize, Vec<Option<Rejection>>> =
        valid.iter().map(|index| (*index, try_group(ctx, &groups[*index], pods))).collect();
    let options: Vec<GroupOption> =
        valid.iter().filter_map(|index| option(ctx, groups, *index, &verdicts, pods)).collect();
    let mut status = ScaleUpStatus::of(ScaleUpResult::NoOptionsAvailable);
    status.note_takers(takers(ctx, groups, &verdicts, &skipped, pods));
    if options.is_empty() {
        return status;
    }
    let offers: Vec<Offer> = options.iter().map(|option| offer(ctx, groups, option, pods)).collect();
    let left = narrowed(ctx, &offers, report);
    status.options = options.iter().map(|option| offered(groups, option)).collect();
    status.tie = left.iter().map(|index| offers[*index].name.clone()).collect();
    status.tie.sort();
    let Some(best) = left.into_iter().min_by(|a, b| offers[*a].name.cmp(&offers[*b].name)) else {
        status.tie.clear();
        return status;
    };
    if status.tie.len() == 1 {
        status.tie.clear();
    }
    let best = &options[best];
    status.triggered = pods
        .iter()
        .zip(&best.scheduled)
        .flat_map(|(group, count)| group.ids.iter().take(*count).copied())
        .collect();
    let mut quota = quota;
    let increased = sizes(ctx, groups, best, &mut quota);
    if increased.is_empty() {
        status.result = ScaleUpResult::Error;
        return status;
    }
    status.awaiting = status.awaiting(&groups[best.group].id);
    status.result = ScaleUpResult::Successful;
    status.increased = increased;
    status
}

/// What is left of the cluster's limits beside nodes that exist or are on their way.
fn quota(ctx: &Context<'_>, groups: &[Group]) -> Quota {
    let real = ctx.world.nodes().map(|(_, node, _)| &node.capacity);
    let coming = ctx.planned.iter().filter_map(|planned| {
        let group = groups.iter().find(|group| group.id == planned.group)?;
        Some(&group.template.as_ref()?.node.capacity)
    });
    Quota::new(&ctx.config.cluster, real.chain(coming))
}

/// Nodes that exist or are on their way.
fn nodes_now(ctx: &Context<'_>) -> i64 {
    i64::try_from(ctx.world.nodes().count() + ctx.planned.len()).unwrap_or(i64::MAX)
}

fn skip(ctx: &Context<'_>, group: &Group, report: &Report, quota: &Quota) -> Option<Skip> {
    let told = report.groups.get(&group.id)?;
    if !told.healthy {
        return Some(Skip::NotReady);
    }
    if told.backoff.is_some() {
        return Some(Skip::BackedOff);
    }
    if group.max <= group.target {
        return Some(Skip::MaxSize);
    }
    let nodes = if group.zero_or_max { group.max - group.target } else { 1 };
    let over = |max: u32| i64::from(max) < nodes_now(ctx) + nodes;
    if group.zero_or_max && ctx.config.cluster.max_nodes.is_some_and(over) {
        return Some(Skip::AtomicOverNodeLimit);
    }
    let Some(template) = &group.template else { return Some(Skip::NotReady) };
    let exceeded = quota.exceeded(&template.node.capacity, nodes);
    (!exceeded.is_empty()).then_some(Skip::Quota(exceeded))
}

fn option(
    ctx: &mut Context<'_>,
    groups: &[Group],
    index: usize,
    verdicts: &BTreeMap<usize, Vec<Option<Rejection>>>,
    pods: &[PodGroup],
) -> Option<GroupOption> {
    let group = &groups[index];
    let template = group.template.clone()?;
    let hosts = |index: usize| -> Vec<usize> {
        let verdicts = verdicts.get(&index).map_or(&[][..], Vec::as_slice);
        verdicts.iter().enumerate().filter(|(_, why)| why.is_none()).map(|(index, _)| index).collect()
    };
    let own = hosts(index);
    if own.is_empty() {
        return None;
    }
    let mut similar = Vec::new();
    for other in verdicts.keys().copied().filter(|other| *other != index) {
        let able = hosts(other);
        if own.iter().all(|pods| able.contains(pods)) && alike(ctx, group, &groups[other]) {
            similar.push(other);
        }
    }
    let wanted: Vec<Wanted<'_>> =
        pods.iter().map(|group| Wanted { class: group.class, priority: 0, pods: &group.pods }).collect();
    let rooms = similar.iter().chain([&index]).map(|index| groups[*index].max - groups[*index].target);
    let limit = estimator::nodes_max(
        ctx.config.cluster.max_nodes_per_scale_up,
        ctx.config.cluster.max_nodes.map(|max| i64::from(max) - nodes_now(ctx)),
        rooms,
    );
    let estimate = estimator::estimate(&mut ctx.snapshot, &template, &wanted, Some(limit));
    let pods = estimate.scheduled.iter().sum();
    let all = u32::try_from(group.max.max(0)).unwrap_or(u32::MAX);
    let nodes = if group.zero_or_max { all } else { estimate.nodes };
    (nodes != 0 && pods != 0).then_some(GroupOption {
        group: index,
        nodes,
        scheduled: estimate.scheduled,
        pods,
        similar,
    })
}

/// Whether balancing may swap one group for the other.
fn alike(ctx: &Context<'_>, a: &Group, b: &Group) -> bool {
    let Some(rule) = &ctx.config.cluster.upstream.balancing else { return false };
    let (Some(x), Some(y)) = (&a.template, &b.template) else { return false };
    !a.zero_or_max && !b.zero_or_max && rule.similar(shape(x), shape(y))
}

fn shape(template: &TemplateNode) -> Shape<'_> {
    Shape { node: &template.node, requested: &template.daemon_requested }
}

fn offer(ctx: &Context<'_>, groups: &[Group], option: &GroupOption, pods: &[PodGroup]) -> Offer {
    let group = &groups[option.group];
    let pool = ctx.config.pool(&group.pool);
    let mut requested = Resources::default();
    for (group, count) in pods.iter().zip(&option.scheduled) {
        let each = &ctx.snapshot.class(group.class).requests;
        requested.add(&each.times(i64::try_from(*count).unwrap_or(i64::MAX)));
    }
    Offer {
        name: group.id.clone(),
        nodes: option.nodes,
        pods: u32::try_from(option.pods).unwrap_or(u32::MAX),
        node: group.template.as_ref().map(|template| template.node.capacity.clone()).unwrap_or_default(),
        requested,
        priority: pool.map_or(0, |pool| pool.priority),
        price_per_hour_micro: pool.and_then(|pool| pool.price_per_hour_micro),
        limited: false,
        gpu: group.has_gpu(&ctx.config.cluster.upstream),
    }
}

fn narrowed(ctx: &Context<'_>, offers: &[Offer], report: &Report) -> Vec<usize> {
    let cluster_nodes = u32::try_from(report.total.registered.len()).unwrap_or(u32::MAX);
    let around = Surroundings { cluster_nodes, profile: Profile::ClusterAutoscaler };
    let all = (0..offers.len()).collect();
    ctx.config
        .cluster
        .expanders
        .iter()
        .fold(all, |left: Vec<usize>, expander| expander::narrow(*expander, offers, &left, around))
}

fn offered(groups: &[Group], option: &GroupOption) -> Offered {
    Offered {
        group: groups[option.group].id.clone(),
        nodes: option.nodes,
        pods: option.pods,
        similar: option.similar.iter().map(|index| groups[*index].id.clone()).collect(),
    }
}

/// The sizes wanted: capped in all, spread over the groups, then each capped by what is left of the limits.
fn sizes(ctx: &Context<'_>, groups: &[Group], best: &GroupOption, quota: &mut Quota) -> Vec<Resized> {
    let mut nodes = i64::from(best.nodes);
    if let Some(max) = ctx.config.cluster.max_nodes {
        nodes = nodes.min(i64::from(max) - nodes_now(ctx));
    }
    let capacity = |group: &Group| {
        group.template.as_ref().map(|template| template.node.capacity.clone()).unwrap_or_default()
    };
    nodes = quota.allowed(&capacity(&groups[best.group]), nodes).max(0);
    let members: Vec<&Group> = std::iter::once(&groups[best.group])
        .chain(best.similar.iter().map(|index| &groups[*index]))
        .collect();
    let number = |value: i64| u32::try_from(value.max(0)).unwrap_or(u32::MAX);
    let before: Vec<Size> =
        members.iter().map(|group| Size { current: number(group.target), max: number(group.max) }).collect();
    let grown = balance::grown(&before, number(nodes));
    let mut resized = Vec::new();
    for (index, size) in grown {
        let group = members[index];
        let node = capacity(group);
        let wanted = i64::from(size) - group.target;
        let allowed = quota.allowed(&node, wanted);
        if 0 < allowed {
            quota.take(&node, allowed);
            resized.push(Resized {
                group: group.id.clone(),
                current: group.target,
                new: group.target + allowed,
            });
        }
    }
    resized
}

/// Fills every group up to its minimum, after what was decided for pods.
///
/// Source: orchestrator.go, ScaleUpToNodeGroupMinSize. The node limit is compared with the group's own size, as there.
pub fn fill_up(
    ctx: &Context<'_>,
    groups: &[Group],
    report: &Report,
    decided: &ScaleUpStatus,
) -> ScaleUpStatus {
    let mut quota = quota(ctx, groups);
    let mut increased = Vec::new();
    for group in groups {
        let mut group = group.clone();
        if let Some(resized) = decided.increased.iter().find(|resized| resized.group == group.id) {
            group.target = resized.new;
        }
        if group.min <= group.target || skip(ctx, &group, report, &quota).is_some() {
            continue;
        }
        let Some(template) = &group.template else { continue };
        let mut nodes = quota.allowed(&template.node.capacity, group.min - group.target);
        if let Some(max) = ctx.config.cluster.max_nodes {
            nodes = nodes.min(i64::from(max) - group.target);
        }
        if 0 < nodes {
            quota.take(&template.node.capacity, nodes);
            let (current, new) = (group.target, group.target + nodes);
            increased.push(Resized { group: group.id.clone(), current, new });
        }
    }
    let result = if increased.is_empty() { ScaleUpResult::NotNeeded } else { ScaleUpResult::Successful };
    let mut status = ScaleUpStatus::of(result);
    status.increased = increased;
    status
}
