//! The class of a pod: everything its siblings share, from a pod itself or from the template of its controller.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use headroom_core::go_values::go_seconds;
use headroom_core::labels::Labels;
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::{
    LabelSelector, NodeSelectorTerm, Operator, PodAffinityTerm, RequiredNodeAffinity, Requirement,
    TaintEffect, Toleration, TolerationOperator, TopologySpread,
};
use headroom_core::time::Seconds;
use headroom_core::world::pod::{PodClass, SafeToEvict};
use headroom_core::world::volume::PodClaim;
use headroom_core::world::workload::PrioritySource;

use super::volume::claim_spec;
use super::{controller_of, device, gang, request, requests};
use crate::decoder::{Decoder, Error};
use crate::slim::{
    self, Container, MIRROR_ANNOTATION, NodeSelector, PodSpec, PodStatus, PodTerm, Selector,
    SelectorRequirement, SpreadConstraint,
};

/// Grace period of pods that name none. Source: core/v1 DefaultTerminationGracePeriodSeconds.
const DEFAULT_GRACE: Seconds = Seconds(30);
/// Priorities of the two classes that every cluster has; templates carry only the name.
/// Source: scheduling/v1 SystemCriticalPriority.
const SYSTEM_CRITICAL_PRIORITIES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Source of a pod class: a pod's own or its template's metadata and spec.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The namespace it lives in.
    pub namespace: &'a str,
    /// Name of the pod, or the name that its next sibling would have: claims of ephemeral volumes carry it.
    pub pod_name: &'a str,
    /// Labels and annotations.
    pub metadata: &'a ObjectMeta,
    /// Spec.
    pub spec: &'a PodSpec,
    /// Status; the default for a template.
    pub status: &'a PodStatus,
    /// True if a DaemonSet owns it.
    pub daemon_set: bool,
}

/// The class of `source`.
///
/// # Errors
/// If a quantity or a word from a closed list cannot be read.
pub fn of(source: Source<'_>, decoder: &mut Decoder) -> Result<PodClass, Error> {
    let Source { namespace, pod_name, metadata, spec, status, daemon_set } = source;
    let labels = decoder.labels(metadata.labels.iter().flatten());
    let annotation = |name: &str| {
        metadata
            .annotations
            .as_ref()?
            .get(&format!("cluster-autoscaler.kubernetes.io/{name}"))
            .map(String::as_str)
    };
    let affinity = spec.affinity.as_ref();
    let pod_terms = affinity.and_then(|a| a.pod_affinity.as_ref()).map_or(&[][..], |a| &a.required);
    let anti_terms = affinity.and_then(|a| a.pod_anti_affinity.as_ref()).map_or(&[][..], |a| &a.required);
    let node_affinity = affinity.and_then(|a| a.node_affinity.as_ref()).and_then(|a| a.required.as_ref());
    Ok(PodClass {
        namespace: decoder.text(namespace),
        requests: requests::of_pod(spec, status, decoder)?,
        node_selector: decoder.labels(&spec.node_selector),
        node_affinity: node_affinity.map(|required| node_terms(required, decoder)).transpose()?,
        pod_affinity: pod_affinity_terms(pod_terms, &labels, decoder)?,
        pod_anti_affinity: pod_affinity_terms(anti_terms, &labels, decoder)?,
        topology_spread: hard_spread(&spec.topology_spread_constraints, &labels, decoder)?,
        tolerations: tolerations(&spec.tolerations, decoder)?,
        host_ports: host_ports(spec, decoder),
        claims: claims(spec, pod_name, decoder)?,
        device_claims: device::claims_of(spec, decoder),
        local_volumes: local_volumes(spec, decoder),
        priority: spec.priority.or_else(|| system_priority(spec)).unwrap_or(0),
        scheduler: decoder.text(spec.scheduler_name.as_deref().unwrap_or("default-scheduler")),
        restarts_always: spec.restart_policy.as_deref().is_none_or(|policy| policy == "Always"),
        mirror: metadata.annotations.iter().flatten().any(|(key, _)| key == MIRROR_ANNOTATION),
        safe_to_evict: match annotation("safe-to-evict") {
            Some("true") => SafeToEvict::Always,
            Some("false") => SafeToEvict::Never,
            Some("on-completion") => SafeToEvict::OnCompletion,
            Some(_) | None => SafeToEvict::Unset,
        },
        safe_local_volumes: annotation("safe-to-evict-local-volumes").map(|text| decoder.text(text)),
        daemon_set: daemon_set || annotation("daemonset-pod") == Some("true"),
        daemon_set_eviction: annotation("enable-ds-eviction").and_then(|word| word.parse().ok()),
        scale_up_delay: annotation("pod-scale-up-delay").and_then(go_duration),
        termination_grace: spec.termination_grace_period_seconds.map_or(DEFAULT_GRACE, Seconds),
        gang: gang::reference(metadata, spec, decoder),
        request: request::reference(metadata, decoder),
        unreadable: false,
        labels,
    })
}

