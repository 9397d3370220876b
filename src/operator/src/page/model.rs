//! Data of the page: also printed by `headroom simulate -o json`.

use serde::Serialize;

use headroom_api as api;

/// The version of this shape; a field that changes its meaning changes it.
pub const SCHEMA: &str = "headroom.dev/page/v1";

/// One page: one or two runs over the same time, or a live cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// True if it is a simulation or a live cluster.
    pub kind: DocumentKind,
    /// Version of the program that made it.
    pub version: &'static str,
    /// The scenario's name, or the cluster's.
    pub title: String,
    /// One line.
    pub description: String,
    /// Time of second 0, in seconds since 1970.
    pub start_at: i64,
    /// Length of the time axis in seconds.
    pub length_seconds: i64,
    /// The runs; the first is what the page is about, a second one is laid over it.
    pub runs: Vec<Run>,
    /// Present state; live clusters only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Live>,
}

/// Source of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum DocumentKind {
    /// A simulated cluster, from its first to its last second.
    Simulation,
    /// A cluster as its operator sees it.
    Live,
}

/// One run of a scenario, or the recent past of a cluster.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The scenario, and the pool set if it is another one.
    pub name: String,
    /// The hash of all that happened: equal hashes are equal runs. Simulations only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The seed of the run. Simulations only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Figures of the whole; none for a live cluster, whose whole nobody has seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// State over time, one row a sample.
    pub series: Vec<Sample>,
    /// The pools.
    pub pools: Vec<Pool>,
    /// Events of the scenario, oldest first.
    pub events: Vec<Event>,
    /// Decisions, oldest first.
    pub decisions: Vec<Decision>,
    /// Nodes one by one, in the order in which they came; at most 400.
    pub nodes: Vec<NodeLife>,
    /// Number of nodes that are not in `nodes`.
    pub nodes_omitted: u64,
}

/// The life of a node. Seconds since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeLife {
    /// Its name.
    pub name: String,
    /// Its pool; none for nodes of others.
    pub pool: Option<String>,
    /// Time of the decision that asked for it; none where that is not known.
    pub asked: Option<i64>,
    /// Time at which it joined; none if it was there before.
    pub joined: Option<i64>,
    /// Time at which it took pods for the first time; 0 if it did before.
    pub ready: Option<i64>,
    /// Time since which it is on its way out.
    pub leaving: Option<i64>,
    /// Time at which it was gone.
    pub gone: Option<i64>,
    /// Number of its pods from each time on, those of DaemonSets too on a live page.
    pub pods: Vec<(i64, i64)>,
}

/// Figures of a whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Pods that came to run; those of DaemonSets do not count here.
    pub pods_served: u64,
    /// Pods without a node at the end.
    pub pods_pending: i64,
    /// Times from creation to Running, in seconds; none if no pod came to run.
    pub wait_seconds: Option<Waits>,
    /// Node objects times hours.
    pub node_hours: f64,
    /// Nodes that were made.
    pub nodes_created: u64,
    /// Nodes that went.
    pub nodes_removed: u64,
    /// Most nodes at one time.
    pub nodes_max: i64,
    /// CPU asked for, in percent of what nodes offered, over the whole time.
    pub utilization_percent: f64,
    /// Cost of the nodes; those of pools without a price are left out, see `unpriced_node_hours`.
    pub cost: f64,
    /// Node-hours of pools without a price: they are in no cost, and unknown is not nothing.
    pub unpriced_node_hours: f64,
    /// Decisions that changed something, or failed to.
    pub decisions_count: u64,
    /// Evictions and other ends of running pods whose workload was still to run.
    pub disruptions_count: u64,
    /// Times that the operator died.
    pub operator_deaths: u64,
}

/// Percentiles of waiting times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    /// The mean.
    pub mean: f64,
    /// Half of the pods waited no longer.
    pub median: f64,
    /// 95 of 100 pods waited no longer.
    pub p95: f64,
    /// The longest.
    pub longest: f64,
}

