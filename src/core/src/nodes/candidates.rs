//! Which nodes might go: each node's own state and its own pods. Whether its pods fit elsewhere is asked later.

use std::sync::Arc;

use crate::config::{Config, Mode, Pool, Profile};
use crate::history::Victim;
use crate::nodes::drainability::{Disruptions, Drainability, Rules};
use crate::nodes::foreign::{Membership, Standing, marked_by};
use crate::nodes::health::not_started;
use crate::nodes::removal::Scene;
use crate::nodes::utilization::{Measure, Utilization, utilization, utilization_of_sum};
use crate::nodes::verdicts::Verdict;
use crate::reason::Reason;
use crate::scheduling::snapshot::{NodeIx, PodRef, Presence, Snapshot};
use crate::time::{Seconds, UnixTime};
use crate::world::node::{Node, REMOVE_ANNOTATION, Readiness, SCALE_DOWN_DISABLED_ANNOTATION, ZONE_LABEL};
use crate::world::pod::Pod;
use crate::world::{NodeEntry, NodeId, PodId};

/// A provider view older than this says nothing about sizes (law 6).
pub const PROVIDER_AGE_MAX: Seconds = Seconds(300);

/// A node that may go if its pods find other places.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its place in the snapshot.
    pub ix: NodeIx,
    /// Index into [`Config::pools`].
    pub pool: usize,
    /// Its group.
    pub group: Arc<str>,
    /// Its zone; empty when it has none.
    pub zone: Arc<str>,
    /// What would be named to the provider.
    pub victim: Victim,
    /// Why it would go.
    pub reason: Reason,
    /// Pods that need another place.
    pub movable: Vec<PodId>,
    /// The first pod that must run to its end before.
    pub waits_for: Option<PodId>,
    /// Since when it has been unneeded, or unready.
    pub since: Option<UnixTime>,
}

impl Candidate {
    /// The order in which candidates are looked at: those asked for, empty ones, dead ones, then others. Among equals
    /// those that were unneeded before keep their turn, so that clocks do not start anew, then those with fewer pods.
    #[must_use]
    pub fn rank(&self) -> (u8, UnixTime, usize) {
        let class = match self.reason {
            Reason::RemovalRequested => 0,
            Reason::Empty => 1,
            Reason::Unready => 2,
            _ => 3,
        };
        (class, self.since.unwrap_or(UnixTime(i64::MAX)), self.movable.len())
    }
}

/// Either a verdict, or a candidate. `None` for nodes on their way out or of no concern.
#[derive(Clone, Debug)]
pub enum Judgement {
    /// It stays.
    Stays(Verdict),
    /// It may go.
    Candidate(Candidate),
}

/// Judges one node that no open removal names.
///
/// Source: Cluster Autoscaler, scaledown/eligibility/eligibility.go, FilterOutUnremovable.
/// Differs from upstream under Headroom: a node that is unready is judged by its state and not by its requests, and
/// pending pods planned onto a node keep it.
#[must_use]
pub fn judge(
    id: NodeId,
    ix: NodeIx,
    scene: &Scene<'_>,
    snapshot: &Snapshot<'_>,
    disruptions: &mut Disruptions<'_>,
    since: Option<UnixTime>,
) -> Judgement {
    let entry = scene.world.node(id);
    let Some(node) = &entry.node else { return Judgement::Stays(Reason::NotManaged.into()) };
    let stays = |reason: Reason| Judgement::Stays(reason.into());
    let member = match scene.members.standing(id) {
        Standing::Member(member) => member,
        Standing::Unlisted { .. } => return stays(Reason::ProviderUnknown),
        Standing::Foreign => return stays(Reason::ForeignNode),
        Standing::NotManaged => return stays(Reason::NotManaged),
    };
    let pool = &scene.config.pools[member.pool];
    if !scene.work_on(&pool.name) {
        return stays(Reason::Internal);
    }
    let requested = node.annotations.get(REMOVE_ANNOTATION) == Some("requested");
    if let Some(reason) =
        pool_in_the_way(pool, requested, scene).or_else(|| node_in_the_way(node, scene, pool))
    {
        return stays(reason);
    }
    let unready = node.ready != Readiness::Ready;
    let by_state = unready && scene.config.profile == Profile::Headroom;
    if !requested && !by_state && above_threshold(entry, ix, scene, snapshot, pool) {
        return stays(Reason::NotUnderutilized);
    }
    if scene.config.profile == Profile::Headroom && planned_for(ix, &entry.name, scene, snapshot) {
        return stays(Reason::PlannedFor);
    }
    match load(id, scene, pool, disruptions) {
        Err(verdict) => Judgement::Stays(verdict),
        Ok((movable, waits_for)) => {
            let reason = match (requested, unready) {
                (true, _) => Reason::RemovalRequested,
                (false, true) => Reason::Unready,
                (false, false) if movable.is_empty() && waits_for.is_none() => Reason::Empty,
                (false, false) => Reason::Underutilized,
            };
            let since = if by_state { Some(node.ready_changed_at) } else { since };
            Judgement::Candidate(candidate(ix, node, member, reason, movable, waits_for, since))
        }
    }
}

fn candidate(
    ix: NodeIx,
    node: &Node,
    member: &Membership,
    reason: Reason,
    movable: Vec<PodId>,
    waits_for: Option<PodId>,
    since: Option<UnixTime>,
) -> Candidate {
    Candidate {
        ix,
        pool: member.pool,
        group: member.group.clone(),
        zone: node.labels.get(ZONE_LABEL).unwrap_or("").into(),
        victim: Victim { node: node.name.clone(), id: member.instance.clone() },
        reason,
        movable,
        waits_for,
        since,
    }
}

