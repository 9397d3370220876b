//! Record of the claims that hold devices while pods are tried on the nodes of a snapshot. Allocations can be undone in
//! the reverse order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::claim::Claim;
use super::held::{Held, InUse};
use super::pools::PoolId;
use super::selector::Selectors;
use super::slice::Slice;
use super::{AllocatedDevice, ClaimAllocation};
use crate::scheduling::constraints::NodeSelectorTerm;
use crate::scheduling::refusal::Refusal;
use crate::scheduling::snapshot::{NodeIx, PodRef, Snapshot};
use crate::world::PodId;
use crate::world::devices::{Devices, ResourceClaim};
use headroom_values::labels::ObjectKey;

/// The state of all devices in a snapshot.
#[derive(Debug)]
pub(in crate::scheduling) struct Book<'w> {
    pub(super) objects: &'w Devices,
    /// Slices of pools that one node alone can use, by that node.
    own: FxHashMap<&'w str, Vec<&'w Slice>>,
    /// The slices of all other pools.
    wide: Vec<&'w Slice>,
    wide_pools: BTreeSet<PoolId>,
    wide_held: Held,
    nodes: Vec<NodeDevices>,
    claims: Vec<ClaimState>,
    /// Claims that pods may name, by their place in `claims`.
    named: FxHashMap<ObjectKey, usize>,
    /// Claims that bound pods use.
    used_by: FxHashMap<PodId, Vec<usize>>,
    /// By class: what its claims ask.
    pub(super) asked: Vec<Option<AskedByClass>>,
    pub(super) selectors: Selectors,
    /// Pods that were taken off nodes, with their places there; `None` for pods that held nothing.
    removed: Vec<Option<(usize, PodEntry)>>,
    /// Counts changes of what several nodes can see.
    pub(super) wide_changes: u64,
    /// Slices of nodes to come that were looked at: they stay where they are, since selectors are remembered by place.
    kept: Vec<Arc<[Slice]>>,
}

/// Requests of a class's claims, or the reason why no node can meet them.
pub(super) type AskedByClass = Arc<Result<Vec<Asked>, Refusal>>;

/// The devices of one node.
#[derive(Debug, Default)]
pub(super) struct NodeDevices {
    /// Devices of its own pools that are held.
    held: Held,
    /// Counts changes of `held`.
    pub(super) changes: u64,
    pods: Vec<PodEntry>,
    /// Slices that stand for those that its drivers will publish.
    expected: Option<Arc<[Slice]>>,
    /// Last result, with its inputs.
    pub(super) last: Option<super::plugin::Remembered>,
}

/// A pod on a node with the claims that it uses.
#[derive(Clone, Debug)]
struct PodEntry {
    pod: PodRef,
    claims: Vec<usize>,
    /// Claims that were allocated for it, as they were before.
    replaced: Vec<(usize, ClaimState)>,
    /// Number of claims that there were before it came.
    claims_before: usize,
}

/// A claim of a pod, as its class has it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The claim's name in the pod, and what it asks for.
    pub(super) claim: Claim,
    /// The place of the claim, if pods may share it.
    pub(super) named: Option<usize>,
    /// The claim's own name, for texts.
    pub(super) object: Arc<str>,
    /// True if it stands for extended resources.
    pub(super) is_extended: bool,
}

/// A claim, and what it holds.
#[derive(Clone, Debug, Default)]
pub(super) struct ClaimState {
    pub(super) devices: Vec<AllocatedDevice>,
    pub(super) reach: Reach,
    /// Pods that use it. Without any it holds nothing: it is deallocated where it is in the way.
    pub(super) users: u32,
}

/// Nodes from which the devices of a claim can be used.
#[derive(Clone, Debug, Default)]
pub(super) enum Reach {
    /// All.
    #[default]
    Everywhere,
    /// One.
    Node(NodeIx),
    /// Those that a selector accepts.
    Term(NodeSelectorTerm),
}

impl<'w> Book<'w> {
    /// The state as the world has it, before any pod is tried.
    pub(in crate::scheduling) fn new(snapshot: &Snapshot<'w>) -> Self {
        let objects = snapshot.world().devices();
        let mut book = Self {
            objects,
            own: FxHashMap::default(),
            wide: Vec::new(),
            wide_pools: wide_pools(objects),
            wide_held: Held::default(),
            nodes: Vec::new(),
            claims: Vec::new(),
            named: FxHashMap::default(),
            used_by: FxHashMap::default(),
            asked: Vec::new(),
            selectors: Selectors::remembering(),
            removed: Vec::new(),
            wide_changes: 0,
            kept: Vec::new(),
        };
        let mut node_of: BTreeMap<PoolId, &'w str> = BTreeMap::new();
        for slice in objects.slices() {
            let id = pool_id(slice);
            match slice.spec.node_name.as_deref() {
                Some(node) if !book.wide_pools.contains(&id) => {
                    book.own.entry(node).or_default().push(slice);
                    node_of.insert(id, node);
                }
                _ => book.wide.push(slice),
            }
        }
        for claim in objects.claims() {
            book.add_claim(claim, &node_of, snapshot);
        }
        book
    }

