//! Parts of the vectors' world: its record of actions, instances, and the answers of pods to evictions.

use std::sync::Arc;

use headroom_core::labels::ObjectKey;
use headroom_core::scheduling::constraints::{Taint, TaintEffect};
use headroom_core::world::node::{CORDONED_ANNOTATION, DELETION_TAINT, INTENT_ANNOTATION, Node as CoreNode};
use headroom_core::world::provider::{FailureClass, InstanceState};
use serde_json::Value;

use crate::model::Pod;

/// Actions, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// Evicted pods, with the node.
    pub(crate) evictions: Vec<(i64, Arc<str>, ObjectKey)>,
    /// Refused evictions likewise.
    pub(crate) refusals: Vec<(i64, Arc<str>, ObjectKey)>,
    /// Deleted nodes (or ids of instances that never became nodes), with the group.
    pub(crate) deletions: Vec<(i64, Arc<str>, Arc<str>)>,
    /// Refused deletions likewise.
    pub(crate) failed_deletions: Vec<(i64, Arc<str>, Arc<str>)>,
    /// Nodes that got our mark.
    pub(crate) marks: Vec<(i64, Arc<str>)>,
    /// Nodes that lost it again.
    pub(crate) unmarks: Vec<(i64, Arc<str>)>,
    /// Sizes that were raised, with the number of nodes.
    pub(crate) increases: Vec<(i64, Arc<str>, i64)>,
    /// Increases that the cloud refused.
    pub(crate) failed_increases: Vec<(i64, Arc<str>)>,
    /// Sizes that were lowered without a deletion.
    pub(crate) decreases: Vec<(i64, Arc<str>, i64)>,
}

/// One instance of the cloud.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Time at which it becomes a node; `None` if it will not.
    pub(crate) due: Option<i64>,
    /// Time at which it was requested.
    pub(crate) created_at: i64,
    /// Its state.
    pub(crate) state: InstanceState,
    /// Reason why it was not made, if the cloud reports one.
    pub(crate) error: Option<FailureClass>,
}

/// Answer of a pod to an eviction that does not end it at once.
#[derive(Clone, Copy)]
pub(crate) enum Manner {
    /// The API refuses each time.
    Refuses,
    /// It stops so many seconds later.
    EndsAfter(i64),
}

/// Puts the mark of an intent on a node: taint, annotation and cordon.
pub(crate) fn put_on(node: &mut CoreNode, intent: &str) {
    node.taints.retain(|taint| &*taint.key != DELETION_TAINT);
    let (key, effect) = (Arc::from(DELETION_TAINT), TaintEffect::NoSchedule);
    node.taints.push(Taint { key, value: "".into(), effect });
    node.annotations.insert(INTENT_ANNOTATION, intent);
    if !node.unschedulable {
        node.annotations.insert(CORDONED_ANNOTATION, "true");
        node.unschedulable = true;
    }
}

/// An instance of the input.
pub(crate) fn machine(given: &Value) -> Machine {
    let state = match given["state"].as_str() {
        Some("creating") => InstanceState::Creating,
        Some("deleting") => InstanceState::Deleting,
        _ => InstanceState::Running,
    };
    let error = given["error"].as_str().map(|word| match word {
        "quota" => FailureClass::QuotaExceeded,
        _ => FailureClass::Other,
    });
    Machine { due: None, created_at: 0, state, error }
}

/// Returns the answer of an entry's pods to evictions; `None` if they end at once.
pub(crate) fn manner(pod: &Pod) -> Option<Manner> {
    if pod.annotations.get("oracle/evict").is_some_and(|word| word == "refuse") {
        return Some(Manner::Refuses);
    }
    pod.annotations.get("oracle/terminates-s")?.parse().ok().map(Manner::EndsAfter)
}
