//! Node objects through the Kubernetes API, for the provider that makes nodes itself.

use std::sync::Arc;

use futures::future::BoxFuture;
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::TaintEffect;
use headroom_core::world::provider::FailureClass;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, Error as KubeError};
use serde_json::{Value, json};

use super::Error;
use super::kwok::{NewNode, NodeApi};

/// Creates and deletes Node objects with a guarded client.
#[derive(Clone, Debug)]
pub struct KubeNodes {
    api: Api<Node>,
}

impl KubeNodes {
    /// Nodes through `client`, which must not retry by itself and must carry the guard's layer.
    #[must_use]
    pub fn new(client: Client) -> Arc<Self> {
        Arc::new(Self { api: Api::all(client) })
    }
}

impl NodeApi for KubeNodes {
    fn create<'a>(&'a self, node: &'a NewNode) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let body = serde_json::from_value(manifest(node))
                .map_err(|error| Error::refused(FailureClass::InvalidConfiguration, error.to_string()))?;
            match self.api.create(&PostParams::default(), &body).await {
                Ok(_) => Ok(()),
                Err(KubeError::Api(status)) if status.is_already_exists() => Ok(()),
                Err(error) => Err(failure(&error)),
            }
        })
    }

    fn delete<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            match self.api.delete(name, &DeleteParams::default()).await {
                Ok(_) => Ok(()),
                Err(KubeError::Api(status)) if status.is_not_found() => Ok(()),
                Err(error) => Err(failure(&error)),
            }
        })
    }
}

/// The Node object as JSON.
///
/// The built-in types cannot be used to write it: a node's status is part of its creation here, as a kubelet does.
fn manifest(node: &NewNode) -> Value {
    let pairs = |labels: &headroom_core::labels::Labels| -> Value {
        labels
            .iter()
            .map(|(key, value)| (key.to_owned(), Value::from(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let taints: Vec<Value> = node
        .taints
        .iter()
        .map(|taint| json!({"key": &*taint.key, "value": &*taint.value, "effect": effect(taint.effect)}))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": &*node.name,
            "labels": pairs(&node.labels),
            "annotations": pairs(&node.annotations),
        },
        "spec": {"providerID": node.provider_id, "taints": taints},
        "status": {"capacity": amounts(&node.capacity), "allocatable": amounts(&node.allocatable)},
    })
}

fn amounts(resources: &Resources) -> Value {
    let mut amounts = serde_json::Map::new();
    amounts.insert("cpu".to_owned(), format!("{}m", resources.cpu_milli).into());
    amounts.insert("memory".to_owned(), resources.memory_bytes.to_string().into());
    amounts.insert("pods".to_owned(), resources.pods.to_string().into());
    if resources.ephemeral_bytes > 0 {
        amounts.insert("ephemeral-storage".to_owned(), resources.ephemeral_bytes.to_string().into());
    }
    for (name, amount) in resources.extended_iter() {
        amounts.insert(name.to_string(), amount.to_string().into());
    }
    amounts.into()
}

fn effect(effect: TaintEffect) -> &'static str {
    match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    }
}

/// Meaning of an API error for a launch. Only an answer is a "no"; silence is unknown.
fn failure(error: &KubeError) -> Error {
    match error {
        KubeError::Api(status) if status.is_forbidden() => {
            Error::refused(FailureClass::PermissionDenied, status.message.clone())
        }
        KubeError::Api(status) if status.is_invalid() || status.code == 400 => {
            Error::refused(FailureClass::InvalidConfiguration, status.message.clone())
        }
        other => Error::unknown(other.to_string()),
    }
}
