//! Three replicas run HPAs in shards: each one is decided on by one replica at a time, and when a replica is killed, paused or
//! stopped the others go on with its HPAs within 10 s.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::operator::Operator;
use e2e::wait;
use e2e::workloads::{hpa, quick_workloads};
use jiff::Timestamp;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const NAMESPACES: usize = 12;
const SHARDS: usize = 6;
/// Longest time from the end of a replica to the first decision of another on each of its workloads.
const TAKEOVER_SECONDS: f64 = 10.0;

#[tokio::test]
async fn hpas_of_a_killed_replica_are_decided_on_by_the_others_within_ten_seconds() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let replicas = three_replicas(cluster).await?;
        create_hpas(cluster).await?;
        wait::until("every HPA is decided on", MINUTE, async || all_have(cluster, 3)).await?;

        let victim = &replicas[0];
        let own = run_by(victim, Timestamp::now());
        ensure!(!own.is_empty(), "{} runs nothing", victim.process().name());
        victim.kill();
        taken_over(&replicas[1..], &own).await?;
        set_all(cluster, 7)?;
        wait::until("every HPA is decided on anew", MINUTE, async || all_have(cluster, 3)).await?;
        never_two(&replicas)
    })
    .await;
}

#[tokio::test]
async fn replica_that_was_paused_comes_back_and_never_decides_beside_the_others() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let replicas = three_replicas(cluster).await?;
        create_hpas(cluster).await?;
        wait::until("every HPA is decided on", MINUTE, async || all_have(cluster, 3)).await?;

        // The leader ends itself when it has lost its own Lease; any other replica goes on.
        let leader = holder(cluster, "headroom")?;
        let mut others = replicas.iter().filter(|replica| !leader.starts_with(replica.process().name()));
        let paused = others.next_back().context("all lead")?;
        let own = run_by(paused, Timestamp::now());
        paused.pause()?;
        let awake: Vec<&Operator> =
            replicas.iter().filter(|one| one.process().name() != paused.process().name()).collect();
        taken_over(awake.iter().copied(), &own).await?;
        paused.resume()?;
        wait::until("the shards are spread again", MINUTE, async || spread(cluster, 3)).await?;
        set_all(cluster, 7)?;
        wait::until("every HPA is decided on anew", MINUTE, async || all_have(cluster, 3)).await?;
        paused.process().check_running()?;
        never_two(&replicas)?;

        let own = run_by(paused, Timestamp::now());
        let status = paused.terminate(MINUTE).await?;
        ensure!(status.success(), "{status}");
        // Its Leases are given back, so nobody waits for their end.
        let stopped_at = Timestamp::now();
        taken_over(awake.iter().copied(), &own).await?;
        let took = Timestamp::now().duration_since(stopped_at).as_secs_f64();
        ensure!(took < 6.0, "the others waited {took:.1} s for shards that were given back");
        Ok(())
    })
    .await;
}

async fn three_replicas(cluster: &ControlPlane) -> Result<[Operator; 3]> {
    let start = |name: &str| {
        let operator = cluster.operator().identity(name).flag(&format!("--workload-shards={SHARDS}"));
        operator.env("RUST_LOG", "info,headroom_operator::controllers::workloads=debug").start()
    };
    let replicas = [start("headroom-0")?, start("headroom-1")?, start("headroom-2")?];
    for replica in &replicas {
        replica.ready().await?;
    }
    wait::until("each replica holds its shards", MINUTE, async || spread(cluster, 3)).await?;
    Ok(replicas)
}

/// Every shard is held, by so many replicas of which each has as many.
fn spread(cluster: &ControlPlane, replicas: usize) -> Result<()> {
    let mut held: BTreeMap<String, usize> = BTreeMap::new();
    for shard in 0..SHARDS {
        let holder = holder(cluster, &format!("headroom-shard-{shard}-of-{SHARDS}"))?;
        ensure!(!holder.is_empty(), "nobody holds shard {shard}");
        *held.entry(holder).or_default() += 1;
    }
    let even = held.len() == replicas && held.values().all(|count| *count == SHARDS / replicas);
    ensure!(even, "{held:?}");
    Ok(())
}

fn holder(cluster: &ControlPlane, lease: &str) -> Result<String> {
    let path = "--output=jsonpath={.spec.holderIdentity}";
    cluster.kubectl(&["--namespace=headroom-system", "get", "lease", lease, path])
}

