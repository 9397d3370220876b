//! Writes to the cloud, at the instant of their effect: each is asked for by a stored intent, and takes what it names.

use jiff::{SignedDuration, Timestamp};

use super::{Checker, truth};
use headroom_simulator::store::{ObjectKey, Store};
use headroom_simulator::wire::Caller;

/// Time that a size may be below what runs: clouds act on a size some seconds after it was written.
const LOWERED_MAX: SignedDuration = SignedDuration::from_secs(2);

/// A write that took effect.
#[derive(Debug)]
pub struct CloudWrite<'a> {
    /// Life of a replica that wrote.
    pub caller: Caller,
    /// Time at which it was sent.
    pub sent_at: Timestamp,
    /// Time at which it took effect.
    pub now: Timestamp,
    /// The pool that the group was made for.
    pub pool: &'a str,
    /// The group.
    pub group: &'a str,
    /// Sum of the desired sizes of all groups of the pool, after the write.
    pub total: u32,
    /// Kind of the write, with its values.
    pub wrote: &'a Wrote,
}

/// Kind of a write to the cloud, with its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrote {
    /// The size.
    Desired {
        /// Before.
        from: u32,
        /// After.
        to: u32,
        /// Instances that count toward it.
        counted: u32,
    },
    /// A synchronous launch.
    Launch {
        /// The size before.
        desired: u32,
        /// Instances that it brought; none when it repeats an earlier one.
        count: u32,
        /// The client token.
        token: String,
    },
    /// The end of one instance.
    Terminate {
        /// Its id.
        instance: String,
        /// Its Node object.
        node: Option<ObjectKey>,
        /// True if the size goes with it.
        decrement: bool,
        /// True if it was leaving already.
        again: bool,
    },
}

impl Checker {
    /// Looks at a write of the cloud that has just taken effect.
    pub fn cloud_wrote(&mut self, store: &Store, write: &CloudWrite<'_>) {
        let CloudWrite { caller, sent_at, now, pool, group, total, wrote } = write;
        let what = format!("{wrote:?} on group {group}");
        // As with calls to the API server: a write that was sent while the lease lasted may land later, and is counted
        // below.
        self.check_claim(*caller, &what, *sent_at);
        self.caller = Some(*caller);
        self.check_gone(*now, pool, &what);
        self.writes_count += 1;
        self.last_write_at = Some(*now);
        let epoch = self.lives.get(caller).and_then(|life| life.epoch).unwrap_or(0);
        self.late_calls_count += u64::from(epoch < self.status_epoch);
        if let Wrote::Desired { to, counted, .. } = wrote {
            if to < counted {
                let message = format!("{what}: the cloud will choose {} running instances", counted - to);
                self.lowered.entry((*group).to_owned()).or_insert((*now, message));
            } else {
                self.lowered.remove(*group);
            }
        }
        match wrote {
            Wrote::Desired { from, to, counted } if from < to => {
                let intents = self.intents_for(store, pool, *caller);
                let of_group = |intent: &&truth::Intent| intent.increases() && intent.group == **group;
                let takes_back = |intent: &&truth::Intent| {
                    of_group(intent) && intent.phase == "Cancelling" && *to <= *counted
                };
                // After an instance that never became a node has gone with its size, a later increase may ask for the
                // very size of an earlier one that still waits for its nodes: the write is of the one that has not had it.
                let asks: Vec<&truth::Intent> = intents
                    .iter()
                    .filter(|intent| of_group(intent) && intent.phase != "Cancelling" && intent.to == *to)
                    .collect();
                let free = asks.iter().find(|intent| self.may_raise(pool, intent, to - from));
                match free.or(asks.first()).copied() {
                    Some(intent) if free.is_some() || !intents.iter().any(|one| takes_back(&one)) => {
                        self.raised(*now, pool, intent, to - from);
                    }
                    _ if intents.iter().any(|one| takes_back(&one)) => {}
                    // One that was below what runs is put right.
                    None if from < counted && to <= counted => {}
                    _ => self.violated(*now, "I3", format!("{what}: no stored intent asks for it")),
                }
                self.check_max(*now, pool, i64::from(*total));
            }
            Wrote::Desired { from, to, .. } if to < from => {
                let cancels = |intent: &truth::Intent| {
                    intent.increases() && intent.group == **group && intent.phase == "Cancelling"
                };
                if !self.intents_for(store, pool, *caller).iter().any(cancels) {
                    self.violated(*now, "I3", format!("{what}: no stored intent takes anything back"));
                }
            }
            Wrote::Desired { .. } => {}
            Wrote::Launch { count, token, .. } => {
                let intents = self.intents_for(store, pool, *caller);
                let asks = |intent: &&truth::Intent| {
                    intent.increases()
                        && intent.group == **group
                        && token.contains(&format!("-{}-", intent.id))
                };
                match intents.iter().find(asks) {
                    Some(intent) => self.raised(*now, pool, intent, *count),
                    None => self.violated(*now, "I3", format!("{what}: no stored intent asks for it")),
                }
                self.check_max(*now, pool, i64::from(*total));
            }
            Wrote::Terminate { instance, node, decrement, again } => {
                // Nobody has heard yet of an instance that the cloud took away itself an instant ago: the second end is
                // the first of ours.
                if !self.terminated.insert(instance.clone()) && *again {
                    return self.violated(*now, "I2", format!("{what}: it is terminated twice"));
                }
                self.removed_count += 1;
                let name = node.as_ref().map(|node| node.name.to_string()).unwrap_or_default();
                self.victim_goes(store, *now, &name, instance);
                let forced = self.removal_named(store, &name, instance).is_some_and(|intent| intent.forces());
                if *decrement && !forced {
                    self.check_min(*now, pool, i64::from(*total));
                }
            }
        }
    }

    /// I4: a size below what runs lets the cloud choose. Nothing keeps an instance from coming between a read and the write
    /// after it, so the size may be wrong for a moment, and must be raised again before the cloud has acted on it.
    pub(super) fn check_lowered(&mut self, now: Timestamp) {
        let late = |since: &Timestamp| LOWERED_MAX < now.duration_since(*since);
        let due: Vec<String> = self
            .lowered
            .iter()
            .filter(|(_, (since, _))| late(since))
            .map(|(group, _)| group.clone())
            .collect();
        for group in due {
            if let Some((at, message)) = self.lowered.remove(&group) {
                self.violated(at, "I4", message);
            }
        }
    }

    /// I2: an intent raises its group by what it says and no more, however often it is repeated.
    fn raised(&mut self, now: Timestamp, pool: &str, intent: &truth::Intent, by: u32) {
        let wanted = intent.to.saturating_sub(intent.from);
        let (id, key) = (&intent.id, (pool.to_owned(), intent.id.clone()));
        // A restored status brings back an increase that had ended, and may have been taken back: it begins anew.
        if self.may_repeat_ids(pool) && self.closed.remove(&key) {
            self.raised.remove(&key);
        }
        let sum = self.raised.entry(key).or_default();
        *sum += by;
        let sum = *sum;
        // A size that somebody else lowered meanwhile is raised again by the same intent.
        if wanted < sum {
            self.violated(now, "I2", format!("intent {id} of {pool} raised by {sum}, it says {wanted}"));
        }
    }

    /// True if an intent has not raised its group by all that it says.
    fn may_raise(&self, pool: &str, intent: &truth::Intent, by: u32) -> bool {
        let sum = self.raised.get(&(pool.to_owned(), intent.id.clone())).copied().unwrap_or(0);
        sum.saturating_add(by) <= intent.to.saturating_sub(intent.from)
    }
}
