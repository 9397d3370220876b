//! Devices as the cluster offers and claims them: the objects of resource.k8s.io. It allocates nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::scheduling::devices::{ClaimAllocation, ClaimSpec, Class, PoolId, Slice, TaintRule};
use crate::world::pod::Pod;
use headroom_values::labels::ObjectKey;
use headroom_values::resources::Resources;

/// The kinds of resource.k8s.io that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DeviceKind {
    /// ResourceClaims.
    Claim,
    /// ResourceClaimTemplates.
    Template,
    /// DeviceClasses.
    Class,
    /// ResourceSlices.
    Slice,
    /// DeviceTaintRules.
    TaintRule,
}

impl DeviceKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Claim, Self::Template, Self::Class, Self::Slice, Self::TaintRule];

    /// The kinds without which claims cannot be simulated.
    const NEEDED: [Self; 4] = [Self::Claim, Self::Template, Self::Class, Self::Slice];

    /// The plural.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::Claim => "resourceclaims",
            Self::Template => "resourceclaimtemplates",
            Self::Class => "deviceclasses",
            Self::Slice => "resourceslices",
            Self::TaintRule => "devicetaintrules",
        }
    }
}

/// An object of one of the kinds.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceObject {
    /// A ResourceClaim.
    Claim(ResourceClaim),
    /// A ResourceClaimTemplate.
    Template(ClaimTemplate),
    /// A DeviceClass.
    Class(Class),
    /// A ResourceSlice.
    Slice(Slice),
    /// A DeviceTaintRule.
    TaintRule(TaintRule),
}

impl DeviceObject {
    /// Its kind, and its namespace and name; the namespace of objects of the whole cluster is empty.
    #[must_use]
    pub fn place(&self) -> (DeviceKind, ObjectKey) {
        match self {
            Self::Claim(claim) => (DeviceKind::Claim, claim.key.clone()),
            Self::Template(template) => (DeviceKind::Template, template.key.clone()),
            Self::Class(class) => (DeviceKind::Class, ObjectKey::new("", &*class.name)),
            Self::Slice(slice) => (DeviceKind::Slice, ObjectKey::new("", &*slice.name)),
            Self::TaintRule(rule) => (DeviceKind::TaintRule, ObjectKey::new("", &*rule.name)),
        }
    }
}

/// A ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaim {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Spec of the claim.
    pub spec: Arc<ClaimSpec>,
    /// Its allocation; `None` while it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<ClaimAllocation>,
    /// Pods that may use it, by uid and name (`status.reservedFor`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<ClaimUser>,
    /// True if a deletion timestamp is set.
    pub deleting: bool,
    /// Error in it; empty if all of it can be read.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub fault: Arc<str>,
}

/// A pod or other object that may use a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimUser {
    /// Name of the pod, or of the object that stands for several pods.
    pub name: Arc<str>,
    /// Unique id.
    pub uid: Arc<str>,
    /// True if it is a pod.
    pub pod: bool,
}

/// A ResourceClaimTemplate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimTemplate {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Spec of each claim made from it.
    pub spec: Arc<ClaimSpec>,
    /// Error in it; empty if all of it can be read.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub fault: Arc<str>,
}

/// A claim as a pod names it. Names of claims that are made for one pod are not here: they would make each pod a class of
/// its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDeviceClaim {
    /// Its name in the pod.
    pub name: Arc<str>,
    /// Source of the claim.
    pub source: DeviceClaimSource,
}

/// Source of a pod's claim. The object is in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DeviceClaimSource {
    /// A ResourceClaim that pods may share.
    Claim(Arc<str>),
    /// A ResourceClaimTemplate: each pod has a claim of its own.
    Template(Arc<str>),
}