/// The class of a pod of which only the metadata can be read.
pub fn unreadable(namespace: &str, meta: &ObjectMeta, decoder: &mut Decoder) -> PodClass {
    let owner = controller_of(meta).is_some_and(|owner| owner.kind == "DaemonSet");
    PodClass {
        namespace: decoder.text(namespace),
        labels: decoder.labels(meta.labels.iter().flatten()),
        requests: Resources::default().with_pods(1),
        mirror: meta.annotations.iter().flatten().any(|(key, _)| key == MIRROR_ANNOTATION),
        daemon_set: owner,
        termination_grace: DEFAULT_GRACE,
        gang: gang::reference(meta, &PodSpec::default(), decoder),
        unreadable: true,
        ..PodClass::default()
    }
}

/// Returns the source of the priority of a template's pods.
pub fn priority_source(spec: &PodSpec, decoder: &mut Decoder) -> PrioritySource {
    if spec.priority.is_some() || system_priority(spec).is_some() {
        return PrioritySource::Template;
    }
    match spec.priority_class_name.as_deref() {
        Some(name) if !name.is_empty() => PrioritySource::Named(decoder.text(name)),
        Some(_) | None => PrioritySource::Default,
    }
}

fn system_priority(spec: &PodSpec) -> Option<i32> {
    let name = spec.priority_class_name.as_deref()?;
    SYSTEM_CRITICAL_PRIORITIES.iter().find(|(class, _)| *class == name).map(|(_, priority)| *priority)
}

/// A label selector in the core's words.
///
/// # Errors
/// If an operator is not understood.
pub fn selector(wire: &Selector, decoder: &mut Decoder) -> Result<LabelSelector, Error> {
    Ok(LabelSelector {
        match_labels: decoder.labels(&wire.match_labels),
        match_expressions: requirements(&wire.match_expressions, decoder)?,
    })
}

fn requirements(wire: &[SelectorRequirement], decoder: &mut Decoder) -> Result<Vec<Requirement>, Error> {
    wire.iter()
        .map(|requirement| {
            Ok(Requirement {
                key: decoder.text(&requirement.key),
                operator: operator(&requirement.operator)?,
                values: decoder.list(&requirement.values),
            })
        })
        .collect()
}

fn operator(word: &str) -> Result<Operator, Error> {
    Ok(match word {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        _ => return Err(Error::Word { field: "operator", word: word.to_owned() }),
    })
}

/// Terms of a node selector in the core's words.
///
/// # Errors
/// If an operator is not understood.
pub fn node_terms(required: &NodeSelector, decoder: &mut Decoder) -> Result<RequiredNodeAffinity, Error> {
    let terms = required.node_selector_terms.iter().map(|term| {
        Ok(NodeSelectorTerm {
            match_expressions: requirements(&term.match_expressions, decoder)?,
            match_fields: requirements(&term.match_fields, decoder)?,
        })
    });
    Ok(RequiredNodeAffinity { terms: terms.collect::<Result<_, Error>>()? })
}

fn pod_affinity_terms(
    terms: &[PodTerm],
    own: &Labels,
    decoder: &mut Decoder,
) -> Result<Vec<PodAffinityTerm>, Error> {
    terms
        .iter()
        .map(|term| {
            let mut merged = term.label_selector.as_ref().map(|wire| selector(wire, decoder)).transpose()?;
            if let Some(merged) = &mut merged {
                merge_keys(merged, &term.match_label_keys, Operator::In, own, decoder);
                merge_keys(merged, &term.mismatch_label_keys, Operator::NotIn, own, decoder);
            }
            Ok(PodAffinityTerm {
                selector: merged,
                namespaces: decoder.list(&term.namespaces),
                namespace_selector: term
                    .namespace_selector
                    .as_ref()
                    .map(|wire| selector(wire, decoder))
                    .transpose()?,
                topology_key: decoder.text(&term.topology_key),
            })
        })
        .collect()
}

/// Adds `key <operator> (own value)` for each key that the pod has a label for. The API server has done so to pods, and
/// not to templates; what is there already is not added twice.
///
/// Source: registry/core/pod/strategy.go, applyMatchLabelKeysAndMismatchLabelKeys.
fn merge_keys(
    selector: &mut LabelSelector,
    keys: &[String],
    operator: Operator,
    own: &Labels,
    decoder: &mut Decoder,
) {
    for key in keys {
        let Some(value) = own.get(key) else { continue };
        let requirement = Requirement { key: decoder.text(key), operator, values: vec![decoder.text(value)] };
        if !selector.match_expressions.contains(&requirement) {
            selector.match_expressions.push(requirement);
        }
    }
}

