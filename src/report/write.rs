//! The only writer of status. Every write names the version it builds on; a conflict is an answer, not a retry.

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, Error as KubeError};
use serde_json::json;

use crate::api::{NodePool, NodePoolSpec, NodePoolStatus};

/// Why a status could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Somebody else has written in between.
    #[error("the object has changed in between")]
    Conflict,
    /// It is gone.
    #[error("the object is gone")]
    Gone,
    /// Anything else; the write may have taken effect.
    #[error("{0}")]
    Failed(String),
}

/// Where status goes.
pub trait StatusSink: Send + Sync {
    /// Writes a pool's status if its version is still `version`; returns the new version.
    fn write_pool<'a>(
        &'a self,
        name: &'a str,
        version: &'a str,
        status: &'a NodePoolStatus,
    ) -> BoxFuture<'a, Result<String, WriteError>>;
}

/// Status through the API server.
pub struct KubeSink {
    client: Client,
}
impl KubeSink {
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}
impl StatusSink for KubeSink {
    fn write_pool<'a>(
        &'a self,
        name: &'a str,
        version: &'a str,
        status: &'a NodePoolStatus,
    ) -> BoxFuture<'a, Result<String, WriteError>> {
        Box::pin(async move {
            let api: Api<NodePool> = Api::all(self.client.clone());
            let mut body = NodePool::new(
                name,
                serde_json::from_value(
                    json!({"maxNodes":1,"provider":{"type":"KWOK","kwok":{"zones":["a"]}}}),
                )
                .map_err(|e| WriteError::Failed(e.to_string()))?,
            );
            body.metadata.resource_version = Some(version.to_owned());
            body.status = Some(status.clone());
            match api.replace_status(name, &kube::api::PostParams::default(), &body).await {
                Ok(o) => Ok(o.metadata.resource_version.unwrap_or_default()),
                Err(KubeError::Api(s)) if s.is_conflict() => Err(WriteError::Conflict),
                Err(KubeError::Api(s)) if s.is_not_found() => Err(WriteError::Gone),
                Err(e) => Err(WriteError::Failed(e.to_string())),
            }
        })
    }
}
