//! Report of replica decisions, and reading of policies: numbers, limits, refusals, records.

use std::sync::Arc;

use headroom_core::labels::ObjectKey;
use headroom_core::pods::admission;
use headroom_core::pods::amount::Amount;
use headroom_core::pods::decision::MetricStep;
use headroom_core::pods::input::{Answer, PodRequests, PodValue, ResourceAmounts, Sample, Unknown};
use headroom_core::pods::moment::Moment;
use headroom_core::pods::record::{ReplicaRecord, Undecided};
use headroom_core::pods::spec::{
    Behavior, MetricIdentifier, MetricSpec, MetricTarget, PodsSource, ScalingPolicyRule, ScalingRules,
};
use headroom_core::quantity::Quantity;
use headroom_core::time::Seconds;

use crate::replicas::{START, Workload, in_all, per_replica, value};

fn per_pod(milli: i64) -> MetricSpec {
    let average_value = Some(Amount::from_milli(milli));
    let target = MetricTarget { type_: "AverageValue".into(), average_value, ..MetricTarget::default() };
    let pods = Some(PodsSource { metric: MetricIdentifier { name: "load".into(), selector: None }, target });
    MetricSpec { type_: "Pods".into(), pods, ..MetricSpec::default() }
}

/// The values of pods, each taken so many seconds ago.
fn of_pods(values: &[(&str, i64, i64)]) -> Answer<'static> {
    let of = |(pod, milli, ago): &(&str, i64, i64)| PodValue {
        pod: Arc::from(*pod),
        sample: Sample {
            at: Some(START.plus(Seconds(-ago)).into()),
            ..Sample::of(Quantity::from_milli(*milli))
        },
    };
    Answer::Pods(values.iter().map(of).collect())
}

fn step(workload: &Workload, answer: Answer<'_>) -> MetricStep {
    workload.decide(0, &[answer]).steps.metrics[0].clone()
}

#[test]
fn metric_reports_its_value_its_ratio_and_whether_that_is_near_the_target() {
    let reported = |metric: MetricSpec, answer: Answer<'_>| {
        let MetricStep { value, ratio, within_tolerance, .. } = step(&Workload::new(1, vec![metric]), answer);
        (value.unwrap(), ratio.unwrap(), within_tolerance)
    };
    assert_eq!(reported(in_all(2000), value(2100)), ("2100m".into(), 1.05, true));
    assert_eq!(reported(in_all(2000), value(3000)), ("3".into(), 1.5, false));
    assert_eq!(reported(per_replica(2000), value(2100)), ("2100m".into(), 1.05, true));
    assert_eq!(reported(per_replica(2000), value(3000)), ("3".into(), 1.5, false));
    assert_eq!(reported(per_pod(2000), of_pods(&[("web-1", 2100, 0)])), ("2100m".into(), 1.05, true));
    // The only pod has no sample; one that is not selected would shrink the size, and filled in it is near the target.
    assert_eq!(reported(per_pod(2000), of_pods(&[("web-9", 1700, 0)])), ("1700m".into(), 0.85, true));
}

#[test]
fn pod_whose_sample_is_stale_does_not_hide_the_others() {
    let workload = Workload::new(1, vec![per_pod(2000)]);
    let one_stale = step(&workload, of_pods(&[("web-1", 4000, 0), ("web-2", 4000, 86_400)]));
    assert_eq!((one_stale.unknown, one_stale.proposal), (None, Some(2)));
    let all_stale = step(&workload, of_pods(&[("web-1", 4000, 86_400)]));
    assert!(matches!(all_stale.unknown, Some(Unknown::Stale(_))), "{:?}", all_stale.unknown);
}

