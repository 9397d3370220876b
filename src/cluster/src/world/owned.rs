//! How many pods each owner has, and when the youngest of them was made. It follows from the pods that exist alone.

use std::sync::Arc;

use headroom_values::time::UnixTime;
use rustc_hash::FxHashMap;

use crate::world::pod::Pod;

/// The pods of each owner, by its uid.
#[derive(Clone, Debug, Default)]
pub(super) struct Owned(FxHashMap<Arc<str>, Pods>);

#[derive(Clone, Copy, Debug)]
struct Pods {
    all_count: u32,
    active_count: u32,
    /// No pod was made later; `youngest_is_there` if one was made then.
    latest: UnixTime,
    youngest_is_there: bool,
}

impl Owned {
    pub(super) fn add(&mut self, pod: &Pod) {
        let Some(owner) = &pod.owner else { return };
        let none = Pods { all_count: 0, active_count: 0, latest: pod.created_at, youngest_is_there: true };
        let pods = self.0.entry(owner.uid.clone()).or_insert(none);
        pods.all_count += 1;
        pods.active_count += u32::from(is_active(pod));
        if pods.latest <= pod.created_at {
            (pods.latest, pods.youngest_is_there) = (pod.created_at, true);
        }
    }

    pub(super) fn remove(&mut self, pod: &Pod) {
        let Some(owner) = &pod.owner else { return };
        let Some(pods) = self.0.get_mut(&owner.uid) else { return };
        pods.all_count -= 1;
        pods.active_count -= u32::from(is_active(pod));
        pods.youngest_is_there &= pod.created_at < pods.latest;
        if pods.all_count == 0 {
            self.0.remove(&owner.uid);
        }
    }

    /// The number of pods that are not finished and not being deleted.
    pub(super) fn active_count(&self, owner_uid: &str) -> u32 {
        self.0.get(owner_uid).map_or(0, |pods| pods.active_count)
    }

    /// When the youngest pod was made; `look` finds it out where the one that was has gone.
    pub(super) fn youngest(
        &self,
        owner_uid: &str,
        look: impl FnOnce() -> Option<UnixTime>,
    ) -> Option<UnixTime> {
        let pods = self.0.get(owner_uid)?;
        if pods.youngest_is_there { Some(pods.latest) } else { look() }
    }

    /// The owners that have active pods, with their number.
    pub(super) fn active(&self) -> impl Iterator<Item = (&Arc<str>, u32)> {
        self.0.iter().map(|(uid, pods)| (uid, pods.active_count)).filter(|(_, count)| 0 < *count)
    }
}

/// True if its controller counts this pod as one it need not make anew.
fn is_active(pod: &Pod) -> bool {
    !pod.phase.finished() && pod.deletion_at.is_none()
}
