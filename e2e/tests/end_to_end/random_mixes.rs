//! Random mixes of pods, each with pools of its own: every pod that fits a pool runs, each node was bought for pods, nearly
//! every one has a pod in the end, and one that has none goes by itself.
//!
//! Nearly: a plan does not bind the scheduler. Where pods that may go anywhere take up nodes of the zone that others must
//! go to, those others need one more there, and the node that was bought for the former stays empty. In mix 10, four pods
//! are tied to zone b, each of which fills most of a small node, and five may go anywhere: four nodes are bought in b, and
//! three in a and c. If one in b is ready first, the scheduler puts two of the five there, as it may; then the fourth of b
//! needs a fifth node there, and one in a, already launched, gets nothing. So few nodes may: none to four of some 250 to
//! 270, and none to four of 70 to 75 of the quick run, in the runs that were counted.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{Pool, Workload, deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

/// The seeds of all mixes.
const SEEDS: std::ops::Range<u64> = 0..50;
/// Of the quick run: every so many.
const QUICK_STEP: usize = 5;
/// Mixes that are under way at once: the machine is shared with a whole control plane.
const AT_ONCE: usize = 10;
/// Most nodes without a pod when all pods run: of some 260, and of some 70.
const EMPTY_MAX: usize = 8;
const EMPTY_MAX_OF_QUICK: usize = 5;
const THREE_MINUTES: Duration = Duration::from_secs(180);
const SEED: &str = "example.com/seed";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

#[tokio::test]
async fn pods_that_fit_a_pool_run_and_no_node_is_kept_in_vain() {
    run(SEEDS.step_by(QUICK_STEP), EMPTY_MAX_OF_QUICK).await;
}

#[tokio::test]
#[ignore = "more of the same, for make soak"]
async fn soak_of_fifty_mixes() {
    run(SEEDS, EMPTY_MAX).await;
}

async fn run(seeds: impl Iterator<Item = u64>, empty_max: usize) {
    let seeds: Vec<u64> = seeds.collect();
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let mut mixes = Vec::new();
        for some in seeds.chunks(AT_ONCE) {
            let begun = mixes.len();
            for seed in some {
                mixes.push(apply_mix(cluster, *seed).await?);
            }
            for mix in &mixes[begun..] {
                runs(cluster, mix).await?;
            }
        }
        nothing_is_coming(cluster).await?;
        let (mut nodes, mut empty) = (0, Vec::new());
        for mix in &mixes {
            let (own, without_a_pod) = look_at_nodes(cluster, mix).await?;
            nodes += own;
            empty.push(without_a_pod);
        }
        let names = empty.concat();
        println!("{} of {nodes} nodes have no pod: {names:?}", names.len());
        ensure!(names.len() <= empty_max, "{} of {nodes} have no pod: {names:?}", names.len());
        for (mix, empty) in mixes.iter().zip(empty) {
            if !empty.is_empty() {
                empty_nodes_go(cluster, mix).await?;
            }
        }
        for mix in &mixes {
            runs(cluster, mix).await?;
        }
        operator.process().check_running()
    })
    .await;
}

/// A mix as it was applied.
struct Mix {
    seed: u64,
    /// Pods that can run.
    pods: usize,
    pools: [Pool; 2],
}

/// Applies two pools and a few Deployments. One Deployment in eight fits no pool.
async fn apply_mix(cluster: &ControlPlane, seed: u64) -> Result<Mix> {
    let mut random = fastrand::Rng::with_seed(seed);
    let word = seed.to_string();
    let small = pool(&format!("s{seed}-small")).label(SEED, &word).nodes(0, 30);
    let large = pool(&format!("s{seed}-large")).label(SEED, &word).capacity("16", "64Gi").nodes(0, 30);
    let small = small.zones(&["a", "b", "c"]);
    let large = if random.bool() { large.taint("dedicated", "large") } else { large.zones(&["b", "c"]) };
    let mut mix = Mix { seed, pods: 0, pools: [small, large] };
    for pool in &mix.pools {
        cluster.apply(pool.clone()).await?;
    }
    for number in 0..random.usize(2..5) {
        let name = format!("s{seed}-{number}");
        let replicas = random.u32(1..6);
        let fits = random.u8(0..8) != 0;
        let cpu = if fits { format!("{}m", 250 * random.u32(1..14)) } else { "64".to_owned() };
        let memory = format!("{}Mi", 512 * random.u32(1..24));
        let made = deployment(&name).replicas(replicas).requests(&cpu, &memory);
        let made = made.pod_label("seed", &word).node_selector(SEED, &word);
        cluster.apply(constrained(made, &name, &mut random)).await?;
        mix.pods += if fits { usize::try_from(replicas)? } else { 0 };
    }
    Ok(mix)
}

