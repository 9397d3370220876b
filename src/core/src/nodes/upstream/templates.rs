//! The node that each group would add, as the reference makes it: from a good node, else declared, else from any node.

use std::sync::Arc;

use super::UpstreamOptions;
use super::down::CANDIDATE_TAINT;
use super::observe::GPU;
use crate::config::Pool;
use crate::known::Known;
use crate::nodes::context::{Context, Part};
use crate::nodes::registry::{NodeCondition, Report, Seen};
use crate::resources::Resources;
use crate::scheduling::{ClassIx, Presence, TemplateNode};
use crate::time::Seconds;
use crate::world::node::{DELETION_TAINT, HOSTNAME_LABEL, Node};
use crate::world::pod::PodClass;
use crate::world::{NodeId, World};

/// How long a node must have been ready to be a template. Source: mixed_nodeinfos_processor.go.
const STABLE_AFTER: Seconds = Seconds(60);
/// Put on templates made from nodes, so that they are never like those that the provider declares.
const TEMPLATE_LABEL: &str = "cluster-autoscaler.kubernetes.io/template-node";
/// Priority of system-node-critical: such DaemonSets are expected on every node.
const NODE_CRITICAL: i32 = 2_000_001_000;
/// Prefixes of taints that templates go without.
const PASSING_PREFIXES: [&str; 5] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
];

/// A group as scaling up sees it.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its id.
    pub id: Arc<str>,
    /// Its pool.
    pub pool: Arc<str>,
    /// Fewest nodes.
    pub min: i64,
    /// Most nodes.
    pub max: i64,
    /// Its target, after what was taken back in this loop.
    pub target: i64,
    /// Its next node; `None` when nothing is known of it.
    pub template: Option<Arc<TemplateNode>>,
    /// Whether it goes from nothing to its maximum only.
    pub zero_or_max: bool,
}

impl Group {
    /// Whether its nodes have GPUs.
    pub fn has_gpu(&self, options: &UpstreamOptions) -> bool {
        self.template.as_ref().is_some_and(|template| {
            let labelled =
                options.gpu_label.as_ref().is_some_and(|key| template.node.labels.get(key).is_some());
            labelled || 0 < template.node.capacity.extended(GPU)
        })
    }
}

/// Whether a taint with this key is a startup taint.
pub fn passes(key: &str, options: &UpstreamOptions) -> bool {
    options.startup_taints.iter().any(|startup| &**startup == key)
        || PASSING_PREFIXES[2..4].iter().any(|prefix| key.starts_with(prefix))
}

/// All groups with their templates; the snapshot gets the nodes on their way.
pub fn prepare(ctx: &mut Context<'_>, seen: &Seen, report: &Report) -> Vec<Group> {
    let mut groups = Vec::new();
    for pool in &ctx.config.pools {
        if ctx.quarantine.pools.contains(&pool.name) {
            continue;
        }
        ctx.working_on(Part::Pool(pool.name.clone()));
        let Some(Known::Known { value, .. }) = ctx.world.provider(&pool.name) else { continue };
        for (id, state) in &value.groups {
            let template = make(ctx, seen, pool, id);
            ctx.set_template(&pool.name, id, template.clone());
            let upcoming = report.groups.get(id).map_or(0, |group| group.upcoming);
            if let Some(counts) =
                ctx.cluster.pools.get_mut(&pool.name).and_then(|pool| pool.groups.get_mut(id))
            {
                counts.upcoming = upcoming;
            }
            let reverted: i64 =
                report.reverts.iter().filter(|(group, _)| group == id).map(|(_, by)| *by).sum();
            groups.push(Group {
                id: id.clone(),
                pool: pool.name.clone(),
                min: i64::from(state.min),
                max: i64::from(state.max),
                target: i64::from(state.target) - reverted,
                template,
                zero_or_max: ctx.config.cluster.upstream.zero_or_max.contains(id),
            });
        }
    }
    ctx.working_on(Part::Whole);
    ctx.start_over();
    leave_out_starting(ctx, report);
    groups
}

/// Nodes that have registered and still count as on their way are seen as the template's copies only.
///
/// Source: static_autoscaler.go, RunOnce, upcomingRegisteredNodes.
fn leave_out_starting(ctx: &mut Context<'_>, report: &Report) {
    let groups = report.groups.values().filter(|group| 0 < group.upcoming);
    for name in groups.filter_map(|group| group.readiness.as_ref()).flat_map(|told| &told.not_started) {
        if let Some(ix) = ctx.snapshot.named(name) {
            ctx.snapshot.set_presence(ix, Presence::Gone);
        }
    }
}

