//! `make bench-hpa`: many HPAs on a real control plane, run by the controller-manager and by the operator, one after the
//! other on the same objects; how late each workload is looked at, and what that costs.
//!
//! Lateness is measured from outside for both: the time between two evaluations of one workload, less the period of 15
//! s. An evaluation by the controller-manager is its read of the scale, in the audit log; the operator reads no scale
//! (it watches), so its own evaluation is its log's line, with the log's time.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, ValueEnum};
use e2e::audit::Writes;
use e2e::control_plane::{Component, ControlPlane, Options};
use e2e::fixtures::{cluster_policy, deployment, node};
use e2e::operator::Operator;
use e2e::process::Process;
use e2e::workloads::scaling_policy;
use e2e::{binaries, cluster, wait};
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};

/// The period in which each workload is looked at.
const PERIOD_SECONDS: f64 = 15.0;
/// The period of those that have one of their own.
const QUICK_PERIOD_SECONDS: u32 = 2;
/// Beginning of the names of their policies.
const QUICK: &str = "quick-";
/// Beginning of the names of the workloads whose server never answers.
const HANGING: &str = "hanging-";
/// Pods on one node.
const PODS_PER_NODE: u32 = 100;
/// Objects that are created at once.
const CREATES_AT_ONCE: usize = 16;
/// Longest wait for the pods to run and for the first look at each workload.
const DEADLINE: Duration = Duration::from_secs(900);

/// Measures HPAs on a real control plane.
#[derive(Debug, Parser)]
struct Args {
    /// Number of HPAs, each with a Deployment of its own.
    #[arg(long, default_value_t = 1000)]
    hpas: u32,
    /// Pods of each Deployment.
    #[arg(long, default_value_t = 3)]
    pods_each: u32,
    /// Number of those HPAs that the operator looks at every 2 s, by a policy of their own.
    #[arg(long, default_value_t = 0)]
    quick: u32,
    /// Number of more workloads of the operator, whose only metric is asked of a server that accepts connections and never answers.
    #[arg(long, default_value_t = 0)]
    hanging: u32,
    /// Length of the measurement, in seconds, after every workload was looked at.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Number of replicas of the operator; more than one have shards, twice as many as replicas.
    #[arg(long, default_value_t = 1)]
    replicas: u16,
    /// Number of namespaces that the HPAs are divided among; a shard has whole namespaces.
    #[arg(long, default_value_t = 1)]
    namespaces: u32,
    /// Controller that runs the HPAs.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Who::ControllerManager, Who::Operator])]
    modes: Vec<Who>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Who {
    /// The controller-manager's HPA controller, its client limit raised from 20 to 500 requests/s.
    ControllerManager,
    /// The operator, with `hpaOwnership: Replace`.
    Operator,
}

/// Result of one run.
struct Measured {
    who: Who,
    /// Seconds that each look was late, sorted.
    lateness: Vec<f64>,
    /// The same of those with a period of their own.
    quick_lateness: Vec<f64>,
    /// CPU seconds a second: of who runs the HPAs, and of the API server, both above what they used before the HPAs came.
    cores: f64,
    /// Of the operator, of each of its replicas.
    replicas: Vec<Replica>,
    api_server_cores: f64,
    peak_memory_bytes: u64,
    /// Requests a second by verb and resource.
    requests: BTreeMap<String, f64>,
}

/// One replica of the operator.
struct Replica {
    cores: f64,
    /// Workloads that it has looked at.
    workloads: usize,
    /// Seconds that each of its looks was late, sorted.
    lateness: Vec<f64>,
    peak_memory_bytes: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    if args.modes.contains(&Who::Operator) {
        binaries::release_operator()?;
    }
    let mut runs = Vec::new();
    for &who in &args.modes {
        eprintln!("{} HPAs, {} pods, {who:?}: starting", args.hpas, args.hpas * args.pods_each);
        runs.push(measure(&args, who).await.with_context(|| format!("{who:?}"))?);
    }
    print_tables(&args, &runs);
    print_verdicts(&runs);
    Ok(())
}

async fn measure(args: &Args, who: Who) -> Result<Measured> {
    let mut options = Options::new().with_metrics_server().with_reads_audited();
    if who == Who::Operator {
        options = options.without_hpa_controller();
    }
    let cluster = ControlPlane::start(options).await?;
    // Its backlog takes connections, and nobody reads them.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    put_nodes(&cluster, (args.hpas * args.pods_each + args.hanging).div_ceil(PODS_PER_NODE)).await?;
    for number in 1..args.namespaces {
        let metadata = json!({"name": namespace(number, args.namespaces)});
        cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).await?;
    }
    let placed = |number: u32, mut object: Value| {
        object["metadata"]["namespace"] = namespace(number, args.namespaces).into();
        object
    };
    create_all(&cluster, args.hpas, |number| placed(number, load(&name(number), args.pods_each))).await?;
    wait::until("all pods run", DEADLINE, async || {
        let count = usize::try_from(args.hpas * args.pods_each)?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        pods_run(&cluster, count).await
    })
    .await?;
    let operators = match who {
        Who::ControllerManager => Vec::new(),
        Who::Operator => start_operators(&cluster, &silent, args.replicas).await?,
    };
    eprintln!("{who:?}: the pods run; what everything costs without HPAs is measured");
    let workers: Vec<&Process> = match who {
        Who::Operator => operators.iter().map(Operator::process).collect(),
        Who::ControllerManager => vec![cluster.component(Component::ControllerManager)?],
    };
    let api_server = cluster.component(Component::ApiServer)?;
    let length = Duration::from_secs(args.seconds);
    let before = cost(&workers, api_server, Duration::from_secs(30.min(args.seconds))).await?;

