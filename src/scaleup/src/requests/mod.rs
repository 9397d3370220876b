//! ProvisioningRequests: room for all pods of a request at once, or none, and room that is held for a while. Requests come
//! after all pods and before buffers.

pub mod pods;
mod serve;
pub mod state;
pub mod status;

use std::cmp::Reverse;
use std::sync::Arc;

use crate::context::Context;
use headroom_cluster::scheduling::{ClassIx, Shares};
use headroom_cluster::world::pod::PodClass;
use headroom_cluster::world::request::ProvisioningRequest;
use headroom_pools::plan::{BufferFault, RequestAnswer, RequestVerdict};
use headroom_pools::quarantine::Part;
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;

use serve::Stage;
use state::{Service, State};

/// A request in the making.
pub(super) struct PendingRequest<'w> {
    request: &'w ProvisioningRequest,
    service: Service,
    state: State,
    /// Classes of its sets, with how many pods of each want room.
    sets: Vec<(ClassIx, Arc<PodClass>, u32)>,
    priority: i32,
    verdict: RequestVerdict,
}

/// Finds room for each request, and buys nodes for those that ask for it and are stored as taken.
pub fn serve(ctx: &mut Context<'_>) {
    let mut pending = pending(ctx);
    if pending.is_empty() {
        return;
    }
    let namespaces: std::collections::BTreeSet<Arc<str>> =
        pending.iter().map(|unmet| unmet.verdict.namespace.clone()).collect();
    let shares = Shares::new(ctx.config.cluster.max_work_units, namespaces.len());
    let shares = std::mem::replace(&mut ctx.snapshot.shares, shares);
    let demand = std::mem::take(&mut ctx.demand);
    ctx.snapshot.shares.begin_search(ctx.snapshot.work_units);
    let mut stage = Stage::new(ctx);
    for unmet in &mut pending {
        stage.serve(ctx, unmet);
    }
    ctx.working_on(Part::Whole);
    ctx.demand = demand;
    ctx.snapshot.shares = shares;
    ctx.reasons.requests = pending.into_iter().map(|unmet| unmet.verdict).collect();
}

/// The requests that are served, in order: those whose room is held by age, then the others by priority, age and name.
fn pending<'w>(ctx: &mut Context<'w>) -> Vec<PendingRequest<'w>> {
    let world = ctx.world;
    let mut pending = Vec::new();
    for request in world.requests().objects.values().filter(|request| !request.deleting) {
        let Some(service) = state::served(request, ctx.config) else { continue };
        let state = state::state(request, ctx.config, ctx.now);
        let of_others = world.requests().of_others.contains(&request.key);
        if matches!(state, State::Ended | State::Foreign) || of_others {
            continue;
        }
        pending.push(pending_request(ctx, request, service, state));
    }
    pending.sort_by_key(|unmet| {
        let booked_at = match unmet.state {
            State::Booked(_) => unmet.request.status.since(state::PROVISIONED),
            State::New | State::Open | State::Ended | State::Foreign => None,
        };
        (booked_at.is_none(), booked_at, Reverse(unmet.priority), unmet.request.created_at)
    });
    pending
}

fn pending_request<'w>(
    ctx: &mut Context<'w>,
    request: &'w ProvisioningRequest,
    service: Service,
    state: State,
) -> PendingRequest<'w> {
    let mut verdict = RequestVerdict::of(&request.key);
    verdict.buys = service == Service::Atomic;
    verdict.is_booked = matches!(state, State::Booked(_));
    verdict.until = match state {
        State::Booked(until) => until,
        State::New | State::Open | State::Ended | State::Foreign => state::valid_until(request),
    };
    ctx.wake.note(verdict.until);
    verdict.wrong_parameters = state::parameters(request).wrong;
    let mut unmet = PendingRequest { request, service, state, sets: Vec::new(), priority: i32::MIN, verdict };
    match unmet.resolve(ctx) {
        Ok(()) => {}
        Err((answer, fault)) => {
            unmet.sets.clear();
            unmet.verdict.answer = answer;
            unmet.verdict.fault = Some(fault);
        }
    }
    unmet
}

