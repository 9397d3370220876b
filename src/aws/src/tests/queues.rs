//! Queues of interruptions: which instances are reported as interrupted, when messages are deleted, and what a queue that fails does not harm.

use std::sync::Arc;

use headroom_core::world::provider::{NoticeKind, ProviderState};

use super::fake::{Bench, group};
use headroom_provider::ProviderSettings;

const DELETE: &str = "sqs:DeleteMessage";

/// A group of two instances, and a pool that reads this queue.
fn bench(queue: &str) -> Bench {
    let mut bench = Bench::new(vec![group("a", 0, 2, 10)]);
    let ProviderSettings::Aws(settings) = &mut bench.pool.settings else { panic!("a pool at AWS") };
    settings.interruption_queue = Some(queue.into());
    bench
}

fn send(bench: &Bench, message: &str, instance: &str) {
    let body = format!(
        r#"{{"source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","detail":{{"instance-id":"{instance}"}}}}"#
    );
    bench.fake.account().messages.insert(message.into(), body);
}

async fn state(bench: &Bench) -> ProviderState {
    bench.observe().await.expect("read").state
}

fn interrupted(state: &ProviderState) -> Vec<Arc<str>> {
    state.groups["a"].interrupted.keys().cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn a_warning_is_reported_within_a_second_and_its_message_stays_until_the_instance_goes() {
    let bench = bench("events");
    let observation = bench.observe().await.expect("read");
    assert!(observation.next_in.is_some_and(|next| next.as_secs() <= 1), "{:?}", observation.next_in);
    let id = bench.ids("a")[0].clone();
    send(&bench, "m1", &id);
    for _ in 0..3 {
        bench.pass(1).await;
        assert_eq!(interrupted(&state(&bench).await), std::slice::from_ref(&id));
    }
    assert_eq!((bench.calls(DELETE), bench.fake.account().messages.len()), (0, 1));
    bench.delete(&id).await.expect("terminated");
    bench.pass(1).await;
    state(&bench).await;
    assert_eq!((bench.calls(DELETE), bench.fake.account().messages.len()), (1, 0));
    bench.pass(70).await;
    assert!(interrupted(&state(&bench).await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_restart_reads_the_message_again() {
    let before = bench("events");
    let id = before.ids("a")[0].clone();
    send(&before, "m1", &id);
    assert_eq!(interrupted(&state(&before).await), std::slice::from_ref(&id));
    let after = bench("events");
    *after.fake.account() = std::mem::take(&mut *before.fake.account());
    assert_eq!(interrupted(&state(&after).await), [id]);
}

#[tokio::test(start_paused = true)]
async fn doubled_late_alien_and_senseless_messages_do_no_harm_and_go() {
    let bench = bench("events");
    let id = bench.ids("a")[0].clone();
    for (message, instance) in [("m1", &*id), ("m2", &*id), ("alien", "i-0badc0de"), ("nonsense", "x")] {
        send(&bench, message, instance);
    }
    assert_eq!(interrupted(&state(&bench).await), std::slice::from_ref(&id));
    let left: Vec<String> = bench.fake.account().messages.keys().map(ToString::to_string).collect();
    assert_eq!(left, ["alien", "m1", "m2"], "what is no notice goes at once");
    bench.delete(&id).await.expect("terminated");
    for _ in 0..4 {
        bench.pass(31).await;
        state(&bench).await;
    }
    assert!(bench.fake.account().messages.is_empty());
    send(&bench, "late", &id);
    assert!(interrupted(&state(&bench).await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_fails_is_reported_and_not_read_for_a_while_and_groups_are_read_all_the_same() {
    let bench = bench("elsewhere");
    let state = state(&bench).await;
    assert_eq!(state.groups["a"].instances.len(), 2);
    let notice = state.notices.iter().find(|notice| notice.kind == NoticeKind::ReadFailed).expect("a notice");
    assert!(notice.message.contains("sqs:GetQueueUrl"), "{}", notice.message);
    bench.observe().await.expect("read");
    assert_eq!(bench.calls("sqs:GetQueueUrl"), 1);
    bench.pass(6).await;
    bench.observe().await.expect("read");
    assert_eq!(bench.calls("sqs:GetQueueUrl"), 2);
}

#[tokio::test(start_paused = true)]
async fn no_queue_is_read_unless_it_is_named() {
    let bench = Bench::new(vec![group("a", 0, 2, 10)]);
    bench.observe().await.expect("read");
    assert_eq!((bench.calls("sqs:GetQueueUrl"), bench.calls("sqs:ReceiveMessage")), (0, 0));
}
