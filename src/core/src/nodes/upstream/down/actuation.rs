//! Deletions that have begun, from the hard taint to the cloud: what each does at which second, between loops too.
//!
//! Source: scaledown/actuation/{actuator,drain,group_deletion_scheduler,delete_in_batch}.go.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Pass;
use super::choice::Started;
use super::memory::{Deletion, Shrinking, Stage};
use super::status::{Act, Answer, DeleteResult};
use crate::config::{Config, Drain};
use crate::history::History;
use crate::labels::ObjectKey;
use crate::nodes::context::Context;
use crate::nodes::drainability::{Disruptions, Drainability, Rules};
use crate::time::{Seconds, UnixTime};
use crate::world::pod::Pod;
use crate::world::{PodEntry, World};

/// Between two attempts to evict a pod. Source: drain.go, EvictionRetryTime.
const EVICTION_RETRY: Seconds = Seconds(10);
/// Between two looks for pods that should have gone. Source: drain.go.
const GONE_LOOK: Seconds = Seconds(5);
/// What pods may take beyond their grace. Source: drain.go, PodEvictionHeadroom.
const GONE_EXTRA: Seconds = Seconds(30);
/// When a deletion that the cloud accepted is over for the registry. Source: static_autoscaler.go.
const DELETION_EXPECTED: Seconds = Seconds(300);

/// Writes the deletions down and marks their nodes.
pub fn begin(ctx: &mut Context<'_>, pass: &Pass<'_>, started: &[Started]) -> Vec<Act> {
    let options = &ctx.config.cluster.upstream.down;
    let due = ctx.now.plus(options.delay_after_taint);
    let mut acts = Vec::new();
    for one in started {
        let group = pass.groups[one.group].id.clone();
        if one.atomic != 0 {
            ctx.next.shrinking.failed_groups.remove(&group);
        }
        ctx.next.shrinking.deletions.push(Deletion {
            node: one.node.clone(),
            instance: one.instance.clone(),
            pool: pass.groups[one.group].pool.clone(),
            group,
            drain: one.drain,
            atomic: one.atomic,
            stage: Stage::Tainted(due),
        });
        acts.push(Act::HardTaint(one.node.clone()));
        if options.cordon {
            acts.push(Act::Cordon(one.node.clone()));
        }
    }
    acts
}

/// When a deletion is due next; `None` when none is under way.
#[must_use]
pub fn next_act(history: &History) -> Option<UnixTime> {
    let memory = &history.shrinking;
    let due = memory.deletions.iter().filter_map(|one| match &one.stage {
        Stage::Tainted(due) => Some(*due),
        Stage::Evicting { next, .. } | Stage::Leaving { next, .. } => Some(*next),
        Stage::Ready => memory.batches.get(&one.group).copied(),
    });
    due.min()
}

/// Moves deletions on that are due at `now`; evictions and deletions are answered by [`answer`] before the next call.
pub fn act(world: &World, history: &mut History, config: &Config, now: UnixTime) -> Vec<Act> {
    let mut acts = Vec::new();
    let memory = &mut history.shrinking;
    for mut one in std::mem::take(&mut memory.deletions) {
        let result = advance(&mut one, world, config, now, &mut acts);
        match result {
            None => memory.deletions.push(one),
            Some(result) => fail(memory, config, &one, result, &mut acts),
        }
    }
    drop_failed_groups(memory, config, &mut acts);
    open_batches(memory, config, now);
    acts.extend(due_batches(memory, now));
    acts
}

/// Takes up what the world said to one act.
pub fn answer(history: &mut History, config: &Config, act: &Act, answer: Answer, now: UnixTime) -> Vec<Act> {
    let mut acts = Vec::new();
    match act {
        Act::Evict { node, pod } if answer == Answer::Done => {
            evicted(&mut history.shrinking, node, pod, now);
        }
        Act::Delete { group, node, .. } => {
            let memory = &mut history.shrinking;
            let Some(index) = memory.deletions.iter().position(|one| one.node == *node) else {
                return acts;
            };
            let one = memory.deletions.remove(index);
            if answer == Answer::Done {
                memory.results.insert(node.clone(), DeleteResult::Deleted);
                memory.deletes.insert(group.clone(), now);
                history.registry.register_scale_down(group, now.plus(DELETION_EXPECTED));
            } else {
                fail(memory, config, &one, DeleteResult::Refused, &mut acts);
            }
        }
        _ => {}
    }
    acts
}

/// One step of one deletion; the result if it has failed.
fn advance(
    one: &mut Deletion,
    world: &World,
    config: &Config,
    now: UnixTime,
    acts: &mut Vec<Act>,
) -> Option<DeleteResult> {
    if let Stage::Tainted(due) = one.stage {
        if now < due {
            return None;
        }
        match look_again(one, world, config, now) {
            Err(()) => return Some(DeleteResult::Internal),
            Ok(stage) => one.stage = stage,
        }
    }
    let eviction_timeout = drain_of(config, &one.pool)?.eviction_timeout;
    let node = one.node.clone();
    if let Stage::Evicting { since, next, waiting, daemon, evicted, grace } = &mut one.stage {
        if waiting.is_empty() && daemon.is_empty() {
            let until = now.plus(*grace).plus(GONE_EXTRA);
            one.stage = Stage::Leaving { until, next: now, pods: std::mem::take(evicted) };
        } else if *next <= now {
            let over = since.plus(eviction_timeout) <= now && *since < now;
            if over && !waiting.is_empty() {
                return Some(DeleteResult::NotEvicted);
            }
            if over {
                daemon.clear();
                *next = now;
                return None;
            }
            let due = waiting.iter().chain(daemon.iter());
            acts.extend(due.map(|pod| Act::Evict { node: node.clone(), pod: pod.clone() }));
            *next = now.plus(EVICTION_RETRY);
            return None;
        }
    }
    if let Stage::Leaving { until, next, pods } = &mut one.stage
        && *next <= now
    {
        if *until <= now && !pods.is_empty() {
            return Some(DeleteResult::NotEvicted);
        }
        let there = |pod: &ObjectKey| on_node(world, pod, &node).is_some();
        if pods.iter().any(there) {
            *next = now.plus(GONE_LOOK);
        } else {
            one.stage = Stage::Ready;
        }
    }
    None
}

