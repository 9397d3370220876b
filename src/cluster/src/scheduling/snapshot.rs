//! A view over the World on which placements can be tried and taken back. It borrows, and decides nothing.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::scheduling::coming_drivers::ComingDrivers;
use crate::scheduling::constraints::Taint;
use crate::scheduling::devices::Slice;
use crate::scheduling::devices::book::Book;
use crate::scheduling::node_affinity::LabelledNode;
use crate::scheduling::node_views::NodeViews;
use crate::scheduling::own_rules::OwnRules;
use crate::scheduling::shares::Shares;
use crate::scheduling::topology::Topology;
use crate::scheduling::volumes::{ClassVolumes, NodeVolumes};
use crate::world::digest::{Amounts, NodeDigest};
use crate::world::interner::InternedId;
use crate::world::node::{HOSTNAME_LABEL, Node, Readiness};
use crate::world::pod::PodClass;
use crate::world::provider::OpenLabels;
use crate::world::volume::Volume;
use crate::world::{NodeId, PodId, World};
use headroom_values::labels::{Labels, ObjectKey};
use headroom_values::resources::Resources;

/// A node of the snapshot: real ones first in order of their names, added ones after them in order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(pub u32);

/// A pod class known to the snapshot: the world's interned ones first, those looked up besides after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassIx(pub u32);

/// A pod as the snapshot places it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodRef {
    /// A pod of the world, bound or pending.
    Real(PodId),
    /// A pod that does not exist: an anticipated replica, or a DaemonSet's pod on an added node.
    Virtual(ClassIx),
    /// A standby pod of a CapacityBuffer or of a ProvisioningRequest, by the number of its owner: room that is kept free. It keeps
    /// no node busy, and finds another place when its node goes.
    Standby(u32),
}

/// True if a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Presence {
    /// It takes pods and its pods count.
    Present,
    /// It takes no pods, yet its topology domain exists and what is left on it counts: a node being removed.
    Ghost,
    /// As if it were not there; what runs on it does not count.
    Gone,
}

/// A node that does not exist yet, as the group's template describes it.
#[derive(Clone, Debug, Default)]
pub struct TemplateNode {
    /// Labels, taints and allocatable; name and hostname label are given by each added node.
    pub node: Node,
    /// Labels that it will have and whose value only the cloud chooses.
    pub open_labels: OpenLabels,
    /// The pods of the DaemonSets that will run there.
    pub daemon_pods: Vec<ClassIx>,
    /// These DaemonSets, where they are known by name: as `daemon_pods`.
    pub daemon_sets: Vec<ObjectKey>,
    /// The sum of their requests.
    pub daemon_requested: Resources,
    /// CSI drivers that will be there.
    pub drivers: ComingDrivers,
    /// Slices that its drivers will publish, for a node named [`super::devices::COMING`]; `None` when it has no devices.
    pub devices: Option<Arc<[Slice]>>,
}

/// One node of the snapshot.
#[derive(Clone, Debug)]
pub struct NodeView<'w> {
    name: Cow<'w, Arc<str>>,
    source: Source<'w>,
    taints: Option<Arc<[Taint]>>,
    allocatable: Option<Arc<Resources>>,
    requested: Cow<'w, Resources>,
    pods: Pods<'w>,
    /// True if it has neither taints nor a cordon.
    open: bool,
    /// True if drivers of volumes may still have to put their labels on it.
    pub(super) awaits_drivers: bool,
    /// Drivers that it will have, while they may not all have registered.
    pub(super) coming: Option<ComingDrivers>,
}

#[derive(Clone, Debug)]
enum Source<'w> {
    Real(NodeId, &'w Node),
    Template(Arc<TemplateNode>),
}

/// The pods of a node: those of the world are borrowed until one is taken off.
#[derive(Clone, Debug)]
enum Pods<'w> {
    /// Those bound to it, and those put on it here.
    World(&'w [PodId], Vec<PodRef>),
    Own(Vec<PodRef>),
}

