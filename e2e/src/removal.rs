//! Questions of the tests on node removal to the cluster: marks, blockers of a node, decisions; it waits only to set a
//! scene.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::control_plane::ControlPlane;
use crate::fixtures::{Pool, Workload, deployment};
use crate::wait;

/// Taint of a node that is leaving.
pub const DELETION_TAINT: &str = "ToBeDeletedByClusterAutoscaler";
/// The soft taint of nodes that go next.
pub const CANDIDATE_TAINT: &str = "headroom.dev/removal-candidate";
/// The annotation that names the removal a node is marked for.
pub const INTENT_ANNOTATION: &str = "headroom.dev/intent";
/// Annotation that names the owner of a cordon.
pub const CORDONED_ANNOTATION: &str = "headroom.dev/cordoned";

/// Name of a node.
pub fn name(node: &Node) -> String {
    node.metadata.name.clone().unwrap_or_default()
}

/// Every trace of our mark on a node: taint, annotations, cordon. Empty for a node that carries none.
pub fn traces(node: &Node) -> Vec<&'static str> {
    let spec = node.spec.clone().unwrap_or_default();
    let annotated = |key| node.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
    let mut found = Vec::new();
    if spec.taints.unwrap_or_default().iter().any(|taint| taint.key == DELETION_TAINT) {
        found.push("taint");
    }
    if annotated(INTENT_ANNOTATION) {
        found.push("intent");
    }
    if annotated(CORDONED_ANNOTATION) {
        found.push("cordoned");
    }
    if spec.unschedulable == Some(true) {
        found.push("cordon");
    }
    found
}

/// True if the node carries the soft taint of nodes that go next.
pub fn is_candidate(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.is_some_and(|all| {
        all.iter().any(|taint| taint.key == CANDIDATE_TAINT && taint.effect == "PreferNoSchedule")
    })
}

impl ControlPlane {
    /// The names of the nodes that carry the whole mark; for [`wait::until`], errors while there is none.
    pub async fn marked_nodes(&self) -> Result<Vec<String>> {
        let nodes = self.nodes().await?;
        let marked: Vec<String> = nodes.iter().filter(|node| traces(node).len() == 4).map(name).collect();
        ensure!(!marked.is_empty(), "no node is marked");
        Ok(marked)
    }

    /// For [`wait::until`]: an error with what is left where, while any node carries a trace of a mark.
    pub async fn no_node_is_marked(&self) -> Result<()> {
        for node in self.nodes().await? {
            let traces = traces(&node);
            ensure!(traces.is_empty(), "node {} carries {traces:?}", name(&node));
        }
        Ok(())
    }

    /// The row of `status.blocked` with this reason; an error with all of them when there is none.
    pub async fn blocked(&self, pool: &str, reason: &str) -> Result<Value> {
        let status = self.pool_status(pool).await?;
        let rows = status["blocked"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found = rows.iter().find(|row| row["reason"] == reason);
        found.cloned().with_context(|| {
            format!(
                "no {reason} among what blocks {pool}: {}; decisions {}",
                status["blocked"], status["decisions"]
            )
        })
    }

    /// The newest decision of this action (`ScaleUp`, `ScaleDown`); errors when there is none.
    pub async fn newest_decision(&self, pool: &str, action: &str) -> Result<Value> {
        let decisions = self.pool_status(pool).await?["decisions"].clone();
        let all = decisions.as_array().map(Vec::as_slice).unwrap_or_default();
        let found = all.iter().find(|decision| decision["action"] == action);
        found.cloned().with_context(|| format!("no {action} among the decisions {decisions}"))
    }

    /// For [`wait::until`]: errors unless the newest removal ended like this, for this reason.
    pub async fn removal_ended(&self, pool: &str, outcome: &str, reason: &str) -> Result<()> {
        let decision = self.newest_decision(pool, "ScaleDown").await?;
        ensure!(
            decision["outcome"] == outcome && decision["reason"] == reason,
            "the newest removal of {pool} is {decision}, wanted {outcome} for {reason}"
        );
        Ok(())
    }

    /// Changes some fields of a NodePool by a merge patch.
    pub async fn edit_pool(&self, pool: &str, change: Value) -> Result<DynamicObject> {
        self.patch("NodePool", "headroom.dev/v1alpha1", pool, change).await
    }

    /// Returns the pods of the selector on each node that are not being deleted; pods without a node are under "".
    pub async fn pods_by_node(&self, selector: &str) -> Result<BTreeMap<String, Vec<String>>> {
        let mut by_node: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pod in self.pods("default", selector).await? {
            if pod.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
            by_node.entry(node).or_default().push(pod.metadata.name.unwrap_or_default());
        }
        Ok(by_node)
    }

    /// Sets the scene of a drain: the pool with this many nodes as its minimum, and a Deployment `web` whose pods of
    /// 1 CPU and 1 GiB run `per_node` to a node. Needs an operator.
    pub async fn spread_web(&self, pool: Pool, n_nodes: u32, per_node: u32) -> Result<Vec<String>> {
        let web = deployment("web").replicas(n_nodes * per_node);
        self.spread(pool, web, "app=web", [n_nodes, per_node]).await
    }

    /// The pool with this many nodes as its minimum, and on each of them this many pods of a workload, which `selector`
    /// finds. The scheduler spreads them over the empty nodes. Needs an operator.
    pub async fn spread(
        &self,
        pool: Pool,
        workload: Workload,
        selector: &str,
        [n_nodes, per_node]: [u32; 2],
    ) -> Result<Vec<String>> {
        let object = self.apply(pool.set("/spec/minNodes", n_nodes)).await?;
        let pool = object.metadata.name.unwrap_or_default();
        let n_ready = usize::try_from(n_nodes)?;
        wait::until("the minimum of nodes is ready", Duration::from_secs(60), async || {
            self.ready_nodes_are(&pool, n_ready).await?;
            // Ready comes a moment before the taints go that keep pods away.
            for node in self.nodes_of_pool(&pool).await? {
                let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
                ensure!(taints.is_empty(), "a node carries {taints:?}");
            }
            Ok(())
        })
        .await?;
        self.apply(workload).await?;
        let each = usize::try_from(per_node)?;
        wait::until("the pods are spread over the nodes", Duration::from_secs(60), async || {
            self.running_pods_are("default", selector, n_ready * each).await?;
            let by_node = self.pods_by_node(selector).await?;
            ensure!(
                by_node.len() == n_ready && by_node.values().all(|pods| pods.len() == each),
                "pods are placed as {by_node:?}"
            );
            Ok(by_node.into_keys().collect())
        })
        .await
    }
}
