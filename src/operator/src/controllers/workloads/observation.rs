//! Observation of a workload for one evaluation: its scale, its pods, and other writers of its size. It asks for no
//! metric.

use std::sync::{Arc, PoisonError};

use headroom_core::pods::input::{PodSeen, Scale};
use headroom_core::pods::selector::Selector;
use headroom_core::scale_in::ScaleIn;
use headroom_core::time::{Seconds, UnixTime};

use super::evaluate::{Dependencies, Rules};
use super::resolve::Workload;
use super::state::{State, newer};
use crate::actuate::scale::FIELD_MANAGER;
use headroom_api::SelectionStrategy;
use headroom_observe::{ScaleKind, Selected, Workloads, Writer};

/// Observation of a workload.
pub(super) struct WorkloadObservation {
    pub(super) scale: Result<Scale, String>,
    pub(super) resource_version: String,
    pub(super) pods: Vec<Arc<PodSeen>>,
    pub(super) rivals: Vec<Arc<str>>,
    pub(super) writers: Vec<Writer>,
    /// The pods of which some go, where the decision lowers the replicas and the operator chooses.
    pub(super) scale_in: Option<ScaleIn>,
}

impl Dependencies {
    /// Reads the workload's size and pods. Kinds that are watched are not asked for.
    pub(super) async fn see(&self, workload: &Workload, state: &State) -> WorkloadObservation {
        let mut observation = WorkloadObservation {
            scale: Err(String::new()),
            resource_version: String::new(),
            pods: Vec::new(),
            rivals: Vec::new(),
            writers: Vec::new(),
            scale_in: None,
        };
        let Some(target) = &workload.target else {
            let reference = &workload.spec.scale_target_ref;
            observation.scale =
                Err(format!("invalid API version in scale target reference: {:?}", reference.api_version));
            return observation;
        };
        let key = headroom_core::labels::ObjectKey::new(target.namespace.clone(), &*target.name);
        let mut uid: Arc<str> = Arc::from("");
        let watched = ScaleKind::of(&target.group, &target.kind);
        match watched {
            Some(kind) => {
                let seen = self.feed.workloads(|known| known.scale(kind, &key)).flatten();
                match seen {
                    Some(seen) => {
                        uid = seen.uid.clone();
                        observation.scale = Ok(seen.scale.clone());
                        observation.resource_version.clone_from(&seen.resource_version);
                        observation.writers.clone_from(&seen.replicas_writers);
                    }
                    None => observation.scale = Err(format!("{} \"{}\" not found", target.kind, target.name)),
                }
            }
            None => match self.scales.read(target).await {
                Ok(live) => {
                    uid = live.uid;
                    observation.scale = Ok(live.scale);
                    observation.resource_version = live.resource_version;
                }
                Err(problem) => observation.scale = Err(problem),
            },
        }
        // Our own write may be ahead of the watch.
        if let (Ok(scale), Some(written)) = (&mut observation.scale, &state.size)
            && newer(&written.resource_version, &observation.resource_version)
        {
            scale.spec_replicas = written.replicas;
            observation.resource_version.clone_from(&written.resource_version);
        }
        let Ok(scale) = &observation.scale else { return observation };
        let Some(selector) = Selector::parse(&scale.selector).ok().filter(|_| !scale.selector.is_empty())
        else {
            self.forget_selector(workload);
            return observation;
        };
        let select =
            |known: &mut Workloads| pods_of(known, workload, &target.namespace, &selector, (&uid, watched));
        let found = self.feed.workloads(select).unwrap_or_default();
        observation.pods = found.pods;
        if let Some(hpa) = &workload.hpa {
            let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
            registry.put(&hpa.namespace, &hpa.name, selector);
            observation.rivals =
                registry.rivals(&hpa.namespace, &hpa.name, found.labels.iter().map(|labels| &**labels));
        }
        observation
    }

    pub(super) fn forget_selector(&self, workload: &Workload) {
        if let Some(hpa) = &workload.hpa {
            let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
            registry.remove(&hpa.namespace, &hpa.name);
        }
    }
}

/// The pods of a workload among those that its selector selects. `target` is its unique id and its kind, if that is watched.
pub(super) fn pods_of(
    known: &Workloads,
    workload: &Workload,
    namespace: &Arc<str>,
    selector: &Selector,
    target: (&str, Option<ScaleKind>),
) -> Selected {
    match workload.selection {
        // A scale without an id says nothing of what it controls.
        SelectionStrategy::OwnerReferences if !target.0.is_empty() => {
            known.pods_of(namespace, selector, target.0, target.1)
        }
        SelectionStrategy::OwnerReferences | SelectionStrategy::LabelSelector => {
            known.pods(namespace, selector)
        }
    }
}

/// Notes that the size is no longer the one that was written last.
pub(super) fn notice_conflict(
    workload: &Workload,
    rules: &Rules,
    state: &mut State,
    observation: &WorkloadObservation,
    now: UnixTime,
) {
    let (Some(written), Ok(scale)) = (&state.size, &observation.scale) else { return };
    if scale.spec_replicas == written.replicas {
        return;
    }
    let of_down = workload.spec.behavior.as_ref().and_then(|behavior| behavior.scale_down.as_ref());
    let stabilization = of_down
        .and_then(|rules| rules.stabilization_window_seconds)
        .map_or(rules.options.downscale_stabilization, |seconds| Seconds(seconds.into()));
    let window =
        Seconds(stabilization.0.max(workload.timing.options(&rules.options).sync_period.0.saturating_mul(4)));
    let others = observation.writers.iter().filter(|writer| &*writer.manager != FIELD_MANAGER);
    let by = others.max_by_key(|writer| writer.at).cloned();
    state.size = None;
    state.contested(by.as_ref(), window, now);
}
