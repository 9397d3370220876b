//! The family that follows groups over time: targets, nodes and instances in, counts, health and back-off out.
//!
//! The product keeps its requests as intents: what the vectors register becomes one, and the plan settles it.

mod follower;

use std::collections::BTreeMap;

use follower::{Follower, Undone};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::{Group, Node};
use crate::outcome::{Outcome, Rule};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    groups: Vec<Group>,
    max_total_unready_percentage: u32,
    ok_total_unready_count: u32,
    max_node_provision_s: i64,
    max_node_startup_s: i64,
    backoff_initial_max_reset_s: (i64, i64, i64),
    steps: Vec<Step>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Step {
    at_s: i64,
    targets: Option<BTreeMap<String, i64>>,
    nodes: Option<Vec<Node>>,
    keep_nodes: bool,
    instances: Option<BTreeMap<String, Option<Vec<Instance>>>>,
    register_scale_up: Option<Vec<Increase>>,
    register_scale_down: Option<Vec<Removal>>,
    register_failed_scale_up: Option<Vec<Failure>>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Instance {
    id: String,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Increase {
    group: String,
    delta: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // The product knows its removals by their intents.
struct Removal {
    group: String,
    node: String,
    expected_delete_s: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    group: String,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Overrides {
    max_node_provision_s: Option<i64>,
    max_node_startup_s: Option<i64>,
}

/// Follows the steps and compares what the product decides by.
pub(crate) fn compare(input: &Value, out: &Value) -> Outcome {
    let input = match Input::deserialize(input) {
        Ok(input) => input,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let own = compared(&input, out, Undone::default());
    if !matches!(own, Outcome::Failed(_)) {
        return own;
    }
    let explains = |undone| !matches!(compared(&input, out, undone), Outcome::Failed(_));
    let apart = [(true, false), (false, true), (true, true)];
    let apart = apart.map(|(merged, believed)| Undone { merged, believed, failures: false });
    if apart.into_iter().any(explains) {
        return Outcome::Different(Rule::PurchasesApart);
    }
    let mut failures = apart.into_iter().chain([Undone::default()]);
    let failures = failures.any(|undone| explains(Undone { failures: true, ..undone }));
    if failures { Outcome::Different(Rule::CloudFailures) } else { own }
}

/// Compares each step.
fn compared(input: &Input, out: &Value, undone: Undone) -> Outcome {
    let steps = match Follower::new(input, undone).and_then(|follower| follower.follow(input)) {
        Ok(steps) => steps,
        Err(error) => return Outcome::Failed(error),
    };
    let mut outcome = Outcome::Same;
    for (number, (ours, left)) in steps.iter().enumerate() {
        let step = &out["steps"][number];
        let expected = reduced(step, theirs);
        if *ours == expected {
            continue;
        }
        let by_rule = reduced(step, |group| with_instances(group, input));
        if within(ours, &expected, &by_rule, left) {
            outcome = Outcome::Different(Rule::YoungInstances);
            continue;
        }
        return Outcome::Failed(format!("step {number}: expected {expected}\n       got {ours}"));
    }
    outcome
}

/// True if each number of each group is that of the reference, or what the rule of young instances makes of it: machines
/// whose node has left are not awaited, and those that are young are.
fn within(ours: &Value, theirs: &Value, by_rule: &Value, left: &BTreeMap<String, u64>) -> bool {
    let number = |value: &Value| value["upcoming"].as_u64().unwrap_or(0);
    let one = |(id, own): (&String, &Value)| {
        let (theirs, by_rule) = (&theirs["groups"][id], &by_rule["groups"][id]);
        let least = number(theirs).saturating_sub(left.get(id).copied().unwrap_or(0));
        let upcoming = least <= number(own) && number(own) <= number(theirs).max(number(by_rule));
        let mut others = own.as_object().into_iter().flatten().filter(|(key, _)| *key != "upcoming");
        upcoming && others.all(|(key, own)| theirs[key] == *own || by_rule[key] == *own)
    };
    ours["cluster_healthy"] == theirs["cluster_healthy"]
        && ours["groups"].as_object().into_iter().flatten().all(one)
}

/// Returns the part of a step that decides: the fields for which the product has numbers.
fn reduced(step: &Value, of_group: impl Fn(&Value) -> Value) -> Value {
    let groups = step["groups"].as_object().into_iter().flatten();
    let groups = groups.map(|(id, group)| (id.clone(), of_group(group)));
    json!({"cluster_healthy": step["cluster_healthy"], "groups": groups.collect::<serde_json::Map<_, _>>()})
}

fn readiness(group: &Value, key: &str) -> u64 {
    group["readiness"][key].as_u64().unwrap_or(0)
}

/// A group as the reference has it.
fn theirs(group: &Value) -> Value {
    json!({
        "safe": group["safe_to_scale_up"],
        "backed_off": group["backed_off"],
        "upcoming": group["upcoming"],
        "ready": readiness(group, "ready"),
        "unready": readiness(group, "unready"),
        "long_unregistered": readiness(group, "long_unregistered"),
    })
}

/// The same where instances and nodes that are still young are on their way, whoever asked for them, and not missing.
fn with_instances(group: &Value, input: &Input) -> Value {
    let mut value = theirs(group);
    let young = readiness(group, "unregistered") + readiness(group, "not_started");
    if young == 0 {
        return value;
    }
    value["upcoming"] = json!(group["upcoming"].as_u64().unwrap_or(0).max(young));
    let there = ["ready", "suspended", "not_started", "deleted", "unregistered"];
    let there: u64 = there.into_iter().map(|key| readiness(group, key)).sum();
    let wanted = group["acceptable_min"].as_i64().and_then(|wanted| u64::try_from(wanted).ok()).unwrap_or(0);
    let missing = wanted.saturating_sub(there);
    let many = u64::from(input.ok_total_unready_count) < missing
        && readiness(group, "registered") * u64::from(input.max_total_unready_percentage) < missing * 100;
    value["safe"] = json!(!many && group["backed_off"] == json!(false));
    value
}
