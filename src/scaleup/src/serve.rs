//! Growth of the pools: minimum sizes, then offers, the expander's choice, and again for what is left.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::balance::{self, Size};
use crate::bounds::{self, new_capacity, room, whole_barrier};
use crate::context::Context;
use crate::demand::{Demand, PodGroup};
use crate::diversity;
use crate::expander::{self, Offer, consultation};
use crate::followers::{self, Held};
use crate::limits;
use crate::mixed;
use crate::new_domains;
use crate::packing::{self, Growable, Packing, PackingLimits, RoomyNodes, Wanted};
use crate::quotas;
use crate::similar_pools;
use crate::smaller;
use crate::spare;
use headroom_cluster::history::EXAMPLES_MAX;
use headroom_cluster::scheduling::{ClassIx, NodeIx, PodRef};
use headroom_pools::config::Mode;
use headroom_pools::quarantine::Part;
use headroom_values::reason::Reason;
use headroom_values::resources::Resources;

/// Fills every pool of this mode up to its minimum.
///
/// Differs from upstream: before pods are placed and not at the end of the loop, so that pods use those nodes.
pub fn enforce_min(ctx: &mut Context<'_>, mode: Mode) {
    for pool in &ctx.config.pools {
        if pool.mode != mode || ctx.quarantine.pools.contains(&pool.name) {
            continue;
        }
        ctx.working_on(Part::Pool(pool.name.clone()));
        let Some(state) = ctx.cluster.pools.get(&pool.name) else { continue };
        let missing = state.bounds.min.saturating_sub(state.lasting_target());
        if missing == 0 || limits::pool_barrier(state, ctx.next.pools.get(&pool.name)).is_some() {
            continue;
        }
        let capacity = new_capacity(ctx, &pool.name);
        let room = room(ctx, &pool.name, &capacity);
        let (ids, mut sizes) = of_lowest_rank(ctx, &pool.name);
        let mut left = missing.min(room);
        while left != 0 {
            let Some(group) = balance::next_group(&sizes) else { break };
            // A group that grows as a whole may take the pool beyond its minimum.
            let step = if pool.scales_whole() { sizes[group].max - sizes[group].current } else { 1 };
            sizes[group].current += step;
            if pool.scales_whole() && whole_barrier(ctx, &pool.name, &ids[group]).is_some() {
                continue;
            }
            let before = ctx.purchased_of(&pool.name, &ids[group]);
            for _ in 0..step {
                buy(ctx, &pool.name, &ids[group]);
            }
            if let Some(purchase) = ctx.purchases.get_mut(&(pool.name.clone(), ids[group].clone())) {
                let bought = purchase.nodes - before;
                purchase.for_min += bought;
                purchase.kept += bought;
            }
            left = left.saturating_sub(step);
        }
    }
}

/// Most rounds of buying and placing anew; each but the last buys at least one node.
const ROUNDS_MAX: usize = 8;

/// Places all pods on what is there or on its way and buys nodes for the rest, until nothing more is placed.
///
/// After each purchase all pods are placed anew, exactly as the next plan will place them: what this plan counts as
/// served, the next one does not buy for again. Pods that follow another one wait: see [`followers::hold_back`]. Nodes
/// that are bought without them stay when all are looked at again, since to the next plan they are on their way.
pub fn serve_all(ctx: &mut Context<'_>) {
    let all = ctx.demand.clone();
    for _ in 0..ROUNDS_MAX {
        let (base, before) = (ctx.purchases.clone(), ctx.purchased_total());
        let served = serve_wanted(ctx, &all);
        // Nodes that are bought without a new domain are on their way to the next plan, which looks at all again.
        if !new_domains::hold_back(ctx, &served, &base) || ctx.purchased_total() == before {
            break;
        }
        ctx.purchases.values_mut().for_each(|purchase| purchase.kept = purchase.nodes);
    }
    set_aside_cut(ctx);
    set_aside_asked(ctx);
    note_pods(ctx);
}

