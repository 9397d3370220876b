//! The rollout controller of Argo Rollouts from upstream's Go module as a child process, and its Rollouts.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::binaries;
use crate::control_plane::ControlPlane;
use crate::process::{Process, Recipe};

const START_DEADLINE: Duration = Duration::from_secs(60);

/// The running controller. Dropping it is SIGKILL.
#[derive(Debug)]
pub struct Rollouts {
    process: Process,
}

impl Rollouts {
    /// Installs the definitions, lets the operator scale Rollouts, and starts the controller.
    pub async fn start(cluster: &ControlPlane) -> Result<Self> {
        let program = tokio::task::spawn_blocking(binaries::rollouts).await??;
        cluster.install_crds(&program.join("crds")).await?;
        cluster.apply(role()).await?;
        let process = Process::start(Recipe {
            name: "rollouts".to_owned(),
            program: program.join("bin/rollouts"),
            args: Vec::new(),
            env: vec![("KUBECONFIG".to_owned(), cluster.kubeconfig().display().to_string())],
            log: cluster.folder().join("logs/rollouts.log"),
        })?;
        Ok(Self { process })
    }

    /// The process, to be watched or killed.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Waits until a Rollout is in a phase: `Healthy`, or `Paused` at a step that has no end.
    pub async fn reaches(&self, cluster: &ControlPlane, name: &str, phase: &str) -> Result<()> {
        self.process
            .until(&format!("rollout {name} is {phase}"), START_DEADLINE, async || {
                let found: Value = serde_json::from_str(&cluster.kubectl(&[
                    "get",
                    "rollouts.argoproj.io",
                    name,
                    "--output=json",
                ])?)?;
                let seen = found["status"]["observedGeneration"].as_str().and_then(|text| text.parse().ok());
                let is_current = seen == found["metadata"]["generation"].as_i64();
                ensure!(is_current && found["status"]["phase"] == phase, "its status is {}", found["status"]);
                Ok(())
            })
            .await
    }
}

/// A Rollout in namespace `default` with its two Services: beside the stable pods, all of which stay, a canary of `weight` percent
/// of them, until somebody promotes it. Its pods ask for 100m CPU.
pub fn canary(name: &str, replicas: u32, weight: u32) -> Vec<Value> {
    let service = |role: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("{name}-{role}"), "namespace": "default"},
            "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
        })
    };
    let rollout = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "main",
                    "image": "example/none",
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }]},
            },
            "strategy": {"canary": {
                "stableService": format!("{name}-stable"),
                "canaryService": format!("{name}-canary"),
                // Nobody routes: the numbers of pods are what matters here.
                "trafficRouting": {},
                "steps": [{"setCanaryScale": {"weight": weight}}, {"pause": {}}],
            }},
        },
    });
    vec![service("stable"), service("canary"), rollout]
}

/// Gives a Rollout a new version.
pub fn change(cluster: &ControlPlane, name: &str, version: &str) -> Result<()> {
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"version": version}}}}});
    patched(cluster, name, &[&format!("--patch={patch}")])
}

/// Lets the canary of a Rollout become its stable version, as `kubectl argo rollouts promote --full` does.
pub fn promote(cluster: &ControlPlane, name: &str) -> Result<()> {
    let patch = json!({"status": {"promoteFull": true}});
    patched(cluster, name, &["--subresource=status", &format!("--patch={patch}")])
}

/// `spec.replicas` of a Rollout in namespace `default`.
pub fn replicas_are(cluster: &ControlPlane, name: &str, wanted: u64) -> Result<()> {
    let path = "--output=jsonpath={.spec.replicas}";
    let found = cluster.kubectl(&["get", "rollouts.argoproj.io", name, path])?;
    ensure!(found == wanted.to_string(), "{name} has {found} replicas, {wanted} wanted");
    Ok(())
}

fn patched(cluster: &ControlPlane, name: &str, args: &[&str]) -> Result<()> {
    let all = [&["patch", "rollouts.argoproj.io", name, "--type=merge"], args].concat();
    cluster.kubectl(&all).map(drop)
}

fn role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "rollouts-for-headroom", "labels": {"headroom.dev/aggregate-to-operator": "true"}},
        "rules": [{"apiGroups": ["argoproj.io"], "resources": ["rollouts/scale"], "verbs": ["get", "update"]}],
    })
}
