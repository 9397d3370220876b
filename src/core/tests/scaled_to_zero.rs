//! HPAs of Kubernetes 1.36 and later at 0 replicas: the condition ScaledToZero says who has set them, and whether they come back.

use headroom_core::pods::after_write;
use headroom_core::pods::conditions::{SCALED_TO_ZERO, SCALING_ACTIVE, SCALING_DISABLED};
use headroom_core::pods::decision::{Branch, WriteOutcome};
use headroom_core::pods::memory::{parse, render};
use headroom_core::pods::spec::{MetricSpec, MetricTarget, ResourceSource};
use headroom_core::time::UnixTime;

use crate::replicas::{Workload, per_replica, value};

fn hpa(replicas: i32, min: i32) -> Workload {
    let mut workload = Workload::new(replicas, vec![per_replica(1000)]).at_once();
    workload.options.gates.scaled_to_zero = true;
    workload.spec.min_replicas = Some(min);
    workload
}

/// The status of an HPA whose controller has said so.
fn with_condition(mut workload: Workload, status: &str) -> Workload {
    let condition = headroom_core::pods::status::Condition {
        type_: SCALED_TO_ZERO.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(UnixTime(0)),
        ..Default::default()
    };
    workload.status.conditions.push(condition);
    workload
}

fn condition(workload: &Workload) -> Option<(&str, &str)> {
    let found = workload.status.condition(SCALED_TO_ZERO)?;
    Some((found.status.as_str(), found.reason.as_str()))
}

#[test]
fn own_zero_wakes_and_that_of_somebody_else_stays() {
    let mut web = hpa(2, 0);
    assert_eq!(web.tick(0, &[value(0)]), 0);
    assert_eq!(condition(&web), Some(("True", "ScaledToZero")));
    assert_eq!(web.tick(15, &[value(0)]), 0);
    assert_eq!(web.tick(30, &[value(3000)]), 3);
    assert_eq!(condition(&web), Some(("False", "NotScaledToZero")));
    web.scale.spec_replicas = 0;
    assert_eq!(web.tick(45, &[value(9000)]), 0, "a person did that");
    let active = web.status.condition(SCALING_ACTIVE).map(|found| found.reason.as_str());
    assert_eq!(active, Some(SCALING_DISABLED));
    web.scale.spec_replicas = 1;
    assert_eq!(web.tick(60, &[value(9000)]), 5, "at most four more a tick");
}

#[test]
fn zero_of_another_controller_is_read_from_the_condition() {
    assert_eq!(with_condition(hpa(0, 0), "True").tick(0, &[value(2000)]), 2);
    assert_eq!(with_condition(hpa(0, 0), "False").tick(0, &[value(2000)]), 0);
    assert_eq!(hpa(0, 0).tick(0, &[value(2000)]), 0, "nobody vouches for it");
}

#[test]
fn minimum_that_was_raised_at_zero_is_reached_whatever_the_metrics_say() {
    assert_eq!(with_condition(hpa(0, 3), "True").tick(0, &[value(0)]), 3);
    assert_eq!(with_condition(hpa(0, 3), "True").tick(0, &[value(4000)]), 4);
    assert_eq!(hpa(0, 3).tick(0, &[value(4000)]), 0, "a person set it to 0");
}

#[test]
fn metrics_of_the_pods_alone_bring_nothing_back_and_take_nothing_to_zero() {
    let cpu = MetricSpec {
        type_: "Resource".to_owned(),
        resource: Some(ResourceSource {
            name: "cpu".to_owned(),
            target: MetricTarget {
                type_: "Utilization".to_owned(),
                average_utilization: Some(50),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    };
    let mut web = with_condition(hpa(0, 0), "True");
    web.spec.metrics = vec![cpu];
    assert_eq!(web.decide(0, &[]).steps.branch, Branch::Disabled);
}

#[test]
fn crash_between_the_size_and_the_status_leaves_no_workload_at_zero() {
    let mut web = hpa(2, 0);
    let decision = web.decide(0, &[value(0)]);
    // The journal is stored and the size written; then the process ends.
    web.memory = parse(&render(&decision.journal));
    web.scale.spec_replicas = 0;
    let decision = web.decide(15, &[value(0)]);
    let status = after_write(decision, &WriteOutcome::NotWritten).status;
    assert!(status.is_true(SCALED_TO_ZERO), "others can read it again");
    assert_eq!(web.tick(15, &[value(2000)]), 2);
    assert_eq!(web.memory.zero.and_then(|zero| zero.scaled_at), None);
}

#[test]
fn earlier_releases_know_no_condition() {
    let mut web = hpa(2, 0);
    web.options.gates.scaled_to_zero = false;
    assert_eq!(web.tick(0, &[value(0)]), 0);
    assert_eq!(condition(&web), None);
    assert_eq!(web.memory.zero, None);
    assert_eq!(web.tick(15, &[value(2000)]), 2);
}
