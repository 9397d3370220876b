//! NodeResourcesFit: a pod's requests against what a node has left. Nothing but amounts.

use headroom_values::resources::{Resources, Shortfall};

/// True if `asked` fits beside `requested` within `allocatable`.
///
/// A request of zero fits always, even on an overcommitted node.
/// Source: kube-scheduler, noderesources/fit.go, fitsRequest.
#[must_use]
pub fn fits(asked: &Resources, requested: &Resources, allocatable: &Resources) -> bool {
    let fits = |asked: i64, requested: i64, allocatable: i64| {
        asked <= 0 || asked <= allocatable.saturating_sub(requested)
    };
    fits(asked.cpu_milli, requested.cpu_milli, allocatable.cpu_milli)
        && fits(asked.memory_bytes, requested.memory_bytes, allocatable.memory_bytes)
        && fits(asked.pods, requested.pods, allocatable.pods)
        && fits(asked.ephemeral_bytes, requested.ephemeral_bytes, allocatable.ephemeral_bytes)
        && asked
            .extended_iter()
            .all(|(name, amount)| fits(amount, requested.extended(name), allocatable.extended(name)))
}

/// The first resource that is short; `None` exactly when [`fits`].
#[must_use]
pub fn shortfall(asked: &Resources, requested: &Resources, allocatable: &Resources) -> Option<Shortfall> {
    if fits(asked, requested, allocatable) {
        return None;
    }
    let mut free = allocatable.clone();
    free.subtract(requested);
    asked.shortfall(&free)
}
