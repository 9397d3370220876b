//! Killed and started again, the operator goes on from its clocks: unneeded-since and backoffs are what they were.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use jiff::Timestamp;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn node_leaves_when_its_first_clock_runs_out_and_a_backoff_ends_when_it_was_to_end() {
    const UNNEEDED_FOR: i64 = 20;
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().flag("--lease-seconds=2").start()?;
        operator.ready().await?;
        cluster.apply(pool("general").nodes(1, 5).quick_scale_down("20s")).await?;
        let failing = pool("failing")
            .nodes(0, 5)
            .label("example.com/tier", "failing")
            .set("/spec/provider/kwok/simulation/failures", json!([{"class": "OutOfCapacity"}]))
            .set("/spec/scaleUp/backoff/initial", "25s");
        cluster.apply(failing).await?;
        cluster.apply(deployment("stuck").node_selector("example.com/tier", "failing")).await?;
        wait::until("a node is ready", MINUTE, async || cluster.ready_nodes_are("general", 1).await).await?;
        cluster.edit_pool("general", json!({"spec": {"minNodes": 0}})).await?;
        let since = wait::until("the node's clock is reported", MINUTE, async || {
            let status = cluster.pool_status("general").await?;
            instant(&status["unneeded"][0]["since"])
        })
        .await?;
        let backoff = wait::until("the backoff is reported", MINUTE, async || backoff(cluster).await).await?;
        let backoff_until = instant(&backoff["until"])?;
        ensure!(backoff["failures"] == 1, "the backoff is {backoff}");

        // Long enough after the clock's start that a clock begun anew would differ.
        wait::until("the clock has run for a while", MINUTE, async || {
            ensure!(8 <= seconds_between(since, Timestamp::now()), "the clock has just started");
            Ok(())
        })
        .await?;
        operator.kill();
        operator.restart()?;
        operator.ready().await?;
        let restarted_at = Timestamp::now();

        let decided_at = wait::until("the removal is decided", MINUTE, async || {
            let decision = cluster.newest_decision("general", "ScaleDown").await?;
            instant(&decision["time"])
        })
        .await?;
        let waited = seconds_between(since, decided_at);
        ensure!(
            (UNNEEDED_FOR..UNNEEDED_FOR + 5).contains(&waited),
            "decided {waited} s after the clock began, and {} s after the restart",
            seconds_between(restarted_at, decided_at)
        );

        let next = wait::until("the launch is tried again", MINUTE, async || {
            let row = self::backoff(cluster).await?;
            ensure!(row["failures"] == 2, "the backoff is {row}");
            Ok(row)
        })
        .await?;
        let again_at = instant(&next["since"])?;
        ensure!(
            backoff_until <= again_at,
            "tried again at {again_at}, the backoff held until {backoff_until}"
        );
        wait::until("the node goes", MINUTE, async || cluster.ready_nodes_are("general", 0).await).await
    })
    .await;
}

async fn backoff(cluster: &ControlPlane) -> Result<Value> {
    let row = cluster.pool_status("failing").await?["backoffs"][0].clone();
    ensure!(row.is_object(), "no backoff is reported");
    Ok(row)
}

fn instant(value: &Value) -> Result<Timestamp> {
    let text = value.as_str().context("no time is reported")?;
    text.parse().with_context(|| format!("failed to read {text}"))
}

/// Whole seconds, rounded down.
fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs()
}
