//! `make bench-machines`: fifty mixes of pods, each bought for from the same list of machines by Karpenter and by Headroom; what the
//! machines cost an hour that are there once all pods run.
//!
//! Each mix has a pool of its own, by whose label its nodes and pods are found. Karpenter's machines are those of its KWOK provider.
//! Headroom's are Auto Scaling groups that it makes at a simulated AWS, which describes the types as AWS does. Prices are those on
//! demand in us-east-1, for both from the table below, and pods get the same part of a machine of both, which both know before. Nothing
//! is removed or consolidated.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use e2e::aws::{Bed, allocatable, seen_mib};
use e2e::binaries;
use e2e::cluster::is_ready;
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{Pool, deployment, pool};
use e2e::karpenter::{self, Karpenter, Machine};
use e2e::wait;
use serde_json::{Value, json};

/// The label of a node, and of the pods, that names the mix.
const LABEL: &str = "example.com/mix";
/// So long the pods of one batch may take to run.
const DEADLINE: Duration = Duration::from_secs(600);
/// Part of a machine's memory that its hypervisor keeps: what Headroom supposes of types that it has not seen, as Karpenter does on AWS.
const KEPT_PERMILLE: u64 = 75;
/// Mixes that are there at once.
const BATCH: usize = 10;

/// Families: price of a CPU for an hour in millionths of a dollar, and memory of a CPU in GiB. On demand, Linux, us-east-1, 19 January
/// 2026, as in the operator's own list.
const FAMILIES: [(&str, u32, u64); 18] = [
    ("c5", 42_500, 2),
    ("c5a", 38_500, 2),
    ("c6a", 38_250, 2),
    ("c6i", 42_500, 2),
    ("c7a", 51_320, 2),
    ("c7i", 44_625, 2),
    ("m5", 48_000, 4),
    ("m5a", 43_000, 4),
    ("m6a", 43_200, 4),
    ("m6i", 48_000, 4),
    ("m7a", 57_960, 4),
    ("m7i", 50_400, 4),
    ("r5", 63_000, 8),
    ("r5a", 56_500, 8),
    ("r6a", 56_700, 8),
    ("r6i", 63_000, 8),
    ("r7a", 76_075, 8),
    ("r7i", 66_150, 8),
];

/// Sizes with their CPUs, and the pods that the VPC plugin has addresses for.
const SIZES: [(&str, u32, u32); 5] =
    [("large", 2, 29), ("xlarge", 4, 58), ("2xlarge", 8, 58), ("4xlarge", 16, 234), ("8xlarge", 32, 234)];

/// Compares what Karpenter and Headroom buy for the same pods.
#[derive(Parser)]
struct Flags {
    /// Number of mixes, at most 999.
    #[arg(long, default_value_t = 50)]
    mixes: usize,
    /// Seed of the first mix.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Pods of one size.
struct Pods {
    replicas: u32,
    cpu_milli: u32,
    memory_mib: u32,
}

/// One to five kinds of pods, from an eighth of a core to six.
fn mix(seed: u64) -> Vec<Pods> {
    let mut random = fastrand::Rng::with_seed(seed);
    let kinds = random.usize(1..=5);
    (0..kinds)
        .map(|_| {
            let cpu_milli = [125, 250, 500, 750, 1000, 1500, 2000, 3000, 6000][random.usize(0..9)];
            let mib_for_core = [512, 1024, 2048, 4096, 7168][random.usize(0..5)];
            let replicas = random.u32(1..=(24_000 / cpu_milli).min(30));
            Pods { replicas, cpu_milli, memory_mib: cpu_milli * mib_for_core / 1000 }
        })
        .collect()
}

fn name(index: usize) -> String {
    format!("mix-{index:03}")
}

fn deployments(index: usize, seed: u64) -> Vec<Value> {
    let kinds = mix(seed + index as u64).into_iter().enumerate();
    kinds
        .map(|(number, pods)| {
            deployment(&format!("{}-{number}", name(index)))
                .replicas(pods.replicas)
                .requests(&format!("{}m", pods.cpu_milli), &format!("{}Mi", pods.memory_mib))
                .node_selector(LABEL, &name(index))
                .into()
        })
        .collect()
}

fn machines() -> Vec<Machine> {
    let of_family = |(family, micros, gib): &(&str, u32, u64)| {
        let (family, micros, gib) = (*family, *micros, *gib);
        SIZES.map(|(size, cpus, pods)| {
            let seen_mib = seen_mib(u64::from(cpus) * gib * 1024, KEPT_PERMILLE);
            let (cpu_milli, memory_mib) = allocatable(cpus, seen_mib, pods);
            Machine {
                name: format!("{family}.{size}"),
                // What its KWOK provider keeps for itself.
                cpu_milli: cpu_milli + 100,
                memory_mib: memory_mib + 10,
                pods,
                price: f64::from(cpus * micros) / 1e6,
            }
        })
    };
    FAMILIES.iter().flat_map(of_family).collect()
}

/// Nodes of each mix by their type, once all pods run.
type Bought = BTreeMap<String, BTreeMap<String, usize>>;

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    let theirs = on_karpenter(&flags).await.context("on Karpenter")?;
    let ours = on_headroom(&flags).await.context("on Headroom")?;
    print(&flags, &theirs, &ours)
}

