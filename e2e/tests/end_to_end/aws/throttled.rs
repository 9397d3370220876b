//! AWS throttles: reads alone, then nothing is known and nothing is done; writes alone, then nothing is done twice.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::aws::{Bed, aws_pool, aws_test};
use e2e::fixtures::deployment;
use e2e::wait;
use serde_json::{Value, json};

use super::{PODS_A_NODE, only_ended, settles, writes};

const SPELL: Duration = Duration::from_secs(6);

/// Pods that need two nodes more, while such calls are throttled. Returns the operator's writes of that time.
async fn throttled(bed: &Bed, faults: Value) -> Result<usize> {
    bed.aws.group("web").desired(1).create().await?;
    bed.cluster.apply(aws_pool("general", &["web"])).await?;
    bed.cluster.apply(deployment("web").replicas(PODS_A_NODE)).await?;
    let operator = bed.operator().start()?;
    settles(bed, PODS_A_NODE, &[("web", 1)]).await?;
    bed.aws.faults(faults).await?;
    bed.cluster.scale_deployment("web", 3 * PODS_A_NODE).await?;
    wait::stays("nothing changes", SPELL, async || {
        let group = bed.aws.group_now("web").await?;
        ensure!(group.desired == 1 && group.live == 1, "{group:?}");
        only_ended(bed, &[]).await
    })
    .await?;
    let tried = writes(bed).await?.len();
    bed.aws.faults(json!([])).await?;
    settles(bed, 3 * PODS_A_NODE, &[("web", 3)]).await?;
    operator.process().check_running()?;
    only_ended(bed, &[]).await?;
    Ok(tried)
}

fn throttling(action: &str) -> Value {
    json!({"service": "autoscaling", "action": action, "key": e2e::aws::OPERATOR_KEY, "code": "Throttling", "message": "Rate exceeded", "count": -1})
}

#[test]
fn throttled_reads_never_become_a_size() {
    aws_test(async |bed| {
        let faults = ["DescribeAutoScalingGroups", "DescribeScalingActivities"].map(throttling);
        let tried = throttled(bed, json!(faults)).await?;
        ensure!(tried == 0, "{tried} writes without a fresh read");
        Ok(())
    });
}

#[test]
fn throttled_writes_are_made_once_when_they_can_be() {
    aws_test(async |bed| {
        let faults = ["SetDesiredCapacity", "LaunchInstances"].map(throttling);
        let tried = throttled(bed, json!(faults)).await?;
        ensure!((1..=20).contains(&tried), "{tried} throttled writes in {SPELL:?}");
        let group = bed.aws.group_now("web").await?;
        ensure!(group.desired == 3, "{group:?}");
        Ok(())
    });
}
