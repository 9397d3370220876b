//! Decides whether the operator runs an HPA: it is configured to, and nobody else does. Pure.
//!
//! Another controller that runs an HPA does not show while nothing changes: the controller-manager's HPA controller
//! writes the status only when it would change it. So the operator asks: it sets `status.observedGeneration` to
//! [`QUESTION`], which no status of that controller has: up to Kubernetes 1.36 it leaves the field out, and since 1.37 it sets the
//! generation of the spec. If that controller still runs, its next evaluation takes the question away, whatever the metrics are.
//! If the question stands for two sync periods, no other controller runs the HPA. From then on the operator writes the generation
//! there. A controller that is switched on later takes that away, or writes conditions in its own words, within one of its periods.
//!
//! The question's standing is known from a watch, and a watch may be silent: before the operator begins to run an HPA
//! it writes the field once more, in the version that it knows. The API server refuses that where anybody has written
//! since.
//!
//! Source: podautoscaler/horizontal.go, setStatus and updateStatusIfNeeded.

use headroom_core::time::{Seconds, UnixTime};

use crate::actuate::scale::{FIELD_MANAGER, RUN_HPAS};
use headroom_api::HpaOwnership;
use headroom_api::conditions::reasons;
use headroom_observe::{HpaObject, Writer};
use headroom_report::HpaOwned;

/// The value of `status.observedGeneration` that asks who runs an HPA. Generations begin at 1.
pub(super) const QUESTION: i64 = 0;
/// Once somebody has taken the question away, it must stand at least this long: their period may be longer than ours …
const ANSWERED_MIN: Seconds = Seconds(10);
/// … and at most this long, however often they did.
const STANDS_MAX: Seconds = Seconds(300);

/// Progress of the question whether any other controller runs the HPA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not asked yet, or answered.
    #[default]
    Open,
    /// Not asked, for nobody has ever written its status and nobody runs the other HPAs: the operator's own first write asks.
    Trusted,
    /// The question stands since then.
    Asked(UnixTime),
    /// It has stood long enough: the operator runs the HPA.
    Alone,
}

/// The question of one HPA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Question {
    /// Progress.
    pub stage: Stage,
    /// Number of times that another writer took the question, or the generation, away since the process started, and the last time.
    answers: Option<(u32, UnixTime)>,
}

impl Question {
    /// As it was before a restart: the report in the policy's status on who ran the HPA.
    #[must_use]
    pub(super) fn restored(owned: bool) -> Self {
        Self { stage: if owned { Stage::Alone } else { Stage::Open }, answers: None }
    }

    /// Time that the question must stand, and the pause after it was taken away.
    fn length(self, quiet: Seconds) -> Seconds {
        let Some((count, _)) = self.answers else { return quiet };
        let doubled = quiet.0.max(ANSWERED_MIN.0).saturating_mul(1 << count.saturating_sub(1).min(5));
        Seconds(doubled.min(STANDS_MAX.0).max(quiet.0))
    }
}

impl Stage {
    /// True if the operator begins to run an HPA by what it was shown, `before` being the stage of the evaluation before.
    #[must_use]
    pub(super) fn begins(self, before: Self) -> bool {
        match before {
            Self::Open | Self::Asked(_) => self == Self::Alone,
            // Its own write has the generation, or it runs the HPA already.
            Self::Trusted | Self::Alone => false,
        }
    }
}

/// Writers of an HPA's status.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StatusWriters<'a> {
    /// `status.observedGeneration`, as stored; `None` where it is not there.
    pub observed_generation: Option<i64>,
    /// True if our own last write has not been observed yet: it set the field.
    pub ahead: bool,
    /// Time at which we last wrote its status.
    pub ours_at: Option<UnixTime>,
    /// The last other writer of its status.
    pub other: Option<&'a Writer>,
}

impl<'a> StatusWriters<'a> {
    /// Reads the writers from `hpa`; `ahead` if our own last write has not been observed yet.
    #[must_use]
    pub(super) fn of(hpa: &'a HpaObject, ahead: bool) -> Self {
        let ours = |writer: &&Writer| &*writer.manager == FIELD_MANAGER;
        let writers = || hpa.status_writers.iter();
        Self {
            observed_generation: hpa.observed_generation,
            ahead,
            ours_at: writers().filter(ours).map(|writer| writer.at).max(),
            other: writers().filter(|writer| !ours(writer)).max_by_key(|writer| writer.at),
        }
    }
}

impl StatusWriters<'_> {
    /// True if what the operator wrote at this stage stands: a generation while it runs the HPA, and the question else.
    fn stands(&self, stage: Stage) -> bool {
        self.ahead
            || match stage {
                Stage::Trusted | Stage::Alone => self.observed_generation.is_some(),
                Stage::Open | Stage::Asked(_) => self.observed_generation == Some(QUESTION),
            }
    }
}

