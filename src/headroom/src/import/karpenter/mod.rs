//! From Karpenter: NodePools of Karpenter as NodePools over Auto Scaling groups, or over KWOK.
//!
//! With its EC2NodeClass a NodePool becomes one whose groups the operator makes, by the same requirements; each of them that is
//! not kept is named. Without it a person has to make the groups, and what they must launch is written in comments. NodeOverlays are comments above the
//! ClusterScalingPolicy.

mod classes;
mod disruption;
mod managed;
pub(super) mod requirements;

use std::collections::BTreeSet;

use headroom_core::quantity::Quantity;
use serde_json::Value;

use super::Made;
use super::durations::{go_seconds, written};
use super::input::{Kind, Source};
use super::names;
use super::output::Draft;
use super::tables::karpenter::{NODE_OVERLAY, NODE_POOL};
use classes::Class;
use requirements::Markets;

/// Kinds that are read from a live cluster.
pub(super) const KINDS: &[Kind] = &[
    Kind { group: "karpenter.sh", version: "v1", kind: "NodePool", plural: "nodepools" },
    Kind { group: "karpenter.sh", version: "v1alpha1", kind: "NodeOverlay", plural: "nodeoverlays" },
    Kind { group: "karpenter.k8s.aws", version: "v1", kind: "EC2NodeClass", plural: "ec2nodeclasses" },
    Kind {
        group: "karpenter.kwok.sh",
        version: "v1alpha1",
        kind: "KWOKNodeClass",
        plural: "kwoknodeclasses",
    },
];

/// Most nodes of a pool of which nothing else is known: the field is required.
const MAX_NODES_UNKNOWN: i64 = 1_000;
/// The least age from which nodes may be replaced.
const LEAST_AGE_SECONDS: u64 = 3_600;
/// Karpenter's age of nodes where none is given.
const EXPIRY: &str = "720h";
/// Labels that Karpenter alone sets.
const OWN_LABELS: &str = "karpenter.";

/// One NodePool for each of Karpenter's and each market, and a ClusterScalingPolicy where ranks matter.
///
/// # Errors
/// If there is no NodePool of Karpenter.
pub(super) fn convert(sources: &[Source]) -> anyhow::Result<Made> {
    let is_pool = |source: &Source| source.kind() == "NodePool" && source.group() == "karpenter.sh";
    let is_overlay = |source: &Source| source.kind() == "NodeOverlay" && source.group() == "karpenter.sh";
    let pools: Vec<&Source> = sources.iter().filter(|source| is_pool(source)).collect();
    anyhow::ensure!(
        !pools.is_empty(),
        "there is no NodePool of karpenter.sh: name the file that holds one, or use --live"
    );
    let mut taken = BTreeSet::new();
    let mut made = Made::default();
    let all: Vec<Markets> = pools.iter().map(|pool| requirements::markets(pool)).collect();
    let of_one = all.iter().flat_map(|markets| &markets.names).collect::<BTreeSet<_>>().len() == 1;
    for (pool, markets) in pools.iter().zip(&all) {
        let class = Class::of(pool, sources);
        for (index, market) in markets.names.iter().enumerate() {
            let several = (1 < markets.names.len() && !class.is_managed()).then_some(index);
            let part = Part { pool, class: &class, market, markets, several, of_one };
            made.drafts.push(convert_one(&part, &mut taken));
            // One pool buys in both markets.
            if class.is_managed() {
                break;
            }
        }
    }
    let mut policy = Draft::new("ClusterScalingPolicy", None, "default");
    policy.push("nodes.expanders", "Priority", "Karpenter's weights, and spot before on-demand");
    policy.push("nodes.expanders", "LeastWaste", "");
    policy.say(
        "The annotation karpenter.sh/do-not-disrupt keeps its meaning. Karpenter removes nodes whose pods fit elsewhere, and replaces \
         nodes by fewer or cheaper ones: scaleDown.policy: WhenCheaper does that, within the groups that there are.",
    );
    for overlay in sources.iter().filter(|source| is_overlay(source)) {
        NODE_OVERLAY.say(&mut policy, &format!("{} ", overlay.title()), &overlay.object["spec"]);
    }
    made.drafts.insert(0, policy);
    let is_used = |source: &Source| is_pool(source) || is_overlay(source) || classes::is_class(source);
    super::say_passed_over(&mut made, sources, is_used);
    Ok(made)
}

