//! Places on nodes that are there or on their way; placements stay in the snapshot. It adds no node.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::alike_room;
use crate::context::Context;
use crate::demand::{self, PodGroup};
use crate::followers::SCHEDULER_LOOKS;
use crate::packing::may_come_round;
use crate::packing::patterns::{self, Shapes};
use headroom_cluster::scheduling::{ClassIx, Full, NodeIx, PodRef, Snapshot};
use headroom_cluster::world::digest::Amounts;
use headroom_cluster::world::node::{HOSTNAME_LABEL, Node};
use headroom_cluster::world::pod::PodClass;
use headroom_pools::quarantine::Part;
use headroom_values::resources::Resources;

/// Places what fits, group by group in the order given; what does not stays in the groups.
///
/// Pods whose preemption is under way are put on their nominated node first, unchecked: the scheduler is making room.
///
/// Nodes that have started come first, and those on their way or bought just now take what is left. So what goes where on
/// nodes that are there does not depend on what is bought, and one more pool to buy from leaves nobody out.
pub fn place(ctx: &mut Context<'_>) {
    for (pod, node) in std::mem::take(&mut ctx.demand.nominated) {
        if let Some(node) = ctx.snapshot.named(&node) {
            ctx.snapshot.place(PodRef::Real(pod), node);
        }
    }
    ctx.snapshot.shares.begin_search(ctx.snapshot.work_units);
    look_at_rules(ctx);
    let all: Vec<NodeIx> = ctx.snapshot.indexes().collect();
    // Pods that spread over domains are balanced between old nodes and new ones: all are looked at together.
    let joint = ctx
        .demand
        .groups
        .iter()
        .any(|group| !group.pods.is_empty() && may_come_round(ctx.snapshot.class(group.class)));
    if joint {
        return place_on(ctx, Nodes { new: &all, all: &all });
    }
    let (there, coming): (Vec<NodeIx>, Vec<NodeIx>) = all.iter().partition(|node| !ctx.is_coming(**node));
    place_on(ctx, Nodes { new: &there, all: &there });
    place_on(ctx, Nodes { new: &coming, all: &all });
}

/// Finds out which other pods the groups look at, before any is placed: later there are more pods to count.
fn look_at_rules(ctx: &mut Context<'_>) {
    for PodGroup { class, .. } in &ctx.demand.groups {
        let before = ctx.snapshot.work_units;
        if before < ctx.snapshot.search_limit(*class) && !ctx.snapshot.shares.is_left_out(*class) {
            ctx.snapshot.has_topology_rules(*class);
            ctx.snapshot.charge(*class, before);
            if ctx.snapshot.is_unfinished(*class) {
                ctx.snapshot.shares.cut(*class, false);
            }
        } else {
            ctx.snapshot.shares.cut(*class, false);
        }
    }
}

/// Nodes that pods are placed on.
#[derive(Clone, Copy)]
struct Nodes<'n> {
    /// Those that no pod of the demand was tried on before.
    new: &'n [NodeIx],
    /// Those and all before: pods on new nodes may make others legal there.
    all: &'n [NodeIx],
}

/// A way to find places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Each group in order on the first node that takes it.
    FirstFit,
    /// Priority by priority, and in each node by node with the mix that suits it: first fit fails where memory-heavy pods use
    /// up nodes whose cpu others need.
    Mixed,
    /// Priority by priority, each pod on the node whose free room is most like it: see [`alike_room`].
    AlikeRoom,
    /// First fit, groups first that have few of the new nodes to spare: others leave them the nodes that were bought for
    /// them.
    FewestChoicesFirst,
}

