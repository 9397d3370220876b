//! An EC2NodeClass with subnets, and requirements on machines, as Auto Scaling groups that the operator makes.

use serde_json::{Value, json};

use super::requirements::{self, Allowed, MARKET, Markets, ZONE, written};
use super::{text, texts};
use crate::import::input::Source;
use crate::import::output::Draft;

const ARCHITECTURE: &str = "kubernetes.io/arch";
const GPUS: &str = "karpenter.k8s.aws/instance-gpu-count";
/// Properties of machines that `managed.requirements` have, besides architecture and market.
const KEPT: [&str; 9] = [
    "karpenter.k8s.aws/instance-cpu",
    "karpenter.k8s.aws/instance-memory",
    GPUS,
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-size",
    "node.kubernetes.io/instance-type",
    ZONE,
];
/// Number of those, from the beginning, whose values are numbers.
const NUMBERS: usize = 4;
/// Most values of one requirement, and longest one.
const VALUES_MAX: usize = 60;
const VALUE_LENGTH_MAX: usize = 63;
/// Most requirements of a pool.
const REQUIREMENTS_MAX: usize = 30;
/// Largest number in a comparison.
const NUMBER_MAX: u64 = 999_999_999;
/// Tag that names the cluster by Karpenter's convention, and one that does by AWS's.
const DISCOVERY_TAG: &str = "karpenter.sh/discovery";
const CLUSTER_TAG: &str = "kubernetes.io/cluster/";
/// Longest part of a class's name in that of its launch template.
const NAME_MAX: usize = 100;

/// True if requirements of this key are kept, or each is named with the reason, by [`convert`].
pub(super) fn is_ours(key: &str) -> bool {
    KEPT.contains(&key) || key == ARCHITECTURE || key == MARKET || key.starts_with("karpenter.k8s.aws/")
}

/// The subnets of a class; `None` where it selects none in a way that is known.
pub(super) fn subnets(class: &Source) -> Option<Vec<Value>> {
    let terms = class.object["spec"]["subnetSelectorTerms"].as_array()?;
    let subnet = |term: &Value| {
        if let Some(id) = term["id"].as_str() {
            return Some(json!({ "id": id }));
        }
        let tags = term["tags"].as_object().filter(|tags| !tags.is_empty())?;
        let any = |value: &Value| if value == "*" { json!("") } else { value.clone() };
        let tags: serde_json::Map<String, Value> =
            tags.iter().map(|(key, value)| (key.clone(), any(value))).collect();
        Some(json!({ "tags": tags }))
    };
    let subnets: Option<Vec<Value>> = terms.iter().map(subnet).collect();
    subnets.filter(|subnets| !subnets.is_empty())
}

/// The cluster's name by the tags that select subnets.
fn cluster_name(class: &Source) -> Option<String> {
    let terms = class.object["spec"]["subnetSelectorTerms"].as_array()?;
    let tags = || terms.iter().filter_map(|term| term["tags"].as_object()).flatten();
    let discovery = tags().find(|(key, _)| *key == DISCOVERY_TAG).map(|(_, value)| text(value));
    let by_key = || tags().find_map(|(key, _)| key.strip_prefix(CLUSTER_TAG).map(str::to_owned));
    discovery.or_else(by_key).filter(|name| !name.is_empty() && name != "*")
}

/// The provider of the pool: groups that the operator makes in these subnets.
pub(super) fn convert(
    draft: &mut Draft,
    class: &Source,
    subnets: Vec<Value>,
    pool: &Source,
    markets: &Markets,
) {
    draft.set("provider.type", "AWS", "");
    match cluster_name(class) {
        Some(name) => draft.set("provider.aws.clusterName", name, "by a tag of the subnets"),
        None => {
            draft.set("provider.aws.clusterName", "cluster", "");
            draft.only_preview("put your cluster's name into provider.aws.clusterName");
        }
    }
    let name: String = text(&class.object["metadata"]["name"]).chars().take(NAME_MAX).collect();
    let template = format!("{name}-nodes");
    draft.set("provider.aws.managed.launchTemplate.name", template.as_str(), "make this launch template");
    for subnet in subnets {
        draft.push("provider.aws.managed.subnets", subnet, "");
    }
    both_id_and_tags(draft, class);
    if markets.names != ["on-demand"] && !markets.names.is_empty() {
        push(draft, json!({"key": MARKET, "operator": "In", "values": markets.names}));
    }
    architecture(draft, pool);
    for one in requirements::all(pool) {
        requirement(draft, &one);
    }
    draft.say(format!(
        "The operator makes Auto Scaling groups for the machines that pods need, from launch template {template}, which you make of the \
         EC2NodeClass: image, security groups, instance profile, and user data that joins the cluster (docs/aws.md)."
    ));
}

fn both_id_and_tags(draft: &mut Draft, class: &Source) {
    let terms = class.object["spec"]["subnetSelectorTerms"].as_array().into_iter().flatten();
    for term in terms.filter(|term| term["id"].is_string() && !term["tags"].is_null()) {
        draft.say(format!(
            "subnetSelectorTerms {term}: an id and tags together, which Karpenter refuses: the id holds here."
        ));
    }
}

