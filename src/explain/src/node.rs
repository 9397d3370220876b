//! Reasons why a node stays, or the steps of its removal.

use std::collections::BTreeMap;

use headroom_core::config::Pool;
use headroom_core::history::{Action, Decision, DecisionAction, PoolHistory};
use headroom_core::known::Known;
use headroom_core::nodes::scale_down::drainability::{Disruptions, Drainability, Rules};
use headroom_core::nodes::scale_down::turns;
use headroom_core::nodes::scale_down::utilization::{Measure, Share, utilization};
use headroom_core::nodes::state::group_settings::GroupSettings;
use headroom_core::reason::Reason;
use headroom_core::time::UnixTime;
use headroom_core::verdicts::NodeVerdict;
use headroom_core::world::NodeEntry;
use headroom_core::world::node::{Node, POOL_LABEL, Readiness};
use headroom_core::world::provider::GroupState;

use super::case::Opened;
use super::chain;
use super::explanation::{Explanation, Stage, about};

/// Most pods that are listed one by one.
const PODS_MAX: usize = 8;

/// Explains why a node stays, or how it is removed; `None` when there is no such node.
#[must_use]
pub fn explain(opened: &Opened<'_>, name: &str) -> Option<Explanation> {
    let (_, node, entry) = opened.world.node_named(name)?;
    let mut explanation = Explanation::new(format!("node {name}"), opened.now());
    let pool = node.labels.get(POOL_LABEL).and_then(|pool| opened.case.input.config.pool(pool));
    let memory = pool.and_then(|pool| opened.case.input.history.pools.get(&pool.name));
    facts(&mut explanation, opened, node, entry, pool);
    if let Some((pool, decision)) = chain::decision_of_node(opened, node) {
        chain::decision(&mut explanation, pool, decision);
    }
    chain::node(&mut explanation, node);
    let evidence = &opened.case.evidence;
    let key = headroom_core::labels::ObjectKey::new("", name);
    chain::events(
        &mut explanation,
        evidence.events_of("Node", &key).filter(|event| ours(event)),
        Stage::Removal,
        "node",
    );

    let going = memory.and_then(|memory| {
        memory.removals().find(|(_, removal)| removal.victims.iter().any(|victim| *victim.node == *name))
    });
    if let Some((intent, removal)) = going {
        explanation.summary = format!("is on its way out: {}", lower(intent.reason.doc()));
        explanation.moment(
            intent.started_at,
            Stage::Intent,
            "status",
            format!("its removal was decided [{}]", intent.id),
        );
        explanation.moment(removal.phase_since, Stage::Removal, "status", chain::intent_in_words(intent));
        explanation.next.push(format!("if it is not gone by {}, it is let go of again", intent.deadline));
    } else {
        let verdict = opened.plan.reasons.nodes.of(name);
        stays(&mut explanation, opened, node, verdict, pool, memory);
    }
    if let Some(memory) = memory {
        if let Some(since) = memory.unneeded.get(name) {
            explanation.moment(
                *since,
                Stage::Removal,
                "status",
                format!("node {name} has not been needed since"),
            );
        }
        for decision in memory.decisions.iter().filter(|one| one.examples.iter().any(|node| **node == *name))
        {
            chain::decision(&mut explanation, pool.map_or("", |pool| &pool.name), decision);
        }
    }
    explanation.gaps.clone_from(&evidence.gaps);
    Some(explanation.finished())
}

/// True if an event reports scaling, and not the kubelet's own life cycle.
fn ours(event: &super::evidence::EventSeen) -> bool {
    event.reason.starts_with("ScaleDown") || event.reporter.contains("headroom")
}

