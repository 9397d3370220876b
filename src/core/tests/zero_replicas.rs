//! The way of a workload to zero replicas and back: when the last replica goes, what brings it back, and who has set it to 0.

use headroom_core::pods::amount::Amount;
use headroom_core::pods::conditions::SCALING_ACTIVE;
use headroom_core::pods::decision::{Branch, Decision, Limit, WriteOutcome};
use headroom_core::pods::input::{Answer, ScalerReading, Unknown};
use headroom_core::pods::memory::{parse, render};
use headroom_core::pods::moment::Moment;
use headroom_core::pods::schedules::{Fallback, FallbackDirection, FallbackReplicas, Schedule};
use headroom_core::pods::spec::{
    Behavior, MetricSpec, MetricTarget, ResourceSource, ScalingPolicyRule, ScalingRules,
};
use headroom_core::pods::zero::{ZeroRules, ZeroStep};
use headroom_core::pods::{after_write, durability};
use headroom_core::time::Seconds;
use headroom_core::window::Window;
use proptest::prelude::*;

use crate::replicas::{START, Workload, per_replica, value};

/// A workload that goes to 0 after a minute without windows or rates.
fn queue(replicas: i32) -> Workload {
    let mut workload = Workload::new(replicas, vec![per_replica(1000)]).at_once();
    workload.spec.min_replicas = Some(0);
    workload.zero = Some(ZeroRules { after: Seconds(60), activations: Vec::new() });
    workload
}

fn at(second: i64) -> Moment {
    START.plus(Seconds(second)).into()
}

fn outage() -> Answer<'static> {
    Answer::Unknown(Unknown::Failed("connection refused".into()))
}

fn waiting(total: i64) -> [Answer<'static>; 1] {
    [value(total * 1000)]
}

