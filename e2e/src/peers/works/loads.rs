//! Works of one change: a burst, a cut, a rolling update.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::Part;
use crate::burst::{MIX, cpus_asked, create_deployments, lower_bound, put_nodes, wait_until_running};
use crate::control_plane::ControlPlane;
use crate::peers::meter::{Meter, Observer};
use crate::peers::{Peer, Stage};
use crate::shrink::{protect, run_exactly};
use crate::wait;

/// Part of each Deployment that is left by the cut, as a divisor.
const CUT: u32 = 5;
/// `maxUnavailable` of each Deployment's PodDisruptionBudget, in percent.
pub(super) const MAX_UNAVAILABLE_PERCENT: u32 = 20;
/// The nodes have settled when their number has not changed for so long: Karpenter decides 30 s after the last change of pods, at
/// its next pass, and makes sure for 15 s more, all of which a busy machine prolongs.
pub(super) const CALM: Duration = Duration::from_secs(100);
const SETTLED_WITHIN: Duration = Duration::from_secs(400);
/// The same before the work begins.
pub(super) const CALM_BEFORE: Duration = Duration::from_secs(60);
pub(super) const SETTLED_BEFORE_WITHIN: Duration = Duration::from_secs(180);
/// Time for which nodes are paid for after a change.
const PAID_FOR: Duration = Duration::from_secs(600);
/// Longest time that the pods may take.
const DEADLINE: Duration = Duration::from_secs(600);

pub(super) async fn burst(stage: &Stage, observer: &Observer, n_pods: u32) -> Result<Part> {
    let cluster = &stage.cluster;
    if stage.peer == Peer::Floor {
        put_nodes(cluster, lower_bound(n_pods)).await?;
    }
    let meter = Meter::begin(stage, observer)?;
    let done = arrive(cluster, n_pods).await?;
    let title = format!(
        "{n_pods} pods at once at an empty cluster, until all run (lower bound {} nodes; {} CPUs asked for)",
        lower_bound(n_pods),
        cpus_asked(n_pods)
    );
    Ok(Part { title, measured: meter.end(done, None)? })
}

pub(super) async fn cut(stage: &Stage, observer: &Observer, n_pods: u32) -> Result<Part> {
    let cluster = &stage.cluster;
    fill(stage, observer, n_pods).await?;
    let meter = Meter::begin(stage, observer)?;
    for share in &MIX {
        cluster.scale_deployment(share.name, n_pods * share.percent / 100 / CUT).await?;
    }
    let left: u32 = MIX.iter().map(|share| n_pods * share.percent / 100 / CUT).sum();
    run_exactly(cluster, usize::try_from(left)?, DEADLINE).await?;
    let done = observer.settled(CALM, SETTLED_WITHIN).await;
    let title = format!(
        "{n_pods} pods cut to a fifth, until the last change of the nodes; price paid in 10 minutes (lower bound {} nodes; {} CPUs asked for)",
        lower_bound(n_pods / CUT),
        cpus_asked(n_pods / CUT)
    );
    Ok(Part { title, measured: meter.end(done, Some(PAID_FOR))? })
}

pub(super) async fn rolling_update(stage: &Stage, observer: &Observer, n_pods: u32) -> Result<Part> {
    let cluster = &stage.cluster;
    fill(stage, observer, n_pods).await?;
    let meter = Meter::begin(stage, observer)?;
    let template = json!({"metadata": {"annotations": {"example.com/version": "2"}}});
    for share in &MIX {
        let change = json!({"spec": {"template": template}});
        cluster.patch("Deployment", "apps/v1", share.name, change).await?;
    }
    wait::until("all Deployments are rolled out", DEADLINE, async || rolled_out(cluster).await).await?;
    let done = Instant::now();
    observer.settled(CALM, SETTLED_WITHIN).await;
    let title = format!(
        "a rolling update of all of {n_pods} pods (25 % more, 25 % fewer), until it is complete; price paid in 10 minutes; nodes \
         in the end: once their number has not changed for {} s",
        CALM.as_secs()
    );
    Ok(Part { title, measured: meter.end(done, Some(PAID_FOR))? })
}

/// A burst that has settled, with a budget for each Deployment.
async fn fill(stage: &Stage, observer: &Observer, n_pods: u32) -> Result<()> {
    arrive(&stage.cluster, n_pods).await?;
    protect(MAX_UNAVAILABLE_PERCENT, &stage.cluster, n_pods).await?;
    observer.settled(CALM_BEFORE, SETTLED_BEFORE_WITHIN).await;
    Ok(())
}

/// Creates the Deployments and returns the instant at which all pods ran.
pub(super) async fn arrive(cluster: &ControlPlane, n_pods: u32) -> Result<Instant> {
    let (all_run, created) =
        tokio::join!(wait_until_running(cluster, n_pods), create_deployments(cluster, n_pods));
    created?;
    all_run
}

/// Errors while a Deployment has pods of an older template or fewer available than it wants.
async fn rolled_out(cluster: &ControlPlane) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(cluster.client(), "default");
    for deployment in api.list(&ListParams::default()).await?.items {
        let deployment: Value = serde_json::to_value(deployment)?;
        let (wanted, status) = (&deployment["spec"]["replicas"], &deployment["status"]);
        let is_observed = status["observedGeneration"] == deployment["metadata"]["generation"];
        let counts = ["replicas", "updatedReplicas", "availableReplicas"];
        let is_complete = counts.iter().all(|count| &status[*count] == wanted);
        ensure!(is_observed && is_complete, "{wanted} wanted: {status}");
    }
    Ok(())
}
