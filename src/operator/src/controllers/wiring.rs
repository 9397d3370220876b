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
use super::shards::{self, Keeper, KeeperPorts, Shard};
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
    /// Guards of the shards, each with a client behind it; at least two, or none if the leader runs all workloads.
    pub shards: Vec<(Guard, Client)>,
}

/// A replica that is put together.
pub struct Wired {
    /// The loop of nodes, which is still to be run.
    pub nodes: NodeLoop,
    /// Becomes true when all shards are given back at a graceful stop; `None` if there are none.
    pub shards_returned: Option<watch::Receiver<bool>>,
}

/// Begins to compete for the lease, starts the loop of workloads, and returns the loop of nodes, which is still to be run.
#[must_use]
pub fn wire(dependencies: ReplicaDependencies) -> Wired {
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
    let (mut election, leadership) =
        Election::new(lease_api.clone(), lease.clone(), host.clone(), guard.clone(), alarm);
    let mut shards_returned = None;
    if let Some(WorkloadDependencies { feed, metrics: measures, shards: guarded }) = workloads {
        let ports = KeeperPorts {
            api: lease_api,
            lease,
            shards: shards::closed(guarded),
            ready: ready(feed.clone()),
            stop: stop.clone(),
        };
        let shards;
        (election, shards, shards_returned) =
            begin_shards(election, (guard.clone(), work.clone()), ports, &host);
        let leadership = election.subscribe();
        host.spawn(election.run());
        let workloads = WorkloadLoop::new(WorkloadPorts {
            host: host.clone(),
            shards,
            feed,
            metrics: measures,
            numbers: metrics.clone(),
            health: health.clone(),
            traces: traces.clone(),
            leadership,
            stop: stop.clone(),
            preview,
        });
        host.spawn(workloads.run());
    } else {
        host.spawn(election.run());
    }
    let nodes = NodeLoop::new(Ports {
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
    });
    Wired { nodes, shards_returned }
}

/// The shards of the workloads: one that the leader's lease is for, with its guard and client, or several and their keeper.
fn begin_shards(
    election: Election,
    leader: (Guard, Client),
    ports: KeeperPorts,
    host: &Arc<Host>,
) -> (Election, Vec<Shard>, Option<watch::Receiver<bool>>) {
    if ports.shards.len() < 2 {
        let all = shards::closed([leader]);
        return (election.with_workloads(all[0].seat.clone()), all, None);
    }
    let shards = ports.shards.clone();
    let (keeper, returned) = Keeper::new(ports, host.clone());
    host.spawn(keeper.run());
    (election.with_shards(shards.len()), shards, Some(returned))
}

/// True once all caches that workloads need have been filled.
fn ready(feed: KubeFeed) -> Box<dyn Fn() -> bool + Send + Sync> {
    Box::new(move || feed.workloads(|known| known.synced()).unwrap_or(false))
}
