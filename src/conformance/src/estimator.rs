//! The family that packs pending pods onto new nodes of one template.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::nodes::packing::{self, Growable, PackingLimits, Wanted};
use headroom_core::nodes::scale_up::balance::Size;
use headroom_core::resources::Resources;
use headroom_core::scheduling::{ClassIx, PodRef, Snapshot, TemplateNode};
use headroom_core::world::pod::Pod as CorePod;
use headroom_core::world::{Delta, World};
use serde::Deserialize;
use serde_json::Value;

use crate::model::{Group, Node, Pod};
use crate::outcome::{Measure, Outcome};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    template: Node,
    #[serde(default)]
    template_pods: Option<Vec<Pod>>,
    #[serde(default)]
    nodes: Option<Vec<Node>>,
    #[serde(default)]
    running: Option<Vec<Pod>>,
    pending: Vec<Pod>,
    max_nodes_per_scaleup: i64,
    #[serde(default)]
    cluster_max_nodes: i64,
    #[serde(default)]
    cluster_current_nodes: i64,
    group: Group,
    #[serde(default)]
    similar_groups: Option<Vec<Group>>,
    /// Chooses between two ways that the reference has to the same numbers.
    #[serde(default)]
    #[allow(dead_code)]
    fastpath: bool,
}

/// Result of one packing.
#[derive(Debug, PartialEq, Eq)]
struct Packed {
    nodes: u32,
    /// Pods with a place, by class.
    placed: BTreeMap<u32, usize>,
}

impl Packed {
    fn helps_all_of(&self, other: &Self) -> bool {
        other.placed.iter().all(|(class, count)| self.placed.get(class).is_some_and(|own| count <= own))
    }
}

/// Packs as the product does and compares pods and nodes.
pub(crate) fn compare(input: &Value, outs: &[&Value]) -> Outcome {
    let input = match Input::deserialize(input) {
        Ok(input) => input,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let world = world(&input);
    let all = by_class(&world);
    let ours = pack(&input, &world, &all);
    if usize::try_from(limit(&input)).is_ok_and(|most| most < ours.nodes as usize) {
        return Outcome::Failed(format!("{} nodes are beyond the limit", ours.nodes));
    }
    let mut how = String::new();
    for out in outs {
        let theirs = reference(out, &world);
        if ours == theirs {
            return Outcome::Same;
        }
        if ours.helps_all_of(&theirs) {
            if ours.nodes <= theirs.nodes {
                let fewer = ours.nodes < theirs.nodes;
                return Outcome::Better(if fewer { Measure::CheaperNodes } else { Measure::MorePods });
            }
            let same_pods: BTreeMap<u32, Vec<PodRef>> = all
                .iter()
                .map(|(class, pods)| {
                    let count = theirs.placed.get(class).copied().unwrap_or(0);
                    (*class, pods.iter().take(count).copied().collect())
                })
                .collect();
            let restricted = pack(&input, &world, &same_pods);
            if restricted.helps_all_of(&theirs) && restricted.nodes <= theirs.nodes {
                return Outcome::Better(Measure::AtOnce);
            }
        }
        if how.is_empty() {
            how = format!("expected {theirs:?}\n       got {ours:?}");
        }
    }
    Outcome::Failed(how)
}

fn world(input: &Input) -> World {
    let mut world = World::new();
    for node in input.nodes.iter().flatten() {
        world.apply(Delta::NodeApplied(Box::new(node.to_core())));
    }
    let running = input.running.iter().flatten().flat_map(Pod::to_core);
    for pod in running.chain(input.pending.iter().flat_map(Pod::to_core)) {
        world.apply(Delta::PodApplied(Box::new(pod)));
    }
    world
}

fn by_class(world: &World) -> BTreeMap<u32, Vec<PodRef>> {
    let mut all: BTreeMap<u32, Vec<PodRef>> = BTreeMap::new();
    for (id, entry) in world.unbound() {
        all.entry(entry.class.0).or_default().push(PodRef::Real(id));
    }
    all
}

fn pack(input: &Input, world: &World, pods: &BTreeMap<u32, Vec<PodRef>>) -> Packed {
    let mut snapshot = Snapshot::new(world);
    let template = template(input, &mut snapshot);
    let wanted: Vec<Wanted<'_>> = pods
        .iter()
        .filter(|(_, pods)| !pods.is_empty())
        .map(|(class, pods)| {
            let class = ClassIx(*class);
            Wanted { class, priority: snapshot.class(class).priority, pods }
        })
        .collect();
    let most = limit(input);
    let size = Size { current: 0, max: most };
    let groups = [Growable { id: input.group.id.as_str().into(), template, size }];
    let limits = PackingLimits { nodes: most, work_units: u64::MAX };
    let packing = packing::pack(&mut snapshot, &groups, &wanted, limits);
    let placed = wanted.iter().zip(&packing.placed).filter(|(_, placed)| **placed != 0);
    Packed {
        nodes: u32::try_from(packing.nodes.len()).unwrap_or(u32::MAX),
        placed: placed.map(|(wanted, placed)| (wanted.class.0, *placed)).collect(),
    }
}

fn reference(out: &Value, world: &World) -> Packed {
    let mut placed = BTreeMap::new();
    let names = out["scheduled"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in names {
        let entry = world.unbound().find(|(_, entry)| *entry.pod.key.name == *name);
        if let Some((_, entry)) = entry {
            *placed.entry(entry.class.0).or_insert(0) += 1;
        }
    }
    Packed { nodes: u32::try_from(out["node_count"].as_u64().unwrap_or(0)).unwrap_or(u32::MAX), placed }
}

fn template(input: &Input, snapshot: &mut Snapshot<'_>) -> Arc<TemplateNode> {
    let mut node = input.template.to_core();
    node.labels.remove("kubernetes.io/hostname");
    let mut daemon_pods = Vec::new();
    let mut daemon_requested = Resources::default();
    for pod in input.template_pods.iter().flatten().flat_map(Pod::to_core) {
        let pod: CorePod = pod;
        daemon_pods.push(snapshot.class_ix(&pod.class));
        daemon_requested.add(&pod.class.requests);
    }
    Arc::new(TemplateNode { node, daemon_pods, daemon_requested, ..TemplateNode::default() })
}

/// The limit on new nodes: of one scale-up, of the cluster, and the room of the groups that share them.
fn limit(input: &Input) -> u32 {
    let groups = std::iter::once(&input.group).chain(input.similar_groups.iter().flatten());
    let room: i64 = groups.map(|group| (group.max - group.target).max(0)).sum();
    let once = (input.max_nodes_per_scaleup != 0).then_some(input.max_nodes_per_scaleup);
    let cluster =
        (input.cluster_max_nodes > 0).then_some(input.cluster_max_nodes - input.cluster_current_nodes);
    let least = once.into_iter().chain(cluster).fold(room, i64::min);
    u32::try_from(least.max(0)).unwrap_or(u32::MAX)
}
