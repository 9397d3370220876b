//! A changed template replaces the pool's nodes: others are bought first, pods keep running within their budget, and the
//! operator, killed in the middle, buys nothing twice.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, disruption_budget, pool};
use e2e::harness::cluster_test;
use e2e::removal::name;
use e2e::wait;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn changed_template_replaces_all_nodes_and_none_is_bought_twice() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(pool("general").nodes(3, 8)).await?;
        wait::until("three nodes are ready", MINUTE, async || cluster.ready_nodes_are("general", 3).await)
            .await?;
        let before: BTreeSet<String> = cluster.nodes_of_pool("general").await?.iter().map(name).collect();
        // One a node, and well above the threshold.
        cluster.apply(deployment("web").requests("2500m", "1Gi").replicas(3)).await?;
        cluster.apply(disruption_budget("web", 2)).await?;
        wait::until("all pods run", MINUTE, async || cluster.running_pods_are("default", "app=web", 3).await)
            .await?;

        let change = json!({"spec": {
            "rotation": {"drift": "Replace"}, "template": {"labels": {"image": "next"}}}});
        cluster.edit_pool("general", change).await?;
        wait::until("status counts the outdated nodes", MINUTE, async || {
            let status = cluster.pool_status("general").await?;
            ensure!(status["nodes"]["outdated"].as_i64() > Some(0), "nodes are {}", status["nodes"]);
            Ok(())
        })
        .await?;
        wait::until("a replacement is bought", MINUTE, async || {
            let status = cluster.pool_status("general").await?;
            ensure!(status["replacement"]["reason"] == "OutdatedNodes", "status is {status}");
            Ok(())
        })
        .await?;
        operator.kill();
        let operator = cluster.operator().start()?;
        operator.ready().await?;

        wait::until("no node of before is left", 4 * MINUTE, async || {
            let left: BTreeSet<String> = cluster.nodes_of_pool("general").await?.iter().map(name).collect();
            ensure!(left.is_disjoint(&before) && left.len() == 3, "nodes are {left:?}, and were {before:?}");
            Ok(())
        })
        .await?;
        wait::until("nothing is outdated, and all pods run", MINUTE, async || {
            let status = cluster.pool_status("general").await?;
            ensure!(status["nodes"]["outdated"] == 0, "nodes are {}", status["nodes"]);
            ensure!(status["replacement"].is_null(), "status is {status}");
            cluster.running_pods_are("default", "app=web", 3).await
        })
        .await?;
        let nodes = cluster.nodes_of_pool("general").await?;
        let made_anew = |node: &Node| {
            node.metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get("image"))
                .is_some_and(|image| image == "next")
        };
        ensure!(nodes.iter().all(made_anew), "not all nodes are of the new template");
        all_bought_are_there(&cluster.pool_status("general").await?, nodes.len())
    })
    .await;
}

/// Purchases in place of outdated nodes come to as many nodes as were replaced.
fn all_bought_are_there(status: &Value, nodes: usize) -> Result<()> {
    let decisions = status["decisions"].as_array().cloned().unwrap_or_default();
    let grown = |decision: &&Value| decision["reason"] == "OutdatedNodes";
    let size =
        |decision: &Value| decision["to"].as_i64().unwrap_or(0) - decision["from"].as_i64().unwrap_or(0);
    let bought: i64 = decisions.iter().filter(grown).map(size).sum();
    ensure!(bought == i64::try_from(nodes)?, "{bought} nodes were bought in place of {nodes}: {decisions:?}");
    Ok(())
}