fn make(ctx: &mut Context<'_>, seen: &Seen, pool: &Pool, group: &Arc<str>) -> Option<Arc<TemplateNode>> {
    let members = members(ctx.world, seen, group);
    let good = members.iter().find(|(id, ready)| *ready && is_good(ctx, *id)).map(|(id, _)| *id);
    if let Some(node) = good {
        return from_node(ctx, node);
    }
    if let Some(declared) = &pool.template {
        let options = &ctx.config.cluster.upstream;
        let node = Node {
            labels: declared.labels.clone(),
            taints: declared.taints.iter().filter(|taint| lasts(&taint.key, options)).cloned().collect(),
            allocatable: declared.allocatable.clone(),
            capacity: declared.capacity.clone(),
            ..Node::default()
        };
        let daemons = daemon_sets(ctx, &node, |_| true);
        return Some(with_pods(ctx, node, daemons));
    }
    members.first().and_then(|(id, _)| from_node(ctx, *id))
}

/// The nodes of a group in order of their names, with whether they are ready.
fn members(world: &World, seen: &Seen, group: &str) -> Vec<(NodeId, bool)> {
    let Some(told) = seen.groups.get(group) else { return Vec::new() };
    world
        .nodes()
        .zip(&seen.nodes)
        .filter(|(_, node)| told.instances.contains_key(&node.instance))
        .map(|((id, _, _), node)| (id, node.condition == NodeCondition::Ready))
        .collect()
}

/// Whether a ready node is one to go by: ready for a while, not cordoned, not on its way out.
fn is_good(ctx: &Context<'_>, id: NodeId) -> bool {
    ctx.world.node(id).node.as_ref().is_some_and(|node| {
        let leaving = node.taints.iter().any(|taint| &*taint.key == DELETION_TAINT);
        node.ready_changed_at.plus(STABLE_AFTER) < ctx.now && !node.unschedulable && !leaving
    })
}

fn lasts(key: &str, options: &UpstreamOptions) -> bool {
    key != DELETION_TAINT
        && key != CANDIDATE_TAINT
        && !PASSING_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        && !options.startup_taints.iter().chain(&options.status_taints).any(|other| &**other == key)
}

/// A node as its own template: with the DaemonSet and mirror pods that run there, and no others.
fn from_node(ctx: &mut Context<'_>, id: NodeId) -> Option<Arc<TemplateNode>> {
    let entry = ctx.world.node(id);
    let real = entry.node.as_ref()?;
    let options = &ctx.config.cluster.upstream;
    let mut labels = real.labels.clone();
    labels.remove(HOSTNAME_LABEL);
    labels.insert(TEMPLATE_LABEL, "true");
    let node = Node {
        labels,
        taints: real.taints.iter().filter(|taint| lasts(&taint.key, options)).cloned().collect(),
        allocatable: real.allocatable.clone(),
        capacity: real.capacity.clone(),
        ..Node::default()
    };
    let mut pods = Vec::new();
    let mut running: Vec<Arc<str>> = Vec::new();
    for pod in entry.pods.iter().map(|id| ctx.world.pod(*id)) {
        if pod.pod.phase.finished() || !(pod.pod.class.daemon_set || pod.pod.class.mirror) {
            continue;
        }
        pods.push(ClassIx(pod.class.0));
        running.extend(pod.pod.owner.as_ref().map(|owner| owner.uid.clone()));
    }
    let force = options.force_daemon_sets;
    let missing = daemon_sets(ctx, &node, |set| {
        !running.contains(&set.uid) && (force || NODE_CRITICAL <= set.class.priority)
    });
    pods.extend(missing);
    Some(with_pods(ctx, node, pods))
}

/// The DaemonSets that run on such a node, whether or not there is room. Source: utils/daemonset/daemonset.go.
fn daemon_sets(
    ctx: &mut Context<'_>,
    node: &Node,
    wanted: impl Fn(&crate::world::workload::DaemonSet) -> bool,
) -> Vec<ClassIx> {
    let mark = ctx.snapshot.checkpoint();
    let bare = Arc::new(TemplateNode { node: node.clone(), ..TemplateNode::default() });
    let trial = ctx.snapshot.add_node(&bare, "template".into());
    let mut pods = Vec::new();
    for set in ctx.world.daemon_sets().filter(|set| wanted(set)) {
        let placing = PodClass {
            namespace: set.class.namespace.clone(),
            node_selector: set.class.node_selector.clone(),
            node_affinity: set.class.node_affinity.clone(),
            tolerations: set.class.tolerations.clone(),
            ..PodClass::default()
        };
        let placing = ctx.snapshot.class_ix(&Arc::new(placing));
        if ctx.snapshot.fits(placing, trial) {
            pods.push(ctx.snapshot.class_ix(&set.class));
        }
    }
    ctx.snapshot.rollback(mark);
    pods
}

fn with_pods(ctx: &Context<'_>, node: Node, pods: Vec<ClassIx>) -> Arc<TemplateNode> {
    let mut daemon_requested = Resources::default();
    pods.iter().for_each(|class| daemon_requested.add(&ctx.snapshot.class(*class).requests));
    Arc::new(TemplateNode { node, daemon_pods: pods, daemon_requested, ..TemplateNode::default() })
}
