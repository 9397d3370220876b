//! The deliberate differences as predicates: each proves from the case that the difference is that rule.

use std::collections::{BTreeMap, BTreeSet};

use headroom_core::reason::Reason;

use super::compare::Case;
use super::drive;
use super::end::{self, Actions, Worth};
use super::input::Input;
use crate::families::TIE;
use crate::model::Node;
use crate::outcome::Rule;

/// The rule that explains the difference, if one does.
pub fn explained(case: &Case<'_>) -> Result<Option<Rule>, String> {
    let (own_gone, their_gone) = (case.ours.gone(), case.theirs.gone());
    let kept: BTreeSet<String> = their_gone.difference(&own_gone).cloned().collect();
    if kept.is_empty() && removed_by_rule(case, &own_gone) {
        return Ok(Some(Rule::UnreadyByState));
    }
    if !kept.is_empty() {
        return Ok(kept_by_rule(case, &kept));
    }
    grown_by_rule(case)
}

/// Whether a node that only the product removes was unready: the reference looks at what is asked of it.
pub fn removed_by_rule(case: &Case<'_>, own_gone: &BTreeSet<String>) -> bool {
    own_gone.difference(&case.theirs.gone()).any(|node| {
        let verdicts = case.run.verdicts.get(node.as_str());
        verdicts.is_some_and(|all| all.iter().any(|(_, reason)| *reason == Reason::Unready))
    })
}

/// The rule by which the product keeps each of these nodes at the time at which the reference removes it.
fn kept_by_rule(case: &Case<'_>, kept: &BTreeSet<String>) -> Option<Rule> {
    let rules: BTreeSet<Option<Rule>> = kept.iter().map(|node| keeps(case, node)).collect();
    let first = rules.iter().next().copied().flatten()?;
    rules.iter().all(Option::is_some).then_some(first)
}

fn keeps(case: &Case<'_>, node: &str) -> Option<Rule> {
    let at = case.theirs.deleted.get(node).copied()?;
    let verdicts = case.run.verdicts.get(node)?;
    let reasons = |from: i64| {
        let before = verdicts.iter().rfind(|(when, _)| *when <= from);
        before.into_iter().chain(verdicts.iter().filter(move |(when, _)| from < *when))
    };
    let held = |wanted: Reason| reasons(at - case.input.tick_s).any(|(_, reason)| *reason == wanted);
    let unready_at = unready_since(case.input, node, at);
    if let Some(since) = unready_at {
        let limit = case.input.options.scale_down_unready_s.unwrap_or(1200);
        if at <= since + limit + case.input.tick_s && held(Reason::NotUnreadyLongEnough) {
            return Some(Rule::UnreadyClock);
        }
    }
    if held(Reason::ClusterUnhealthy) && many_unready(case.input, at) {
        return Some(Rule::UnreadyFifth);
    }
    None
}

/// Since when the node is unready at this instant, by the input alone.
fn unready_since(input: &Input, node: &str, at: i64) -> Option<i64> {
    let state = latest(input, node, at)?;
    let ready = state.ready.as_deref().is_none_or(|ready| ready == "True");
    (!ready).then_some(state.ready_since_s.unwrap_or(state.created_s))
}

/// The node as it was told last before this instant.
fn latest<'i>(input: &'i Input, node: &str, at: i64) -> Option<&'i Node> {
    let first = input.nodes.iter().flatten().find(|other| other.name == node);
    let events = input.events.iter().flatten().filter(|event| event.tick * input.tick_s <= at);
    let updates = events.flat_map(|event| event.update_nodes.iter().flatten());
    updates.filter(|other| other.name == node).next_back().or(first)
}

/// Whether more than a fifth of the nodes, or of those of a zone, are unready at this instant, by the input alone.
fn many_unready(input: &Input, at: i64) -> bool {
    let names: BTreeSet<&str> = input.nodes.iter().flatten().map(|node| node.name.as_str()).collect();
    let unready = names.iter().filter(|node| unready_since(input, node, at).is_some()).count();
    // Nodes that have left by then only make the part larger.
    0 < unready && (names.len() < unready * 5 || zones_unready(input, &names, at))
}

fn zones_unready(input: &Input, names: &BTreeSet<&str>, at: i64) -> bool {
    let zone = |node: &str| {
        let state = latest(input, node, at);
        state.and_then(|state| state.labels.get("topology.kubernetes.io/zone").cloned())
    };
    names.iter().filter(|node| unready_since(input, node, at).is_some()).any(|node| {
        let own = zone(node);
        let beside = names.iter().filter(|other| zone(other) == own);
        let (mut all, mut unready) = (0usize, 0usize);
        for other in beside {
            all += 1;
            unready += usize::from(unready_since(input, other, at).is_some());
        }
        all < unready * 5
    })
}