    /// Takes in a claim of the world with what it holds.
    fn add_claim(
        &mut self,
        claim: &ResourceClaim,
        node_of: &BTreeMap<PoolId, &str>,
        snapshot: &Snapshot<'_>,
    ) {
        let place = self.claims.len();
        self.named.insert(claim.key.clone(), place);
        self.claims.push(ClaimState::default());
        let Some(ClaimAllocation { devices, node_selector }) = &claim.allocation else { return };
        let on_node = devices.iter().find_map(|device| {
            let id = PoolId { driver: device.id.driver.clone(), name: device.id.pool.clone() };
            node_of.get(&id).and_then(|node| snapshot.named(node))
        });
        let reach = match (on_node, node_selector) {
            (Some(node), _) => Reach::Node(node),
            (None, Some(term)) => Reach::Term(term.clone()),
            (None, None) => Reach::Everywhere,
        };
        let mut users = 0;
        for user in &claim.users {
            let key = ObjectKey::new(claim.key.namespace.clone(), &*user.name);
            let pod = snapshot.world().pod_id(&key).filter(|_| user.pod);
            let pod = pod.map(|id| (id, snapshot.world().pod(id)));
            match pod.filter(|(_, entry)| entry.pod.uid == user.uid) {
                // What pods without a node have been given is given back if it is in their way.
                Some((_, entry)) if entry.node.is_none() => {}
                Some((id, entry)) => {
                    users += 1;
                    self.used_by.entry(id).or_default().push(place);
                    let node = entry.node.and_then(|node| snapshot.index_of(node));
                    if let Some(node) = node {
                        self.add_pod(PodRef::Real(id), node, place);
                    }
                }
                // Pods that have ended are not watched, and groups of pods are not looked into.
                None => users += 1,
            }
        }
        self.claims[place] = ClaimState { devices: devices.clone(), reach, users };
        if 0 < users {
            self.hold(place, true);
        }
    }

    fn add_pod(&mut self, pod: PodRef, node: NodeIx, claim: usize) {
        let pods = &mut self.node_mut(node).pods;
        match pods.iter_mut().find(|entry| entry.pod == pod) {
            Some(entry) => entry.claims.push(claim),
            None => pods.push(PodEntry { pod, claims: vec![claim], replaced: Vec::new(), claims_before: 0 }),
        }
    }

    pub(super) fn node_mut(&mut self, node: NodeIx) -> &mut NodeDevices {
        let at = node.0 as usize;
        if self.nodes.len() <= at {
            self.nodes.resize_with(at + 1, NodeDevices::default);
        }
        &mut self.nodes[at]
    }

    pub(super) fn node(&self, node: NodeIx) -> Option<&NodeDevices> {
        self.nodes.get(node.0 as usize)
    }

    pub(super) fn claim(&self, place: usize) -> &ClaimState {
        &self.claims[place]
    }

    /// The place of a claim that pods may share.
    pub(super) fn named(&self, key: &ObjectKey) -> Option<usize> {
        self.named.get(key).copied()
    }

