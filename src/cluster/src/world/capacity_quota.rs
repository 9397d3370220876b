//! CapacityQuotas: how much all nodes that a selector chooses may have together. It refuses nothing itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use headroom_values::labels::Labels;
use headroom_values::resources::Resources;

use super::buffer::BufferCondition;
use crate::scheduling::constraints::LabelSelector;
use crate::scheduling::node_affinity::requirement_holds;

/// The resource by which nodes are counted.
pub const NODES: &str = "nodes";
/// The resource by which a quota bounds what the declared prices of its nodes come to in an hour, in units of their currency.
///
/// Differs from upstream, which has no such limit: the field takes any name, and others see a resource that no node has.
pub const PRICE: &str = "headroom.dev/price-per-hour";
/// Nodes with this value of the label `type` stand for no machine. Source: Cluster Autoscaler, virtual nodes of the quota tracker.
const VIRTUAL: (&str, &str) = ("type", "virtual-kubelet");

/// A CapacityQuota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityQuota {
    /// Name.
    pub name: Arc<str>,
    /// Unique id.
    pub uid: Arc<str>,
    /// Number of edits of its spec.
    pub generation: i64,
    /// Selector of the nodes that count; every node if it has no requirement.
    pub selector: LabelSelector,
    /// Most of each resource: CPU in thousandths of a core, the price in millionths, memory in bytes, others as they are.
    pub limits: BTreeMap<Arc<str>, i64>,
    /// Error in its spec, and the text to write instead: with one, it bounds nothing.
    pub fault: Option<Arc<str>>,
    /// Its status as it was seen last.
    pub status: QuotaStatus,
}

/// The status of a CapacityQuota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaStatus {
    /// The generation that it is about.
    pub observed_generation: Option<i64>,
    /// Amounts in use, in the same units as the limits.
    pub used: BTreeMap<Arc<str>, i64>,
    /// Conditions, by type.
    pub conditions: BTreeMap<Arc<str>, BufferCondition>,
}

impl CapacityQuota {
    /// True if nodes with these labels count. The value of an `open` label is the cloud's choice: what asks for it counts as
    /// met, since a node that is bought may have it.
    pub fn counts(&self, labels: &Labels, open: impl Fn(&str) -> bool) -> bool {
        if self.fault.is_some() || labels.get(VIRTUAL.0) == Some(VIRTUAL.1) {
            return false;
        }
        let met = |key: &str, holds: bool| holds || open(key);
        let pairs = &self.selector.match_labels;
        let expressions = &self.selector.match_expressions;
        pairs.iter().all(|(key, value)| met(key, labels.get(key) == Some(value)))
            && expressions.iter().all(|one| met(&one.key, requirement_holds(one, labels.get(&one.key))))
    }

    /// Returns the amount that one node has of a limited resource. The price is that of its pool in millionths, 0 where
    /// none is declared.
    #[must_use]
    pub fn amount(resource: &str, capacity: &Resources, price_micro: Option<i64>) -> i64 {
        match resource {
            "cpu" => capacity.cpu_milli,
            "memory" => capacity.memory_bytes,
            "pods" => capacity.pods,
            NODES => 1,
            PRICE => price_micro.unwrap_or(0),
            other => capacity.extended(other),
        }
    }
}

/// An amount in the words of a user: `12`, `500m`, `64Gi`.
#[must_use]
pub fn format_amount(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" => headroom_values::quantity::format_cpu(amount),
        "memory" => headroom_values::quantity::format_bytes(amount),
        // A thousandth of a core and a thousandth of a currency unit are written alike.
        PRICE => headroom_values::quantity::format_cpu(amount / 1_000),
        _ => amount.to_string(),
    }
}
