//! Dynamic resource allocation: drivers that publish slices on nodes, claims made of templates, and what claims hold.
//!
//! The devices of a claim come from the allocator that the golden vectors of kube-scheduler prove; everything around it
//! is the cluster's own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::scheduling::devices::{
    AllocatedDevice, Answer, Claim, Class, DeviceId, Held, InUse, Offer, Selectors, Slice, TaintRule,
    allocate,
};
use headroom_core::scheduling::node_affinity::LabelledNode;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fit::{Misfit, NodeShape, PodShape};
use super::queue::WorkQueue;
use super::template;
use crate::store::{Author, DeleteOptions, Entry, Kind, ObjectKey, Store, at, condition, text};

const SCHEDULER: Author<'static> = Author::actor("scheduler");
const CLAIMS: Author<'static> = Author::actor("resourceclaim-controller");
const DRIVER: Author<'static> = Author::actor("device-driver");

/// From a node's readiness to the slices of its drivers: they are pods that have to start there.
const DRIVER_START: SignedDuration = SignedDuration::from_secs(20);

/// The devices of each node on which the claims of a pod can be met, one list a claim.
pub(super) type Found = BTreeMap<Arc<str>, Vec<(ObjectKey, Vec<AllocatedDevice>)>>;

/// Nodes whose drivers start, and pods that need their claims no more.
#[derive(Debug, Default)]
pub(super) struct Devices {
    pub(super) drivers: WorkQueue<Arc<str>>,
    ended: BTreeSet<ObjectKey>,
}

impl Devices {
    /// Takes in a change; true if pods with claims should be tried again.
    pub(super) fn observe(&mut self, entry: &Entry) -> bool {
        match entry.kind {
            Kind::Node if !entry.deleted => {
                let is_ready = |node: &Value| {
                    condition(node, "Ready").and_then(|ready| ready.get("status")?.as_str()) == Some("True")
                };
                let before = entry.before.as_ref().is_some_and(|node| is_ready(node));
                if !before && is_ready(&entry.object) {
                    self.start_drivers(&entry.key.name, entry.at);
                }
                false
            }
            Kind::Pod => {
                let phase = text(&entry.object, &["status", "phase"]);
                let claims = at(&entry.object, &["spec", "resourceClaims"]).is_some();
                if claims && (entry.deleted || matches!(phase, Some("Succeeded" | "Failed"))) {
                    self.ended.insert(entry.key.clone());
                }
                false
            }
            Kind::ResourceClaim
            | Kind::ResourceClaimTemplate
            | Kind::DeviceClass
            | Kind::ResourceSlice
            | Kind::DeviceTaintRule => true,
            _ => false,
        }
    }

    fn start_drivers(&mut self, node: &Arc<str>, now: Timestamp) {
        if let Ok(at) = now.checked_add(DRIVER_START) {
            self.drivers.add_at(at, node.clone());
        }
    }

    /// Publishes what drivers have found, and takes back what ended pods held.
    pub(super) fn act(&mut self, store: &mut Store) {
        for node in self.drivers.take_due(store.now()) {
            publish(store, &node);
        }
        for pod in std::mem::take(&mut self.ended) {
            release(store, &pod);
        }
    }
}

/// A device that a pool of nodes declares.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Declared {
    driver: String,
    #[serde(default)]
    pool: String,
    #[serde(default)]
    count: usize,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    attributes: Value,
    #[serde(default)]
    capacity: BTreeMap<String, Value>,
    #[serde(default)]
    taints: Value,
    #[serde(default)]
    allow_multiple_allocations: bool,
}

