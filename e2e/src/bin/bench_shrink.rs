//! `make bench-shrink`: after a burst every Deployment is cut to a fifth; how soon the nodes follow, and at what cost.
//!
//! Everything shares one machine, as in `bench-burst`. The PodDisruptionBudgets hold all along: evictions beyond them
//! are refused by the API server, and its audit log shows that no pod was deleted past it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use e2e::burst::{MIX, cpus_asked, create_deployments, lower_bound, wait_until_running};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::operator::Operator;
use e2e::shrink::{Settings, Shape, count_cpus, count_nodes, protect, settled, start_operator};
use e2e::workloads::scaling_policy;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PartialObjectMeta};
use serde_json::json;

/// Part of each Deployment that is left, as a divisor.
const CUT: u32 = 5;

/// Measures how nodes follow a load that went.
#[derive(Debug, Parser)]
struct Args {
    /// Numbers of pods before the cut, one run each.
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 5000])]
    pods: Vec<u32>,
    #[command(flatten)]
    settings: Settings,
    /// Seconds after the cut for which nodes are counted.
    #[arg(long, default_value_t = 240)]
    seconds: u64,
    /// Actor that lowers the replicas, and chooser of the pods that go.
    #[arg(long, value_enum, default_value = "by-hand")]
    cut: Cut,
    /// Measure the operator as the tests run it, without an optimized build.
    #[arg(long)]
    debug: bool,
}

/// Actor that lowers the replicas, and chooser of the pods that go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Cut {
    /// The bench itself; the ReplicaSet controller.
    ByHand,
    /// The operator by ScalingPolicies; the ReplicaSet controller.
    ByReplicaSet,
    /// The operator by ScalingPolicies; the operator by deletion costs.
    EmptyNodes,
}

/// The shapes that `bench-peers` gives to each autoscaler.
const SHAPES: [Shape; 2] = [("small", "4", "16Gi"), ("large", "16", "64Gi")];

/// Goal with the default settings: at most so many nodes above the lower bound, and the time after the cut.
const WANTED: (usize, f64) = (3, 80.0);

/// Result of one run.
struct Measured {
    n_pods: u32,
    n_before: usize,
    /// Nodes by seconds after the cut.
    nodes: Vec<(f64, usize)>,
    /// CPUs of the nodes in the end: nodes of two sizes are not one like the other.
    n_cpus: u64,
    n_evicted: usize,
    n_refused: usize,
    n_deleted: usize,
    /// Pods whose deletion cost was written.
    n_marked: usize,
    /// The most pods without a node that were seen at once.
    n_pending_max: usize,
    n_bought: usize,
    cpu_seconds: f64,
    peak_bytes: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let mut runs = Vec::new();
    for &n_pods in &args.pods {
        eprintln!("{n_pods} pods: starting");
        runs.push(measure(&args, n_pods).await.with_context(|| format!("{n_pods} pods"))?);
    }
    print_table(&runs);
    Ok(())
}

