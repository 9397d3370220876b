//! The claims of a pod on a node of a snapshot: whether they can be met beside those that are there.
//!
//! Source: kube-scheduler, plugins/dynamicresources, PreFilter and Filter.

use std::sync::Arc;

use super::book::{Asked, AskedByClass, Book, ClaimState, Reach};
use super::claim::{Claim, ClaimDevices, ClaimSpec, DeviceRequest, Request};
use super::held::Held;
use super::{Answer, ClaimAllocation, DeviceError, Offer, Slice, diagnosis};
use crate::scheduling::node_affinity::{LabelledNode, any_term_holds};
use crate::scheduling::refusal::Refusal;
use crate::scheduling::snapshot::{ClassIx, NodeIx, NodeView, PodRef, Snapshot};
use crate::world::devices::{DeviceClaimSource, Devices, PodDeviceClaim};
use crate::world::pod::PodClass;
use headroom_values::labels::ObjectKey;
use headroom_values::reason::Reason;

/// The name under which slices name a node that has none yet.
pub const COMING: &str = "(coming)";

/// Name, in texts, of the claim that kube-scheduler makes for extended resources.
const EXTENDED_CLAIM: &str = "extended-resources";

/// Work units of one allocation that was not looked up, beyond the one of the check.
const ALLOCATION_COST: u64 = 4;

/// Devices of a node for the claims of a class: one entry a claim that has nothing yet, by its place among the class's.
type Given = Arc<Vec<(usize, ClaimAllocation)>>;

/// Last result on a node.
#[derive(Debug)]
pub(super) struct Remembered {
    class: ClassIx,
    /// Changes of the node, and of what several nodes can see.
    changes: (u64, u64),
    found: Result<Given, Miss>,
}

/// Reason why the claims of a class are not met on a node.
#[derive(Clone, Debug)]
pub(super) enum Miss {
    /// Nowhere.
    Hopeless(Refusal),
    /// The devices of a claim, by its place among the class's, can only be used elsewhere.
    Elsewhere(usize),
    /// The node does not have the devices.
    DoesNotFit,
    /// The search was not looked at to the end.
    Error(DeviceError),
}

/// A node as slices name it.
struct NamedNode<'n, 'w> {
    view: &'n NodeView<'w>,
    name: &'n str,
}

impl LabelledNode for NamedNode<'_, '_> {
    fn node_name(&self) -> &str {
        self.name
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.view.label(key)
    }

    fn open(&self, key: &str) -> Option<&[Arc<str>]> {
        self.view.open(key)
    }
}

impl<'w> Snapshot<'w> {
    /// True if devices affect the place of pods of this class: by claims, or by extended resources that devices may serve.
    #[must_use]
    pub fn has_device_claims(&self, class: ClassIx) -> bool {
        let pods = self.class(class);
        !pods.device_claims.is_empty() || self.world().devices().may_serve(&pods.requests)
    }

    /// True if the node has what the claims of a class ask for.
    pub(in crate::scheduling) fn has_devices(&mut self, class: ClassIx, node: NodeIx) -> bool {
        self.with_devices(|book, snapshot| book.fit(class, node, snapshot).is_ok())
    }

    /// The same with the reason.
    pub(in crate::scheduling) fn check_devices(
        &mut self,
        class: ClassIx,
        node: NodeIx,
    ) -> Result<(), Refusal> {
        if !self.has_device_claims(class) {
            return Ok(());
        }
        self.with_devices(|book, snapshot| {
            let missed = book.fit(class, node, snapshot).map(|_| ());
            missed.map_err(|miss| book.refusal(miss, class, node, snapshot))
        })
    }

    /// Finds out who holds which devices, unless that is known: [`Snapshot::devices_held`] looks it up.
    pub fn look_at_devices(&mut self) {
        self.with_devices(|_, _| ());
    }

    /// Returns the devices that the claims of some pods on a node hold; none before [`Snapshot::look_at_devices`].
    #[must_use]
    pub fn devices_held(&self, node: NodeIx, by: impl Fn(PodRef) -> bool) -> Held {
        self.devices.as_ref().map_or_else(Held::default, |book| book.held_by(node, by))
    }

    /// A pod has come to a node.
    pub(in crate::scheduling) fn devices_placed(&mut self, pod: PodRef, node: NodeIx) {
        let class = self.class_of(pod);
        if self.has_device_claims(class) {
            self.with_devices(|book, snapshot| book.place(pod, class, node, snapshot));
        }
    }

