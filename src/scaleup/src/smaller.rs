//! Nodes of an offer as cheaper shapes of the same pool: of the machines that suit all pods best the last is seldom full. It buys
//! nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::context::Context;
use crate::packing::{Growable, Packing};
use headroom_cluster::scheduling::{ClassIx, PodRef, TemplateNode};
use headroom_pools::config::Pool;
use headroom_values::resources::Resources;

/// Makes each node of the packing one of the cheapest shape in its zone that takes the same pods. Groups that come in by it
/// are added to `groups`; `indexes` are those of the demand's groups that were packed.
///
/// Spot machines that are to be spread keep their shape, and no other becomes one of them: shares would not hold. Where amounts are
/// limited no node becomes one with more: the offer was bounded by what its own shape has.
pub(super) fn take(
    ctx: &mut Context<'_>,
    pool: &Arc<str>,
    (all, indexes): (&[Growable], &[usize]),
    groups: &mut Vec<Growable>,
    packing: &mut Packing,
) {
    let offered = offered(ctx, pool, all);
    if offered.is_empty() {
        return;
    }
    let limited = amounts_are_limited(ctx, pool);
    let mut next = vec![0; indexes.len()];
    packing.elsewhere.iter().for_each(|(_, index)| next[*index] += 1);
    let mut taken: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    for node in &mut packing.nodes {
        let pods = pods_of(ctx, indexes, &node.pods, &mut next);
        let asked = asked(ctx, &pods);
        let own = groups[node.group].id.clone();
        let Some(own) = offered.iter().find(|shape| shape.group.id == own) else { continue };
        let found = offered.iter().take_while(|shape| shape.price < own.price).find(|shape| {
            let size = shape.group.size;
            let left = size.max.saturating_sub(size.current);
            let there = taken.get(&shape.group.id).copied().unwrap_or(0);
            let bounded = !limited || shape.has_no_more_than(own);
            shape.zone == own.zone
                && there < left
                && bounded
                && holds(ctx, &shape.group.template, &asked, &pods)
        });
        if let Some(shape) = found {
            *taken.entry(shape.group.id.clone()).or_insert(0) += 1;
            let at = groups.iter().position(|group| group.id == shape.group.id);
            node.group = at.unwrap_or_else(|| {
                groups.push(shape.group.clone());
                groups.len() - 1
            });
        }
    }
}

/// A group with a price that may take the place of another.
struct Shape<'g> {
    group: &'g Growable,
    price: i64,
    zone: Option<Arc<str>>,
}

impl Shape<'_> {
    fn has_no_more_than(&self, other: &Self) -> bool {
        let [own, most] = [self, other].map(|shape| &shape.group.template.node.capacity);
        own.cpu_milli <= most.cpu_milli && own.memory_bytes <= most.memory_bytes
    }
}

/// True if the sum of CPU or memory is limited, of the pool or of the cluster, or a CapacityQuota limits anything.
fn amounts_are_limited(ctx: &Context<'_>, pool: &str) -> bool {
    let cluster = &ctx.config.cluster;
    ctx.config.pool(pool).is_some_and(Pool::limits_amounts)
        || cluster.max_cpu_milli.is_some()
        || cluster.max_memory_bytes.is_some()
        || !ctx.quotas.is_empty()
}

/// The groups whose price is known, the cheapest first, without those that are to be spread.
fn offered<'g>(ctx: &Context<'_>, pool: &Arc<str>, all: &'g [Growable]) -> Vec<Shape<'g>> {
    let Some(state) = ctx.cluster.pools.get(pool) else { return Vec::new() };
    let shape = |group: &'g Growable| {
        let at_cloud = state.groups.get(&group.id)?.state?;
        let price = ctx.cluster.price_per_hour_micro(pool, &group.id)?;
        let zone = at_cloud.zone.clone();
        at_cloud.diversity.is_none().then_some(Shape { group, price, zone })
    };
    let mut offered: Vec<Shape<'g>> = all.iter().filter_map(shape).collect();
    offered.sort_by_key(|shape| shape.price);
    offered
}

/// The pods of a packed node; `next` is the first of each of the demand's groups that no node before has.
fn pods_of(
    ctx: &Context<'_>,
    indexes: &[usize],
    packed: &[(usize, usize)],
    next: &mut [usize],
) -> Vec<(ClassIx, PodRef)> {
    let mut pods = Vec::new();
    for (index, count) in packed {
        let group = &ctx.demand.groups[indexes[*index]];
        let from = next[*index];
        next[*index] += count;
        pods.extend(group.pods.iter().skip(from).take(*count).map(|pod| (group.class, *pod)));
    }
    pods
}

/// The sum of what these pods request.
fn asked(ctx: &Context<'_>, pods: &[(ClassIx, PodRef)]) -> Resources {
    let mut asked = Resources::default();
    pods.iter().for_each(|(class, _)| asked.add(&ctx.snapshot.class(*class).requests));
    asked
}

/// True if a node of the template takes these pods, which request `asked` together, by itself.
fn holds(
    ctx: &mut Context<'_>,
    template: &Arc<TemplateNode>,
    asked: &Resources,
    pods: &[(ClassIx, PodRef)],
) -> bool {
    let offered = &template.node.allocatable;
    let budget = ctx.config.cluster.max_work_units;
    if offered.cpu_milli < asked.cpu_milli
        || offered.memory_bytes < asked.memory_bytes
        || budget <= ctx.snapshot.work_units
    {
        return false;
    }
    let mark = ctx.snapshot.checkpoint();
    let node = ctx.snapshot.add_node(template, "smaller".into());
    let holds = pods.iter().all(|(class, pod)| {
        let fits = ctx.snapshot.fits(*class, node);
        if fits {
            ctx.snapshot.place(*pod, node);
        }
        fits
    });
    ctx.snapshot.rollback(mark);
    holds
}
