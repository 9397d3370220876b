//! ProvisioningRequests: all room or none, room that is held, and how each request stands.

use std::sync::Arc;

use headroom_core::config::Config;
use headroom_core::history::History;
use headroom_core::labels::ObjectKey;
use headroom_core::nodes::requests::state::{ACCEPTED, BOOKING_EXPIRED, FAILED, PROVISIONED};
use headroom_core::nodes::requests::status;
use headroom_core::plan;
use headroom_core::plan::{Plan, RequestAnswer, RequestVerdict};
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, PodBuilder, WorldBuilder, config, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::buffer::{BufferCondition, Template};
use headroom_core::world::record::WorldRecord;
use headroom_core::world::request::{
    ATOMIC_CLASS, OWN_ATOMIC_CLASS, OWN_CHECK_CLASS, PodSet, ProvisioningRequest, RequestRef, RequestStatus,
};
use headroom_core::world::workload::PrioritySource;
use headroom_core::world::{Delta, World};

use crate::scale_up::{check, plan_fresh};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// A new request of class `atomic-scale-up.headroom.dev` for so many pods of each template.
fn request(name: &str, sets: &[(&str, u32)]) -> ProvisioningRequest {
    ProvisioningRequest {
        key: key(name),
        uid: format!("uid-{name}").into(),
        generation: 1,
        created_at: UnixTime(NOW.0 - 60),
        class: OWN_ATOMIC_CLASS.into(),
        pod_sets: sets
            .iter()
            .map(|(name, count)| PodSet { template: (*name).into(), count: *count })
            .collect(),
        ..ProvisioningRequest::default()
    }
}

fn condition(holds: bool, reason: &str, at: UnixTime) -> BufferCondition {
    BufferCondition { holds, reason: reason.into(), changed_at: at, ..BufferCondition::default() }
}

/// Stored as taken by this operator.
fn open(mut request: ProvisioningRequest) -> ProvisioningRequest {
    request.status.conditions.insert(ACCEPTED.into(), condition(true, "Accepted", request.created_at));
    request.status.details.insert("servedBy".into(), "headroom".into());
    request
}

/// Granted so many seconds ago.
fn booked(request: ProvisioningRequest, ago: i64) -> ProvisioningRequest {
    let mut request = open(request);
    let granted = condition(true, "CapacityIsFound", UnixTime(NOW.0 - ago));
    request.status.conditions.insert(PROVISIONED.into(), granted);
    request
}

fn template(name: &str, pods: PodBuilder) -> Delta {
    Delta::PodTemplateApplied(Box::new(Template {
        key: key(name),
        generation: 1,
        class: pods.class(),
        priority_class: PrioritySource::Template,
    }))
}

fn worker() -> PodBuilder {
    pod("x").cpu("3").memory("1Gi")
}

fn with(world: WorldBuilder, requests: impl IntoIterator<Item = ProvisioningRequest>) -> World {
    let base = world.delta(template("worker", worker()));
    requests.into_iter().fold(base, |world, one| world.delta(Delta::RequestApplied(Box::new(one)))).build()
}

fn empty() -> WorldBuilder {
    world().group("general", "a", "", 0)
}

/// So many empty nodes of four cores.
fn nodes(count: u32) -> WorldBuilder {
    let base = (0..count).fold(world(), |world, at| world.node(node(&format!("n{at}")).of("general", "a")));
    base.group("general", "a", "", count)
}

fn pools(max: u32) -> Config {
    config([pool("general").bounds(0, max)])
}

fn verdict<'p>(plan: &'p Plan, name: &str) -> &'p RequestVerdict {
    let found = plan.reasons.requests.iter().find(|verdict| &*verdict.name == name);
    found.expect("a verdict on each request")
}

/// The status that a plan gives to a request of the world.
fn written(plan: &Plan, world: &World, name: &str, now: UnixTime) -> RequestStatus {
    status::status(verdict(plan, name), &world.requests().objects[&key(name)], now)
}

fn said(status: &RequestStatus, kind: &str) -> Option<(bool, String)> {
    status.conditions.get(kind).map(|condition| (condition.holds, condition.reason.to_string()))
}

fn yes(reason: &str) -> Option<(bool, String)> {
    Some((true, reason.to_owned()))
}

