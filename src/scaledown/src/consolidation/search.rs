//! Search for nodes that could be replaced by nodes that cost less: one by one, and several by fewer. The best is
//! bought at once, and the nodes that it replaces are remembered before.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::CLOCKS_DIFFER;
use crate::budgets::Allowance;
use crate::candidates::{self, Candidate};
use crate::consolidation::replacing::wake_at;
use crate::consolidation::{market, price};
use crate::drainability::Disruptions;
use crate::minimums::{self, Room, Spare};
use crate::relocation::Destinations;
use crate::removal::Scene;
use crate::rotation::preferred;
use crate::standby::Standby;
use crate::trial::pods_to_move;
use headroom_cluster::history::{
    Action, Decision, DecisionAction, DecisionOutcome, EXAMPLES_MAX, Increase, Intent, REPLACED_MAX,
    Replaced, Replacement,
};
use headroom_cluster::scheduling::snapshot::{ClassIx, NodeIx, PodRef, Presence};
use headroom_cluster::world::digest::Amounts;
use headroom_pools::config::{Config, Consolidation, Mode, Policy, Pool};
use headroom_pools::plan::Step;
use headroom_pools::state::cluster_state::GroupCounts;
use headroom_pools::state::group_settings::GroupSettings;
use headroom_scaleup::context::Context;
use headroom_scaleup::diversity;
use headroom_scaleup::limits;
use headroom_scaleup::packing::{self, Growable, PackingLimits, Wanted};
use headroom_scaleup::{bounds, journal, serve};
use headroom_values::reason::Reason;
use headroom_values::resources::Resources;
use headroom_values::time::{Seconds, UnixTime};

/// Nodes that are looked at one by one, those with most to save first.
const SINGLES_MAX: usize = 20;
/// Groups of a pool, or of each of its shapes, that are looked at; zones differ little in what a node costs.
const GROUPS_MAX: usize = 4;
/// Work units (pod-node checks) that one plan spends in this search.
const WORK_MAX: u64 = 2_000_000;
/// Nothing is bought in place of others while more than one node of so many has a clock that runs.
const QUIET_PART: usize = 50;
/// From the new nodes being ready to the last old one having left.
pub(super) const REMOVAL_TIME: Seconds = Seconds::hours(1);

/// Nodes of one group in place of others.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) pool: Arc<str>,
    pub(crate) group: Arc<str>,
    /// Nodes to buy.
    pub(crate) count: u32,
    /// Saving in an hour, in millionths; 0 where nothing need be saved.
    pub(crate) saving_micro: i64,
    /// Price of what is replaced likewise.
    pub(crate) before_micro: i64,
    /// Pods that move.
    pub(crate) pods_count: usize,
    /// Nodes that leave.
    pub(crate) replaced: Vec<Candidate>,
}

/// What is there beside the nodes that are replaced.
struct Staying {
    /// Nodes that may leave before a bound is reached.
    room: Room,
    /// Nodes that may take their pods.
    destinations: Destinations,
}

/// An offer that is taken.
pub(crate) struct Purchase {
    pub(crate) offer: Offer,
    /// `CheaperNodes`, `OutdatedNodes` or `PreferredNodes`.
    pub(crate) reason: Reason,
    pub(crate) message: Arc<str>,
}

