//! Removal of nodes by Karpenter: consolidation and budgets.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{given, texts};
use crate::import::durations::{go_seconds, written};
use crate::import::names;
use crate::import::output::Draft;

/// Karpenter's budget where none is given.
const BUDGET: &str = "10%";
/// Reasons of budgets that both have, by the same names.
const REASONS: [&str; 4] = ["Empty", "Underutilized", "Drifted", "Unhealthy"];

/// Converts the rules by which nodes leave; `of_one` if all pools are of one market, `managed` if the operator makes the groups of
/// this one.
pub(super) fn convert(draft: &mut Draft, disruption: &Value, (of_one, managed): (bool, bool)) {
    match given(&disruption["consolidationPolicy"]).as_deref() {
        Some("WhenEmpty") => {
            draft.set("scaleDown.policy", "WhenUnderutilized", "consolidationPolicy WhenEmpty");
            draft.set("scaleDown.utilizationThreshold", 0, "consolidationPolicy WhenEmpty");
        }
        policy => consolidation(draft, policy.unwrap_or("WhenEmptyOrUnderutilized"), (of_one, managed)),
    }
    match given(&disruption["consolidateAfter"]).as_deref() {
        Some("Never") => draft.set("scaleDown.enabled", false, "consolidateAfter Never"),
        Some(time) => match go_seconds(time) {
            Some(seconds) => {
                draft.set("scaleDown.unneededFor", written(seconds), &format!("consolidateAfter {time}"))
            }
            None => {
                draft.say(format!(
                    "consolidateAfter {time}: cannot be read. Nothing was made of it: write a duration such as 1m, or Never."
                ));
                draft.only_preview("consolidateAfter could not be kept, see above");
            }
        },
        None => draft.set("scaleDown.unneededFor", "0s", "consolidateAfter 0s, Karpenter's default"),
    }
    match disruption["budgets"].as_array() {
        Some(budgets) => {
            let mut taken = BTreeSet::new();
            budgets.iter().for_each(|budget| one_budget(draft, budget, &mut taken));
        }
        None => draft.push(
            "scaleDown.budgets",
            json!({"maxNodes": BUDGET, "name": "karpenter"}),
            "Karpenter's default",
        ),
    }
}

/// The policy under which Karpenter removes and replaces nodes that are in use.
fn consolidation(draft: &mut Draft, policy: &str, (of_one, managed): (bool, bool)) {
    if !["WhenEmptyOrUnderutilized", "WhenUnderutilized", "Balanced"].contains(&policy) {
        draft.say(format!(
            "consolidationPolicy {policy}: unknown. Nothing was made of it: write WhenEmpty, WhenEmptyOrUnderutilized or Balanced."
        ));
        return draft.only_preview("consolidationPolicy could not be kept, see above");
    }
    draft.set("scaleDown.policy", "WhenCheaper", &format!("consolidationPolicy {policy}"));
    draft.say(format!(
        "consolidationPolicy {policy}: nodes are compared by their CPU and memory, by {} once all pools have one. \
         A node is replaced for scaleDown.minSaving (15 %) or more, by nodes of {}.",
        if managed { "price" } else { "price.perHour" },
        if managed { "the types that it allows" } else { "the groups that there are" }
    ));
    if !of_one {
        draft.say(format!(
            "Without prices spot nodes and nodes on demand do not replace each other: {}.",
            match managed {
                true => "declare provider.aws.managed.prices on demand where the condition PriceUnknown asks for them",
                false => "set price.perHour in all pools",
            }
        ));
    }
}

/// A budget; without one of its reasons, or without the whole, more nodes could leave than before.
fn one_budget(draft: &mut Draft, budget: &Value, taken: &mut BTreeSet<String>) {
    let nodes = given(&budget["nodes"]).unwrap_or_else(|| BUDGET.to_owned());
    let max = match (nodes.ends_with('%'), nodes.parse::<i64>()) {
        (true, _) => json!(nodes),
        (false, Ok(nodes)) => json!(nodes),
        (false, Err(_)) => {
            draft.say(format!(
                "budget of {nodes}: not a number of nodes or a percentage such as 10%. It holds back every removal here."
            ));
            json!(0)
        }
    };
    let asked = texts(&budget["reasons"]);
    let reasons: Vec<&str> =
        asked.iter().map(String::as_str).filter(|reason| REASONS.contains(reason)).collect();
    if !asked.is_empty() && reasons.is_empty() {
        draft.say(format!("budget of {nodes} for {}: no counterpart.", asked.join(", ")));
        return draft.only_preview("a budget could not be kept, see above");
    }
    let dropped: Vec<&str> =
        asked.iter().map(String::as_str).filter(|reason| !reasons.contains(reason)).collect();
    if !dropped.is_empty() {
        draft.say(format!("budget of {nodes}: its reason {} has no counterpart.", dropped.join(", ")));
        draft.only_preview("a budget could not be kept whole, see above");
    }
    let mut made = json!({"maxNodes": max, "name": names::unique("karpenter", 63, "karpenter", taken)});
    if !reasons.is_empty() {
        made["reasons"] = json!(reasons);
    }
    if let Some(start) = given(&budget["schedule"]) {
        let seconds = given(&budget["duration"]).and_then(|duration| go_seconds(&duration));
        let cron = match start.as_str() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@annually" | "@yearly" => "0 0 1 1 *",
            other => other,
        };
        let Some(seconds) = seconds else {
            draft.say(format!(
                "budget of {nodes} at {start}: its duration cannot be read. Nothing was made of it: write one such as 8h."
            ));
            return draft.only_preview("a budget could not be kept, see above");
        };
        made["window"] = json!({"start": cron, "duration": written(seconds)});
    } else if !budget["duration"].is_null() {
        draft.say(format!(
            "budget of {nodes}: its duration {} has no schedule, without which Karpenter does not take it. It holds at all times here.",
            budget["duration"]
        ));
    }
    draft.push("scaleDown.budgets", made, "");
}
