//! Volumes as the scheduler and the volume controllers see them: where a pod's claims let it run, the volume that a claim
//! gets once its pod has a node, and how many volumes a node attaches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::world::node::{POOL_LABEL, ZONE_LABEL};
use serde_json::{Value, json};

use super::devices::Found;
use super::fit::{Misfit, NodeShape, PodShape, Term};
use super::pods::Pods;
use super::quantity::milli;
use super::template;
use crate::store::{Author, Entry, Kind, ObjectKey, Store, at, labels, object_at, text};

const ME: Author<'static> = Author::actor("volume-controller");
const REGION: &str = "topology.kubernetes.io/region";
/// Set when the binding of a claim is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The provisioner of classes whose volumes people make.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// The one access mode that keeps a claim for one pod.
const ALONE: &str = "ReadWriteOncePod";

/// The claims that have no volume yet, and nodes whose drivers have reported nothing yet.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    unbound: BTreeSet<ObjectKey>,
    fresh_nodes: BTreeSet<Arc<str>>,
    changed: bool,
}

/// Nodes on which the claims of a pod let it run.
#[derive(Debug, Clone, Default)]
pub(super) struct Reach {
    /// Of each set of terms one must hold.
    places: Vec<Vec<Term>>,
    /// Nodes on which volumes that wait for the pod can be had.
    waiting: Vec<Waiting>,
    /// Zones and regions of volumes; a node that is nowhere is everywhere.
    zones: Vec<Term>,
    /// Nodes that can attach no more.
    full: BTreeSet<Arc<str>>,
    /// Nodes without a driver that pods with its volumes require.
    without_driver: BTreeSet<Arc<str>>,
    /// Nodes with the devices that the pod claims; `None` if it claims none.
    pub(super) devices: Option<Found>,
}

/// Nodes on which a claim without a volume can get one.
#[derive(Debug, Clone, Default)]
struct Waiting {
    /// Nodes of free volumes; one of these is enough.
    free: Vec<Term>,
    /// Topologies in which one can be made; `None` is everywhere.
    topologies: Option<Vec<Term>>,
    /// Topologies in which its driver has reported free capacity; `None` is everywhere.
    rooms: Option<Vec<Term>>,
}

impl Waiting {
    fn allows(&self, node: &NodeShape) -> Result<(), Misfit> {
        let one_holds = |terms: &Vec<Term>| terms.iter().any(|term| term.holds(node));
        if one_holds(&self.free) {
            return Ok(());
        }
        if !self.topologies.as_ref().is_none_or(one_holds) {
            return Err("node(s) had volume node affinity conflict");
        }
        match &self.rooms {
            Some(rooms) if !one_holds(rooms) => Err("node(s) did not have enough free storage"),
            Some(_) | None => Ok(()),
        }
    }
}

/// A volume as a driver attaches it: the driver, and its own name of the volume.
type Attachment = (String, String);

impl Volumes {
    /// Takes in a change; whether pods that mount claims should be tried again.
    pub(super) fn observe(&mut self, entry: &Entry) -> bool {
        match entry.kind {
            Kind::PersistentVolumeClaim if entry.deleted || bound_to(&entry.object).is_some() => {
                self.unbound.remove(&entry.key);
            }
            Kind::PersistentVolumeClaim => {
                self.unbound.insert(entry.key.clone());
            }
            Kind::Node if !entry.deleted && entry.before.is_none() => {
                self.fresh_nodes.insert(entry.key.name.clone());
                return false;
            }
            Kind::PersistentVolume
            | Kind::StorageClass
            | Kind::CSINode
            | Kind::CSIDriver
            | Kind::CSIStorageCapacity => {}
            _ => return false,
        }
        self.changed = true;
        true
    }

