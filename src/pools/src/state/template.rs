//! The node that a group would add: labels, taints, amounts and its DaemonSets. It asks nobody.

use std::sync::Arc;

use crate::config::Pool;
use crate::state::cluster_state::{ClusterState, GroupCounts, PoolState};
use crate::state::daemons::Daemons;
use headroom_cluster::history::PoolHistory;
use headroom_cluster::scheduling::constraints::Taint;
use headroom_cluster::scheduling::devices::Slice;
use headroom_cluster::scheduling::{ComingDrivers, Snapshot, TemplateNode};
use headroom_cluster::world::node::{GROUP_LABEL, HOSTNAME_LABEL, Node, POOL_LABEL, ZONE_LABEL};
use headroom_cluster::world::provider::{GroupState, OpenLabels, TemplateTrust};
use headroom_cluster::world::template::NodeTemplate;
use headroom_cluster::world::{NodeId, World};
use headroom_values::labels::Labels;
use headroom_values::resources::Resources;
use headroom_values::time::{Seconds, UnixTime};

/// Prefixes of taints that mark a node's condition: the node lifecycle controller and clouds put them on and take
/// them off again, so a new node will not keep them.
const CONDITION_TAINTS: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];

/// Most nodes of a group that are looked at for its DaemonSets.
const ALIKE_MAX: usize = 8;

/// Age at which a node runs its DaemonSets.
const DAEMONS_START: Seconds = Seconds(120);

/// Prefixes of taints that a node loses once it is started, whatever its pool lists. Source: Cluster Autoscaler,
/// utils/taints/taints.go, StartupTaintPrefix and the older IgnoreTaintPrefix.
///
/// Differs from upstream by the last one: a node of Cluster API joins with it, and loses it once its Machine's labels are on
/// the node. Its pods would be bought for twice in between.
const STARTUP_TAINTS: [&str; 3] = [
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "node.cluster.x-k8s.io/uninitialized",
];

/// Prefix of taints that mark a state of a started node. Source: likewise, StatusTaintPrefix.
const STATUS_TAINT: &str = "status-taint.cluster-autoscaler.kubernetes.io/";

/// AWS's second name of a zone, the same in all accounts.
const ZONE_ID_LABEL: &str = "topology.k8s.aws/zone-id";

/// True if a new node of the pool does not keep this taint.
#[must_use]
pub fn is_passing(taint: &Taint, pool: &Pool) -> bool {
    delays_start(taint, pool) || taint.key.starts_with(STATUS_TAINT)
}

/// True if a node that carries this taint is still starting.
#[must_use]
pub fn delays_start(taint: &Taint, pool: &Pool) -> bool {
    CONDITION_TAINTS.iter().any(|prefix| taint.key.starts_with(prefix)) || is_startup(taint, pool)
}

/// True if this is a startup taint: one that the pool lists, or one by its prefix.
#[must_use]
pub fn is_startup(taint: &Taint, pool: &Pool) -> bool {
    STARTUP_TAINTS.iter().any(|prefix| taint.key.starts_with(prefix))
        || pool
            .startup_taints
            .iter()
            .any(|startup| startup.key == taint.key && startup.effect == taint.effect)
}

/// The node that `group` would add, without its DaemonSets, and the labels that only its cloud chooses; `None` when
/// nothing is known of its shape.
///
/// Source of each part, in this order: the pool's declaration; a node of the group that is ready, unless the group's
/// machines differ; the template learned from such nodes before; the provider's report. Startup taints are left out: a
/// new node loses them before pods come.
#[must_use]
pub fn template_node(
    state: &PoolState<'_>,
    group_id: &Arc<str>,
    cluster: &ClusterState<'_>,
    memory: Option<&PoolHistory>,
    world: &World,
) -> Option<(Node, OpenLabels)> {
    let pool = state.pool;
    let group = state.groups.get(group_id)?;
    let shape = match &pool.template {
        Some(template) => template.clone(),
        None => found_template(group, group_id, pool, cluster, memory, world)?,
    };
    let mut labels = shape.labels;
    labels.insert(POOL_LABEL, pool.name.clone());
    labels.insert(GROUP_LABEL, group_id.clone());
    let open = group.state.map(|state| open_labels(state, &labels)).unwrap_or_default();
    for key in open.keys() {
        labels.remove(key);
    }
    if let Some(GroupState { zone: Some(zone), .. }) = group.state {
        labels.insert(ZONE_LABEL, zone.clone());
    }
    let taints = shape.taints.into_iter().filter(|taint| !is_passing(taint, pool)).collect();
    let (allocatable, capacity) = (shape.allocatable, shape.capacity);
    Some((Node { labels, taints, allocatable, capacity, ..Node::default() }, open))
}

/// Labels whose value the cloud chooses for each new node of the group: those in which its machines differ, and with
/// several zones the zone. A live node shows nothing about the next one's, neither in the zone's own label nor in those
/// that drivers of volumes put on with the same value.
fn open_labels(state: &GroupState, labels: &Labels) -> OpenLabels {
    let mut open = state.template.as_ref().map(|template| template.open_labels.clone()).unwrap_or_default();
    if !state.zones.is_empty() {
        let of_zone = |(_, value): &(&Arc<str>, &Arc<str>)| state.zones.contains(*value);
        open.extend(labels.shared().filter(of_zone).map(|(key, _)| (key.clone(), state.zones.clone())));
        open.insert(ZONE_LABEL.into(), state.zones.clone());
        if labels.get(ZONE_ID_LABEL).is_some() {
            open.insert(ZONE_ID_LABEL.into(), Vec::new());
        }
    } else if state.zone.is_none() && state.template.is_some() && labels.get(ZONE_LABEL).is_some() {
        open.insert(ZONE_LABEL.into(), Vec::new());
    }
    open
}

