//! Places for requests: on ready nodes, on those on their way, then on new ones. What a request cannot have whole is taken back.

use std::cmp::Reverse;
use std::sync::Arc;

use super::PendingRequest;
use super::state::{self, Service, State};
use crate::context::{Context, Purchases, StandbyLeft};
use crate::demand::{self, Demand, PodGroup};
use crate::placement::{self, Starts};
use crate::{buffers, explain};
use headroom_cluster::scheduling::{ClassIx, Mark, NodeIx};
use headroom_pools::config::Mode;
use headroom_pools::plan::{BufferFault, RequestAnswer};
use headroom_pools::quarantine::Part;
use headroom_values::reason::Reason;
use headroom_values::resources::Resources;

/// Most requests without room whose pools are asked one by one why.
const EXPLAINED_MAX: usize = 100;

/// The work on one request after the other.
pub(super) struct Stage {
    ready: Nodes,
    coming: Nodes,
    explained: usize,
}

/// Nodes in the order in which they are tried.
#[derive(Clone, Default)]
struct Nodes {
    order: Vec<NodeIx>,
    starts: Starts,
}

/// Result of a request.
enum Found {
    /// All pods have room on ready nodes.
    Ready,
    /// All have room, some of it on nodes that are on their way; so many more nodes were bought for it.
    Coming(u32),
    /// So many have none.
    Short(u32),
}

impl Stage {
    pub(super) fn new(ctx: &Context<'_>) -> Self {
        let takes = |node: &NodeIx| match ctx.snapshot.node(*node).real() {
            Some((_, real)) => ctx.is_coming(*node) || buffers::is_open(real),
            None => true,
        };
        let all = ctx.snapshot.indexes().filter(takes);
        let (coming, ready): (Vec<NodeIx>, Vec<NodeIx>) = all.partition(|node| ctx.is_coming(*node));
        let nodes = |order| Nodes { order, starts: Starts::new() };
        Self { ready: nodes(ready), coming: nodes(coming), explained: 0 }
    }

    /// Finds room for one request, or reports why there is none.
    pub(super) fn serve(&mut self, ctx: &mut Context<'_>, unmet: &mut PendingRequest<'_>) {
        if unmet.sets.is_empty() {
            return;
        }
        if unmet.sets.iter().any(|(class, _, _)| ctx.quarantined(*class)) {
            unmet.verdict.fault =
                Some(BufferFault::new(Reason::Internal, "set aside for this plan after a bug"));
            return;
        }
        if let Some((_, class, _)) = unmet.sets.first() {
            ctx.working_on(Part::Class(class.clone()));
        }
        let groups = groups(ctx, unmet);
        if let State::Booked(_) = unmet.state {
            return self.hold(ctx, unmet, groups);
        }
        let begin = Begin::of(ctx, self);
        // Before the request is stored as taken, nothing is bought for it.
        let may_buy = unmet.service == Service::Atomic && unmet.state == State::Open;
        ctx.expander.is_muted = !may_buy;
        let found = self.find(ctx, unmet, groups.clone());
        ctx.expander.is_muted = false;
        let waits = ctx.expander.reason_of(groups.iter().map(|group| group.class));
        match found {
            Found::Short(_) if let Some(reason) = waits => {
                begin.take_back(ctx, self);
                ctx.demand.groups.clear();
                unmet.verdict.answer = RequestAnswer::Waits;
                unmet.verdict.fault = Some(BufferFault::new(reason, reason.doc()));
            }
            Found::Ready => unmet.verdict.answer = RequestAnswer::Granted,
            Found::Coming(0) => unmet.wait("its pods have room, some of it on nodes that are on their way"),
            Found::Coming(nodes) if may_buy => {
                begin.book(ctx, unmet);
                unmet.wait(&format!("+{nodes} {} for it", plural(nodes)));
            }
            Found::Coming(nodes) if unmet.service == Service::Atomic => {
                begin.take_back(ctx, self);
                unmet.wait(&format!("+{nodes} {} for it, once it is stored as accepted", plural(nodes)));
            }
            Found::Coming(nodes) => {
                begin.take_back(ctx, self);
                let message = format!(
                    "{} of {} pods have no room on ready nodes; {nodes} new {} would have it, and this class buys none",
                    unmet.verdict.pods_count.saturating_sub(unmet.verdict.ready_count),
                    unmet.verdict.pods_count,
                    plural(nodes)
                );
                unmet.refuse(&message);
            }
            Found::Short(short) => {
                self.explain(ctx, unmet);
                begin.take_back(ctx, self);
                let message = format!(
                    "{short} of {} pods have no room, so nothing is bought",
                    unmet.verdict.pods_count
                );
                unmet.refuse(&message);
                let pods = groups.iter().map(|group| group.pods_count).sum();
                ctx.gangs_left.push((groups, pods));
            }
        }
    }