    /// A pod has left a node.
    pub(in crate::scheduling) fn devices_left(&mut self, pod: PodRef, node: NodeIx) {
        if self.has_device_claims(self.class_of(pod)) {
            self.with_devices(|book, _| book.remove(pod, node));
        }
    }

    /// A pod has left a node, and nobody else gets its devices.
    pub(in crate::scheduling) fn devices_kept(&mut self, pod: PodRef) {
        if self.has_device_claims(self.class_of(pod)) {
            self.with_devices(|book, _| book.remove_and_hold());
        }
    }

    /// A pod has never come to a node.
    pub(in crate::scheduling) fn devices_not_placed(&mut self, pod: PodRef, node: NodeIx) {
        if self.has_device_claims(self.class_of(pod)) {
            self.with_devices(|book, _| book.take_back(node));
        }
    }

    /// A pod has never left a node.
    pub(in crate::scheduling) fn devices_not_left(&mut self, pod: PodRef, node: NodeIx) {
        if self.has_device_claims(self.class_of(pod)) {
            self.with_devices(|book, _| book.put_back(node));
        }
    }

    /// A node was added: it will have the devices of its template, and the pods of its DaemonSets have theirs.
    pub(in crate::scheduling) fn devices_added(&mut self, node: NodeIx, slices: Option<&Arc<[Slice]>>) {
        let Some(slices) = slices else { return };
        let pods: Vec<PodRef> = self.pods(node).collect();
        self.with_devices(|book, _| book.expect(node, slices.clone()));
        pods.into_iter().for_each(|pod| self.devices_placed(pod, node));
    }

    /// Looks at a node that is still starting as having these slices, until its drivers publish their own.
    ///
    /// For building the snapshot only: it is not taken back by a rollback.
    pub fn expect_devices(&mut self, node: NodeIx, slices: &[Slice]) {
        let name = self.node(node).name().clone();
        let own = slices.iter().cloned().map(|mut slice| {
            slice.spec.node_name = Some(name.clone());
            slice
        });
        let own: Arc<[Slice]> = own.collect();
        self.with_devices(|book, _| book.expect(node, own));
    }

    /// Works on the state of devices beside the snapshot; it is made when it is first asked for.
    fn with_devices<T>(&mut self, work: impl FnOnce(&mut Book<'w>, &mut Self) -> T) -> T {
        let mut book = self.devices.take().unwrap_or_else(|| Box::new(Book::new(self)));
        let result = work(&mut book, self);
        self.devices = Some(book);
        result
    }
}

impl<'w> Book<'w> {
    /// Finds devices of a node for the claims of a class.
    fn fit(&mut self, class: ClassIx, node: NodeIx, snapshot: &mut Snapshot<'w>) -> Result<Given, Miss> {
        let changes = (self.node_mut(node).changes, self.wide_changes);
        if let Some(last) = &self.node_mut(node).last
            && last.class == class
            && last.changes == changes
        {
            return last.found.clone();
        }
        let asked = self.asked(class, snapshot);
        let found = match &*asked {
            Ok(asked) => {
                snapshot.work_units += ALLOCATION_COST;
                self.search(asked, node, snapshot)
            }
            Err(refusal) => Err(Miss::Hopeless(refusal.clone())),
        };
        self.node_mut(node).last = Some(Remembered { class, changes, found: found.clone() });
        found
    }

    fn search(&mut self, asked: &[Asked], node: NodeIx, snapshot: &Snapshot<'w>) -> Result<Given, Miss> {
        let view = snapshot.node(node);
        let node_name = if view.is_added() { COMING } else { &**view.name() };
        let named = NamedNode { view, name: node_name };
        let mut open = Vec::with_capacity(asked.len());
        for (at, one) in asked.iter().enumerate() {
            let state = one.named.map(|place| self.claim(place)).filter(|state| 0 < state.users);
            let reached = match state.map(|state| &state.reach) {
                None => {
                    open.push(at);
                    true
                }
                Some(Reach::Everywhere) => true,
                Some(Reach::Node(other)) => *other == node,
                Some(Reach::Term(term)) => any_term_holds(std::slice::from_ref(term), view),
            };
            if !reached {
                return Err(Miss::Elsewhere(at));
            }
        }
        if open.is_empty() {
            return Ok(Given::default());
        }
        let claims: Vec<Claim> = open.iter().map(|at| asked[*at].claim_on(view)).collect();
        let mut selectors = std::mem::take(&mut self.selectors);
        let (nothing, slices) = (Held::default(), self.slices(node, view.name()));
        let held = self.in_use(node, &nothing);
        let (classes, taint_rules) = (self.objects.classes(), self.objects.taint_rules());
        let offer = Offer { slices: &slices, classes, taint_rules, held };
        let answer = super::allocate(&named, offer, &claims, &mut selectors);
        self.selectors = selectors;
        match answer {
            Ok(Answer::Allocated(given)) => Ok(Arc::new(open.into_iter().zip(given).collect())),
            Ok(Answer::DoesNotFit) => Err(Miss::DoesNotFit),
            Err(error) => Err(Miss::Error(error)),
        }
    }

