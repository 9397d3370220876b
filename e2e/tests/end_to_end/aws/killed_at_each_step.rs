//! Killed at each step of a purchase and of a removal and started again: nothing is bought twice, nobody else is ended.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::aws::{Bed, aws_pool, aws_test};
use e2e::fixtures::deployment;
use e2e::operator::Operator;
use e2e::wait;
use serde_json::json;

use super::{MINUTE, PODS_A_NODE};

const SECONDS: &str = "2s";
const LAUNCH: &str = "LaunchInstances";
const TERMINATE: &str = "TerminateInstanceInAutoScalingGroup";

#[test]
fn purchase_and_removal_end_well_wherever_the_operator_was_killed_even_points() {
    aws_test(async |bed| every_other_point(bed, 0).await);
}

#[test]
fn purchase_and_removal_end_well_wherever_the_operator_was_killed_odd_points() {
    aws_test(async |bed| every_other_point(bed, 1).await);
}

/// Half of the points, so that two of these can run at once.
async fn every_other_point(bed: &Bed, first: usize) -> Result<()> {
    bed.aws.group("web").sizes(0, 10).create().await?;
    bed.cluster.apply(aws_pool("general", &["web"]).quick_scale_down(SECONDS)).await?;
    let log = bed.cluster.folder().join(format!("aws-points-{first}"));
    let logging = [("HEADROOM_CRASH_LOG", log.display().to_string())];
    let operator = start(bed, &logging)?;
    up(bed).await?;
    settled(bed, 1).await?;
    operator.kill();
    let up_points = points(&fs::read_to_string(&log)?, LAUNCH)?;
    fs::remove_file(&log)?;
    let operator = start(bed, &logging)?;
    down(bed).await?;
    settled(bed, 0).await?;
    operator.kill();
    let down_points = points(&fs::read_to_string(&log)?, TERMINATE)?;

    let (mut reached, mut wanted) = (BTreeSet::new(), BTreeSet::new());
    // Both halves die at the writes, which are found by their names: two runs need not have the same numbers.
    let is_write = |points: &[Point], index: usize| points.get(index).is_some_and(|point| point.is_write);
    for index in 0..up_points.len().max(down_points.len()) {
        if index % 2 != first && !is_write(&up_points, index) && !is_write(&down_points, index) {
            continue;
        }
        for (points, action, nodes) in [(&up_points, LAUNCH, 1), (&down_points, TERMINATE, 0)] {
            // The last point stands in when one way is shorter than the other.
            let point = points.get(index).or(points.last()).context("no points")?;
            if point.is_write {
                wanted.insert(action);
            }
            reached.extend(round(bed, &point.at, nodes).await?);
        }
    }
    for action in wanted {
        let hit = reached.iter().any(|point| point.contains(action));
        ensure!(hit, "nobody died at {action}: {reached:#?}");
    }
    ensure!(!reached.is_empty(), "nobody died");
    Ok(())
}

/// One purchase or removal that an operator begins, dying at this point, and the next one ends. Returns what was reached.
async fn round(bed: &Bed, point: &str, nodes: u32) -> Result<Option<String>> {
    let before = bed.aws.terminations().await?.len();
    let working: Vec<String> = bed.aws.live("web").await?.into_iter().map(|i| i.id).collect();
    let doomed = start(bed, &[("HEADROOM_CRASH_AT", point.to_owned())])?;
    if nodes == 1 {
        up(bed).await?
    } else {
        down(bed).await?
    }
    let died = wait::until("it dies, or has done its work", MINUTE, async || {
        if doomed.process().exit_status().is_some() {
            return Ok(true);
        }
        is_settled(bed, nodes).await.map(|()| false)
    })
    .await?;
    doomed.kill();
    let log = doomed.log();
    let said = log.lines().rev().find_map(|line| line.strip_prefix("crash point ")).map(str::to_owned);
    let next = start(bed, &[])?;
    settled(bed, nodes).await.with_context(|| format!("after a crash at {said:?}"))?;
    next.kill();
    let ended: Vec<String> = bed.aws.terminations().await?.into_iter().skip(before).map(|t| t.id).collect();
    let wanted = if nodes == 1 { Vec::new() } else { working };
    ensure!(ended == wanted, "after a crash at {said:?} ended were {ended:?}, wanted {wanted:?}");
    Ok(if died { said } else { None })
}

/// A moment at which the operator dies.
struct Point {
    /// Its number, or for the write the beginning of its line.
    at: String,
    /// True if it is after the write to AWS that it is all about.
    is_write: bool,
}

/// The points after effects that leave different worlds behind; the first one is before anything was done. At least one of
/// them is after this write to AWS.
fn points(log: &str, action: &str) -> Result<Vec<Point>> {
    let mut points: Vec<(Point, bool)> = vec![(Point { at: "1".into(), is_write: false }, false)];
    for line in log.lines().filter(|line| line.contains(" after ") && !line.contains("/events")) {
        let (number, call) = line.split_once(' ').with_context(|| format!("failed to read {line}"))?;
        // Of status writes in a row only the last is followed by an effect.
        let is_status = call.starts_with("after PUT ");
        if is_status && points.last().is_some_and(|(_, also)| *also) {
            points.pop();
        }
        let write = call.find(action).map(|begin| call[..begin + action.len()].to_owned());
        let is_write = write.is_some();
        points.push((Point { at: write.unwrap_or_else(|| number.to_owned()), is_write }, is_status));
    }
    ensure!(points.iter().any(|(point, _)| point.is_write), "nobody called {action}:\n{log}");
    Ok(points.into_iter().map(|(point, _)| point).collect())
}

async fn up(bed: &Bed) -> Result<()> {
    bed.cluster.apply(deployment("web").replicas(PODS_A_NODE)).await?;
    Ok(())
}

async fn down(bed: &Bed) -> Result<()> {
    bed.cluster.patch("Deployment", "apps/v1", "web", json!({"spec": {"replicas": 0}})).await?;
    Ok(())
}

async fn settled(bed: &Bed, nodes: u32) -> Result<()> {
    wait::until("everything has settled", MINUTE, async || is_settled(bed, nodes).await).await
}

async fn is_settled(bed: &Bed, nodes: u32) -> Result<()> {
    let count = usize::try_from(nodes)?;
    bed.runs_on("web", usize::try_from(nodes * PODS_A_NODE)?, &[("web", count)]).await?;
    let group = bed.aws.group_now("web").await?;
    ensure!(group.desired == nodes && group.instances == nodes, "{group:?}");
    let left = bed.cluster.nodes().await?.len();
    ensure!(left == count, "{left} nodes");
    let status = bed.cluster.pool_status("general").await?;
    ensure!(status["intents"].is_null(), "under way: {}", status["intents"]);
    ensure!(status["nodes"]["ready"] == nodes, "status counts {}", status["nodes"]);
    Ok(())
}

fn start(bed: &Bed, env: &[(&str, String)]) -> Result<Operator> {
    env.iter().fold(bed.operator(), |builder, (name, value)| builder.env(name, value)).start()
}
