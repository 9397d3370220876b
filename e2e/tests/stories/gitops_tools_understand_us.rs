//! kstatus, Argo CD and Flux judge a pool as its owner would, and applying it again and again changes nothing.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::pool;
use e2e::story::story;
use e2e::{tools, wait};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_tools_say_what_the_conditions_mean() {
    story(Options::new(), async |cluster| {
        cluster.apply(pool("general").nodes(0, 5)).await?;
        // Nobody has looked at it. kstatus takes an object without any status for done, which nobody can help.
        let fresh = object(cluster, "general")?;
        ensure!(tools::verdicts(&fresh)?["argo"] == "Progressing", "{}", tools::verdicts(&fresh)?);
        ensure!(tools::verdicts(&fresh)?["flux"] == "InProgress", "{}", tools::verdicts(&fresh)?);

        let operator = cluster.operator().start()?;
        operator.ready().await?;
        judged(cluster, "general", "Current", "Healthy", "Current").await?;

        // A mistake that the schema can not see and only a person can mend.
        let window = json!({"timeZone": "Mars/Olympus", "start": "0 8 * * 1", "duration": "10h"});
        let schedules = json!([{"name": "office", "window": window, "minNodes": 1}]);
        cluster.apply(pool("wrong").set("/spec/schedules", schedules)).await?;
        judged(cluster, "wrong", "Failed", "Degraded", "Failed").await?;

        cluster.edit_pool("general", json!({"spec": {"mode": "Suspend"}})).await?;
        judged(cluster, "general", "Current", "Suspended", "Current").await?;
        let resumed = tools::after_action(&object(cluster, "general")?, "resume")?;
        cluster.edit_pool("general", json!({"spec": {"mode": resumed["spec"]["mode"]}})).await?;
        judged(cluster, "general", "Current", "Healthy", "Current").await
    })
    .await;
}

/// An object that the operator has looked at, with these conditions.
fn looked_at(kind: &str, generation: i64, conditions: &Value) -> Value {
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": kind,
        "metadata": {"name": "default", "generation": 2},
        "spec": {},
        "status": {"observedGeneration": generation, "conditions": conditions},
    })
}

#[test]
fn objects_of_all_kinds_are_judged_alike() -> Result<()> {
    let condition = |type_: &str, status: &str, reason: &str| -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": "m"})
    };
    let ready = condition("Ready", "True", "Accepted");
    let pending = json!([condition("Ready", "Unknown", "Pending")]);
    // No edit helps, and it is tried again.
    let broken = json!([condition("Ready", "False", "Internal")]);
    let refused = [condition("Ready", "False", "Invalid"), condition("Stalled", "True", "Invalid")];
    for kind in ["NodePool", "ScalingPolicy", "ClusterScalingPolicy"] {
        // What comes and goes by itself is told, and degrades nothing.
        let noise = json!([
            ready,
            condition("AtLimit", "True", "MaxNodesReached"),
            condition("MetricsAvailable", "False", "MetricsOutage")
        ]);
        for (object, kstatus, argo, flux) in [
            (looked_at(kind, 2, &json!([ready])), "Current", "Healthy", "Current"),
            (looked_at(kind, 2, &noise), "Current", "Healthy", "Current"),
            (looked_at(kind, 1, &json!([ready])), "InProgress", "Progressing", "InProgress"),
            (looked_at(kind, 2, &pending), "InProgress", "Progressing", "InProgress"),
            (looked_at(kind, 2, &broken), "InProgress", "Progressing", "InProgress"),
            (looked_at(kind, 2, &json!(refused)), "Failed", "Degraded", "Failed"),
        ] {
            let said = tools::verdicts(&object)?;
            ensure!(
                said["kstatus"] == kstatus && said["argo"] == argo && said["flux"] == flux,
                "{said} of\n{object:#}"
            );
        }
        let told = tools::verdicts(&looked_at(kind, 2, &noise))?;
        ensure!(told["argoMessage"].as_str().is_some_and(|it| it.contains("AtLimit: m")), "{told}");
    }
    Ok(())
}

#[test]
fn actions_change_the_mode_and_offer_what_would_change_it() -> Result<()> {
    for kind in ["NodePool", "ScalingPolicy"] {
        let mut object = looked_at(kind, 2, &json!([]));
        for (action, mode) in [("pause", "Suspend"), ("preview", "Preview"), ("resume", "Apply")] {
            object = tools::after_action(&object, action)?;
            ensure!(object["spec"]["mode"] == mode, "after {action}: {object:#}");
            let offered = tools::offered_actions(&object)?;
            for other in ["pause", "preview", "resume"] {
                ensure!(offered[other]["disabled"] == (other == action), "after {action}: {offered}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_manifest_applied_a_hundred_times_changes_nothing() {
    story(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        // Quantities and durations in spellings that a normalising writer would rewrite.
        let manifest: Value = pool("general")
            .nodes(0, 5)
            .set("/spec/template/capacity/cpu", json!("4000m"))
            .set("/spec/scaleDown/unneededFor", json!("60m"))
            .into();
        cluster.apply(manifest.clone()).await?;
        judged(cluster, "general", "Current", "Healthy", "Current").await?;
        let before = object(cluster, "general")?;
        for _ in 0..100 {
            cluster.apply(manifest.clone()).await?;
        }
        let after = object(cluster, "general")?;
        ensure!(after == before, "before:\n{before:#}\nafter:\n{after:#}");
        ensure!(after["spec"]["template"]["capacity"]["cpu"] == "4000m", "{}", after["spec"]);
        ensure!(after["spec"]["scaleDown"]["unneededFor"] == "60m", "{}", after["spec"]);
        Ok(())
    })
    .await;
}

async fn judged(cluster: &ControlPlane, name: &str, kstatus: &str, argo: &str, flux: &str) -> Result<()> {
    wait::until(&format!("{name} is judged {kstatus}, {argo}, {flux}"), MINUTE, async || {
        let verdicts = tools::verdicts(&object(cluster, name)?)?;
        ensure!(
            verdicts["kstatus"] == kstatus && verdicts["argo"] == argo && verdicts["flux"] == flux,
            "the verdicts are {verdicts}"
        );
        Ok(())
    })
    .await
}

fn object(cluster: &ControlPlane, name: &str) -> Result<Value> {
    let json =
        cluster.kubectl(&["get", "nodepools.headroom.dev", name, "-o", "json", "--show-managed-fields"])?;
    Ok(serde_json::from_str(&json)?)
}
