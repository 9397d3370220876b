//! Groups that the operator makes: which there may be, how they are made once, and when they are removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use headroom_core::world::provider::{FailureClass, GroupState, NoticeKind, ProviderState};
use headroom_provider::aws::{
    DeclaredPrice, Managed, Operator, Requirement, RequirementKey, Settings, Subnets,
};
use headroom_provider::{CloudProvider, Increased, ProviderSettings};

use super::super::group::Launches;
use super::fake::{Bench, group, is_unknown};

const CREATE: &str = "autoscaling:CreateAutoScalingGroup";
const DELETE: &str = "autoscaling:DeleteAutoScalingGroup";
const HISTORY: &str = "ec2:DescribeSpotPriceHistory";
const SET: &str = "autoscaling:SetDesiredCapacity";

async fn seen(bench: &Bench) -> ProviderState {
    bench.observe().await.expect("read").state
}

/// The only group whose id contains this.
fn named<'s>(state: &'s ProviderState, words: &str) -> (&'s Arc<str>, &'s GroupState) {
    let mut found = state.groups.iter().filter(|(id, _)| id.contains(words));
    let first = found.next().unwrap_or_else(|| panic!("no {words} among {:?}", state.groups.keys()));
    assert!(found.next().is_none(), "several {words} among {:?}", state.groups.keys());
    first
}

fn settings(bench: &mut Bench) -> &mut Settings {
    let ProviderSettings::Aws(settings) = &mut bench.pool.settings else { panic!("of AWS") };
    settings
}

#[tokio::test(start_paused = true)]
async fn each_shape_and_zone_that_may_be_is_a_group_of_size_zero() {
    let bench = Bench::managed(1);
    let state = seen(&bench).await;
    assert_eq!(state.groups.len(), 3, "{:?}", state.groups.keys());
    let (_, small) = named(&state, "general-m7i.large-eu-west-1b-on-demand");
    assert_eq!((small.zone.as_deref(), small.target, small.max), (Some("eu-west-1b"), 0, 1000));
    assert!(small.possible && small.rank == Some(0), "{small:?}");
    let template = small.template.as_ref().expect("worked out from the type");
    assert_eq!(template.node.capacity.cpu_milli, 2000);
    assert_eq!(template.node.labels.get("node.kubernetes.io/instance-type"), Some("m7i.large"));
    assert_eq!(template.node.labels.get("topology.kubernetes.io/zone"), Some("eu-west-1b"));
    assert_eq!(named(&state, "m7i.2xlarge").1.rank, Some(1), "of two sizes the smaller comes first");
    let kinds: Vec<_> = state.notices.iter().map(|notice| notice.kind).collect();
    assert_eq!(kinds, [NoticeKind::PriceUnknown], "{:?}", state.notices);
    assert!(bench.fake.account().groups.is_empty(), "nothing is made before it is needed");
}

