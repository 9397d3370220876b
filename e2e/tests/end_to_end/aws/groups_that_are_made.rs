//! A pool whose groups the operator makes: from an account without groups to nodes, and back to no group.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::aws::{Bed, aws_test};
use e2e::fixtures::{Pool, deployment, pool};
use e2e::wait;
use serde_json::json;

use super::{MINUTE, PODS_A_NODE, writes};

/// Groups go a minute after they have become empty, and are looked for once a minute.
pub(super) const EMPTY_GROUPS_GO: Duration = Duration::from_secs(240);

/// A launch template without a type, and tagged subnets in two zones.
pub(super) async fn account(bed: &Bed) -> Result<()> {
    bed.aws.launch_template("nodes").await?;
    for zone in ["us-east-1a", "us-east-1b"] {
        let id = bed.aws.subnet(zone).await?;
        let tag = [("ResourceId.1", id.as_str()), ("Tag.1.Key", "tier"), ("Tag.1.Value", "nodes")];
        bed.aws.call("ec2", "CreateTags", &tag).await?;
    }
    Ok(())
}

/// Machines of one family in two sizes.
pub(super) fn managed_pool() -> Pool {
    let requirements = json!([
        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4", "16"]},
    ]);
    let managed = json!({
        "launchTemplate": {"name": "nodes"},
        "subnets": [{"tags": {"tier": "nodes"}}],
        "requirements": requirements,
        "deleteEmptyAfter": "1m",
    });
    pool("general")
        .set("/spec/provider", json!({"type": "AWS", "aws": {"clusterName": "prod", "managed": managed}}))
        .set("/spec/template", json!({}))
}

/// The names of all groups.
async fn groups(bed: &Bed) -> Result<Vec<String>> {
    Ok(bed.aws.groups().await?.into_iter().map(|group| group.name).collect())
}

#[test]
fn account_without_groups_gets_those_that_pods_need_and_loses_them_again() {
    aws_test(async |bed| {
        account(bed).await?;
        bed.aws.group("foreign").create().await?;
        bed.cluster.apply(managed_pool().quick_scale_down("2s")).await?;
        let _operator = bed.operator().start()?;
        bed.cluster.pool_condition_wait("general", "ProviderAvailable", "True").await?;
        ensure!(groups(bed).await? == ["foreign"], "nothing is made before it is needed");

        bed.cluster.apply(deployment("web").replicas(2 * PODS_A_NODE)).await?;
        let made = wait::until("a group in each zone is made, of the size that suits", MINUTE, async || {
            let mut made = groups(bed).await?;
            made.retain(|name| name != "foreign");
            ensure!(made.len() == 2, "groups are {made:?}");
            Ok(made)
        })
        .await?;
        for (zone, name) in ["us-east-1a", "us-east-1b"].iter().zip(&made) {
            let beginning = format!("headroom-prod-general-m5.xlarge-{zone}-on-demand-");
            ensure!(name.starts_with(&beginning), "{name} does not begin with {beginning}");
        }
        let settled: Vec<(&str, usize)> = made.iter().map(|name| (name.as_str(), 1)).collect();
        wait::until("all pods run", MINUTE, async || {
            bed.runs_on("web", usize::try_from(2 * PODS_A_NODE)?, &settled).await
        })
        .await?;

        bed.cluster.scale_deployment("web", 0).await?;
        wait::until("the groups that were made are gone", EMPTY_GROUPS_GO, async || {
            let left = groups(bed).await?;
            ensure!(left == ["foreign"], "groups are {left:?}");
            Ok(())
        })
        .await?;
        let calls = writes(bed).await?;
        let count = |action: &str| calls.iter().filter(|call| call.call.ends_with(action)).count();
        let counts = (count(":CreateAutoScalingGroup"), count(":DeleteAutoScalingGroup"));
        ensure!(counts == (2, 2), "created and deleted {counts:?}: {calls:?}");
        Ok(())
    });
}

