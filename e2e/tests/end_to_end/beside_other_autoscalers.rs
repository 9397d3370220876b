//! Beside Cluster Autoscaler and KEDA: their nodes, marks and HPAs are left as they are, and an overlap is reported.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, node, pool};
use e2e::harness::cluster_test;
use e2e::removal::traces;
use e2e::wait;
use e2e::workloads::{hpa, quick_workloads, scaling_policy};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn what_other_autoscalers_run_is_left_to_them_and_an_overlap_is_reported() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        // A node of another autoscaler's group, on its way out.
        let theirs = node("theirs-1", "4", "16Gi").label("example.com/group", "theirs").set(
            "/spec/taints",
            json!([{"key": "ToBeDeletedByClusterAutoscaler", "value": "1700000000", "effect": "NoSchedule"}]),
        );
        cluster.apply(theirs).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").nodes(0, 5).quick_scale_down("1s")).await?;
        cluster.apply(quick_workloads("Observe", "10s")).await?;

        // For their group, and for anyone.
        let bound = deployment("bound").requests("1", "1Gi").node_selector("example.com/group", "theirs");
        cluster.apply(bound).await?;
        cluster.apply(deployment("web").replicas(3).requests("1", "1Gi")).await?;
        wait::until("pods for anyone run", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 3).await
        })
        .await?;
        wait::until("status says why no pool helps the pod of theirs", MINUTE, async || {
            let refusals = cluster.pool_status("general").await?["refusals"].to_string();
            ensure!(refusals.contains("example.com/group"), "refusals are {refusals}");
            Ok(())
        })
        .await?;

        // The HPA that KEDA makes of a ScaledObject, and a policy of ours for the same workload.
        let mut keda = hpa("web", 2, 4);
        keda["metadata"]["name"] = json!("keda-hpa-web");
        keda["metadata"]["labels"] =
            json!({"app.kubernetes.io/managed-by": "keda-operator", "scaledobject.keda.sh/name": "web"});
        cluster.apply(keda).await?;
        wait::until("the HPA is observed", MINUTE, async || {
            cluster.scaling_condition_is("keda-hpa-web", "HPAOwned", "False", "Observed")
        })
        .await?;
        let mut ours = scaling_policy("ours", "web", 10);
        ours["spec"]["minReplicas"] = json!(7);
        cluster.apply(ours).await?;
        let message = wait::until("the policy stands back", MINUTE, async || {
            cluster.scaling_condition_is("ours", "Ready", "False", "Conflict")?;
            cluster.scaling_condition_is("ours", "Stalled", "True", "Conflict")
        })
        .await?;
        ensure!(message.contains("keda-hpa-web"), "{message}");

        wait::stays("what is theirs", Duration::from_secs(5), async || {
            cluster.replicas_are("web", 3)?;
            let nodes = cluster.nodes().await?;
            let theirs = nodes.iter().find(|node| e2e::removal::name(node) == "theirs-1");
            let traces = theirs.map(traces);
            ensure!(traces == Some(vec!["taint"]), "their node carries {traces:?}");
            let shown = cluster.kubectl(&["get", "hpa", "keda-hpa-web", "--output=json"])?;
            let hpa: serde_json::Value = serde_json::from_str(&shown)?;
            ensure!(hpa["status"]["conditions"].is_null(), "{hpa}");
            Ok(())
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}
