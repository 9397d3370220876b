//! Replicas that controllers have decided on and not created: how many of each count as demand before they exist. What becomes
//! of them is remembered elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::anticipation;
use crate::buffers::quotas::Quotas;
use crate::demand::{PodGroup, Skipped, is_immediate};
use headroom_cluster::history::History;
use headroom_cluster::scheduling::{PodRef, Snapshot};
use headroom_cluster::world::World;
use headroom_cluster::world::pod::PodClass;
use headroom_cluster::world::workload::{Controller, ControllerKind};
use headroom_pools::config::Config;
use headroom_pools::wake::Wake;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// Replicas of a StatefulSet or Job that count before they exist, for each pod that does; and the fewest, once one does.
const VOUCHED_EACH: u32 = 2;
const VOUCHED_MIN: u32 = 10;

/// Replicas of one controller that do not exist.
struct Expected<'w> {
    controller: &'w Controller,
    pods: Arc<PodClass>,
    /// All of them.
    missing: u32,
    /// Those that count.
    taken: u32,
}

/// The replicas that count, by class: desired = existing + anticipated.
pub(crate) fn replicas(
    snapshot: &mut Snapshot<'_>,
    skipped: &mut Vec<Skipped>,
    history: &mut History,
    config: &Config,
    now: UnixTime,
    wake: &mut Wake,
) -> Vec<PodGroup> {
    let world = snapshot.world();
    anticipation::settle(world, history, now);
    let mut all = Vec::new();
    for controller in world.controllers() {
        let missing = missing_replicas(controller, world);
        if missing == 0 {
            continue;
        }
        let pods = expected_class(controller, world);
        // Whether a pod that names a request may buy depends on when it was made.
        if !may_anticipate(&pods, config) || pods.request.is_some() {
            continue;
        }
        if !is_immediate(&pods, config) {
            skipped.push(skipped_replicas(controller, Reason::AwaitsScheduler, missing));
            continue;
        }
        if let Some(until) = anticipation::paused_until(controller, world, history, now, wake) {
            wake.note(until);
            skipped.push(skipped_replicas(controller, Reason::AnticipationBackoff, missing));
            continue;
        }
        all.push(Expected { controller, pods, missing, taken: 0 });
    }
    share_out(&mut all, world, config);
    for Expected { controller, missing, taken, .. } in all.iter().filter(|one| one.taken < one.missing) {
        skipped.push(skipped_replicas(controller, Reason::AnticipationLimit, missing - taken));
    }
    grouped(&all, snapshot)
}

