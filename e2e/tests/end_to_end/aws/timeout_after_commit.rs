//! AWS does what it was asked and the answer is lost or late: nothing is bought a second time.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::aws::{Bed, aws_pool, aws_test};
use e2e::fixtures::deployment;
use e2e::wait;
use serde_json::{Value, json};

use super::{MINUTE, PODS_A_NODE, only_ended, settles};

#[test]
fn launch_whose_answer_is_lost_buys_once() {
    aws_test(async |bed| {
        let lost = json!({"action": "LaunchInstances", "commit": true, "drop": true, "count": 2});
        buys_once(bed, &["us-east-1a"], lost).await
    });
}

#[test]
fn size_whose_answer_is_lost_is_set_once() {
    aws_test(async |bed| {
        let lost = json!({"action": "SetDesiredCapacity", "commit": true, "drop": true});
        buys_once(bed, &["us-east-1a", "us-east-1b"], lost).await
    });
}

#[test]
fn size_whose_answer_is_late_is_set_once() {
    aws_test(async |bed| {
        let late = json!({"action": "SetDesiredCapacity", "commit": true, "latency_ms": 11_000});
        buys_once(bed, &["us-east-1a", "us-east-1b"], late).await
    });
}

async fn buys_once(bed: &Bed, zones: &[&str], fault: Value) -> Result<()> {
    bed.aws.group("web").zones(zones).create().await?;
    bed.aws.faults(json!([fault])).await?;
    bed.cluster.apply(aws_pool("general", &["web"])).await?;
    bed.cluster.apply(deployment("web").replicas(2 * PODS_A_NODE)).await?;
    let operator = bed.operator().start()?;
    settles(bed, 2 * PODS_A_NODE, &[("web", 2)]).await?;
    wait::until("nothing is under way", MINUTE, async || {
        let status = bed.cluster.pool_status("general").await?;
        ensure!(status["intents"].is_null(), "under way: {}", status["intents"]);
        ensure!(status["nodes"]["ready"] == 2, "status counts {}", status["nodes"]);
        Ok(())
    })
    .await?;
    wait::stays("two are bought", Duration::from_secs(3), async || {
        let group = bed.aws.group_now("web").await?;
        ensure!(group.desired == 2, "{group:?}");
        Ok(())
    })
    .await?;
    operator.process().check_running()?;
    only_ended(bed, &[]).await
}
