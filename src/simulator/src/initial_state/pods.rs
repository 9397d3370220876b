//! Pods and the controllers that own them, as the objects that they were read from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::scheduling::constraints::{
    LabelSelector, PodAffinityTerm, Toleration, TolerationOperator,
};
use headroom_core::snapshot::Snapshot;
use headroom_core::world::pod::{
    DO_NOT_DISRUPT_ANNOTATION, Owner, PROTECTED_FOREVER, PodClass, PodPhase, SafeToEvict,
};
use headroom_core::world::record::{ControllerRecord, Error, PodRecord};
use headroom_core::world::volume::PodClaim;
use headroom_core::world::workload::{ControllerKind, PrioritySource};
use serde_json::{Map, Value, json};

use super::words::{amounts, pruned};
use super::{InitialState, devices, gangs, metadata, volumes};
use crate::cluster::template_hash;
use crate::store::{Kind, object_at};
use headroom_observe::slim::MIRROR_ANNOTATION;

/// By this label StatefulSets and DaemonSets know the pods of their present template.
const REVISION: &str = "controller-revision-hash";
/// Evictions from a silent node wait so long unless the pod sets another time; the core keeps no times of tolerations.
/// Source: plugin/pkg/admission/defaulttolerationseconds.
const SILENT_NODE_SECONDS: i64 = 300;
const SILENT_NODE_KEYS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// A controller that stands: its kind in the simulation, and the hash of its template where its pods carry it.
pub(super) struct OwnerSeen {
    kind: Kind,
    revision: Option<String>,
}

/// Adds the controllers and DaemonSets; what they are, by uid.
pub(super) fn owners(
    snapshot: &Snapshot,
    initial_state: &mut InitialState,
) -> Result<BTreeMap<Arc<str>, OwnerSeen>, Error> {
    let world = &snapshot.world;
    let mut seen = BTreeMap::new();
    let class = |object: &headroom_core::labels::ObjectKey, place: usize| {
        let count = world.classes.len();
        world.classes.get(place).ok_or_else(|| Error::NoSuchClass { object: object.clone(), place, count })
    };
    for controller in &world.controllers {
        let (kind, object) = self::controller(controller, class(&controller.key, controller.class)?);
        let revision = (kind == Kind::StatefulSet).then(|| template_hash(&object));
        seen.insert(controller.uid.clone(), OwnerSeen { kind, revision });
        initial_state.objects.push((kind, object));
    }
    for set in &world.daemon_sets {
        let object = json!({
            "metadata": metadata(&set.key, &set.uid),
            "spec": {"template": template(class(&set.key, set.class)?, &set.key.name, &PrioritySource::Template)},
        });
        let revision = Some(template_hash(&object));
        seen.insert(set.uid.clone(), OwnerSeen { kind: Kind::DaemonSet, revision });
        initial_state.objects.push((Kind::DaemonSet, object));
    }
    Ok(seen)
}

/// A controller. A ReplicationController becomes a ReplicaSet, which does the same.
fn controller(controller: &ControllerRecord, class: &PodClass) -> (Kind, Value) {
    let name = &*controller.key.name;
    let mut class = class.clone();
    let of_each = match controller.kind {
        ControllerKind::StatefulSet => claims_of_each(name, &mut class),
        _ => Vec::new(),
    };
    let template = template(&class, name, &controller.priority_class);
    let desired = controller.desired;
    // Pods are found by their owner; an HPA asks for them by their labels.
    let selector = (!class.labels.is_empty()).then(|| json!({"matchLabels": class.labels}));
    let (kind, spec) = match controller.kind {
        ControllerKind::ReplicaSet | ControllerKind::ReplicationController => (
            Kind::ReplicaSet,
            pruned(json!({"replicas": desired, "selector": selector, "template": template})),
        ),
        ControllerKind::StatefulSet => (
            Kind::StatefulSet,
            pruned(json!({
                "replicas": desired, "podManagementPolicy": "Parallel", "selector": selector, "template": template,
                "volumeClaimTemplates": (!of_each.is_empty()).then_some(of_each),
            })),
        ),
        ControllerKind::Job => {
            (Kind::Job, json!({"parallelism": desired, "completions": desired, "template": template}))
        }
    };
    (kind, json!({"metadata": metadata(&controller.key, &controller.uid), "spec": spec}))
}

