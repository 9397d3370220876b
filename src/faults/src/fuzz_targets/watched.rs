//! Objects of the cluster as watches deliver them, for node decisions and replica decisions. Nothing is decided here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Understood;
use super::objects::decoded;
use headroom_api::validate::ValidatedWorkloads;
use headroom_api::{HpaOwnership, PolicyObject};
use headroom_observe::convert;
use headroom_observe::decoder::Decoder;
use headroom_observe::slim::{SlimCapacityBuffer, SlimHpa};
use headroom_observe::watched::{Change, Watched};
use headroom_observe::workloads::Workloads;
use headroom_operator::controllers::workloads::{WorkloadPhase, hpa_status, resolve};

/// Reads an object as a watch does: both stores take it, or the error gives the reason.
pub(super) fn watched<K: Watched>(value: &Value) -> Understood {
    let object: K = decoded(value)?;
    let mut decoder = Decoder::default();
    object.update_workloads(&mut decoder, &mut Workloads::default()).map_err(|error| error.to_string())?;
    match object.applied(&mut decoder) {
        Ok(Change::StandIn(_, error)) | Err(error) => Err(error.to_string()),
        Ok(Change::World(_) | Change::Policy(_) | Change::None) => Ok(()),
    }
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 2,
        "labels": {"app": name}, "creationTimestamp": "2026-11-01T00:00:00Z",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "o", "controller": true}],
        "managedFields": [{"manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1",
            "time": "2026-11-01T00:00:05Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]})
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {
        "priorityClassName": "high", "nodeSelector": {"pool": "web"},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}]}})
}

fn replicas() -> Value {
    json!({"metadata": metadata("web"),
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template()},
        "status": {"replicas": 2, "conditions": [{"type": "ReplicaFailure", "status": "False",
            "reason": "FailedCreate", "message": "quota"}]}})
}

pub(super) fn sane_replica_set() -> String {
    replicas().to_string()
}

pub(super) fn sane_stateful_set() -> String {
    let mut set = replicas();
    set["spec"]["podManagementPolicy"] = json!("OrderedReady");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "10Gi"}}}}]);
    set.to_string()
}

pub(super) fn sane_replication_controller() -> String {
    let mut controller = replicas();
    controller["spec"]["selector"] = json!({"app": "web"});
    controller.to_string()
}

pub(super) fn sane_namespace() -> String {
    json!({"metadata": {"name": "shop", "uid": "u", "labels": {"team": "web"}}}).to_string()
}

pub(super) fn sane_pod_template() -> String {
    json!({"metadata": metadata("spare"), "template": template()}).to_string()
}

pub(super) fn sane_quota() -> String {
    json!({"metadata": metadata("quota"),
        "spec": {"hard": {"pods": "40", "requests.cpu": "20"}, "scopes": ["NotTerminating"],
            "scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["high", "low"]}]}},
        "status": {"hard": {"pods": "40", "requests.cpu": "20", "count/jobs.batch": "5"},
            "used": {"pods": "3", "requests.cpu": "300m"}}})
    .to_string()
}

pub(super) fn sane_capacity_buffer() -> String {
    json!({"metadata": metadata("spare"),
        "spec": {"provisioningStrategy": "buffer.x-k8s.io/active-capacity", "podTemplateRef": {"name": "spare"},
            "replicas": 3, "limits": {"cpu": "2500m", "memory": "4Gi", "nvidia.com/gpu": 2}},
        "status": {"podTemplateRef": {"name": "spare"}, "podTemplateGeneration": 2, "replicas": 3,
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity", "conditions": [
                {"type": "ReadyForProvisioning", "status": "True", "reason": "Resolved", "message": "",
                    "observedGeneration": 2, "lastTransitionTime": "2026-11-01T00:00:00Z"}]}})
    .to_string()
}

/// A CapacityBuffer, or the message that its status has for its fault.
pub(super) fn capacity_buffer(value: &Value) -> Understood {
    watched::<SlimCapacityBuffer>(value)?;
    let buffer = convert::buffer::capacity_buffer::<false>(&decoded(value)?, &mut Decoder::default());
    match buffer.map_err(|error| error.to_string())?.fault {
        Some(fault) => Err(fault.to_string()),
        None => Ok(()),
    }
}

