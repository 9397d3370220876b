//! The loop's own view for those who ask: the input of the next plan, handed out between two turns. It changes nothing.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headroom_core::snapshot::Snapshot;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

/// Longest wait for the loop: a turn that takes longer is a loop that is stuck.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);
/// Most who wait at once; more are sent away.
const WAITING_MAX: usize = 4;

/// Where questions wait for the loop.
#[derive(Debug, Default)]
pub struct Inspection {
    waiting: Mutex<Vec<oneshot::Sender<Option<Arc<Snapshot>>>>>,
    bell: Notify,
    /// Whether peers that are not on loopback are answered.
    open: AtomicBool,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// This replica does not lead, and knows neither the clouds nor what is remembered.
    NotLeading,
    /// Too many ask at once, or the loop does not come round.
    Busy,
}

impl Inspection {
    /// Answers peers from anywhere, and not on loopback alone.
    pub fn open_to_all(&self) {
        self.open.store(true, Ordering::Relaxed);
    }

    /// Whether this peer is answered. Those who forward a port with kubectl come from loopback.
    #[must_use]
    pub fn admits(&self, peer: SocketAddr) -> bool {
        let ip = match peer.ip() {
            IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4),
            ip => ip,
        };
        ip.is_loopback() || self.open.load(Ordering::Relaxed)
    }

    /// The input of the next plan.
    ///
    /// # Errors
    /// When this replica does not lead, or does not come to answer.
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
        self.bell.notify_one();
        match timeout(ANSWER_DEADLINE, answered).await {
            Ok(Ok(Some(snapshot))) => Ok(snapshot),
            Ok(Ok(None)) => Err(NoAnswer::NotLeading),
            Ok(Err(_)) | Err(_) => Err(NoAnswer::Busy),
        }
    }

    /// Resolves when somebody asks. One loop waits.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_answered_unless_told_otherwise() {
        let inspection = Inspection::default();
        let peer = |text: &str| text.parse::<SocketAddr>().expect("an address");
        assert!(inspection.admits(peer("127.0.0.1:4000")));
        assert!(inspection.admits(peer("[::1]:4000")));
        assert!(inspection.admits(peer("[::ffff:127.0.0.1]:4000")));
        assert!(!inspection.admits(peer("10.0.0.7:4000")));
        inspection.open_to_all();
        assert!(inspection.admits(peer("10.0.0.7:4000")));
    }

    #[tokio::test]
    async fn a_replica_that_does_not_lead_says_so() {
        let inspection = std::sync::Arc::new(Inspection::default());
        let asked = inspection.clone();
        let (answer, ()) = tokio::join!(asked.ask(), async {
            inspection.rung().await;
            inspection.answer(|| None);
        });
        assert_eq!(answer.err(), Some(NoAnswer::NotLeading));
    }
}
