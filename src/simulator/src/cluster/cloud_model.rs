//! Present faults of the cloud: slow joins, failing launches, zones that are out. It changes no object.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::world::provider::FailureClass;
use jiff::{SignedDuration, Timestamp};

use crate::trace::StableHash;

/// A launch that fails: for one pool or all, in one zone or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchFailure {
    /// `None` is every pool.
    pub pool: Option<String>,
    /// `None` is every zone.
    pub zone: Option<String>,
    /// Class of the failure.
    pub class: FailureClass,
    /// End.
    pub until: Timestamp,
}

/// The cloud model; the cloud double asks it at each launch, the kubelet at each join.
#[derive(Debug, Default)]
pub struct CloudModel {
    slow: Option<(u32, SignedDuration, Timestamp)>,
    failures: Vec<LaunchFailure>,
    outages: BTreeMap<String, Timestamp>,
    /// Machines that have failed, by the name of their node, and until when.
    broken: BTreeMap<Arc<str>, Timestamp>,
    /// Percentage of new nodes whose kubelet never reports, and until when.
    lost_joins: Option<(u64, Timestamp)>,
}

impl CloudModel {
    /// Nodes that are created until `until` join after `factor` times their delay plus `more`.
    pub fn slow_down(&mut self, factor: u32, more: SignedDuration, until: Timestamp) {
        self.slow = Some((factor, more, until));
    }

    /// Launches that match fail until the failure's end.
    pub fn fail_launches(&mut self, failure: LaunchFailure) {
        self.failures.push(failure);
    }

    /// The nodes of a zone fall silent until `until`, and launches there get no capacity.
    pub fn take_out(&mut self, zone: &str, until: Timestamp) {
        let end = self.outages.entry(zone.to_owned()).or_insert(until);
        *end = (*end).max(until);
    }

    /// The machine of a node fails until `until`. Those that are over by `now` are forgotten.
    pub(super) fn break_node(&mut self, name: &Arc<str>, until: Timestamp, now: Timestamp) {
        self.broken.retain(|_, end| now < *end);
        self.broken.insert(name.clone(), until);
    }

    /// True if the machine of the node has failed.
    pub(super) fn is_broken(&self, name: &str, now: Timestamp) -> bool {
        self.broken.get(name).is_some_and(|until| now < *until)
    }

    /// Of the nodes that are created until `until`, this percentage never becomes ready.
    pub fn lose_joins(&mut self, percent: u64, until: Timestamp) {
        self.lost_joins = Some((percent, until));
    }

    /// True if a node that is created now never becomes ready. The name alone decides, so a run is repeatable.
    pub(super) fn loses_join(&self, name: &str, now: Timestamp) -> bool {
        self.lost_joins.is_some_and(|(percent, until)| now < until && StableHash::of(name) % 100 < percent)
    }

    /// Time that a node that is created now takes to join.
    pub fn join_delay(&self, delay: SignedDuration, now: Timestamp) -> SignedDuration {
        match self.slow {
            Some((factor, more, until)) if now < until => {
                delay.saturating_mul(i32::try_from(factor).unwrap_or(i32::MAX)).saturating_add(more)
            }
            _ => delay,
        }
    }

    /// Returns the failure of a launch for this pool in this zone at present; `None` if it succeeds.
    pub fn launch_failure(&self, pool: &str, zone: &str, now: Timestamp) -> Option<FailureClass> {
        let hits =
            |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
        let failure =
            self.failures.iter().find(|f| now < f.until && hits(&f.pool, pool) && hits(&f.zone, zone));
        let out = self.is_out(zone, now).then_some(FailureClass::OutOfCapacity);
        failure.map(|failure| failure.class).or(out)
    }

    /// True if the zone is out.
    pub fn is_out(&self, zone: &str, now: Timestamp) -> bool {
        self.outages.get(zone).is_some_and(|until| now < *until)
    }

    /// Returns when the next outage ends.
    pub fn next_change_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.outages.values().copied().filter(|until| now < *until).min()
    }

    /// The zones that are out, or were.
    pub(super) fn zones(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        self.outages.iter().map(|(zone, until)| (zone.as_str(), *until))
    }
}
