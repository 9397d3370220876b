//! `make bench-buffers`: the same CapacityBuffers on Karpenter and on Headroom; how many nodes each of them keeps.
//!
//! Each case has a pool of its own, by whose label its nodes are found, so that all run at once in one cluster. Both know one machine:
//! 4 CPUs and 16 GiB, of which 100m and 10Mi are kept for the node itself, as Karpenter's KWOK provider does.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use e2e::binaries::{self, repository};
use e2e::cluster::is_ready;
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{cluster_policy, deployment, pool};
use e2e::karpenter::{self, Karpenter};
use e2e::wait;
use serde_json::{Value, json};

/// The label of a node, and of the pods, that names the case.
const LABEL: &str = "example.com/case";
/// So long the numbers of nodes must not change: Karpenter looks at each buffer again every 30 s.
const STEADY: Duration = Duration::from_secs(40);
/// So long all pods may take to run.
const DEADLINE: Duration = Duration::from_secs(300);
/// What still changes after this time, once all pods run, is told by its bounds.
const PATIENCE: Duration = Duration::from_secs(110);
/// Most nodes by which the two may differ.
const TOLERANCE: usize = 1;

/// A workload that runs, and buffers beside it.
struct Case {
    says: &'static str,
    /// Replicas, CPU and memory of each pod.
    runs: Option<(u32, &'static str, &'static str)>,
    buffers: Vec<Buffer>,
}

/// A buffer's pods, or none for those of the workload, and its size.
struct Buffer {
    shape: Option<(&'static str, &'static str)>,
    size: Value,
}

/// A buffer of pods of this CPU and memory.
fn of(cpu: &'static str, memory: &'static str, size: Value) -> Buffer {
    Buffer { shape: Some((cpu, memory)), size }
}

/// A buffer of pods such as the workload's.
fn alike(size: Value) -> Buffer {
    Buffer { shape: None, size }
}

fn cases() -> Vec<Case> {
    let case = |says, runs, buffers| Case { says, runs, buffers };
    vec![
        case("replicas 1, 1 CPU", None, vec![of("1", "1Gi", json!({"replicas": 1}))]),
        case("replicas 7, 1 CPU", None, vec![of("1", "1Gi", json!({"replicas": 7}))]),
        case("replicas 20, 500m", None, vec![of("500m", "512Mi", json!({"replicas": 20}))]),
        case("replicas 3, a node each", None, vec![of("3500m", "4Gi", json!({"replicas": 3}))]),
        case("replicas 10, 5Gi", None, vec![of("100m", "5Gi", json!({"replicas": 10}))]),
        case("replicas 0", None, vec![of("1", "1Gi", json!({"replicas": 0}))]),
        case("larger than a node", None, vec![of("5", "1Gi", json!({"replicas": 2}))]),
        case("limits 5 CPU, 1 CPU", None, vec![of("1", "1Gi", json!({"limits": {"cpu": "5"}}))]),
        case("limits 40Gi, 4Gi", None, vec![of("500m", "4Gi", json!({"limits": {"memory": "40Gi"}}))]),
        case(
            "replicas 10, limits 4 CPU",
            None,
            vec![of("1", "1Gi", json!({"replicas": 10, "limits": {"cpu": "4"}}))],
        ),
        case(
            "two buffers",
            None,
            vec![of("1", "1Gi", json!({"replicas": 4})), of("2", "2Gi", json!({"replicas": 2}))],
        ),
        case(
            "three buffers",
            None,
            vec![
                of("3", "2Gi", json!({"replicas": 2})),
                of("900m", "1Gi", json!({"replicas": 2})),
                of("100m", "6Gi", json!({"replicas": 3})),
            ],
        ),
        case("3 pods leave room", Some((3, "500m", "1Gi")), vec![of("1", "1Gi", json!({"replicas": 2}))]),
        case("6 pods fill 2 nodes", Some((6, "1200m", "1Gi")), vec![of("1", "1Gi", json!({"replicas": 3}))]),
        case("10 pods, 50 %", Some((10, "1", "1Gi")), vec![alike(json!({"percentage": 50}))]),
        case("10 pods, 5 %", Some((10, "380m", "1Gi")), vec![alike(json!({"percentage": 5}))]),
        case("4 pods, 100 %", Some((4, "3", "1Gi")), vec![alike(json!({"percentage": 100}))]),
        case(
            "10 pods, 20 % or 6",
            Some((10, "1", "1Gi")),
            vec![alike(json!({"percentage": 20, "replicas": 6}))],
        ),
        case(
            "10 pods, 100 %, limits 3 CPU",
            Some((10, "1", "1Gi")),
            vec![alike(json!({"percentage": 100, "limits": {"cpu": "3"}}))],
        ),
        case(
            "5 pods, two buffers",
            Some((5, "700m", "2Gi")),
            vec![alike(json!({"replicas": 4})), of("1500m", "3Gi", json!({"replicas": 3}))],
        ),
    ]
}

#[tokio::main]
async fn main() -> Result<()> {
    let cases = cases();
    let theirs = on_karpenter(&cases).await.context("on Karpenter")?;
    let ours = on_headroom(&cases).await.context("on Headroom")?;
    println!("Karpenter {} with its KWOK provider, by `make bench-buffers`:\n", karpenter::version()?);
    println!("| case | Karpenter | Headroom |");
    println!("| --- | ---: | ---: |");
    let mut n_alike = 0;
    for (index, case) in cases.iter().enumerate() {
        let (theirs, ours) = (theirs[&name(index)], ours[&name(index)]);
        println!("| {} | {} | {} |", case.says, written(theirs), written(ours));
        let apart = theirs.1.saturating_sub(ours.0).max(ours.1.saturating_sub(theirs.0));
        n_alike += usize::from(apart <= TOLERANCE);
    }
    println!("\n{n_alike} of {} cases differ by {TOLERANCE} node or less.", cases.len());
    Ok(())
}