#[test]
fn rate_is_reported_where_it_limits_a_size_and_not_where_a_bound_does() {
    let rules = |value| {
        let policy = ScalingPolicyRule { type_: "Pods".into(), value, period_seconds: 60 };
        let policies = Some(vec![policy]);
        Some(ScalingRules { policies, stabilization_window_seconds: Some(0), ..ScalingRules::default() })
    };
    let reported = |behavior: Option<i32>, wanted: i64| {
        let mut workload = Workload::new(50, vec![per_replica(1000)]).at_once();
        (workload.spec.min_replicas, workload.spec.max_replicas) = (Some(20), 120);
        workload.spec.behavior =
            behavior.map(|value| Behavior { scale_up: rules(value), scale_down: rules(value) });
        let steps = workload.decide(0, &[value(wanted * 1000)]).steps;
        (steps.rate_limit, steps.limited_by.map(|limit| limit.as_str()))
    };
    assert_eq!(reported(Some(5), 1000), (Some(55), Some("ScaleUpLimit")));
    assert_eq!(reported(Some(5), 1), (Some(45), Some("ScaleDownLimit")));
    assert_eq!(reported(Some(500), 1000), (None, Some("TooManyReplicas")));
    assert_eq!(reported(Some(500), 1), (None, Some("TooFewReplicas")));
    assert_eq!(reported(None, 1000), (Some(100), Some("ScaleUpLimit")));
    let mut near = Workload::new(70, vec![per_replica(1000)]).at_once();
    near.spec.behavior = None;
    let steps = near.decide(0, &[value(1_000_000)]).steps;
    assert_eq!((steps.rate_limit, steps.desired), (None, Some(100)));
}

#[test]
fn names_that_can_be_no_part_of_a_url_and_percents_below_one_are_refused() {
    let refused = |name: &str, percent: Option<i32>| {
        let mut metric = per_pod(2000);
        if let Some(source) = &mut metric.pods {
            source.metric.name = name.into();
            source.target.average_utilization = percent;
        }
        let workload = Workload::new(1, vec![metric]);
        let errors = admission::errors(&workload.spec, workload.options.gates);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert_eq!((refused("load", None), refused("load", Some(1))), (String::new(), String::new()));
    for name in ["", ".", "..", "a/b", "a%b"] {
        assert!(refused(name, None).starts_with("spec.metrics[0].pods.metric.name: "), "{name}");
    }
    assert!(refused("load", Some(0)).contains("averageUtilization"));
}

#[test]
fn numbers_are_quantities_too_and_are_written_as_they_were_meant() {
    let read = |json: &str| serde_json::from_str::<Amount>(json).map(|amount| amount.to_string());
    for (json, text) in
        [("5", "5"), ("-5", "-5"), ("0.5", "500m"), ("\"2Ki\"", "2Ki"), ("\"2048000\"", "2048k")]
    {
        assert_eq!(read(json).unwrap(), text, "{json}");
    }
    assert!(read("true").unwrap_err().to_string().contains("quantity"));
}

#[test]
fn times_that_are_too_early_or_too_late_to_count_are_the_first_and_the_last() {
    let read = |text: &str| serde_json::from_str::<Moment>(text).unwrap();
    assert_eq!(read("\"0001-01-01T00:00:00Z\""), Moment::from_nanos(i64::MIN));
    assert_eq!(read("\"9000-01-01T00:00:00Z\""), Moment::from_nanos(i64::MAX));
}

#[test]
fn record_keeps_overhead_and_the_policies_that_were_not_decided_on() {
    let overhead: ResourceAmounts = [("cpu", Quantity::from_milli(250))].into_iter().collect();
    let requests = PodRequests { overhead, ..PodRequests::default() };
    let json = serde_json::to_string(&requests).unwrap();
    assert_eq!(serde_json::from_str::<PodRequests>(&json).unwrap(), requests);
    let none = serde_json::to_string(&PodRequests::default()).unwrap();
    assert!(!none.contains("overhead"), "{none}");
    let undecided = Undecided { policy: ObjectKey::new("prod", "web"), why: "no scale".into() };
    assert_eq!(ReplicaRecord::of(Vec::new(), vec![undecided.clone()]).undecided, [undecided]);
}
