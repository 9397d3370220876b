//! From Karpenter: NodePools of Karpenter as NodePools over Auto Scaling groups, which a person has to make.
//!
//! Karpenter buys machines of any type that fits; a pool here grows groups that exist. What a group must launch is written
//! in comments, from the requirements and the EC2NodeClass.

use std::collections::BTreeSet;

use headroom_core::quantity::Quantity;
use serde_json::{Value, json};

use super::Made;
use super::durations::{go_seconds, written};
use super::input::{Kind, Source};
use super::names;
use super::output::Draft;
use super::requirements::{self, Markets};

/// Kinds that are read from a live cluster.
pub(super) const KINDS: &[Kind] = &[
    Kind { group: "karpenter.sh", version: "v1", kind: "NodePool", plural: "nodepools" },
    Kind { group: "karpenter.k8s.aws", version: "v1", kind: "EC2NodeClass", plural: "ec2nodeclasses" },
];

/// Most nodes of a pool of which nothing else is known: the field is required.
const MAX_NODES_UNKNOWN: i64 = 1_000;
/// The least age from which nodes may be replaced.
const LEAST_AGE_SECONDS: u64 = 3_600;
/// Labels that Karpenter alone sets.
const OWN_LABELS: &str = "karpenter.";

/// One NodePool for each of Karpenter's and each market, and a ClusterScalingPolicy where ranks matter.
///
/// # Errors
/// When there is no NodePool of Karpenter.
pub(super) fn convert(sources: &[Source]) -> anyhow::Result<Made> {
    let is_pool = |source: &Source| source.kind() == "NodePool" && source.group() == "karpenter.sh";
    let is_class = |source: &Source| source.kind() == "EC2NodeClass";
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
        let wanted = pool.object.pointer("/spec/template/spec/nodeClassRef/name").and_then(Value::as_str);
        let class = sources
            .iter()
            .find(|source| is_class(source) && source.object["metadata"]["name"].as_str() == wanted);
        for (index, market) in markets.names.iter().enumerate() {
            let several = (1 < markets.names.len()).then_some(index);
            let part = Part { pool, class, class_name: wanted, market, markets, several, of_one };
            made.drafts.push(convert_one(&part, &mut taken));
        }
    }
    let mut policy = Draft::new("ClusterScalingPolicy", None, "default");
    policy.push("nodes.expanders", "Priority", "Karpenter's weights, and spot before on-demand");
    policy.push("nodes.expanders", "LeastWaste", "");
    policy.say(
        "The annotation karpenter.sh/do-not-disrupt keeps its meaning. Karpenter removes nodes whose pods fit elsewhere, and replaces \
         nodes by fewer or cheaper ones: scaleDown.policy: WhenCheaper does that, within the groups that there are.",
    );
    made.drafts.insert(0, policy);
    super::say_passed_over(&mut made, sources, |source| is_pool(source) || is_class(source));
    Ok(made)
}

/// What one of ours is made of: a NodePool of Karpenter, in one market.
struct Part<'a> {
    pool: &'a Source,
    class: Option<&'a Source>,
    class_name: Option<&'a str>,
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
    let Part { pool, class, class_name, market, markets, several, of_one } = *part;
    let spec = &pool.object["spec"];
    let own_name = pool.object["metadata"]["name"].as_str().unwrap_or("pool");
    let wish = if several.is_some() { format!("{own_name}-{market}") } else { own_name.to_owned() };
    let name = names::pool(&wish, taken);
    let mut draft = Draft::new("NodePool", None, &name);
    draft.say(format!("From {} of Karpenter.", pool.title()));
    groups(&mut draft, pool, &name, market);
    requirements::say_markets(&mut draft, markets);
    let mut labels = serde_json::Map::new();
    for requirement in requirements::all(pool) {
        requirements::convert(&mut draft, &requirement, &mut labels);
    }
    super::say_unknown(
        &mut draft,
        "spec.",
        spec,
        &["template", "disruption", "limits", "weight", "replicas"],
    );
    template(&mut draft, &spec["template"], labels);
    limits(&mut draft, spec);
    disruption(&mut draft, &spec["disruption"], of_one);
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
    match class {
        Some(class) => node_class(&mut draft, class),
        None => draft.say(format!(
            "EC2NodeClass {}: not given. Its image, subnets, security groups and user data belong into the group's launch template.",
            class_name.unwrap_or("without a name")
        )),
    }
    draft
}