async fn on_karpenter(cases: &[Case]) -> Result<Counts> {
    let cluster = ControlPlane::start(Options::new()).await?;
    let karpenter = Karpenter::start(&cluster, &[("c-4", 4, 16)]).await?;
    for index in 0..cases.len() {
        let mut pool = karpenter::node_pool(&name(index), 4, 16);
        pool["spec"]["template"]["metadata"]["labels"][LABEL] = json!(name(index));
        karpenter.serve(&cluster, pool).await?;
    }
    let counts = settle(&cluster, cases).await;
    if counts.is_err() {
        eprintln!("{}", karpenter.process().log_tail(40));
    }
    counts
}

async fn on_headroom(cases: &[Case]) -> Result<Counts> {
    let cluster = ControlPlane::start(Options::new()).await?;
    cluster.install_crds(&repository().join("crds/optional")).await?;
    let operator = cluster.operator().binary(binaries::release_operator()?).start()?;
    operator.ready().await?;
    cluster.apply(cluster_policy(json!({"nodes": {"capacityBuffers": "All"}}))).await?;
    for index in 0..cases.len() {
        let pool = pool(&name(index)).quick_scale_down("30s").label(LABEL, &name(index));
        cluster.apply(pool.set("/spec/template/reserved", json!({"cpu": "100m", "memory": "10Mi"}))).await?;
    }
    let counts = settle(&cluster, cases).await;
    if counts.is_err() {
        eprintln!("{}", operator.process().log_tail(40));
    }
    counts
}

/// The least and the most nodes of each case over the last [`STEADY`].
type Counts = BTreeMap<String, (usize, usize)>;

/// Applies all cases and waits until the nodes no longer change, or no longer than [`PATIENCE`].
async fn settle(cluster: &ControlPlane, cases: &[Case]) -> Result<Counts> {
    for (index, case) in cases.iter().enumerate() {
        for object in objects(&name(index), case) {
            cluster.apply(object).await?;
        }
    }
    let n_pods = cases.iter().filter_map(|case| case.runs).map(|(replicas, ..)| replicas).sum::<u32>();
    wait::until("all pods run", DEADLINE, async || {
        cluster.running_pods_are("default", "", usize::try_from(n_pods)?).await
    })
    .await?;
    let started = Instant::now();
    let mut seen: Vec<(Instant, BTreeMap<String, usize>)> = Vec::new();
    loop {
        seen.push((Instant::now(), nodes_by_case(cluster).await?));
        seen.retain(|(at, _)| at.elapsed() <= STEADY);
        let is_steady = seen.windows(2).all(|pair| pair[0].1 == pair[1].1);
        let elapsed = started.elapsed();
        if STEADY < elapsed && (is_steady || PATIENCE < elapsed) {
            return Ok(bounds(&seen, cases.len()));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn bounds(seen: &[(Instant, BTreeMap<String, usize>)], n_cases: usize) -> Counts {
    let bounds_of = |case: &String| {
        let counts = seen.iter().map(|(_, counts)| counts.get(case).copied().unwrap_or_default());
        (counts.clone().min().unwrap_or_default(), counts.max().unwrap_or_default())
    };
    (0..n_cases).map(name).map(|case| (case.clone(), bounds_of(&case))).collect()
}

/// Ready nodes by their case. A node that is not ready errors no one: it is not counted yet.
async fn nodes_by_case(cluster: &ControlPlane) -> Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for node in cluster.nodes().await?.iter().filter(|node| is_ready(node)) {
        let labels = node.metadata.labels.as_ref();
        let case = labels.and_then(|labels| labels.get(LABEL)).context("a node of no case")?;
        *counts.entry(case.clone()).or_default() += 1;
    }
    Ok(counts)
}

fn objects(name: &str, case: &Case) -> Vec<Value> {
    let mut objects = Vec::new();
    if let Some((replicas, cpu, memory)) = case.runs {
        let workload = deployment(name).replicas(replicas).requests(cpu, memory).node_selector(LABEL, name);
        objects.push(workload.into());
    }
    for (number, buffer) in case.buffers.iter().enumerate() {
        let name_of_buffer = format!("{name}-{number}");
        let mut spec = buffer.size.clone();
        if let Some((cpu, memory)) = buffer.shape {
            objects.push(template(&name_of_buffer, name, cpu, memory));
            spec["podTemplateRef"] = json!({"name": name_of_buffer});
        } else {
            spec["scalableRef"] = json!({"apiGroup": "apps", "kind": "Deployment", "name": name});
        }
        objects.push(json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1",
            "kind": "CapacityBuffer",
            "metadata": {"name": name_of_buffer, "namespace": "default"},
            "spec": spec,
        }));
    }
    objects
}

fn template(name: &str, case: &str, cpu: &str, memory: &str) -> Value {
    let requests = json!({"cpu": cpu, "memory": memory});
    let container = json!({"name": "main", "image": "example/none", "resources": {"requests": requests}});
    json!({
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [container], "nodeSelector": {LABEL: case}},
        },
    })
}

fn name(index: usize) -> String {
    format!("case-{}", index + 1)
}

/// One number, or both bounds of one that changes.
fn written((least, most): (usize, usize)) -> String {
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}
