//! Launches that fail or come late: another pool takes over for a while, stragglers live, old failures are history.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::aws::{aws_pool, aws_test};
use e2e::fixtures::{cluster_policy, deployment};
use e2e::wait;
use serde_json::json;

use super::{MINUTE, NO_CAPACITY, PODS_A_NODE, only_ended, rows, settles, writes};

#[test]
fn spot_shortage_falls_back_to_on_demand_and_returns() {
    aws_test(async |bed| {
        bed.aws.group("spot").spot().create().await?;
        bed.aws.group("on-demand").create().await?;
        let no_spot = "There is no Spot capacity available that matches your request.";
        bed.aws.fail_launches("spot", "UnfulfillableCapacity", no_spot, &[]).await?;
        let backoff = json!({"initial": "30s", "max": "30s"});
        let spot = aws_pool("spot", &["spot"]).priority(10).set("/spec/scaleUp/backoff", backoff);
        bed.cluster.apply(spot).await?;
        bed.cluster.apply(aws_pool("on-demand", &["on-demand"])).await?;
        bed.cluster.apply(cluster_policy(json!({"nodes": {"expanders": ["Priority"]}}))).await?;
        bed.cluster.apply(deployment("web").replicas(PODS_A_NODE)).await?;
        let _operator = bed.operator().start()?;
        settles(bed, PODS_A_NODE, &[("spot", 0), ("on-demand", 1)]).await?;
        // Reports of a pool are a second apart: the pods may run before this one is written.
        wait::until("spot is backed off with AWS's words", MINUTE, async || {
            let backoffs = rows(bed, "spot", "backoffs").await?;
            let row = backoffs.first().context("spot is not backed off")?;
            ensure!(
                row["message"].as_str().is_some_and(|m| m.contains(no_spot)),
                "backoffs are {backoffs:?}"
            );
            Ok(())
        })
        .await?;
        ensure!(rows(bed, "on-demand", "backoffs").await?.is_empty(), "on-demand is backed off");

        bed.aws.plan("spot", json!({})).await?;
        wait::until("the backoff is over", MINUTE, async || {
            let left = bed.cluster.pool_condition("spot", "BackingOff").await.ok();
            ensure!(left.is_none(), "still {left:?}");
            Ok(())
        })
        .await?;
        bed.cluster.scale_deployment("web", 2 * PODS_A_NODE).await?;
        settles(bed, 2 * PODS_A_NODE, &[("spot", 1), ("on-demand", 1)]).await?;
        only_ended(bed, &[]).await
    });
}

#[test]
fn used_up_quota_is_reported_with_its_name_and_what_to_do() {
    aws_test(async |bed| {
        bed.aws.group("standard").create().await?;
        bed.aws.group("burst").instance_type("m6i.xlarge").create().await?;
        bed.aws.group("graphics").instance_type("g4dn.xlarge").create().await?;
        let limit = "You have requested more vCPU capacity than your current vCPU limit of 0 allows for the instance \
                     bucket that the specified instance type belongs to.";
        bed.aws.fail_launches("standard", "VcpuLimitExceeded", limit, &[]).await?;
        bed.aws.fail_launches("burst", "VcpuLimitExceeded", limit, &[]).await?;
        bed.cluster.apply(aws_pool("general", &["standard", "burst"]).priority(10)).await?;
        bed.cluster.apply(aws_pool("graphics", &["graphics"])).await?;
        bed.cluster.apply(cluster_policy(json!({"nodes": {"expanders": ["Priority"]}}))).await?;
        bed.cluster.apply(deployment("web").replicas(PODS_A_NODE)).await?;
        let _operator = bed.operator().start()?;
        settles(bed, PODS_A_NODE, &[("standard", 0), ("burst", 0), ("graphics", 1)]).await?;
        let condition = wait::until("the quota is reported", MINUTE, async || {
            let condition = bed.cluster.pool_condition("general", "ProviderDegraded").await?;
            ensure!(condition["reason"] == "QuotaExhausted", "{condition}");
            Ok(condition)
        })
        .await?;
        let message = condition["message"].as_str().unwrap_or_default();
        for part in ["L-1216C47A", "Running On-Demand Standard", "Service Quotas", "standard", "burst", limit]
        {
            ensure!(message.contains(part), "{part} is not in {message}");
        }
        let spared = bed.cluster.pool_status("graphics").await?["conditions"].to_string();
        ensure!(!spared.contains("QuotaExhausted"), "another quota's pool reports {spared}");
        // One try is evidence enough for all machines of the quota.
        let tried = writes(bed).await?;
        ensure!(
            tried.iter().all(|call| call.params["AutoScalingGroupName"] != "graphics") || tried.len() <= 4,
            "{tried:?}"
        );
        only_ended(bed, &[]).await
    });
}