/// Buys nodes in place of some of `nodes` if that saves enough, and remembers which ones they replace.
///
/// Nothing is considered while anything is under way: what a plan has bought or removes changes what is worth it. The
/// snapshot must be as it was before removals were tried, and is left so.
pub fn consider(ctx: &mut Context<'_>, scene: &Scene<'_>, nodes: Vec<Candidate>) {
    if let Some(at) = wake_at(&ctx.next, ctx.now) {
        ctx.wake.note(at);
    }
    if nodes.is_empty() || !quiet(ctx, scene) {
        return;
    }
    let mut nodes = suitable(ctx, scene, nodes);
    nodes.sort_by_cached_key(|one| {
        let view = ctx.snapshot.node(one.ix);
        let idle = price::of_amounts(view.allocatable()).saturating_sub(price::of_amounts(view.requested()));
        (std::cmp::Reverse(idle), one.victim.node.clone())
    });
    nodes.truncate(SINGLES_MAX.max(REPLACED_MAX));
    let begun = ctx.snapshot.work_units;
    let room = minimums::of(scene, &BTreeMap::new());
    let mut staying = Staying { room, destinations: Destinations::new(order(ctx, scene, &nodes)) };
    let singles = nodes.iter().take(SINGLES_MAX).map(|one| vec![one.clone()]);
    let several = (2..=REPLACED_MAX.min(nodes.len())).map(|count| {
        let mut set = nodes[..count].to_vec();
        // In the order in which they will be tried when the new nodes are there: the result of now is to hold then.
        set.sort_by(|a, b| (a.movable.len(), &a.victim.node).cmp(&(b.movable.len(), &b.victim.node)));
        set
    });
    let mut best: Option<Offer> = None;
    for set in singles.chain(several).collect::<Vec<_>>() {
        if WORK_MAX < ctx.snapshot.work_units.saturating_sub(begun) {
            break;
        }
        let Some(offer) = offer(ctx, scene, &set, &mut staying) else { continue };
        let better = |other: &Offer| {
            (other.saving_micro, std::cmp::Reverse(other.pods_count))
                < (offer.saving_micro, std::cmp::Reverse(offer.pods_count))
        };
        if best.as_ref().is_none_or(better) {
            best = Some(offer);
        }
    }
    if let Some(offer) = best {
        let message = message(&offer);
        buy(ctx, Purchase { offer, reason: Reason::CheaperNodes, message });
    }
}

/// True if nothing is under way that may change what is worth it.
fn quiet(ctx: &Context<'_>, scene: &Scene<'_>) -> bool {
    let idle = |memory: &headroom_cluster::history::PoolHistory| {
        memory.intents.is_empty() && memory.replacement.is_none()
    };
    !scene.config.cluster.voluntary_disruption_stopped
        && !load_falls(ctx, scene)
        && !scene.health.cluster_unhealthy()
        && ctx.purchases.values().all(|bought| bought.nodes == 0)
        && ctx.demand.groups.iter().all(|group| group.unplaced() == 0)
        && ctx.next.pools.values().all(idle)
}

/// True if so many nodes may leave before long that what is bought now may not be needed then: their room, or that of nodes on which their
/// pods will not be any more, may do; and a pod should be moved once. A node whose clock has run out is kept by something else, maybe for long.
fn load_falls(ctx: &Context<'_>, scene: &Scene<'_>) -> bool {
    let soon = scene.config.pools.iter().map(|pool| {
        let runs = |since: &&UnixTime| scene.now < since.plus(pool.scale_down.unneeded_for);
        let memory = ctx.next.pools.get(&pool.name);
        memory.map_or(0, |memory| memory.unneeded.values().filter(runs).count())
    });
    ctx.snapshot.real_count() < soon.sum::<usize>() * QUIET_PART
}

/// Candidates that could leave now if their pods had a place.
fn suitable(ctx: &Context<'_>, scene: &Scene<'_>, nodes: Vec<Candidate>) -> Vec<Candidate> {
    let mut disruptions = Disruptions::of(scene.world);
    let allowance = Allowance::new(scene.config, &ctx.next, scene.health.ready.clone(), scene.now);
    let lets_go = |pool: &Pool| {
        let memory = ctx.next.pools.get(&pool.name);
        let failed_at = memory.and_then(|memory| memory.last_failure);
        let cooling = failed_at.is_some_and(|at| scene.now < at.plus(pool.scale_down.delay_after_failure));
        pool.mode == Mode::Apply && !cooling && allowance.clone().take(pool, Reason::Consolidated).is_ok()
    };
    // Thousands of nodes are of few pools.
    let letting_go: Vec<bool> = scene.config.pools.iter().map(lets_go).collect();
    let leaves = |one: &Candidate| {
        let node = || scene.world.node_named(&one.victim.node).map(|(_, node, _)| node);
        let pool = &scene.config.pools[one.pool];
        letting_go[one.pool]
            && one.is_for_use()
            && one.waits_for.is_none()
            && !scene.health.forbids(&one.zone)
            && node().is_some_and(|node| candidates::fresh(node, &one.movable, pool, scene).is_none())
    };
    let free = |disruptions: &mut Disruptions<'_>, one: &Candidate| {
        one.movable.iter().all(|pod| {
            let entry = scene.world.pod(*pod);
            disruptions.exhausted(entry.class, &entry.pod.class).is_none()
        })
    };
    nodes.into_iter().filter(|one| leaves(one) && free(&mut disruptions, one)).collect()
}