    /// Holds the room of a request that has been granted. Nodes are bought for what was lost, where the class buys any.
    fn hold(&mut self, ctx: &mut Context<'_>, unmet: &mut PendingRequest<'_>, mut groups: Vec<PodGroup>) {
        let begin = Begin::of(ctx, self);
        unmet.verdict.ready_count = place(ctx, &mut groups, &mut self.ready);
        unmet.verdict.coming_count = place(ctx, &mut groups, &mut self.coming);
        if unmet.service == Service::Atomic && short(&groups) != 0 {
            groups = self.buy(ctx, groups);
            begin.book(ctx, unmet);
        }
        unmet.verdict.unplaced_count = short(&groups);
        unmet.verdict.answer = RequestAnswer::Granted;
        let buys = unmet.service == Service::Atomic;
        let left = groups.into_iter().filter(|group| !group.pods.is_empty());
        ctx.standby_left.extend(left.map(|group| StandbyLeft { group, buys }));
    }

    fn find(
        &mut self,
        ctx: &mut Context<'_>,
        unmet: &mut PendingRequest<'_>,
        mut groups: Vec<PodGroup>,
    ) -> Found {
        unmet.verdict.ready_count = place(ctx, &mut groups, &mut self.ready);
        if short(&groups) == 0 {
            return Found::Ready;
        }
        unmet.verdict.coming_count = place(ctx, &mut groups, &mut self.coming);
        if short(&groups) == 0 {
            return Found::Coming(0);
        }
        let before = ctx.purchased_total();
        groups = self.buy(ctx, groups);
        match short(&groups) {
            0 => Found::Coming(ctx.purchased_total().saturating_sub(before)),
            short => {
                ctx.demand.groups = groups;
                Found::Short(short)
            }
        }
    }

    fn buy(&mut self, ctx: &mut Context<'_>, groups: Vec<PodGroup>) -> Vec<PodGroup> {
        let known = ctx.planned.len();
        ctx.demand = Demand { groups, ..Demand::default() };
        crate::serve(ctx, Mode::Apply);
        self.coming.order.extend(ctx.planned[known..].iter().map(|planned| planned.node));
        std::mem::take(&mut ctx.demand.groups)
    }

    /// Asks the pools about the pods without room, while the others have their places.
    fn explain(&mut self, ctx: &mut Context<'_>, unmet: &mut PendingRequest<'_>) {
        let groups = std::mem::take(&mut ctx.demand.groups);
        unmet.verdict.unplaced_count = short(&groups);
        let Some(group) = groups.into_iter().find(|group| !group.pods.is_empty()) else { return };
        if self.explained < EXPLAINED_MAX {
            self.explained += 1;
            ctx.demand.groups = vec![group];
            unmet.verdict.pools = explain::answers(ctx).remove(&0).unwrap_or_default();
            ctx.demand.groups.clear();
        }
    }
}

impl PendingRequest<'_> {
    fn wait(&mut self, message: &str) {
        self.verdict.answer = RequestAnswer::Waits;
        self.verdict.fault = Some(BufferFault::new(Reason::WaitingForNodes, message));
    }

    /// Refuses for lack of room: the request waits, or fails where it asks for one answer only.
    fn refuse(&mut self, message: &str) {
        let no_retry = state::parameters(self.request).no_retry && self.state != State::New;
        self.verdict.answer = if no_retry { RequestAnswer::Failed } else { RequestAnswer::Waits };
        self.verdict.on_new.clear();
        self.verdict.fault = Some(BufferFault::new(Reason::CapacityIsNotFound, message));
    }
}