/// The rule by which the product grows otherwise.
fn grown_by_rule(case: &Case<'_>) -> Result<Option<Rule>, String> {
    if balances_empty(case) {
        return Ok(Some(Rule::EmptyPoolsBalance));
    }
    if near_tie(case)? {
        return Ok(Some(Rule::NearTies));
    }
    if let Some(without) = without_flags(case.input)
        && agrees(&without, case)?
    {
        return Ok(Some(Rule::NoSuchFlag));
    }
    if case.input.daemonsets.as_ref().is_some_and(|sets| !sets.is_empty()) {
        let mut without = case.input.clone();
        without.daemonsets = None;
        if agrees(&without, case)? {
            return Ok(Some(Rule::DaemonSetsCount));
        }
    }
    Ok(None)
}

/// Whether the product does as the reference once the input says what the rule looks away from.
fn agrees(input: &Input, case: &Case<'_>) -> Result<bool, String> {
    let ours = Actions::of_product(&drive::run(input)?);
    Ok(ours.grown == case.theirs.grown && ours.gone() == case.theirs.gone())
}

/// The input with the meaning of flags for which there is no field, in words that the product has.
fn without_flags(input: &Input) -> Option<Input> {
    let mut changed = input.clone();
    let options = &input.options;
    let mut any = false;
    let ready = |node: &&Node| node.ready.as_deref().is_none_or(|ready| ready == "True");
    if options.scale_up_from_zero == Some(false) && !input.nodes.iter().flatten().any(|node| ready(&node)) {
        changed.groups.iter_mut().for_each(|group| group.max = group.target);
        any = true;
    }
    if !options.status_taints.is_empty() {
        for template in changed.groups.iter_mut().filter_map(|group| group.template.as_mut()) {
            template.taints.retain(|taint| !options.status_taints.contains(&taint.key));
        }
        any = true;
    }
    if !options.balancing_ignore_labels.is_empty() {
        let templates = changed.groups.iter_mut().filter_map(|group| group.template.as_mut());
        let nodes = changed.nodes.iter_mut().flatten();
        templates.chain(nodes).for_each(|node| {
            node.labels.retain(|key, _| !options.balancing_ignore_labels.contains(key));
        });
        any = true;
    }
    any.then_some(changed)
}

/// Whether as many nodes are spread more evenly, over groups of which one has no node.
fn balances_empty(case: &Case<'_>) -> bool {
    let grown: BTreeSet<&String> = case.ours.grown.keys().chain(case.theirs.grown.keys()).collect();
    let sum = |all: &BTreeMap<String, i64>| all.values().sum::<i64>();
    let spread = |targets: &BTreeMap<String, i64>| {
        let sizes: Vec<i64> = grown.iter().filter_map(|id| targets.get(*id).copied()).collect();
        sizes.iter().max().copied().unwrap_or(0) - sizes.iter().min().copied().unwrap_or(0)
    };
    let empty = grown.iter().any(|id| !case.input.nodes.iter().flatten().any(|node| node.group == **id));
    case.input.options.balance_similar_node_groups
        && empty
        && sum(&case.ours.grown) == sum(&case.theirs.grown)
        && case.our_worth.helps_all_of(&case.their_worth)
        && spread(&case.ours.targets) < spread(&case.theirs.targets)
}

/// Whether other groups grow, by no more nodes, and waste no more than the tolerance above the reference's.
fn near_tie(case: &Case<'_>) -> Result<bool, String> {
    let chain = case.input.options.expander.as_deref().unwrap_or("least-waste");
    let sum = |all: &BTreeMap<String, i64>| all.values().sum::<i64>();
    if !chain.contains("least-waste")
        || sum(&case.theirs.grown) < sum(&case.ours.grown)
        || !case.our_worth.helps_all_of(&case.their_worth)
    {
        return Ok(false);
    }
    let idle = Actions {
        targets: case.input.groups.iter().map(|group| (group.id.clone(), group.target)).collect(),
        ..Actions::default()
    };
    let before = Worth::of(case.input, &idle)?;
    let kinds = end::kinds(case.input)?;
    let waste = |grown: &BTreeMap<String, i64>, worth: &Worth| {
        let (mut asked, mut all) = ((0, 0), (0, 0));
        for (first, kind) in &kinds {
            let count = |worth: &Worth| i64::from(worth.helped.get(first).copied().unwrap_or(0));
            let new = (count(worth) - count(&before)).max(0);
            asked = (asked.0 + new * kind.requests.0, asked.1 + new * kind.requests.1);
        }
        for (id, nodes) in grown {
            let group = case.input.groups.iter().find(|group| group.id == *id);
            let node = group.and_then(|group| group.template.as_ref()).map(Node::to_core);
            let capacity = node.map(|node| node.capacity).unwrap_or_default();
            all = (all.0 + nodes * capacity.cpu_milli, all.1 + nodes * capacity.memory_bytes);
        }
        idle_part(asked.0, all.0) + idle_part(asked.1, all.1)
    };
    Ok(waste(&case.ours.grown, case.our_worth) <= waste(&case.theirs.grown, &case.their_worth) + TIE)
}

#[allow(clippy::cast_precision_loss)] // Amounts far below 2^53.
fn idle_part(asked: i64, all: i64) -> f64 {
    (all - asked) as f64 / all.max(1) as f64
}
