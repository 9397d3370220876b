//! The DaemonSets that take part of a new node, and the requests of their pods: those of running pods count, not those
//! of a template.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_cluster::world::pod::{Pod, PodClass};
use headroom_cluster::world::workload::{DaemonSet, PrioritySource};
use headroom_cluster::world::{NodeId, World};

/// Lowest priority of pods that keep the cluster running. Kubernetes: the class system-cluster-critical.
const SYSTEM_PRIORITY: i32 = 2_000_000_000;

/// Most different requests that are distinguished among the pods of one set: a rollout has two.
const ASKS_MAX: usize = 8;

/// Running pods of DaemonSets by the unique id of the set.
type Running<'w> = BTreeMap<&'w str, Vec<&'w Pod>>;

/// Requests of each DaemonSet's pods in the whole cluster, once a group without nodes asked.
#[derive(Clone, Debug, Default)]
pub struct Daemons {
    everywhere: Option<BTreeMap<Arc<str>, Arc<PodClass>>>,
}

impl Daemons {
    /// The DaemonSets that take part of a new node with the class of their pods, highest priority first: anybody may make
    /// or change a set, and only its pods show that it was admitted (quota, admission), and with how much.
    ///
    /// With nodes of the group to go by, those that run on at least half of these. Without, those that have pods on at
    /// least half of the nodes that they are for, and those of the system; of these a set without pods counts by its
    /// template, as it may be for such nodes alone, unless it is for others where none was let in.
    pub(super) fn on_new_node<'w>(
        &mut self,
        alike: &[NodeId],
        world: &'w World,
    ) -> Vec<(&'w DaemonSet, Arc<PodClass>)> {
        let running = if alike.is_empty() { Running::new() } else { running_on(alike, world) };
        let mut sets: Vec<(&DaemonSet, Arc<PodClass>, i32)> = Vec::new();
        for set in world.daemon_sets() {
            let priority = priority_of(set, world);
            let class = if alike.is_empty() {
                self.of_group_without_nodes(set, priority, world)
            } else {
                let pods = running.get(&*set.uid).map_or(&[][..], Vec::as_slice);
                (alike.len() <= 2 * pods.len()).then(|| usual(pods)).flatten()
            };
            if let Some(class) = class {
                sets.push((set, placed_class(set, &class), priority));
            }
        }
        sets.sort_by_key(|(_, _, priority)| Reverse(*priority));
        sets.into_iter().map(|(set, class, _)| (set, class)).collect()
    }

    fn of_group_without_nodes(
        &mut self,
        set: &DaemonSet,
        priority: i32,
        world: &World,
    ) -> Option<Arc<PodClass>> {
        let (pods, of_system) = (world.active_pods_of(&set.uid), SYSTEM_PRIORITY <= priority);
        if pods == 0 {
            return (of_system && set.desired == 0).then(|| set.class.clone());
        }
        if !of_system && pods.saturating_mul(2) < set.desired {
            return None;
        }
        self.everywhere.get_or_insert_with(|| usual_everywhere(world)).get(&set.uid).cloned()
    }
}

/// Pods of DaemonSets that run on these nodes, in the order of the nodes.
fn running_on<'w>(nodes: &[NodeId], world: &'w World) -> Running<'w> {
    let mut running = Running::new();
    for id in nodes.iter().flat_map(|id| &world.node(*id).pods) {
        note(&mut running, &world.pod(*id).pod);
    }
    running
}

/// Returns the requests of each set's pods, wherever they run.
fn usual_everywhere(world: &World) -> BTreeMap<Arc<str>, Arc<PodClass>> {
    let mut running = Running::new();
    for (class, _) in world.classes().iter().filter(|(_, class)| class.daemon_set) {
        for id in world.bound_pods(class) {
            note(&mut running, &world.pod(*id).pod);
        }
    }
    let sorted = running.into_iter().map(|(uid, mut pods)| {
        pods.sort_by(|a, b| a.key.cmp(&b.key));
        (uid, pods)
    });
    sorted.filter_map(|(uid, pods)| Some((Arc::from(uid), usual(&pods)?))).collect()
}

fn note<'w>(running: &mut Running<'w>, pod: &'w Pod) {
    if let (Some(owner), true) = (&pod.owner, pod.class.daemon_set && !pod.phase.finished()) {
        running.entry(&*owner.uid).or_default().push(pod);
    }
}

/// The class of most of these pods, the first of several; `None` when none of them can be read.
fn usual(pods: &[&Pod]) -> Option<Arc<PodClass>> {
    let mut asks: Vec<(&Arc<PodClass>, usize)> = Vec::new();
    for class in pods.iter().map(|pod| &pod.class).filter(|class| !class.unreadable) {
        match asks.iter().position(|(known, _)| asks_alike(known, class)) {
            Some(at) => asks[at].1 += 1,
            None if asks.len() < ASKS_MAX => asks.push((class, 1)),
            None => {}
        }
    }
    let most = asks.iter().map(|(_, count)| *count).max()?;
    asks.into_iter().find(|(_, count)| *count == most).map(|(class, _)| class.clone())
}

/// True if two pods of a set leave the same room to others: what ties each to its node is not looked at.
fn asks_alike(one: &PodClass, other: &PodClass) -> bool {
    one.requests == other.requests
        && one.host_ports == other.host_ports
        && one.pod_affinity == other.pod_affinity
        && one.pod_anti_affinity == other.pod_anti_affinity
        && one.topology_spread == other.topology_spread
        && one.claims.len() == other.claims.len()
}

/// A running pod's class as the set's pod on a new node would be. How much it takes is the pod's. Where it goes is the
/// template's, which the next pod is made of, and each pod's own affinity names its node. Claims are each pod's own: they are
/// the template's, and no more than the pod has.
fn placed_class(set: &DaemonSet, running: &Arc<PodClass>) -> Arc<PodClass> {
    let template = &set.class;
    if Arc::ptr_eq(template, running) && template.daemon_set {
        return template.clone();
    }
    Arc::new(PodClass {
        node_selector: template.node_selector.clone(),
        node_affinity: template.node_affinity.clone(),
        tolerations: template.tolerations.clone(),
        claims: template.claims.iter().take(running.claims.len()).cloned().collect(),
        daemon_set: true,
        ..PodClass::clone(running)
    })
}

/// The priority of a set's pods. The two classes that each cluster has are known without their objects.
fn priority_of(set: &DaemonSet, world: &World) -> i32 {
    match &set.priority_class {
        PrioritySource::Named(name) if &**name == "system-node-critical" => SYSTEM_PRIORITY + 1000,
        PrioritySource::Named(name) if &**name == "system-cluster-critical" => SYSTEM_PRIORITY,
        source => world.priority_of(source, &set.class),
    }
}