fn print(flags: &Flags, theirs: &Bought, ours: &Bought) -> Result<()> {
    let prices: BTreeMap<String, f64> =
        machines().into_iter().map(|machine| (machine.name, machine.price)).collect();
    let cost = |bought: &BTreeMap<String, usize>| {
        let each = bought.iter().map(|(name, count)| prices.get(name).map(|price| price * *count as f64));
        each.sum::<Option<f64>>().context("a machine that is not in the list was bought")
    };
    println!("Karpenter {} with its KWOK provider, by `make bench-machines`:\n", karpenter::version()?);
    println!("| mix | pods | CPUs asked | Karpenter, an hour | Headroom, an hour | ratio |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: |");
    let (mut sums, mut dearer) = ((0.0, 0.0), 0);
    for index in 0..flags.mixes {
        let pods = mix(flags.seed + index as u64);
        let asked: u32 = pods.iter().map(|pods| pods.replicas * pods.cpu_milli).sum();
        let count: u32 = pods.iter().map(|pods| pods.replicas).sum();
        let (theirs, ours) = (cost(&theirs[&name(index)])?, cost(&ours[&name(index)])?);
        sums = (sums.0 + theirs, sums.1 + ours);
        dearer += usize::from(theirs + 1e-9 < ours);
        let ratio = ours / theirs;
        let asked = f64::from(asked) / 1e3;
        println!("| {} | {count} | {asked:.1} | {theirs:.3} | {ours:.3} | {ratio:.2} |", index + 1);
    }
    let ratio = sums.1 / sums.0;
    println!("| all | | | {:.3} | {:.3} | {ratio:.3} |", sums.0, sums.1);
    println!("\nHeadroom pays more in {dearer} of {} mixes.", flags.mixes);
    Ok(())
}

async fn on_karpenter(flags: &Flags) -> Result<Bought> {
    let cluster = ControlPlane::start(Options::new()).await?;
    let karpenter = Karpenter::start_with(&cluster, &machines()).await?;
    let mut bought = Bought::new();
    for batch in batches(flags) {
        for index in &batch {
            let mut pool = karpenter::node_pool_of_all_types(&name(*index));
            pool["spec"]["template"]["metadata"]["labels"][LABEL] = json!(name(*index));
            pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
            karpenter.serve(&cluster, pool).await?;
        }
        let settled = settle(&cluster, &batch, flags.seed).await;
        bought.extend(settled.inspect_err(|_| eprintln!("{}", karpenter.process().log_tail(40)))?);
    }
    Ok(bought)
}

