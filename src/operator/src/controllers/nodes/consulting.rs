//! How the node loop asks the server of expander `Grpc`: beside the loop, one question at a time. Answers go into the world,
//! and the next plan uses them.

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

/// How long the rest of the chain decides after a call without an answer: as long as one loop of Cluster Autoscaler.
const SILENCE: Seconds = Seconds(10);
/// The same after [`FAILURES_MAX`] such calls, one after the other.
const LONG_SILENCE: Seconds = Seconds(60);
const FAILURES_MAX: u32 = 3;
/// Most answers within [`UNUSED_WITHIN`] that no plan has used, since the options had changed before they came.
const UNUSED_MAX: usize = 3;
const UNUSED_WITHIN: Duration = Duration::from_secs(10);
/// Longest words of a server that are kept, in characters.
const MESSAGE_MAX: usize = 120;

/// What one call came to.
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
    /// When answers came that no plan has used yet.
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
                self.consulting.failures = 0;
                self.consulting.logged.over();
                let options = kept.join(", ");
                info!(question = %key, options, "the server of expander Grpc has answered");
                self.consulting.unused.push((key.clone(), self.ports.host.monotonic()));
                known.silence = None;
                known.answers.insert(key, ExpanderAnswer { at: now, kept, is_empty });
            }
            Err(problem) => {
                self.consulting.failures += 1;
                let length = if FAILURES_MAX <= self.consulting.failures { LONG_SILENCE } else { SILENCE };
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
