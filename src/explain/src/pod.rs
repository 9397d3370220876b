//! Reasons why a pod is pending, or the steps by which it got its node.

use headroom_core::history::{Action, DecisionAction};
use headroom_core::labels::ObjectKey;
use headroom_core::nodes::gangs;
use headroom_core::nodes::scale_down::utilization::long_terminating;
use headroom_core::nodes::scale_up::unbound;
use headroom_core::plan::{Plan, PodVerdict};
use headroom_core::reason::Reason;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::pod::{Pod, PodPhase};

use super::advice::advice;
use super::case::Opened;
use super::chain::{self, EVICTED};
use super::explanation::{Explanation, PoolAnswer, Stage, about};

/// A node may come so long before the pods that it was bought for.
const ANTICIPATED: Seconds = Seconds(60);

/// The chain of causes of a pod; `None` when there is no such pod.
#[must_use]
pub fn explain(opened: &Opened<'_>, key: &ObjectKey) -> Option<Explanation> {
    let id = opened.world.pod_id(key)?;
    let pod = &opened.world.pod(id).pod;
    let evidence = &opened.case.evidence;
    let mut explanation = Explanation::new(format!("pod {key}"), opened.now());

    if let Some(owner) = &pod.owner {
        let controller = ObjectKey::new(key.namespace.clone(), &*owner.name);
        let chain = chain::owners(opened, &owner.kind, &controller);
        let words: Vec<String> =
            chain.iter().map(|(kind, key)| format!("{} {}", kind.to_lowercase(), key.name)).collect();
        explanation.fact("owned by", words.join(", of "));
        chain::scaling(&mut explanation, opened, &owner.kind, &controller, Some(&key.name));
        // How the workload was scaled after this pod was made is not part of this pod's timeline.
        let made_at = pod.created_at.plus(Seconds(1));
        let names_it = |what: &str| what.split(' ').any(|word| word == &*key.name);
        explanation.timeline.retain(|moment| moment.time.0 <= made_at || names_it(&moment.what));
        chain::eviction_before(&mut explanation, opened, &owner.kind, &controller, pod.created_at);
    }
    explanation.moment(pod.created_at, Stage::Pod, "object", format!("pod {key} was created"));
    // Events that repeat a time of the pod itself are left out.
    let times = evidence.pod(key);
    let refused = times.and_then(|times| times.unscheduled.as_ref()).map(|(_, words)| words);
    let has_place = times.is_some_and(|times| times.scheduled_at.is_some());
    let events = evidence.events_of("Pod", key).filter(|event| match &*event.reason {
        "Scheduled" => !has_place,
        "FailedScheduling" => refused != Some(&event.note),
        _ => true,
    });
    chain::events(&mut explanation, events, Stage::Decision, "pod");

    match &pod.node {
        Some(node) => placed(&mut explanation, opened, pod, node),
        None => waiting(&mut explanation, opened, pod),
    }
    explanation.gaps.clone_from(&evidence.gaps);
    Some(explanation.finished())
}

/// Describes the eviction of a pod that no longer exists, if an event reports it.
#[must_use]
pub fn end(opened: &Opened<'_>, key: &ObjectKey) -> Option<String> {
    let evicted =
        opened.case.evidence.events_of("Pod", key).filter(|event| event.reason == EVICTED).last()?;
    Some(format!("{}, at {}", evicted.note, evicted.at))
}

/// A pod with a node: the decision that brought the node, the node, and the pod's own start.
fn placed(explanation: &mut Explanation, opened: &Opened<'_>, pod: &Pod, name: &str) {
    explanation.fact("node", name);
    place(explanation, opened, pod, name);
    let times = opened.case.evidence.pod(&pod.key);
    let waited = times.and_then(|times| times.scheduled_at).map(|at| at.since(pod.created_at));
    let after = waited.map_or(String::new(), |waited| format!(", placed {waited} after it was created"));
    explanation.summary = match pod.phase {
        _ if long_terminating(pod, opened.now()) => format!("is past its deletion on node {name}"),
        _ if pod.deletion_at.is_some() => format!("is being deleted on node {name}"),
        PodPhase::Running => format!("runs on node {name}{after}"),
        PodPhase::Pending => format!("starts on node {name}{after}"),
        PodPhase::Succeeded | PodPhase::Failed => format!("has finished on node {name}"),
    };
}

