//! Inputs of replica decisions from the cluster: HPAs, policies, scales and pods by selector, kept as the watches
//! deliver them. It decides nothing.

mod pods;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::labels::{Labels, ObjectKey};
use headroom_core::pods::input::{PodSeen, Scale};
use headroom_core::pods::selector::Selector;
use headroom_core::time::UnixTime;
use headroom_core::world::pod::Owner;
use serde_json::Value;

use super::watched::Watch;
use headroom_api::json_text::JsonText;
use headroom_api::{ClusterScalingPolicySpec, PolicyObject, ScalingPolicySpec};

use pods::Pods;
pub use pods::Selected;

/// A HorizontalPodAutoscaler as last seen.
#[derive(Clone, Debug, PartialEq)]
pub struct HpaObject {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id.
    pub uid: Arc<str>,
    /// The version that a write of its status must name.
    pub resource_version: String,
    /// Counts edits of the spec.
    pub generation: i64,
    /// Time at which it was made.
    pub created_at: UnixTime,
    /// True if a deletion timestamp is set.
    pub deleting: bool,
    /// The spec as written.
    pub spec: Value,
    /// The status as written.
    pub status: JsonText,
    /// The generation that it is about.
    pub observed_generation: Option<i64>,
    /// Last writers of the status by its managed fields, each with its name and time; one entry a name.
    pub status_writers: Vec<Writer>,
}

/// Somebody who writes a part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The name under which they write.
    pub manager: Arc<str>,
    /// Time at which they last changed something.
    pub at: UnixTime,
}

/// The scale of a workload of a kind that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleSeen {
    /// The workload's unique id.
    pub uid: Arc<str>,
    /// Its version: a write of the scale names it.
    pub resource_version: String,
    /// Values of its scale subresource.
    pub scale: Scale,
    /// Last writers of `spec.replicas`, by its managed fields: they own that field.
    pub replicas_writers: Vec<Writer>,
    /// Controller of the workload; none for one that a person made.
    pub owner: Option<Arc<Owner>>,
}

/// The kinds of apps/v1 whose scales are known from watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScaleKind {
    /// Deployment.
    Deployment,
    /// ReplicaSet.
    ReplicaSet,
    /// StatefulSet.
    StatefulSet,
}

impl ScaleKind {
    /// The kind of this API group and name, if its scales are watched.
    #[must_use]
    pub fn of(group: &str, kind: &str) -> Option<Self> {
        match (group, kind) {
            ("apps", "Deployment") => Some(Self::Deployment),
            ("apps", "ReplicaSet") => Some(Self::ReplicaSet),
            ("apps", "StatefulSet") => Some(Self::StatefulSet),
            _ => None,
        }
    }
}

/// Most controllers, one above the other, that are looked at for a pod.
const OWNERS_MAX: usize = 4;

/// An object whose change the loop has not taken note of yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edited {
    /// An HPA's spec, or the HPA is new or gone.
    Hpa(ObjectKey),
    /// A ScalingPolicy's spec, or the policy is new or gone.
    Policy(ObjectKey),
    /// The ClusterScalingPolicy.
    Cluster,
}

/// The state of everything that replica decisions read.
#[derive(Debug, Default)]
pub struct Workloads {
    hpas: BTreeMap<ObjectKey, Arc<HpaObject>>,
    policies: BTreeMap<ObjectKey, Arc<PolicyObject<ScalingPolicySpec>>>,
    cluster: Option<Arc<PolicyObject<ClusterScalingPolicySpec>>>,
    scales: BTreeMap<(ScaleKind, ObjectKey), Arc<ScaleSeen>>,
    pods: Pods,
    edited: BTreeSet<Edited>,
    listed: BTreeSet<Watch>,
    /// Objects that the running list of a kind has shown.
    shown: BTreeMap<Watch, BTreeSet<ObjectKey>>,
}

