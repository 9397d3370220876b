//! A notice in the queue of interruptions: bought for and cordoned within seconds, its pods run elsewhere before the end, and the
//! queue is empty afterwards. Doubled, alien and unreadable messages do nothing.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::aws::{Bed, aws_pool, aws_test};
use e2e::fixtures::deployment;
use e2e::wait;
use serde_json::json;

use super::{MINUTE, PODS_A_NODE, only_ended, settles};

const QUEUE: &str = "interruptions";
/// From the notice to the cordon and the purchase.
const AT_ONCE: Duration = Duration::from_secs(5);
/// From the notice to the end of a spot instance.
const NOTICE: Duration = Duration::from_secs(120);

#[test]
fn notice_of_an_interruption_is_bought_for_at_once_and_nobody_waits() {
    aws_test(async |bed| {
        bed.aws.create_queue(QUEUE).await?;
        bed.aws.group("web").desired(2).create().await?;
        let pool = aws_pool("general", &["web"]);
        bed.cluster.apply(pool.set("/spec/provider/aws/interruptionQueue", QUEUE)).await?;
        bed.cluster.apply(deployment("web").replicas(2 * PODS_A_NODE)).await?;
        let _operator = bed.operator().start()?;
        settles(bed, 2 * PODS_A_NODE, &[("web", 2)]).await?;

        for nonsense in ["not an event", &spot_warning("i-0123456789abcdef0"), "{\"source\": \"aws.ec2\"}"] {
            bed.aws.send_message(QUEUE, nonsense).await?;
        }
        let taken = bed.aws.live("web").await?.swap_remove(0);
        let warned_at = Instant::now();
        for _ in 0..2 {
            bed.aws.send_message(QUEUE, &spot_warning(&taken.id)).await?;
        }
        wait::until("it is cordoned and another is wanted", AT_ONCE, async || {
            is_being_replaced(bed, &taken.host).await
        })
        .await?;
        wait::until("its pods run elsewhere", NOTICE, async || {
            let pods = bed.cluster.pods("default", "app=web").await?;
            let there = |pod: &&k8s_openapi::api::core::v1::Pod| {
                pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(taken.host.as_str())
            };
            let left = pods.iter().filter(there).count();
            ensure!(left == 0, "{left} pods are on it");
            let all = usize::try_from(2 * PODS_A_NODE)?;
            bed.cluster.running_pods_are("default", "app=web", all).await
        })
        .await?;
        ensure!(warned_at.elapsed() < NOTICE, "it took {:?}", warned_at.elapsed());
        settles(bed, 2 * PODS_A_NODE, &[("web", 2)]).await?;
        only_ended(bed, &[&taken.id]).await?;
        wait::until("no message is left", 2 * MINUTE, async || {
            let left = bed.aws.messages(QUEUE).await?;
            ensure!(left == 0, "{left} messages are left");
            Ok(())
        })
        .await
    });
}

/// For [`wait::until`]: errors unless the node is cordoned because of the notice, and its group is asked for another one.
async fn is_being_replaced(bed: &Bed, host: &str) -> Result<()> {
    let nodes = bed.cluster.nodes().await?;
    let node = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(host));
    let cordoned = node.context("it has gone")?.spec.as_ref().and_then(|spec| spec.unschedulable);
    let removal = bed.cluster.newest_decision("general", "ScaleDown").await?;
    ensure!(cordoned == Some(true) && removal["reason"] == "Interrupted", "the removal is {removal}");
    let group = bed.aws.group_now("web").await?;
    ensure!(group.desired == 3, "{group:?}");
    Ok(())
}

/// EventBridge's event of a spot instance that is taken in two minutes.
fn spot_warning(instance: &str) -> String {
    json!({
        "version": "0", "id": "00000000-0000-0000-0000-000000000000", "source": "aws.ec2",
        "detail-type": "EC2 Spot Instance Interruption Warning", "region": "us-east-1", "resources": [],
        "detail": {"instance-id": instance, "instance-action": "terminate"},
    })
    .to_string()
}