/// HPAs of Deployments that are larger than they may be: what is decided needs no metrics.
async fn create_hpas(cluster: &ControlPlane) -> Result<()> {
    cluster.apply(node("n1", "64", "256Gi")).await?;
    cluster.apply(quick_workloads("Replace", "2s")).await?;
    for number in 0..NAMESPACES {
        let name = namespace(number);
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        cluster.apply(object).await?;
        let web: Value = deployment("web").replicas(5).requests("100m", "64Mi").into();
        for mut object in [web, hpa("web", 1, 3)] {
            object["metadata"]["namespace"] = name.clone().into();
            cluster.apply(object).await?;
        }
    }
    Ok(())
}

fn namespace(number: usize) -> String {
    format!("team-{number}")
}

fn set_all(cluster: &ControlPlane, replicas: u32) -> Result<()> {
    for number in 0..NAMESPACES {
        let (space, count) = (format!("--namespace={}", namespace(number)), format!("--replicas={replicas}"));
        cluster.kubectl(&[&space, "scale", "deployment", "web", &count])?;
    }
    Ok(())
}

fn all_have(cluster: &ControlPlane, replicas: i64) -> Result<()> {
    let text = cluster.kubectl(&["get", "deployments", "--all-namespaces", "--output=json"])?;
    let list: Value = serde_json::from_str(&text)?;
    let items = list["items"].as_array().context("no list")?;
    let web = items.iter().filter(|one| one["metadata"]["name"] == "web");
    let sizes: Vec<(&Value, i64)> = web
        .map(|one| (&one["metadata"]["namespace"], one["spec"]["replicas"].as_i64().unwrap_or(0)))
        .collect();
    ensure!(sizes.len() == NAMESPACES && sizes.iter().all(|(_, size)| *size == replicas), "{sizes:?}");
    Ok(())
}

/// Looks of a replica at workloads, by its log: the time and the namespace.
fn looks(replica: &Operator) -> Vec<(Timestamp, String)> {
    let read = |line: &str| {
        let at = line.split_whitespace().next()?.parse::<Timestamp>().ok()?;
        let workload = line.split("looking workload=").nth(1)?.split_whitespace().next()?;
        Some((at, workload.split('/').next()?.to_owned()))
    };
    replica.log().lines().filter_map(read).collect()
}

/// The namespaces whose workloads a replica has looked at in the last five seconds.
fn run_by(replica: &Operator, now: Timestamp) -> BTreeSet<String> {
    let recent = |at: &Timestamp| now.duration_since(*at).as_secs() < 5;
    looks(replica).into_iter().filter(|(at, _)| recent(at)).map(|(_, namespace)| namespace).collect()
}

/// Waits until other replicas have looked at all of these workloads since now, and checks the time it took.
async fn taken_over<'a>(
    others: impl IntoIterator<Item = &'a Operator>,
    namespaces: &BTreeSet<String>,
) -> Result<()> {
    let others: Vec<&Operator> = others.into_iter().collect();
    let ended_at = Timestamp::now();
    let first = wait::until("others decide on these workloads", MINUTE, async || {
        let since = others.iter().flat_map(|other| looks(other)).filter(|(at, _)| ended_at < *at);
        let mut first: BTreeMap<String, Timestamp> = BTreeMap::new();
        for (at, namespace) in since.filter(|(_, namespace)| namespaces.contains(namespace)) {
            let known = first.entry(namespace).or_insert(at);
            *known = at.min(*known);
        }
        ensure!(first.len() == namespaces.len(), "of {namespaces:?} these are: {first:?}");
        Ok(first)
    })
    .await?;
    let last = first.values().max().context("there are none")?.duration_since(ended_at).as_secs_f64();
    eprintln!("{} workloads were decided on by others after {last:.1} s at most", first.len());
    ensure!(last <= TAKEOVER_SECONDS, "the last was decided on after {last:.1} s: {first:?}");
    Ok(())
}

/// No two replicas take turns on a workload: once another has looked at it, the one before does not until the other has ended.
fn never_two(replicas: &[Operator]) -> Result<()> {
    let mut turns: BTreeMap<String, Vec<(Timestamp, usize)>> = BTreeMap::new();
    for (index, replica) in replicas.iter().enumerate() {
        for (at, namespace) in looks(replica) {
            turns.entry(namespace).or_default().push((at, index));
        }
    }
    for (namespace, mut turns) in turns {
        turns.sort();
        let mut owners: Vec<usize> = turns.into_iter().map(|(_, replica)| replica).collect();
        owners.dedup();
        // One handover for each replica that joined, went, and came back.
        ensure!(owners.len() <= 6, "{namespace} was decided on in turns: {owners:?}");
    }
    Ok(())
}