    /// Slices that are of use for a node: its own, or those that stand for them, and all that several nodes can use.
    pub(super) fn slices<'b>(&'b self, node: NodeIx, name: &str) -> Vec<&'b Slice> {
        let mut slices: Vec<&Slice> = Vec::new();
        let expected = self.node(node).and_then(|devices| devices.expected.as_deref()).unwrap_or_default();
        let will_publish =
            |slice: &&Slice| !expected.iter().any(|expected| expected.spec.driver == slice.spec.driver);
        slices.extend(self.own.get(name).into_iter().flatten().copied().filter(will_publish));
        slices.extend(expected);
        slices.extend(self.wide.iter().copied());
        slices
    }

    /// Returns the devices in use, as a node sees them.
    pub(super) fn in_use<'b>(&'b self, node: NodeIx, nothing: &'b Held) -> InUse<'b> {
        InUse { own: self.node(node).map_or(nothing, |devices| &devices.held), wide: &self.wide_held }
    }

    /// Returns the devices held by the claims of some pods on a node.
    pub(super) fn held_by(&self, node: NodeIx, by: impl Fn(PodRef) -> bool) -> Held {
        let mut held = Held::default();
        let pods = self.node(node).map_or(&[][..], |devices| &devices.pods);
        let claims: BTreeSet<usize> =
            pods.iter().filter(|entry| by(entry.pod)).flat_map(|entry| &entry.claims).copied().collect();
        claims.iter().flat_map(|place| &self.claims[*place].devices).for_each(|device| held.add(device));
        held
    }

    /// Looks at a node as having these slices, until its drivers publish their own.
    pub(in crate::scheduling) fn expect(&mut self, node: NodeIx, slices: Arc<[Slice]>) {
        if !self.kept.iter().any(|kept| Arc::ptr_eq(kept, &slices)) {
            self.kept.push(slices.clone());
        }
        let devices = self.node_mut(node);
        devices.expected = Some(slices);
        devices.changes += 1;
    }

    /// An added node is gone again.
    pub(in crate::scheduling) fn drop_nodes_from(&mut self, count: usize) {
        while count < self.nodes.len() {
            let last = NodeIx(u32::try_from(self.nodes.len() - 1).expect("indexes of nodes fit 32 bits"));
            // Pods of its DaemonSets: all others have been taken off it before.
            while !self.node_mut(last).pods.is_empty() {
                self.take_back(last);
            }
            self.nodes.pop();
        }
    }

    /// A pod comes to a node with these claims; `allocated` are those that it brings or allocates, with what they get.
    pub(super) fn add(
        &mut self,
        pod: PodRef,
        node: NodeIx,
        mut claims: Vec<usize>,
        allocated: Vec<(Option<usize>, ClaimState)>,
    ) {
        let claims_before = self.claims.len();
        let mut replaced = Vec::new();
        for (named, state) in allocated {
            let place = match named {
                Some(place) => {
                    replaced.push((place, std::mem::replace(&mut self.claims[place], state)));
                    place
                }
                None => {
                    self.claims.push(state);
                    self.claims.len() - 1
                }
            };
            claims.push(place);
        }
        claims.iter().for_each(|place| self.use_claim(*place));
        self.node_mut(node).pods.push(PodEntry { pod, claims, replaced, claims_before });
    }

    /// Claims that a bound pod uses on the node where it is.
    pub(super) fn claims_of(&self, pod: PodId) -> Option<&Vec<usize>> {
        self.used_by.get(&pod)
    }

    /// The pod that came last to a node has never come.
    pub(in crate::scheduling) fn take_back(&mut self, node: NodeIx) {
        let Some(entry) = self.node_mut(node).pods.pop() else { return };
        entry.claims.iter().for_each(|place| self.leave_claim(*place));
        for (place, state) in entry.replaced.into_iter().rev() {
            self.claims[place] = state;
        }
        self.claims.truncate(entry.claims_before);
    }

    /// A pod leaves a node.
    pub(in crate::scheduling) fn remove(&mut self, pod: PodRef, node: NodeIx) {
        let pods = &mut self.node_mut(node).pods;
        let position = pods.iter().rposition(|entry| entry.pod == pod);
        let entry = position.map(|position| (position, pods.remove(position)));
        if let Some((_, entry)) = &entry {
            entry.claims.iter().for_each(|place| self.leave_claim(*place));
        }
        self.removed.push(entry);
    }

    /// A pod leaves a node, and its claims hold what they held.
    pub(in crate::scheduling) fn remove_and_hold(&mut self) {
        self.removed.push(None);
    }

    /// The pod that was taken off last is on its node again.
    pub(in crate::scheduling) fn put_back(&mut self, node: NodeIx) {
        let Some(Some((position, entry))) = self.removed.pop() else { return };
        entry.claims.iter().for_each(|place| self.use_claim(*place));
        self.node_mut(node).pods.insert(position, entry);
    }

    fn use_claim(&mut self, place: usize) {
        self.claims[place].users += 1;
        if self.claims[place].users == 1 {
            self.hold(place, true);
        }
    }

    fn leave_claim(&mut self, place: usize) {
        self.claims[place].users -= 1;
        if self.claims[place].users == 0 {
            self.hold(place, false);
        }
    }

    /// The devices of a claim are held, or are free again.
    fn hold(&mut self, place: usize, held: bool) {
        let ClaimState { devices, reach, .. } = self.claims[place].clone();
        // Where pods that share a claim may run has changed.
        self.wide_changes += u64::from(place < self.named.len());
        for device in devices {
            let id = PoolId { driver: device.id.driver.clone(), name: device.id.pool.clone() };
            let change = |of: &mut Held| if held { of.add(&device) } else { of.remove(&device) };
            match reach {
                Reach::Node(node) if !self.wide_pools.contains(&id) => {
                    let own = self.node_mut(node);
                    own.changes += 1;
                    change(&mut own.held);
                }
                _ => {
                    self.wide_changes += 1;
                    change(&mut self.wide_held);
                }
            }
        }
    }
}

/// The pool of a slice.
pub(super) fn pool_id(slice: &Slice) -> PoolId {
    PoolId { driver: slice.spec.driver.clone(), name: slice.spec.pool.name.clone() }
}

/// Pools that several nodes can use.
fn wide_pools(objects: &Devices) -> BTreeSet<PoolId> {
    let mut nodes: BTreeMap<PoolId, Option<&str>> = BTreeMap::new();
    let mut wide = BTreeSet::new();
    for slice in objects.slices() {
        let (id, node) = (pool_id(slice), slice.spec.node_name.as_deref());
        let first = *nodes.entry(id.clone()).or_insert(node);
        if node.is_none() || first != node {
            wide.insert(id);
        }
    }
    wide
}
