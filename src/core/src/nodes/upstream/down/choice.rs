//! Which unneeded nodes go now: long enough, above every minimum, atomic groups as a whole, within the budgets.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::simulation::Found;
use super::status::{Unremovable, Why};
use super::{Candidate, Pass, eligibility, pool_of};
use crate::nodes::context::Context;
use crate::nodes::upstream::quota::Quota;
use crate::time::Seconds;

/// A node whose deletion begins.
#[derive(Clone, Debug)]
pub struct Started {
    /// The node.
    pub node: Arc<str>,
    /// Index of the group.
    pub group: usize,
    /// The node's instance.
    pub instance: Arc<str>,
    /// Whether its pods must be moved.
    pub drain: bool,
    /// How many nodes of an atomic group go together; 0 for others.
    pub atomic: usize,
}

/// The nodes that nothing keeps, empty ones first and risky ones last; and why the others stay.
///
/// Source: scaledown/unneeded/nodes.go, RemovableAt; processors/nodes/scale_down_set_processor.go.
pub fn removable(ctx: &Context<'_>, pass: &Pass<'_>, found: &[Found]) -> (Vec<Found>, Vec<Unremovable>) {
    let mut sizes: Vec<i64> = pass.groups.iter().map(|group| group.target).collect();
    for one in &ctx.next.shrinking.deletions {
        if let Some(index) = pass.groups.iter().position(|group| group.id == one.group) {
            sizes[index] -= 1;
        }
    }
    let mut quota = spare(ctx, pass);
    let mut ordered: Vec<&Found> = found.iter().collect();
    ordered.sort_by_key(|one| (one.drain, one.risky));
    let mut going = Vec::new();
    let mut staying = Vec::new();
    for one in ordered {
        match keeps(ctx, pass, &one.candidate, &mut sizes, &mut quota) {
            Some(why) => staying.push(stays(&one.candidate, why)),
            None if one.waits => staying.push(stays(&one.candidate, Why::BlockedByOnCompletionPod)),
            None => going.push(one.clone()),
        }
    }
    let mut counts: BTreeMap<usize, i64> = BTreeMap::new();
    going.iter().for_each(|one| *counts.entry(one.candidate.group).or_insert(0) += 1);
    going.retain(|one| {
        let group = one.candidate.group;
        let whole = !pass.groups[group].zero_or_max || is_whole(pass, group, counts[&group]);
        if !whole {
            staying.push(stays(&one.candidate, Why::AtomicScaleDownFailed));
        }
        whole
    });
    (going, staying)
}

fn stays(candidate: &Candidate, why: Why) -> Unremovable {
    Unremovable { node: candidate.name.clone(), why, pod: None }
}

/// What the cluster has beyond its least cores and memory; nodes in deletion are gone already.
fn spare(ctx: &Context<'_>, pass: &Pass<'_>) -> Quota {
    let options = &ctx.config.cluster.upstream.down;
    let nodes = ctx.world.nodes().filter(|(_, node, _)| !pass.in_flight.contains(&node.name));
    Quota::above(options.min_cpu_milli, options.min_memory_bytes, nodes.map(|(_, node, _)| &node.capacity))
}

fn keeps(
    ctx: &Context<'_>,
    pass: &Pass<'_>,
    candidate: &Candidate,
    sizes: &mut [i64],
    quota: &mut Quota,
) -> Option<Why> {
    let node = ctx.world.node(candidate.id).node.as_ref()?;
    if eligibility::is_disabled(node) {
        return Some(Why::ScaleDownDisabledAnnotation);
    }
    let group = &pass.groups[candidate.group];
    let scale_down = &pool_of(ctx, group)?.scale_down;
    let since = ctx.next.shrinking.unneeded.get(&candidate.name).copied().unwrap_or(ctx.now);
    let over = |limit: Seconds| limit.0 == 0 || since.plus(limit) < ctx.now;
    if eligibility::is_ready(pass, candidate) {
        if !over(scale_down.unneeded_for) {
            return Some(Why::NotUnneededLongEnough);
        }
    } else if !over(scale_down.unready_for) {
        return Some(Why::NotUnreadyLongEnough);
    }
    if sizes[candidate.group] <= group.min {
        return Some(Why::NodeGroupMinSizeReached);
    }
    sizes[candidate.group] -= 1;
    if !quota.exceeded(&node.capacity, 1).is_empty() {
        return Some(Why::MinimalResourceLimitExceeded);
    }
    quota.take(&node.capacity, 1);
    None
}