/// Returns the demand that was served in the end: all of it, but for those that are held back.
fn serve_wanted<'d>(ctx: &mut Context<'_>, all: &'d Demand) -> Cow<'d, Demand> {
    for _ in 0..ROUNDS_MAX {
        let (base, before) = (ctx.purchases.clone(), ctx.purchased_total());
        serve_rounds(ctx, all);
        if ctx.purchased_total() == before {
            break;
        }
        let mut wanted = all.clone();
        match followers::hold_back(ctx, &mut wanted) {
            Held::NoneAsked => break,
            Held::None => {
                spare::place_anew(ctx, all);
                break;
            }
            Held::Some => {}
        }
        ctx.purchases = base;
        serve_rounds(ctx, &wanted);
        if ctx.purchased_total() == before {
            return Cow::Owned(wanted);
        }
        ctx.purchases.values_mut().for_each(|purchase| purchase.kept = purchase.nodes);
    }
    Cow::Borrowed(all)
}

/// Pods about which the server of expander `Grpc` has been asked are no demand before it has answered. Those that it
/// rejected are: they stay without a node, and that is reported.
fn set_aside_asked(ctx: &mut Context<'_>) {
    if ctx.expander.waiting.is_empty() {
        return;
    }
    for group in &mut ctx.demand.groups {
        let asked = ctx.expander.waiting.get(&group.class) == Some(&Reason::WaitsForExpander);
        if asked && !group.pods.is_empty() {
            let skipped = group.set_aside(0, Reason::WaitsForExpander, ctx.world);
            ctx.demand.skipped.push(skipped);
        }
    }
}

/// Pods for which the search ended early are no demand of this plan: whether they have a place is not known.
fn set_aside_cut(ctx: &mut Context<'_>) {
    if !ctx.snapshot.shares.any_cut() {
        return;
    }
    for group in &mut ctx.demand.groups {
        if ctx.snapshot.shares.is_cut(group.class) && !group.pods.is_empty() {
            let skipped = group.set_aside(0, Reason::WorkLimitReached, ctx.world);
            ctx.demand.skipped.push(skipped);
        }
    }
}

/// Buys and places anew until nothing more is bought, then gives up what is not needed.
pub(super) fn serve_rounds(ctx: &mut Context<'_>, wanted: &Demand) {
    for _ in 0..ROUNDS_MAX {
        spare::place_anew(ctx, wanted);
        let before = ctx.purchased_total();
        serve(ctx, Mode::Apply);
        if ctx.purchased_total() == before {
            spare::give_up_unneeded(ctx, wanted);
            break;
        }
    }
}

/// Buys nodes for pods without a place in pools of this mode, until nothing helps any more.
pub fn serve(ctx: &mut Context<'_>, mode: Mode) {
    ctx.roomy = RoomyNodes::default();
    let rounds = 4 * ctx.config.pools.len() + 8;
    for _ in 0..rounds {
        if ctx.demand.groups.iter().all(|group| !may_be_bought_for(ctx, group)) {
            break;
        }
        let options = options(ctx, mode);
        let offers: Vec<Offer> = options.iter().map(|option| option.offer.clone()).collect();
        let chain = &ctx.config.cluster.expanders;
        let choice =
            expander::choose_asking(&offers, chain, |left| consultation::narrow(ctx, mode, &options, left));
        let best = match choice {
            Ok(Some(best)) => best,
            Ok(None) => break,
            Err(held) => {
                consultation::hold_back(ctx, &options, &held);
                continue;
            }
        };
        ctx.expander.chosen(&options[best].pool);
        let shares = if ctx.config.cluster.balance_similar_pools {
            similar_pools::shares(ctx, &options, best)
        } else {
            Vec::new()
        };
        commit(ctx, &options, best, &shares);
    }
}

/// True if pods of the group have no place, it is certain that none is left for them, and no answer is waited for.
pub(super) fn may_be_bought_for(ctx: &Context<'_>, group: &PodGroup) -> bool {
    let waits = ctx.expander.waiting.contains_key(&group.class);
    !group.pods.is_empty() && !waits && !ctx.snapshot.shares.is_cut(group.class)
}

/// Option of one pool, or of one of its shapes.
pub(crate) struct PoolOption {
    pub(crate) pool: Arc<str>,
    /// Rank of its groups, where those of the pool are of several shapes.
    pub(crate) rank: Option<u32>,
    pub(crate) groups: Vec<Growable>,
    /// Indexes of the demand's groups, in the order of the packing's.
    pub(crate) wanted: Vec<usize>,
    pub(crate) packing: Packing,
    pub(crate) offer: Offer,
}