fn hard_spread(
    constraints: &[SpreadConstraint],
    own: &Labels,
    decoder: &mut Decoder,
) -> Result<Vec<TopologySpread>, Error> {
    constraints
        .iter()
        .filter(|constraint| constraint.when_unsatisfiable == "DoNotSchedule")
        .map(|constraint| {
            let mut merged =
                constraint.label_selector.as_ref().map(|wire| selector(wire, decoder)).transpose()?;
            if let Some(merged) = &mut merged {
                merge_keys(merged, &constraint.match_label_keys, Operator::In, own, decoder);
            }
            Ok(TopologySpread {
                max_skew: constraint.max_skew.max(1),
                topology_key: decoder.text(&constraint.topology_key),
                selector: merged,
                min_domains: constraint.min_domains.unwrap_or(1).max(1),
                honor_node_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
                honor_node_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
            })
        })
        .collect()
}

fn tolerations(wire: &[slim::Toleration], decoder: &mut Decoder) -> Result<Vec<Toleration>, Error> {
    wire.iter()
        .map(|toleration| {
            let operator = match toleration.operator.as_str() {
                "Exists" => TolerationOperator::Exists,
                "" | "Equal" => TolerationOperator::Equal,
                "Lt" => TolerationOperator::Less,
                "Gt" => TolerationOperator::Greater,
                word => return Err(Error::Word { field: "toleration operator", word: word.to_owned() }),
            };
            let effect = match toleration.effect.as_str() {
                "" => None,
                word => Some(effect(word)?),
            };
            Ok(Toleration {
                key: decoder.text(&toleration.key),
                value: decoder.text(&toleration.value),
                operator,
                effect,
            })
        })
        .collect()
}

/// The effect of a taint or toleration.
///
/// # Errors
/// If the word is none of the three.
pub fn effect(word: &str) -> Result<TaintEffect, Error> {
    Ok(match word {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        _ => return Err(Error::Word { field: "taint effect", word: word.to_owned() }),
    })
}

/// Host ports of containers and sidecars. An address of 0.0.0.0 is every address, and so is none. With the host's
/// network each port is the host's.
///
/// Source: kube-scheduler framework/types.go, GetHostPorts; nodeports.go.
fn host_ports(spec: &PodSpec, decoder: &mut Decoder) -> Vec<(Arc<str>, Arc<str>, u16)> {
    let is_sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let containers = spec.containers.iter().chain(spec.init_containers.iter().filter(is_sidecar));
    let mut ports = Vec::new();
    for port in containers.flat_map(|container| &container.ports) {
        let number =
            if port.host_port == 0 && spec.host_network { port.container_port } else { port.host_port };
        if number == 0 {
            continue;
        }
        let address = if port.host_ip == "0.0.0.0" { "" } else { &port.host_ip };
        let entry = (decoder.text(port.protocol.as_deref().unwrap_or("TCP")), decoder.text(address), number);
        if !ports.contains(&entry) {
            ports.push(entry);
        }
    }
    ports
}

fn claims(spec: &PodSpec, pod_name: &str, decoder: &mut Decoder) -> Result<Vec<PodClaim>, Error> {
    let mut claims = Vec::new();
    for volume in &spec.volumes {
        match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => {
                claims.push(PodClaim { name: decoder.text(&claim.claim_name), template: None });
            }
            (None, Some(ephemeral)) => claims.push(PodClaim {
                name: Arc::from(format!("{pod_name}-{}", volume.name)),
                template: Some(claim_spec(&ephemeral.volume_claim_template.spec, decoder)?),
            }),
            (None, None) => {}
        }
    }
    Ok(claims)
}

/// Source: cluster-autoscaler utils/pod/pod.go, isLocalVolume.
fn local_volumes(spec: &PodSpec, decoder: &mut Decoder) -> Vec<Arc<str>> {
    spec.volumes
        .iter()
        .filter(|volume| {
            volume.host_path.is_some()
                || volume.empty_dir.as_ref().is_some_and(|directory| directory.medium != "Memory")
        })
        .map(|volume| decoder.text(&volume.name))
        .collect()
}

