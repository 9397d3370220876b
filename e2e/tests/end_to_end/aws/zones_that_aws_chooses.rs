//! One group over two zones: AWS chooses the zone of each instance, so it is grown for pods that may run in either.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::aws::{Bed, aws_pool, aws_test};
use e2e::binaries;
use e2e::fixtures::deployment;
use e2e::wait;
use serde_json::json;

use super::{MINUTE, only_ended, settles, writes};

const ZONE: &str = "topology.kubernetes.io/zone";

async fn runs(bed: &Bed, app: &str) -> Result<()> {
    bed.cluster.running_pods_are("default", &format!("app={app}"), 1).await
}

fn explained(bed: &Bed, app: &str) -> Result<String> {
    let mut command = std::process::Command::new(binaries::operator()?);
    command.args(["explain", "deployment", app]).env("KUBECONFIG", bed.cluster.kubeconfig());
    let output = command.output().context("failed to start headroom")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn group_over_zones_is_grown_for_pods_that_may_run_in_each_of_them() {
    aws_test(async |bed| {
        bed.aws.group("wide").zones(&["us-east-1a", "us-east-1b"]).create().await?;
        bed.cluster.apply(aws_pool("general", &["wide"])).await?;
        // Three CPU each: no two of them on a machine.
        bed.cluster.apply(deployment("web").requests("3", "1Gi")).await?;
        let _operator = bed.operator().start()?;
        // AWS puts it into a zone as it likes.
        settles(bed, 1, &[("wide", 1)]).await?;
        let pinned = deployment("pinned").requests("3", "1Gi").node_selector(ZONE, "us-east-1b");
        bed.cluster.apply(pinned).await?;
        let not_there =
            json!([{"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["us-east-1a"]}]}]);
        let affinity =
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let avoids = deployment("avoids").requests("3", "1Gi").set_in_pod(affinity, not_there);
        bed.cluster.apply(avoids).await?;
        let apart = json!([{"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": ZONE}]);
        let anti = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        bed.cluster.apply(deployment("apart").requests("3", "1Gi").set_in_pod(anti, apart)).await?;
        wait::stays("no other is bought on a guess", Duration::from_secs(5), async || {
            let bought = writes(bed).await?;
            ensure!(bought.len() == 1, "writes are {bought:?}");
            Ok(())
        })
        .await?;
        let status = bed.cluster.pool_status("general").await?;
        ensure!(
            status["groups"][0]["zones"] == json!(["us-east-1a", "us-east-1b"]),
            "groups are {}",
            status["groups"]
        );
        for (app, words) in
            [("pinned", "as its cloud chooses"), ("avoids", "as its cloud chooses"), ("apart", ZONE)]
        {
            let explanation = explained(bed, app)?;
            ensure!(explanation.contains(words), "explain says of {app}: {explanation}");
        }

        // A group of one zone is what they need.
        bed.aws.group("zonal").zones(&["us-east-1b"]).create().await?;
        bed.cluster.apply(aws_pool("general", &["wide", "zonal"])).await?;
        wait::until("each has a machine in zone b", MINUTE, async || {
            bed.in_service("zonal", 3).await?;
            runs(bed, "pinned").await?;
            runs(bed, "avoids").await?;
            runs(bed, "apart").await
        })
        .await?;
        only_ended(bed, &[]).await
    });
}