/// True if all of `set` and new nodes of the group are spot machines, or none is: by their amounts alone nodes of two markets
/// cannot be compared, a spot machine being far cheaper than one of half its size on demand.
fn same_market(
    ctx: &Context<'_>,
    set: &[Candidate],
    scene: &Scene<'_>,
    (pool, growable): (&Pool, &Growable),
) -> bool {
    let new = market::is_spot(&ctx.cluster, (&pool.name, &growable.id), &growable.template.node.labels);
    set.iter().all(|one| {
        let pool = &scene.config.pools[one.pool];
        let node = scene.world.node_named(&one.victim.node).map(|(_, node, _)| node);
        node.is_some_and(|node| market::is_spot(&ctx.cluster, (&pool.name, &one.group), &node.labels) == new)
    })
}

/// The cheapest nodes of one group that take over from `set`, if that is worth it.
fn offer(
    ctx: &mut Context<'_>,
    scene: &Scene<'_>,
    set: &[Candidate],
    staying: &mut Staying,
) -> Option<Offer> {
    let mark = ctx.snapshot.checkpoint();
    let found = offer_on(ctx, scene, set, staying);
    ctx.snapshot.rollback(mark);
    found
}

fn offer_on(
    ctx: &mut Context<'_>,
    scene: &Scene<'_>,
    set: &[Candidate],
    staying: &mut Staying,
) -> Option<Offer> {
    let mark = ctx.snapshot.checkpoint();
    for pod in set.iter().flat_map(|one| &one.movable) {
        let class = ctx.snapshot.class_of(PodRef::Real(*pod));
        staying.destinations.look_ahead(&mut ctx.snapshot, class);
    }
    let mut destinations = staying.destinations.clone();
    let mut rest: BTreeMap<ClassIx, Vec<PodRef>> = BTreeMap::new();
    let mut pods_count = 0;
    for one in set {
        ctx.snapshot.set_presence(one.ix, Presence::Ghost);
    }
    for one in set {
        for pod in pods_to_move(one, &ctx.snapshot, scene) {
            pods_count += 1;
            if destinations.move_all(&mut ctx.snapshot, &[pod], one.ix).is_err() {
                rest.entry(ctx.snapshot.class_of(pod)).or_default().push(pod);
            }
        }
    }
    // Everything fits elsewhere one way or another: a removal for nothing, which is decided as such.
    if rest.is_empty() {
        return None;
    }
    let percent = set.iter().filter_map(|one| percent(&scene.config.pools[one.pool])).max()?;
    let mut offers = Vec::new();
    for pool in &scene.config.pools {
        for growable in may_grow(ctx, pool) {
            if preferred::comes_back(ctx, scene, set, pool, &growable.id) {
                continue;
            }
            let new = ctx.cluster.price_per_hour_micro(&pool.name, &growable.id);
            let known = new.is_some() && all_priced(ctx, set, scene);
            if !known && !same_market(ctx, set, scene, (pool, &growable)) {
                continue;
            }
            let before_micro = price_of(ctx, set, scene, known);
            let each = price::of_node(new, &growable.template.node.capacity, known);
            // Whether one node would be worth it is known without a search.
            if !price::worth_it(before_micro, each, percent) {
                continue;
            }
            let Some(count) = packed(ctx, pool, &growable, &rest) else { continue };
            let after_micro = each.saturating_mul(i64::from(count));
            if price::worth_it(before_micro, after_micro, percent)
                && may_leave(set, scene, &staying.room, &pool.name, &growable.id, count)
                && spares(set, scene, &growable.template.node.capacity, count)
                && diversity::may_replace(ctx, (&pool.name, &growable.id), count, groups_of(ctx.config, set))
            {
                let offer = Offer {
                    pool: pool.name.clone(),
                    group: growable.id.clone(),
                    count,
                    saving_micro: before_micro.saturating_sub(after_micro),
                    before_micro,
                    pods_count,
                    replaced: set.to_vec(),
                };
                offers.push((offer, growable));
            }
        }
    }
    offers.sort_by_key(|(offer, _)| (std::cmp::Reverse(offer.saving_micro), offer.count));
    ctx.snapshot.rollback(mark);
    offers
        .into_iter()
        .find(|(offer, growable)| holds_all(ctx, scene, (offer, growable), &mut staying.destinations))
        .map(|(offer, _)| offer)
}