fn push(draft: &mut Draft, requirement: Value) {
    let field = "provider.aws.managed.requirements";
    if draft.get(field).as_array().map_or(0, Vec::len) < REQUIREMENTS_MAX {
        return draft.push(field, requirement, "");
    }
    refuse(draft, &requirement, &format!("a pool has at most {REQUIREMENTS_MAX}"));
}

/// Names a requirement that is not kept: other machines would be bought than before.
fn refuse(draft: &mut Draft, requirement: &Value, why: &str) {
    draft.say(format!("requirement {}: not kept: {why}.", written(requirement)));
    draft.only_preview("a requirement on machines could not be kept, see above");
}

/// A launch template has one image, so a pool is of one architecture.
fn architecture(draft: &mut Draft, pool: &Source) {
    let Allowed { values, without, odd, .. } = Allowed::of(pool, ARCHITECTURE);
    let asked =
        |name: &&str| !without.contains(*name) && values.as_ref().is_none_or(|values| values.contains(*name));
    let all: Vec<&str> = ["amd64", "arm64"].into_iter().filter(asked).collect();
    for requirement in odd {
        draft.say(format!(
            "requirement {requirement}: not kept: every machine has an architecture, which is no number."
        ));
        draft.only_preview("a requirement on machines could not be kept, see above");
    }
    match all.as_slice() {
        [] => {
            draft.say(format!("its requirements on {ARCHITECTURE} allow neither amd64 nor arm64."));
            draft.only_preview("its requirements allow no architecture");
        }
        [only] => push(draft, json!({"key": ARCHITECTURE, "operator": "In", "values": [only]})),
        _ => {
            draft.say(format!(
                "{ARCHITECTURE}: a launch template has one image, so this pool is of amd64: make another one, with a launch template of \
                 its own, for arm64, or pods that need it wait."
            ));
            if values.is_some() {
                draft.only_preview("it was of two architectures, see above");
            }
        }
    }
}

fn requirement(draft: &mut Draft, one: &Value) {
    let key = text(&one["key"]);
    if let Some(least) = one["minValues"].as_i64().filter(|_| is_ours(&key)) {
        draft.say(format!(
            "requirement {key} minValues {least}: no counterpart: of the types that meet it the cheapest is bought; one that AWS does not \
             have backs off, and the next one is. managed.minSpotTypes spreads spot machines over types."
        ));
    }
    if key == ARCHITECTURE || key == MARKET || !is_ours(&key) {
        return;
    }
    let Some(place) = KEPT.iter().position(|kept| *kept == key) else {
        return refuse(
            draft,
            one,
            "managed.requirements have no such property: name families or types instead",
        );
    };
    let (operator, values) = (text(&one["operator"]), texts(&one["values"]));
    match relations(&key, place < NUMBERS, &operator, &values) {
        Ok(relations) => {
            for (operator, values) in relations {
                push(draft, json!({"key": key, "operator": operator, "values": values}));
            }
        }
        Err(why) => refuse(draft, one, why),
    }
}

/// The relations that say the same as one of Karpenter's: none where every machine meets it.
fn relations(
    key: &str,
    is_number: bool,
    operator: &str,
    values: &[String],
) -> Result<Vec<(&'static str, Vec<String>)>, &'static str> {
    let fits = |values: &[String]| values.iter().all(|value| (1..=VALUE_LENGTH_MAX).contains(&value.len()));
    let number = || match values {
        [value] if is_number => value.parse::<u64>().ok().filter(|number| *number <= NUMBER_MAX),
        _ => None,
    };
    let compared = |operator, number: u64| Ok(vec![(operator, vec![number.to_string()])]);
    let no_number = "it compares something that is not one whole number of at most 9 digits";
    match operator {
        "In" | "NotIn" if values.is_empty() || !fits(values) => {
            Err("it has no value, or one that is too long")
        }
        "In" if VALUES_MAX < values.len() => Err("a requirement has at most 60 values"),
        "In" => Ok(vec![("In", values.to_vec())]),
        // None of all of them is none of each part.
        "NotIn" => Ok(values.chunks(VALUES_MAX).map(|part| ("NotIn", part.to_vec())).collect()),
        "Gt" => number().map_or(Err(no_number), |least| compared("Gt", least)),
        "Lt" => number().map_or(Err(no_number), |most| compared("Lt", most)),
        "Gte" => match number() {
            Some(0) => Ok(Vec::new()),
            Some(least) => compared("Gt", least - 1),
            None => Err(no_number),
        },
        "Lte" => match number().filter(|most| *most < NUMBER_MAX) {
            Some(most) => compared("Lt", most + 1),
            None => Err(no_number),
        },
        // Karpenter has this label on machines with GPUs only.
        "Exists" if key == GPUS => compared("Gt", 0),
        "DoesNotExist" if key == GPUS => compared("Lt", 1),
        "Exists" => Ok(Vec::new()),
        "DoesNotExist" => Err("every machine has a value of it"),
        _ => Err("its operator is unknown"),
    }
}
