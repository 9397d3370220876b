//! A machine that runs and never becomes a node is ended when its time is over, and no other one is.

use std::time::Duration;

use anyhow::ensure;
use e2e::aws::{Join, aws_pool, aws_test};
use e2e::fixtures::deployment;
use e2e::wait;

use super::{MINUTE, PODS_A_NODE, only_ended, settles};

#[test]
fn only_the_instance_that_never_joins_is_ended() {
    aws_test(async |bed| {
        bed.aws.group("web").create().await?;
        let general = aws_pool("general", &["web"]).set("/spec/scaleUp/provisionTimeout", "15s");
        bed.cluster.apply(general).await?;
        bed.cluster.apply(deployment("web").replicas(PODS_A_NODE)).await?;
        let _operator = bed.operator().start()?;
        settles(bed, PODS_A_NODE, &[("web", 1)]).await?;

        bed.bridge.join("web", Join::Never);
        bed.cluster.scale_deployment("web", 2 * PODS_A_NODE).await?;
        let two =
            wait::until("the second machine runs", MINUTE, async || bed.in_service("web", 2).await).await?;
        let joined = bed.ready_nodes(&["web"]).await?;
        let mute = two.iter().find(|i| !joined.contains(&i.host)).map(|i| i.id.clone()).unwrap_or_default();
        ensure!(joined.len() == 1 && !mute.is_empty(), "{joined:?} of {two:?} have joined");
        // Too early is wrong too: the timeout counts from the request.
        wait::stays("it is given its time", Duration::from_secs(5), async || only_ended(bed, &[]).await)
            .await?;
        wait::until("it is ended", MINUTE, async || only_ended(bed, &[&mute]).await).await?;

        bed.bridge.join("web", Join::After(Duration::ZERO));
        wait::stays("no other is", Duration::from_secs(5), async || only_ended(bed, &[&mute]).await).await?;
        let ended = bed.aws.terminations().await?;
        ensure!(ended[0].why == "request", "{ended:?}");
        Ok(())
    });
}