/// Places on these nodes by first fit, or in the way that leaves least without a place, of the highest priority first.
fn place_on(ctx: &mut Context<'_>, nodes: Nodes<'_>) {
    if nodes.new.is_empty() || ctx.demand.groups.iter().all(|group| group.pods.is_empty()) {
        return;
    }
    let joined = nodes.new.len() != nodes.all.len();
    let least = least_asked(ctx);
    let with_room = |nodes: &[NodeIx]| -> Vec<NodeIx> {
        nodes.iter().copied().filter(|node| least.fit(ctx.snapshot.room(*node))).collect()
    };
    let (new, all) = (with_room(nodes.new), with_room(nodes.all));
    let nodes = Nodes { new: &new, all: &all };
    let mark = ctx.snapshot.checkpoint();
    let wanted = ctx.demand.groups.clone();
    first_fit(ctx, nodes, None);
    let mut best = (weights_left(ctx), Way::FirstFit);
    let all_placed = |weights: &[i64]| weights.iter().all(|weight| *weight == 0);
    // Where the work has been too much for one way, there is none left for others.
    if all_placed(&best.0) || ctx.snapshot.shares.any_cut() {
        return;
    }
    let mixed = wanted.iter().any(|group| ctx.snapshot.is_plain(group.class));
    let bought = |ctx: &Context<'_>| joined || nodes.new.iter().any(|node| may_be_untried(ctx, *node));
    let mut last = Way::FirstFit;
    let few = alike_room::looks(&wanted, nodes.new.len()) <= alike_room::LOOKS_MAX;
    for way in [Way::Mixed, Way::AlikeRoom, Way::FewestChoicesFirst] {
        let fits = |ctx: &Context<'_>| match way {
            Way::FirstFit => false,
            Way::Mixed => mixed,
            Way::AlikeRoom => mixed && few,
            Way::FewestChoicesFirst => bought(ctx),
        };
        if all_placed(&best.0) || !fits(ctx) {
            continue;
        }
        ctx.snapshot.rollback(mark);
        ctx.demand.groups = wanted.clone();
        ctx.snapshot.shares.begin_search(ctx.snapshot.work_units);
        go(ctx, way, nodes);
        last = way;
        let left = weights_left(ctx);
        if left < best.0 {
            best = (left, way);
        }
    }
    if last != best.1 {
        ctx.snapshot.rollback(mark);
        ctx.demand.groups = wanted;
        ctx.snapshot.shares.begin_search(ctx.snapshot.work_units);
        go(ctx, best.1, nodes);
    }
}

/// What each pod of the demand asks for at least: nodes with less room take none of them, whatever else they are like, since room
/// only shrinks while pods are placed.
fn least_asked(ctx: &Context<'_>) -> Amounts {
    let groups = ctx.demand.groups.iter().filter(|group| !group.pods.is_empty());
    let asked = groups.map(|group| Amounts::of(&ctx.snapshot.class(group.class).requests));
    asked.reduce(Amounts::least).unwrap_or_default()
}

fn go(ctx: &mut Context<'_>, way: Way, nodes: Nodes<'_>) {
    match way {
        Way::FirstFit => first_fit(ctx, nodes, None),
        Way::Mixed => bands(&ctx.demand.groups).into_iter().for_each(|band| mixed_fit(ctx, nodes, band)),
        Way::AlikeRoom => {
            for band in bands(&ctx.demand.groups) {
                let plain = others_first(ctx, nodes, band);
                plain.into_iter().for_each(|index| alike_room::place(ctx, index, nodes.new));
            }
        }
        Way::FewestChoicesFirst => {
            let order = fewest_choices_first(ctx, nodes);
            first_fit(ctx, nodes, Some(order));
        }
    }
}

/// True if the node is on its way, or is there for so short a time that the scheduler may not have tried on it all pods that
/// it was bought for.
fn may_be_untried(ctx: &Context<'_>, node: NodeIx) -> bool {
    let started = |node: &Node| ctx.now < node.ready_changed_at.plus(SCHEDULER_LOOKS);
    ctx.is_coming(node) || ctx.snapshot.node(node).real().is_some_and(|(_, node)| started(node))
}

/// Indexes of the groups: by priority, then those that have fewer of the new nodes to spare, then as they are.
///
/// Pods that follow others into a zone have those of the zone, and pods that keep apart from their own kind need one each.
fn fewest_choices_first(ctx: &mut Context<'_>, nodes: Nodes<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ctx.demand.groups.len()).collect();
    let mut known: BTreeMap<u32, usize> = BTreeMap::new();
    let mut keys: Vec<(std::cmp::Reverse<i32>, usize)> = Vec::with_capacity(order.len());
    for PodGroup { class, priority, pods, .. } in &ctx.demand.groups {
        let needed = if keeps_apart(ctx.snapshot.class(*class)) { pods.len() } else { 1 };
        let shape = ctx.snapshot.shape(*class);
        let hosts = match shape.and_then(|shape| known.get(&shape)) {
            Some(hosts) => *hosts,
            // Groups whose nodes are too dear to count go last.
            None if ctx.snapshot.search_limit(*class) <= ctx.snapshot.work_units => usize::MAX,
            None => {
                let (before, limit) = (ctx.snapshot.work_units, ctx.snapshot.search_limit(*class));
                let fits =
                    |node: &&NodeIx| ctx.snapshot.work_units < limit && ctx.snapshot.fits(*class, **node);
                let hosts = nodes.new.iter().filter(fits).count();
                ctx.snapshot.charge(*class, before);
                hosts
            }
        };
        known.extend(shape.map(|shape| (shape, hosts)));
        keys.push((std::cmp::Reverse(*priority), hosts.saturating_sub(needed)));
    }
    order.sort_by_key(|index| keys[*index]);
    order
}

