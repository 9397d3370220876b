//! The end of a case: which nodes and pods are left, and how many pending pods the nodes that are there or asked for help.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::config::Config;
use headroom_core::history::History;
use headroom_core::labels::{Labels, ObjectKey};
use headroom_core::plan;
use headroom_core::scheduling::Snapshot;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::Node as CoreNode;
use headroom_core::world::pod::{Pod as CorePod, PodClass};
use headroom_core::world::{Delta, World};
use serde_json::Value;

use super::drive::Run;
use super::input::Input;
use super::settings;
use super::world::VectorWorld;
use crate::model::Group;

/// Actions in a case, of the reference or of the product.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actions {
    /// Nodes (or ids of instances that never became nodes) that were deleted, with the instant.
    pub(crate) deleted: BTreeMap<String, i64>,
    /// Pods that were evicted, as `namespace/name`.
    pub(crate) evicted: BTreeSet<String>,
    /// The sizes at the end.
    pub(crate) targets: BTreeMap<String, i64>,
    /// Nodes that each group grew by.
    pub(crate) grown: BTreeMap<String, i64>,
    /// Groups that the reference could have grown, at any time.
    pub(crate) offered: BTreeSet<String>,
}

/// The end of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// Names of the nodes that are left.
    pub(crate) nodes: BTreeSet<String>,
    /// Bound pods that are left, but those of DaemonSets, as `namespace/name`.
    pub(crate) pods: BTreeSet<String>,
    /// The sizes of the groups.
    pub(crate) targets: BTreeMap<String, i64>,
}

/// Worth of an end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Worth {
    /// For each kind of pending pods, by its first pod: how many have a place.
    pub(crate) helped: BTreeMap<String, u32>,
    /// Nodes that are paid for.
    pub(crate) nodes: i64,
    /// Their cpu and memory.
    pub(crate) capacity: (i64, i64),
    /// Their price, where every group has one.
    pub(crate) price: Option<i64>,
}

impl Actions {
    /// Those of one outcome of the reference.
    pub(crate) fn of_reference(out: &Value) -> Self {
        let mut actions = Self::default();
        let word = |action: &Value, key: &str| action[key].as_str().unwrap_or_default().to_owned();
        let ticks = out["ticks"].as_array().into_iter().flatten();
        for action in ticks.flat_map(|tick| tick["actions"].as_array().into_iter().flatten()) {
            match action["action"].as_str() {
                #[allow(clippy::cast_possible_truncation)]
                Some("delete_node") => {
                    let at = action["at_s"].as_f64().unwrap_or(0.0) as i64;
                    actions.deleted.insert(word(action, "node"), at);
                }
                Some("evict") => {
                    actions.evicted.insert(word(action, "pod"));
                }
                Some("increase") => {
                    let nodes = action["delta"].as_i64().unwrap_or(0);
                    *actions.grown.entry(word(action, "group")).or_insert(0) += nodes;
                }
                _ => {}
            }
        }
        let ticks = out["ticks"].as_array().into_iter().flatten();
        let reports = ticks.flat_map(|tick| tick["scale_up"].as_array().into_iter().flatten());
        let options = reports.flat_map(|report| report["options"].as_array().into_iter().flatten());
        actions.offered = options.map(|option| word(option, "group")).collect();
        let targets = out["final_targets"].as_object().into_iter().flatten();
        actions.targets = targets.map(|(id, size)| (id.clone(), size.as_i64().unwrap_or(0))).collect();
        actions
    }

    /// Those of the product. What it began after the ticks of the case were over does not count.
    pub(crate) fn of_product(run: &Run) -> Self {
        let mut actions = Self { targets: run.targets_at_rest.clone(), ..Self::default() };
        let begun = |node: &Arc<str>, at: i64| {
            let marks = run.trace.marks.iter().filter(|(_, marked)| marked == node);
            marks.map(|(at, _)| *at).max().unwrap_or(at) < run.horizon
        };
        for (at, group, node) in &run.trace.deletions {
            if begun(node, *at) {
                actions.deleted.insert(node.to_string(), *at);
            } else if let Some(size) = actions.targets.get_mut(&**group) {
                *size += 1;
            }
        }
        let evictions = run.trace.evictions.iter().filter(|(at, node, _)| begun(node, *at));
        actions.evicted = evictions.map(|(_, _, pod)| pod.to_string()).collect();
        for (at, group, nodes) in &run.trace.increases {
            if *at < run.horizon {
                *actions.grown.entry(group.to_string()).or_insert(0) += nodes;
            } else if let Some(size) = actions.targets.get_mut(&**group) {
                *size -= nodes;
            }
        }
        for (at, group, nodes) in &run.trace.decreases {
            if run.horizon <= *at
                && let Some(size) = actions.targets.get_mut(&**group)
            {
                *size += nodes;
            }
        }
        actions
    }

