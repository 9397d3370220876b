//! State of a pool, the reasons that hold it back, and its last decisions.

use std::collections::BTreeMap;

use headroom_core::config::{Mode, Pool};
use headroom_core::history::PoolHistory;
use headroom_core::labels::ObjectKey;
use headroom_core::reason::Reason;
use headroom_core::time::UnixTime;
use headroom_core::verdicts::NodeVerdict;

use super::case::Opened;
use super::chain;
use super::evidence::PoolSeen;
use super::explanation::{Explanation, Stage, about, counted};

/// Most kinds of pods listed that the pool does not take.
const REFUSED_MAX: usize = 5;
/// Most decisions listed.
const DECISIONS_MAX: usize = 10;

/// A NodePool; `None` when there is none of this name.
#[must_use]
pub fn explain(opened: &Opened<'_>, name: &str) -> Option<Explanation> {
    let seen = opened.case.evidence.pools.get(name);
    let pool = opened.case.input.config.pool(name);
    if seen.is_none() && pool.is_none() {
        return None;
    }
    let mut explanation = Explanation::new(format!("nodepool {name}"), opened.now());
    let nothing = PoolHistory::default();
    let memory = opened.case.input.history.pools.get(name).unwrap_or(&nothing);
    if let Some(seen) = seen {
        facts(&mut explanation, seen);
    }
    nodes(&mut explanation, opened, name);
    for words in refused(opened, name).into_iter().take(REFUSED_MAX) {
        explanation.fact("not for", words);
    }
    for decision in memory.decisions.iter().take(DECISIONS_MAX) {
        chain::decision(&mut explanation, name, decision);
    }
    for intent in &memory.intents {
        explanation.moment(intent.started_at, Stage::Intent, "status", chain::intent_in_words(intent));
        explanation.next.push(chain::intent_in_words(intent));
    }
    let key = ObjectKey::new("", name);
    chain::events(
        &mut explanation,
        opened.case.evidence.events_of("NodePool", &key),
        Stage::Decision,
        "nodepool",
    );
    let now = opened.now();
    for (key, backoff) in &memory.backoffs {
        explanation.next.push(format!(
            "group {}: {} ({}, failure {}); tried again {} ({})",
            key.group,
            backoff.class.as_str(),
            backoff.message,
            backoff.failures,
            about(backoff.until, now),
            backoff.until
        ));
    }
    if let Some(at) = opened.plan.wake_at {
        explanation.next.push(format!("the operator looks again by itself {} ({at})", about(at, now)));
    }
    explanation.summary = summary(opened, name, seen, pool, memory);
    explanation.gaps.clone_from(&opened.case.evidence.gaps);
    Some(explanation.finished())
}

fn facts(explanation: &mut Explanation, seen: &PoolSeen) {
    let status = &seen.status;
    if let Some(why) = &seen.invalid {
        explanation.fact("invalid", why.clone());
    }
    if let Some(bounds) = &status.bounds {
        let by = bounds.limited_by.as_deref().map_or(String::new(), |by| format!(", by {by}"));
        explanation.fact("bounds", format!("{} to {} nodes{by}", bounds.min_nodes, bounds.max_nodes));
    }
    if let Some(nodes) = &status.nodes {
        explanation.fact(
            "nodes",
            format!(
                "{} wanted, {} ready, {} unready, {} starting, {} not registered, {} leaving",
                nodes.desired, nodes.ready, nodes.unready, nodes.starting, nodes.unregistered, nodes.deleting
            ),
        );
    }
    for condition in &status.conditions {
        let fine = matches!(&*condition.type_, "Ready" | "ProviderAvailable");
        if (condition.status == "True") != fine {
            let since = UnixTime::from_jiff(condition.last_transition_time.0);
            explanation.fact(
                &condition.type_,
                format!("{} since {since}, {}: {}", condition.status, condition.reason, condition.message),
            );
        }
    }
}