/// The groups that a person has to make: one a zone.
fn groups(draft: &mut Draft, pool: &Source, name: &str, market: &str) {
    draft.set("provider.type", "AWS", "");
    let zones = requirements::zones(draft, pool);
    let market_words = if market == "spot" { "spot instances only" } else { "on-demand instances only" };
    if zones.is_empty() {
        draft.push(
            "provider.aws.nodeGroups",
            json!({ "name": name }),
            "make this Auto Scaling group; better one a zone",
        );
    }
    for zone in &zones {
        let note = format!("make this Auto Scaling group in {zone}");
        draft.push("provider.aws.nodeGroups", json!({"name": format!("{name}-{zone}")}), &note);
    }
    draft.say(format!(
        "Karpenter launches machines itself; here they come from Auto Scaling groups, which you make: MinSize 0, {market_words}, \
         with a launch template whose user data joins the cluster."
    ));
}

/// Labels, taints and times of new nodes; `required` are labels that requirements ask for.
fn template(draft: &mut Draft, template: &Value, required: serde_json::Map<String, Value>) {
    let mut labels = required;
    labels.extend(template["metadata"]["labels"].as_object().cloned().unwrap_or_default());
    super::say_unknown(draft, "template.", template, &["metadata", "spec"]);
    super::say_unknown(draft, "template.metadata.", &template["metadata"], &["labels", "annotations"]);
    let known =
        ["requirements", "taints", "startupTaints", "expireAfter", "terminationGracePeriod", "nodeClassRef"];
    super::say_unknown(draft, "template.spec.", &template["spec"], &known);
    let known = ["group", "kind", "name"];
    super::say_unknown(draft, "nodeClassRef.", &template["spec"]["nodeClassRef"], &known);
    let (own, kept): (Vec<_>, Vec<_>) = labels.into_iter().partition(|(key, _)| key.contains(OWN_LABELS));
    if !kept.is_empty() {
        draft.set("template.labels", Value::Object(kept.into_iter().collect()), "");
        draft.say("template.labels and taints describe new nodes; the group's user data has to put them on the node.");
    }
    for (key, value) in own {
        draft.say(format!("label {key}={}: no counterpart: Karpenter's own.", text(&value)));
    }
    let annotations = &template["metadata"]["annotations"];
    if annotations.is_object() {
        draft.say(format!(
            "template.metadata.annotations {annotations}: no counterpart: put them on nodes by the group's user data."
        ));
    }
    let spec = &template["spec"];
    draft.set(
        "rotation.drift",
        "Replace",
        "Karpenter replaces drifted nodes; here those of another launch template or version",
    );
    for (field, ours) in [("taints", "template.taints"), ("startupTaints", "template.startupTaints")] {
        for taint in spec[field].as_array().into_iter().flatten() {
            draft.push(ours, taint.clone(), "");
        }
    }
    if let Some(time) = spec["expireAfter"].as_str() {
        expiry(draft, time);
    }
    if let Some(time) = spec["terminationGracePeriod"].as_str() {
        match go_seconds(time) {
            Some(seconds) => draft.set(
                "scaleDown.drain.maxGracePeriod",
                written(seconds),
                &format!("terminationGracePeriod {time}; PodDisruptionBudgets are respected for ever, there they are not"),
            ),
            None => draft.say(format!("terminationGracePeriod {time}: cannot be read. Nothing was made of it.")),
        }
    }
}

