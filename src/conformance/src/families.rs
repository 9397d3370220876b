//! The families of pure functions: input of a case to the product's answer in the words of the format.

use std::collections::BTreeSet;
use std::sync::Arc;

use headroom_core::config::{Expander, ScaleUp};
use headroom_core::history::PoolHistory;
use headroom_core::nodes::scale_up::balance::{self, Size};
use headroom_core::nodes::scale_up::expander::{self, Offer, least_waste};
use headroom_core::nodes::state::backoff;
use headroom_core::nodes::state::cluster_state::backed_off_until;
use headroom_core::resources::Resources;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::pod::Pod as CorePod;
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::FailureClass;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::choice::{Priorities, expander_named, priorities};
use crate::model::{Group, Line, Node, Pod};
use crate::outcome::{Outcome, Rule};
use crate::{cluster, estimator, likeness, loops, removals};

/// Difference of the idle part of cpu and memory together that still counts as equal; as in the product.
pub(crate) const TIE: f64 = 0.04 + 1e-9;

/// Runs one case of the family that its id names; `None` where no family of this name is known.
pub(crate) fn run(line: &Line) -> Option<Outcome> {
    let outs: Vec<&Value> = std::iter::once(&line.out).chain(&line.alternatives).collect();
    Some(match family(&line.id) {
        "backoff" => exact(backoff(&line.input), &outs),
        "balancing" => exact(balancing(&line.input), &outs),
        "similar_groups" => exact(likeness::similar_groups(&line.input), &outs),
        "expanders" => expanders(&line.input, &outs),
        "estimator" => estimator::compare(&line.input, &outs),
        "cluster_state" => cluster::compare(&line.input, &line.out),
        "utilization" => compared(removals::utilization(&line.input, &line.out)),
        "drainability" => compared(removals::drainability(&line.input, &line.out)),
        "scale_up" | "scale_down" => loops::compare::compare(&line.input, &outs),
        _ => return None,
    })
}

/// The family of a case.
pub(crate) fn family(id: &str) -> &str {
    id.rsplit_once('-').map_or(id, |(family, _)| family)
}

fn compared(found: Result<(), String>) -> Outcome {
    found.map_or_else(Outcome::Failed, |()| Outcome::Same)
}

