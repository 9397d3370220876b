//! One function a family of golden vectors: input of a case to the core's answer in the words of the format.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::config::{Expander, Profile, ScaleUp};
use headroom_core::history::Backoff;
use headroom_core::nodes::balance::{self, Size};
use headroom_core::nodes::expander::{self, Offer, Surroundings};
use headroom_core::nodes::packing::Wanted;
use headroom_core::nodes::{backoff, equivalence, estimator};
use headroom_core::resources::Resources;
use headroom_core::scheduling::{PodRef, Snapshot, TemplateNode};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::pod::Pod as CorePod;
use headroom_core::world::provider::FailureClass;
use headroom_core::world::{Delta, World};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::{Group, Line, Node, Pod};
use crate::{cluster, likeness, loops, removals};

/// What a case came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As the reference.
    Passed,
    /// Not as the reference: how.
    Failed(String),
    /// No family of this name is covered.
    NotCovered,
}

/// Runs one case of the family that its id names.
pub fn run(line: &Line) -> Verdict {
    let family = line.id.rsplit_once('-').map_or(line.id.as_str(), |(family, _)| family);
    let answer = match family {
        "backoff" => backoff(&line.input),
        "balancing" => balancing(&line.input),
        "expanders" => expanders(&line.input),
        "estimator" => estimator(&line.input),
        "similar_groups" => likeness::similar_groups(&line.input),
        "cluster_state" => cluster::cluster_state(&line.input),
        "scale_up" | "scale_down" => {
            let outs: Vec<&Value> = std::iter::once(&line.out).chain(&line.alternatives).collect();
            return judged(loops::compare(&line.input, &outs));
        }
        "utilization" => return judged(removals::utilization(&line.input, &line.out)),
        "drainability" => return judged(removals::drainability(&line.input, &line.out)),
        _ => return Verdict::NotCovered,
    };
    match answer {
        Err(error) => Verdict::Failed(error.to_string()),
        Ok(answer) if answer == line.out || line.alternatives.contains(&answer) => Verdict::Passed,
        Ok(answer) => Verdict::Failed(format!("expected {}\n       got {answer}", line.out)),
    }
}

/// A family that compares for itself: with a tolerance, or only in what matters.
fn judged(compared: Result<(), String>) -> Verdict {
    compared.map_or_else(Verdict::Failed, |()| Verdict::Passed)
}

type Answer = Result<Value, serde_json::Error>;

// === backoff ===

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackoffInput {
    initial_s: f64,
    max_s: f64,
    reset_s: f64,
    ops: Vec<BackoffOp>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackoffOp {
    at_s: f64,
    op: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    error: String,
}

/// The core counts whole seconds and does not care what a second is: a few cases need a finer one.
#[allow(clippy::cast_possible_truncation)]
fn milliseconds(seconds: f64) -> i64 {
    (seconds * 1000.0).round() as i64
}

#[allow(clippy::cast_precision_loss)]
fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1000.0
}

fn backoff(input: &Value) -> Answer {
    let input: BackoffInput = serde_json::from_value(input.clone())?;
    let settings = ScaleUp {
        backoff_initial: Seconds(milliseconds(input.initial_s)),
        backoff_max: Seconds(milliseconds(input.max_s)),
        backoff_reset_after: Seconds(milliseconds(input.reset_s)),
        ..ScaleUp::default()
    };
    let mut entries: BTreeMap<String, Backoff> = BTreeMap::new();
    let mut results = Vec::new();
    for op in &input.ops {
        let now = UnixTime(milliseconds(op.at_s));
        results.push(match op.op.as_str() {
            "fail" => {
                let class = match op.error.as_str() {
                    "quota" => FailureClass::QuotaExceeded,
                    _ => FailureClass::Other,
                };
                let entry = backoff::after_failure(entries.get(&op.group), class, "", now, &settings);
                let until = entry.until.0;
                entries.insert(op.group.clone(), entry);
                if until % 1000 == 0 {
                    json!({"until_s": until / 1000})
                } else {
                    json!({"until_s": seconds(until)})
                }
            }
            "success" => {
                entries.remove(&op.group);
                json!({})
            }
            "cleanup" => {
                entries.retain(|_, entry| !backoff::forgotten(entry, now, &settings));
                json!({})
            }
            _ => match entries.get(&op.group).filter(|entry| now <= entry.until) {
                Some(entry) => {
                    let code = if entry.class == FailureClass::QuotaExceeded { "QUOTA" } else { "OTHER" };
                    json!({"backed_off": true, "error_code": code})
                }
                None => json!({"backed_off": false}),
            },
        });
    }
    Ok(json!({ "results": results }))
}

