//! The figures of a long run, and their text; it measures nothing.

use std::collections::BTreeMap;
use std::fmt;

use jiff::SignedDuration;

use crate::checker::Violation;
use headroom_simulator::statistics::Summary;
use headroom_simulator::trace::StableHash;

/// Figures of a part. Those of the operator are sums since the beginning.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// Hours since the beginning.
    pub hours: i64,
    /// Most nodes of the part.
    pub nodes_max: i64,
    /// Most pods that ran.
    pub pods_max: i64,
    /// Most pods without a node.
    pub pending_max: i64,
    /// Plans of all replicas.
    pub plans: u64,
    /// Increases that were opened.
    pub purchases: u64,
    /// Nodes that the operator removed.
    pub removals: u64,
    /// Evictions that were granted.
    pub evictions: u64,
    /// Violations.
    pub violations: u64,
    /// Violations of this part, if there is room for them.
    pub found: Vec<Violation>,
    /// Most pods that had had no node for twenty minutes; one of them, and why.
    pub waiting: (usize, String),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Part {
            hours,
            nodes_max,
            pods_max,
            pending_max,
            plans,
            purchases,
            removals,
            evictions,
            violations,
            found,
            waiting,
        } = self;
        write!(
            f,
            "{hours} h: at most {nodes_max} nodes, {pods_max} pods running, {pending_max} without a node; so far {plans} plans, \
             {purchases} purchases, {removals} nodes removed, {evictions} evictions, {violations} violations"
        )?;
        if let (count @ 1.., first) = waiting {
            write!(f, "; {count} pods without a node for 20 minutes, {first} among them")?;
        }
        found.iter().try_for_each(|one| write!(f, "\n  {one}"))
    }
}

/// Result of a long run.
#[derive(Debug, Clone)]
pub struct Report {
    /// Simulated time.
    pub simulated: SignedDuration,
    /// Steps of the simulation.
    pub steps_count: u64,
    /// Plans of all replicas, but for the last minutes of a process that was killed.
    pub plans: u64,
    /// Writes of everybody.
    pub objects_written: u64,
    /// Hash of everything that happened.
    pub hash: StableHash,
    /// Figures of cluster and pods.
    pub summary: Summary,
    /// Seconds from creation to Running: of half of the pods, of 99 %, of all.
    pub wait_seconds: [i64; 3],
    /// Node-hours that the requests of the pods on nodes fill completely.
    pub lower_bound_node_hours: f64,
    /// Increases that were opened.
    pub purchases: u64,
    /// Removals that were opened, by reason.
    pub removals: BTreeMap<String, u64>,
    /// Evictions that were granted.
    pub evictions: u64,
    /// Writes of the operator that took effect.
    pub calls_count: u64,
    /// Calls that landed after the next leader had begun to write.
    pub late_calls_count: u64,
    /// Faults that struck, by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Pods that run at the end.
    pub running: usize,
    /// Pods without a node at the end.
    pub pending: usize,
    /// Answers of the API server that refused what the scenario wanted.
    pub refused: Vec<String>,
    /// Violations that were kept.
    pub violations: Vec<Violation>,
    /// Number of violations by invariant.
    pub violations_count: BTreeMap<&'static str, u64>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { nodes_max, nodes_created, nodes_removed, node_hours, pods_served, mean_wait, .. } =
            self.summary;
        let [half, most, all] = self.wait_seconds;
        writeln!(
            f,
            "simulated: {:#}, {} steps, {} objects written, trace {}",
            self.simulated, self.steps_count, self.objects_written, self.hash
        )?;
        writeln!(f, "nodes: at most {nodes_max}, {nodes_created} made, {nodes_removed} gone")?;
        writeln!(
            f,
            "pods: {pods_served} came to run, {} run and {} have no node at the end",
            self.running, self.pending
        )?;
        writeln!(
            f,
            "from creation to Running: p50 {half} s, p99 {most} s, max {all} s, mean {} s",
            mean_wait.as_secs()
        )?;
        writeln!(
            f,
            "node-hours: {node_hours:.0}, lower bound {:.0} (requests / node size), {:.1} % above it",
            self.lower_bound_node_hours,
            (node_hours / self.lower_bound_node_hours.max(1.0) - 1.0) * 100.0
        )?;
        writeln!(
            f,
            "operator: {} plans, {} purchases, removals {:?}, {} evictions, {} calls of which {} late",
            self.plans,
            self.purchases,
            self.removals,
            self.evictions,
            self.calls_count,
            self.late_calls_count
        )?;
        writeln!(f, "faults: {:?}", self.faults)?;
        if let Some(first) = self.refused.first() {
            writeln!(f, "the scenario was refused {} times: {first}", self.refused.len())?;
        }
        writeln!(f, "violations: {:?}", self.violations_count)?;
        self.violations.iter().try_for_each(|one| writeln!(f, "  {one}"))
    }
}
