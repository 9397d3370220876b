//! The seams of a run: a cloud of its own, trouble at set times, an audit of every call. By default there is nothing of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use headroom_observe::Feed;
use headroom_observe::host::Host;
use headroom_operator::actuate::guard::Guard;
use headroom_provider::CloudProvider;
use jiff::Timestamp;

use super::cluster::SimCluster;
use super::replica::Surroundings;
use super::run::Stage;
use super::wire::{Audit, Caller};

/// One life of a replica that is about to begin.
pub struct LifeContext<'a> {
    /// State that all lives share.
    pub surroundings: &'a Surroundings,
    /// The replica and the number of its life.
    pub caller: Caller,
    /// The guard of its calls.
    pub guard: &'a Guard,
    /// Its clock, tasks and randomness.
    pub host: &'a Arc<Host>,
}

/// Environment of a run beside the cluster and the operator. Each method does nothing by default.
pub trait Environment: Send + Sync + fmt::Debug {
    /// The auditor of all calls, if there is one.
    fn audit(&self) -> Option<Box<dyn Audit>> {
        None
    }

    /// The provider of one life, in place of the embedded one or around it.
    fn provider(&self, embedded: Arc<dyn CloudProvider>, _life: &LifeContext<'_>) -> Arc<dyn CloudProvider> {
        embedded
    }

    /// The feed of one life, in place of the one over the simulated API server or around it.
    fn feed(&self, feed: Arc<dyn Feed>) -> Arc<dyn Feed> {
        feed
    }

    /// Strikes what is due at `now`; called before each step of the cluster.
    fn strike(&self, _stage: &mut Stage, _now: Timestamp) {}

    /// Moves what is simulated beside the cluster to `now`; called between events of the scenario and the cluster's own step.
    fn before_step(&self, _cluster: &SimCluster, _now: Timestamp) {}

    /// Sees the cluster after each step.
    fn after_step(&self, _cluster: &SimCluster, _now: Timestamp) {}

    /// Ends everything that goes wrong: from here on the run is calm.
    fn calm_down(&self, _now: Timestamp) {}

    /// The time of the next strike or step, if one is due at a set time.
    fn next_at(&self) -> Option<Timestamp> {
        None
    }

    /// True if the run may end before the scenario does.
    fn is_over(&self) -> bool {
        false
    }

    /// Returns the number of faults, by name; faults of requests are counted elsewhere.
    fn faults(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }
}
