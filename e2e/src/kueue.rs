//! Kueue from upstream's Go module as a child process: its controller of ProvisioningRequests alone, or the whole manager with
//! its webhooks.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, free_ports};
use crate::process::{Process, Recipe};
use crate::{binaries, wait};

/// Version of Kueue's kinds.
pub const API_VERSION: &str = "kueue.x-k8s.io/v1beta2";
/// Namespace of the whole manager.
const NAMESPACE: &str = "kueue-system";
const SECRET: &str = "kueue-webhook-server-cert";
const SERVICE: &str = "kueue-webhook-service";
const START_DEADLINE: Duration = Duration::from_secs(120);

/// Running Kueue. Dropping it is SIGKILL.
#[derive(Debug)]
pub struct Kueue {
    process: Process,
}

impl Kueue {
    /// Installs the definitions, without webhooks, and starts the controller of ProvisioningRequests. Their definition must be
    /// there. The rest of Kueue is the test's part: it writes the status of Workloads.
    pub async fn provisioning(cluster: &ControlPlane) -> Result<Self> {
        let program = tokio::task::spawn_blocking(binaries::kueue_provisioning).await??;
        cluster.install_crds(&program.join("crds")).await?;
        cluster.apply_all(&[flavor()]).await?;
        Self::run(cluster, &program.join("bin/kueue-provisioning"), Vec::new())
    }

    /// Installs all objects of Kueue but its Deployments and roles, and starts the manager. The definition of
    /// ProvisioningRequests must be there. It returns once the webhooks answer.
    pub async fn whole(cluster: &ControlPlane) -> Result<Self> {
        let program = tokio::task::spawn_blocking(binaries::kueue).await??;
        let [webhook, health] = free_ports()?;
        let folder = cluster.folder().join("kueue");
        let certificates = folder.join("certificates");
        std::fs::create_dir_all(&certificates)?;
        install(cluster, &program.join("config.yaml"), &folder, webhook).await?;
        let config = folder.join("manager.yaml");
        std::fs::write(&config, configuration(&certificates, webhook, health).to_string())?;
        let args = vec![
            "--config".to_owned(),
            config.display().to_string(),
            "--kubeconfig".to_owned(),
            cluster.kubeconfig().display().to_string(),
            // Its server would write its certificate into a folder of the root.
            "--feature-gates=VisibilityOnDemand=false".to_owned(),
        ];
        let kueue = Self::run(cluster, &program.join("bin/kueue"), args)?;
        kueue.take_certificates(cluster, &certificates).await?;
        kueue
            .process
            .until("the webhooks of Kueue answer", START_DEADLINE, async || {
                cluster.apply(flavor()).await?;
                Ok(())
            })
            .await?;
        Ok(kueue)
    }

    /// The process, to be watched or killed.
    pub fn process(&self) -> &Process {
        &self.process
    }

    fn run(cluster: &ControlPlane, program: &Path, args: Vec<String>) -> Result<Self> {
        let process = Process::start(Recipe {
            name: "kueue".to_owned(),
            program: program.to_owned(),
            args,
            env: vec![("KUBECONFIG".to_owned(), cluster.kubeconfig().display().to_string())],
            log: cluster.folder().join("logs/kueue.log"),
        })?;
        Ok(Self { process })
    }

    /// Kueue writes its certificate into a Secret and waits for the files that a kubelet would make of it.
    async fn take_certificates(&self, cluster: &ControlPlane, folder: &Path) -> Result<()> {
        let secrets: Api<Secret> = Api::namespaced(cluster.client(), NAMESPACE);
        let data = wait::until("Kueue has made its certificate", START_DEADLINE, async || {
            self.process.check_running()?;
            let data = secrets.get(SECRET).await?.data.unwrap_or_default();
            ensure!(data.contains_key("tls.crt"), "the Secret has {:?}", data.keys());
            Ok(data)
        })
        .await?;
        for (name, content) in data {
            std::fs::write(folder.join(name), content.0)?;
        }
        Ok(())
    }
}

/// Applies the objects that a bare control plane can have: definitions, webhooks, and the Service by which the API server
/// reaches the manager on loopback.
async fn install(cluster: &ControlPlane, config: &Path, folder: &Path, port: u16) -> Result<()> {
    let text = std::fs::read_to_string(config)?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).context("failed to read Kueue's objects")?;
    let definitions = folder.join("crds");
    std::fs::create_dir_all(&definitions)?;
    let mut others = Vec::new();
    let mut webhooks = Vec::new();
    for mut object in objects {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match object["kind"].as_str().unwrap_or_default() {
            "CustomResourceDefinition" => {
                // A definition without conversion has no such client, and must get none.
                if let Some(webhook) = object.pointer_mut("/spec/conversion/webhook") {
                    reach(webhook, port);
                }
                std::fs::write(definitions.join(format!("{name}.yaml")), object.to_string())?;
            }
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
                for webhook in object["webhooks"].as_array_mut().context("no webhooks")? {
                    reach(webhook, port);
                }
                webhooks.push(object);
            }
            "Service" if name == SERVICE => {
                object["spec"] = json!({"type": "ExternalName", "externalName": "localhost"});
                others.push(object);
            }
            "Namespace" => others.insert(0, object),
            "Secret" => others.push(object),
            _ => {}
        }
    }
    cluster.install_crds(&definitions).await?;
    cluster.apply_all(&others).await?;
    // From here on Jobs are refused until the manager runs.
    cluster.apply_all(&webhooks).await
}

/// Lets the API server dial `port` of the Service.
fn reach(webhook: &mut Value, port: u16) {
    if let Some(service) = webhook.pointer_mut("/clientConfig/service") {
        service["port"] = json!(port);
    }
}

fn configuration(certificates: &Path, webhook: u16, health: u16) -> Value {
    json!({
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": format!("127.0.0.1:{health}")},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": certificates.display().to_string()},
        "leaderElection": {"leaderElect": false},
        "internalCertManagement": {"enable": true, "webhookServiceName": SERVICE, "webhookSecretName": SECRET},
        "integrations": {"frameworks": ["batch/job"]},
        "clientConnection": {"qps": 300, "burst": 500},
    })
}

/// The flavor of all nodes.
fn flavor() -> Value {
    json!({"apiVersion": API_VERSION, "kind": "ResourceFlavor", "metadata": {"name": "any"}, "spec": {}})
}

/// An admission check of Kueue that asks for room by ProvisioningRequests of `class`, with its settings.
pub fn check(name: &str, class: &str) -> [Value; 2] {
    [
        json!({
            "apiVersion": API_VERSION, "kind": "ProvisioningRequestConfig", "metadata": {"name": name},
            "spec": {
                "provisioningClassName": class,
                "managedResources": ["cpu"],
                "retryStrategy": {"backoffLimitCount": 2, "backoffBaseSeconds": 1, "backoffMaxSeconds": 5},
            },
        }),
        json!({
            "apiVersion": API_VERSION, "kind": "AdmissionCheck", "metadata": {"name": name},
            "spec": {
                "controllerName": "kueue.x-k8s.io/provisioning-request",
                "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": name},
            },
        }),
    ]
}