/// Adds the events by which a pod got its node: the decision that bought it and the node's own start, if it came for
/// the pod; then its binding.
pub(super) fn place(explanation: &mut Explanation, opened: &Opened<'_>, pod: &Pod, name: &str) {
    let times = opened.case.evidence.pod(&pod.key);
    if let Some((_, node, _)) = opened.world.node_named(name) {
        // A node that was there long before the pod is not part of its timeline; replicas that were decided on have theirs
        // bought before they exist.
        if pod.created_at <= node.created_at.plus(ANTICIPATED) {
            if let Some((pool, decision)) = chain::decision_of_node(opened, node) {
                chain::decision(explanation, pool, decision);
            }
            chain::node(explanation, node);
        }
    }
    let mut step = |at: Option<UnixTime>, stage: Stage, what: String| {
        if let Some(at) = at {
            explanation.moment(at, stage, "object", what);
        }
    };
    let (placed_at, ready_at) = times.map_or((None, None), |times| (times.scheduled_at, times.ready_at));
    step(placed_at, Stage::Placed, format!("pod {} was placed on node {name}", pod.key));
    step(ready_at, Stage::Running, format!("pod {} became ready", pod.key));
}

/// A pod without a node: the present plan's verdict on it.
fn waiting(explanation: &mut Explanation, opened: &Opened<'_>, pod: &Pod) {
    let evidence = &opened.case.evidence;
    if let Some((at, words)) = evidence.pod(&pod.key).and_then(|times| times.unscheduled.clone()) {
        let words = if words.is_empty() { "no place".to_owned() } else { words };
        explanation.moment(at, Stage::Pod, "object", format!("the scheduler found no place: {words}"));
    }
    for (pool, memory) in &opened.case.input.history.pools {
        let named = format!("{}/{}", pod.key.namespace, pod.key.name);
        let mine = memory.decisions.iter().filter(|decision| {
            decision.action == DecisionAction::ScaleUp
                && decision.examples.iter().any(|example| **example == *named || **example == *pod.key.name)
        });
        mine.for_each(|decision| chain::decision(explanation, pool, decision));
    }
    if pod.gated {
        "waits: a scheduling gate holds it back, and no node is bought for it"
            .clone_into(&mut explanation.summary);
        explanation.next.push("whoever set the gate takes it off".to_owned());
        return;
    }
    let Some(verdict) = verdict_of(opened, pod) else {
        explanation.summary = if pod.unschedulable {
            "waits; no pool is asked, since it counts for nothing now".to_owned()
        } else {
            "waits for the scheduler, which has not judged it yet".to_owned()
        };
        return;
    };
    answer(explanation, opened, pod, verdict);
    gang(explanation, opened, pod, verdict);
    explanation.next.extend(advice(opened, pod, verdict));
}

/// The verdict on the group of equal pods that this one is in.
#[must_use]
pub fn verdict_of<'a>(opened: &'a Opened<'_>, pod: &Pod) -> Option<&'a PodVerdict> {
    verdict_in(&opened.plan, pod)
}

/// The same in another plan.
pub(super) fn verdict_in<'a>(plan: &'a Plan, pod: &Pod) -> Option<&'a PodVerdict> {
    let owner = pod.owner.as_ref().map_or(&*pod.key.name, |owner| &*owner.name);
    let mine = || {
        (plan.reasons.pods.iter())
            .filter(|verdict| verdict.namespace == pod.key.namespace && *verdict.owner == *owner)
    };
    let named = |verdict: &&PodVerdict| verdict.examples.iter().any(|name| name.ends_with(&*pod.key.name));
    mine().find(named).or_else(|| mine().next())
}

