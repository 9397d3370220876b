//! Pause of one kind before its next call: after failures, and after watches that end at once. It holds no clock and
//! draws no jitter, so that equal seeds give equal simulations.

use std::time::Duration;

use headroom_core::time::Seconds;

/// First pause after a failure; doubles up to [`PAUSE_MAX`]. The values of client-go's reflector.
const PAUSE_MIN: Duration = Duration::from_millis(800);
/// Longest pause after a failure.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Longest pause after a server has shed our load: it is well, and only busy.
const SHED_PAUSE_MAX: Duration = Duration::from_secs(4);
/// Between two kinds after that. All kinds begin together; asking together again, most would be refused together again.
const STAGGER: Duration = Duration::from_millis(100);
/// A watch that lasted so long ends the series of failures.
const STABLE_AFTER: Seconds = Seconds(2);

/// Reason why the next call has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server sheds load.
    Shed,
    /// Anything else.
    Trouble,
}

/// The pauses of one kind.
#[derive(Debug)]
pub(super) struct Pace {
    next: Duration,
    stagger: Duration,
    due: Option<Failure>,
}

impl Pace {
    /// Of the kind at `place` among those that are watched.
    pub(super) fn new(place: usize) -> Self {
        let stagger = STAGGER * u32::try_from(place).unwrap_or_default();
        Self { next: PAUSE_MIN, stagger, due: None }
    }

    /// A call failed, or its answer was of no use. The first failure since the last pause counts.
    pub(super) fn failed(&mut self, failure: Failure) {
        self.due.get_or_insert(failure);
    }

    /// A watch is over after `lasted`; `orderly` if the server ended it. A server that ends watches at once is treated as
    /// one in trouble.
    pub(super) fn watch_over(&mut self, lasted: Seconds, orderly: bool) {
        let stable = STABLE_AFTER <= lasted;
        if stable {
            self.next = PAUSE_MIN;
        }
        if !(stable && orderly) {
            self.failed(Failure::Trouble);
        }
    }

    /// The pause before the next call; zero after a success.
    pub(super) fn take(&mut self) -> Duration {
        let Some(failure) = self.due.take() else { return Duration::ZERO };
        let pause = match failure {
            Failure::Shed => self.next.min(SHED_PAUSE_MAX) + self.stagger,
            Failure::Trouble => self.next,
        };
        self.next = (self.next * 2).min(PAUSE_MAX);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(pace: &mut Pace, count: usize, mut failing: impl FnMut(&mut Pace)) -> Vec<u128> {
        let mut pause = |_| {
            failing(pace);
            pace.take().as_millis()
        };
        (0..count).map(&mut pause).collect()
    }

    #[test]
    fn pauses_double_up_to_half_a_minute_and_a_success_needs_none() {
        let mut pace = Pace::new(0);
        let trouble = |pace: &mut Pace| pace.failed(Failure::Trouble);
        assert_eq!(pauses(&mut pace, 7, trouble), [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000]);
        assert_eq!(pace.take(), Duration::ZERO);
    }

    #[test]
    fn a_server_that_sheds_load_is_asked_again_soon_and_one_kind_after_the_other() {
        let shed = |pace: &mut Pace| pace.failed(Failure::Shed);
        assert_eq!(pauses(&mut Pace::new(0), 5, shed), [800, 1_600, 3_200, 4_000, 4_000]);
        assert_eq!(pauses(&mut Pace::new(3), 2, shed), [1_100, 1_900]);
    }

    #[test]
    fn watches_that_end_at_once_are_opened_ever_more_slowly_and_lasting_ones_at_once() {
        let mut pace = Pace::new(0);
        let at_once = |pace: &mut Pace| pace.watch_over(Seconds(1), true);
        assert_eq!(pauses(&mut pace, 3, at_once), [800, 1_600, 3_200]);
        assert_eq!(pauses(&mut pace, 2, |pace| pace.watch_over(Seconds(40), true)), [0, 0]);
        assert_eq!(pauses(&mut pace, 2, |pace| pace.watch_over(Seconds(45), false)), [800, 800]);
    }

    #[test]
    fn one_failure_is_one_pause_however_often_it_is_noted() {
        let mut pace = Pace::new(0);
        pace.failed(Failure::Shed);
        pace.failed(Failure::Trouble);
        assert_eq!(pace.take(), PAUSE_MIN);
        assert_eq!(pace.take(), Duration::ZERO);
    }
}
