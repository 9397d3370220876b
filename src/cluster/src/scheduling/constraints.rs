//! The vocabulary of scheduling constraints: selectors, taints, affinities. Data only, no rule.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use headroom_values::labels::Labels;

/// An operator of a selector requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// Value is one of those listed.
    In,
    /// Value is none of those listed, or the key is absent.
    NotIn,
    /// Key is present.
    Exists,
    /// Key is absent.
    DoesNotExist,
    /// Value is an integer greater than the one listed (node selectors only).
    Gt,
    /// Value is an integer less than the one listed (node selectors only).
    Lt,
}

/// One requirement of a selector: key, operator, values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label (or field) key.
    pub key: Arc<str>,
    /// Comparison of the label's value.
    pub operator: Operator,
    /// The values; empty for Exists and DoesNotExist.
    #[serde(default)]
    pub values: Vec<Arc<str>>,
}

/// A metav1.LabelSelector: both parts must hold. Empty selects everything; absent (`None` outside) nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Exact pairs.
    pub match_labels: Labels,
    /// Requirements.
    pub match_expressions: Vec<Requirement>,
}

/// One term of node affinity: all of its requirements must hold; a term without any matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// Requirements on labels.
    pub match_expressions: Vec<Requirement>,
    /// Requirements on fields; only `metadata.name` exists.
    pub match_fields: Vec<Requirement>,
}

/// Required node affinity: one of the terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequiredNodeAffinity {
    /// The terms.
    pub terms: Vec<NodeSelectorTerm>,
}

/// One required term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodAffinityTerm {
    /// Selector of the pods that count; `None` matches none.
    pub selector: Option<LabelSelector>,
    /// Namespaces by name; with no namespaces and no selector at all: the pod's own.
    pub namespaces: Vec<Arc<str>>,
    /// Namespaces by label; `Some` of an empty selector means every namespace.
    pub namespace_selector: Option<LabelSelector>,
    /// The node label whose equal values make one domain.
    pub topology_key: Arc<str>,
}

/// A DoNotSchedule topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpread {
    /// Highest allowed difference between domains; at least 1.
    pub max_skew: i32,
    /// The node label whose equal values make one domain.
    pub topology_key: Arc<str>,
    /// Selector of the pods that are counted; `None` counts none.
    pub selector: Option<LabelSelector>,
    /// Fewest domains before the global minimum counts as more than 0; 1 when unset.
    pub min_domains: i32,
    /// True if only nodes that match the pod's node affinity count (`Honor`, the default).
    pub honor_node_affinity: bool,
    /// True if nodes with untolerated taints are left out (`Honor`; the default is Ignore).
    pub honor_node_taints: bool,
}

/// The effect of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaintEffect {
    /// New pods stay out.
    NoSchedule,
    /// New pods rather stay out; never decides fit.
    PreferNoSchedule,
    /// New pods stay out and running ones are evicted.
    NoExecute,
}

impl TaintEffect {
    /// The word as the API writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// The key.
    pub key: Arc<str>,
    /// The value; may be empty.
    pub value: Arc<str>,
    /// The effect.
    pub effect: TaintEffect,
}

/// Comparison of a toleration with a taint's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// It must be equal.
    #[default]
    Equal,
    /// It may be anything.
    Exists,
    /// It must be a smaller integer (feature gate TaintTolerationComparisonOperators, since 1.35).
    Less,
    /// It must be a greater integer, as before.
    Greater,
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// The key; empty with operator Exists tolerates every key.
    pub key: Arc<str>,
    /// The value that the taint's value is compared with; unused with operator Exists.
    pub value: Arc<str>,
    /// Comparison of the value.
    pub operator: TolerationOperator,
    /// The effect tolerated; `None` for all.
    pub effect: Option<TaintEffect>,
}
