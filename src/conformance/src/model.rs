//! The documented objects of the golden vectors, and how they become the core's. Unknown fields fail.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::labels::{Labels, ObjectKey};
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints as core;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::{HOSTNAME_LABEL, Node as CoreNode, Readiness};
use headroom_core::world::pod::{Owner as CoreOwner, Pod as CorePod, PodClass, PodPhase, SafeToEvict};
use serde::Deserialize;

/// One line of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) id: String,
    #[allow(dead_code)]
    pub(crate) origin: String,
    #[serde(default)]
    #[allow(dead_code)]
    pub(crate) note: Option<String>,
    #[serde(default)]
    #[allow(dead_code)]
    pub(crate) free_choice: bool,
    #[serde(rename = "in")]
    pub(crate) input: serde_json::Value,
    pub(crate) out: serde_json::Value,
    #[serde(default)]
    pub(crate) alternatives: Vec<serde_json::Value>,
}

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) cpu_m: i64,
    pub(crate) mem: i64,
    pub(crate) pods: Option<i64>,
    pub(crate) eph: i64,
    pub(crate) ext: BTreeMap<String, i64>,
    pub(crate) cap_cpu_m: Option<i64>,
    pub(crate) cap_mem: Option<i64>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) unschedulable: bool,
    #[serde(deserialize_with = "whole")]
    pub(crate) created_s: i64,
    pub(crate) ready: Option<String>,
    #[serde(deserialize_with = "maybe_whole")]
    pub(crate) ready_since_s: Option<i64>,
    pub(crate) suspended: bool,
}

/// A taint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Taint {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) effect: String,
}

/// A pod, or `count` of them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) ns: Option<String>,
    pub(crate) cpu_m: i64,
    pub(crate) mem: i64,
    pub(crate) eph: i64,
    pub(crate) ext: BTreeMap<String, i64>,
    pub(crate) containers: Vec<(i64, i64)>,
    pub(crate) init_containers: Vec<(i64, i64)>,
    pub(crate) overhead: Option<(i64, i64)>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) node: Option<String>,
    pub(crate) nominated: Option<String>,
    pub(crate) owner: Option<Owner>,
    pub(crate) priority: Option<i32>,
    pub(crate) priority_class: Option<String>,
    pub(crate) node_selector: BTreeMap<String, String>,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) topology_spread: Vec<Spread>,
    pub(crate) host_ports: Vec<u16>,
    pub(crate) volumes: Vec<Volume>,
    pub(crate) phase: Option<String>,
    pub(crate) restart_policy: Option<String>,
    #[serde(deserialize_with = "second")]
    pub(crate) created_s: i64,
    pub(crate) deleted_s: Option<i64>,
    pub(crate) grace_s: Option<i64>,
    pub(crate) scheduler: Option<String>,
    pub(crate) gated: bool,
    pub(crate) unprocessed: bool,
    pub(crate) count: Option<u32>,
}

/// A controller reference.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Owner {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) api: Option<String>,
}

/// A volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Volume {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
}

