//! The soft taints of nodes that go next, as the plan names them: a few at a time, and none at rest.

use headroom_core::plan::Plan;
use tokio::time::{Instant, timeout};
use tracing::info;

use super::NodeLoop;
use crate::options::{CANDIDATE_DEADLINE, CANDIDATE_INTERVAL_MIN, CANDIDATE_RETRY};

impl NodeLoop {
    /// Writes what differs, unless that was done a moment ago. Returns when the rest is due; nothing waits for it.
    pub(super) async fn taint_candidates(&mut self, plan: &Plan) -> Option<Instant> {
        if plan.candidate_taints.is_empty() || self.ports.preview {
            return None;
        }
        let clock = self.ports.host.monotonic();
        if let Some(due) = self.candidates_due_at.filter(|due| clock < *due) {
            return Some(due);
        }
        let writes = self.ports.executor.taint_candidates(&plan.candidate_taints);
        let failure = match timeout(CANDIDATE_DEADLINE, writes).await {
            Ok(failure) => failure.map(|error| error.to_string()),
            Err(elapsed) => Some(elapsed.to_string()),
        };
        let pause = match &failure {
            None => CANDIDATE_INTERVAL_MIN,
            Some(error) => {
                info!(%error, "soft taints of nodes that go next are not written; trying again later");
                CANDIDATE_RETRY
            }
        };
        // The watch shows what came of it.
        self.candidates_due_at = Some(self.ports.host.monotonic() + pause);
        self.candidates_due_at
    }
}