#[test]
fn cheapest_market_is_bought_by_prices_that_are_read_once_in_ten_minutes() {
    aws_test(async |bed| {
        account(bed).await?;
        let zones = |a: &str, b: &str| json!({"us-east-1a": a, "us-east-1b": b});
        bed.aws
            .spot_prices(
                json!({"m5.xlarge": zones("0.071000", "0.075500"), "m5.4xlarge": zones("0.9", "0.9")}),
            )
            .await?;
        let requirements = json!([
            {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"]},
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4", "16"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
        ]);
        let pool = managed_pool().set("/spec/provider/aws/managed/requirements", requirements);
        bed.cluster.apply(pool.quick_scale_down("2s")).await?;
        let _operator = bed.operator().start()?;
        bed.cluster.apply(deployment("web").replicas(2 * PODS_A_NODE)).await?;
        let rows = wait::until("the cheapest market of each zone has a node", MINUTE, async || {
            let status = bed.cluster.pool_status("general").await?;
            let rows: Vec<(String, String)> = rows_with_nodes(&status);
            ensure!(rows.len() == 2, "groups are {}", status["groups"]);
            Ok(rows)
        })
        .await?;
        for ((id, price), (zone, expected)) in
            rows.iter().zip([("us-east-1a", "0.071"), ("us-east-1b", "0.0755")])
        {
            ensure!(id.contains(&format!("m5.xlarge-{zone}-spot-")) && price == expected, "{id} at {price}");
        }
        let decisions = bed.cluster.pool_status("general").await?["decisions"].to_string();
        ensure!(decisions.contains("0.071 an hour each"), "decisions are {decisions}");
        let asked = bed.aws.calls().await?.get("ec2:DescribeSpotPriceHistory").copied();
        ensure!(asked == Some(1), "spot prices were asked for {asked:?} times");
        Ok(())
    });
}

/// Id and price of the groups that have nodes, in order of ids.
fn rows_with_nodes(status: &serde_json::Value) -> Vec<(String, String)> {
    let text = |row: &serde_json::Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let rows = status["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|row| 0 < row["ready"].as_i64().unwrap_or(0));
    let mut rows: Vec<(String, String)> =
        rows.map(|row| (text(row, "id"), text(row, "pricePerHour"))).collect();
    rows.sort();
    rows
}

#[test]
fn spot_machines_are_spread_over_types_and_a_limit_counts_their_cores() {
    aws_test(async |bed| {
        account(bed).await?;
        let zones = |price: &str| json!({"us-east-1a": price, "us-east-1b": price});
        bed.aws
            .spot_prices(json!({
                "m5.xlarge": zones("0.070"), "m5a.xlarge": zones("0.071"), "m6i.xlarge": zones("0.090"),
            }))
            .await?;
        let requirements = json!([
            {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5", "m5a", "m6i"]},
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
        ]);
        let pool = managed_pool()
            .set("/spec/provider/aws/managed/requirements", requirements)
            .set("/spec/provider/aws/managed/minSpotTypes", 2)
            .set("/spec/limits", json!({"cpu": "16"}));
        bed.cluster.apply(pool.quick_scale_down("2s")).await?;
        let _operator = bed.operator().start()?;
        // Pods for six machines, and cores for four.
        bed.cluster.apply(deployment("web").replicas(6 * PODS_A_NODE)).await?;
        wait::until("four machines of the two cheapest types are there", MINUTE, async || {
            let groups = bed.aws.groups().await?;
            let of_type = |name: &str| {
                let own = groups.iter().filter(|group| group.name.contains(&format!("-{name}-")));
                own.map(|group| group.desired).sum::<u32>()
            };
            let counts = ["m5.xlarge", "m5a.xlarge", "m6i.xlarge"].map(of_type);
            ensure!(counts == [2, 2, 0], "machines by type are {counts:?}");
            Ok(())
        })
        .await?;
        wait::until("the pods without a machine say why", MINUTE, async || {
            let status = bed.cluster.pool_status("general").await?;
            let refusals = status["refusals"].to_string();
            let words = "cpu: 16000m of at most 16000m are used";
            ensure!(refusals.contains(words), "refusals are {refusals}");
            Ok(())
        })
        .await
    });
}