/// True if a node takes one pod of the class at most, or while others have none.
fn keeps_apart(class: &PodClass) -> bool {
    let by_node = |key: &str| key == HOSTNAME_LABEL;
    !class.host_ports.is_empty()
        || class.pod_anti_affinity.iter().any(|term| by_node(&term.topology_key))
        || class.topology_spread.iter().any(|rule| by_node(&rule.topology_key))
}

/// Groups of one priority each, as ranges of their indexes, in the order of the groups.
fn bands(groups: &[PodGroup]) -> Vec<Range<usize>> {
    let mut start = 0;
    let band = |chunk: &[PodGroup]| {
        start += chunk.len();
        start - chunk.len()..start
    };
    groups.chunk_by(|one, next| one.priority == next.priority).map(band).collect()
}

/// Returns the weight of the pods without a place, by priority: cpu and memory on one scale.
fn weights_left(ctx: &Context<'_>) -> Vec<i64> {
    let weight = |group: &PodGroup| {
        let pods = i64::from(group.unplaced());
        pods.saturating_mul(demand::weight(ctx.snapshot.class(group.class)).max(1))
    };
    let groups = &ctx.demand.groups;
    let sum = |band: Range<usize>| groups[band].iter().map(weight).fold(0, i64::saturating_add);
    bands(groups).into_iter().map(sum).collect()
}

/// Each group on the first node that takes it, in the order given or as they are.
fn first_fit(ctx: &mut Context<'_>, nodes: Nodes<'_>, order: Option<Vec<usize>>) {
    let mut starts = Starts::new();
    for index in order.unwrap_or_else(|| (0..ctx.demand.groups.len()).collect()) {
        let class = ctx.snapshot.class(ctx.demand.groups[index].class).clone();
        ctx.working_on(Part::Class(class));
        place_group(&mut ctx.snapshot, &mut ctx.demand.groups[index], nodes, &mut starts);
    }
    ctx.working_on(Part::Whole);
}

/// Places groups that look at other pods, each on the first node that takes it; returns the others.
fn others_first(ctx: &mut Context<'_>, nodes: Nodes<'_>, band: Range<usize>) -> Vec<usize> {
    let (mut plain, mut starts) = (Vec::new(), Starts::new());
    for index in band {
        let class = ctx.demand.groups[index].class;
        if !ctx.snapshot.is_plain(class) {
            ctx.working_on(Part::Class(ctx.snapshot.class(class).clone()));
            place_group(&mut ctx.snapshot, &mut ctx.demand.groups[index], nodes, &mut starts);
        } else {
            plain.push(index);
        }
    }
    ctx.working_on(Part::Whole);
    plain
}

/// Groups that look at other pods first; the others node by node, each with the mix that suits it.
fn mixed_fit(ctx: &mut Context<'_>, nodes: Nodes<'_>, band: Range<usize>) {
    let plain = others_first(ctx, nodes, band);
    let mut filling = Filling::new(ctx, plain);
    for node in nodes.new {
        let waiting = filling.left.iter().filter(|left| **left != 0).count();
        if waiting == 0 || patterns::CLASSES_MAX < waiting {
            break;
        }
        filling.fill_node(ctx, *node);
    }
    filling.note(ctx);
}

/// Groups of pods while nodes are filled with mixes of them.
struct Filling {
    /// Indexes of the groups in the demand.
    groups: Vec<usize>,
    requests: Vec<Resources>,
    /// Number of pods of each group that have no place yet.
    left: Vec<usize>,
    /// The shapes of the pods beside a node of such amounts: neighbours are mostly alike.
    shapes: Option<(Resources, Shapes)>,
}

impl Filling {
    fn new(ctx: &Context<'_>, groups: Vec<usize>) -> Self {
        let requests = |index: &usize| ctx.snapshot.class(ctx.demand.groups[*index].class).requests.clone();
        Self {
            requests: groups.iter().map(requests).collect(),
            left: groups.iter().map(|index| ctx.demand.groups[*index].pods.len()).collect(),
            shapes: None,
            groups,
        }
    }

    /// Fills one node.
    fn fill_node(&mut self, ctx: &mut Context<'_>, node: NodeIx) {
        let mut left = vec![0; self.left.len()];
        for (at, index) in self.groups.iter().enumerate() {
            if self.left[at] != 0 && ctx.snapshot.fits(ctx.demand.groups[*index].class, node) {
                left[at] = self.left[at];
            }
        }
        if left.iter().all(|left| *left == 0) {
            return;
        }
        let view = ctx.snapshot.node(node);
        let whole = view.allocatable();
        let mut free = whole.clone();
        free.subtract(view.requested());
        if self.shapes.as_ref().is_none_or(|(known, _)| known != whole) {
            self.shapes = Some((whole.clone(), Shapes::of(&self.requests, whole)));
        }
        let Some((_, shapes)) = &self.shapes else { return };
        let mix = shapes.fill_room(&self.requests, &left, free, &mut ctx.snapshot.work_units);
        for (at, count) in mix {
            let pods = &ctx.demand.groups[self.groups[at]].pods;
            let first = pods.len() - self.left[at];
            for pod in &pods[first..first + count] {
                ctx.snapshot.place(*pod, node);
            }
            self.left[at] -= count;
        }
    }

