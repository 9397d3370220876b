//! How much of the cluster's cores and memory is left, in whole nodes. Source: resourcequotas/tracker.go.

use std::sync::Arc;

use crate::config::ClusterSettings;
use crate::resources::Resources;

/// What is left of each limited resource.
#[derive(Clone, Debug)]
pub struct Quota {
    left: Vec<(Arc<str>, i64)>,
}

impl Quota {
    /// The cluster's limits less what these nodes have.
    pub fn new<'a>(settings: &ClusterSettings, nodes: impl Iterator<Item = &'a Resources>) -> Self {
        let mut left = Vec::new();
        if let Some(cpu) = settings.max_cpu_milli {
            left.push((Arc::from("cpu"), cpu.div_euclid(1000)));
        }
        if let Some(memory) = settings.max_memory_bytes {
            left.push((Arc::from("memory"), memory));
        }
        let mut quota = Self { left };
        nodes.for_each(|node| quota.take(node, 1));
        quota
    }

    /// What these nodes have beyond the least that the cluster must have.
    pub fn above<'a>(
        min_cpu_milli: i64,
        min_memory_bytes: i64,
        nodes: impl Iterator<Item = &'a Resources>,
    ) -> Self {
        let least = [("cpu", min_cpu_milli.div_euclid(1000)), ("memory", min_memory_bytes)];
        let mut left: Vec<(Arc<str>, i64)> = least.map(|(name, least)| (name.into(), -least)).into();
        for node in nodes {
            for (name, left) in &mut left {
                *left = left.saturating_add(amount(name, node));
            }
        }
        Self { left }
    }

    /// The resources of which there is not enough for `nodes` more.
    pub fn exceeded(&self, node: &Resources, nodes: i64) -> Vec<Arc<str>> {
        let short = |(name, left): &&(Arc<str>, i64)| *left < amount(name, node).saturating_mul(nodes);
        self.left.iter().filter(short).map(|(name, _)| name.clone()).collect()
    }

    /// How many of `nodes` there is enough for; rounded down.
    pub fn allowed(&self, node: &Resources, nodes: i64) -> i64 {
        let room = |(name, left): &(Arc<str>, i64)| match amount(name, node) {
            0 => nodes,
            each => left.div_euclid(each).max(0),
        };
        self.left.iter().map(room).fold(nodes, i64::min)
    }

    /// Books `nodes` nodes.
    pub fn take(&mut self, node: &Resources, nodes: i64) {
        for (name, left) in &mut self.left {
            *left = left.saturating_sub(amount(name, node).saturating_mul(nodes));
        }
    }
}

/// What one node has: a part of a core counts as a whole one.
fn amount(name: &str, node: &Resources) -> i64 {
    match name {
        "cpu" => node.cpu_milli.saturating_add(999).div_euclid(1000),
        _ => node.memory_bytes,
    }
}
