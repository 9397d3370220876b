//! Back to the preferred pool: nodes of a pool that was the second choice are replaced once a pool that the expanders prefer
//! can be bought again. It removes nothing: what is bought is remembered with what it replaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::candidates::{Candidate, Fresh};
use crate::consolidation::{Offer, Purchase, buy, costs_less, may_leave, packed, spares};
use crate::minimums;
use crate::removal::Scene;
use crate::rotation::turn::{homeless, may_turn, next_turn};
use crate::verdicts::Verdict;
use headroom_cluster::history::EXAMPLES_MAX;
use headroom_cluster::scheduling::snapshot::{ClassIx, NodeIx, PodRef};
use headroom_cluster::world::node::{Node, Readiness};
use headroom_cluster::world::{NodeId, PodId};
use headroom_pools::config::{Config, Expander, Pool};
use headroom_pools::state::backoff;
use headroom_pools::state::health::not_started;
use headroom_scaleup::context::Context;
use headroom_scaleup::limits;
use headroom_scaleup::packing::Growable;
use headroom_scaleup::serve;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// A node is left alone until it and each of its pods are this old: whatever moved them here, nothing moves twice in an hour.
pub const RESTS_FOR: Seconds = Seconds::hours(1);
/// Nodes of one pool that are looked at in one plan, the oldest first.
const NODES_MAX: usize = 100;
/// Turns that are tried in one plan, each from another node on.
const TRIES_MAX: usize = 20;
/// Groups of a preferred pool that are looked at; zones differ little in what fits.
const GROUPS_MAX: usize = 4;

/// Source of a preference of one pool to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Priority,
    Price,
}

/// Buys nodes of preferred pools in place of some of `nodes`, and remembers which ones they replace: for one pool at a time, one
/// node at first, and nothing while a preferred group has failed a short time ago. Says of the others what they wait for.
///
/// The snapshot must be as it was before removals were tried, and is left so.
pub fn consider(ctx: &mut Context<'_>, scene: &Scene<'_>, nodes: Vec<Candidate>) {
    if nodes.is_empty()
        || scene.config.cluster.voluntary_disruption_stopped
        || scene.health.cluster_unhealthy()
    {
        return;
    }
    let taken = taken(ctx);
    let mut by_pool: BTreeMap<usize, Vec<Candidate>> = BTreeMap::new();
    for one in nodes.into_iter().filter(|one| !taken.contains(&one.victim.node)) {
        by_pool.entry(one.pool).or_default().push(one);
    }
    for (index, nodes) in by_pool {
        let pool = &scene.config.pools[index];
        for (other, by) in preferred_to(pool, scene.config) {
            if !scene.work_on(&other.name) {
                continue;
            }
            let suited = suited(ctx, scene, other, &nodes);
            note(ctx, scene, &suited, other);
            if replace(ctx, scene, (pool, other, by), suited) {
                break;
            }
        }
    }
    scene.work_done();
}

/// The node or one of these pods, if it is too young to be moved to a preferred pool.
#[must_use]
pub fn fresh(node: &Node, movable: &[PodId], scene: &Scene<'_>) -> Option<Fresh> {
    Fresh::of(movable, Some(node.created_at), RESTS_FOR, scene)
}

/// Time up to and including which a group has failed too recently to be bought from in place of others, if it has.
pub(crate) fn quiet_until(ctx: &mut Context<'_>, pool: &Arc<str>, group: &Arc<str>) -> Option<UnixTime> {
    let until = backoff::quiet_until(ctx.next.pools.get(pool)?, group)?;
    ctx.wake.note(until.plus(Seconds(1)));
    (ctx.now <= until).then_some(until)
}

