//! True if the process lives and is of use: /healthz, /readyz and /metrics, and the end of a loop that is stuck.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tracing::error;

use super::inspection::Inspection;
use super::listener::{self, Bounds};
use super::scale_in::ScaleIns;
use super::surges::Surges;
use super::workloads::last::LastEvaluations;

/// Period of the watchdog; a stuck loop ends the process at most this much late.
const WATCHDOG_PERIOD: Duration = Duration::from_secs(5);

/// State that the loops report of themselves.
#[derive(Debug, Default)]
pub struct Health {
    /// Turns of the loop so far.
    turns: AtomicU64,
    /// True if every cache has been filled once.
    synced: AtomicBool,
    /// Message on a missing condition that somebody must provide, such as the CRDs.
    waits_for: Mutex<Option<String>>,
    /// The permission that the cluster's policy needs and the operator does not have, with how it is granted.
    missing_permission: Mutex<Option<String>>,
    /// The permission to write deletion costs, in the same way.
    missing_cost_permission: Mutex<Option<String>>,
    /// Queue of questions for the loop's view of the cluster.
    pub inspection: Inspection,
    /// Queue of questions to the node loop for the pods that should go.
    pub scale_ins: ScaleIns,
    /// Surges that the node loop needs, and workloads that may have one.
    pub surges: Surges,
    /// Inputs of the last evaluation of each workload.
    pub evaluations: Arc<LastEvaluations>,
}

impl Health {
    /// The loop has come round.
    pub fn turned(&self, synced: bool) {
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.synced.store(synced, Ordering::Relaxed);
    }

    /// Sets the condition that the operator waits for and somebody must provide, such as the CRDs; `None` when there is
    /// none.
    pub fn waits_for(&self, what: Option<String>) {
        *self.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// Sets the permission that the cluster's policy needs and the operator does not have; `None` when it has all.
    pub fn set_missing_permission(&self, what: Option<String>) {
        *self.missing_permission.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// As [`Health::set_missing_permission`], of the permission to write deletion costs.
    pub fn set_missing_cost_permission(&self, what: Option<String>) {
        *self.missing_cost_permission.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// The permission that the cluster's policy needs and the operator does not have.
    #[must_use]
    pub fn missing_permission(&self) -> Option<String> {
        let first = self.missing_permission.lock().unwrap_or_else(PoisonError::into_inner).clone();
        first.or_else(|| self.missing_cost_permission.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Reason why a replica could not lead at once; `None` when it could: its caches are filled.
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
#[allow(clippy::disallowed_methods, reason = "a stuck loop may hold the runtime")]
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

/// State of the server.
#[derive(Clone)]
struct Served {
    health: Arc<Health>,
    metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Serves the pages until the task is ended.
///
/// # Errors
/// If `address` cannot be listened on.
pub async fn serve(
    address: SocketAddr,
    health: Arc<Health>,
    metrics: Arc<dyn Fn() -> String + Send + Sync>,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(exposition))
        .with_state(Served { health, metrics });
    listener::serve(TcpListener::bind(address).await?, router, Bounds::METRICS).await;
    Ok(())
}

async fn ready(State(served): State<Served>) -> (StatusCode, String) {
    match served.health.not_ready_because() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
    }
}

async fn exposition(State(served): State<Served>) -> Response {
    let text = (served.metrics)();
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn the_metrics_port_shows_no_snapshot() {
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(serve(address, Arc::default(), Arc::new(String::new)));
        for (path, wanted) in [("/healthz", "200"), ("/readyz", "503"), ("/debug/snapshot", "404")] {
            let mut stream = loop {
                match TcpStream::connect(address).await {
                    Ok(stream) => break stream,
                    Err(_) => tokio::task::yield_now().await,
                }
            };
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            stream.write_all(request.as_bytes()).await.expect("it is sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            assert!(answer.starts_with(&format!("HTTP/1.1 {wanted} ")), "{path}: {answer}");
        }
    }
}