/// The shape of a group whose pool declares no amounts.
fn found_template(
    group: &GroupCounts<'_>,
    group_id: &str,
    pool: &Pool,
    cluster: &ClusterState<'_>,
    memory: Option<&PoolHistory>,
    world: &World,
) -> Option<NodeTemplate> {
    let said = group.state.and_then(|state| state.template.as_deref());
    match said.map(|said| (said.trust, &said.node)) {
        Some((TemplateTrust::Declared | TemplateTrust::Mixed, node)) => Some(node.clone()),
        Some((TemplateTrust::Estimate, node)) => live_template(group, pool, cluster, world)
            .filter(|live| has_devices(&live.allocatable, node))
            .or_else(|| learned_template(memory, group_id).and_then(|learned| corrected(node, &learned)))
            .or_else(|| Some(node.clone())),
        None => live_template(group, pool, cluster, world).or_else(|| learned_template(memory, group_id)),
    }
}

/// True if a node offers every device that the provider reports for a new one: before its driver has started it does
/// not, and such a node is not a template.
#[must_use]
pub fn has_devices(allocatable: &Resources, said: &NodeTemplate) -> bool {
    said.allocatable.extended_iter().all(|(name, amount)| amount <= 0 || 0 < allocatable.extended(name))
}

/// The provider's node with the amounts that live nodes taught; `None` when those can not be of the same machine: what
/// the group launches has been changed since.
fn corrected(said: &NodeTemplate, learned: &NodeTemplate) -> Option<NodeTemplate> {
    let (machine, taught) = (&said.capacity, &learned.allocatable);
    let same = |machine: i64, taught: i64| taught <= machine && machine / 2 <= taught;
    (same(machine.cpu_milli, taught.cpu_milli) && same(machine.memory_bytes, taught.memory_bytes)).then(
        || {
            let mut node = said.clone();
            node.allocatable.cpu_milli = taught.cpu_milli;
            node.allocatable.memory_bytes = taught.memory_bytes;
            node.allocatable.pods = taught.pods;
            node
        },
    )
}

/// The shape of the first ready node of a group, in order of names.
fn live_template(
    group: &GroupCounts<'_>,
    pool: &Pool,
    cluster: &ClusterState<'_>,
    world: &World,
) -> Option<NodeTemplate> {
    let ready = group.nodes.iter().find(|id| cluster.is_ready(**id));
    let node = world.node(*ready?).node.as_ref()?;
    let mut labels: Labels = node.labels.clone();
    labels.remove(HOSTNAME_LABEL);
    Some(NodeTemplate {
        labels,
        taints: node.taints.iter().filter(|taint| !is_passing(taint, pool)).cloned().collect(),
        capacity: node.capacity.clone(),
        allocatable: node.allocatable.clone(),
    })
}

fn learned_template(memory: Option<&PoolHistory>, group: &str) -> Option<NodeTemplate> {
    let learned = memory?.learned.get(group)?;
    let amounts = Resources::new(learned.cpu_milli, learned.memory_bytes).with_pods(learned.pods);
    Some(NodeTemplate { capacity: amounts.clone(), allocatable: amounts, ..NodeTemplate::default() })
}

/// The node with the pods of DaemonSets that run there and fit it, as large as they run, placed by their priority and then
/// in order of their keys.
///
/// A set whose pod no longer fits beside the others is left out, as its pod would stay pending there. `alike` are nodes of
/// the group that have had time to start, see [`started_nodes`].
#[must_use]
pub fn with_daemon_sets(
    (node, open_labels): (Node, OpenLabels),
    (drivers, devices): (ComingDrivers, Option<Arc<[Slice]>>),
    alike: &[NodeId],
    daemons: &mut Daemons,
    snapshot: &mut Snapshot<'_>,
) -> Arc<TemplateNode> {
    let mark = snapshot.checkpoint();
    let mut template = TemplateNode { node, open_labels, drivers, devices, ..TemplateNode::default() };
    let trial = snapshot.add_node(&Arc::new(template.clone()), Arc::from("template"));
    for (set, class) in daemons.on_new_node(alike, snapshot.world()) {
        let class = snapshot.class_ix(&class);
        if snapshot.fits(class, trial) {
            snapshot.place(headroom_cluster::scheduling::PodRef::Virtual(class), trial);
            template.daemon_pods.push(class);
            template.daemon_sets.push(set.key.clone());
        }
    }
    template.daemon_requested = snapshot.node(trial).requested().clone();
    snapshot.rollback(mark);
    Arc::new(template)
}

/// Some nodes of the group that are ready and have been there for long enough to run their DaemonSets, in order of names.
#[must_use]
pub fn started_nodes(
    state: &PoolState<'_>,
    group_id: &Arc<str>,
    cluster: &ClusterState<'_>,
    world: &World,
    now: UnixTime,
) -> Vec<NodeId> {
    ready_at_age(state.groups.get(group_id), cluster, world, (DAEMONS_START, now)).take(ALIKE_MAX).collect()
}

/// Nodes of the group that are ready and, at `now`, at least so old, in order of names.
pub(super) fn ready_at_age(
    group: Option<&GroupCounts<'_>>,
    cluster: &ClusterState<'_>,
    world: &World,
    (age, now): (Seconds, UnixTime),
) -> impl Iterator<Item = NodeId> {
    let nodes = group.into_iter().flat_map(|group| group.nodes.iter().copied());
    nodes.filter(move |id| cluster.is_ready(*id) && world.digest(*id).created_at.plus(age) <= now)
}
