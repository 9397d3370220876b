//! Room that CapacityBuffers keep free: the last demand of a plan, placed anew each time. No pod is made for it.

mod live;
pub(crate) mod quotas;
mod size;
pub mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::context::{Context, StandbyLeft};
use crate::demand::PodGroup;
use crate::explain;
use crate::placement::{self, Starts};
use headroom_cluster::history::EXAMPLES_MAX;
use headroom_cluster::scheduling::{NodeIx, PodRef, Shares};
use headroom_cluster::world::buffer::{CapacityBuffer, DEFAULT_STRATEGY, OWN_STRATEGY};
use headroom_cluster::world::node::{Node, REMOVE_ANNOTATION, Readiness};
use headroom_pools::config::{Config, Mode};
use headroom_pools::plan::BufferFault;
use headroom_pools::quarantine::Part;
use headroom_values::reason::Reason;

use size::BufferRequest;

/// Most standby pods for which one plan keeps room. What is anticipated has the same bounds, and a tenant who may create
/// buffers has no other.
pub const STANDBY_PODS_MAX: u32 = 5_000;
/// Most of them in one namespace.
pub const STANDBY_PODS_PER_NAMESPACE_MAX: u32 = 2_000;
/// Most buffers without room whose pools are asked one by one why.
const EXPLAINED_MAX: usize = 100;

/// True if the buffer's strategy asks for this operator.
#[must_use]
pub fn is_ours(buffer: &CapacityBuffer, config: &Config) -> bool {
    &*buffer.strategy == OWN_STRATEGY
        || config.cluster.default_buffers && &*buffer.strategy == DEFAULT_STRATEGY
}

/// Finds room for each buffer on what real pods leave, and buys nodes for the rest.
///
/// It comes after everything for real pods and takes nothing back from them. The snapshot ends with the standby pods in
/// their places, so that no removal takes their room. Buffers come in order of priority, age and name, each as the next
/// plan will place it.
pub fn serve(ctx: &mut Context<'_>) {
    let mut requests = size::requests(ctx.world, ctx.config);
    if requests.is_empty() {
        return;
    }
    let namespaces: std::collections::BTreeSet<&Arc<str>> =
        requests.iter().map(|request| &request.verdict.namespace).collect();
    let shares = Shares::new(ctx.config.cluster.max_work_units, namespaces.len());
    let shares = std::mem::replace(&mut ctx.snapshot.shares, shares);
    let demand = std::mem::take(&mut ctx.demand);
    ctx.snapshot.shares.begin_search(ctx.snapshot.work_units);
    let mut stage = Stage::new(ctx);
    for request in &mut requests {
        stage.serve(ctx, request);
    }
    ctx.working_on(Part::Whole);
    ctx.demand = demand;
    ctx.snapshot.shares = shares;
    ctx.standby_left.extend(stage.left);
    note(ctx, &mut requests);
    ctx.reasons.buffers = requests.into_iter().map(|request| request.verdict).collect();
}

/// Plans Preview pools for what Apply pools left; the caller takes it back.
pub fn serve_preview(ctx: &mut Context<'_>) {
    for left in std::mem::take(&mut ctx.standby_left).into_iter().filter(|left| left.buys) {
        ctx.demand.groups = vec![left.group];
        crate::serve(ctx, Mode::Preview);
    }
    let standby: Vec<_> = ctx
        .planned
        .iter()
        .filter(|planned| planned.bought)
        .map(|planned| {
            let pods = ctx.snapshot.pods(planned.node).filter(|pod| matches!(pod, PodRef::Standby(_)));
            ((planned.pool.clone(), planned.group.clone()), count(pods.count()))
        })
        .collect();
    for (key, pods) in standby {
        if let Some(purchase) = ctx.purchases.get_mut(&key) {
            purchase.standby += pods;
        }
    }
}

/// The work on one buffer after the other.
struct Stage {
    /// Nodes in the order in which they are tried: those that are there, those on their way, those bought for buffers.
    order: Vec<NodeIx>,
    starts: Starts,
    left: Vec<StandbyLeft>,
    left_count: u32,
    left_of: BTreeMap<Arc<str>, u32>,
    explained: usize,
}

impl Stage {
    fn new(ctx: &Context<'_>) -> Self {
        let takes = |node: &NodeIx| match ctx.snapshot.node(*node).real() {
            Some((_, real)) => ctx.is_coming(*node) || is_open(real),
            None => true,
        };
        let all = ctx.snapshot.indexes().filter(takes);
        let (coming, there): (Vec<NodeIx>, Vec<NodeIx>) = all.partition(|node| ctx.is_coming(*node));
        Self {
            order: there.into_iter().chain(coming).collect(),
            starts: Starts::new(),
            left: Vec::new(),
            left_count: STANDBY_PODS_MAX,
            left_of: BTreeMap::new(),
            explained: 0,
        }
    }

    /// Finds room for one buffer, or reports why there is none.
    fn serve(&mut self, ctx: &mut Context<'_>, request: &mut BufferRequest) {
        let Some(class) = request.class.clone() else { return };
        let pods_count = self.allowed(request);
        let class_ix = ctx.snapshot.class_ix(&class);
        let object = format!("capacitybuffer/{}/{}", request.verdict.namespace, request.verdict.name);
        let pod = ctx.snapshot.add_standby(class_ix, object.into());
        request.pod = Some(pod);
        if ctx.quarantined(class_ix) {
            request.verdict.unplaced_count = request.verdict.wanted_count;
            request.verdict.fault =
                Some(BufferFault::new(Reason::Internal, "set aside for this plan after a bug"));
            return;
        }
        ctx.working_on(Part::Class(class.clone()));
        let mut group = PodGroup::standby(class_ix, &class, request.key(), vec![pod; pods_count as usize]);
        placement::place_in_order(&mut ctx.snapshot, &mut group, &self.order, &mut self.starts);
        if !group.pods.is_empty() {
            group = self.buy(ctx, request, group);
        }
        request.verdict.unplaced_count += group.unplaced();
        if !group.pods.is_empty() {
            self.left.push(StandbyLeft { group, buys: true });
        }
    }

