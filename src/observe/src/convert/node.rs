//! A slim node as the core's node.

use headroom_core::scheduling::constraints::Taint;
use headroom_core::world::node::{
    CANDIDATE_TAINT, ConditionStatus, Node, NodeCondition, Readiness, keeps_condition,
};

use super::{class, instant, name_of, uid_of};
use crate::decoder::{Decoder, Error};
use crate::slim::{self, SlimNode};

/// The node in the core's words.
///
/// # Errors
/// If it has no name, or something in it cannot be read.
pub fn node(slim: &SlimNode, decoder: &mut Decoder) -> Result<Node, Error> {
    let meta = &slim.metadata;
    let condition = |type_: &str| slim.status.conditions.iter().find(|condition| condition.type_ == type_);
    let (ready, suspended) = (condition("Ready"), condition("Suspended"));
    let changed_at = ready.and_then(|condition| condition.last_transition_time.as_ref());
    let own = |taint: &&slim::Taint| taint.key == CANDIDATE_TAINT && taint.effect == "PreferNoSchedule";
    let taints = slim.spec.taints.iter().filter(|taint| !own(taint)).map(|taint| {
        Ok(Taint {
            key: decoder.text(&taint.key),
            value: decoder.text(&taint.value),
            effect: class::effect(&taint.effect)?,
        })
    });
    let taints = taints.collect::<Result<_, Error>>()?;
    Ok(Node {
        name: name_of(meta, decoder)?,
        uid: uid_of(meta),
        provider_id: decoder.text(machine_id(&slim.spec.provider_id)),
        labels: decoder.labels(meta.labels.iter().flatten()),
        annotations: decoder.labels(meta.annotations.iter().flatten()),
        taints,
        candidate: slim.spec.taints.iter().any(|taint| own(&taint)),
        unschedulable: slim.spec.unschedulable,
        allocatable: decoder.resources(&slim.status.allocatable)?,
        capacity: decoder.resources(&slim.status.capacity)?,
        ready: match ready.map(|condition| condition.status.as_str()) {
            _ if suspended.is_some_and(|condition| condition.status == "True") => Readiness::Suspended,
            Some("True") => Readiness::Ready,
            Some("False") => Readiness::NotReady,
            Some(_) | None => Readiness::Unknown,
        },
        ready_changed_at: instant(changed_at.or(meta.creation_timestamp.as_ref())),
        created_at: instant(meta.creation_timestamp.as_ref()),
        deleting: meta.deletion_timestamp.is_some(),
        conditions: conditions(slim, decoder),
    })
}

/// The conditions that decisions read, in order of their types.
fn conditions(slim: &SlimNode, decoder: &mut Decoder) -> Vec<NodeCondition> {
    let mut kept: Vec<NodeCondition> = Vec::new();
    for condition in &slim.status.conditions {
        let status = ConditionStatus::of(&condition.status);
        if keeps_condition(&condition.type_, status) {
            let since = condition.last_transition_time.as_ref().or(slim.metadata.creation_timestamp.as_ref());
            kept.push(NodeCondition { kind: decoder.text(&condition.type_), status, since: instant(since) });
        }
    }
    kept.sort_by(|a, b| a.kind.cmp(&b.kind));
    kept
}

/// The part of a provider id that names the machine, without the rest.
///
/// An instance of AWS is known by its own id: the zone before it is informational, and a node whose zone there differs
/// from its group's is the same machine. Fargate and hybrid nodes have no such id and stay as they are.
/// Differs from upstream: Cluster Autoscaler compares the whole string.
#[must_use]
pub fn machine_id(provider_id: &str) -> &str {
    let Some(rest) = provider_id.strip_prefix("aws://") else { return provider_id };
    let last = rest.rsplit('/').next().unwrap_or_default();
    let is_instance = last
        .strip_prefix("i-")
        .is_some_and(|hex| !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if is_instance { last } else { provider_id }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_core::time::UnixTime;

    fn decode(value: serde_json::Value) -> Node {
        let slim: SlimNode = serde_json::from_str(&value.to_string()).expect("a node");
        node(&slim, &mut Decoder::default()).expect("understood")
    }

    #[test]
    fn a_node_whose_kubelet_was_never_heard_is_unknown_since_its_creation() {
        let node = decode(
            serde_json::json!({"metadata": {"name": "n", "creationTimestamp": "2026-11-01T00:00:00Z"}}),
        );
        assert_eq!(node.ready, Readiness::Unknown);
        assert_eq!(Some(node.ready_changed_at), UnixTime::parse("2026-11-01T00:00:00Z"));
    }

    #[test]
    fn an_instance_of_aws_is_known_by_its_own_id_whatever_its_zone() {
        let known_as = |id: &str| {
            let node = serde_json::json!({"metadata": {"name": "n"}, "spec": {"providerID": id}});
            decode(node).provider_id.to_string()
        };
        assert_eq!(known_as("aws:///eu-west-1a/i-0abc12"), "i-0abc12");
        for other in ["aws:///eu-west-1a/a1b2/fargate-10-0-0-7", "eks-hybrid:///x/y/mi-0a", "kwok://i-0a", ""]
        {
            assert_eq!(known_as(other), other);
        }
    }

    #[test]
    fn own_soft_taint_is_a_mark_and_no_taint() {
        let decoded = |effect: &str| {
            decode(serde_json::json!({"metadata": {"name": "n"}, "spec": {"taints": [
                {"key": "headroom.dev/removal-candidate", "effect": effect}, {"key": "k", "effect": "NoSchedule"}]}}))
        };
        let (own, other) = (decoded("PreferNoSchedule"), decoded("NoSchedule"));
        assert_eq!((own.candidate, own.taints.len()), (true, 1));
        assert_eq!((other.candidate, other.taints.len()), (false, 2), "that is somebody else's");
    }

    #[test]
    fn only_annotations_that_decisions_read_are_kept() {
        let node = decode(serde_json::json!({"metadata": {"name": "n", "annotations": {
            "node.alpha.kubernetes.io/ttl": "0", "headroom.dev/remove": "requested"}},
            "spec": {"providerID": "kwok://n", "taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "3920m", "pods": "110"}, "capacity": {"cpu": 4},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T00:00:09Z"}]}}));
        assert_eq!(node.annotations.iter().collect::<Vec<_>>(), [("headroom.dev/remove", "requested")]);
        assert_eq!(
            (node.allocatable.cpu_milli, node.allocatable.pods, node.capacity.cpu_milli),
            (3920, 110, 4000)
        );
        assert_eq!((node.ready, &*node.provider_id), (Readiness::Ready, "kwok://n"));
    }
}
