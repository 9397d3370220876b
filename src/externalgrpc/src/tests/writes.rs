//! Writes: bought once whatever is lost, the exact victim, taken back without touching what runs.

use headroom_core::history::Victim;
use headroom_core::world::provider::FailureClass;
use headroom_provider::{CloudProvider, Error, Increase, Increased};

use super::server::{WRITE_TIMEOUT, instance};
use super::{Bench, Fault};
use crate::calls::Status;
use crate::wire::State;

const ACCEPTED: Result<Increased, Error> = Ok(Increased::Accepted);

#[tokio::test(start_paused = true)]
async fn an_increase_is_asked_for_once_by_the_difference_from_what_is_there() {
    let bench = Bench::new(2, (0, 10));
    assert_eq!(bench.increase(2, 5).await, ACCEPTED);
    assert_eq!(bench.increase(2, 5).await, ACCEPTED);
    assert_eq!((bench.bought(), bench.target(), bench.sent("IncreaseSize")), (3, 5, 1));
}

#[tokio::test(start_paused = true)]
async fn an_increase_whose_answer_is_lost_after_its_effect_is_accepted_by_what_is_read() {
    let bench = Bench::new(0, (0, 10));
    bench.fault("IncreaseSize", &[Fault::LoseAnswer]);
    let (end, _) = bench.increased(bench.request(0, 5)).await;
    assert_eq!((end, bench.bought(), bench.sent("IncreaseSize")), (ACCEPTED, 5, 1));
}

#[tokio::test(start_paused = true)]
async fn an_increase_that_never_arrived_is_sent_again_after_the_doubt_only() {
    let bench = Bench::new(0, (0, 10));
    bench.fault("IncreaseSize", &[Fault::LoseCall]);
    let (end, seconds) = bench.increased(bench.request(0, 5)).await;
    assert_eq!((end, bench.bought(), bench.sent("IncreaseSize")), (ACCEPTED, 5, 2));
    // The call itself, twice its timeout, and two reads.
    let least = i64::try_from(3 * WRITE_TIMEOUT + 10).expect("small");
    assert!(least <= seconds, "{seconds} s");
}