fn no(reason: &str) -> Option<(bool, String)> {
    Some((false, reason.to_owned()))
}

#[test]
fn room_that_is_there_is_granted_at_once_in_one_write() {
    let world = with(nodes(3), [request("train", &[("worker", 3)])]);
    let plan = plan_fresh(&world, &pools(3));
    check(&plan, &[]);
    let status = written(&plan, &world, "train", NOW);
    assert_eq!(said(&status, ACCEPTED), yes("Accepted"));
    assert_eq!(said(&status, PROVISIONED), yes("CapacityIsFound"));
    assert_eq!(status.details.get("servedBy").map(|who| &**who), Some("headroom"));
}

#[test]
fn nothing_is_bought_before_the_request_is_stored_as_taken() {
    let world = with(empty(), [request("train", &[("worker", 8)])]);
    let plan = plan_fresh(&world, &pools(8));
    check(&plan, &[]);
    let status = written(&plan, &world, "train", NOW);
    assert_eq!(
        (said(&status, ACCEPTED), said(&status, PROVISIONED)),
        (yes("Accepted"), no("WaitingForNodes"))
    );
}

#[test]
fn one_plan_buys_all_that_is_missing_and_the_next_nothing_more() {
    let world = with(nodes(2), [open(request("train", &[("worker", 8)]))]);
    let first = plan_fresh(&world, &pools(8));
    check(&first, &[("general", "a", 2, 8)]);
    let decision = &first.next_history.pools["general"].decisions[0];
    assert_eq!(decision.reason, Reason::RequestedCapacity);
    assert_eq!(&*decision.message, "+6 nodes for 6 pods of ProvisioningRequest default/train");
    let again = plan(&world, &first.next_history, &pools(8), NOW);
    assert_eq!(again.next_history.pools["general"].intents.len(), 1);
    let verdict = verdict(&again, "train");
    assert_eq!((verdict.ready_count, verdict.coming_count), (2, 6));
    assert_eq!(said(&written(&again, &world, "train", NOW), PROVISIONED), no("WaitingForNodes"));
}

#[test]
fn nothing_is_bought_for_seven_of_eight_and_the_limit_is_named() {
    let world = with(empty(), [open(request("train", &[("worker", 8)]))]);
    let plan = plan_fresh(&world, &pools(7));
    check(&plan, &[]);
    let status = written(&plan, &world, "train", NOW);
    assert_eq!(said(&status, PROVISIONED), no("LimitReached"));
    let message = &status.conditions[PROVISIONED].message;
    assert!(message.contains("1 of 8 pods have no room") && message.contains("MaxNodesReached"), "{message}");
}

#[test]
fn pods_that_no_pool_ever_takes_are_refused_at_once() {
    let large = template("large", pod("x").cpu("64"));
    let world = with(empty().delta(large), [request("train", &[("large", 1)])]);
    let plan = plan_fresh(&world, &pools(7));
    let status = written(&plan, &world, "train", NOW);
    assert_eq!(said(&status, PROVISIONED), no("CapacityIsNotFound"));
    let message = &status.conditions[PROVISIONED].message;
    assert!(message.contains("InsufficientResources") && message.contains("ever take"), "{message}");
    assert_eq!(said(&status, FAILED), None);
}

#[test]
fn sets_go_to_the_pools_that_take_them_or_nowhere() {
    let base = || {
        empty().group("gpu", "g", "", 0).delta(template("trainer", worker().extended("nvidia.com/gpu", 1)))
    };
    let sets = [("worker", 1), ("trainer", 4)];
    let pools = |gpus| {
        let gpu = pool("gpu").extended("nvidia.com/gpu", 1).bounds(0, gpus);
        config([pool("general").with(|pool| pool.priority = 5), gpu])
    };
    let world = with(base(), [open(request("train", &sets))]);
    let whole = plan_fresh(&world, &pools(5));
    let bought: usize = whole.steps.len();
    assert!(bought != 0 && verdict(&whole, "train").unplaced_count == 0);
    check(&plan_fresh(&world, &pools(3)), &[]);
}

