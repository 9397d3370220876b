//! Invariants of every replica decision: nothing unknown lowers a size, bounds, determinism, memory that status holds.

use std::sync::Arc;

use headroom_core::deletion_cost::DeletionCost;
use headroom_core::pods::amount::Amount;
use headroom_core::pods::decision::{Branch, Decision, FallbackStep, WriteOutcome};
use headroom_core::pods::defaulting::defaulted;
use headroom_core::pods::formula::Formula;
use headroom_core::pods::input::{
    Answer, ContainerRequests, Input, Number, Options, PodPhase, PodRequests, PodSeen, PodValue,
    ReadyCondition, Sample, Scale, ScalerReading, Unknown,
};
use headroom_core::pods::memory::{Memory, parse, render};
use headroom_core::pods::moment::Moment;
use headroom_core::pods::schedules::{Bounds, Fallback, FallbackDirection, FallbackReplicas, Schedule};
use headroom_core::pods::spec::{
    Behavior, ExternalSource, HpaSpec, MetricIdentifier, MetricSpec, MetricTarget, PodsSource,
    ScaleTargetRef, ScalingPolicyRule, ScalingRules,
};
use headroom_core::pods::status::HpaStatus;
use headroom_core::pods::zero::{ZeroOwner, ZeroRules};
use headroom_core::pods::{after_write, decide, needs_metrics};
use headroom_core::quantity::Quantity;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::window::Window;
use proptest::prelude::*;

pub(crate) const START: UnixTime = UnixTime(1_794_830_400);

fn external(target: MetricTarget) -> MetricSpec {
    let metric = MetricIdentifier { name: "queue".into(), selector: None };
    let external = Some(ExternalSource { metric, target });
    MetricSpec { type_: "External".into(), external, ..MetricSpec::default() }
}

/// So many of the metric for each replica.
pub(crate) fn per_replica(milli: i64) -> MetricSpec {
    let average_value = Some(Amount::from_milli(milli));
    external(MetricTarget { type_: "AverageValue".into(), average_value, ..MetricTarget::default() })
}

/// So many of the metric for the whole workload.
pub(crate) fn in_all(milli: i64) -> MetricSpec {
    let value = Some(Amount::from_milli(milli));
    external(MetricTarget { type_: "Value".into(), value, ..MetricTarget::default() })
}

/// A workload and what is known of it; decisions follow one another.
pub(crate) struct Workload {
    pub spec: HpaSpec,
    pub options: Options,
    pub scale: Scale,
    pub status: HpaStatus,
    pub memory: Memory,
    pub schedules: Vec<Schedule>,
    pub fallback: Option<Fallback>,
    pub zero: Option<ZeroRules>,
    pub formula: Option<Formula>,
}

impl Workload {
    pub(crate) fn new(replicas: i32, metrics: Vec<MetricSpec>) -> Self {
        let scale_target_ref =
            ScaleTargetRef { api_version: "apps/v1".into(), kind: "Deployment".into(), name: "web".into() };
        let spec = HpaSpec { scale_target_ref, max_replicas: 100, metrics, ..HpaSpec::default() };
        Self {
            spec: defaulted(&spec),
            options: Options::default(),
            scale: Scale { spec_replicas: replicas, status_replicas: replicas, selector: "app=web".into() },
            status: HpaStatus::default(),
            memory: Memory::default(),
            schedules: Vec::new(),
            fallback: None,
            zero: None,
            formula: None,
        }
    }

    /// No stabilization window holds a decrease.
    pub(crate) fn at_once(mut self) -> Self {
        self.options.downscale_stabilization = Seconds(0);
        self.spec.behavior = Some(Behavior::default());
        self.spec = defaulted(&self.spec);
        self
    }

