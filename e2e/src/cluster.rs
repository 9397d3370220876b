//! Asking and changing the cluster in a test's words: apply, scale, count, kubectl; it waits for nothing but CRDs.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::core::discovery::Scope;
use kube::runtime::wait::conditions;
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, User};
use crate::fixtures::POOL_LABEL;
use crate::wait;

const FIELD_MANAGER: &str = "test";

impl ControlPlane {
    /// Creates or changes an object by server-side apply; its status too where the kind has one (a fake Node).
    pub async fn apply(&self, object: impl Into<Value>) -> Result<DynamicObject> {
        let object = object.into();
        let (api, name) = self.api_for(&object).await?;
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
        applied.map_err(plain).with_context(|| format!("failed to apply {} {name}", object["kind"]))
    }

    /// Creates an object; it must not exist.
    pub async fn create(&self, object: impl Into<Value>) -> Result<DynamicObject> {
        let object = object.into();
        let (api, name) = self.api_for(&object).await?;
        let created = api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await;
        created.map_err(plain).with_context(|| format!("failed to create {} {name}", object["kind"]))
    }

    /// Tries to create an object that the API server must refuse, and returns its message. Errors when it is
    /// accepted.
    pub async fn refusal(&self, object: impl Into<Value>) -> Result<String> {
        let object = object.into();
        let (api, name) = self.api_for(&object).await?;
        match api.create(&PostParams::default(), &serde_json::from_value(object)?).await {
            Ok(_) => bail!("{name} is accepted, and should be refused"),
            Err(kube::Error::Api(status)) => Ok(status.message),
            Err(other) => Err(other.into()),
        }
    }

    /// Changes some fields of an existing object by a merge patch.
    pub async fn patch(
        &self,
        kind: &str,
        api_version: &str,
        name: &str,
        change: Value,
    ) -> Result<DynamicObject> {
        let (api, _) = self.api_for(&identity(api_version, kind, name)).await?;
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await;
        patched.map_err(plain).with_context(|| format!("failed to patch {kind} {name}"))
    }

    /// Deletes an object (namespace `default` where the kind has one) without waiting until it is gone.
    pub async fn delete(&self, kind: &str, api_version: &str, name: &str) -> Result<()> {
        let (api, _) = self.api_for(&identity(api_version, kind, name)).await?;
        api.delete(name, &DeleteParams::background())
            .await
            .with_context(|| format!("failed to delete {kind} {name}"))?;
        Ok(())
    }

    /// Applies each object in order, again and again for 30 s while the API server is still starting up.
    pub async fn apply_all(&self, objects: &[Value]) -> Result<()> {
        for object in objects {
            let what = format!("{} is applied", object["metadata"]["name"]);
            wait::until(&what, Duration::from_secs(30), async || self.apply(object.clone()).await).await?;
        }
        Ok(())
    }

    /// Applies every YAML file of a folder and waits until each definition is established. A folder that does
    /// not exist has none.
    pub async fn install_crds(&self, folder: &Path) -> Result<()> {
        let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
        let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
        files.sort();
        let mut names = Vec::new();
        for file in files {
            let text = std::fs::read_to_string(&file)?;
            let objects: Vec<Value> = serde_saphyr::from_multiple(&text)
                .with_context(|| format!("failed to read {}", file.display()))?;
            let definitions = objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition");
            names.extend(
                definitions.filter_map(|object| object["metadata"]["name"].as_str()).map(str::to_owned),
            );
            self.apply_all(&objects).await?;
        }
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        for name in names {
            let what = format!("{name} is established");
            let established = conditions::is_crd_established();
            wait::object(&what, Duration::from_secs(30), api.clone(), &name, established).await?;
        }
        Ok(())
    }

    /// Sets the number of replicas of a Deployment in namespace `default`.
    pub async fn scale_deployment(&self, name: &str, replicas: u32) -> Result<()> {
        self.patch("Deployment", "apps/v1", name, json!({"spec": {"replicas": replicas}})).await?;
        Ok(())
    }