#[test]
fn a_check_never_buys_and_says_what_would_help() {
    let check_class =
        |class: &str| ProvisioningRequest { class: class.into(), ..open(request("ask", &[("worker", 3)])) };
    let world = with(nodes(2), [check_class(OWN_CHECK_CLASS)]);
    let plan = plan_fresh(&world, &pools(9));
    check(&plan, &[]);
    let status = written(&plan, &world, "ask", NOW);
    assert_eq!(said(&status, PROVISIONED), no("CapacityIsNotFound"));
    let message = &status.conditions[PROVISIONED].message;
    assert!(message.contains("1 new node would have it"), "{message}");
    let world = with(nodes(3), [check_class(OWN_CHECK_CLASS)]);
    let granted = plan_fresh(&world, &pools(9));
    assert_eq!(said(&written(&granted, &world, "ask", NOW), PROVISIONED), yes("CapacityIsFound"));
}

#[test]
fn without_retry_the_first_no_is_the_last() {
    let mut asked =
        ProvisioningRequest { class: OWN_CHECK_CLASS.into(), ..open(request("ask", &[("worker", 3)])) };
    asked.parameters.insert("noRetry".into(), "true".into());
    let world = with(nodes(2), [asked]);
    let plan = plan_fresh(&world, &pools(2));
    assert_eq!(said(&written(&plan, &world, "ask", NOW), FAILED), yes("CapacityIsNotFound"));
}

#[test]
fn classes_of_others_are_left_alone_unless_they_are_opted_in() {
    let theirs = |request| ProvisioningRequest { class: ATOMIC_CLASS.into(), ..request };
    let world = with(nodes(1), [theirs(request("a", &[("worker", 1)]))]);
    assert!(plan_fresh(&world, &pools(1)).reasons.requests.is_empty());
    let mut opted = pools(1);
    opted.cluster.requests.best_effort_atomic = true;
    assert_eq!(plan_fresh(&world, &opted).reasons.requests.len(), 1);
    // Another controller's Accepted.
    let mut taken = theirs(request("a", &[("worker", 1)]));
    taken.status.conditions.insert(ACCEPTED.into(), condition(true, "Accepted", NOW));
    assert!(plan_fresh(&with(nodes(1), [taken]), &opted).reasons.requests.is_empty());
    // One that names an instance of somebody else.
    let mut named = theirs(request("a", &[("worker", 1)]));
    named.parameters.insert("processorInstance".into(), "other".into());
    let world = with(nodes(1), [named]);
    assert!(plan_fresh(&world, &opted).reasons.requests.is_empty());
    opted.cluster.requests.processor_instance = Some("other".into());
    assert_eq!(plan_fresh(&world, &opted).reasons.requests.len(), 1);
}

#[test]
fn room_is_not_promised_twice_and_the_older_request_has_it() {
    let older = ProvisioningRequest { created_at: UnixTime(NOW.0 - 900), ..request("z", &[("worker", 2)]) };
    let world = with(nodes(3), [older, request("a", &[("worker", 2)])]);
    let plan = plan_fresh(&world, &pools(3));
    assert_eq!(verdict(&plan, "z").answer, RequestAnswer::Granted);
    assert_eq!(verdict(&plan, "a").answer, RequestAnswer::Waits);
    // What a booking holds is not free for others.
    let world = with(nodes(3), [booked(request("z", &[("worker", 2)]), 60), request("a", &[("worker", 2)])]);
    let plan = plan_fresh(&world, &pools(3));
    assert_eq!(verdict(&plan, "a").answer, RequestAnswer::Waits);
}

#[test]
fn a_smaller_request_passes_a_larger_that_has_no_room() {
    let large =
        ProvisioningRequest { created_at: UnixTime(NOW.0 - 900), ..open(request("large", &[("worker", 9)])) };
    let world = with(empty(), [large, open(request("small", &[("worker", 2)]))]);
    check(&plan_fresh(&world, &pools(5)), &[("general", "a", 0, 2)]);
}

#[test]
fn a_booking_holds_its_nodes_until_it_ends() {
    let planned_for = |ago: i64| {
        let world = with(nodes(1), [booked(request("train", &[("worker", 1)]), ago)]);
        let plan = plan_fresh(&world, &pools(1));
        let kept = plan.reasons.nodes.iter().any(|node| node.reason == Reason::PlannedFor);
        (kept, plan, world)
    };
    let (held, plan, _) = planned_for(300);
    assert!(held);
    assert_eq!(plan.wake_at, Some(UnixTime(NOW.0 + 300)));
    let (held, plan, world) = planned_for(601);
    assert!(!held);
    let status = written(&plan, &world, "train", NOW);
    assert_eq!(said(&status, BOOKING_EXPIRED), yes("CapacityReservationTimeExpired"));
    assert_eq!((said(&status, PROVISIONED), said(&status, FAILED)), (yes("CapacityIsFound"), None));
}