    pub(crate) fn decide(&self, second: i64, answers: &[Answer<'_>]) -> Decision {
        let pod = ready_pod();
        let pods: Vec<&PodSeen> = (0..self.scale.spec_replicas.clamp(0, 50)).map(|_| &pod).collect();
        decide(&self.input(second, &self.scale, &pods, answers))
    }

    /// What is decided on, with these pods and this scale in place of its own.
    pub(crate) fn input<'a>(
        &'a self,
        second: i64,
        scale: &'a Scale,
        pods: &'a [&'a PodSeen],
        answers: &'a [Answer<'a>],
    ) -> Input<'a> {
        Input {
            now: Moment::from(START.plus(Seconds(second))),
            options: &self.options,
            spec: &self.spec,
            schedules: &self.schedules,
            fallback: self.fallback.as_ref(),
            zero: self.zero.as_ref(),
            formula: self.formula.as_ref(),
            namespace: "prod",
            status: &self.status,
            memory: &self.memory,
            scale: Ok(scale),
            pods,
            rivals: &[],
            answers,
        }
    }

    /// Decides and writes the size; gives it.
    pub(crate) fn tick(&mut self, second: i64, answers: &[Answer<'_>]) -> i32 {
        let decision = self.decide(second, answers);
        if let Some(change) = &decision.rescale {
            self.scale.spec_replicas = change.to;
            self.scale.status_replicas = change.to;
        }
        let at = Moment::from(START.plus(Seconds(second)));
        let tick = after_write(decision, &WriteOutcome::Written { at });
        (self.status, self.memory) = (tick.status, tick.memory);
        self.scale.spec_replicas
    }
}

pub(crate) fn ready_pod() -> PodSeen {
    let long_ago = Moment::from(UnixTime(START.0 - 86_400));
    PodSeen {
        name: Arc::from("web-1"),
        phase: PodPhase::Running,
        deleting: false,
        started_at: Some(long_ago),
        ready: Some(ReadyCondition { ready: Some(true), transition_at: long_ago }),
        requests: Arc::new(PodRequests {
            containers: vec![ContainerRequests::default()],
            ..PodRequests::default()
        }),
        deletion_cost: DeletionCost::Unset,
    }
}

pub(crate) fn value(milli: i64) -> Answer<'static> {
    Answer::External(vec![Sample::of(Quantity::from_milli(milli))])
}

fn number(number: f64) -> Answer<'static> {
    Answer::External(vec![Sample { value: Number::from_f64(number), at: None }])
}

fn outage() -> Answer<'static> {
    Answer::Unknown(Unknown::Failed("connection refused".into()))
}

/// An answer of an external scaler, with a target of its own.
fn scaler(milli: i64, target: Option<i64>) -> Answer<'static> {
    Answer::Scaler(ScalerReading {
        values: vec![Sample::of(Quantity::from_milli(milli))],
        target: target.map(Quantity::from_milli),
        active: Some(0 < milli),
    })
}

#[test]
fn the_target_of_an_external_scaler_counts_where_the_spec_has_none() {
    let own = |form: &str| external(MetricTarget { type_: form.into(), ..MetricTarget::default() });
    for (metric, answer, replicas) in [
        (own("AverageValue"), scaler(12_000, Some(2000)), 6),
        (own("Value"), scaler(12_000, Some(6000)), 6),
        (per_replica(4000), scaler(12_000, Some(2000)), 3),
        (per_replica(4000), scaler(12_000, None), 3),
        // Neither has one, and nothing is known: the size stays.
        (own("AverageValue"), scaler(12_000, None), 3),
        (own("AverageValue"), scaler(12_000, Some(0)), 3),
        (own("Value"), outage(), 3),
    ] {
        let mut workload = Workload::new(3, vec![metric.clone()]).at_once();
        assert_eq!(workload.tick(0, std::slice::from_ref(&answer)), replicas, "{metric:?} {answer:?}");
    }
}

/// Everything that shows nothing about the load.
fn nothing_known() -> impl Strategy<Value = Answer<'static>> {
    prop_oneof![
        Just(outage()),
        Just(Answer::Unknown(Unknown::Empty)),
        Just(Answer::External(Vec::new())),
        Just(Answer::Unknown(Unknown::Stale(Moment::default()))),
        Just(Answer::Unknown(Unknown::Absurd("NaN".into()))),
        Just(number(f64::NAN)),
        Just(Answer::Scaler(ScalerReading { values: Vec::new(), target: None, active: Some(false) })),
        Just(number(f64::INFINITY)),
        Just(number(f64::NEG_INFINITY)),
        Just(Answer::External(vec![Sample {
            value: Number::Quantity(Quantity::from_units(0)),
            at: Some(START.plus(Seconds(-3600)).into()),
        }])),
    ]
}