    /// Puts a pod on a node. One that is bound there has what it has; others get what there is, if there is any.
    fn place(&mut self, pod: PodRef, class: ClassIx, node: NodeIx, snapshot: &mut Snapshot<'w>) {
        if let PodRef::Real(id) = pod
            && snapshot.world().pod(id).node.and_then(|there| snapshot.index_of(there)) == Some(node)
            && let Some(claims) = self.claims_of(id).cloned()
        {
            return self.add(pod, node, claims, Vec::new());
        }
        let given = self.fit(class, node, snapshot).unwrap_or_default();
        let asked = self.asked(class, snapshot);
        let Ok(asked) = &*asked else { return self.add(pod, node, Vec::new(), Vec::new()) };
        let is_given = |at: usize| given.iter().any(|(given, _)| *given == at);
        let in_use = |place: &usize| 0 < self.claim(*place).users;
        let shared = asked.iter().enumerate().filter(|(at, _)| !is_given(*at));
        let shared: Vec<usize> = shared.filter_map(|(_, one)| one.named.filter(in_use)).collect();
        let allocated = given.iter().map(|(at, allocation)| (asked[*at].named, state(allocation, node)));
        let allocated = allocated.collect();
        self.add(pod, node, shared, allocated);
    }

    /// Returns the device requests of a class's claims.
    fn asked(&mut self, class: ClassIx, snapshot: &Snapshot<'w>) -> AskedByClass {
        let at = class.0 as usize;
        if let Some(Some(known)) = self.asked.get(at) {
            return known.clone();
        }
        let pods = snapshot.class(class).clone();
        let of_class = |claim: &PodDeviceClaim| self.asked_by(claim, &pods);
        let asked: Result<Vec<Asked>, Refusal> = if self.objects.is_served() {
            let extended = extended_claim(&pods, self.objects).map(Ok);
            pods.device_claims.iter().map(of_class).chain(extended).collect()
        } else {
            let name = pods.device_claims.first().map(|claim| claim.name.clone()).unwrap_or_default();
            let what = format!("resource claim {name}: the server has no resource.k8s.io/v1");
            Err(Refusal::Unsupported { what: what.into() })
        };
        let asked = Arc::new(asked);
        if self.asked.len() <= at {
            self.asked.resize(at + 1, None);
        }
        self.asked[at] = Some(asked.clone());
        asked
    }

    /// Returns the device requests of one claim of a pod.
    fn asked_by(&self, claim: &PodDeviceClaim, pods: &PodClass) -> Result<Asked, Refusal> {
        let not_ready = |why: String| Refusal::Devices {
            reason: Reason::ClaimNotReady,
            text: format!("claim {}: {why}", claim.name).into(),
        };
        let key = |name: &Arc<str>| ObjectKey::new(pods.namespace.clone(), &**name);
        let (spec, named, object) = match &claim.source {
            DeviceClaimSource::Template(name) => match self.objects.template(&key(name)) {
                None => return Err(not_ready(format!("template {name} does not exist"))),
                Some(template) if !template.fault.is_empty() => {
                    return Err(not_ready(format!("template {name} cannot be read: {}", template.fault)));
                }
                Some(template) => (&template.spec, None, name),
            },
            DeviceClaimSource::Claim(name) => match self.objects.claim(&key(name)) {
                None => return Err(not_ready(format!("ResourceClaim {name} does not exist"))),
                Some(found) if !found.fault.is_empty() => {
                    return Err(not_ready(format!("ResourceClaim {name} cannot be read: {}", found.fault)));
                }
                Some(found) if found.deleting => {
                    return Err(not_ready(format!("ResourceClaim {name} is being deleted")));
                }
                Some(found) => (&found.spec, self.named(&found.key), name),
            },
        };
        if let Some(class) = missing_class(spec, self.objects) {
            return Err(not_ready(format!("class {class} does not exist")));
        }
        let claim = Claim { name: claim.name.clone(), spec: (**spec).clone() };
        Ok(Asked { claim, named, object: object.clone(), is_extended: false })
    }

