//! Room of buffers where pods move: the scheduler knows nothing of standby pods, and puts a pod wherever it likes.

use rustc_hash::FxHashMap;

use crate::candidates::takes_pods;
use crate::relocation::looks_and_fits;
use headroom_cluster::scheduling::snapshot::{NodeIx, PodRef, Presence, Snapshot};
use headroom_scaleup::context::StandbyLeft;
use headroom_values::resources::Resources;

/// Most buffers with waiting pods for which nodes stay.
const WAITING_MAX: usize = 100;

/// Standby pods that got no place.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Vec<WaitingGroup>);

#[derive(Clone, Debug)]
struct WaitingGroup {
    pod: PodRef,
    count: usize,
    /// True if nodes are bought for them as soon as the cloud has some.
    buys: bool,
}

impl Waiting {
    /// Those of `left`.
    #[must_use]
    pub fn of(left: &[StandbyLeft]) -> Self {
        let waiting = left.iter().filter_map(|left| {
            let pods = &left.group.pods;
            Some(WaitingGroup { pod: *pods.first()?, count: pods.len(), buys: left.buys })
        });
        Self(waiting.take(WAITING_MAX).collect())
    }

    /// Places those that would fit on `node` without the pods that can move, as if these had been moved. Returns the first of
    /// them. Without one the snapshot is left as it is.
    ///
    /// Such a node is what the next purchase would buy anew, if its group is `refused` just now, and what no purchase brings if none
    /// is made for them. Where the group is at its maximum the node goes, which makes room for the purchase.
    pub(super) fn take(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        node: NodeIx,
        refused: bool,
    ) -> Option<PodRef> {
        let mark = snapshot.checkpoint();
        snapshot.set_presence(node, Presence::Present);
        let mut first = None;
        for group in self.0.iter_mut().filter(|group| refused || !group.buys) {
            let class = snapshot.class_of(group.pod);
            while group.count != 0 && looks_and_fits(snapshot, class, node) {
                snapshot.place(group.pod, node);
                group.count -= 1;
                first.get_or_insert(group.pod);
            }
        }
        if first.is_none() {
            snapshot.rollback(mark);
        }
        first
    }
}

/// Standby pods of a snapshot by node, and those that have been lifted from their nodes.
///
/// Without this pods would be moved to holes that buffers leave. The scheduler puts them into the buffer's room instead,
/// which is then bought anew, and the node that the pods left was removed for nothing; and so on.
#[derive(Default)]
pub struct Standby {
    on: FxHashMap<NodeIx, (Vec<PodRef>, Resources)>,
    /// Those of the nodes that take no pods yet. By the time that pods move they may be ready, and the emptiest of all.
    pub(super) coming: Vec<NodeIx>,
    /// Each with the node that it was on, unless that node goes.
    lifted: Vec<(PodRef, Option<NodeIx>)>,
    /// True if it has all of the snapshot.
    pub(super) is_whole: bool,
}

impl Standby {
    /// All standby pods of the snapshot.
    #[must_use]
    pub fn of(snapshot: &Snapshot<'_>) -> Self {
        let mut standby = Self { is_whole: true, ..Self::default() };
        if !snapshot.has_standby() {
            return standby;
        }
        for ix in snapshot.changed() {
            let is_standby = |pod: &PodRef| matches!(pod, PodRef::Standby(_));
            let pods: Vec<PodRef> = snapshot.pods(ix).filter(is_standby).collect();
            if pods.is_empty() {
                continue;
            }
            let mut requests = Resources::default();
            pods.iter().for_each(|pod| requests.add(&snapshot.class(snapshot.class_of(*pod)).requests));
            standby.on.insert(ix, (pods, requests));
            if snapshot.presence(ix) == Presence::Present && !takes_pods(ix, snapshot) {
                standby.coming.push(ix);
            }
        }
        standby
    }

    /// Requests of the standby pods that are still on the node.
    pub(super) fn requests(&self, node: NodeIx) -> Option<&Resources> {
        self.on.get(&node).map(|(_, requests)| requests)
    }