/// True if nodes of another pool may not give way to this group to save costs: they would come back as the second choice, or
/// the group has failed before and something on them has been moved, or made, within the hour.
pub(crate) fn comes_back(
    ctx: &mut Context<'_>,
    scene: &Scene<'_>,
    set: &[Candidate],
    pool: &Pool,
    group: &Arc<str>,
) -> bool {
    let own = |one: &Candidate| &scene.config.pools[one.pool];
    let mut others = set.iter().filter(|one| own(one).name != pool.name);
    let returns = |one: &Candidate| {
        pool.scale_down.rotation.prefer_other_pool
            && preferred_by(own(one), pool, scene.config) == Some(By::Priority)
    };
    if others.clone().any(returns) {
        return true;
    }
    let memory = ctx.next.pools.get(&pool.name);
    if memory.and_then(|memory| backoff::quiet_until(memory, group)).is_none() {
        return false;
    }
    let is_fresh = |one: &Candidate| {
        let (_, node, _) = scene.world.node_named(&one.victim.node)?;
        fresh(node, &one.movable, scene)
    };
    let found = others.find_map(is_fresh);
    found.into_iter().for_each(|fresh| ctx.wake.note(fresh.until));
    found.is_some()
}

/// Nodes that leave, wait for others already, or have a place for their pods and a clock that runs.
fn taken(ctx: &Context<'_>) -> BTreeSet<Arc<str>> {
    let mut taken = BTreeSet::new();
    for memory in ctx.next.pools.values() {
        let victims = memory.removals().flat_map(|(_, removal)| &removal.victims);
        taken.extend(victims.map(|victim| victim.node.clone()));
        taken.extend(memory.replacement.iter().flat_map(|one| &one.nodes).map(|one| one.node.clone()));
        taken.extend(memory.unneeded.keys().cloned());
    }
    taken
}

/// Source of the preference of `pool` to `than` whatever the pods are: the expanders that the chain begins with decide.
/// `None` if they do not prefer it.
fn preferred_by(pool: &Pool, than: &Pool, config: &Config) -> Option<By> {
    for expander in &config.cluster.expanders {
        match expander {
            Expander::Priority if pool.priority == than.priority => {}
            Expander::Priority => return (than.priority < pool.priority).then_some(By::Priority),
            // All that is bought must cost less as well: see `costs_less`.
            Expander::Price => match (pool.price_per_hour_micro, than.price_per_hour_micro) {
                (Some(price), Some(other)) if price == other => {}
                (Some(price), Some(other)) => return (price < other).then_some(By::Price),
                (None, _) | (_, None) => return None,
            },
            Expander::LeastWaste
            | Expander::LeastNodes
            | Expander::MostPods
            | Expander::Random
            | Expander::Grpc => return None,
        }
    }
    None
}

/// The pools that are preferred to this one, the first choice first.
fn preferred_to<'c>(pool: &Pool, config: &'c Config) -> Vec<(&'c Pool, By)> {
    let others = config.pools.iter().filter(|other| other.name != pool.name && !other.scales_whole());
    let mut found: Vec<(&Pool, By)> =
        others.filter_map(|other| Some((other, preferred_by(other, pool, config)?))).collect();
    found.sort_by_key(|(other, by)| match by {
        By::Priority => (0, std::cmp::Reverse(i64::from(other.priority))),
        By::Price => (1, std::cmp::Reverse(-other.price_per_hour_micro.unwrap_or(0))),
    });
    found
}

