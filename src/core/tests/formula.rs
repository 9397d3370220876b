//! One number out of several metrics: what a formula proposes, what a missing metric or an absurd result does, and the way to zero
//! by it.

use headroom_core::pods::amount::Amount;
use headroom_core::pods::conditions::SCALING_ACTIVE;
use headroom_core::pods::decision::{Branch, WriteOutcome};
use headroom_core::pods::formula::{Formula, Variable};
use headroom_core::pods::input::{Answer, Number, Sample, ScalerReading, Unknown};
use headroom_core::pods::schedules::{Fallback, FallbackDirection, FallbackReplicas};
use headroom_core::pods::spec::MetricTarget;
use headroom_core::pods::zero::ZeroRules;
use headroom_core::pods::{after_write, decision::Decision};
use headroom_core::time::Seconds;
use proptest::prelude::*;

use crate::replicas::{Workload, in_all, per_replica, value};

fn variable(name: &str, instead: Option<i64>) -> Option<Variable> {
    Some(Variable { name: name.into(), instead: instead.map(Amount::from_milli) })
}

/// So many of the formula's result for each replica, over metrics `a` and `b`.
fn of_two(replicas: i32, expression: &str, each: i64) -> Workload {
    let mut workload = Workload::new(replicas, vec![in_all(1000), in_all(1000)]).at_once();
    let average_value = Some(Amount::from_milli(each));
    workload.formula = Some(Formula {
        expression: expression.to_owned(),
        variables: vec![variable("a", None), variable("b", None)],
        target: MetricTarget { type_: "AverageValue".into(), average_value, ..MetricTarget::default() },
    });
    workload
}

fn outage() -> Answer<'static> {
    Answer::Unknown(Unknown::Failed("connection refused".into()))
}

fn both(a: i64, b: i64) -> [Answer<'static>; 2] {
    [value(a * 1000), value(b * 1000)]
}

fn scaling_active(decision: Decision) -> (String, String) {
    let status = after_write(decision, &WriteOutcome::NotWritten).status;
    let found = status.conditions.into_iter().find(|one| one.type_ == SCALING_ACTIVE);
    found.map(|one| (one.reason, one.message)).unwrap_or_default()
}

#[test]
fn result_asks_for_replicas_in_place_of_the_metrics() {
    for (expression, replicas) in [
        ("a + b", 8),
        ("max(a, b)", 6),
        ("min(a, b)", 2),
        ("(a + b) / 2", 4),
        ("a > 10 ? a : b", 6),
        ("a > 100 ? a : b", 2),
        ("b - a", 1),
    ] {
        let mut workload = of_two(5, expression, 5000);
        assert_eq!(workload.tick(0, &both(30, 10)), replicas, "{expression}");
    }
}

#[test]
fn target_of_type_value_is_held_against_the_result_as_it_is() {
    let mut workload = of_two(4, "a * b", 1000);
    let value = Some(Amount::from_milli(6000));
    let target = MetricTarget { type_: "Value".into(), value, ..MetricTarget::default() };
    workload.formula.as_mut().unwrap().target = target;
    assert_eq!(workload.tick(0, &both(3, 4)), 8, "12 is twice the target");
}

#[test]
fn small_numbers_reach_the_formula_as_they_are() {
    let mut workload = of_two(1, "a * 10000 + b", 1000);
    let small = Answer::External(vec![Sample { value: Number::from_f64(0.0004), at: None }]);
    assert_eq!(workload.tick(0, &[small, value(0)]), 4);
}

#[test]
fn metric_without_a_name_counts_beside_the_formula() {
    let mut workload = of_two(3, "a", 5000);
    workload.spec.metrics[1] = per_replica(1000);
    workload.formula.as_mut().unwrap().variables[1] = None;
    assert_eq!(workload.tick(0, &both(30, 7)), 7);
    assert_eq!(workload.tick(15, &both(40, 7)), 8);
}

