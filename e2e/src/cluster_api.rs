//! Cluster API's own controllers as a child process, and one Cluster whose machines are KWOK nodes of the same API server.
//! There are no webhooks, so every object is written whole.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::process::{Process, Recipe};
use crate::{binaries, permissions};

/// Namespace of the Cluster.
pub const NAMESPACE: &str = "capi";
/// Name of the Cluster.
pub const CLUSTER: &str = "prod";
const GROUP: &str = "cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const START_DEADLINE: Duration = Duration::from_secs(120);

/// Name of the template whose machines become nodes.
const TEMPLATE: &str = "lab";
/// The annotation by which a Machine goes first.
const MARK: &str = "cluster.x-k8s.io/delete-machine";

/// Running controllers. Dropping them is SIGKILL.
#[derive(Debug)]
pub struct ClusterApi {
    process: Process,
}

impl ClusterApi {
    /// Installs the definitions and a Cluster without machines, and starts the controllers.
    pub async fn start(cluster: &ControlPlane) -> Result<Self> {
        let program = tokio::task::spawn_blocking(binaries::cluster_api).await??;
        cluster.install_crds(&program.join("crds")).await?;
        let definitions = [
            definition(INFRASTRUCTURE, "LabMachine", true),
            definition(INFRASTRUCTURE, "LabMachineTemplate", false),
            definition(INFRASTRUCTURE, "LabCluster", false),
            definition("controlplane.cluster.x-k8s.io", "LabControlPlane", false),
        ];
        let folder = cluster.folder().join("lab-crds");
        std::fs::create_dir_all(&folder)?;
        for object in &definitions {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            std::fs::write(folder.join(format!("{name}.yaml")), object.to_string())?;
        }
        cluster.install_crds(&folder).await?;
        for object in objects(cluster)? {
            cluster.create(object).await?;
        }
        for object in roles() {
            cluster.apply(object).await?;
        }
        let process = Process::start(Recipe {
            name: "cluster-api".to_owned(),
            program: program.join("bin/cluster-api"),
            args: Vec::new(),
            env: vec![("KUBECONFIG".to_owned(), cluster.kubeconfig().display().to_string())],
            log: cluster.folder().join("logs/cluster-api.log"),
        })?;
        Ok(Self { process })
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Creates a MachineDeployment of 0 machines of 4 CPU and 16 GiB, with bounds of 0 to `max`, and waits until the
    /// controllers have seen it.
    pub async fn deployment(&self, cluster: &ControlPlane, name: &str, max: u32) -> Result<()> {
        cluster.create(machine_deployment(name, max)).await?;
        self.process
            .until("Cluster API has seen the MachineDeployment", START_DEADLINE, async || {
                let found = get(cluster, "MachineDeployment", name).await?;
                ensure!(found["status"]["observedGeneration"].is_i64(), "its status is {}", found["status"]);
                Ok(())
            })
            .await
    }
}

fn machine_deployment(name: &str, max: u32) -> Value {
    let labels = json!({"cluster.x-k8s.io/cluster-name": CLUSTER, "cluster.x-k8s.io/deployment-name": name});
    let bounds = "cluster.x-k8s.io/cluster-api-autoscaler-node-group";
    let capacity = "capacity.cluster-autoscaler.kubernetes.io";
    let annotations = json!({
        format!("{bounds}-min-size"): "0",
        format!("{bounds}-max-size"): max.to_string(),
        format!("{capacity}/cpu"): "4",
        format!("{capacity}/memory"): "16Gi",
        format!("{capacity}/labels"): "type=kwok",
    });
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let machine = json!({
        "clusterName": CLUSTER,
        "bootstrap": {"dataSecretName": "boot"},
        "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "LabMachineTemplate", "name": TEMPLATE},
        "deletion": {"nodeDeletionTimeoutSeconds": 10},
    });
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": CLUSTER},
            "annotations": annotations,
        },
        "spec": {
            "clusterName": CLUSTER,
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "rollout": {"strategy": strategy},
            "template": {"metadata": {"labels": labels}, "spec": machine},
        },
    })
}

fn api(cluster: &ControlPlane, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: GROUP.to_owned(),
        version: "v1beta2".to_owned(),
        api_version: format!("{GROUP}/v1beta2"),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    };
    Api::namespaced_with(cluster.client(), NAMESPACE, &resource)
}

/// An object of Cluster API.
pub async fn get(cluster: &ControlPlane, kind: &str, name: &str) -> Result<Value> {
    Ok(serde_json::to_value(api(cluster, kind).get(name).await?)?)
}

/// All Machines.
pub async fn machines(cluster: &ControlPlane) -> Result<Vec<Value>> {
    let list = api(cluster, "Machine").list(&ListParams::default()).await?;
    list.items.iter().map(|machine| Ok(serde_json::to_value(machine)?)).collect()
}