proptest! {
    #[test]
    fn nothing_unknown_or_absurd_lowers_a_size(
        answer in nothing_known(), replicas in 1_i32..100, per in any::<bool>(),
    ) {
        let metric = if per { per_replica(1000) } else { in_all(1000) };
        let mut workload = Workload::new(replicas, vec![metric]).at_once();
        for second in [0, 15, 3600] {
            prop_assert_eq!(workload.tick(second, std::slice::from_ref(&answer)), replicas);
        }
    }

    #[test]
    fn a_metric_that_is_unknown_beside_one_that_is_low_holds_the_size(answer in nothing_known()) {
        let mut workload = Workload::new(10, vec![per_replica(1000), per_replica(1000)]).at_once();
        prop_assert_eq!(workload.tick(0, &[value(1000), answer.clone()]), 10);
        prop_assert_eq!(workload.tick(600, &[answer, value(1000)]), 10);
    }

    #[test]
    fn any_quantity_gives_a_size_within_bounds_and_more_never_gives_less(
        small in any::<i64>(), large in any::<i64>(), target in any::<i64>(), replicas in 0_i32..1000,
        status_replicas in 0_i32..1000, per in any::<bool>(),
    ) {
        let metric = if per { per_replica(target) } else { in_all(target) };
        let mut workload = Workload::new(replicas, vec![metric]).at_once();
        workload.scale.status_replicas = status_replicas;
        let (small, large) = (small.min(large), small.max(large));
        let sizes = [small, large].map(|milli| workload.decide(0, &[value(milli)]).steps.desired);
        for size in sizes.into_iter().flatten().filter(|_| replicas > 0) {
            prop_assert!((1..=100).contains(&size));
        }
        // Beyond 32 bits the reference proposes the smallest number there is.
        let beyond = i128::from(i32::MAX) * i128::from(target) < i128::from(large) * i128::from(replicas.max(1));
        let compared = 0 <= small && replicas == status_replicas && !beyond;
        if let ([Some(less), Some(more)], true) = (sizes, compared) {
            prop_assert!(less <= more, "{small} gives {less}, {large} gives {more}");
        }
    }

    #[test]
    fn sums_that_run_over_grow_the_size(extra in 0_i64..i64::MAX - 1) {
        let workload = Workload::new(10, vec![per_replica(1000)]).at_once();
        let samples = [i64::MAX - 1, extra, i64::MAX - 1].map(|milli| Sample::of(Quantity::from_milli(milli)));
        let decision = workload.decide(0, &[Answer::External(samples.to_vec())]);
        prop_assert_eq!(decision.steps.desired, Some(20));
    }

    #[test]
    fn memory_is_what_status_holds_and_decisions_repeat(
        loads in proptest::collection::vec(0_i64..60, 1..60), behaves in any::<bool>(),
    ) {
        let mut workload = Workload::new(10, vec![per_replica(1000)]);
        if behaves {
            workload.spec.behavior = Some(Behavior::default());
            workload.spec = defaulted(&workload.spec);
        }
        for (tick, load) in (0_i64..).zip(loads) {
            let answers = [value(load * 1000)];
            let decision = workload.decide(tick * 15, &answers);
            prop_assert_eq!(&workload.decide(tick * 15, &answers), &decision);
            let stored = render(&decision.journal);
            prop_assert_eq!(parse(&stored), decision.journal);
            let text = serde_json::to_string(&stored).unwrap();
            prop_assert_eq!(serde_json::from_str::<headroom_core::pods::memory::StoredMemory>(&text).unwrap(), stored);
            // A process that restarts here, from what was stored, decides what a live one would.
            workload.tick(tick * 15, &answers);
            workload.memory = parse(&render(&workload.memory));
        }
    }
}

#[test]
fn the_change_is_journaled_before_the_write_and_taken_back_when_it_fails() {
    let workload = Workload::new(10, vec![per_replica(1000)]).at_once();
    let decision = workload.decide(0, &[value(15_000)]);
    assert_eq!(decision.journal.up_events.len(), 1);
    let failed = after_write(decision.clone(), &WriteOutcome::Failed { message: "forbidden".into() });
    assert!(failed.memory.up_events.is_empty());
    assert_eq!(failed.status.desired_replicas, 0);
    // The change counts from the instant at which it was made.
    let at = Moment::from(START.plus(Seconds(3)));
    let mut made = decision.journal.clone();
    made.up_events[0].at = at;
    assert_eq!(after_write(decision, &WriteOutcome::Written { at }).memory, made);
}

