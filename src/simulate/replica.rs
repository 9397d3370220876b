//! One life of the operator on the simulated cluster: wired as in production, ended as by a SIGKILL.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::Api;
use kube::client::ClientBuilder;
use tokio::sync::{mpsc, watch};

use super::sky::{SharedCluster, Sky};
use super::typed_feed::{self, Paced};
use super::wire::ApiServer;
use crate::actuate::guard::{CrashPoint, Guard};
use crate::actuate::layer::{ClientKind, GuardLayer};
use crate::controllers::health::Health;
use crate::controllers::leader::LeaseOptions;
use crate::controllers::wiring::{Ground, wire};
use crate::host::Host;
use crate::observe::KubeFeed;
use crate::provider::kube_nodes::KubeNodes;
use crate::provider::kwok::Kwok;
use crate::report::Metrics;

/// How the operator observes the simulated cluster. It writes through the wire client either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PortKind {
    /// Lists and watches through a real client and an in-memory API server, with everything that can go wrong there
    Wire,
    /// Straight from the store: the same loops, faster
    #[default]
    Typed,
}

/// How long others wait after a leader's last sign of life; that of `headroom run`.
const LEASE: Duration = Duration::from_secs(10);
const NAMESPACE: &str = "headroom-system";

/// What every life of every replica shares.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The API server.
    pub server: ApiServer,
    /// The cluster, for its weather.
    pub cluster: SharedCluster,
    /// The server's host, whose clock is the cloud's too.
    pub server_host: Arc<Host>,
    /// How the operator observes.
    pub port: PortKind,
    /// No two wakings of the operator are closer than this.
    pub tick: Duration,
    /// Shapes what the replicas draw.
    pub seed: u64,
}

/// A life; dropping it is a SIGKILL.
#[derive(Debug)]
pub struct Life {
    host: Arc<Host>,
}

impl Drop for Life {
    fn drop(&mut self) {
        // Its own tasks hold the host too, so that dropping ours would not end them.
        self.host.stop();
    }
}

/// Which life it was that ended by itself: of which replica, and its number.
pub type Ended = (usize, u64);

impl Life {
    /// Starts life `number` of replica `replica`. `dies_at` is the effect point at which it is killed, if it gets there
    /// before `safe_from`. The end of the loop, or its death, is told to `ended`.
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
        let work = client(around, &guard, ClientKind::Work);
        let lease_client = client(around, &guard, ClientKind::Lease);
        let (stop_sender, stop) = watch::channel(false);
        let feed = match around.port {
            PortKind::Wire => KubeFeed::start(&work, &host),
            PortKind::Typed => typed_feed::start(around.server.store(), &host),
        };
        let kwok = Kwok::new(KubeNodes::new(work.clone()));
        let ground = Ground {
            feed: Arc::new(Paced::new(feed, host.clone(), around.tick)),
            provider: Arc::new(Sky::new(kwok, around.cluster.clone(), around.server_host.clone())),
            work,
            lease_api: Api::namespaced(lease_client, NAMESPACE),
            lease: LeaseOptions {
                name: "headroom".to_owned(),
                identity: format!("headroom-{replica}_{:08x}", host.random() >> 32),
                duration: LEASE,
                retry: LEASE / 5,
            },
            host: host.clone(),
            guard,
            stop,
            health: Arc::new(Health::default()),
            metrics: Arc::new(Metrics::default()),
            // The simulated server knows no HPAs and no metrics.
            workloads: None,
        };
        let node_loop = wire(ground);
        host.spawn(async move {
            node_loop.run().await;
            drop(stop_sender);
            // Nobody listens when the run is over.
            let _ = ended.send((replica, number));
        });
        Life { host }
    }
}

fn client(around: &Surroundings, guard: &Guard, kind: ClientKind) -> Client {
    let server = around.server.named("headroom");
    ClientBuilder::new(server, "default").with_layer(&GuardLayer::new(guard.clone(), kind)).build()
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