impl PoolOption {
    /// Number of nodes that it buys.
    pub(crate) fn nodes(&self) -> u32 {
        u32::try_from(self.packing.nodes.len()).unwrap_or(u32::MAX)
    }

    /// The demand's groups of which it places pods, each with their number.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (usize, usize)> {
        let placed = self.wanted.iter().copied().zip(self.packing.placed.iter().copied());
        placed.filter(|(_, pods)| *pods != 0)
    }
}

fn options(ctx: &mut Context<'_>, mode: Mode) -> Vec<PoolOption> {
    let names: Vec<Arc<str>> =
        ctx.config.pools.iter().filter(|pool| pool.mode == mode).map(|pool| pool.name.clone()).collect();
    let mut options = Vec::new();
    for name in names {
        if ctx.quarantine.pools.contains(&name) {
            continue;
        }
        ctx.working_on(Part::Pool(name.clone()));
        options.extend(options_of(ctx, &name));
    }
    ctx.working_on(Part::Whole);
    options
}

/// The options of one pool: one, or one of each shape where its groups have ranks. None when it cannot grow or helps no
/// pod.
fn options_of(ctx: &mut Context<'_>, name: &Arc<str>) -> Vec<PoolOption> {
    let Some(state) = ctx.cluster.pools.get(name) else { return Vec::new() };
    if limits::pool_barrier(state, ctx.next.pools.get(name)).is_some() {
        return Vec::new();
    }
    let whole = state.pool.scales_whole();
    let groups: Vec<Growable> = growables(ctx, name);
    if whole {
        // One group at a time: it is filled before another one is begun.
        let first = groups.into_iter().find_map(|group| option_of(ctx, name, None, (vec![group], &[])));
        return first.into_iter().collect();
    }
    if let Some(option) = mixed::option_of(ctx, name, &groups) {
        return vec![option];
    }
    let mut by_rank: BTreeMap<Option<u32>, Vec<Growable>> = BTreeMap::new();
    for group in &groups {
        let rank = ctx.cluster.pools.get(name).and_then(|state| state.rank_of(&group.id));
        by_rank.entry(rank).or_default().push(group.clone());
    }
    let mut options: Vec<PoolOption> =
        by_rank.into_iter().filter_map(|(rank, own)| option_of(ctx, name, rank, (own, &groups))).collect();
    diversity::leave_out_full(ctx, &mut options);
    // They compete by all that they take, and the one that is bought may be cut.
    let mut options = cheapest(options);
    options.iter_mut().for_each(|option| cut_to_share(ctx, option));
    options
}

/// Packs anew what its share of spot machines leaves of an option.
fn cut_to_share(ctx: &mut Context<'_>, option: &mut PoolOption) {
    let most = diversity::most(ctx, option);
    if option.nodes() <= most {
        return;
    }
    let wanted = wanted(&ctx.demand, &option.wanted);
    let limits = PackingLimits { nodes: most, work_units: ctx.config.cluster.max_work_units };
    option.packing =
        packing::pack_again((&mut ctx.snapshot, &mut ctx.roomy), &option.groups, &wanted, limits);
}

pub(super) fn wanted<'d>(demand: &'d Demand, indexes: &[usize]) -> Vec<Wanted<'d>> {
    let groups = indexes.iter().map(|index| &demand.groups[*index]);
    groups.map(|group| Wanted { class: group.class, priority: group.priority, pods: &group.pods }).collect()
}

/// The shapes of one pool that cost least for what they take: the expanders choose among them, and between pools.
fn cheapest(mut options: Vec<PoolOption>) -> Vec<PoolOption> {
    let offers: Vec<Offer> = options.iter().map(|option| option.offer.clone()).collect();
    let mut kept = expander::cheapest(&offers).into_iter().peekable();
    let mut at = 0;
    options.retain(|_| {
        at += 1;
        kept.next_if_eq(&(at - 1)).is_some()
    });
    options
}

