//! Cluster API's own controllers: nodes from zero, the exact victims back, a paused Cluster, a crash between mark and size.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::cluster_api::{self, CLUSTER, ClusterApi, NAMESPACE};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const MINUTES: Duration = Duration::from_secs(240);
const SCALE: &str = "PUT /apis/cluster.x-k8s.io/v1beta2/namespaces/capi/machinedeployments/web/scale";

fn machine_pool() -> Value {
    let groups = json!([{"name": "web"}]);
    let provider = json!({
        "type": "ClusterApi",
        "clusterApi": {"clusterName": CLUSTER, "namespace": NAMESPACE, "groups": groups},
    });
    let pool = pool("general").quick_scale_down("5s").set("/spec/provider", provider);
    pool.set("/spec/template", json!({})).into()
}

/// So many pods run, each on a node of its own, and there are no other nodes.
async fn settled(cluster: &ControlPlane, count: usize) -> Result<()> {
    cluster.running_pods_are("default", "app=web", count).await?;
    let nodes = cluster.nodes().await?;
    let nodes: BTreeSet<String> = nodes.into_iter().filter_map(|node| node.metadata.name).collect();
    ensure!(nodes.len() == count, "{} nodes: {nodes:?}", nodes.len());
    let pods = cluster.pods("default", "app=web").await?;
    let homes: BTreeSet<String> = pods.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
    ensure!(homes == nodes, "pods are on {homes:?}, nodes are {nodes:?}");
    Ok(())
}

async fn size(cluster: &ControlPlane) -> Result<u64> {
    let object = cluster_api::get(cluster, "MachineDeployment", "web").await?;
    object["spec"]["replicas"].as_u64().context("it has no size")
}

#[tokio::test]
async fn a_machine_deployment_grows_from_zero_and_loses_the_exact_victims() {
    cluster_test(Options::new(), async |cluster| {
        let capi = ClusterApi::start(cluster).await?;
        capi.deployment(cluster, "web", 10).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(machine_pool()).await?;
        // One pod a node.
        cluster.apply(deployment("web").replicas(5).requests("3", "1Gi")).await?;
        wait::until("five pods run on five nodes", MINUTES, async || settled(cluster, 5).await).await?;
        cluster.scale_deployment("web", 2).await?;
        wait::until("two pods run on their two nodes", MINUTES, async || settled(cluster, 2).await).await?;
        ensure!(size(cluster).await? == 2);

        cluster_api::pause(cluster, true).await?;
        cluster.pool_condition_wait("general", "ProviderDegraded", "True").await?;
        cluster.scale_deployment("web", 1).await?;
        wait::stays("a paused Cluster keeps its size", Duration::from_secs(20), async || {
            let now = size(cluster).await?;
            ensure!(now == 2, "its size is {now}");
            Ok(())
        })
        .await?;
        cluster_api::pause(cluster, false).await?;
        wait::until("one pod runs on its node", MINUTES, async || settled(cluster, 1).await).await?;
        capi.process().check_running()?;
        operator.process().check_running()
    })
    .await;
}

#[tokio::test]
async fn a_crash_between_the_mark_and_the_size_takes_the_same_machines() {
    cluster_test(Options::new(), async |cluster| {
        let capi = ClusterApi::start(cluster).await?;
        capi.deployment(cluster, "web", 10).await?;
        let first = cluster.operator().start()?;
        first.ready().await?;
        cluster.apply(machine_pool()).await?;
        cluster.apply(deployment("web").replicas(4).requests("3", "1Gi")).await?;
        wait::until("four pods run on four nodes", MINUTES, async || settled(cluster, 4).await).await?;
        first.terminate(Duration::from_secs(15)).await?;

        let doomed = cluster.operator().identity("doomed").crash_at(&format!("before {SCALE}")).start()?;
        cluster.scale_deployment("web", 2).await?;
        doomed.wait_exit(MINUTES).await?;
        ensure!(size(cluster).await? == 4, "nothing was lowered");
        let marked = |machine: &&Value| {
            !machine["metadata"]["annotations"]["cluster.x-k8s.io/delete-machine"].is_null()
        };
        let machines = cluster_api::machines(cluster).await?;
        ensure!(machines.iter().any(|machine| marked(&machine)), "nothing is marked");

        let next = cluster.operator().identity("next").start()?;
        wait::until("two pods run on their two nodes", MINUTES, async || settled(cluster, 2).await).await?;
        let machines = cluster_api::machines(cluster).await?;
        ensure!(!machines.iter().any(|machine| marked(&machine)), "a mark is left");
        next.process().check_running()?;
        capi.process().check_running()
    })
    .await;
}
