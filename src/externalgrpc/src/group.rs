//! State of one group of a server, and its update by a read. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use headroom_core::time::UnixTime;
use headroom_core::world::provider::GroupOptions;
use tokio::time::Instant;

use super::calls::{CallError, End, Status};
use super::wire::{Instance, State};

/// A missing group is gone after so many rounds and so long.
const MISSING_ROUNDS: u32 = 3;
const MISSING_FOR: Duration = Duration::from_secs(60);
/// Sizes may change so long after a write of ours because of it.
const WRITE_LAG: Duration = Duration::from_secs(60);
/// A change of a size by somebody else, and unfulfilled requests, are reported for so long.
const FOREIGN_FOR: Duration = Duration::from_secs(600);

/// State of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// The server's bounds.
    pub bounds: (i32, i32),
    /// Instances wanted; never negative.
    pub target: u32,
    /// Instances, each id once.
    pub instances: BTreeMap<Arc<str>, Instance>,
    /// First observation of instances without a node.
    pub first_seen: BTreeMap<Arc<str>, UnixTime>,
    /// First observation of failed launches, by instance and code.
    pub failed: BTreeMap<(Arc<str>, String), UnixTime>,
    /// Instances deleted by us and still listed.
    pub gone: BTreeSet<Arc<str>>,
    /// Remarks on the last read, in words.
    pub remarks: Vec<String>,
    /// Error if the group could not be read; `None` if it was.
    pub trouble: Option<CallError>,
    /// Time since which the server does not list it, and the number of rounds.
    pub missing: Option<(Instant, u32)>,
    /// The template, encoded, or why there is none.
    pub template: Option<Result<Arc<[u8]>, String>>,
    /// Settings that the server has for the group.
    pub options: Option<GroupOptions>,
    /// A size changed by somebody else: from, to, when.
    pub foreign: Option<(u32, u32, Instant)>,
    /// Unfulfilled requests that the server does not take back, as a message, and the time since which.
    pub unfulfilled: Option<(String, Instant)>,
    /// Time at which template and settings are read again.
    pub extras_due: Option<Instant>,
    /// Begins and ends of writes: a read counts if there was none meanwhile.
    pub writes: u64,
    /// The last of them.
    pub written_at: Option<Instant>,
    read: bool,
}

/// Sizes of a group at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Instances wanted.
    pub target: u32,
    /// Instances that neither leave nor failed.
    pub live: u32,
    /// The server's bounds, negative ones as 0.
    pub bounds: (u32, u32),
    /// Ids of the instances, with the leaving ones marked.
    pub leaving: BTreeMap<Arc<str>, bool>,
    /// Ids of launches that failed.
    pub failed: Vec<Arc<str>>,
}

impl Group {
    /// True if the server has not listed the group for long enough.
    #[must_use]
    pub(crate) fn is_gone(&self, now: Instant) -> bool {
        self.missing.is_some_and(|(since, rounds)| MISSING_ROUNDS <= rounds && since + MISSING_FOR <= now)
    }

    /// Sizes as last read.
    #[must_use]
    pub(crate) fn reading(&self) -> Reading {
        let of = |bound: i32| u32::try_from(bound).unwrap_or(0);
        let stays = |instance: &&Instance| !is_leaving(instance) && !is_failed(instance);
        let live = self.instances.values().filter(stays).filter(|one| !self.gone.contains(&*one.id)).count();
        let leaving = self.instances.iter();
        let failed = self.instances.iter().filter(|(_, instance)| is_failed(instance));
        Reading {
            target: self.target,
            live: u32::try_from(live).unwrap_or(u32::MAX),
            bounds: (of(self.bounds.0), of(self.bounds.1)),
            leaving: leaving.map(|(id, one)| (id.clone(), is_leaving(one))).collect(),
            failed: failed.map(|(id, _)| id.clone()).collect(),
        }
    }

    /// True if something is under way.
    #[must_use]
    pub(crate) fn is_open(&self, registered: &BTreeSet<Arc<str>>) -> bool {
        let unseen =
            |(id, instance): (&Arc<str>, &Instance)| is_leaving(instance) || !registered.contains(id);
        self.target != self.reading().live || self.instances.iter().any(unseen) || self.missing.is_some()
    }

    /// Takes in a read of the group that began before `at`.
    pub(crate) fn take(
        &mut self,
        read: (i32, Vec<Instance>),
        at: UnixTime,
        now: Instant,
        registered: &BTreeSet<Arc<str>>,
    ) {
        let (size, listed) = read;
        self.remarks.clear();
        let Ok(target) = u32::try_from(size) else {
            self.trouble = Some(CallError {
                end: End::Status(Status::Other),
                message: format!("its target size is {size}"),
            });
            return;
        };
        let own = self.written_at.is_some_and(|written| now < written + WRITE_LAG);
        if self.read && target != self.target && !own {
            self.foreign = Some((self.target, target, now));
        }
        if self.foreign.is_some_and(|(_, _, since)| since + FOREIGN_FOR < now) {
            self.foreign = None;
        }
        if self.unfulfilled.as_ref().is_some_and(|(_, since)| *since + FOREIGN_FOR < now) {
            self.unfulfilled = None;
        }
        (self.target, self.trouble, self.missing, self.read) = (target, None, None, true);
        let count = listed.len();
        self.instances = listed
            .into_iter()
            .filter(|one| !one.id.is_empty())
            .map(|one| (Arc::from(one.id.as_str()), one))
            .collect();
        if self.instances.len() != count {
            self.remarks
                .push("it lists instances twice or without an id: they count once or not at all".to_owned());
        }
        let instances = &self.instances;
        self.gone.retain(|id| instances.contains_key(id));
        self.first_seen.retain(|id, _| instances.contains_key(id) && !registered.contains(id));
        self.failed.retain(|(id, _), _| instances.contains_key(id));
        for (id, instance) in instances {
            if !registered.contains(id) {
                self.first_seen.entry(id.clone()).or_insert(at);
            }
            if is_failed(instance) {
                let error = instance.status.as_ref().and_then(|status| status.error.as_ref());
                let code = error.map(|error| error.code.clone()).unwrap_or_default();
                self.failed.entry((id.clone(), code)).or_insert(at);
            }
        }
    }
}

/// True if the instance is leaving.
#[must_use]
pub(crate) fn is_leaving(instance: &Instance) -> bool {
    instance.status.as_ref().is_some_and(|status| status.state() == State::Deleting)
}

/// True if the launch of the instance failed.
#[must_use]
pub(crate) fn is_failed(instance: &Instance) -> bool {
    let Some(status) = &instance.status else { return false };
    status.state() == State::Creating && status.error.as_ref().is_some_and(|error| !error.code.is_empty())
}