/// The pool's nodes by what keeps them.
fn nodes(explanation: &mut Explanation, opened: &Opened<'_>, name: &str) {
    let mut by_reason: BTreeMap<Reason, Vec<&str>> = BTreeMap::new();
    let of_pool = |verdict: &NodeVerdict<'_>| verdict.pool == Some(name);
    for verdict in opened.plan.reasons.nodes.iter().filter(of_pool) {
        by_reason.entry(verdict.reason).or_default().push(verdict.node);
    }
    for (reason, nodes) in by_reason {
        let examples = nodes.iter().take(2).copied().collect::<Vec<_>>().join(", ");
        explanation.fact(reason.as_str(), format!("{}, such as {examples}", counted(nodes.len(), "node")));
    }
}

/// The pods that wait and that the pool does not take, each with its first rule that fails.
fn refused(opened: &Opened<'_>, name: &str) -> Vec<String> {
    let waiting = opened.plan.reasons.pods.iter().filter(|verdict| verdict.unplaced_count > 0);
    let refused = waiting.filter_map(|verdict| {
        let own = verdict.pools.iter().find(|pool| *pool.pool == *name)?;
        let pods = counted(usize::try_from(verdict.unplaced_count).unwrap_or(usize::MAX), "pod");
        let whose = format!("{}/{}", verdict.namespace, verdict.owner);
        Some(format!("{pods} of {whose}, {}: {}", own.reason.as_str(), own.message))
    });
    refused.collect()
}

/// Describes the plan of a pool that only observes: in mode Preview, or under an operator with `--preview`. Last its
/// bounds, where they would not hold.
fn preview(opened: &Opened<'_>, seen: &PoolSeen, pool: &Pool) -> Option<String> {
    if pool.mode != Mode::Preview && !seen.looks_on() {
        return None;
    }
    let mut text = match &seen.status.preview {
        Some(plan) => {
            let would = plan.message.as_deref().unwrap_or("would do nothing now");
            format!("only looks on (Preview), and {would} ({})", plan.reason)
        }
        None => "only looks on (Preview), and would do nothing now".to_owned(),
    };
    let mut reasons = opened.plan.reasons.pools.get(&pool.name).into_iter().flatten();
    if let Some(bounds) = reasons.find(|one| one.reason.is_out_of_bounds()) {
        text += &format!("; {}: {}", bounds.reason.as_str(), bounds.message);
    }
    Some(text)
}

fn summary(
    opened: &Opened<'_>,
    name: &str,
    seen: Option<&PoolSeen>,
    pool: Option<&Pool>,
    memory: &PoolHistory,
) -> String {
    if let Some(why) = seen.and_then(|seen| seen.invalid.as_deref()) {
        return format!("does nothing, since its spec cannot be used: {why}");
    }
    let Some(pool) = pool else { return "does nothing: it has not been looked at yet".to_owned() };
    if let Some(words) = seen.and_then(|seen| preview(opened, seen, pool)) {
        return words;
    }
    if let Some(intent) = memory.intents.last() {
        return format!("acts: {}", chain::intent_in_words(intent));
    }
    let mut reasons = opened.plan.reasons.pools.get(name).into_iter().flatten();
    // What is not remembered keeps no pool from anything while it has nodes.
    let said = reasons.find(|one| one.reason != Reason::DevicesNotLearned);
    let helped: u32 = opened.plan.reasons.pods.iter().filter_map(|verdict| verdict.on_new.get(name)).sum();
    match said {
        _ if helped > 0 => format!("is about to grow for {helped} pods"),
        Some(reason) => format!("does nothing now, {}: {}", reason.reason.as_str(), reason.message),
        None if !refused(opened, name).is_empty() => {
            "has nothing to do: it does not take the pods that wait, and no node of it may go now".to_owned()
        }
        None => "has nothing to do: no pod waits for it, and no node of it may go now".to_owned(),
    }
}
