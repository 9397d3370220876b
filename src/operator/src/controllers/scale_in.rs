//! Where the loop of workloads asks that of nodes which pods should go. It holds no rule of its own, and writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headroom_core::scale_in::{Choice, LeftAlone, ScaleIn, choose};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use tokio::sync::{Notify, oneshot};

use headroom_observe::host::Host;

/// Longest wait for the loop of nodes: replicas are not kept for longer because a cloud is slow.
const ANSWER_DEADLINE: Duration = Duration::from_secs(3);
/// How long a pod that was sent away counts as gone while it still shows: the ReplicaSet controller has taken it by then.
const SENT_AWAY_FOR: Seconds = Seconds(60);

/// What comes of one question.
pub type Answer = Result<Choice, LeftAlone>;

/// Where questions wait for the loop of nodes.
#[derive(Debug, Default)]
pub struct ScaleIns {
    state: Mutex<State>,
    wake_up: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<(ScaleIn, oneshot::Sender<Answer>)>,
    /// Unique ids of pods of earlier answers, and until when each counts as gone. Workloads that shrink together see one
    /// another's choices by it, and empty the same nodes.
    sent_away: BTreeMap<Arc<str>, UnixTime>,
}

impl ScaleIns {
    /// Which pods should go; `None` when the loop of nodes does not come to answer, or does not lead.
    pub async fn ask(&self, host: &Host, scale_in: ScaleIn) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        self.state().waiting.push((scale_in, answer));
        self.wake_up.notify_one();
        tokio::select! {
            biased;
            answer = answered => answer.ok(),
            () = host.sleep(ANSWER_DEADLINE) => None,
        }
    }

    /// Resolves when somebody asks. One loop waits.
    pub(super) async fn asked(&self) {
        self.wake_up.notified().await;
    }

    /// Answers all who wait, together: workloads that shrink at one time empty the same nodes.
    pub(super) fn answer(&self, world: &World, now: UnixTime) {
        let mut state = self.state();
        if state.waiting.is_empty() {
            return;
        }
        state.sent_away.retain(|_, until| now < *until);
        let (questions, answers): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.waiting).into_iter().filter(|(_, answer)| !answer.is_closed()).unzip();
        let leaving: BTreeSet<Arc<str>> = state.sent_away.keys().cloned().collect();
        let choices = choose(world, &questions, &leaving, now);
        for (choice, answer) in choices.into_iter().zip(answers) {
            let going = choice.iter().flat_map(|choice| choice.going.iter().cloned());
            state.sent_away.extend(going.map(|uid| (uid, now.plus(SENT_AWAY_FOR))));
            // Whoever has gone away in the meantime is not answered.
            let _ = answer.send(choice);
        }
    }

    /// Lets all who wait go without an answer.
    pub(super) fn send_away(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_waits_for_a_loop_that_does_not_lead() {
        let (scale_ins, host) = (Arc::new(ScaleIns::default()), Host::machine());
        let asked = scale_ins.clone();
        let (answer, ()) = tokio::join!(asked.ask(&host, ScaleIn::default()), async {
            scale_ins.asked().await;
            scale_ins.send_away();
        });
        assert_eq!(answer, None);
    }

    #[tokio::test]
    async fn question_is_answered_from_the_world() {
        let (scale_ins, host) = (Arc::new(ScaleIns::default()), Host::machine());
        let asked = scale_ins.clone();
        let (answer, ()) = tokio::join!(asked.ask(&host, ScaleIn::default()), async {
            scale_ins.asked().await;
            scale_ins.answer(&World::new(), UnixTime(1));
        });
        assert_eq!(answer, Some(Ok(Choice::default())));
    }
}