fn fallback(count: i32, direction: FallbackDirection) -> Option<Fallback> {
    let replicas = FallbackReplicas::Replicas { count, direction };
    Some(Fallback { after: Seconds(180), replicas })
}

#[test]
fn the_fallback_begins_once_nothing_was_known_for_as_long_as_it_says() {
    let mut workload = Workload::new(10, vec![per_replica(1000)]).at_once();
    workload.fallback = fallback(15, FallbackDirection::Up);
    assert_eq!(workload.tick(0, &[value(10_000)]), 10);
    assert_eq!(workload.tick(15, &[outage()]), 10);
    assert_eq!(workload.tick(180, &[outage()]), 10);
    assert_eq!(workload.tick(195, &[outage()]), 15);
    // It is known again, and unknown again: the clock begins anew.
    assert_eq!(workload.tick(210, &[value(15_000)]), 15);
    workload.fallback = fallback(20, FallbackDirection::Up);
    assert_eq!(workload.tick(225, &[outage()]), 15);
}

#[test]
fn a_fallback_goes_down_only_where_it_says_so() {
    for (direction, size) in [(FallbackDirection::Up, 10), (FallbackDirection::Both, 4)] {
        let mut workload = Workload::new(10, vec![per_replica(1000)]).at_once();
        workload.fallback = fallback(4, direction);
        workload.tick(0, &[outage()]);
        assert_eq!(workload.tick(200, &[outage()]), size, "{direction:?}");
    }
}

#[test]
fn a_fallback_that_holds_says_so() {
    let mut workload = Workload::new(10, vec![per_replica(1000)]).at_once();
    workload.fallback = Some(Fallback { after: Seconds(60), replicas: FallbackReplicas::Hold });
    workload.tick(0, &[outage()]);
    let decision = workload.decide(60, &[outage()]);
    assert_eq!(decision.steps.fallback, Some(FallbackStep::Holding { since: START.into() }));
    assert_eq!((decision.rescale, decision.steps.branch), (None, Branch::Unknown));
}

#[test]
fn a_stale_sample_is_unknown_and_not_its_last_value() {
    let workload = Workload::new(10, vec![per_replica(1000)]).at_once();
    let taken = START.plus(Seconds(-301));
    let sample = Sample { value: Number::Quantity(Quantity::from_units(1)), at: Some(taken.into()) };
    let decision = workload.decide(0, &[Answer::External(vec![sample])]);
    assert_eq!(decision.steps.metrics[0].unknown, Some(Unknown::Stale(taken.into())));
    assert_eq!(decision.rescale, None);
}

#[test]
fn a_schedule_raises_the_size_and_gives_way_when_its_window_closes() {
    // START is a Monday at noon, in UTC.
    let window = Window::new("UTC", "30 11 * * 1-5", 3600).unwrap();
    let mut workload = Workload::new(3, vec![per_replica(1000)]).at_once();
    workload.schedules =
        vec![Schedule { name: "lunch".into(), window, min_replicas: Some(20), max_replicas: None }];
    assert_eq!(workload.tick(0, &[]), 20);
    assert_eq!(workload.tick(15, &[value(3000)]), 20);
    assert_eq!(workload.tick(1800, &[value(3000)]), 3);
}

#[test]
fn a_scheduled_floor_wakes_a_workload_that_may_be_at_zero_and_leaves_one_that_is_switched_off() {
    let window = Window::new("UTC", "30 11 * * 1-5", 3600).unwrap();
    let schedule = Schedule { name: "lunch".into(), window, min_replicas: Some(20), max_replicas: None };
    for (min, size) in [(0, 20), (1, 0)] {
        let mut workload = Workload::new(0, vec![per_replica(1000)]);
        workload.spec.min_replicas = Some(min);
        workload.schedules = vec![schedule.clone()];
        assert_eq!(workload.tick(0, &[value(0)]), size, "minReplicas {min}");
    }
}

