//! Room on nodes that pods are waiting for: nothing is drained that could take it. It places none for good.

use rustc_hash::FxHashMap;

use crate::candidates::{self, Candidate};
use crate::decide::Pass;
use crate::removal::Scene;
use crate::rotation::is_rotation;
use crate::trial::pods_to_move;
use headroom_cluster::history::History;
use headroom_cluster::scheduling::snapshot::{ClassIx, NodeIx, PodRef, Presence, Snapshot};
use headroom_scaleup::followers::SCHEDULER_LOOKS;
use headroom_scaleup::unbound::{is_bought_late, waiting_on};

/// Most nodes that are looked at; beyond them nothing that could take room is drained.
const NODES_MAX: usize = 100;

/// Ready nodes on which pods have their place that have waited for longer than the scheduler needs, and nodes on their way
/// for pods that an earlier purchase did not help: these come in the middle of a drain that begins now.
///
/// The scheduler knows nothing of these places: it puts what is evicted on the emptiest node, which is often the one that
/// was just bought. Those who waited for it would be bought for once more, and so on. Pods whose class backs off have no
/// place, so this ends.
#[derive(Default)]
pub(crate) struct Promised {
    nodes: Vec<(NodeIx, Vec<PodRef>)>,
    /// True if there are more than those.
    more: bool,
    /// True if a class fits such a node as it is.
    fits: FxHashMap<ClassIx, bool>,
}

impl Promised {
    /// Reads the places of a plan.
    pub(crate) fn of(scene: &Scene<'_>, snapshot: &Snapshot<'_>, history: &History) -> Self {
        let mut promised = Self::default();
        for ix in snapshot.changed() {
            if snapshot.presence(ix) != Presence::Present {
                continue;
            }
            let ready = candidates::takes_pods(ix, snapshot);
            let waiting: Vec<PodRef> = waiting_on(scene.world, snapshot.pods(ix)).map(PodRef::Real).collect();
            let late = |pod: &PodRef| match pod {
                PodRef::Real(id) => {
                    let pod = &scene.world.pod(*id).pod;
                    pod.created_at.plus(SCHEDULER_LOOKS) <= scene.now
                        && (ready || is_bought_late(history, pod))
                }
                PodRef::Virtual(_) | PodRef::Standby(_) => false,
            };
            if !waiting.iter().any(late) {
                continue;
            }
            if promised.nodes.len() == NODES_MAX {
                promised.more = true;
                break;
            }
            promised.nodes.push((ix, waiting));
        }
        promised
    }

    /// True if a pod of the class fits one of the nodes without those who wait for it.
    fn takes(&mut self, class: ClassIx, snapshot: &mut Snapshot<'_>) -> bool {
        if self.more {
            return true;
        }
        if let Some(known) = self.fits.get(&class) {
            return *known;
        }
        let fits = self.nodes.iter().any(|(node, waiting)| {
            let mark = snapshot.checkpoint();
            waiting.iter().for_each(|pod| {
                snapshot.remove(*pod, *node);
            });
            let fits = snapshot.fits(class, *node);
            snapshot.rollback(mark);
            fits
        });
        self.fits.insert(class, fits);
        fits
    }
}

impl Pass<'_, '_> {
    /// True if pods of the candidate could take room that others are waiting for. A request to remove one node concerns
    /// that one alone.
    pub(crate) fn takes_promised_room(&mut self, candidate: &Candidate, snapshot: &mut Snapshot<'_>) -> bool {
        let waits = candidate.is_for_use() || is_rotation(candidate.reason);
        if !waits || self.promised.nodes.is_empty() {
            return false;
        }
        let pods = pods_to_move(candidate, snapshot, self.scene);
        pods.into_iter().any(|pod| {
            let class = snapshot.class_of(pod);
            self.promised.takes(class, snapshot)
        })
    }
}
