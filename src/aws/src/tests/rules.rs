//! One rule a test: how sizes are written, what is reported of groups, and how few calls it takes.

use std::sync::Arc;
use std::time::Duration;

use headroom_core::history::Victim;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::{FailureClass, InstanceState, NoticeKind};
use tokio::time::Instant;

use super::super::group::{Group, Launches, Machine, TemplateRef};
use super::super::snapshot::Snapshot;
use super::fake::{Bench, group, is_unknown};
use headroom_provider::{Asked, CloudProvider, Increase, Increased};

const DESCRIBE: &str = "autoscaling:DescribeAutoScalingGroups";
const SET: &str = "autoscaling:SetDesiredCapacity";
const TERMINATE: &str = "autoscaling:TerminateInstanceInAutoScalingGroup";
const NO_CAPACITY: &str =
    "InsufficientInstanceCapacity - We currently do not have sufficient m5.large capacity";

#[tokio::test(start_paused = true)]
async fn a_size_that_somebody_raised_meanwhile_is_never_lowered() {
    let bench = Bench::new(vec![group("a", 0, 2, 10)]);
    bench.observe().await.expect("read");
    bench.fake.account().groups.get_mut("a").expect("there").desired = 7;
    assert_eq!(bench.increase("a", 2, 4).await, Ok(Increased::Accepted));
    assert_eq!((bench.desired("a"), bench.calls(SET)), (7, 0));
}