#[tokio::test(start_paused = true)]
async fn an_increase_that_takes_effect_late_is_not_bought_twice() {
    let bench = Bench::new(0, (0, 10));
    bench.fault("IncreaseSize", &[Fault::Late(70)]);
    let (end, _) = bench.increased(bench.request(0, 5)).await;
    bench.pass(300).await;
    assert_eq!((end, bench.bought(), bench.sent("IncreaseSize")), (ACCEPTED, 5, 1));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_outlives_its_step_goes_on_and_its_end_is_taken_in() {
    let bench = Bench::new(0, (0, 10));
    bench.fault("IncreaseSize", &[Fault::Slow(30)]);
    assert!(matches!(bench.increase(0, 5).await, Ok(Increased::Pending(_))));
    // While it runs nothing else is sent, for whichever intent.
    let other = Increase { intent: "1-2".into(), ..bench.request(0, 7) };
    assert!(matches!(bench.provider.increase(&other).await, Ok(Increased::Pending(_))));
    bench.pass(25).await;
    assert_eq!(bench.increase(0, 5).await, ACCEPTED);
    assert_eq!((bench.bought(), bench.sent("IncreaseSize")), (5, 1));
}

#[tokio::test(start_paused = true)]
async fn an_increase_of_an_earlier_term_starts_in_doubt() {
    let bench = Bench::new(0, (0, 10));
    let request = Increase { began_this_term: false, ..bench.request(0, 5) };
    let (end, seconds) = bench.increased(request).await;
    assert_eq!((end, bench.bought()), (ACCEPTED, 5));
    assert!(i64::try_from(2 * WRITE_TIMEOUT).expect("small") < seconds, "{seconds} s");
}

#[tokio::test(start_paused = true)]
async fn an_increase_of_an_earlier_term_that_took_effect_is_accepted_at_once() {
    let bench = Bench::new(5, (0, 10));
    let request = Increase { began_this_term: false, ..bench.request(0, 5) };
    assert_eq!(bench.increased(request).await, (ACCEPTED, 0));
    assert_eq!(bench.bought(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_believed_after_two_reads_and_named_by_its_status() {
    let classes = [
        (Status::Exhausted, FailureClass::QuotaExceeded),
        (Status::Denied, FailureClass::PermissionDenied),
        (Status::Unimplemented, FailureClass::InvalidConfiguration),
        (Status::Other, FailureClass::Other),
    ];
    for (status, class) in classes {
        let bench = Bench::new(0, (0, 10));
        bench.fault("IncreaseSize", &[Fault::Refuse(status)]);
        let (end, seconds) = bench.increased(bench.request(0, 5)).await;
        let error = end.expect_err("refused");
        assert_eq!((error.class, error.created, error.unknown), (class, 0, false), "{status:?}");
        assert!(10 <= seconds && bench.sent("IncreaseSize") == 1, "{seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_of_an_increase_is_counted() {
    let bench = Bench::new(1, (0, 10));
    bench.fault("IncreaseSize", &[Fault::Part(2)]);
    let (end, _) = bench.increased(bench.request(1, 6)).await;
    assert_eq!(end.expect_err("refused").created, 2);
    assert_eq!(bench.bought(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_an_effect_is_accepted_and_never_sent_again() {
    let bench = Bench::new(0, (0, 10));
    bench.fault("IncreaseSize", &[Fault::Nothing]);
    assert_eq!(bench.increase(0, 5).await, ACCEPTED);
    assert_eq!(bench.sent("IncreaseSize"), 1);
}

#[tokio::test(start_paused = true)]
async fn three_calls_in_vain_refuse_an_increase() {
    let bench = Bench::new(0, (0, 10));
    bench.fault("IncreaseSize", &[Fault::LoseCall, Fault::LoseCall, Fault::LoseCall]);
    let (end, _) = bench.increased(bench.request(0, 5)).await;
    assert_eq!(end.expect_err("refused").class, FailureClass::Other);
    assert_eq!((bench.bought(), bench.sent("IncreaseSize")), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_in_doubt_when_nothing_was_sent() {
    let bench = Bench::new(0, (0, 10));
    bench.fault("IncreaseSize", &[Fault::Down]);
    assert!(bench.increase(0, 5).await.is_err_and(|error| error.unknown));
    assert_eq!(bench.increase(0, 5).await, ACCEPTED);
    assert_eq!((bench.bought(), bench.sent("IncreaseSize")), (5, 1));
}

#[tokio::test(start_paused = true)]
async fn a_size_that_fell_or_a_maximum_that_does_supersedes() {
    let bench = Bench::new(1, (0, 10));
    assert_eq!(bench.increase(2, 5).await, Ok(Increased::Superseded));
    assert_eq!(bench.increase(1, 11).await, Ok(Increased::Superseded));
    let mut bench = Bench::new(1, (0, 10));
    bench.settings().groups[0].max = Some(4);
    assert_eq!(bench.increase(1, 5).await, Ok(Increased::Superseded));
    assert_eq!(bench.bought(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_names_the_exact_victim_with_its_labels_and_annotations() {
    let bench = Bench::new(3, (0, 10));
    bench.observe().await.expect("read");
    assert_eq!(bench.delete("fake://old-1").await, Ok(()));
    // Again, as after a restart: it is gone, and nothing is sent.
    assert_eq!(bench.delete("fake://old-1").await, Ok(()));
    let cloud = bench.fake.cloud();
    let [node] = cloud.deleted.as_slice() else { panic!("one deletion, not {}", cloud.deleted.len()) };
    assert_eq!((node.provider_id.as_str(), node.name.as_str()), ("fake://old-1", "n"));
    assert_eq!((node.labels["zone"].as_str(), node.annotations["machine"].as_str()), ("z", "m-1"));
    assert_eq!(cloud.groups["a"].target, 2);
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_a_node_is_deleted_as_cluster_autoscaler_does() {
    let bench = Bench::new(2, (0, 10));
    bench.observe().await.expect("read");
    let never = Victim { node: "".into(), id: "fake://old-0".into() };
    assert_eq!(bench.provider.delete(&bench.pool, &never, None).await, Ok(()));
    let node = bench.fake.cloud().deleted.remove(0);
    assert_eq!((node.provider_id.as_str(), node.name.as_str()), ("fake://old-0", "fake://old-0"));
    assert_eq!(node.annotations["k8s.io/cluster-autoscaler/fake-node-reason"], "unregistered");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_refused_at_the_minimum_and_for_a_node_of_another_group() {
    let bench = Bench::new(2, (2, 10));
    bench.observe().await.expect("read");
    assert!(bench.delete("fake://old-0").await.is_err_and(|error| error.message.contains("minimum")));
    let bench = Bench::new(2, (0, 10));
    bench.observe().await.expect("read");
    for owner in ["b", ""] {
        bench.fake.cloud().owner = Some(owner.to_owned());
        let end = bench.delete("fake://old-0").await;
        assert!(end.is_err_and(|error| !error.unknown), "{owner:?}");
    }
    assert_eq!(bench.sent("DeleteNodes"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_without_an_answer_is_not_repeated_while_in_doubt() {
    let bench = Bench::new(3, (0, 10));
    bench.observe().await.expect("read");
    bench.fault("DeleteNodes", &[Fault::LoseCall]);
    assert!(bench.delete("fake://old-1").await.is_err_and(|error| error.unknown));
    bench.pass(WRITE_TIMEOUT + 5).await;
    assert!(bench.delete("fake://old-1").await.is_err_and(|error| error.unknown));
    assert_eq!(bench.sent("DeleteNodes"), 1);
    bench.pass(2 * WRITE_TIMEOUT + 20).await;
    assert_eq!(bench.delete("fake://old-1").await, Ok(()));
    assert_eq!((bench.sent("DeleteNodes"), bench.target()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_size_below_what_runs_after_a_deletion_is_raised_again() {
    let bench = Bench::new(4, (0, 10));
    bench.observe().await.expect("read");
    bench.fake.cloud().lowers_twice = true;
    assert_eq!(bench.delete("fake://old-1").await, Ok(()));
    assert_eq!((bench.sent("IncreaseSize"), bench.target()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn removals_rest_where_the_server_replaces_what_is_deleted() {
    let bench = Bench::new(5, (0, 10));
    bench.observe().await.expect("read");
    bench.fake.cloud().replaces = true;
    for id in ["fake://old-0", "fake://old-1", "fake://old-2"] {
        assert_eq!(bench.delete(id).await, Ok(()));
    }
    assert!(bench.delete("fake://old-3").await.is_err_and(|error| error.message.contains("rest")));
    bench.pass(601).await;
    assert_eq!(bench.delete("fake://old-3").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_come_is_taken_back_down_to_what_is_there() {
    let bench = Bench::new(2, (0, 10));
    bench.fake.cloud().groups.get_mut("a").expect("there").target = 6;
    assert_eq!(bench.cancelled(1, 6).await, ACCEPTED);
    assert_eq!((bench.target(), bench.sent("DecreaseTargetSize"), bench.sent("DeleteNodes")), (2, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn failed_launches_are_deleted_one_by_one_when_an_increase_is_taken_back() {
    let bench = Bench::new(1, (0, 10));
    {
        let mut cloud = bench.fake.cloud();
        let group = cloud.groups.get_mut("a").expect("there");
        group.target = 4;
        for id in ["fake://f1", "fake://f2"] {
            group.instances.push(instance(id, State::Creating, Some(("OUT_OF_STOCK", 1))));
        }
    }
    bench.observe().await.expect("read");
    assert_eq!(bench.cancelled(1, 4).await, ACCEPTED);
    let deleted: Vec<String> =
        bench.fake.cloud().deleted.iter().map(|node| node.provider_id.clone()).collect();
    assert_eq!((deleted, bench.target()), (vec!["fake://f1".to_owned(), "fake://f2".to_owned()], 1));
}

#[tokio::test(start_paused = true)]
async fn a_decrease_without_an_effect_is_reported_and_ends() {
    let bench = Bench::new(1, (0, 10));
    bench.fake.cloud().groups.get_mut("a").expect("there").target = 3;
    bench.fault("DecreaseTargetSize", &[Fault::Nothing]);
    assert_eq!(bench.cancelled(1, 3).await, ACCEPTED);
    let notices = bench.observe().await.expect("read").state.notices;
    assert!(notices.iter().any(|notice| notice.kind.as_str() == "Unfulfilled"), "{notices:?}");
}
