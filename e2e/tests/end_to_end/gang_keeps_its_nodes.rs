//! Pods that a running gang needs at once keep their nodes, with the reason in status and `explain`; what it can spare goes, and
//! the gang never runs fewer pods than it needs.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::{Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

use crate::gangs::{definition, pod_group};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_gang_keeps_the_nodes_of_all_pods_that_it_needs() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        cluster.apply(definition()).await?;
        wait::until("the kind is served", MINUTE, async || {
            cluster.apply(pod_group("train", 3)).await.map(drop)
        })
        .await?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        // All three pods would fit on one node.
        let train = deployment("train").replicas(3).pod_label("scheduling.x-k8s.io/pod-group", "train");
        let general = pool("general").quick_scale_down("2s");
        let nodes = cluster.spread(general, train, "app=train", [3, 1]).await?;

        cluster.edit_pool("general", json!({"spec": {"minNodes": 0}})).await?;
        wait::until("status names the gang's pods", MINUTE, async || {
            let row = cluster.blocked("general", "GangWouldBreak").await?;
            let object = row["object"].as_str().unwrap_or_default();
            ensure!(row["count"] == 3 && object.starts_with("pod/default/train-"), "the row is {row}");
            Ok(())
        })
        .await?;
        let explained = cluster.headroom(&["explain", "node", &nodes[0]])?;
        ensure!(
            explained.contains("GangWouldBreak") && explained.contains("the gang of pod/default/train-"),
            "{explained}"
        );
        wait::stays("three nodes, unmarked", Duration::from_secs(5), async || {
            cluster.ready_nodes_are("general", 3).await?;
            cluster.no_node_is_marked().await
        })
        .await?;
        let evictions = cluster.writes()?.by(User::Headroom).to("pods/eviction");
        ensure!(evictions.is_empty(), "evictions were tried in vain:\n{}", evictions.describe());

        // One pod can be spared, and the next one once another has taken its place.
        cluster.apply(pod_group("train", 2)).await?;
        let mut fewest = usize::MAX;
        wait::until("one node is left with all pods on it", MINUTE, async || {
            fewest = fewest.min(cluster.pods_in_phase("default", "app=train", "Running").await?);
            cluster.ready_nodes_are("general", 1).await?;
            cluster.running_pods_are("default", "app=train", 3).await
        })
        .await?;
        ensure!(fewest >= 2, "only {fewest} pods ran at a time");
        operator.process().check_running()
    })
    .await;
}