    /// Pods by label selector (empty for all), deleted ones included as long as they are there.
    pub async fn pods(&self, namespace: &str, selector: &str) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.client(), namespace);
        Ok(api.list(&ListParams::default().labels(selector)).await?.items)
    }

    /// Number of pods in this phase that are not being deleted.
    pub async fn pods_in_phase(&self, namespace: &str, selector: &str, phase: &str) -> Result<usize> {
        let pods = self.pods(namespace, selector).await?;
        let lives = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let phases = lives.filter_map(|pod| pod.status.as_ref()?.phase.as_deref());
        Ok(phases.filter(|known| *known == phase).count())
    }

    /// For [`wait::until`]: an error with all phases, unless exactly `count` pods run.
    pub async fn running_pods_are(&self, namespace: &str, selector: &str, count: usize) -> Result<()> {
        let running = self.pods_in_phase(namespace, selector, "Running").await?;
        let pending = self.pods_in_phase(namespace, selector, "Pending").await?;
        ensure!(
            running == count,
            "{running} pods of {selector} run, {pending} are pending, {count} wanted running"
        );
        Ok(())
    }

    /// All nodes, by name.
    pub async fn nodes(&self) -> Result<Vec<Node>> {
        self.nodes_where("").await
    }

    /// The nodes of a pool, by name.
    pub async fn nodes_of_pool(&self, pool: &str) -> Result<Vec<Node>> {
        self.nodes_where(&format!("{POOL_LABEL}={pool}")).await
    }

    /// For [`wait::until`]: an error with their names, unless the pool has exactly `count` ready nodes and
    /// no other.
    pub async fn ready_nodes_are(&self, pool: &str, count: usize) -> Result<()> {
        let nodes = self.nodes_of_pool(pool).await?;
        let describe = |node: &Node| {
            let readiness = if is_ready(node) { "ready" } else { "not ready" };
            format!("{} is {readiness}", node.metadata.name.as_deref().unwrap_or_default())
        };
        let all_ready = nodes.iter().all(is_ready);
        let described: Vec<String> = nodes.iter().map(describe).collect();
        ensure!(all_ready && nodes.len() == count, "pool {pool} has {described:?}, {count} wanted");
        Ok(())
    }

    /// Waits two minutes until so many pods of Deployment `web` run on so many nodes of pool `general`, none of which is
    /// marked, and nothing is under way.
    pub async fn settles(&self, pods: usize, nodes: usize) -> Result<()> {
        let what = format!("{pods} pods run on {nodes} nodes and nothing is under way");
        wait::until(&what, Duration::from_secs(120), async || {
            self.running_pods_are("default", "app=web", pods).await?;
            self.ready_nodes_are("general", nodes).await?;
            self.no_node_is_marked().await?;
            let intents = self.pool_status("general").await?["intents"].clone();
            ensure!(intents.is_null(), "still under way: {intents}");
            Ok(())
        })
        .await
    }

    /// Errors, with their names, unless the operator has asked for so many different nodes since the start, refused requests
    /// included. Needs the audit log.
    pub fn nodes_asked_for_are(&self, count: usize) -> Result<()> {
        let asked_for = self.writes()?.by(User::Headroom).to("nodes").with_verb("create");
        ensure!(asked_for.names().len() == count, "nodes that were asked for:\n{}", asked_for.describe());
        Ok(())
    }

    /// Errors, with their names, unless the operator has deleted so many different nodes since the start. Needs the audit
    /// log.
    pub fn nodes_deleted_are(&self, count: usize) -> Result<()> {
        let deleted = self.writes()?.by(User::Headroom).to("nodes").with_verb("delete").accepted();
        ensure!(deleted.names().len() == count, "nodes that were deleted:\n{}", deleted.describe());
        Ok(())
    }

    /// Waits two minutes until so many pods with this label `app` run.
    pub async fn pods_come_to_run(&self, namespace: &str, app: &str, pods: usize) -> Result<()> {
        wait::until(&format!("{pods} pods of {app} run"), Duration::from_secs(120), async || {
            self.running_pods_are(namespace, &format!("app={app}"), pods).await
        })
        .await
    }

    /// Waits a minute until pool `general` has written down one action, and returns while it is under way.
    pub async fn one_action_begins(&self) -> Result<()> {
        let (api, name) = self.api_for(&identity("headroom.dev/v1alpha1", "NodePool", "general")).await?;
        let begun = |pool: Option<&DynamicObject>| {
            let intents = pool.and_then(|pool| pool.data["status"]["intents"].as_array());
            intents.is_some_and(|intents| intents.len() == 1)
        };
        wait::object("one action is written down", Duration::from_secs(60), api, &name, begun).await?;
        Ok(())
    }

    /// Waits for at most `deadline` until an object (namespace `default` where the kind has one) does not exist.
    pub async fn is_gone(&self, kind: &str, api_version: &str, name: &str, deadline: Duration) -> Result<()> {
        let (api, _) = self.api_for(&identity(api_version, kind, name)).await?;
        let gone = |object: Option<&DynamicObject>| object.is_none();
        wait::object(&format!("{kind} {name} is gone"), deadline, api, name, gone).await?;
        Ok(())
    }

    /// A NodePool's status; null when it has none yet.
    pub async fn pool_status(&self, pool: &str) -> Result<Value> {
        let (api, _) = self.api_for(&identity("headroom.dev/v1alpha1", "NodePool", pool)).await?;
        Ok(api.get(pool).await?.data["status"].clone())
    }

    /// `status` of the ClusterScalingPolicy.
    pub async fn policy_status(&self) -> Result<Value> {
        let policy = identity("headroom.dev/v1alpha1", "ClusterScalingPolicy", "default");
        let (api, _) = self.api_for(&policy).await?;
        Ok(api.get("default").await?.data["status"].clone())
    }

    /// A condition of a NodePool by type; an error with all of them when it has none of this type.
    pub async fn pool_condition(&self, pool: &str, condition: &str) -> Result<Value> {
        let conditions = self.pool_status(pool).await?["conditions"].clone();
        let all = conditions.as_array().map(Vec::as_slice).unwrap_or_default();
        let found = all.iter().find(|known| known["type"] == condition);
        found.cloned().with_context(|| format!("pool {pool} has no {condition} among {conditions}"))
    }

    /// For [`wait::until`]: errors unless the condition has this status (`True`, `False`) and reason.
    pub async fn pool_condition_is(
        &self,
        pool: &str,
        condition: &str,
        status: &str,
        reason: &str,
    ) -> Result<()> {
        let found = self.pool_condition(pool, condition).await?;
        ensure!(found["status"] == status && found["reason"] == reason, "{condition} of {pool} is {found}");
        Ok(())
    }

    /// Waits a minute until the condition has this status (`True`, `False`), whatever its reason.
    pub async fn pool_condition_wait(&self, pool: &str, condition: &str, status: &str) -> Result<()> {
        let what = format!("{condition} of {pool} is {status}");
        wait::until(&what, Duration::from_secs(60), async || {
            let found = self.pool_condition(pool, condition).await?;
            ensure!(found["status"] == status, "{condition} of {pool} is {found}");
            Ok(())
        })
        .await
    }

    /// Returns the output of kubectl. Errors with its message when it fails.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.output_of(&self.kubectl_path(), args)
    }

    /// The output of `headroom`, once an operator has been started here. Errors with its complaint when it fails.
    pub fn headroom(&self, args: &[&str]) -> Result<String> {
        self.output_of(&self.folder().join("headroom"), args)
    }

    fn output_of(&self, program: &Path, args: &[&str]) -> Result<String> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let mut command = Command::new(program);
        command.args(args).env("KUBECONFIG", self.kubeconfig()).env("HOME", self.folder());
        let output = command.output().with_context(|| format!("failed to run {name}"))?;
        if !output.status.success() {
            bail!("{name} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    async fn nodes_where(&self, selector: &str) -> Result<Vec<Node>> {
        let api: Api<Node> = Api::all(self.client());
        let mut nodes = api.list(&ListParams::default().labels(selector)).await?.items;
        nodes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Ok(nodes)
    }

    /// The API of an object's kind, in its namespace, and the object's name.
    async fn api_for(&self, object: &Value) -> Result<(Api<DynamicObject>, String)> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let kind = text(&object["kind"]).context("object without kind")?;
        let api_version = text(&object["apiVersion"]).context("object without apiVersion")?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let gvk = GroupVersionKind::gvk(group, version, &kind);
        let (resource, capabilities) = kube::discovery::pinned_kind(&self.client(), &gvk)
            .await
            .with_context(|| format!("the API server does not know {api_version} {kind}"))?;
        let namespace = text(&object["metadata"]["namespace"]).unwrap_or_else(|| "default".to_owned());
        let api = match capabilities.scope {
            Scope::Cluster => Api::all_with(self.client(), &resource),
            Scope::Namespaced => Api::namespaced_with(self.client(), &namespace, &resource),
        };
        Ok((api, text(&object["metadata"]["name"]).context("object without name")?))
    }
}

/// True if the node's Ready condition is True.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

/// The API server's own words instead of the whole answer, which repeats them three times.
fn plain(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!("{} ({})", status.message, status.code),
        other => other.into(),
    }
}

fn identity(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}