/// So many times the number of nodes are remembered as having got emptier; beyond that a look at all nodes is cheaper.
const FREED_PER_NODE_MAX: usize = 4;

/// A point to which [`Snapshot::rollback`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "a fork that is neither rolled back nor kept on purpose is a leak"]
pub struct Mark(usize);

/// One change, as it is taken back.
#[derive(Clone, Debug)]
enum Undo {
    Placed(NodeIx),
    Removed(NodeIx, usize, PodRef),
    Presence(NodeIx, Presence),
    Added,
}

/// A point in time from which [`Snapshot::freed_since`] returns the nodes that got emptier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FreedMark(usize);

/// Nodes that got emptier, in the order of the changes; where there are many, all so far are dropped.
#[derive(Debug, Default)]
struct FreedNodes {
    nodes: Vec<NodeIx>,
    dropped_count: usize,
}

/// The world, and what has been tried on it.
///
/// Iteration is deterministic: by name, then by order of addition. A fork is [`Snapshot::checkpoint`] and
/// [`Snapshot::rollback`]; nothing is copied but what is changed.
#[derive(Debug)]
pub struct Snapshot<'w> {
    world: &'w World,
    pub(super) nodes: NodeViews<'w>,
    real_count: usize,
    by_id: Vec<Option<NodeIx>>,
    extra_classes: Vec<Arc<PodClass>>,
    extra_ids: FxHashMap<Arc<PodClass>, ClassIx>,
    log: Vec<Undo>,
    /// Nodes that got emptier, once somebody asks; see [`Snapshot::follow_freed`].
    freed: Option<FreedNodes>,
    /// By number: the class of the owner's standby pods, and the owner as `kind/namespace/name`.
    standby: Vec<(ClassIx, Arc<str>)>,
    /// Nodes of the world whose pods were ever changed here, each once.
    touched: Vec<NodeIx>,
    is_touched: Vec<bool>,
    pub(super) topology: Topology,
    /// By class, once asked: see [`Snapshot::look_cost`].
    pub(super) look_costs: Vec<Option<u64>>,
    pub(super) own_rules: OwnRules,
    /// By node, once asked: the classes of its pods that hold host ports.
    pub(super) port_holders: Vec<Option<Vec<ClassIx>>>,
    /// By node, once asked: the volumes of its pods.
    pub(super) node_volumes: Vec<Option<NodeVolumes>>,
    /// Volumes of each class; `None` until first used.
    pub(super) volumes: Vec<Option<Arc<ClassVolumes>>>,
    /// Claims and the devices that they hold; `None` until first used.
    pub(super) devices: Option<Box<Book<'w>>>,
    /// CSI drivers that a node attaches a limited number of volumes of, or that one to come does; `None` until first used.
    pub(super) limited_drivers: Option<FxHashSet<Arc<str>>>,
    /// Volumes that may be claimed, once asked.
    pub(super) free_volumes: Option<Arc<[&'w Volume]>>,
    /// Work done so far: pod-node checks, and the terms, counters and pods that they look at. What limits count instead
    /// of time.
    pub work_units: u64,
    /// The shares of namespaces in that work; without limits at first.
    pub shares: Shares,
}

impl<'w> Snapshot<'w> {
    /// All delivered nodes of the world with the unfinished pods bound to them.
    #[must_use]
    pub fn new(world: &'w World) -> Self {
        let nodes = NodeViews::new(world);
        let mut by_id = vec![None; world.node_capacity()];
        for (index, id) in (0u32..).zip(nodes.real()) {
            by_id[id.0 as usize] = Some(NodeIx(index));
        }
        Self {
            world,
            real_count: nodes.len(),
            nodes,
            by_id,
            extra_classes: Vec::new(),
            extra_ids: FxHashMap::default(),
            log: Vec::new(),
            freed: None,
            standby: Vec::new(),
            touched: Vec::new(),
            is_touched: Vec::new(),
            topology: Topology::default(),
            look_costs: Vec::new(),
            own_rules: OwnRules::default(),
            port_holders: Vec::new(),
            node_volumes: Vec::new(),
            volumes: Vec::new(),
            devices: None,
            limited_drivers: None,
            free_volumes: None,
            work_units: 0,
            shares: Shares::default(),
        }
    }

