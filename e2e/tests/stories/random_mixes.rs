//! Fifty random mixes of pods, each with pools of its own: every pod that fits a pool runs, each node was bought for pods,
//! and nearly every one has a pod in the end.
//!
//! Nearly: a plan does not bind the scheduler. Where pods that may go anywhere take up nodes of the zone that others must
//! go to, those others need one more there, and the node that was bought for the former stays empty. So few nodes may: none
//! to four of some 250 to 270 in the runs that were counted, the more the faster the machine.

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
/// Most nodes without a pod over all mixes, of some 250: one in thirty.
const EMPTY_MAX: usize = 8;
const THREE_MINUTES: Duration = Duration::from_secs(180);
const SEED: &str = "example.com/seed";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

#[tokio::test]
async fn pods_that_fit_a_pool_run_and_no_node_is_bought_in_vain() {
    story(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let mut mixes = Vec::new();
        for first in (0..SEEDS).step_by(usize::try_from(AT_ONCE)?) {
            let begun = mixes.len();
            for seed in first..first + AT_ONCE {
                mixes.push(apply_mix(cluster, seed).await?);
            }
            for mix in &mixes[begun..] {
                runs(cluster, mix).await?;
            }
        }
        nothing_is_coming(cluster).await?;
        let mut empty = Vec::new();
        for mix in &mixes {
            empty.extend(nodes_without_a_pod(cluster, mix).await?);
        }
        ensure!(empty.len() <= EMPTY_MAX, "{} nodes have no pod: {empty:?}", empty.len());
        operator.process().check_running()
    })
    .await;
}

/// A mix as it was applied.
struct Mix {
    seed: u64,
    /// Pods that can run.
    pods: usize,
}

/// Applies two pools and a few Deployments. One Deployment in eight fits no pool.
async fn apply_mix(cluster: &ControlPlane, seed: u64) -> Result<Mix> {
    let mut random = fastrand::Rng::with_seed(seed);
    let word = seed.to_string();
    let small = pool(&format!("s{seed}-small")).label(SEED, &word).nodes(0, 30);
    let large = pool(&format!("s{seed}-large")).label(SEED, &word).capacity("16", "64Gi").nodes(0, 30);
    cluster.apply(small.zones(&["a", "b", "c"])).await?;
    cluster
        .apply(if random.bool() { large.taint("dedicated", "large") } else { large.zones(&["b", "c"]) })
        .await?;
    let mut mix = Mix { seed, pods: 0 };
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
    let Mix { seed, pods } = mix;
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

async fn nodes_without_a_pod(cluster: &ControlPlane, mix: &Mix) -> Result<Vec<String>> {
    let running = cluster.pods("default", &format!("seed={}", mix.seed)).await?;
    let used: BTreeSet<String> =
        running.into_iter().filter_map(|pod| pod.spec.and_then(|spec| spec.node_name)).collect();
    let mut empty = Vec::new();
    for size in ["small", "large"] {
        for node in cluster.nodes_of_pool(&format!("s{}-{size}", mix.seed)).await? {
            let name = node.metadata.name.unwrap_or_default();
            if !used.contains(&name) {
                empty.push(name);
            }
        }
    }
    Ok(empty)
}