pub(super) fn sane_job() -> String {
    json!({"metadata": metadata("batch"),
        "spec": {"parallelism": 5, "completions": 20, "suspend": false, "managedBy": "kubernetes.io/job-controller",
            "template": template()},
        "status": {"active": 5, "succeeded": 3, "conditions": [{"type": "Complete", "status": "False"}]}})
    .to_string()
}

pub(super) fn sane_daemon_set() -> String {
    let mut template = template();
    template["spec"]["hostNetwork"] = json!(true);
    json!({"metadata": metadata("agent"), "spec": {"template": template}}).to_string()
}

pub(super) fn sane_claim() -> String {
    json!({"metadata": {"name": "data", "namespace": "shop", "uid": "u", "annotations": {
            "pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n1"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}, "volumeName": "pv-1",
            "storageClassName": "fast", "volumeMode": "Filesystem", "selector": {"matchLabels": {"a": "b"}}},
        "status": {"phase": "Bound"}})
    .to_string()
}

fn claim_spec() -> Value {
    json!({"devices": {
        "requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount",
                "count": 2, "adminAccess": false,
                "selectors": [{"cel": {"expression": "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('10Gi'))"}}],
                "tolerations": [{"key": "sick", "operator": "Exists", "effect": "NoSchedule"}],
                "capacity": {"requests": {"memory": "10Gi"}}}},
            {"name": "net", "firstAvailable": [{"name": "fast", "deviceClassName": "nic.example.com", "count": 1}]}],
        "constraints": [{"requests": ["gpu"], "matchAttribute": "gpu.example.com/root"}],
        "config": [{"requests": ["gpu"], "opaque": {"driver": "gpu.example.com", "parameters": {}}}]}})
}

pub(super) fn sane_resource_claim() -> String {
    json!({"metadata": metadata("train"), "spec": claim_spec(), "status": {
        "allocation": {"devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1",
            "device": "gpu-0", "adminAccess": null, "shareID": "a", "consumedCapacity": {"memory": "10Gi"}}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}},
        "reservedFor": [{"resource": "pods", "name": "train-0", "uid": "p"}]}})
    .to_string()
}

pub(super) fn sane_claim_template() -> String {
    json!({"metadata": metadata("train"), "spec": {"metadata": {"labels": {"a": "b"}}, "spec": claim_spec()}})
        .to_string()
}

pub(super) fn sane_device_class() -> String {
    json!({"metadata": {"name": "gpu.example.com"}, "spec": {"extendedResourceName": "example.com/gpu",
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}})
    .to_string()
}

pub(super) fn sane_resource_slice() -> String {
    json!({"metadata": {"name": "n1-gpu"}, "spec": {"driver": "gpu.example.com", "nodeName": "n1",
        "pool": {"name": "n1", "generation": 3, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "A"}, "index": {"int": 0},
                "driverVersion": {"version": "1.2.3"}, "healthy": {"bool": true}},
            "capacity": {"memory": {"value": "40Gi", "requestPolicy": {"default": "1Gi",
                "validRange": {"min": "1Gi", "max": "40Gi", "step": "1Gi"}}}},
            "consumesCounters": [{"counterSet": "gpu-0", "counters": {"memory": {"value": "40Gi"}}}],
            "taints": [{"key": "sick", "value": "yes", "effect": "NoSchedule", "timeAdded": "2026-11-01T00:00:00Z"}],
            "allowMultipleAllocations": true}],
        "sharedCounters": null}})
    .to_string()
}

pub(super) fn sane_device_taint_rule() -> String {
    json!({"metadata": {"name": "sick"}, "spec": {
        "deviceSelector": {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"},
        "taint": {"key": "sick", "value": "yes", "effect": "NoExecute", "timeAdded": "2026-11-01T00:00:00Z"}}})
    .to_string()
}

pub(super) fn sane_volume() -> String {
    json!({"metadata": {"name": "pv-1", "labels": {"a": "b"}},
        "spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "claimRef": {"name": "data", "namespace": "shop"}, "csi": {"driver": "ebs", "volumeHandle": "vol-1"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]}}},
        "status": {"phase": "Bound"}})
    .to_string()
}

pub(super) fn sane_storage_class() -> String {
    json!({"metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": [
            {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["a", "b"]}]}]})
    .to_string()
}