#[test]
fn the_length_of_a_booking_is_a_parameter() {
    let mut long = booked(request("train", &[("worker", 1)]), 1200);
    long.parameters.insert("bookingSeconds".into(), "3600".into());
    let plan = plan_fresh(&with(nodes(1), [long.clone()]), &pools(1));
    assert_eq!(verdict(&plan, "train").answer, RequestAnswer::Granted);
    long.parameters.insert("bookingSeconds".into(), "5".into());
    let world = with(nodes(1), [long]);
    let plan = plan_fresh(&world, &pools(1));
    assert!(written(&plan, &world, "train", NOW).conditions[ACCEPTED].message.contains("bookingSeconds"));
    assert_eq!(verdict(&plan, "train").answer, RequestAnswer::Expired);
}

fn consumer(name: &str, request: &str, class: &str) -> PodBuilder {
    let named = Arc::new(RequestRef { name: request.into(), class: class.into() });
    worker_pod(name).with_class(|class| class.request = Some(named))
}

fn worker_pod(name: &str) -> PodBuilder {
    pod(name).cpu("3").memory("1Gi")
}

#[test]
fn pods_take_the_places_of_a_booking_one_for_one() {
    let world = with(
        nodes(2).pod(consumer("w0", "train", OWN_ATOMIC_CLASS).on("n0")).pod(consumer(
            "w1",
            "train",
            OWN_ATOMIC_CLASS,
        )),
        [booked(request("train", &[("worker", 2)]), 60)],
    );
    let plan = plan_fresh(&world, &pools(9));
    check(&plan, &[]);
    assert_eq!(verdict(&plan, "train").consumed_count, 2);
    let all = with(
        nodes(2)
            .pod(consumer("w0", "train", OWN_ATOMIC_CLASS).on("n0"))
            .pod(consumer("w1", "train", OWN_ATOMIC_CLASS).on("n1")),
        [booked(request("train", &[("worker", 2)]), 60)],
    );
    let plan = plan_fresh(&all, &pools(9));
    let status = written(&plan, &all, "train", NOW);
    assert_eq!(said(&status, BOOKING_EXPIRED), yes("CapacityBookingConsumed"));
}

#[test]
fn a_booking_that_loses_room_buys_it_again() {
    let world =
        with(nodes(2).pod(worker_pod("thief").on("n0")), [booked(request("train", &[("worker", 2)]), 60)]);
    check(&plan_fresh(&world, &pools(9)), &[("general", "a", 2, 3)]);
}

#[test]
fn pods_that_name_a_request_buy_only_where_it_is_theirs_to_buy() {
    let reason = |pods: PodBuilder, requests: Vec<ProvisioningRequest>| {
        let plan = plan_fresh(&with(empty().pod(pods), requests), &pools(9));
        plan.reasons.pods.first().and_then(|verdict| verdict.skipped)
    };
    let atomic = || consumer("w", "train", OWN_ATOMIC_CLASS);
    let asked = || request("train", &[("worker", 1)]);
    let older =
        |request: ProvisioningRequest| ProvisioningRequest { created_at: UnixTime(NOW.0 - 600), ..request };
    assert_eq!(reason(atomic(), vec![older(open(asked()))]), Some(Reason::WaitsForRequest));
    assert_eq!(reason(atomic(), vec![older(booked(asked(), 60))]), None);
    assert_eq!(reason(atomic(), vec![]), None);
    assert_eq!(reason(consumer("w", "gone", OWN_CHECK_CLASS), vec![]), Some(Reason::RequestBuysNothing));
    assert_eq!(
        reason(consumer("w", "gone", "cloud.example.com"), vec![]),
        Some(Reason::ConsumesForeignRequest)
    );
    assert_eq!(reason(consumer("w", "gone", ""), vec![]), Some(Reason::ConsumesForeignRequest));
}

