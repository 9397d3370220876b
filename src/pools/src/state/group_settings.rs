//! Settings of one group: its own options over its pool's settings. It decides nothing.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::config::{Config, Pool};
use crate::state::foreign::Membership;
use headroom_cluster::world::World;
use headroom_cluster::world::provider::GroupOptions;
use headroom_values::known::Known;
use headroom_values::time::Seconds;

/// The settings of one group.
///
/// Source: Cluster Autoscaler, processors/nodegroupconfig: the options of a group's cloud go before those that hold for
/// all.
#[derive(Clone, Copy, Debug)]
pub struct GroupSettings<'a> {
    pool: &'a Pool,
    own: Option<&'a GroupOptions>,
}

/// Settings of the groups of members that were asked for before: a pass over all nodes asks for the same few again and again.
#[derive(Debug, Default)]
pub struct KnownSettings<'a> {
    /// By index of the pool, and by the address of the group's id, which is one and the same for all its members.
    known: FxHashMap<(usize, *const u8), GroupSettings<'a>>,
}

impl<'a> KnownSettings<'a> {
    /// As [`GroupSettings::of`] for the group of a member.
    pub fn of(&mut self, member: &Membership<'a>, config: &'a Config, world: &'a World) -> GroupSettings<'a> {
        let settings = || GroupSettings::of(&config.pools[member.pool], member.group, world);
        *self.known.entry((member.pool, Arc::as_ptr(member.group).cast())).or_insert_with(settings)
    }
}

impl<'a> GroupSettings<'a> {
    /// Those of a group whose own options are known.
    #[must_use]
    pub fn new(pool: &'a Pool, own: Option<&'a GroupOptions>) -> Self {
        Self { pool, own }
    }

    /// Those of a group as its provider reported them last, however long ago: an option that was read does not end because the
    /// cloud is silent.
    #[must_use]
    pub fn of(pool: &'a Pool, group: &str, world: &'a World) -> Self {
        let state = world.provider(&pool.name).and_then(Known::value);
        Self::new(pool, state.and_then(|state| state.groups.get(group)?.options.as_deref()))
    }

    fn own<T>(self, option: impl Fn(&GroupOptions) -> Option<T>) -> Option<T> {
        self.own.and_then(option)
    }

    /// Percent of requests over allocatable at or under which a node is a candidate.
    #[must_use]
    pub fn utilization_threshold_percent(self) -> u32 {
        self.own(|own| own.utilization_threshold_percent)
            .unwrap_or(self.pool.scale_down.utilization_threshold_percent)
    }

    /// The same for nodes with GPUs.
    #[must_use]
    pub fn gpu_utilization_threshold_percent(self) -> u32 {
        self.own(|own| own.gpu_utilization_threshold_percent)
            .unwrap_or(self.pool.scale_down.gpu_utilization_threshold_percent)
    }

    /// Time that a node is unneeded before it goes.
    #[must_use]
    pub fn unneeded_for(self) -> Seconds {
        self.own(|own| own.unneeded_for).unwrap_or(self.pool.scale_down.unneeded_for)
    }

    /// Time that a node is unready before it goes.
    #[must_use]
    pub fn unready_for(self) -> Seconds {
        self.own(|own| own.unready_for).unwrap_or(self.pool.scale_down.unready_for)
    }

    /// From the request to the node's registration.
    #[must_use]
    pub fn provision_timeout(self) -> Seconds {
        self.own(|own| own.provision_timeout).unwrap_or(self.pool.scale_up.provision_timeout)
    }

    /// True if DaemonSet pods are left out when a node is measured.
    #[must_use]
    pub fn ignore_daemon_sets(self) -> bool {
        self.own(|own| own.ignore_daemon_sets).unwrap_or(self.pool.scale_down.ignore_daemon_sets)
    }

    /// True if mirror pods are; no option of a group sets it.
    #[must_use]
    pub fn ignore_mirror(self) -> bool {
        self.pool.scale_down.ignore_mirror
    }

    /// True if every pod on a node counts when it is measured.
    #[must_use]
    pub fn counts_all_pods(self) -> bool {
        !self.ignore_daemon_sets() && !self.ignore_mirror()
    }
}
