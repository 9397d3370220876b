//! `headroom release`: takes every mark of the operator off the nodes, so that nothing of it stays behind.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use headroom_core::world::node::INTENT_ANNOTATION;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use tracing::info;

use crate::{run, terminal};
use headroom_observe::host::Host;
use headroom_operator::actuate::guard::{Claim, CrashPoint, Guard};
use headroom_operator::actuate::layer::ClientKind;
use headroom_operator::actuate::nodes::{ActionError, KubeActions, NodeActions, is_soft};
use headroom_operator::controllers::leader;

/// Time for which no replica leads after `--take-lease`: enough to delete them, short enough for a user who changed
/// their mind.
const HOLD: Duration = Duration::from_secs(120);

/// Options of `headroom release`.
#[derive(Args, Clone, Debug)]
pub struct ReleaseOptions {
    /// Take the lease first, so that running replicas stop marking nodes for the next two minutes
    #[arg(long)]
    pub take_lease: bool,

    /// Namespace of that Lease
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE", env = "POD_NAMESPACE")]
    pub leader_election_namespace: String,

    /// Name of that Lease
    #[arg(long, default_value = "headroom", value_name = "NAME")]
    pub lease_name: String,
}

/// Attempts per node: another writer may come in between a few times, not for ever.
const ATTEMPTS: u32 = 5;

/// Unmarks every node that carries our annotation or our soft taint, and prints how many there were.
///
/// # Errors
/// If the cluster cannot be reached, or a node stays marked after several attempts; the others are done all the same.
pub async fn release(options: ReleaseOptions) -> anyhow::Result<()> {
    let host = Host::machine();
    let guard = Guard::new(host.clone(), CrashPoint::none(), None);
    // A person's word stands in for the lease: the operator is stopped, and unmarking is safe at any time.
    let expires_at = host.monotonic() + Duration::from_secs(3600);
    guard.set_claim(Some(Claim { epoch: 0, expires_at }));
    let config = run::cluster_config().await?;
    if options.take_lease {
        let api = Api::namespaced(
            run::client(&config, &guard, ClientKind::Lease)?,
            &options.leader_election_namespace,
        );
        let wait = leader::usurp(&api, &options.lease_name, "headroom-release", HOLD, host.wall())
            .await
            .with_context(|| format!("failed to take the lease {}", options.lease_name))?;
        info!(seconds = wait.as_secs(), "lease taken; waiting until the last leader can not act any more");
        host.sleep(wait).await;
    }
    let client = run::client(&config, &guard, ClientKind::Work)?;
    let nodes = Api::<Node>::all(client.clone());
    let list = nodes.list(&ListParams::default()).await.context("failed to list nodes")?;
    let actions = KubeActions::new(client);
    let marked: Vec<String> = list
        .items
        .into_iter()
        .filter(|node| {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
            node.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(INTENT_ANNOTATION))
                || taints.is_some_and(|all| all.iter().any(is_soft))
        })
        .filter_map(|node| node.metadata.name)
        .collect();
    let mut stuck = Vec::new();
    for name in &marked {
        match unmark(actions.as_ref(), name).await {
            Ok(()) => info!(node = %name, "marks taken off"),
            Err(error) => stuck.push(format!("{name}: {error}")),
        }
    }
    terminal::print(&format!("{} of {} marked nodes released\n", marked.len() - stuck.len(), marked.len()))?;
    anyhow::ensure!(stuck.is_empty(), "nodes that are still marked: {}", stuck.join("; "));
    Ok(())
}

async fn unmark(actions: &dyn NodeActions, name: &str) -> Result<(), ActionError> {
    let both = async || {
        actions.unmark(name).await?;
        actions.set_candidate(name, false).await
    };
    let mut result = both().await;
    for _ in 1..ATTEMPTS {
        match result {
            Err(ActionError::Conflict(_) | ActionError::Unknown(_)) => result = both().await,
            Ok(()) | Err(ActionError::Gone(_) | ActionError::Refused(_)) => break,
        }
    }
    result
}
