//! The node that a group would add, from its templates, its annotations and the pool. Pure.

use std::collections::BTreeMap;

use headroom_core::labels::Labels;
use headroom_core::quantity::Quantity;
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::{Taint, TaintEffect};
use headroom_core::world::node::ZONE_LABEL;
use headroom_core::world::provider::{GroupTemplate, TemplateTrust};
use headroom_core::world::template::NodeTemplate;
use headroom_provider::PoolAtProvider;
use serde_json::Value;

use super::wire::Scalable;

/// Prefix of Cluster Autoscaler's annotations with the capacity of a group that has no node.
pub(crate) const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io/";
/// Pods of a node whose templates do not set a number.
const PODS_DEFAULT: i64 = 110;
/// Domains of the labels and taints that Cluster API copies from a Machine to its Node.
const COPIED_DOMAINS: [&str; 2] = ["node-restriction.kubernetes.io", "node.cluster.x-k8s.io"];
const COPIED_PREFIX: &str = "node-role.kubernetes.io/";

/// Templates of a group, as read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Templates {
    /// The infrastructure template.
    pub infrastructure: Value,
    /// The bootstrap template.
    pub bootstrap: Value,
}

/// Parts of a node in the making.
#[derive(Default)]
struct Parts {
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    amounts: BTreeMap<String, String>,
    declared: bool,
}

/// The template of a group's nodes for this pool; each source precedes the one before it, the pool all of them.
///
/// # Errors
/// In words, when a source cannot be read, or none gives cpu and memory.
pub(crate) fn read(
    pool: &PoolAtProvider,
    object: &Scalable,
    templates: &Templates,
) -> Result<GroupTemplate, String> {
    let mut parts = Parts::default();
    parts.infrastructure(&templates.infrastructure["status"]);
    parts.bootstrap(&templates.bootstrap)?;
    parts.machine_template(object)?;
    parts.annotations(object)?;
    let in_pool = 0 < pool.node.capacity.cpu_milli;
    let capacity = if in_pool { pool.node.capacity.clone() } else { amounts(&parts.amounts)? };
    if capacity.cpu_milli <= 0 || capacity.memory_bytes <= 0 {
        return Err(format!(
            "cpu or memory of its nodes is unknown: annotate the group with {CAPACITY}cpu and {CAPACITY}memory, or set \
             template.capacity in the pool"
        ));
    }
    let allocatable = if in_pool { pool.node.allocatable.clone() } else { capacity.clone() };
    let mut labels: Labels = parts.labels.into_iter().collect();
    for (key, value) in pool.node.labels.iter() {
        labels.insert(key, value);
    }
    let mut taints = parts.taints;
    for taint in &pool.node.taints {
        put(&mut taints, taint.clone());
    }
    let trust = if in_pool || parts.declared { TemplateTrust::Declared } else { TemplateTrust::Estimate };
    let node = NodeTemplate { labels, taints, capacity, allocatable };
    Ok(GroupTemplate { node, trust, ..GroupTemplate::default() })
}

fn put(taints: &mut Vec<Taint>, taint: Taint) {
    taints.retain(|other| other.key != taint.key || other.effect != taint.effect);
    taints.push(taint);
}

impl Parts {
    fn infrastructure(&mut self, status: &Value) {
        for (name, amount) in status["capacity"].as_object().into_iter().flatten() {
            if let Some(amount) = text(amount) {
                self.amounts.insert(name.clone(), amount);
            }
        }
        let labels = [("architecture", "kubernetes.io/arch"), ("operatingSystem", "kubernetes.io/os")];
        for (field, label) in labels {
            if let Some(value) = status["nodeInfo"][field].as_str() {
                self.labels.insert(label.to_owned(), value.to_owned());
            }
        }
    }

