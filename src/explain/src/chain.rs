//! The links between objects: from a metric to replicas, to pods, to a pool's decision, to a node. Each adds its moments.

use headroom_core::history::{
    Action, Decision, DecisionAction, DecisionOutcome, IncreasePhase, Intent, RemovalPhase,
};
use headroom_core::labels::ObjectKey;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::{GROUP_LABEL, Node, POOL_LABEL, Readiness};
use headroom_core::world::pod::Pod;

use super::case::Opened;
use super::evidence::{EventSeen, HpaSeen, PolicySeen};
use super::explanation::{Explanation, Stage};

/// Most events of one object in an explanation; the newest stay.
const EVENTS_MAX: usize = 12;
/// A pod that is made so soon after an eviction takes the evicted one's place.
const SUCCESSOR: Seconds = Seconds(60);
/// Most decisions of one object in an explanation.
const DECISIONS_MAX: usize = 6;

/// Returns the owners of a workload's pods, from the workload up: `ReplicaSet/web-5d4`, `Deployment/web`.
#[must_use]
pub fn owners(opened: &Opened<'_>, kind: &str, key: &ObjectKey) -> Vec<(String, ObjectKey)> {
    let mut chain = vec![(kind.to_owned(), key.clone())];
    while let Some((kind, key)) = chain.last() {
        let owner = opened.case.evidence.workload(kind, key).and_then(|workload| workload.owner.clone());
        match owner {
            // A cycle cannot be; a bound costs nothing.
            Some((kind, name)) if chain.len() < 5 => {
                let key = ObjectKey::new(key.namespace.clone(), name);
                chain.push((kind, key));
            }
            Some(_) | None => break,
        }
    }
    chain
}

/// Returns the owners of a pod, from its controller up; empty where it has none.
#[must_use]
pub fn owners_of(opened: &Opened<'_>, pod: &Pod) -> Vec<(String, ObjectKey)> {
    pod.owner.as_ref().map_or_else(Vec::new, |owner| {
        owners(opened, &owner.kind, &ObjectKey::new(pod.key.namespace.clone(), &*owner.name))
    })
}

/// Adds the events that scaled a workload: decisions of its ScalingPolicy, events of its HPA and of its controllers.
/// With the name of a `pod`, events that created other pods of the workload are left out.
pub fn scaling(
    explanation: &mut Explanation,
    opened: &Opened<'_>,
    kind: &str,
    key: &ObjectKey,
    pod: Option<&str>,
) {
    let evidence = &opened.case.evidence;
    for (kind, key) in owners(opened, kind, key) {
        if let Some(policy) = evidence.policy_of(&kind, &key) {
            decisions_of_policy(explanation, policy);
        }
        for hpa in evidence.hpas.iter().filter(|hpa| hpa.scales(&kind, &key)) {
            events(
                explanation,
                evidence.events_of("HorizontalPodAutoscaler", &hpa.key),
                Stage::Replicas,
                "hpa",
            );
        }
        let word = kind.to_lowercase();
        let rescaled = evidence.events_of(&kind, &key).filter(|event| match &*event.reason {
            "ScalingReplicaSet" | "FailedCreate" => true,
            "SuccessfulCreate" => pod.is_none_or(|pod| event.note.split(' ').any(|word| word == pod)),
            _ => false,
        });
        events(explanation, rescaled, Stage::Replicas, &word);
    }
}

/// The decisions of a ScalingPolicy.
pub fn decisions_of_policy(explanation: &mut Explanation, policy: &PolicySeen) {
    for decision in policy.status.decisions.iter().take(DECISIONS_MAX) {
        let why = decision.message.as_deref().unwrap_or(&decision.reason);
        let preview = if decision.outcome == "Preview" { " (preview, nothing written)" } else { "" };
        explanation.moment(
            UnixTime::from_jiff(decision.time.0),
            Stage::Metric,
            "status",
            format!(
                "scalingpolicy {}: {} → {} replicas: {why}{preview}",
                policy.key, decision.from, decision.to
            ),
        );
    }
}