/// core/v1 Affinity.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct Affinity {
    pub(crate) node_affinity: Option<NodeAffinity>,
    pub(crate) pod_affinity: Option<PodAffinity>,
    pub(crate) pod_anti_affinity: Option<PodAffinity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct NodeAffinity {
    pub(crate) required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    #[allow(dead_code)]
    pub(crate) preferred_during_scheduling_ignored_during_execution: serde_json::Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct NodeSelector {
    pub(crate) node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct NodeSelectorTerm {
    pub(crate) match_expressions: Vec<Requirement>,
    pub(crate) match_fields: Vec<Requirement>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Requirement {
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) values: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct PodAffinity {
    pub(crate) required_during_scheduling_ignored_during_execution: Vec<PodAffinityTerm>,
    #[allow(dead_code)]
    pub(crate) preferred_during_scheduling_ignored_during_execution: serde_json::Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct PodAffinityTerm {
    pub(crate) label_selector: Option<LabelSelector>,
    pub(crate) namespaces: Vec<String>,
    pub(crate) namespace_selector: Option<LabelSelector>,
    pub(crate) topology_key: String,
    pub(crate) match_label_keys: Vec<String>,
    pub(crate) mismatch_label_keys: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct LabelSelector {
    pub(crate) match_labels: BTreeMap<String, String>,
    pub(crate) match_expressions: Vec<Requirement>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct Spread {
    pub(crate) max_skew: i32,
    pub(crate) topology_key: String,
    pub(crate) when_unsatisfiable: String,
    pub(crate) label_selector: Option<LabelSelector>,
    pub(crate) min_domains: Option<i32>,
    pub(crate) node_affinity_policy: Option<String>,
    pub(crate) node_taints_policy: Option<String>,
    pub(crate) match_label_keys: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct Toleration {
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) value: String,
    pub(crate) effect: String,
    pub(crate) toleration_seconds: Option<i64>,
}

/// A node group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Group {
    pub(crate) id: String,
    pub(crate) min: i64,
    pub(crate) max: i64,
    pub(crate) target: i64,
    pub(crate) template: Option<Node>,
    pub(crate) price: Option<f64>,
    pub(crate) options: serde_json::Value,
    pub(crate) instances: serde_json::Value,
    #[allow(dead_code)]
    pub(crate) fail_increase: serde_json::Value,
    pub(crate) fail_delete: serde_json::Value,
    pub(crate) node_start_s: Option<i64>,
}

impl Node {
    /// The core's node.
    pub(crate) fn to_core(&self) -> CoreNode {
        let mut labels: Labels =
            self.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        labels.insert(HOSTNAME_LABEL, self.name.as_str());
        let mut allocatable = Resources::new(self.cpu_m, self.mem).with_pods(self.pods.unwrap_or(110));
        allocatable.ephemeral_bytes = self.eph;
        for (name, amount) in &self.ext {
            allocatable.set_extended(name.as_str(), *amount);
        }
        let mut capacity = allocatable.clone();
        capacity.cpu_milli = self.cap_cpu_m.unwrap_or(self.cpu_m);
        capacity.memory_bytes = self.cap_mem.unwrap_or(self.mem);
        CoreNode {
            name: self.name.as_str().into(),
            uid: self.name.as_str().into(),
            provider_id: format!("fake://{}", self.name).into(),
            labels,
            annotations: self.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            taints: self.taints.iter().map(Taint::to_core).collect(),
            candidate: false,
            unschedulable: self.unschedulable,
            allocatable,
            capacity,
            ready: match self.ready.as_deref() {
                _ if self.suspended => Readiness::Suspended,
                None | Some("True") => Readiness::Ready,
                Some("False") => Readiness::NotReady,
                Some(_) => Readiness::Unknown,
            },
            ready_changed_at: UnixTime(self.ready_since_s.unwrap_or(self.created_s)),
            created_at: UnixTime(self.created_s),
            deleting: false,
            conditions: Vec::new(),
        }
    }
}

impl Taint {
    fn to_core(&self) -> core::Taint {
        core::Taint {
            key: self.key.as_str().into(),
            value: self.value.as_str().into(),
            effect: effect(&self.effect).unwrap_or(core::TaintEffect::NoSchedule),
        }
    }
}

fn effect(word: &str) -> Option<core::TaintEffect> {
    match word {
        "NoSchedule" => Some(core::TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(core::TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(core::TaintEffect::NoExecute),
        _ => None,
    }
}

impl Pod {
    /// The core's pods: one, or `count` of them named `<name>-<index>`.
    pub(crate) fn to_core(&self) -> Vec<CorePod> {
        let class = Arc::new(self.class());
        let namespace = class.namespace.clone();
        let names = match self.count {
            None => vec![self.name.clone()],
            Some(count) => (0..count).map(|index| format!("{}-{index}", self.name)).collect(),
        };
        let owner = self.owner.as_ref().map(|owner| {
            Arc::new(CoreOwner {
                kind: owner.kind.as_str().into(),
                name: owner.name.as_str().into(),
                uid: format!("{}/{namespace}/{}", owner.kind, owner.name).into(),
            })
        });
        let phase = match self.phase.as_deref() {
            Some("Running") => PodPhase::Running,
            Some("Succeeded") => PodPhase::Succeeded,
            Some("Failed") => PodPhase::Failed,
            None if self.node.is_some() => PodPhase::Running,
            _ => PodPhase::Pending,
        };
        names
            .into_iter()
            .map(|name| CorePod {
                uid: name.as_str().into(),
                key: ObjectKey::new(namespace.clone(), name),
                class: class.clone(),
                owner: owner.clone(),
                node: self.node.as_deref().map(Arc::from),
                nominated_node: self.nominated.as_deref().map(Arc::from),
                phase,
                unschedulable: self.node.is_none() && !self.gated && !self.unprocessed,
                gated: self.gated,
                created_at: UnixTime(self.created_s),
                deletion_at: self.deleted_s.map(UnixTime),
                protected_until: None,
            })
            .collect()
    }

    fn class(&self) -> PodClass {
        let affinity = self.affinity.clone().unwrap_or_default();
        let node_affinity = affinity
            .node_affinity
            .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution);
        let terms = |affinity: Option<PodAffinity>| -> Vec<core::PodAffinityTerm> {
            let terms = affinity.map(|a| a.required_during_scheduling_ignored_during_execution);
            terms.unwrap_or_default().iter().map(|term| self.affinity_term(term)).collect()
        };
        PodClass {
            namespace: self.ns.as_deref().unwrap_or("default").into(),
            labels: pairs(&self.labels),
            requests: self.requests(),
            node_selector: pairs(&self.node_selector),
            node_affinity: node_affinity.map(|selector| core::RequiredNodeAffinity {
                terms: selector
                    .node_selector_terms
                    .iter()
                    .map(|term| core::NodeSelectorTerm {
                        match_expressions: requirements(&term.match_expressions),
                        match_fields: requirements(&term.match_fields),
                    })
                    .collect(),
            }),
            pod_affinity: terms(affinity.pod_affinity),
            pod_anti_affinity: terms(affinity.pod_anti_affinity),
            topology_spread: self
                .topology_spread
                .iter()
                .filter(|spread| spread.when_unsatisfiable == "DoNotSchedule")
                .map(|spread| self.spread(spread))
                .collect(),
            tolerations: self.tolerations.iter().map(Toleration::to_core).collect(),
            host_ports: self.host_ports.iter().map(|port| ("TCP".into(), "".into(), *port)).collect(),
            priority: self.priority.unwrap_or(0),
            scheduler: self.scheduler.as_deref().unwrap_or("default-scheduler").into(),
            restarts_always: self.restart_policy.as_deref().unwrap_or("Always") == "Always",
            daemon_set: self.annotation("daemonset-pod") == Some("true")
                || self.owner.as_ref().is_some_and(|owner| owner.kind == "DaemonSet"),
            mirror: self.annotations.contains_key("kubernetes.io/config.mirror"),
            safe_to_evict: match self.annotation("safe-to-evict") {
                Some("true") => SafeToEvict::Always,
                Some("false") => SafeToEvict::Never,
                Some("on-completion") => SafeToEvict::OnCompletion,
                _ => SafeToEvict::Unset,
            },
            safe_local_volumes: self.annotation("safe-to-evict-local-volumes").map(Arc::from),
            daemon_set_eviction: self.annotation("enable-ds-eviction").map(|word| word == "true"),
            local_volumes: self
                .volumes
                .iter()
                .filter(|volume| matches!(volume.kind.as_str(), "emptyDir" | "hostPath"))
                .map(|volume| volume.name.as_str().into())
                .collect(),
            termination_grace: Seconds(self.grace_s.unwrap_or(30)),
            scale_up_delay: self.annotation("pod-scale-up-delay").and_then(duration),
            ..PodClass::default()
        }
    }

    /// The value of one of Cluster Autoscaler's annotations.
    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(&format!("cluster-autoscaler.kubernetes.io/{name}")).map(String::as_str)
    }

    /// The largest of the init containers and the sum of the others, plus overhead.
    fn requests(&self) -> Resources {
        let mut sum = Resources::new(self.cpu_m, self.mem).with_pods(1);
        sum.ephemeral_bytes = self.eph;
        for (name, amount) in &self.ext {
            sum.set_extended(name.as_str(), *amount);
        }
        self.containers.iter().for_each(|(cpu, mem)| sum.add(&Resources::new(*cpu, *mem)));
        self.init_containers.iter().for_each(|(cpu, mem)| sum.raise_to(&Resources::new(*cpu, *mem)));
        if let Some((cpu, mem)) = self.overhead {
            sum.add(&Resources::new(cpu, mem));
        }
        sum
    }

    fn spread(&self, spread: &Spread) -> core::TopologySpread {
        let mut selector = spread.label_selector.as_ref().map(LabelSelector::to_core);
        if let Some(selector) = &mut selector {
            self.merge_keys(selector, &spread.match_label_keys, core::Operator::In);
        }
        core::TopologySpread {
            max_skew: spread.max_skew,
            topology_key: spread.topology_key.as_str().into(),
            selector,
            min_domains: spread.min_domains.unwrap_or(1),
            honor_node_affinity: spread.node_affinity_policy.as_deref() != Some("Ignore"),
            honor_node_taints: spread.node_taints_policy.as_deref() == Some("Honor"),
        }
    }

    fn affinity_term(&self, term: &PodAffinityTerm) -> core::PodAffinityTerm {
        let mut selector = term.label_selector.as_ref().map(LabelSelector::to_core);
        if let Some(selector) = &mut selector {
            self.merge_keys(selector, &term.match_label_keys, core::Operator::In);
            self.merge_keys(selector, &term.mismatch_label_keys, core::Operator::NotIn);
        }
        core::PodAffinityTerm {
            selector,
            namespaces: term.namespaces.iter().map(|name| name.as_str().into()).collect(),
            namespace_selector: term.namespace_selector.as_ref().map(LabelSelector::to_core),
            topology_key: term.topology_key.as_str().into(),
        }
    }

    fn merge_keys(&self, selector: &mut core::LabelSelector, keys: &[String], operator: core::Operator) {
        for key in keys {
            if let Some(value) = self.labels.get(key) {
                selector.match_expressions.push(core::Requirement {
                    key: key.as_str().into(),
                    operator,
                    values: vec![value.as_str().into()],
                });
            }
        }
    }
}

impl LabelSelector {
    fn to_core(&self) -> core::LabelSelector {
        core::LabelSelector {
            match_labels: pairs(&self.match_labels),
            match_expressions: requirements(&self.match_expressions),
        }
    }
}

impl Toleration {
    fn to_core(&self) -> core::Toleration {
        core::Toleration {
            key: self.key.as_str().into(),
            value: self.value.as_str().into(),
            operator: match self.operator.as_str() {
                "Exists" => core::TolerationOperator::Exists,
                _ => core::TolerationOperator::Equal,
            },
            effect: effect(&self.effect),
        }
    }
}

/// A second, rounded down: the core counts in whole ones, and "younger than" of whole instants is then the same.
#[allow(clippy::cast_possible_truncation)]
fn second<'de, D: serde::Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    Ok(f64::deserialize(from)?.floor() as i64)
}

/// A whole number, which some writers give as `-0.0`.
#[allow(clippy::cast_possible_truncation)]
fn whole<'de, D: serde::Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let number = f64::deserialize(from)?;
    if number.fract() == 0.0 {
        Ok(number as i64)
    } else {
        Err(serde::de::Error::custom(format!("{number} is no whole number")))
    }
}

fn maybe_whole<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    whole(from).map(Some)
}

/// A duration as Go writes it, like `1h30m`; `None` for anything else.
fn duration(text: &str) -> Option<Seconds> {
    let (mut sum, mut digits) = (0, String::new());
    for letter in text.chars() {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        let unit = match letter {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        sum += digits.parse::<i64>().ok()? * unit;
        digits.clear();
    }
    digits.is_empty().then_some(Seconds(sum))
}

fn pairs(map: &BTreeMap<String, String>) -> Labels {
    map.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

fn requirements(all: &[Requirement]) -> Vec<core::Requirement> {
    all.iter()
        .map(|requirement| core::Requirement {
            key: requirement.key.as_str().into(),
            operator: match requirement.operator.as_str() {
                "In" => core::Operator::In,
                "NotIn" => core::Operator::NotIn,
                "Exists" => core::Operator::Exists,
                "DoesNotExist" => core::Operator::DoesNotExist,
                "Gt" => core::Operator::Gt,
                _ => core::Operator::Lt,
            },
            values: requirement.values.iter().map(|value| value.as_str().into()).collect(),
        })
        .collect()
}