    /// Lets the drivers of new nodes report their limits, and gives the claims that do not wait for a pod their volumes.
    pub(super) fn act(&mut self, store: &mut Store) {
        for node in std::mem::take(&mut self.fresh_nodes) {
            report_limits(store, &node);
        }
        if std::mem::take(&mut self.changed) {
            for key in &self.unbound {
                provide_at_once(store, key);
            }
        }
    }
}

impl Reach {
    /// True if all volumes can be reached from the node, or made there, and attached.
    pub(super) fn allows(&self, node: &NodeShape) -> Result<(), Misfit> {
        let reached = self.places.iter().all(|terms| terms.iter().any(|term| term.holds(node)));
        let placed = [ZONE_LABEL, REGION].iter().any(|key| node.labels.contains_key(*key));
        if !reached || placed && !self.zones.iter().all(|term| term.holds(node)) {
            return Err("node(s) had volume node affinity conflict");
        }
        self.waiting.iter().try_for_each(|waiting| waiting.allows(node))?;
        if self.devices.as_ref().is_some_and(|found| !found.contains_key(&node.name)) {
            return Err("cannot allocate all claims");
        }
        if self.without_driver.contains(&node.name) {
            return Err("node(s) did not have the CSI driver of a volume");
        }
        if self.full.contains(&node.name) { Err("node(s) exceed max volume count") } else { Ok(()) }
    }
}

/// Returns the nodes on which a pod may run for its claims; an error if there is none. `others` are the pods that have
/// nodes.
///
/// Source: kube-scheduler, volumebinding/binder.go, volumerestrictions, nodevolumelimits.
pub(super) fn reach<'a>(
    store: &Store,
    pod: &ObjectKey,
    shape: &PodShape,
    pods: &Pods,
    others: impl Iterator<Item = (&'a ObjectKey, &'a PodShape)>,
) -> Result<Reach, Misfit> {
    let mut reach = Reach::default();
    let mut alone: BTreeSet<Arc<str>> = BTreeSet::new();
    for name in claims(pod, shape) {
        let key = ObjectKey::new(&pod.namespace, &name);
        let claim = store.find(Kind::PersistentVolumeClaim, &key);
        let claim = claim.ok_or("persistentvolumeclaim not found")?;
        if text(claim, &["status", "phase"]) == Some("Lost") {
            return Err("persistentvolumeclaim bound to non-existent persistentvolume");
        }
        if modes(claim).any(|mode| mode == ALONE) {
            alone.insert(name);
        }
        match bound_to(claim) {
            Some(volume) => {
                let volume = store.find(Kind::PersistentVolume, &ObjectKey::new("", volume));
                let volume = volume.ok_or("persistentvolume not found")?;
                reach.places.extend(affinity(volume));
                reach.zones.extend(zones(volume));
            }
            None => reach.waiting.extend(where_made(store, claim)?),
        }
    }
    let taken = |(other, shape): (&ObjectKey, &PodShape)| {
        other.namespace == pod.namespace && claims(other, shape).any(|name| alone.contains(&name))
    };
    if !alone.is_empty() && others.into_iter().any(taken) {
        return Err(
            "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
        );
    }
    let wanted = attachments(store, pod, shape);
    reach.full = full_nodes(store, pods, &wanted);
    reach.without_driver = nodes_without_driver(store, &wanted);
    Ok(reach)
}

/// Returns the nodes on which a claim without a volume can get one; `None` is everywhere.
fn where_made(store: &Store, claim: &Value) -> Result<Option<Waiting>, Misfit> {
    const TOO_EARLY: Misfit = "pod has unbound immediate PersistentVolumeClaims";
    let class = class_of(store, claim).ok_or(TOO_EARLY)?;
    if !waits(class) || text(claim, &["spec", "volumeName"]).is_some() {
        return Err(TOO_EARLY);
    }
    let mut waiting = Waiting::default();
    for (_, volume) in free(store, claim) {
        match affinity(volume) {
            None => return Ok(None),
            Some(own) => waiting.free.extend(own),
        }
    }
    let mut allowed: Vec<Term> = Vec::new();
    if text(class, &["provisioner"]) != Some(NO_PROVISIONER) {
        allowed.extend(topologies(class).map(Term::of_topology));
        waiting.rooms = rooms(store, class, claim);
        if allowed.is_empty() && waiting.rooms.is_none() {
            return Ok(None);
        }
    }
    let everywhere = allowed.is_empty() && text(class, &["provisioner"]) != Some(NO_PROVISIONER);
    waiting.topologies = (!everywhere).then_some(allowed);
    Ok(Some(waiting))
}