fn answer(explanation: &mut Explanation, opened: &Opened<'_>, pod: &Pod, verdict: &PodVerdict) {
    let group = match verdict.pods_count {
        0 | 1 => String::new(),
        2 => format!(" (with an equal pod of {}/{})", verdict.namespace, verdict.owner),
        n => format!(" (with {} equal pods of {}/{})", n - 1, verdict.namespace, verdict.owner),
    };
    explanation.summary = if let Some(reason) = verdict.skipped {
        by_scheduler(explanation, opened, pod, reason);
        format!("waits{group}; no node is bought for it: {}", lower(reason.doc()))
    } else if verdict.unplaced_count == 0 && verdict.on_new.is_empty() {
        format!("waits{group} for a node that is there or on its way: it has room for it")
    } else if verdict.unplaced_count == 0 {
        let pools: Vec<String> =
            verdict.on_new.iter().map(|(pool, count)| format!("{pool} ({count} pods)")).collect();
        format!("waits{group} for new nodes of pool {}", pools.join(", "))
    } else {
        let part = match verdict.unplaced_count == verdict.pods_count {
            true => "them".to_owned(),
            false => format!("{} of them", verdict.unplaced_count),
        };
        format!("waits{group}, and no pool can help {part}")
    };
    if verdict.pods_count <= 1 && verdict.unplaced_count > 0 {
        "waits, and no pool can help it".clone_into(&mut explanation.summary);
    }
    for (pool, count) in &verdict.on_new {
        explanation.pools.push(PoolAnswer {
            pool: pool.to_string(),
            verdict: "chosen".to_owned(),
            message: format!("{count} pods go on new nodes"),
        });
    }
    for refused in &verdict.pools {
        explanation.pools.push(PoolAnswer {
            pool: refused.pool.to_string(),
            verdict: refused.reason.as_str().to_owned(),
            message: refused.message.to_string(),
        });
    }
    if explanation.pools.is_empty() && opened.case.input.config.pools.is_empty() {
        explanation.next.push("there is no valid NodePool: create one, or see `headroom status`".to_owned());
    }
    for (pool, memory) in &opened.case.input.history.pools {
        // A node that leaves does not help a pod that waits.
        for intent in memory.intents.iter().filter(|intent| matches!(intent.action, Action::Increase(_))) {
            if verdict.on_existing_count > 0 || verdict.on_new.contains_key(pool) {
                explanation.next.push(format!("pool {pool}: {}", chain::intent_in_words(intent)));
            }
        }
    }
}

/// Names the pods that it is scheduled with, and what these lack.
fn gang(explanation: &mut Explanation, opened: &Opened<'_>, pod: &Pod, verdict: &PodVerdict) {
    let Some(found) = gangs::verdict_of(&opened.plan.reasons.gangs, &pod.class) else { return };
    let name = found.gang.describe(&found.namespace);
    explanation.fact("scheduled with", name);
    if verdict.skipped.is_none_or(|reason| Some(reason) != found.reason) {
        return;
    }
    explanation.summary = format!("waits; no node is bought for it: {}", found.describe());
    for refused in &found.pools {
        explanation.pools.push(PoolAnswer {
            pool: refused.pool.to_string(),
            verdict: refused.reason.as_str().to_owned(),
            message: refused.message.to_string(),
        });
    }
    if found.reason == Some(Reason::GangIncomplete) {
        explanation.next.push("counts once the other pods of the gang exist".to_owned());
    }
}

/// Names the scheduler where it is the reason why the pod does not count as demand, and the change that would help.
fn by_scheduler(explanation: &mut Explanation, opened: &Opened<'_>, pod: &Pod, reason: Reason) {
    let scheduler = &pod.class.scheduler;
    match reason {
        Reason::AwaitsScheduler => {
            explanation.fact("scheduler", &**scheduler);
            explanation.next.push(format!(
                "counts once scheduler {scheduler} sets PodScheduled to False with reason Unschedulable; or at once with it in \
                 nodes.immediateSchedulers of the ClusterScalingPolicy"
            ));
        }
        Reason::RefusedByScheduler => {
            explanation.fact("scheduler", &**scheduler);
            let key = unbound::key_of(pod);
            let memories = opened.case.input.history.pools.values();
            let row = memories.filter_map(|memory| memory.unbound.get(&key)).find(|row| row.until.is_some());
            if let Some((until, row)) = row.and_then(|row| Some((row.until?, row))) {
                let (when, named) = (about(until, opened.now()), row.examples.join(" or "));
                let bound = if named.is_empty() {
                    named
                } else {
                    format!(", or as soon as {scheduler} binds {named}")
                };
                explanation.next.push(format!("counts again {when} ({until}){bound}"));
            }
            explanation.next.push(format!(
                "ask scheduler {scheduler} why it does not bind the pod: see its events and log"
            ));
        }
        _ => {}
    }
}

fn lower(sentence: &str) -> String {
    let mut chars = sentence.trim_end_matches('.').chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().collect::<String>() + chars.as_str())
}