    /// Takes what has a place out of the groups.
    fn note(&self, ctx: &mut Context<'_>) {
        for (index, left) in self.groups.iter().zip(&self.left) {
            let group = &mut ctx.demand.groups[*index];
            let placed = group.pods.len() - left;
            group.pods.drain(..placed);
            group.on_existing += u32::try_from(placed).unwrap_or(u32::MAX);
        }
    }
}

/// Index of the node at which the next search for pods of a shape begins: nodes before it have refused one of them.
pub(crate) type Starts = BTreeMap<u32, usize>;

/// Looks at so many nodes that are too full cost a work unit.
pub(crate) const LOOKS_PER_UNIT: usize = 16;

/// Places pods of one group, each on the first of these nodes that takes it; what has no place stays in the group.
pub(crate) fn place_in_order(
    snapshot: &mut Snapshot<'_>,
    group: &mut PodGroup,
    nodes: &[NodeIx],
    starts: &mut Starts,
) {
    place_group(snapshot, group, Nodes { new: nodes, all: nodes }, starts);
}

/// Places pods of one group, each on the first node that takes it; a node is asked again as long as it does.
fn place_group(snapshot: &mut Snapshot<'_>, group: &mut PodGroup, nodes: Nodes<'_>, starts: &mut Starts) {
    let class = group.class;
    if group.pods.is_empty() || snapshot.shares.is_left_out(class) {
        return;
    }
    let (before, limit) = (snapshot.work_units, snapshot.search_limit(class));
    let (taken, ended) = if limit <= before {
        (0, true)
    } else if may_come_round(snapshot.class(class)) {
        place_around(snapshot, class, &group.pods, nodes.all, limit)
    } else {
        place_along(snapshot, class, &group.pods, nodes.new, (limit, starts))
    };
    note_taken(group, taken);
    if ended && !group.pods.is_empty() {
        snapshot.shares.cut(class, group.unplaced() < group.pods_count);
    }
    snapshot.charge(class, before);
}

/// Places pods of a class whose nodes take no more once they have refused one; returns their number, and true if the
/// work ended it.
fn place_along(
    snapshot: &mut Snapshot<'_>,
    class: ClassIx,
    pods: &[PodRef],
    nodes: &[NodeIx],
    (limit, starts): (u64, &mut Starts),
) -> (usize, bool) {
    let shape = snapshot.shape(class);
    let start = shape.and_then(|shape| starts.get(&shape).copied()).unwrap_or(0);
    let (mut taken, mut at) = (0, start);
    while taken < pods.len() && at < nodes.len() && snapshot.work_units < limit {
        let node = nodes[at];
        if snapshot.roomy(class, node) && snapshot.fits(class, node) {
            snapshot.place(pods[taken], node);
            taken += 1;
        } else {
            at += 1;
        }
    }
    starts.extend(shape.map(|shape| (shape, at)));
    snapshot.work_units += u64::try_from((at - start) / LOOKS_PER_UNIT).unwrap_or(u64::MAX);
    (taken, taken < pods.len() && at < nodes.len())
}

/// Places pods of a class that a node may take later, when others are placed: the search goes round.
fn place_around(
    snapshot: &mut Snapshot<'_>,
    class: ClassIx,
    pods: &[PodRef],
    nodes: &[NodeIx],
    limit: u64,
) -> (usize, bool) {
    let mut roomy: Vec<NodeIx> = nodes.iter().copied().filter(|node| snapshot.roomy(class, *node)).collect();
    snapshot.work_units += u64::try_from((nodes.len() + roomy.len()) / LOOKS_PER_UNIT).unwrap_or(u64::MAX);
    roomy.retain(|node| snapshot.could_host_within(class, *node, limit));
    let too_dear = limit <= snapshot.work_units;
    let (mut taken, mut at, mut misses) = (0, 0, 0);
    let mut full = Full::default();
    while taken < pods.len() && misses < roomy.len() && snapshot.work_units < limit {
        let node = roomy[at % roomy.len()];
        if snapshot.fits_where_open(class, node, &mut full) {
            snapshot.place(pods[taken], node);
            full.reopen();
            taken += 1;
            misses = 0;
        } else {
            misses += 1;
            at += 1;
        }
    }
    (taken, taken < pods.len() && (too_dear || misses < roomy.len()))
}

fn note_taken(group: &mut PodGroup, taken: usize) {
    group.pods.drain(..taken);
    group.on_existing += u32::try_from(taken).unwrap_or(u32::MAX);
}
