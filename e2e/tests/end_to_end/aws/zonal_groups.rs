//! One pool of a group a zone: balanced, and when a zone has no machines the next one takes the nodes at once.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::aws::{Bed, aws_pool, aws_test};
use e2e::fixtures::deployment;
use e2e::wait;

use super::{MINUTE, NO_CAPACITY, PODS_A_NODE, only_ended, rows, settles, writes};

const GROUPS: [(&str, &str); 3] = [("web-a", "us-east-1a"), ("web-b", "us-east-1b"), ("web-c", "us-east-1c")];
/// Two loops of the operator, which plans at least every 10 s.
const TWO_LOOPS: Duration = Duration::from_secs(20);

async fn groups(bed: &Bed) -> Result<()> {
    for (name, zone) in GROUPS {
        bed.aws.group(name).zones(&[zone]).create().await?;
    }
    Ok(())
}

#[test]
fn three_zonal_groups_grow_evenly() {
    aws_test(async |bed| {
        groups(bed).await?;
        bed.cluster.apply(aws_pool("general", &["web-a", "web-b", "web-c"])).await?;
        bed.cluster.apply(deployment("web").replicas(6 * PODS_A_NODE)).await?;
        let _operator = bed.operator().start()?;
        settles(bed, 6 * PODS_A_NODE, &[("web-a", 2), ("web-b", 2), ("web-c", 2)]).await?;
        wait::until("status counts them", MINUTE, async || {
            let status = bed.cluster.pool_status("general").await?;
            ensure!(status["nodes"]["ready"] == 6, "status counts {}", status["nodes"]);
            ensure!(status["intents"].is_null(), "under way: {}", status["intents"]);
            Ok(())
        })
        .await?;
        let writes = writes(bed).await?;
        ensure!(writes.len() <= 6, "six machines took {} writes: {writes:?}", writes.len());
        only_ended(bed, &[]).await
    });
}

#[test]
fn zone_without_machines_is_backed_off_and_the_next_takes_the_nodes() {
    aws_test(async |bed| {
        groups(bed).await?;
        bed.aws.fail_launches("web-a", "InsufficientInstanceCapacity", NO_CAPACITY, &[]).await?;
        let general = aws_pool("general", &["web-a", "web-b", "web-c"]);
        bed.cluster.apply(general).await?;
        let _operator = bed.operator().start()?;
        bed.cluster.pool_condition_wait("general", "ProviderAvailable", "True").await?;
        bed.cluster.apply(deployment("web").replicas(3 * PODS_A_NODE)).await?;
        let failed = wait::until("a launch in web-a fails", MINUTE, async || {
            let writes = writes(bed).await?;
            writes.iter().find(|w| w.params["AutoScalingGroupName"] == "web-a").cloned().context("none yet")
        })
        .await?;
        ensure!(failed.params["AutoScalingGroupName"] == "web-a", "{failed:?}");
        wait::until("the other zones are asked for all", TWO_LOOPS, async || {
            let (b, c) = (bed.aws.group_now("web-b").await?, bed.aws.group_now("web-c").await?);
            ensure!(b.desired + c.desired == 3, "web-b is {b:?}, web-c is {c:?}");
            Ok(())
        })
        .await?;
        let backoffs = rows(bed, "general", "backoffs").await?;
        let row = backoffs.iter().find(|row| row["group"] == "web-a").context("web-a is not backed off")?;
        ensure!(row["class"] == "OutOfCapacity" && backoffs.len() == 1, "backoffs are {backoffs:?}");
        let message = row["message"].as_str().unwrap_or_default();
        ensure!(message.contains(NO_CAPACITY), "the backoff says {message}");
        wait::until("all pods run", MINUTE, async || {
            bed.cluster.running_pods_are("default", "app=web", usize::try_from(3 * PODS_A_NODE)?).await
        })
        .await?;
        ensure!(bed.aws.group_now("web-a").await?.desired == 0, "web-a is left with a wish");
        only_ended(bed, &[]).await
    });
}
