//! Operations of the operator on nodes and pods: marks, live reads and evictions, each one guarded call or two.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use headroom_core::labels::ObjectKey;
use headroom_core::plan::Eviction;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::{
    CANDIDATE_TAINT, CORDONED_ANNOTATION, DELETION_TAINT, INTENT_ANNOTATION, REMOVE_ANNOTATION,
};
use headroom_core::world::pod::{DO_NOT_DISRUPT_ANNOTATION, Pod, PodClass, PodPhase, protected_until};
use k8s_openapi::api::core::v1::{self, Node, Taint};
use kube::api::{Api, ListParams, ObjectList, Patch, PatchParams, PostParams, Request};
use kube::{Client, Error as KubeError, Resource};
use serde::Deserialize;
use serde_json::{Value, json};

use super::carriers::Carriers;
use headroom_provider::NodeMetadata;

/// The effect of the soft taint.
const SOFT: &str = "PreferNoSchedule";
/// Nodes of one page of a live list.
const NODES_PER_PAGE: u32 = 500;

/// A node as far as a look at all of them needs it: decoding the rest would take most of the time.
#[derive(Clone, Debug, Deserialize)]
struct Carrier {
    metadata: CarrierName,
    #[serde(default)]
    spec: CarrierId,
}

#[derive(Clone, Debug, Deserialize)]
struct CarrierName {
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct CarrierId {
    #[serde(default, rename = "providerID")]
    provider_id: String,
}

/// The calls on nodes and pods that steps are made of.
pub trait NodeActions: Send + Sync {
    /// Puts our taint, annotation and cordon on a node; Ok when they are there already.
    fn mark<'a>(&'a self, node: &'a str, intent: &'a str) -> BoxFuture<'a, Result<(), ActionError>>;
    /// Takes them off again; Ok when they are not there, or the node is gone.
    fn unmark<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<(), ActionError>>;
    /// Puts the soft taint of nodes that go next on a node, or takes it off; Ok when it is so already, or the node is gone.
    fn set_candidate<'a>(&'a self, node: &'a str, candidate: bool) -> BoxFuture<'a, Result<(), ActionError>>;
    /// A live look at a node; `None` when it is gone.
    fn look<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Option<LiveNode>, ActionError>>;
    /// Returns the nodes that carry each provider id, by one live read of all nodes.
    fn carriers(&self) -> BoxFuture<'_, Result<Carriers, ActionError>>;
    /// Asks for one pod's eviction through the eviction API.
    fn evict<'a>(&'a self, eviction: &'a Eviction) -> BoxFuture<'a, Result<EvictionAnswer, ActionError>>;
}

/// A node as the API server has it at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// The intent that our mark names, if the node carries it.
    pub intent: Option<String>,
    /// Its provider id; empty if it has none.
    pub provider_id: String,
    /// True if its condition Ready is True.
    pub ready: bool,
    /// True if the annotation `karpenter.sh/do-not-disrupt` keeps it: it does not where a person asks for its removal.
    pub protected: bool,
    /// Its labels and annotations.
    pub metadata: NodeMetadata,
    /// The pods bound to it, with what [`headroom_core::nodes::removal::holds_node`] asks of them and no more.
    pub pods: Vec<Pod>,
}

/// Answer of the API server to an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionAnswer {
    /// The pod is terminating.
    Accepted,
    /// The pod was gone, or another pod has its name.
    AlreadyGone,
    /// Not now.
    Refused {
        /// True if a PodDisruptionBudget refused it.
        by_budget: bool,
        /// The API server's words.
        message: String,
    },
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// The object is gone.
    #[error("{0} is gone")]
    Gone(String),
    /// Somebody else changed the object in between; the next tick looks again.
    #[error("{0} was changed by somebody else")]
    Conflict(String),
    /// The API server refused it.
    #[error("{0}")]
    Refused(String),
    /// It is unknown what the call did.
    #[error("{0}")]
    Unknown(String),
}

/// The real calls.
#[derive(Clone)]
pub struct KubeActions {
    client: Client,
}

