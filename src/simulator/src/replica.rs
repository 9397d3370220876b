//! One life of the operator on the simulated cluster: wired as in production, ended as by a SIGKILL.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::Api;
use kube::client::ClientBuilder;
use tokio::sync::{mpsc, watch};

use super::environment::{Environment, LifeContext};
use super::measured::Measured;
use super::simulated_cloud::{SharedCluster, SimulatedCloud};
use super::typed_feed::{self, Paced};
use super::wire::{ApiServer, Caller};
use headroom_observe::KubeFeed;
use headroom_observe::host::Host;
use headroom_operator::actuate::guard::{CrashPoint, Guard};
use headroom_operator::actuate::layer::{ClientKind, GuardLayer};
use headroom_operator::controllers::health::Health;
use headroom_operator::controllers::leader::LeaseOptions;
use headroom_operator::controllers::wiring::{ReplicaDependencies, WorkloadDependencies, wire};
use headroom_operator::controllers::workloads::MetricsFor;
use headroom_operator::report::Metrics;
use headroom_provider::CloudProvider;
use headroom_provider::kube_nodes::KubeNodes;
use headroom_provider::kwok::Kwok;

/// Interface by which the operator observes the simulated cluster. It writes through the wire client either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PortKind {
    /// Lists and watches through a real client and an in-memory API server, with everything that can go wrong there
    Wire,
    /// Straight from the store: the same loops, faster
    #[default]
    Typed,
}

impl PortKind {
    /// The word for the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            PortKind::Wire => "wire",
            PortKind::Typed => "typed",
        }
    }
}

/// Time that others wait after a leader's last sign of life; that of `headroom run`. On the typed port, where no call
/// takes time or fails, it is renewed less often: on a quiet cluster renewals were two thirds of all work.
const LEASE: Duration = Duration::from_secs(10);
const NAMESPACE: &str = "headroom-system";

/// State that every life of every replica shares.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The API server.
    pub server: ApiServer,
    /// The cluster, for its cloud model.
    pub cluster: SharedCluster,
    /// The server's host, whose clock is the cloud's too.
    pub server_host: Arc<Host>,
    /// Interface by which the operator observes.
    pub port: PortKind,
    /// No two wakings of the operator are closer than this.
    pub tick: Duration,
    /// Shortest pause between two plans of the operator.
    pub plan_interval_min: Duration,
    /// True if there is anything for the loop of workloads.
    pub scales_workloads: bool,
    /// Numbers of shards of the workloads, in order, and the time from which on replicas are started with each; before the
    /// first and with 1 the leader runs all.
    pub shards: Vec<(Timestamp, usize)>,
    /// Shapes what the replicas draw.
    pub seed: u64,
    /// Environment beside cluster and operator, if any.
    pub environment: Option<Arc<dyn Environment>>,
}