/// Whether so many nodes are all of the group: its target, or all that have registered.
fn is_whole(pass: &Pass<'_>, group: usize, count: i64) -> bool {
    let group = &pass.groups[group];
    let registered = pass.seen.groups.get(&group.id).map_or(0, |told| {
        pass.seen.nodes.iter().filter(|node| told.instances.contains_key(&node.instance)).count()
    });
    count == group.target || Ok(count) == i64::try_from(registered)
}

/// As many as may be in flight: whole atomic groups, then empty nodes, then nodes to drain.
///
/// Source: scaledown/budgets/budgets.go, CropNodes.
pub fn within_budgets(ctx: &Context<'_>, pass: &Pass<'_>, going: Vec<Found>) -> Vec<Started> {
    let number = |value: u32| i64::from(value);
    let count = |drain: bool| {
        let deletions = ctx.next.shrinking.deletions.iter();
        i64::try_from(deletions.filter(|one| one.drain || !drain).count()).unwrap_or(i64::MAX)
    };
    let mut room = number(ctx.config.cluster.max_removals) - count(false);
    let mut drains = number(ctx.config.cluster.max_drains) - count(true);
    let mut started = Vec::new();
    let (atomic, individual): (Vec<Found>, Vec<Found>) =
        going.into_iter().partition(|one| pass.groups[one.candidate.group].zero_or_max);
    let mut can_overflow = true;
    let mut groups: Vec<usize> = Vec::new();
    for one in &atomic {
        if !groups.contains(&one.candidate.group) {
            groups.push(one.candidate.group);
        }
    }
    // Groups with empty nodes first. One that does not fit ends its own round, not that of those to be drained.
    let has_empty = |group: usize| atomic.iter().any(|one| one.candidate.group == group && !one.drain);
    let (with_empty, to_drain_only): (Vec<usize>, Vec<usize>) =
        groups.into_iter().partition(|group| has_empty(*group));
    for round in [with_empty, to_drain_only] {
        for group in round {
            let members: Vec<&Found> = atomic.iter().filter(|one| one.candidate.group == group).collect();
            let all = i64::try_from(members.len()).unwrap_or(i64::MAX);
            let to_drain = members.iter().filter(|one| one.drain).count();
            let to_drain = i64::try_from(to_drain).unwrap_or(i64::MAX);
            let over = room < all || drains < to_drain;
            // Below zero is not used up, in the reference: what is overdrawn may be once more in a later loop.
            if over && (room == 0 || 0 < to_drain && drains == 0 || !can_overflow) {
                break;
            }
            room -= all;
            drains -= to_drain;
            can_overflow = false;
            started.extend(members.iter().map(|one| start(pass, one, members.len())));
        }
    }
    for one in individual {
        let fits = 0 < room && (!one.drain || 0 < drains);
        if fits {
            room -= 1;
            drains -= i64::from(one.drain);
            started.push(start(pass, &one, 0));
        }
    }
    started
}

fn start(pass: &Pass<'_>, one: &Found, atomic: usize) -> Started {
    let seen = pass.seen.nodes.iter().find(|seen| seen.name == one.candidate.name);
    Started {
        node: one.candidate.name.clone(),
        group: one.candidate.group,
        instance: seen.map_or_else(|| one.candidate.name.clone(), |seen| seen.instance.clone()),
        drain: one.drain,
        atomic,
    }
}