fn percent(pool: &Pool) -> Option<u32> {
    match pool.scale_down.policy {
        Policy::WhenUnderutilized => None,
        Policy::WhenCheaper(consolidation) => Some(consolidation.min_saving_percent),
    }
}

/// True if so many nodes of this pool and group cost less by known prices, by as much as consolidation must save.
pub(crate) fn costs_less(
    ctx: &Context<'_>,
    set: &[Candidate],
    scene: &Scene<'_>,
    (pool, group): (&str, &str),
    count: u32,
) -> bool {
    let own = |one: &Candidate| &scene.config.pools[one.pool];
    let Some(each) = ctx.cluster.price_per_hour_micro(pool, group) else { return false };
    if !all_priced(ctx, set, scene) {
        return false;
    }
    let least = Consolidation::default().min_saving_percent;
    let percents = set.iter().map(|one| percent(own(one)).unwrap_or(least));
    let after_micro = each.saturating_mul(i64::from(count));
    price::worth_it(price_of(ctx, set, scene, true), after_micro, percents.max().unwrap_or(least))
}

fn own_price(ctx: &Context<'_>, one: &Candidate, scene: &Scene<'_>) -> Option<i64> {
    ctx.cluster.price_per_hour_micro(&scene.config.pools[one.pool].name, &one.group)
}

fn all_priced(ctx: &Context<'_>, set: &[Candidate], scene: &Scene<'_>) -> bool {
    set.iter().all(|one| own_price(ctx, one, scene).is_some())
}

fn price_of(ctx: &Context<'_>, set: &[Candidate], scene: &Scene<'_>, known: bool) -> i64 {
    let each = set.iter().filter_map(|one| {
        let (_, node, _) = scene.world.node_named(&one.victim.node)?;
        Some(price::of_node(own_price(ctx, one, scene), &node.capacity, known))
    });
    each.fold(0, i64::saturating_add)
}

/// Nodes that are not about to leave, in order, of which those that are replaced take no pods: a node with a clock may be gone when pods
/// come. Those with too little room for any pod of `nodes` are left out.
fn order(ctx: &Context<'_>, scene: &Scene<'_>, nodes: &[Candidate]) -> Vec<NodeIx> {
    let unneeded = ctx.next.pools.values().flat_map(|memory| memory.unneeded.keys());
    let unneeded: FxHashSet<NodeIx> = unneeded.filter_map(|name| ctx.snapshot.named(name)).collect();
    let snapshot = &ctx.snapshot;
    let pods = nodes.iter().flat_map(|one| pods_to_move(one, snapshot, scene));
    let asked = pods.map(|pod| Amounts::of(&snapshot.class(snapshot.class_of(pod)).requests));
    // What standby pods keep may be room for others, who are then moved.
    let least = if snapshot.has_standby() { None } else { asked.reduce(Amounts::least) }.unwrap_or_default();
    let takes = |ix: &NodeIx| {
        candidates::takes_pods(*ix, snapshot) && least.fit(snapshot.room(*ix)) && !unneeded.contains(ix)
    };
    snapshot.indexes().filter(takes).collect()
}

/// The groups of a pool from which nodes may be bought now.
fn may_grow(ctx: &mut Context<'_>, pool: &Pool) -> Vec<Growable> {
    let Some(state) = ctx.cluster.pools.get(&pool.name) else { return Vec::new() };
    let memory = ctx.next.pools.get(&pool.name);
    let held =
        memory.and_then(|memory| memory.consolidation_backoff).is_some_and(|held| ctx.now <= held.until);
    let barred = limits::pool_barrier(state, memory).is_some();
    // A whole group costs more than what a few nodes of it would replace.
    let apart = pool.mode != Mode::Apply || pool.scales_whole();
    if apart || held || barred || ctx.quarantine.pools.contains(&pool.name) {
        return Vec::new();
    }
    let mut groups = serve::growables(ctx, &pool.name);
    groups.retain(|group| preferred::quiet_until(ctx, &pool.name, &group.id).is_none());
    let state = ctx.cluster.pools.get(&pool.name);
    let rank = |group: &Growable| state.and_then(|state| state.rank_of(&group.id));
    let mut of_rank: BTreeMap<Option<u32>, usize> = BTreeMap::new();
    groups.retain(|group| {
        let count = of_rank.entry(rank(group)).or_default();
        *count += 1;
        *count <= GROUPS_MAX
    });
    groups
}