/// Those that count, as pods.
fn grouped(all: &[Expected<'_>], snapshot: &mut Snapshot<'_>) -> Vec<PodGroup> {
    let (mut groups, mut by_class) = (Vec::new(), FxHashMap::default());
    for Expected { controller, pods, taken, .. } in all.iter().filter(|one| 0 < one.taken) {
        let class = snapshot.class_ix(pods);
        let index = *by_class.entry(class).or_insert_with(|| {
            let owner = Arc::from(&*controller.key.name);
            groups.push(PodGroup::new(class, pods, controller.key.clone(), owner));
            groups.len() - 1
        });
        let group: &mut PodGroup = &mut groups[index];
        group.pods.extend((0..*taken).map(|_| PodRef::Virtual(class)));
        group.pods_count += taken;
        group.anticipated_count += taken;
        group.controllers.push(controller_name(controller));
    }
    groups
}

/// Counts as many of the missing replicas as those that exist vouch for and the quotas of their namespace let in, and of these as
/// many as the limits of a namespace and of the cluster leave: of each controller the same part, so that nodes are bought for the
/// mix of pods that comes, and not for some kinds first.
fn share_out(all: &mut [Expected<'_>], world: &World, config: &Config) {
    let (most, most_here) =
        (config.cluster.max_anticipated_pods, config.cluster.max_anticipated_pods_per_namespace);
    let mut quotas = Quotas::default();
    let mut by_namespace: BTreeMap<&str, Vec<&mut u32>> = BTreeMap::new();
    for Expected { controller, pods, missing, taken } in &mut *all {
        // No more than a limit, so that one that wants millions does not leave others without any.
        let wanted = (*missing).min(vouched_for(controller, world)).min(most).min(most_here);
        if 0 < wanted {
            let cut = quotas.take(world, pods, controller.priority_class.name(), wanted);
            *taken = cut.map_or(wanted, |cut| cut.pods_count);
        }
        by_namespace.entry(&controller.key.namespace).or_default().push(taken);
    }
    by_namespace.values_mut().for_each(|counts| lower_in_proportion(counts, most_here));
    let mut counts: Vec<&mut u32> = by_namespace.into_values().flatten().collect();
    lower_in_proportion(&mut counts, most);
}

/// Lowers counts that are more than `most` together to as much, each by the same part.
fn lower_in_proportion(counts: &mut [&mut u32], most: u32) {
    let all: u128 = counts.iter().map(|count| u128::from(**count)).sum();
    if all <= u128::from(most) {
        return;
    }
    // Each gets the difference of two sums that are rounded, so that all together are exactly `most`.
    let (mut wanted, mut given) = (0, 0);
    for count in counts {
        wanted += u128::from(**count);
        let up_to = wanted * u128::from(most) / all;
        **count = u32::try_from(up_to - given).unwrap_or(most);
        given = up_to;
    }
}

/// Replicas of a controller that count because others exist. Nothing reports why pods of StatefulSets and Jobs are refused, so
/// one pod does not vouch for thousands; ReplicaSets say when they are refused.
fn vouched_for(controller: &Controller, world: &World) -> u32 {
    match controller.kind {
        ControllerKind::StatefulSet | ControllerKind::Job => {
            world.active_pods_of(&controller.uid).saturating_mul(VOUCHED_EACH).max(VOUCHED_MIN)
        }
        ControllerKind::ReplicaSet | ControllerKind::ReplicationController => u32::MAX,
    }
}

fn skipped_replicas(controller: &Controller, reason: Reason, count: u32) -> Skipped {
    Skipped {
        reason,
        namespace: controller.key.namespace.clone(),
        owner: Arc::from(&*controller.key.name),
        pods_count: count,
        anticipated_count: count,
        examples: Vec::new(),
    }
}

/// Replicas that should exist and do not, and that the controller makes next; 0 while something keeps it from making them.
///
/// StatefulSets and Jobs have no condition for pods that are refused (quota, admission): until one exists, none is
/// expected. A StatefulSet that makes its pods in order makes one at a time.
#[must_use]
pub(crate) fn missing_replicas(controller: &Controller, world: &World) -> u32 {
    if controller.stalled.is_some() {
        return 0;
    }
    let existing = world.active_pods_of(&controller.uid);
    let missing = controller.desired.saturating_sub(existing);
    match controller.kind {
        ControllerKind::StatefulSet | ControllerKind::Job if existing == 0 => 0,
        ControllerKind::StatefulSet if controller.in_order => missing.min(1),
        _ => missing,
    }
}

/// The class that a controller's next pod will have: the API server fills its priority in.
fn expected_class(controller: &Controller, world: &World) -> Arc<PodClass> {
    let priority = world.priority_of(&controller.priority_class, &controller.class);
    if priority == controller.class.priority {
        return controller.class.clone();
    }
    Arc::new(PodClass { priority, ..PodClass::clone(&controller.class) })
}

fn may_anticipate(class: &PodClass, config: &Config) -> bool {
    let delay = config.cluster.new_pod_delay.max(class.scale_up_delay.unwrap_or(Seconds(0)));
    !class.daemon_set && delay.0 <= 0 && config.cluster.expendable_pods_priority_cutoff <= class.priority
}

/// `Kind/namespace/name`: name of a controller in memory and status.
#[must_use]
pub(crate) fn controller_name(controller: &Controller) -> Arc<str> {
    let kind = match controller.kind {
        ControllerKind::ReplicaSet => "ReplicaSet",
        ControllerKind::StatefulSet => "StatefulSet",
        ControllerKind::Job => "Job",
        ControllerKind::ReplicationController => "ReplicationController",
    };
    Arc::from(format!("{kind}/{}", controller.key))
}

#[cfg(test)]
mod tests {
    use super::lower_in_proportion;

    fn lowered<const N: usize>(mut counts: [u32; N], most: u32) -> [u32; N] {
        lower_in_proportion(&mut counts.iter_mut().collect::<Vec<_>>(), most);
        counts
    }

    #[test]
    fn counts_keep_their_proportions_and_fill_the_limit() {
        assert_eq!(lowered([2500, 1500, 750, 250], 5000), [2500, 1500, 750, 250]);
        assert_eq!(lowered([2500, 1500, 750, 250], 2000), [1000, 600, 300, 100]);
        assert_eq!(lowered([5, 5, 5], 8), [2, 3, 3]);
        assert_eq!(lowered([2000, 1], 2000), [1999, 1]);
        assert_eq!(lowered([0, 7, 0], 0), [0, 0, 0]);
        assert_eq!(lowered([u32::MAX, u32::MAX], u32::MAX), [u32::MAX / 2, u32::MAX / 2 + 1]);
    }
}
