//! A node that only a PodDisruptionBudget without room keeps goes by one replica more, also when the operator is killed
//! meanwhile, and the budget holds at every moment.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{cluster_policy, disruption_budget, pool};
use e2e::harness::cluster_test;
use e2e::operator::Operator;
use e2e::wait;
use e2e::workloads::scaling_policy;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const MINUTE: Duration = Duration::from_secs(60);
const PROBE_PERIOD: Duration = Duration::from_millis(200);

#[tokio::test]
async fn node_goes_by_one_replica_more_though_the_operator_is_killed() {
    cluster_test(Options::new().with_audit_log().without_hpa_controller(), async |cluster| {
        let first = start(cluster)?;
        first.ready().await?;
        three_pods_on_three_nodes(cluster).await?;
        let probe = Probe::start(cluster, 3);

        // Undisturbed first: three nodes become two, since one pod more has room on each.
        let clock = Instant::now();
        shrink_to(cluster, 2).await?;
        wait::until("one node is gone and nothing is left over", MINUTE, async || settled(cluster, 2).await)
            .await?;
        ensure!(clock.elapsed() <= MINUTE, "it took {:?}", clock.elapsed());
        let writes = cluster.writes()?.by(User::Headroom).accepted();
        ensure!(writes.clone().to("pods/eviction").len() == 1, "{}", writes.describe());
        ensure!(writes.clone().to("deployments/scale").len() == 2, "{}", writes.describe());
        reasons_are(cluster, &["SurgeForDrain", "SurgeEnded"])?;
        first.terminate(Duration::from_secs(15)).await?;

        // The next node goes, and the operator dies when the replica is there and nothing is evicted.
        let doomed = start(cluster)?;
        doomed.ready().await?;
        let clock = Instant::now();
        shrink_to(cluster, 1).await?;
        wait::until("one replica more is asked for", MINUTE, async || cluster.replicas_are("web", 4)).await?;
        doomed.kill();
        let next = start(cluster)?;
        wait::until("another node is gone and nothing is left over", MINUTE, async || {
            settled(cluster, 1).await
        })
        .await?;
        ensure!(clock.elapsed() <= MINUTE, "it took {:?}", clock.elapsed());
        probe.end(3).await?;
        let deleted = cluster.writes()?.by(User::Headroom).accepted().to("pods");
        ensure!(deleted.is_empty(), "pods were changed:\n{}", deleted.describe());
        next.process().check_running()
    })
    .await;
}

/// One pod of `web` on each of three nodes, all of which its budget wants; each node has room for all.
async fn three_pods_on_three_nodes(cluster: &ControlPlane) -> Result<()> {
    cluster.apply(cluster_policy(json!({"workloads": {"syncPeriod": "2s"}}))).await?;
    cluster.spread_web(pool("general").quick_scale_down("2s"), 3, 1).await?;
    cluster.apply(disruption_budget("web", 3)).await?;
    let mut policy = scaling_policy("web", "web", 6);
    policy["spec"]["minReplicas"] = json!(3);
    policy["spec"]["disruption"] = json!({"surge": "Allow"});
    cluster.apply(policy).await?;
    wait::until("the budget allows nothing", MINUTE, async || {
        let path = "jsonpath={.status.disruptionsAllowed} {.status.currentHealthy}";
        let text = cluster.kubectl(&["get", "pdb", "web", "-o", path])?;
        ensure!(text == "0 3", "allowed and healthy are {text}");
        Ok(())
    })
    .await
}

async fn shrink_to(cluster: &ControlPlane, nodes: u32) -> Result<()> {
    cluster.edit_pool("general", json!({"spec": {"minNodes": nodes}})).await?;
    Ok(())
}

/// For [`wait::until`]: so many nodes are left, and no mark, no intent, no replica and no memory of a surge.
async fn settled(cluster: &ControlPlane, nodes: usize) -> Result<()> {
    cluster.ready_nodes_are("general", nodes).await?;
    cluster.no_node_is_marked().await?;
    let intents = cluster.pool_status("general").await?["intents"].clone();
    ensure!(intents.is_null(), "intents are {intents}");
    cluster.replicas_are("web", 3)?;
    let surged_from = cluster.scaling_status("web")?["surgedFrom"].clone();
    ensure!(surged_from.is_null(), "surgedFrom is {surged_from}");
    cluster.running_pods_are("default", "app=web", 3).await
}

fn reasons_are(cluster: &ControlPlane, expected: &[&str]) -> Result<()> {
    let status = cluster.scaling_status("web")?;
    let decisions = status["decisions"].as_array().context("decisions")?;
    let reasons: BTreeSet<&str> = decisions.iter().filter_map(|one: &Value| one["reason"].as_str()).collect();
    ensure!(expected.iter().all(|reason| reasons.contains(reason)), "reasons are {reasons:?}");
    Ok(())
}

fn start(cluster: &ControlPlane) -> Result<Operator> {
    cluster.operator().flag("--lease-seconds=2").start()
}

/// Counts the ready pods again and again.
struct Probe {
    fewest: Arc<AtomicUsize>,
    looks: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Probe {
    fn start(cluster: &ControlPlane, expected: usize) -> Self {
        let (fewest, looks) = (Arc::new(AtomicUsize::new(expected)), Arc::new(AtomicUsize::new(0)));
        let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
        let (seen, counted) = (fewest.clone(), looks.clone());
        let task = tokio::spawn(async move {
            let mut period = tokio::time::interval(PROBE_PERIOD);
            loop {
                period.tick().await;
                let Ok(list) = pods.list(&ListParams::default().labels("app=web")).await else { continue };
                seen.fetch_min(list.iter().filter(|pod| is_available(pod)).count(), Ordering::Relaxed);
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { fewest, looks, task }
    }

    /// Ends it: never were there fewer than `least`.
    async fn end(self, least: usize) -> Result<()> {
        self.task.abort();
        let _ = self.task.await;
        let (fewest, looks) = (self.fewest.load(Ordering::Relaxed), self.looks.load(Ordering::Relaxed));
        ensure!(least <= fewest, "only {fewest} pods were ready at a time");
        ensure!(20 < looks, "only {looks} looks");
        Ok(())
    }
}

fn is_available(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}