fn facts(
    explanation: &mut Explanation,
    opened: &Opened<'_>,
    node: &Node,
    entry: &NodeEntry,
    pool: Option<&Pool>,
) {
    match (pool, node.labels.get(POOL_LABEL)) {
        (Some(pool), _) => explanation.fact("pool", &*pool.name),
        (None, Some(pool)) => explanation.fact("pool", format!("{pool}, which is not there or not valid")),
        (None, None) => explanation.fact("pool", "none: Headroom does not manage this node"),
    }
    let pods: Vec<_> = entry.pods.iter().map(|id| opened.world.pod(*id)).collect();
    let own = pool.map(|pool| settings(opened, node, pool));
    let measure = Measure {
        ignore_daemon_sets: own.is_some_and(GroupSettings::ignore_daemon_sets),
        ignore_mirror: own.is_some_and(GroupSettings::ignore_mirror),
        ..Measure::default()
    };
    let bodies = pods.iter().map(|pod| &pod.pod).filter(|pod| !pod.phase.finished());
    match utilization(node, bodies, &measure, opened.now()) {
        Ok(used) => {
            let threshold = pool.map(|pool| match used.on_gpu {
                true => settings(opened, node, pool).gpu_utilization_threshold_percent(),
                false => settings(opened, node, pool).utilization_threshold_percent(),
            });
            let against = threshold.map_or(String::new(), |percent| {
                let over = if used.share().exceeds_percent(percent) { "above" } else { "not above" };
                format!(", {over} the threshold of {percent} %")
            });
            let words = if used.on_gpu {
                format!("{} of {}", percent(used.gpu), used.resource)
            } else {
                format!(
                    "cpu {} ({}m of {}m), memory {} ({}Mi of {}Mi)",
                    percent(used.cpu),
                    used.cpu.requested,
                    used.cpu.allocatable,
                    percent(used.memory),
                    used.memory.requested >> 20,
                    used.memory.allocatable >> 20
                )
            };
            explanation.fact("requested", format!("{words}; {} decides{against}", used.resource));
        }
        Err(error) => explanation.fact("requested", error.to_string()),
    }
    explanation.fact("pods", pods_in_words(opened, &pods, pool));
    if node.unschedulable {
        explanation.fact("cordoned", "yes");
    }
}

/// Returns the settings of the node's group: its own options over its pool's settings.
fn settings<'a>(opened: &'a Opened<'_>, node: &Node, pool: &'a Pool) -> GroupSettings<'a> {
    let provider = opened.world.provider(&pool.name).and_then(Known::value);
    let its = |group: &&GroupState| {
        group.instances.contains_key(&node.provider_id)
            || group.instances.values().any(|one| one.node.as_ref() == Some(&node.name))
    };
    let group = provider.and_then(|provider| provider.groups.values().find(its));
    GroupSettings::new(pool, group.and_then(|group| group.options.as_deref()))
}