impl Workloads {
    /// The watches that feed it. All must have been listed once before anything is decided.
    pub const WATCHES: [Watch; 7] = [
        Watch::Deployments,
        Watch::Hpas,
        Watch::ScalingPolicies,
        Watch::ClusterScalingPolicies,
        Watch::World(headroom_core::world::Kind::Pod),
        Watch::World(headroom_core::world::Kind::Controller(
            headroom_core::world::workload::ControllerKind::ReplicaSet,
        )),
        Watch::World(headroom_core::world::Kind::Controller(
            headroom_core::world::workload::ControllerKind::StatefulSet,
        )),
    ];

    /// True if every kind has been listed completely once.
    #[must_use]
    pub fn synced(&self) -> bool {
        Self::WATCHES.iter().all(|watch| self.listed.contains(watch))
    }

    /// True if something has been edited since it was last taken note of.
    #[must_use]
    pub fn has_edits(&self) -> bool {
        !self.edited.is_empty()
    }

    /// Returns the objects that were edited since the last call.
    pub fn take_edited(&mut self) -> BTreeSet<Edited> {
        std::mem::take(&mut self.edited)
    }

    /// All HPAs by key.
    #[must_use]
    pub fn hpas(&self) -> &BTreeMap<ObjectKey, Arc<HpaObject>> {
        &self.hpas
    }

    /// All ScalingPolicies by key.
    #[must_use]
    pub fn policies(&self) -> &BTreeMap<ObjectKey, Arc<PolicyObject<ScalingPolicySpec>>> {
        &self.policies
    }

    /// The ClusterScalingPolicy, if there is one.
    #[must_use]
    pub fn cluster(&self) -> Option<&Arc<PolicyObject<ClusterScalingPolicySpec>>> {
        self.cluster.as_ref()
    }

    /// The scale of a workload of a watched kind.
    #[must_use]
    pub fn scale(&self, kind: ScaleKind, key: &ObjectKey) -> Option<Arc<ScaleSeen>> {
        self.scales.get(&(kind, key.clone())).cloned()
    }

    /// The pods of a namespace that a selector selects.
    #[must_use]
    pub fn pods(&self, namespace: &str, selector: &Selector) -> Selected {
        self.pods.select(namespace, selector, |_| true)
    }

    /// Of the pods that a selector selects, those that a workload controls, itself or through others: a Deployment through its
    /// ReplicaSets. `target` is the workload's unique id, and `watched` its kind where its scale is watched.
    ///
    /// A pod whose controller is not known counts, unless no workload of the kind `watched` could have made it. So it is with a
    /// new ReplicaSet that has not been delivered yet, and below a workload of a kind that is not watched.
    #[must_use]
    pub fn pods_of(
        &self,
        namespace: &Arc<str>,
        selector: &Selector,
        target: &str,
        watched: Option<ScaleKind>,
    ) -> Selected {
        self.pods.select(namespace, selector, |owner| self.is_below(namespace, owner, target, watched))
    }

    /// True if what `owner` controls belongs to the workload `target`.
    fn is_below(
        &self,
        namespace: &Arc<str>,
        owner: Option<&Owner>,
        target: &str,
        watched: Option<ScaleKind>,
    ) -> bool {
        let mut owner = owner;
        // A Deployment of a controller of somebody's own stands above a ReplicaSet, and nothing is known to be deeper.
        for _ in 0..OWNERS_MAX {
            let Some(one) = owner else { return false };
            if *one.uid == *target {
                return true;
            }
            owner = match self.workload(namespace, one) {
                Some(seen) => seen.owner.as_deref(),
                None => return watched.is_none_or(|target| may_be_below(&one.kind, target)),
            };
        }
        false
    }

    /// The workload that a reference names, if it is of a watched kind and that very object has been delivered.
    fn workload(&self, namespace: &Arc<str>, owner: &Owner) -> Option<&Arc<ScaleSeen>> {
        let kind = ScaleKind::of("apps", &owner.kind)?;
        let seen = self.scales.get(&(kind, ObjectKey::new(namespace.clone(), &*owner.name)))?;
        (seen.uid == owner.uid).then_some(seen)
    }

