//! More pods than a size asks for, as while a rollout surges or a canary runs beside the stable version: by themselves they change
//! no size. The controller-manager has no such rule, so it holds only where pods are counted by their owner.
//!
//! Which part of a load the pods beyond the size carry is not known: traffic is shared by all of them, memory is not. So the size
//! shrinks only where it would do so in both cases, and never grows while the pods are below their target.

use crate::replica_calculator::Surroundings;

/// True if a metric below its target says nothing against the size: `counted` pods are more than it asks for, and their load, borne
/// by as many as it asks for, would not be below the target. `ratio` is that of value to target over the counted pods.
pub(super) fn keeps_size(around: &Surroundings<'_>, ratio: f64, counted: f64) -> bool {
    let size = f64::from(around.spec_replicas);
    around.options.steady_in_rollouts
        && ratio < 1.0
        && size < counted
        && !around.tolerance.is_below(ratio * counted / size)
}

/// Number of replicas that share a total: those that are asked for, and in the reference those that there are.
pub(super) fn sharing(around: &Surroundings<'_>) -> i32 {
    if around.options.steady_in_rollouts { around.spec_replicas } else { around.status_replicas }
}

/// Number of ready pods by which the ratio of one value for the whole workload is multiplied: no more than are asked for.
pub(super) fn scaled(around: &Surroundings<'_>, ready: f64) -> f64 {
    if around.options.steady_in_rollouts { ready.min(f64::from(around.spec_replicas)) } else { ready }
}
