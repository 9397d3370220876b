//! Numbers for Prometheus. Names are Cluster Autoscaler's with our prefix where they mean the same; labels are pools,
//! groups and words of closed sets, so that no user can make them without number.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

use headroom_core::history::{DecisionAction, DecisionOutcome, History};
use headroom_core::labels::ObjectKey;
use headroom_core::plan::{BufferVerdict, Plan, PoolReason};
use headroom_core::time::UnixTime;
use headroom_core::world::World;

use super::ca_metrics::CaMetrics;
use super::news::{News, Tracker};
use super::traces::trace_id;
use super::workload_metrics::WorkloadMetrics;
use super::write::WriteError;
use headroom_api::NodePoolStatus;

/// Buckets of plan durations in seconds: from a quiet tick to ten times what we promise.
const PLAN_BUCKETS: [f64; 12] = [0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];

/// Buckets of waits in seconds: from a decision at once to a cloud that takes its time.
const WAIT_BUCKETS: [f64; 12] =
    [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 3_600.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PoolLabel {
    pool: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabel {
    pool: String,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StandbyLabel {
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    pool: String,
    reason: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabel {
    verb: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CloudCallLabel {
    action: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WatchLabel {
    watch: &'static str,
}

/// Buckets of calls to a cloud in seconds: from an answer out of a cache to the deadline of a step.
const CLOUD_BUCKETS: [f64; 8] = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];

/// The decision behind an observation, as an exemplar: its trace, and its id in status, events and logs.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabel {
    trace_id: String,
    intent: String,
}

/// All metrics of the process.
pub struct Metrics {
    registry: Registry,
    /// Names of the registered metrics, without the prefix and without suffixes that the format adds.
    catalog: Vec<String>,
    ca: Option<CaMetrics>,
    tracker: Mutex<Tracker>,
    nodes: Family<StateLabel, Gauge>,
    min_nodes: Family<PoolLabel, Gauge>,
    max_nodes: Family<PoolLabel, Gauge>,
    target_nodes: Family<PoolLabel, Gauge>,
    backing_off: Family<PoolLabel, Gauge>,
    unneeded: Family<PoolLabel, Gauge>,
    unremovable: Family<ReasonLabel, Gauge>,
    unschedulable_pods: Gauge,
    unplaced_pods: Gauge,
    refused_pods: Family<ReasonLabel, Gauge>,
    standby_pods: Family<StandbyLabel, Gauge>,
    scaled_up: Family<ReasonLabel, Counter>,
    scaled_down: Family<ReasonLabel, Counter>,
    failed_scale_ups: Family<ReasonLabel, Counter>,
    failed_scale_downs: Family<ReasonLabel, Counter>,
    plan_seconds: Histogram,
    pod_to_decision: Histogram,
    decision_to_node: Family<PoolLabel, HistogramWithExemplars<DecisionLabel>>,
    status_writes: Family<ResultLabel, Counter>,
    calls: Family<CallLabel, Counter>,
    cloud_calls: Family<CloudCallLabel, Histogram>,
    watch_silence: Family<WatchLabel, Gauge<f64, AtomicU64>>,
    watch_regressions: Family<WatchLabel, Gauge>,
    undecodable: Family<WatchLabel, Gauge>,
    leading: Gauge,
    /// Those of replica decisions.
    pub workloads: WorkloadMetrics,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("headroom"),
            catalog: Vec::new(),
            ca: None,
            tracker: Mutex::default(),
            nodes: Family::default(),
            min_nodes: Family::default(),
            max_nodes: Family::default(),
            target_nodes: Family::default(),
            backing_off: Family::default(),
            unneeded: Family::default(),
            unremovable: Family::default(),
            unschedulable_pods: Gauge::default(),
            unplaced_pods: Gauge::default(),
            refused_pods: Family::default(),
            standby_pods: Family::default(),
            scaled_up: Family::default(),
            scaled_down: Family::default(),
            failed_scale_ups: Family::default(),
            failed_scale_downs: Family::default(),
            plan_seconds: Histogram::new(PLAN_BUCKETS),
            pod_to_decision: Histogram::new(WAIT_BUCKETS),
            decision_to_node: Family::new_with_constructor(|| {
                HistogramWithExemplars::new(WAIT_BUCKETS.into_iter())
            }),
            status_writes: Family::default(),
            calls: Family::default(),
            cloud_calls: Family::new_with_constructor(|| Histogram::new(CLOUD_BUCKETS)),
            watch_silence: Family::default(),
            watch_regressions: Family::default(),
            undecodable: Family::default(),
            leading: Gauge::default(),
            workloads: WorkloadMetrics::default(),
        };
        metrics.register_pools();
        metrics.register_loop();
        let names = metrics.workloads.register(&mut metrics.registry);
        metrics.catalog.extend(names.map(str::to_owned));
        metrics
    }
}

impl Metrics {
    /// The same, with the numbers of Cluster Autoscaler beside ours, under its names.
    #[must_use]
    pub fn with_cluster_autoscaler_names() -> Self {
        Self { ca: Some(CaMetrics::default()), ..Self::default() }
    }

    /// The names of everything that is ever exposed, as queries name it but for the suffixes of histograms.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let ours = self.catalog.iter().map(|name| format!("headroom_{name}"));
        ours.chain(self.ca.iter().flat_map(CaMetrics::names)).collect()
    }

    fn gauge(&mut self, name: &str, help: &str, metric: impl Metric) {
        self.catalog.push(name.to_owned());
        self.registry.register(name, help, metric);
    }

    fn counter(&mut self, name: &str, help: &str, metric: impl Metric) {
        self.catalog.push(format!("{name}_total"));
        self.registry.register(name, help, metric);
    }

    fn seconds(&mut self, name: &str, help: &str, metric: impl Metric) {
        self.catalog.push(format!("{name}_seconds"));
        self.registry.register_with_unit(name, help, Unit::Seconds, metric);
    }

    fn register_pools(&mut self) {
        self.gauge("nodes_count", "Nodes of a pool, by state", self.nodes.clone());
        self.gauge("node_group_min_count", "Fewest nodes of a pool now", self.min_nodes.clone());
        self.gauge("node_group_max_count", "Most nodes of a pool now", self.max_nodes.clone());
        self.gauge("node_group_target_count", "Nodes asked of a pool's provider", self.target_nodes.clone());
        let help = "Groups of a pool that are held back after failed launches";
        self.gauge("node_group_backoff_status", help, self.backing_off.clone());
        self.gauge("unneeded_nodes_count", "Nodes of a pool that are not needed", self.unneeded.clone());
        let help = "Nodes of a pool that can not be removed, by reason";
        self.gauge("unremovable_nodes_count", help, self.unremovable.clone());
        let help = "Pods that wait for a node, those expected soon included";
        self.gauge("unschedulable_pods_count", help, self.unschedulable_pods.clone());
        let help = "Pods that no node and no pool can take";
        self.gauge("unplaced_pods_count", help, self.unplaced_pods.clone());
        let help = "Pods without a place that a pool does not take, by reason";
        self.gauge("refused_pods_count", help, self.refused_pods.clone());
        let help =
            "Pods for which CapacityBuffers keep room: ready, starting (on nodes on their way), unplaced.";
        self.gauge("standby_pods_count", help, self.standby_pods.clone());
    }

    fn register_loop(&mut self) {
        self.counter("scaled_up_nodes", "Nodes asked for, by reason", self.scaled_up.clone());
        self.counter("scaled_down_nodes", "Nodes chosen for removal, by reason", self.scaled_down.clone());
        self.counter("failed_scale_ups", "Failed launches, by class", self.failed_scale_ups.clone());
        self.counter("failed_scale_downs", "Failed removals, by reason", self.failed_scale_downs.clone());
        self.seconds("plan_duration", "Time to make one plan", self.plan_seconds.clone());
        let help = "From the creation of a pod to the decision to buy a node for it";
        self.seconds("pod_to_decision_duration", help, self.pod_to_decision.clone());
        let help = "From the decision to buy nodes to the last of them being ready";
        self.seconds("decision_to_node_duration", help, self.decision_to_node.clone());
        self.counter("status_writes", "Writes of status, by result", self.status_writes.clone());
        self.counter("api_calls", "Calls through the guard, by verb and result", self.calls.clone());
        let help = "Calls to AWS with their retries, by action and result";
        self.seconds("aws_request_duration", help, self.cloud_calls.clone());
        let help = "Time since the server was last heard on a watch";
        self.seconds("watch_silence", help, self.watch_silence.clone());
        let help = "Times that the server went back to an older version";
        self.gauge("watch_regressions_count", help, self.watch_regressions.clone());
        let help = "Objects left out since the start";
        self.gauge("undecodable_objects_count", help, self.undecodable.clone());
        self.gauge("leading", "Whether this replica leads", self.leading.clone());
    }

    /// Takes new pools as they stand before a plan.
    pub fn meet(&self, history: &History) {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner).meet(history);
    }

    /// A plan was made in `duration`. Decisions are counted when a plan first names them.
    pub fn planned(&self, duration: Duration, plan: &Plan, world: &World, now: UnixTime) {
        self.plan_seconds.observe(duration.as_secs_f64());
        let pods = &plan.reasons.pods;
        let wanted = pods.iter().filter(|verdict| verdict.skipped.is_none());
        self.unschedulable_pods.set(wanted.map(|verdict| i64::from(verdict.pods_count)).sum());
        self.unplaced_pods.set(pods.iter().map(|verdict| i64::from(verdict.unplaced_count)).sum());
        self.refused(plan);
        self.standby(plan);
        let news = self.tracker.lock().unwrap_or_else(PoisonError::into_inner).update(&plan.next_history);
        news.iter().for_each(|news| self.count(news, now));
        if news.iter().any(|news| matches!(news, News::Growing { .. })) {
            self.measure_waits(plan, world, now);
        }
        if let Some(ca) = &self.ca {
            ca.planned(duration, plan, now);
            news.iter().for_each(|news| ca.count(news));
        }
    }

    fn standby(&self, plan: &Plan) {
        let buffers = &plan.reasons.buffers;
        let sum =
            |count: &dyn Fn(&BufferVerdict) -> u32| buffers.iter().map(|one| i64::from(count(one))).sum();
        let states: [(&'static str, i64); 3] = [
            ("ready", sum(&|one| one.ready_count)),
            ("starting", sum(&|one| one.on_new.values().sum())),
            ("unplaced", sum(&|one| one.unplaced_count)),
        ];
        for (state, pods) in states {
            self.standby_pods.get_or_create(&StandbyLabel { state }).set(pods);
        }
    }

    /// Pods without a place, by the pools that do not take them.
    fn refused(&self, plan: &Plan) {
        self.refused_pods.clear();
        for verdict in plan.reasons.pods.iter().filter(|verdict| 0 < verdict.unplaced_count) {
            for PoolReason { pool, reason, .. } in &verdict.pools {
                let label = ReasonLabel { pool: pool.to_string(), reason: reason.as_str().to_owned() };
                self.refused_pods.get_or_create(&label).inc_by(verdict.unplaced_count.into());
            }
        }
    }

    /// Time that the oldest pod of each kind that gets a new node has waited for the decision.
    fn measure_waits(&self, plan: &Plan, world: &World, now: UnixTime) {
        for verdict in plan.reasons.pods.iter().filter(|verdict| !verdict.on_new.is_empty()) {
            let created = |example: &Arc<str>| {
                let (namespace, name) = example.split_once('/')?;
                let key = ObjectKey { namespace: namespace.into(), name: name.into() };
                // One that runs, on a node that the cloud takes, has not waited.
                let pod = world.pod_id(&key).map(|id| &world.pod(id).pod);
                pod.filter(|pod| pod.node.is_none()).map(|pod| pod.created_at)
            };
            if let Some(oldest) = verdict.examples.iter().filter_map(created).min() {
                self.pod_to_decision.observe(now.since(oldest).0.max(0) as f64);
            }
        }
    }

    fn count(&self, news: &News, now: UnixTime) {
        let label =
            |pool: &Arc<str>, reason: &str| ReasonLabel { pool: pool.to_string(), reason: reason.to_owned() };
        match news {
            News::Growing { pool, increase, reason, .. } => {
                let nodes = u64::from(increase.to.saturating_sub(increase.from));
                self.scaled_up.get_or_create(&label(pool, reason.as_str())).inc_by(nodes);
            }
            News::Leaving { pool, victims, reason, .. } => {
                let nodes = u64::try_from(victims.len()).unwrap_or(u64::MAX);
                self.scaled_down.get_or_create(&label(pool, reason.as_str())).inc_by(nodes);
            }
            News::BackedOff { pool, backoff, .. } => {
                self.failed_scale_ups.get_or_create(&label(pool, backoff.class.as_str())).inc();
            }
            News::Ended { pool, decision } => {
                let failed = decision.outcome == DecisionOutcome::Failed;
                if failed && decision.action == DecisionAction::ScaleDown {
                    self.failed_scale_downs.get_or_create(&label(pool, decision.reason.as_str())).inc();
                }
                let done = decision.outcome == DecisionOutcome::Done;
                if done && decision.action == DecisionAction::ScaleUp {
                    let label = PoolLabel { pool: pool.to_string() };
                    let seconds = now.since(decision.time).0.max(0) as f64;
                    let exemplar = DecisionLabel {
                        trace_id: trace_id(pool, &decision.id),
                        intent: decision.id.to_string(),
                    };
                    self.decision_to_node.get_or_create(&label).observe(seconds, Some(exemplar), None);
                }
            }
        }
    }

    /// Sets the numbers of the pools as they are now; pools that are gone leave no number behind.
    pub fn pools(&self, statuses: &BTreeMap<Arc<str>, NodePoolStatus>) {
        self.nodes.clear();
        self.unremovable.clear();
        for family in
            [&self.min_nodes, &self.max_nodes, &self.target_nodes, &self.backing_off, &self.unneeded]
        {
            family.clear();
        }
        for (pool, status) in statuses {
            self.pool(pool, status);
        }
        if let Some(ca) = &self.ca {
            ca.pools(statuses);
        }
    }

    fn pool(&self, pool: &Arc<str>, status: &NodePoolStatus) {
        let label = PoolLabel { pool: pool.to_string() };
        if let Some(bounds) = &status.bounds {
            self.min_nodes.get_or_create(&label).set(bounds.min_nodes.into());
            self.max_nodes.get_or_create(&label).set(bounds.max_nodes.into());
        }
        if let Some(nodes) = &status.nodes {
            self.target_nodes.get_or_create(&label).set(nodes.desired.into());
            let states = [
                ("ready", nodes.ready),
                ("unready", nodes.unready),
                ("notStarted", nodes.starting),
                ("unregistered", nodes.unregistered),
                ("deleting", nodes.deleting),
            ];
            for (state, count) in states {
                let label = StateLabel { pool: pool.to_string(), state };
                self.nodes.get_or_create(&label).set(count.into());
            }
        }
        let held = headroom_api::conditions::get(&status.conditions, "BackingOff").is_some();
        let groups: BTreeSet<&str> = status.backoffs.iter().map(|backoff| backoff.group.as_str()).collect();
        let held = if held { groups.len() } else { 0 };
        self.backing_off.get_or_create(&label).set(length(held));
        let unneeded = status.unneeded.iter().map(|row| row.nodes.len()).sum();
        self.unneeded.get_or_create(&label).set(length(unneeded));
        for row in &status.blocked {
            let label = ReasonLabel { pool: pool.to_string(), reason: row.reason.clone() };
            self.unremovable.get_or_create(&label).inc_by(row.count.into());
        }
    }

    /// A status write ended.
    pub fn status_written(&self, result: Result<(), &WriteError>) {
        let result = match result {
            Ok(()) => "written",
            Err(WriteError::Conflict | WriteError::Owned) => "conflict",
            Err(WriteError::Gone) => "gone",
            Err(WriteError::Invalid(_)) => "invalid",
            Err(WriteError::Forbidden(_)) => "forbidden",
            Err(WriteError::Failed(_)) => "failed",
        };
        self.status_writes.get_or_create(&ResultLabel { result }).inc();
    }

    /// A call through the guard ended: verb and path, and how.
    pub fn call(&self, operation: &str, result: &str) {
        let label = CallLabel { verb: verb(operation), result: result_class(result) };
        self.calls.get_or_create(&label).inc();
    }

    /// A call to a cloud ended: its action as IAM spells it, how, and after how long.
    pub fn cloud_call(&self, action: &'static str, result: &'static str, took: Duration) {
        self.cloud_calls.get_or_create(&CloudCallLabel { action, result }).observe(took.as_secs_f64());
    }

    /// Records the state of a watch: seconds of silence (none if never heard), versions that went back, objects left
    /// out.
    pub fn watch(
        &self,
        watch: &'static str,
        silence_seconds: Option<i64>,
        regressions: u64,
        undecodable: u64,
    ) {
        let label = WatchLabel { watch };
        if let Some(seconds) = silence_seconds {
            let seconds = Duration::from_secs(seconds.max(0).unsigned_abs());
            self.watch_silence.get_or_create(&label).set(seconds.as_secs_f64());
        }
        self.watch_regressions.get_or_create(&label).set(i64::try_from(regressions).unwrap_or(i64::MAX));
        self.undecodable.get_or_create(&label).set(i64::try_from(undecodable).unwrap_or(i64::MAX));
    }

    /// True if this replica leads.
    pub fn leading(&self, leading: bool) {
        self.leading.set(leading.into());
    }

    /// All metrics in the text format of OpenMetrics.
    #[must_use]
    pub fn exposition(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        if let Some(ca) = &self.ca {
            // Each registry ends its text; a text has one end.
            text.truncate(text.trim_end_matches("# EOF\n").len());
            ca.expose(&mut text);
        }
        text
    }
}

pub(crate) fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn verb(operation: &str) -> &'static str {
    const VERBS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    let word = operation.split(' ').next().unwrap_or_default();
    VERBS.into_iter().find(|verb| *verb == word).unwrap_or("cloud")
}

