//! The deliberate differences as predicates: each proves from the case that the difference is that rule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::reason::Reason;
use headroom_core::resources::Resources;
use headroom_core::similarity::{Shape, Similarity};

use super::compare::Case;
use super::drive;
use super::end::{self, Actions, Worth};
use super::input::Input;
use super::settings;
use crate::families::TIE;
use crate::model::{Group, Node, Owner, Pod};
use crate::outcome::Rule;

/// The rule that explains the difference, if one does.
pub(crate) fn explained(case: &Case<'_>) -> Result<Option<Rule>, String> {
    let (own_gone, their_gone) = (case.ours.gone(), case.theirs.gone());
    let kept: BTreeSet<String> = their_gone.difference(&own_gone).cloned().collect();
    if kept.is_empty() && removed_by_rule(case, &own_gone) {
        return Ok(Some(Rule::UnreadyByState));
    }
    if own_gone == their_gone && keeps_sizes_of_others(case) {
        return Ok(Some(Rule::CloudFailures));
    }
    let rule = if kept.is_empty() { grown_by_rule(case)? } else { kept_by_rule(case, &kept) };
    if rule.is_some() {
        return Ok(rule);
    }
    Ok(equal_choice(case).then_some(Rule::EqualChoice))
}

/// True if the sizes differ only where the reference lowers one that nobody raised in the case.
fn keeps_sizes_of_others(case: &Case<'_>) -> bool {
    let differ = |group: &&Group| case.ours.targets.get(&group.id) != case.theirs.targets.get(&group.id);
    let own = |group: &Group| {
        let gone = case.input.nodes.iter().flatten().filter(|node| node.group == group.id);
        let gone = gone.filter(|node| case.ours.deleted.contains_key(&node.name)).count();
        case.ours.targets.get(&group.id).copied() == Some(group.target - i64::try_from(gone).unwrap_or(0))
    };
    case.ours.grown == case.theirs.grown
        && case.ours.targets != case.theirs.targets
        && case
            .input
            .groups
            .iter()
            .filter(differ)
            .all(|group| own(group) && case.theirs.targets.get(&group.id) < case.ours.targets.get(&group.id))
}

/// True if the pods of an unready node that only the product removes have no other place: there the reference keeps it.
pub(crate) fn removed_by_rule(case: &Case<'_>, own_gone: &BTreeSet<String>) -> bool {
    own_gone.difference(&case.theirs.gone()).any(|node| case.run.unplaced.contains(node.as_str()))
}

/// True if the end costs the same, helps the same pods and is spread no worse.
fn equal_choice(case: &Case<'_>) -> bool {
    let balanced = case.input.options.balance_similar_node_groups;
    (case.ours.grown == case.theirs.grown || offered(case))
        && case.our_worth.costs_as(&case.their_worth)
        && case.our_worth.helped == case.their_worth.helped
        && (!balanced || spread(case, case.ours) <= spread(case, &case.theirs))
}

/// The rule by which the product keeps each of these nodes at the time at which the reference removes it.
fn kept_by_rule(case: &Case<'_>, kept: &BTreeSet<String>) -> Option<Rule> {
    let rules: Vec<Option<Rule>> = kept.iter().map(|node| keeps(case, node)).collect();
    let first = rules.iter().flatten().min().copied();
    first.filter(|_| rules.iter().all(Option::is_some))
}