/// Describes the pods by their effect on a removal, with the names of those in the way.
fn pods_in_words(
    opened: &Opened<'_>,
    pods: &[&headroom_core::world::PodEntry],
    pool: Option<&Pool>,
) -> String {
    let mut disruptions = Disruptions::of(&opened.world);
    let rules = Rules::of(&pool.map(|pool| pool.scale_down.drain).unwrap_or_default());
    let (mut movable, mut daemons, mut rest) = (0u32, 0u32, 0u32);
    let mut blocking: BTreeMap<Reason, Vec<String>> = BTreeMap::new();
    for pod in pods {
        match rules.drainability(pod, &opened.world, &mut disruptions, opened.now()) {
            Drainability::Move => movable += 1,
            Drainability::DaemonSet => daemons += 1,
            Drainability::Skip => rest += 1,
            Drainability::OnCompletion => {
                blocking.entry(Reason::BlockedByOnCompletionPod).or_default().push(pod.pod.key.to_string());
            }
            Drainability::Block(block) => {
                blocking.entry(block.reason).or_default().push(pod.pod.key.to_string());
            }
        }
    }
    let mut parts = vec![format!("{movable} movable")];
    if daemons > 0 {
        parts.push(format!("{daemons} of DaemonSets"));
    }
    if rest > 0 {
        parts.push(format!("{rest} that do not count"));
    }
    for (reason, mut names) in blocking {
        names.sort();
        let more = names.len().saturating_sub(PODS_MAX);
        names.truncate(PODS_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        parts.push(format!("{}: {}{more}", reason.as_str(), names.join(" ")));
    }
    parts.join(", ")
}

fn stays(
    explanation: &mut Explanation,
    opened: &Opened<'_>,
    node: &Node,
    verdict: Option<NodeVerdict<'_>>,
    pool: Option<&Pool>,
    memory: Option<&PoolHistory>,
) {
    let Some(verdict) = verdict else {
        "stays: no pool of Headroom manages it".clone_into(&mut explanation.summary);
        return;
    };
    let object = verdict.object.map_or(String::new(), |object| format!(" ({object})"));
    explanation.summary = match verdict.reason {
        Reason::Empty
        | Reason::Underutilized
        | Reason::Consolidated
        | Reason::Drifted
        | Reason::Expired
        | Reason::Unhealthy
        | Reason::NotPreferred
        | Reason::Interrupted
        | Reason::Unready
        | Reason::RemovalRequested => {
            format!("goes with the next step: {}{object}", lower(verdict.reason.doc()))
        }
        reason => format!("stays, {}: {}{object}", reason.as_str(), lower(reason.doc())),
    };
    let kept = opened.case.input.kept_since(&node.name, verdict.reason);
    if let Some((since, seen)) = kept {
        let at_least = if seen { "" } else { "at least " };
        let since = format!("{at_least}{since} ({})", about(since, opened.now()));
        explanation.fact("this node kept for this reason since", since);
    }
    // Status keeps a row a reason, with the first node's object: other nodes of the row have been blocked as long at most.
    if let Some(blocked) =
        memory.and_then(|memory| memory.blocked.iter().find(|blocked| blocked.reason == verdict.reason))
    {
        let own = kept.is_none() && blocked.object.as_deref() == verdict.object;
        let fact = if own { "blocked since" } else { "nodes of the pool blocked for this reason since" };
        explanation.fact(fact, format!("{} ({})", blocked.since, about(blocked.since, opened.now())));
    }
    if let (Some(pool), Some(memory)) = (pool, memory) {
        when(explanation, opened, node, verdict, pool, memory);
    }
    if let Some(at) = opened.plan.wake_at {
        explanation
            .next
            .push(format!("the operator looks again by itself {} ({at})", about(at, opened.now())));
    }
}

/// Adds the times at which, or the changes by which, the verdict can change.
fn when(
    explanation: &mut Explanation,
    opened: &Opened<'_>,
    node: &Node,
    verdict: NodeVerdict<'_>,
    pool: &Pool,
    memory: &PoolHistory,
) {
    let now = opened.now();
    let (down, own) = (&pool.scale_down, settings(opened, node, pool));
    let mut at =
        |what: &str, at: UnixTime| explanation.next.push(format!("{what} {} ({at})", about(at, now)));
    match verdict.reason {
        Reason::NotUnneededLongEnough | Reason::NotUnreadyLongEnough => {
            if let Some(since) = memory.unneeded.get(&node.name) {
                let unready = node.ready != Readiness::Ready;
                let (length, field) = if unready {
                    (own.unready_for(), "unreadyFor")
                } else {
                    (own.unneeded_for(), "unneededFor")
                };
                at(&format!("{field} of {length} is over"), since.plus(length));
            } else if let parts @ 2.. = turns::parts(opened.world.pods_count()) {
                explanation.next.push(format!(
                    "one of the next plans tries its pods on other nodes: each tries one of {parts} parts of this cluster"
                ));
            }
        }
        Reason::InCooldown => {
            for (last, delay, field) in [
                (memory.last_scale_up, down.delay_after_add, "delayAfterAdd"),
                (memory.last_scale_down, down.delay_after_delete, "delayAfterDelete"),
                (memory.last_failure, down.delay_after_failure, "delayAfterFailure"),
            ] {
                if let Some(last) = last.filter(|last| now < last.plus(delay)) {
                    at(&format!("{field} of {delay} is over"), last.plus(delay));
                }
            }
        }
        Reason::NotUnderutilized => explanation.next.push(format!(
            "its requests must fall to {} % of the node, or scaleDown.utilizationThreshold be raised",
            own.utilization_threshold_percent()
        )),
        Reason::NotEnoughPdb => explanation.next.push(format!(
            "{} must allow an eviction: more ready replicas, or a higher maxUnavailable",
            verdict.object.unwrap_or("the PodDisruptionBudget")
        )),
        Reason::MinNodesReached => {
            explanation.next.push(format!("pool {}: lower minNodes below {}", pool.name, pool.min_nodes));
        }
        Reason::BudgetExhausted => {
            explanation.next.push(format!(
                "{} gives room when a removal under way has ended",
                verdict.object.unwrap_or("a budget")
            ));
        }
        Reason::GangWouldBreak => explanation.next.push(format!(
            "the gang of {} must end, or run more pods than it needs at once; docs/gangs.md says what goes on",
            verdict.object.unwrap_or("a pod")
        )),
        Reason::NoPlaceForClaims => {
            explanation
                .next
                .push("devices that meet the claims of its pods must come free on other nodes".to_owned());
        }
        Reason::NoPlaceToMovePods => {
            explanation.next.push("room must come free on other nodes for every pod of this one".to_owned());
        }
        Reason::NotSafeToEvictAnnotation | Reason::LocalStorageRequested | Reason::NotReplicated => {
            explanation
                .next
                .push("the pods in the way must go, or be annotated safe-to-evict=true".to_owned());
        }
        Reason::NoRoomToRotate => explanation.next.push(format!(
            "pool {}: raise maxNodes above {}, so that a replacement can be bought first",
            pool.name, pool.max_nodes
        )),
        Reason::AwaitsPreferredPool => explanation.next.push(format!(
            "{} must have room for a node, and be quiet after its last failure for as long again as it was held back",
            verdict.object.unwrap_or("the preferred pool")
        )),
        Reason::RotationStopped => {
            let stop = memory.rotation_stop.as_ref();
            let group = stop.map_or("", |stop| &*stop.group);
            explanation.next.push(format!(
                "see why new nodes of group {group} do not get ready, and correct its template"
            ));
        }
        Reason::DoNotDisruptAnnotation => {
            explanation.next.push(match &verdict.object {
                Some(pod) => format!("{pod} must go, or lose its annotation karpenter.sh/do-not-disrupt"),
                None => "take the annotation karpenter.sh/do-not-disrupt off the node".to_owned(),
            });
        }
        Reason::ScaleDownDisabledAnnotation => {
            explanation.next.push("take the annotation scale-down-disabled off the node".to_owned());
        }
        Reason::DisruptionStopped => {
            explanation.next.push("the ClusterScalingPolicy's kill switch must be released".to_owned());
        }
        _ => {}
    }
    for intent in &memory.intents {
        if matches!(intent.action, Action::Remove(_)) && verdict.reason == Reason::BudgetExhausted {
            explanation.next.push(chain::intent_in_words(intent));
        }
    }
}

/// Requested over offered, in whole percent rounded down.
#[must_use]
pub fn percent(share: Share) -> String {
    if share.allocatable <= 0 {
        return "nothing offered".to_owned();
    }
    let percent = i128::from(share.requested) * 100 / i128::from(share.allocatable);
    format!("{percent} %")
}

/// Describes the removal of a node that no longer exists, as far as its pool's decisions report it.
#[must_use]
pub fn end(opened: &Opened<'_>, name: &str) -> Option<String> {
    let named = |decision: &&Decision| {
        let mut words = decision.message.split([' ', ',', ';']);
        decision.action == DecisionAction::ScaleDown && words.any(|word| word == name)
    };
    let found = opened
        .case
        .input
        .history
        .pools
        .iter()
        .find_map(|(pool, memory)| memory.decisions.iter().find(named).map(|decision| (pool, decision)));
    let (pool, decision) = found?;
    let (from, to, time) = (decision.from, decision.to, decision.time);
    Some(format!("pool {pool} shrank from {from} to {to} nodes at {time}: {}", decision.message))
}

fn lower(sentence: &str) -> String {
    let mut chars = sentence.trim_end_matches('.').chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().collect::<String>() + chars.as_str())
}