/// Returns the number of nodes of the group that take all of `rest`; `None` when they do not.
pub(crate) fn packed(
    ctx: &mut Context<'_>,
    pool: &Pool,
    growable: &Growable,
    rest: &BTreeMap<ClassIx, Vec<PodRef>>,
) -> Option<u32> {
    let most = bounds::room(ctx, &pool.name, &growable.template.node.capacity);
    let wanted: Vec<Wanted<'_>> = rest
        .iter()
        .map(|(class, pods)| Wanted { class: *class, priority: ctx.snapshot.class(*class).priority, pods })
        .collect();
    let limits = PackingLimits { nodes: most, work_units: ctx.config.cluster.max_work_units };
    let packing = packing::pack(&mut ctx.snapshot, std::slice::from_ref(growable), &wanted, limits);
    let all = rest.values().map(Vec::len).sum::<usize>();
    let whole = packing.pods() == all && packing.elsewhere.is_empty();
    u32::try_from(packing.nodes.len()).ok().filter(|count| whole && 0 < *count)
}

/// True if minimums let the whole set leave once the new nodes are there.
pub(crate) fn may_leave(
    set: &[Candidate],
    scene: &Scene<'_>,
    room: &Room,
    pool: &Arc<str>,
    group: &Arc<str>,
    bought: u32,
) -> bool {
    let mut leaving: Room = Room::new();
    for one in set {
        let of = scene.config.pools[one.pool].name.clone();
        for key in [(of.clone(), None), (of, Some(one.group.clone()))] {
            *leaving.entry(key).or_insert(0) += 1;
        }
    }
    leaving.iter().all(|(key, count)| {
        let grown = key.0 == *pool && key.1.as_ref().is_none_or(|other| other == group);
        let left = room.get(key).copied().unwrap_or(0);
        *count <= left.saturating_add(if grown { bought } else { 0 })
    })
}

/// True if the cluster keeps its least cpu and memory.
pub(crate) fn spares(set: &[Candidate], scene: &Scene<'_>, capacity: &Resources, bought: u32) -> bool {
    let mut spare = Spare::of(scene, &BTreeMap::new());
    spare.give(&capacity.times(i64::from(bought)));
    let mut leaving = Resources::default();
    let nodes = set.iter().filter_map(|one| scene.world.node_named(&one.victim.node));
    nodes.for_each(|(_, node, _)| leaving.add(&node.capacity));
    spare.has(&leaving)
}

/// True if all pods find room with the new nodes there, however the scheduler spreads them.
fn holds_all(
    ctx: &mut Context<'_>,
    scene: &Scene<'_>,
    (offer, growable): (&Offer, &Growable),
    destinations: &mut Destinations,
) -> bool {
    let mark = ctx.snapshot.checkpoint();
    let name = |number| format!("replacement-{number}").into();
    let bought = (0..offer.count).map(|number| ctx.snapshot.add_node(&growable.template, name(number)));
    destinations.set_bought(bought.collect());
    offer.replaced.iter().for_each(|one| ctx.snapshot.set_presence(one.ix, Presence::Ghost));
    let holds = offer.replaced.iter().all(|one| {
        let pods = pods_to_move(one, &ctx.snapshot, scene);
        let standby = Standby::of(&ctx.snapshot);
        destinations.spread_all(&mut ctx.snapshot, &pods, one.ix, standby).is_ok()
    });
    ctx.snapshot.rollback(mark);
    holds
}