async fn on_headroom(flags: &Flags) -> Result<Bought> {
    let bed = Bed::start().await?;
    bed.aws.launch_template("nodes").await?;
    let subnet = bed.aws.subnet("us-east-1a").await?;
    bed.bridge.keeps(KEPT_PERMILLE);
    let operator = bed.cluster.operator().aws(&bed.aws).binary(binaries::release_operator()?).start()?;
    operator.ready().await?;
    let mut bought = Bought::new();
    for batch in batches(flags) {
        for index in &batch {
            bed.bridge.label(&format!("headroom-prod-{}-", name(*index)), LABEL, &name(*index));
            bed.cluster.apply(managed(*index, &subnet)).await?;
        }
        let settled = settle(&bed.cluster, &batch, flags.seed).await;
        bought.extend(settled.inspect_err(|_| eprintln!("{}", operator.process().log_tail(40)))?);
        bed.bridge.check()?;
        for index in &batch {
            // Its groups and nodes stay, as they do for users.
            bed.cluster.kubectl(&["delete", "nodepools.headroom.dev", &name(*index)])?;
        }
    }
    Ok(bought)
}

fn managed(index: usize, subnet: &str) -> Pool {
    let only = |key: &str, values: Value| json!({"key": key, "operator": "In", "values": values});
    let prices = FAMILIES.map(|(family, micros, _)| {
        let price = format!("{:.6}", f64::from(micros) / 1e6);
        json!({"instanceType": format!("{family}.*"), "perCpuHour": price})
    });
    let managed = json!({
        "launchTemplate": {"name": "nodes"},
        "subnets": [{"id": subnet}],
        "requirements": [
            only("karpenter.k8s.aws/instance-family", FAMILIES.map(|(family, ..)| family).into()),
            only("karpenter.k8s.aws/instance-cpu", SIZES.map(|(_, cpus, _)| cpus.to_string()).into()),
        ],
        "prices": prices,
    });
    pool(&name(index))
        .nodes(0, 200)
        .set("/spec/provider", json!({"type": "AWS", "aws": {"clusterName": "prod", "managed": managed}}))
        .set("/spec/template", json!({"labels": {LABEL: name(index)}}))
        .set("/spec/scaleDown", json!({"enabled": false}))
}

fn batches(flags: &Flags) -> Vec<Vec<usize>> {
    (0..flags.mixes).collect::<Vec<_>>().chunks(BATCH).map(<[usize]>::to_vec).collect()
}

/// Applies the mixes of a batch, and returns their nodes once all pods run. The pods are deleted.
async fn settle(cluster: &ControlPlane, batch: &[usize], seed: u64) -> Result<Bought> {
    let all: Vec<Value> = batch.iter().flat_map(|index| deployments(*index, seed)).collect();
    for object in &all {
        cluster.apply(object.clone()).await?;
    }
    let replicas = |object: &Value| object["spec"]["replicas"].as_u64();
    let wanted: u64 = all.iter().filter_map(replicas).sum();
    wait::until("all pods run", DEADLINE, async || {
        cluster.running_pods_are("default", "", usize::try_from(wanted)?).await
    })
    .await?;
    let mut bought = Bought::new();
    for node in cluster.nodes().await? {
        let label = |key: &str| node.metadata.labels.as_ref()?.get(key).cloned();
        let (Some(mix), Some(type_)) = (label(LABEL), label("node.kubernetes.io/instance-type")) else {
            continue;
        };
        if batch.iter().any(|index| name(*index) == mix) {
            ensure!(is_ready(&node), "a node of {mix} is not ready");
            *bought.entry(mix).or_default().entry(type_).or_default() += 1;
        }
    }
    for object in &all {
        let app = object["metadata"]["name"].as_str().unwrap_or_default();
        cluster.kubectl(&["delete", "deployment", app, "--wait=false"])?;
    }
    wait::until("no pod is left", DEADLINE, async || cluster.running_pods_are("default", "", 0).await)
        .await?;
    Ok(bought)
}
