//! All Leases of an installation as last listed, and what follows from them. It writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use tokio::time::Instant;
use tracing::warn;

use super::layout::{is_in_force, is_member, is_of_other_layout, members_prefix};
use crate::controllers::lease::ObservedLease;
use crate::controllers::log_throttle::LogThrottle;
use headroom_observe::host::Host;

/// The Lease of a member that has been silent for so long is deleted: its process is gone, and the next one has another name.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(120);

/// A list of all Leases with the time at which it was asked for.
pub(in super::super) type Listed = Result<(Instant, Vec<Lease>), String>;

/// The Leases of one installation.
#[derive(Debug)]
pub(in super::super) struct ObservedLeases {
    /// Name of the leader's.
    leader: String,
    /// Number of shards.
    count: usize,
    /// Longest time that a list may take.
    deadline: Duration,
    by_name: BTreeMap<String, ObservedLease>,
    listed_at: Option<Instant>,
    /// Number of lists that succeeded.
    pub(super) looks: u64,
    unlisted: LogThrottle,
}

impl ObservedLeases {
    /// Nothing is known yet. `leader` is the name of the leader's Lease; a list may take until `deadline`.
    pub(in super::super) fn new(leader: &str, count: usize, deadline: Duration) -> Self {
        Self {
            leader: leader.to_owned(),
            count,
            deadline,
            by_name: BTreeMap::new(),
            listed_at: None,
            looks: 0,
            unlisted: LogThrottle::default(),
        }
    }

    /// Lists all Leases.
    pub(in super::super) async fn list(&self, api: &Api<Lease>, host: &Host) -> Listed {
        let (sent_at, everything) = (host.monotonic(), ListParams::default());
        match tokio::time::timeout(self.deadline, api.list(&everything)).await {
            Ok(Ok(listed)) => Ok((sent_at, listed.items)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("listing the leases took too long".to_owned()),
        }
    }

    /// Takes in a list that has just ended; what has changed since the one before restarts the wait for its expiry.
    pub(in super::super) fn take(&mut self, listed: Listed, host: &Host) {
        let (sent_at, leases) = match listed {
            Ok(listed) => listed,
            Err(error) => {
                if self.unlisted.due(&error, host.now()) {
                    warn!(%error, "failed to list the leases of shards");
                }
                return;
            }
        };
        self.unlisted.over();
        self.listed_at = Some(sent_at);
        self.looks += 1;
        let now = host.monotonic();
        let before = std::mem::take(&mut self.by_name);
        for lease in leases {
            let Some(name) = lease.metadata.name.clone() else { continue };
            if name.starts_with(&self.leader) {
                let seen = ObservedLease::after(before.get(&name), lease, now);
                self.by_name.insert(name, seen);
            }
        }
    }

    /// Time since the last list that succeeded was asked for.
    pub(super) fn age(&self, host: &Host) -> Option<Duration> {
        self.listed_at.map(|at| host.monotonic().saturating_duration_since(at))
    }

    /// The Lease of that name.
    pub(super) fn lease(&self, name: &str) -> Option<&Lease> {
        self.by_name.get(name).map(|seen| &seen.lease)
    }

    /// True if nobody holds the Lease of that name.
    pub(super) fn is_free(&self, name: &str, now: Instant) -> bool {
        self.by_name.get(name).is_none_or(|seen| seen.is_free(now))
    }

    /// True if the leader has declared this number of shards.
    pub(super) fn is_in_force(&self) -> bool {
        self.lease(&self.leader).is_some_and(|leader| is_in_force(leader, self.count))
    }

    /// True if nobody may run a workload by shards of another number.
    pub(in super::super) fn is_alone(&self, now: Instant) -> bool {
        let other = |name: &str| is_of_other_layout(&self.leader, name, self.count);
        self.by_name.iter().all(|(name, seen)| !other(name) || seen.is_free(now))
    }

    /// The replicas with this number of shards that live.
    pub(super) fn members(&self, now: Instant) -> BTreeSet<&str> {
        let prefix = members_prefix(&self.leader, self.count);
        let members = self.by_name.iter().filter(|(name, _)| name.starts_with(&prefix));
        members.filter(|(_, seen)| !seen.is_free(now)).filter_map(|(_, seen)| seen.holder()).collect()
    }

    /// Names and versions of members' Leases that are to be deleted, if the one of name `own` is the first that lives.
    pub(super) fn gone(&self, own: &str, now: Instant) -> Vec<(String, Option<String>)> {
        let members = || self.by_name.iter().filter(|(name, _)| is_member(&self.leader, name));
        let first = members().find(|(_, seen)| !seen.is_free(now));
        if first.is_none_or(|(name, _)| name != own) {
            return Vec::new();
        }
        let gone = members().filter(|(_, seen)| seen.changed_at + FORGOTTEN_AFTER < now);
        gone.map(|(name, seen)| (name.clone(), seen.lease.metadata.resource_version.clone())).collect()
    }
}