    /// An HPA is new or has changed.
    pub fn apply_hpa(&mut self, hpa: HpaObject) {
        self.show(Watch::Hpas, &hpa.key);
        let old = self.hpas.get(&hpa.key);
        let same = |old: &Arc<HpaObject>| {
            (&old.uid, old.generation, old.deleting) == (&hpa.uid, hpa.generation, hpa.deleting)
                && old.spec == hpa.spec
        };
        if !old.is_some_and(same) {
            self.edited.insert(Edited::Hpa(hpa.key.clone()));
        }
        self.hpas.insert(hpa.key.clone(), Arc::new(hpa));
    }

    /// A ScalingPolicy is new or has changed.
    pub fn apply_policy(&mut self, policy: PolicyObject<ScalingPolicySpec>) {
        let key = ObjectKey::new(policy.namespace.clone(), &*policy.name);
        self.show(Watch::ScalingPolicies, &key);
        let same = |old: &Arc<PolicyObject<ScalingPolicySpec>>| {
            (&old.uid, old.generation, old.deleting) == (&policy.uid, policy.generation, policy.deleting)
        };
        if !self.policies.get(&key).is_some_and(same) {
            self.edited.insert(Edited::Policy(key.clone()));
        }
        self.policies.insert(key, Arc::new(policy));
    }

    /// A ClusterScalingPolicy is new or has changed; only the one that counts is kept.
    pub fn apply_cluster(&mut self, cluster: PolicyObject<ClusterScalingPolicySpec>) {
        if &*cluster.name != headroom_api::cluster_scaling_policy::POLICY_NAME {
            return;
        }
        self.show(Watch::ClusterScalingPolicies, &ObjectKey::new("", &*cluster.name));
        let same = |old: &Arc<PolicyObject<ClusterScalingPolicySpec>>| {
            (&old.uid, old.generation) == (&cluster.uid, cluster.generation)
        };
        if !self.cluster.as_ref().is_some_and(same) {
            self.edited.insert(Edited::Cluster);
        }
        self.cluster = Some(Arc::new(cluster));
    }

    /// A workload is new or has changed.
    pub fn apply_scale(&mut self, kind: ScaleKind, key: ObjectKey, scale: ScaleSeen) {
        self.show(watch_of(kind), &key);
        self.scales.insert((kind, key), Arc::new(scale));
    }

    /// A pod of this controller is new or has changed.
    pub fn apply_pod(
        &mut self,
        namespace: &Arc<str>,
        labels: Labels,
        owner: Option<Arc<Owner>>,
        pod: PodSeen,
    ) {
        self.show(
            Watch::World(headroom_core::world::Kind::Pod),
            &ObjectKey::new(namespace.clone(), &*pod.name),
        );
        self.pods.apply(namespace, labels, owner, pod);
    }

    /// An object is gone.
    pub fn remove(&mut self, watch: Watch, key: &ObjectKey) {
        match watch {
            Watch::Hpas => {
                self.hpas.remove(key);
                self.edited.insert(Edited::Hpa(key.clone()));
            }
            Watch::ScalingPolicies => {
                self.policies.remove(key);
                self.edited.insert(Edited::Policy(key.clone()));
            }
            Watch::ClusterScalingPolicies => {
                if self.cluster.as_ref().is_some_and(|cluster| *cluster.name == *key.name) {
                    self.cluster = None;
                    self.edited.insert(Edited::Cluster);
                }
            }
            Watch::World(headroom_core::world::Kind::Pod) => self.pods.remove(key),
            watch => {
                if let Some(kind) = kind_of(watch) {
                    self.scales.remove(&(kind, key.clone()));
                }
            }
        }
    }

