//! From an HPA to a ScalingPolicy by the documented steps, while the operator runs; and what becomes of the policies that it
//! keeps for HPAs.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::{hpa, quick_workloads, scaling_policy};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const POLICIES: &str = "scalingpolicies.headroom.dev";

#[tokio::test]
async fn imported_policy_takes_over_by_the_documented_steps_whichever_way_it_is_applied() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(quick_workloads("Observe", "10s")).await?;
        for (name, apply) in [
            ("client", &["apply", "-f"][..]),
            ("server", &["apply", "--server-side", "--field-manager=argocd-controller", "-f"][..]),
        ] {
            cluster.apply(deployment(name).replicas(2).requests("100m", "64Mi")).await?;
            cluster.apply(hpa(name, 2, 4)).await?;
            wait::until("the operator keeps a policy for the HPA", MINUTE, async || {
                let own = own_policies(cluster, name)?;
                ensure!(own.len() == 1 && own[0].starts_with(&format!("{name}-hpa-")), "{own:?}");
                cluster.scaling_condition_is(&own[0], "HPAOwned", "False", "Observed")
            })
            .await?;
            migrate(cluster, name, apply).await?;
        }
        operator.process().check_running()
    })
    .await;
}

/// The steps of docs/migration.md.
async fn migrate(cluster: &ControlPlane, name: &str, apply: &[&str]) -> Result<()> {
    let file = cluster.folder().join(format!("{name}.yaml"));
    let source = cluster.folder().join(format!("{name}-hpa.yaml"));
    let old = ["get", "horizontalpodautoscalers.v2.autoscaling", name, "--output=yaml"];
    fs::write(&source, cluster.kubectl(&old)?)?;
    let (source_path, file_path) = (source.display().to_string(), file.display().to_string());
    let printed = cluster.headroom(&["import", "hpa", source_path.as_str(), "--preview"])?;
    fs::write(&file, &printed)?;
    println!(
        "$ kubectl {} {name}.yaml\n{}",
        apply.join(" "),
        cluster.kubectl(&[apply, &[file_path.as_str()]].concat())?
    );
    wait::until("the policy is previewed beside the HPA", MINUTE, async || {
        cluster.scaling_condition_is(name, "Ready", "True", "PreviewOnly")
    })
    .await?;
    let compared = cluster.headroom(&["compare"])?;
    println!("$ headroom compare\n{compared}");
    ensure!(compared.contains(&format!("default/{name}")), "{compared}");

    println!("{}", cluster.kubectl(&["delete", "hpa", name])?);
    wait::until("the operator's own policy goes with the HPA", MINUTE, async || {
        let own = own_policies(cluster, name)?;
        ensure!(own.is_empty(), "{own:?}");
        Ok(())
    })
    .await?;
    fs::write(&file, printed.replace("mode: Preview", "mode: Apply"))?;
    println!("{}", cluster.kubectl(&[apply, &[file_path.as_str()]].concat())?);
    wait::until("the policy scales", MINUTE, async || {
        cluster.scaling_condition_is(name, "Ready", "True", "Accepted")
    })
    .await?;
    println!("{}", cluster.kubectl(&["get", POLICIES, "--output=wide"])?);
    Ok(())
}

