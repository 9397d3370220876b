//! A schedule whose window is open raises the minimum: nodes come without pods; when it is closed they leave again.

use std::time::Duration;

use anyhow::ensure;
use e2e::control_plane::Options;
use e2e::fixtures::{pool, window};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn nodes_come_while_the_window_is_open_and_leave_when_it_is_closed() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let open = json!([{"name": "office", "window": window(true), "minNodes": 2}]);
        cluster.apply(pool("general").quick_scale_down("2s").set("/spec/schedules", open)).await?;
        wait::until("two nodes come without a pod", MINUTE, async || {
            cluster.ready_nodes_are("general", 2).await?;
            let bounds = cluster.pool_status("general").await?["bounds"].clone();
            ensure!(
                bounds["minNodes"] == 2 && bounds["activeSchedules"] == json!(["office"]),
                "bounds are {bounds}"
            );
            ensure!(bounds["nextScheduleChange"].is_string(), "bounds are {bounds}");
            Ok(())
        })
        .await?;
        let reason = cluster.newest_decision("general", "ScaleUp").await?["reason"].clone();
        ensure!(reason == "BelowMinNodes", "they came for {reason}");

        let closed = json!([{"name": "office", "window": window(false), "minNodes": 2}]);
        cluster.edit_pool("general", json!({"spec": {"schedules": closed}})).await?;
        wait::until("they leave again", MINUTE, async || {
            cluster.ready_nodes_are("general", 0).await?;
            let bounds = cluster.pool_status("general").await?["bounds"].clone();
            ensure!(bounds["minNodes"] == 0 && bounds["activeSchedules"].is_null(), "bounds are {bounds}");
            Ok(())
        })
        .await
    })
    .await;
}