async fn measure(args: &Args, n_pods: u32) -> Result<Measured> {
    let cluster = ControlPlane::start(Options::new().with_audit_log()).await?;
    let operator = start_operator(&args.settings, &cluster, &SHAPES, args.debug).await?;
    let (all_run, created) =
        tokio::join!(wait_until_running(&cluster, n_pods), create_deployments(&cluster, n_pods));
    created?;
    all_run?;
    protect(args.settings.max_unavailable_percent, &cluster, n_pods).await?;
    // The burst itself has an end: what it bought too much has gone.
    let n_before = settled(&cluster, Duration::from_secs(30), Duration::from_secs(180)).await?;
    let cpu_before = operator.process().cpu_seconds()?;

    if args.cut != Cut::ByHand {
        let scale_in = if args.cut == Cut::EmptyNodes { "EmptyNodes" } else { "ByReplicaSet" };
        let change = json!({"spec": {"workloads": {"scaleIn": scale_in}}});
        cluster.patch("ClusterScalingPolicy", "headroom.dev/v1alpha1", "default", change).await?;
        size(&cluster, n_pods).await?;
        // The policies are in force, and nobody has anything to do.
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    let (cut_at, cut) = (jiff::Timestamp::now(), Instant::now());
    if args.cut == Cut::ByHand {
        for share in &MIX {
            cluster.scale_deployment(share.name, n_pods * share.percent / 100 / CUT).await?;
        }
    } else {
        size(&cluster, n_pods / CUT).await?;
    }
    let (nodes, n_pending_max) = follow(args, &cluster, &operator, cut).await?;
    let n_cpus = count_cpus(&cluster).await?;
    let writes = cluster.writes()?.by(User::Headroom).since(cut_at);
    let evictions = writes.clone().to("pods/eviction");
    Ok(Measured {
        n_pods,
        n_before,
        nodes,
        n_cpus,
        n_evicted: evictions.clone().accepted().len(),
        n_refused: evictions.len() - evictions.accepted().len(),
        n_deleted: writes.clone().to("pods").with_verb("delete").len(),
        n_marked: writes.clone().to("pods").with_verb("patch").accepted().len(),
        n_pending_max,
        n_bought: writes.to("nodes").with_verb("create").accepted().len(),
        cpu_seconds: operator.process().cpu_seconds()? - cpu_before,
        peak_bytes: operator.process().peak_memory_bytes()?,
    })
}

/// Gives each Deployment of the mix a policy that holds it at its share of `n_pods`.
async fn size(cluster: &ControlPlane, n_pods: u32) -> Result<()> {
    for share in &MIX {
        let replicas = n_pods * share.percent / 100;
        let mut policy = scaling_policy(share.name, share.name, replicas);
        policy["spec"]["minReplicas"] = replicas.into();
        cluster.apply(policy).await?;
    }
    Ok(())
}

/// Counts nodes and pending pods every two seconds.
async fn follow(
    args: &Args,
    cluster: &ControlPlane,
    operator: &Operator,
    cut: Instant,
) -> Result<(Vec<(f64, usize)>, usize)> {
    let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(cluster.client(), "default");
    let pending = ListParams::default().fields("spec.nodeName=");
    let (mut seen, mut n_pending_max, mut reported) = (Vec::new(), 0, 0);
    while cut.elapsed() < Duration::from_secs(args.seconds) {
        operator.process().check_running()?;
        let n_nodes = count_nodes(cluster).await?;
        let at = cut.elapsed().as_secs_f64();
        seen.push((at, n_nodes));
        n_pending_max = n_pending_max.max(pods.list_metadata(&pending).await?.items.len());
        if reported < cut.elapsed().as_secs() / 10 {
            reported = cut.elapsed().as_secs() / 10;
            eprintln!("{at:.0} s: {n_nodes} nodes, {:.1} CPU s", operator.process().cpu_seconds()?);
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    Ok((seen, n_pending_max))
}

/// The nodes at the last look not later than `seconds` after the cut.
fn at(nodes: &[(f64, usize)], seconds: f64) -> usize {
    nodes.iter().take_while(|(at, _)| *at <= seconds).last().map_or(0, |(_, count)| *count)
}

fn print_table(runs: &[Measured]) {
    println!(
        "| pods before | nodes before | at 40 s | at 80 s | at 140 s | in the end | last change (s) | lower bound | evicted | refused by PDB | deleted past it | bought | pending at most | CPU (s) | peak memory (MB) |"
    );
    println!("|{}", " ---: |".repeat(15));
    for run in runs {
        let end = run.nodes.last().map_or(0, |(_, count)| *count);
        let changed = run.nodes.iter().rev().take_while(|(_, count)| *count == end).last();
        println!(
            "| {} | {} | {} | {} | {} | {end} | {:.0} | {} | {} | {} | {} | {} | {} | {:.1} | {} |",
            run.n_pods,
            run.n_before,
            at(&run.nodes, 40.0),
            at(&run.nodes, 80.0),
            at(&run.nodes, 140.0),
            changed.map_or(0.0, |(at, _)| *at),
            lower_bound(run.n_pods / CUT),
            run.n_evicted,
            run.n_refused,
            run.n_deleted,
            run.n_bought,
            run.n_pending_max,
            run.cpu_seconds,
            run.peak_bytes / 1_000_000,
        );
    }
    for run in runs {
        println!("\n{}", verdict(run));
    }
}

/// Describes the goal and the result.
fn verdict(run: &Measured) -> String {
    let (above, seconds) = WANTED;
    let bound = usize::try_from(lower_bound(run.n_pods / CUT)).unwrap_or(usize::MAX);
    let (most, found) = (bound.saturating_add(above), at(&run.nodes, seconds));
    let word = if found <= most { "reached" } else { "missed" };
    let reached = run.nodes.iter().find(|(_, count)| *count <= most);
    let when = reached.map_or("never reached".to_owned(), |(at, _)| format!("reached after {at:.0} s"));
    format!(
        "{} pods: wanted at most {most} nodes within {seconds:.0} s: {word}, {found} nodes then; {most} {when}. \
         In the end the nodes have {} CPUs for the {} that pods ask for. \
         Evictions refused by a budget: {}, pods deleted past one: {}, nodes bought after the cut: {}, deletion costs written: {}.",
        run.n_pods,
        run.n_cpus,
        cpus_asked(run.n_pods / CUT),
        run.n_refused,
        run.n_deleted,
        run.n_bought,
        run.n_marked,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_at_an_instant_are_those_last_seen_before() {
        let nodes = [(0.0, 9), (2.0, 7), (4.0, 5)];
        assert_eq!((at(&nodes, 3.9), at(&nodes, 4.0), at(&[], 1.0)), (7, 5, 0));
    }
}