/// Returns the option of these groups of one pool, which has `all` groups; `None` when they can get no node or would take no
/// pod.
fn option_of(
    ctx: &mut Context<'_>,
    name: &Arc<str>,
    rank: Option<u32>,
    (groups, all): (Vec<Growable>, &[Growable]),
) -> Option<PoolOption> {
    let pool = ctx.cluster.pools.get(name)?.pool;
    let mut groups = within_journal(ctx, name, groups, |group| &group.id);
    let capacity = groups.first()?.template.node.capacity.clone();
    let room = room(ctx, name, &capacity);
    if room == 0 {
        return None;
    }
    let budget = ctx.config.cluster.max_work_units;
    let indexes: Vec<usize> = (0..ctx.demand.groups.len())
        .filter(|index| may_be_bought_for(ctx, &ctx.demand.groups[*index]))
        .collect();
    let wanted = wanted(&ctx.demand, &indexes);
    let limits = PackingLimits { nodes: room, work_units: budget };
    ctx.snapshot.shares.begin_search(ctx.snapshot.work_units);
    let mut packing = packing::pack_again((&mut ctx.snapshot, &mut ctx.roomy), &groups, &wanted, limits);
    if rank.is_some() {
        smaller::take(ctx, name, (all, &indexes), &mut groups, &mut packing);
    }
    let requested = requested(ctx, &indexes, &packing);
    let packed = u32::try_from(packing.nodes.len()).unwrap_or(u32::MAX);
    // Source: estimator, ZeroOrMax → max: the expander compares with what will be bought.
    let whole = groups[0].size.max.saturating_sub(groups[0].size.current);
    let offer = Offer {
        // In the order of ranks: the name breaks the last tie.
        name: rank.map_or_else(|| name.clone(), |rank| format!("{name}/{rank:05}").into()),
        nodes: if pool.scales_whole() && packed != 0 { whole } else { packed },
        pods: u32::try_from(packing.pods()).unwrap_or(u32::MAX),
        node: capacity,
        requested,
        priority: pool.priority,
        price_per_hour_micro: mean_price(ctx, name, &groups, &packing),
        limited: packing.limited,
    };
    (offer.nodes != 0 && offer.pods != 0).then(|| PoolOption {
        pool: name.clone(),
        rank,
        groups,
        wanted: indexes,
        packing,
        offer,
    })
}

/// Price of one of the packed nodes for one hour, rounded up: of groups of several prices their mean. `None` if one is not
/// known.
fn mean_price(ctx: &Context<'_>, pool: &str, groups: &[Growable], packing: &Packing) -> Option<i64> {
    let (mut sum, mut count) = (0_i64, 0_i64);
    for node in &packing.nodes {
        sum = sum.saturating_add(ctx.cluster.price_per_hour_micro(pool, &groups[node.group].id)?);
        count += 1;
    }
    (count != 0).then(|| sum.saturating_add(count - 1) / count)
}

pub(super) fn requested(ctx: &Context<'_>, indexes: &[usize], packing: &Packing) -> Resources {
    let mut sum = Resources::default();
    for (index, placed) in indexes.iter().zip(&packing.placed) {
        let class = ctx.snapshot.class(ctx.demand.groups[*index].class);
        sum.add(&class.requests.times(i64::try_from(*placed).unwrap_or(i64::MAX)));
    }
    sum
}

/// Groups of a pool that can grow, with their sizes in this plan.
fn open_groups(ctx: &Context<'_>, pool: &Arc<str>) -> (Vec<Arc<str>>, Vec<Size>) {
    let Some(state) = ctx.cluster.pools.get(pool) else { return (Vec::new(), Vec::new()) };
    let most = limits::per_scale_up(ctx.config);
    let open = state.groups.iter().filter(|(id, group)| limits::group_barrier(id, group).is_none());
    open.map(|(id, group)| {
        let current = group.target.saturating_add(ctx.purchased_of(pool, id));
        let quota = quotas::room_of_group(ctx, pool, id).map_or(u32::MAX, |room| room.nodes);
        let max = group.state.map_or(0, |state| state.max).min(group.target.saturating_add(most));
        (id.clone(), Size { current, max: max.min(current.saturating_add(quota)) })
    })
    .unzip()
}