    /// A full list of a kind begins.
    pub fn list_started(&mut self, watch: Watch) {
        if Self::WATCHES.contains(&watch) {
            self.shown.insert(watch, BTreeSet::new());
        }
    }

    /// The full list is complete: what it has not shown is gone. Returns true if replica decisions read the kind.
    pub fn list_ended(&mut self, watch: Watch) -> bool {
        if !Self::WATCHES.contains(&watch) {
            return false;
        }
        self.listed.insert(watch);
        let shown = self.shown.remove(&watch).unwrap_or_default();
        let gone: Vec<ObjectKey> = self.keys(watch).into_iter().filter(|key| !shown.contains(key)).collect();
        for key in gone {
            self.remove(watch, &key);
        }
        true
    }

    fn show(&mut self, watch: Watch, key: &ObjectKey) {
        if let Some(shown) = self.shown.get_mut(&watch) {
            shown.insert(key.clone());
        }
    }

    fn keys(&self, watch: Watch) -> Vec<ObjectKey> {
        match watch {
            Watch::Hpas => self.hpas.keys().cloned().collect(),
            Watch::ScalingPolicies => self.policies.keys().cloned().collect(),
            Watch::ClusterScalingPolicies => {
                self.cluster.iter().map(|cluster| ObjectKey::new("", &*cluster.name)).collect()
            }
            Watch::World(headroom_core::world::Kind::Pod) => self.pods.keys(),
            watch => {
                let Some(kind) = kind_of(watch) else { return Vec::new() };
                self.scales.keys().filter(|(of, _)| *of == kind).map(|(_, key)| key.clone()).collect()
            }
        }
    }
}

/// True if a controller of this kind may have been made for a workload of kind `target`.
fn may_be_below(kind: &str, target: ScaleKind) -> bool {
    target == ScaleKind::Deployment && kind == "ReplicaSet"
}

fn watch_of(kind: ScaleKind) -> Watch {
    use headroom_core::world::Kind;
    use headroom_core::world::workload::ControllerKind;
    match kind {
        ScaleKind::Deployment => Watch::Deployments,
        ScaleKind::ReplicaSet => Watch::World(Kind::Controller(ControllerKind::ReplicaSet)),
        ScaleKind::StatefulSet => Watch::World(Kind::Controller(ControllerKind::StatefulSet)),
    }
}

