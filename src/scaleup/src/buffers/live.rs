//! The pods that the workloads of buffers have: how many, and the youngest one, whose shape admission has passed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_cluster::world::World;
use headroom_cluster::world::buffer::BufferSource;
use headroom_cluster::world::pod::{Pod, PodClass};
use headroom_values::labels::ObjectKey;
use headroom_values::time::UnixTime;

/// The label by which pods of a Deployment name their ReplicaSet.
const HASH_LABEL: &str = "pod-template-hash";

/// Live pods of workloads.
#[derive(Default)]
pub(super) struct Live {
    /// By kind and namespace.
    found: BTreeMap<(Arc<str>, Arc<str>), ByName>,
}

type ByName = BTreeMap<Arc<str>, Pods>;

/// The live pods of one workload.
#[derive(Clone, Default)]
pub(super) struct Pods {
    /// Number.
    pub(super) count: u32,
    /// The youngest one's class; `None` without pods that can be read.
    pub(super) class: Option<Arc<PodClass>>,
    youngest: Option<(UnixTime, ObjectKey)>,
}

impl Live {
    /// Looks once at all pods, if any buffer refers to a workload.
    pub(super) fn of(world: &World) -> Self {
        let mut live = Self::default();
        for buffer in world.standby().buffers.values() {
            if let BufferSource::Workload { kind, name, .. } = &buffer.source {
                let of_kind = (kind.clone(), buffer.key.namespace.clone());
                live.found.entry(of_kind).or_default().insert(name.clone(), Pods::default());
            }
        }
        let namespaces: BTreeSet<Arc<str>> =
            live.found.keys().map(|(_, namespace)| namespace.clone()).collect();
        if namespaces.is_empty() {
            return live;
        }
        for entry in world.pods() {
            let pod = &entry.pod;
            if namespaces.contains(&pod.key.namespace) && !pod.phase.finished() && pod.deletion_at.is_none() {
                live.note(pod);
            }
        }
        live
    }

    /// The pods of a workload.
    pub(super) fn pods_of(&self, kind: &Arc<str>, namespace: &Arc<str>, name: &Arc<str>) -> Pods {
        let of_kind = self.found.get(&(kind.clone(), namespace.clone()));
        of_kind.and_then(|found| found.get(name)).cloned().unwrap_or_default()
    }

    fn note(&mut self, pod: &Pod) {
        let Some(owner) = &pod.owner else { return };
        let namespace = &pod.key.namespace;
        if let Some(pods) = self
            .found
            .get_mut(&(owner.kind.clone(), namespace.clone()))
            .and_then(|found| found.get_mut(&owner.name))
        {
            pods.note(pod);
        }
        if &*owner.kind != "ReplicaSet" {
            return;
        }
        let hash = pod.class.labels.get(HASH_LABEL).unwrap_or_default();
        let deployment = owner.name.strip_suffix(hash).and_then(|rest| rest.strip_suffix('-'));
        if let Some(deployment) = deployment.filter(|_| !hash.is_empty())
            && let Some(found) = self.found.get_mut(&("Deployment".into(), namespace.clone()))
            && let Some(pods) = found.get_mut(deployment)
        {
            pods.note(pod);
        }
    }
}

impl Pods {
    fn note(&mut self, pod: &Pod) {
        self.count = self.count.saturating_add(1);
        let age = (pod.created_at, pod.key.clone());
        if !pod.class.unreadable && self.youngest.as_ref().is_none_or(|youngest| *youngest < age) {
            self.youngest = Some(age);
            self.class = Some(pod.class.clone());
        }
    }
}
