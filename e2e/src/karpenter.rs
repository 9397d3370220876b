//! Karpenter from upstream's Go module as a child process, with its KWOK provider: its nodes are brought to life by the KWOK of the
//! control plane.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, User, free_ports};
use crate::process::{Process, Recipe, Signal};
use crate::{binaries, wait};

/// The only zone of the instance types.
pub const ZONE: &str = "test-zone-a";
/// The label by which Karpenter marks the nodes of a NodePool.
pub const POOL_LABEL: &str = "karpenter.sh/nodepool";
/// Price of an instance type for one hour and one of its CPUs.
pub const PRICE_PER_CPU: f64 = 0.01;
const START_DEADLINE: Duration = Duration::from_secs(120);
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// A type of machine, of which the KWOK provider keeps 100m of CPU and 10Mi of memory for itself.
#[derive(Clone, Debug)]
pub struct Machine {
    pub name: String,
    pub cpu_milli: u32,
    pub memory_mib: u64,
    pub pods: u32,
    /// For one hour.
    pub price: f64,
}

/// Running Karpenter. Dropping it is SIGKILL.
#[derive(Debug)]
pub struct Karpenter {
    process: Process,
}

impl Karpenter {
    /// Starts Karpenter with machines of these names, CPUs and memory in GiB. One costs [`PRICE_PER_CPU`] an hour for each CPU.
    pub async fn start(cluster: &ControlPlane, types: &[(&str, u32, u32)]) -> Result<Self> {
        let machine = |(name, cpus, gib): &(&str, u32, u32)| Machine {
            name: (*name).to_owned(),
            cpu_milli: cpus * 1000,
            memory_mib: u64::from(*gib) * 1024,
            pods: 110,
            price: f64::from(*cpus) * PRICE_PER_CPU,
        };
        Self::start_with(cluster, &types.iter().map(machine).collect::<Vec<_>>()).await
    }

    /// Installs the definitions and the class `default`, and starts Karpenter with these machines.
    pub async fn start_with(cluster: &ControlPlane, machines: &[Machine]) -> Result<Self> {
        let program = tokio::task::spawn_blocking(binaries::karpenter).await??;
        cluster.install_crds(&program.join("crds")).await?;
        cluster.apply_all(&[class()]).await?;
        let file = cluster.folder().join("instance-types.json");
        let types: Vec<Value> = machines.iter().map(instance_type).collect();
        std::fs::write(&file, Value::from(types).to_string())?;
        let [metrics, health] = free_ports()?;
        let env = [
            ("KUBECONFIG", cluster.kubeconfig_of(User::Karpenter).display().to_string()),
            ("INSTANCE_TYPES_FILE_PATH", file.display().to_string()),
            ("SYSTEM_NAMESPACE", "kube-system".to_owned()),
            ("DISABLE_LEADER_ELECTION", "true".to_owned()),
            ("METRICS_PORT", metrics.to_string()),
            ("HEALTH_PROBE_PORT", health.to_string()),
            ("FEATURE_GATES", "CapacityBuffer=true".to_owned()),
        ];
        let process = Process::start(Recipe {
            name: "karpenter".to_owned(),
            program: program.join("bin/karpenter"),
            args: Vec::new(),
            env: env.map(|(name, value)| (name.to_owned(), value)).into(),
            log: cluster.folder().join("logs/karpenter.log"),
        })?;
        Ok(Self { process })
    }

    /// Applies a NodePool and waits until Karpenter takes it.
    pub async fn serve(&self, cluster: &ControlPlane, pool: Value) -> Result<()> {
        let name = pool["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        cluster.apply(pool).await?;
        wait::until("Karpenter takes the NodePool", START_DEADLINE, async || {
            let query = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
            let ready = cluster.kubectl(&["get", "nodepools.karpenter.sh", &name, "-o", query])?;
            ensure!(ready == "True", "Ready is {ready:?}; the log ends with\n{}", self.process.log_tail(5));
            Ok(())
        })
        .await
    }

    /// Ends it as its Deployment would, and waits until it is gone.
    pub async fn stop(&self) -> Result<()> {
        self.process.signal(Signal::TERM)?;
        self.process.wait_exit(STOP_DEADLINE).await.map(drop)
    }

    /// The process, to be watched or started again.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

/// Nodes that Karpenter has made and not given away.
pub async fn nodes(cluster: &ControlPlane) -> Result<Vec<Node>> {
    let api: Api<Node> = Api::all(cluster.client());
    Ok(api.list(&ListParams::default().labels(POOL_LABEL)).await?.items)
}

/// A NodePool of on-demand machines of one size, which KWOK brings to life. Consolidation begins after 30 s and has no budget.
pub fn node_pool(name: &str, cpu: u32, memory_gib: u32) -> Value {
    let mut pool = node_pool_of_all_types(name);
    if let Some(requirements) = pool["spec"]["template"]["spec"]["requirements"].as_array_mut() {
        requirements.push(only("karpenter.kwok.sh/instance-cpu", &cpu.to_string()));
        requirements.push(only("karpenter.kwok.sh/instance-memory", &format!("{memory_gib}Gi")));
    }
    pool
}

/// The same of machines of all sizes that there are.
pub fn node_pool_of_all_types(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "30s",
                "budgets": [{"nodes": "100%"}],
            },
            "template": {
                "metadata": {"labels": {"type": "kwok"}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                    "requirements": [
                        only("karpenter.sh/capacity-type", "on-demand"),
                        only("topology.kubernetes.io/zone", ZONE),
                    ],
                },
            },
        },
    })
}

/// The version that is built.
pub fn version() -> Result<String> {
    let file = std::fs::read_to_string(binaries::repository().join("e2e/karpenter/go.mod"))?;
    let line = file.lines().find_map(|line| line.trim().strip_prefix("sigs.k8s.io/karpenter "));
    let version = line.and_then(|rest| rest.split(' ').next()).context("go.mod names no Karpenter")?;
    ensure!(version.starts_with('v'), "its version is {version}");
    Ok(version.to_owned())
}

fn only(key: &str, value: &str) -> Value {
    json!({"key": key, "operator": "In", "values": [value]})
}

fn class() -> Value {
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}, "spec": {},
    })
}

fn instance_type(machine: &Machine) -> Value {
    let memory = format!("{}Mi", machine.memory_mib);
    json!({
        "name": machine.name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": format!("{}m", machine.cpu_milli), "memory": memory, "pods": machine.pods.to_string()},
        "offerings": [{
            "Price": machine.price,
            "Available": true,
            "Requirements": [only("karpenter.sh/capacity-type", "on-demand"), only("topology.kubernetes.io/zone", ZONE)],
        }],
    })
}