/// Prefix of the extended resource that each DeviceClass serves by its own name.
///
/// Source: api/resource/v1 types.go, ResourceDeviceClassPrefix.
const CLASS_RESOURCE_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// The objects of resource.k8s.io.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Devices {
    served: BTreeSet<DeviceKind>,
    claims: BTreeMap<ObjectKey, ResourceClaim>,
    templates: BTreeMap<ObjectKey, ClaimTemplate>,
    classes: BTreeMap<Arc<str>, Class>,
    slices: BTreeMap<Arc<str>, Slice>,
    taint_rules: BTreeMap<Arc<str>, TaintRule>,
    /// By extended resource: the name of the class whose devices serve it.
    serving: BTreeMap<Arc<str>, Arc<str>>,
    /// Claims that cannot be read.
    faulty: BTreeSet<ObjectKey>,
    /// Names of the slices that one node alone can use, by node.
    by_node: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Devices {
    /// True if there is no object of any kind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
            && self.templates.is_empty()
            && self.classes.is_empty()
            && self.slices.is_empty()
            && self.taint_rules.is_empty()
    }

    /// True if the server has all kinds but DeviceTaintRules, which are a feature of their own: else claims cannot be
    /// simulated.
    #[must_use]
    pub fn is_served(&self) -> bool {
        DeviceKind::NEEDED.iter().all(|kind| self.served.contains(kind))
    }

    /// ResourceClaims in order of their keys.
    pub fn claims(&self) -> impl Iterator<Item = &ResourceClaim> {
        self.claims.values()
    }

    /// One ResourceClaim.
    #[must_use]
    pub fn claim(&self, key: &ObjectKey) -> Option<&ResourceClaim> {
        self.claims.get(key)
    }

    /// A claim of this pod that cannot be read: one that its class names, or that was made for it.
    #[must_use]
    pub fn unreadable_claim_of(&self, pod: &Pod) -> Option<&ResourceClaim> {
        if pod.class.device_claims.is_empty() {
            return None;
        }
        let named = |key: &ObjectKey| {
            let is_named = |claim: &PodDeviceClaim| matches!(&claim.source, DeviceClaimSource::Claim(name) if **name == *key.name);
            pod.class.device_claims.iter().any(is_named)
        };
        let faulty = self.faulty.iter().filter(|key| key.namespace == pod.key.namespace);
        let mut claims = faulty.filter_map(|key| self.claims.get(key));
        let made_for = |claim: &ResourceClaim| claim.users.iter().any(|user| *user.name == *pod.key.name);
        claims.find(|claim| named(&claim.key) || made_for(claim))
    }

    /// One ResourceClaimTemplate.
    #[must_use]
    pub fn template(&self, key: &ObjectKey) -> Option<&ClaimTemplate> {
        self.templates.get(key)
    }

    /// DeviceClasses by name.
    #[must_use]
    pub fn classes(&self) -> &BTreeMap<Arc<str>, Class> {
        &self.classes
    }

    /// The class whose devices serve an extended resource, where a node does not have the resource itself.
    ///
    /// Source: kube-scheduler, dynamicresources/extended.
    #[must_use]
    pub fn class_serving(&self, resource: &str) -> Option<&Arc<str>> {
        if self.classes.is_empty() {
            return None;
        }
        let by_name = || {
            let name = resource.strip_prefix(CLASS_RESOURCE_PREFIX)?;
            self.classes.get_key_value(name).map(|(name, _)| name)
        };
        self.serving.get(resource).or_else(by_name)
    }

    /// True if devices may serve one of the extended resources that are asked for.
    #[must_use]
    pub fn may_serve(&self, asked: &Resources) -> bool {
        !self.classes.is_empty() && asked.extended_iter().any(|(name, _)| self.class_serving(name).is_some())
    }

    /// What is asked for without the extended resources that devices serve: those that a node does not have itself.
    #[must_use]
    pub fn not_served(&self, asked: &Resources, allocatable: &Resources) -> Resources {
        let mut rest = asked.clone();
        for (name, _) in asked.extended_iter() {
            if allocatable.extended(name) == 0 && self.class_serving(name).is_some() {
                rest.set_extended(name.clone(), 0);
            }
        }
        rest
    }

    /// Finds out anew which classes serve extended resources: of several the newest, then the first by name.
    fn look_at_served_resources(&mut self) {
        let mut serving: BTreeMap<Arc<str>, &Class> = BTreeMap::new();
        for class in self.classes.values() {
            let Some(resource) = &class.spec.extended_resource_name else { continue };
            match serving.get(resource) {
                Some(other) if class.created_at <= other.created_at => {}
                Some(_) | None => {
                    serving.insert(resource.clone(), class);
                }
            }
        }
        self.serving = serving.into_iter().map(|(resource, class)| (resource, class.name.clone())).collect();
    }

    /// DeviceTaintRules by name.
    #[must_use]
    pub fn taint_rules(&self) -> &BTreeMap<Arc<str>, TaintRule> {
        &self.taint_rules
    }

    /// ResourceSlices in order of their names.
    pub fn slices(&self) -> impl Iterator<Item = &Slice> {
        self.slices.values()
    }

    /// The slices that this node alone can use, in order of their names.
    pub fn slices_of(&self, node: &str) -> impl Iterator<Item = &Slice> {
        self.by_node.get(node).into_iter().flatten().filter_map(|name| self.slices.get(name))
    }

    /// Names of the nodes that have slices of their own, in order.
    pub fn nodes_with_slices(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_node.keys()
    }

    /// True if there are slices that this node alone can use.
    #[must_use]
    pub fn has_slices_of(&self, node: &str) -> bool {
        !self.by_node.is_empty() && self.by_node.contains_key(node)
    }

    /// True if no node has slices of its own.
    #[must_use]
    pub fn has_no_local_slices(&self) -> bool {
        self.by_node.is_empty()
    }

    /// The pools of a node that are all there: every slice of their newest generation is published, by this node alone.
    #[must_use]
    pub fn whole_pools_of(&self, node: &str) -> BTreeSet<PoolId> {
        let mut pools: BTreeMap<PoolId, (i64, i64, i64)> = BTreeMap::new();
        for slice in self.slices_of(node) {
            let pool = &slice.spec.pool;
            let id = PoolId { driver: slice.spec.driver.clone(), name: pool.name.clone() };
            let (newest, wanted, found) = pools.entry(id).or_insert((i64::MIN, 0, 0));
            if *newest < pool.generation {
                (*newest, *wanted, *found) = (pool.generation, pool.resource_slice_count, 0);
            }
            *found += i64::from(*newest == pool.generation);
        }
        pools.retain(|_, (_, wanted, found)| wanted == found);
        pools.into_keys().collect()
    }

    pub(super) fn apply(&mut self, object: DeviceObject) {
        self.served.insert(object.place().0);
        match object {
            DeviceObject::Claim(claim) => {
                if claim.fault.is_empty() {
                    self.faulty.remove(&claim.key);
                } else {
                    self.faulty.insert(claim.key.clone());
                }
                self.claims.insert(claim.key.clone(), claim);
            }
            DeviceObject::Template(template) => {
                self.templates.insert(template.key.clone(), template);
            }
            DeviceObject::Class(class) => {
                self.classes.insert(class.name.clone(), class);
                self.look_at_served_resources();
            }
            DeviceObject::Slice(slice) => {
                self.drop_slice(&slice.name);
                if let Some(node) = &slice.spec.node_name {
                    self.by_node.entry(node.clone()).or_default().insert(slice.name.clone());
                }
                self.slices.insert(slice.name.clone(), slice);
            }
            DeviceObject::TaintRule(rule) => {
                self.taint_rules.insert(rule.name.clone(), rule);
            }
        }
    }

    pub(super) fn delete(&mut self, kind: DeviceKind, key: &ObjectKey) {
        match kind {
            DeviceKind::Claim => {
                self.faulty.remove(key);
                self.claims.remove(key);
            }
            DeviceKind::Template => {
                self.templates.remove(key);
            }
            DeviceKind::Class => {
                self.classes.remove(&*key.name);
                self.look_at_served_resources();
            }
            DeviceKind::Slice => self.drop_slice(&key.name),
            DeviceKind::TaintRule => {
                self.taint_rules.remove(&*key.name);
            }
        }
    }

    fn drop_slice(&mut self, name: &str) {
        let Some(slice) = self.slices.remove(name) else { return };
        let Some(node) = &slice.spec.node_name else { return };
        if let Some(names) = self.by_node.get_mut(node) {
            names.remove(name);
            if names.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    /// The full list of a kind is complete: what it does not name is gone.
    pub(super) fn retain(&mut self, kind: DeviceKind, stays: impl Fn(&ObjectKey) -> bool) {
        self.served.insert(kind);
        let cluster = |name: &Arc<str>| ObjectKey::new("", &**name);
        match kind {
            DeviceKind::Claim => {
                self.claims.retain(|key, _| stays(key));
                self.faulty.retain(|key| stays(key));
            }
            DeviceKind::Template => self.templates.retain(|key, _| stays(key)),
            DeviceKind::Class => {
                self.classes.retain(|name, _| stays(&cluster(name)));
                self.look_at_served_resources();
            }
            DeviceKind::TaintRule => self.taint_rules.retain(|name, _| stays(&cluster(name))),
            DeviceKind::Slice => {
                let gone = self.slices.keys().filter(|name| !stays(&cluster(name))).cloned();
                gone.collect::<Vec<_>>().iter().for_each(|name| self.drop_slice(name));
            }
        }
    }

    /// The server does not have a kind, or it may not be read.
    pub(super) fn missing(&mut self, kind: DeviceKind) {
        self.retain(kind, |_| false);
        self.served.remove(&kind);
    }
}

/// The objects of resource.k8s.io as a file holds them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DevicesRecord {
    /// Kinds that the server has.
    pub served: BTreeSet<DeviceKind>,
    /// ResourceClaims by namespace and name.
    pub claims: Vec<ResourceClaim>,
    /// ResourceClaimTemplates by namespace and name.
    pub templates: Vec<ClaimTemplate>,
    /// DeviceClasses by name.
    pub classes: Vec<Class>,
    /// ResourceSlices by name.
    pub slices: Vec<Slice>,
    /// DeviceTaintRules by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taint_rules: Vec<TaintRule>,
}

impl DevicesRecord {
    /// The record of these objects; `None` where the server has none of the kinds.
    #[must_use]
    pub fn of(devices: &Devices) -> Option<Self> {
        (!devices.served.is_empty()).then(|| Self {
            served: devices.served.clone(),
            claims: devices.claims.values().cloned().collect(),
            templates: devices.templates.values().cloned().collect(),
            classes: devices.classes.values().cloned().collect(),
            slices: devices.slices.values().cloned().collect(),
            taint_rules: devices.taint_rules.values().cloned().collect(),
        })
    }

    /// The objects, in no particular order.
    pub fn objects(&self) -> impl Iterator<Item = DeviceObject> + '_ {
        let claims = self.claims.iter().cloned().map(DeviceObject::Claim);
        let templates = self.templates.iter().cloned().map(DeviceObject::Template);
        let classes = self.classes.iter().cloned().map(DeviceObject::Class);
        let slices = self.slices.iter().cloned().map(DeviceObject::Slice);
        let rules = self.taint_rules.iter().cloned().map(DeviceObject::TaintRule);
        claims.chain(templates).chain(classes).chain(slices).chain(rules)
    }
}
