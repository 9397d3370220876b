//! A cluster where Karpenter's NodePool kind is installed too: both are found by their names, and its nodes are left alone.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::{Options, User};
use e2e::fixtures::{node, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn karpenters_kind_and_nodes_are_left_alone_and_ours_are_found_by_name() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        cluster.apply(karpenter_node_pools()).await?;
        let theirs = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "general"},
            "spec": {"limits": {"cpu": "100"}},
        });
        wait::until("Karpenter's kind is served", MINUTE, async || cluster.apply(theirs.clone()).await)
            .await?;
        cluster.apply(node("karpenter-1", "4", "16Gi").label("karpenter.sh/nodepool", "general")).await?;
        // A node of ours that Karpenter has taken over: labels of both.
        let both = node("both-1", "4", "16Gi")
            .label("karpenter.sh/nodepool", "general")
            .label("headroom.dev/pool", "general")
            .label("headroom.dev/group", "a")
            .set("/spec/providerID", "kwok://both-1");
        cluster.apply(both).await?;

        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").nodes(0, 5).quick_scale_down("1s")).await?;
        wait::until("ours is accepted", MINUTE, async || {
            cluster.pool_condition_is("general", "Ready", "True", "Accepted").await
        })
        .await?;
        wait::until("status says whose the node is", MINUTE, async || {
            let row = cluster.blocked("general", "ForeignNode").await?;
            ensure!(row["examples"] == json!(["both-1"]) && row["count"] == 1, "the row is {row}");
            Ok(())
        })
        .await?;

        for args in [["get", "hnp"], ["get", "nodepools.headroom.dev"]] {
            let table = cluster.kubectl(&args)?;
            ensure!(table.contains("MAX") && table.contains("general"), "kubectl shows\n{table}");
        }
        let table = cluster.kubectl(&["get", "nodepools.karpenter.sh", "general"])?;
        ensure!(!table.contains("MAX"), "kubectl shows\n{table}");

        wait::stays("Karpenter's nodes", Duration::from_secs(6), async || {
            let nodes = cluster.nodes().await?;
            ensure!(nodes.len() == 2, "{} nodes are left", nodes.len());
            cluster.no_node_is_marked().await
        })
        .await?;
        let ours = cluster.writes()?.by(User::Headroom);
        let foreign: Vec<_> = ours.0.iter().filter(|write| write.group == "karpenter.sh").collect();
        ensure!(foreign.is_empty(), "Karpenter's objects were written: {foreign:?}");
        ensure!(ours.clone().to("nodes").is_empty(), "nodes were written:\n{}", ours.describe());
        Ok(())
    })
    .await;
}

/// As much of Karpenter's kind as its name clashes by.
fn karpenter_node_pools() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodepools.karpenter.sh"},
        "spec": {
            "group": "karpenter.sh",
            "scope": "Cluster",
            "names": {
                "kind": "NodePool",
                "listKind": "NodePoolList",
                "plural": "nodepools",
                "singular": "nodepool",
            },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}