impl KubeActions {
    /// Actions through `client`, which must not retry by itself and must carry the guard's layer.
    #[must_use]
    pub fn new(client: Client) -> Arc<Self> {
        Arc::new(Self { client })
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Writes taints, annotations and cordon with the resourceVersion that was read.
    async fn write(&self, node: &Node, change: &Mark<'_>) -> Result<(), ActionError> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let spec = node.spec.clone().unwrap_or_default();
        let ours = |taint: &Taint| taint.key == DELETION_TAINT;
        let mut taints: Vec<Taint> = spec.taints.unwrap_or_default();
        let cordoned = spec.unschedulable.unwrap_or(false);
        let (annotations, unschedulable) = match change {
            Mark::On { intent } => {
                if !taints.iter().any(ours) {
                    let effect = "NoSchedule".to_owned();
                    taints.push(Taint { key: DELETION_TAINT.to_owned(), effect, ..Taint::default() });
                }
                let by_us = if cordoned { own_cordon(node) } else { true };
                (json!({INTENT_ANNOTATION: intent, CORDONED_ANNOTATION: by_us.then_some("true")}), true)
            }
            Mark::Off => {
                taints.retain(|taint| !ours(taint));
                (json!({INTENT_ANNOTATION: null, CORDONED_ANNOTATION: null}), cordoned && !own_cordon(node))
            }
        };
        let patch = json!({
            "metadata": {"resourceVersion": node.metadata.resource_version, "annotations": annotations},
            "spec": {"taints": taints, "unschedulable": unschedulable.then_some(true)},
        });
        match self.nodes().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(action_error(name, &error)),
        }
    }

    /// Writes the taints with the resourceVersion that was read, and nothing else.
    async fn write_taints(&self, node: &Node, taints: &[Taint]) -> Result<(), ActionError> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let patch = json!({
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": taints},
        });
        let written = self.nodes().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        written.map(drop).map_err(|error| action_error(name, &error))
    }

    async fn get(&self, name: &str) -> Result<Option<Node>, ActionError> {
        self.nodes().get_opt(name).await.map_err(|error| action_error(name, &error))
    }
}

/// A change of our mark.
enum Mark<'a> {
    On { intent: &'a str },
    Off,
}

impl NodeActions for KubeActions {
    fn mark<'a>(&'a self, name: &'a str, intent: &'a str) -> BoxFuture<'a, Result<(), ActionError>> {
        Box::pin(async move {
            let Some(node) = self.get(name).await? else { return Err(ActionError::Gone(name.to_owned())) };
            match marked_by(&node) {
                Some(marked) if marked == intent => Ok(()),
                _ => self.write(&node, &Mark::On { intent }).await,
            }
        })
    }

    fn unmark<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ActionError>> {
        Box::pin(async move {
            let Some(node) = self.get(name).await? else { return Ok(()) };
            if annotation(&node, INTENT_ANNOTATION).is_none() {
                return Ok(());
            }
            match self.write(&node, &Mark::Off).await {
                Err(ActionError::Gone(_)) => Ok(()),
                other => other,
            }
        })
    }

    fn set_candidate<'a>(&'a self, name: &'a str, candidate: bool) -> BoxFuture<'a, Result<(), ActionError>> {
        Box::pin(async move {
            let Some(node) = self.get(name).await? else { return Ok(()) };
            let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
            if taints.iter().any(is_soft) == candidate {
                return Ok(());
            }
            if candidate {
                let (key, effect) = (CANDIDATE_TAINT.to_owned(), SOFT.to_owned());
                taints.push(Taint { key, effect, ..Taint::default() });
            } else {
                taints.retain(|taint| !is_soft(taint));
            }
            match self.write_taints(&node, &taints).await {
                Err(ActionError::Gone(_)) => Ok(()),
                other => other,
            }
        })
    }

    fn look<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<LiveNode>, ActionError>> {
        Box::pin(async move {
            let Some(node) = self.get(name).await? else { return Ok(None) };
            // No resourceVersion: the API server answers from its newest state, not from a cache.
            let params = ListParams::default().fields(&format!("spec.nodeName={name}"));
            let pods = Api::<v1::Pod>::all(self.client.clone());
            let list = pods.list(&params).await.map_err(|error| action_error(name, &error))?;
            Ok(Some(LiveNode {
                intent: marked_by(&node).map(str::to_owned),
                provider_id: provider_id(&node).to_owned(),
                ready: is_ready(&node),
                protected: annotation(&node, DO_NOT_DISRUPT_ANNOTATION) == Some("true")
                    && annotation(&node, REMOVE_ANNOTATION) != Some("requested"),
                metadata: metadata(&node),
                pods: list.items.iter().map(live_pod).collect(),
            }))
        })
    }

    fn carriers(&self) -> BoxFuture<'_, Result<Carriers, ActionError>> {
        Box::pin(async move {
            let nodes = Request::new(Node::url_path(&(), None));
            let mut params = ListParams::default().limit(NODES_PER_PAGE);
            let mut carriers = Carriers::default();
            let failed = |error: &KubeError| action_error("nodes", error);
            loop {
                let request = nodes.list(&params).map_err(|error| failed(&KubeError::BuildRequest(error)))?;
                let page: ObjectList<Carrier> =
                    self.client.request(request).await.map_err(|error| failed(&error))?;
                for Carrier { metadata, spec } in &page.items {
                    carriers.add(&metadata.name, &spec.provider_id);
                }
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => params = params.continue_token(&token),
                    None => return Ok(carriers),
                }
            }
        })
    }

    fn evict<'a>(&'a self, eviction: &'a Eviction) -> BoxFuture<'a, Result<EvictionAnswer, ActionError>> {
        Box::pin(async move {
            let pods = Api::<v1::Pod>::namespaced(self.client.clone(), &eviction.pod.namespace);
            let body = eviction_body(eviction);
            let name = &*eviction.pod.name;
            let answer: Result<Value, KubeError> =
                pods.create_subresource("eviction", name, &PostParams::default(), &body).await;
            match answer {
                Ok(_) => Ok(EvictionAnswer::Accepted),
                Err(KubeError::Api(status)) if status.is_not_found() || status.is_conflict() => {
                    // Gone, or another pod of the same name: either way the one we meant is not there any more.
                    Ok(EvictionAnswer::AlreadyGone)
                }
                Err(KubeError::Api(status)) => Ok(EvictionAnswer::Refused {
                    by_budget: status.code == 429,
                    message: status.message.clone(),
                }),
                Err(error) => Err(action_error(&eviction.pod.name, &error)),
            }
        })
    }
}

