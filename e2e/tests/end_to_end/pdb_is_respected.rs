//! A PodDisruptionBudget keeps a node while it allows no eviction, and is never gone below when it allows one at a time.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::{Options, User};
use e2e::fixtures::{disruption_budget, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn pdb_without_room_keeps_the_node_and_one_at_a_time_lets_it_go() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        // Two pods to a node: a node needs two evictions, and the budget will allow one at a time.
        cluster.spread_web(pool("general").quick_scale_down("2s"), 2, 2).await?;
        cluster.apply(disruption_budget("web", 4)).await?;
        wait::until("the budget allows nothing", MINUTE, async || allowed(cluster, 0).await).await?;

        cluster.edit_pool("general", json!({"spec": {"minNodes": 0}})).await?;
        wait::until("status names the budget", MINUTE, async || {
            let row = cluster.blocked("general", "NotEnoughPdb").await?;
            ensure!(row["object"] == "pdb/default/web" && row["count"] == 2, "the row is {row}");
            Ok(())
        })
        .await?;
        wait::stays("both nodes, unmarked", Duration::from_secs(5), async || {
            cluster.ready_nodes_are("general", 2).await?;
            cluster.no_node_is_marked().await
        })
        .await?;
        let evictions = cluster.writes()?.by(User::Headroom).to("pods/eviction");
        ensure!(evictions.is_empty(), "evictions were tried in vain:\n{}", evictions.describe());

        cluster.apply(disruption_budget("web", 3)).await?;
        let mut fewest = usize::MAX;
        wait::until("one node is left with all four pods on it", MINUTE, async || {
            fewest = fewest.min(cluster.pods_in_phase("default", "app=web", "Running").await?);
            cluster.ready_nodes_are("general", 1).await?;
            cluster.running_pods_are("default", "app=web", 4).await
        })
        .await?;
        ensure!(fewest >= 3, "only {fewest} pods ran at a time");
        wait::until("both evictions are reported on their pods", MINUTE, async || {
            let events = cluster.kubectl(&["get", "events", "--field-selector=reason=Evicted"])?;
            let reported = events.lines().filter(|line| line.contains("pod/web-")).count();
            ensure!(reported == 2 && events.contains("pool general is being removed"), "{events}");
            Ok(())
        })
        .await?;
        let ours = cluster.writes()?.by(User::Headroom).accepted();
        ensure!(ours.clone().to("pods").is_empty(), "{}", ours.describe());
        Ok(())
    })
    .await;
}

async fn allowed(cluster: &e2e::control_plane::ControlPlane, count: u32) -> anyhow::Result<()> {
    let path = "jsonpath={.status.disruptionsAllowed} {.status.currentHealthy}";
    let text = cluster.kubectl(&["get", "pdb", "web", "-o", path])?;
    ensure!(text == format!("{count} 4"), "allowed and healthy are {text}");
    Ok(())
}
