//! Puts a replica of the operator together from its ports: one wiring for a real cluster and for a simulated one.

use std::sync::Arc;
use std::time::Duration;

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
use headroom_observe::host::Host;
use headroom_observe::{Feed, KubeFeed};
use headroom_provider::CloudProvider;
use headroom_provider::expander::AskExpander;
use headroom_report::otlp::TraceSink;
use headroom_report::{KubeSink, Metrics};

/// Dependencies of a replica.
pub struct ReplicaDependencies {
    /// Time and tasks.
    pub host: Arc<Host>,
    /// The entry point of every mutation.
    pub guard: Guard,
    /// A client behind the guard, for all but the lease.
    pub work: Client,
    /// The lease, by a client of its own.
    pub lease_api: Api<Lease>,
    /// Settings of the lease.
    pub lease: LeaseOptions,
    /// Source of observations.
    pub feed: Arc<dyn Feed>,
    /// The clouds.
    pub provider: Arc<dyn CloudProvider>,
    /// Asks the server of expander `Grpc`; none where this build or this run cannot.
    pub expander: Option<Arc<dyn AskExpander>>,
    /// Becomes true when the replica is to stop.
    pub stop: watch::Receiver<bool>,
    /// State that the loop reports of itself.
    pub health: Arc<Health>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Data of the live page; `None` if there is no page.
    pub page: Option<Arc<Board>>,
    /// Destination of traces of decisions; `None` if they are not exported.
    pub traces: Option<TraceSink>,
    /// Dry run: report decisions, change nothing.
    pub preview: bool,
    /// Shortest pause between two plans; in production [`crate::options::PLAN_INTERVAL_MIN`].
    pub plan_interval_min: Duration,
    /// Further dependencies of the workload loop; `None` where only nodes are scaled.
    pub workloads: Option<WorkloadDependencies>,
}

/// Dependencies of the workload loop.
pub struct WorkloadDependencies {
    /// Source of observations, workloads included.
    pub feed: KubeFeed,
    /// Source of metrics, by the current settings.
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
        plan_interval_min,
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
        plan_interval_min,
    })
}
