//! Puts a replica of the operator together from its ports: one wiring for a real cluster and for a simulated one.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::Api;
use tokio::sync::watch;

use super::health::Health;
use super::leader::{Alarm, Election, LeaseOptions};
use super::nodes::{NodeLoop, Ports};
use super::page::Board;
use super::workloads::{MetricsFor, WorkloadLoop, WorkloadPorts};
use crate::actuate::guard::Guard;
use crate::actuate::nodes::KubeActions;
use crate::actuate::steps::Executor;
use crate::report::otlp::TraceSink;
use crate::report::{KubeSink, Metrics};
use headroom_observe::host::Host;
use headroom_observe::{Feed, KubeFeed};
use headroom_provider::CloudProvider;
use headroom_provider::expander::AskExpander;

/// What a replica stands on.
pub struct ReplicaDependencies {
    /// Time and tasks.
    pub host: Arc<Host>,
    /// The entry point of every mutation.
    pub guard: Guard,
    /// A client behind the guard, for all but the lease.
    pub work: Client,
    /// The lease, by a client of its own.
    pub lease_api: Api<Lease>,
    /// How the lease is kept.
    pub lease: LeaseOptions,
    /// What is observed.
    pub feed: Arc<dyn Feed>,
    /// The clouds.
    pub provider: Arc<dyn CloudProvider>,
    /// Asks the server of expander `Grpc`; none where this build or this run cannot.
    pub expander: Option<Arc<dyn AskExpander>>,
    /// Becomes true when the replica is to stop.
    pub stop: watch::Receiver<bool>,
    /// What the loop says of itself.
    pub health: Arc<Health>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// What the live page shows; none where nobody asked for one.
    pub page: Option<Arc<Board>>,
    /// Where traces of decisions go; none where nobody asked for them.
    pub traces: Option<TraceSink>,
    /// Dry run: report decisions, change nothing.
    pub preview: bool,
    /// What the loop of workloads needs besides; none where only nodes are scaled.
    pub workloads: Option<WorkloadDependencies>,
}

/// What the loop of workloads stands on.
pub struct WorkloadDependencies {
    /// What is observed, workloads included.
    pub feed: KubeFeed,
    /// What the load is, by the settings that hold.
    pub metrics: MetricsFor,
}

/// Begins to compete for the lease, starts the loop of workloads, and returns the loop of nodes, which is still to be run.
#[must_use]
pub fn wire(dependencies: ReplicaDependencies) -> NodeLoop {
    let ReplicaDependencies {
        host,
        guard,
        work,
        lease_api,
        lease,
        feed,
        provider,
        expander,
        stop,
        health,
        metrics,
        page,
        traces,
        preview,
        workloads,
    } = dependencies;
    let (asked, doubted) = (feed.clone(), feed.clone());
    let alarm = Alarm {
        shown: Box::new(move || asked.newest_version()),
        raise: Box::new(move || doubted.distrust()),
    };
    let (mut election, leadership) = Election::new(lease_api, lease, host.clone(), guard.clone(), alarm);
    let other_leadership = workloads.is_some().then(|| election.subscribe());
    host.spawn(election.run());
    if let (Some(WorkloadDependencies { feed, metrics: measures }), Some(leadership)) =
        (workloads, other_leadership)
    {
        let workloads = WorkloadLoop::new(WorkloadPorts {
            host: host.clone(),
            guard: guard.clone(),
            feed,
            work: work.clone(),
            metrics: measures,
            numbers: metrics.clone(),
            health: health.clone(),
            traces: traces.clone(),
            leadership,
            stop: stop.clone(),
            preview,
        });
        host.spawn(workloads.run());
    }
    NodeLoop::new(Ports {
        feed,
        sink: Arc::new(KubeSink::new(work.clone())),
        provider: provider.clone(),
        expander,
        executor: Executor::new(KubeActions::new(work), provider, host.clone()),
        host,
        guard,
        leadership,
        stop,
        health,
        metrics,
        page,
        traces,
        preview,
    })
}
