//! Surges in the loop of workloads: the workloads that may have one replica more, and the replicas of policies that are
//! gone. It decides on no size.

use std::collections::BTreeSet;
use std::sync::Arc;

use headroom_core::history::Surge;
use headroom_core::labels::ObjectKey;
use headroom_core::pods::decision::Decision;
use headroom_core::pods::record::Leave;
use headroom_core::pods::surge::{own_replicas, steady_pods};
use headroom_core::world::surge::SurgeWorkload;
use tracing::{debug, info};

use super::WorkloadLoop;
use super::evaluate::Dependencies;
use super::last::EvaluationInput;
use super::resolve::{SurgeLeave, Workload, WorkloadPhase};
use crate::actuate::scale::{ScaleError, ScaleTarget};
use headroom_api::Mode;

/// The group and the kind that may have a surge. Others keep what an extra pod leaves, as a StatefulSet its volumes.
const DEPLOYMENT: (&str, &str) = ("apps", "Deployment");

/// The Deployment of a policy that allows a surge, if the operator may change its size now.
pub(super) fn allowed(workload: &Workload, leave: Leave) -> Option<&ScaleTarget> {
    let target = workload
        .target
        .as_ref()
        .filter(|_| workload.surge == SurgeLeave::Granted && leave == Leave::Granted)?;
    ((&*target.group, &*target.kind) == DEPLOYMENT).then_some(target)
}

/// Report on a workload to the node loop after a decision; `None` where no surge is allowed.
pub(super) fn report_of(input: &EvaluationInput, decision: &Decision) -> Option<SurgeWorkload> {
    let target = allowed(&input.workload, input.leave)?;
    let scale = input.scale.as_ref().ok()?;
    let replicas = own_replicas(&input.memory, scale.spec_replicas);
    let pods = steady_pods(scale, decision, input.pods.iter().map(|pod| &**pod));
    Some(SurgeWorkload {
        policy: input.workload.key.clone(),
        deployment: target.name.clone(),
        replicas: u32::try_from(replicas).unwrap_or(0),
        pods: pods.unwrap_or_default(),
    })
}

impl WorkloadLoop {
    /// Takes in what the node loop needs: workloads whose wish has changed are looked at at once, and surges of policies that
    /// are gone are noted. Then the workloads that may have one are reported to the node loop.
    pub(super) fn meet_surges(&mut self) {
        let surges = &self.health.surges;
        let Some(wanted) = surges.wanted.get().filter(|_| self.resolved_with) else {
            return surges.workloads.set(self.no_surges());
        };
        let now = self.dependencies.host.monotonic();
        let policies: BTreeSet<ObjectKey> = wanted.iter().map(|surge| surge.policy.clone()).collect();
        let known = self.surges_seen.replace(policies.clone());
        // What was decided before the wish was known is decided once more.
        let changed: Vec<ObjectKey> = match known {
            Some(known) => known.symmetric_difference(&policies).cloned().collect(),
            None => self.surging.clone(),
        };
        for key in changed {
            match self.slots.get_mut(&key) {
                Some(slot) if slot.in_flight => slot.again = true,
                Some(_) => self.schedule(&key, now),
                None => {}
            }
        }
        for surge in wanted {
            if self.owns(&surge.policy.namespace) && !self.resolved.workloads.contains_key(&surge.policy) {
                self.orphans.insert(surge.policy.clone(), surge);
            }
        }
        self.report_surges();
    }

    /// Notes the surge of a policy that is gone, so that its replica is given back.
    pub(super) fn note_orphan(&mut self, key: &ObjectKey) {
        let from = self.slots.get(key).and_then(|slot| slot.state.as_ref()?.memory.memory.surged_from);
        let target = self.resolved.workloads.get(key).and_then(|workload| workload.target.as_ref());
        if let (Some(from), Some(target)) = (from.and_then(|from| u32::try_from(from).ok()), target) {
            let (policy, deployment) = (key.clone(), target.name.clone());
            self.orphans.insert(key.clone(), Surge { policy, deployment, owner: Arc::from(""), from });
        }
    }

    /// Reports the workloads that may have a surge to the node loop, once each of them has been looked at.
    fn report_surges(&self) {
        let looked_at = self.surging.iter().all(|key| self.surge_reports.contains_key(key));
        let reports = self.surging.iter().filter_map(|key| self.surge_reports.get(key)?.clone());
        self.health.surges.workloads.set(looked_at.then(|| reports.collect()));
    }

    /// The report to the node loop while this replica runs no workload: with shards there are no surges.
    pub(super) fn no_surges(&self) -> Option<Vec<SurgeWorkload>> {
        (1 < self.parts.len()).then(Vec::new)
    }

    /// Gives the replicas back that surges of policies which are gone have added. What fails is tried again in the next turn.
    pub(super) async fn give_back(&mut self) {
        if self.orphans.is_empty() || self.preview {
            return;
        }
        for (policy, surge) in std::mem::take(&mut self.orphans) {
            let target = ScaleTarget {
                group: DEPLOYMENT.0.into(),
                kind: DEPLOYMENT.1.into(),
                namespace: policy.namespace.clone(),
                name: surge.deployment.clone(),
            };
            let owned = self.resolved.workloads.values().any(|workload| {
                let acts = workload.mode == Mode::Apply && workload.phase == WorkloadPhase::Owner;
                acts && workload.target.as_ref() == Some(&target)
            });
            let part = &self.parts[self.part_of(&policy.namespace)];
            let Some(_working) = part.seat.begin().filter(|_| !owned) else { continue };
            let given = part.dependencies.give_back(&target, surge.from).await;
            if let Err(error) = given {
                debug!(%policy, error, "the replica of a surge is not given back yet");
                self.orphans.insert(policy, surge);
            }
        }
    }
}

impl Dependencies {
    /// Sets the size back to `from` if it is one more than that. A size that somebody else has set, and a Deployment that is
    /// gone, are left alone.
    async fn give_back(&self, target: &ScaleTarget, from: u32) -> Result<(), String> {
        let Ok(from) = i32::try_from(from) else { return Ok(()) };
        let surged = from.saturating_add(1);
        let live = match self.scales.read(target).await {
            Ok(live) => live,
            Err(error) if error.contains("not found") => return Ok(()),
            Err(error) => return Err(error),
        };
        if live.scale.spec_replicas != surged {
            return Ok(());
        }
        match self.scales.write(target, (surged, from), &live.resource_version).await {
            Ok(_) => {
                info!(namespace = %target.namespace, deployment = %target.name, from = surged, to = from,
                    "gave the replica of a surge back whose policy is gone");
                Ok(())
            }
            Err(ScaleError::Superseded { .. }) => Ok(()),
            Err(ScaleError::Failed(error) | ScaleError::Unanswered(error)) => Err(error),
        }
    }
}
