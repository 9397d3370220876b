//! Notices of interruptions: the content of a queue's message, and the instances that are about to go. A message stays
//! in the queue until the instances that it names have gone or are on their way, so that no restart loses it. It makes
//! no call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::time::{Seconds, UnixTime};
use serde_json::Value;

use super::calls::Message;

/// Largest message that is read, in bytes; EventBridge's own are a few hundred.
const MESSAGE_MAX_BYTES: usize = 64 << 10;
/// Most instances that one message may name.
const INSTANCES_MAX: usize = 100;
/// Most messages that are remembered; further ones come again later.
const MESSAGES_MAX: usize = 10_000;
/// Instances that no group lists are let go of by reads that began this much after the message came: a list may be old.
const LIST_LAG: Seconds = Seconds(30);
/// States of an instance that is going: what it runs ends with it.
const GOING: [&str; 4] = ["stopping", "stopped", "shutting-down", "terminated"];

/// Request of an interruption message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// Ids of the instances that go.
    pub instances: BTreeSet<Arc<str>>,
    /// AWS's name of the event, for people.
    pub event: Arc<str>,
}

/// Reads the body of a message: an event as EventBridge writes it. `None` for all that names no instance that goes:
/// recommendations, other events, and text that is not an event at all.
#[must_use]
pub fn read(body: &str) -> Option<Interruption> {
    if MESSAGE_MAX_BYTES < body.len() {
        return None;
    }
    let event: Value = serde_json::from_str(body).ok()?;
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let (source, kind) = (text(&event, "source")?, text(&event, "detail-type")?);
    let detail = event.get("detail")?;
    let named: Vec<String> = match (source.as_str(), kind.as_str()) {
        ("aws.ec2", "EC2 Spot Instance Interruption Warning") => {
            text(detail, "instance-id").into_iter().collect()
        }
        ("aws.ec2", "EC2 Instance State-change Notification") => {
            let going = text(detail, "state").is_some_and(|state| GOING.contains(&state.as_str()));
            text(detail, "instance-id").filter(|_| going).into_iter().collect()
        }
        ("aws.health", "AWS Health Event") => {
            let scheduled = text(detail, "service").as_deref() == Some("EC2")
                && text(detail, "eventTypeCategory").as_deref() == Some("scheduledChange");
            let entities = detail.get("affectedEntities").and_then(Value::as_array);
            let entities = entities.filter(|_| scheduled).into_iter().flatten();
            entities.filter_map(|entity| text(entity, "entityValue")).collect()
        }
        _ => return None,
    };
    let instances: BTreeSet<Arc<str>> =
        named.iter().take(INSTANCES_MAX).filter(|id| is_instance(id)).map(|id| id.as_str().into()).collect();
    (!instances.is_empty()).then(|| Interruption { instances, event: kind.into() })
}

/// True if this has the shape of an instance's id.
fn is_instance(id: &str) -> bool {
    let digits = id.strip_prefix("i-").unwrap_or_default();
    (8..=32).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A message that has not done its duty yet.
#[derive(Clone, Debug)]
struct Held {
    queue: Arc<str>,
    /// Receipt handle by which it is deleted; the newest that was given.
    receipt: String,
    interruption: Interruption,
    came_at: UnixTime,
}

/// State of an instance that a message names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A group lists it as running or coming.
    Here,
    /// It is going or gone, by its group or by our own call.
    Going,
    /// No group of ours lists it.
    Unlisted,
}

/// A message that can be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Its id.
    pub id: Arc<str>,
    /// Its queue.
    pub queue: Arc<str>,
    /// Receipt handle by which it is deleted.
    pub receipt: String,
}

/// The messages that are remembered.
#[derive(Clone, Debug, Default)]
pub struct Interruptions {
    messages: BTreeMap<Arc<str>, Held>,
}

impl Interruptions {
    /// Takes a message in; what can be deleted at once comes back. The same message again changes nothing but its receipt.
    pub fn take(&mut self, queue: &Arc<str>, message: Message, now: UnixTime) -> Option<Settled> {
        let Message { id, receipt, body } = message;
        if let Some(held) = self.messages.get_mut(&id) {
            held.receipt = receipt;
            return None;
        }
        let Some(interruption) = read(&body) else {
            return Some(Settled { id, queue: queue.clone(), receipt });
        };
        if self.messages.len() < MESSAGES_MAX {
            let held = Held { queue: queue.clone(), receipt, interruption, came_at: now };
            self.messages.insert(id, held);
        }
        None
    }

    /// Messages that have done their duty: each of their instances is going, or is none of ours by a whole list that was
    /// read at `listed_at`.
    #[must_use]
    pub fn settled(&self, fate: impl Fn(&str) -> Fate, listed_at: Option<UnixTime>) -> Vec<Settled> {
        let over = |held: &Held, id: &str| match fate(id) {
            Fate::Here => false,
            Fate::Going => true,
            Fate::Unlisted => listed_at.is_some_and(|at| held.came_at.plus(LIST_LAG) <= at),
        };
        let over = |held: &Held| held.interruption.instances.iter().all(|id| over(held, id));
        let settled = self.messages.iter().filter(|(_, held)| over(held));
        settled
            .map(|(id, held)| Settled {
                id: id.clone(),
                queue: held.queue.clone(),
                receipt: held.receipt.clone(),
            })
            .collect()
    }