/// Why no node of the pool may go.
fn pool_in_the_way(pool: &Pool, requested: bool, scene: &Scene<'_>) -> Option<Reason> {
    if pool.deleting {
        return Some(Reason::PoolDeleting);
    }
    if pool.mode == Mode::Suspend {
        return Some(Reason::Suspended);
    }
    if !pool.scale_down.enabled && !requested {
        return Some(Reason::ScaleDownDisabled);
    }
    let provider = scene.world.provider(&pool.name);
    let fresh = provider.is_some_and(|known| known.fresh(scene.now, PROVIDER_AGE_MAX).is_some());
    (!fresh).then_some(Reason::ProviderUnknown)
}

/// Why this node may not go, whatever runs on it.
fn node_in_the_way(node: &Node, scene: &Scene<'_>, pool: &Pool) -> Option<Reason> {
    if node.deleting {
        return Some(Reason::NodeGone);
    }
    if marked_by(node).is_some() {
        // The mark of a removal that has ended: it is coming off now.
        return Some(Reason::InCooldown);
    }
    if node.annotations.get(SCALE_DOWN_DISABLED_ANNOTATION) == Some("true") {
        return Some(Reason::ScaleDownDisabledAnnotation);
    }
    not_started(node, pool, scene.now).then_some(Reason::NotStarted)
}

fn above_threshold(
    entry: &NodeEntry,
    ix: NodeIx,
    scene: &Scene<'_>,
    snapshot: &Snapshot<'_>,
    pool: &Pool,
) -> bool {
    let Some(node) = &entry.node else { return true };
    let cutoff = scene.config.cluster.expendable_pods_priority_cutoff;
    let measure = Measure { priority_cutoff: Some(cutoff), ..Measure::default() };
    let above = |found: Utilization| {
        let percent = if found.on_gpu {
            pool.scale_down.gpu_utilization_threshold_percent
        } else {
            pool.scale_down.utilization_threshold_percent
        };
        found.share().exceeds_percent(percent)
    };
    // Where no pod can be left out, the sum that the world keeps says the same without a look at each pod.
    if scene.config.profile == Profile::Headroom && entry.unusual_count == 0 && cutoff <= 0 {
        return utilization_of_sum(node, &entry.requested, &measure).map_or(true, above);
    }
    // Under Headroom what is only planned counts apart: it keeps the node without ending its clock.
    let counts = |pod: &&Pod| {
        scene.config.profile == Profile::ClusterAutoscaler || pod.node.as_ref() == Some(&node.name)
    };
    let pods = snapshot.pods(ix).filter_map(|pod| match pod {
        PodRef::Real(id) => Some(&scene.world.pod(id).pod).filter(counts),
        PodRef::Virtual(_) => None,
    });
    // A node that offers nothing cannot be measured, and stays.
    utilization(node, pods, &measure, scene.now).map_or(true, above)
}

/// Whether the plan has put pods on the node that are not bound to it.
fn planned_for(ix: NodeIx, name: &Arc<str>, scene: &Scene<'_>, snapshot: &Snapshot<'_>) -> bool {
    !snapshot.untouched(ix)
        && snapshot.pods(ix).any(|pod| match pod {
            PodRef::Real(id) => scene.world.pod(id).pod.node.as_ref() != Some(name),
            PodRef::Virtual(_) => true,
        })
}

/// The pods that must move, and the first one that must end; or what blocks.
fn load(
    id: NodeId,
    scene: &Scene<'_>,
    pool: &Pool,
    disruptions: &mut Disruptions<'_>,
) -> Result<(Vec<PodId>, Option<PodId>), Verdict> {
    let rules = Rules::of(&pool.scale_down.drain);
    let cutoff = scene.config.cluster.expendable_pods_priority_cutoff;
    let headroom = scene.config.profile == Profile::Headroom;
    let mut movable = Vec::new();
    let mut waits_for = None;
    for pod in &scene.world.node(id).pods {
        let entry = scene.world.pod(*pod);
        let expendable = entry.pod.class.priority < cutoff;
        if entry.pod.phase.finished() || expendable && !headroom {
            continue;
        }
        match rules.judge(entry, scene.world, disruptions, scene.now) {
            Drainability::Skip | Drainability::DaemonSet => {}
            Drainability::Move => movable.push(*pod),
            _ if expendable => movable.push(*pod),
            Drainability::OnCompletion => waits_for = waits_for.or(Some(*pod)),
            Drainability::Block(block) => {
                return Err(match block.budget {
                    Some(budget) => Verdict::pdb(disruptions.key(budget)),
                    None => Verdict::pod(block.reason, &entry.pod.key),
                });
            }
        }
    }
    movable.sort_by(|a, b| scene.world.pod(*a).pod.key.cmp(&scene.world.pod(*b).pod.key));
    Ok((movable, waits_for))
}

/// Whether the node may take pods of others: it is there, real, and nothing is known against it.
#[must_use]
pub fn takes_pods(ix: NodeIx, snapshot: &Snapshot<'_>, config: &Config) -> bool {
    let view = snapshot.node(ix);
    let trusted =
        |node: &Node| node.ready == Readiness::Ready || config.profile == Profile::ClusterAutoscaler;
    view.presence() == Presence::Present && view.real().is_some_and(|(_, node)| trusted(node))
}
