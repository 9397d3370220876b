//! The release of the API server, where the rules for HPAs differ by it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use headroom_core::pods::conditions::SCALED_TO_ZERO;
use headroom_core::pods::input::Gates;
use headroom_core::pods::status::HpaStatus;
use kube::Client;
use tokio::time::Instant;
use tracing::debug;

use super::resolve::Workload;
use super::state::hpa_status;
use headroom_observe::HpaObject;
use headroom_observe::host::Host;

/// Time after which the release is read again: a cluster is upgraded under a running operator.
const KNOWN_FOR: Duration = Duration::from_secs(300);
/// First minor release whose HPA controller says by the condition ScaledToZero who has set a size of 0.
const SAYS_WHO_SCALED_TO_ZERO: u32 = 36;

/// The release of the API server, read when it is needed.
pub(super) struct Release {
    client: Client,
    /// Minor release, and the time at which it was read.
    read: Mutex<Option<(u32, Instant)>>,
}

impl Release {
    pub(super) fn new(client: Client) -> Self {
        Self { client, read: Mutex::new(None) }
    }

    /// The gates for decisions on a workload. Only an HPA that may go to 0 needs the release, and only until its status has the
    /// condition ScaledToZero. While the release cannot be read a size of 0 that nobody vouches for stays.
    pub(super) async fn gates(
        &self,
        workload: &Workload,
        status: &HpaStatus,
        known: Gates,
        host: &Host,
    ) -> Gates {
        let may_be_at_zero = workload.hpa.is_some() && workload.spec.min_replicas == Some(0);
        let scaled_to_zero = says_who_scaled_to_zero(workload, status)
            || may_be_at_zero
                && self.minor(host.monotonic()).await.is_none_or(|minor| SAYS_WHO_SCALED_TO_ZERO <= minor);
        Gates { scaled_to_zero, ..known }
    }

    /// The minor release, as it was read last; `None` if it was never read.
    async fn minor(&self, now: Instant) -> Option<u32> {
        let known = *self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((minor, _)) = known.filter(|(_, at)| now.saturating_duration_since(*at) < KNOWN_FOR) {
            return Some(minor);
        }
        match self.client.apiserver_version().await {
            Ok(version) => {
                // Some clouds write "37+".
                let digits = version.minor.trim_end_matches(|letter: char| !letter.is_ascii_digit());
                let minor = digits.parse().ok()?;
                *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Some((minor, now));
                Some(minor)
            }
            Err(error) => {
                debug!(%error, "the release of the API server cannot be read");
                known.map(|(minor, _)| minor)
            }
        }
    }
}

/// What was reported of a workload, with the condition ScaledToZero of the HPA that somebody else runs.
pub(super) fn with_scaled_to_zero(mut reported: HpaStatus, hpa: Option<&HpaObject>) -> HpaStatus {
    let Some(hpa) = hpa else { return reported };
    reported.conditions.retain(|condition| condition.type_ != SCALED_TO_ZERO);
    reported.conditions.extend(hpa_status(&hpa.status).condition(SCALED_TO_ZERO).cloned());
    reported
}

/// True if the status of an HPA says by a condition who has set a size of 0.
pub(super) fn says_who_scaled_to_zero(workload: &Workload, status: &HpaStatus) -> bool {
    workload.hpa.is_some() && status.condition(SCALED_TO_ZERO).is_some()
}
