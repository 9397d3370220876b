//! The option of a pool with groups of several shapes whose prices are known: the mixture of shapes that is expected to cost
//! least. It buys nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bounds;
use crate::context::Context;
use crate::expander::Offer;
use crate::packing::mixtures::{self, Filled, Kind, Problem, Shape};
use crate::packing::{self, Growable, PackedNode, Packing, Wanted};
use crate::serve::{PoolOption, may_be_bought_for, requested, wanted};
use headroom_cluster::scheduling::PodRef;
use headroom_cluster::world::provider::GroupState;
use headroom_values::resources::Resources;

/// Most comparisons by which mixtures are looked for in one option: a few milliseconds.
const WORK_MAX: u64 = 4_000_000;

/// The option of the pool by mixtures of its groups; `None` where the shapes have to compete one by one: pods look at other
/// pods or at zones, spot machines are to be spread, a limit or the journal does not let all be bought, or prices are unknown.
pub(super) fn option_of(ctx: &mut Context<'_>, name: &Arc<str>, groups: &[Growable]) -> Option<PoolOption> {
    let ranks = Ranks::of(ctx, name, groups)?;
    let open: Vec<usize> = (0..ctx.demand.groups.len())
        .filter(|index| may_be_bought_for(ctx, &ctx.demand.groups[*index]))
        .collect();
    if open.iter().any(|index| !ctx.snapshot.is_plain(ctx.demand.groups[*index].class)) {
        return None;
    }
    let nodes_max = bounds::room(ctx, name, &Resources::default());
    let (problem, indexes) = problem(ctx, &ranks, open, nodes_max)?;
    let work_max = ctx.snapshot.work_units.saturating_add(WORK_MAX).min(ctx.config.cluster.max_work_units);
    let nodes = mixtures::cheapest(&problem, &mut ctx.snapshot.work_units, work_max)?;
    let option = ranks.option(ctx, name, indexes, (&problem, nodes))?;
    // All nodes together as one: a limit has room for all of them or for none.
    let all = option.offer.node.times(i64::from(option.offer.nodes));
    let new = option.groups.iter().filter(|group| ctx.purchased_of(name, &group.id) == 0).count();
    (bounds::room(ctx, name, &all) != 0 && new <= bounds::intents_room(ctx, name)).then_some(option)
}

/// A group whose price is known.
struct Priced {
    group: Growable,
    zone: Option<Arc<str>>,
    price_micro: i64,
}

/// The groups of one rank whose prices are known, and the mean of their prices.
struct Rank {
    groups: Vec<Priced>,
    price_micro: i64,
}

impl Rank {
    fn new(groups: Vec<Priced>) -> Self {
        let count = i64::try_from(groups.len()).unwrap_or(i64::MAX).max(1);
        let sum = groups.iter().map(|one| one.price_micro).fold(0, i64::saturating_add);
        Self { groups, price_micro: sum / count }
    }
}

/// The ranks of a pool, the cheapest first.
struct Ranks(Vec<Rank>);

impl Ranks {
    /// `None` for a pool without ranks, and if nodes of one of the groups are to be spread over ranks.
    fn of(ctx: &Context<'_>, pool: &Arc<str>, groups: &[Growable]) -> Option<Self> {
        let state = ctx.cluster.pools.get(pool)?;
        let mut ranks: BTreeMap<Option<u32>, Vec<Priced>> = BTreeMap::new();
        for group in groups {
            let at_cloud: &GroupState = state.groups.get(&group.id)?.state?;
            let spread = at_cloud.diversity.is_some_and(|fewest| 1 < fewest);
            if at_cloud.rank.is_none() || spread {
                return None;
            }
            if let Some(price) = ctx.cluster.price_per_hour_micro(pool, &group.id) {
                let (group, zone) = (group.clone(), at_cloud.zone.clone());
                ranks.entry(at_cloud.rank).or_default().push(Priced {
                    group,
                    zone,
                    price_micro: price.max(0),
                });
            }
        }
        let mut ranks: Vec<Rank> = ranks.into_values().map(Rank::new).collect();
        ranks.sort_by_key(|rank| rank.price_micro);
        Some(Self(ranks))
    }

