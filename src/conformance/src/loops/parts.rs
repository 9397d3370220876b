//! What the vectors' world is made of: its record of what was done, instances, and how pods answer evictions.

use std::sync::Arc;

use headroom_core::labels::ObjectKey;
use headroom_core::scheduling::constraints::{Taint, TaintEffect};
use headroom_core::world::node::{CORDONED_ANNOTATION, DELETION_TAINT, INTENT_ANNOTATION, Node as CoreNode};
use headroom_core::world::provider::{FailureClass, InstanceState};
use serde_json::Value;

use crate::model::Pod;

/// What was done, in order.
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
    /// When it becomes a node, where it will.
    pub(crate) due: Option<i64>,
    /// When it was asked for.
    pub(crate) created_at: i64,
    /// Its state.
    pub(crate) state: InstanceState,
    /// Reason why it was not made, if the cloud says so.
    pub(crate) error: Option<FailureClass>,
}

/// How a pod answers an eviction that does not end it at once.
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

/// How the pods of an entry answer evictions, where it is not at once.
pub(crate) fn manner(pod: &Pod) -> Option<Manner> {
    if pod.annotations.get("oracle/evict").is_some_and(|word| word == "refuse") {
        return Some(Manner::Refuses);
    }
    pod.annotations.get("oracle/terminates-s")?.parse().ok().map(Manner::EndsAfter)
}