/// The last change of size by the HPA's own status, where no policy reports it.
pub fn last_scale_of_hpa(explanation: &mut Explanation, hpa: &HpaSeen) {
    if let (Some(at), Some(desired)) = (hpa.last_scale_at, hpa.desired) {
        explanation.moment(
            at,
            Stage::Metric,
            "status",
            format!("hpa {}: {desired} replicas wanted", hpa.key),
        );
    }
}

/// Events about one object, the newest of them.
pub fn events<'a>(
    explanation: &mut Explanation,
    events: impl Iterator<Item = &'a EventSeen>,
    stage: Stage,
    who: &str,
) {
    let all: Vec<&EventSeen> = events.collect();
    for event in all.iter().skip(all.len().saturating_sub(EVENTS_MAX)) {
        let times = if event.count > 1 { format!(" ({} times)", event.count) } else { String::new() };
        let note = if event.note.is_empty() { String::new() } else { format!(": {}", event.note) };
        explanation.moment(
            event.at,
            stage,
            "event",
            format!("{who} {}: {}{times}{note}", event.key, event.reason),
        );
    }
}

/// The reason of the operator's event on a pod that it evicted.
pub const EVICTED: &str = "Evicted";

/// Evictions of a workload's pods. Evicted pods no longer exist, so they are known by their names: that of the workload, or
/// of a ReplicaSet or Job that it owns, and what its controller appends.
pub fn evictions(explanation: &mut Explanation, opened: &Opened<'_>, kind: &str, key: &ObjectKey) {
    events(explanation, evictions_of(opened, kind, key), Stage::Removal, "pod");
}

/// The last eviction of one of a controller's pods within a minute before it made another one at `made_at`: it made that one
/// instead.
pub fn eviction_before(
    explanation: &mut Explanation,
    opened: &Opened<'_>,
    kind: &str,
    key: &ObjectKey,
    made_at: UnixTime,
) {
    let before = |event: &&EventSeen| event.at <= made_at && made_at <= event.at.plus(SUCCESSOR);
    let last = evictions_of(opened, kind, key).filter(before).last();
    events(explanation, last.into_iter(), Stage::Removal, "pod");
}

/// The events of [`evictions`], oldest first.
fn evictions_of<'a>(
    opened: &'a Opened<'_>,
    kind: &str,
    key: &'a ObjectKey,
) -> impl Iterator<Item = &'a EventSeen> {
    let evidence = &opened.case.evidence;
    let of_this = |owner: &(String, String)| owner.0 == kind && owner.1 == *key.name;
    let owned = evidence.workloads.iter().filter(|workload| {
        workload.key.namespace == key.namespace && workload.owner.as_ref().is_some_and(of_this)
    });
    let controllers: Vec<String> =
        owned.map(|workload| &workload.key.name).chain([&key.name]).map(|name| format!("{name}-")).collect();
    let is_one_of_its_pods = move |name: &str| {
        controllers.iter().any(|start| name.strip_prefix(&**start).is_some_and(|end| !end.contains('-')))
    };
    evidence.events.iter().filter(move |event| {
        event.kind == "Pod"
            && event.reason == EVICTED
            && event.key.namespace == key.namespace
            && is_one_of_its_pods(&event.key.name)
    })
}

/// A decision of a pool.
pub fn decision(explanation: &mut Explanation, pool: &str, decision: &Decision) {
    let what = match decision.action {
        DecisionAction::ScaleUp => "grows",
        DecisionAction::ScaleDown => "shrinks",
    };
    let group =
        if decision.group.is_empty() { String::new() } else { format!(" (group {})", decision.group) };
    explanation.moment(
        decision.time,
        Stage::Decision,
        "status",
        format!(
            "pool {pool}{group} {what} from {} to {} nodes: {} [{}, {}]",
            decision.from,
            decision.to,
            sentence(&decision.message, decision.reason.as_str()),
            decision.id,
            outcome(decision.outcome),
        ),
    );
    for considered in &decision.considered {
        explanation.moment(
            decision.time,
            Stage::Intent,
            "status",
            format!(
                "pool {} was not taken: {}: {}",
                considered.pool,
                considered.reason.as_str(),
                sentence(&considered.message, considered.reason.doc())
            ),
        );
    }
}

