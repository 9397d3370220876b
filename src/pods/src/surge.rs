//! One replica more while a node is drained: what it changes about a decision, and when a workload may have one. It knows
//! no node.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decide::decide as decide_alone;
use crate::decision::{Branch, Decision, Rescale, SurgeStep};
use crate::input::{Input, PodPhase, PodSeen, Scale};
use crate::memory::Memory;

/// Wish for one replica more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SurgeWish {
    /// None is wanted: one that is there is given back.
    #[default]
    None,
    /// One is wanted.
    One,
    /// Not known yet, just after a start: one that is there stays.
    Unknown,
}

impl SurgeWish {
    /// True if none is wanted.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// The size without a surge that is part of it. A size that somebody else has changed in the meantime has no surge in it.
#[must_use]
pub fn own_replicas(memory: &Memory, replicas: i32) -> i32 {
    memory.surged_from.filter(|from| from.checked_add(1) == Some(replicas)).unwrap_or(replicas)
}

/// Decides as [`crate::decide()`] does, on the size without a surge, and adds one replica if it is wanted and within the
/// bounds. So neither the windows nor the rates of the policy know of it.
#[must_use]
pub fn decide(input: &Input<'_>, wish: SurgeWish) -> Decision {
    let Ok(scale) = input.scale else { return decide_alone(input) };
    let current = scale.spec_replicas;
    let own = own_replicas(input.memory, current);
    let surged = own != current;
    if !surged && wish != SurgeWish::One && input.memory.surged_from.is_none() {
        return decide_alone(input);
    }
    let without =
        Scale { spec_replicas: own, status_replicas: scale.status_replicas.min(own), ..scale.clone() };
    let scale = if surged { &without } else { scale };
    let decision = decide_alone(&Input { scale: Ok(scale), ..*input });
    let wanted = wish == SurgeWish::One || (wish == SurgeWish::Unknown && surged);
    with_surge(decision, (current, own), wanted)
}

/// The decision on the size without a surge, `own`, becomes one on the size as it is, `current`.
fn with_surge(mut decision: Decision, (current, own): (i32, i32), wanted: bool) -> Decision {
    let change = decision.rescale.take();
    let desired = change.as_ref().map_or(own, |change| change.to);
    let fits = 0 < desired
        && desired < decision.steps.bounds.max
        && !matches!(decision.steps.branch, Branch::Disabled | Branch::Paused);
    let (before, after) = (own != current, wanted && fits);
    let size = if after { desired.saturating_add(1) } else { desired };
    decision.steps.surge = match (before, after) {
        (false, true) => Some(SurgeStep::Begins),
        (true, true) => Some(SurgeStep::Holds),
        (true, false) => Some(SurgeStep::Ends),
        (false, false) => None,
    };
    decision.memory.surged_from = before.then_some(own);
    decision.journal.surged_from = after.then_some(desired);
    decision.steps.current = Some(current);
    decision.steps.desired = Some(size);
    decision.status.current_replicas = current;
    decision.status.desired_replicas = size;
    let reason = match (change, decision.steps.surge) {
        (Some(change), _) => change.reason,
        (None, Some(SurgeStep::Ends)) => "a drain needs no replica more any longer".to_owned(),
        (None, _) => "one replica more while a node is drained".to_owned(),
    };
    decision.rescale = (size != current).then_some(Rescale { from: current, to: size, reason });
    decision
}

/// Returns the pods of a workload, sorted by name, if it may have one replica more: each replica is there and ready, the
/// decision changes nothing, and one more is within the bounds.
#[must_use]
pub fn steady_pods<'p>(
    scale: &Scale,
    decision: &Decision,
    pods: impl Iterator<Item = &'p PodSeen>,
) -> Option<Vec<Arc<str>>> {
    let size = scale.spec_replicas;
    let still = decision.rescale.is_none()
        && decision.steps.surge.is_none()
        && scale.status_replicas == size
        && 0 < size
        && size < decision.steps.bounds.max;
    let active = pods.filter(|pod| !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed));
    let active: Vec<&PodSeen> = active.collect();
    let ready = |pod: &&PodSeen| {
        !pod.deleting
            && pod.phase == PodPhase::Running
            && pod.ready.is_some_and(|ready| ready.ready == Some(true))
    };
    if !still || usize::try_from(size) != Ok(active.len()) || !active.iter().all(ready) {
        return None;
    }
    let mut names: Vec<Arc<str>> = active.iter().map(|pod| pod.name.clone()).collect();
    names.sort();
    Some(names)
}
