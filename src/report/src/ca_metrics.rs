//! Numbers under the names of Cluster Autoscaler, so that dashboards and alerts made for it go on working. Only those
//! of the same meaning are here; docs/metrics.md lists where a meaning is narrower.
//! Source: cluster-autoscaler/metrics/metrics.go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

use headroom_core::plan::Plan;
use headroom_core::reason::Reason;
use headroom_core::time::UnixTime;
use headroom_core::world::provider::FailureClass;

use super::metrics::length;
use super::news::News;
use headroom_api::NodePoolStatus;

/// Upstream's buckets of function durations in seconds. Source: metrics.go `functionDuration`.
const FUNCTION_BUCKETS: [f64; 26] = [
    0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5, 20.0, 22.5, 25.0, 27.5, 30.0, 50.0,
    75.0, 100.0, 200.0, 300.0, 500.0, 750.0, 1_000.0, 2_000.0,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonWord {
    reason: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Function {
    function: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Activity {
    activity: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct GroupType {
    node_group_type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PodType {
    r#type: &'static str,
}

/// The registry of these names.
pub(crate) struct CaMetrics {
    registry: Registry,
    catalog: Vec<String>,
    safe: Gauge,
    nodes: Family<State, Gauge>,
    groups: Family<GroupType, Gauge>,
    unschedulable: Family<PodType, Gauge>,
    unneeded: Gauge,
    unremovable: Family<ReasonWord, Gauge>,
    deletions: Gauge,
    scaled_up: Counter,
    scaled_down: Family<ReasonWord, Counter>,
    failed_scale_ups: Family<ReasonWord, Counter>,
    function_seconds: Family<Function, Histogram>,
    last_activity: Family<Activity, Gauge>,
}

impl Default for CaMetrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("cluster_autoscaler"),
            catalog: Vec::new(),
            safe: Gauge::default(),
            nodes: Family::default(),
            groups: Family::default(),
            unschedulable: Family::default(),
            unneeded: Gauge::default(),
            unremovable: Family::default(),
            deletions: Gauge::default(),
            scaled_up: Counter::default(),
            scaled_down: Family::default(),
            failed_scale_ups: Family::default(),
            function_seconds: Family::new_with_constructor(|| Histogram::new(FUNCTION_BUCKETS)),
            last_activity: Family::default(),
        };
        metrics.register_all();
        metrics
    }
}

impl CaMetrics {
    fn register_all(&mut self) {
        let help = "Whether nodes are bought and removed: 0 while too many are unready";
        self.register("cluster_safe_to_autoscale", "", help, self.safe.clone());
        self.register("nodes_count", "", "Nodes of all pools, by state", self.nodes.clone());
        self.register("node_groups_count", "", "Pools", self.groups.clone());
        self.register(
            "unschedulable_pods_count",
            "",
            "Pods that wait for a node",
            self.unschedulable.clone(),
        );
        self.register("unneeded_nodes_count", "", "Nodes that are not needed", self.unneeded.clone());
        let help = "Nodes that can not be removed, by reason";
        self.register("unremovable_nodes_count", "", help, self.unremovable.clone());
        self.register("pending_node_deletions", "", "Nodes on their way out", self.deletions.clone());
        self.register("scaled_up_nodes", "_total", "Nodes asked for", self.scaled_up.clone());
        let help = "Nodes chosen for removal, by reason";
        self.register("scaled_down_nodes", "_total", help, self.scaled_down.clone());
        self.register("failed_scale_ups", "_total", "Failed launches", self.failed_scale_ups.clone());
        self.register("last_activity", "", "When the loop last came round", self.last_activity.clone());
        self.catalog.push("function_duration_seconds".to_owned());
        let help = "Time that one plan takes";
        let seconds = self.function_seconds.clone();
        self.registry.register_with_unit("function_duration", help, Unit::Seconds, seconds);
    }

    fn register(&mut self, name: &str, suffix: &str, help: &str, metric: impl Metric) {
        self.catalog.push(format!("{name}{suffix}"));
        self.registry.register(name, help, metric);
    }

    /// The full names.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.catalog.iter().map(|name| format!("cluster_autoscaler_{name}"))
    }

    /// A plan was made at `now`.
    pub(crate) fn planned(&self, duration: Duration, plan: &Plan, now: UnixTime) {
        let reasons = &plan.reasons;
        let main = Function { function: "main" };
        self.function_seconds.get_or_create(&main).observe(duration.as_secs_f64());
        self.last_activity.get_or_create(&Activity { activity: "main" }).set(now.0);
        let unhealthy = reasons.pools.values().flatten().any(|said| said.reason == Reason::ClusterUnhealthy);
        self.safe.set(i64::from(!unhealthy));
        let wanted = reasons.pods.iter().filter(|verdict| verdict.skipped.is_none());
        let pods = wanted
            .map(|verdict| i64::from(verdict.pods_count.saturating_sub(verdict.anticipated_count)))
            .sum();
        self.unschedulable.get_or_create(&PodType { r#type: "unschedulable" }).set(pods);
    }

    /// Something was decided, or failed.
    pub(crate) fn count(&self, news: &News) {
        let word = |reason: &str| ReasonWord { reason: reason.to_owned() };
        match news {
            News::Growing { increase, .. } => {
                self.scaled_up.inc_by(u64::from(increase.to.saturating_sub(increase.from)));
            }
            News::Leaving { victims, reason, .. } => {
                let reason = match reason {
                    Reason::Empty => "empty",
                    Reason::Underutilized => "underutilized",
                    Reason::Unready => "unready",
                    _ => "other",
                };
                let nodes = u64::try_from(victims.len()).unwrap_or(u64::MAX);
                self.scaled_down.get_or_create(&word(reason)).inc_by(nodes);
            }
            News::BackedOff { backoff, .. } => {
                let timeout = backoff.class == FailureClass::ProvisionTimeout;
                let reason = if timeout { "timeout" } else { "cloudProviderError" };
                self.failed_scale_ups.get_or_create(&word(reason)).inc();
            }
            News::Ended { .. } => {}
        }
    }

    /// Sets the numbers of the pools as they are now.
    pub(crate) fn pools(&self, statuses: &BTreeMap<Arc<str>, NodePoolStatus>) {
        self.groups.get_or_create(&GroupType { node_group_type: "autoscaled" }).set(length(statuses.len()));
        let nodes = || statuses.values().filter_map(|status| status.nodes.as_ref());
        let states = [
            ("ready", nodes().map(|nodes| i64::from(nodes.ready)).sum::<i64>()),
            ("unready", nodes().map(|nodes| i64::from(nodes.unready)).sum()),
            ("notStarted", nodes().map(|nodes| i64::from(nodes.starting)).sum()),
            ("unregistered", nodes().map(|nodes| i64::from(nodes.unregistered)).sum()),
        ];
        for (state, count) in states {
            self.nodes.get_or_create(&State { state }).set(count);
        }
        self.deletions.set(nodes().map(|nodes| i64::from(nodes.deleting)).sum());
        let unneeded = statuses.values().flat_map(|status| &status.unneeded).map(|row| row.nodes.len()).sum();
        self.unneeded.set(length(unneeded));
        self.unremovable.clear();
        for row in statuses.values().flat_map(|status| &status.blocked) {
            let label = ReasonWord { reason: row.reason.clone() };
            self.unremovable.get_or_create(&label).inc_by(row.count.into());
        }
    }

    /// Adds the text of these metrics.
    pub(crate) fn expose(&self, text: &mut String) {
        // Writing to a String cannot fail.
        let _ = encode(text, &self.registry);
    }
}