#[test]
fn missing_metric_leaves_the_formula_without_a_value_and_the_size_as_it_is() {
    let mut workload = of_two(7, "a + b", 5000);
    workload.fallback = Some(Fallback {
        after: Seconds(60),
        replicas: FallbackReplicas::Replicas { count: 9, direction: FallbackDirection::Up },
    });
    let answers = [value(1000), outage()];
    let decision = workload.decide(0, &answers);
    assert_eq!((decision.steps.branch, decision.rescale.is_some()), (Branch::Unknown, false));
    let (reason, message) = scaling_active(decision);
    assert_eq!(reason, "FailedComputeFormula");
    assert!(
        message.contains("formula a + b has no value: metric b: ") && message.contains("refused"),
        "{message}"
    );
    assert_eq!(workload.tick(15, &answers), 7);
    assert_eq!(workload.tick(75, &answers), 9, "the fallback of the policy holds for a formula too");
}

#[test]
fn fallback_value_stands_in_for_a_missing_metric_and_the_step_says_so() {
    let mut workload = of_two(6, "a + b", 5000);
    workload.formula.as_mut().unwrap().variables[1] = variable("b", Some(20_000));
    let answers = [value(30_000), outage()];
    let steps = workload.decide(0, &answers).steps;
    assert_eq!((steps.metrics[1].value.as_deref(), steps.metrics[1].unknown.is_some()), (Some("20"), true));
    assert_eq!(steps.metrics.len(), 3, "two metrics and the formula");
    assert_eq!(workload.tick(0, &answers), 10);
    assert_eq!(workload.tick(15, &both(30, 0)), 6, "the metric counts as soon as it is back");
}

#[test]
fn result_that_is_no_size_is_unknown_with_the_numbers_that_made_it() {
    let mut workload = of_two(4, "a / b", 1000);
    let decision = workload.decide(0, &both(3, 0));
    assert!(matches!(decision.steps.metrics[2].unknown, Some(Unknown::Absurd(_))));
    let (reason, message) = scaling_active(decision);
    assert_eq!(reason, "FailedComputeFormula");
    assert!(message.contains("formula a / b is inf") && message.contains("a is 3, b is 0"), "{message}");
    assert_eq!(workload.tick(0, &both(0, 0)), 4, "0 / 0");
    assert_eq!(workload.tick(15, &both(6, 1)), 6);
}

#[test]
fn way_to_zero_is_that_of_the_result_and_no_word_of_a_scaler_counts() {
    let mut workload = of_two(3, "a + b", 5000);
    workload.spec.min_replicas = Some(0);
    let activations = [0, 0, 4000].map(Amount::from_milli).to_vec();
    workload.zero = Some(ZeroRules { after: Seconds(60), activations });
    let said = |a: i64, b: i64| {
        let Answer::External(values) = value(a * 1000) else { unreachable!("it is an external metric") };
        [Answer::Scaler(ScalerReading { values, target: None, active: Some(true) }), value(b * 1000)]
    };
    let steps = [(0, 10, 5), (15, 2, 2), (74, 2, 2), (75, 2, 2), (90, 2, 2), (105, 2, 3)];
    let sizes: Vec<i32> = steps.iter().map(|(second, a, b)| workload.tick(*second, &said(*a, *b))).collect();
    assert_eq!(sizes, [3, 1, 1, 0, 0, 1]);
    let answers = [value(9000), outage()];
    for second in [120, 600] {
        assert_eq!(workload.tick(second, &answers), 1, "a missing metric is neither active nor idle");
    }
}

proptest! {
    #[test]
    fn nothing_unknown_or_absurd_lowers_a_size_by_a_formula(
        a in any::<f64>(), b in any::<f64>(), replicas in 1_i32..100, which in 0_usize..4,
    ) {
        let expression = ["a / b", "a - b", "a * b * 1e300 * 1e300", "max(a, b)"][which];
        let mut workload = of_two(replicas, expression, 1000);
        let of = |number: f64| Answer::External(vec![Sample { value: Number::from_f64(number), at: None }]);
        let answers = [of(a), of(b)];
        let decision = workload.decide(0, &answers);
        let unknown = decision.steps.metrics[2].unknown.is_some();
        let size = workload.tick(0, &answers);
        prop_assert!((1..=100).contains(&size));
        if unknown {
            prop_assert_eq!(size, replicas);
        }
    }
}