fn sentence<'a>(message: &'a str, otherwise: &'a str) -> &'a str {
    if message.is_empty() { otherwise } else { message }
}

fn outcome(outcome: DecisionOutcome) -> &'static str {
    match outcome {
        DecisionOutcome::InProgress => "under way",
        DecisionOutcome::Done => "done",
        DecisionOutcome::Failed => "failed",
        DecisionOutcome::Superseded => "superseded",
        DecisionOutcome::Cancelled => "taken back",
    }
}

/// An intent in a few words, with its deadline.
#[must_use]
pub fn intent_in_words(intent: &Intent) -> String {
    let what = match &intent.action {
        Action::Increase(increase) => {
            let phase = match increase.phase {
                IncreasePhase::Journalled => "written down, the provider is being asked",
                IncreasePhase::Requested => "accepted by the provider, its nodes have not all registered",
                IncreasePhase::Cancelling => "failed, what did not come is being taken back",
            };
            format!("group {} from {} to {}: {phase}", increase.group, increase.from, increase.to)
        }
        Action::Remove(removal) => {
            let phase = match removal.phase {
                RemovalPhase::Journalled => "written down, nodes are being marked",
                RemovalPhase::Marked => "nodes are marked and cordoned",
                RemovalPhase::Draining => "pods are being evicted",
                RemovalPhase::Deleting => "empty, the provider is being asked to delete",
                RemovalPhase::Undoing => "given up, marks are being taken off",
            };
            let nodes: Vec<&str> = removal.victims.iter().take(3).map(|victim| &*victim.node).collect();
            let more = removal.victims.len().saturating_sub(3);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("removal of {}{more}: {phase}", nodes.join(", "))
        }
    };
    format!("intent {} ({}) {what}; fails after {}", intent.id, intent.reason.as_str(), intent.deadline)
}

/// Adds the events from a node's creation until it was ready.
pub fn node(explanation: &mut Explanation, node: &Node) {
    let pool = node.labels.get(POOL_LABEL).unwrap_or_default();
    let of = match node.labels.get(GROUP_LABEL) {
        Some(group) if !pool.is_empty() => format!(" of pool {pool}, group {group}"),
        _ => String::new(),
    };
    explanation.moment(
        node.created_at,
        Stage::Instance,
        "object",
        format!("node {} registered{of}", node.name),
    );
    let state = match node.ready {
        Readiness::Ready => "became ready",
        Readiness::NotReady => "became not ready",
        Readiness::Suspended => "was suspended",
        Readiness::Unknown => "has not been heard of since",
    };
    explanation.moment(node.ready_changed_at, Stage::Node, "object", format!("node {} {state}", node.name));
}

/// The decision that a node of a pool came from: by the intent in its name where the provider names nodes, else the last
/// increase of its group before it registered.
#[must_use]
pub fn decision_of_node<'a>(opened: &'a Opened<'_>, node: &Node) -> Option<(&'a str, &'a Decision)> {
    let pool = node.labels.get(POOL_LABEL)?;
    let (name, memory) = opened.case.input.history.pools.get_key_value(pool)?;
    let increases = || memory.decisions.iter().filter(|one| one.action == DecisionAction::ScaleUp);
    let named = increases().find(|one| node.name.starts_with(&format!("{pool}-{}-", one.id)));
    let group = node.labels.get(GROUP_LABEL).unwrap_or_default();
    let before = || increases().find(|one| *one.group == *group && one.time <= node.created_at);
    named.or_else(before).map(|decision| (&**name, decision))
}
