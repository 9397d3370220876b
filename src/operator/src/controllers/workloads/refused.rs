//! Policies of HPAs that could not be made or deleted: when it is tried again, what is logged, and which permission is missing. Pure.

use std::time::Duration;

use headroom_core::time::UnixTime;
use tokio::time::Instant;

use crate::actuate::scale::{EXPLAIN_HPAS, KeepError, RUN_HPAS};
use crate::controllers::log_throttle::LogThrottle;
use headroom_api::HpaOwnership;

/// Pause after the first refusal; doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Number of times that the pause is doubled: 64 s in the end.
const DOUBLINGS_MAX: u32 = 6;

/// The refusals in a row.
#[derive(Debug, Default)]
pub(super) struct Refused {
    logged: LogThrottle,
    /// As far as the pause depends on them.
    count: u32,
    due_at: Option<Instant>,
}

/// Consequence of one refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Consequence {
    /// Message to log, if it is new or was not logged for long.
    pub(super) log: Option<String>,
    /// The permission that the ClusterScalingPolicy needs and the operator does not have, with how it is granted.
    pub(super) missing_permission: Option<String>,
}

impl Refused {
    /// True until the pause after the last refusal is over.
    pub(super) fn pauses(&self, clock: Instant) -> bool {
        self.due_at.is_some_and(|at| clock < at)
    }

    /// Takes one refusal in.
    pub(super) fn note(
        &mut self,
        error: &KeepError,
        ownership: HpaOwnership,
        (clock, now): (Instant, UnixTime),
    ) -> Consequence {
        let doublings = self.count.min(DOUBLINGS_MAX);
        self.due_at = Some(clock + PAUSE_MIN * (1 << doublings));
        self.count = doublings + 1;
        let (message, missing) = match (error, ownership) {
            (KeepError::Failed(answer), _) => (answer.clone(), false),
            (KeepError::Forbidden(answer), HpaOwnership::Replace) => (format!("{answer}: {RUN_HPAS}"), true),
            (KeepError::Forbidden(answer), HpaOwnership::Observe) => {
                (format!("{answer}: {EXPLAIN_HPAS}"), false)
            }
        };
        Consequence {
            log: self.logged.due(&message, now).then(|| message.clone()),
            missing_permission: missing.then_some(message),
        }
    }

    /// Forgets the refusals; true if there were any.
    pub(super) fn clear(&mut self) -> bool {
        let any = 0 < self.count;
        *self = Self::default();
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_observe::host::Host;

    fn denied() -> KeepError {
        KeepError::Forbidden("scalingpolicies.headroom.dev is forbidden: User x cannot create".to_owned())
    }

    /// Refusals as they come when each is tried again as soon as it may be, over an hour: the seconds of all, and of those logged.
    fn an_hour(ownership: HpaOwnership) -> (Vec<i64>, Vec<i64>) {
        let (mut refused, start) = (Refused::default(), Host::machine().monotonic());
        let (mut tried, mut logged) = (Vec::new(), Vec::new());
        for second in 0..3600_i64 {
            let clock = start + Duration::from_secs(second.unsigned_abs());
            if refused.pauses(clock) {
                continue;
            }
            tried.push(second);
            if refused.note(&denied(), ownership, (clock, UnixTime(second))).log.is_some() {
                logged.push(second);
            }
        }
        (tried, logged)
    }

    #[test]
    fn what_is_refused_is_tried_and_logged_ever_more_seldom() {
        let (tried, logged) = an_hour(HpaOwnership::Replace);
        assert_eq!(tried[..8], [0, 1, 3, 7, 15, 31, 63, 127]);
        assert!(tried.len() < 64 && logged.len() < 12, "{} tried, {logged:?} logged", tried.len());
    }

    #[tokio::test]
    async fn only_who_is_to_run_hpas_misses_the_permission() {
        let at = (Host::machine().monotonic(), UnixTime(0));
        let mut refused = Refused::default();
        let replace = refused.note(&denied(), HpaOwnership::Replace, at);
        let missing = replace.missing_permission.expect("it is missing");
        assert!(missing.contains("cannot create") && missing.contains("hpaOwnership"), "{missing}");
        let observe = refused.note(&denied(), HpaOwnership::Observe, at);
        assert_eq!(observe.missing_permission, None);
        assert!(observe.log.is_some_and(|text| text.contains("workloads.explainHpas")));
        let broken = refused.note(&KeepError::Failed("timeout".to_owned()), HpaOwnership::Replace, at);
        assert_eq!(broken.missing_permission, None, "nothing is known of permissions");
        assert!(refused.clear() && !refused.clear());
    }
}