/// Decides, writes and restarts: what is remembered is what status holds.
fn tick(workload: &mut Workload, second: i64, answers: &[Answer<'_>]) -> i32 {
    let replicas = workload.tick(second, answers);
    workload.memory = parse(&render(&workload.memory));
    replicas
}

fn sizes(workload: &mut Workload, steps: &[(i64, i64)]) -> Vec<i32> {
    steps.iter().map(|(second, total)| tick(workload, *second, &waiting(*total))).collect()
}

fn reason(decision: Decision, type_: &str) -> String {
    let status = after_write(decision, &WriteOutcome::NotWritten).status;
    status.conditions.into_iter().find(|one| one.type_ == type_).map(|one| one.reason).unwrap_or_default()
}

#[test]
fn last_replica_goes_once_no_metric_has_been_active_for_long_enough_and_the_first_comes_at_once() {
    let mut web = queue(3);
    let steps = [(0, 3), (15, 0), (30, 0), (60, 0), (74, 0), (75, 0), (90, 0), (105, 2)];
    assert_eq!(sizes(&mut web, &steps), [3, 1, 1, 1, 1, 0, 0, 2]);
    assert_eq!(web.memory.zero.map(|zero| zero.scaled_at), Some(None), "the mark is gone");
}

#[test]
fn wait_for_the_last_replica_has_its_reason_and_its_end() {
    let mut web = queue(1);
    assert_eq!(tick(&mut web, 0, &waiting(0)), 1);
    let decision = web.decide(15, &waiting(0));
    assert_eq!(decision.steps.limited_by, Some(Limit::ToZeroAfter));
    assert_eq!(decision.steps.zero, Some(ZeroStep::Waiting { since: at(0), until: at(60) }));
    let decision = web.decide(60, &waiting(0));
    assert_eq!(decision.steps.zero, Some(ZeroStep::Idle { since: at(0) }));
    let change = decision.rescale.as_ref().map(|change| (change.to, change.reason.as_str()));
    assert_eq!(change, Some((0, "no metric is active")));
}

#[test]
fn metric_is_active_above_its_activation_only() {
    let mut web = queue(1);
    web.zero = Some(ZeroRules { after: Seconds(0), activations: vec![Amount::from_milli(4000)] });
    assert_eq!(sizes(&mut web, &[(0, 5), (15, 4), (30, 4), (45, 5)]), [5, 0, 0, 4]);
}

#[test]
fn word_of_an_external_scaler_counts_before_its_value() {
    let said = |active: Option<bool>, total: i64| {
        let Answer::External(values) = value(total * 1000) else { unreachable!("it is an external metric") };
        [Answer::Scaler(ScalerReading { values, target: None, active })]
    };
    let mut web = queue(1);
    web.zero = Some(ZeroRules { after: Seconds(0), activations: vec![Amount::from_milli(4000)] });
    assert_eq!(tick(&mut web, 0, &said(Some(false), 9)), 0);
    assert_eq!(tick(&mut web, 15, &said(Some(false), 9)), 0);
    assert_eq!(tick(&mut web, 30, &said(Some(true), 1)), 1);
    assert_eq!(tick(&mut web, 45, &said(None, 3)), 0, "without a word the activation decides");
}

#[test]
fn one_active_metric_is_enough_and_the_others_count_beside_it() {
    let mut web = queue(4);
    web.spec.metrics.push(per_replica(1000));
    web.zero = Some(ZeroRules { after: Seconds(0), activations: vec![Amount::from_milli(5000)] });
    let both = |first: i64, second: i64| [value(first * 1000), value(second * 1000)];
    assert_eq!(tick(&mut web, 0, &both(3, 1)), 3, "the second keeps it, and the first has its say");
    assert_eq!(tick(&mut web, 15, &both(3, 0)), 0);
    assert_eq!(tick(&mut web, 30, &both(3, 0)), 0);
    assert_eq!(tick(&mut web, 45, &both(0, 2)), 2);
}

#[test]
fn workload_that_somebody_else_sets_to_0_stays_there_and_says_so() {
    let mut web = queue(3);
    tick(&mut web, 0, &waiting(3));
    web.scale.spec_replicas = 0;
    assert_eq!(sizes(&mut web, &[(15, 9), (30, 9)]), [0, 0]);
    let decision = web.decide(45, &waiting(9));
    assert_eq!((decision.steps.branch, decision.steps.zero), (Branch::Paused, Some(ZeroStep::Paused)));
    assert_eq!(reason(decision, SCALING_ACTIVE), "PausedAtZero");
    web.scale.spec_replicas = 1;
    assert_eq!(sizes(&mut web, &[(60, 3)]), [3], "one replica by hand, and the metrics decide again");
    web.scale.spec_replicas = 0;
    web.schedules = vec![day(Some(2), None)];
    assert_eq!(sizes(&mut web, &[(75, 9)]), [0], "nor does a schedule bring it back");
}

#[test]
fn workload_found_at_0_by_a_new_policy_is_paused() {
    let mut web = queue(0);
    assert_eq!(sizes(&mut web, &[(0, 9)]), [0]);
    assert_eq!(reason(web.decide(15, &waiting(9)), SCALING_ACTIVE), "PausedAtZero");
}

#[test]
fn crash_at_any_step_leaves_a_workload_that_comes_back() {
    // On the way to 0: journalled, and not written. The workload still has its replica, so the mark counts for nothing.
    let mut web = queue(1);
    tick(&mut web, 0, &waiting(0));
    let decision = web.decide(60, &waiting(0));
    assert_eq!(decision.memory.zero.and_then(|zero| zero.scaled_at), None);
    assert_eq!(decision.journal.zero.and_then(|zero| zero.scaled_at), Some(at(60)));
    web.memory = parse(&render(&decision.journal));
    let mut paused = queue(1);
    paused.memory = web.memory.clone();
    assert_eq!(sizes(&mut web, &[(75, 0), (90, 4)]), [0, 4], "it goes at the next look, and comes back");
    assert_eq!(sizes(&mut paused, &[(75, 1)]), [1]);
    paused.scale.spec_replicas = 0;
    assert_eq!(sizes(&mut paused, &[(90, 4)]), [0], "an old mark does not make a size of somebody else ours");

    // On the way back: journalled, and not written. The mark is still there.
    let mut web = queue(1);
    assert_eq!(sizes(&mut web, &[(0, 0), (60, 0)]), [1, 0]);
    let journal = web.decide(75, &waiting(2)).journal;
    web.memory = parse(&render(&journal));
    assert_eq!(sizes(&mut web, &[(90, 2)]), [2]);
}

#[test]
fn restart_never_makes_the_last_replica_go_earlier() {
    let mut web = queue(1);
    tick(&mut web, 0, &waiting(0));
    let stored = render(&web.memory);
    web.memory = durability::resumed(&stored, START.plus(Seconds(30)), START.plus(Seconds(300)));
    assert_eq!(sizes(&mut web, &[(300, 0), (329, 0), (330, 0)]), [1, 1, 0], "30 s had passed");
}

fn percent(value: i32, period_seconds: i32) -> ScalingRules {
    let policy = ScalingPolicyRule { type_: "Percent".into(), value, period_seconds };
    ScalingRules {
        stabilization_window_seconds: Some(0),
        policies: Some(vec![policy]),
        ..ScalingRules::default()
    }
}

#[test]
fn rates_and_windows_hold_on_the_way_down_whatever_the_wait_is() {
    let mut web = queue(8);
    web.zero = Some(ZeroRules::default());
    let behavior = Behavior { scale_up: Some(percent(100, 15)), scale_down: Some(percent(50, 60)) };
    web.spec.behavior = Some(behavior);
    let steps = [(0, 8), (15, 0), (30, 0), (76, 0), (137, 0), (198, 0), (259, 0)];
    assert_eq!(sizes(&mut web, &steps), [8, 4, 4, 2, 1, 0, 0]);
    let mut web = queue(8);
    web.zero = Some(ZeroRules::default());
    web.spec.behavior = None;
    web.options.downscale_stabilization = Seconds(300);
    assert_eq!(sizes(&mut web, &[(0, 8), (15, 0), (300, 0), (301, 0)]), [8, 8, 8, 0]);
}

#[test]
fn first_replica_waits_for_no_window_and_no_rate_and_the_second_does() {
    let mut web = queue(1);
    let slow = ScalingRules { stabilization_window_seconds: Some(300), ..percent(10, 60) };
    web.spec.behavior = Some(Behavior { scale_up: Some(slow), scale_down: Some(percent(100, 15)) });
    assert_eq!(sizes(&mut web, &[(0, 0), (60, 0), (75, 5), (90, 5)]), [1, 0, 1, 1]);
    let off = ScalingRules { select_policy: Some("Disabled".into()), ..percent(100, 15) };
    let mut web = queue(1);
    web.spec.behavior = Some(Behavior { scale_up: Some(off), scale_down: Some(percent(100, 15)) });
    assert_eq!(sizes(&mut web, &[(0, 0), (60, 0), (75, 5)]), [1, 0, 0], "growth is switched off");
}

#[test]
fn metric_that_is_missing_is_never_idle() {
    let mut web = queue(1);
    let mut idle = |second, answer: Answer<'static>| tick(&mut web, second, &[answer]);
    assert_eq!(
        [idle(0, value(0)), idle(45, outage()), idle(60, value(0)), idle(119, value(0))],
        [1, 1, 1, 1]
    );
    assert_eq!(idle(120, value(0)), 0, "the time began anew");
    assert_eq!([idle(135, outage()), idle(150, value(1000))], [0, 1]);
    // With a second metric that is missing the first does not make the workload idle, at any size.
    let mut web = queue(1);
    web.spec.metrics.push(per_replica(1000));
    for second in [0, 60, 120] {
        assert_eq!(tick(&mut web, second, &[value(0), outage()]), 1);
    }
    assert_eq!(tick(&mut web, 135, &[value(2000), outage()]), 2, "one that is active is enough to grow");
}

#[test]
fn fallback_brings_a_workload_back_whose_metrics_are_missing_at_0() {
    let mut web = queue(1);
    assert_eq!(sizes(&mut web, &[(0, 0), (60, 0)]), [1, 0]);
    let replicas = FallbackReplicas::Replicas { count: 2, direction: FallbackDirection::Up };
    web.fallback = Some(Fallback { after: Seconds(30), replicas });
    let mut missing = |second| tick(&mut web, second, &[outage()]);
    assert_eq!([missing(75), missing(90), missing(105)], [0, 0, 2]);
}

fn cpu() -> MetricSpec {
    let target = MetricTarget {
        type_: "AverageValue".into(),
        average_value: Some(Amount::from_milli(100)),
        ..MetricTarget::default()
    };
    let resource = Some(ResourceSource { name: "cpu".into(), target });
    MetricSpec { type_: "Resource".into(), resource, ..MetricSpec::default() }
}

#[test]
fn metric_of_pods_neither_fails_at_0_nor_brings_a_workload_back() {
    let mut web = queue(1);
    web.spec.metrics.push(cpu());
    let answers = |total: i64| [value(total * 1000), Answer::Usage(Vec::new())];
    web.memory.zero = Some(Default::default());
    web.memory.zero.as_mut().unwrap().scaled_at = Some(at(0));
    web.scale.spec_replicas = 0;
    let decision = web.decide(15, &answers(0));
    assert_eq!((decision.steps.branch, decision.events.len()), (Branch::Metrics, 0));
    assert_eq!(decision.steps.metrics[1].unknown, None);
    assert_eq!(tick(&mut web, 15, &answers(0)), 0);
    assert_eq!(tick(&mut web, 30, &answers(1)), 1);
}

#[test]
fn raised_minimum_brings_back_what_the_operator_has_set_to_0_and_nothing_else() {
    let mut web = queue(1);
    assert_eq!(sizes(&mut web, &[(0, 0), (60, 0)]), [1, 0]);
    web.spec.min_replicas = Some(2);
    assert_eq!(sizes(&mut web, &[(75, 0), (90, 0)]), [2, 2]);
    web.scale.spec_replicas = 0;
    assert_eq!(sizes(&mut web, &[(105, 9)]), [0]);
}

fn day(min_replicas: Option<i32>, max_replicas: Option<i32>) -> Schedule {
    let window = Window::new("UTC", "0 0 * * *", 86_400).expect("a window");
    Schedule { name: "day".into(), window, min_replicas, max_replicas }
}

#[test]
fn schedules_bring_to_0_and_back() {
    let mut web = queue(4);
    web.schedules = vec![day(None, Some(0))];
    assert_eq!(sizes(&mut web, &[(0, 9), (15, 9)]), [0, 0]);
    web.schedules = Vec::new();
    assert_eq!(sizes(&mut web, &[(30, 3)]), [3]);
    assert_eq!(sizes(&mut web, &[(45, 0), (105, 0)]), [1, 0]);
    web.schedules = vec![day(Some(3), None)];
    assert_eq!(sizes(&mut web, &[(120, 0), (240, 0)]), [3, 3]);
}

#[test]
fn horizontal_pod_autoscaler_keeps_the_rules_of_its_own() {
    let mut web = queue(0);
    web.zero = None;
    assert_eq!(sizes(&mut web, &[(0, 9), (15, 0), (30, 0)]), [4, 0, 0]);
    assert_eq!(web.memory.zero, None);
}

proptest! {
    #[test]
    fn last_replica_goes_only_after_enough_time_without_an_active_metric(
        start in 1_i32..6, after in 0_i64..200, totals in proptest::collection::vec(-1_i64..4, 1..60),
    ) {
        let mut web = queue(start);
        web.zero = Some(ZeroRules { after: Seconds(after), activations: vec![Amount::from_milli(1000)] });
        // Time since which all looks have found the metric known and not active.
        let mut quiet_since = None;
        for (index, total) in (0_i64..).zip(totals) {
            let (second, before) = (index * 15, web.scale.spec_replicas);
            let answer = if total < 0 { outage() } else { value(total * 1000) };
            let size = tick(&mut web, second, &[answer]);
            let quiet = (0..=1).contains(&total);
            quiet_since = (quiet && 0 < before).then(|| quiet_since.unwrap_or(second));
            if size == 0 && 0 < before {
                prop_assert!(quiet_since.is_some_and(|since| after <= second - since));
            }
            if before == 0 {
                prop_assert_eq!(0 < size, 1 < total);
            }
        }
    }
}
