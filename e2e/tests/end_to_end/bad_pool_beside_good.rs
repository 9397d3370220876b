//! A pool that the API server accepts and that cannot be used: status names the invalid field, and the others go on.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const TIER: &str = "example.com/tier";

#[tokio::test]
async fn a_bad_pool_names_its_field_while_the_good_one_works_and_works_itself_once_mended() {
    cluster_test(Options::new(), async |cluster| {
        // Both pass the schema: it knows the form of a time zone and of cron, not which ones exist.
        cluster
            .apply(
                pool("zoned")
                    .label(TIER, "bad")
                    .set("/spec/schedules", schedules("Mars/Olympus", "0 8 * * 1")),
            )
            .await?;
        cluster
            .apply(pool("timed").label(TIER, "bad").set("/spec/schedules", schedules("UTC", "61 8 * * 1")))
            .await?;
        cluster.apply(pool("good").label(TIER, "good")).await?;
        cluster.apply(deployment("fine").replicas(5).node_selector(TIER, "good")).await?;
        cluster.apply(deployment("stuck").replicas(3).node_selector(TIER, "bad")).await?;
        let operator = cluster.operator().start()?;

        wait::until("the good pool serves its pods", MINUTE, async || {
            cluster.running_pods_are("default", "app=fine", 5).await?;
            cluster.ready_nodes_are("good", 2).await
        })
        .await?;
        is_stalled(cluster, "zoned", &["schedules[0].window.timeZone", "Mars/Olympus"]).await?;
        is_stalled(cluster, "timed", &["schedules[0].window.start", "61", "minute"]).await?;
        cluster.pool_condition_is("good", "Ready", "True", "Accepted").await?;
        ensure!(cluster.pool_condition("good", "Stalled").await.is_err(), "the good pool is stalled too");
        ensure!(cluster.nodes().await?.len() == 2, "a bad pool has grown");

        let mended = json!({"spec": {"schedules": schedules("Europe/Berlin", "0 8 * * 1")}});
        cluster.patch("NodePool", "headroom.dev/v1alpha1", "zoned", mended).await?;
        wait::until("the mended pool serves its pods", MINUTE, async || {
            cluster.running_pods_are("default", "app=stuck", 3).await?;
            cluster.pool_condition_is("zoned", "Ready", "True", "Accepted").await?;
            ensure!(cluster.pool_condition("zoned", "Stalled").await.is_err(), "it is still stalled");
            Ok(())
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}

#[tokio::test]
async fn a_working_pool_that_is_edited_into_a_bad_one_keeps_its_nodes_and_what_it_remembers() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        cluster.apply(pool("good").quick_scale_down("1s")).await?;
        cluster.apply(deployment("web").replicas(3)).await?;
        wait::until("the pool serves its pods", MINUTE, async || {
            cluster.running_pods_are("default", "app=web", 3).await?;
            let status = cluster.pool_status("good").await?;
            ensure!(status["decisions"][0]["outcome"] == "Done", "decisions are {}", status["decisions"]);
            Ok(())
        })
        .await?;

        let broken = json!({"spec": {"schedules": schedules("Mars/Olympus", "0 8 * * 1")}});
        cluster.patch("NodePool", "headroom.dev/v1alpha1", "good", broken).await?;
        is_stalled(cluster, "good", &["timeZone"]).await?;
        cluster.scale_deployment("web", 0).await?;
        wait::stays("the node and the memory are kept", Duration::from_secs(4), async || {
            cluster.ready_nodes_are("good", 1).await?;
            let status = cluster.pool_status("good").await?;
            ensure!(status["decisions"][0]["to"] == 1, "the last decision is forgotten");
            Ok(())
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}

fn schedules(time_zone: &str, start: &str) -> Value {
    let window = json!({"timeZone": time_zone, "start": start, "duration": "1h"});
    json!([{"name": "office", "window": window, "maxNodes": 5}])
}

/// For kstatus and for people: Stalled with words that name the field, Ready false, both of this generation.
async fn is_stalled(cluster: &ControlPlane, pool: &str, words: &[&str]) -> Result<()> {
    wait::until(&format!("{pool} is stalled"), MINUTE, async || {
        cluster.pool_condition_is(pool, "Stalled", "True", "Invalid").await?;
        cluster.pool_condition_is(pool, "Ready", "False", "Invalid").await?;
        let stalled = cluster.pool_condition(pool, "Stalled").await?;
        let message = stalled["message"].as_str().unwrap_or_default();
        for word in words {
            ensure!(message.contains(word), "no {word:?} in {message:?}");
        }
        let shown = cluster.kubectl(&["get", "nodepool", pool, "--no-headers"])?;
        ensure!(shown.contains("Invalid"), "kubectl shows {shown}");
        let generation =
            cluster.kubectl(&["get", "nodepool", pool, "--output=jsonpath={.metadata.generation}"])?;
        ensure!(
            stalled["observedGeneration"].as_i64() == Some(generation.parse()?),
            "{stalled} of generation {generation}"
        );
        Ok(())
    })
    .await
}
