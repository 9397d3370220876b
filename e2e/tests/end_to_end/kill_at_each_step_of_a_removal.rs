//! Killed at each call of a removal in turn and started again, the operator ends what it began and loses nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::pool;
use e2e::harness::cluster_test;
use e2e::operator::Operator;
use e2e::wait;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
/// Nodes, each with one pod, at the start: each round takes one away, and two are to be left.
const NODES: u32 = 18;
/// Calls of a removal: a process must have died after each.
const CALLS: [&str; 4] = [
    "PUT /apis/headroom.dev/v1alpha1/nodepools/general/status",
    "PATCH /api/v1/nodes/",
    "POST /api/v1/namespaces/default/pods/",
    "DELETE /api/v1/nodes/",
];

#[tokio::test]
async fn removal_ends_well_wherever_the_operator_was_killed() {
    cluster_test(Options::new().with_audit_log(), async |cluster| {
        let operator = start(cluster, &[])?;
        operator.ready().await?;
        // So large that the pods of all are little to each.
        let general = pool("general").capacity("64", "256Gi").nodes(0, NODES).quick_scale_down("0s");
        cluster.spread_web(general, NODES, 1).await?;
        wait::until("nothing is under way", MINUTE, async || settled(cluster, NODES).await).await?;
        operator.terminate(Duration::from_secs(15)).await?;

        let points = points_of_a_removal(cluster).await?;
        let mut left = NODES - 1;
        let mut reached = BTreeSet::new();
        // On a busy machine a removal writes its status more often or more seldom, and the numbers shift: what none of
        // them has reached is asked for by its name, once.
        let mut numbers = points.into_iter().map(|number| number.to_string());
        let mut names = CALLS.map(|call| format!("after {call}")).into_iter();
        while let Some(point) = numbers.next().or_else(|| names.find(|call| !was_reached(&reached, call))) {
            left = left.checked_sub(1).filter(|left| 2 <= *left).context("a removal makes too many calls")?;
            let round = one_round(cluster, &point, left).await;
            reached.extend(round.with_context(|| format!("call {point}, after {reached:?}"))?);
        }
        check(cluster, &reached, left).await
    })
    .await;
}

/// Lets one node go undisturbed, and returns the numbers of the points of it that leave different clusters behind.
///
/// Death before a call and after the one before it are the same death, so the first point and those after a call are
/// enough. Nothing hangs on events, and of status writes in a row only the last is followed by an effect.
async fn points_of_a_removal(cluster: &ControlPlane) -> Result<Vec<u32>> {
    let log = cluster.folder().join("calls.log");
    let operator = start(cluster, &[("HEADROOM_CRASH_LOG", &log.display().to_string())])?;
    shrink_to(cluster, NODES - 1).await?;
    wait::until("a removal is over", MINUTE, async || settled(cluster, NODES - 1).await).await?;
    operator.terminate(Duration::from_secs(15)).await?;
    let text = std::fs::read_to_string(&log).context("failed to read the log of calls")?;
    let mut points: Vec<(u32, bool)> = vec![(1, false)];
    for line in text.lines().filter(|line| line.contains(" after ") && !line.contains("/events")) {
        let (number, call) = line.split_once(' ').with_context(|| format!("failed to read {line}"))?;
        let is_status = call.starts_with("after PUT ");
        if is_status && points.last().is_some_and(|(_, also)| *also) {
            points.pop();
        }
        points.push((number.parse()?, is_status));
    }
    Ok(points.into_iter().map(|(number, _)| number).collect())
}

/// Lets one node go with an operator that dies at the call with this number or of these words, and then with one that
/// does not. Returns the call it died at; none if the removal was over before.
async fn one_round(cluster: &ControlPlane, point: &str, left: u32) -> Result<Option<String>> {
    let doomed = start(cluster, &[("HEADROOM_CRASH_AT", point)])?;
    shrink_to(cluster, left).await?;
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
    let (_, call) = said.and_then(|said| said.split_once(" reached ")).context("it died elsewhere")?;
    let next = start(cluster, &[])?;
    wait::until(&format!("the removal is over, though killed {call}"), MINUTE, async || {
        settled(cluster, left).await
    })
    .await?;
    next.terminate(Duration::from_secs(15)).await?;
    Ok(Some(call.to_owned()))
}

/// For [`wait::until`]: so many nodes are left, no mark and no intent is, every pod runs.
async fn settled(cluster: &ControlPlane, left: u32) -> Result<()> {
    cluster.ready_nodes_are("general", usize::try_from(left)?).await?;
    cluster.no_node_is_marked().await?;
    let intents = cluster.pool_status("general").await?["intents"].clone();
    ensure!(intents.is_null(), "intents are {intents}");
    cluster.running_pods_are("default", "app=web", usize::try_from(NODES)?).await
}

fn was_reached(reached: &BTreeSet<String>, call: &str) -> bool {
    reached.iter().any(|reached| reached.starts_with(call))
}

async fn check(cluster: &ControlPlane, reached: &BTreeSet<String>, left: u32) -> Result<()> {
    for call in CALLS.map(|call| format!("after {call}")) {
        ensure!(was_reached(reached, &call), "nobody died {call}: {reached:#?}");
    }
    let ours = cluster.writes()?.by(User::Headroom).accepted();
    let deleted = ours.clone().to("nodes").with_verb("delete").len();
    ensure!(deleted == usize::try_from(NODES - left)?, "{deleted} nodes were deleted:\n{}", ours.describe());
    ensure!(ours.to("pods").is_empty(), "pods were deleted beside the eviction API");
    Ok(())
}

async fn shrink_to(cluster: &ControlPlane, nodes: u32) -> Result<()> {
    cluster.edit_pool("general", json!({"spec": {"minNodes": nodes}})).await?;
    Ok(())
}

fn start(cluster: &ControlPlane, env: &[(&str, &str)]) -> Result<Operator> {
    let builder = cluster.operator().flag("--lease-seconds=2");
    env.iter().fold(builder, |builder, (name, value)| builder.env(name, value)).start()
}
