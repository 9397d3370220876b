//! The ReplicaSet controller: makes and removes pods until their number is right, and reports it in status.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};
use rustc_hash::FxHashMap;

use super::pods::{Phase, PodFacts, Pods};
use super::template;
use crate::store::{Author, DeleteOptions, Kind, ObjectKey, Store, number, text};

const ME: Author<'static> = Author::actor("replicaset-controller");
/// Source: replica_set.go BurstReplicas: no more creations or deletions in one sync.
const BURST: usize = 500;
/// The rest of a burst follows after this.
const BURST_PAUSE: SignedDuration = SignedDuration::from_secs(1);

/// One sync; returns when to look again. It makes so many pods a second at most.
pub(super) fn sync(
    store: &mut Store,
    pods: &Pods,
    key: &ObjectKey,
    pods_per_second: Option<usize>,
) -> Option<Timestamp> {
    let set = store.find(Kind::ReplicaSet, key)?.clone();
    let uid = text(&set, &["metadata", "uid"])?;
    if text(&set, &["metadata", "deletionTimestamp"]).is_some() {
        return None;
    }
    let wanted = usize::try_from(number(&set, &["spec", "replicas"]).unwrap_or(1)).unwrap_or(0);
    let mut again = None;
    let (mut there, mut ready) = pods.owned_counts(uid);
    if there < wanted {
        let missing = wanted - there;
        let pod = template::pod(Kind::ReplicaSet, key, &set, None);
        let now = store.now();
        let is_of_this_second = |pod: &PodFacts| now.duration_since(pod.created_at) < BURST_PAUSE;
        let made = || pods.owned(uid).filter(|(_, pod)| is_of_this_second(pod)).count();
        let most = pods_per_second.map_or(BURST, |most| most.saturating_sub(made()));
        for _ in 0..missing.min(most) {
            // A refusal (a quota, a name taken) is retried with the next burst, as the real controller does.
            there += usize::from(store.create(Kind::Pod, pod.clone(), ME).is_ok());
        }
        if there < wanted {
            again = store.now().checked_add(BURST_PAUSE).ok();
        }
    } else if wanted < there {
        let crowds = pods.crowds(uid);
        let active = pods.owned(uid).filter(|(_, pod)| pod.active());
        let mut victims: Vec<(Rank, &ObjectKey, bool)> =
            active.map(|(key, pod)| (rank(crowds, pod), key, pod.ready)).collect();
        let gone_count = (there - wanted).min(BURST);
        if gone_count < victims.len() {
            // Only those that go need be in order.
            victims.select_nth_unstable(gone_count);
            victims.truncate(gone_count);
        }
        victims.sort_unstable();
        for (_, victim, was_ready) in victims {
            if store.delete(Kind::Pod, victim, &DeleteOptions::default(), ME).is_ok() {
                there -= 1;
                ready -= usize::from(was_ready);
            }
        }
        if wanted < there {
            again = store.now().checked_add(BURST_PAUSE).ok();
        }
    }
    let generation = number(&set, &["metadata", "generation"]).unwrap_or(1);
    let (there, ready) = (there as i64, ready as i64);
    let counts = [
        ("replicas", there),
        ("fullyLabeledReplicas", there),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
        ("observedGeneration", generation),
    ];
    // The set is there: it was read at the top of this very call.
    let _ = store.write_counts(Kind::ReplicaSet, key, ME, &counts);
    again
}

/// Lower goes first.
///
/// Source: controller_utils.go ActivePodsWithRanks: unbound, pending, not ready, cheap to delete, crowded, young.
type Rank = (bool, bool, bool, i64, Reverse<usize>, Reverse<Timestamp>);

fn rank(crowds: Option<&FxHashMap<u32, usize>>, pod: &PodFacts) -> Rank {
    let neighbours = pod.node_number.zip(crowds).and_then(|(node, crowds)| crowds.get(&node));
    (
        pod.node.is_some(),
        pod.phase == Phase::Running,
        pod.ready,
        pod.deletion_cost,
        Reverse(neighbours.copied().unwrap_or(0)),
        Reverse(pod.created_at),
    )
}