    fn bootstrap(&mut self, template: &Value) -> Result<(), String> {
        let registration = &template["spec"]["template"]["spec"]["joinConfiguration"]["nodeRegistration"];
        for taint in registration["taints"].as_array().into_iter().flatten() {
            let field = |name: &str| taint[name].as_str().unwrap_or_default();
            put(&mut self.taints, taint_of(field("key"), field("value"), field("effect"))?);
        }
        let arguments = &registration["kubeletExtraArgs"];
        // v1beta2 has a list of names and values, v1beta1 a map.
        let in_list = arguments.as_array().into_iter().flatten().find(|one| one["name"] == "node-labels");
        let labels = in_list.map_or(&arguments["node-labels"], |one| &one["value"]);
        self.labels.extend(pairs(labels.as_str().unwrap_or_default()));
        Ok(())
    }

    fn machine_template(&mut self, object: &Scalable) -> Result<(), String> {
        let template = object.template();
        let copied = template.metadata.labels.iter().filter(|(key, _)| is_copied(key));
        self.labels.extend(copied.map(|(key, value)| (key.clone(), value.clone())));
        if let Some(zone) = &template.spec.failure_domain {
            self.labels.insert(ZONE_LABEL.to_owned(), zone.clone());
        }
        for taint in &template.spec.taints {
            put(&mut self.taints, taint_of(&taint.key, &taint.value, &taint.effect)?);
        }
        Ok(())
    }

    fn annotations(&mut self, object: &Scalable) -> Result<(), String> {
        let annotations = &object.metadata.annotations;
        let get =
            |name: &str| annotations.get(&format!("{CAPACITY}{name}")).map(|value| value.trim().to_owned());
        let names = [
            ("cpu", "cpu"),
            ("memory", "memory"),
            ("ephemeral-disk", "ephemeral-storage"),
            ("maxPods", "pods"),
        ];
        for (annotation, resource) in names {
            if let Some(amount) = get(annotation) {
                self.declared |= matches!(resource, "cpu" | "memory");
                self.amounts.insert(resource.to_owned(), amount);
            }
        }
        if let (Some(kind), Some(count)) = (get("gpu-type"), get("gpu-count")) {
            self.amounts.insert(kind, count);
        }
        self.labels.extend(pairs(&get("labels").unwrap_or_default()));
        for written in get("taints").unwrap_or_default().split(',').filter(|written| !written.is_empty()) {
            let (pair, effect) = written.rsplit_once(':').unwrap_or((written, ""));
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            put(&mut self.taints, taint_of(key.trim(), value.trim(), effect.trim())?);
        }
        Ok(())
    }
}

fn is_copied(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let within = |parent: &str| domain == parent || domain.ends_with(&format!(".{parent}"));
    key.starts_with(COPIED_PREFIX) || COPIED_DOMAINS.iter().any(|parent| within(parent))
}

fn pairs(written: &str) -> impl Iterator<Item = (String, String)> {
    let of = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        Some((key.trim().to_owned(), value.trim().to_owned()))
    };
    written.split(',').filter_map(of).collect::<Vec<_>>().into_iter()
}

fn text(amount: &Value) -> Option<String> {
    amount.as_str().map(str::to_owned).or_else(|| amount.as_i64().map(|number| number.to_string()))
}

fn taint_of(key: &str, value: &str, effect: &str) -> Result<Taint, String> {
    let effect = match effect {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => return Err(format!("its taint {key} has the unknown effect {other:?}")),
    };
    Ok(Taint { key: key.into(), value: value.into(), effect })
}

fn amounts(written: &BTreeMap<String, String>) -> Result<Resources, String> {
    let mut amounts = Resources::default().with_pods(PODS_DEFAULT);
    for (name, quantity) in written {
        let amount = Quantity::parse(quantity).ok().filter(|amount| !amount.is_negative());
        let amount = amount.ok_or_else(|| format!("invalid quantity {name}={quantity}"))?;
        match name.as_str() {
            "cpu" => amounts.cpu_milli = amount.milli(),
            "memory" => amounts.memory_bytes = amount.units(),
            "pods" => amounts.pods = amount.units(),
            "ephemeral-storage" => amounts.ephemeral_bytes = amount.units(),
            other => amounts.set_extended(other, amount.units()),
        }
    }
    Ok(amounts)
}
