//! A slim node as the core's node.

use headroom_core::scheduling::constraints::Taint;
use headroom_core::world::node::{Node, Readiness};

use super::{class, instant, name_of, uid_of};
use crate::observe::decoder::{Decoder, Error};
use crate::observe::slim::SlimNode;

/// The node in the core's words.
///
/// # Errors
/// If it has no name, or something in it cannot be read.
pub fn node(slim: &SlimNode, decoder: &mut Decoder) -> Result<Node, Error> {
    let meta = &slim.metadata;
    let ready = slim.status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let changed_at = ready.and_then(|condition| condition.last_transition_time.as_ref());
    let taints = slim.spec.taints.iter().map(|taint| {
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
        provider_id: decoder.text(&slim.spec.provider_id),
        labels: decoder.labels(meta.labels.iter().flatten()),
        annotations: decoder.labels(meta.annotations.iter().flatten()),
        taints,
        unschedulable: slim.spec.unschedulable,
        allocatable: decoder.resources(&slim.status.allocatable)?,
        capacity: decoder.resources(&slim.status.capacity)?,
        ready: match ready.map(|condition| condition.status.as_str()) {
            Some("True") => Readiness::Ready,
            Some("False") => Readiness::NotReady,
            Some(_) | None => Readiness::Unknown,
        },
        ready_changed_at: instant(changed_at.or(meta.creation_timestamp.as_ref())),
        created_at: instant(meta.creation_timestamp.as_ref()),
        deleting: meta.deletion_timestamp.is_some(),
    })
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