    /// Takes the node's standby pods off it for as long as the snapshot is not rolled back; those that [`Self::lift`] has
    /// taken are gone already.
    pub(super) fn clear(&self, snapshot: &mut Snapshot<'_>, node: NodeIx) {
        let pods = self.on.get(&node).map_or(&[][..], |(pods, _)| pods);
        for pod in pods {
            snapshot.remove(*pod, node);
        }
    }

    /// Takes the node's standby pods off it; [`Self::put_back`] finds them a place.
    pub(super) fn lift(&mut self, snapshot: &mut Snapshot<'_>, node: NodeIx) {
        self.clear(snapshot, node);
        let (pods, _) = self.on.remove(&node).unwrap_or_default();
        self.lifted.extend(pods.into_iter().map(|pod| (pod, Some(node))));
    }

    /// Takes one standby pod off a node that goes.
    pub(super) fn evict(&mut self, snapshot: &mut Snapshot<'_>, pod: PodRef, node: NodeIx) {
        snapshot.remove(pod, node);
        self.lifted.push((pod, None));
    }

    /// Finds a place for all that were lifted: where each was, or on the first node of `order` that takes it. Buffers keep
    /// their order.
    ///
    /// # Errors
    /// The first that has none, or would have none in the next plan.
    pub(super) fn put_back<'n>(
        mut self,
        snapshot: &mut Snapshot<'_>,
        order: impl Iterator<Item = &'n NodeIx> + Clone,
    ) -> Result<(), PodRef> {
        self.lifted.sort_unstable();
        for (pod, home) in self.lifted {
            let class = snapshot.class_of(pod);
            let mut places = home.into_iter().chain(order.clone().copied());
            let place = places.find(|node| looks_and_fits(snapshot, class, *node)).ok_or(pod)?;
            snapshot.place(pod, place);
        }
        stays_placed(snapshot)
    }
}

/// Places all standby pods anew as the next plan will: in the order of their buffers, each on the first node that takes it. The
/// snapshot is left as it was.
///
/// Moved one by one they may fit on fewer nodes than so: the node that they left would be bought again, and another would go.
/// Nodes without standby pods are passed over: they took none when there was more room.
///
/// # Errors
/// The first that has no place then.
pub(super) fn stays_placed(snapshot: &mut Snapshot<'_>) -> Result<(), PodRef> {
    if !snapshot.has_standby() {
        return Ok(());
    }
    let mark = snapshot.checkpoint();
    let found = place_anew(snapshot);
    snapshot.rollback(mark);
    found
}

fn place_anew(snapshot: &mut Snapshot<'_>) -> Result<(), PodRef> {
    let is_standby = |pod: &PodRef| matches!(pod, PodRef::Standby(_));
    let mut pods: Vec<(PodRef, NodeIx)> = Vec::new();
    for ix in snapshot.changed() {
        pods.extend(snapshot.pods(ix).filter(is_standby).map(|pod| (pod, ix)));
    }
    let mut nodes: Vec<NodeIx> = pods.iter().map(|(_, node)| *node).collect();
    nodes.dedup();
    let (mut order, coming): (Vec<NodeIx>, Vec<NodeIx>) =
        nodes.into_iter().partition(|ix| takes_pods(*ix, snapshot));
    order.extend(coming);
    for (pod, node) in &pods {
        snapshot.remove(*pod, *node);
    }
    pods.sort_by_key(|(pod, _)| *pod);
    let (mut last, mut start) = (None, 0);
    for (pod, _) in pods {
        let class = snapshot.class_of(pod);
        // What did not take one of a class takes no other, but where rules ask for other pods.
        if last.replace(class) != Some(class) || snapshot.has_topology_rules(class) {
            start = 0;
        }
        start += order[start..].iter().position(|node| looks_and_fits(snapshot, class, *node)).ok_or(pod)?;
        snapshot.place(pod, order[start]);
    }
    Ok(())
}