    /// The world it looks at.
    #[must_use]
    pub fn world(&self) -> &'w World {
        self.world
    }

    /// The nodes that are not gone, ghosts included, in order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIx, &NodeView<'w>)> {
        self.indexes().map(|ix| (ix, self.node(ix)))
    }

    /// Indexes of the same. Where they are enough, nodes that nothing was tried on are not touched.
    pub fn indexes(&self) -> impl Iterator<Item = NodeIx> {
        let all = (0u32..).map(NodeIx).take(self.nodes.len());
        all.filter(|ix| self.presence(*ix) != Presence::Gone)
    }

    /// Those of them with pods that are not bound to them, or without some that are, in order.
    #[must_use]
    pub fn changed(&self) -> Vec<NodeIx> {
        let is_changed = |ix: &NodeIx| !self.untouched(*ix) && self.presence(*ix) != Presence::Gone;
        let mut changed: Vec<NodeIx> = self.touched().filter(is_changed).collect();
        changed.sort_unstable();
        changed
    }

    /// Number of nodes that were ever in it, gone ones included: the length for tables indexed by [`NodeIx`].
    #[must_use]
    pub fn nodes_capacity(&self) -> usize {
        self.nodes.len()
    }

    /// Number of them that are real: indexes below this one.
    #[must_use]
    pub fn real_count(&self) -> usize {
        self.real_count
    }

    /// One node.
    #[must_use]
    pub fn node(&self, node: NodeIx) -> &NodeView<'w> {
        &self.nodes[node]
    }

    /// Whether it takes part. As what follows, without making a view: for looks at all nodes.
    #[must_use]
    pub fn presence(&self, node: NodeIx) -> Presence {
        self.nodes.presence(node)
    }

    /// Cpu, memory and pods that the node offers.
    #[must_use]
    pub fn size(&self, node: NodeIx) -> Amounts {
        let looked_at = self.nodes.made(node).map(|view| Amounts::of(view.allocatable()));
        looked_at.or_else(|| Some(self.digest(node)?.allocatable)).unwrap_or_default()
    }

    /// True for a node of the world that is ready.
    #[must_use]
    pub fn is_ready(&self, node: NodeIx) -> bool {
        self.digest(node).is_some_and(|digest| digest.ready == Readiness::Ready)
    }

    /// A node of the world in short; `None` for an added one.
    fn digest(&self, node: NodeIx) -> Option<&'w NodeDigest> {
        self.nodes.real().get(node.0 as usize).map(|id| self.world.digest(*id))
    }

    /// The index of a delivered node of the world.
    #[must_use]
    pub fn index_of(&self, id: NodeId) -> Option<NodeIx> {
        self.by_id.get(id.0 as usize).copied().flatten()
    }

    /// The index of the delivered node of this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<NodeIx> {
        self.world.node_named(name).and_then(|(id, _, _)| self.index_of(id))
    }

    /// The index of a class, made if neither the world nor the snapshot has it.
    pub fn class_ix(&mut self, class: &Arc<PodClass>) -> ClassIx {
        if let Some(id) = self.world.classes().find(class) {
            return ClassIx(id.0);
        }
        if let Some(&ix) = self.extra_ids.get(class) {
            return ix;
        }
        let index = self.world.classes().capacity() + self.extra_classes.len();
        let ix = ClassIx(u32::try_from(index).expect("fewer than 2^32 classes fit in memory"));
        self.extra_classes.push(class.clone());
        self.extra_ids.insert(class.clone(), ix);
        self.class_is_new(ix, class);
        ix
    }

    /// The class of an index.
    #[must_use]
    pub fn class(&self, class: ClassIx) -> &Arc<PodClass> {
        let index = class.0 as usize;
        let interned = self.world.classes().capacity();
        if index < interned {
            self.world.classes().get(InternedId(class.0))
        } else {
            &self.extra_classes[index - interned]
        }
    }

    /// The class of a pod.
    #[must_use]
    pub fn class_of(&self, pod: PodRef) -> ClassIx {
        match pod {
            PodRef::Real(id) => ClassIx(self.world.pod(id).class.0),
            PodRef::Virtual(class) => class,
            PodRef::Standby(index) => self.standby[index as usize].0,
        }
    }

    /// The standby pod of one more owner, of this class; `owner` names it as `kind/namespace/name`. Numbers only grow.
    ///
    /// For building the snapshot only: it is not taken back by a rollback.
    pub fn add_standby(&mut self, class: ClassIx, owner: Arc<str>) -> PodRef {
        let number = u32::try_from(self.standby.len()).expect("fewer than 2^32 owners fit in memory");
        self.standby.push((class, owner));
        PodRef::Standby(number)
    }

    /// True if there may be standby pods here.
    #[must_use]
    pub fn has_standby(&self) -> bool {
        !self.standby.is_empty()
    }

    /// The owner of a standby pod as `kind/namespace/name`.
    #[must_use]
    pub fn owner_of_standby(&self, number: u32) -> &Arc<str> {
        &self.standby[number as usize].1
    }

    /// The unfinished pods on a node, planned ones included, in no particular order but always the same.
    pub fn pods(&self, node: NodeIx) -> impl Iterator<Item = PodRef> + '_ {
        let (borrowed, own) = self.pods_by_origin(node);
        let unfinished = |id: &&PodId| !self.world.pod(**id).pod.phase.finished();
        borrowed.iter().filter(unfinished).map(|id| PodRef::Real(*id)).chain(own.iter().copied())
    }

    /// True if nothing was ever put on the node or taken off it here: its pods are those that are bound to it.
    #[must_use]
    pub fn untouched(&self, node: NodeIx) -> bool {
        let made = self.nodes.made(node);
        made.is_none_or(|view| matches!(&view.pods, Pods::World(_, put) if put.is_empty()))
    }

    /// The pods of a node as they are kept: those bound to it in the world, finished ones included, and all others. When
    /// one was taken off, all are among the others.
    pub(super) fn pods_by_origin(&self, node: NodeIx) -> (&'w [PodId], &[PodRef]) {
        match &self.node(node).pods {
            Pods::World(bound, put) => (bound, put),
            Pods::Own(pods) => (&[], pods),
        }
    }

    /// True if the pods that are bound to the node are all still on it.
    pub(super) fn is_as_bound(&self, node: NodeIx) -> bool {
        matches!(self.node(node).pods, Pods::World(..))
    }

    /// Returns the free cpu, memory and pods of a node.
    #[must_use]
    pub fn room(&self, node: NodeIx) -> Amounts {
        self.nodes.room(node)
    }

    /// Puts a pod on a node. Nothing is checked: ask [`Snapshot::check`] before.
    pub fn place(&mut self, pod: PodRef, node: NodeIx) {
        self.touch(node);
        match &mut self.nodes[node].pods {
            Pods::World(_, put) => put.push(pod),
            Pods::Own(pods) => pods.push(pod),
        }
        self.count_in(pod, node);
        self.devices_placed(pod, node);
        self.log.push(Undo::Placed(node));
    }

    /// Takes a pod off a node; false when it is not there.
    pub fn remove(&mut self, pod: PodRef, node: NodeIx) -> bool {
        let is_there = self.take_off(pod, node);
        if is_there {
            self.devices_left(pod, node);
        }
        is_there
    }

    /// The same for a pod that others push off its node: the scheduler makes no devices free so.
    pub fn remove_without_devices(&mut self, pod: PodRef, node: NodeIx) {
        if self.take_off(pod, node) {
            self.devices_kept(pod);
        }
    }

    fn take_off(&mut self, pod: PodRef, node: NodeIx) -> bool {
        let pods = self.own_pods(node);
        let Some(position) = pods.iter().position(|other| *other == pod) else { return false };
        pods.remove(position);
        self.count_out(pod, node);
        self.log.push(Undo::Removed(node, position, pod));
        true
    }

    /// Lets a node take part, be a tainted ghost, or be gone.
    pub fn set_presence(&mut self, node: NodeIx, presence: Presence) {
        let before = self.presence(node);
        if before != presence {
            self.apply_presence(node, presence);
            self.log.push(Undo::Presence(node, before));
        }
    }

    /// Adds a node made after a template, with its DaemonSet pods on it.
    pub fn add_node(&mut self, template: &Arc<TemplateNode>, name: Arc<str>) -> NodeIx {
        let ix = NodeIx(u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes fit in memory"));
        self.nodes.push(NodeView {
            name: Cow::Owned(name),
            source: Source::Template(template.clone()),
            taints: None,
            allocatable: None,
            requested: Cow::Owned(template.daemon_requested.clone()),
            pods: Pods::Own(template.daemon_pods.iter().map(|class| PodRef::Virtual(*class)).collect()),
            open: template.node.taints.is_empty() && !template.node.unschedulable,
            awaits_drivers: true,
            coming: None,
        });
        self.measure(ix);
        self.node_added();
        self.devices_added(ix, template.devices.as_ref());
        self.log.push(Undo::Added);
        ix
    }

    /// Looks at a node that is still starting as it will be: with these taints and amounts.
    ///
    /// For building the snapshot only: it is not taken back by a rollback.
    pub fn expect_started(&mut self, node: NodeIx, taints: Vec<Taint>, allocatable: Option<Resources>) {
        let view = &mut self.nodes[node];
        view.open = taints.is_empty() && !view.unschedulable();
        view.taints = Some(taints.into());
        view.allocatable = allocatable.map(Arc::new);
        self.measure(node);
        // What was counted before may have looked at the taints.
        self.topology = Topology::default();
        self.own_rules = OwnRules::default();
        self.volumes.clear();
    }

    /// The point to which a later [`Snapshot::rollback`] returns.
    pub fn checkpoint(&self) -> Mark {
        Mark(self.log.len())
    }

    /// Takes back every change since `mark`, newest first.
    pub fn rollback(&mut self, mark: Mark) {
        while mark.0 < self.log.len() {
            match self.log.pop() {
                Some(Undo::Placed(node)) => {
                    let put = match &mut self.nodes[node].pods {
                        Pods::World(_, put) => put.pop(),
                        Pods::Own(pods) => pods.pop(),
                    };
                    if let Some(pod) = put {
                        self.devices_not_placed(pod, node);
                        self.count_out(pod, node);
                    }
                }
                Some(Undo::Removed(node, position, pod)) => {
                    self.own_pods(node).insert(position, pod);
                    self.count_in(pod, node);
                    self.devices_not_left(pod, node);
                }
                Some(Undo::Presence(node, before)) => self.apply_presence(node, before),
                Some(Undo::Added) => self.pop_node(),
                None => return,
            }
        }
    }

    /// From now on nodes that get emptier, or take part again, are remembered.
    pub fn follow_freed(&mut self) -> FreedMark {
        let freed = self.freed.get_or_insert_default();
        FreedMark(freed.dropped_count + freed.nodes.len())
    }

    /// The nodes of which more may be free than at `since`, or that take part again; each as often as that happened. `None`
    /// where that is too long ago: then it may be any.
    #[must_use]
    pub fn freed_since(&self, since: FreedMark) -> Option<&[NodeIx]> {
        let freed = self.freed.as_ref()?;
        freed.nodes.get(since.0.checked_sub(freed.dropped_count)?..)
    }

    fn note_freed(&mut self, node: NodeIx) {
        let most = FREED_PER_NODE_MAX * self.nodes.len();
        if let Some(freed) = &mut self.freed {
            if most <= freed.nodes.len() {
                freed.dropped_count += std::mem::take(&mut freed.nodes).len();
            }
            freed.nodes.push(node);
        }
    }

    fn pop_node(&mut self) {
        self.node_dropped();
        self.nodes.pop();
        self.port_holders.truncate(self.nodes.len());
        self.node_volumes.truncate(self.nodes.len());
        if let Some(devices) = &mut self.devices {
            devices.drop_nodes_from(self.nodes.len());
        }
    }

    fn apply_presence(&mut self, node: NodeIx, presence: Presence) {
        let before = self.presence(node);
        let (was, is) = (before != Presence::Gone, presence != Presence::Gone);
        let (was_marked, is_marked) = (before == Presence::Ghost, presence == Presence::Ghost);
        // A node that leaves carries a mark, and some rules leave nodes with such taints out of what they count.
        let remarked = was_marked != is_marked && self.honors_taints();
        if was && (!is || remarked) {
            self.node_moved(node, -1);
        }
        self.nodes.set_presence(node, presence);
        self.note_freed(node);
        if remarked {
            self.remark(node);
        }
        if is && (!was || remarked) {
            self.node_moved(node, 1);
        }
    }

    /// Classes that the world does not have, in order of their look-up.
    pub(super) fn extra_classes(&self) -> Vec<(ClassIx, Arc<PodClass>)> {
        self.extra_classes
            .iter()
            .filter_map(|class| Some((*self.extra_ids.get(class)?, class.clone())))
            .collect()
    }

    fn count_in(&mut self, pod: PodRef, node: NodeIx) {
        let requests = self.requests_of(pod);
        self.nodes[node].requested.to_mut().add(&requests);
        self.measure(node);
        self.note_holder(pod, node, true);
        self.volumes_moved(pod, node, 1);
        self.pod_moved(pod, node, 1);
    }

    fn count_out(&mut self, pod: PodRef, node: NodeIx) {
        let requests = self.requests_of(pod);
        self.nodes[node].requested.to_mut().subtract(&requests);
        self.measure(node);
        self.note_freed(node);
        self.note_holder(pod, node, false);
        self.volumes_moved(pod, node, -1);
        self.pod_moved(pod, node, -1);
    }

    /// Nodes on which pods may be that are not bound to them, or from which bound ones were taken.
    pub(super) fn touched(&self) -> impl Iterator<Item = NodeIx> + '_ {
        let added = self.real_count..self.nodes.len();
        let added = added.map(|at| NodeIx(u32::try_from(at).expect("indexes of nodes fit 32 bits")));
        self.touched.iter().copied().chain(added)
    }

    fn touch(&mut self, node: NodeIx) {
        let at = node.0 as usize;
        if self.real_count <= at {
            return;
        }
        if self.is_touched.is_empty() {
            self.is_touched = vec![false; self.real_count];
        }
        if !self.is_touched[at] {
            self.is_touched[at] = true;
            self.touched.push(node);
        }
    }

    /// Returns the requests of a pod; classes of the world are borrowed from there.
    fn requests_of(&self, pod: PodRef) -> Cow<'w, Resources> {
        let class = self.class_of(pod);
        if (class.0 as usize) < self.world.classes().capacity() {
            Cow::Borrowed(&self.world.classes().get(InternedId(class.0)).requests)
        } else {
            Cow::Owned(self.class(class).requests.clone())
        }
    }

    /// Works out what is left of a node.
    fn measure(&mut self, node: NodeIx) {
        let view = self.node(node);
        let room = Amounts::of(view.allocatable()).less(Amounts::of(view.requested()));
        self.nodes.set_room(node, room);
    }

    /// The node's own list of pods, copied from the world when the first one is taken off.
    fn own_pods(&mut self, node: NodeIx) -> &mut Vec<PodRef> {
        self.touch(node);
        if let Pods::World(..) = self.node(node).pods {
            let pods = self.pods(node).collect();
            self.nodes[node].pods = Pods::Own(pods);
        }
        let Pods::Own(pods) = &mut self.nodes[node].pods else { unreachable!("made own above") };
        pods
    }
}

