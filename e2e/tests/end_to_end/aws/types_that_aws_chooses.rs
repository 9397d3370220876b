//! A group that describes its machines and does not name them: planned as the least of what may come, whatever comes.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use e2e::aws::{aws_pool, aws_test};
use e2e::fixtures::deployment;
use e2e::wait;

use super::{PODS_A_NODE, only_ended, settles, writes};

const REQUIREMENTS: &str = "MixedInstancesPolicy.LaunchTemplate.Overrides.member.1.InstanceRequirements";

#[test]
fn described_machines_are_planned_as_the_least_of_what_may_come() {
    aws_test(async |bed| {
        let least = |what: &str| format!("{REQUIREMENTS}.{what}.Min");
        let group = bed.aws.group("web").described();
        let group =
            group.param(&least("VCpuCount"), "4").param(&format!("{REQUIREMENTS}.VCpuCount.Max"), "8");
        group.param(&least("MemoryMiB"), "16384").create().await?;
        bed.cluster.apply(aws_pool("general", &["web"])).await?;
        bed.cluster.apply(deployment("web").replicas(3 * PODS_A_NODE)).await?;
        let _operator = bed.operator().start()?;
        settles(bed, 3 * PODS_A_NODE, &[("web", 3)]).await?;
        let live = bed.aws.live("web").await?;
        let types: BTreeSet<_> = live.iter().map(|one| one.instance_type.as_str()).collect();
        ensure!(1 < types.len(), "AWS chose {types:?} only");
        // Some of the machines that may come have room for it, and nobody knows which will.
        bed.cluster.apply(deployment("large").requests("6", "1Gi")).await?;
        wait::stays("nothing is bought on a guess", Duration::from_secs(4), async || {
            let bought = writes(bed).await?;
            ensure!(bought.len() == 1, "writes are {bought:?}");
            only_ended(bed, &[]).await
        })
        .await?;
        let conditions = bed.cluster.pool_status("general").await?["conditions"].to_string();
        ensure!(!conditions.contains("TemplateUnreadable"), "conditions are {conditions}");
        Ok(())
    });
}