/// Journals the increase, if there is one, together with what it replaces, and gives its first step.
pub(crate) fn buy(ctx: &mut Context<'_>, purchase: Purchase) {
    let Purchase { offer, reason, message } = purchase;
    let Some(state) = ctx.cluster.pools.get(&offer.pool) else { return };
    let Some(group) = state.groups.get(&offer.group) else { return };
    let (pool, from, to) = (state.pool, group.target, group.target.saturating_add(offer.count));
    let pool_from = state.target();
    let since = first_of_the_new(ctx, group);
    let own = group.state.and_then(|state| state.options.as_deref());
    let provision_timeout = GroupSettings::new(pool, own).provision_timeout();
    let timeouts = provision_timeout.0.saturating_add(pool.scale_up.startup_timeout.0);
    let mut nodes: Vec<Replaced> = offer
        .replaced
        .iter()
        .map(|one| Replaced { pool: ctx.config.pools[one.pool].name.clone(), node: one.victim.node.clone() })
        .collect();
    nodes.sort();
    let memory = ctx.next.pools.entry(offer.pool.clone()).or_default();
    let increase = Increase::journalled(offer.group.clone(), from, to);
    let id = journal::unused_intent_id(memory, &ctx.snapshot, (&offer.pool, &increase), ctx.config.epoch);
    if 0 < offer.count {
        memory.intents.push(Intent {
            id: id.clone(),
            epoch: ctx.config.epoch,
            action: Action::Increase(increase),
            reason,
            started_at: ctx.now,
            deadline: ctx.now.plus(provision_timeout),
        });
        memory.record(Decision {
            id: id.clone(),
            time: ctx.now,
            action: DecisionAction::ScaleUp,
            group: offer.group.clone(),
            from: pool_from,
            to: pool_from.saturating_add(offer.count),
            reason,
            message,
            outcome: DecisionOutcome::InProgress,
            pods_count: u32::try_from(offer.pods_count).unwrap_or(u32::MAX),
            examples: nodes.iter().take(EXAMPLES_MAX).map(|node| node.node.clone()).collect(),
            considered: Vec::new(),
        });
    }
    memory.replacement = Some(Replacement {
        intent: id.clone(),
        reason,
        group: offer.group.clone(),
        bought_count: offer.count,
        nodes,
        since,
        until: ctx.now.plus(Seconds(timeouts)).plus(REMOVAL_TIME),
    });
    if 0 < offer.count {
        // Nodes that are bought in place of others take room of the same limits as all else.
        ctx.purchases.entry((offer.pool.clone(), offer.group.clone())).or_default().nodes += offer.count;
        ctx.steps.push(Step::Increase {
            pool: offer.pool,
            intent: id,
            group: offer.group,
            from,
            to,
            started_at: ctx.now,
        });
    } else {
        // Nothing need come first: the next plan lets them go.
        ctx.wake.note(ctx.now.plus(Seconds(1)));
    }
}

/// The pool and the group of each node.
fn groups_of<'s>(
    config: &'s Config,
    set: &'s [Candidate],
) -> impl Iterator<Item = (&'s Arc<str>, &'s Arc<str>)> {
    set.iter().map(|one| (&config.pools[one.pool].name, &one.group))
}

/// Returns the time from which on new nodes of the group are those that are bought now. A node that is there already is
/// none of them, however young it is: in a quick rotation the node that was bought before joined a moment ago.
fn first_of_the_new(ctx: &Context<'_>, group: &GroupCounts<'_>) -> UnixTime {
    let nodes = group.nodes.iter().filter_map(|id| ctx.world.node(*id).node.as_ref());
    let youngest = nodes.map(|node| node.created_at).max();
    let earliest = UnixTime(ctx.now.0.saturating_sub(CLOCKS_DIFFER.0));
    youngest.map_or(earliest, |youngest| earliest.max(youngest.plus(Seconds(1))))
}

fn message(offer: &Offer) -> Arc<str> {
    let mut nodes: Vec<&Arc<str>> = offer.replaced.iter().map(|one| &one.victim.node).collect();
    nodes.sort();
    let percent = i128::from(offer.saving_micro) * 100 / i128::from(offer.before_micro.max(1));
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let names: Vec<&str> = nodes.iter().take(EXAMPLES_MAX).map(|node| &***node).collect();
    let more = if names.len() < nodes.len() { " and others" } else { "" };
    let (bought, replaced) = (usize::try_from(offer.count).unwrap_or(usize::MAX), nodes.len());
    format!(
        "+{bought} node{} in place of {replaced} node{} ({}{more}), which saves {percent}% of their price",
        plural(bought),
        plural(replaced),
        names.join(", "),
    )
    .into()
}