/// A Go duration in whole seconds, rounded up; `None` when it is none.
fn go_duration(text: &str) -> Option<Seconds> {
    i64::try_from(go_seconds(text)?).ok().map(Seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slim::SlimPod;

    fn class_of(pod: serde_json::Value) -> PodClass {
        let pod: SlimPod = serde_json::from_value(pod).expect("a pod");
        let source = Source {
            namespace: "shop",
            pod_name: "web-0",
            metadata: &pod.metadata,
            spec: &pod.spec,
            status: &pod.status,
            daemon_set: false,
        };
        of(source, &mut Decoder::default()).expect("understood")
    }

    #[test]
    fn label_keys_become_requirements_with_the_pods_own_values() {
        let class = class_of(serde_json::json!({
            "metadata": {"labels": {"app": "web", "pod-template-hash": "7f"}},
            "spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone",
                 "matchLabelKeys": ["pod-template-hash", "absent"]}]}}}}));
        let selector = class.pod_anti_affinity[0].selector.as_ref().expect("a selector");
        assert_eq!(selector.match_expressions.len(), 1);
        assert_eq!(&*selector.match_expressions[0].values[0], "7f");
    }

    #[test]
    fn label_keys_that_the_api_server_has_merged_are_not_merged_again() {
        let class = class_of(serde_json::json!({
            "metadata": {"labels": {"hash": "7f"}},
            "spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["hash"], "labelSelector":
                {"matchExpressions": [{"key": "hash", "operator": "In", "values": ["7f"]}]}}]}}));
        assert_eq!(
            class.topology_spread[0].selector.as_ref().expect("a selector").match_expressions.len(),
            1
        );
    }

    #[test]
    fn soft_spread_constraints_are_left_out() {
        let class = class_of(serde_json::json!({"metadata": {}, "spec": {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}}));
        assert!(class.topology_spread.is_empty());
    }

    #[test]
    fn memory_backed_directories_are_no_local_storage() {
        let class = class_of(serde_json::json!({"metadata": {}, "spec": {"volumes": [
            {"name": "ram", "emptyDir": {"medium": "Memory"}}, {"name": "disk", "emptyDir": {}},
            {"name": "host", "hostPath": {"path": "/x"}}, {"name": "data", "persistentVolumeClaim": {"claimName": "d"}},
            {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}}));
        let names: Vec<&str> = class.local_volumes.iter().map(|name| &**name).collect();
        assert_eq!(names, ["disk", "host"]);
        let claims: Vec<&str> = class.claims.iter().map(|claim| &*claim.name).collect();
        assert_eq!(claims, ["d", "web-0-tmp"]);
    }

    #[test]
    fn every_address_has_one_spelling_and_sidecars_hold_ports_too() {
        let class = class_of(serde_json::json!({"metadata": {}, "spec": {
            "containers": [{"name": "a", "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "0.0.0.0"}]}],
            "initContainers": [{"name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 9, "hostPort": 9}]},
                {"name": "i", "ports": [{"containerPort": 7, "hostPort": 7}]}]}}));
        let ports: Vec<(&str, u16)> = class.host_ports.iter().map(|(_, ip, port)| (&**ip, *port)).collect();
        assert_eq!(ports, [("", 80), ("", 9)]);
    }

    #[test]
    fn annotations_of_cluster_autoscaler_keep_their_meaning() {
        let class = class_of(serde_json::json!({"metadata": {"annotations": {
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "on-completion",
            "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "a,b",
            "cluster-autoscaler.kubernetes.io/enable-ds-eviction": "false",
            "cluster-autoscaler.kubernetes.io/daemonset-pod": "true",
            "cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "1m30s",
            "kubernetes.io/config.mirror": "x"}}}));
        assert_eq!(class.safe_to_evict, SafeToEvict::OnCompletion);
        assert_eq!(class.safe_local_volumes.as_deref(), Some("a,b"));
        assert_eq!((class.daemon_set, class.daemon_set_eviction, class.mirror), (true, Some(false), true));
        assert_eq!(class.scale_up_delay, Some(Seconds(90)));
    }

    #[test]
    fn durations_of_go_are_read_and_anything_else_is_none() {
        for (text, seconds) in [
            ("90s", Some(90)),
            ("1.5h", Some(5400)),
            ("1h0m1s", Some(3601)),
            ("1500ms", Some(2)),
            ("0", Some(0)),
        ] {
            assert_eq!(go_duration(text), seconds.map(Seconds), "{text}");
        }
        for text in ["", "5", "m", "-5s", "5 s", "1d", "."] {
            assert_eq!(go_duration(text), None, "{text}");
        }
    }

    #[test]
    fn an_unknown_operator_is_an_error_and_never_a_match() {
        let error = operator("Like").expect_err("no operator");
        assert!(error.to_string().contains("Like"));
    }
}
