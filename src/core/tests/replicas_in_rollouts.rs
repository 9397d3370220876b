//! More pods than a size asks for, as while a rollout surges or a canary runs: by themselves they change no size where pods are
//! counted by their owner, and as in the reference elsewhere.

use std::sync::Arc;

use headroom_core::pods::amount::Amount;
use headroom_core::pods::decide;
use headroom_core::pods::input::{Answer, PodSeen, PodValue, Sample};
use headroom_core::pods::spec::{MetricIdentifier, MetricSpec, MetricTarget, PodsSource};
use headroom_core::quantity::Quantity;
use proptest::prelude::*;

use crate::replicas::{Workload, in_all, per_replica, ready_pod, value};

/// Target of each pod, and of the whole workload where one value is for all of it.
const TARGET: i64 = 10_000;

fn per_pod() -> MetricSpec {
    let average_value = Some(Amount::from_milli(TARGET));
    let target = MetricTarget { type_: "AverageValue".into(), average_value, ..MetricTarget::default() };
    let pods = Some(PodsSource { metric: MetricIdentifier { name: "load".into(), selector: None }, target });
    MetricSpec { type_: "Pods".into(), pods, ..MetricSpec::default() }
}

fn workload(size: i32, metric: MetricSpec) -> Workload {
    let mut workload = Workload::new(size, vec![metric]).at_once();
    workload.options.steady_in_rollouts = true;
    workload
}

/// The size that is decided on with so many pods, `others` of them beyond the size, of which the metric says `answer`.
fn size(workload: &Workload, others: i32, answer: impl Fn(&[PodSeen]) -> Answer<'static>) -> i32 {
    let mut scale = workload.scale.clone();
    scale.status_replicas += others;
    let names = (0..scale.status_replicas).map(|index| Arc::from(format!("web-{index}")));
    let pods: Vec<PodSeen> = names.map(|name| PodSeen { name, ..ready_pod() }).collect();
    let seen: Vec<&PodSeen> = pods.iter().collect();
    let decision = decide(&workload.input(0, &scale, &seen, &[answer(&pods)]));
    decision.rescale.map_or(scale.spec_replicas, |change| change.to)
}

/// A load that all pods share.
fn shared(total: i64) -> impl Fn(&[PodSeen]) -> Answer<'static> {
    move |pods| each(total / i64::try_from(pods.len()).expect("few pods"))(pods)
}

/// The same load on each pod, however many there are.
fn each(milli: i64) -> impl Fn(&[PodSeen]) -> Answer<'static> {
    move |pods| {
        let of = |pod: &PodSeen| PodValue {
            pod: pod.name.clone(),
            sample: Sample::of(Quantity::from_milli(milli)),
        };
        Answer::Pods(pods.iter().map(of).collect())
    }
}

fn total(milli: i64) -> impl Fn(&[PodSeen]) -> Answer<'static> {
    move |_| value(milli)
}

/// 10.5 pods' worth on a size of 10 is within tolerance. Two pods of a canary take their part, so that each is at 0.875: the
/// reference has eleven then, and ten again after the canary.
#[test]
fn load_that_a_canary_shares_changes_no_size() {
    let mut workload = workload(10, per_pod());
    assert_eq!(size(&workload, 2, shared(105_000)), 10);
    workload.options.steady_in_rollouts = false;
    assert_eq!(size(&workload, 2, shared(105_000)), 11);
}

/// Each pod of a second version, as many as of the first, uses 0.85 of its target, as memory would: the reference has seventeen.
#[test]
fn pods_below_their_target_add_none() {
    let mut workload = workload(10, per_pod());
    assert_eq!(size(&workload, 10, each(8_500)), 10);
    workload.options.steady_in_rollouts = false;
    assert_eq!(size(&workload, 10, each(8_500)), 17);
}

/// 9.9 pods' worth over the eleven that there are is within tolerance of one: the reference takes the eleven for the size, the
/// canary gets its part of them, and so forth.
#[test]
fn canary_does_not_become_part_of_the_size() {
    let mut workload = workload(10, per_replica(TARGET));
    assert_eq!(size(&workload, 1, total(99_000)), 10);
    workload.options.steady_in_rollouts = false;
    assert_eq!(size(&workload, 1, total(99_000)), 11);
}

#[test]
fn one_value_for_all_multiplies_the_pods_that_are_asked_for() {
    let mut workload = workload(10, in_all(TARGET));
    assert_eq!(size(&workload, 5, total(12_000)), 12);
    workload.options.steady_in_rollouts = false;
    assert_eq!(size(&workload, 5, total(12_000)), 18);
}

#[test]
fn real_changes_of_load_change_the_size_in_a_rollout_too() {
    let workload = workload(10, per_pod());
    assert_eq!(size(&workload, 3, each(12_000)), 16, "all pods that there are bear too much");
    assert_eq!(size(&workload, 3, shared(50_000)), 5, "too little for the size");
}

fn metric() -> impl Strategy<Value = MetricSpec> {
    prop_oneof![Just(per_pod()), Just(per_replica(TARGET))]
}

proptest! {
    /// Whatever a size keeps without a rollout, it keeps with one, if the load is shared.
    #[test]
    fn shared_load_that_keeps_a_size_keeps_it_in_a_rollout(
        replicas in 1_i32..40,
        others in 0_i32..40,
        ratio in 900_i64..1090,
        metric in metric(),
    ) {
        let load = i64::from(replicas) * TARGET / 1000 * ratio;
        // What a division among the pods cuts off must not make the load smaller than what is within tolerance.
        let load = load + i64::from(replicas + others);
        let workload = workload(replicas, metric.clone());
        let decided = match metric.pods {
            Some(_) => size(&workload, others, shared(load)),
            None => size(&workload, others, total(load)),
        };
        prop_assert_eq!(decided, replicas);
    }

    /// Without pods beyond the size each metric of pods proposes what the reference does.
    #[test]
    fn without_a_rollout_the_rule_changes_nothing(replicas in 1_i32..40, load in 0_i64..1_000_000) {
        let mut workload = workload(replicas, per_pod());
        let steady = size(&workload, 0, shared(load));
        workload.options.steady_in_rollouts = false;
        prop_assert_eq!(steady, size(&workload, 0, shared(load)));
    }
}
