//! Changes of others to the groups: instances ended, sizes edited, a group deleted. The operator neither fights nor
//! fails.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::aws::{Bed, aws_pool, aws_test};
use e2e::fixtures::deployment;
use e2e::operator::Operator;
use e2e::wait;

use super::{MINUTE, PODS_A_NODE, only_ended, settles, writes};

/// An operator at rest over a group of so many nodes, all full.
async fn at_rest(bed: &Bed, group: &str, nodes: u32) -> Result<Operator> {
    bed.aws.group(group).desired(nodes).create().await?;
    bed.cluster.apply(aws_pool("general", &[group])).await?;
    bed.cluster.apply(deployment("web").replicas(nodes * PODS_A_NODE)).await?;
    let operator = bed.operator().start()?;
    settles(bed, nodes * PODS_A_NODE, &[(group, usize::try_from(nodes)?)]).await?;
    wait::until("status counts them", MINUTE, async || {
        let status = bed.cluster.pool_status("general").await?;
        ensure!(status["nodes"]["ready"] == nodes, "status counts {}", status["nodes"]);
        Ok(())
    })
    .await?;
    Ok(operator)
}

#[test]
fn instance_ended_outside_is_replaced_by_its_group_and_by_nobody_else() {
    aws_test(async |bed| {
        let _operator = at_rest(bed, "web", 2).await?;
        let victim = bed.aws.live("web").await?.swap_remove(0).id;
        bed.aws.interrupt(&victim).await?;
        wait::until("another one has taken its place", MINUTE, async || {
            let live = bed.in_service("web", 2).await?;
            ensure!(live.iter().all(|i| i.id != victim), "it is there");
            Ok(())
        })
        .await?;
        settles(bed, 2 * PODS_A_NODE, &[("web", 2)]).await?;
        wait::stays("nothing is bought or ended for it", Duration::from_secs(5), async || {
            let writes = writes(bed).await?;
            ensure!(writes.is_empty(), "writes are {writes:?}");
            only_ended(bed, &[&victim]).await
        })
        .await
    });
}

#[test]
fn size_raised_by_hand_is_never_lowered_by_a_purchase() {
    aws_test(async |bed| {
        let _operator = at_rest(bed, "web", 1).await?;
        // The operator has read 1 and will want 2; a person has just asked for 4.
        bed.aws.edit_group("web", &[("DesiredCapacity", "4")]).await?;
        bed.cluster.scale_deployment("web", 2 * PODS_A_NODE).await?;
        wait::until("all pods run on what is there", MINUTE, async || {
            bed.cluster.running_pods_are("default", "app=web", usize::try_from(2 * PODS_A_NODE)?).await
        })
        .await?;
        wait::stays("the person's wish holds", Duration::from_secs(5), async || {
            let group = bed.aws.group_now("web").await?;
            ensure!(4 <= group.desired, "{group:?}, writes {:?}", writes(bed).await?);
            only_ended(bed, &[]).await
        })
        .await
    });
}

#[test]
fn maximum_lowered_by_hand_bounds_the_pool() {
    aws_test(async |bed| {
        let _operator = at_rest(bed, "web", 1).await?;
        bed.aws.edit_group("web", &[("MaxSize", "2")]).await?;
        bed.cluster.scale_deployment("web", 4 * PODS_A_NODE).await?;
        wait::until("it has grown to the new maximum", MINUTE, async || bed.in_service("web", 2).await)
            .await?;
        let expected = usize::try_from(2 * PODS_A_NODE)?;
        wait::until("status shows the bound", MINUTE, async || {
            bed.cluster.running_pods_are("default", "app=web", expected).await?;
            let status = bed.cluster.pool_status("general").await?;
            ensure!(status["bounds"]["maxNodes"] == 2, "bounds are {}", status["bounds"]);
            Ok(())
        })
        .await?;
        only_ended(bed, &[]).await
    });
}

#[test]
fn deleted_group_leaves_the_pool_and_the_other_goes_on() {
    aws_test(async |bed| {
        bed.aws.group("old").desired(1).create().await?;
        bed.aws.group("new").zones(&["us-east-1b"]).create().await?;
        bed.cluster.apply(aws_pool("general", &["old", "new"])).await?;
        bed.cluster.apply(deployment("web").replicas(PODS_A_NODE)).await?;
        let operator = bed.operator().start()?;
        settles(bed, PODS_A_NODE, &[("old", 1), ("new", 0)]).await?;
        let own = bed.aws.live("old").await?.swap_remove(0).id;
        bed.aws.delete_group("old").await?;
        // Its pods need a home: more of them, as the old node's are stopped only by and by.
        bed.cluster.scale_deployment("web", 2 * PODS_A_NODE).await?;
        wait::until("the new group has taken over", 2 * MINUTE, async || {
            ensure!(!bed.aws.live("new").await?.is_empty(), "new is empty");
            bed.cluster.running_pods_are("default", "app=web", usize::try_from(2 * PODS_A_NODE)?).await
        })
        .await?;
        wait::until("the pool reports that the group is missing", 2 * MINUTE, async || {
            let conditions = bed.cluster.pool_status("general").await?["conditions"].to_string();
            ensure!(
                conditions.contains("GroupNotFound") && conditions.contains("old"),
                "conditions are {conditions}"
            );
            Ok(())
        })
        .await?;
        let condition = bed.cluster.pool_condition("general", "Ready").await?;
        ensure!(condition["status"] == "True", "Ready is {condition}");
        operator.process().check_running()?;
        only_ended(bed, &[&own]).await
    });
}

#[test]
fn template_edited_under_latest_shapes_the_next_nodes() {
    aws_test(async |bed| {
        bed.aws.group("web").param("LaunchTemplate.Version", "$Latest").create().await?;
        bed.cluster.apply(aws_pool("general", &["web"])).await?;
        // No machine of four cores takes such a pod.
        bed.cluster.apply(deployment("web").requests("6", "1Gi")).await?;
        let operator = bed.operator().start()?;
        bed.cluster.pool_condition_wait("general", "ProviderAvailable", "True").await?;
        wait::stays("nothing is bought", Duration::from_secs(3), async || {
            let writes = writes(bed).await?;
            ensure!(writes.is_empty(), "writes are {writes:?}");
            Ok(())
        })
        .await?;
        let params = [
            ("LaunchTemplateName", "web"),
            ("LaunchTemplateData.ImageId", "ami-03cf127a"),
            ("LaunchTemplateData.InstanceType", "m5.2xlarge"),
        ];
        bed.aws.call("ec2", "CreateLaunchTemplateVersion", &params).await?;
        // A template behind $Latest is read anew every ten minutes, and by every process that starts.
        operator.kill();
        let _operator = bed.operator().start()?;
        wait::until("a machine of eight cores runs the pod", 2 * MINUTE, async || {
            bed.runs_on("web", 1, &[("web", 1)]).await
        })
        .await?;
        let kind = bed.aws.live("web").await?.first().context("none")?.instance_type.clone();
        ensure!(kind == "m5.2xlarge", "it is {kind}");
        Ok(())
    });
}