/// The eviction as the API server reads it.
///
/// Not by kube's own call: that of kube 5.0 sends `delete_options`, a field that the API server does not know and drops,
/// and with it the uid and the grace.
fn eviction_body(eviction: &Eviction) -> Value {
    let grace = u32::try_from(eviction.grace.0).ok();
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": &*eviction.pod.name, "namespace": &*eviction.pod.namespace},
        "deleteOptions": {"gracePeriodSeconds": grace, "preconditions": {"uid": &*eviction.uid}},
    })
}

fn provider_id(node: &Node) -> &str {
    node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default()
}

fn metadata(node: &Node) -> NodeMetadata {
    let pairs = |written: &Option<BTreeMap<String, String>>| {
        written.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    };
    NodeMetadata { labels: pairs(&node.metadata.labels), annotations: pairs(&node.metadata.annotations) }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn annotation<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The intent of our mark, if taint and annotation are both there.
fn marked_by(node: &Node) -> Option<&str> {
    let taints = node.spec.as_ref()?.taints.as_ref()?;
    taints.iter().any(|taint| taint.key == DELETION_TAINT).then(|| annotation(node, INTENT_ANNOTATION))?
}

/// True if the taint is the soft one of nodes that go next. One of that key with another effect is somebody else's.
#[must_use]
pub fn is_soft(taint: &Taint) -> bool {
    taint.key == CANDIDATE_TAINT && taint.effect == SOFT
}

/// True if the cordon is ours to take off.
fn own_cordon(node: &Node) -> bool {
    annotation(node, CORDONED_ANNOTATION) == Some("true")
}

/// A pod as the API server has it at this moment: what decides whether it holds its node.
fn live_pod(pod: &v1::Pod) -> Pod {
    let metadata = &pod.metadata;
    let spec = pod.spec.as_ref();
    let annotation =
        |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let daemon_set = owners.iter().any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet")
        || annotation("cluster-autoscaler.kubernetes.io/daemonset-pod") == Some("true");
    let class = PodClass {
        mirror: annotation("kubernetes.io/config.mirror").is_some(),
        daemon_set,
        priority: spec.and_then(|spec| spec.priority).unwrap_or(0),
        termination_grace: Seconds(spec.and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30)),
        ..PodClass::default()
    };
    Pod {
        key: ObjectKey::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        ),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        class: Arc::new(class),
        phase: match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Running") => PodPhase::Running,
            Some("Succeeded") => PodPhase::Succeeded,
            Some("Failed") => PodPhase::Failed,
            _ => PodPhase::Pending,
        },
        deletion_at: metadata.deletion_timestamp.as_ref().map(|at| UnixTime::from_jiff(at.0)),
        protected_until: protected_until(
            annotation(DO_NOT_DISRUPT_ANNOTATION),
            pod.status
                .as_ref()
                .and_then(|status| status.start_time.as_ref())
                .map(|at| UnixTime::from_jiff(at.0)),
        ),
        ..Pod::default()
    }
}

/// Converts an API error to the result of a step. Only an answer is a "no"; without an answer the result is unknown.
fn action_error(name: &str, error: &KubeError) -> ActionError {
    match error {
        KubeError::Api(status) if status.is_not_found() => ActionError::Gone(name.to_owned()),
        KubeError::Api(status) if status.is_conflict() => ActionError::Conflict(name.to_owned()),
        KubeError::Api(status) if status.code < 500 && status.code != 429 => {
            ActionError::Refused(status.message.clone())
        }
        other => ActionError::Unknown(other.to_string()),
    }
}