impl PendingRequest<'_> {
    /// Finds the classes of its pods, and how many of each have no pod yet; why it ends or waits otherwise.
    fn resolve(&mut self, ctx: &mut Context<'_>) -> Result<(), (RequestAnswer, BufferFault)> {
        let booked = matches!(self.state, State::Booked(_));
        if let State::Booked(until) = self.state
            && until <= ctx.now
        {
            let message = format!("the room was held until {until}");
            return Err(expired(Reason::CapacityReservationTimeExpired, message));
        }
        if !booked && let Some(fault) = state::barrier(self.request, ctx.now) {
            return Err((RequestAnswer::Failed, fault));
        }
        let mut sets = Vec::new();
        for set in &self.request.pod_sets {
            let key =
                headroom_values::labels::ObjectKey::new(self.request.key.namespace.clone(), &*set.template);
            let Some(template) = ctx.world.standby().templates.get(&key) else {
                return Err(self.without_template(ctx, &set.template));
            };
            let class = pods::class_of(template, ctx.world);
            self.priority = self.priority.max(class.priority);
            sets.push((ctx.snapshot.class_ix(&class), class, set.count));
            self.verdict.pods_count = self.verdict.pods_count.saturating_add(set.count);
        }
        let cutoff = ctx.config.cluster.expendable_pods_priority_cutoff;
        if !booked && self.priority < cutoff {
            let message = format!(
                "its pods have priority {}, below nodes.expendablePodsPriorityCutoff ({cutoff}): the scheduler gives their \
                 room to any other pod",
                self.priority
            );
            return Err((RequestAnswer::Waits, BufferFault::new(Reason::BelowPriorityCutoff, message)));
        }
        if booked {
            self.verdict.consumed_count = pods::consume(ctx, self.request, &mut sets);
            if pods::bound_count(ctx.world, self.request) >= self.verdict.pods_count {
                let message = format!("all {} pods have a node", self.verdict.pods_count);
                return Err(expired(Reason::CapacityBookingConsumed, message));
            }
        }
        self.sets = sets;
        Ok(())
    }

    fn without_template(&self, ctx: &mut Context<'_>, name: &str) -> (RequestAnswer, BufferFault) {
        let namespace = &self.request.key.namespace;
        let message =
            format!("namespace {namespace} has no PodTemplate {name}: create it, or make the request anew");
        let due = self.request.created_at.plus(state::TEMPLATE_PATIENCE);
        match self.state {
            State::Booked(_) => expired(Reason::CapacityReservationTimeExpired, message),
            _ if due <= ctx.now => {
                (RequestAnswer::Failed, BufferFault::new(Reason::FailedToCreatePods, message))
            }
            _ => {
                ctx.wake.note(due);
                (RequestAnswer::Waits, BufferFault::new(Reason::PodTemplateMissing, message))
            }
        }
    }
}

fn expired(reason: Reason, message: String) -> (RequestAnswer, BufferFault) {
    (RequestAnswer::Expired, BufferFault::new(reason, message))
}

/// Reason why a pod that names a request does not count as demand of its own; `None` if it does.
#[must_use]
pub fn holds_back(
    world: &headroom_cluster::world::World,
    config: &headroom_pools::config::Config,
    pod: &headroom_cluster::world::pod::Pod,
    now: UnixTime,
) -> Option<Reason> {
    let named = pod.class.request.as_ref()?;
    let key = headroom_values::labels::ObjectKey::new(pod.class.namespace.clone(), &*named.name);
    let object = world.requests().objects.get(&key).filter(|object| object.created_at <= pod.created_at);
    let service = match object {
        Some(object) => state::served(object, config),
        None => state::service(&named.class, &config.cluster.requests),
    };
    match (service, object.map(|object| state::state(object, config, now))) {
        (None, _) | (_, Some(State::Foreign)) => Some(Reason::ConsumesForeignRequest),
        (Some(Service::Check), _) => Some(Reason::RequestBuysNothing),
        (Some(Service::Atomic), Some(State::New | State::Open)) => Some(Reason::WaitsForRequest),
        (Some(Service::Atomic), None | Some(State::Booked(_) | State::Ended)) => None,
    }
}