/// Circumstances that are the same for all HPAs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances {
    /// Controller that is configured to run HPAs.
    pub configured: HpaOwnership,
    /// Period of the evaluations of each workload.
    pub sync_period: Seconds,
    /// True if the operator may write the HPA's status: not in modes Preview and Suspend.
    pub writes: bool,
    /// True if the question has stood in another HPA long enough: then no HPA controller that runs all HPAs is there.
    pub nobody_elsewhere: bool,
    /// Now.
    pub now: UnixTime,
}

/// The answer of one evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnershipDecision {
    /// Controller that runs the HPA, for the policy's condition.
    pub owned: HpaOwned,
    /// True if the question is to be set now.
    pub ask: bool,
}

/// Decides who runs an HPA, and brings the question of it up to date.
///
/// An HPA whose status somebody else has written within two sync periods is left to them.
#[must_use]
pub(super) fn decide(
    question: &mut Question,
    writers_seen: &StatusWriters<'_>,
    around: &Circumstances,
) -> OwnershipDecision {
    if around.configured == HpaOwnership::Observe {
        *question = Question::default();
        let message = "workloads.hpaOwnership is Observe: the controller-manager runs the HPA; this status shows what \
                       the operator would do";
        return left(reasons::OBSERVED, message.to_owned());
    }
    let quiet = Seconds(around.sync_period.0.saturating_mul(2));
    let stands = writers_seen.stands(question.stage);
    let taken_away = !stands && matches!(question.stage, Stage::Asked(_) | Stage::Alone);
    if taken_away {
        let count = question.answers.map_or(0, |(count, _)| count).saturating_add(1);
        *question = Question { stage: Stage::Open, answers: Some((count, around.now)) };
    }
    if let Some((_, at)) = question.answers.filter(|_| !stands) {
        let again = at.plus(question.length(quiet));
        if around.now < again {
            question.stage = Stage::Open;
            return left(reasons::ANOTHER_WRITER, taken(writers_seen, at, again));
        }
    }
    if let Some(writer) = writers_seen.other.filter(|writer| around.now.since(writer.at) < quiet) {
        question.stage = Stage::Open;
        return left(reasons::ANOTHER_WRITER, written_by(writer));
    }
    if !around.writes {
        return owned();
    }
    if stands {
        phase(question, writers_seen, quiet, around.now)
    } else {
        missing(question, writers_seen, quiet, around)
    }
}

/// What the operator wrote stands: the time since which, and whether that is long enough.
fn phase(
    question: &mut Question,
    writers_seen: &StatusWriters<'_>,
    quiet: Seconds,
    now: UnixTime,
) -> OwnershipDecision {
    let since = match question.stage {
        Stage::Alone | Stage::Trusted => {
            question.stage = Stage::Alone;
            return owned();
        }
        Stage::Asked(since) => since,
        // Set before a restart, or before another writer was seen.
        Stage::Open => writers_seen
            .other
            .map_or(writers_seen.ours_at, |other| writers_seen.ours_at.max(Some(other.at)))
            .unwrap_or(now)
            .min(now),
    };
    let until = since.plus(question.length(quiet));
    if until <= now {
        question.stage = Stage::Alone;
        return owned();
    }
    question.stage = Stage::Asked(since);
    left(reasons::TAKEOVER_PENDING, pending(until))
}

/// The question is not there: whether it is time to set it.
fn missing(
    question: &mut Question,
    writers_seen: &StatusWriters<'_>,
    quiet: Seconds,
    around: &Circumstances,
) -> OwnershipDecision {
    let untouched = writers_seen.other.is_none() && writers_seen.ours_at.is_none();
    if untouched && question.answers.is_none() && around.nobody_elsewhere {
        question.stage = Stage::Trusted;
        return owned();
    }
    question.stage = Stage::Asked(around.now);
    let until = around.now.plus(question.length(quiet));
    OwnershipDecision { ask: true, ..left(reasons::TAKEOVER_PENDING, pending(until)) }
}

fn taken(writers_seen: &StatusWriters<'_>, at: UnixTime, again: UnixTime) -> String {
    let who = writers_seen.other.map_or("somebody else", |writer| &*writer.manager);
    format!(
        "{who} changed observedGeneration in the status of the HPA before {at}, as the controller-manager's HPA controller \
         does at each look: switch that off (--controllers=*,-horizontal-pod-autoscaler-controller); the operator asks again \
         at {again}"
    )
}