/// Nodes with enough free capacity for the claim by the class's driver; `None` where the driver reports none, or all.
///
/// Source: kube-scheduler, volumebinding/binder.go, hasEnoughCapacity.
fn rooms(store: &Store, class: &Value, claim: &Value) -> Option<Vec<Term>> {
    let driver = store.find(Kind::CSIDriver, &ObjectKey::new("", text(class, &["provisioner"])?))?;
    at(driver, &["spec", "storageCapacity"]).and_then(Value::as_bool).filter(|reports| *reports)?;
    let wanted = milli(at(claim, &["spec", "resources", "requests", "storage"])?);
    let name = text(class, &["metadata", "name"]).unwrap_or_default();
    let mut terms = Vec::new();
    for (_, capacity) in store.all(Kind::CSIStorageCapacity) {
        let largest = at(capacity, &["maximumVolumeSize"]).or_else(|| at(capacity, &["capacity"])).map(milli);
        let enough = largest.is_some_and(|largest| wanted <= largest);
        if text(capacity, &["storageClassName"]) != Some(name) || !enough {
            continue;
        }
        let Some(nodes) = at(capacity, &["nodeTopology"]) else { continue };
        terms.push(Term::of_selector(nodes)?);
    }
    Some(terms)
}

/// Makes the claims of a pod's ephemeral volumes, as their controller does when it sees the pod.
pub(super) fn make_ephemeral(store: &mut Store, pod: &ObjectKey, shape: &PodShape) {
    for (volume, spec) in &shape.ephemeral {
        let name = format!("{}-{volume}", pod.name);
        if store.find(Kind::PersistentVolumeClaim, &ObjectKey::new(&pod.namespace, &name)).is_some() {
            continue;
        }
        let owner = store.find(Kind::Pod, pod).map(|pod| template::reference(Kind::Pod, pod));
        let claim = json!({
            "metadata": {"namespace": &*pod.namespace, "name": name, "ownerReferences": [owner]}, "spec": spec,
        });
        // Nobody else makes it in this step.
        let _ = store.create(Kind::PersistentVolumeClaim, claim, ME);
    }
}

/// Gives each waiting claim of a pod that has got a node its volume there.
pub(super) fn provide(store: &mut Store, pod: &ObjectKey, shape: &PodShape, node: &NodeShape) {
    for name in claims(pod, shape) {
        let key = ObjectKey::new(&pod.namespace, &name);
        let Some(claim) = store.find(Kind::PersistentVolumeClaim, &key).cloned() else { continue };
        if bound_to(&claim).is_some() {
            continue;
        }
        let reached =
            |volume: &Value| affinity(volume).is_none_or(|terms| terms.iter().any(|term| term.holds(node)));
        let found = free(store, &claim).find(|(_, volume)| reached(volume)).map(|(key, _)| key.name.clone());
        let zone = node.labels.get(ZONE_LABEL).map(String::as_str);
        let volume = found.unwrap_or_else(|| make(store, &key, &claim, zone));
        bind(store, &key, &volume);
    }
}

