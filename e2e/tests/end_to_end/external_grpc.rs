//! Upstream's own externalgrpc server buys and returns nodes: by template from zero, by exact victim, once whatever is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::external_grpc::ExternalServer;
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const MINUTES: Duration = Duration::from_secs(240);

/// A pool of these groups of the server. Nodes go after some seconds.
fn external_pool(server: &ExternalServer, groups: &[&str]) -> Value {
    let groups: Vec<Value> = groups.iter().map(|id| json!({"id": id})).collect();
    let provider = json!({
        "type": "ExternalGrpc",
        "externalGrpc": {"address": server.address(), "insecure": true, "writeTimeout": "5s", "nodeGroups": groups},
    });
    let pool = pool("general")
        .quick_scale_down("5s")
        .set("/spec/provider", provider)
        .set("/spec/template", json!({}));
    pool.into()
}

async fn nodes(cluster: &ControlPlane) -> Result<BTreeSet<String>> {
    Ok(cluster.nodes().await?.into_iter().filter_map(|node| node.metadata.name).collect())
}

/// So many pods run on so many nodes.
async fn settled(cluster: &ControlPlane, pods: usize, count: usize) -> Result<()> {
    cluster.running_pods_are("default", "app=web", pods).await?;
    let found = nodes(cluster).await?;
    ensure!(found.len() == count, "{} nodes: {found:?}", found.len());
    Ok(())
}

#[tokio::test]
async fn groups_of_upstreams_server_grow_from_zero_and_lose_the_exact_victims() {
    cluster_test(Options::new(), async |cluster| {
        let server = ExternalServer::start(cluster, &["web-a"]).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(external_pool(&server, &["web-a"])).await?;
        // One pod a node.
        cluster.apply(deployment("web").replicas(5).requests("3", "1Gi")).await?;
        wait::until("five pods run on five nodes", MINUTES, async || settled(cluster, 5, 5).await).await?;

        // The server forgets its sizes and counts its nodes.
        server.restart().await?;
        cluster.scale_deployment("web", 1).await?;
        wait::until("one pod runs on one node", MINUTES, async || settled(cluster, 1, 1).await).await?;
        // The node of the pod that stayed is the one that stayed: four others were named.
        let last = nodes(cluster).await?.pop_first();
        let pods = cluster.pods("default", "app=web").await?;
        let mut stays = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let is_last = |node: Option<&String>| node == last.as_ref();
        ensure!(
            stays.all(|pod| is_last(pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()))),
            "the pod is not on {last:?}"
        );
        ensure!(
            server.calls("NodeGroupDeleteNodes") == 4,
            "{} deletions",
            server.calls("NodeGroupDeleteNodes")
        );
        ensure!(server.calls("Cleanup") == 0, "Cleanup was called, which deletes all nodes");
        server.process().check_running()?;
        operator.process().check_running()
    })
    .await;
}

#[tokio::test]
async fn a_lost_answer_of_upstreams_server_buys_nothing_twice() {
    cluster_test(Options::new(), async |cluster| {
        let server = ExternalServer::start(cluster, &["web-a"]).await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(external_pool(&server, &["web-a"])).await?;
        cluster.pool_condition_wait("general", "ProviderAvailable", "True").await?;
        server.fault("NodeGroupIncreaseSize", "lose-answer")?;
        cluster.apply(deployment("web").replicas(3).requests("3", "1Gi")).await?;
        wait::until("three pods run on three nodes", MINUTES, async || settled(cluster, 3, 3).await).await?;
        let before = server.calls("NodeGroupIncreaseSize");

        // The call itself is lost: nothing comes before the doubt ends, and then the difference is asked for once.
        server.fault("NodeGroupIncreaseSize", "lose-call")?;
        cluster.scale_deployment("web", 5).await?;
        wait::until("the call is lost", MINUTES, async || {
            let calls = server.calls("NodeGroupIncreaseSize");
            ensure!(calls == before + 1, "{calls} calls");
            Ok(())
        })
        .await?;
        server.fault("", "")?;
        wait::stays("nothing more is sent in doubt", Duration::from_secs(30), async || {
            ensure!(server.calls("NodeGroupIncreaseSize") == before + 1, "sent again");
            Ok(())
        })
        .await?;
        wait::until("five pods run on five nodes", MINUTES, async || settled(cluster, 5, 5).await).await?;
        ensure!(server.calls("NodeGroupIncreaseSize") == before + 2, "sent more than once again");
        operator.process().check_running()
    })
    .await;
}
