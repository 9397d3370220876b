//! The chart's admission policy lets the operator's account change of a node its own marks, and refuses everything else.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::node;
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const NODE: &str = "web-1";
const TAINT: &str = "ToBeDeletedByClusterAutoscaler";
const SOFT_TAINT: &str = "headroom.dev/removal-candidate";

#[tokio::test]
async fn marks_are_accepted_and_everything_else_is_denied() {
    cluster_test(Options::new(), async |cluster| {
        let foreign = json!({"key": "dedicated", "value": "web", "effect": "NoSchedule"});
        let made = node(NODE, "4", "16Gi").label("tier", "web").set("/metadata/annotations/owner", "team-a");
        cluster.apply(made.set("/spec/taints", json!([foreign]))).await?;
        let theirs = json!({"labels": {"tier": "web"}, "annotations": {"owner": "team-a"}});
        wait::until(
            "the taint of a node that is not ready yet is gone",
            Duration::from_secs(60),
            async || {
                let taints =
                    cluster.kubectl(&["get", "node", NODE, "-o", "jsonpath={.spec.taints[*].key}"])?;
                ensure!(taints == "dedicated", "taints are {taints}");
                Ok(())
            },
        )
        .await?;

        // A policy takes effect a moment after it was applied. Until then a label is changed; the same one once more
        // would not be a change, and allowed.
        let mut tries = 0;
        wait::until("a foreign label is denied", Duration::from_secs(30), async || {
            tries += 1;
            denied(cluster, json!({"metadata": {"labels": {"tries": tries.to_string()}}}), "only its taint")
        })
        .await?;
        let mine = json!({"key": TAINT, "effect": "NoSchedule"});
        for (change, named) in [
            (json!({"metadata": {"labels": {"new": "x"}}}), "only its taint"),
            (json!({"metadata": {"annotations": {"owner": "team-b"}}}), "annotations"),
            (json!({"metadata": {"annotations": {"owner": null}}}), "annotations"),
            (json!({"metadata": {"annotations": {"headroom.dev/remove": "requested"}}}), "annotations"),
            (json!({"metadata": {"finalizers": ["example.com/x"]}}), "only its taint"),
            (json!({"spec": {"taints": []}}), "taints"),
            (json!({"spec": {"taints": [foreign, {"key": "other", "effect": "NoExecute"}]}}), "taints"),
            (json!({"spec": {"taints": [foreign, {"key": TAINT, "effect": "NoExecute"}]}}), "taints"),
            (json!({"spec": {"taints": [foreign, {"key": SOFT_TAINT, "effect": "NoSchedule"}]}}), "taints"),
            (json!({"spec": {"taints": [foreign, {"key": TAINT, "effect": "PreferNoSchedule"}]}}), "taints"),
            (json!({"spec": {"taints": [{"key": SOFT_TAINT, "effect": "PreferNoSchedule"}]}}), "taints"),
            (json!({"spec": {"providerID": "kwok://another"}}), "only its taint"),
            (json!({"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}}), "only its taint"),
            (json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "o", "uid": "o"}]}}),
                "only its taint"),
        ] {
            denied(cluster, change, named)?;
        }
        let refused = as_operator(cluster, &["delete", "node", NODE]).err().context("a node was deleted")?;
        ensure!(refused.to_string().contains("only nodes of KWOK"), "{refused}");
        // What no role permits either is denied to an operator to whom everything is permitted.
        let capacity = json!({"status": {"capacity": {"cpu": "400"}}}).to_string();
        let status = vec!["patch", "node", NODE, "--subresource=status", "--type=merge", "--patch", &capacity];
        let file = a_node_of_no_provider()?;
        let creation = vec!["create", "-f", &file];
        for (mut args, named) in [
            (status, "may not change subresources of nodes"),
            (creation, "may create only nodes of KWOK"),
        ] {
            args.push("--as-group=system:masters");
            let refused = as_operator(cluster, &args).err().with_context(|| format!("{args:?} is accepted"))?;
            ensure!(refused.to_string().contains(named), "{args:?}: {refused}");
        }

        let soft = json!({"key": SOFT_TAINT, "effect": "PreferNoSchedule"});
        patch(cluster, &json!({"spec": {"taints": [foreign, soft]}}))?;
        let mark = json!({
            "metadata": {"annotations": {"headroom.dev/intent": "3f2-5-17", "headroom.dev/cordoned": "true"}},
            "spec": {"taints": [foreign, soft, mine], "unschedulable": true},
        });
        patch(cluster, &mark)?;
        let unmark = json!({
            "metadata": {"annotations": {"headroom.dev/intent": null, "headroom.dev/cordoned": null}},
            "spec": {"taints": others(cluster)?, "unschedulable": null},
        });
        patch(cluster, &unmark)?;

        let left: Value = serde_json::from_str(&cluster.kubectl(&["get", "node", NODE, "-o", "json"])?)?;
        for (field, wanted) in [("labels", "tier"), ("annotations", "owner")] {
            ensure!(left["metadata"][field][wanted] == theirs[field][wanted], "{left}");
        }
        // Everybody else is as free as before.
        cluster.kubectl(&["label", "node", NODE, "tier=db", "--overwrite"])?;
        cluster.kubectl(&["delete", "node", NODE])?;
        Ok(())
    })
    .await;
}

/// A file with a Node that has no provider id.
fn a_node_of_no_provider() -> Result<String> {
    let file = std::env::temp_dir().join(format!("headroom-node-{}.json", std::process::id()));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "web-2"}});
    std::fs::write(&file, node.to_string())?;
    Ok(file.to_string_lossy().into_owned())
}

/// The node's taints but those of the operator: the cordon brings one of the node controller's.
fn others(cluster: &ControlPlane) -> Result<Vec<Value>> {
    let live: Value = serde_json::from_str(&cluster.kubectl(&["get", "node", NODE, "-o", "json"])?)?;
    let taints = live["spec"]["taints"].as_array().cloned().unwrap_or_default();
    Ok(taints.into_iter().filter(|taint| taint["key"] != TAINT && taint["key"] != SOFT_TAINT).collect())
}

fn patch(cluster: &ControlPlane, change: &Value) -> Result<String> {
    as_operator(cluster, &["patch", "node", NODE, "--type=merge", "--patch", &change.to_string()])
}

/// The change is refused, in words that hold `named`.
fn denied(cluster: &ControlPlane, change: Value, named: &str) -> Result<()> {
    let refused = patch(cluster, &change).err().with_context(|| format!("{change} is accepted"))?.to_string();
    ensure!(refused.contains("headroom-nodes") && refused.contains(named), "{change}: {refused}");
    Ok(())
}

fn as_operator(cluster: &ControlPlane, args: &[&str]) -> Result<String> {
    let user = format!("--as={}", User::Headroom.name());
    cluster.kubectl(&[&[user.as_str()], args].concat())
}