/// The age of nodes. Karpenter's drift is always on.
fn expiry(draft: &mut Draft, time: &str) {
    match go_seconds(time) {
        _ if time == "Never" => {}
        Some(seconds) if LEAST_AGE_SECONDS <= seconds => {
            let why = format!("expireAfter {time}; others are bought first, and PodDisruptionBudgets hold");
            draft.set("rotation.maxAge", written(seconds), &why);
        }
        Some(_) => {
            draft.say(format!("expireAfter {time}: less than 1h, the least maxAge. Nothing was made of it."))
        }
        None => draft.say(format!("expireAfter {time}: cannot be read. Nothing was made of it.")),
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
                    "limits.{other} {amount}: no counterpart: limits are of cpu, memory and nodes."
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

/// What was one number for all markets and is now one for each of them.
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

/// When nodes leave; `of_one` if all pools are of one market.
fn disruption(draft: &mut Draft, disruption: &Value, of_one: bool) {
    super::say_unknown(
        draft,
        "disruption.",
        disruption,
        &["consolidationPolicy", "consolidateAfter", "budgets"],
    );
    match disruption["consolidationPolicy"].as_str() {
        Some("WhenEmpty") => draft.set("scaleDown.utilizationThreshold", 0, "consolidationPolicy WhenEmpty"),
        policy => consolidation(draft, policy.unwrap_or("WhenEmptyOrUnderutilized"), of_one),
    }
    match disruption["consolidateAfter"].as_str() {
        Some("Never") => draft.set("scaleDown.enabled", false, "consolidateAfter Never"),
        Some(time) => match go_seconds(time) {
            Some(seconds) => {
                draft.set("scaleDown.unneededFor", written(seconds), &format!("consolidateAfter {time}"))
            }
            None => {
                draft.say(format!("consolidateAfter {time}: cannot be read. Nothing was made of it."));
                draft.only_preview("consolidateAfter could not be kept, see above");
            }
        },
        None => {}
    }
    let mut taken = BTreeSet::new();
    for budget in disruption["budgets"].as_array().into_iter().flatten() {
        one_budget(draft, budget, &mut taken);
    }
}

/// The policy under which Karpenter removes and replaces nodes that are in use.
///
/// Without prices nodes are compared by their CPU and memory, which is right within one market only: a spot node could give
/// way to a smaller one on demand that costs more.
fn consolidation(draft: &mut Draft, policy: &str, of_one: bool) {
    if !["WhenEmptyOrUnderutilized", "WhenUnderutilized", "Balanced"].contains(&policy) {
        return draft.say(format!("consolidationPolicy {policy}: unknown. Nothing was made of it."));
    }
    if of_one {
        draft.set("scaleDown.policy", "WhenCheaper", &format!("consolidationPolicy {policy}"));
        draft.say(format!(
            "consolidationPolicy {policy}: nodes are compared by their CPU and memory, by price.perHour once all pools have one. \
             A node is replaced for scaleDown.minSaving (15 %) or more, by nodes of the groups that there are."
        ));
    } else {
        draft.say(format!(
            "consolidationPolicy {policy}: set price.perHour in all pools, then scaleDown.policy: WhenCheaper. Without prices \
             spot and on-demand nodes of a size count as equal; so the policy here is WhenUnderutilized: a node leaves once its \
             requests are under scaleDown.utilizationThreshold (50 %) and its pods fit elsewhere, and is not replaced."
        ));
    }
}

/// A budget; without one of its reasons, or without the whole, more nodes could leave than before.
fn one_budget(draft: &mut Draft, budget: &Value, taken: &mut BTreeSet<String>) {
    super::say_unknown(draft, "budget: ", budget, &["nodes", "reasons", "schedule", "duration"]);
    let nodes = text(&budget["nodes"]);
    let max = if nodes.ends_with('%') { json!(nodes) } else { json!(nodes.parse::<i64>().unwrap_or(0)) };
    let asked = texts(&budget["reasons"]);
    let reasons: Vec<&str> = asked
        .iter()
        .map(String::as_str)
        .filter(|reason| ["Empty", "Underutilized", "Drifted"].contains(reason))
        .collect();
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
    if let Some(start) = budget["schedule"].as_str() {
        let seconds = budget["duration"].as_str().and_then(go_seconds);
        let cron = match start {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@annually" | "@yearly" => "0 0 1 1 *",
            other => other,
        };
        let Some(seconds) = seconds else {
            draft.say(format!(
                "budget of {nodes} at {start}: its duration cannot be read. Nothing was made of it."
            ));
            return draft.only_preview("a budget could not be kept, see above");
        };
        made["window"] = json!({"start": cron, "duration": written(seconds)});
    }
    draft.push("scaleDown.budgets", made, "");
}

fn node_class(draft: &mut Draft, class: &Source) {
    let spec = class.object["spec"].as_object().cloned().unwrap_or_default();
    for (field, value) in spec {
        let words = match field.as_str() {
            "amiSelectorTerms" | "amiFamily" => "the image of the group's launch template",
            "subnetSelectorTerms" => "the subnets of the group, one zone each",
            "securityGroupSelectorTerms" | "associatePublicIPAddress" => {
                "the network interface of the launch template"
            }
            "role" | "instanceProfile" => "the instance profile of the launch template",
            "userData" => "the user data of the launch template",
            "blockDeviceMappings" | "instanceStorePolicy" => "the disks of the launch template",
            "metadataOptions" | "detailedMonitoring" | "placementGroupSelector" => {
                "the same field of the launch template"
            }
            "tags" => "tags of the group, propagated at launch",
            "kubelet" => {
                "the kubelet's settings in the user data; maxPods and reserved amounts also in template.capacity and template.reserved"
            }
            "capacityReservationSelectorTerms" => "the capacity reservation of the launch template",
            _ => "a setting of the launch template, if it has one",
        };
        let shown: String = value.to_string().chars().take(80).collect();
        draft.say(format!("{} {field} {shown}: no counterpart: {words}.", class.title()));
    }
}

/// A value as it is written in a sentence.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
