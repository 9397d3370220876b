//! Number of calls to AWS: hardly any at rest, and in bounds while a group grows.

use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::aws::{aws_pool, aws_test};
use e2e::fixtures::deployment;
use e2e::wait;

use super::{MINUTE, PODS_A_NODE, settles};

const DESCRIBE: &str = "autoscaling:DescribeAutoScalingGroups";
const ACTIVITIES: &str = "autoscaling:DescribeScalingActivities";
/// Time in which nothing happens: longer than the pause between two reads of a group with something under way. That a
/// minute at rest takes one read, the provider's own tests see on a clock that need not be waited for.
const REST: Duration = Duration::from_secs(12);

#[test]
fn calls_stay_within_the_budget_at_rest_and_while_a_group_grows() {
    aws_test(async |bed| {
        for group in ["web-a", "web-b", "web-c"] {
            bed.aws.group(group).create().await?;
        }
        bed.aws.edit_group("web-a", &[("DesiredCapacity", "1")]).await?;
        bed.cluster.apply(aws_pool("general", &["web-a", "web-b", "web-c"])).await?;
        bed.cluster.apply(deployment("web").replicas(PODS_A_NODE)).await?;
        let operator = bed.operator().start()?;
        settles(bed, PODS_A_NODE, &[("web-a", 1), ("web-b", 0), ("web-c", 0)]).await?;
        wait::until("status counts it", MINUTE, async || {
            let status = bed.cluster.pool_status("general").await?;
            ensure!(status["nodes"]["ready"] == 1, "status counts {}", status["nodes"]);
            Ok(())
        })
        .await?;

        bed.aws.forget_calls().await?;
        wait::stays("one read a minute is enough", REST, async || {
            let calls = bed.aws.calls().await?;
            let others = calls.keys().filter(|call| *call != DESCRIBE).count();
            ensure!(others == 0 && calls.get(DESCRIBE).is_none_or(|n| *n <= 1), "calls are {calls:?}");
            Ok(())
        })
        .await?;

        bed.aws.forget_calls().await?;
        let started = Instant::now();
        bed.cluster.scale_deployment("web", 2 * PODS_A_NODE).await?;
        wait::until("the second node runs its pods", MINUTE, async || {
            bed.cluster.running_pods_are("default", "app=web", usize::try_from(2 * PODS_A_NODE)?).await
        })
        .await?;
        let (calls, took) = (bed.aws.calls().await?, started.elapsed().as_secs());
        let of = |call: &str| calls.get(call).copied().unwrap_or_default();
        let writes = of("autoscaling:LaunchInstances") + of("autoscaling:SetDesiredCapacity");
        ensure!(writes == 1, "one purchase took {writes} writes: {calls:?}");
        // One before the write, one after it, one each 5 s from then on.
        ensure!(of(DESCRIBE) <= 3 + took / 5, "{} reads in {took} s: {calls:?}", of(DESCRIBE));
        ensure!(of(ACTIVITIES) <= 1 + took / 10, "{} reads in {took} s: {calls:?}", of(ACTIVITIES));
        let counted = operator.metric("headroom_aws_request_duration_seconds_count", "result=\"ok\"").await?;
        let (counted, made) = (counted.unwrap_or_default(), calls.values().sum::<u64>());
        ensure!(made as f64 <= counted, "{made} calls, and the metric counts {counted}");
        Ok(())
    });
}