/// Source of one of our NodePools: a NodePool of Karpenter, in one market.
struct Part<'a> {
    pool: &'a Source,
    class: &'a Class<'a>,
    market: &'a str,
    markets: &'a Markets,
    /// The place of the market, where the pool has several.
    several: Option<usize>,
    /// True if all pools that are imported are of one market.
    of_one: bool,
}

/// The texts of a list.
pub(super) fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

fn convert_one(part: &Part<'_>, taken: &mut BTreeSet<String>) -> Draft {
    let Part { pool, class, market, markets, several, of_one } = *part;
    let spec = &pool.object["spec"];
    let own_name = pool.object["metadata"]["name"].as_str().unwrap_or("pool");
    let wish = if several.is_some() { format!("{own_name}-{market}") } else { own_name.to_owned() };
    let name = names::pool(&wish, taken);
    let mut draft = Draft::new("NodePool", None, &name);
    draft.say(format!("From {} of Karpenter.", pool.title()));
    class.machines(&mut draft, pool, markets, market);
    requirements::say_markets(&mut draft, markets);
    let mut labels = serde_json::Map::new();
    for requirement in requirements::all(pool) {
        if class.is_managed() && managed::is_ours(&text(&requirement["key"])) {
            continue;
        }
        requirements::convert(&mut draft, &requirement, &mut labels);
    }
    NODE_POOL.say(&mut draft, "", spec);
    super::say_not_whole(&mut draft, "", spec, &["weight", "replicas"]);
    template(&mut draft, &spec["template"], labels, class);
    limits(&mut draft, spec);
    disruption::convert(&mut draft, &spec["disruption"], (of_one, class.is_managed()));
    if several.is_some() {
        shared_out(&mut draft, own_name, spec);
    }
    match (spec["weight"].as_i64(), several) {
        (weight, Some(index)) => {
            // Spot comes first at each weight.
            let rank = weight.unwrap_or(0).saturating_mul(2).saturating_add(i64::from(index == 0));
            draft.set("priority", rank, &format!("weight {}, and {market}", weight.unwrap_or(0)));
        }
        (Some(weight), None) => draft.set("priority", weight.saturating_mul(2), &format!("weight {weight}")),
        (None, None) => {}
    }
    class.say(&mut draft);
    draft
}

/// Labels, taints and times of new nodes; `required` are labels that requirements ask for.
fn template(
    draft: &mut Draft,
    template: &Value,
    required: serde_json::Map<String, Value>,
    class: &Class<'_>,
) {
    let mut labels = required;
    labels.extend(template["metadata"]["labels"].as_object().cloned().unwrap_or_default());
    let (own, kept): (Vec<_>, Vec<_>) = labels.into_iter().partition(|(key, _)| key.contains(OWN_LABELS));
    if !kept.is_empty() {
        draft.set("template.labels", Value::Object(kept.into_iter().collect()), "");
        if !class.is_kwok() {
            draft.say("template.labels and taints describe new nodes; the group's user data has to put them on the node.");
        }
    }
    for (key, value) in own {
        draft.say(format!("label {key}={}: no counterpart: Karpenter's own.", text(&value)));
    }
    let spec = &template["spec"];
    draft.set(
        "rotation.drift",
        "Replace",
        "Karpenter replaces drifted nodes; here those of another launch template or version",
    );
    for (field, ours) in [("taints", "template.taints"), ("startupTaints", "template.startupTaints")] {
        for taint in spec[field].as_array().into_iter().flatten() {
            draft.push(ours, without_time(taint), "");
        }
    }
    match given(&spec["expireAfter"]) {
        Some(time) => expiry(draft, &time, ""),
        None => expiry(draft, EXPIRY, ", Karpenter's default"),
    }
    if let Some(time) = given(&spec["terminationGracePeriod"]) {
        match go_seconds(&time) {
            Some(seconds) => draft.set(
                "scaleDown.drain.maxGracePeriod",
                written(seconds),
                &format!("terminationGracePeriod {time}; PodDisruptionBudgets are respected for ever, there they are not"),
            ),
            None => draft.say(format!(
                "terminationGracePeriod {time}: cannot be read. Nothing was made of it: write a duration such as 1h."
            )),
        }
    }
}

