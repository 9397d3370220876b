//! Selectors, affinities, tolerations and spread constraints as the wire has them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::nullable;

/// `metav1.LabelSelector`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Exact pairs.
    #[serde(default, deserialize_with = "nullable")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements.
    #[serde(default, deserialize_with = "nullable")]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// A requirement of a label or node selector.
#[derive(Clone, Debug, Deserialize)]
pub struct SelectorRequirement {
    /// The key.
    pub key: String,
    /// The operator's word.
    pub operator: String,
    /// The values.
    #[serde(default, deserialize_with = "nullable")]
    pub values: Vec<String>,
}

/// `spec.affinity`; preferences are skipped, they never decide fit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// Node affinity.
    #[serde(default)]
    pub node_affinity: Option<Required<Option<NodeSelector>>>,
    /// Pod affinity.
    #[serde(default)]
    pub pod_affinity: Option<Required<Vec<PodTerm>>>,
    /// Pod anti-affinity.
    #[serde(default)]
    pub pod_anti_affinity: Option<Required<Vec<PodTerm>>>,
}

/// The hard half of an affinity.
#[derive(Clone, Debug, Deserialize)]
pub struct Required<T: Default> {
    /// Required terms.
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        default,
        deserialize_with = "nullable",
        bound(deserialize = "T: Deserialize<'de> + Default")
    )]
    pub required: T,
}

/// Required node affinity.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelector {
    /// One of them must hold.
    #[serde(default, deserialize_with = "nullable")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// One term of node affinity.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// On labels.
    #[serde(default, deserialize_with = "nullable")]
    pub match_expressions: Vec<SelectorRequirement>,
    /// On fields.
    #[serde(default, deserialize_with = "nullable")]
    pub match_fields: Vec<SelectorRequirement>,
}

/// One required term of pod affinity.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodTerm {
    /// Selector of the pods that count.
    pub label_selector: Option<Selector>,
    /// Namespaces by name.
    #[serde(default, deserialize_with = "nullable")]
    pub namespaces: Vec<String>,
    /// Namespaces by label.
    pub namespace_selector: Option<Selector>,
    /// The domain.
    #[serde(default)]
    pub topology_key: String,
    /// Own labels that the others must share.
    #[serde(default, deserialize_with = "nullable")]
    pub match_label_keys: Vec<String>,
    /// Own labels that the others must not share.
    #[serde(default, deserialize_with = "nullable")]
    pub mismatch_label_keys: Vec<String>,
}

/// A topology spread constraint.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    /// Highest allowed difference.
    pub max_skew: i32,
    /// The domain.
    pub topology_key: String,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: String,
    /// Selector of the pods that count.
    pub label_selector: Option<Selector>,
    /// Fewest domains.
    pub min_domains: Option<i32>,
    /// `Honor` (default) or `Ignore`.
    pub node_affinity_policy: Option<String>,
    /// `Honor` or `Ignore` (default).
    pub node_taints_policy: Option<String>,
    /// Own labels that the others must share.
    #[serde(default, deserialize_with = "nullable")]
    pub match_label_keys: Vec<String>,
}

/// A toleration. Its seconds matter to eviction only and are skipped.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Toleration {
    /// The key; empty for all.
    #[serde(default, deserialize_with = "nullable")]
    pub key: String,
    /// The value.
    #[serde(default, deserialize_with = "nullable")]
    pub value: String,
    /// `Equal` (default), `Exists`, `Lt` or `Gt`.
    #[serde(default, deserialize_with = "nullable")]
    pub operator: String,
    /// The effect; empty for all.
    #[serde(default, deserialize_with = "nullable")]
    pub effect: String,
}
