//! Writes on a group: growing it, taking back what did not come, deleting one instance. No write is ever cancelled, and
//! none is repeated while an earlier one may yet take effect.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::time::Seconds;
use headroom_core::world::provider::FailureClass;
use headroom_provider::external_grpc::Settings;
use headroom_provider::gate::{Closed, End as Word};
use headroom_provider::{Error, Increase, Increased, NodeMetadata};
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::calls::{Answer, CallError, End, Status};
use super::group::Reading;
use super::memory::{Memory, Next, Wish, class_of};
use super::server::Server;
use super::wire::Node;

/// Pause while a write is under way.
const AGAIN: Duration = Duration::from_secs(2);
/// Failed launches deleted by one step.
const FAILED_PER_STEP: usize = 4;
/// Cluster Autoscaler's mark of a node that it made up for an instance without one.
const FAKE_NODE_ANNOTATION: &str = "k8s.io/cluster-autoscaler/fake-node-reason";

/// A group's memory, held while one of its writes is under way.
type Held = OwnedMutexGuard<Memory>;

/// A write as it is sent: its name in the memory and its words in logs.
struct Write {
    group: Arc<str>,
    name: Arc<str>,
    operation: String,
    size_before: u32,
    timeout: Duration,
    call: BoxFuture<'static, Answer<()>>,
}

/// State of a write at the end of this step.
enum Sent {
    /// Its end is in the group's memory.
    Ended,
    /// It still runs.
    Running,
}

fn pending(request: &Increase, pause: Duration) -> Increased {
    let seconds = i64::try_from(pause.as_secs().max(1)).unwrap_or(i64::MAX);
    Increased::Pending(request.now.plus(Seconds(seconds)))
}

fn unread(error: &CallError) -> Error {
    Error::unknown(error.message.clone())
}

/// Raises a group's size to `request.to`.
///
/// # Errors
/// [`Error`] when the server refused, or when it is unknown what a call did.
pub(crate) async fn increase(
    server: &Arc<Server>,
    settings: &Settings,
    request: &Increase,
) -> Result<Increased, Error> {
    // The second turn takes in the end of the call that the first one made.
    for _ in 0..2 {
        let Ok(mut memory) = server.memory(&request.group).try_lock_owned() else {
            return Ok(pending(request, AGAIN));
        };
        let clock = server.host.monotonic();
        if !request.began_this_term {
            memory.take_over(&request.intent, clock, settings.write_timeout);
        }
        let read = server.fresh(&request.group, settings.read_timeout).await;
        let Some(reading) = read.map_err(|error| unread(&error))? else {
            return Err(missing(server, &request.group));
        };
        let max = settings.bounds_of(&request.group).1.unwrap_or(u32::MAX).min(reading.bounds.1);
        let wish = Wish { intent: request.intent.clone(), from: request.from, to: request.to, max };
        let delta = match memory.next(&wish, &reading, server.host.monotonic()) {
            Next::Finish(end) => return end,
            Next::Wait(pause) => return Ok(pending(request, pause)),
            Next::Send(delta) => delta,
        };
        let write = Write {
            name: request.intent.clone(),
            ..resize(server, settings, &request.group, i64::from(delta), reading.target)?
        };
        if let Sent::Running = send(server, memory, write).await? {
            return Ok(pending(request, AGAIN));
        }
    }
    Ok(pending(request, AGAIN))
}

/// A missing group: unknown at first, and invalid once it has been missing for long.
fn missing(server: &Arc<Server>, group: &Arc<str>) -> Error {
    let words = format!("the server lists no group {group}");
    let now = server.host.monotonic();
    let gone = server.snapshot().groups.get(group).is_some_and(|group| group.is_gone(now));
    if gone { Error::refused(FailureClass::InvalidConfiguration, words) } else { Error::unknown(words) }
}