fn result_class(result: &str) -> &'static str {
    const ALONE: [&str; 5] = ["404", "409", "410", "422", "429"];
    if let Some(code) = ALONE.into_iter().find(|code| *code == result) {
        return code;
    }
    match result.as_bytes() {
        [b'1'..=b'3', _, _] => "ok",
        [b'4', _, _] => "4xx",
        [b'5', _, _] => "5xx",
        b"refused" => "refused",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_core::history::{Action, Increase, Intent, PoolHistory};
    use headroom_core::reason::Reason;
    use headroom_core::time::UnixTime;

    fn plan(intents: Vec<Intent>) -> Plan {
        let memory = PoolHistory { intents, ..PoolHistory::default() };
        let next_history = History { pools: BTreeMap::from([("general".into(), memory)]) };
        Plan { next_history, ..Plan::default() }
    }

    fn increase() -> Intent {
        Intent {
            id: "1-1".into(),
            epoch: 1,
            action: Action::Increase(Increase::journalled("a".into(), 2, 5)),
            reason: Reason::PodsUnschedulable,
            started_at: UnixTime(0),
            deadline: UnixTime(900),
        }
    }

    #[test]
    fn an_increase_is_counted_once_however_often_it_is_planned() {
        let metrics = Metrics::default();
        metrics.planned(Duration::from_millis(3), &plan(Vec::new()), &World::new(), UnixTime(0));
        metrics.planned(Duration::from_millis(3), &plan(vec![increase()]), &World::new(), UnixTime(0));
        metrics.planned(Duration::from_millis(3), &plan(vec![increase()]), &World::new(), UnixTime(0));
        let text = metrics.exposition();
        let line = r#"headroom_scaled_up_nodes_total{pool="general",reason="PodsUnschedulable"} 3"#;
        assert!(text.contains(line), "{text}");
        assert!(text.contains("headroom_plan_duration_seconds_count 3"), "{text}");
    }

    #[test]
    fn the_names_of_cluster_autoscaler_are_there_when_asked_for_and_the_text_has_one_end() {
        let text = Metrics::default().exposition();
        assert!(!text.contains("cluster_autoscaler_"), "{text}");
        let metrics = Metrics::with_cluster_autoscaler_names();
        metrics.planned(Duration::from_millis(3), &plan(Vec::new()), &World::new(), UnixTime(70));
        metrics.planned(Duration::from_millis(3), &plan(vec![increase()]), &World::new(), UnixTime(80));
        let nodes = headroom_api::NodeCounts { ready: 3, starting: 2, deleting: 1, ..Default::default() };
        let status = |nodes| NodePoolStatus { nodes: Some(nodes), ..NodePoolStatus::default() };
        metrics.pools(&BTreeMap::from([("a".into(), status(nodes.clone())), ("b".into(), status(nodes))]));
        let text = metrics.exposition();
        for line in [
            "cluster_autoscaler_scaled_up_nodes_total 3",
            "cluster_autoscaler_cluster_safe_to_autoscale 1",
            r#"cluster_autoscaler_nodes_count{state="ready"} 6"#,
            r#"cluster_autoscaler_node_groups_count{node_group_type="autoscaled"} 2"#,
            "cluster_autoscaler_pending_node_deletions 2",
            r#"cluster_autoscaler_unschedulable_pods_count{type="unschedulable"} 0"#,
            r#"cluster_autoscaler_last_activity{activity="main"} 80"#,
            r#"cluster_autoscaler_function_duration_seconds_count{function="main"} 2"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    }

    /// Words of a text that look like metrics, without the suffixes of histograms.
    fn named(text: &str, prefix: &str) -> BTreeSet<String> {
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let words = text.split(word).filter(|word| word.starts_with(prefix));
        words
            .map(|word| {
                let bare = ["_bucket", "_sum"].iter().find_map(|suffix| word.strip_suffix(suffix));
                bare.unwrap_or(word).to_owned()
            })
            .collect()
    }

    #[test]
    fn every_metric_is_documented_and_every_documented_metric_is_there() {
        let page = include_str!("../../../docs/metrics.md");
        let row =
            |line: &str| line.strip_prefix("| `").and_then(|rest| rest.split('`').next()).map(str::to_owned);
        // Tables of metrics only: the page has one of spans too.
        let tables = page.split("\n\n").filter(|block| block.starts_with("| metric |"));
        let documented: BTreeSet<String> = tables.flat_map(str::lines).filter_map(row).collect();
        let exposed: BTreeSet<String> =
            Metrics::with_cluster_autoscaler_names().names().into_iter().collect();
        assert_eq!(documented, exposed);
    }

    #[test]
    fn alerts_and_dashboard_name_metrics_that_are_there_in_queries_that_can_be_read() {
        let alerts: serde_json::Value =
            serde_saphyr::from_str(include_str!("../../../charts/headroom/files/alerts.yaml")).unwrap();
        let dashboard: serde_json::Value =
            serde_json::from_str(include_str!("../../../charts/headroom/files/dashboard-nodes.json"))
                .unwrap();
        fn queries(value: &serde_json::Value, found: &mut Vec<String>) {
            match value {
                serde_json::Value::Object(fields) => {
                    found.extend(fields.get("expr").and_then(|expr| expr.as_str()).map(str::to_owned));
                    fields.values().for_each(|value| queries(value, found));
                }
                serde_json::Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        queries(&alerts, &mut found);
        queries(&dashboard, &mut found);
        assert!(30 < found.len(), "{}", found.len());
        let there: BTreeSet<String> = Metrics::default().names().into_iter().collect();
        for query in found {
            let query = query.replace("$__rate_interval", "5m").replace("$pool", "general");
            for name in named(&query, "headroom_") {
                assert!(there.contains(&name), "{query} names {name}, which is no metric");
            }
            let read = headroom_observe::metrics::confine(&query, "namespace", "any");
            assert!(read.is_ok(), "{query} can not be read: {read:?}");
        }
    }

    #[test]
    fn a_pool_that_is_gone_leaves_no_number() {
        let metrics = Metrics::default();
        let status =
            NodePoolStatus { bounds: Some(headroom_api::Bounds::default()), ..NodePoolStatus::default() };
        metrics.pools(&BTreeMap::from([("general".into(), status)]));
        assert!(metrics.exposition().contains(r#"pool="general""#));
        metrics.pools(&BTreeMap::new());
        assert!(!metrics.exposition().contains(r#"pool="general""#));
    }

    #[test]
    fn paths_and_codes_become_few_words() {
        assert_eq!((verb("PUT /apis/x"), verb("SetDesiredCapacity")), ("PUT", "cloud"));
        let classes = ["200", "409", "403", "503", "refused", "timeout"].map(result_class);
        assert_eq!(classes, ["ok", "409", "4xx", "5xx", "refused", "other"]);
    }
}
