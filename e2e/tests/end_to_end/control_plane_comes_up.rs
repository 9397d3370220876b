//! The harness itself: a Deployment runs on a fake node, writers are distinguished, programs come back, usage is reported.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::cluster::is_ready;
use e2e::control_plane::{Component, ControlPlane, Options, User};
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::wait;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn deployment_runs_as_far_as_the_node_has_room_and_every_writer_is_known() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        node_with_four_cpus(cluster).await?;
        cluster.apply(deployment("web").replicas(5).requests("1", "1Gi")).await?;
        web_runs(cluster, 4).await?;
        ensure!(
            cluster.pods_in_phase("default", "app=web", "Pending").await? == 1,
            "the fifth pod has no room"
        );
        cluster.scale_deployment("web", 3).await?;
        web_runs(cluster, 3).await?;
        ensure!(
            cluster.kubectl(&["get", "deployment", "web"])?.contains("3/3"),
            "kubectl shows another count"
        );

        let writes = cluster.writes()?;
        ensure!(
            writes.clone().by(User::Admin).to("deployments").accepted().len() == 2,
            "{}",
            writes.describe()
        );
        ensure!(!writes.clone().by(User::Scheduler).to("pods/binding").is_empty(), "{}", writes.describe());
        ensure!(!writes.clone().by(User::Kwok).to("nodes/status").is_empty(), "{}", writes.describe());
        ensure!(writes.clone().by(User::Headroom).is_empty(), "{}", writes.describe());
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn cluster_goes_on_after_etcd_and_the_api_server_were_killed_and_the_scheduler_hung() {
    cluster_test(Options::new(), async |cluster| {
        node_with_four_cpus(cluster).await?;
        cluster.apply(deployment("web").replicas(1)).await?;
        web_runs(cluster, 1).await?;

        cluster.component(Component::ApiServer)?.restart()?;
        cluster.component(Component::Etcd)?.restart()?;
        cluster.ready(MINUTE).await?;
        cluster.scale_deployment("web", 2).await?;
        web_runs(cluster, 2).await?;

        cluster.component(Component::Scheduler)?.pause()?;
        cluster.scale_deployment("web", 3).await?;
        wait::until("a pod waits for the scheduler", MINUTE, async || {
            ensure!(cluster.pods_in_phase("default", "app=web", "Pending").await? == 1, "no pod is pending");
            Ok(())
        })
        .await?;
        wait::stays("two run", Duration::from_secs(2), async || {
            cluster.running_pods_are("default", "app=web", 2).await
        })
        .await?;
        cluster.component(Component::Scheduler)?.resume()?;
        web_runs(cluster, 3).await
    })
    .await;
}

#[tokio::test]
async fn metrics_api_reports_the_usage_that_a_pod_is_annotated_with() {
    cluster_test(Options::new().with_metrics_server(), async |cluster| {
        node_with_four_cpus(cluster).await?;
        cluster.apply(deployment("web").pod_annotation("kwok.x-k8s.io/usage-cpu", "700m")).await?;
        web_runs(cluster, 1).await?;
        wait::until("kubectl top shows the annotated usage", 3 * MINUTE, async || {
            let top = cluster.kubectl(&["top", "pods", "--no-headers"])?;
            ensure!(top.split_whitespace().nth(1) == Some("700m"), "kubectl top says\n{top}");
            Ok(())
        })
        .await
    })
    .await;
}

async fn node_with_four_cpus(cluster: &ControlPlane) -> Result<()> {
    cluster.apply(node("n1", "4", "16Gi")).await?;
    wait::until("the node is ready", MINUTE, async || {
        let nodes = cluster.nodes().await?;
        ensure!(nodes.len() == 1 && nodes.iter().all(is_ready), "nodes are {nodes:?}");
        Ok(())
    })
    .await
}

async fn web_runs(cluster: &ControlPlane, count: usize) -> Result<()> {
    let what = format!("{count} pods run");
    wait::until(&what, MINUTE, async || cluster.running_pods_are("default", "app=web", count).await).await
}