    /// The shapes, with the kinds of pods that they host; `None` if groups of one rank do not host the same.
    fn shapes(&self, ctx: &mut Context<'_>, wanted: &[Wanted<'_>]) -> Option<Vec<Shape>> {
        let mut shapes = Vec::new();
        for rank in &self.0 {
            let groups: Vec<Growable> = rank.groups.iter().map(|one| one.group.clone()).collect();
            let hosts = packing::hosting(&mut ctx.snapshot, &groups, wanted);
            if hosts.iter().any(|own| own.iter().any(|hosts| *hosts != own[0])) {
                return None;
            }
            let rooms = groups.iter().map(|group| packing::empty_room(&group.template));
            let left = |group: &Growable| group.size.max.saturating_sub(group.size.current);
            let most = groups.iter().map(left).fold(0, u32::saturating_add);
            shapes.push(Shape {
                // What is known of groups in other zones may differ by what live nodes have shown.
                room: rooms.min_by_key(|room| (room.memory_bytes, room.cpu_milli))?,
                price_micro: rank.price_micro,
                hosts: hosts.iter().map(|own| own[0]).collect(),
                most: usize::try_from(most).unwrap_or(usize::MAX),
            });
        }
        Some(shapes)
    }

    /// The option that buys these nodes, each in the zone that has fewest nodes of the pool; `None` if the groups are too full
    /// for them.
    fn option(
        &self,
        ctx: &Context<'_>,
        pool: &Arc<str>,
        wanted: Vec<usize>,
        (problem, nodes): (&Problem, Vec<Filled>),
    ) -> Option<PoolOption> {
        let mut zones = Zones::of(ctx, pool);
        let mut groups: Vec<Growable> = Vec::new();
        let mut packing = Packing { placed: vec![0; wanted.len()], ..Packing::default() };
        let (mut capacity, mut price) = (Resources::default(), 0_i64);
        for node in nodes {
            let rank = &self.0[node.shape];
            let chosen = zones.next(rank)?;
            let at = groups.iter().position(|group| group.id == chosen.id).unwrap_or(groups.len());
            if at == groups.len() {
                groups.push(chosen.clone());
            }
            node.pods.iter().for_each(|(kind, count)| packing.placed[*kind] += count);
            packing.nodes.push(PackedNode { group: at, pods: node.pods });
            capacity.add(&chosen.template.node.capacity);
            price = price.saturating_add(problem.shapes[node.shape].price_micro);
        }
        let count = i64::try_from(packing.nodes.len()).ok().filter(|count| *count != 0)?;
        let mean = |sum: i64| sum.saturating_add(count - 1) / count;
        let config = ctx.config.pool(pool)?;
        let offer = Offer {
            name: pool.clone(),
            nodes: u32::try_from(count).unwrap_or(u32::MAX),
            pods: u32::try_from(packing.pods()).unwrap_or(u32::MAX),
            // Of unlike nodes their mean.
            node: Resources::new(mean(capacity.cpu_milli), mean(capacity.memory_bytes)),
            requested: requested(ctx, &wanted, &packing),
            priority: config.priority,
            price_per_hour_micro: Some(mean(price)),
            limited: false,
        };
        let rank = ctx.cluster.pools.get(pool)?.rank_of(&groups.first()?.id);
        Some(PoolOption { pool: pool.clone(), rank, groups, wanted, packing, offer })
    }
}

/// The pods that these ranks host, as kinds, and the indexes of their groups in the demand; `None` if there are none.
fn problem(
    ctx: &mut Context<'_>,
    ranks: &Ranks,
    open: Vec<usize>,
    nodes_max: u32,
) -> Option<(Problem, Vec<usize>)> {
    let demand = ctx.demand.clone();
    let mut shapes = ranks.shapes(ctx, &wanted(&demand, &open))?;
    let kinds: Vec<Kind> = open
        .iter()
        .map(|index| &demand.groups[*index])
        .map(|group| Kind {
            requests: ctx.snapshot.class(group.class).requests.clone(),
            count: group.pods.len(),
        })
        .collect();
    let taken = |at: &usize| shapes.iter().any(|shape| shape.takes(*at, &kinds[*at]) != 0);
    let taken: Vec<usize> = (0..kinds.len()).filter(taken).collect();
    for shape in &mut shapes {
        shape.hosts = taken.iter().map(|at| shape.hosts[*at]).collect();
    }
    let indexes: Vec<usize> = taken.iter().map(|at| open[*at]).collect();
    let waiting = waiting(ctx, &indexes);
    let kinds: Vec<Kind> = taken.iter().map(|at| kinds[*at].clone()).collect();
    let nodes_max = usize::try_from(nodes_max).unwrap_or(usize::MAX);
    (!kinds.is_empty()).then_some((Problem { kinds, shapes, nodes_max, waiting }, indexes))
}

/// The pods of these groups of the demand, each by its group's place in `indexes`, in the order in which the scheduler takes them: by
/// priority, then the oldest first. Those that do not exist yet come last.
fn waiting(ctx: &Context<'_>, indexes: &[usize]) -> Vec<usize> {
    let mut waiting = Vec::new();
    for (at, index) in indexes.iter().enumerate() {
        let group = &ctx.demand.groups[*index];
        for pod in &group.pods {
            let created = match pod {
                PodRef::Real(id) => Some(ctx.world.pod(*id).pod.created_at),
                PodRef::Virtual(_) | PodRef::Standby(_) => None,
            };
            waiting.push((Reverse(group.priority), created.is_none(), created, at));
        }
    }
    waiting.sort_unstable();
    waiting.into_iter().map(|(_, _, _, at)| at).collect()
}

/// Number of nodes of a pool by zone, and of those that a mixture has given to its groups.
struct Zones {
    nodes: BTreeMap<Option<Arc<str>>, u32>,
    given: BTreeMap<Arc<str>, u32>,
}

impl Zones {
    fn of(ctx: &Context<'_>, pool: &Arc<str>) -> Self {
        let mut nodes = BTreeMap::new();
        for (id, group) in ctx.cluster.pools.get(pool).into_iter().flat_map(|state| &state.groups) {
            let zone = group.state.and_then(|state| state.zone.clone());
            *nodes.entry(zone).or_insert(0) += group.target.saturating_add(ctx.purchased_of(pool, id));
        }
        Self { nodes, given: BTreeMap::new() }
    }

    /// The group of the rank that gets its next node.
    fn next<'r>(&mut self, rank: &'r Rank) -> Option<&'r Growable> {
        let given = |id: &Arc<str>| self.given.get(id).copied().unwrap_or(0);
        let open = |group: &Growable| group.size.current.saturating_add(given(&group.id)) < group.size.max;
        let nodes = |zone: &Option<Arc<str>>| self.nodes.get(zone).copied().unwrap_or(0);
        let all = rank.groups.iter().filter(|one| open(&one.group));
        let Priced { group, zone, .. } = all.min_by_key(|one| nodes(&one.zone))?;
        *self.given.entry(group.id.clone()).or_insert(0) += 1;
        *self.nodes.entry(zone.clone()).or_insert(0) += 1;
        Some(group)
    }
}
