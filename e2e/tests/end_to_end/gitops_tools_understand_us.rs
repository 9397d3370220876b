//! kstatus, Argo CD and Flux rate a pool as its owner would, and applying it again and again changes nothing.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{cluster_policy, deployment, pool};
use e2e::harness::cluster_test;
use e2e::workloads::scaling_policy;
use e2e::{tools, wait};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const POOLS: &str = "nodepools";
/// One object of each kind.
const OBJECTS: [(&str, &str); 3] =
    [(POOLS, "general"), ("scalingpolicies", "web"), ("clusterscalingpolicies", "default")];
/// The field managers of Argo CD and of Flux.
const TOOLS: [&str; 2] = ["argocd-controller", "kustomize-controller"];

#[tokio::test]
async fn the_tools_say_what_the_conditions_mean() {
    cluster_test(Options::new(), async |cluster| {
        cluster.apply(pool("general").nodes(0, 5)).await?;
        // Nobody has looked at it. kstatus takes an object without any status for done, which nobody can help.
        let fresh = object(cluster, POOLS, "general")?;
        ensure!(tools::verdicts(&fresh)?["argo"] == "Progressing", "{}", tools::verdicts(&fresh)?);
        ensure!(tools::verdicts(&fresh)?["flux"] == "InProgress", "{}", tools::verdicts(&fresh)?);

        let operator = cluster.operator().start()?;
        operator.ready().await?;
        judged(cluster, POOLS, "general", "Current", "Healthy", "Current").await?;

        // A mistake that the schema can not see and only a person can mend.
        let window = json!({"timeZone": "Mars/Olympus", "start": "0 8 * * 1", "duration": "10h"});
        let schedules = json!([{"name": "office", "window": window, "minNodes": 1}]);
        cluster.apply(pool("wrong").set("/spec/schedules", schedules)).await?;
        judged(cluster, POOLS, "wrong", "Failed", "Degraded", "Failed").await?;

        cluster.edit_pool("general", json!({"spec": {"mode": "Suspend"}})).await?;
        judged(cluster, POOLS, "general", "Current", "Suspended", "Current").await?;
        let resumed = tools::after_action(&object(cluster, POOLS, "general")?, "resume")?;
        cluster.edit_pool("general", json!({"spec": {"mode": resumed["spec"]["mode"]}})).await?;
        judged(cluster, POOLS, "general", "Current", "Healthy", "Current").await
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
        // Conditions that come and go by themselves are reported, and degrade nothing.
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
        let verdicts = tools::verdicts(&looked_at(kind, 2, &noise))?;
        ensure!(verdicts["argoMessage"].as_str().is_some_and(|it| it.contains("AtLimit: m")), "{verdicts}");
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

/// Objects of every kind of ours, applied as Argo CD and Flux do it, who here share them, which is the harder case.
#[tokio::test]
async fn manifests_applied_a_hundred_times_change_nothing() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(deployment("web")).await?;
        // Quantities and durations in spellings that a normalising writer would rewrite.
        let pool: Value = pool("general")
            .nodes(0, 5)
            .set("/spec/template/capacity/cpu", json!("4000m"))
            .set("/spec/scaleDown/unneededFor", json!("60m"))
            .into();
        let mut policy = scaling_policy("web", "web", 5);
        policy["spec"]["metrics"][0]["resource"]["target"] =
            json!({"type": "AverageValue", "averageValue": "1000m"});
        let settings = cluster_policy(json!({"workloads": {"syncPeriod": "0m15s"}}));
        let manifests = cluster.folder().join("manifests.json");
        let all = json!({"apiVersion": "v1", "kind": "List", "items": [pool, policy, settings]});
        std::fs::write(&manifests, all.to_string())?;
        let file = format!("--filename={}", manifests.display());
        let apply = |tool: &str| {
            let manager = format!("--field-manager={tool}");
            cluster.kubectl(&["apply", "--server-side", "--force-conflicts", &manager, &file])
        };
        for tool in TOOLS {
            apply(tool)?;
        }
        for (kind, name) in OBJECTS {
            judged(cluster, kind, name, "Current", "Healthy", "Current").await?;
        }
        let seen =
            || OBJECTS.iter().map(|(kind, name)| of_others(cluster, kind, name)).collect::<Result<Vec<_>>>();
        let before = seen()?;
        for _ in 0..50 {
            for tool in TOOLS {
                apply(tool)?;
            }
        }
        let after = seen()?;
        ensure!(after == before, "before:\n{before:#?}\nafter:\n{after:#?}");
        let (pool, policy, settings) = (&after[0]["spec"], &after[1]["spec"], &after[2]["spec"]);
        ensure!(pool["template"]["capacity"]["cpu"] == "4000m", "{pool}");
        ensure!(pool["scaleDown"]["unneededFor"] == "60m", "{pool}");
        ensure!(policy["metrics"][0]["resource"]["target"]["averageValue"] == "1000m", "{policy}");
        ensure!(settings["workloads"]["syncPeriod"] == "0m15s", "{settings}");
        Ok(())
    })
    .await;
}

/// Returns the parts of an object that others than the operator own: all but its status, and the writer and time of
/// each field.
fn of_others(cluster: &ControlPlane, kind: &str, name: &str) -> Result<Value> {
    let mut object = object(cluster, kind, name)?;
    let owners = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let tools = owners.into_iter().filter(|owner| owner["subresource"] != "status").collect();
    object["metadata"]["managedFields"] = Value::Array(tools);
    for (part, field) in [("/metadata", "resourceVersion"), ("", "status")] {
        object.pointer_mut(part).and_then(Value::as_object_mut).context("no object")?.remove(field);
    }
    let owners = object["metadata"]["managedFields"].as_array().map_or(0, Vec::len);
    ensure!(owners == TOOLS.len(), "{owners} own fields of {kind} {name}");
    Ok(object)
}

async fn judged(
    cluster: &ControlPlane,
    kind: &str,
    name: &str,
    kstatus: &str,
    argo: &str,
    flux: &str,
) -> Result<()> {
    wait::until(&format!("{name} is judged {kstatus}, {argo}, {flux}"), MINUTE, async || {
        let verdicts = tools::verdicts(&object(cluster, kind, name)?)?;
        ensure!(
            verdicts["kstatus"] == kstatus && verdicts["argo"] == argo && verdicts["flux"] == flux,
            "the verdicts are {verdicts}"
        );
        Ok(())
    })
    .await
}

fn object(cluster: &ControlPlane, kind: &str, name: &str) -> Result<Value> {
    let kind = format!("{kind}.headroom.dev");
    let json = cluster.kubectl(&["get", &kind, name, "--output=json", "--show-managed-fields"])?;
    Ok(serde_json::from_str(&json)?)
}
