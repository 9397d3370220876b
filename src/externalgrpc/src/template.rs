//! The node that a group would add, from the server's template and the pool. Pure.

use std::collections::BTreeMap;

use headroom_core::quantity::Quantity;
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::{Taint, TaintEffect};
use headroom_core::world::node::HOSTNAME_LABEL;
use headroom_core::world::provider::{GroupTemplate, TemplateTrust};
use headroom_core::world::template::NodeTemplate;
use headroom_provider::PoolAtProvider;
use prost::Message;

use super::wire::{CoreNode, CoreQuantity};

/// Pods of a node whose template does not set a number.
const PODS_DEFAULT: i64 = 110;

/// The template of a group's nodes for this pool. The pool's declaration precedes the server's.
///
/// # Errors
/// In words, when the bytes are not a Node, or neither the server nor the pool gives cpu and memory.
pub(crate) fn read(pool: &PoolAtProvider, answer: &Result<Vec<u8>, String>) -> Result<GroupTemplate, String> {
    let declared = 0 < pool.node.capacity.cpu_milli;
    let node = match answer {
        Ok(bytes) if bytes.is_empty() => Err("the server's answer has no template".to_owned()),
        Ok(bytes) => {
            CoreNode::decode(&**bytes).map_err(|error| format!("its template is not a Node: {error}"))
        }
        Err(words) => Err(words.clone()),
    };
    // With amounts of its own the pool needs no template, but takes the labels of one.
    let node = match node {
        Ok(node) => node,
        Err(_) if declared => CoreNode::default(),
        Err(words) => return Err(words),
    };
    let CoreNode { metadata, spec, status } = node;
    let status = status.unwrap_or_default();
    let (capacity, allocatable) = if declared {
        (pool.node.capacity.clone(), pool.node.allocatable.clone())
    } else {
        let capacity = amounts(&status.capacity)?;
        let allocatable =
            if status.allocatable.is_empty() { capacity.clone() } else { amounts(&status.allocatable)? };
        if capacity.cpu_milli <= 0 || capacity.memory_bytes <= 0 {
            return Err("its template has no cpu or no memory: set template.capacity in the pool".to_owned());
        }
        (capacity, allocatable)
    };
    let mut labels: headroom_core::labels::Labels =
        metadata.unwrap_or_default().labels.into_iter().filter(|(key, _)| key != HOSTNAME_LABEL).collect();
    for (key, value) in pool.node.labels.iter() {
        labels.insert(key, value);
    }
    let mut taints: Vec<Taint> = Vec::new();
    for taint in spec.unwrap_or_default().taints {
        let effect =
            effect(&taint.effect).ok_or_else(|| format!("its taint {} has no known effect", taint.key))?;
        taints.push(Taint { key: taint.key.into(), value: taint.value.into(), effect });
    }
    for taint in &pool.node.taints {
        taints.retain(|other| other.key != taint.key || other.effect != taint.effect);
        taints.push(taint.clone());
    }
    let trust = if declared { TemplateTrust::Declared } else { TemplateTrust::Estimate };
    let node = NodeTemplate { labels, taints, capacity, allocatable };
    Ok(GroupTemplate { node, trust, ..GroupTemplate::default() })
}

fn amounts(written: &BTreeMap<String, CoreQuantity>) -> Result<Resources, String> {
    let mut amounts = Resources::default().with_pods(PODS_DEFAULT);
    for (name, quantity) in written {
        let amount = Quantity::parse(&quantity.string).ok().filter(|amount| !amount.is_negative());
        let amount = amount
            .ok_or_else(|| format!("its template has the invalid quantity {name}={}", quantity.string))?;
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

fn effect(word: &str) -> Option<TaintEffect> {
    match word {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}