#[tokio::test]
async fn policies_of_the_version_before_are_renamed_with_their_memory_and_edited_ones_are_the_users() {
    cluster_test(Options::new(), async |cluster| {
        cluster.apply(quick_workloads("Observe", "10s")).await?;
        let decision = json!({"time": "2026-01-15T08:00:00Z", "from": 1, "to": 2, "reason": "Metrics", "outcome": "Observed"});
        for name in ["kept", "edited"] {
            cluster.apply(deployment(name).replicas(2).requests("100m", "64Mi")).await?;
            cluster.apply(hpa(name, 2, 4)).await?;
            old_policy(cluster, name).await?;
            let patch = json!({"status": {"decisions": [decision]}}).to_string();
            cluster.kubectl(&["patch", POLICIES, name, "--subresource=status", "--type=merge", "-p", &patch])?;
        }
        // What the documented way round the old clash came to: the object is edited in place.
        let target = scaling_policy("edited", "edited", 4)["spec"].to_string();
        let replaced = format!(r#"[{{"op": "replace", "path": "/spec", "value": {target}}}]"#);
        cluster.kubectl(&["patch", POLICIES, "edited", "--type=json", "-p", &replaced])?;

        let operator = cluster.operator().start()?;
        operator.ready().await?;
        wait::until("the policy has its new name and its history", MINUTE, async || {
            let own = own_policies(cluster, "kept")?;
            ensure!(own.len() == 1 && own[0].starts_with("kept-hpa-"), "{own:?}");
            let decisions = cluster.scaling_status(&own[0])?["decisions"].clone();
            ensure!(decisions.as_array().is_some_and(|all| all.contains(&decision)), "{decisions}");
            Ok(())
        })
        .await?;
        let edited = wait::until("the edited policy is the user's", MINUTE, async || {
            let edited = policy(cluster, "edited")?;
            ensure!(edited["metadata"]["ownerReferences"].is_null(), "{edited:#}");
            ensure!(edited["metadata"]["labels"].is_null(), "{edited:#}");
            Ok(edited)
        })
        .await?;
        cluster.kubectl(&["delete", "hpa", "edited"])?;
        wait::until("it scales once the HPA is gone", MINUTE, async || {
            cluster.scaling_condition_is("edited", "Ready", "True", "Accepted")
        })
        .await?;
        let survivor = policy(cluster, "edited")?;
        ensure!(survivor["metadata"]["uid"] == edited["metadata"]["uid"], "{survivor:#}");
        operator.process().check_running()
    })
    .await;
}

#[tokio::test]
async fn newer_hpa_that_takes_a_workload_over_is_shown_by_condition_and_event() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(quick_workloads("Observe", "10s")).await?;
        cluster.apply(deployment("web").replicas(2).requests("100m", "64Mi")).await?;
        cluster.apply(scaling_policy("web", "web", 4)).await?;
        wait::until("the policy scales", MINUTE, async || {
            cluster.scaling_condition_is("web", "Ready", "True", "Accepted")
        })
        .await?;
        cluster.apply(hpa("web", 1, 3)).await?;
        wait::until("the policy names the rule", MINUTE, async || {
            let message = cluster.scaling_condition_is("web", "Stalled", "True", "Conflict")?;
            ensure!(message.contains("while workloads.hpaOwnership is Observe"), "{message}");
            Ok(())
        })
        .await?;
        wait::until("an event says so", MINUTE, async || {
            let events =
                cluster.kubectl(&["get", "events", "--field-selector=involvedObject.kind=ScalingPolicy"])?;
            ensure!(events.contains("Conflict") && events.contains("HorizontalPodAutoscaler"), "{events}");
            Ok(())
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}

/// A policy as the version before kept it: of the HPA's own name.
async fn old_policy(cluster: &ControlPlane, name: &str) -> Result<()> {
    let uid = cluster.kubectl(&["get", "hpa", name, "--output=jsonpath={.metadata.uid}"])?;
    let policy = json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy",
        "metadata": {"name": name, "namespace": "default", "labels": {"app.kubernetes.io/managed-by": "headroom"},
            "ownerReferences": [{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": name,
                "uid": uid, "controller": true}]},
        "spec": {"target": {"type": "HPA", "hpa": {"name": name}}}});
    cluster.create(policy).await?;
    Ok(())
}

/// Names of the policies that the operator keeps for an HPA.
fn own_policies(cluster: &ControlPlane, hpa: &str) -> Result<Vec<String>> {
    let label = "--selector=app.kubernetes.io/managed-by=headroom";
    let found: Value = serde_json::from_str(&cluster.kubectl(&["get", POLICIES, label, "--output=json"])?)?;
    let items = found["items"].as_array().context("a list")?.iter();
    let of_hpa = items.filter(|one| one["spec"]["target"]["hpa"]["name"] == hpa);
    Ok(of_hpa.filter_map(|one| one["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

fn policy(cluster: &ControlPlane, name: &str) -> Result<Value> {
    Ok(serde_json::from_str(&cluster.kubectl(&["get", POLICIES, name, "--output=json"])?)?)
}