    /// Names of the deleted, whether they were nodes or instances.
    pub(crate) fn gone(&self) -> BTreeSet<String> {
        self.deleted.keys().map(|name| name.trim_start_matches("fake://").to_owned()).collect()
    }
}

/// The world in which all events of the case have happened and these actions were taken.
fn world_after<'i>(input: &'i Input, actions: &Actions) -> Result<VectorWorld<'i>, String> {
    let mut after = VectorWorld::new(input)?;
    for tick in 0..input.ticks {
        after.advance(tick, tick * input.tick_s);
    }
    let gone = actions.gone();
    let lost: Vec<ObjectKey> = bound(&after.world)
        .filter(|pod| {
            let with_node = pod.node.as_ref().is_some_and(|node| gone.contains(&**node));
            with_node || actions.evicted.contains(&pod.key.to_string())
        })
        .map(|pod| pod.key.clone())
        .collect();
    lost.into_iter().for_each(|key| after.world.apply(Delta::PodDeleted(key)));
    gone.iter().for_each(|node| after.world.apply(Delta::NodeDeleted(node.as_str().into())));
    after.targets.clone_from(&actions.targets);
    Ok(after)
}

/// All pods that are bound to a node that is there.
fn bound(world: &World) -> impl Iterator<Item = &CorePod> {
    world.nodes().flat_map(|(_, _, entry)| entry.pods.iter().map(|pod| &world.pod(*pod).pod))
}

impl End {
    /// The end that these actions lead to.
    pub(crate) fn of(input: &Input, actions: &Actions) -> Result<Self, String> {
        let after = world_after(input, actions)?;
        let own = bound(&after.world).filter(|pod| !pod.class.daemon_set);
        Ok(Self {
            nodes: after.world.nodes().map(|(_, node, _)| node.name.to_string()).collect(),
            pods: own.map(|pod| pod.key.to_string()).collect(),
            targets: actions.targets.clone(),
        })
    }
}

impl Worth {
    /// Computes the worth of the end of these actions: all requested nodes are there, with their DaemonSets.
    pub(crate) fn of(input: &Input, actions: &Actions) -> Result<Self, String> {
        let mut after = world_after(input, actions)?;
        let mut worth = Self { price: Some(0), ..Self::default() };
        for group in &input.groups {
            let size = actions.targets.get(&group.id).copied().unwrap_or(0);
            worth.nodes += size;
            let price = group.price.map(micro);
            worth.price = worth.price.zip(price).map(|(sum, price)| sum + price * size);
            let node = template_of(input, group);
            let sets = sets_of(input, group);
            worth.capacity.0 += size * node.capacity.cpu_milli;
            worth.capacity.1 += size * node.capacity.memory_bytes;
            let own = |name: &&String| {
                let node = input.nodes.iter().flatten().find(|node| node.name == **name);
                node.is_some_and(|node| node.group == group.id)
            };
            let left = actions.gone().iter().filter(own).count();
            let added = size - group.target + i64::try_from(left).unwrap_or(i64::MAX);
            for number in 0..added {
                let name = format!("{}-measured-{number}", group.id);
                add_node(&mut after.world, &node, &name, sets.as_ref());
            }
        }
        let now = input.ticks * input.tick_s;
        after.observe(now)?;
        let mut config = settings::config(&input.options, &input.groups, input.priorities.as_ref())?;
        close(&mut config);
        worth.helped = helped(&after.world, &config, now);
        Ok(worth)
    }

    /// Number of pods that are helped.
    pub(crate) fn pods(&self) -> u32 {
        self.helped.values().sum()
    }

    /// True if every kind of pods is helped at least as much as there.
    pub(crate) fn helps_all_of(&self, other: &Self) -> bool {
        let here = |first: &String| self.helped.get(first).copied().unwrap_or(0);
        other.helped.iter().all(|(first, count)| *count <= here(first))
    }

    /// True if it has fewer nodes, or cheaper ones.
    pub(crate) fn costs_less_than(&self, other: &Self) -> bool {
        if let (Some(own), Some(theirs)) = (self.price, other.price) {
            return own < theirs;
        }
        let no_more = self.capacity.0 <= other.capacity.0 && self.capacity.1 <= other.capacity.1;
        self.nodes < other.nodes || no_more && self.capacity != other.capacity
    }

    /// True if it costs the same.
    pub(crate) fn costs_as(&self, other: &Self) -> bool {
        (self.nodes, self.capacity, self.price) == (other.nodes, other.capacity, other.price)
    }
}

fn micro(price: f64) -> i64 {
    #[allow(clippy::cast_possible_truncation)]
    let micro = (price * 1e6).round() as i64;
    micro
}