    if who == Who::Operator {
        // Before the HPAs: a policy that comes later finds that the operator has made one.
        create_all(&cluster, args.quick, quick_policy).await?;
        create_all(&cluster, args.hanging, |number| load(&hanging(number), 1)).await?;
        create_all(&cluster, args.hanging, hanging_policy).await?;
    }
    create_all(&cluster, args.hpas, |number| placed(number, autoscaler(number))).await?;
    wait::until("every HPA has a status", DEADLINE, async || {
        tokio::time::sleep(Duration::from_secs(5)).await;
        every_hpa_is_active(&cluster, args.hpas).await
    })
    .await?;
    eprintln!("{who:?}: every HPA is run; measuring for {} s", args.seconds);
    // Looks in the first period after the last HPA came still fall into step.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let start = Timestamp::now();
    let during = cost(&workers, api_server, length).await?;

    let calls = cluster.calls()?.since(start);
    let calls = match who {
        Who::ControllerManager => calls.by_agent_part("horizontal-pod-autoscaler"),
        Who::Operator => calls.by(e2e::control_plane::User::Headroom),
    };
    let each: Vec<Looks> = operators.iter().map(|one| looks_in_log(&one.log(), start)).collect();
    let mut looks = if operators.is_empty() { looks_in_calls(&calls) } else { together(&each) };
    looks.retain(|name, _| !name.contains(HANGING));
    ensure!(looks.len() == usize::try_from(args.hpas)?, "only {} workloads were looked at", looks.len());
    let (quick, usual): (Looks, Looks) = looks.into_iter().partition(|(name, _)| name.contains(QUICK));
    let replica = |(index, looks): (usize, &Looks)| -> Result<Replica> {
        let peak_memory_bytes = workers[index].peak_memory_bytes()?;
        let lateness = lateness(looks, PERIOD_SECONDS);
        Ok(Replica { cores: during.0[index], workloads: looks.len(), lateness, peak_memory_bytes })
    };
    let peaks: Result<Vec<u64>> = workers.iter().map(|worker| worker.peak_memory_bytes()).collect();
    let idle: f64 = if who == Who::Operator { 0.0 } else { before.0.iter().sum() };
    Ok(Measured {
        who,
        replicas: each.iter().enumerate().map(replica).collect::<Result<_>>()?,
        lateness: lateness(&usual, PERIOD_SECONDS),
        quick_lateness: lateness(&quick, f64::from(QUICK_PERIOD_SECONDS)),
        cores: during.0.iter().sum::<f64>() - idle,
        api_server_cores: during.1 - before.1,
        peak_memory_bytes: peaks?.into_iter().max().unwrap_or(0),
        requests: rates(&calls, length),
    })
}