// === balancing ===

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BalancingInput {
    groups: Vec<Group>,
    new_nodes: u32,
}

fn balancing(input: &Value) -> Answer {
    let input: BalancingInput = serde_json::from_value(input.clone())?;
    let sizes: Vec<Size> = input.groups.iter().map(size).collect();
    let after = balance::balance(&sizes, input.new_nodes);
    let mut resized: Vec<(String, u32, u32)> = input
        .groups
        .iter()
        .zip(sizes.iter().zip(after))
        .filter(|(_, (before, after))| before.current != *after)
        .map(|(group, (before, after))| (group.id.clone(), before.current, after))
        .collect();
    resized.sort();
    let resized: Vec<Value> = resized
        .into_iter()
        .map(|(group, current, new)| json!({"group": group, "current": current, "new": new}))
        .collect();
    Ok(json!({ "resized": resized }))
}

fn size(group: &Group) -> Size {
    let number = |value: i64| u32::try_from(value.max(0)).unwrap_or(u32::MAX);
    Size { current: number(group.target), max: number(group.max) }
}

// === expanders ===

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpandersInput {
    groups: Vec<Group>,
    #[serde(default)]
    options: Option<Vec<OptionInput>>,
    chain: Vec<String>,
    #[serde(default)]
    priorities: Option<Priorities>,
    #[serde(default)]
    cluster_nodes: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionInput {
    group: String,
    node_count: u32,
    #[serde(default)]
    pods: Option<Vec<Pod>>,
}

fn expanders(input: &Value) -> Answer {
    let input: ExpandersInput = serde_json::from_value(input.clone())?;
    let ids = input.groups.iter().map(|group| group.id.as_str());
    let priorities = priorities(input.priorities.as_ref(), ids);
    let offers: Vec<Offer> = input
        .options
        .iter()
        .flatten()
        .map(|option| offer(option, &input.groups, priorities.get(&option.group).copied()))
        .collect();
    let around = Surroundings { cluster_nodes: input.cluster_nodes, profile: Profile::ClusterAutoscaler };
    let mut left: Vec<usize> = (0..offers.len()).collect();
    let mut stages = Vec::new();
    for word in &input.chain {
        left = expander::narrow(expander_named(word), &offers, &left, around);
        stages.push(json!({"expander": word, "left": names(&offers, &left)}));
    }
    let best = names(&offers, &left);
    Ok(json!({"best": best, "stages": stages}))
}

/// The expander of a word; random for any other.
pub fn expander_named(word: &str) -> Expander {
    match word {
        "least-waste" => Expander::LeastWaste,
        "least-nodes" => Expander::LeastNodes,
        "most-pods" => Expander::MostPods,
        "priority" => Expander::Priority,
        "price" => Expander::Price,
        _ => Expander::Random,
    }
}

fn names(offers: &[Offer], left: &[usize]) -> Value {
    let names: BTreeSet<String> = left.iter().map(|index| offers[*index].name.to_string()).collect();
    json!(names)
}

fn offer(option: &OptionInput, groups: &[Group], priority: Option<i32>) -> Offer {
    let group = groups.iter().find(|group| group.id == option.group).cloned().unwrap_or_default();
    let template = group.template.clone().unwrap_or_default();
    let pods: Vec<CorePod> = option.pods.iter().flatten().flat_map(Pod::to_core).collect();
    let mut requested = Resources::default();
    pods.iter().for_each(|pod| requested.add(&pod.class.requests));
    #[allow(clippy::cast_possible_truncation)]
    let price = group.price.map(|price| (price * 1e6).round() as i64);
    Offer {
        name: option.group.as_str().into(),
        nodes: option.node_count,
        pods: u32::try_from(pods.len()).unwrap_or(u32::MAX),
        node: template.to_core().capacity,
        requested,
        priority: priority.unwrap_or(i32::MIN),
        price_per_hour_micro: price,
        limited: false,
        gpu: template.ext.contains_key("nvidia.com/gpu")
            || template.labels.contains_key("example.com/accelerator"),
    }
}

/// What the map of the priority expander says.
pub type Priorities = BTreeMap<String, Option<Vec<String>>>;

/// The highest number whose patterns match, by group; negative numbers and an invalid map count for nothing.
pub fn priorities<'a>(
    written: Option<&Priorities>,
    ids: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, i32> {
    let mut patterns: Vec<(i32, regex::Regex)> = Vec::new();
    for (number, all) in written.into_iter().flatten() {
        let Ok(number) = number.parse::<i32>() else { return BTreeMap::new() };
        for pattern in all.iter().flatten() {
            match regex::Regex::new(pattern) {
                Ok(pattern) => patterns.push((number, pattern)),
                Err(_) => return BTreeMap::new(),
            }
        }
    }
    let highest = |id: &str| {
        let matching = patterns.iter().filter(|(number, pattern)| 0 <= *number && pattern.is_match(id));
        matching.map(|(number, _)| *number).max()
    };
    ids.filter_map(|id| Some((id.to_owned(), highest(id)?))).collect()
}

// === estimator ===

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EstimatorInput {
    template: Node,
    #[serde(default)]
    template_pods: Option<Vec<Pod>>,
    #[serde(default)]
    nodes: Option<Vec<Node>>,
    #[serde(default)]
    running: Option<Vec<Pod>>,
    pending: Vec<Pod>,
    max_nodes_per_scaleup: i64,
    #[serde(default)]
    cluster_max_nodes: i64,
    #[serde(default)]
    cluster_current_nodes: i64,
    group: Group,
    #[serde(default)]
    similar_groups: Option<Vec<Group>>,
    /// Chooses between two ways that the reference has to the same numbers.
    #[serde(default)]
    #[allow(dead_code)]
    fastpath: bool,
}

fn estimator(input: &Value) -> Answer {
    let input: EstimatorInput = serde_json::from_value(input.clone())?;
    let mut world = World::new();
    for node in input.nodes.iter().flatten() {
        world.apply(Delta::NodeApplied(Box::new(node.to_core())));
    }
    let pending: Vec<CorePod> = input.pending.iter().flat_map(Pod::to_core).collect();
    let running = input.running.iter().flatten().flat_map(Pod::to_core);
    for pod in running.chain(pending.iter().cloned()) {
        world.apply(Delta::PodApplied(Box::new(pod)));
    }
    let mut snapshot = Snapshot::new(&world);
    let template = template(&input, &mut snapshot);
    let groups = equivalence_groups(&pending);
    let members: Vec<Vec<PodRef>> = groups
        .iter()
        .map(|group| group.iter().filter_map(|pod| Some(PodRef::Real(world.pod_id(&pod.key)?))).collect())
        .collect();
    let wanted: Vec<Wanted<'_>> =
        members.iter().map(|pods| Wanted { class: snapshot.class_of(pods[0]), priority: 0, pods }).collect();
    let estimate = estimator::estimate(&mut snapshot, &template, &wanted, limit(&input));

    let named =
        |pods: &[&CorePod]| -> Vec<String> { pods.iter().map(|pod| pod.key.name.to_string()).collect() };
    let mut equivalence: Vec<Vec<String>> = groups.iter().map(|group| named(group)).collect();
    equivalence.sort();
    let mut unfit: Vec<String> = estimate.unfit.iter().flat_map(|index| named(&groups[*index])).collect();
    unfit.sort();
    let mut scheduled: Vec<String> =
        groups.iter().zip(&estimate.scheduled).flat_map(|(group, count)| named(&group[..*count])).collect();
    scheduled.sort();
    Ok(json!({
        "equivalence_groups": equivalence,
        "does_not_fit_empty_template": unfit,
        "node_count": estimate.nodes,
        "scheduled": scheduled,
    }))
}

fn template(input: &EstimatorInput, snapshot: &mut Snapshot<'_>) -> Arc<TemplateNode> {
    let mut node = input.template.to_core();
    node.labels.remove("kubernetes.io/hostname");
    let mut daemon_pods = Vec::new();
    let mut daemon_requested = Resources::default();
    for pod in input.template_pods.iter().flatten().flat_map(Pod::to_core) {
        daemon_pods.push(snapshot.class_ix(&pod.class));
        daemon_requested.add(&pod.class.requests);
    }
    Arc::new(TemplateNode { node, daemon_pods, daemon_requested, ..TemplateNode::default() })
}

/// The limit on new nodes.
fn limit(input: &EstimatorInput) -> Option<u32> {
    let per_scale_up = u32::try_from(input.max_nodes_per_scaleup.max(0)).unwrap_or(u32::MAX);
    let cluster =
        (input.cluster_max_nodes > 0).then_some(input.cluster_max_nodes - input.cluster_current_nodes);
    let groups = std::iter::once(&input.group).chain(input.similar_groups.iter().flatten());
    Some(estimator::nodes_max(per_scale_up, cluster, groups.map(|group| group.max - group.target)))
}

/// Equal pods of one controller.
fn equivalence_groups(pods: &[CorePod]) -> Vec<Vec<&CorePod>> {
    let all: Vec<&CorePod> = pods.iter().collect();
    let groups = equivalence::groups(&all);
    groups.into_iter().map(|group| group.into_iter().map(|index| &pods[index]).collect()).collect()
}