fn written_by(writer: &Writer) -> String {
    format!(
        "{} wrote the status of the HPA at {}: switch its HPA controller off \
         (--controllers=*,-horizontal-pod-autoscaler-controller); the operator takes over once nobody else writes",
        writer.manager, writer.at
    )
}

fn pending(until: UnixTime) -> String {
    format!(
        "the operator has set observedGeneration to 0 in the status of the HPA and runs it from {until} on, unless somebody \
         changes that, as a controller-manager does that still runs HPAs"
    )
}

/// The question stands by the watch, and the API server has not confirmed it.
#[must_use]
pub(super) fn unconfirmed() -> HpaOwned {
    let message = "the operator runs the HPA once the API server has confirmed that nobody has written its status meanwhile";
    left(reasons::TAKEOVER_PENDING, message.to_owned()).owned
}

/// The operator may not write the status of HPAs.
#[must_use]
pub(super) fn not_permitted(answer: &str) -> HpaOwned {
    let message = format!("{answer}: {RUN_HPAS}");
    left(reasons::PERMISSION_MISSING, message).owned
}

fn left(reason: &'static str, message: String) -> OwnershipDecision {
    OwnershipDecision { owned: HpaOwned { owned: false, reason, message }, ask: false }
}

fn owned() -> OwnershipDecision {
    let message = "workloads.hpaOwnership is Replace: the operator runs the HPA";
    OwnershipDecision {
        owned: HpaOwned { owned: true, reason: reasons::REPLACED, message: message.to_owned() },
        ask: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: UnixTime = UnixTime(1_800_000_000);

    /// An HPA, its question and the clock; evaluations come each 15 s.
    struct Bench {
        question: Question,
        observed_generation: Option<i64>,
        /// What the other controller has there.
        other_leaves: Option<i64>,
        ours_at: Option<UnixTime>,
        other: Option<Writer>,
        around: Circumstances,
    }

    impl Bench {
        fn new() -> Self {
            let around = Circumstances {
                configured: HpaOwnership::Replace,
                sync_period: Seconds(15),
                writes: true,
                nobody_elsewhere: false,
                now: START,
            };
            Self {
                question: Question::default(),
                observed_generation: None,
                other_leaves: None,
                ours_at: None,
                other: None,
                around,
            }
        }

        /// An HPA of Kubernetes 1.37, whose controller sets the generation.
        fn of_1_37() -> Self {
            Self { other_leaves: Some(1), ..Self::new() }
        }

        /// Somebody else wrote its status so long ago.
        fn written_by_other(mut self, seconds_ago: i64) -> Self {
            self.other_writes(-seconds_ago);
            self
        }

        fn other_writes(&mut self, in_seconds: i64) {
            let at = self.around.now.plus(Seconds(in_seconds));
            self.other = Some(Writer { manager: "kube-controller-manager".into(), at });
            self.observed_generation = self.other_leaves;
        }

        fn evaluate(&mut self) -> (&'static str, bool) {
            let writers_seen = StatusWriters {
                observed_generation: self.observed_generation,
                ahead: false,
                ours_at: self.ours_at,
                other: self.other.as_ref(),
            };
            let decision = decide(&mut self.question, &writers_seen, &self.around);
            if decision.ask || decision.owned.owned && self.around.writes {
                let value = if decision.ask { QUESTION } else { 1 };
                (self.observed_generation, self.ours_at) = (Some(value), Some(self.around.now));
            }
            (decision.owned.reason, decision.ask)
        }

        fn look_after(&mut self, seconds: i64) -> (&'static str, bool) {
            self.around.now = self.around.now.plus(Seconds(seconds));
            self.evaluate()
        }
    }

    #[test]
    fn observed_hpas_are_neither_asked_nor_run() {
        let mut bench = Bench::new();
        bench.around.configured = HpaOwnership::Observe;
        assert_eq!(bench.evaluate(), (reasons::OBSERVED, false));
    }

    #[test]
    fn an_hpa_whose_status_somebody_writes_is_left_to_them_and_not_even_asked() {
        let mut bench = Bench::new().written_by_other(29);
        assert_eq!(bench.evaluate(), (reasons::ANOTHER_WRITER, false));
        bench.other_writes(10);
        assert_eq!(bench.look_after(15), (reasons::ANOTHER_WRITER, false));
        assert_eq!(bench.look_after(30), (reasons::TAKEOVER_PENDING, true));
    }

    #[test]
    fn a_controller_that_writes_nothing_while_nothing_changes_is_found_and_never_run_beside() {
        for mut bench in [Bench::new(), Bench::of_1_37()].map(|bench| bench.written_by_other(3_600)) {
            assert_eq!(bench.evaluate(), (reasons::TAKEOVER_PENDING, true));
            // Its next look takes the question away, which the time of a later write shows for two periods.
            bench.other_writes(14);
            assert_eq!(bench.look_after(15), (reasons::ANOTHER_WRITER, false));
            // For a whole day it is asked again now and then and never run.
            let mut asked = 0;
            for _ in 0..5_760 {
                let (reason, ask) = bench.look_after(15);
                assert_ne!(reason, reasons::REPLACED);
                if ask {
                    asked += 1;
                    bench.other_writes(14);
                }
            }
            assert!((100..=300).contains(&asked), "asked {asked} times in a day");
        }
    }

    #[test]
    fn an_hpa_is_run_once_the_question_has_stood_for_two_periods() {
        let mut bench = Bench::new().written_by_other(3_600);
        assert_eq!(bench.evaluate(), (reasons::TAKEOVER_PENDING, true));
        assert_eq!(bench.look_after(29), (reasons::TAKEOVER_PENDING, false));
        assert_eq!(bench.look_after(1), (reasons::REPLACED, false));
        assert_eq!(bench.look_after(15), (reasons::REPLACED, false));
    }

    #[test]
    fn a_takeover_begins_once_and_not_where_the_own_write_asks() {
        let mut bench = Bench::new();
        let mut before = bench.question.stage;
        let mut begun = Vec::new();
        for _ in 0..5 {
            bench.look_after(15);
            begun.push(bench.question.stage.begins(before));
            before = bench.question.stage;
        }
        assert_eq!(begun, [false, false, true, false, false]);
        // After a restart the field has stood for long, by a list that may be old.
        let asked = bench.question.stage;
        assert!(asked.begins(Stage::Open));
        assert!(!asked.begins(Stage::Trusted));
    }

    #[test]
    fn a_controller_that_is_switched_on_later_takes_the_hpa_back() {
        for mut bench in [Bench::new(), Bench::of_1_37()] {
            bench.evaluate();
            assert_eq!(bench.look_after(30), (reasons::REPLACED, false));
            bench.other_writes(5);
            assert_eq!(bench.look_after(15), (reasons::ANOTHER_WRITER, false));
            // It writes nothing more, for nothing changes: only the question shows that it is there.
            assert_eq!(bench.look_after(60), (reasons::TAKEOVER_PENDING, true));
            bench.other_writes(1);
            assert_eq!(bench.look_after(15), (reasons::ANOTHER_WRITER, false));
        }
    }

    #[test]
    fn a_restart_neither_asks_again_nor_forgets_since_when_the_question_stands() {
        let mut bench = Bench::new();
        bench.evaluate();
        bench.look_after(30);
        bench.question = Question::restored(true);
        assert_eq!(bench.look_after(15), (reasons::REPLACED, false));
        let mut asked = Bench::new();
        asked.evaluate();
        asked.question = Question::restored(false);
        assert_eq!(asked.look_after(29), (reasons::TAKEOVER_PENDING, false));
        assert_eq!(asked.look_after(1), (reasons::REPLACED, false));
    }

    #[test]
    fn a_new_hpa_is_run_at_once_where_nobody_runs_the_others() {
        let mut bench = Bench::new();
        bench.around.nobody_elsewhere = true;
        assert_eq!(bench.evaluate(), (reasons::REPLACED, false));
        assert_eq!(bench.look_after(15), (reasons::REPLACED, false));
        let mut old = Bench::new().written_by_other(3_600);
        old.around.nobody_elsewhere = true;
        assert_eq!(old.evaluate(), (reasons::TAKEOVER_PENDING, true));
    }

    #[test]
    fn a_period_longer_than_ours_is_learned_from_the_first_answer() {
        let mut bench = Bench::new().written_by_other(3_600);
        bench.around.sync_period = Seconds(1);
        bench.evaluate();
        assert_eq!(bench.look_after(2), (reasons::REPLACED, false));
        bench.other_writes(0);
        bench.look_after(1);
        // From now on the field must stand for longer and longer.
        assert_eq!(bench.look_after(10), (reasons::TAKEOVER_PENDING, true));
        bench.other_writes(8);
        bench.look_after(9);
        assert_eq!(bench.look_after(20), (reasons::TAKEOVER_PENDING, true));
        assert_eq!(bench.look_after(19), (reasons::TAKEOVER_PENDING, false));
    }

    #[test]
    fn nothing_is_asked_of_an_hpa_that_is_not_to_be_written() {
        let mut bench = Bench::new().written_by_other(3_600);
        bench.around.writes = false;
        assert_eq!(bench.evaluate(), (reasons::REPLACED, false));
        assert_eq!(bench.observed_generation, None);
    }
}
