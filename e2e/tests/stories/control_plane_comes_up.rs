//! The harness itself: a node comes to life, a Deployment runs on it, usage is reported, writers are told apart.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{Component, ControlPlane, Options, User};
use e2e::fixtures::{deployment, node};
use e2e::story::story;
use e2e::{cluster, wait};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn control_plane_runs_a_deployment_and_reports_its_usage() {
    story(Options::new().with_metrics_server().with_audit_log(), async |cluster| {
        cluster.apply(node("n1", "4", "16Gi")).await?;
        wait::until("the node is ready", MINUTE, async || {
            let nodes = cluster.nodes().await?;
            ensure!(nodes.len() == 1 && nodes.iter().all(cluster::is_ready), "nodes are {nodes:?}");
            Ok(())
        })
        .await?;

        let web = deployment("web")
            .replicas(5)
            .requests("1", "1Gi")
            .pod_annotation("kwok.x-k8s.io/usage-cpu", "700m");
        cluster.apply(web).await?;
        wait::until("what fits runs", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 4).await
        })
        .await?;
        ensure!(
            cluster.pods_in_phase("default", "app=web", "Pending").await? == 1,
            "the fifth pod does not fit"
        );

        cluster.scale_deployment("web", 3).await?;
        wait::until("three run", MINUTE, async || cluster.running_pods_are("default", "app=web", 3).await)
            .await?;
        ensure!(
            cluster.kubectl(&["get", "deployment", "web"])?.contains("3/3"),
            "kubectl shows another count"
        );

        every_writer_is_told_apart(cluster)?;
        etcd_and_api_server_come_back(cluster).await?;
        usage_is_reported(cluster).await
    })
    .await;
}

fn every_writer_is_told_apart(cluster: &ControlPlane) -> Result<()> {
    let writes = cluster.writes()?;
    ensure!(writes.clone().by(User::Admin).to("deployments").accepted().len() == 2, "{}", writes.describe());
    ensure!(!writes.clone().by(User::Scheduler).to("pods/binding").is_empty(), "{}", writes.describe());
    ensure!(!writes.clone().by(User::Kwok).to("nodes/status").is_empty(), "{}", writes.describe());
    ensure!(writes.clone().by(User::Headroom).is_empty(), "{}", writes.describe());
    Ok(())
}

async fn etcd_and_api_server_come_back(cluster: &ControlPlane) -> Result<()> {
    cluster.component(Component::ApiServer)?.restart()?;
    cluster.component(Component::Etcd)?.restart()?;
    cluster.ready(MINUTE).await?;
    cluster.scale_deployment("web", 4).await?;
    wait::until("four run", MINUTE, async || cluster.running_pods_are("default", "app=web", 4).await).await
}

async fn usage_is_reported(cluster: &ControlPlane) -> Result<()> {
    wait::until("kubectl top shows the annotated usage", 2 * MINUTE, async || {
        let top = cluster.kubectl(&["top", "pods", "--no-headers"])?;
        let reported = top.lines().filter(|line| line.split_whitespace().nth(1) == Some("700m")).count();
        ensure!(reported == 4, "kubectl top says\n{top}");
        Ok(())
    })
    .await
}