/// Publishes the devices of a node, as its pool's template declares them.
fn publish(store: &mut Store, name: &str) {
    let Some(node) = store.find(Kind::Node, &ObjectKey::new("", name)).cloned() else { return };
    let pool = text(&node, &["metadata", "labels", "headroom.dev/pool"]).unwrap_or_default();
    let pool = store.find(Kind::NodePool, &ObjectKey::new("", pool));
    let declared = pool.and_then(|pool| at(pool, &["spec", "template", "devices"])).cloned();
    let declared: Vec<Declared> =
        declared.and_then(|declared| serde_json::from_value(declared).ok()).unwrap_or_default();
    let mut pools: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
    for item in &declared {
        let key = (item.driver.clone(), format!("{name}{}", item.pool));
        pools.entry(key).or_default().extend(devices(item));
    }
    for ((driver, pool), devices) in pools {
        let slice = json!({
            "metadata": {"name": format!("{pool}-{driver}"), "ownerReferences": [template::reference(Kind::Node, &node)]},
            "spec": {"driver": driver, "nodeName": name, "devices": devices,
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}},
        });
        // It is there already if the node was ready before.
        let _ = store.create(Kind::ResourceSlice, slice, DRIVER);
    }
}

fn devices(item: &Declared) -> Vec<Value> {
    let numbered = (0..item.count).map(|number| format!("device-{number}"));
    let names: Vec<String> = if item.names.is_empty() { numbered.collect() } else { item.names.clone() };
    let capacity = item.capacity.iter().map(|(name, value)| (name.clone(), json!({"value": value})));
    let capacity: serde_json::Map<String, Value> = capacity.collect();
    let device = |name: String| {
        json!({"name": name, "attributes": item.attributes, "capacity": capacity, "taints": item.taints,
            "allowMultipleAllocations": item.allow_multiple_allocations})
    };
    names.into_iter().map(device).collect()
}

/// Takes a pod that has ended out of its claims; its own are deleted, and those that nobody uses any more hold nothing.
fn release(store: &mut Store, pod: &ObjectKey) {
    let uses = |claim: &Value| {
        let users = at(claim, &["status", "reservedFor"]).and_then(Value::as_array);
        users.into_iter().flatten().any(|user| text(user, &["name"]) == Some(&*pod.name))
    };
    let used =
        store.all(Kind::ResourceClaim).filter(|(key, claim)| key.namespace == pod.namespace && uses(claim));
    let used: Vec<(ObjectKey, bool)> =
        used.map(|(key, claim)| (key.clone(), super::pods::owner(claim).is_some())).collect();
    for (key, is_own) in used {
        if is_own {
            let _ = store.delete(Kind::ResourceClaim, &key, &DeleteOptions::default(), CLAIMS);
            continue;
        }
        // The claim is there: it was read a moment ago.
        let _ = store.edit(Kind::ResourceClaim, &key, CLAIMS, |claim| {
            let Some(users) = claim.pointer_mut("/status/reservedFor").and_then(Value::as_array_mut) else {
                return;
            };
            users.retain(|user| text(user, &["name"]) != Some(&*pod.name));
            if users.is_empty() {
                claim["status"] = json!({});
            }
        });
    }
}

/// The claim of a pod that a claim of its spec stands for.
fn claim_key(pod: &ObjectKey, claim: &DeviceClaim) -> ObjectKey {
    match &claim.named {
        Some(named) => ObjectKey::new(&pod.namespace, named),
        None => ObjectKey::new(&pod.namespace, &format!("{}-{}", pod.name, claim.name)),
    }
}

/// A claim of devices in the spec of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceClaim {
    name: Arc<str>,
    named: Option<Arc<str>>,
    template: Option<Arc<str>>,
}

impl DeviceClaim {
    /// The claims of a pod.
    pub(super) fn of(pod: &Value) -> Vec<DeviceClaim> {
        let claims = at(pod, &["spec", "resourceClaims"]).and_then(Value::as_array).into_iter().flatten();
        let word = |claim: &Value, field: &str| text(claim, &[field]).map(Arc::from);
        let read = claims.map(|claim| DeviceClaim {
            name: word(claim, "name").unwrap_or_default(),
            named: word(claim, "resourceClaimName"),
            template: word(claim, "resourceClaimTemplateName"),
        });
        read.collect()
    }
}

