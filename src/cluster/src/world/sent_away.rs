//! Pods that a scale-in has chosen to go and that are still there. It chooses none.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::pod::Pod;
use super::{PodId, World};
use headroom_values::labels::ObjectKey;
use headroom_values::time::UnixTime;

/// By pod: its unique id, and until when its controller is expected to delete it.
pub(super) type SentAway = BTreeMap<ObjectKey, (Arc<str>, UnixTime)>;

impl World {
    /// Notes that the controllers of these pods are about to delete them; after `until` a pod that is still there stays. Pods
    /// that are not there are left out, and notes that are over at `now` are forgotten.
    pub fn send_away<'k>(
        &mut self,
        pods: impl IntoIterator<Item = &'k ObjectKey>,
        until: UnixTime,
        now: UnixTime,
    ) {
        self.sent_away.retain(|_, (_, until)| now < *until);
        for key in pods {
            let Some(id) = self.pod_id(key) else { continue };
            let uid = self.pod(id).pod.uid.clone();
            self.sent_away.insert(key.clone(), (uid, until));
        }
        self.revision += 1;
    }

    /// True if the pod is about to be deleted by its controller, and is not terminating yet.
    #[must_use]
    pub fn is_sent_away(&self, pod: &Pod, now: UnixTime) -> bool {
        !self.sent_away.is_empty()
            && pod.deletion_at.is_none()
            && self.sent_away.get(&pod.key).is_some_and(|(uid, until)| *uid == pod.uid && now < *until)
    }

    /// The pods that are about to be deleted by their controllers and are not terminating yet, in order of their keys.
    pub fn sent_away(&self, now: UnixTime) -> impl Iterator<Item = PodId> {
        let ids = self.sent_away.keys().filter_map(|key| self.pod_id(key));
        ids.filter(move |id| self.is_sent_away(&self.pod(*id).pod, now))
    }

    /// Time at which the first of them counts as one that stays; `None` when there is none.
    #[must_use]
    pub fn sent_away_until(&self, now: UnixTime) -> Option<UnixTime> {
        self.sent_away(now).filter_map(|id| Some(self.sent_away.get(&self.pod(id).pod.key)?.1)).min()
    }
}