#[tokio::test(start_paused = true)]
async fn a_size_that_was_lowered_meanwhile_is_planned_again() {
    let bench = Bench::new(vec![group("a", 0, 5, 10)]);
    bench.observe().await.expect("read");
    bench.fake.account().groups.get_mut("a").expect("there").desired = 3;
    assert_eq!(bench.increase("a", 5, 6).await, Ok(Increased::Superseded));
    assert_eq!(bench.desired("a"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_not_repeated() {
    let bench = Bench::new(vec![group("a", 0, 1, 10)]);
    bench.fault(SET, 500, "InternalFailure", true);
    assert_eq!(bench.increase("a", 1, 3).await, Ok(Increased::Accepted));
    assert_eq!((bench.desired("a"), bench.calls(SET)), (3, 1));
    bench.fault(SET, 500, "InternalFailure", false);
    let lost = bench.increase("a", 3, 4).await.expect_err("nothing was written");
    assert!(is_unknown(&lost), "{lost}");
    assert_eq!(bench.desired("a"), 3);
}

#[tokio::test(start_paused = true)]
async fn another_write_in_the_way_is_waited_for() {
    let bench = Bench::new(vec![group("a", 0, 1, 10)]);
    bench.fault(SET, 500, "ResourceContention", false);
    assert_eq!(bench.increase("a", 1, 3).await, Ok(Increased::Accepted));
    assert_eq!(bench.calls(SET), 2);
}

#[tokio::test(start_paused = true)]
async fn a_throttled_read_writes_nothing() {
    let bench = Bench::new(vec![group("a", 0, 1, 10)]);
    bench.fault(DESCRIBE, 400, "Throttling", false);
    let unread = bench.increase("a", 1, 3).await.expect_err("unknown is no size");
    assert!(is_unknown(&unread), "{unread}");
    assert_eq!(bench.calls(SET), 0);
}

#[tokio::test(start_paused = true)]
async fn a_launch_at_once_buys_nothing_twice_when_its_answer_was_lost() {
    let bench = Bench::new(vec![group("a", 0, 1, 10)]);
    bench.fake.account().launches_at_once = true;
    bench.fault("autoscaling:LaunchInstances", 500, "InternalFailure", true);
    let request = bench.request("a", 1, 3, "1-9");
    assert!(bench.aws.increase(&request).await.is_err_and(|error| error.unknown));
    assert_eq!(bench.aws.increase(&request).await, Ok(Increased::Accepted));
    bench.pass(5).await;
    assert_eq!((bench.desired("a"), bench.ids("a").len()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_launch_at_once_that_finds_no_capacity_says_so_and_leaves_no_wish() {
    let bench = Bench::new(vec![group("a", 0, 1, 10)]);
    bench.fake.account().launches_at_once = true;
    bench.fake.account().broken.insert("a".into(), NO_CAPACITY.to_owned());
    let error = bench.increase("a", 1, 3).await.expect_err("no capacity");
    assert_eq!((error.class, error.created, error.unknown), (FailureClass::OutOfCapacity, 0, false));
    assert!(error.message.contains("InsufficientInstanceCapacity"), "{error}");
    assert_eq!(bench.desired("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_launch_at_once_that_is_not_permitted_falls_back_and_names_the_action() {
    let bench = Bench::new(vec![group("a", 0, 1, 10)]);
    assert_eq!(bench.increase("a", 1, 2).await, Ok(Increased::Accepted));
    assert_eq!((bench.desired("a"), bench.calls("autoscaling:LaunchInstances")), (2, 1));
    bench.increase("a", 2, 3).await.expect("goes on");
    assert_eq!(bench.calls("autoscaling:LaunchInstances"), 1, "not asked again at once");
    let state = bench.observe().await.expect("read").state;
    let notice = state.notices.iter().find(|one| one.kind == NoticeKind::PermissionMissing);
    assert!(notice.is_some_and(|one| one.message.contains("autoscaling:LaunchInstances")), "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_launch_is_reported_at_once_with_its_place_and_message() {
    let bench = Bench::new(vec![group("a", 0, 1, 10)]);
    bench.observe().await.expect("read");
    bench.fake.account().broken.insert("a".into(), NO_CAPACITY.to_owned());
    bench.increase("a", 1, 3).await.expect("accepted");
    bench.pass(6).await;
    let state = bench.observe().await.expect("read").state;
    let failure = state.groups["a"].failures.first().expect("a failure");
    let key = &failure.key;
    assert_eq!((failure.class, key.zone.as_deref()), (FailureClass::OutOfCapacity, Some("eu-west-1a")));
    assert_eq!((key.instance_type.as_deref(), key.market.as_deref()), (Some("m5.large"), Some("OnDemand")));
    assert!(failure.message.contains("sufficient m5.large"), "{failure:?}");
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_is_used_up_holds_back_every_group_of_its_family() {
    let bench = Bench::new(vec![group("a", 0, 1, 10), group("b", 0, 1, 10)]);
    bench.observe().await.expect("read");
    bench.fake.account().broken.insert("a".into(), "VcpuLimitExceeded - your current vCPU limit".to_owned());
    bench.increase("a", 1, 3).await.expect("accepted");
    bench.pass(6).await;
    let state = bench.observe().await.expect("read").state;
    let classes: Vec<_> =
        ["a", "b"].iter().map(|name| state.groups[*name].failures.first().map(|one| one.class)).collect();
    assert_eq!(classes, [Some(FailureClass::QuotaExceeded); 2]);
    let notices: Vec<_> = state.notices.iter().filter(|one| one.kind == NoticeKind::QuotaExhausted).collect();
    assert_eq!(notices.iter().map(|one| one.group.as_deref()).collect::<Vec<_>>(), [Some("a"), Some("b")]);
    for part in ["Running On-Demand Standard", "L-1216C47A", "ask for more", "your current vCPU limit"] {
        assert!(notices.iter().all(|one| one.message.contains(part)), "{part} is not in {notices:?}");
    }
}

/// Group a has two instances and was asked for a third, which does not come.
async fn asked_in_vain() -> (Bench, Increase) {
    let bench = Bench::new(vec![group("a", 0, 2, 10)]);
    bench.observe().await.expect("read");
    bench.fake.account().broken.insert("a".into(), NO_CAPACITY.to_owned());
    let request = bench.request("a", 2, 3, "1-1");
    bench.aws.increase(&request).await.expect("accepted");
    (bench, request)
}

#[tokio::test(start_paused = true)]
async fn what_does_not_come_is_taken_back_and_nothing_that_runs() {
    let (bench, request) = asked_in_vain().await;
    bench.pass(6).await;
    assert_eq!(bench.aws.cancel(&request).await, Ok(Increased::Accepted));
    bench.pass(6).await;
    assert_eq!((bench.desired("a"), bench.ids("a").len()), (2, 2));
    assert!(bench.fake.account().slain.is_empty());
}

#[tokio::test(start_paused = true)]
async fn as_long_as_a_part_is_still_asked_for_it_is_not_through() {
    let bench = Bench::new(vec![group("a", 0, 2, 10)]);
    bench.observe().await.expect("read");
    bench.fake.account().broken.insert("a".into(), NO_CAPACITY.to_owned());
    let request = bench.request("a", 2, 4, "1-1");
    bench.aws.increase(&request).await.expect("accepted");
    bench.pass(2).await;
    // Of two launches one has been tried so far.
    bench.fake.account().activities.truncate(1);
    assert!(matches!(bench.aws.cancel(&request).await, Ok(Increased::Pending(_))), "the other may come yet");
    assert_eq!(bench.desired("a"), 3);
    assert_eq!(bench.aws.cancel(&request).await, Ok(Increased::Accepted));
    assert_eq!(bench.desired("a"), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_back_while_a_launch_is_under_way() {
    let (bench, request) = asked_in_vain().await;
    bench.pass(6).await;
    bench.fake.account().note(&"a".into(), "Launching a new EC2 instance", "InProgress", "");
    assert!(matches!(bench.aws.cancel(&request).await, Ok(Increased::Pending(_))));
    assert_eq!(bench.desired("a"), 3);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_back_while_another_activity_is_in_the_way() {
    let (bench, request) = asked_in_vain().await;
    bench.pass(6).await;
    let writes = bench.calls(SET);
    bench.fault(SET, 500, "ResourceContention", false);
    assert!(matches!(bench.aws.cancel(&request).await, Ok(Increased::Pending(_))));
    assert_eq!((bench.desired("a"), bench.calls(SET)), (3, writes + 1), "what is in the way may be a launch");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_launched_and_is_not_listed_yet_is_not_taken_back() {
    let (bench, request) = asked_in_vain().await;
    // In another zone of the group: there the failure counts on.
    bench.fake.account().groups.get_mut("a").expect("there").zones = vec!["eu-west-1b".into()];
    bench.fake.account().note(&"a".into(), "Launching a new EC2 instance: i-0late", "Successful", "");
    bench.fake.account().groups.get_mut("a").expect("there").zones = vec!["eu-west-1a".into()];
    bench.pass(6).await;
    assert!(matches!(bench.aws.cancel(&request).await, Ok(Increased::Pending(_))));
    assert_eq!(bench.desired("a"), 3);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_back_below_the_groups_minimum_or_what_the_increase_began_with() {
    let bench = Bench::new(vec![group("a", 3, 3, 10)]);
    bench.fake.account().broken.insert("a".into(), NO_CAPACITY.to_owned());
    bench.fake.account().groups.get_mut("a").expect("there").instances.truncate(1);
    bench.pass(6).await;
    let request = bench.request("a", 3, 5, "1-1");
    assert_eq!(bench.aws.cancel(&request).await, Ok(Increased::Accepted));
    assert_eq!(bench.desired("a"), 3);
    let state = bench.observe().await.expect("read").state;
    assert!(state.notices.iter().any(|one| one.kind == NoticeKind::Unfulfilled), "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_terminated_once_and_counts_as_gone_at_once() {
    let bench = Bench::new(vec![group("a", 0, 2, 10)]);
    bench.observe().await.expect("read");
    let id = bench.ids("a")[0].clone();
    for _ in 0..2 {
        assert_eq!(bench.delete(&id).await, Ok(()));
    }
    let state = bench.observe().await.expect("read").state;
    assert_eq!(state.groups["a"].instances[&id].state, InstanceState::Deleting);
    assert_eq!((state.groups["a"].target, bench.calls(TERMINATE)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_older_list_does_not_bring_a_terminated_instance_back() {
    let bench = Bench::new(vec![group("a", 0, 2, 10)]);
    bench.observe().await.expect("read");
    let machine = bench.fake.account().groups["a"].instances[0].clone();
    assert_eq!(bench.delete(&machine.id).await, Ok(()));
    bench.pass(6).await;
    let state = bench.observe().await.expect("read").state;
    assert!(!state.groups["a"].instances.contains_key(&machine.id), "it is listed no more");
    bench.fake.account().groups.get_mut("a").expect("there").instances.push(machine.clone());
    tokio::time::advance(Duration::from_secs(20)).await;
    let state = bench.observe().await.expect("read").state;
    assert_eq!(state.groups["a"].instances[&machine.id].state, InstanceState::Deleting);
}

#[tokio::test(start_paused = true)]
async fn the_place_of_an_instance_that_aws_has_replaced_is_not_taken_from_another() {
    let bench = Bench::new(vec![group("a", 0, 3, 10)]);
    bench.observe().await.expect("read");
    let id = bench.ids("a")[0].clone();
    bench.fake.account().taken = Some("a".into());
    assert_eq!(bench.delete(&id).await, Ok(()));
    bench.pass(6).await;
    assert!(bench.fake.account().slain.is_empty(), "AWS has chosen an instance that runs");
    assert_eq!((bench.desired("a"), bench.ids("a").len()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_termination_whose_answer_was_lost_is_seen_and_not_repeated() {
    let bench = Bench::new(vec![group("a", 0, 2, 10)]);
    bench.observe().await.expect("read");
    bench.fault(TERMINATE, 500, "InternalFailure", true);
    assert_eq!(bench.delete(&bench.ids("a")[0].clone()).await, Ok(()));
    assert_eq!((bench.desired("a"), bench.calls(TERMINATE)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_group_at_its_minimum_keeps_its_nodes_and_replaces_what_never_became_one() {
    let bench = Bench::new(vec![group("a", 2, 2, 10)]);
    bench.observe().await.expect("read");
    let id = bench.ids("a")[0].clone();
    assert!(bench.delete(&id).await.is_err_and(|error| !error.unknown && error.message.contains("minimum")));
    let never = Victim { node: "".into(), id };
    assert_eq!(bench.aws.delete(&bench.pool, &never, None).await, Ok(()));
    assert_eq!((bench.desired("a"), bench.calls(TERMINATE)), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn every_lifecycle_state_counts_as_it_should() {
    let bench = Bench::new(vec![group("a", 0, 6, 10)]);
    let states =
        ["Pending:Wait", "InService", "Standby", "Terminating:Wait", "Warmed:Stopped", "NeverHeardOf"];
    for (one, state) in
        bench.fake.account().groups.get_mut("a").expect("there").instances.iter_mut().zip(states)
    {
        one.lifecycle = state.to_owned();
    }
    let ids = bench.ids("a");
    let state = bench.observe().await.expect("read").state;
    let states: Vec<_> =
        ids.iter().map(|id| state.groups["a"].instances.get(id).map(|one| one.state)).collect();
    use InstanceState::{Creating, Deleting, Running};
    assert_eq!(states, [Some(Creating), Some(Running), None, Some(Deleting), None, None]);
}

/// The replacements that the group is expected to get.
async fn replacements(bench: &Bench) -> u32 {
    bench.observe().await.expect("read").state.groups["a"].replacements
}

#[tokio::test(start_paused = true)]
async fn what_aws_takes_away_is_replaced_without_a_purchase() {
    let bench = Bench::new(vec![group("a", 0, 3, 10)]);
    assert_eq!(replacements(&bench).await, 0);
    bench.fake.account().groups.get_mut("a").expect("there").instances[0].healthy = false;
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(replacements(&bench).await, 1);
    bench.pass(60).await;
    assert_eq!(replacements(&bench).await, 0, "the new instance is listed");
}

#[tokio::test(start_paused = true)]
async fn replacement_that_does_not_come_is_not_waited_for() {
    let bench = Bench::new(vec![group("a", 0, 3, 10)]);
    bench.fake.account().groups.get_mut("a").expect("there").instances[0].lifecycle =
        "Terminating:Wait".into();
    assert_eq!(replacements(&bench).await, 1);
    tokio::time::advance(Duration::from_secs(119)).await;
    assert_eq!(replacements(&bench).await, 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(replacements(&bench).await, 0);
}

#[tokio::test(start_paused = true)]
async fn group_that_launches_nothing_replaces_nothing() {
    let frozen = Bench::new(vec![group("a", 0, 3, 10)]);
    if let Some(group) = frozen.fake.account().groups.get_mut("a") {
        group.suspended.insert("Launch".to_owned());
        group.instances[0].lifecycle = "Terminating".into();
    }
    assert_eq!(replacements(&frozen).await, 0);
    let failing = Bench::new(vec![group("a", 0, 3, 10)]);
    failing.fake.account().groups.get_mut("a").expect("there").instances[0].healthy = false;
    let words = "We currently do not have sufficient m5.large capacity";
    failing.fake.account().note(
        &"a".into(),
        "Launching a new EC2 instance.  Status Reason: no",
        "Failed",
        words,
    );
    assert_eq!(replacements(&failing).await, 0);
}

#[tokio::test(start_paused = true)]
async fn one_odd_group_degrades_itself_only() {
    let mut weighted = group("w", 0, 2, 10);
    weighted.weighted = Some("its desired capacity counts vcpu".to_owned());
    let mut frozen = group("f", 0, 2, 10);
    frozen.suspended.insert("Launch".to_owned());
    let mut bench = Bench::new(vec![group("a", 0, 2, 10), weighted, frozen]);
    if let headroom_provider::ProviderSettings::Aws(settings) = &mut bench.pool.settings {
        settings.groups.push(super::super::NamedGroup { name: "missing".into(), min: None, max: None });
    }
    let state = bench.observe().await.expect("read").state;
    let max: Vec<u32> = ["a", "f", "missing", "w"].iter().map(|name| state.groups[*name].max).collect();
    assert_eq!((max, state.groups["f"].target), (vec![10, 2, 0, 0], 2));
    let kinds: Vec<NoticeKind> = state.notices.iter().map(|one| one.kind).collect();
    for kind in [NoticeKind::GroupNotFound, NoticeKind::GroupUnsupported, NoticeKind::GroupSuspended] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn options_in_tags_are_the_groups_own_and_one_that_cannot_be_read_is_named() {
    let mut tagged = group("a", 0, 1, 10);
    let prefix = "k8s.io/cluster-autoscaler/node-template/autoscaling-options";
    for (option, value) in [("scaledownunneededtime", "3m"), ("scaledownunreadytime", "soon")] {
        tagged.tags.insert(format!("{prefix}/{option}"), value.to_owned());
    }
    let bench = Bench::new(vec![tagged, group("b", 0, 1, 10)]);
    let state = bench.observe().await.expect("read").state;
    let own = state.groups["a"].options.as_deref().expect("options");
    assert_eq!((own.unneeded_for, own.unready_for), (Some(Seconds(180)), None));
    assert_eq!(state.groups["b"].options, None);
    let notices: Vec<_> = state.notices.iter().filter(|one| one.kind == NoticeKind::TagUnreadable).collect();
    assert!(notices.len() == 1 && notices[0].group.as_deref() == Some("a"), "{notices:?}");
    assert!(notices[0].message.contains("scaledownunreadytime=soon"), "{notices:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_configuration_holds_its_group_until_another_version_is_launched() {
    let bench = Bench::new(vec![group("a", 0, 1, 10), group("b", 0, 1, 10)]);
    bench.fake.account().launches_at_once = true;
    bench.observe().await.expect("read");
    bench.pass(1).await;
    bench.fake.account().broken.insert("a".into(), "InvalidAMIID.NotFound - The image id is gone".to_owned());
    let error = bench.increase("a", 1, 2).await.expect_err("no image");
    assert_eq!(error.class, FailureClass::InvalidConfiguration);
    // Core's backoff is over long before; the group is not tried again all the same.
    bench.pass(3_600).await;
    let state = bench.observe().await.expect("read").state;
    assert_eq!((state.groups["a"].max, state.groups["b"].max), (1, 10));
    let notice = state.notices.iter().find(|one| one.group.as_deref() == Some("a")).expect("a notice");
    assert!(notice.message.contains("InvalidAMIID.NotFound"), "{notice:?}");
    assert_eq!(bench.aws.increase(&bench.request("a", 1, 2, "1-2")).await, Ok(Increased::Superseded));
    {
        let mut account = bench.fake.account();
        account.broken.clear();
        let template = TemplateRef { id: Some("lt-1".into()), name: None, version: "2".into() };
        account.groups.get_mut("a").expect("there").launches = Launches::Template(template);
    }
    bench.pass(61).await;
    assert_eq!(bench.observe().await.expect("read").state.groups["a"].max, 10);
    assert_eq!(bench.aws.increase(&bench.request("a", 1, 2, "1-3")).await, Ok(Increased::Accepted));
}

#[tokio::test(start_paused = true)]
async fn a_type_that_the_only_zone_lacks_holds_its_group_for_hours_and_no_longer() {
    let mut wide = group("w", 0, 1, 10);
    wide.zones = vec!["eu-west-1a".into(), "eu-west-1b".into()];
    let bench = Bench::new(vec![group("a", 0, 1, 10), wide]);
    bench.observe().await.expect("read");
    for name in ["a", "w"] {
        let words = "Your requested instance type is not supported in your requested Availability Zone";
        bench.fake.account().broken.insert(name.into(), words.to_owned());
        bench.increase(name, 1, 2).await.expect("accepted");
    }
    bench.pass(6).await;
    let max = |state: &headroom_core::world::provider::ProviderState| {
        (state.groups["a"].max, state.groups["w"].max)
    };
    // The requested size stays, and nothing is added to it.
    assert_eq!(max(&bench.observe().await.expect("read").state), (2, 10));
    {
        let mut account = bench.fake.account();
        account.broken.clear();
        account.activities.clear();
    }
    bench.pass(7 * 3_600).await;
    bench.pass(6).await;
    assert_eq!(max(&bench.observe().await.expect("read").state), (10, 10));
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_launches_lack_holds_their_group_for_an_hour() {
    let bench = Bench::new(vec![group("a", 0, 1, 10)]);
    bench.fake.account().launches_at_once = true;
    bench.observe().await.expect("read");
    bench.pass(1).await;
    let words = "UnauthorizedOperation - You are not authorized to perform this operation: iam:PassRole";
    bench.fake.account().broken.insert("a".into(), words.to_owned());
    let error = bench.increase("a", 1, 2).await.expect_err("not permitted");
    assert_eq!(error.class, FailureClass::PermissionDenied);
    bench.pass(3_000).await;
    let state = bench.observe().await.expect("read").state;
    assert_eq!(state.groups["a"].max, 1);
    assert!(state.notices.iter().any(|one| one.message.contains("iam:PassRole")), "{:?}", state.notices);
    // It was given: no newer version of the template shows it, so it is tried.
    bench.fake.account().broken.clear();
    bench.pass(661).await;
    assert_eq!(bench.observe().await.expect("read").state.groups["a"].max, 10);
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_instances_died_three_times_is_held() {
    let bench = Bench::new(vec![group("a", 0, 1, 10)]);
    bench.observe().await.expect("read");
    let words = "Instance became unhealthy while waiting for instance to be in InService state.";
    bench.fake.account().broken.insert("a".into(), words.to_owned());
    bench.increase("a", 1, 2).await.expect("accepted");
    let mut held = Vec::new();
    for _ in 0..3 {
        // Each time AWS tries once more.
        bench.pass(11).await;
        held.push(bench.observe().await.expect("read").state.groups["a"].max == 2);
    }
    assert_eq!(held, [false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_ends_at_the_minimum_and_each_instance_has_its_own_answer() {
    let bench = Bench::new(vec![group("a", 3, 5, 10)]);
    bench.observe().await.expect("read");
    let mut answers = Vec::new();
    for id in bench.ids("a") {
        answers.push(bench.delete(&id).await.is_ok());
    }
    assert_eq!(answers, [true, true, false, false, false]);
    assert_eq!(
        (bench.desired("a"), bench.calls(TERMINATE)),
        (3, 2),
        "what is below the minimum is not even asked"
    );
}

#[tokio::test(start_paused = true)]
async fn one_broken_group_of_a_hundred_leaves_the_others_alone() {
    let mut groups: Vec<_> = (0..100).map(|n| group(&format!("g{n:02}"), 0, 1, 10)).collect();
    groups[42].launches = Launches::Configuration("gone".into());
    let bench = Bench::new(groups);
    let state = bench.observe().await.expect("read").state;
    let whole = state.groups.values().filter(|one| one.template.is_some()).count();
    assert_eq!((state.groups.len(), whole), (64, 63), "a pool manages 64 groups");
    let notices: Vec<_> =
        state.notices.iter().filter(|one| one.kind == NoticeKind::TemplateUnreadable).collect();
    assert!(notices.len() == 1 && notices[0].group.as_deref() == Some("g42"), "{notices:?}");
    assert_eq!(bench.increase("g41", 1, 2).await, Ok(Increased::Accepted));
}

#[tokio::test(start_paused = true)]
async fn an_instance_back_in_the_warm_pool_is_gone_and_never_terminated() {
    let bench = Bench::new(vec![group("a", 0, 2, 10)]);
    bench.observe().await.expect("read");
    let id = bench.ids("a")[0].clone();
    assert_eq!(bench.delete(&id).await, Ok(()));
    {
        // The group's warm pool has ReuseOnScaleIn: what was terminated comes back stopped.
        let mut account = bench.fake.account();
        let group = account.groups.get_mut("a").expect("there");
        group.instances.iter_mut().find(|one| one.id == id).expect("there").lifecycle =
            "Warmed:Stopped".to_owned();
    }
    bench.pass(6).await;
    let state = bench.observe().await.expect("read").state;
    let after = state.groups["a"].instances.get(&id).map(|one| one.state);
    assert!(after.is_none_or(|state| state == InstanceState::Deleting), "{after:?}");
    assert_eq!(bench.delete(&id).await, Ok(()));
    assert_eq!((bench.desired("a"), bench.calls(TERMINATE)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_group_that_two_pools_claim_is_the_older_ones() {
    let bench = Bench::new(vec![group("a", 0, 1, 10)]);
    let mut younger = bench.pool.clone();
    (younger.name, younger.created_at) = ("another".into(), headroom_core::time::UnixTime(5));
    let asked = |pool| Asked { pool, nodes: &[], registered: &bench.registered };
    let answers = bench.aws.observe(&[asked(&younger), asked(&bench.pool)]).await;
    let conflicts: Vec<bool> =
        answers.iter().map(|one| one.as_ref().is_ok_and(|one| one.state.conflict.is_some())).collect();
    assert_eq!(conflicts, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_change_by_another_writer_is_reported() {
    let bench = Bench::new(vec![group("a", 0, 1, 10)]);
    bench.observe().await.expect("read");
    bench.fake.account().groups.get_mut("a").expect("there").desired = 4;
    bench.pass(61).await;
    let state = bench.observe().await.expect("read").state;
    assert!(state.notices.iter().any(|one| one.kind == NoticeKind::ForeignEdit), "{:?}", state.notices);
}

#[tokio::test(start_paused = true)]
async fn what_was_read_before_stays_when_reads_fail_and_its_age_is_reported() {
    let bench = Bench::new(vec![group("a", 0, 1, 10)]);
    let first = bench.observe().await.expect("read").read_at;
    bench.pass(61).await;
    bench.fault(DESCRIBE, 400, "Throttling", false);
    let later = bench.observe().await.expect("the older answer");
    assert_eq!((later.read_at, later.state.groups["a"].target), (first, 1));
    assert!(later.state.notices.iter().any(|one| one.kind == NoticeKind::ReadFailed));
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_named() {
    let bench = Bench::new(vec![group("a", 0, 1, 10)]);
    bench.fault(DESCRIBE, 403, "AccessDenied", false);
    let error = bench.observe().await.expect_err("nothing is known");
    assert_eq!(error.class, FailureClass::PermissionDenied);
    assert!(error.message.contains(DESCRIBE), "{error}");
}

#[tokio::test(start_paused = true)]
async fn at_rest_two_hundred_groups_take_two_calls_a_minute_and_nothing_else() {
    let groups = (0..200).map(|index| group(&format!("g{index:03}"), 0, 1, 10)).collect();
    let mut bench = Bench::new(groups);
    let ids: Vec<Arc<str>> = (0..200).flat_map(|index| bench.ids(&format!("g{index:03}"))).collect();
    bench.registered.extend(ids);
    // The pool may name 64 groups only: the rest is read for other pools, which this one stands for.
    bench.observe().await.expect("read");
    bench.fake.account().calls.clear();
    for _ in 0..300 {
        bench.pass(1).await;
        bench.observe().await.expect("read");
    }
    let calls = bench.fake.account().calls.clone();
    assert_eq!(calls.into_iter().collect::<Vec<_>>(), [(DESCRIBE, 10)]);
}

#[tokio::test(start_paused = true)]
async fn a_scale_up_takes_one_write_and_a_read_each_five_seconds() {
    let mut bench = Bench::new(vec![group("a", 0, 1, 10)]);
    bench.registered.extend(bench.ids("a"));
    bench.fake.account().broken.insert("a".into(), NO_CAPACITY.to_owned());
    bench.observe().await.expect("read");
    bench.fake.account().calls.clear();
    bench.increase("a", 1, 3).await.expect("accepted");
    for _ in 0..60 {
        bench.pass(1).await;
        bench.observe().await.expect("read");
    }
    assert_eq!(bench.calls(SET), 1);
    assert!(bench.calls(DESCRIBE) <= 2 + 12 + 1, "{}", bench.calls(DESCRIBE));
    assert!(bench.calls("autoscaling:DescribeScalingActivities") <= 7);
}

#[test]
fn an_instance_that_a_list_leaves_out_though_its_size_asks_for_it_is_not_gone_at_once() {
    let machine = |id: &str| Machine {
        id: id.into(),
        lifecycle: "InService".to_owned(),
        healthy: true,
        ..Machine::default()
    };
    let (one, both) = (vec![machine("i-1")], vec![machine("i-1"), machine("i-2")]);
    let began = Instant::now();
    let after = |size: u32, instances: &[Machine], seconds: u64| {
        let mut snapshot = Snapshot::default();
        let lists = [(2, &both[..], 0), (size, instances, seconds)];
        for (desired, instances, seconds) in lists {
            let group = Group {
                name: "a".into(),
                desired,
                max: 10,
                instances: instances.to_vec(),
                ..Group::default()
            };
            snapshot.store(group, 0, UnixTime(0), began + Duration::from_secs(seconds));
        }
        snapshot.groups["a"].group.counted()
    };
    assert_eq!(after(2, &one, 20), 2, "the list is older than the one before");
    assert_eq!(after(1, &one, 20), 1, "the size went with it");
    assert_eq!(after(2, &one, 31), 1, "no list has had it for half a minute");
}