/// CPU seconds a second over `length`: of each worker, and of the API server.
async fn cost(workers: &[&Process], api_server: &Process, length: Duration) -> Result<(Vec<f64>, f64)> {
    let used = || workers.iter().map(|worker| worker.cpu_seconds()).collect::<Result<Vec<f64>>>();
    let (start, first, server) = (Instant::now(), used()?, api_server.cpu_seconds()?);
    tokio::time::sleep(length).await;
    let seconds = start.elapsed().as_secs_f64();
    let rates = used()?.iter().zip(first).map(|(now, first)| (now - first) / seconds).collect();
    Ok((rates, (api_server.cpu_seconds()? - server) / seconds))
}

/// `silent` never answers.
async fn start_operators(
    cluster: &ControlPlane,
    silent: &TcpListener,
    replicas: u16,
) -> Result<Vec<Operator>> {
    let shortest = format!("{QUICK_PERIOD_SECONDS}s");
    let url = format!("http://{}", silent.local_addr()?);
    let sources = json!([{"name": "silent", "prometheus": {"url": url}}]);
    let workloads = json!({"hpaOwnership": "Replace", "minSyncPeriod": shortest, "metricSources": sources});
    cluster.apply(cluster_policy(json!({"workloads": workloads}))).await?;
    let mut operators = Vec::new();
    for number in 0..replicas {
        let mut operator = cluster
            .operator()
            .identity(&format!("headroom-{number}"))
            .binary(binaries::release_operator()?)
            // A line for each look.
            .env("RUST_LOG", "info,headroom_operator::controllers::workloads=debug");
        if 1 < replicas {
            operator = operator.flag(&format!("--workload-shards={}", 2 * replicas));
        }
        let operator = operator.start()?;
        operator.ready().await?;
        operators.push(operator);
    }
    Ok(operators)
}

/// A Deployment whose pods use what their HPA wants, give or take nothing: its size never changes.
fn load(name: &str, pods: u32) -> Value {
    deployment(name)
        .replicas(pods)
        .requests("100m", "64Mi")
        .pod_annotation("kwok.x-k8s.io/usage-cpu", "60m")
        .pod_annotation("kwok.x-k8s.io/usage-memory", "32Mi")
        .into()
}

fn autoscaler(number: u32) -> Value {
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name(number), "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name(number)},
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 60}}}],
        },
    })
}

/// The policy of an HPA that is looked at more often.
fn quick_policy(number: u32) -> Value {
    json!({
        "apiVersion": "headroom.dev/v1alpha1",
        "kind": "ScalingPolicy",
        "metadata": {"name": format!("{QUICK}{}", name(number)), "namespace": "default"},
        "spec": {
            "target": {"type": "HPA", "hpa": {"name": name(number)}},
            "timing": {"syncPeriod": format!("{QUICK_PERIOD_SECONDS}s")},
        },
    })
}

/// The policy of a Deployment whose server never answers.
fn hanging_policy(number: u32) -> Value {
    let name = hanging(number);
    let mut policy = scaling_policy(&name, &name, 10);
    policy["spec"]["metrics"] = json!([{"type": "Prometheus", "prometheus": {"source": "silent", "query": "sum(load)",
        "target": {"type": "AverageValue", "averageValue": "1"}}}]);
    policy
}

/// The namespace of a workload.
fn namespace(number: u32, count: u32) -> String {
    match number % count.max(1) {
        0 => "default".to_owned(),
        part => format!("team-{part:03}"),
    }
}

fn hanging(number: u32) -> String {
    format!("{HANGING}{number:05}")
}

fn name(number: u32) -> String {
    format!("w-{number:05}")
}

async fn create_all(cluster: &ControlPlane, count: u32, object: impl Fn(u32) -> Value) -> Result<()> {
    let creates = (0..count).map(|number| cluster.create(object(number)));
    futures::stream::iter(creates).buffer_unordered(CREATES_AT_ONCE).try_for_each(async |_| Ok(())).await
}