/// Takes the claims that a StatefulSet makes for each pod out of the class of its next pod, as templates.
fn claims_of_each(set: &str, class: &mut PodClass) -> Vec<Value> {
    let mut templates = Vec::new();
    class.claims.retain(|claim| {
        let Some(spec) = &claim.template else { return true };
        // The name of such a claim is that of its volume, of the set, and the pod's number.
        let volume = claim.name.rsplit_once('-').and_then(|(front, number)| {
            number.parse::<u64>().ok()?;
            front.strip_suffix(set)?.strip_suffix('-')
        });
        let Some(volume) = volume else { return true };
        templates.push(json!({"metadata": {"name": volume}, "spec": volumes::claim_spec(spec)}));
        false
    });
    templates
}

/// Adds the pods that have not ended.
pub(super) fn pods(
    snapshot: &Snapshot,
    owners: &BTreeMap<Arc<str>, OwnerSeen>,
    initial_state: &mut InitialState,
) -> Result<(), Error> {
    let world = &snapshot.world;
    let nodes: BTreeSet<&Arc<str>> = world.nodes.iter().map(|node| &node.uid).collect();
    for pod in world.pods.iter().filter(|pod| !pod.phase.finished()) {
        let class = world.classes.get(pod.class).ok_or_else(|| Error::NoSuchClass {
            object: pod.key.clone(),
            place: pod.class,
            count: world.classes.len(),
        })?;
        let owner = match pod.owner {
            None => None,
            Some(place) => Some(world.owners.get(place).ok_or_else(|| Error::NoSuchOwner {
                object: pod.key.clone(),
                place,
                count: world.owners.len(),
            })?),
        };
        let seen = owner.and_then(|owner| owners.get(&owner.uid));
        let reference = owner.and_then(|owner| reference(owner, seen, &nodes));
        initial_state.objects.push((Kind::Pod, self::pod(pod, class, reference, seen)));
    }
    Ok(())
}

/// Returns the owner reference of a pod. An owner that no longer exists is left out: the garbage collector would delete
/// its pods.
fn reference(owner: &Owner, seen: Option<&OwnerSeen>, nodes: &BTreeSet<&Arc<str>>) -> Option<Value> {
    let (version, kind) = match seen {
        Some(seen) => (seen.kind.api_version(), seen.kind.info().kind.to_owned()),
        None if &*owner.kind == "Node" => {
            nodes.contains(&owner.uid).then_some(())?;
            ("v1".to_owned(), "Node".to_owned())
        }
        None if ["ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"]
            .contains(&&*owner.kind) =>
        {
            return None;
        }
        // A controller of another group: the simulation does not play it, and drains ask who it is.
        None => ("simulated.headroom.dev/v1".to_owned(), owner.kind.to_string()),
    };
    Some(
        json!({"apiVersion": version, "kind": kind, "name": owner.name, "uid": owner.uid, "controller": true}),
    )
}