/// A write of the size by a delta.
fn resize(
    server: &Arc<Server>,
    settings: &Settings,
    group: &Arc<str>,
    delta: i64,
    size_before: u32,
) -> Result<Write, Error> {
    let delta = i32::try_from(delta).map_err(|_| {
        Error::refused(FailureClass::InvalidConfiguration, format!("{delta} nodes are too many"))
    })?;
    let (calls, id, timeout) = (server.calls.clone(), group.clone(), settings.write_timeout);
    let rpc = if 0 < delta { "NodeGroupIncreaseSize" } else { "NodeGroupDecreaseTargetSize" };
    let call: BoxFuture<'static, Answer<()>> = Box::pin(async move {
        if 0 < delta {
            calls.increase(&id, delta, timeout).await
        } else {
            calls.decrease(&id, delta, timeout).await
        }
    });
    let operation = format!("ExternalGrpc {rpc} {group} {delta:+}");
    Ok(Write { group: group.clone(), name: "".into(), operation, size_before, timeout, call })
}

/// Sends a write through the gate. It runs as a task of its own: dropped, it would be cancelled at the server between two
/// machines. The task holds the group's memory until it has noted the end there.
///
/// # Errors
/// [`Error`] when nothing was sent.
async fn send(server: &Arc<Server>, mut memory: Held, write: Write) -> Result<Sent, Error> {
    let Write { group, name, operation, size_before, timeout, call } = write;
    server.note_write(&group);
    let (done, ended) = oneshot::channel::<&'static str>();
    let host = server.host.clone();
    let noted = server.noted();
    let task = async move {
        let answer = call.await;
        let word = answer.as_ref().map_or_else(CallError::word, |()| "ok");
        memory.end(&name, size_before, answer, host.monotonic(), timeout);
        drop(memory);
        noted(&group);
        // The step may have stopped waiting.
        let _ = done.send(word);
    };
    let host = server.host.clone();
    let passing = Box::pin(async move {
        host.spawn(task);
        Word(ended.await.unwrap_or("no-answer").to_owned())
    });
    match server.gate.pass(operation, passing).await {
        Ok(()) => Ok(Sent::Ended),
        Err(Closed::NotSent(words)) => Err(Error::unknown(words)),
        Err(Closed::EndUnknown(_)) => Ok(Sent::Running),
    }
}

/// Takes back what an increase asked for and what does not come: failed launches one by one, then the size by what is
/// missing, never below `request.from`, the server's minimum and the instances that are there.
///
/// # Errors
/// [`Error`] when the server refused, or when it is unknown what a call did.
pub(crate) async fn cancel(
    server: &Arc<Server>,
    settings: &Settings,
    request: &Increase,
) -> Result<Increased, Error> {
    let name: Arc<str> = format!("cancel {}", request.intent).into();
    let Ok(mut memory) = server.memory(&request.group).try_lock_owned() else {
        return Ok(pending(request, AGAIN));
    };
    let read = server.fresh(&request.group, settings.read_timeout).await;
    let Some(reading) = read.map_err(|error| unread(&error))? else { return Ok(Increased::Accepted) };
    if let Some(pause) = memory.waits(reading.target, server.host.monotonic()) {
        return Ok(pending(request, pause));
    }
    let floor = request.from.max(reading.bounds.0).max(reading.live);
    let missing = reading.target.saturating_sub(floor);
    if let Some(answer) = memory.take_end(&name) {
        return after_decrease(server, request, missing, answer);
    }
    let failed: Vec<Arc<str>> = {
        let registered = &server.snapshot().registered;
        reading.failed.iter().filter(|id| !registered.contains(*id)).cloned().collect()
    };
    if let Some(id) = failed.first().filter(|_| reading.bounds.0 < reading.target) {
        drop(memory);
        for id in failed.iter().take(FAILED_PER_STEP) {
            let node = made_up(id, "create-error");
            delete_node(server, settings, &request.group, node).await?;
        }
        tracing::info!(group = %request.group, first = %id, "failed launches deleted");
        return Ok(pending(request, AGAIN));
    }
    if missing == 0 {
        return Ok(Increased::Accepted);
    }
    let resize = resize(server, settings, &request.group, -i64::from(missing), reading.target)?;
    let write = Write { name: name.clone(), ..resize };
    send(server, memory, write).await?;
    // Its end is taken in after a fresh read.
    Ok(pending(request, AGAIN))
}

