//! NodeName and NodeUnschedulable: a pod that names its node, and cordoned nodes.

use std::sync::Arc;

use crate::scheduling::Refusal;
use crate::scheduling::constraints::{Taint, TaintEffect, Toleration};
use crate::scheduling::taints::tolerates;

/// The taint that a cordon stands for; whoever tolerates it may be placed on a cordoned node.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// True if a cordoned node may take a pod with these tolerations.
///
/// Source: kube-scheduler, nodeunschedulable/node_unschedulable.go, Filter.
///
/// # Errors
/// [`Refusal::Unschedulable`] when the node is cordoned and the cordon is not tolerated.
pub fn check_unschedulable(unschedulable: bool, tolerations: &[Toleration]) -> Result<(), Refusal> {
    if !unschedulable {
        return Ok(());
    }
    let cordon =
        Taint { key: Arc::from(UNSCHEDULABLE_TAINT), value: Arc::from(""), effect: TaintEffect::NoSchedule };
    if tolerations.iter().any(|toleration| tolerates(toleration, &cordon)) {
        Ok(())
    } else {
        Err(Refusal::Unschedulable)
    }
}