/// State at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Seconds since the start.
    pub second: i64,
    /// Pods that workloads ask for.
    pub wanted_pods: i64,
    /// Pods that run.
    pub running_pods: i64,
    /// Most pods without a node since the last sample.
    pub pending_pods: i64,
    /// Nodes that take pods.
    pub ready_nodes: i64,
    /// Nodes that do not yet, or not any more without being on their way out.
    pub starting_nodes: i64,
    /// Nodes on their way out.
    pub leaving_nodes: i64,
    /// Thousandths of a CPU that pods ask for, those that wait included.
    pub demand_cpu_milli: i64,
    /// Thousandths of a CPU that nodes offer.
    pub capacity_cpu_milli: i64,
    /// Cost of the priced nodes an hour; none if no node has a price.
    pub cost_per_hour: Option<f64>,
    /// The longest wait, in seconds, of the pods that came to run since the last sample; none if none did.
    pub longest_wait_seconds: Option<f64>,
}

/// A pool over the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Price of a node for an hour at the end, as written; none if it has none.
    pub price_per_hour: Option<String>,
    /// Nodes at the end.
    pub nodes: i64,
    /// Most nodes at one time.
    pub nodes_max: i64,
    /// Node objects times hours.
    pub node_hours: f64,
    /// Cost of its nodes; none without a price.
    pub cost: Option<f64>,
}

/// Something that was done to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Seconds since the start.
    pub second: i64,
    /// Description.
    pub message: String,
}

/// A decision of the operator with its reasons, as the pool's status has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Its id; logs and events carry it too.
    pub id: String,
    /// Seconds since the start; negative for what was decided before it.
    pub second: i64,
    /// The pool whose status has it.
    pub pool: String,
    /// `ScaleUp`, `ScaleDown`, or `None` where wanting to act and not being able is the news.
    pub action: String,
    /// The group that it acted on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Nodes of the pool before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<i32>,
    /// Nodes of the pool after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<i32>,
    /// Reason, as a word.
    pub reason: String,
    /// Reason, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Outcome, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Number of pods that it was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_count: Option<i32>,
    /// Some of them.
    pub pods: Vec<String>,
    /// Cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The other pools that were looked at.
    pub considered: Vec<Considered>,
}

/// A pool that was looked at for a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Considered {
    /// Its name.
    pub pool: String,
    /// `NotChosen`, `NoFit` or `Skipped`.
    pub verdict: String,
    /// Reason, as a word.
    pub reason: String,
    /// Reason, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Decision {
    /// The decision of `pool`'s status on a time axis that begins at `start_at`, in seconds since 1970.
    #[must_use]
    pub fn of(pool: &str, decision: &api::Decision, start_at: i64) -> Decision {
        let pods = decision.pods.as_ref();
        Decision {
            id: decision.id.clone(),
            second: decision.time.0.as_second() - start_at,
            pool: pool.to_owned(),
            action: decision.action.clone(),
            group: decision.group.clone(),
            from: decision.from,
            to: decision.to,
            reason: decision.reason.clone(),
            message: decision.message.clone(),
            outcome: decision.outcome.clone(),
            pods_count: pods.map(|pods| pods.count),
            pods: pods.map(|pods| pods.examples.clone()).unwrap_or_default(),
            cause: decision.cause.clone(),
            considered: decision.considered.iter().map(Considered::of).collect(),
        }
    }
}

impl Considered {
    fn of(considered: &api::ConsideredPool) -> Considered {
        let api::ConsideredPool { pool, verdict, reason, message } = considered.clone();
        Considered { pool, verdict, reason, message }
    }
}

/// Present state of a live cluster.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Live {
    /// Seconds since 1970 at which this was so.
    pub at: i64,
    /// True if this replica leads. One that does not shows what it last knew of status.
    pub leading: bool,
    /// The rows of the page's tables.
    pub tables: Vec<Table>,
}

/// A table of words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// Text shown when there are no rows.
    pub none: String,
    /// The heads of its columns.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}
