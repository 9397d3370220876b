//! Reads the queues of interruptions, and deletes the messages that have done their duty.

use std::sync::Arc;
use std::time::Duration;

use super::calls::CallError;
use super::cloud::Cloud;
use super::ec2::DELETE_MESSAGE;
use super::interruptions::Settled;
use super::resize::through_gate;
use super::snapshot::{Failure, REST, Wanted};

/// Answers that one look at a queue takes; what is left comes with the next look.
const ANSWERS_MAX: usize = 10;
/// Pause after a failed look, times the failures in a row.
const PAUSE: Duration = Duration::from_secs(5);
/// Messages that one look deletes.
const DELETIONS_MAX: usize = 50;

/// Adopts the messages of the queues. A queue that fails is left alone for up to a minute, and holds up nothing else.
pub(crate) async fn refresh(cloud: &Cloud, wanted: &Wanted) {
    {
        let mut snapshot = cloud.snapshot();
        snapshot.queues.retain(|name, _| wanted.queues.contains(name));
        for name in &wanted.queues {
            snapshot.queues.entry(name.clone()).or_default();
        }
    }
    for name in &wanted.queues {
        let clock = cloud.host.monotonic();
        let pauses = |failure: &Failure| clock < failure.until;
        let before = cloud.snapshot().queues.get(name).and_then(|queue| queue.failure.clone());
        if before.as_ref().is_some_and(pauses) {
            continue;
        }
        let looked = look(cloud, name).await;
        let mut snapshot = cloud.snapshot();
        let Some(queue) = snapshot.queues.get_mut(name) else { continue };
        queue.failure = looked.err().map(|error| {
            let count = before.map_or(0, |failure| failure.count).saturating_add(1);
            Failure { error, count, until: cloud.host.monotonic() + REST.min(PAUSE * count.min(60)) }
        });
    }
}

/// Reads a queue until it has nothing more, and deletes what is settled.
async fn look(cloud: &Cloud, name: &Arc<str>) -> Result<(), CallError> {
    let known = cloud.snapshot().queues.get(name).and_then(|queue| queue.url.clone());
    let url = match known {
        Some(url) => url,
        None => {
            let url = cloud.calls.queue_url(name).await?;
            if let Some(queue) = cloud.snapshot().queues.get_mut(name) {
                queue.url = Some(url.clone());
            }
            url
        }
    };
    let mut settled = Vec::new();
    for _ in 0..ANSWERS_MAX {
        let messages = cloud.calls.receive(&url).await?;
        if messages.is_empty() {
            break;
        }
        let now = cloud.host.now();
        let mut snapshot = cloud.snapshot();
        settled.extend(messages.into_iter().filter_map(|one| snapshot.interruptions.take(name, one, now)));
    }
    {
        let snapshot = cloud.snapshot();
        let listed_at = snapshot.whole.as_ref().map(|(_, at, _)| *at);
        let over = snapshot.interruptions.settled(|id| snapshot.fate(id), listed_at);
        settled.extend(over.into_iter().filter(|one| one.queue == *name));
    }
    for one in settled.into_iter().take(DELETIONS_MAX) {
        delete(cloud, &url, &one).await?;
    }
    Ok(())
}

async fn delete(cloud: &Cloud, url: &str, settled: &Settled) -> Result<(), CallError> {
    let operation = format!("AWS DeleteMessage {}", settled.id);
    let call = cloud.calls.delete_message(url, &settled.receipt);
    through_gate(cloud, DELETE_MESSAGE, operation, call).await?;
    cloud.snapshot().interruptions.forget(&settled.id);
    Ok(())
}
