//! Memory of replicas that nodes were bought for before they existed: by controller, and by namespace, so that a
//! controller of another name is held back too.

use std::sync::Arc;

use crate::expected::{controller_name, missing_replicas};
use headroom_cluster::history::{Anticipation, History, PoolHistory};
use headroom_cluster::world::World;
use headroom_cluster::world::workload::{Controller, ControllerKind};
use headroom_pools::wake::Wake;
use headroom_values::labels::ObjectKey;
use headroom_values::time::{Seconds, UnixTime};

/// Time for pods to appear after nodes were bought for them, and for the next one to appear after another.
pub const APPEARANCE_TIMEOUT: Seconds = Seconds(60);
/// First and longest pause of anticipation for a namespace in which pods did not appear, and time without a failure after
/// which the next pause is a first one again. Upstream's proactive injection has the same bounds
/// (processors/podinjection/backoff), by controller.
const ANTICIPATION_PAUSE: Seconds = Seconds::minutes(5);
const ANTICIPATION_PAUSE_MAX: Seconds = Seconds::minutes(30);

/// First part of the name under which the pause of a namespace is remembered.
const NAMESPACE: &str = "Namespace";

/// `Namespace/name`: the name of the pause of a whole namespace in memory and status.
#[must_use]
pub fn namespace_name(namespace: &str) -> Arc<str> {
    Arc::from(format!("{NAMESPACE}/{namespace}"))
}

/// Progress of a controller's replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Some are missing.
    Missing,
    /// All are there.
    Appeared,
    /// They will not appear: the controller is gone, wants no pods any more, or cannot make them.
    Withdrawn,
}

/// Drops the memory of controllers that have all their pods; those whose pods will not appear pause their namespace.
pub fn settle(world: &World, history: &mut History, now: UnixTime) {
    for memory in history.pools.values_mut() {
        let mut withdrawn = Vec::new();
        memory.anticipations.retain(|name, entry| match parse(name) {
            Some((_, key)) if stage(name, world) == Stage::Withdrawn => {
                if entry.until.is_none() {
                    withdrawn.push(key.namespace);
                }
                false
            }
            Some(_) => stage(name, world) == Stage::Missing,
            None => entry.until.is_some_and(|until| now < until.plus(ANTICIPATION_PAUSE_MAX)),
        });
        for namespace in withdrawn {
            pause_namespace(memory, &namespace, now);
        }
    }
}

/// Time until which a controller's replicas are not anticipated, for its own sake or its namespace's; begins a pause when none of them
/// has appeared for so long.
pub fn paused_until(
    controller: &Controller,
    world: &World,
    history: &mut History,
    now: UnixTime,
    wake: &mut Wake,
) -> Option<UnixTime> {
    let (name, of_namespace) = (controller_name(controller), namespace_name(&controller.key.namespace));
    let mut latest = None;
    for memory in history.pools.values_mut() {
        if let Some(entry) = memory.anticipations.get_mut(&name) {
            let due = appear_until(entry, controller, world, now);
            match entry.until {
                None if now < due => wake.note(due),
                None => {
                    *entry = paused(*entry, now);
                    latest = latest.max(entry.until);
                    pause_namespace(memory, &controller.key.namespace, now);
                }
                until => latest = latest.max(until),
            }
        }
        latest = latest.max(memory.anticipations.get(&of_namespace).and_then(|entry| entry.until));
    }
    latest.filter(|until| now < *until)
}

/// Time until which replicas that nodes were bought for may appear. A controller that makes its pods one after the other gets on,
/// however long all of them take: each one gives the next as long.
fn appear_until(entry: &Anticipation, controller: &Controller, world: &World, now: UnixTime) -> UnixTime {
    let due = entry.since.plus(APPEARANCE_TIMEOUT);
    if now < due {
        return due;
    }
    let youngest = world.youngest_pod_of(&controller.uid);
    youngest.map_or(due, |made_at| due.max(made_at.plus(APPEARANCE_TIMEOUT)))
}

/// Notes that `pool` bought nodes for replicas of these controllers.
pub fn note(history: &mut History, pool: &Arc<str>, controllers: &[Arc<str>], now: UnixTime) {
    let memory = history.pools.entry(pool.clone()).or_default();
    for name in controllers {
        let failures = memory.anticipations.get(name).map_or(0, |entry| entry.failures);
        memory.anticipations.insert(name.clone(), Anticipation { since: now, until: None, failures });
    }
}

/// Pauses a namespace, unless that has just been done for another of its controllers.
fn pause_namespace(memory: &mut PoolHistory, namespace: &str, now: UnixTime) {
    let fresh = Anticipation { since: now, until: None, failures: 0 };
    let entry = memory.anticipations.entry(namespace_name(namespace)).or_insert(fresh);
    if entry.until.is_none_or(|until| until <= now) {
        *entry = paused(Anticipation { since: now, ..*entry }, now);
    }
}

fn paused(entry: Anticipation, now: UnixTime) -> Anticipation {
    let doublings = entry.failures.min(8);
    let length = Seconds(ANTICIPATION_PAUSE.0 << doublings).min(ANTICIPATION_PAUSE_MAX);
    Anticipation {
        since: entry.since,
        until: Some(now.plus(length)),
        failures: entry.failures.saturating_add(1),
    }
}

fn stage(name: &str, world: &World) -> Stage {
    let Some(controller) = parse(name).and_then(|(kind, key)| world.controller(kind, &key)) else {
        return Stage::Withdrawn;
    };
    // A Job has all its pods when they are done, too.
    let has_pods = controller.kind == ControllerKind::Job || world.active_pods_of(&controller.uid) != 0;
    match missing_replicas(controller, world) {
        0 if controller.stalled.is_some() || !has_pods => Stage::Withdrawn,
        0 => Stage::Appeared,
        _ => Stage::Missing,
    }
}

/// Kind and key of a controller's name; `None` for that of a namespace.
fn parse(name: &str) -> Option<(ControllerKind, ObjectKey)> {
    let mut parts = name.splitn(3, '/');
    let kind = match parts.next()? {
        "ReplicaSet" => ControllerKind::ReplicaSet,
        "StatefulSet" => ControllerKind::StatefulSet,
        "Job" => ControllerKind::Job,
        "ReplicationController" => ControllerKind::ReplicationController,
        _ => return None,
    };
    Some((kind, ObjectKey::new(parts.next()?, parts.next()?)))
}