    /// Forgets a message that was deleted.
    pub fn forget(&mut self, id: &str) {
        self.messages.remove(id);
    }

    /// Returns the event that AWS has announced for an instance; `None` if there is none.
    #[must_use]
    pub fn event_of(&self, instance: &str) -> Option<&Arc<str>> {
        let named = |held: &&Held| held.interruption.instances.contains(instance);
        self.messages.values().find(named).map(|held| &held.interruption.event)
    }

    /// True if nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPOT: &str = r#"{"version":"0","id":"1","detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2",
        "account":"1","time":"2026-01-01T00:00:00Z","region":"eu-west-1","resources":[],
        "detail":{"instance-id":"i-0123456789abcdef0","instance-action":"terminate"}}"#;
    const HEALTH: &str = r#"{"detail-type":"AWS Health Event","source":"aws.health","detail":{"service":"EC2",
        "eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-00000001"},{"entityValue":"vol-1"},
        {"entityValue":"i-00000002"}]}}"#;
    const STATE: &str = r#"{"detail-type":"EC2 Instance State-change Notification","source":"aws.ec2",
        "detail":{"instance-id":"i-00000001","state":"stopping"}}"#;
    const NOW: UnixTime = UnixTime(1_000);

    fn message(id: &str, receipt: &str, body: &str) -> Message {
        Message { id: id.into(), receipt: receipt.into(), body: body.into() }
    }

    fn ids(body: &str) -> Vec<String> {
        read(body).into_iter().flat_map(|found| found.instances).map(|id| id.to_string()).collect()
    }

    #[test]
    fn warnings_state_changes_and_scheduled_changes_name_instances_that_go() {
        assert_eq!(ids(SPOT), ["i-0123456789abcdef0"]);
        assert_eq!(&*read(SPOT).expect("a warning").event, "EC2 Spot Instance Interruption Warning");
        assert_eq!(ids(HEALTH), ["i-00000001", "i-00000002"]);
        assert_eq!(ids(STATE), ["i-00000001"]);
    }

    #[test]
    fn recommendations_other_events_and_nonsense_name_none() {
        let recommended =
            SPOT.replace("Spot Instance Interruption Warning", "Instance Rebalance Recommendation");
        let long = SPOT.replace("terminate", &"x".repeat(MESSAGE_MAX_BYTES));
        for body in [
            recommended.as_str(),
            &SPOT.replace("aws.ec2", "my.app"),
            &SPOT.replace("i-0123456789abcdef0", "i-0123; rm"),
            &STATE.replace("stopping", "running"),
            &HEALTH.replace("scheduledChange", "accountNotification"),
            &long,
            "[]",
            "not an event",
            "",
        ] {
            assert_eq!(read(body), None, "{}", &body[..body.len().min(80)]);
        }
    }

    #[test]
    fn message_is_kept_until_its_instance_goes_and_a_doubled_one_changes_only_the_receipt() {
        let (mut held, queue) = (Interruptions::default(), Arc::from("q"));
        assert_eq!(held.take(&queue, message("m", "r1", STATE), NOW), None);
        assert_eq!(held.take(&queue, message("m", "r2", STATE), NOW), None);
        assert!(held.event_of("i-00000001").is_some() && held.event_of("i-00000009").is_none());
        assert!(held.settled(|_| Fate::Here, Some(UnixTime(9_999))).is_empty());
        let settled = held.settled(|_| Fate::Going, None);
        assert_eq!(settled, [Settled { id: "m".into(), queue, receipt: "r2".into() }]);
        held.forget("m");
        assert!(held.is_empty() && held.event_of("i-00000001").is_none());
    }

    #[test]
    fn alien_instance_is_let_go_of_only_after_a_list_that_is_newer_than_the_message() {
        let (mut held, queue) = (Interruptions::default(), Arc::from("q"));
        held.take(&queue, message("m", "r", STATE), NOW);
        for listed_at in [None, Some(NOW), Some(NOW.plus(Seconds(29)))] {
            assert!(held.settled(|_| Fate::Unlisted, listed_at).is_empty(), "{listed_at:?}");
        }
        assert_eq!(held.settled(|_| Fate::Unlisted, Some(NOW.plus(LIST_LAG))).len(), 1);
    }

    #[test]
    fn message_of_several_instances_waits_for_all_of_them() {
        let (mut held, queue) = (Interruptions::default(), Arc::from("q"));
        held.take(&queue, message("m", "r", HEALTH), NOW);
        let first_gone = |id: &str| if id == "i-00000001" { Fate::Going } else { Fate::Here };
        assert!(held.settled(first_gone, None).is_empty());
    }

    #[test]
    fn what_says_nothing_is_deleted_at_once() {
        let (mut held, queue) = (Interruptions::default(), Arc::from("q"));
        let settled = held.take(&queue, message("m", "r", "hello"), NOW).expect("it says nothing");
        assert_eq!((&*settled.id, &*settled.receipt), ("m", "r"));
        assert!(held.is_empty());
    }
}