fn keeps(case: &Case<'_>, node: &str) -> Option<Rule> {
    let (_, at) = case.theirs.deleted.iter().find(|(name, _)| name.trim_start_matches("fake://") == node)?;
    let at = *at;
    if of_whole_group(case, node) {
        return Some(Rule::WholeGroups);
    }
    if failed_to_launch(case.input, node) {
        return Some(Rule::CloudFailures);
    }
    let called_off = |(when, name): &&(i64, Arc<str>)| **name == *node && many_unready(case, *when);
    if case.run.trace.unmarks.iter().any(|unmarked| called_off(&unmarked)) {
        return Some(Rule::UnreadyFifth);
    }
    let verdicts = case.run.verdicts.get(node)?;
    // From a loop before the reference's decision on: its delays before the deletion are at most a few loops.
    let from = at - 4 * case.input.tick_s;
    let before = verdicts.iter().rfind(|(when, _)| *when <= from);
    let around: Vec<Reason> = before
        .into_iter()
        .chain(verdicts.iter().filter(|(when, _)| from < *when))
        .map(|(_, reason)| *reason)
        .collect();
    let held = |wanted: Reason| around.contains(&wanted);
    if held(Reason::ClusterMinimumReached) && takes_least_amounts(case, node, at) {
        return Some(Rule::LeastAmounts);
    }
    if held(Reason::ClusterUnhealthy) && many_unready(case, at) {
        return Some(Rule::UnreadyFifth);
    }
    let failed = |(_, _, name): &(i64, Arc<str>, Arc<str>)| **name == *node;
    if case.run.trace.failed_deletions.iter().any(failed) {
        return Some(Rule::CloudFailures);
    }
    let takes_nothing = case
        .input
        .nodes
        .iter()
        .flatten()
        .any(|other| other.name != node && unready_since(case.input, &other.name, at).is_some());
    let only_there = held(Reason::NoPlaceToMovePods) && takes_nothing && goes_if_all_are_ready(case, node);
    only_there.then_some(Rule::UnreadyTakesNothing)
}

/// True if this is an instance whose launch the cloud reports as failed.
fn failed_to_launch(input: &Input, name: &str) -> bool {
    let instances = input.groups.iter().flat_map(|group| group.instances.as_array().into_iter().flatten());
    instances.into_iter().any(|one| {
        one["id"].as_str().is_some_and(|id| id.trim_start_matches("fake://") == name)
            && one["error"].is_string()
    })
}

/// True if the product removes the node once all other nodes of the case are ready.
fn goes_if_all_are_ready(case: &Case<'_>, node: &str) -> bool {
    let mut ready = case.input.clone();
    let heal = |other: &mut Node| {
        if other.name != node {
            (other.ready, other.ready_since_s) = (None, None);
        }
    };
    ready.nodes.iter_mut().flatten().for_each(heal);
    let events = ready.events.iter_mut().flatten();
    events.flat_map(|event| event.update_nodes.iter_mut().flatten()).for_each(heal);
    drive::run(&ready).is_ok_and(|run| Actions::of_product(&run).gone().contains(node))
}

/// True if the node is of a group that goes as a whole, and the product has left all of its nodes alone.
fn of_whole_group(case: &Case<'_>, node: &str) -> bool {
    let own_gone = case.ours.gone();
    case.input.groups.iter().any(|group| {
        let names: BTreeSet<&str> = case
            .input
            .nodes
            .iter()
            .flatten()
            .filter(|node| node.group == group.id)
            .map(|node| node.name.as_str())
            .collect();
        let whole = settings::group_options(group).is_ok_and(|own| own.zero_or_max);
        whole && names.contains(node) && names.iter().all(|name| !own_gone.contains(*name))
    })
}

/// True if, by the input alone, the nodes that stay would be under the least cores or memory without this one.
fn takes_least_amounts(case: &Case<'_>, node: &str, at: i64) -> bool {
    let left = |other: &&Node| {
        let gone = case.ours.deleted.get(&other.name).is_some_and(|when| *when <= at);
        other.name != node && !gone
    };
    let capacities: Vec<_> =
        case.input.nodes.iter().flatten().filter(left).map(|node| node.to_core().capacity).collect();
    let cpu: i64 = capacities.iter().map(|all| all.cpu_milli).sum();
    let memory: i64 = capacities.iter().map(|all| all.memory_bytes).sum();
    let options = &case.input.options;
    cpu < options.min_cores_total * 1000 || memory < options.min_memory_total_gib << 30
}

/// Time since which the node is unready at this instant, by the input alone.
fn unready_since(input: &Input, node: &str, at: i64) -> Option<i64> {
    let state = latest(input, node, at)?;
    let ready = state.ready.as_deref().is_none_or(|ready| ready == "True");
    (!ready).then_some(state.ready_since_s.unwrap_or(state.created_s))
}