/// The groups of pods of a request: those that fewest groups of nodes take first, then the largest.
fn groups(ctx: &mut Context<'_>, unmet: &PendingRequest<'_>) -> Vec<PodGroup> {
    let mut groups: Vec<(usize, i64, PodGroup)> = Vec::new();
    for (class, pods, count) in unmet.sets.iter().filter(|(_, _, count)| *count != 0) {
        let pod =
            ctx.snapshot.add_standby(*class, format!("provisioningrequest/{}", unmet.request.key).into());
        let standby = vec![pod; *count as usize];
        let group = PodGroup::standby(*class, pods, unmet.request.key.clone(), standby);
        groups.push((choices(ctx, *class), demand::weight(pods), group));
    }
    groups.sort_by_key(|(choices, weight, _)| (*choices, Reverse(*weight)));
    groups.into_iter().map(|(_, _, group)| group).collect()
}

/// Returns how many groups of nodes take a pod of this class.
fn choices(ctx: &mut Context<'_>, class: ClassIx) -> usize {
    let pools = ctx.cluster.pools.iter();
    let all: Vec<(Arc<str>, Arc<str>)> = pools
        .flat_map(|(pool, state)| state.groups.keys().map(move |group| (pool.clone(), group.clone())))
        .collect();
    let mut count = 0;
    for (pool, group) in all {
        let Some(template) = ctx.template(&pool, &group) else { continue };
        let mark = ctx.snapshot.checkpoint();
        let trial = ctx.snapshot.add_node(&template, "trial".into());
        count += usize::from(ctx.snapshot.check(class, trial).is_ok());
        ctx.snapshot.rollback(mark);
    }
    count
}

/// Places what fits on these nodes; how many pods.
fn place(ctx: &mut Context<'_>, groups: &mut [PodGroup], nodes: &mut Nodes) -> u32 {
    let before = short(groups);
    for group in groups.iter_mut().filter(|group| !group.pods.is_empty()) {
        placement::place_in_order(&mut ctx.snapshot, group, &nodes.order, &mut nodes.starts);
    }
    before.saturating_sub(short(groups))
}

/// State of the plan before a request is served.
struct Begin {
    mark: Mark,
    purchases: Purchases,
    planned: usize,
    capacity: Resources,
    ready: Starts,
    coming: Nodes,
}

impl Begin {
    fn of(ctx: &Context<'_>, stage: &Stage) -> Self {
        Self {
            mark: ctx.snapshot.checkpoint(),
            purchases: ctx.purchases.clone(),
            planned: ctx.planned.len(),
            capacity: ctx.unseen_capacity.clone(),
            ready: stage.ready.starts.clone(),
            coming: stage.coming.clone(),
        }
    }

    /// Takes back all that was placed and bought since.
    fn take_back(self, ctx: &mut Context<'_>, stage: &mut Stage) {
        ctx.snapshot.rollback(self.mark);
        ctx.purchases = self.purchases;
        ctx.planned.truncate(self.planned);
        ctx.unseen_capacity = self.capacity;
        stage.ready.starts = self.ready;
        stage.coming = self.coming;
    }

    /// Books what was bought since on the request.
    fn book(&self, ctx: &mut Context<'_>, unmet: &mut PendingRequest<'_>) {
        for planned in &ctx.planned[self.planned..] {
            let daemons =
                ctx.snapshot.node(planned.node).template().map_or(0, |template| template.daemon_pods.len());
            let pods = ctx.snapshot.pods(planned.node).count().saturating_sub(daemons);
            let pods = u32::try_from(pods).unwrap_or(u32::MAX);
            *unmet.verdict.on_new.entry(planned.pool.clone()).or_insert(0) += pods;
            if let Some(purchase) = ctx.purchases.get_mut(&(planned.pool.clone(), planned.group.clone())) {
                purchase.requested = purchase.requested.saturating_add(pods);
                purchase.requested_by.get_or_insert_with(|| unmet.request.key.to_string().into());
            }
        }
    }
}

fn short(groups: &[PodGroup]) -> u32 {
    groups.iter().map(PodGroup::unplaced).sum()
}

fn plural(nodes: u32) -> &'static str {
    if nodes == 1 { "node" } else { "nodes" }
}