/// Gives a claim its volume, unless it waits for a pod: the one it names, a free one, or a new one.
fn provide_at_once(store: &mut Store, key: &ObjectKey) {
    let Some(claim) = store.find(Kind::PersistentVolumeClaim, key).cloned() else { return };
    if let Some(named) = text(&claim, &["spec", "volumeName"]).filter(|name| !name.is_empty()) {
        let named = ObjectKey::new("", named);
        if store.find(Kind::PersistentVolume, &named).is_some() {
            bind(store, key, &named.name);
        }
        return;
    }
    let class = class_of(store, &claim).cloned();
    if class.as_ref().is_some_and(|class| waits(class)) {
        return;
    }
    let found = free(store, &claim).next().map(|(key, _)| key.name.clone());
    let volume = match (found, class) {
        (Some(found), _) => found,
        (None, Some(class)) if text(&class, &["provisioner"]) != Some(NO_PROVISIONER) => {
            make(store, key, &claim, first_zone(&class))
        }
        (None, _) => return,
    };
    bind(store, key, &volume);
}

/// The names of the claims that a pod mounts.
fn claims<'a>(pod: &'a ObjectKey, shape: &'a PodShape) -> impl Iterator<Item = Arc<str>> + 'a {
    let ephemeral = shape.ephemeral.iter().map(|(volume, _)| Arc::from(format!("{}-{volume}", pod.name)));
    shape.claims.iter().cloned().chain(ephemeral)
}

fn bound_to(claim: &Value) -> Option<&str> {
    at(claim, &["metadata", "annotations", BIND_COMPLETED])?;
    text(claim, &["spec", "volumeName"]).filter(|name| !name.is_empty())
}

/// The class of a claim; `None` for none. The default one was written into it when it was made.
fn class_of<'a>(store: &'a Store, claim: &Value) -> Option<&'a Arc<Value>> {
    store.find(Kind::StorageClass, &ObjectKey::new("", text(claim, &["spec", "storageClassName"])?))
}

fn waits(class: &Value) -> bool {
    text(class, &["volumeBindingMode"]) == Some("WaitForFirstConsumer")
}

fn modes(object: &Value) -> impl Iterator<Item = &str> {
    let modes = at(object, &["spec", "accessModes"]).and_then(Value::as_array);
    modes.into_iter().flatten().filter_map(Value::as_str)
}

/// The terms of a volume's affinity, of which one must hold; `None` is everywhere.
fn affinity(volume: &Value) -> Option<Vec<Term>> {
    let required = at(volume, &["spec", "nodeAffinity", "required", "nodeSelectorTerms"]);
    required.and_then(Value::as_array).map(|terms| terms.iter().map(Term::of).collect())
}

/// The zones and regions of a volume's labels.
///
/// Source: kube-scheduler, volumezone/volume_zone.go.
fn zones(volume: &Value) -> impl Iterator<Item = Term> {
    let places = labels(volume).filter(|(key, _)| [ZONE_LABEL, REGION].contains(key));
    places.map(|(key, values)| Term::within(key, values.split("__")))
}

fn topologies(class: &Value) -> impl Iterator<Item = &Value> {
    at(class, &["allowedTopologies"]).and_then(Value::as_array).into_iter().flatten()
}

fn first_zone(class: &Value) -> Option<&str> {
    let pairs =
        topologies(class).filter_map(|term| at(term, &["matchLabelExpressions"])?.as_array()).flatten();
    let mut zones = pairs.filter(|pair| text(pair, &["key"]) == Some(ZONE_LABEL));
    zones.find_map(|pair| at(pair, &["values"])?.as_array()?.first()?.as_str())
}

/// Volumes that nobody has claimed and that would do, in order of their names; selectors of claims are not looked at.
///
/// Source: component-helpers/storage/volume/pv_helpers.go, FindMatchingVolume.
fn free<'a>(store: &'a Store, claim: &'a Value) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<Value>)> {
    let size = |object: &Value, path: &[&str]| at(object, path).map_or(0, milli);
    let wanted = size(claim, &["spec", "resources", "requests", "storage"]);
    let class = text(claim, &["spec", "storageClassName"]).unwrap_or_default();
    let is_block = |object: &Value| text(object, &["spec", "volumeMode"]) == Some("Block");
    store.all(Kind::PersistentVolume).filter(move |(_, volume)| {
        at(volume, &["spec", "claimRef"]).is_none()
            && text(volume, &["spec", "storageClassName"]).unwrap_or_default() == class
            && wanted <= size(volume, &["spec", "capacity", "storage"])
            && is_block(volume) == is_block(claim)
            && modes(claim).all(|mode| modes(volume).any(|own| own == mode))
    })
}