    /// The words for a miss.
    fn refusal(&mut self, miss: Miss, class: ClassIx, node: NodeIx, snapshot: &mut Snapshot<'w>) -> Refusal {
        let asked = self.asked(class, snapshot);
        let asked = match &*asked {
            Ok(asked) => asked,
            Err(refusal) => return refusal.clone(),
        };
        match miss {
            Miss::Hopeless(refusal) => refusal,
            Miss::Error(error) => diagnosis::of_error(&error),
            Miss::Elsewhere(at) => {
                let Asked { named, object, .. } = &asked[at];
                let state = named.map(|place| self.claim(place).clone()).unwrap_or_default();
                let place = match state.reach {
                    Reach::Node(node) => format!("on node {}", snapshot.node(node).name()),
                    Reach::Everywhere | Reach::Term(_) => "for other nodes".to_owned(),
                };
                let users = state.users;
                let text = format!("claim {object} is allocated {place}, used by {users} pods");
                Refusal::devices(Reason::ClaimElsewhere, text)
            }
            Miss::DoesNotFit => {
                let view = snapshot.node(node);
                let node_name = if view.is_added() { COMING } else { &**view.name() };
                let named = NamedNode { view, name: node_name };
                let (nothing, slices) = (Held::default(), self.slices(node, view.name()));
                let (classes, taint_rules) = (self.objects.classes(), self.objects.taint_rules());
                let held = self.in_use(node, &nothing);
                let offer = Offer { slices: &slices, classes, taint_rules, held };
                let claims: Vec<Claim> = asked.iter().map(|one| one.claim_on(view)).collect();
                diagnosis::of_miss(&named, offer, &claims)
            }
        }
    }
}

impl Asked {
    /// The claim as it is on a node: extended resources that the node has itself need no devices.
    fn claim_on(&self, view: &NodeView<'_>) -> Claim {
        let mut claim = self.claim.clone();
        if self.is_extended {
            let is_absent = |request: &Request| view.allocatable().extended(&request.name) == 0;
            claim.spec.devices.requests.retain(is_absent);
        }
        claim
    }
}

/// The claim that kube-scheduler makes for extended resources that devices may serve; its requests have the names of the
/// resources.
///
/// kube-scheduler makes a request for each container. Their sum is what the pod requests, init containers included.
///
/// Source: dynamicresources/extendeddynamicresources.go, createRequestsAndMappings.
fn extended_claim(pods: &PodClass, objects: &Devices) -> Option<Asked> {
    let asked = pods.requests.extended_iter().filter(|(_, amount)| 0 < *amount);
    let request = |(name, amount): (&Arc<str>, i64)| {
        let exactly = DeviceRequest {
            device_class_name: objects.class_serving(name)?.clone(),
            count: amount.unsigned_abs(),
            ..DeviceRequest::default()
        };
        Some(Request { name: name.clone(), exactly: Some(exactly), first_available: Vec::new() })
    };
    let requests: Vec<Request> = asked.filter_map(request).collect();
    if requests.is_empty() {
        return None;
    }
    let spec = ClaimSpec { devices: ClaimDevices { requests, constraints: Vec::new() } };
    let claim = Claim { name: EXTENDED_CLAIM.into(), spec };
    Some(Asked { claim, named: None, object: EXTENDED_CLAIM.into(), is_extended: true })
}

/// A claim with what it was given on a node.
fn state(allocation: &ClaimAllocation, node: NodeIx) -> ClaimState {
    let reach = match &allocation.node_selector {
        None => Reach::Everywhere,
        Some(term) if !term.match_fields.is_empty() => Reach::Node(node),
        Some(term) => Reach::Term(term.clone()),
    };
    ClaimState { devices: allocation.devices.clone(), reach, users: 0 }
}

/// The first DeviceClass of a claim that does not exist.
///
/// Source: dynamicresources.go, PreFilter, which leaves alternatives to the allocator; that fails for them on every node.
fn missing_class<'s>(spec: &'s ClaimSpec, objects: &Devices) -> Option<&'s Arc<str>> {
    let requests = spec.devices.requests.iter();
    let mut classes = requests
        .flat_map(|request| request.exactly.iter().chain(&request.first_available))
        .map(|request| &request.device_class_name);
    classes.find(|name| !objects.classes().contains_key(*name))
}
