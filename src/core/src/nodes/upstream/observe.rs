//! The world as the registry sees it. It changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Fix;
use super::UpstreamOptions;
use super::down::Act;
use super::templates::passes;
use crate::known::Known;
use crate::nodes::context::Context;
use crate::nodes::registry::{GroupSeen, InstanceSeen, NodeCondition, NodeSeen, Report, Seen};
use crate::time::UnixTime;
use crate::world::node::{Node, Readiness};

/// The resource of the only GPUs that are looked for.
pub const GPU: &str = "nvidia.com/gpu";

/// Nodes, groups and instances.
pub fn seen(ctx: &Context<'_>) -> Seen {
    let options = &ctx.config.cluster.upstream;
    let mut groups = BTreeMap::new();
    for pool in &ctx.config.pools {
        let Some(Known::Known { value, .. }) = ctx.world.provider(&pool.name) else { continue };
        for (id, group) in &value.groups {
            let instances = group
                .instances
                .iter()
                .map(|(id, instance)| (id.clone(), InstanceSeen { state: instance.state, error: None }))
                .collect();
            let target = i64::from(group.target);
            groups.insert(id.clone(), GroupSeen { target, settings: pool.scale_up, instances });
        }
    }
    let nodes = ctx.world.nodes().map(|(_, node, _)| NodeSeen {
        name: node.name.clone(),
        instance: instance_of(node),
        condition: if ready(node, options) { NodeCondition::Ready } else { NodeCondition::NotReady },
        created_at: node.created_at,
    });
    Seen {
        nodes: nodes.collect(),
        groups,
        settings: ctx.config.pools.first().map(|pool| pool.scale_up).unwrap_or_default(),
        max_unready_percent: ctx.config.cluster.max_unready_percent,
        ok_unready_count: ctx.config.cluster.ok_unready_count,
    }
}

/// The id of a node's instance; its name where the provider makes nodes without ids.
fn instance_of(node: &Node) -> Arc<str> {
    if node.provider_id.is_empty() { node.name.clone() } else { node.provider_id.clone() }
}

/// Whether a node counts as ready: startup taints are gone and its GPUs are there.
///
/// Source: utils/taints, FilterOutNodesWithStartupTaints; processors/customresources/gpu_processor.go.
fn ready(node: &Node, options: &UpstreamOptions) -> bool {
    let starting = node.taints.iter().any(|taint| passes(&taint.key, options));
    let gpu = options.gpu_label.as_ref().is_some_and(|label| node.labels.get(label).is_some());
    node.ready == Readiness::Ready && !starting && (!gpu || node.allocatable.extended(GPU) > 0)
}

/// How many nodes are ready.
pub fn ready_count(seen: &Seen) -> i64 {
    let ready = seen.nodes.iter().filter(|node| node.condition == NodeCondition::Ready).count();
    i64::try_from(ready).unwrap_or(i64::MAX)
}

/// Groups that have had fewer nodes than their target for too long. Source: static_autoscaler.go, fixNodeGroupSize.
pub fn wrong_sizes(seen: &Seen, report: &Report, now: UnixTime) -> Vec<Fix> {
    let late = |(id, group): (&Arc<str>, &crate::nodes::registry::GroupReport)| {
        let incorrect = group.incorrect?;
        let timeout = seen.groups.get(id)?.settings.provision_timeout;
        let by = incorrect.expected - incorrect.current;
        (incorrect.since.plus(timeout) < now && 0 < by).then(|| Fix { group: id.clone(), by })
    };
    report.groups.iter().filter_map(late).collect()
}

/// Instances that did not become nodes in time and are deleted, down to the group's minimum.
///
/// Source: static_autoscaler.go, removeOldUnregisteredNodes.
pub fn never_registered(ctx: &Context<'_>, seen: &Seen, report: &Report) -> Vec<Act> {
    let mut acts = Vec::new();
    for pool in &ctx.config.pools {
        let Some(Known::Known { value, .. }) = ctx.world.provider(&pool.name) else { continue };
        for (id, group) in &value.groups {
            let readiness = report.groups.get(id).and_then(|told| told.readiness.as_ref());
            let late = readiness.map_or(&[][..], |readiness| &readiness.long_unregistered);
            let target = seen.groups.get(id).map_or(0, |told| told.target);
            let room = usize::try_from(target - i64::from(group.min)).unwrap_or(0);
            acts.extend(late.iter().take(room).map(|instance| Act::Delete {
                group: id.clone(),
                node: instance.clone(),
                instance: instance.clone(),
            }));
        }
    }
    acts
}