/// The open groups with which a pool's minimum is met: all, or those of the lowest rank with room, or of the lowest ranks over
/// which its nodes are to be spread.
fn of_lowest_rank(ctx: &Context<'_>, pool: &Arc<str>) -> (Vec<Arc<str>>, Vec<Size>) {
    let (ids, sizes) = open_groups(ctx, pool);
    let Some(state) = ctx.cluster.pools.get(pool) else { return (ids, sizes) };
    let groups: Vec<(Arc<str>, Size)> = ids.into_iter().zip(sizes).collect();
    let open = groups.iter().filter(|(_, size)| size.current < size.max);
    let ranks = diversity::for_minimum(state, &open.map(|(id, _)| state.rank_of(id)).collect());
    let of_ranks = |(id, _): &(Arc<str>, Size)| ranks.is_empty() || ranks.contains(&state.rank_of(id));
    within_journal(ctx, pool, groups.into_iter().filter(of_ranks).collect(), |(id, _)| id).into_iter().unzip()
}

/// Those of the groups for which the journal has room: the ones that are bought for already, and as many others as it takes.
fn within_journal<T>(
    ctx: &Context<'_>,
    pool: &Arc<str>,
    mut groups: Vec<T>,
    id: impl Fn(&T) -> &Arc<str>,
) -> Vec<T> {
    let mut left = bounds::intents_room(ctx, pool);
    groups.retain(|group| {
        let bought = 0 < ctx.purchased_of(pool, id(group));
        let kept = bought || 0 < left;
        left -= usize::from(kept && !bought);
        kept
    });
    groups
}

/// Groups of the pool that may grow in this plan, in the order of their ranks.
pub fn growables(ctx: &mut Context<'_>, pool: &Arc<str>) -> Vec<Growable> {
    let (ids, sizes) = open_groups(ctx, pool);
    let mut groups = Vec::new();
    for (id, size) in ids.into_iter().zip(sizes) {
        if size.current < size.max
            && whole_barrier(ctx, pool, &id).is_none()
            && let Some(template) = ctx.template(pool, &id)
        {
            groups.push(Growable { id, template, size });
        }
    }
    if let Some(state) = ctx.cluster.pools.get(pool) {
        groups.sort_by_key(|group| state.rank_of(&group.id));
    }
    groups
}

/// Adds a node of the group to the purchases, and to the snapshot if its shape is known; not if a CapacityQuota has no room
/// for it: one that counts some groups of a pool was looked at for each of them alone. Nor if the journal has none.
fn buy(ctx: &mut Context<'_>, pool: &Arc<str>, group: &Arc<str>) -> Option<NodeIx> {
    if quotas::room_of_group(ctx, pool, group).is_some_and(|room| room.nodes == 0) {
        return None;
    }
    let key = (pool.clone(), group.clone());
    let number = ctx.purchased_of(pool, group);
    if number == 0 && bounds::intents_room(ctx, pool) == 0 {
        return None;
    }
    let node = ctx.add_planned(pool, group, format!("bought-{pool}-{group}-{number}"), true);
    ctx.purchases.entry(key).or_default().nodes += 1;
    node
}

/// The smallest group of the pool that can grow.
fn smallest_group(ctx: &mut Context<'_>, pool: &Arc<str>) -> Option<Arc<str>> {
    let groups = growables(ctx, pool);
    let sizes: Vec<Size> = groups.iter().map(|group| group.size).collect();
    balance::next_group(&sizes).map(|at| groups[at].id.clone())
}

