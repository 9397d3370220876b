//! Questions of the node loop to the server of expander `Grpc`: beside the loop, one question at a time. Answers go
//! into the world, and the next plan uses them.

use std::sync::Arc;
use std::time::Duration;

use headroom_core::plan::Plan;
use headroom_core::printable;
use headroom_core::text::cut;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::Delta;
use headroom_core::world::expander::{ExpanderAnswer, ExpanderAnswers, ExpanderSilence};
use headroom_provider::expander::{BestOptions, ExpanderSettings};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{info, warn};

use super::NodeLoop;
use crate::controllers::log_throttle::LogThrottle;

/// Time for which the rest of the chain decides after a call without an answer: as long as one loop of Cluster
/// Autoscaler.
const SILENCE: Seconds = Seconds(10);
/// The same after [`FAILURES_MAX`] such calls, one after the other.
const LONG_SILENCE: Seconds = Seconds(60);
const FAILURES_MAX: u32 = 3;
/// Most answers within [`UNUSED_WITHIN`] that no plan has used, since the options had changed before they came.
const UNUSED_MAX: usize = 3;
const UNUSED_WITHIN: Duration = Duration::from_secs(10);
/// Longest words of a server that are kept, in characters.
const MESSAGE_MAX: usize = 120;

/// Result of one call.
pub(super) struct Reply {
    key: Arc<str>,
    result: Result<BestOptions, String>,
}

/// The question under way, and how the last ones ended.
pub(super) struct Consulting {
    pub(super) replies: mpsc::UnboundedReceiver<Reply>,
    reply: mpsc::UnboundedSender<Reply>,
    /// The question under way.
    asked: Option<Arc<str>>,
    /// The settings that all that is known was asked with.
    settings: Option<ExpanderSettings>,
    /// Answers that no plan has used yet, with the time at which they came.
    unused: Vec<(Arc<str>, Instant)>,
    /// Calls without an answer, one after the other.
    failures: u32,
    logged: LogThrottle,
}

impl Consulting {
    pub(super) fn new() -> Self {
        let (reply, replies) = mpsc::unbounded_channel();
        Self {
            replies,
            reply,
            asked: None,
            settings: None,
            unused: Vec::new(),
            failures: 0,
            logged: LogThrottle::default(),
        }
    }

    /// Notes which answers a plan has used: what comes later is not in vain.
    fn used(&mut self, keys: &[Arc<str>]) {
        if self.unused.iter().any(|(key, _)| keys.contains(key)) {
            self.unused.clear();
        }
    }

    /// Notes an answer.
    fn answered(&mut self, key: Arc<str>, clock: Instant) {
        self.failures = 0;
        self.logged.over();
        self.unused.push((key, clock));
    }

    /// Notes a call without an answer; returns the time in which no other is made.
    fn failed(&mut self) -> Seconds {
        self.failures += 1;
        if FAILURES_MAX <= self.failures { LONG_SILENCE } else { SILENCE }
    }

    /// True if the options change faster than they are answered.
    fn is_outpaced(&mut self, clock: Instant) -> bool {
        self.unused.retain(|(_, at)| clock.saturating_duration_since(*at) < UNUSED_WITHIN);
        UNUSED_MAX <= self.unused.len()
    }
}

impl NodeLoop {
    /// Asks what the plan wants to know, unless a question is under way. Nothing waits for the answer but its pods.
    pub(super) fn consult(&mut self, plan: &Plan) {
        self.consulting.used(&plan.answers_used);
        let Some(question) = &plan.question else { return };
        if self.consulting.asked.is_some() {
            return;
        }
        let key = question.key.clone();
        self.consulting.asked = Some(key.clone());
        let reply = self.consulting.reply.clone();
        // The loop may have ended meanwhile, and nobody waits any more.
        let answer = move |result| drop(reply.send(Reply { key, result }));
        if self.consulting.is_outpaced(self.ports.host.monotonic()) {
            self.consulting.unused.clear();
            return answer(Err("the options changed faster than they were answered".to_owned()));
        }
        let (Some(settings), Some(server)) = (self.settings.expander.clone(), self.ports.expander.clone())
        else {
            return answer(Err("this operator cannot ask a server".to_owned()));
        };
        let question = question.clone();
        self.ports.host.spawn(async move { answer(server.best_options(&settings, &question).await) });
    }

    /// Takes in what a call came to; the next plan is made with it.
    pub(super) fn note_reply(&mut self, reply: Reply) {
        let Reply { key, result } = reply;
        if self.consulting.asked.take_if(|asked| *asked == key).is_none() {
            // It was asked with other settings.
            return;
        }
        let now = self.ports.host.now();
        let mut known = self.world.expander().clone();
        match result {
            Ok(BestOptions { kept, is_empty }) => {
                let options = kept.join(", ");
                info!(question = %key, options, "the server of expander Grpc has answered");
                self.consulting.answered(key.clone(), self.ports.host.monotonic());
                known.silence = None;
                known.answers.insert(key, ExpanderAnswer { at: now, kept, is_empty });
            }
            Err(problem) => {
                let length = self.consulting.failed();
                let message: Arc<str> = cut(&printable::line(&problem), MESSAGE_MAX).into();
                if self.consulting.logged.due(&message, now) {
                    warn!(problem = %message, "the server of expander Grpc has not answered");
                }
                known.silence = Some(ExpanderSilence { until: now.plus(length), message });
            }
        }
        self.world.apply(Delta::ExpanderAnswered(Box::new(known)));
    }

    /// Forgets answers by age, and all when the server is another.
    pub(super) fn forget_answers(&mut self, now: UnixTime) {
        let mut known = self.world.expander().clone();
        if self.consulting.settings != self.settings.expander {
            self.consulting.settings.clone_from(&self.settings.expander);
            (self.consulting.asked, self.consulting.failures) = (None, 0);
            self.consulting.unused.clear();
            known = ExpanderAnswers::default();
        }
        known.forget(now);
        if known != *self.world.expander() {
            self.world.apply(Delta::ExpanderAnswered(Box::new(known)));
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests have no host")]
mod tests {
    use super::*;

    #[test]
    fn third_failure_in_a_row_is_waited_for_longer_and_an_answer_ends_the_row() {
        let mut consulting = Consulting::new();
        let silences = [(); 4].map(|()| consulting.failed());
        assert_eq!(silences, [SILENCE, SILENCE, LONG_SILENCE, LONG_SILENCE]);
        consulting.answered("a".into(), Instant::now());
        assert_eq!(consulting.failed(), SILENCE);
    }

    #[test]
    fn options_that_change_faster_than_answers_come_are_not_asked_about() {
        let mut consulting = Consulting::new();
        let start = Instant::now();
        for (key, second) in [("a", 0), ("b", 1), ("c", 2)] {
            assert!(!consulting.is_outpaced(start + Duration::from_secs(second)));
            consulting.answered(key.into(), start + Duration::from_secs(second));
        }
        assert!(consulting.is_outpaced(start + Duration::from_secs(9)));
        assert!(!consulting.is_outpaced(start + Duration::from_secs(10)), "the first one is long ago");
    }

    #[test]
    fn answer_that_a_plan_has_used_shows_that_answers_keep_up() {
        let mut consulting = Consulting::new();
        let now = Instant::now();
        ["a", "b", "c"].into_iter().for_each(|key| consulting.answered(key.into(), now));
        consulting.used(&["other".into()]);
        assert!(consulting.is_outpaced(now));
        consulting.used(&["b".into()]);
        assert!(!consulting.is_outpaced(now));
    }
}
