//! Bounds that the loops keep. What users tune lives in specs, not here.

use std::time::Duration;

use headroom_core::time::Seconds;

/// From a wake-up to the plan that answers it: changes that arrive together are decided together.
pub const GATHERING: Duration = Duration::from_millis(300);
/// Longest wait for demand that is still growing: what one client applies, its controllers take up in pieces.
pub const GATHERING_MAX: Duration = Duration::from_secs(2);
/// Shortest pause between two plans.
pub const PLAN_INTERVAL_MIN: Duration = Duration::from_millis(50);
/// Longest pause between two plans, even if no change wakes the loop.
pub const PLAN_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Shortest pause between two reports of one pool; the journal does not wait for it.
pub const REPORT_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Shortest pause between two batches of soft taints.
pub const CANDIDATE_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Longest wait for a batch of soft taints: purchases do not wait for a slow admission webhook of nodes. Source: Cluster Autoscaler, flag
/// max-bulk-soft-taint-time, the same.
pub const CANDIDATE_DEADLINE: Duration = Duration::from_secs(3);
/// Pause after a batch of soft taints that was refused or took too long: they are a courtesy.
pub const CANDIDATE_RETRY: Duration = Duration::from_secs(60);
/// Providers are asked again after this long, even if nothing has changed: their answer ages (design rule 6).
pub const PROVIDER_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Providers are asked no more often than this for their own sake.
pub const PROVIDER_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// After a read that failed, providers are asked again after this long; they keep their own budgets of calls.
pub const PROVIDER_RETRY: Duration = Duration::from_secs(2);
/// A view of the cluster older than this removes nothing. Servers send a bookmark about once a minute.
pub const VIEW_AGE_MAX: Seconds = Seconds(180);
/// For so long nothing is removed after the API server went back to an older state, as after a restored backup: nodes,
/// pods and intents that it has forgotten must be found again first.
pub const REGRESSION_HOLD: Seconds = Seconds(1800);
/// Steps under way at once.
pub const STEPS_MAX: usize = 64;
/// Workloads that are being looked at at once: each may wait for a metrics API or a write of status.
pub const WORKLOADS_IN_FLIGHT_MAX: usize = 128;
/// A loop that has not come round for this long ends the process.
pub const STUCK_AFTER: Duration = Duration::from_secs(60);
/// After this long without a renewed lease, the silence is added to every clock (design rule 9).
pub const TAKEOVER_GAP: Duration = Duration::from_secs(120);