impl<'w> NodeView<'w> {
    /// A node as the world has it; `None` before its delivery.
    pub(super) fn of(id: NodeId, world: &'w World) -> Option<Self> {
        let (entry, digest) = (world.node(id), world.digest(id));
        let node = entry.node.as_ref()?;
        Some(Self {
            name: Cow::Borrowed(&node.name),
            source: Source::Real(id, node),
            taints: None,
            allocatable: None,
            requested: Cow::Borrowed(&entry.requested),
            pods: Pods::World(&entry.pods, Vec::new()),
            open: !digest.tainted && !digest.unschedulable,
            awaits_drivers: false,
            coming: None,
        })
    }

    /// The node's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The node of the world; `None` for an added one.
    #[must_use]
    pub fn real(&self) -> Option<(NodeId, &'w Node)> {
        match &self.source {
            Source::Real(id, node) => Some((*id, node)),
            Source::Template(_) => None,
        }
    }

    /// True if drivers of volumes may still have to put their labels on it.
    #[must_use]
    pub fn awaits_drivers(&self) -> bool {
        self.awaits_drivers
    }

    /// The template that it was made after; `None` for a node of the world.
    #[must_use]
    pub fn template(&self) -> Option<&Arc<TemplateNode>> {
        match &self.source {
            Source::Real(..) => None,
            Source::Template(template) => Some(template),
        }
    }