fn after_decrease(
    server: &Arc<Server>,
    request: &Increase,
    missing: u32,
    answer: Answer<()>,
) -> Result<Increased, Error> {
    let words = match answer {
        Ok(()) if missing == 0 => None,
        Ok(()) => Some(format!("{missing} wanted instances do not come, and the server keeps its size")),
        Err(error) if error.is(Status::Precondition) || error.is(Status::Unimplemented) => {
            Some(format!("{missing} wanted instances do not come: {}", error.message))
        }
        Err(error) => return Err(unread(&error)),
    };
    let now = server.host.monotonic();
    if let Some(group) = server.snapshot().groups.get_mut(&request.group) {
        group.unfulfilled = words.map(|words| (words, now));
    }
    Ok(Increased::Accepted)
}

/// Deletes one instance; the size goes with it.
///
/// # Errors
/// [`Error`] when the server refused, or when it is unknown what the call did.
pub(crate) async fn delete(
    server: &Arc<Server>,
    settings: &Settings,
    victim: &Victim,
    metadata: Option<&NodeMetadata>,
) -> Result<(), Error> {
    let id = &victim.id;
    let found = {
        let snapshot = server.snapshot();
        let known = snapshot.read_at.is_some();
        let of = snapshot.groups.iter().find(|(_, group)| group.instances.contains_key(id));
        (known, of.map(|(name, _)| name.clone()))
    };
    let group = match found {
        (_, Some(group)) => group,
        // All groups were read, and none lists it.
        (true, None) => return Ok(()),
        (false, None) => {
            return Err(Error::unknown(format!("no group has been read yet: the group of {id} is unknown")));
        }
    };
    let node = match metadata {
        Some(metadata) => real(victim, metadata),
        None if victim.node.is_empty() => made_up(id, "unregistered"),
        None => real(victim, &NodeMetadata::default()),
    };
    let now = server.host.monotonic();
    {
        let memory = server.memory(&group);
        let Ok(memory) = memory.try_lock() else {
            return Err(Error::unknown(format!("another write on group {group} is under way")));
        };
        if memory.rests(now) {
            let words = format!("the server replaced what was deleted in group {group}: its removals rest");
            return Err(Error::refused(FailureClass::Other, words));
        }
    }
    let before = delete_node(server, settings, &group, node).await?;
    let Some(before) = before else { return Ok(()) };
    settle(server, settings, &group, &before).await;
    Ok(())
}