pub(super) fn sane_csi_node() -> String {
    json!({"metadata": {"name": "n1"}, "spec": {"drivers": [
        {"name": "ebs", "nodeID": "i-1", "allocatable": {"count": 25}}, {"name": "efs", "nodeID": "i-1"}]}})
    .to_string()
}

pub(super) fn sane_csi_driver() -> String {
    json!({"metadata": {"name": "ebs"}, "spec": {"storageCapacity": true,
        "preventPodSchedulingIfMissing": true}})
    .to_string()
}

pub(super) fn sane_storage_capacity() -> String {
    json!({"metadata": {"name": "c", "namespace": "csi"}, "storageClassName": "fast", "capacity": "100Gi",
        "maximumVolumeSize": "10Gi", "nodeTopology": {"matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}})
    .to_string()
}

pub(super) fn sane_attachment() -> String {
    json!({"metadata": {"name": "csi-1"}, "spec": {"attacher": "ebs", "nodeName": "n1",
        "source": {"persistentVolumeName": "vol-1"}}, "status": {"attached": true}})
    .to_string()
}

pub(super) fn sane_priority_class() -> String {
    json!({"metadata": {"name": "high"}, "value": 1000, "globalDefault": false}).to_string()
}

pub(super) fn sane_hpa() -> String {
    let utilization = json!({"type": "Utilization", "averageUtilization": 60});
    let rule = |kind: &str, value: u32| {
        json!({"stabilizationWindowSeconds": 300, "selectPolicy": "Max", "tolerance": "0.05",
            "policies": [{"type": kind, "value": value, "periodSeconds": 60}]})
    };
    json!({"metadata": metadata("web"),
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 2,
            "maxReplicas": 20, "behavior": {"scaleUp": rule("Pods", 4), "scaleDown": rule("Percent", 10)},
            "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": utilization}},
                {"type": "External", "external": {"metric": {"name": "queue", "selector": {"matchLabels": {"a": "b"}}},
                    "target": {"type": "AverageValue", "averageValue": "30"}}},
                {"type": "Object", "object": {"metric": {"name": "rps"}, "target": {"type": "Value", "value": "1k"},
                    "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"}}}]},
        "status": {"observedGeneration": 2, "currentReplicas": 3, "desiredReplicas": 3,
            "lastScaleTime": "2026-11-01T00:00:00Z",
            "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu",
                "current": {"averageUtilization": 50, "averageValue": "100m"}}}],
            "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}]}})
    .to_string()
}

/// An HPA with the policy that adopts it: its spec is read for decisions, or the policy's condition says why not.
pub(super) fn hpa(value: &Value) -> Understood {
    watched::<SlimHpa>(value)?;
    let hpa = convert::scale::hpa(decoded(value)?, &mut Decoder::default());
    let hpa = Arc::new(hpa.map_err(|error| error.to_string())?);
    drop(hpa_status(&hpa.status));
    let spec = json!({"target": {"type": "HPA", "hpa": {"name": &*hpa.key.name}}});
    let policy = PolicyObject::read(decoded(&metadata("web"))?, spec, Value::Null);
    let policies = BTreeMap::from([(hpa.key.clone(), Arc::new(policy))]);
    let hpas = BTreeMap::from([(hpa.key.clone(), hpa.clone())]);
    let settings = ValidatedWorkloads { ownership: HpaOwnership::Replace, ..ValidatedWorkloads::default() };
    let resolved = resolve(&policies, &hpas, &settings);
    resolved.workloads.values().try_for_each(|workload| match &workload.phase {
        WorkloadPhase::Owner => Ok(()),
        WorkloadPhase::Stalled(_, why) | WorkloadPhase::Conflict(why) | WorkloadPhase::Invalid(why) => {
            Err(why.clone())
        }
    })
}