/// The oldest of the nodes whose pods all fit new nodes of the pool, were there any.
fn suited(ctx: &mut Context<'_>, scene: &Scene<'_>, pool: &Pool, nodes: &[Candidate]) -> Vec<Candidate> {
    let Some(state) = ctx.cluster.pools.get(&pool.name) else { return Vec::new() };
    let groups: Vec<Arc<str>> = state.groups.keys().take(GROUPS_MAX).cloned().collect();
    let templates: Vec<_> = groups.iter().filter_map(|group| ctx.template(&pool.name, group)).collect();
    let mark = ctx.snapshot.checkpoint();
    let new: Vec<NodeIx> =
        templates.iter().map(|template| ctx.snapshot.add_node(template, "preferred".into())).collect();
    let mut fits: BTreeMap<ClassIx, bool> = BTreeMap::new();
    let mut found = nodes.to_vec();
    found.retain(|one| {
        one.movable.iter().all(|pod| {
            let class = ctx.snapshot.class_of(PodRef::Real(*pod));
            *fits.entry(class).or_insert_with(|| new.iter().any(|node| ctx.snapshot.fits(class, *node)))
        })
    });
    ctx.snapshot.rollback(mark);
    let made_at =
        |one: &Candidate| scene.world.node_named(&one.victim.node).map(|(_, node, _)| node.created_at);
    found.sort_by_cached_key(|one| (made_at(one), one.victim.node.clone()));
    found.truncate(NODES_MAX);
    found
}

/// Says of well-used nodes what they wait for.
fn note(ctx: &mut Context<'_>, scene: &Scene<'_>, nodes: &[Candidate], pool: &Pool) {
    let fresh: BTreeMap<NodeId, Option<Fresh>> = nodes.iter().map(|one| (one.id, one.fresh)).collect();
    if fresh.is_empty() {
        return;
    }
    ctx.reasons.nodes.change(|node, reason| {
        let fresh = fresh.get(&node).filter(|_| reason == Reason::NotUnderutilized)?;
        Some(match fresh {
            Some(fresh) => {
                let Verdict { reason, object } = fresh.verdict(scene);
                (reason, object)
            }
            None => (Reason::AwaitsPreferredPool, Some(format!("pool/{}", pool.name).into())),
        })
    });
}

/// Buys for the next turn of `pool` from the preferred pool; true if it did.
fn replace(
    ctx: &mut Context<'_>,
    scene: &Scene<'_>,
    (pool, other, by): (&Pool, &Pool, By),
    mut left: Vec<Candidate>,
) -> bool {
    left.iter().filter_map(|one| one.fresh).for_each(|fresh| ctx.wake.note(fresh.until));
    left.retain(|one| one.fresh.is_none());
    let Some(state) = ctx.cluster.pools.get(&other.name) else { return false };
    let barred = limits::pool_barrier(state, ctx.next.pools.get(&other.name)).is_some();
    if left.is_empty() || barred || !may_turn(ctx, other, scene) {
        return false;
    }
    let mut groups = serve::growables(ctx, &other.name);
    groups.retain(|group| quiet_until(ctx, &other.name, &group.id).is_none());
    groups.truncate(GROUPS_MAX);
    let most = if delivers(ctx, scene, other) { usize::MAX } else { 1 };
    let elsewhere = nodes_of_others(ctx, scene, other);
    for _ in 0..TRIES_MAX {
        let mut turn = next_turn(ctx, scene, pool, left.clone());
        turn.truncate(most);
        let Some(first) = turn.first().map(|one| one.ix) else { return false };
        while !turn.is_empty() {
            if let Some(offer) = offer(ctx, scene, (other, by, &groups), &turn, &elsewhere) {
                begin(ctx, pool, offer);
                return true;
            }
            turn.truncate(turn.len() / 2);
        }
        left.retain(|one| one.ix != first);
    }
    false
}

/// True if a ready node shows that the pool delivers again: one that came after its last failure.
fn delivers(ctx: &Context<'_>, scene: &Scene<'_>, pool: &Pool) -> bool {
    let memory = ctx.next.pools.get(&pool.name);
    let failed_at = memory.and_then(|memory| memory.backoffs.values().map(|backoff| backoff.since).max());
    scene.world.nodes().any(|(id, node, _)| {
        let member = scene.members.member(id);
        member.is_some_and(|member| scene.config.pools[member.pool].name == pool.name)
            && node.ready == Readiness::Ready
            && !not_started(node, pool, scene.now)
            && failed_at.is_none_or(|at| at < node.created_at)
    })
}

