//! Fifty random mixes of pods, each with pools of its own: every pod that fits a pool runs, and every node bought has one.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{Workload, deployment, pool};
use e2e::story::story;
use e2e::wait;
use serde_json::{Value, json};

const SEEDS: u64 = 50;
/// Mixes that are under way at once: the machine is shared with a whole control plane.
const AT_ONCE: u64 = 10;
const THREE_MINUTES: Duration = Duration::from_secs(180);
const SEED: &str = "example.com/seed";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

#[tokio::test]
#[ignore = "not shown yet: the first pod of a series that stays in one zone may choose another zone than was planned"]
async fn pods_that_fit_a_pool_run_and_no_node_is_bought_in_vain() {
    story(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        for first in (0..SEEDS).step_by(usize::try_from(AT_ONCE)?) {
            let mut wanted = Vec::new();
            for seed in first..first + AT_ONCE {
                wanted.push((seed, apply_mix(cluster, seed).await?));
            }
            for (seed, pods) in wanted {
                settled(cluster, seed, pods).await?;
            }
        }
        operator.process().check_running()
    })
    .await;
}

/// Applies two pools and a few Deployments; returns how many pods can run. One Deployment in eight fits no pool.
async fn apply_mix(cluster: &ControlPlane, seed: u64) -> Result<usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    let word = seed.to_string();
    let small = pool(&format!("s{seed}-small")).label(SEED, &word).nodes(0, 30);
    let large = pool(&format!("s{seed}-large")).label(SEED, &word).capacity("16", "64Gi").nodes(0, 30);
    cluster.apply(small.zones(&["a", "b", "c"])).await?;
    cluster
        .apply(if random.bool() { large.taint("dedicated", "large") } else { large.zones(&["b", "c"]) })
        .await?;
    let mut count = 0;
    for number in 0..random.usize(2..5) {
        let name = format!("s{seed}-{number}");
        let replicas = random.u32(1..6);
        let fits = random.u8(0..8) != 0;
        let cpu = if fits { format!("{}m", 250 * random.u32(1..14)) } else { "64".to_owned() };
        let memory = format!("{}Mi", 512 * random.u32(1..24));
        let made = deployment(&name).replicas(replicas).requests(&cpu, &memory);
        let made = made.pod_label("seed", &word).node_selector(SEED, &word);
        cluster.apply(constrained(made, &name, &mut random)).await?;
        count += if fits { usize::try_from(replicas)? } else { 0 };
    }
    Ok(count)
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

/// All pods of a mix that can run do, and every node that was bought for it has one of them.
async fn settled(cluster: &ControlPlane, seed: u64, pods: usize) -> Result<()> {
    wait::until(&format!("mix {seed}: {pods} pods run and no node is empty"), THREE_MINUTES, async || {
        let selector = format!("seed={seed}");
        cluster.running_pods_are("default", &selector, pods).await?;
        let running = cluster.pods("default", &selector).await?;
        let used: BTreeSet<String> =
            running.into_iter().filter_map(|pod| pod.spec.and_then(|spec| spec.node_name)).collect();
        for size in ["small", "large"] {
            for node in cluster.nodes_of_pool(&format!("s{seed}-{size}")).await? {
                let name = node.metadata.name.unwrap_or_default();
                ensure!(used.contains(&name), "{name} has no pod");
            }
        }
        Ok(())
    })
    .await
}
