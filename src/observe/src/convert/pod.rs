//! A slim pod as the core's pod.

use headroom_core::time::UnixTime;
use headroom_core::world::pod::{self, Pod, PodPhase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::{class, controller_of, instant, key_of, owner_of, uid_of};
use crate::decoder::{Decoder, Error};
use crate::slim::SlimPod;

/// The pod in the core's words.
///
/// # Errors
/// If it has no name, or something in it cannot be read.
pub fn pod(slim: &SlimPod, decoder: &mut Decoder) -> Result<Pod, Error> {
    let meta = &slim.metadata;
    let key = key_of(meta, decoder)?;
    let source = class::Source {
        namespace: &key.namespace,
        pod_name: &key.name,
        metadata: meta,
        spec: &slim.spec,
        status: &slim.status,
        daemon_set: controller_of(meta).is_some_and(|owner| owner.kind == "DaemonSet"),
    };
    let class = class::of(source, decoder)?;
    let some = |name: &Option<String>, decoder: &mut Decoder| {
        name.as_deref().filter(|name| !name.is_empty()).map(|name| decoder.text(name))
    };
    Ok(Pod {
        uid: uid_of(meta),
        class: decoder.class(class),
        owner: owner_of(meta, decoder),
        node: some(&slim.spec.node_name, decoder),
        nominated_node: some(&slim.status.nominated_node_name, decoder),
        phase: match slim.status.phase.as_str() {
            "Running" => PodPhase::Running,
            "Succeeded" => PodPhase::Succeeded,
            "Failed" => PodPhase::Failed,
            _ => PodPhase::Pending,
        },
        unschedulable: slim.status.conditions.iter().any(|condition| {
            condition.type_ == "PodScheduled"
                && condition.status == "False"
                && condition.reason == "Unschedulable"
        }),
        gated: !slim.spec.scheduling_gates.is_empty(),
        created_at: instant(meta.creation_timestamp.as_ref()),
        deletion_at: meta.deletion_timestamp.as_ref().map(|time| instant(Some(time))),
        protected_until: protected_until(meta, slim.status.start_time.as_ref()),
        key,
    })
}

/// End of the pod's protection from disruption.
fn protected_until(meta: &ObjectMeta, start: Option<&Time>) -> Option<UnixTime> {
    let annotation = meta.annotations.as_ref()?.get(pod::DO_NOT_DISRUPT_ANNOTATION)?;
    pod::protected_until(Some(annotation), start.map(|start| instant(Some(start))))
}

/// Substitute for a bound pod that cannot be read: it keeps its node, with the properties that its metadata shows.
/// `None` for one without node or name, which blocks nothing.
pub fn stand_in(meta: &ObjectMeta, node: Option<&str>, decoder: &mut Decoder) -> Option<Pod> {
    let node = node.filter(|node| !node.is_empty())?;
    let node = decoder.text(node);
    let key = key_of(meta, decoder).ok()?;
    let class = class::unreadable(&key.namespace, meta, decoder);
    Some(Pod {
        uid: uid_of(meta),
        class: decoder.class(class),
        node: Some(node),
        phase: PodPhase::Running,
        created_at: instant(meta.creation_timestamp.as_ref()),
        deletion_at: meta.deletion_timestamp.as_ref().map(|time| instant(Some(time))),
        protected_until: protected_until(meta, None),
        key,
        ..Pod::default()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn wire(name: &str) -> serde_json::Value {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-11-01T00:00:00Z", "managedFields": [{"manager": "x", "fieldsV1": {"f:a": {}}}],
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r",
                    "controller": true}]},
            "spec": {"containers": [{"name": "c", "image": "x", "env": [{"name": "A", "value": "b"}],
                "resources": {"requests": {"cpu": "100m"}}}], "nodeName": "n1"},
            "status": {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]}
        })
    }

    fn decode(value: serde_json::Value, decoder: &mut Decoder) -> Pod {
        let slim: SlimPod = serde_json::from_str(&value.to_string()).expect("a pod");
        pod(&slim, decoder).expect("understood")
    }

    #[test]
    fn siblings_share_class_owner_and_node_name() {
        let mut decoder = Decoder::default();
        let (a, b) = (decode(wire("a"), &mut decoder), decode(wire("b"), &mut decoder));
        assert!(Arc::ptr_eq(&a.class, &b.class));
        assert!(Arc::ptr_eq(a.owner.as_ref().expect("owned"), b.owner.as_ref().expect("owned")));
        assert!(Arc::ptr_eq(a.node.as_ref().expect("bound"), b.node.as_ref().expect("bound")));
    }

    #[test]
    fn annotations_that_nobody_reads_are_not_kept() {
        let slim: SlimPod = serde_json::from_str(&wire("a").to_string()).expect("a pod");
        assert_eq!(slim.metadata.annotations.map(|kept| kept.len()), Some(0));
        assert!(slim.metadata.managed_fields.is_none());
    }

    #[test]
    fn protection_from_disruption_counts_from_the_start_that_the_kubelet_reports() {
        let mut value = wire("a");
        value["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = "10m".into();
        let ends_at =
            |value: &serde_json::Value| decode(value.clone(), &mut Decoder::default()).protected_until;
        assert_eq!(ends_at(&value), Some(pod::PROTECTED_FOREVER), "not started yet");
        value["status"]["startTime"] = "2026-11-01T00:01:00Z".into();
        let start = decode(value.clone(), &mut Decoder::default()).created_at.0 + 60;
        assert_eq!(ends_at(&value), Some(UnixTime(start + 600)));
        assert_eq!(ends_at(&wire("a")), None);
    }

    #[test]
    fn a_pod_the_scheduler_gave_up_on_is_unschedulable() {
        let mut value = wire("a");
        value["spec"]["nodeName"] = serde_json::Value::Null;
        value["status"] = serde_json::json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": null}]});
        let pod = decode(value, &mut Decoder::default());
        assert_eq!((pod.unschedulable, pod.node, pod.phase), (true, None, PodPhase::Pending));
    }

    #[test]
    fn a_gated_pod_says_so_and_is_not_unschedulable() {
        let mut value = wire("a");
        value["spec"]["schedulingGates"] = serde_json::json!([{"name": "quota"}]);
        value["status"] = serde_json::json!({"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]});
        let pod = decode(value, &mut Decoder::default());
        assert_eq!((pod.gated, pod.unschedulable), (true, false));
    }

    #[test]
    fn times_are_whole_seconds() {
        let pod = decode(wire("a"), &mut Decoder::default());
        assert_eq!(pod.created_at, UnixTime::parse("2026-11-01T00:00:00Z").expect("a time"));
    }
}