#[test]
fn straggler_that_launches_while_its_wish_is_cancelled_lives() {
    aws_test(async |bed| {
        // Two zones in one group: its size is set, and what fails is known from activities only.
        bed.aws.group("wide").zones(&["us-east-1a", "us-east-1b"]).desired(1).create().await?;
        bed.bridge.label("wide", "example.com/tier", "wide");
        bed.cluster.apply(aws_pool("general", &["wide"])).await?;
        bed.cluster.apply(deployment("web").replicas(PODS_A_NODE)).await?;
        let _operator = bed.operator().start()?;
        settles(bed, PODS_A_NODE, &[("wide", 1)]).await?;

        bed.aws.fail_launches("wide", "InsufficientInstanceCapacity", NO_CAPACITY, &[]).await?;
        // The activities are read before the stragglers come, and answered after it.
        let late =
            json!([{"action": "DescribeScalingActivities", "commit": true, "latency_ms": 2500, "count": -1}]);
        bed.aws.faults(late).await?;
        bed.aws.forget_calls().await?;
        bed.cluster.scale_deployment("web", 3 * PODS_A_NODE).await?;
        wait::until("the failures are read", 2 * MINUTE, async || {
            let calls = bed.aws.calls().await?;
            ensure!(calls.contains_key("autoscaling:DescribeScalingActivities"), "calls are {calls:?}");
            Ok(())
        })
        .await?;
        bed.aws.plan("wide", json!({"retry_ms": 100})).await?;
        wait::until("the stragglers are in service", 2 * MINUTE, async || bed.in_service("wide", 3).await)
            .await?;
        bed.aws.faults(json!([])).await?;
        settles(bed, 3 * PODS_A_NODE, &[("wide", 3)]).await?;
        wait::stays("nobody is ended", Duration::from_secs(6), async || only_ended(bed, &[]).await).await
    });
}

#[test]
fn failures_from_before_the_start_are_history() {
    aws_test(async |bed| {
        bed.aws.group("wide").zones(&["us-east-1a", "us-east-1b"]).create().await?;
        bed.aws.fail_launches("wide", "InsufficientInstanceCapacity", NO_CAPACITY, &[]).await?;
        bed.aws.edit_group("wide", &[("DesiredCapacity", "1")]).await?;
        wait::until("launches fail", MINUTE, async || {
            let params = [("AutoScalingGroupName", "wide")];
            let activities = bed.aws.call("autoscaling", "DescribeScalingActivities", &params).await?;
            ensure!(activities.contains("<StatusCode>Failed</StatusCode>"), "activities are {activities}");
            Ok(())
        })
        .await?;
        bed.aws.edit_group("wide", &[("DesiredCapacity", "0")]).await?;
        bed.aws.plan("wide", json!({})).await?;
        // A launch that was under way may still fail; and what fails in the second of a purchase counts as its own.
        let failures = async || {
            let params = [("AutoScalingGroupName", "wide")];
            let activities = bed.aws.call("autoscaling", "DescribeScalingActivities", &params).await?;
            anyhow::Ok(activities.matches("<StatusCode>Failed</StatusCode>").count())
        };
        let seen = std::cell::Cell::new((usize::MAX, Instant::now()));
        wait::until("no launch has failed for three seconds", MINUTE, async || {
            let count = failures().await?;
            if count != seen.get().0 {
                seen.set((count, Instant::now()));
            }
            ensure!(Duration::from_secs(3) <= seen.get().1.elapsed(), "{count} launches have failed");
            Ok(())
        })
        .await?;

        bed.cluster.apply(aws_pool("general", &["wide"])).await?;
        bed.cluster.apply(deployment("web").replicas(PODS_A_NODE)).await?;
        let operator = bed.operator().start()?;
        settles(bed, PODS_A_NODE, &[("wide", 1)]).await?;
        operator.kill();
        let _operator = bed.operator().start()?;
        bed.cluster.scale_deployment("web", 2 * PODS_A_NODE).await?;
        settles(bed, 2 * PODS_A_NODE, &[("wide", 2)]).await?;
        let backoffs = rows(bed, "general", "backoffs").await?;
        ensure!(backoffs.is_empty(), "old failures back off: {backoffs:?}");
        let writes = writes(bed).await?;
        ensure!(writes.len() == 2, "writes are {writes:?}");
        only_ended(bed, &[]).await
    });
}
