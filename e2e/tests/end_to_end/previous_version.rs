//! Actions that the previous version has begun are finished by this one: its objects, its memory, and both side by side
//! in a rollout.
//!
//! e2e/previous holds that version's definitions and what it left in a cluster when it was killed between two purchases.
//! With HEADROOM_PREVIOUS naming that version's binary (with crash points) the rollout is tried with it too, and with
//! UPDATE=1 as well e2e/previous/state.yaml is written anew: this is done once a release, after crds/ and charts/headroom were
//! copied there.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::binaries::repository;
use e2e::control_plane::{ControlPlane, Options, User};
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::operator::OperatorBuilder;
use e2e::wait;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const TIER: &str = "example.com/tier";
/// Nine pods of one CPU on nodes of four, in two zones.
const PODS: u32 = 9;
const NODES: usize = 3;

fn folder() -> PathBuf {
    repository().join("e2e/previous")
}

fn previous() -> Option<PathBuf> {
    env::var_os("HEADROOM_PREVIOUS").map(PathBuf::from)
}

#[tokio::test]
async fn an_upgrade_finishes_what_was_begun_and_buys_nothing_twice() {
    if env::var_os("UPDATE").is_some()
        && let Some(binary) = previous()
    {
        return cluster_test(Options::new().without_crds(), async |cluster| {
            write_anew(cluster, &binary).await
        })
        .await;
    }
    cluster_test(Options::new().without_crds().with_audit_log(), async |cluster| {
        cluster.install_crds(&folder().join("crds")).await?;
        let (pool, left) = restore(cluster).await?;
        let intents = left["intents"].as_array().context("the previous version left nothing under way")?;
        let wanted: i64 =
            intents.iter().filter_map(|intent| Some(intent["to"].as_i64()? - intent["from"].as_i64()?)).sum();
        ensure!(usize::try_from(wanted)? == NODES, "what is under way: {intents:?}");
        // Nodes of KWOK are named after the action that makes them.
        let prefixes: Vec<String> = intents
            .iter()
            .map(|intent| format!("{pool}-{}-", intent["id"].as_str().unwrap_or("?")))
            .collect();

        cluster.install_crds(&repository().join("crds")).await?;
        let operator = quick(cluster.operator()).start()?;
        nodes_settle(cluster, &pool, NODES).await?;
        let creations = cluster.writes()?.by(User::Headroom).to("nodes").with_verb("create");
        ensure!(creations.len() == NODES - 1, "one of the nodes was there:\n{}", creations.describe());
        let strange =
            creations.names().into_iter().find(|node| !prefixes.iter().any(|own| node.starts_with(own)));
        ensure!(strange.is_none(), "{strange:?} was bought, which nobody had decided on: {prefixes:?}");

        let ids = |status: &Value| -> Vec<String> {
            let decisions = status["decisions"].as_array().into_iter().flatten();
            decisions.filter_map(|decision| decision["id"].as_str().map(str::to_owned)).collect()
        };
        let (before, now) = (ids(&left), ids(&cluster.pool_status(&pool).await?));
        ensure!(before.iter().all(|id| now.contains(id)), "decisions {before:?} became {now:?}");
        operator.process().check_running()
    })
    .await;
}

#[tokio::test]
#[ignore = "needs the previous version's binary in HEADROOM_PREVIOUS"]
async fn versions_that_take_turns_lose_nothing() {
    cluster_test(Options::new().without_crds().with_audit_log(), async |cluster| {
        let binary = previous().context("HEADROOM_PREVIOUS names no binary")?;
        cluster.install_crds(&folder().join("crds")).await?;
        want(cluster, "general").await?;
        let old = quick(cluster.operator()).binary(binary.clone()).start()?;
        nodes_settle(cluster, "general", NODES).await?;

        cluster.install_crds(&repository().join("crds")).await?;
        let new = quick(cluster.operator()).identity("headroom-1").start()?;
        drop(old);
        cluster.scale_deployment("general", PODS + 4).await?;
        nodes_settle(cluster, "general", NODES + 1).await?;
        // A rollout that is taken back: the old one reads what the new one wrote.
        let old = quick(cluster.operator()).binary(binary).start()?;
        drop(new);
        cluster.scale_deployment("general", PODS + 8).await?;
        nodes_settle(cluster, "general", NODES + 2).await?;
        let creations = cluster.writes()?.by(User::Headroom).to("nodes").with_verb("create").accepted();
        ensure!(creations.len() == NODES + 2, "{}", creations.describe());
        old.process().check_running()
    })
    .await;
}