    /// Returns how many of its pods the limits allow.
    fn allowed(&mut self, request: &mut BufferRequest) -> u32 {
        let wanted = request.verdict.wanted_count;
        let here =
            self.left_of.entry(request.verdict.namespace.clone()).or_insert(STANDBY_PODS_PER_NAMESPACE_MAX);
        let allowed = wanted.min(self.left_count).min(*here);
        *here -= allowed;
        self.left_count -= allowed;
        if allowed < wanted {
            let message = format!(
                "room is kept for {STANDBY_PODS_PER_NAMESPACE_MAX} standby pods of a namespace and \
                 {STANDBY_PODS_MAX} in all; {} are over it",
                wanted - allowed
            );
            request.verdict.fault = Some(BufferFault::new(Reason::BufferLimitReached, message));
            request.verdict.unplaced_count = wanted - allowed;
        }
        allowed
    }

    /// Buys nodes for the pods of one buffer that have no place; what is still without one is explained.
    fn buy(&mut self, ctx: &mut Context<'_>, request: &mut BufferRequest, group: PodGroup) -> PodGroup {
        let known = ctx.planned.len();
        ctx.demand.groups = vec![group];
        crate::serve(ctx, Mode::Apply);
        self.order.extend(ctx.planned[known..].iter().map(|planned| planned.node));
        let unplaced = ctx.demand.groups.first().map_or(0, PodGroup::unplaced);
        let class = ctx.demand.groups.first().map(|group| group.class);
        if class.is_some_and(|class| ctx.snapshot.shares.is_cut(class)) && unplaced != 0 {
            let message = "a plan has only so much time for the buffers of a namespace; the next one goes on";
            request.verdict.fault = Some(BufferFault::new(Reason::WorkLimitReached, message));
        } else if let Some(reason) = ctx.expander.reason_of(class).filter(|_| unplaced != 0) {
            request.verdict.fault = Some(BufferFault::new(reason, reason.doc()));
        } else if unplaced != 0 && self.explained < EXPLAINED_MAX {
            self.explained += 1;
            request.verdict.pools = explain::answers(ctx).remove(&0).unwrap_or_default();
        }
        ctx.demand.groups.pop().unwrap_or_else(|| unreachable!("one group was put in, and none is taken out"))
    }
}

/// True if standby pods may rely on a node that is there: it is ready, and nobody asks for its removal.
pub(crate) fn is_open(node: &Node) -> bool {
    node.ready == Readiness::Ready && node.annotations.get(REMOVE_ANNOTATION) != Some("requested")
}

/// Notes where the pods of each buffer stand, and what is bought for them.
fn note(ctx: &mut Context<'_>, requests: &mut [BufferRequest]) {
    let planned: BTreeMap<NodeIx, (Arc<str>, Arc<str>, bool)> = ctx
        .planned
        .iter()
        .map(|planned| (planned.node, (planned.pool.clone(), planned.group.clone(), planned.bought)))
        .collect();
    let owners: BTreeMap<PodRef, usize> =
        requests.iter().enumerate().filter_map(|(index, request)| Some((request.pod?, index))).collect();
    let mut bought: BTreeMap<(Arc<str>, Arc<str>), BTreeMap<usize, u32>> = BTreeMap::new();
    for node in ctx.snapshot.changed() {
        let view = ctx.snapshot.node(node);
        for pod in ctx.snapshot.pods(node) {
            let Some(index) = owners.get(&pod).copied() else { continue };
            let verdict = &mut requests[index].verdict;
            match view.real() {
                Some(_) if !ctx.is_coming(node) => {
                    verdict.ready_count += 1;
                    let name = view.name();
                    if verdict.nodes.last() != Some(name) && verdict.nodes.len() < EXAMPLES_MAX {
                        verdict.nodes.push(name.clone());
                    }
                }
                Some((id, _)) => {
                    let pool = ctx.cluster.member(id).map(|member| member.pool.clone());
                    *verdict.on_new.entry(pool.unwrap_or_default()).or_insert(0) += 1;
                }
                None => {
                    let Some((pool, group, is_bought)) = planned.get(&node) else { continue };
                    *verdict.on_new.entry(pool.clone()).or_insert(0) += 1;
                    if *is_bought {
                        let key = (pool.clone(), group.clone());
                        *bought.entry(key).or_default().entry(index).or_insert(0) += 1;
                    }
                }
            }
        }
    }
    for (key, counts) in bought {
        let Some(purchase) = ctx.purchases.get_mut(&key) else { continue };
        purchase.standby = counts.values().sum();
        let most = counts.into_iter().max_by_key(|(index, count)| (*count, std::cmp::Reverse(*index)));
        purchase.standby_of = most.map(|(index, _)| requests[index].key().to_string().into());
    }
}

fn count(pods: usize) -> u32 {
    u32::try_from(pods).unwrap_or(u32::MAX)
}