fn exact(answer: Result<Value, serde_json::Error>, outs: &[&Value]) -> Outcome {
    match answer {
        Err(error) => Outcome::Failed(error.to_string()),
        Ok(answer) if outs.contains(&&answer) => Outcome::Same,
        Ok(answer) => Outcome::Failed(format!("expected {}\n       got {answer}", outs[0])),
    }
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
fn seconds(milliseconds: i64) -> Value {
    if milliseconds % 1000 == 0 { json!(milliseconds / 1000) } else { json!(milliseconds as f64 / 1000.0) }
}

fn backoff(input: &Value) -> Answer {
    let input = BackoffInput::deserialize(input)?;
    let settings = ScaleUp {
        backoff_initial: Seconds(milliseconds(input.initial_s)),
        backoff_max: Seconds(milliseconds(input.max_s)),
        backoff_reset_after: Seconds(milliseconds(input.reset_s)),
        ..ScaleUp::default()
    };
    let mut memory = PoolHistory::default();
    let mut results = Vec::new();
    for op in &input.ops {
        let now = UnixTime(milliseconds(op.at_s));
        let key = BackoffKey { group: op.group.as_str().into(), ..BackoffKey::default() };
        results.push(match op.op.as_str() {
            "fail" => {
                let class = match op.error.as_str() {
                    "quota" => FailureClass::QuotaExceeded,
                    _ => FailureClass::Other,
                };
                let before = memory.backoffs.get(&key);
                let entry = backoff::after_failure(before, class, "", now, &settings);
                memory.backoffs.insert(key.clone(), entry);
                json!({"until_s": seconds(memory.backoffs[&key].until.0)})
            }
            "success" => {
                memory.backoffs.remove(&key);
                json!({})
            }
            "cleanup" => {
                memory.backoffs.retain(|_, entry| !backoff::forgotten(entry, now, &settings));
                json!({})
            }
            _ => match backed_off_until(&memory, &op.group, now) {
                Some(_) => {
                    let quota = memory.backoffs[&key].class == FailureClass::QuotaExceeded;
                    json!({"backed_off": true, "error_code": if quota { "QUOTA" } else { "OTHER" }})
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
    let input = BalancingInput::deserialize(input)?;
    let number = |value: i64| u32::try_from(value.max(0)).unwrap_or(u32::MAX);
    let size = |group: &Group| Size { current: number(group.target), max: number(group.max) };
    let sizes: Vec<Size> = input.groups.iter().map(size).collect();
    let after = balance::balance(&sizes, input.new_nodes);
    let mut resized: Vec<(&str, u32, u32)> = input
        .groups
        .iter()
        .zip(sizes.iter().zip(after))
        .filter(|(_, (before, after))| before.current != *after)
        .map(|(group, (before, after))| (group.id.as_str(), before.current, after))
        .collect();
    resized.sort_unstable();
    let row =
        |(group, current, new): (&str, u32, u32)| json!({"group": group, "current": current, "new": new});
    Ok(json!({ "resized": resized.into_iter().map(row).collect::<Vec<_>>() }))
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
    /// The product's expanders look at the offers alone.
    #[serde(default)]
    #[allow(dead_code)]
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

/// The stages of the chain. After the first stage that differs by a rule the later ones are not compared: they are given
/// other options.
fn expanders(input: &Value, outs: &[&Value]) -> Outcome {
    let input = match ExpandersInput::deserialize(input) {
        Ok(input) => input,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let ids = input.groups.iter().map(|group| group.id.as_str());
    let by_priority = priorities(input.priorities.as_ref(), ids);
    let options = input.options.iter().flatten();
    let offers: Vec<Offer> =
        options.map(|option| offer(option, &input.groups, by_priority.get(&option.group).copied())).collect();
    let mut left: Vec<usize> = (0..offers.len()).collect();
    for (stage, word) in input.chain.iter().enumerate() {
        let before = left.clone();
        left = expander::narrow(expander_named(word), &offers, &left);
        let ours = names(&offers, &left);
        let theirs: Vec<BTreeSet<String>> =
            outs.iter().map(|out| words(&out["stages"][stage]["left"])).collect();
        if theirs.contains(&ours) {
            continue;
        }
        return match stage_rule(word, &offers, &before, &left, &theirs[0]) {
            Some(rule) => Outcome::Different(rule),
            None => Outcome::Failed(format!("{word}: expected {:?}, got {ours:?}", theirs[0])),
        };
    }
    Outcome::Same
}

/// The rule by which a stage leaves other options than the reference.
fn stage_rule(
    word: &str,
    offers: &[Offer],
    before: &[usize],
    left: &[usize],
    theirs: &BTreeSet<String>,
) -> Option<Rule> {
    let ours = names(offers, left);
    match expander_named(word) {
        Expander::LeastWaste => {
            let waste = |index: &usize| least_waste::waste(&offers[*index]);
            let least = before.iter().map(waste).fold(f64::INFINITY, f64::min);
            let ties = left.iter().all(|index| waste(index) <= least + TIE);
            (theirs.is_subset(&ours) && ties).then_some(Rule::NearTies)
        }
        Expander::Price => {
            let cheapest =
                left.iter().filter_map(|index| price_of_worth(&offers[*index])).fold(0.0, f64::max);
            let chosen = before.iter().filter(|index| theirs.contains(&*offers[**index].name));
            let their_best = chosen.filter_map(|index| price_of_worth(&offers[*index]));
            let dearest = their_best.fold(f64::INFINITY, f64::min);
            (cheapest <= dearest + 1e-9).then_some(Rule::PricesAlone)
        }
        _ => None,
    }
}

/// Returns the cost of the option for each unit of its pods' worth: the number by which prices alone decide.
#[allow(clippy::cast_precision_loss)] // Amounts far below 2^53.
fn price_of_worth(offer: &Offer) -> Option<f64> {
    let worth = |cpu_milli: i64, bytes: i64| {
        cpu_milli as f64 / 1000.0 * 0.033_174 + bytes as f64 / (1u64 << 30) as f64 * 0.004_446
    };
    let small = worth(500, 500 << 20);
    let price = offer.price_per_hour_micro? as f64 / 1e6;
    let pods = worth(offer.requested.cpu_milli, offer.requested.memory_bytes);
    Some((f64::from(offer.nodes) * price + small) / (pods + small))
}

fn names(offers: &[Offer], left: &[usize]) -> BTreeSet<String> {
    left.iter().map(|index| offers[*index].name.to_string()).collect()
}

fn words(all: &Value) -> BTreeSet<String> {
    all.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn offer(option: &OptionInput, groups: &[Group], priority: Option<i32>) -> Offer {
    let group = groups.iter().find(|group| group.id == option.group).cloned().unwrap_or_default();
    let template: Node = group.template.clone().unwrap_or_default();
    let pods: Vec<CorePod> = option.pods.iter().flatten().flat_map(Pod::to_core).collect();
    let mut requested = Resources::default();
    pods.iter().for_each(|pod| requested.add(&pod.class.requests));
    #[allow(clippy::cast_possible_truncation)]
    let price = group.price.map(|price| (price * 1e6).round() as i64);
    Offer {
        name: Arc::from(option.group.as_str()),
        nodes: option.node_count,
        pods: u32::try_from(pods.len()).unwrap_or(u32::MAX),
        node: template.to_core().capacity,
        requested,
        priority: priority.unwrap_or(i32::MIN),
        price_per_hour_micro: price,
        limited: false,
    }
}