/// An operator that is soon followed by another one.
fn quick(operator: OperatorBuilder) -> OperatorBuilder {
    operator.flag("--lease-seconds=2")
}

/// A pool of two groups, and pods that only it can take.
async fn want(cluster: &ControlPlane, name: &str) -> Result<()> {
    cluster.apply(pool(name).zones(&["a", "b"]).label(TIER, name)).await?;
    cluster.apply(deployment(name).replicas(PODS).node_selector(TIER, name)).await?;
    Ok(())
}

async fn nodes_settle(cluster: &ControlPlane, pool: &str, nodes: usize) -> Result<()> {
    wait::until("the nodes are there and nothing is under way", MINUTE, async || {
        cluster.ready_nodes_are(pool, nodes).await?;
        let status = cluster.pool_status(pool).await?;
        ensure!(status["intents"].is_null(), "still under way: {}", status["intents"]);
        ensure!(status["nodes"]["ready"] == nodes, "status counts {}", status["nodes"]);
        Ok(())
    })
    .await
}

/// Puts back what the previous version left, and returns the pool's name and status.
async fn restore(cluster: &ControlPlane) -> Result<(String, Value)> {
    let path = folder().join("state.yaml");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let mut found = None;
    let mut objects = serde_saphyr::from_multiple::<Value>(&text)?;
    let lease = objects.iter().find(|object| object["kind"] == "Lease").context("no lease")?;
    let died: Timestamp = lease["spec"]["renewTime"].as_str().context("no renewTime")?.parse()?;
    // As if it had died a moment ago.
    let since = SignedDuration::from_secs(Timestamp::now().as_second() - died.as_second() - 3);
    objects.iter_mut().for_each(|object| move_times(object, since));
    for mut object in objects {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        // A Node keeps the status that it is made with; a custom resource does not.
        let status = (object["kind"] == "NodePool").then(|| object["status"].take());
        cluster.apply(object).await?;
        if let Some(status) = status {
            let patch = json!({"status": status}).to_string();
            let args = ["patch", "nodepools.headroom.dev", &name, "--subresource=status", "--type=merge"];
            cluster.kubectl(&[&args[..], &["--patch", &patch]].concat())?;
            found = Some((name, status));
        }
    }
    found.with_context(|| format!("{} holds no pool", path.display()))
}

/// Moves every instant in `value`.
fn move_times(value: &mut Value, by: SignedDuration) {
    match value {
        Value::String(text) => {
            if let Ok(at) = text.parse::<Timestamp>() {
                *text = (at + by).to_string();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| move_times(item, by)),
        Value::Object(fields) => fields.values_mut().for_each(|field| move_times(field, by)),
        _ => {}
    }
}

/// Lets the previous version die at one call after the other until it has bought one node of several, and writes down
/// what it leaves then.
async fn write_anew(cluster: &ControlPlane, binary: &Path) -> Result<()> {
    cluster.install_crds(&folder().join("crds")).await?;
    for call in 1..30 {
        let name = format!("general-{call}");
        want(cluster, &name).await?;
        let doomed =
            quick(cluster.operator()).binary(binary.to_owned()).crash_at(&call.to_string()).start()?;
        wait::until("it dies", MINUTE, async || {
            doomed.process().exit_status().context("it lives")?;
            Ok(())
        })
        .await?;
        drop(doomed);
        let nodes = cluster.nodes_of_pool(&name).await?;
        if nodes.len() == 1 && !cluster.pool_status(&name).await?["intents"].is_null() {
            let mut text = "# Written by the test previous_version; see there.\n".to_owned();
            for (kind, object) in [
                ("leases.coordination.k8s.io", "headroom"),
                ("nodepools.headroom.dev", name.as_str()),
                ("nodes", nodes[0].metadata.name.as_deref().unwrap_or_default()),
                ("deployments.apps", name.as_str()),
            ] {
                let namespace = if kind.starts_with("leases") { "headroom-system" } else { "default" };
                let got =
                    cluster.kubectl(&["get", kind, object, "--namespace", namespace, "--output=json"])?;
                let mut got: Value = serde_json::from_str(&got)?;
                for own in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"] {
                    got["metadata"].as_object_mut().context("no metadata")?.remove(own);
                }
                text += &format!("---\n{}\n", serde_saphyr::to_string(&got)?.trim_end());
            }
            return Ok(std::fs::write(folder().join("state.yaml"), text)?);
        }
        cluster.delete("Deployment", "apps/v1", &name).await?;
        cluster.delete("NodePool", "headroom.dev/v1alpha1", &name).await?;
    }
    anyhow::bail!("no death left one node of several")
}