fn kind_of(watch: Watch) -> Option<ScaleKind> {
    [ScaleKind::Deployment, ScaleKind::ReplicaSet, ScaleKind::StatefulSet]
        .into_iter()
        .find(|kind| watch_of(*kind) == watch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hpa(name: &str, generation: i64) -> HpaObject {
        HpaObject {
            key: ObjectKey::new("shop", name),
            uid: name.into(),
            resource_version: generation.to_string(),
            generation,
            created_at: UnixTime(0),
            deleting: false,
            spec: serde_json::json!({"maxReplicas": generation}),
            status: JsonText::default(),
            observed_generation: None,
            status_writers: Vec::new(),
        }
    }

    #[test]
    fn what_a_full_list_does_not_show_is_gone() {
        let mut store = Workloads::default();
        store.apply_hpa(hpa("a", 1));
        store.apply_hpa(hpa("b", 1));
        store.take_edited();
        store.list_started(Watch::Hpas);
        store.apply_hpa(hpa("a", 1));
        store.list_ended(Watch::Hpas);
        assert_eq!(store.hpas().len(), 1);
        assert_eq!(
            store.take_edited().into_iter().collect::<Vec<_>>(),
            [Edited::Hpa(ObjectKey::new("shop", "b"))]
        );
    }

    fn scale(uid: &str, owner: Option<Arc<Owner>>) -> ScaleSeen {
        ScaleSeen {
            uid: uid.into(),
            resource_version: String::new(),
            scale: Scale::default(),
            replicas_writers: Vec::new(),
            owner,
        }
    }

    /// The controller of this kind whose name is its unique id too.
    fn owner(kind: &str, name: &str) -> Option<Arc<Owner>> {
        Some(Arc::new(Owner { kind: kind.into(), name: name.into(), uid: name.into() }))
    }

    /// True if what a controller controls belongs to the workload of this unique id.
    fn is_below(store: &Workloads, of: Option<Arc<Owner>>, target: &str, watched: Option<ScaleKind>) -> bool {
        store.is_below(&"shop".into(), of.as_deref(), target, watched)
    }

    /// A Deployment `web` with a ReplicaSet `web-1`, and a Deployment `other` with a ReplicaSet `other-1`.
    fn two_deployments() -> Workloads {
        let mut store = Workloads::default();
        for name in ["web", "other"] {
            store.apply_scale(ScaleKind::Deployment, ObjectKey::new("shop", name), scale(name, None));
            let set = format!("{name}-1");
            let of = owner("Deployment", name);
            store.apply_scale(ScaleKind::ReplicaSet, ObjectKey::new("shop", &*set), scale(&set, of));
        }
        store
    }

    #[test]
    fn pods_are_a_deployments_through_its_replica_sets() {
        let store = two_deployments();
        let is_own = |of| is_below(&store, of, "web", Some(ScaleKind::Deployment));
        assert!(is_own(owner("ReplicaSet", "web-1")));
        assert!(is_own(owner("ReplicaSet", "web-2")), "a new one has not been delivered yet");
        assert!(!is_own(owner("ReplicaSet", "other-1")));
        assert!(!is_own(owner("Job", "j")) && !is_own(owner("DaemonSet", "d")) && !is_own(None));
    }

    #[test]
    fn pods_are_a_workloads_of_another_kind_through_what_is_known_of_it() {
        let mut store = two_deployments();
        let rollout = owner("Rollout", "r");
        store.apply_scale(ScaleKind::ReplicaSet, ObjectKey::new("shop", "canary"), scale("canary", rollout));
        let is_own = |of| is_below(&store, of, "r", None);
        assert!(is_own(owner("Rollout", "r")) && is_own(owner("ReplicaSet", "canary")));
        assert!(is_own(owner("CloneSet", "c")), "it may have been made for the target");
        assert!(!is_own(owner("ReplicaSet", "web-1")) && !is_own(None));
    }

    #[test]
    fn workload_made_anew_under_its_name_has_another_controller() {
        let mut store = two_deployments();
        let anew = scale("again", owner("Deployment", "other"));
        store.apply_scale(ScaleKind::ReplicaSet, ObjectKey::new("shop", "web-1"), anew);
        let of = |uid: &str| {
            Some(Arc::new(Owner { kind: "ReplicaSet".into(), name: "web-1".into(), uid: uid.into() }))
        };
        let watched = Some(ScaleKind::Deployment);
        assert!(
            is_below(&store, of("again"), "other", watched) && !is_below(&store, of("again"), "web", watched)
        );
        assert!(is_below(&store, of("web-1"), "web", watched), "the one before is not known any more");
        let set = Watch::World(headroom_core::world::Kind::Controller(
            headroom_core::world::workload::ControllerKind::ReplicaSet,
        ));
        store.remove(set, &ObjectKey::new("shop", "web-1"));
        assert!(is_below(&store, of("again"), "web", watched), "nor is the new one once it is gone");
    }

    #[test]
    fn a_status_write_is_no_edit_and_a_new_spec_is() {
        let mut store = Workloads::default();
        store.apply_hpa(hpa("a", 1));
        assert_eq!(store.take_edited().len(), 1);
        store.apply_hpa(HpaObject {
            resource_version: "9".into(),
            status: serde_json::json!({"x": 1}).into(),
            ..hpa("a", 1)
        });
        assert_eq!(store.take_edited().len(), 0);
        store.apply_hpa(hpa("a", 2));
        assert_eq!(store.take_edited().len(), 1);
    }
}