fn pod(pod: &PodRecord, class: &PodClass, reference: Option<Value>, owner: Option<&OwnerSeen>) -> Value {
    let template = template(class, &pod.key.name, &PrioritySource::Template);
    let mut object = json!({
        "metadata": metadata(&pod.key, &pod.uid),
        "spec": template["spec"],
        "status": status(pod),
    });
    let fields = object_at(&mut object, &["metadata"]);
    for name in ["labels", "annotations"] {
        fields.insert(name.to_owned(), template["metadata"][name].clone());
    }
    fields.insert("creationTimestamp".to_owned(), pod.created_at.to_rfc3339().into());
    if let Some(until) = pod.protected_until {
        let value = match until {
            PROTECTED_FOREVER => "true".to_owned(),
            until => format!("{}s", until.0.saturating_sub(pod.created_at.0)),
        };
        let fields = object_at(&mut object, &["metadata", "annotations"]);
        fields.insert(DO_NOT_DISRUPT_ANNOTATION.to_owned(), value.into());
    }
    let fields = object_at(&mut object, &["metadata"]);
    if let Some(deletion_at) = pod.deletion_at {
        fields.insert("deletionTimestamp".to_owned(), deletion_at.to_rfc3339().into());
        fields.insert("deletionGracePeriodSeconds".to_owned(), class.termination_grace.0.into());
    }
    if let Some(reference) = reference {
        fields.insert("ownerReferences".to_owned(), json!([reference]));
    }
    if let Some(revision) = owner.and_then(|owner| owner.revision.as_ref()) {
        object_at(&mut object, &["metadata", "labels"]).insert(REVISION.to_owned(), revision.as_str().into());
    }
    let spec = object_at(&mut object, &["spec"]);
    if let Some(node) = &pod.node {
        spec.insert("nodeName".to_owned(), (**node).into());
    }
    if pod.gated {
        spec.insert("schedulingGates".to_owned(), json!([{"name": "simulate.headroom.dev/gated"}]));
    }
    object
}