/// The next node of a group: as the first of the nodes that it had, if that was ready, or else as declared.
fn template_of(input: &Input, group: &Group) -> CoreNode {
    let nodes = input.nodes.iter().flatten().filter(|node| node.group == group.id);
    let declared = group.template.as_ref();
    let ready = nodes.filter(|node| {
        let devices = declared.is_none_or(|said| said.ext.keys().all(|name| node.ext.contains_key(name)));
        devices && node.ready.as_deref().is_none_or(|ready| ready == "True")
    });
    let live = ready.min_by(|a, b| a.name.cmp(&b.name));
    let mut node = live.cloned().or_else(|| group.template.clone()).unwrap_or_default().to_core();
    let passing = [&input.options.startup_taints, &input.options.status_taints];
    node.taints.retain(|taint| !passing.iter().any(|keys| keys.iter().any(|key| *key == *taint.key)));
    node.unschedulable = false;
    node
}

/// Names of the DaemonSets that run on the nodes of the group; `None` where it has no nodes.
fn sets_of(input: &Input, group: &Group) -> Option<BTreeSet<String>> {
    let nodes = input.nodes.iter().flatten().filter(|node| node.group == group.id);
    let names: BTreeSet<&str> = nodes.map(|node| node.name.as_str()).collect();
    let own = input
        .pods
        .iter()
        .flatten()
        .filter(|pod| pod.node.as_deref().is_some_and(|node| names.contains(node)));
    let sets = own.filter_map(|pod| pod.owner.as_ref()).filter(|owner| owner.kind == "DaemonSet");
    (!names.is_empty()).then(|| sets.map(|owner| owner.name.clone()).collect())
}

/// Adds a node with the pods of the DaemonSets that belong on it, or of those of them that are named.
fn add_node(world: &mut World, like: &CoreNode, name: &str, named: Option<&BTreeSet<String>>) {
    let mut node = like.clone();
    node.name = name.into();
    node.uid = name.into();
    node.provider_id = format!("fake://{name}").into();
    node.labels.insert("kubernetes.io/hostname", name);
    node.annotations = Labels::default();
    world.apply(Delta::NodeApplied(Box::new(node)));
    let pods: Vec<CorePod> = world
        .daemon_sets()
        .filter(|set| named.is_none_or(|named| named.contains(&*set.key.name)))
        .map(|set| CorePod {
            uid: format!("{}-{name}", set.key.name).into(),
            key: ObjectKey::new(&*set.key.namespace, format!("{}-{name}", set.key.name)),
            class: Arc::new(PodClass { daemon_set: true, ..(*set.class).clone() }),
            node: Some(name.into()),
            ..CorePod::default()
        })
        .collect();
    for pod in pods {
        let fits = {
            let mut snapshot = Snapshot::new(world);
            let class = snapshot.class_ix(&pod.class);
            snapshot.named(name).is_some_and(|node| snapshot.fits(class, node))
        };
        if fits {
            world.apply(Delta::PodApplied(Box::new(pod)));
        }
    }
}

/// Settings under which nothing is bought and nothing leaves.
fn close(config: &mut Config) {
    config.cluster.new_pod_delay = Seconds(0);
    config.pools.iter_mut().for_each(|pool| {
        pool.scale_up.enabled = false;
        pool.scale_down.enabled = false;
    });
}

/// Returns how many pods of each kind have a place, by the first pod of the kind.
fn helped(world: &World, config: &Config, now: i64) -> BTreeMap<String, u32> {
    let planned = plan(world, &History::default(), config, UnixTime(now));
    let mut helped = BTreeMap::new();
    for verdict in planned.reasons.pods {
        if let Some(first) = verdict.examples.first() {
            helped.insert(first.to_string(), verdict.on_existing_count);
        }
    }
    helped
}

/// Pending pods of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// Their keys, as `namespace/name`.
    pub(crate) keys: Vec<String>,
    /// Requests of each: cpu and memory.
    pub(crate) requests: (i64, i64),
    /// The priority of each.
    pub(crate) priority: i32,
}

/// The pending pods by kind, by the first pod of the kind.
pub(crate) fn kinds(input: &Input) -> Result<BTreeMap<String, Kind>, String> {
    let after = world_after(input, &Actions::default())?;
    let mut by_class: BTreeMap<u32, Kind> = BTreeMap::new();
    for (_, entry) in after.world.unbound() {
        let requests = &entry.pod.class.requests;
        let requests = (requests.cpu_milli, requests.memory_bytes);
        let priority = entry.pod.class.priority;
        let kind =
            by_class.entry(entry.class.0).or_insert_with(|| Kind { keys: Vec::new(), requests, priority });
        kind.keys.push(entry.pod.key.to_string());
    }
    Ok(by_class.into_values().map(|kind| (kind.keys[0].clone(), kind)).collect())
}
