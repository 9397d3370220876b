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
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use headroom_core::history::{DecisionAction, DecisionOutcome};
use headroom_core::plan::Plan;

use super::news::{News, Tracker};
use super::write::WriteError;
use crate::api::NodePoolStatus;

/// Buckets of plan durations in seconds: from a quiet tick to ten times what we promise.
const PLAN_BUCKETS: [f64; 12] = [0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];

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
struct WatchLabel {
    watch: &'static str,
}

/// All metrics of the process.
pub struct Metrics {
    registry: Registry,
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
    scaled_up: Family<ReasonLabel, Counter>,
    scaled_down: Family<ReasonLabel, Counter>,
    failed_scale_ups: Family<ReasonLabel, Counter>,
    failed_scale_downs: Family<ReasonLabel, Counter>,
    plan_seconds: Histogram,
    status_writes: Family<ResultLabel, Counter>,
    calls: Family<CallLabel, Counter>,
    watch_silence: Family<WatchLabel, Gauge<f64, AtomicU64>>,
    watch_regressions: Family<WatchLabel, Gauge>,
    undecodable: Family<WatchLabel, Gauge>,
    leading: Gauge,
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
            scaled_up: Family::default(),
            scaled_down: Family::default(),
            failed_scale_ups: Family::default(),
            failed_scale_downs: Family::default(),
            plan_seconds: Histogram::new(PLAN_BUCKETS),
            status_writes: Family::default(),
            calls: Family::default(),
            watch_silence: Family::default(),
            watch_regressions: Family::default(),
            undecodable: Family::default(),
            leading: Gauge::default(),
        };
        metrics.register_pools();
        metrics.register_loop();
        metrics
    }
}

impl Metrics {
    fn register_pools(&mut self) {
        let r = &mut self.registry;
        r.register("nodes_count", "Nodes of a pool, by state", self.nodes.clone());
        r.register("node_group_min_count", "Fewest nodes of a pool now", self.min_nodes.clone());
        r.register("node_group_max_count", "Most nodes of a pool now", self.max_nodes.clone());
        r.register("node_group_target_count", "Nodes asked of a pool's provider", self.target_nodes.clone());
        r.register(
            "node_group_backoff_status",
            "Groups of a pool that are held back after failed launches",
            self.backing_off.clone(),
        );
        r.register("unneeded_nodes_count", "Nodes of a pool that are not needed", self.unneeded.clone());
        r.register(
            "unremovable_nodes_count",
            "Nodes of a pool that can not be removed, by reason",
            self.unremovable.clone(),
        );
        r.register(
            "unschedulable_pods_count",
            "Pods that wait for a node, those expected soon included",
            self.unschedulable_pods.clone(),
        );
        r.register(
            "unplaced_pods_count",
            "Pods that no node and no pool can take",
            self.unplaced_pods.clone(),
        );
    }

    fn register_loop(&mut self) {
        let r = &mut self.registry;
        r.register("scaled_up_nodes", "Nodes asked for, by reason", self.scaled_up.clone());
        r.register("scaled_down_nodes", "Nodes chosen for removal, by reason", self.scaled_down.clone());
        r.register("failed_scale_ups", "Failed launches, by class", self.failed_scale_ups.clone());
        r.register("failed_scale_downs", "Failed removals, by reason", self.failed_scale_downs.clone());
        r.register_with_unit(
            "plan_duration",
            "Time to make one plan",
            Unit::Seconds,
            self.plan_seconds.clone(),
        );
        r.register("status_writes", "Writes of status, by result", self.status_writes.clone());
        r.register("api_calls", "Calls through the guard, by verb and result", self.calls.clone());
        r.register_with_unit(
            "watch_silence",
            "Time since the server was last heard on a watch",
            Unit::Seconds,
            self.watch_silence.clone(),
        );
        r.register(
            "watch_regressions_count",
            "Times that the server went back to an older version",
            self.watch_regressions.clone(),
        );
        r.register("undecodable_objects_count", "Objects left out since the start", self.undecodable.clone());
        r.register("leading", "Whether this replica leads", self.leading.clone());
    }

    /// A plan was made in `duration`. Decisions are counted when a plan first names them.
    pub fn planned(&self, duration: Duration, plan: &Plan) {
        self.plan_seconds.observe(duration.as_secs_f64());
        let pods = &plan.reasons.pods;
        let wanted = pods.iter().filter(|verdict| verdict.skipped.is_none());
        self.unschedulable_pods.set(wanted.map(|verdict| i64::from(verdict.pods_count)).sum());
        self.unplaced_pods.set(pods.iter().map(|verdict| i64::from(verdict.unplaced_count)).sum());
        let news = self.tracker.lock().unwrap_or_else(PoisonError::into_inner).update(&plan.next_history);
        news.iter().for_each(|news| self.count(news));
    }

    fn count(&self, news: &News) {
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
            }
        }
    }

    /// What is told of the pools now; pools that are gone leave no number behind.
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
        let held = crate::api::conditions::get(&status.conditions, "BackingOff").is_some();
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
            Err(WriteError::Conflict) => "conflict",
            Err(WriteError::Gone) => "gone",
            Err(WriteError::Invalid(_)) => "invalid",
            Err(WriteError::Failed(_)) => "failed",
        };
        self.status_writes.get_or_create(&ResultLabel { result }).inc();
    }

    /// A call through the guard ended: verb and path, and how.
    pub fn call(&self, operation: &str, result: &str) {
        let label = CallLabel { verb: verb(operation), result: result_class(result) };
        self.calls.get_or_create(&label).inc();
    }

    /// How a watch is: seconds of silence (none if never heard), versions that went back, objects left out.
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

    /// Whether this replica leads.
    pub fn leading(&self, leading: bool) {
        self.leading.set(leading.into());
    }

    /// All metrics in the text format of OpenMetrics.
    #[must_use]
    pub fn exposition(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn length(count: usize) -> i64 {
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
    use headroom_core::history::{Action, History, Increase, IncreasePhase, Intent, PoolHistory};
    use headroom_core::reason::Reason;
    use headroom_core::time::UnixTime;

    fn plan(intents: Vec<Intent>) -> Plan {
        let memory = PoolHistory { intents, ..PoolHistory::default() };
        let next_history =
            History { pools: BTreeMap::from([("general".into(), memory)]), ..History::default() };
        Plan { next_history, ..Plan::default() }
    }

    fn increase() -> Intent {
        Intent {
            id: "1-1".into(),
            epoch: 1,
            action: Action::Increase(Increase {
                group: "a".into(),
                from: 2,
                to: 5,
                phase: IncreasePhase::Journalled,
            }),
            reason: Reason::PodsUnschedulable,
            started_at: UnixTime(0),
            deadline: UnixTime(900),
        }
    }

    #[test]
    fn an_increase_is_counted_once_however_often_it_is_planned() {
        let metrics = Metrics::default();
        metrics.planned(Duration::from_millis(3), &plan(Vec::new()));
        metrics.planned(Duration::from_millis(3), &plan(vec![increase()]));
        metrics.planned(Duration::from_millis(3), &plan(vec![increase()]));
        let text = metrics.exposition();
        let line = r#"headroom_scaled_up_nodes_total{pool="general",reason="PodsUnschedulable"} 3"#;
        assert!(text.contains(line), "{text}");
        assert!(text.contains("headroom_plan_duration_seconds_count 3"), "{text}");
    }

    #[test]
    fn a_pool_that_is_gone_leaves_no_number() {
        let metrics = Metrics::default();
        let status =
            NodePoolStatus { bounds: Some(crate::api::Bounds::default()), ..NodePoolStatus::default() };
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