/// All nodes but those of the pool: pods that leave a second choice have no place there.
fn nodes_of_others(ctx: &Context<'_>, scene: &Scene<'_>, pool: &Pool) -> BTreeSet<NodeIx> {
    let of_pool = |ix: NodeIx| {
        let id = ctx.snapshot.node(ix).real().map(|(id, _)| id);
        let member = id.and_then(|id| scene.members.member(id));
        member.is_some_and(|member| scene.config.pools[member.pool].name == pool.name)
    };
    ctx.snapshot.indexes().filter(|ix| !of_pool(*ix)).collect()
}

/// Purchase for which the nodes of this turn can leave; `None` when there is none, or none that is cheaper where the price
/// decides.
fn offer(
    ctx: &mut Context<'_>,
    scene: &Scene<'_>,
    (other, by, groups): (&Pool, By, &[Growable]),
    turn: &[Candidate],
    elsewhere: &BTreeSet<NodeIx>,
) -> Option<Offer> {
    let mark = ctx.snapshot.checkpoint();
    let (rest, pods_count) = homeless(ctx, scene, turn, elsewhere);
    let room = minimums::of(scene, &BTreeMap::new());
    let found = groups.iter().find_map(|group| {
        let count = if rest.is_empty() { 0 } else { packed(ctx, other, group, &rest)? };
        let worth = by == By::Priority || costs_less(ctx, turn, scene, (&other.name, &group.id), count);
        let fits = worth
            && may_leave(turn, scene, &room, &other.name, &group.id, count)
            && spares(turn, scene, &group.template.node.capacity, count);
        fits.then(|| (group.id.clone(), count))
    });
    ctx.snapshot.rollback(mark);
    let (group, count) = found?;
    Some(Offer {
        pool: other.name.clone(),
        group,
        count,
        saving_micro: 0,
        before_micro: 0,
        pods_count,
        replaced: turn.to_vec(),
    })
}

/// Journals what is bought, and what it replaces.
fn begin(ctx: &mut Context<'_>, pool: &Pool, offer: Offer) {
    let names: Vec<&str> = offer.replaced.iter().take(EXAMPLES_MAX).map(|one| &*one.victim.node).collect();
    let more = if names.len() < offer.replaced.len() { " and others" } else { "" };
    let message = format!(
        "+{} nodes in place of {} of pool {}, which nodes.expanders choose after this one ({}{more}); {} pods move",
        offer.count,
        offer.replaced.len(),
        pool.name,
        names.join(", "),
        offer.pods_count,
    );
    buy(ctx, Purchase { offer, reason: Reason::PreferredNodes, message: message.into() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_pools::testing::{config, pool};

    #[test]
    fn chain_prefers_a_pool_as_far_as_it_begins_with_priorities_and_prices() {
        let mut config = config([
            pool("a").with(|pool| (pool.priority, pool.price_per_hour_micro) = (10, Some(3))),
            pool("b").with(|pool| (pool.priority, pool.price_per_hour_micro) = (20, Some(5))),
            pool("c").with(|pool| (pool.priority, pool.price_per_hour_micro) = (20, None)),
        ]);
        let mut found = |chain: &[Expander], pool: usize| {
            config.cluster.expanders = chain.to_vec();
            let others = preferred_to(&config.pools[pool], &config);
            others.into_iter().map(|(other, by)| (other.name.to_string(), by)).collect::<Vec<_>>()
        };
        let by = |name: &str, by: By| (name.to_owned(), by);
        assert_eq!(found(&[Expander::Priority], 0), [by("b", By::Priority), by("c", By::Priority)]);
        assert_eq!(found(&[Expander::Priority], 1), []);
        assert_eq!(found(&[Expander::Price], 1), [by("a", By::Price)]);
        assert_eq!(found(&[Expander::Price], 0), []);
        assert_eq!(found(&[Expander::Priority, Expander::Price], 2), []);
        assert_eq!(found(&[Expander::LeastWaste, Expander::Priority], 0), []);
        assert_eq!(found(&[], 0), []);
    }
}