/// Makes a volume for a claim, in a zone if there is one; returns its name.
fn make(store: &mut Store, key: &ObjectKey, claim: &Value, zone: Option<&str>) -> Arc<str> {
    let name: Arc<str> = format!("pv-{}-{}", key.namespace, key.name).into();
    let class = class_of(store, claim);
    let driver = class.and_then(|class| text(class, &["provisioner"])).unwrap_or("simulated").to_owned();
    let mut volume = json!({
        "metadata": {"name": &*name},
        "spec": {
            "capacity": {"storage": at(claim, &["spec", "resources", "requests", "storage"])},
            "accessModes": at(claim, &["spec", "accessModes"]),
            "volumeMode": at(claim, &["spec", "volumeMode"]),
            "storageClassName": text(claim, &["spec", "storageClassName"]).unwrap_or_default(),
            "csi": {"driver": driver, "volumeHandle": &*name},
        },
    });
    if let Some(zone) = zone {
        let here = json!({"key": ZONE_LABEL, "operator": "In", "values": [zone]});
        volume["spec"]["nodeAffinity"] =
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}});
    }
    // A volume of this name was made for a claim of this name that was deleted: it is taken again.
    let _ = store.create(Kind::PersistentVolume, volume, ME);
    name
}

fn bind(store: &mut Store, claim: &ObjectKey, volume: &Arc<str>) {
    // Both are there: they were found or made a moment ago.
    let _ = store.edit(Kind::PersistentVolume, &ObjectKey::new("", volume), ME, |object| {
        let reference =
            json!({"kind": "PersistentVolumeClaim", "namespace": &*claim.namespace, "name": &*claim.name});
        object_at(object, &["spec"]).insert("claimRef".into(), reference);
        object_at(object, &["status"]).insert("phase".into(), "Bound".into());
    });
    let _ = store.edit(Kind::PersistentVolumeClaim, claim, ME, |object| {
        object_at(object, &["spec"]).insert("volumeName".into(), (**volume).into());
        object_at(object, &["metadata", "annotations"]).insert(BIND_COMPLETED.into(), "yes".into());
        object_at(object, &["status"]).insert("phase".into(), "Bound".into());
    });
}

/// Returns the attachments of a pod by driver: its volumes by their own names, and those to be made by their claims.
fn attachments(store: &Store, pod: &ObjectKey, shape: &PodShape) -> BTreeSet<Attachment> {
    let attachment = |name: Arc<str>| -> Option<Attachment> {
        let claim = store.find(Kind::PersistentVolumeClaim, &ObjectKey::new(&pod.namespace, &name))?;
        let Some(volume) = bound_to(claim) else {
            let driver = text(class_of(store, claim)?, &["provisioner"])?;
            return Some((driver.to_owned(), format!("{}/{name}", pod.namespace)));
        };
        let csi = at(store.find(Kind::PersistentVolume, &ObjectKey::new("", volume))?, &["spec", "csi"])?;
        Some((text(csi, &["driver"])?.to_owned(), text(csi, &["volumeHandle"])?.to_owned()))
    };
    claims(pod, shape).filter_map(attachment).collect()
}

