//! Before replicas are lowered: the pods that should go are chosen and marked. Nothing here keeps a size from being written.

use std::time::Duration;

use headroom_core::pods::decision::Decision;
use headroom_core::pods::input::{PodPhase, PodSeen};
use headroom_core::scale_in::{Replica, ScaleIn};
use tracing::debug;

use super::evaluate::Dependencies;
use super::last::EvaluationInput;
use crate::actuate::deletion_costs::CostError;
use headroom_api::ScaleInChoice;

/// From the last cost written to the lower size. The ReplicaSet controller sees pods by one watch and sizes by another: the costs must be
/// there first, on a busy machine too.
const COSTS_ARE_SEEN_AFTER: Duration = Duration::from_secs(1);

/// The pods of which some go, where the decision lowers the replicas and the operator is to choose. The pods of a StatefulSet
/// go by their numbers.
pub(super) fn wanted(input: &EvaluationInput, decision: &Decision, choice: ScaleInChoice) -> Option<ScaleIn> {
    let rescale = decision.rescale.as_ref().filter(|rescale| rescale.to < rescale.from)?;
    let target = input.workload.target.as_ref().filter(|target| &*target.kind != "StatefulSet")?;
    if choice == ScaleInChoice::ByReplicaSet {
        return None;
    }
    let active =
        |pod: &&PodSeen| !pod.deleting && !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
    let replica = |pod: &PodSeen| Replica {
        name: pod.name.clone(),
        ready: pod.phase == PodPhase::Running && pod.ready.is_some_and(|ready| ready.ready == Some(true)),
        cost: pod.deletion_cost,
    };
    let replicas = input.pods.iter().map(|pod| &**pod).filter(active).map(replica).collect();
    let to = usize::try_from(rescale.to).unwrap_or(0);
    Some(ScaleIn { namespace: target.namespace.clone(), replicas, to })
}

impl Dependencies {
    /// Writes the deletion costs by which the pods go whose nodes become empty. Returns what went wrong, for the trace: the
    /// replicas are lowered all the same, and the ReplicaSet controller chooses the rest.
    pub(super) async fn write_costs(&self, scale_in: &ScaleIn) -> Option<String> {
        let namespace = &scale_in.namespace;
        let choice = match self.health.scale_ins.ask(&self.host, scale_in.clone()).await {
            Some(Ok(choice)) => choice,
            Some(Err(left_alone)) => {
                debug!(%namespace, reason = %left_alone, "the ReplicaSet controller chooses the pods that go");
                return None;
            }
            None => return Some("the loop of nodes did not answer in time".to_owned()),
        };
        if choice.writes.is_empty() {
            return None;
        }
        let written = self.costs.write(&self.host, namespace, &choice.writes).await;
        debug!(%namespace, wanted = choice.writes.len(), written = written.count, "deletion costs written");
        if written.count != 0 {
            self.host.sleep(COSTS_ARE_SEEN_AFTER).await;
        }
        match written.error {
            None => {
                self.health.set_missing_cost_permission(None);
                None
            }
            Some(CostError::Forbidden(message)) => {
                self.health.set_missing_cost_permission(Some(message.clone()));
                Some(message)
            }
            Some(error) => Some(error.to_string()),
        }
    }
}