/// A life; dropping it is a SIGKILL.
#[derive(Debug)]
pub struct Life {
    host: Arc<Host>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

impl Drop for Life {
    fn drop(&mut self) {
        // Its own tasks hold the host too, so that dropping ours would not end them.
        self.host.stop();
    }
}

/// A life that ended by itself: its replica, and its number.
pub type Ended = (usize, u64);

impl Life {
    /// Starts life `number` of replica `replica`. `dies_at` is the effect point at which it is killed, if it gets there
    /// before `safe_from`. The end of the loop, or its death, is sent to `ended`.
    #[must_use]
    pub fn begin(
        around: &Surroundings,
        (replica, number): Ended,
        dies_at: Option<u64>,
        safe_from: Timestamp,
        ended: mpsc::UnboundedSender<Ended>,
    ) -> Life {
        let salt = number.wrapping_mul(64).wrapping_add(replica as u64);
        let host = Host::simulated(around.server_host.wall(), around.seed.wrapping_add(salt << 20));
        let crash = crash_point(&host, dies_at, safe_from, (replica, number), ended.clone());
        let guard = Guard::new(host.clone(), crash, None);
        let caller = Caller { replica, life: number };
        let work = client(around, caller, &guard, ClientKind::Work);
        let lease_client = client(around, caller, &guard, ClientKind::Lease);
        let (stop_sender, stop) = watch::channel(false);
        let feed = match around.port {
            PortKind::Wire if around.scales_workloads => KubeFeed::start_with_workloads(&work, &host),
            PortKind::Wire => KubeFeed::start(&work, &host),
            PortKind::Typed => {
                let server = around.server.clone().called_by(caller);
                typed_feed::start_behind(server, &host, around.scales_workloads)
            }
        };
        let (cluster, server_host) = (around.cluster.clone(), around.server_host.clone());
        let server = Some(around.server.clone().called_by(caller));
        let measures: MetricsFor =
            Box::new(move |_| Arc::new(Measured::new(cluster.clone(), server_host.clone(), server.clone())));
        let shards = shards(around, caller, &guard);
        let workloads = around.scales_workloads.then(|| WorkloadDependencies {
            feed: feed.clone(),
            metrics: measures,
            shards,
        });
        let health = Arc::new(Health::default());
        let metrics = Arc::new(Metrics::default());
        let context = LifeContext { surroundings: around, caller, guard: &guard, host: &host };
        let provider = provider(&context, &work);
        let paced = Arc::new(Paced::new(feed, host.clone(), around.tick));
        let dependencies = ReplicaDependencies {
            preview: false,
            plan_interval_min: around.plan_interval_min,
            traces: None,
            feed: match &around.environment {
                Some(environment) => environment.feed(paced),
                None => paced,
            },
            provider,
            // A simulation asks no server of the world: the rest of the chain decides.
            expander: None,
            work,
            lease_api: Api::namespaced(lease_client, NAMESPACE),
            lease: LeaseOptions {
                name: "headroom".to_owned(),
                identity: format!("headroom-{replica}_{:08x}", host.random() >> 32),
                duration: LEASE,
                retry: match around.port {
                    PortKind::Wire => LEASE / 5,
                    PortKind::Typed => LEASE / 2,
                },
            },
            host: host.clone(),
            guard,
            stop,
            health: health.clone(),
            metrics: metrics.clone(),
            page: None,
            workloads,
        };
        let node_loop = wire(dependencies).nodes;
        host.spawn(async move {
            node_loop.run().await;
            drop(stop_sender);
            // Nobody listens when the run is over.
            let _ = ended.send((replica, number));
        });
        Life { host, health, metrics }
    }

    /// Returns the host of the life: to stop it as by SIGSTOP, or to set its clock off.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns its metrics.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Returns the state that its loops report of themselves.
    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }
}

/// The embedded provider, or what the environment makes of it.
fn provider(life: &LifeContext<'_>, work: &Client) -> Arc<dyn CloudProvider> {
    let around = life.surroundings;
    let kwok = Kwok::new(KubeNodes::new(work.clone()));
    let simulated_cloud =
        Arc::new(SimulatedCloud::new(kwok, around.cluster.clone(), around.server_host.clone()));
    match &around.environment {
        Some(environment) => environment.provider(simulated_cloud, life),
        None => simulated_cloud,
    }
}

fn client(around: &Surroundings, caller: Caller, guard: &Guard, kind: ClientKind) -> Client {
    let server = around.server.named("headroom").called_by(caller);
    ClientBuilder::new(server, "default").with_layer(&GuardLayer::new(guard.clone(), kind)).build()
}

/// A guard of its own for each shard, with a client behind it.
fn shards(around: &Surroundings, caller: Caller, guard: &Guard) -> Vec<(Guard, Client)> {
    let shard = |_| {
        let guard = guard.apart();
        (guard.clone(), client(around, caller, &guard, ClientKind::Work))
    };
    let now = around.server_host.wall();
    let count = around.shards.iter().rev().find(|(from, _)| *from <= now).map_or(1, |(_, count)| *count);
    (0..count).filter(|_| 1 < count).map(shard).collect()
}

fn crash_point(
    host: &Arc<Host>,
    dies_at: Option<u64>,
    safe_from: Timestamp,
    who: Ended,
    ended: mpsc::UnboundedSender<Ended>,
) -> CrashPoint {
    let Some(dies_at) = dies_at else { return CrashPoint::none() };
    let host = host.clone();
    CrashPoint::new(move |number, _, _| {
        if number >= dies_at && host.wall() < safe_from {
            host.stop();
            let _ = ended.send(who);
            // The task that is running now must not take another step either. Nothing is printed, unlike by a panic.
            std::panic::resume_unwind(Box::new("killed at a crash point"));
        }
    })
}