/// The nodes whose drivers can attach these no more.
fn full_nodes(store: &Store, pods: &Pods, wanted: &BTreeSet<Attachment>) -> BTreeSet<Arc<str>> {
    let mut full = BTreeSet::new();
    if wanted.is_empty() {
        return full;
    }
    for (key, csi) in store.all(Kind::CSINode) {
        let limits = limits(csi);
        if !wanted.iter().any(|(driver, _)| limits.contains_key(driver.as_str())) {
            continue;
        }
        let there = pods.on_node(&key.name).filter(|(_, pod)| pod.occupies() && pod.shape.mounts());
        let mut all: BTreeSet<Attachment> =
            there.flat_map(|(key, pod)| attachments(store, key, &pod.shape)).collect();
        all.extend(wanted.iter().cloned());
        let over = |(driver, limit): (&&str, &usize)| {
            let count = all.iter().filter(|(own, _)| own == driver).count();
            *limit < count && wanted.iter().any(|(own, _)| own == driver)
        };
        if limits.iter().any(over) {
            full.insert(key.name.clone());
        }
    }
    full
}

fn limits(csi: &Value) -> BTreeMap<&str, usize> {
    let limit = |driver: &Value| usize::try_from(at(driver, &["allocatable", "count"])?.as_u64()?).ok();
    drivers(csi).filter_map(|driver| Some((text(driver, &["name"])?, limit(driver)?))).collect()
}

fn drivers(csi: &Value) -> impl Iterator<Item = &Value> {
    at(csi, &["spec", "drivers"]).and_then(Value::as_array).into_iter().flatten()
}

/// The nodes on which a driver of these volumes is missing that its CSIDriver requires there.
///
/// Source: kube-scheduler 1.37, nodevolumelimits/csi.go, Filter.
fn nodes_without_driver(store: &Store, wanted: &BTreeSet<Attachment>) -> BTreeSet<Arc<str>> {
    let required: BTreeSet<&str> = wanted
        .iter()
        .map(|(driver, _)| driver.as_str())
        .filter(|driver| is_required(store, driver))
        .collect();
    if required.is_empty() {
        return BTreeSet::new();
    }
    let has_all = |node: &ObjectKey| {
        let csi = store.find(Kind::CSINode, node);
        let names: BTreeSet<&str> = csi
            .into_iter()
            .flat_map(|csi| drivers(csi))
            .filter_map(|driver| text(driver, &["name"]))
            .collect();
        required.is_subset(&names)
    };
    store.all(Kind::Node).filter(|(node, _)| !has_all(node)).map(|(node, _)| node.name.clone()).collect()
}

fn is_required(store: &Store, driver: &str) -> bool {
    let object = store.find(Kind::CSIDriver, &ObjectKey::new("", driver));
    let field = object.and_then(|object| at(object, &["spec", "preventPodSchedulingIfMissing"]));
    field.and_then(Value::as_bool).unwrap_or(false)
}

/// A new node's drivers attach as many volumes as those of another node of its pool; without one there are the drivers that
/// pods require.
fn report_limits(store: &mut Store, name: &Arc<str>) {
    let required: Vec<Value> = store
        .all(Kind::CSIDriver)
        .filter(|(driver, _)| is_required(store, &driver.name))
        .map(|(driver, _)| json!({"name": &*driver.name}))
        .collect();
    if required.is_empty() && store.count(Kind::CSINode) == 0 {
        return;
    }
    let key = ObjectKey::new("", name);
    let pool_of = |node: &ObjectKey| {
        let node = store.find(Kind::Node, node)?;
        text(node, &["metadata", "labels", POOL_LABEL]).map(str::to_owned)
    };
    let pool = pool_of(&key);
    if pool.is_none() || store.find(Kind::CSINode, &key).is_some() {
        return;
    }
    let alike = store.all(Kind::CSINode).find(|(node, _)| pool_of(node) == pool);
    let alike = alike.and_then(|(_, csi)| at(csi, &["spec"])).cloned();
    let first = (!required.is_empty()).then(|| json!({"drivers": required}));
    let Some(spec) = alike.or(first) else { return };
    // It is not there: that was looked up above.
    let _ = store.create(Kind::CSINode, json!({"metadata": {"name": &**name}, "spec": spec}), ME);
}

#[cfg(test)]
mod tests;
