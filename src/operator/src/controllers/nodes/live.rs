//! Reads of single pools by the node loop beside the watch, which may be silent: after a write that failed, and where a
//! pool has disappeared.

use std::sync::Arc;

use tracing::{info, warn};

use super::NodeLoop;
use crate::controllers::config;
use crate::controllers::memory::{self, ReadBack, StoredCluster};
use crate::options::PLAN_INTERVAL_MAX;
use headroom_api::{NodePoolSpec, PolicyObject};
use headroom_observe::PolicyChange;

impl NodeLoop {
    /// Reads one pool anew after a failed write, so that the next one names the right version and what is decided next is
    /// decided for the pool as it is. Returns whether it has a status of ours whose write was not answered.
    pub(super) async fn refresh(&mut self, pool: &Arc<str>) -> bool {
        let live = match self.ports.sink.read_pool(pool).await {
            Ok(live) => live,
            Err(error) => {
                warn!(pool = %pool, %error, "failed to read the pool");
                return false;
            }
        };
        let Some(object) = live else {
            info!(pool = %pool, "the pool is gone; nothing is done for it any more");
            self.missing.insert(pool.clone(), self.ports.host.monotonic() + PLAN_INTERVAL_MAX);
            self.take_in_policies(vec![PolicyChange::PoolGone(pool.clone())]);
            self.sync_stored();
            return false;
        };
        if !self.take_in_live(&object) {
            return false;
        }
        let Some(stored) = self.stored.get_mut(pool) else { return false };
        let read = stored.read_back(&object);
        let landed = matches!(read, ReadBack::Landed(_));
        self.remember(pool, read);
        landed
    }

    /// Takes in the spec of a pool that was read live, where the watch has not shown a newer one. Another pool of the same
    /// name brings its own memory, and the earlier one's goes with it. Returns true if it is the pool that was known.
    fn take_in_live(&mut self, object: &PolicyObject<NodePoolSpec>) -> bool {
        let watched = self.policies.pools.get(&object.name);
        let is_older =
            watched.is_some_and(|watched| memory::newer(&watched.resource_version, &object.resource_version));
        if !is_older {
            self.take_in_policies(vec![PolicyChange::Pool(Box::new(object.clone()))]);
        }
        if self.stored.get(&object.name).is_some_and(|stored| stored.is_of(object)) {
            return true;
        }
        if !is_older {
            self.sync_stored();
        }
        false
    }

    /// Reads the cluster policy anew after a failed write: an edit that no watch has shown, of the kill switch even, holds
    /// from now on.
    pub(super) async fn refresh_cluster(&mut self) {
        match self.ports.sink.read_policy(config::POLICY_NAME).await {
            Ok(Some(object)) => {
                let watched = self.policies.clusters.get(config::POLICY_NAME);
                if watched
                    .is_some_and(|watched| memory::newer(&watched.resource_version, &object.resource_version))
                {
                    return;
                }
                let reported_at = self.cluster.as_ref().and_then(|known| known.reported_at);
                self.cluster = Some(StoredCluster { reported_at, ..StoredCluster::of(&object) });
                self.take_in_policies(vec![PolicyChange::Cluster(Box::new(object))]);
            }
            // Its settings hold until the watch has shown its end: a kill switch does not open by an answer.
            Ok(None) => {}
            Err(error) => warn!(%error, "failed to read the cluster policy"),
        }
    }

    /// Forgets the missing pools that the watch has shown: it knows whether they are there.
    pub(super) fn shown_by_watch(&mut self, changes: &[PolicyChange]) {
        for change in changes {
            match change {
                PolicyChange::Pool(pool) => self.missing.remove(&pool.name),
                PolicyChange::PoolGone(name) => self.missing.remove(name),
                PolicyChange::Cluster(_) | PolicyChange::ClusterGone(_) => None,
            };
        }
    }

    /// Looks for pools that were not there: one that was applied again is taken up even if the watch stays silent.
    pub(super) async fn look_for_missing(&mut self) {
        let clock = self.ports.host.monotonic();
        let due: Vec<Arc<str>> =
            self.missing.iter().filter(|(_, at)| **at <= clock).map(|(name, _)| name.clone()).collect();
        for name in due {
            match self.ports.sink.read_pool(&name).await {
                Ok(Some(object)) => {
                    info!(pool = %name, "the pool is there again");
                    self.missing.remove(&name);
                    self.take_in_policies(vec![PolicyChange::Pool(Box::new(object))]);
                    self.sync_stored();
                }
                Ok(None) => {
                    self.missing.insert(name, clock + PLAN_INTERVAL_MAX);
                }
                Err(error) => warn!(pool = %name, %error, "failed to look for the pool"),
            }
        }
    }
}