/// The node just before the first effect: what must be evicted, unless something now keeps it.
///
/// Source: actuator.go, deleteNodesAsync; drain.go, podsToEvict.
fn look_again(one: &Deletion, world: &World, config: &Config, now: UnixTime) -> Result<Stage, ()> {
    let (_, _, node) = world.node_named(&one.node).ok_or(())?;
    let drain = drain_of(config, &one.pool).ok_or(())?;
    let options = &config.cluster.upstream.down;
    let by_default =
        if one.drain { options.evict_daemon_sets_of_occupied } else { options.evict_daemon_sets_of_empty };
    let rules = Rules::of(drain);
    let mut disruptions = Disruptions::of(world);
    let (mut waiting, mut daemon) = (BTreeSet::new(), BTreeSet::new());
    let mut grace = Seconds(0);
    for id in &node.pods {
        let entry = world.pod(*id);
        if entry.pod.phase.finished() || is_expendable(entry, config) {
            continue;
        }
        let class = &entry.pod.class;
        match rules.judge(entry, world, &mut disruptions, now) {
            Drainability::OnCompletion | Drainability::Block(_) => return Err(()),
            Drainability::Move if !one.drain => return Err(()),
            Drainability::DaemonSet => {
                if class.daemon_set_eviction.unwrap_or(by_default) {
                    daemon.insert(entry.pod.key.clone());
                }
            }
            Drainability::Skip if class.mirror || class.daemon_set || !one.drain => {}
            Drainability::Skip | Drainability::Move => {
                grace = grace.max(class.termination_grace.min(drain.max_grace_period));
                waiting.insert(entry.pod.key.clone());
            }
        }
    }
    Ok(Stage::Evicting { since: now, next: now, waiting, daemon, evicted: BTreeSet::new(), grace })
}

fn is_expendable(entry: &PodEntry, config: &Config) -> bool {
    entry.pod.class.priority < config.cluster.expendable_pods_priority_cutoff
}

fn drain_of<'c>(config: &'c Config, pool: &str) -> Option<&'c Drain> {
    config.pool(pool).map(|pool| &pool.scale_down.drain)
}

fn on_node<'w>(world: &'w World, pod: &ObjectKey, node: &Arc<str>) -> Option<&'w Pod> {
    let pod = &world.pod(world.pod_id(pod)?).pod;
    (pod.node.as_ref() == Some(node)).then_some(pod)
}

/// Notes an eviction; with the last one the look for what has gone begins at once.
fn evicted(memory: &mut Shrinking, node: &Arc<str>, pod: &ObjectKey, now: UnixTime) {
    let Some(one) = memory.deletions.iter_mut().find(|one| one.node == *node) else { return };
    if let Stage::Evicting { next, waiting, daemon, evicted, .. } = &mut one.stage {
        if waiting.remove(pod) {
            evicted.insert(pod.clone());
        }
        daemon.remove(pod);
        if waiting.is_empty() && daemon.is_empty() {
            *next = now;
        }
    }
}

/// Gives a deletion up: its marks come off, and an atomic group has failed as a whole.
fn fail(memory: &mut Shrinking, config: &Config, one: &Deletion, result: DeleteResult, acts: &mut Vec<Act>) {
    acts.push(Act::HardUntaint(one.node.clone()));
    if config.cluster.upstream.down.cordon {
        acts.push(Act::Uncordon(one.node.clone()));
    }
    memory.results.insert(one.node.clone(), result);
    if one.atomic != 0 {
        memory.failed_groups.insert(one.group.clone());
    }
}

/// Nodes of an atomic group do not go without the one that failed.
fn drop_failed_groups(memory: &mut Shrinking, config: &Config, acts: &mut Vec<Act>) {
    for one in std::mem::take(&mut memory.deletions) {
        if one.atomic != 0 && one.stage == Stage::Ready && memory.failed_groups.contains(&one.group) {
            fail(memory, config, &one, DeleteResult::Internal, acts);
        } else {
            memory.deletions.push(one);
        }
    }
}

/// Opens the batch of each group with nodes that are ready to go; an atomic group's when all of them are.
fn open_batches(memory: &mut Shrinking, config: &Config, now: UnixTime) {
    let ready = |group: &Arc<str>| {
        memory.deletions.iter().filter(|one| one.group == *group && one.stage == Stage::Ready).count()
    };
    let mut due = Vec::new();
    for one in memory.deletions.iter().filter(|one| one.stage == Stage::Ready) {
        if one.atomic <= ready(&one.group) {
            due.push(one.group.clone());
        }
    }
    for group in due {
        memory.batches.entry(group).or_insert(now.plus(config.cluster.upstream.down.batch_for));
    }
}

/// The deletions of batches that are due.
fn due_batches(memory: &mut Shrinking, now: UnixTime) -> Vec<Act> {
    let mut acts = Vec::new();
    for one in memory.deletions.iter().filter(|one| one.stage == Stage::Ready) {
        if memory.batches.get(&one.group).is_some_and(|due| *due <= now) {
            acts.push(Act::Delete {
                group: one.group.clone(),
                node: one.node.clone(),
                instance: one.instance.clone(),
            });
        }
    }
    memory.batches.retain(|_, due| now < *due);
    acts
}
