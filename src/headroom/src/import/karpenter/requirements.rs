//! The requirements of a NodePool of Karpenter: zones, markets, labels, and what the groups must launch.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{text, texts};
use crate::import::input::Source;
use crate::import::output::Draft;

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
/// Ids of zones, which AWS gives other names in each account.
const ZONE_ID: &str = "topology.k8s.aws/zone-id";
pub(super) const MARKET: &str = "karpenter.sh/capacity-type";

/// The requirements of a pool.
pub(super) fn all(pool: &Source) -> Vec<Value> {
    let list = pool.object.pointer("/spec/template/spec/requirements").and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

/// The only value that the requirements leave for a key, if there is one.
pub(super) fn only_value(pool: &Source, key: &str) -> Option<String> {
    let Allowed { values, without, .. } = Allowed::of(pool, key);
    let mut left = values?.into_iter().filter(|value| !without.contains(value));
    left.next().filter(|_| left.next().is_none())
}

/// `key operator values`, for comments.
pub(super) fn written(requirement: &Value) -> String {
    let parts =
        [text(&requirement["key"]), text(&requirement["operator"]), texts(&requirement["values"]).join(", ")];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// Values that the requirements of one key allow.
#[derive(Debug, Default)]
pub(super) struct Allowed {
    /// The values of `In`, of all of them together; `None` where there is no `In`.
    pub values: Option<BTreeSet<String>>,
    /// The values of `NotIn`.
    pub without: BTreeSet<String>,
    /// True where `Exists` asks for a value, whichever.
    pub exists: bool,
    /// Those that allow no value at all, or whose operator has no meaning for the key.
    pub odd: Vec<String>,
}

impl Allowed {
    pub(super) fn of(pool: &Source, key: &str) -> Self {
        let mut allowed = Self::default();
        for requirement in all(pool).iter().filter(|one| one["key"] == key) {
            let values: BTreeSet<String> = texts(&requirement["values"]).into_iter().collect();
            match text(&requirement["operator"]).as_str() {
                "In" => {
                    allowed.values = Some(match allowed.values.take() {
                        Some(before) => before.intersection(&values).cloned().collect(),
                        None => values,
                    });
                }
                "NotIn" => allowed.without.extend(values),
                "Exists" => allowed.exists = true,
                _ => allowed.odd.push(written(requirement)),
            }
        }
        allowed
    }
}

/// The zones of a pool, none where it names none; with a comment on what is not a list of zones.
pub(super) fn zones(draft: &mut Draft, pool: &Source) -> Vec<String> {
    let Allowed { values, without, exists, odd } = Allowed::of(pool, ZONE);
    let without_text = without.iter().cloned().collect::<Vec<_>>().join(", ");
    if !without.is_empty() && values.is_none() {
        draft.say(format!(
            "requirement {ZONE} NotIn {without_text}: make the groups in the other zones only: a group whose subnets are in \
             {without_text} launches there."
        ));
    } else if !without.is_empty() {
        draft.say(format!("requirement {ZONE} NotIn {without_text}: no group for it."));
    }
    if exists && values.is_none() {
        draft.say(format!("requirement {ZONE} Exists: every node has a zone: nothing is excluded."));
    }
    for requirement in odd {
        draft.say(format!(
            "requirement {requirement}: no counterpart: a zone is not a number, and every node has one."
        ));
        draft.only_preview("a requirement of its zones could not be kept, see above");
    }
    let zones: Vec<String> =
        values.iter().flatten().filter(|zone| !without.contains(*zone)).cloned().collect();
    if zones.is_empty() && values.is_some() {
        draft.say("its requirements allow no zone at all: Karpenter launches nothing for it.");
        draft.only_preview("its requirements allow no zone");
    }
    zones
}

/// The markets of a pool.
#[derive(Debug, Default)]
pub(super) struct Markets {
    /// `spot` and `on-demand`, in the order in which they are tried; at least one.
    pub names: Vec<&'static str>,
    /// Requirements that are not kept, each with the consequence.
    remarks: Vec<String>,
    /// True if Karpenter launches nothing.
    none: bool,
}

/// The markets that a pool allows; on demand where it does not say, as Karpenter takes it.
pub(super) fn markets(pool: &Source) -> Markets {
    let Allowed { values, without, exists, odd } = Allowed::of(pool, MARKET);
    let mut markets = Markets::default();
    let any = exists || !without.is_empty();
    let asked = |market: &str| match &values {
        Some(values) => values.contains(market),
        None => any,
    };
    markets.names =
        ["spot", "on-demand"].into_iter().filter(|name| asked(name) && !without.contains(*name)).collect();
    let reserved = values.as_ref().is_some_and(|values| values.contains("reserved"));
    if reserved {
        markets.remarks.push(format!(
            "requirement {MARKET} reserved: no counterpart: name the capacity reservation in the launch template of an \
             on-demand group."
        ));
    }
    if !without.is_empty() {
        let without = without.iter().cloned().collect::<Vec<_>>().join(", ");
        markets.remarks.push(format!("requirement {MARKET} NotIn {without}: no groups of that market."));
    }
    if exists && values.is_none() {
        markets.remarks.push(format!("requirement {MARKET} Exists: a pool for each market, spot first."));
    }
    for requirement in odd {
        markets.remarks.push(format!(
            "requirement {requirement}: no counterpart: every node has a market, which is not a number."
        ));
        markets.none = true;
    }
    let restricted = values.is_some() || any;
    if markets.names.is_empty() {
        markets.none |= restricted && !reserved;
        markets.names.push("on-demand");
    }
    markets
}

/// Comments on what is not kept of the markets.
pub(super) fn say_markets(draft: &mut Draft, markets: &Markets) {
    for remark in &markets.remarks {
        draft.say(remark.clone());
    }
    if markets.none {
        draft.say("its requirements allow no market at all: Karpenter launches nothing for it.");
        draft.only_preview("its requirements allow no market");
    }
}

/// Comments on a requirement, and a label in `labels` where Karpenter labels its nodes by it.
pub(super) fn convert(draft: &mut Draft, requirement: &Value, labels: &mut Map<String, Value>) {
    let (key, operator) = (text(&requirement["key"]), text(&requirement["operator"]));
    if let Some(least) = requirement["minValues"].as_i64() {
        draft.say(format!(
            "requirement {key} minValues {least}: no counterpart: let the types of the group have at least so many values of it."
        ));
    }
    let values = texts(&requirement["values"]);
    let words = match key.as_str() {
        ZONE | MARKET => return,
        ZONE_ID => {
            "the zones of the group's subnets: `aws ec2 describe-availability-zones` shows which zone has which id"
        }
        "node.kubernetes.io/instance-type" => {
            "the types of the group: list them as overrides of its mixed instances policy"
        }
        "kubernetes.io/arch" | "kubernetes.io/os" => "the image and the types of the group",
        _ if key.starts_with("karpenter.kwok.sh/") => {
            "a pool has one machine, template.capacity: make a pool for each that you want"
        }
        _ if key.starts_with("karpenter.k8s.aws/") => {
            "choose types for the group that meet it, or describe them in its InstanceRequirements"
        }
        _ => return label(draft, requirement, (&key, &operator, &values), labels),
    };
    draft.say(format!("requirement {}: no counterpart: {words}.", written(requirement)));
}

/// A requirement of a label that nodes have by no other way: Karpenter puts it on them.
fn label(
    draft: &mut Draft,
    requirement: &Value,
    (key, operator, values): (&str, &str, &[String]),
    labels: &mut Map<String, Value>,
) {
    let asked = written(requirement);
    let words = match (operator, values) {
        ("In", [value]) => {
            labels.insert(key.to_owned(), value.as_str().into());
            return draft.say(format!(
                "requirement {asked}: a label in template.labels, as Karpenter puts it on nodes."
            ));
        }
        ("NotIn" | "DoesNotExist", _) => {
            return draft.say(format!(
                "requirement {asked}: met as long as the group's nodes do not get that label."
            ));
        }
        ("In", _) => {
            "Karpenter labels a node with the value that its pods ask for; here a pool has one value: make a pool for each, \
             with the value in template.labels, or pods that select one wait"
        }
        ("Exists", _) => {
            "Karpenter labels a node with the value that its pods ask for; here a pool has one value: make a pool for each \
             that pods select, with the value in template.labels, or they wait"
        }
        _ => "set a value that meets it in template.labels, or pods that select the label wait",
    };
    draft.say(format!("requirement {asked}: no counterpart: {words}."));
}