#[test]
fn metrics_are_asked_for_only_at_sizes_at_which_they_decide() {
    let bounds = Bounds { min: 2, max: 5, active: Vec::new(), next_change: None, clamped: None };
    let spec = |min| HpaSpec { min_replicas: Some(min), max_replicas: 5, ..HpaSpec::default() };
    let reference = ZeroOwner::Reference;
    let asked = |min: i32, current: i32| needs_metrics(&spec(min), &bounds, current, reference);
    assert_eq!([1, 2, 5, 6].map(|current| asked(2, current)), [false, true, true, false]);
    assert!(!asked(1, 0), "a size of 0 switches scaling off");
    let from_zero = Bounds { min: 0, ..bounds.clone() };
    assert!(needs_metrics(&spec(0), &from_zero, 0, reference), "unless 0 is allowed");
    assert!(needs_metrics(&spec(0), &from_zero, 0, ZeroOwner::Operator), "the operator has set it to 0");
    assert!(!needs_metrics(&spec(0), &from_zero, 0, ZeroOwner::SomebodyElse), "it stays at 0");
    assert!(!asked(0, 0), "below min of a schedule");
}

/// Half again as much load as is wanted, as each kind of metric reports it, taken so many seconds ago.
fn half_more_load(kind: &str, age: i64) -> (MetricSpec, Answer<'static>) {
    let at = Some(Moment::from(START.plus(Seconds(-age))));
    let quantity = Quantity::from_milli(1500);
    let average_value = Some(Amount::from_milli(1000));
    let target = MetricTarget { type_: "AverageValue".into(), average_value, ..MetricTarget::default() };
    let metric = MetricIdentifier { name: "load".into(), selector: None };
    if kind == "Pods" {
        let value = Sample { value: Number::Quantity(quantity), at };
        let pods = Some(PodsSource { metric, target });
        let spec = MetricSpec { type_: "Pods".into(), pods, ..MetricSpec::default() };
        return (spec, Answer::Pods(vec![PodValue { pod: "web-1".into(), sample: value }]));
    }
    let sample = Sample { value: Number::Quantity(Quantity::from_milli(15_000)), at };
    let metric = if kind == "Value" { in_all(10_000) } else { per_replica(1000) };
    (metric, Answer::External(vec![sample]))
}

#[test]
fn samples_of_the_last_five_minutes_count_and_older_ones_are_ignored() {
    for kind in ["Pods", "External", "Value"] {
        let size = |age: i64| {
            let (metric, answer) = half_more_load(kind, age);
            Workload::new(10, vec![metric]).at_once().tick(0, &[answer])
        };
        assert_eq!((size(0), size(300), size(301)), (15, 15, 10), "{kind}");
    }
    let (metric, answer) = half_more_load("External", 0);
    let (Answer::External(mut both), (_, Answer::External(old))) = (answer, half_more_load("External", 9000))
    else {
        unreachable!("an external metric")
    };
    both.extend(old);
    let decision = Workload::new(10, vec![metric]).at_once().decide(0, &[Answer::External(both)]);
    assert_eq!(decision.rescale, None, "a sum that lacks a part is none");
}

#[test]
fn a_target_that_is_not_positive_proposes_nothing() {
    for milli in [0, -1000] {
        let (mut metric, answer) = half_more_load("Pods", 0);
        let pods = metric.pods.as_mut().expect("a metric of pods");
        pods.target.average_value = Some(Amount::from_milli(milli));
        let decision = Workload::new(10, vec![metric]).at_once().decide(0, &[answer]);
        assert!(matches!(decision.steps.metrics[0].unknown, Some(Unknown::Absurd(_))), "{milli}");
        assert_eq!(decision.rescale, None, "{milli}");
    }
}

#[test]
fn all_changes_of_a_period_count_against_its_rate() {
    // At most four pods a minute, either way; the metric asks for the size that is listed.
    let policies = vec![ScalingPolicyRule { type_: "Pods".into(), value: 4, period_seconds: 60 }];
    let rules = ScalingRules {
        stabilization_window_seconds: Some(0),
        policies: Some(policies),
        ..ScalingRules::default()
    };
    for (name, ticks) in [
        ("up", [(0, 23, 23), (15, 90, 24), (30, 90, 24), (45, 90, 24), (60, 90, 27), (75, 90, 28)]),
        ("down", [(0, 17, 17), (15, 1, 16), (30, 1, 16), (45, 1, 16), (60, 1, 13), (75, 1, 12)]),
    ] {
        let mut workload = Workload::new(20, vec![per_replica(1_000)]).at_once();
        workload.spec.behavior =
            Some(Behavior { scale_up: Some(rules.clone()), scale_down: Some(rules.clone()) });
        workload.spec = defaulted(&workload.spec);
        for (second, asked, expected) in ticks {
            assert_eq!(workload.tick(second, &[value(asked * 1_000)]), expected, "{name}, second {second}");
        }
    }
}