/// The node as it was listed last before this instant.
fn latest<'i>(input: &'i Input, node: &str, at: i64) -> Option<&'i Node> {
    let first = input.nodes.iter().flatten().find(|other| other.name == node);
    let events = input.events.iter().flatten().filter(|event| event.tick * input.tick_s <= at);
    let mut updates = events.flat_map(|event| event.update_nodes.iter().flatten());
    updates.rfind(|other| other.name == node).or(first)
}

/// True if more than a fifth of the nodes that are there, or of those of a zone, are unready around this instant, by the
/// input and the removals alone.
fn many_unready(case: &Case<'_>, at: i64) -> bool {
    let input = case.input;
    let there = |node: &&Node| case.ours.deleted.get(&node.name).is_none_or(|when| at < *when);
    let names: Vec<&str> =
        input.nodes.iter().flatten().filter(there).map(|node| node.name.as_str()).collect();
    let zone = |node: &str| {
        let state = latest(input, node, at);
        state.and_then(|state| state.labels.get("topology.kubernetes.io/zone").cloned())
    };
    let zones: BTreeSet<Option<String>> = names.iter().map(|node| zone(node)).collect();
    let few = input.options.ok_total_unready_count.unwrap_or(3) as usize;
    let above = |nodes: &[&str]| {
        let unready = nodes.iter().filter(|node| unready_since(input, node, at).is_some()).count();
        few < unready && nodes.len() < unready * 5
    };
    above(&names)
        || zones.iter().any(|wanted| {
            let own: Vec<&str> = names.iter().copied().filter(|node| zone(node) == *wanted).collect();
            above(&own)
        })
}

/// The rule by which the product grows otherwise.
fn grown_by_rule(case: &Case<'_>) -> Result<Option<Rule>, String> {
    if balances_empty(case) {
        return Ok(Some(Rule::EmptyPoolsBalance));
    }
    if grows_whole_group_in_part(case) {
        return Ok(Some(Rule::WholeGroups));
    }
    if learned_amounts(case)? {
        return Ok(Some(Rule::LearnedAmounts));
    }
    if let Some(without) = without_flags(case.input)
        && agrees(&without, case)?
    {
        return Ok(Some(Rule::NoSuchFlag));
    }
    if near_tie(case)? {
        return Ok(Some(Rule::NearTies));
    }
    if case.input.daemonsets.as_ref().is_some_and(|sets| !sets.is_empty()) {
        let mut without = case.input.clone();
        without.daemonsets = None;
        if agrees(&without, case)? || agrees(&with_running_sets(case.input), case)? {
            return Ok(Some(Rule::DaemonSetsCount));
        }
    }
    Ok(None)
}

/// The input with a pod of each DaemonSet on each node: each set counts on new nodes then, as its pods ask.
fn with_running_sets(input: &Input) -> Input {
    let mut changed = input.clone();
    let pods = changed.pods.get_or_insert_default();
    for set in input.daemonsets.iter().flatten() {
        pods.extend(input.nodes.iter().flatten().map(|node| Pod {
            name: format!("{}-runs-{}", set.name, node.name),
            ns: Some(set.ns.clone().unwrap_or_else(|| "kube-system".into())),
            cpu_m: set.cpu_m,
            mem: set.mem,
            node: Some(node.name.clone()),
            owner: Some(Owner { kind: "DaemonSet".into(), name: set.name.clone(), ..Owner::default() }),
            ..Pod::default()
        }));
    }
    changed
}

/// True if the product does as the reference once the declared templates match the nodes of the groups: when those have
/// left, only their amounts are remembered, and only if the declared machine can have them.
fn learned_amounts(case: &Case<'_>) -> Result<bool, String> {
    let mut declared = case.input.clone();
    let mut any = false;
    for group in &mut declared.groups {
        let live = case.input.nodes.iter().flatten().find(|node| node.group == group.id);
        let gone = live.is_some_and(|node| case.theirs.deleted.contains_key(&node.name));
        if let (Some(live), true) = (live, gone) {
            any = true;
            group.template = Some(Node { name: String::new(), group: String::new(), ..live.clone() });
        }
    }
    Ok(any && agrees(&declared, case)?)
}