/// Names of the Machines that are marked to go first and are not being deleted.
pub async fn marked(cluster: &ControlPlane) -> Result<Vec<String>> {
    let machines = machines(cluster).await?;
    let is_marked = |machine: &&Value| {
        let metadata = &machine["metadata"];
        metadata["deletionTimestamp"].is_null() && !metadata["annotations"][MARK].is_null()
    };
    let name = |machine: &Value| machine["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Ok(machines.iter().filter(is_marked).map(name).collect())
}

/// Size of a MachineDeployment as its spec has it.
pub async fn size(cluster: &ControlPlane, name: &str) -> Result<u64> {
    let object = get(cluster, "MachineDeployment", name).await?;
    object["spec"]["replicas"].as_u64().context("it has no size")
}

async fn patch(cluster: &ControlPlane, kind: &str, name: &str, change: Value) -> Result<()> {
    let change = kube::api::Patch::Merge(change);
    api(cluster, kind).patch(name, &kube::api::PatchParams::default(), &change).await?;
    Ok(())
}

/// Pauses the Cluster, or lets it go on.
pub async fn pause(cluster: &ControlPlane, paused: bool) -> Result<()> {
    patch(cluster, "Cluster", CLUSTER, json!({"spec": {"paused": paused}})).await
}

/// Another template of machines, with these fields of their LabMachines: `neverJoins` or `failure`.
pub async fn template(cluster: &ControlPlane, name: &str, machine: Value) -> Result<()> {
    cluster.create(machine_template(name, machine)).await?;
    Ok(())
}

fn machine_template(name: &str, machine: Value) -> Value {
    json!({
        "apiVersion": format!("{INFRASTRUCTURE}/v1beta2"),
        "kind": "LabMachineTemplate",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": {"spec": machine}},
    })
}

/// Lets a MachineDeployment make its machines from another template, which begins a rollout.
pub async fn roll_out(cluster: &ControlPlane, name: &str, template: &str) -> Result<()> {
    let machine = json!({"infrastructureRef": {"name": template}});
    patch(cluster, "MachineDeployment", name, json!({"spec": {"template": {"spec": machine}}})).await
}

/// A MachineHealthCheck of all machines. It replaces those whose node has had the condition `Broken` for a second.
pub async fn health_check(cluster: &ControlPlane) -> Result<()> {
    let unhealthy = json!([{"type": "Broken", "status": "True", "timeoutSeconds": 1}]);
    let check = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineHealthCheck",
        "metadata": {"name": "broken", "namespace": NAMESPACE},
        "spec": {
            "clusterName": CLUSTER,
            "selector": {"matchLabels": {"cluster.x-k8s.io/cluster-name": CLUSTER}},
            "checks": {"nodeStartupTimeoutSeconds": 600, "unhealthyNodeConditions": unhealthy},
        },
    });
    cluster.create(check).await?;
    Ok(())
}

/// A kind that keeps whatever is written.
fn definition(group: &str, kind: &str, status: bool) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "labels": {"cluster.x-k8s.io/v1beta2": "v1beta2"}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": "v1beta2", "served": true, "storage": true,
                "subresources": if status { json!({"status": {}}) } else { json!({}) },
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

fn objects(cluster: &ControlPlane) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(cluster.kubeconfig()).context("failed to read the kubeconfig")?;
    let mut config: Value = serde_json::from_str(&text)?;
    // Cluster API takes no paths.
    let entry = &mut config["clusters"][0]["cluster"];
    if let Some(path) = entry["certificate-authority"].as_str().map(PathBuf::from) {
        let pem = std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let encoded = serde_json::to_value(k8s_openapi::ByteString(pem))?;
        entry["certificate-authority-data"] = encoded;
        if let Some(fields) = entry.as_object_mut() {
            fields.remove("certificate-authority");
        }
    }
    let metadata = |name: &str| json!({"name": name, "namespace": NAMESPACE});
    let labelled = |name: &str| json!({"name": name, "namespace": NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": CLUSTER}});
    Ok(vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
            "kind": "LabControlPlane",
            "metadata": labelled(CLUSTER),
            "spec": {"version": "v1.35.0"},
            "status": {
                "initialization": {"controlPlaneInitialized": true},
                "externalManagedControlPlane": true,
                "version": "v1.35.0",
            },
        }),
        // Without an infrastructure that is there, MachineHealthChecks look at no node.
        json!({
            "apiVersion": format!("{INFRASTRUCTURE}/v1beta2"),
            "kind": "LabCluster",
            "metadata": labelled(CLUSTER),
            "spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}},
            "status": {"initialization": {"provisioned": true}},
        }),
        machine_template(TEMPLATE, json!({})),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": labelled("boot"),
            "type": "cluster.x-k8s.io/secret", "stringData": {"value": "nothing"},
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": labelled(&format!("{CLUSTER}-kubeconfig")),
            "type": "cluster.x-k8s.io/secret", "stringData": {"value": config.to_string()},
        }),
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": metadata(CLUSTER),
            "spec": {
                "controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443},
                "controlPlaneRef": {
                    "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "LabControlPlane", "name": CLUSTER,
                },
                "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "LabCluster", "name": CLUSTER},
            },
        }),
    ])
}

/// Returns the roles that the chart's value `provider.clusterApi.namespaces` grants.
fn roles() -> Vec<Value> {
    let metadata = json!({"name": "headroom-cluster-api", "namespace": NAMESPACE});
    let role = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": [GROUP], "resources": resources, "verbs": verbs});
    let kinds = ["machinedeployments", "machinesets", "machinepools"];
    let scales = kinds.map(|kind| format!("{kind}/scale"));
    let scales: Vec<&str> = scales.iter().map(String::as_str).collect();
    let rules = json!([
        role(&[&kinds[..], &["machines", "clusters"]].concat(), &["get", "list", "watch"]),
        role(&scales, &["update"]),
        role(&["machines"], &["patch", "delete"]),
        {"apiGroups": [INFRASTRUCTURE], "resources": ["*"], "verbs": ["get"]},
    ]);
    let subject = json!({"kind": "ServiceAccount", "name": "headroom", "namespace": permissions::NAMESPACE});
    vec![
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "headroom-cluster-api"},
            "subjects": [subject],
        }),
    ]
}