/// Makes the claims of a pod that come from templates, as their controller does when it sees the pod.
pub(super) fn make_claims(store: &mut Store, pod: &ObjectKey, shape: &PodShape) {
    for claim in &shape.device_claims {
        let (key, Some(from)) = (claim_key(pod, claim), &claim.template) else { continue };
        let from = store.find(Kind::ResourceClaimTemplate, &ObjectKey::new(&pod.namespace, from));
        let Some(spec) = from.and_then(|from| at(from, &["spec", "spec"])).cloned() else { continue };
        if store.find(Kind::ResourceClaim, &key).is_some() {
            continue;
        }
        let owner = store.find(Kind::Pod, pod).map(|pod| template::reference(Kind::Pod, pod));
        let made = json!({
            "metadata": {"namespace": &*key.namespace, "name": &*key.name, "ownerReferences": [owner],
                "annotations": {"resource.kubernetes.io/pod-claim-name": &*claim.name}},
            "spec": spec,
        });
        // Nobody else makes it in this step.
        let _ = store.create(Kind::ResourceClaim, made, CLAIMS);
        let entry = json!({"name": &*claim.name, "resourceClaimName": &*key.name});
        let _ = store.edit(Kind::Pod, pod, CLAIMS, |pod| {
            let status = &mut pod["status"]["resourceClaimStatuses"];
            match status.as_array_mut() {
                Some(known) => known.push(entry),
                None => *status = json!([entry]),
            }
        });
    }
}

/// Devices that the cluster offers and devices in use, read once for a pod.
struct Offered {
    slices: Vec<Slice>,
    classes: BTreeMap<Arc<str>, Class>,
    taint_rules: BTreeMap<Arc<str>, TaintRule>,
    held: Held,
}

/// An object with the parts that the allocator reads.
fn read<T: for<'de> Deserialize<'de>>(object: &Value) -> Option<T> {
    let (name, spec) = (text(object, &["metadata", "name"])?, at(object, &["spec"])?);
    serde_json::from_value(json!({"name": name, "spec": spec})).ok()
}

impl Offered {
    fn of(store: &Store) -> Offered {
        let slices = store.all(Kind::ResourceSlice).filter_map(|(_, slice)| read(slice));
        let classes = store.all(Kind::DeviceClass).filter_map(|(_, class)| read::<Class>(class));
        let rules = store.all(Kind::DeviceTaintRule).filter_map(|(_, rule)| read::<TaintRule>(rule));
        let mut held = Held::default();
        for (_, claim) in store.all(Kind::ResourceClaim) {
            results(claim).iter().for_each(|device| held.add(device));
        }
        Offered {
            slices: slices.collect(),
            classes: classes.map(|class| (class.name.clone(), class)).collect(),
            taint_rules: rules.map(|rule| (rule.name.clone(), rule)).collect(),
            held,
        }
    }
}

/// The devices that a claim holds.
fn results(claim: &Value) -> Vec<AllocatedDevice> {
    let results = at(claim, &["status", "allocation", "devices", "results"]).and_then(Value::as_array);
    let word = |result: &Value, field: &str| Arc::from(text(result, &[field]).unwrap_or_default());
    let device = |result: &Value| AllocatedDevice {
        request: word(result, "request"),
        id: DeviceId {
            driver: word(result, "driver"),
            pool: word(result, "pool"),
            device: word(result, "device"),
        },
        admin_access: result.get("adminAccess").and_then(Value::as_bool).unwrap_or(false),
        shared: result.get("shareID").is_some(),
        consumed_capacity: result
            .get("consumedCapacity")
            .and_then(|consumed| serde_json::from_value(consumed.clone()).ok())
            .unwrap_or_default(),
        binding_conditions: Vec::new(),
    };
    results.into_iter().flatten().map(device).collect()
}

/// A node as the allocator sees it.
struct Labelled<'n>(&'n NodeShape);

