//! Number of new nodes of one pool that a set of pods needs, and the pods of each. It chooses no pool and leaves the
//! snapshot unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::balance::{self, Size};
use crate::packing::patterns;
use crate::packing::roomy::RoomyNodes;
use headroom_cluster::scheduling::{ClassIx, Full, NodeIx, PodRef, Snapshot, TemplateNode};
use headroom_cluster::world::pod::PodClass;
use headroom_values::resources::Resources;

/// A group of the pool that may grow.
#[derive(Clone, Debug)]
pub struct Growable {
    /// Its id.
    pub id: Arc<str>,
    /// The node it would add.
    pub template: Arc<TemplateNode>,
    /// Its size, and the most nodes it may have in this plan.
    pub size: Size,
}

/// Pods of one class that need places.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'p> {
    /// The class.
    pub class: ClassIx,
    /// Its priority.
    pub priority: i32,
    /// The pods, in the order in which they are placed.
    pub pods: &'p [PodRef],
}

/// Limits of a packing.
#[derive(Clone, Copy, Debug)]
pub struct PackingLimits {
    /// Most nodes over all groups.
    pub nodes: u32,
    /// The snapshot's work counter at which the search ends.
    pub work_units: u64,
}

/// A packing: new nodes with what they take.
#[derive(Clone, Debug, Default)]
pub struct Packing {
    /// New nodes in order of their addition.
    pub nodes: Vec<PackedNode>,
    /// Pods that found a place on nodes that were there, because new nodes made it legal.
    pub elsewhere: Vec<(NodeIx, usize)>,
    /// Number of pods of each class that were placed, in the order of the request.
    pub placed: Vec<usize>,
    /// True if a limit on nodes or work ended it.
    pub limited: bool,
}

/// A new node.
#[derive(Clone, Debug, Default)]
pub struct PackedNode {
    /// Index of its group.
    pub group: usize,
    /// Classes (by index in the request) with the number of their pods.
    pub pods: Vec<(usize, usize)>,
}

impl Packing {
    /// Pods placed.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.placed.iter().sum()
    }
}

