//! Killed at each call of a removal in turn and started again, the operator ends what it began and loses nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::pool;
use e2e::operator::Operator;
use e2e::story::story;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
/// Nodes, each with one pod, at the start: each round takes one away, and two are to be left.
const NODES: u32 = 22;

#[tokio::test]
async fn removal_ends_well_wherever_the_operator_was_killed() {
    story(Options::new().with_audit_log(), async |cluster| {
        let operator = start(cluster, None)?;
        operator.ready().await?;
        let general = pool("general").nodes(0, NODES).quick_scale_down("0s");
        cluster.spread_web(general, NODES, 1).await?;
        operator.terminate(Duration::from_secs(15)).await?;

        let mut reached = BTreeSet::new();
        for round in 1..NODES - 1 {
            let left = NODES - round;
            let Some(point) = one_round(cluster, round, left).await.with_context(|| {
                format!("round {round}, after {reached:?}")
            })?
            else {
                // The removal was over before so many calls were made: every one of them has had its turn.
                return judge(cluster, &reached, left).await;
            };
            reached.insert(point);
        }
        anyhow::bail!("a removal makes more calls than there are nodes to try: {reached:?}")
    })
    .await;
}

/// Lets one node go with an operator that dies at call `number`, and then with one that does not. Returns where it
/// died; none if the node had gone before.
async fn one_round(cluster: &ControlPlane, number: u32, left: u32) -> Result<Option<String>> {
    let doomed = start(cluster, Some(number))?;
    doomed.ready().await?;
    cluster.edit_pool("general", json!({"spec": {"minNodes": left}})).await?;
    let died = wait::until("it dies, or the removal is over", MINUTE, async || {
        if doomed.process().exit_status().is_some() {
            return Ok(true);
        }
        settled(cluster, left).await?;
        Ok(false)
    })
    .await?;
    if !died {
        doomed.terminate(Duration::from_secs(15)).await?;
        return Ok(None);
    }
    let log = doomed.log();
    let said = log.lines().rev().find_map(|line| line.strip_prefix("crash point "));
    let point = said.context("it died without reaching its crash point")?.to_owned();
    let next = start(cluster, None)?;
    wait::until(&format!("the removal is over after {point}"), MINUTE, async || {
        settled(cluster, left).await
    })
    .await?;
    next.terminate(Duration::from_secs(15)).await?;
    // Without the number and the names: the kind of call.
    let words = point.split_once(" reached ").map_or(&*point, |(_, words)| words);
    Ok(Some(words.to_owned()))
}

/// For [`wait::until`]: the node is gone, no mark and no intent is left, every pod runs.
async fn settled(cluster: &ControlPlane, left: u32) -> Result<()> {
    cluster.ready_nodes_are("general", usize::try_from(left)?).await?;
    cluster.no_node_is_marked().await?;
    let intents = cluster.pool_status("general").await?["intents"].clone();
    ensure!(intents.is_null(), "intents are {intents}");
    cluster.running_pods_are("default", "app=web", usize::try_from(NODES)?).await
}

async fn judge(cluster: &ControlPlane, reached: &BTreeSet<String>, left: u32) -> Result<()> {
    for side in ["before", "after"] {
        for call in ["nodepools/general/status", "PATCH /api/v1/nodes/", "/eviction", "DELETE /api/v1/nodes/"] {
            ensure!(
                reached.iter().any(|point| point.starts_with(side) && point.contains(call)),
                "nobody died {side} a call to {call}: {reached:#?}"
            );
        }
    }
    let ours = cluster.writes()?.by(User::Headroom).accepted();
    let deleted = ours.clone().to("nodes").with_verb("delete").len();
    ensure!(deleted == usize::try_from(NODES - left)?, "{deleted} nodes were deleted:\n{}", ours.describe());
    ensure!(ours.to("pods").is_empty(), "pods were deleted beside the eviction API");
    Ok(())
}

fn start(cluster: &ControlPlane, crash_at: Option<u32>) -> Result<Operator> {
    let builder = cluster.operator().flag("--lease-seconds=2");
    match crash_at {
        Some(number) => builder.crash_at(&number.to_string()).start(),
        None => builder.start(),
    }
}
