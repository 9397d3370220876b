//! Whether the process lives and is of use: /healthz, /readyz and /metrics, the loop's own view for explanations, and the
//! end of a loop that is stuck.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tracing::error;

use super::inspection::{Inspection, NoAnswer};
use super::workloads::last::LastLooks;

/// How often the watchdog looks; a stuck loop ends the process at most this much late.
const WATCHDOG_PERIOD: Duration = Duration::from_secs(5);

/// What the loops say of themselves.
#[derive(Debug, Default)]
pub struct Health {
    /// Turns of the loop so far.
    turns: AtomicU64,
    /// Whether every cache has been filled once.
    synced: AtomicBool,
    /// What must be done by somebody before it can be of use, in words.
    waits_for: Mutex<Option<String>>,
    /// Where questions for its view wait.
    pub inspection: Inspection,
    /// What each workload was last decided from.
    pub looks: Arc<LastLooks>,
}

impl Health {
    /// The loop has come round.
    pub fn turned(&self, synced: bool) {
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.synced.store(synced, Ordering::Relaxed);
    }

    /// What the operator waits for that somebody must do, such as the CRDs; `None` when there is nothing of the kind.
    pub fn waits_for(&self, what: Option<String>) {
        *self.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// Why a replica could not lead at once; `None` when it could: its caches are filled.
    #[must_use]
    pub fn not_ready_because(&self) -> Option<String> {
        let waits_for = self.waits_for.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let filling = || (!self.synced.load(Ordering::Relaxed)).then(|| "caches are being filled".to_owned());
        waits_for.or_else(filling)
    }
}

/// Ends the process when the loop has not come round for `stuck_after`: a restart is safe at any point, and a stuck
/// operator helps nobody.
///
/// It runs on a thread of its own, since a stuck loop may well hold the runtime.
pub fn watchdog(health: Arc<Health>, stuck_after: Duration) {
    std::thread::spawn(move || {
        let mut last = health.turns.load(Ordering::Relaxed);
        let mut still = Duration::ZERO;
        loop {
            std::thread::sleep(WATCHDOG_PERIOD);
            let turns = health.turns.load(Ordering::Relaxed);
            still = if turns == last { still + WATCHDOG_PERIOD } else { Duration::ZERO };
            last = turns;
            if still >= stuck_after {
                error!(seconds = still.as_secs(), "the loop is stuck; ending the process");
                std::process::exit(70);
            }
        }
    });
}

/// What the server needs.
#[derive(Clone)]
struct Served {
    health: Arc<Health>,
    metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Serves the pages until the task is ended.
///
/// # Errors
/// When `address` cannot be listened on.
pub async fn serve(
    address: SocketAddr,
    health: Arc<Health>,
    metrics: Arc<dyn Fn() -> String + Send + Sync>,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(exposition))
        .route("/debug/snapshot", get(snapshot))
        .with_state(Served { health, metrics })
        .into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(TcpListener::bind(address).await?, router).await
}

async fn ready(State(served): State<Served>) -> (StatusCode, String) {
    match served.health.not_ready_because() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
    }
}

/// The input of the next plan and of the last decision on each workload, for `headroom snapshot` and `headroom explain`.
async fn snapshot(State(served): State<Served>, ConnectInfo(peer): ConnectInfo<SocketAddr>) -> Response {
    let inspection = &served.health.inspection;
    if !inspection.admits(peer) {
        return (StatusCode::FORBIDDEN, "answered on loopback only: use kubectl port-forward\n")
            .into_response();
    }
    let snapshot = match inspection.ask().await {
        Ok(snapshot) => snapshot,
        Err(NoAnswer::NotLeading) => {
            return (StatusCode::SERVICE_UNAVAILABLE, "this replica does not lead\n").into_response();
        }
        Err(NoAnswer::Busy) => {
            return (StatusCode::TOO_MANY_REQUESTS, "busy; ask again in a moment\n").into_response();
        }
    };
    // A snapshot of a large cluster is a second's work: on a thread of its own it holds up neither loop nor lease.
    let (done, written) = oneshot::channel();
    std::thread::spawn(move || done.send(serde_json::to_vec(&snapshot)));
    match written.await {
        Ok(Ok(body)) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Ok(Err(_)) | Err(_) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "failed to write it down\n").into_response()
        }
    }
}

async fn exposition(State(served): State<Served>) -> Response {
    let text = (served.metrics)();
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
}