#[tokio::test(start_paused = true)]
async fn markets_zones_and_types_are_those_that_are_asked_for() {
    let mut bench = Bench::managed(1);
    let rule = |key, values: &[&str]| Requirement {
        key,
        operator: Operator::In,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    settings(&mut bench).managed.as_mut().expect("managed").requirements = vec![
        rule(RequirementKey::Market, &["spot", "on-demand"]),
        rule(RequirementKey::Zone, &["eu-west-1a"]),
        rule(RequirementKey::Cpu, &["2"]),
    ];
    let state = seen(&bench).await;
    let ranks: Vec<_> = state.groups.iter().map(|(id, group)| (id.contains("-spot-"), group.rank)).collect();
    assert_eq!(ranks, [(false, Some(1)), (true, Some(0))], "spot is preferred");
    settings(&mut bench).managed.as_mut().expect("managed").requirements =
        vec![rule(RequirementKey::Cpu, &["3"])];
    let state = seen(&bench).await;
    assert!(state.groups.is_empty());
    assert_eq!(state.notices.first().map(|notice| notice.kind), Some(NoticeKind::GroupUnsupported));
}

#[tokio::test(start_paused = true)]
async fn a_group_is_made_with_its_first_increase_and_grows_like_any_other() {
    let bench = Bench::managed(1);
    let id = named(&seen(&bench).await, "m7i.2xlarge").0.clone();
    assert_eq!(bench.increase(&id, 0, 2).await, Ok(Increased::Accepted));
    {
        let account = bench.fake.account();
        let made = &account.groups[&id];
        assert_eq!((made.min, made.desired, made.max), (0, 2, 1000));
        assert_eq!(made.tags.get("k8s.io/cluster-autoscaler/prod").map(String::as_str), Some("owned"));
        assert_eq!(made.tags.get("headroom.dev/managed").map(String::as_str), Some("general"));
        let Launches::Mixed(mixed) = &made.launches else { panic!("{:?}", made.launches) };
        assert_eq!((&*mixed.types[0].0, mixed.spot, mixed.on_demand), ("m7i.2xlarge", false, true));
    }
    bench.pass(5).await;
    bench.pass(5).await;
    let state = seen(&bench).await;
    let group = &state.groups[&id];
    assert_eq!((group.target, group.instances.len(), group.possible), (2, 2, false));
    assert_eq!((group.rank, state.groups.len()), (Some(1), 3));
    assert_eq!(bench.increase(&id, 2, 3).await, Ok(Increased::Accepted));
    assert_eq!((bench.desired(&id), bench.calls(CREATE)), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_group_that_a_search_by_tags_does_not_find_yet_is_not_forgotten() {
    let bench = Bench::managed(1);
    let id = named(&seen(&bench).await, "m7i.2xlarge").0.clone();
    bench.fake.account().tags_lag = true;
    assert_eq!(bench.increase(&id, 0, 2).await, Ok(Increased::Accepted));
    for _ in 0..3 {
        bench.pass(31).await;
        assert_eq!(seen(&bench).await.groups[&id].target, 2);
    }
    bench.fake.account().tags_lag = false;
    bench.pass(120).await;
    assert_eq!(seen(&bench).await.groups[&id].target, 2);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_a_second_term_and_a_refusal_make_no_second_group() {
    let bench = Bench::managed(1);
    let id = named(&seen(&bench).await, "m7i.2xlarge").0.clone();
    bench.fault(CREATE, 500, "InternalFailure", true);
    assert_eq!(bench.increase(&id, 0, 1).await, Ok(Increased::Accepted));
    let bench = bench.restarted();
    assert_eq!(bench.increase(&id, 0, 1).await, Ok(Increased::Accepted));
    assert_eq!((bench.desired(&id), bench.calls(CREATE), bench.calls(SET)), (1, 1, 1));

    let other = named(&seen(&bench).await, "m7i.large-eu-west-1a").0.clone();
    bench.fault(CREATE, 500, "InternalFailure", false);
    let lost = bench.increase(&other, 0, 1).await.expect_err("nothing was made");
    assert!(is_unknown(&lost), "{lost}");
    bench.fault(CREATE, 403, "AccessDenied", false);
    let denied = bench.increase(&other, 0, 1).await.expect_err("it is not permitted");
    assert_eq!((denied.class, denied.unknown), (FailureClass::PermissionDenied, false));
    bench.fault(CREATE, 400, "ValidationError", false);
    let invalid = bench.increase(&other, 0, 1).await.expect_err("it is refused");
    assert_eq!(invalid.class, FailureClass::InvalidConfiguration);
    assert!(!bench.fake.account().groups.contains_key(&other));
}

#[tokio::test(start_paused = true)]
async fn a_group_of_that_name_without_our_tags_is_left_alone() {
    let bench = Bench::managed(1);
    let id = named(&seen(&bench).await, "m7i.2xlarge").0.clone();
    bench.fake.account().groups.insert(id.clone(), group(&id, 0, 0, 5));
    let refused = bench.increase(&id, 0, 1).await.expect_err("it is somebody else's");
    assert_eq!(refused.class, FailureClass::InvalidConfiguration);
    assert!(refused.message.contains("headroom.dev/managed"), "{refused}");
    for _ in 0..3 {
        bench.pass(600).await;
        drop(seen(&bench).await);
        bench.tidy().await;
    }
    assert_eq!((bench.desired(&id), bench.calls(DELETE)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_empty_group_goes_after_its_time_and_may_come_back() {
    let bench = Bench::managed(1);
    let id = named(&seen(&bench).await, "m7i.2xlarge").0.clone();
    assert_eq!(bench.increase(&id, 0, 1).await, Ok(Increased::Accepted));
    bench.pass(5).await;
    bench.pass(5).await;
    drop(seen(&bench).await);
    let instance = bench.ids(&id)[0].clone();
    bench.delete(&instance).await.expect("it goes");
    bench.pass(5).await;
    drop(seen(&bench).await);
    bench.pass(590).await;
    drop(seen(&bench).await);
    bench.tidy().await;
    assert_eq!(bench.calls(DELETE), 0, "it has been empty for less than ten minutes");
    bench.pass(60).await;
    drop(seen(&bench).await);
    bench.aws.tidy(&bench.pool, &BTreeSet::from([id.clone()])).await;
    assert_eq!(bench.calls(DELETE), 0, "an open increase is about it");
    bench.tidy().await;
    assert_eq!(bench.fake.account().deleted, std::slice::from_ref(&id));
    let state = seen(&bench).await;
    assert!(state.groups[&id].possible, "it may be made again");
    assert_eq!(bench.increase(&id, 0, 1).await, Ok(Increased::Accepted));
    assert_eq!((bench.desired(&id), bench.calls(CREATE)), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_an_empty_group_begins_anew_with_another_process() {
    let bench = Bench::managed(1);
    let id = named(&seen(&bench).await, "m7i.2xlarge").0.clone();
    bench.fake.account().broken.insert(id.clone(), "InsufficientInstanceCapacity - none".to_owned());
    bench.fake.account().launches_at_once = true;
    let failed = bench.increase(&id, 0, 1).await.expect_err("there is no machine");
    assert_eq!(failed.class, FailureClass::OutOfCapacity);
    bench.pass(590).await;
    let bench = bench.restarted();
    drop(seen(&bench).await);
    bench.pass(60).await;
    drop(seen(&bench).await);
    bench.tidy().await;
    assert_eq!(bench.calls(DELETE), 0);
    bench.pass(600).await;
    drop(seen(&bench).await);
    bench.tidy().await;
    assert_eq!(bench.fake.account().deleted, [id]);
}

#[tokio::test(start_paused = true)]
async fn a_group_with_a_size_that_somebody_set_meanwhile_stays() {
    let bench = Bench::managed(1);
    let id = named(&seen(&bench).await, "m7i.2xlarge").0.clone();
    bench.fault(SET, 400, "ValidationError", false);
    assert_eq!(bench.increase(&id, 0, 1).await, Ok(Increased::Superseded));
    bench.pass(660).await;
    drop(seen(&bench).await);
    bench.fake.account().groups.get_mut(&id).expect("made").desired = 1;
    bench.tidy().await;
    assert_eq!(bench.calls(DELETE), 0);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_the_spec_would_not_make_any_more_keeps_its_nodes_and_grows_no_more() {
    let mut bench = Bench::managed(1);
    let id = named(&seen(&bench).await, "m7i.2xlarge").0.clone();
    assert_eq!(bench.increase(&id, 0, 2).await, Ok(Increased::Accepted));
    bench.pass(5).await;
    bench.pass(5).await;
    settings(&mut bench).managed.as_mut().expect("managed").template_version = "7".into();
    let state = seen(&bench).await;
    let old = &state.groups[&id];
    assert_eq!((old.target, old.max, old.outdated.len()), (2, 2, 2));
    assert_eq!(state.groups.values().filter(|group| group.possible).count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_raised_maximum_of_the_pool_raises_the_group_with_the_increase_that_needs_it() {
    let mut bench = Bench::managed(1);
    bench.pool.max_nodes = 2;
    let id = named(&seen(&bench).await, "m7i.2xlarge").0.clone();
    assert_eq!(bench.increase(&id, 0, 2).await, Ok(Increased::Accepted));
    assert_eq!(bench.increase(&id, 2, 3).await, Ok(Increased::Superseded), "the pool has no more");
    bench.pool.max_nodes = 9;
    bench.pass(5).await;
    assert_eq!(seen(&bench).await.groups[&id].max, 9);
    assert_eq!(bench.increase(&id, 2, 4).await, Ok(Increased::Accepted));
    assert_eq!((bench.desired(&id), bench.fake.account().groups[&id].max), (4, 9));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_named_and_nothing_is_made() {
    let mut bench = Bench::managed(1);
    settings(&mut bench).managed.as_mut().expect("managed").subnets =
        vec![Subnets::Id("subnet-none".to_owned())];
    let state = seen(&bench).await;
    assert!(state.groups.is_empty());
    let notice = state.notices.first().expect("it is said");
    assert_eq!(notice.kind, NoticeKind::TemplateUnreadable);
    assert!(notice.message.contains("subnet-none does not exist"), "{}", notice.message);
}

#[tokio::test(start_paused = true)]
async fn at_rest_possible_groups_cost_no_calls() {
    let bench = Bench::managed(1);
    drop(seen(&bench).await);
    let before: u32 = bench.fake.account().calls.values().sum();
    for _ in 0..9 {
        bench.pass(60).await;
        drop(seen(&bench).await);
    }
    let after: u32 = bench.fake.account().calls.values().sum();
    assert_eq!(after - before, 9, "a look for groups a minute: {:?}", bench.fake.account().calls);
}

pub(super) fn of_managed(bench: &mut Bench) -> &mut Managed {
    settings(bench).managed.as_mut().expect("managed")
}

/// A pool of both markets; spot costs more in zone b.
fn of_both_markets() -> Bench {
    let mut bench = Bench::managed(1);
    let values = vec!["spot".to_owned(), "on-demand".to_owned()];
    of_managed(&mut bench).requirements =
        vec![Requirement { key: RequirementKey::Market, operator: Operator::In, values }];
    let price = |type_: &str, zone: &str, micro| ((Arc::from(type_), Arc::from(zone)), micro);
    bench.fake.account().spot_prices = [
        price("m7i.large", "eu-west-1a", 30_000),
        price("m7i.large", "eu-west-1b", 35_000),
        price("m7i.2xlarge", "eu-west-1a", 160_000),
    ]
    .into();
    bench
}

fn price_of(state: &ProviderState, words: &str) -> Option<i64> {
    named(state, words).1.price_per_hour_micro
}

#[tokio::test(start_paused = true)]
async fn prices_are_declared_or_the_latest_of_the_spot_market() {
    let mut bench = of_both_markets();
    of_managed(&mut bench).prices =
        vec![DeclaredPrice { instance_type: "m7i.*".to_owned(), spot: false, micros: 50_000, per_cpu: true }];
    let state = seen(&bench).await;
    assert_eq!(price_of(&state, "m7i.large-eu-west-1a-spot"), Some(30_000));
    assert_eq!(price_of(&state, "m7i.large-eu-west-1b-spot"), Some(35_000));
    assert_eq!(price_of(&state, "m7i.large-eu-west-1b-on-demand"), Some(100_000));
    assert_eq!(price_of(&state, "m7i.2xlarge-eu-west-1a-on-demand"), Some(400_000));
    assert!(state.notices.is_empty(), "{:?}", state.notices);
    let id = named(&state, "m7i.large-eu-west-1a-spot").0.clone();
    assert_eq!(bench.increase(&id, 0, 1).await, Ok(Increased::Accepted));
    bench.pass(5).await;
    let made = seen(&bench).await;
    assert_eq!((made.groups[&id].possible, made.groups[&id].price_per_hour_micro), (false, Some(30_000)));
}

#[tokio::test(start_paused = true)]
async fn spot_prices_are_read_once_in_ten_minutes_in_one_call() {
    let bench = of_both_markets();
    for _ in 0..9 {
        drop(seen(&bench).await);
        bench.pass(60).await;
    }
    assert_eq!(bench.calls(HISTORY), 1);
    let key = (Arc::from("m7i.large"), Arc::from("eu-west-1a"));
    bench.fake.account().spot_prices.insert(key, 20_000);
    assert_eq!(price_of(&seen(&bench).await, "m7i.large-eu-west-1a-spot"), Some(30_000));
    bench.pass(60).await;
    assert_eq!(price_of(&seen(&bench).await, "m7i.large-eu-west-1a-spot"), Some(20_000));
    assert_eq!(bench.calls(HISTORY), 2);
}

#[tokio::test(start_paused = true)]
async fn spot_prices_that_cannot_be_read_are_named_and_the_last_ones_hold_for_an_hour() {
    let bench = of_both_markets();
    drop(seen(&bench).await);
    bench.fake.account().faults.push(super::fake::Fault {
        action: HISTORY,
        status: 503,
        code: "RequestLimitExceeded",
        commits: false,
        times: 1000,
    });
    bench.pass(600).await;
    let state = seen(&bench).await;
    assert_eq!(price_of(&state, "m7i.large-eu-west-1a-spot"), Some(30_000));
    assert!(state.notices.iter().any(|notice| notice.kind == NoticeKind::ReadFailed), "{:?}", state.notices);
    for _ in 0..49 {
        bench.pass(60).await;
        drop(seen(&bench).await);
    }
    assert_eq!(price_of(&seen(&bench).await, "m7i.large-eu-west-1a-spot"), Some(30_000));
    // After 1, 2, 4, 8 and then each 10 minutes.
    let calls = bench.calls(HISTORY);
    assert!((7..=10).contains(&calls), "{calls} calls in an hour");
    bench.pass(60).await;
    assert_eq!(price_of(&seen(&bench).await, "m7i.large-eu-west-1a-spot"), None);
    bench.fake.account().faults.clear();
    bench.pass(600).await;
    assert_eq!(price_of(&seen(&bench).await, "m7i.large-eu-west-1a-spot"), Some(30_000));
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_is_missing_is_named_and_all_shapes_stay() {
    let bench = of_both_markets();
    bench.fault(HISTORY, 403, "UnauthorizedOperation", false);
    let state = seen(&bench).await;
    assert_eq!(state.groups.len(), 6);
    let missing = state.notices.iter().find(|notice| notice.kind == NoticeKind::PermissionMissing);
    assert!(missing.is_some_and(|notice| notice.message.contains(HISTORY)), "{:?}", state.notices);
}

#[tokio::test(start_paused = true)]
async fn spot_groups_say_over_how_many_types_they_are_spread() {
    let mut bench = of_both_markets();
    of_managed(&mut bench).min_spot_types = 3;
    let spread = |state: &ProviderState, words| named(state, words).1.diversity;
    let state = seen(&bench).await;
    assert_eq!(spread(&state, "m7i.large-eu-west-1a-spot"), Some(3));
    assert_eq!(spread(&state, "m7i.large-eu-west-1a-on-demand"), None);
    let id = named(&state, "m7i.large-eu-west-1a-spot").0.clone();
    assert_eq!(bench.increase(&id, 0, 1).await, Ok(Increased::Accepted));
    let made = seen(&bench).await;
    assert_eq!((made.groups[&id].possible, made.groups[&id].diversity), (false, Some(3)));
    of_managed(&mut bench).min_spot_types = 1;
    assert_eq!(spread(&seen(&bench).await, "m7i.large-eu-west-1a-spot"), None);
}

#[tokio::test(start_paused = true)]
async fn machines_above_the_highest_price_are_not_considered_and_those_there_are_stay() {
    let mut bench = of_both_markets();
    let id = named(&seen(&bench).await, "m7i.large-eu-west-1b-spot").0.clone();
    assert_eq!(bench.increase(&id, 0, 2).await, Ok(Increased::Accepted));
    bench.pass(5).await;
    of_managed(&mut bench).max_price_micro = Some(32_000);
    let state = seen(&bench).await;
    let possible: Vec<_> =
        state.groups.iter().filter(|(_, group)| group.possible).map(|(id, _)| id).collect();
    assert!(possible.len() == 1 && possible[0].contains("m7i.large-eu-west-1a-spot"), "{possible:?}");
    let kept = &state.groups[&id];
    assert_eq!(
        (kept.target, kept.max, kept.outdated.len()),
        (2, 2, 0),
        "it grows no more and is not replaced"
    );
}
