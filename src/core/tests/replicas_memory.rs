//! Memory between replica decisions: no change of a period is lost, lists stay within their maximum length, and each
//! urgent change is stored in time.

use headroom_core::pods::durability::{Urgency, urgency};
use headroom_core::pods::memory::{
    EVENTS_MAX, Memory, RECOMMENDATIONS_MAX, Recommendation, ScaleEvent, parse, render,
};
use headroom_core::pods::moment::Moment;
use headroom_core::pods::spec::{Behavior, ScalingPolicyRule, ScalingRules};
use headroom_core::time::Seconds;

use crate::replicas::{START, Workload, per_replica, value};

fn at(second: i64) -> Moment {
    START.plus(Seconds(second)).into()
}

fn change(change: i32, second: i64) -> ScaleEvent {
    ScaleEvent { change, at: at(second), outdated: false }
}

fn window(seconds: i32) -> ScalingRules {
    ScalingRules { stabilization_window_seconds: Some(seconds), ..ScalingRules::default() }
}

/// A workload that may grow by so many replicas in so many seconds.
fn rated(replicas: i32, value: i32, period_seconds: i32) -> Workload {
    let mut workload = Workload::new(replicas, vec![per_replica(1000)]).at_once();
    let policy = ScalingPolicyRule { type_: "Pods".into(), value, period_seconds };
    let rules = ScalingRules { policies: Some(vec![policy]), ..window(0) };
    workload.spec.behavior = Some(Behavior { scale_up: Some(rules), scale_down: Some(window(0)) });
    workload
}

#[test]
fn all_increases_of_a_period_count_though_each_was_smaller_than_its_rate() {
    let mut workload = rated(10, 4, 60);
    let sizes = [(0, 12), (15, 14), (30, 99), (45, 99), (61, 99)]
        .map(|(second, wanted)| workload.tick(second, &[value(wanted * 1000)]));
    assert_eq!(sizes, [12, 14, 14, 14, 16]);
}

#[test]
fn list_of_changes_grows_to_its_limit_and_then_counts_the_oldest_as_the_next() {
    let mut workload = rated(10, 1000, 1800);
    let many = i64::try_from(EVENTS_MAX).unwrap();
    workload.memory.up_events = (1..many).map(|second| change(1, second)).collect();
    workload.tick(many, &[value(20_000)]);
    assert_eq!(workload.memory.up_events.len(), EVENTS_MAX);
    assert_eq!(workload.memory.up_events[0], change(1, 1));
    workload.tick(many + 1, &[value(30_000)]);
    assert_eq!(workload.memory.up_events.len(), EVENTS_MAX);
    assert_eq!(workload.memory.up_events[0], change(2, 2));
}

#[test]
fn list_that_was_stored_too_long_loses_its_oldest_entries_only() {
    for (given, kept) in [(EVENTS_MAX, EVENTS_MAX), (EVENTS_MAX + 5, EVENTS_MAX)] {
        let last = i64::try_from(given).unwrap();
        let memory = Memory { up_events: (1..=last).map(|at| change(1, at)).collect(), ..Memory::default() };
        let read = parse(&render(&memory));
        assert_eq!((read.up_events.len(), read.up_events.last()), (kept, Some(&change(1, last))));
    }
}

#[test]
fn swings_fill_the_list_of_proposals_and_its_highest_and_lowest_stay() {
    let mut workload = Workload::new(2000, vec![per_replica(1000)]);
    workload.spec.max_replicas = 5000;
    workload.spec.behavior = Some(Behavior { scale_up: Some(window(3600)), scale_down: Some(window(3600)) });
    for second in 0..300 {
        let width = 1000 - second;
        let wanted = if second % 2 == 0 { 2000 + width } else { 2000 - width };
        assert_eq!(workload.tick(second, &[value(wanted * 1000)]), 2000);
    }
    let sizes = || workload.memory.recommendations.iter().map(|proposal| proposal.replicas);
    assert_eq!(sizes().count(), RECOMMENDATIONS_MAX);
    assert_eq!((sizes().min(), sizes().max()), (Some(1001), Some(3000)));
}

#[test]
fn proposals_older_than_the_window_make_room_for_new_ones() {
    let mut workload = Workload::new(10, vec![per_replica(1000)]);
    for tick in 0..100 {
        workload.tick(tick * 15, &[value(10_000)]);
    }
    // The window of 300 s is closed on both ends. The size at the beginning stays: one place is taken each time.
    assert_eq!(workload.memory.recommendations.len(), 22);
    let mut times: Vec<Moment> = workload.memory.recommendations.iter().map(|one| one.at).collect();
    times.sort_unstable();
    assert_eq!((times[0], times[1]), (at(0), at(99 * 15 - 300)));
}

#[test]
fn change_of_one_direction_is_stored_before_the_next_tick() {
    let workload = rated(10, 4, 60);
    let urgency =
        |live: &Memory| urgency(&render(&Memory::default()), live, &workload.spec, &workload.options);
    let up = Memory { up_events: vec![change(4, 0)], ..Memory::default() };
    let down = Memory { down_events: vec![change(4, 0)], ..Memory::default() };
    assert_eq!((urgency(&up), urgency(&down)), (Urgency::Now, Urgency::Now));
}

#[test]
fn proposals_that_no_window_holds_may_wait_to_be_stored() {
    let proposal = |replicas: i32, second: i64| Memory {
        recommendations: vec![Recommendation { replicas, at: at(second) }],
        ..Memory::default()
    };
    let mut workload = rated(10, 4, 60);
    let urgency = |workload: &Workload, to: i32| {
        urgency(&render(&proposal(10, 0)), &proposal(to, 15), &workload.spec, &workload.options)
    };
    assert_eq!([9, 10, 11].map(|to| urgency(&workload, to)), [Urgency::Soon; 3]);
    workload.spec.behavior = Some(Behavior { scale_up: Some(window(60)), scale_down: Some(window(60)) });
    let both_held = [9, 10, 11].map(|to| urgency(&workload, to));
    assert_eq!(both_held, [Urgency::Now, Urgency::Soon, Urgency::Now]);
}