/// Deletes one node after a fresh look; the sizes before it, or `None` if nothing was to be done.
async fn delete_node(
    server: &Arc<Server>,
    settings: &Settings,
    group: &Arc<str>,
    node: Node,
) -> Result<Option<Reading>, Error> {
    let id: Arc<str> = node.provider_id.as_str().into();
    let Ok(memory) = server.memory(group).try_lock_owned() else {
        return Err(Error::unknown(format!("another write on group {group} is under way")));
    };
    let read = server.fresh(group, settings.read_timeout).await.map_err(|error| unread(&error))?;
    let Some(reading) = read else { return Err(missing(server, group)) };
    if reading.leaving.get(&id).is_none_or(|leaving| *leaving) {
        return Ok(None);
    }
    // A second call may lower the size twice.
    let name: Arc<str> = format!("delete {id}").into();
    if memory.is_lost(&name, server.host.monotonic()) {
        return Err(Error::unknown(format!("an earlier deletion of {id} may yet take effect")));
    }
    let owner = server.calls.group_of(&node, settings.read_timeout).await.map_err(|error| unread(&error))?;
    if owner.as_deref() != Some(&**group) {
        let owner = owner.unwrap_or_else(|| "none".to_owned());
        let words = format!("the server says that {id} is of group {owner}, and lists it in {group}");
        return Err(Error::refused(FailureClass::Other, words));
    }
    let min = settings.bounds_of(group).0.unwrap_or(0).max(reading.bounds.0);
    if reading.target <= min {
        let words = format!("group {group} is at its minimum of {min}");
        return Err(Error::refused(FailureClass::Other, words));
    }
    let (calls, to, timeout) = (server.calls.clone(), group.clone(), settings.write_timeout);
    let write = Write {
        group: group.clone(),
        name: name.clone(),
        operation: format!("ExternalGrpc NodeGroupDeleteNodes {group} {id}"),
        size_before: reading.target,
        timeout,
        call: Box::pin(async move { calls.delete(&to, &node, timeout).await }),
    };
    let sent = send(server, memory, write).await?;
    let Ok(mut memory) = server.memory(group).try_lock_owned() else {
        return Err(Error::unknown(format!("the deletion of {id} is under way")));
    };
    if let Sent::Running = sent {
        return Err(Error::unknown(format!("the deletion of {id} is under way")));
    }
    match memory.take_end(&name) {
        Some(Ok(())) => {
            if let Some(group) = server.snapshot().groups.get_mut(group) {
                group.gone.insert(id);
            }
            Ok(Some(reading))
        }
        Some(Err(error)) if error.end == End::NotSent => Err(unread(&error)),
        Some(Err(error)) => Err(Error::refused(class_of(&error), error.message)),
        None => Err(Error::unknown(format!("the deletion of {id} was not answered"))),
    }
}

/// After a deletion: a size below what stays is raised again, and a size that did not go down is noted.
async fn settle(server: &Arc<Server>, settings: &Settings, group: &Arc<str>, before: &Reading) {
    let mut reads = Vec::new();
    for _ in 0..2 {
        let Ok(Some(reading)) = server.fresh(group, settings.read_timeout).await else { return };
        let is_low = reading.target < reading.live;
        let is_high = before.target <= reading.target;
        reads.push((is_low, is_high, reading));
        if !is_low && !is_high {
            return;
        }
        server.host.sleep(AGAIN).await;
    }
    let Ok(mut memory) = server.memory(group).try_lock_owned() else { return };
    if reads.iter().all(|(_, is_high, _)| *is_high) {
        let now = server.host.monotonic();
        memory.replaced(now);
        let words = "an instance was deleted and the size did not go down: the server replaces it".to_owned();
        if let Some(group) = server.snapshot().groups.get_mut(group) {
            group.unfulfilled = Some((words, now));
        }
        return;
    }
    let Some((true, _, reading)) = reads.pop().filter(|_| reads.iter().all(|(is_low, _, _)| *is_low)) else {
        return;
    };
    let missing = i64::from(reading.live) - i64::from(reading.target);
    tracing::warn!(%group, from = reading.target, to = reading.live, "size below what runs after a deletion; raised");
    if let Ok(write) = resize(server, settings, group, missing, reading.target) {
        let write = Write { name: "keep what runs".into(), ..write };
        if let Err(error) = send(server, memory, write).await {
            tracing::warn!(%group, %error, "failed to raise the size to what runs");
        }
    }
}

/// The victim's node as it is.
fn real(victim: &Victim, metadata: &NodeMetadata) -> Node {
    let pairs = |labels: &headroom_core::labels::Labels| -> BTreeMap<String, String> {
        labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    Node {
        provider_id: victim.id.to_string(),
        name: victim.node.to_string(),
        labels: pairs(&metadata.labels),
        annotations: pairs(&metadata.annotations),
    }
}

/// The node that Cluster Autoscaler makes up for an instance without one: servers know it by its annotation.
fn made_up(id: &Arc<str>, reason: &str) -> Node {
    Node {
        provider_id: id.to_string(),
        name: id.to_string(),
        labels: BTreeMap::new(),
        annotations: [(FAKE_NODE_ANNOTATION.to_owned(), reason.to_owned())].into(),
    }
}