#[test]
fn a_missing_template_waits_and_then_fails() {
    let missing = |age: i64| {
        let request =
            ProvisioningRequest { created_at: UnixTime(NOW.0 - age), ..request("train", &[("none", 1)]) };
        let world = with(nodes(1), [request]);
        let plan = plan_fresh(&world, &pools(1));
        let status = written(&plan, &world, "train", NOW);
        (said(&status, PROVISIONED), said(&status, FAILED))
    };
    assert_eq!(missing(60), (no("PodTemplateMissing"), None));
    assert_eq!(missing(301), (no("FailedToCreatePods"), yes("FailedToCreatePods")));
}

#[test]
fn a_request_ends_when_its_time_is_over_and_never_after_it_was_granted() {
    let mut late = open(request("train", &[("worker", 3)]));
    late.parameters.insert("ValidUntilSeconds".into(), "60".into());
    let world = with(nodes(1), [late.clone()]);
    let plan = plan_fresh(&world, &pools(1));
    assert_eq!(said(&written(&plan, &world, "train", NOW), FAILED), yes("Expired"));
    let mut granted = booked(request("train", &[("worker", 1)]), 30);
    granted.parameters = late.parameters;
    let world = with(nodes(1), [granted]);
    let plan = plan_fresh(&world, &pools(1));
    assert_eq!(said(&written(&plan, &world, "train", NOW), FAILED), None);
}

#[test]
fn bad_requests_fail_with_the_fix_and_stop_no_other() {
    let broken = ProvisioningRequest {
        fault: Some("spec.podSets[0].count is -1: write a number from 1".into()),
        ..request("bad", &[])
    };
    let huge = request("huge", &[("worker", 50_001)]);
    let world = with(nodes(1), [broken, huge, request("good", &[("worker", 1)])]);
    let plan = plan_fresh(&world, &pools(1));
    for name in ["bad", "huge"] {
        assert_eq!(said(&written(&plan, &world, name, NOW), FAILED), yes("FailedToCreatePods"), "{name}");
    }
    assert_eq!(verdict(&plan, "good").answer, RequestAnswer::Granted);
}

#[test]
fn a_request_below_the_cutoff_reports_that_reason() {
    let low = template("low", worker().priority(-100));
    let world = with(nodes(1).delta(low), [request("train", &[("low", 1)])]);
    let plan = plan_fresh(&world, &pools(1));
    assert_eq!(said(&written(&plan, &world, "train", NOW), PROVISIONED), no("BelowPriorityCutoff"));
}

#[test]
fn pending_pods_come_before_requests() {
    let world = with(nodes(1).pod(worker_pod("real")), [request("train", &[("worker", 1)])]);
    let plan = plan_fresh(&world, &pools(1));
    check(&plan, &[]);
    assert_eq!(verdict(&plan, "train").answer, RequestAnswer::Waits);
}

#[test]
fn a_plan_on_what_it_wrote_changes_nothing() {
    let older =
        |request: ProvisioningRequest| ProvisioningRequest { created_at: UnixTime(NOW.0 - 900), ..request };
    let requests = [older(request("train", &[("worker", 2)])), open(request("more", &[("worker", 3)]))];
    let mut world = with(nodes(2), requests);
    let first = plan_fresh(&world, &pools(9));
    for name in ["train", "more"] {
        let status = written(&first, &world, name, NOW);
        let stored = ProvisioningRequest { status, ..world.requests().objects[&key(name)].clone() };
        world.apply(Delta::RequestApplied(Box::new(stored)));
    }
    let later = NOW.plus(Seconds(5));
    let second = plan(&world, &first.next_history, &pools(9), later);
    for name in ["train", "more"] {
        let status = written(&second, &world, name, later);
        let stored = &world.requests().objects[&key(name)].status;
        for (kind, condition) in &status.conditions {
            let before = &stored.conditions[kind];
            assert_eq!(
                (condition.holds, condition.changed_at),
                (before.holds, before.changed_at),
                "{name} {kind}"
            );
        }
    }
    let increases = |plan: &Plan| plan.next_history.pools["general"].intents.len();
    assert_eq!(increases(&first), increases(&second));
    let record = WorldRecord::of(&world);
    assert_eq!(record.world().expect("a world").canonical(), world.canonical());
    assert!(History::default().pools.is_empty());
}
