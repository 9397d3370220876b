//! Scorecard, what was done in a cluster beside what Headroom would have done: only the operator writes it, and it asks for nothing.
//!
//! It is the memory of its sums: a restarted operator goes on from here. Numbers are whole, in seconds and in millionths of a
//! currency unit, so that nothing is lost between two writes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// The only name that a Scorecard may have.
pub const SCORECARD_NAME: &str = "default";

/// Upper bounds of the rows of waiting times, in seconds; a last row is for longer ones.
pub const SCORECARD_WAIT_BOUNDS: [i64; 23] =
    [0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 60, 75, 90, 120, 150, 180, 300, 600, 1800, 7200];

/// Number of measured nodes from which on the median of their times is taken; with fewer, times are assumed.
pub const SCORECARD_JOINS_MIN: u8 = 3;

/// A Scorecard has no spec.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "headroom.dev",
    version = "v1alpha1",
    kind = "Scorecard",
    plural = "scorecards",
    shortname = "hsc",
    category = "headroom",
    status = "ScorecardStatus",
    no_spec,
    derive = "PartialEq",
    derive = "Default",
    doc = "What was done in the cluster beside what Headroom would have done from the same demand. There is at most one, named `default`; the operator makes and writes it with `--scorecard`.",
    validation = Rule::new("self.metadata.name == 'default'")
        .message("metadata.name must be default: there is one Scorecard; rename it"),
    printcolumn(name = "Node hours", type_ = "string", json_path = ".status.summary.nodeHours", description = "What was done / what Headroom would have done"),
    printcolumn(name = "Price", type_ = "string", json_path = ".status.summary.price"),
    printcolumn(name = "Wait", type_ = "string", json_path = ".status.summary.meanWait", description = "Mean time that a pod waited for a node"),
    printcolumn(name = "Evictions", type_ = "string", json_path = ".status.summary.evictions"),
    printcolumn(name = "Since", type_ = "date", json_path = ".status.since")
)]
#[serde(rename_all = "camelCase")]
pub struct ScorecardSpec {}

/// Figures of both sides.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScorecardStatus {
    /// Time at which the first figures begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,

    /// Time up to which everything is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,

    /// Seconds between them that both sides were seen. Nothing counts while the operator does not run.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub measured_seconds: i64,

    /// The main figures for people: of what was done, a slash, and of what Headroom would have done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<ScorecardSummary>,

    /// Sums of what was done, by whoever acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<ScorecardFigures>,

    /// Sums of what Headroom would have done from the same demand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecast: Option<ScorecardFigures>,

    /// Both sides by pool, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 40))]
    pub pools: Vec<ScorecardPool>,

    /// Decisions that Headroom would have taken, by kind; the most nodes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub decisions: Vec<ScorecardDecision>,

    /// Nodes that Headroom would keep now, by the reason that keeps them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub kept: Vec<ScorecardDecision>,

    /// Seconds from a decision to a node's registration, by which the forecast is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub join_seconds: Option<i64>,

    /// Seconds from there to Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ready_seconds: Option<i64>,

    /// Nodes by which these two were measured. With fewer than three they are assumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub joins_measured: Option<i32>,

    /// Notes on the parts of the cluster that the forecast leaves out or assumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 512)))]
    pub notes: Vec<String>,

    /// The last hours in which something was measured, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 72))]
    pub hours: Vec<ScorecardHour>,
}

/// The main figures of both sides.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScorecardSummary {
    /// Nodes times hours.
    #[schemars(length(max = 64))]
    pub node_hours: String,
    /// Price of these nodes.
    #[schemars(length(max = 64))]
    pub price: String,
    /// Mean time that a pod waited for a node.
    #[schemars(length(max = 64))]
    pub mean_wait: String,
    /// Pods that had to leave with their node.
    #[schemars(length(max = 64))]
    pub evictions: String,
    /// Replicas times hours.
    #[schemars(length(max = 64))]
    pub replica_hours: String,
}

/// One hour of both sides.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScorecardHour {
    /// Its start.
    pub from: Option<Time>,
    /// Seconds of it that both sides were seen.
    #[schemars(range(min = 0, max = 3600))]
    pub measured_seconds: i64,
    /// What was done.
    pub actual: ScorecardFigures,
    /// What Headroom would have done.
    pub forecast: ScorecardFigures,
}

/// Sums of one side.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScorecardFigures {
    /// Nodes that an autoscaler runs, times seconds.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub node_seconds: i64,
    /// Their price in millionths of a currency unit.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub price_micro: i64,
    /// Those of the node seconds whose price is not known, and which therefore cost nothing here.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub unpriced_node_seconds: i64,
    /// Nodes that came.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub nodes_added: i64,
    /// Nodes that went.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub nodes_removed: i64,
    /// Seconds that pods waited for a node, together.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub wait_seconds: i64,
    /// Number of waits that lasted at most 0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 60, 75, 90, 120, 150, 180, 300, 600,
    /// 1800 and 7200 seconds, and longer; each wait counts once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 24), inner(range(min = 0)))]
    pub waits: Vec<i64>,
    /// Pods that had to leave with their node.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub evictions: i64,
    /// Replicas that workloads ask for, times seconds.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub replica_seconds: i64,
}

/// Both sides of one pool.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScorecardPool {
    /// Name; `karpenter/` and the name of its NodePool for nodes of Karpenter.
    #[schemars(length(max = 255))]
    pub name: String,
    /// What was done.
    pub actual: ScorecardPoolFigures,
    /// What Headroom would have done.
    pub forecast: ScorecardPoolFigures,
}

/// Sums of one pool on one side.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScorecardPoolFigures {
    /// Nodes times seconds.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub node_seconds: i64,
    /// Their price in millionths of a currency unit.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub price_micro: i64,
}

/// Decisions of one kind.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScorecardDecision {
    /// `ScaleUp`, `ScaleDown`, or `Keep`.
    #[schemars(length(max = 64))]
    pub action: String,
    /// Reason.
    #[schemars(length(max = 128))]
    pub reason: String,
    /// Number of nodes.
    #[schemars(range(min = 0))]
    pub nodes: i64,
}

impl ScorecardFigures {
    /// The number of waits.
    #[must_use]
    pub fn waits_count(&self) -> i64 {
        self.waits.iter().sum()
    }

    /// The wait that this part of all waits, in percent, does not exceed, in seconds; linear between the bounds. 0 without any.
    #[must_use]
    pub fn wait_percentile(&self, percent: i64) -> i64 {
        let wanted = self.waits_count() * percent;
        let (mut before, mut lower) = (0, 0);
        for (index, count) in self.waits.iter().enumerate() {
            let upper = SCORECARD_WAIT_BOUNDS.get(index).copied();
            if 0 < *count && wanted <= (before + count) * 100 {
                // Of waits beyond the last bound no more is known.
                let Some(upper) = upper else { return lower };
                let part = wanted - before * 100;
                return lower + (upper - lower) * part / (count * 100);
            }
            before += count;
            lower = upper.unwrap_or(lower);
        }
        lower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_the_bounds_of_their_row() {
        // Ten waits of 0, and ten of 31 to 40 seconds.
        let mut waits = vec![0; 12];
        (waits[0], waits[11]) = (10, 10);
        let figures = ScorecardFigures { waits, ..ScorecardFigures::default() };
        assert_eq!((figures.wait_percentile(50), figures.wait_percentile(75)), (0, 35));
        assert_eq!(figures.wait_percentile(100), 40);
        assert_eq!(ScorecardFigures::default().wait_percentile(99), 0);
    }
}