async fn put_nodes(cluster: &ControlPlane, count: u32) -> Result<()> {
    for number in 0..count {
        cluster.apply(node(&format!("n-{number}"), "64", "256Gi")).await?;
    }
    wait::until("all nodes are ready", DEADLINE, async || {
        let n_ready = cluster.nodes().await?.iter().filter(|node| cluster::is_ready(node)).count();
        ensure!(u32::try_from(n_ready)? == count, "{n_ready} of {count} are");
        Ok(())
    })
    .await
}

async fn pods_run(cluster: &ControlPlane, count: usize) -> Result<()> {
    let api: Api<PartialObjectMeta<Pod>> = Api::all(cluster.client());
    let running = ListParams::default().fields("status.phase=Running,metadata.namespace!=kube-system");
    let found = api.list(&running).await?.items.len();
    ensure!(found == count, "{found} of {count} pods run");
    Ok(())
}

async fn every_hpa_is_active(cluster: &ControlPlane, count: u32) -> Result<()> {
    let api: Api<HorizontalPodAutoscaler> = Api::all(cluster.client());
    let hpas = api.list(&ListParams::default()).await?.items;
    let active = hpas.iter().filter(|hpa| {
        let conditions = hpa.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "ScalingActive" && c.status == "True"))
    });
    let n_active = active.count();
    ensure!(u32::try_from(n_active)? == count, "{n_active} of {count} are ScalingActive");
    Ok(())
}

/// Times at which each workload was evaluated.
type Looks = BTreeMap<String, Vec<Timestamp>>;

fn looks_in_calls(calls: &Writes) -> Looks {
    let mut looks = Looks::new();
    for call in &calls.clone().to("deployments/scale").with_verb("get").0 {
        looks.entry(call.name.clone()).or_default().push(call.received_at);
    }
    looks
}

/// The looks of all replicas: a workload that has changed hands has those of both.
fn together(each: &[Looks]) -> Looks {
    let mut all = Looks::new();
    for (name, times) in each.iter().flatten() {
        all.entry(name.clone()).or_default().extend(times);
    }
    all.values_mut().for_each(|times| times.sort());
    all
}

/// Lines such as `2026-11-21T15:00:00.123Z DEBUG headroom::…: looking workload=default/w-1 late_ms=3`.
fn looks_in_log(log: &str, start: Timestamp) -> Looks {
    let mut looks = Looks::new();
    for line in log.lines().filter(|line| line.contains("looking workload=")) {
        let at = line.split_whitespace().next().and_then(|text| text.parse::<Timestamp>().ok());
        let workload = line.split("workload=").nth(1).and_then(|rest| rest.split_whitespace().next());
        if let (Some(at), Some(workload)) = (at.filter(|at| start <= *at), workload) {
            looks.entry(workload.to_owned()).or_default().push(at);
        }
    }
    looks
}

/// Seconds by which looks came later than a period, in seconds, after the one before, sorted; a look that came earlier counts as 0.
fn lateness(looks: &Looks, period: f64) -> Vec<f64> {
    let mut late: Vec<f64> = looks
        .values()
        .flat_map(|times| times.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs_f64()))
        .map(|gap| (gap - period).max(0.0))
        .collect();
    late.sort_by(f64::total_cmp);
    late
}

/// The value that `percent` of the sorted ones do not pass.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

fn rates(calls: &Writes, length: Duration) -> BTreeMap<String, f64> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for call in &calls.0 {
        let slash = if call.subresource.is_empty() { "" } else { "/" };
        *counts.entry(format!("{} {}{slash}{}", call.verb, call.resource, call.subresource)).or_default() +=
            1;
    }
    counts.into_iter().map(|(what, n)| (what, f64::from(n) / length.as_secs_f64())).collect()
}