impl LabelledNode for Labelled<'_> {
    fn node_name(&self) -> &str {
        &self.0.name
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.0.labels.get(key).map(String::as_str)
    }
}

/// The nodes on which all claims of a pod can be met, with the devices for those that have none; why there are none anywhere,
/// otherwise.
pub(super) fn found<'n>(
    store: &Store,
    pod: &ObjectKey,
    shape: &PodShape,
    nodes: impl Iterator<Item = &'n NodeShape>,
) -> Result<Found, Misfit> {
    let (mut open, mut keys, mut only_on) = (Vec::new(), Vec::new(), None);
    for claim in &shape.device_claims {
        let key = claim_key(pod, claim);
        let object = store.find(Kind::ResourceClaim, &key).ok_or("waiting for a ResourceClaim")?;
        if at(object, &["status", "allocation"]).is_some() {
            let node = text(object, &["metadata", "annotations", ALLOCATED_ON]).unwrap_or_default();
            only_on = Some(node.to_owned()).filter(|node| !node.is_empty()).or(only_on);
            continue;
        }
        let mut wanted: Claim = read(object).ok_or("a ResourceClaim cannot be read")?;
        wanted.name = claim.name.clone();
        open.push(wanted);
        keys.push(key);
    }
    let offered = Offered::of(store);
    let slices: Vec<&Slice> = offered.slices.iter().collect();
    let (nothing, mut selectors, mut found) = (Held::default(), Selectors::default(), Found::new());
    for node in nodes.filter(|node| only_on.as_ref().is_none_or(|only| **only == *node.name)) {
        let held = InUse { own: &offered.held, wide: &nothing };
        let Offered { classes, taint_rules, .. } = &offered;
        let offer = Offer { slices: &slices, classes, taint_rules, held };
        if let Ok(Answer::Allocated(given)) = allocate(&Labelled(node), offer, &open, &mut selectors) {
            let given = keys.iter().cloned().zip(given.into_iter().map(|claim| claim.devices));
            found.insert(node.name.clone(), given.collect());
        }
    }
    Ok(found)
}

/// On a claim: the node whose devices it holds.
const ALLOCATED_ON: &str = "simulate.headroom.dev/node";

/// Gives the claims of a pod that has got a node what was found there.
pub(super) fn hold(store: &mut Store, pod: &ObjectKey, shape: &PodShape, node: &str, found: &Found) {
    let given = found.get(node).into_iter().flatten();
    let given: BTreeMap<&ObjectKey, &Vec<AllocatedDevice>> =
        given.map(|(key, devices)| (key, devices)).collect();
    let uid = store.find(Kind::Pod, pod).and_then(|pod| text(pod, &["metadata", "uid"])).unwrap_or_default();
    let user = json!({"resource": "pods", "name": &*pod.name, "uid": uid});
    for claim in &shape.device_claims {
        let key = claim_key(pod, claim);
        let results = given.get(&key).map(|devices| devices.iter().map(result).collect::<Vec<Value>>());
        // The claim is there: the pod was placed by it.
        let _ = store.edit(Kind::ResourceClaim, &key, SCHEDULER, |claim| {
            if let Some(results) = results {
                claim["metadata"]["annotations"][ALLOCATED_ON] = json!(node);
                let term =
                    json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
                claim["status"]["allocation"] =
                    json!({"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [term]}});
            }
            let users = &mut claim["status"]["reservedFor"];
            match users.as_array_mut() {
                Some(known) => known.push(user.clone()),
                None => *users = json!([user]),
            }
        });
    }
}

fn result(device: &AllocatedDevice) -> Value {
    let mut result = json!({"request": device.request, "driver": device.id.driver, "pool": device.id.pool,
        "device": device.id.device});
    if device.admin_access {
        result["adminAccess"] = json!(true);
    }
    if device.shared {
        result["shareID"] = json!("share");
        result["consumedCapacity"] = json!(device.consumed_capacity);
    }
    result
}
