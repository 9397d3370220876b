//! A question as the request of the expander protocol: old and new fields while both are small. It sends nothing.

use std::collections::BTreeMap;

use headroom_core::labels::Labels;
use headroom_core::quantity::{format_bytes, format_cpu};
use headroom_core::question::{Question, QuestionOption, QuestionPod};
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::{
    self as rules, Operator, PodAffinityTerm as CoreTerm, RequiredNodeAffinity, TolerationOperator,
};
use headroom_core::world::pod::PodClass;
use headroom_core::world::template::NodeTemplate;
use prost::Message as _;

use super::wire::{
    Affinity, BestOptionsRequest, ClaimSource, Container, ContainerPort, CorePod, LabelSelector,
    NodeAffinity, NodeSelector, NodeSelectorTerm, OwnerReference, PodAffinity, PodAffinityTerm, PodMetadata,
    PodSpec, PodStatus, Requirement, ResourceRequirements, Toleration, TopologySpread, Volume, VolumeSource,
    WireOption,
};
use crate::wire::{CoreMetadata, CoreNode, CoreNodeSpec, CoreNodeStatus, CoreQuantity, CoreTaint};

/// Largest request with the fields of both generations.
const BOTH_BYTES_MAX: usize = 1 << 20;
/// Largest request with pods: servers in Go accept 4 MiB by default.
const PODS_BYTES_MAX: usize = 39 * (1 << 20) / 10;

/// The request for a question. Servers up to 1.34.1 read the old fields alone, and those from 1.35 the new ones: both are
/// sent up to 1 MiB, then the new ones, and over 3.9 MiB no pods.
#[must_use]
pub fn request(question: &Question, sends_pods: bool) -> BestOptionsRequest {
    let nodes: BTreeMap<String, CoreNode> =
        question.options.iter().map(|option| (option.name.to_string(), node(&option.node))).collect();
    let nodes_bytes =
        nodes.iter().map(|(name, node)| (name.clone(), node.encode_to_vec())).collect::<BTreeMap<_, _>>();
    let mut request = BestOptionsRequest { options: Vec::new(), nodes, nodes_bytes };
    let pods: Vec<CorePod> = if sends_pods { question.pods.iter().map(pod).collect() } else { Vec::new() };
    request.options = question.options.iter().map(|option| with_pods(option, &pods)).collect();
    if BOTH_BYTES_MAX < request.encoded_len() {
        request.nodes.clear();
        request.options.iter_mut().for_each(|option| option.pods.clear());
    }
    if PODS_BYTES_MAX < request.encoded_len() {
        request.options.iter_mut().for_each(|option| option.pods_bytes.clear());
    }
    request
}

fn with_pods(option: &QuestionOption, all: &[CorePod]) -> WireOption {
    let ranges = option.pods.iter().flat_map(|(first, count)| all.iter().skip(*first).take(*count));
    let pods: Vec<CorePod> = ranges.cloned().collect();
    let QuestionOption { name, pool, nodes_count, pods_count, .. } = option;
    WireOption {
        node_group_id: name.to_string(),
        node_count: i32::try_from(*nodes_count).unwrap_or(i32::MAX),
        debug: format!("pool {pool}: {nodes_count} nodes for {pods_count} pods"),
        pods_bytes: pods.iter().map(prost::Message::encode_to_vec).collect(),
        pods,
    }
}

fn node(template: &NodeTemplate) -> CoreNode {
    let NodeTemplate { labels, taints, capacity, allocatable } = template;
    let taint = |taint: &rules::Taint| CoreTaint {
        key: taint.key.to_string(),
        value: taint.value.to_string(),
        effect: taint.effect.as_str().to_owned(),
    };
    CoreNode {
        metadata: Some(CoreMetadata { labels: map(labels) }),
        spec: Some(CoreNodeSpec { taints: taints.iter().map(taint).collect() }),
        status: Some(CoreNodeStatus { capacity: amounts(capacity), allocatable: amounts(allocatable) }),
    }
}

fn pod(pod: &QuestionPod) -> CorePod {
    let QuestionPod { key, uid, owner, class } = pod;
    let owners = owner.iter().map(|owner| OwnerReference {
        kind: owner.kind.to_string(),
        name: owner.name.to_string(),
        uid: owner.uid.to_string(),
        controller: Some(true),
    });
    CorePod {
        metadata: Some(PodMetadata {
            name: key.name.to_string(),
            namespace: key.namespace.to_string(),
            uid: uid.to_string(),
            labels: map(&class.labels),
            owners: owners.collect(),
        }),
        spec: Some(spec(class)),
        status: Some(PodStatus { phase: "Pending".to_owned() }),
    }
}

