//! Pods that are bound together or not at all, by the objects of the schedulers that do so.

use headroom_core::world::gang::{COSCHEDULING_LABEL, VOLCANO_ANNOTATION};
use serde_json::Value;

use crate::store::{Kind, ObjectKey, Store, at, number, text};

/// The gang of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GangOf {
    kind: Kind,
    key: ObjectKey,
    /// Group of a Workload, and replica of it.
    part: (String, String),
}

impl GangOf {
    /// The gang that a pod names: by a field of its spec, by the label of coscheduling, or by the annotation of Volcano.
    pub(crate) fn of(pod: &Value) -> Option<Self> {
        let namespace = text(pod, &["metadata", "namespace"]).unwrap_or_default();
        let named = |path: &[&str]| text(pod, path).filter(|name| !name.is_empty());
        let whole = |kind, name: &str| {
            let part = (String::new(), String::new());
            Some(Self { kind, key: ObjectKey::new(namespace, name), part })
        };
        if let Some(name) = named(&["spec", "schedulingGroup", "podGroupName"]) {
            return whole(Kind::PodGroup, name);
        }
        if let Some(name) = named(&["spec", "workloadRef", "name"]) {
            let word = |field| named(&["spec", "workloadRef", field]).unwrap_or_default().to_owned();
            let part = (word("podGroup"), word("podGroupReplicaKey"));
            return Some(Self { kind: Kind::Workload, key: ObjectKey::new(namespace, name), part });
        }
        if let Some(name) = named(&["metadata", "labels", COSCHEDULING_LABEL]) {
            return whole(Kind::CoschedulingPodGroup, name);
        }
        whole(Kind::VolcanoPodGroup, named(&["metadata", "annotations", VOLCANO_ANNOTATION])?)
    }

    /// Fewest pods that are bound at once; `None` while there is no such object or group, for which a scheduler waits.
    pub(super) fn minimum(&self, store: &Store) -> Option<usize> {
        let object = store.find(self.kind, &self.key)?;
        let count = |value: &Value, path: &[&str]| number(value, path).unwrap_or(0);
        let pods = match self.kind {
            Kind::PodGroup => count(object, &["spec", "schedulingPolicy", "gang", "minCount"]),
            Kind::Workload => {
                let groups = at(object, &["spec", "podGroups"])?.as_array()?;
                let group = groups.iter().find(|group| text(group, &["name"]) == Some(&self.part.0))?;
                count(group, &["policy", "gang", "minCount"])
            }
            _ => count(object, &["spec", "minMember"]) - count(object, &["status", "succeeded"]),
        };
        Some(usize::try_from(pods).unwrap_or(0))
    }

    /// The label of which the nodes of all its pods must have one value.
    pub(super) fn topology_key<'s>(&self, store: &'s Store) -> Option<&'s str> {
        let object = store.find(self.kind, &self.key).filter(|_| self.kind == Kind::PodGroup)?;
        let keys = at(object, &["spec", "schedulingConstraints", "topology"])?.as_array()?;
        text(keys.first()?, &["key"])
    }
}