fn print_tables(args: &Args, runs: &[Measured]) {
    println!("{} HPAs, {} pods, measured for {} s", args.hpas, args.hpas * args.pods_each, args.seconds);
    println!(
        "| run by | late p50 (ms) | late p99 (ms) | requests/s | CPU (cores) | API server (cores) | peak memory (MB) |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for run in runs {
        let who = match run.who {
            Who::ControllerManager => "controller-manager",
            Who::Operator => "**Headroom**",
        };
        let (p50, p99) = (percentile(&run.lateness, 50) * 1e3, percentile(&run.lateness, 99) * 1e3);
        let requests: f64 = run.requests.values().sum();
        println!(
            "| {who} | {p50:.0} | {p99:.0} | {requests:.1} | {:.3} | {:.3} | {} |",
            run.cores,
            run.api_server_cores,
            run.peak_memory_bytes / 1_000_000
        );
    }
    print_replicas(runs);
    println!();
    println!("| run by | request | a second |");
    println!("| --- | --- | ---: |");
    for run in runs {
        for (what, rate) in &run.requests {
            println!("| {:?} | {what} | {rate:.2} |", run.who);
        }
    }
}

/// The replicas of the operator, where it has more than one.
fn print_replicas(runs: &[Measured]) {
    for run in runs.iter().filter(|run| 1 < run.replicas.len()) {
        println!();
        println!("| replica | workloads | late p50 (ms) | late p99 (ms) | CPU (cores) | peak memory (MB) |");
        println!("| --- | ---: | ---: | ---: | ---: | ---: |");
        for (index, Replica { cores, workloads, lateness, peak_memory_bytes }) in
            run.replicas.iter().enumerate()
        {
            let (p50, p99) = (percentile(lateness, 50) * 1e3, percentile(lateness, 99) * 1e3);
            let memory = peak_memory_bytes / 1_000_000;
            println!("| headroom-{index} | {workloads} | {p50:.0} | {p99:.0} | {cores:.3} | {memory} |");
        }
    }
}

/// Prints the wanted values of the operator beside the measured ones: of it alone, and against the controller-manager
/// where both ran.
fn print_verdicts(runs: &[Measured]) {
    let of = |who| runs.iter().find(|run| run.who == who);
    let Some(ours) = of(Who::Operator) else { return };
    let total = |run: &Measured| run.requests.values().sum::<f64>();
    let mut rows = vec![("late p99 (s)", percentile(&ours.lateness, 99), 1.0)];
    if !ours.quick_lateness.is_empty() {
        rows.push(("late p99 (s), every 2 s", percentile(&ours.quick_lateness, 99), 0.1));
    }
    if 1 < ours.replicas.len() {
        let most = ours.replicas.iter().map(|replica| replica.cores).fold(0.0, f64::max);
        rows.push(("CPU of the busiest replica (cores)", most, 0.1));
    }
    if let Some(theirs) = of(Who::ControllerManager) {
        rows.push(("requests, part of the controller-manager's", total(ours) / total(theirs), 0.2));
        rows.push(("CPU, part of the controller-manager's", ours.cores / theirs.cores, 0.25));
    }
    println!();
    println!("| wanted of Headroom | measured | at most | held |");
    println!("| --- | ---: | ---: | --- |");
    for (what, measured, most) in rows {
        let held = if measured <= most { "yes" } else { "no" };
        println!("| {what} | {measured:.3} | {most} | {held} |");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn late_is_what_passes_the_period_between_two_looks() {
        let looks = Looks::from([
            ("a".to_owned(), vec![at(0), at(15), at(31)]),
            ("b".to_owned(), vec![at(3), at(17)]),
            ("c".to_owned(), vec![at(4)]),
        ]);
        assert_eq!(lateness(&looks, PERIOD_SECONDS), [0.0, 0.0, 1.0]);
        assert_eq!((percentile(&[0.0, 0.0, 1.0], 50), percentile(&[0.0, 0.0, 1.0], 99)), (0.0, 1.0));
    }

    #[test]
    fn looks_are_read_from_the_operators_log() {
        let log = "2026-11-21T15:00:00.5Z DEBUG headroom_operator::controllers::workloads: looking workload=default/w-1 late_ms=3\n\
            2026-11-21T15:00:01Z  INFO headroom: other\n\
            2026-11-21T15:00:15.5Z DEBUG headroom_operator::controllers::workloads: looking workload=default/w-1 late_ms=0\n";
        let looks = looks_in_log(log, "2026-11-21T15:00:01Z".parse().unwrap());
        assert_eq!(
            looks.into_iter().map(|(name, times)| (name, times.len())).collect::<Vec<_>>(),
            [("default/w-1".to_owned(), 1)]
        );
    }
}
