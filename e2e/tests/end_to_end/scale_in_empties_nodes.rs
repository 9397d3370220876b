//! After replicas are lowered, the pods go whose nodes become empty: by costs that the real ReplicaSet controller
//! reads.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{cluster_policy, deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::scaling_policy;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

#[tokio::test]
async fn half_of_the_replicas_leave_half_of_the_nodes_without_an_eviction() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        eight_pods_on_four_nodes(cluster).await?;

        cluster.apply(sized(4)).await?;
        wait::until("4 pods run on 2 nodes and the others are gone", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 4).await?;
            cluster.ready_nodes_are("general", 2).await
        })
        .await?;
        let by_node = cluster.pods_by_node("app=web").await?;
        ensure!(by_node.values().all(|pods| pods.len() == 2), "pods are placed as {by_node:?}");
        let ours = cluster.writes()?.by(User::Headroom).accepted();
        ensure!(ours.clone().to("pods/eviction").is_empty(), "{}", ours.describe());
        ensure!(ours.clone().to("pods").with_verb("patch").len() == 4, "{}", ours.describe());
        ensure!(ours.clone().to("pods").len() == 4, "{}", ours.describe());

        // A cost that a person sets is left, and so are all other pods of the workload from then on.
        let pods = cluster.pods("default", "app=web").await?;
        let theirs = pods[0].metadata.name.as_deref().context("a name")?;
        cluster.patch("Pod", "v1", theirs, json!({"metadata": {"annotations": {COST: "100"}}})).await?;
        cluster.apply(sized(1)).await?;
        wait::until("the pod that a person wants to keep is left", MINUTE, async || {
            let left = cluster.pods("default", "app=web").await?;
            let [only] = &left[..] else { anyhow::bail!("{} pods are left", left.len()) };
            let cost = only.metadata.annotations.as_ref().and_then(|all| all.get(COST));
            ensure!(cost.is_some_and(|cost| cost == "100"), "{:?}", only.metadata);
            Ok(())
        })
        .await?;
        let ours = cluster.writes()?.by(User::Headroom).accepted();
        ensure!(ours.clone().to("pods").with_verb("patch").len() == 4, "{}", ours.describe());
        operator.process().check_running()?;
        only_costs_may_be_changed(cluster, theirs).await
    })
    .await;
}

#[tokio::test]
async fn replicas_are_lowered_without_the_permission_too_and_status_names_it() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        cluster.kubectl(&["delete", "clusterrolebinding", "headroom-scale-in"])?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        eight_pods_on_four_nodes(cluster).await?;
        cluster.apply(sized(4)).await?;
        wait::until("4 pods run", MINUTE, async || cluster.running_pods_are("default", "app=web", 4).await)
            .await?;
        wait::until("the policy of the cluster names the permission", MINUTE, async || {
            let text = cluster.kubectl(&["get", "clusterscalingpolicy", "default", "--output=json"])?;
            let policy: Value = serde_json::from_str(&text)?;
            ensure!(policy["status"].to_string().contains("config/components/empty-nodes"), "{policy}");
            Ok(())
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}

/// Two pods have room on a node. The nodes stay until their pods have gone: none is used to less than three quarters.
async fn eight_pods_on_four_nodes(cluster: &ControlPlane) -> Result<()> {
    cluster
        .apply(cluster_policy(json!({"workloads": {"scaleIn": "EmptyNodes", "syncPeriod": "2s"}})))
        .await?;
    cluster.apply(pool("general").nodes(0, 6).quick_scale_down("2s")).await?;
    cluster.apply(deployment("web").replicas(8).requests("1500m", "64Mi")).await?;
    cluster.apply(sized(8)).await?;
    wait::until("8 pods run on 4 nodes", MINUTE, async || {
        cluster.running_pods_are("default", "app=web", 8).await?;
        cluster.ready_nodes_are("general", 4).await
    })
    .await
}

/// The policy of `web` with that many replicas.
fn sized(replicas: u32) -> Value {
    let mut policy = scaling_policy("web", "web", replicas);
    policy["spec"]["minReplicas"] = replicas.into();
    policy
}

/// Of a pod the operator's account may change its deletion cost, and nothing else.
async fn only_costs_may_be_changed(cluster: &ControlPlane, pod: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client_as(User::Headroom).await?, "default");
    for change in [
        json!({"metadata": {"labels": {"app": "other"}}}),
        json!({"metadata": {"annotations": {"owner": "other"}}}),
        json!({"metadata": {"finalizers": ["example.com/x"]}}),
        json!({"spec": {"activeDeadlineSeconds": 1}}),
    ] {
        let answer = pods.patch(pod, &PatchParams::default(), &Patch::Merge(&change)).await;
        let refusal = answer.err().with_context(|| format!("{change} was not refused"))?.to_string();
        ensure!(refusal.contains("only its deletion cost"), "{refusal}");
    }
    Ok(())
}
