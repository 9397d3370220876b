//! The bed itself: groups grow, fail and shrink as they are set to, and their machines become nodes or do not.

use anyhow::{Context as _, Result, ensure};
use e2e::aws::{Bed, Join, aws_test};
use e2e::{cluster, wait};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::MINUTE;

#[test]
fn a_group_grows_fails_and_shrinks_as_it_is_set_to() {
    aws_test(async |bed| {
        let aws = &bed.aws;
        aws.group("web").zones(&["us-east-1a", "us-east-1b"]).sizes(0, 4).create().await?;
        desire(bed, "web", "2").await?;
        let two = wait::until("two are in service", MINUTE, async || bed.in_service("web", 2).await).await?;
        ensure!(two[0].zone != two[1].zone, "both are in {}", two[0].zone);
        ensure!((two[0].cpu, two[0].memory_mib, two[0].pods) == (4, 16384, 58), "{:?}", two[0]);
        let refusal = desire(bed, "web", "5").await.err().context("5 is accepted")?.to_string();
        let wanted = "ValidationError: New SetDesiredCapacity value 5 is above max value 4";
        ensure!(refusal.contains(wanted), "{refusal}");

        aws.fail_launches("web", "InsufficientInstanceCapacity", "none left", &[]).await?;
        desire(bed, "web", "3").await?;
        ensure!(aws.group_now("web").await?.desired == 3, "{:?}", aws.group_now("web").await?);
        aws.interrupt(&two[0].id).await?;
        let ended = aws.terminations().await?;
        ensure!(ended.len() == 1 && ended[0].why == "outside" && ended[0].id == two[0].id, "{ended:?}");
        ensure!(aws.calls().await?.is_empty(), "the test's own calls are not the operator's");
        let unknown = aws.plan("web", json!({"pending": 1})).await.err().context("it is accepted")?;
        ensure!(unknown.to_string().contains("pending"), "{unknown}");
        Ok(())
    });
}

#[test]
fn machines_become_nodes_late_wrongly_or_never_and_gone_ones_leave() {
    aws_test(async |bed| {
        // First: instances of a group may be in service before the next line is reached.
        bed.bridge.label("good", "example.com/tier", "web");
        bed.bridge.join("wrong", Join::As("aws:///us-east-1f/{id}".to_owned()));
        bed.bridge.join("mute", Join::Never);
        bed.bridge.join("dead", Join::NotReady);
        for group in ["good", "wrong", "mute", "dead"] {
            bed.aws.group(group).desired(1).create().await?;
        }
        let nodes = wait::until("three have joined and one is ready", MINUTE, async || {
            let nodes = bed.cluster.nodes().await?;
            let ready = nodes.iter().filter(|node| cluster::is_ready(node)).count();
            ensure!(nodes.len() == 3 && ready == 2, "{} nodes, {ready} ready", nodes.len());
            for group in ["good", "wrong", "mute", "dead"] {
                bed.in_service(group, 1).await?;
            }
            Ok(nodes)
        })
        .await?;
        let good = &bed.aws.live("good").await?[0];
        let own = with_id(&nodes, &format!("aws:///us-east-1a/{}", good.id))?;
        let labels = own.metadata.labels.clone().unwrap_or_default();
        ensure!(labels.get("example.com/tier").is_some_and(|tier| tier == "web"), "{labels:?}");
        ensure!(
            labels.get("node.kubernetes.io/instance-type").is_some_and(|t| t == "m5.xlarge"),
            "{labels:?}"
        );
        let wrong = &bed.aws.live("wrong").await?[0];
        with_id(&nodes, &format!("aws:///us-east-1f/{}", wrong.id))?;

        bed.aws.delete_group("good").await?;
        wait::until("its node is gone", MINUTE, async || {
            let left = bed.cluster.nodes().await?;
            ensure!(with_id(&left, &format!("aws:///us-east-1a/{}", good.id)).is_err(), "it is there");
            ensure!(left.len() == 2, "{} nodes are left", left.len());
            Ok(())
        })
        .await
    });
}

fn with_id<'a>(nodes: &'a [Node], provider_id: &str) -> Result<&'a Node> {
    let own = |node: &&Node| node.spec.as_ref().and_then(|s| s.provider_id.as_deref()) == Some(provider_id);
    nodes.iter().find(own).with_context(|| format!("no node is {provider_id}"))
}

async fn desire(bed: &Bed, group: &str, wanted: &str) -> Result<()> {
    let params = [("AutoScalingGroupName", group), ("DesiredCapacity", wanted)];
    bed.aws.call("autoscaling", "SetDesiredCapacity", &params).await?;
    Ok(())
}
