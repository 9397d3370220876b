//! The loop's own view for those who ask: the input of the next plan, handed out between two turns. It changes nothing.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use headroom_core::snapshot::Snapshot;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::health::Health;
use super::listener::{self, Bounds};

/// Longest wait for the loop: a turn that takes longer is a loop that is stuck.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);
/// Most who wait at once; more are sent away.
const WAITING_MAX: usize = 4;

/// Queue of questions for the loop.
#[derive(Debug, Default)]
pub struct Inspection {
    waiting: Mutex<Vec<oneshot::Sender<Option<Arc<Snapshot>>>>>,
    wake_up: Notify,
}

/// Reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// This replica does not lead, and knows neither the clouds nor what is remembered.
    NotLeading,
    /// Too many ask at once, or the loop does not come round.
    Busy,
}

impl Inspection {
    /// The input of the next plan.
    ///
    /// # Errors
    /// If this replica does not lead, or does not answer in time.
    pub async fn ask(&self) -> Result<Arc<Snapshot>, NoAnswer> {
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.retain(|one| !one.is_closed());
            if waiting.len() >= WAITING_MAX {
                return Err(NoAnswer::Busy);
            }
            waiting.push(answer);
        }
        self.wake_up.notify_one();
        match timeout(ANSWER_DEADLINE, answered).await {
            Ok(Ok(Some(snapshot))) => Ok(snapshot),
            Ok(Ok(None)) => Err(NoAnswer::NotLeading),
            Ok(Err(_)) | Err(_) => Err(NoAnswer::Busy),
        }
    }

    /// Resolves when somebody asks. One loop waits.
    pub(super) async fn asked(&self) {
        self.wake_up.notified().await;
    }

    /// Answers all who wait; `look` is called only if there is one.
    pub(super) fn answer(&self, look: impl FnOnce() -> Option<Snapshot>) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        if waiting.is_empty() {
            return;
        }
        let snapshot = look().map(Arc::new);
        for one in waiting {
            // Whoever has gone away in the meantime is not answered.
            let _ = one.send(snapshot.clone());
        }
    }
}

/// Serves `/debug/snapshot` until the task is ended. On loopback only this machine is answered; on another address, everybody
/// who can reach it.
///
/// # Errors
/// If `address` cannot be listened on.
pub async fn serve(address: SocketAddr, health: Arc<Health>) -> std::io::Result<()> {
    let router = Router::new().route("/debug/snapshot", get(snapshot)).with_state(health);
    listener::serve(TcpListener::bind(address).await?, router, Bounds::SNAPSHOTS).await;
    Ok(())
}

/// The input of the next plan and of the last decision on each workload, for `headroom snapshot` and `headroom explain`.
async fn snapshot(State(health): State<Arc<Health>>) -> Response {
    let snapshot = match health.inspection.ask().await {
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
    #[allow(clippy::disallowed_methods, reason = "no decision depends on when it is done")]
    std::thread::spawn(move || done.send(serde_json::to_vec(&snapshot)));
    match written.await {
        Ok(Ok(body)) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Ok(Err(_)) | Err(_) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "failed to write it down\n").into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_replica_that_does_not_lead_says_so() {
        let inspection = std::sync::Arc::new(Inspection::default());
        let asked = inspection.clone();
        let (answer, ()) = tokio::join!(asked.ask(), async {
            inspection.asked().await;
            inspection.answer(|| None);
        });
        assert_eq!(answer.err(), Some(NoAnswer::NotLeading));
    }

    #[tokio::test]
    async fn snapshots_on_loopback_are_for_those_who_ask_for_a_name_of_loopback() {
        let health = Arc::new(Health::default());
        // Nobody else takes the port between the two.
        let address =
            TcpListener::bind("127.0.0.1:0").await.and_then(|one| one.local_addr()).expect("a port");
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(serve(address, health.clone()));
        let answered = |host: &'static str| async move {
            let mut stream = loop {
                match tokio::net::TcpStream::connect(address).await {
                    Ok(stream) => break stream,
                    Err(_) => tokio::task::yield_now().await,
                }
            };
            let request =
                format!("GET /debug/snapshot HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.expect("it is sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            answer.lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(answered("evil.example").await, "HTTP/1.1 403 Forbidden");
        let (answer, ()) = tokio::join!(answered("localhost:8082"), async {
            health.inspection.asked().await;
            health.inspection.answer(|| None);
        });
        assert_eq!(answer, "HTTP/1.1 503 Service Unavailable");
    }
}
