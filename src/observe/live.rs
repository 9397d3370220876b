//! Live reads of NodePools: what a watch has delivered may be behind, and a new leader must not begin from behind.

use futures::future::BoxFuture;
use kube::api::{Api, ListParams};
use kube::{Client, Error as KubeError};

use crate::api::{NodePoolSpec, PolicyObject, StoredNodePool};

/// A pool as read.
type Pool = PolicyObject<NodePoolSpec>;

/// Reads NodePools from the server's newest state, not from a cache.
pub trait LivePools: Send + Sync {
    /// All of them.
    ///
    /// # Errors
    /// When the server did not answer; the text says how.
    fn read_all(&self) -> BoxFuture<'_, Result<Vec<Pool>, String>>;

    /// One of them; `None` when it is gone.
    ///
    /// # Errors
    /// When the server did not answer; the text says how.
    fn read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Pool>, String>>;
}

/// Reads through the API.
#[derive(Clone)]
pub struct KubeLivePools {
    api: Api<StoredNodePool>,
}

impl KubeLivePools {
    /// Reads with `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { api: Api::all(client) }
    }
}

impl LivePools for KubeLivePools {
    fn read_all(&self) -> BoxFuture<'_, Result<Vec<Pool>, String>> {
        Box::pin(async move {
            // Without a resourceVersion the server answers from etcd.
            let list = self.api.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            Ok(list.items.into_iter().map(decoded).collect())
        })
    }

    fn read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Pool>, String>> {
        Box::pin(async move {
            match self.api.get(name).await {
                Ok(raw) => Ok(Some(decoded(raw))),
                Err(KubeError::Api(status)) if status.is_not_found() => Ok(None),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

fn decoded(raw: StoredNodePool) -> Pool {
    PolicyObject::read(raw.metadata, raw.spec, raw.status)
}
