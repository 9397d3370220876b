//! Cooldown after an eviction: a pod that came in place of an evicted one is not evicted again soon for what its node costs. What is
//! remembered is the controller, since the pod that it makes has another name. It evicts nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::CLOCKS_DIFFER;
use crate::candidates::Fresh;
use crate::removal::Scene;
use headroom_cluster::history::{Evicted, History, PoolHistory};
use headroom_cluster::world::PodId;
use headroom_cluster::world::pod::Pod;
use headroom_pools::config::Config;
use headroom_values::time::{Seconds, UnixTime};

/// The longest cooldown of any pool: the pod may come to each of them.
#[must_use]
pub fn longest(config: &Config) -> Seconds {
    config.pools.iter().map(|pool| pool.scale_down.eviction_cooldown).max().unwrap_or_default()
}

/// Notes that a pod is evicted now. A pod without a controller is not made again.
pub fn note(memory: &mut PoolHistory, pod: &Pod, longest: Seconds, now: UnixTime) {
    let Some(controller) = controller_of(pod).filter(|_| longest != Seconds(0)) else { return };
    let first = Evicted { since: now, last: now };
    let entry = memory.evicted.entry(controller).or_insert(first);
    let goes_on = now < entry.last.plus(longest);
    *entry = if goes_on { Evicted { last: entry.last.max(now), ..*entry } } else { first };
}

/// Forgets controllers of which no pod was evicted for so long that no pod needs it.
pub fn forget(memory: &mut PoolHistory, longest: Seconds, now: UnixTime) {
    memory.evicted.retain(|_, entry| now < entry.last.plus(longest));
}

/// `Kind/namespace/name` of the pod's controller.
fn controller_of(pod: &Pod) -> Option<Arc<str>> {
    Some(pod.owner.as_ref()?.path(&pod.key.namespace).into())
}

/// By controller: the time from which on its new pods come in place of evicted ones, whichever pool these were on.
#[derive(Clone, Debug, Default)]
pub struct Cooldowns(BTreeMap<Arc<str>, UnixTime>);

impl Cooldowns {
    /// What the pools remember.
    #[must_use]
    pub fn of(history: &History) -> Self {
        let mut earliest: BTreeMap<Arc<str>, UnixTime> = BTreeMap::new();
        for (controller, entry) in history.pools.values().flat_map(|memory| &memory.evicted) {
            let since = earliest.entry(controller.clone()).or_insert(entry.since);
            *since = entry.since.min(*since);
        }
        Self(earliest)
    }

    /// The pod among these that came in place of an evicted one last, while it must not be moved; `None` when all may be.
    #[must_use]
    pub fn youngest(&self, pods: &[PodId], cooldown: Seconds, scene: &Scene<'_>) -> Option<Fresh> {
        if self.0.is_empty() {
            return None;
        }
        let came = |id: &PodId| self.came_for_another(&scene.world.pod(*id).pod);
        let came: Vec<PodId> = pods.iter().copied().filter(came).collect();
        Fresh::of(&came, None, cooldown, scene)
    }

    fn came_for_another(&self, pod: &Pod) -> bool {
        let since = controller_of(pod).and_then(|controller| self.0.get(&controller));
        since.is_some_and(|since| *since <= pod.created_at.plus(CLOCKS_DIFFER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_cluster::world::pod::Owner;
    use headroom_values::labels::ObjectKey;

    const COOLDOWN: Seconds = Seconds(600);

    fn pod(controller: Option<&str>) -> Pod {
        let owner = |name: &str| {
            Arc::new(Owner {
                kind: "ReplicaSet".into(),
                name: name.into(),
                uid: format!("uid-{name}").into(),
            })
        };
        Pod { key: ObjectKey::new("shop", "web-1"), owner: controller.map(owner), ..Pod::default() }
    }

    fn at(second: i64) -> UnixTime {
        UnixTime(1_000_000 + second)
    }

    #[test]
    fn evictions_of_a_controller_are_one_run_until_a_cooldown_has_none() {
        let mut memory = PoolHistory::default();
        let row = |memory: &PoolHistory| memory.evicted.get("ReplicaSet/shop/web").copied();
        for (second, since) in [(0, 0), (599, 0), (1_198, 0), (1_798, 1_798)] {
            note(&mut memory, &pod(Some("web")), COOLDOWN, at(second));
            assert_eq!(row(&memory), Some(Evicted { since: at(since), last: at(second) }));
        }
        forget(&mut memory, COOLDOWN, at(2_397));
        assert!(row(&memory).is_some());
        forget(&mut memory, COOLDOWN, at(2_398));
        assert_eq!(row(&memory), None);
    }

    #[test]
    fn nothing_is_noted_of_naked_pods_and_where_nobody_wants_a_cooldown() {
        let mut memory = PoolHistory::default();
        note(&mut memory, &pod(None), COOLDOWN, at(0));
        note(&mut memory, &pod(Some("web")), Seconds(0), at(0));
        assert!(memory.evicted.is_empty());
    }

    #[test]
    fn pods_made_since_the_first_eviction_came_for_another() {
        let mut history = History::default();
        for (pool, second) in [("a", 100), ("b", 60)] {
            note(history.pools.entry(pool.into()).or_default(), &pod(Some("web")), COOLDOWN, at(second));
        }
        let cooldowns = Cooldowns::of(&history);
        let came = |controller: &str, created: i64| {
            cooldowns.came_for_another(&Pod { created_at: at(created), ..pod(Some(controller)) })
        };
        assert!(came("web", 60));
        assert!(came("web", 55), "the clock of the API server may be behind");
        assert!(!came("web", 54), "it was there before");
        assert!(!came("db", 60));
    }
}