fn status(pod: &PodRecord) -> Value {
    let since = pod.created_at.to_rfc3339();
    let condition = |kind: &str, status: &str, reason: Option<&str>| {
        pruned(json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": since}))
    };
    let mut conditions = Vec::new();
    match (&pod.node, pod.phase) {
        (Some(_), PodPhase::Running) => {
            conditions.push(condition("PodScheduled", "True", None));
            for kind in ["Initialized", "ContainersReady", "Ready"] {
                conditions.push(condition(kind, "True", None));
            }
        }
        (Some(_), _) => conditions.push(condition("PodScheduled", "True", None)),
        (None, _) if pod.unschedulable => {
            conditions.push(condition("PodScheduled", "False", Some("Unschedulable")));
        }
        (None, _) => {}
    }
    let running = pod.phase == PodPhase::Running;
    pruned(json!({
        "phase": if running { "Running" } else { "Pending" },
        "conditions": conditions,
        "startTime": running.then_some(since),
        "nominatedNodeName": pod.nominated_node,
    }))
}

/// A pod template with one container that asks for what all containers ask for together. `name` is the pod's, or its
/// controller's: claims of ephemeral volumes begin with it.
pub(super) fn template(class: &PodClass, name: &str, priority: &PrioritySource) -> Value {
    let mut requests = class.requests.clone();
    // Every pod is one pod; nobody asks for that.
    requests.pods = 0;
    let (class_name, value) = match priority {
        PrioritySource::Template => (None, Some(class.priority)),
        PrioritySource::Named(name) => (Some(name), None),
        PrioritySource::Default => (None, None),
    };
    let ports = class.host_ports.iter().map(|(protocol, address, port)| {
        json!({"containerPort": port, "hostPort": port, "protocol": protocol, "hostIP": address})
    });
    let terms = |terms: &[PodAffinityTerm]| {
        let required: Vec<Value> = terms.iter().map(pod_term).collect();
        (!required.is_empty()).then(|| json!({"requiredDuringSchedulingIgnoredDuringExecution": required}))
    };
    let node_affinity = class.node_affinity.as_ref().map(|required| {
        let terms = json!({"nodeSelectorTerms": required.terms});
        json!({"requiredDuringSchedulingIgnoredDuringExecution": terms})
    });
    let spread = class.topology_spread.iter().map(|spread| {
        json!({
            "maxSkew": spread.max_skew, "topologyKey": spread.topology_key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": spread.selector, "minDomains": spread.min_domains,
            "nodeAffinityPolicy": if spread.honor_node_affinity { "Honor" } else { "Ignore" },
            "nodeTaintsPolicy": if spread.honor_node_taints { "Honor" } else { "Ignore" },
        })
    });
    let local = class.local_volumes.iter().map(|name| json!({"name": name, "emptyDir": {}}));
    let claimed = class.claims.iter().enumerate().map(|(place, claim)| volume(place, claim, name));
    let devices = class.device_claims.iter().map(devices::reference);
    let mut template = pruned(json!({
        "metadata": {"labels": class.labels, "annotations": annotations(class)},
        "spec": {
            "containers": [{
                "name": "all", "image": "simulated", "resources": {"requests": amounts(&requests)},
                "ports": ports.collect::<Vec<_>>(),
            }],
            "nodeSelector": class.node_selector,
            "affinity": {
                "nodeAffinity": node_affinity,
                "podAffinity": terms(&class.pod_affinity), "podAntiAffinity": terms(&class.pod_anti_affinity),
            },
            "tolerations": class.tolerations.iter().map(|each| toleration(each, class.daemon_set)).collect::<Vec<_>>(),
            "topologySpreadConstraints": spread.collect::<Vec<_>>(),
            "volumes": local.chain(claimed).collect::<Vec<_>>(),
            "resourceClaims": devices.collect::<Vec<_>>(),
            "priority": value, "priorityClassName": class_name,
            "schedulerName": class.scheduler,
            "restartPolicy": if class.restarts_always { "Always" } else { "Never" },
            "terminationGracePeriodSeconds": class.termination_grace.0,
        },
    }));
    gangs::refer(class, &mut template);
    template
}

/// A volume that is claimed, the one at this place among them.
fn volume(place: usize, claim: &PodClaim, pod: &str) -> Value {
    let numbered = format!("claim-{place}");
    let Some(spec) = &claim.template else {
        return json!({"name": numbered, "persistentVolumeClaim": {"claimName": claim.name}});
    };
    let volume = claim.name.strip_prefix(pod).and_then(|rest| rest.strip_prefix('-')).unwrap_or(&numbered);
    json!({"name": volume, "ephemeral": {"volumeClaimTemplate": {"spec": volumes::claim_spec(spec)}}})
}

fn pod_term(term: &PodAffinityTerm) -> Value {
    json!({
        "labelSelector": term.selector.as_ref().map(selector), "namespaces": term.namespaces,
        "namespaceSelector": term.namespace_selector.as_ref().map(selector), "topologyKey": term.topology_key,
    })
}

fn selector(selector: &LabelSelector) -> Value {
    json!({"matchLabels": selector.match_labels, "matchExpressions": selector.match_expressions})
}

fn toleration(toleration: &Toleration, daemon: bool) -> Value {
    let operator = match toleration.operator {
        TolerationOperator::Equal => "Equal",
        TolerationOperator::Exists => "Exists",
        TolerationOperator::Less => "Lt",
        TolerationOperator::Greater => "Gt",
    };
    let silent = !daemon && SILENT_NODE_KEYS.contains(&&*toleration.key);
    let word = |text: &Arc<str>| (!text.is_empty()).then(|| text.clone());
    json!({
        "key": word(&toleration.key), "value": word(&toleration.value), "operator": operator,
        "effect": toleration.effect, "tolerationSeconds": silent.then_some(SILENT_NODE_SECONDS),
    })
}

/// The annotations that decisions read.
fn annotations(class: &PodClass) -> Value {
    let mut annotations = Map::new();
    let mut put = |name: &str, value: String| {
        annotations.insert(format!("cluster-autoscaler.kubernetes.io/{name}"), value.into());
    };
    match class.safe_to_evict {
        SafeToEvict::Unset => {}
        SafeToEvict::Always => put("safe-to-evict", "true".into()),
        SafeToEvict::Never => put("safe-to-evict", "false".into()),
        SafeToEvict::OnCompletion => put("safe-to-evict", "on-completion".into()),
    }
    if let Some(volumes) = &class.safe_local_volumes {
        put("safe-to-evict-local-volumes", volumes.to_string());
    }
    if class.daemon_set {
        put("daemonset-pod", "true".into());
    }
    if let Some(evicted) = class.daemon_set_eviction {
        put("enable-ds-eviction", evicted.to_string());
    }
    if let Some(delay) = class.scale_up_delay {
        put("pod-scale-up-delay", format!("{}s", delay.0));
    }
    if class.mirror {
        annotations.insert(MIRROR_ANNOTATION.to_owned(), "mirror".into());
    }
    Value::Object(annotations)
}