/// Packs `wanted` onto new nodes of `groups`: the largest pods first, each on the first new node that takes it.
///
/// If a limit ends it and priorities differ, it is done again with the highest priority first, so that the least
/// important pods are left out. The snapshot is left as it was, but for its work counter.
#[must_use]
pub fn pack(
    snapshot: &mut Snapshot<'_>,
    groups: &[Growable],
    wanted: &[Wanted<'_>],
    limits: PackingLimits,
) -> Packing {
    pack_again((snapshot, &mut RoomyNodes::default()), groups, wanted, limits)
}

/// The same as [`pack`], with what packings before have found: `roomy` is one for as long as pods are placed and nodes bought, and
/// nothing is taken back.
#[must_use]
pub fn pack_again(
    (snapshot, roomy): (&mut Snapshot<'_>, &mut RoomyNodes),
    groups: &[Growable],
    wanted: &[Wanted<'_>],
    limits: PackingLimits,
) -> Packing {
    let Some(first) = groups.first() else {
        return Packing { placed: vec![0; wanted.len()], ..Packing::default() };
    };
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_cached_key(|index| {
        std::cmp::Reverse(score(snapshot, wanted[*index].class, &first.template))
    });
    let packing = pack_in_order((snapshot, roomy), groups, wanted, &order, limits);
    let uniform = wanted.windows(2).all(|pair| pair[0].priority == pair[1].priority);
    if !packing.limited || uniform {
        return packing;
    }
    order.sort_by_key(|index| std::cmp::Reverse(wanted[*index].priority));
    pack_in_order((snapshot, roomy), groups, wanted, &order, limits)
}

fn pack_in_order(
    (snapshot, roomy): (&mut Snapshot<'_>, &mut RoomyNodes),
    groups: &[Growable],
    wanted: &[Wanted<'_>],
    order: &[usize],
    limits: PackingLimits,
) -> Packing {
    let simple = wanted.iter().all(|wanted| snapshot.is_plain(wanted.class));
    if simple {
        let packing = pack_amounts(snapshot, groups, wanted, order, limits);
        if packing.limited { packing } else { tightest(snapshot, groups, wanted, limits, packing) }
    } else {
        pack_tried((snapshot, roomy), groups, wanted, order, limits)
    }
}

/// Cpu and memory as parts per million of what the template has, summed: how large a pod is for this node.
///
/// Source: estimator/decreasing_pod_orderer.go.
#[must_use]
pub fn score(snapshot: &Snapshot<'_>, class: ClassIx, template: &TemplateNode) -> i64 {
    let part = |asked: i64, all: i64| {
        if all <= 0 {
            0
        } else {
            i64::try_from(i128::from(asked) * 1_000_000 / i128::from(all)).unwrap_or(i64::MAX)
        }
    };
    let requests = &snapshot.class(class).requests;
    let all = &template.node.allocatable;
    part(requests.cpu_milli, all.cpu_milli).saturating_add(part(requests.memory_bytes, all.memory_bytes))
}

/// Packing by arithmetic: right when neither pods elsewhere nor ports affect the placement.
fn pack_amounts(
    snapshot: &mut Snapshot<'_>,
    groups: &[Growable],
    wanted: &[Wanted<'_>],
    order: &[usize],
    limits: PackingLimits,
) -> Packing {
    let mut packing = Packing { placed: vec![0; wanted.len()], ..Packing::default() };
    let mut sizes: Vec<Size> = groups.iter().map(|group| group.size).collect();
    let empty: Vec<Resources> = groups.iter().map(|group| empty_room(&group.template)).collect();
    let hosts = hosting(snapshot, groups, wanted);
    let mut free: Vec<Resources> = Vec::new();
    for &index in order {
        let class = wanted[index].class;
        let requests = snapshot.class(class).requests.clone();
        let mut left = wanted[index].pods.len();
        let (before, end) = (snapshot.work_units, snapshot.search_limit(class));
        if end <= before {
            snapshot.shares.cut(class, false);
            continue;
        }
        for (node, free) in packing.nodes.iter_mut().zip(&mut free) {
            if left == 0 {
                break;
            }
            snapshot.work_units += 1;
            let count = if hosts[index][node.group] { copies(&requests, free).min(left) } else { 0 };
            take(node, free, index, count, &requests);
            left -= count;
        }
        while left != 0 {
            snapshot.work_units += 1;
            let open =
                sizes_where(&sizes, |group| hosts[index][group] && copies(&requests, &empty[group]) != 0);
            let fits_somewhere =
                (0..groups.len()).any(|group| hosts[index][group] && copies(&requests, &empty[group]) != 0);
            let exhausted =
                limits.nodes as usize <= packing.nodes.len() || limits.work_units < snapshot.work_units;
            let (Some(group), false) = (balance::next_group(&open), exhausted) else {
                packing.limited |= fits_somewhere;
                break;
            };
            sizes[group].current += 1;
            let mut node = PackedNode { group, pods: Vec::new() };
            let mut room = empty[group].clone();
            let count = copies(&requests, &room).min(left);
            take(&mut node, &mut room, index, count, &requests);
            left -= count;
            packing.nodes.push(node);
            free.push(room);
        }
        packing.placed[index] = wanted[index].pods.len() - left;
        snapshot.charge(class, before);
    }
    packing
}

/// The packing with the fewest nodes among first-fit-decreasing and the mixes of [`patterns`].
///
/// Differs from upstream: it knows first-fit-decreasing only, which leaves cpu over where memory-heavy pods go first.
fn tightest(
    snapshot: &mut Snapshot<'_>,
    groups: &[Growable],
    wanted: &[Wanted<'_>],
    limits: PackingLimits,
    first: Packing,
) -> Packing {
    let placed: Vec<usize> = (0..wanted.len()).filter(|index| first.placed[*index] != 0).collect();
    let empty = empty_room(&groups[0].template);
    let alike = groups.iter().all(|group| empty_room(&group.template) == empty);
    if !alike || placed.len() < 2 || patterns::CLASSES_MAX < placed.len() {
        return first;
    }
    let hosts = hosting(snapshot, groups, wanted);
    if placed.iter().any(|index| hosts[*index].contains(&false)) {
        return first;
    }
    let requests: Vec<Resources> =
        placed.iter().map(|index| snapshot.class(wanted[*index].class).requests.clone()).collect();
    let counts: Vec<usize> = placed.iter().map(|index| first.placed[*index]).collect();
    let mut best = first;
    for rule in patterns::Rule::ALL {
        if limits.work_units < snapshot.work_units {
            break;
        }
        // One node fewer than the best so far must do, or the search was in vain.
        let most = best.nodes.len().saturating_sub(1);
        let found = patterns::fill(&requests, &counts, &empty, most, rule, &mut snapshot.work_units);
        let total: usize = found
            .iter()
            .map(|pattern| pattern.nodes * pattern.pods.iter().map(|(_, n)| n).sum::<usize>())
            .sum();
        if total == counts.iter().sum::<usize>()
            && let Some(nodes) = spread(groups, &found, &placed)
        {
            best = Packing { nodes, ..best };
        }
    }
    best
}

/// Gives each node of the patterns to the smallest group; `None` when the groups have no room for all.
fn spread(groups: &[Growable], found: &[patterns::Pattern], placed: &[usize]) -> Option<Vec<PackedNode>> {
    let mut sizes: Vec<Size> = groups.iter().map(|group| group.size).collect();
    let mut nodes = Vec::new();
    for pattern in found {
        for _ in 0..pattern.nodes {
            let group = balance::next_group(&sizes)?;
            sizes[group].current += 1;
            let pods = pattern.pods.iter().map(|(index, count)| (placed[*index], *count)).collect();
            nodes.push(PackedNode { group, pods });
        }
    }
    Some(nodes)
}

/// For each class and group: whether the rules that do not depend on other pods accept the group's node.
pub(crate) fn hosting(
    snapshot: &mut Snapshot<'_>,
    groups: &[Growable],
    wanted: &[Wanted<'_>],
) -> Vec<Vec<bool>> {
    let mark = snapshot.checkpoint();
    let trials: Vec<NodeIx> =
        groups.iter().map(|group| snapshot.add_node(&group.template, Arc::from("trial"))).collect();
    let hosts = wanted
        .iter()
        .map(|wanted| {
            let limit = snapshot.search_limit(wanted.class);
            let hosts = |trial: &NodeIx| snapshot.could_host_within(wanted.class, *trial, limit);
            trials.iter().map(hosts).collect()
        })
        .collect();
    snapshot.rollback(mark);
    hosts
}

pub(crate) fn empty_room(template: &TemplateNode) -> Resources {
    let mut room = template.node.allocatable.clone();
    room.subtract(&template.daemon_requested);
    room
}

/// Sizes in which groups that do not qualify have no room.
fn sizes_where(sizes: &[Size], qualifies: impl Fn(usize) -> bool) -> Vec<Size> {
    sizes
        .iter()
        .enumerate()
        .map(|(group, size)| if qualifies(group) { *size } else { Size { max: 0, ..*size } })
        .collect()
}

fn take(node: &mut PackedNode, free: &mut Resources, index: usize, count: usize, requests: &Resources) {
    if count != 0 {
        node.pods.push((index, count));
        free.subtract(&requests.times(i64::try_from(count).unwrap_or(i64::MAX)));
    }
}

/// Returns how many pods with these requests fit into `free`; rounds down.
pub(crate) fn copies(requests: &Resources, free: &Resources) -> usize {
    let fit = |asked: i64, free: i64| match asked {
        asked if asked <= 0 => usize::MAX,
        asked => usize::try_from(free.max(0) / asked).unwrap_or(usize::MAX),
    };
    requests
        .extended_iter()
        .map(|(name, asked)| fit(asked, free.extended(name)))
        .chain([
            fit(requests.cpu_milli, free.cpu_milli),
            fit(requests.memory_bytes, free.memory_bytes),
            fit(requests.pods, free.pods),
            fit(requests.ephemeral_bytes, free.ephemeral_bytes),
        ])
        .min()
        .unwrap_or(0)
}

/// Packing by trial on the snapshot, for rules that look at other pods.
fn pack_tried(
    (snapshot, roomy): (&mut Snapshot<'_>, &mut RoomyNodes),
    groups: &[Growable],
    wanted: &[Wanted<'_>],
    order: &[usize],
    limits: PackingLimits,
) -> Packing {
    let mark = snapshot.checkpoint();
    let mut trial = Trial {
        packing: Packing { placed: vec![0; wanted.len()], ..Packing::default() },
        sizes: groups.iter().map(|group| group.size).collect(),
        nodes: Vec::new(),
        groups,
        limits,
        ends_at: u64::MAX,
        starts: BTreeMap::new(),
    };
    let old_nodes = snapshot.nodes_capacity();
    // Before any pod is placed: what the trial fills is free again after it.
    for &index in order {
        let class = wanted[index].class;
        let (before, limit) = (snapshot.work_units, snapshot.search_limit(class));
        if before < limit {
            roomy.find(snapshot, class, limit);
        }
        snapshot.charge(class, before);
    }
    for &index in order {
        let class = wanted[index].class;
        let before = snapshot.work_units;
        trial.ends_at = snapshot.search_limit(class);
        if before < trial.ends_at {
            let roomy = roomy.of(snapshot, class, old_nodes, trial.ends_at);
            trial.place_class(snapshot, (class, &roomy), index, wanted[index].pods);
        }
        if trial.ends_at <= snapshot.work_units && trial.packing.placed[index] < wanted[index].pods.len() {
            snapshot.shares.cut(class, 0 < trial.packing.placed[index]);
        }
        snapshot.charge(class, before);
    }
    snapshot.rollback(mark);
    trial.packing
}

/// True if a node that refused a pod of this class may take one later, because of pods placed elsewhere.
///
/// Room, ports and anti-affinity only ever get tighter.
#[must_use]
pub fn may_come_round(class: &PodClass) -> bool {
    !class.topology_spread.is_empty() || !class.pod_affinity.is_empty()
}

struct Trial<'g> {
    packing: Packing,
    sizes: Vec<Size>,
    nodes: Vec<NodeIx>,
    groups: &'g [Growable],
    limits: PackingLimits,
    /// The work counter at which the search for pods of this class ends.
    ends_at: u64,
    /// By shape: new nodes before it have refused a pod of this shape; `None` when another node would, too.
    starts: BTreeMap<u32, Option<usize>>,
}

impl Trial<'_> {
    /// Places the pods of a class.
    fn place_class(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        (class, roomy): (ClassIx, &[NodeIx]),
        index: usize,
        pods: &[PodRef],
    ) {
        let looks_elsewhere = may_come_round(snapshot.class(class));
        let shape = snapshot.shape(class);
        let Some(mut start) = shape.and_then(|shape| self.starts.get(&shape).copied()).unwrap_or(Some(0))
        else {
            return;
        };
        for (placed, pod) in pods.iter().enumerate() {
            let search = (start, looks_elsewhere);
            let Some(next) = self.place_one(snapshot, class, index, *pod, search, roomy) else {
                let refused = snapshot.work_units < self.ends_at;
                self.starts.extend(shape.filter(|_| refused).map(|shape| (shape, None)));
                return;
            };
            start = next;
            self.packing.placed[index] = placed + 1;
        }
        self.starts.extend(shape.map(|shape| (shape, Some(start))));
    }

    /// Places one pod on a new node, on an old roomy one, or on one more; returns the new node to go on with.
    ///
    /// The search begins at the node given, and wraps around to the first one if `round` is set.
    fn place_one(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        class: ClassIx,
        index: usize,
        pod: PodRef,
        (start, round): (usize, bool),
        roomy: &[NodeIx],
    ) -> Option<usize> {
        let before = if round { start } else { 0 };
        let mut full = Full::default();
        for at in (start..self.nodes.len()).chain(0..before) {
            if self.ends_at <= snapshot.work_units {
                return None;
            }
            if snapshot.fits_where_open(class, self.nodes[at], &mut full) {
                snapshot.place(pod, self.nodes[at]);
                count(&mut self.packing.nodes[at], index);
                return Some(at);
            }
        }
        for node in roomy {
            if self.ends_at <= snapshot.work_units {
                return None;
            }
            if snapshot.fits_where_open(class, *node, &mut full) {
                snapshot.place(pod, *node);
                self.packing.elsewhere.push((*node, index));
                return Some(start);
            }
        }
        self.add_for(snapshot, class, index, pod)
    }

    /// Adds a node to the smallest group whose new node takes the pod.
    fn add_for(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        class: ClassIx,
        index: usize,
        pod: PodRef,
    ) -> Option<usize> {
        let exhausted =
            self.limits.nodes as usize <= self.nodes.len() || self.limits.work_units < snapshot.work_units;
        if exhausted {
            self.packing.limited = true;
            return None;
        }
        let mut open = self.sizes.clone();
        while let Some(group) = balance::next_group(&open) {
            let mark = snapshot.checkpoint();
            let name = Arc::from(format!("trial-{}", self.nodes.len()));
            let node = snapshot.add_node(&self.groups[group].template, name);
            if snapshot.fits(class, node) {
                snapshot.place(pod, node);
                self.sizes[group].current += 1;
                self.nodes.push(node);
                self.packing.nodes.push(PackedNode { group, pods: vec![(index, 1)] });
                return Some(self.nodes.len() - 1);
            }
            snapshot.rollback(mark);
            open[group].max = 0;
        }
        self.packing.limited |= self.sizes.iter().any(|size| size.max <= size.current);
        None
    }
}

fn count(node: &mut PackedNode, index: usize) {
    match node.pods.iter_mut().find(|(other, _)| *other == index) {
        Some((_, count)) => *count += 1,
        None => node.pods.push((index, 1)),
    }
}
