//! Questions of the workload loop to the node loop for the pods that should go. It holds no rule of its own, and writes
//! nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headroom_core::scale_in::{Choice, LeftAlone, ScaleIn, choose};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::World;
use tokio::sync::{Notify, oneshot};

use headroom_observe::host::Host;

/// Longest wait for the loop of nodes: replicas are not kept for longer because a cloud is slow.
const ANSWER_DEADLINE: Duration = Duration::from_secs(3);
/// Time that a pod that was sent away counts as gone while it still shows. Its cost is written, the size after it, and the
/// ReplicaSet controller deletes at most 500 pods at a time: by then it has taken it.
const SENT_AWAY_FOR: Seconds = Seconds(120);

/// Answer to one question.
pub type Answer = Result<Choice, LeftAlone>;

/// Queue of questions for the node loop.
#[derive(Debug, Default)]
pub struct ScaleIns {
    waiting: Mutex<Vec<(ScaleIn, oneshot::Sender<Answer>)>>,
    wake_up: Notify,
}

impl ScaleIns {
    /// Returns the pods that should go; `None` when the node loop does not answer in time, or does not lead.
    pub async fn ask(&self, host: &Host, scale_in: ScaleIn) -> Option<Answer> {
        let (answer, answered) = oneshot::channel();
        self.waiting().push((scale_in, answer));
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

    /// Answers all who wait, together: workloads that shrink at one time empty the same nodes. The world remembers for a while
    /// which pods go, so that workloads that follow empty the same nodes too, and no node is drained meanwhile for what is about
    /// to change.
    pub(super) fn answer(&self, world: &mut World, now: UnixTime) {
        let waiting = std::mem::take(&mut *self.waiting());
        let (questions, answers): (Vec<_>, Vec<_>) =
            waiting.into_iter().filter(|(_, answer)| !answer.is_closed()).unzip();
        if questions.is_empty() {
            return;
        }
        let choices = choose(world, &questions, now);
        for (choice, answer) in choices.into_iter().zip(answers) {
            if let Ok(choice) = &choice {
                world.send_away(&choice.going, now.plus(SENT_AWAY_FOR), now);
            }
            // Whoever has gone away in the meantime is not answered.
            let _ = answer.send(choice);
        }
    }

    /// Lets all who wait go without an answer.
    pub(super) fn send_away(&self) {
        self.waiting().clear();
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(ScaleIn, oneshot::Sender<Answer>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
            scale_ins.answer(&mut World::new(), UnixTime(1));
        });
        assert_eq!(answer, Some(Ok(Choice::default())));
    }
}
