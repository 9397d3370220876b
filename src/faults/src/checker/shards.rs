//! Shards of workloads: who may write for a workload by the Leases as they truly are, and that no two replicas do at a time.
//!
//! What names of Leases and the annotation say is read here by rules of its own: replicas of two versions meet in a cluster,
//! and a change of the format that both sides followed would go unseen.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Checker, LifeLog};
use headroom_operator::controllers::shards::placement::shard_of;
use headroom_simulator::store::{at, number, text};
use headroom_simulator::wire::{Call, Caller};

/// The leader's Lease.
const LEADER: &str = "headroom";
/// Annotation of the leader's Lease by which its holder declares shards.
const DECLARED: &str = "headroom.dev/workload-shards";

/// Records of the Leases by which workloads are run.
#[derive(Debug, Default)]
pub struct Shards {
    /// True if any replica of this run has shards.
    pub checked: bool,
    /// Leases by name and caller, with the time that each lasts; that of a leader who declares no shards is among them.
    leases: BTreeMap<(String, Caller), (LifeLog, SignedDuration)>,
    /// Who last wrote for the workloads of a namespace, and the Lease by which.
    writers: BTreeMap<String, (Caller, String)>,
}

impl Shards {
    /// The Lease by which `caller` may write for the workloads of `namespace` at `at`.
    fn lease_of(&self, caller: Caller, namespace: &str, at: Timestamp) -> Option<String> {
        let covers = |name: &str| {
            name == LEADER || shard_in(name).is_some_and(|(shard, count)| shard_of(namespace, count) == shard)
        };
        let leases = self.leases.keys().filter(|(name, by)| *by == caller && covers(name));
        leases.map(|(name, _)| name.clone()).find(|name| self.is_held(name, caller, at))
    }

    fn is_held(&self, name: &str, caller: Caller, at: Timestamp) -> bool {
        let Some((log, lasts)) = self.leases.get(&(name.to_owned(), caller)) else { return false };
        let begun = log.leads_since.is_some_and(|since| since <= at);
        begun && log.renewed_at.is_some_and(|renewed| at.duration_since(renewed) <= *lasts)
    }
}

/// The shard and the number of shards in the name of a Lease.
fn shard_in(name: &str) -> Option<(usize, usize)> {
    let (shard, count) = name.strip_prefix(LEADER)?.strip_prefix("-shard-")?.split_once("-of-")?;
    Some((shard.parse().ok()?, count.parse().ok()?))
}

impl Checker {
    /// I37: a write for a workload is made by the holder of its Lease, and by nobody while the one who wrote before still
    /// holds the Lease of another number of shards.
    pub(super) fn check_shard(&mut self, call: &Call, what: &str) {
        let namespace = call.key.namespace.to_string();
        let Caller { replica, life } = call.caller;
        let Some(lease) = self.shards.lease_of(call.caller, &namespace, call.arrived_at) else {
            let message =
                format!("{what} by life {life} of replica {replica}, which does not hold its shard");
            return self.violated(call.arrived_at, "I37", message);
        };
        let before = self.shards.writers.insert(namespace, (call.caller, lease));
        if let Some((other, by)) = before
            && other != call.caller
            && self.shards.is_held(&by, other, call.arrived_at)
        {
            let message = format!(
                "{what} by life {life} of replica {replica} while life {} of replica {} still holds {by}",
                other.life, other.replica
            );
            self.violated(call.arrived_at, "I37", message);
        }
    }

    /// The Lease by which a caller writes for a workload, and its term.
    pub(super) fn term_of(&self, call: &Call) -> (String, i64) {
        let epoch = |log: Option<&LifeLog>| log.and_then(|log| log.epoch).unwrap_or(0);
        if !self.shards.checked {
            return (LEADER.to_owned(), epoch(self.lives.get(&call.caller)));
        }
        let writer = self.shards.writers.get(&*call.key.namespace);
        let lease = writer.map(|(_, lease)| lease.clone()).unwrap_or_default();
        let log = self.shards.leases.get(&(lease.clone(), call.caller)).map(|(log, _)| log);
        (lease, epoch(log))
    }

    /// A Lease of workloads was written. I37: nobody takes one that another still holds.
    pub(super) fn shard_lease_is_written(&mut self, call: &Call) {
        let name = call.key.name.to_string();
        let holder = text(&call.body, &["spec", "holderIdentity"]).unwrap_or_default();
        if !self.shards.checked || (name != LEADER && shard_in(&name).is_none()) {
            return;
        }
        // A leader who declares shards runs no workload by its own Lease.
        let declared =
            at(&call.body, &["metadata", "annotations", DECLARED]).and_then(|value| value.as_str());
        let declares = declared.and_then(|text| text.split_once(' ')).is_some_and(|(_, by)| by == holder);
        let held = !(holder.is_empty() || name == LEADER && declares);
        let others = self.shards.leases.keys().filter(|(other, by)| *other == name && *by != call.caller);
        let other = others.map(|(_, by)| *by).find(|by| self.shards.is_held(&name, *by, call.now));
        if let Some(other) = other.filter(|_| held) {
            let message =
                format!("{name} is taken while life {} of replica {} holds it", other.life, other.replica);
            self.violated(call.now, "I37", message);
        }
        let lasts = number(&call.body, &["spec", "leaseDurationSeconds"]).unwrap_or(0);
        let (log, duration) = self.shards.leases.entry((name, call.caller)).or_default();
        *duration = SignedDuration::from_secs(lasts);
        let epoch = number(&call.body, &["spec", "leaseTransitions"]);
        if log.epoch != epoch || log.renewed_at.is_none() {
            log.leads_since = Some(call.now);
        }
        log.renewed_at = held.then_some(call.now);
        log.epoch = epoch;
    }
}