fn spec(class: &PodClass) -> PodSpec {
    let ports = class.host_ports.iter().map(|(protocol, address, port)| ContainerPort {
        host_port: i32::from(*port),
        container_port: i32::from(*port),
        protocol: protocol.to_string(),
        host_ip: address.to_string(),
    });
    let volumes = class.claims.iter().map(|claim| Volume {
        name: claim.name.to_string(),
        source: Some(VolumeSource { claim: Some(ClaimSource { claim_name: claim.name.to_string() }) }),
    });
    // A pod's own room on its node is not a request.
    let requests = ResourceRequirements { requests: amounts(&class.requests.clone().with_pods(0)) };
    let sum = Container { name: "sum".to_owned(), ports: ports.collect(), resources: Some(requests) };
    PodSpec {
        volumes: volumes.collect(),
        containers: vec![sum],
        node_selector: map(&class.node_selector),
        affinity: affinity(class),
        scheduler_name: class.scheduler.to_string(),
        tolerations: class.tolerations.iter().map(toleration).collect(),
        priority: Some(class.priority),
        topology_spread: class.topology_spread.iter().map(spread).collect(),
    }
}

fn affinity(class: &PodClass) -> Option<Affinity> {
    let terms = |terms: &[CoreTerm]| {
        (!terms.is_empty()).then(|| PodAffinity { required: terms.iter().map(pod_term).collect() })
    };
    let all = Affinity {
        node: class.node_affinity.as_ref().map(node_affinity),
        pod: terms(&class.pod_affinity),
        anti: terms(&class.pod_anti_affinity),
    };
    (all != Affinity::default()).then_some(all)
}

fn node_affinity(required: &RequiredNodeAffinity) -> NodeAffinity {
    let terms = required.terms.iter().map(|term| NodeSelectorTerm {
        expressions: term.match_expressions.iter().map(requirement).collect(),
        fields: term.match_fields.iter().map(requirement).collect(),
    });
    NodeAffinity { required: Some(NodeSelector { terms: terms.collect() }) }
}

fn pod_term(term: &CoreTerm) -> PodAffinityTerm {
    PodAffinityTerm {
        selector: term.selector.as_ref().map(selector),
        namespaces: term.namespaces.iter().map(ToString::to_string).collect(),
        topology_key: term.topology_key.to_string(),
        namespace_selector: term.namespace_selector.as_ref().map(selector),
    }
}

fn selector(selector: &rules::LabelSelector) -> LabelSelector {
    LabelSelector {
        labels: map(&selector.match_labels),
        expressions: selector.match_expressions.iter().map(requirement).collect(),
    }
}

fn requirement(requirement: &rules::Requirement) -> Requirement {
    let operator = match requirement.operator {
        Operator::In => "In",
        Operator::NotIn => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
        Operator::Gt => "Gt",
        Operator::Lt => "Lt",
    };
    Requirement {
        key: requirement.key.to_string(),
        operator: operator.to_owned(),
        values: requirement.values.iter().map(ToString::to_string).collect(),
    }
}

fn toleration(toleration: &rules::Toleration) -> Toleration {
    let operator = match toleration.operator {
        TolerationOperator::Equal => "Equal",
        TolerationOperator::Exists => "Exists",
        TolerationOperator::Less => "Lt",
        TolerationOperator::Greater => "Gt",
    };
    Toleration {
        key: toleration.key.to_string(),
        operator: operator.to_owned(),
        value: toleration.value.to_string(),
        effect: toleration.effect.map(|effect| effect.as_str().to_owned()).unwrap_or_default(),
    }
}

fn spread(spread: &rules::TopologySpread) -> TopologySpread {
    TopologySpread {
        max_skew: spread.max_skew,
        topology_key: spread.topology_key.to_string(),
        when_unsatisfiable: "DoNotSchedule".to_owned(),
        selector: spread.selector.as_ref().map(selector),
    }
}

fn map(labels: &Labels) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn amounts(amounts: &Resources) -> BTreeMap<String, CoreQuantity> {
    let known = [
        ("cpu", amounts.cpu_milli, format_cpu(amounts.cpu_milli)),
        ("memory", amounts.memory_bytes, format_bytes(amounts.memory_bytes)),
        ("ephemeral-storage", amounts.ephemeral_bytes, format_bytes(amounts.ephemeral_bytes)),
        ("pods", amounts.pods, amounts.pods.to_string()),
    ];
    let known = known.into_iter().filter(|(_, amount, _)| *amount != 0);
    let mut written: BTreeMap<String, CoreQuantity> =
        known.map(|(name, _, string)| (name.to_owned(), CoreQuantity { string })).collect();
    for (name, amount) in amounts.extended_iter() {
        written.insert(name.to_string(), CoreQuantity { string: amount.to_string() });
    }
    written
}