    /// True if it was added after a template.
    #[must_use]
    pub fn is_added(&self) -> bool {
        matches!(self.source, Source::Template(_))
    }

    /// Its labels; an added node's hostname is only seen through [`LabelledNode::label`].
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.source().labels
    }

    /// Its taints, without those that it will lose when it has started.
    #[must_use]
    pub fn taints(&self) -> &[Taint] {
        self.taints.as_deref().unwrap_or(&self.source().taints)
    }

    /// True if it is cordoned.
    #[must_use]
    pub fn unschedulable(&self) -> bool {
        self.source().unschedulable
    }

    /// True if it has neither taints nor a cordon: no pod needs a toleration for it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the allocatable amounts of the node.
    #[must_use]
    pub fn allocatable(&self) -> &Resources {
        self.allocatable.as_deref().unwrap_or(&self.source().allocatable)
    }

    /// Returns the sum of its pods' requests.
    #[must_use]
    pub fn requested(&self) -> &Resources {
        &self.requested
    }

    /// CSI drivers that it will have, where they may not all be there yet.
    pub(super) fn coming_drivers(&self) -> Option<&ComingDrivers> {
        match &self.source {
            Source::Real(..) => self.coming.as_ref(),
            Source::Template(template) => Some(&template.drivers),
        }
    }

    fn source(&self) -> &Node {
        match &self.source {
            Source::Real(_, node) => node,
            Source::Template(template) => &template.node,
        }
    }
}

impl LabelledNode for NodeView<'_> {
    fn node_name(&self) -> &str {
        &self.name
    }

    fn label(&self, key: &str) -> Option<&str> {
        if key == HOSTNAME_LABEL && self.is_added() { Some(&self.name) } else { self.labels().get(key) }
    }

    fn open(&self, key: &str) -> Option<&[Arc<str>]> {
        self.template()?.open_labels.get(key).map(Vec::as_slice)
    }
}
