//! Provider ClusterApi beside Cluster API's own controllers, which decide which machine leaves when a size is lowered.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::cluster_api::{CLUSTER, ClusterApi, NAMESPACE};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

mod calls;
mod crash_between_mark_and_size;
mod failed_launches;
mod health_check;
mod health_check_buys_once;
mod named_machines;
mod paused_cluster;
mod quick_start_is_true;
mod rollout;

const MINUTES: Duration = Duration::from_secs(240);
/// Time in which a removal that nothing holds would have happened.
const STAYS: Duration = Duration::from_secs(20);
/// The write that lowers a size.
const SCALE: &str = "PUT /apis/cluster.x-k8s.io/v1beta2/namespaces/capi/machinedeployments/web/scale";

/// A test with Cluster API's controllers and the MachineDeployment `web` of 0 to 20 machines.
async fn cluster_api_test(body: impl AsyncFnOnce(&ControlPlane) -> Result<()>) {
    cluster_api_test_of(Options::new(), 20, body).await;
}

/// The same on another control plane, with up to `machines` machines.
async fn cluster_api_test_of(
    options: Options,
    machines: u32,
    body: impl AsyncFnOnce(&ControlPlane) -> Result<()>,
) {
    cluster_test(options, async |cluster| {
        let controllers = ClusterApi::start(cluster).await?;
        controllers.deployment(cluster, "web", machines).await?;
        body(cluster).await?;
        controllers.process().check_running()
    })
    .await;
}

/// A pool of the MachineDeployment `web`. Nodes go after some seconds, as many at once as are unneeded.
fn machine_pool() -> Value {
    let provider = json!({
        "type": "ClusterApi",
        "clusterApi": {"clusterName": CLUSTER, "namespace": NAMESPACE, "groups": [{"name": "web"}]},
    });
    pool("general")
        .nodes(0, 20)
        .quick_scale_down("5s")
        .set("/spec/scaleDown/budgets", json!([{"name": "all", "maxNodes": "100%"}]))
        .set("/spec/provider", provider)
        .set("/spec/template", json!({}))
        .into()
}

/// So many pods of `web`, which need a node each.
async fn grown(cluster: &ControlPlane, pods: u32) -> Result<()> {
    cluster.apply(machine_pool()).await?;
    cluster.apply(deployment("web").replicas(pods).requests("3", "1Gi")).await?;
    settles(cluster, usize::try_from(pods)?).await
}

async fn settles(cluster: &ControlPlane, pods: usize) -> Result<()> {
    let what = format!("{pods} pods run on as many nodes");
    wait::until(&what, MINUTES, async || settled(cluster, pods).await).await
}

/// So many pods run, each on a node of its own, and there are no other nodes.
async fn settled(cluster: &ControlPlane, count: usize) -> Result<()> {
    cluster.running_pods_are("default", "app=web", count).await?;
    let nodes = nodes(cluster).await?;
    ensure!(nodes.len() == count, "{} nodes: {nodes:?}", nodes.len());
    let homes: BTreeSet<String> = cluster.pods_by_node("app=web").await?.into_keys().collect();
    ensure!(homes == nodes, "pods are on {homes:?}, nodes are {nodes:?}");
    Ok(())
}

async fn nodes(cluster: &ControlPlane) -> Result<BTreeSet<String>> {
    Ok(cluster.nodes().await?.into_iter().filter_map(|node| node.metadata.name).collect())
}

/// Names of the pods of `web` that are not being deleted.
async fn pods(cluster: &ControlPlane) -> Result<BTreeSet<String>> {
    Ok(cluster.pods_by_node("app=web").await?.into_values().flatten().collect())
}
