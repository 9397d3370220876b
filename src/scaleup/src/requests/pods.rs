//! The pods of requests: their classes from templates, and which real pods have taken their places. It places none.

use std::sync::Arc;

use crate::context::Context;
use headroom_cluster::scheduling::ClassIx;
use headroom_cluster::world::World;
use headroom_cluster::world::buffer::Template;
use headroom_cluster::world::pod::{Pod, PodClass};
use headroom_cluster::world::request::ProvisioningRequest;

/// The class of pods made from a template. The API server fills their priority in.
#[must_use]
pub fn class_of(template: &Template, world: &World) -> Arc<PodClass> {
    let priority = world.priority_of(&template.priority_class, &template.class);
    if priority == template.class.priority && !template.class.daemon_set {
        return template.class.clone();
    }
    Arc::new(PodClass { priority, daemon_set: false, ..PodClass::clone(&template.class) })
}

/// Takes those places out of the sets that real pods have: bound ones, and those that are demand of this plan. How many.
pub(super) fn consume(
    ctx: &Context<'_>,
    request: &ProvisioningRequest,
    sets: &mut [(ClassIx, Arc<PodClass>, u32)],
) -> u32 {
    let mut taken = 0;
    for pod in bound(ctx.world, request) {
        taken += u32::from(take(sets, &pod.class));
    }
    for group in &ctx.demand.groups {
        let class = ctx.snapshot.class(group.class).clone();
        if names(&class, request) {
            (0..group.pods_count).for_each(|_| taken += u32::from(take(sets, &class)));
        }
    }
    taken
}

/// Pods of the request that have a node.
pub(super) fn bound_count(world: &World, request: &ProvisioningRequest) -> u32 {
    u32::try_from(bound(world, request).count()).unwrap_or(u32::MAX)
}

/// A request of the same name that was made later has nothing to do with a pod.
fn bound<'w>(world: &'w World, request: &'w ProvisioningRequest) -> impl Iterator<Item = &'w Pod> {
    let pods = world.pods().map(|entry| &entry.pod);
    pods.filter(|pod| {
        pod.node.is_some() && names(&pod.class, request) && request.created_at <= pod.created_at
    })
}

fn names(class: &PodClass, request: &ProvisioningRequest) -> bool {
    class.namespace == request.key.namespace
        && class.request.as_ref().is_some_and(|named| *named.name == *request.key.name)
}

/// One place less: in the set of equal needs, or else in the first that has any.
fn take(sets: &mut [(ClassIx, Arc<PodClass>, u32)], class: &PodClass) -> bool {
    let equal = sets.iter().position(|(_, own, left)| 0 < *left && own.requests == class.requests);
    let Some(at) = equal.or_else(|| sets.iter().position(|(_, _, left)| 0 < *left)) else { return false };
    sets[at].2 -= 1;
    true
}