/// A taint of new nodes: of its fields, those that both have.
fn without_time(taint: &Value) -> Value {
    let fields = ["effect", "key", "value"].into_iter().filter(|field| !taint[*field].is_null());
    Value::Object(fields.map(|field| (field.to_owned(), taint[field].clone())).collect())
}

/// The age of nodes. Karpenter's drift is always on.
fn expiry(draft: &mut Draft, time: &str, whose: &str) {
    match go_seconds(time) {
        _ if time == "Never" => {}
        Some(seconds) if LEAST_AGE_SECONDS <= seconds => {
            let why = format!("expireAfter {time}{whose}; others are bought first, and PodDisruptionBudgets hold");
            draft.set("rotation.maxAge", written(seconds), &why);
        }
        Some(_) => {
            draft.say(format!("expireAfter {time}: less than 1h, the least maxAge. Nothing was made of it."))
        }
        None => draft.say(format!(
            "expireAfter {time}: cannot be read. Nothing was made of it: write a duration such as 720h, or Never."
        )),
    }
}

fn limits(draft: &mut Draft, spec: &Value) {
    let mut max = (MAX_NODES_UNKNOWN, "required here; Karpenter has none".to_owned());
    for (resource, amount) in spec["limits"].as_object().into_iter().flatten() {
        let amount = text(amount);
        match resource.as_str() {
            "cpu" | "memory" => draft.set(&format!("limits.{resource}"), amount, ""),
            "nodes" => match Quantity::parse(&amount).ok().map(|nodes| nodes.milli() / 1000) {
                Some(nodes) => {
                    max = (nodes, "limits.nodes".to_owned());
                }
                None => {
                    draft.say(format!("limits.nodes {amount}: cannot be read. Nothing was made of it."));
                    draft.only_preview("limits.nodes could not be kept, see above");
                }
            },
            other => {
                draft.say(format!(
                    "limits.{other} {amount}: no counterpart: limits of a pool are of cpu, memory and nodes; make a \
                     CapacityQuota over a label of its nodes (docs/capacity-quotas.md)."
                ));
                draft.only_preview(&format!("limits.{other} could not be kept, see above"));
            }
        }
    }
    if let Some(replicas) = spec["replicas"].as_i64() {
        draft.set("minNodes", replicas, "replicas of a static pool");
        let limited = spec["limits"]["nodes"].is_null();
        max = match limited {
            true => (replicas, "replicas of a static pool".to_owned()),
            false => {
                (max.0, "limits.nodes of a static pool: the most nodes while some are replaced".to_owned())
            }
        };
    }
    draft.set("maxNodes", max.0, &max.1);
}

/// Comments on fields that were one number for all markets and are now one for each of them.
fn shared_out(draft: &mut Draft, own_name: &str, spec: &Value) {
    let limited = spec["limits"].as_object().is_some_and(|limits| !limits.is_empty());
    // No node of all is no node of each, and one for drift alone is not taken over.
    let counted = |budget: &Value| {
        let (nodes, reasons) = (text(&budget["nodes"]), texts(&budget["reasons"]));
        let kept = reasons.is_empty() || reasons.iter().any(|reason| reason != "Drifted");
        kept && !nodes.ends_with('%') && nodes != "0"
    };
    let budgets = spec["disruption"]["budgets"].as_array();
    let fields = [
        ("limits", limited),
        ("replicas", spec["replicas"].is_i64()),
        ("budgets that count nodes", budgets.is_some_and(|budgets| budgets.iter().any(counted))),
    ];
    let fields: Vec<&str> = fields.into_iter().filter(|(_, there)| *there).map(|(word, _)| word).collect();
    if !fields.is_empty() {
        draft.say(format!(
            "{} of {own_name} held for spot and on-demand together, and hold for each of the two pools here: share them out.",
            fields.join(" and ")
        ));
    }
}

/// A value that is there, as it is written in a sentence.
fn given(value: &Value) -> Option<String> {
    (!value.is_null()).then(|| text(value))
}

/// A value as it is written in a sentence.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
