//! Groups that are not plain: a warm pool, weights, settings in tags. The operator uses what it can and names the rest.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::aws::{aws_pool, aws_test};
use e2e::fixtures::deployment;
use e2e::wait;

use super::{MINUTE, PODS_A_NODE, only_ended, settles, writes};

const OPTIONS: &str = "k8s.io/cluster-autoscaler/node-template/autoscaling-options";

#[test]
fn warm_pool_is_no_capacity_and_serves_the_next_purchase() {
    aws_test(async |bed| {
        bed.aws.group("web").create().await?;
        let prepared = [("AutoScalingGroupName", "web"), ("MinSize", "1"), ("MaxGroupPreparedCapacity", "1")];
        bed.aws.call("autoscaling", "PutWarmPool", &prepared).await?;
        let warm = wait::until("an instance is warm", MINUTE, async || {
            let all = bed.aws.instances().await?;
            let stopped = all.into_iter().find(|one| one.lifecycle == "Warmed:Stopped");
            stopped.context("none is stopped yet")
        })
        .await?;
        bed.cluster.apply(aws_pool("general", &["web"])).await?;
        let _operator = bed.operator().start()?;
        bed.cluster.pool_condition_wait("general", "ProviderAvailable", "True").await?;
        let status = bed.cluster.pool_status("general").await?;
        ensure!(status["nodes"]["desired"] == 0, "the warm instance counts: {}", status["nodes"]);

        bed.cluster.apply(deployment("web").replicas(PODS_A_NODE)).await?;
        settles(bed, PODS_A_NODE, &[("web", 1)]).await?;
        let live = bed.aws.live("web").await?;
        ensure!(live[0].id == warm.id, "{} was launched and {} stayed warm", live[0].id, warm.id);
        let bought = writes(bed).await?;
        ensure!(bought.len() == 1, "one node took {bought:?}");
        only_ended(bed, &[]).await
    });
}

#[test]
fn group_with_weights_is_left_alone_and_the_other_grows() {
    aws_test(async |bed| {
        let weight = "MixedInstancesPolicy.LaunchTemplate.Overrides.member.1.WeightedCapacity";
        bed.aws.group("heavy").types(&["m5.xlarge"]).param(weight, "4").create().await?;
        bed.aws.group("plain").zones(&["us-east-1b"]).create().await?;
        bed.cluster.apply(aws_pool("general", &["heavy", "plain"])).await?;
        bed.cluster.apply(deployment("web").replicas(2 * PODS_A_NODE)).await?;
        let _operator = bed.operator().start()?;
        settles(bed, 2 * PODS_A_NODE, &[("heavy", 0), ("plain", 2)]).await?;
        let condition = bed.cluster.pool_condition("general", "ProviderDegraded").await?;
        let message = condition["message"].as_str().unwrap_or_default();
        ensure!(condition["reason"] == "GroupUnsupported", "{condition}");
        ensure!(message.contains("heavy") && message.contains("weights, such as 4"), "{message}");
        ensure!(bed.aws.group_now("heavy").await?.desired == 0, "heavy was asked for something");
        only_ended(bed, &[]).await
    });
}

#[test]
fn tags_of_a_group_set_its_clock_and_one_that_cannot_be_read_is_named() {
    aws_test(async |bed| {
        let quick = format!("{OPTIONS}/scaledownunneededtime");
        let wrong = format!("{OPTIONS}/scaledownutilizationthreshold");
        bed.aws.group("quick").desired(1).tag(&quick, "2s").tag(&wrong, "half").create().await?;
        bed.aws.group("slow").zones(&["us-east-1b"]).desired(1).create().await?;
        let general = aws_pool("general", &["quick", "slow"]).quick_scale_down("10m");
        bed.cluster.apply(general).await?;
        let _operator = bed.operator().start()?;
        let condition = wait::until("the tag is named", MINUTE, async || {
            bed.cluster.pool_condition("general", "ProviderDegraded").await
        })
        .await?;
        let message = condition["message"].as_str().unwrap_or_default();
        ensure!(condition["reason"] == "TagUnreadable", "{condition}");
        ensure!(message.contains(&format!("{wrong}=half")) && message.contains("from 0 to 1"), "{message}");

        wait::until("the empty node of the quick group is gone", MINUTE, async || {
            let left = bed.aws.group_now("quick").await?;
            ensure!(left.desired == 0 && left.live == 0, "{left:?}");
            Ok(())
        })
        .await?;
        // Empty as well, and its pool gives it ten minutes.
        wait::stays("the slow group keeps its node", Duration::from_secs(4), async || {
            bed.in_service("slow", 1).await?;
            let ended = bed.aws.terminations().await?;
            ensure!(ended.iter().all(|one| one.group == "quick"), "ended were {ended:?}");
            Ok(())
        })
        .await
    });
}
