//! `headroom run`: wires the rooms together over a real cluster and keeps them running until told to stop.

use anyhow::Context;
use kube::client::ClientBuilder;
use kube::{Client, Config};

use crate::actuate::guard::Guard;
use crate::actuate::layer::{ClientKind, GuardLayer};

/// The cluster that KUBECONFIG, `~/.kube/config` or the pod's service account names.
///
/// # Errors
/// When none of them can be read.
pub async fn cluster_config() -> anyhow::Result<Config> {
    let mut config = Config::infer()
        .await
        .context("failed to find a cluster: set KUBECONFIG, or run in a pod with a service account")?;
    // A retried write could land after the lease is lost, and a refused eviction must be seen at once.
    config.default_retry = false;
    Ok(config)
}

/// A client behind the guard.
///
/// # Errors
/// When the TLS settings of `config` make no sense.
pub fn client(config: &Config, guard: &Guard, kind: ClientKind) -> anyhow::Result<Client> {
    let layer = GuardLayer::new(guard.clone(), kind);
    let builder = ClientBuilder::try_from(config.clone()).context("failed to set up the cluster's client")?;
    Ok(builder.with_layer(&layer).build())
}