/// Carries a packing out on the snapshot: its nodes are bought, its pods placed there.
///
/// By `shares` some of the nodes are bought of other pools; without any, all are its own. Pods that do not fit there go back
/// into the demand, and are served in the next round.
fn commit(ctx: &mut Context<'_>, options: &[PoolOption], best: usize, shares: &[(usize, u32)]) {
    let option = &options[best];
    let mut others = shares.iter().filter(|(at, _)| *at != best).copied();
    let mut other = others.next();
    let mut own = shares.iter().find(|(at, _)| *at == best).map_or(u32::MAX, |(_, nodes)| *nodes);
    let mut queues: Vec<std::vec::IntoIter<PodRef>> = Vec::new();
    for (index, placed) in option.wanted.iter().zip(&option.packing.placed) {
        let group = &mut ctx.demand.groups[*index];
        queues.push(group.pods.drain(..*placed).collect::<Vec<_>>().into_iter());
    }
    for (node, index) in &option.packing.elsewhere {
        if let Some(pod) = queues[*index].next() {
            ctx.snapshot.place(pod, *node);
            ctx.demand.groups[option.wanted[*index]].on_existing += 1;
        }
    }
    for packed in &option.packing.nodes {
        while own == 0 && other.is_some_and(|(_, left)| left == 0) {
            other = others.next();
        }
        let elsewhere = match &mut other {
            Some((at, left)) if own == 0 => {
                *left -= 1;
                let pool = options[*at].pool.clone();
                smallest_group(ctx, &pool).map(|group| (pool, group))
            }
            _ => None,
        };
        own = own.saturating_sub(1);
        // A node that no other pool takes stays where it was planned.
        let here = || (option.pool.clone(), option.groups[packed.group].id.clone());
        let (pool, group_id) = elsewhere.unwrap_or_else(here);
        let node = buy(ctx, &pool, &group_id);
        for (index, count) in &packed.pods {
            let pods: Vec<PodRef> = queues[*index].by_ref().take(*count).collect();
            let class = ctx.demand.groups[option.wanted[*index]].class;
            let (mut served, mut left) = (0, Vec::new());
            for pod in pods {
                match node {
                    Some(node) if pool == option.pool || ctx.snapshot.fits(class, node) => {
                        ctx.snapshot.place(pod, node);
                        served += 1;
                    }
                    _ => left.push(pod),
                }
            }
            let group = &mut ctx.demand.groups[option.wanted[*index]];
            group.pods.splice(0..0, left);
            *group.on_new.entry(pool.clone()).or_insert(0) += served;
        }
    }
    if ctx.config.scales_whole(&option.pool) {
        let packed = u32::try_from(option.packing.nodes.len()).unwrap_or(u32::MAX);
        for _ in packed..option.offer.nodes {
            buy(ctx, &option.pool, &option.groups[0].id);
        }
    }
}

/// Books the pods that stand on bought nodes on the purchases, and on the groups of pods they belong to.
pub fn note_pods(ctx: &mut Context<'_>) {
    // Pods that exist and pods that do not may be in two groups of one class.
    let mut by_class: BTreeMap<(ClassIx, bool), usize> = BTreeMap::new();
    for (index, group) in ctx.demand.groups.iter().enumerate() {
        if group.anticipated_count < group.pods_count {
            by_class.insert((group.class, false), index);
        }
        if 0 < group.anticipated_count {
            by_class.insert((group.class, true), index);
        }
    }
    let mut served: BTreeMap<(Arc<str>, Arc<str>), BTreeMap<usize, u32>> = BTreeMap::new();
    let mut on_new: BTreeMap<(usize, Arc<str>), u32> = BTreeMap::new();
    for planned in ctx.planned.iter().filter(|planned| planned.bought) {
        let key = (planned.pool.clone(), planned.group.clone());
        let Some(purchase) = ctx.purchases.get_mut(&key) else { continue };
        for pod in ctx.snapshot.pods(planned.node) {
            let anticipated = matches!(pod, PodRef::Virtual(_));
            let Some(index) = by_class.get(&(ctx.snapshot.class_of(pod), anticipated)) else { continue };
            *served.entry(key.clone()).or_default().entry(*index).or_insert(0) += 1;
            *on_new.entry((*index, planned.pool.clone())).or_insert(0) += 1;
            purchase.pods += 1;
            match pod {
                PodRef::Virtual(_) => purchase.anticipated += 1,
                PodRef::Real(id) if purchase.examples.len() < EXAMPLES_MAX => {
                    purchase.examples.push(ctx.world.pod(id).pod.key.to_string().into());
                }
                PodRef::Real(_) | PodRef::Standby(_) => {}
            }
        }
    }
    for group in &mut ctx.demand.groups {
        group.on_new.clear();
    }
    for ((index, pool), count) in on_new {
        ctx.demand.groups[index].on_new.insert(pool, count);
    }
    for group in &mut ctx.demand.groups {
        let elsewhere: u32 = group.on_new.values().sum();
        group.on_existing = group.pods_count.saturating_sub(group.unplaced()).saturating_sub(elsewhere);
    }
    for (key, counts) in served {
        let largest = counts.into_iter().max_by_key(|(index, count)| (*count, std::cmp::Reverse(*index)));
        if let Some(purchase) = ctx.purchases.get_mut(&key) {
            purchase.largest = largest;
        }
    }
}