/// True if the product does as the reference once the input shows the part that the rule ignores.
fn agrees(input: &Input, case: &Case<'_>) -> Result<bool, String> {
    let ours = Actions::of_product(&drive::run(input)?);
    Ok(ours.grown == case.theirs.grown && ours.gone() == case.theirs.gone())
}

/// The input with the meaning of flags for which there is no field, in fields that the product has.
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

/// True if the reference too could have grown each group that the product grows.
fn offered(case: &Case<'_>) -> bool {
    case.ours.grown.keys().all(|group| case.theirs.offered.contains(group))
}

/// Returns the difference between one side's largest and smallest size of the groups that either side grows, among
/// those that are alike to one that it grows.
fn spread(case: &Case<'_>, side: &Actions) -> i64 {
    let grown: BTreeSet<&String> = case.ours.grown.keys().chain(case.theirs.grown.keys()).collect();
    let shape = |id: &String| {
        let group = case.input.groups.iter().find(|group| group.id == *id);
        let mut node = group.and_then(|group| group.template.as_ref()).map(Node::to_core).unwrap_or_default();
        for key in &case.input.options.balancing_ignore_labels {
            node.labels.remove(key);
        }
        node
    };
    let (nothing, rule) = (Resources::default(), Similarity::default());
    let alike = |a: &String, b: &String| {
        let (a, b) = (shape(a), shape(b));
        rule.similar(Shape { node: &a, requested: &nothing }, Shape { node: &b, requested: &nothing })
    };
    let apart = |id: &String| {
        let own = grown.iter().filter(|other| alike(id, other));
        let sizes: Vec<i64> = own.filter_map(|other| side.targets.get(*other).copied()).collect();
        sizes.iter().max().copied().unwrap_or(0) - sizes.iter().min().copied().unwrap_or(0)
    };
    side.grown.keys().map(apart).max().unwrap_or(0)
}

/// True if as many nodes are spread more evenly, over groups of which one has no node.
fn balances_empty(case: &Case<'_>) -> bool {
    let grown: BTreeSet<&String> = case.ours.grown.keys().chain(case.theirs.grown.keys()).collect();
    let sum = |all: &BTreeMap<String, i64>| all.values().sum::<i64>();
    let empty = grown.iter().any(|id| !case.input.nodes.iter().flatten().any(|node| node.group == **id));
    case.input.options.balance_similar_node_groups
        && empty
        && sum(&case.ours.grown) == sum(&case.theirs.grown)
        && case.our_worth.helps_all_of(&case.their_worth)
        && spread(case, case.ours) < spread(case, &case.theirs)
}

/// True if the reference grows a whole group to a part of its size, or by more nodes than one plan may add.
fn grows_whole_group_in_part(case: &Case<'_>) -> bool {
    let most = i64::from(case.input.options.max_nodes_per_scaleup.unwrap_or(1000));
    case.input.groups.iter().any(|group| {
        let grown = case.theirs.grown.get(&group.id).copied().unwrap_or(0);
        let whole = settings::group_options(group).is_ok_and(|own| own.zero_or_max);
        let in_part = grown != 0 && group.target + grown != group.max;
        whole && !case.ours.grown.contains_key(&group.id) && (in_part || most != 0 && most < grown)
    })
}

/// True if other groups grow, by no more nodes, and waste no more than the tolerance above the reference's.
fn near_tie(case: &Case<'_>) -> Result<bool, String> {
    let chain = case.input.options.expander.as_deref().unwrap_or("least-waste");
    let sum = |all: &BTreeMap<String, i64>| all.values().sum::<i64>();
    if !chain.contains("least-waste")
        || case.ours.grown.is_empty()
        || case.ours.grown == case.theirs.grown
        || !offered(case)
        || case.ours.gone() != case.theirs.gone()
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
