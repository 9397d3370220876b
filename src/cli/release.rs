//! `headroom release`: takes every mark of the operator off the nodes, so that nothing of it stays behind.

use std::time::Duration;

use anyhow::Context;
use headroom_core::world::node::INTENT_ANNOTATION;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use tracing::info;

use crate::actuate::guard::{Claim, CrashPoint, Guard};
use crate::actuate::layer::ClientKind;
use crate::actuate::nodes::{ActionError, KubeActions, NodeActions};
use crate::cli::run;
use crate::host::Host;

/// Attempts per node: another writer may come in between a few times, not for ever.
const ATTEMPTS: u32 = 5;

/// Unmarks every node that carries our annotation and says how many there were.
///
/// # Errors
/// When the cluster cannot be reached, or a node stays marked after several attempts; the others are done all the same.
pub async fn release() -> anyhow::Result<()> {
    let host = Host::machine();
    let guard = Guard::new(host.clone(), CrashPoint::none(), None);
    // A person's word stands in for the lease: the operator is stopped, and unmarking is safe at any time.
    let expires_at = host.monotonic() + Duration::from_secs(3600);
    guard.set_claim(Some(Claim { epoch: 0, expires_at }));
    let client = run::client(&run::cluster_config().await?, &guard, ClientKind::Work)?;
    let nodes = Api::<Node>::all(client.clone());
    let list = nodes.list(&ListParams::default()).await.context("failed to list nodes")?;
    let actions = KubeActions::new(client);
    let marked: Vec<String> = list
        .items
        .into_iter()
        .filter(|node| {
            node.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(INTENT_ANNOTATION))
        })
        .filter_map(|node| node.metadata.name)
        .collect();
    let mut stuck = Vec::new();
    for name in &marked {
        match unmark(actions.as_ref(), name).await {
            Ok(()) => info!(node = %name, "mark taken off"),
            Err(error) => stuck.push(format!("{name}: {error}")),
        }
    }
    println!("{} of {} marked nodes released", marked.len() - stuck.len(), marked.len());
    anyhow::ensure!(stuck.is_empty(), "nodes that are still marked: {}", stuck.join("; "));
    Ok(())
}

async fn unmark(actions: &dyn NodeActions, name: &str) -> Result<(), ActionError> {
    let mut result = actions.unmark(name).await;
    for _ in 1..ATTEMPTS {
        match result {
            Err(ActionError::Conflict(_) | ActionError::Unknown(_)) => result = actions.unmark(name).await,
            Ok(()) | Err(ActionError::Gone(_) | ActionError::Refused(_)) => break,
        }
    }
    result
}