/// The workload with one rule, or none. At most five pods: three zones and two pools have a place for each.
fn constrained(made: Workload, name: &str, random: &mut fastrand::Rng) -> Workload {
    let term = |key: &str| {
        let mut rule = json!({});
        rule[REQUIRED] = json!([{"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": key}]);
        rule
    };
    let spread = |key: &str| -> Value {
        json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": name}}}])
    };
    match random.u8(0..8) {
        0 => made.set_in_pod("/spec/topologySpreadConstraints", spread(ZONE)),
        1 => made.set_in_pod("/spec/topologySpreadConstraints", spread(HOSTNAME)),
        2 => made.set_in_pod("/spec/affinity/podAntiAffinity", term(HOSTNAME)),
        3 => made.set_in_pod("/spec/affinity/podAffinity", term(ZONE)),
        4 => made.set_in_pod("/spec/containers/0/ports", json!([{"containerPort": 80, "hostPort": 8080}])),
        5 => made.node_selector(ZONE, "b"),
        6 => made.toleration("dedicated", "large"),
        _ => made,
    }
}

/// All pods of a mix that can run do.
async fn runs(cluster: &ControlPlane, mix: &Mix) -> Result<()> {
    let Mix { seed, pods, .. } = mix;
    wait::until(&format!("{pods} pods of mix {seed} run"), THREE_MINUTES, async || {
        cluster.running_pods_are("default", &format!("seed={seed}"), *pods).await
    })
    .await
}

/// No increase is open: all nodes that were bought are there, and each increase was for pods.
async fn nothing_is_coming(cluster: &ControlPlane) -> Result<()> {
    wait::until("all nodes that were bought are there", THREE_MINUTES, async || {
        let pools: Value = serde_json::from_str(&cluster.kubectl(&["get", "nodepools", "-o", "json"])?)?;
        for pool in pools["items"].as_array().into_iter().flatten() {
            let open = pool["status"]["intents"].as_array().map_or(0, Vec::len);
            ensure!(open == 0, "{} has {open} open intents", pool["metadata"]["name"]);
            for decision in pool["status"]["decisions"].as_array().into_iter().flatten() {
                ensure!(decision["pods"]["count"].as_u64() > Some(0), "for no pod: {decision}");
            }
        }
        Ok(())
    })
    .await
}

/// The mix's pools let go of empty nodes at once instead of after ten minutes: those go, and those with pods stay.
async fn empty_nodes_go(cluster: &ControlPlane, mix: &Mix) -> Result<()> {
    for pool in &mix.pools {
        // No node with pods is under it.
        let quick = pool.clone().quick_scale_down("1s").set("/spec/scaleDown/utilizationThreshold", 0);
        cluster.apply(quick).await?;
    }
    let goal = format!("each node of mix {} has a pod", mix.seed);
    wait::until(&goal, THREE_MINUTES, async || {
        let (_, empty) = look_at_nodes(cluster, mix).await?;
        ensure!(empty.is_empty(), "{empty:?} have none");
        Ok(())
    })
    .await
}

/// Returns how many nodes a mix has, and which of them have no pod.
async fn look_at_nodes(cluster: &ControlPlane, mix: &Mix) -> Result<(usize, Vec<String>)> {
    let running = cluster.pods("default", &format!("seed={}", mix.seed)).await?;
    let used: BTreeSet<String> =
        running.into_iter().filter_map(|pod| pod.spec.and_then(|spec| spec.node_name)).collect();
    let (mut count, mut empty) = (0, Vec::new());
    for size in ["small", "large"] {
        for node in cluster.nodes_of_pool(&format!("s{}-{size}", mix.seed)).await? {
            let name = node.metadata.name.unwrap_or_default();
            count += 1;
            if !used.contains(&name) {
                empty.push(name);
            }
        }
    }
    Ok((count, empty))
}
