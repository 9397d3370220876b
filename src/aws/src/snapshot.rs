//! Last read state of a region's groups, with our own writes, terminations and launches. It is a cache: a restart loses
//! nothing that AWS does not report again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::GroupTemplate;
use headroom_provider::shortage::Shortage;
use tokio::time::Instant;

use super::activities::{FailedLaunch, Launches};
use super::calls::CallError;
use super::group::{Group, Machine, MachinePhase};
use super::holds::Holds;
use super::interruptions::{Fate, Interruptions};

/// Queues of interruptions are read again after this long.
pub const QUEUE: Duration = Duration::from_secs(1);
/// Groups at rest are read again after this long.
pub const REST: Duration = Duration::from_secs(60);
/// Groups with something under way are read again after this long …
pub const HURRY: Duration = Duration::from_secs(5);
/// … and, when it has been under way for longer than two minutes, after this long.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Time after which an unfinished change counts as a lasting state.
const SETTLED_AFTER: Duration = Duration::from_secs(1_800);
/// Activities of a group are read again after this long.
pub const ACTIVITIES: Duration = Duration::from_secs(10);
/// A group is watched closely for so long after a write of ours.
const AFTERMATH: Duration = Duration::from_secs(60);
/// Time for which a change by another writer is reported.
const FOREIGN_EDIT_SHOWN: Seconds = Seconds(600);
/// An instance that was listed so recently is not gone for not being listed: a list may be older than the one before.
const LIST_LAG: Duration = Duration::from_secs(30);
/// First pause after a failed read; doubled up to [`REST`].
const PAUSE: Duration = Duration::from_secs(5);

/// For so long after a group was made a search by its tags may not find it: reads are consistent in the end only.
const MADE_LATELY: Duration = Duration::from_secs(180);

/// Tags that groups are found by.
pub type Tags = BTreeMap<String, String>;

/// Objects that the pools of a region refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Groups by name.
    pub names: BTreeSet<Arc<str>>,
    /// Groups by tags.
    pub selectors: BTreeSet<Tags>,
    /// Queues of interruptions by name.
    pub queues: BTreeSet<Arc<str>>,
}

/// One group as it was last read.
#[derive(Clone, Debug)]
pub struct Read {
    /// The group.
    pub group: Group,
    /// Time.
    pub at: UnixTime,
    /// Time, on the clock that never jumps.
    pub clock: Instant,
    /// Time since which something has been under way.
    pub busy_since: Option<Instant>,
    /// Time for which it has had fewer instances than its size.
    pub shortage: Shortage,
    /// Somebody else's last change of its size.
    pub foreign: Option<ForeignEdit>,
    /// Time since which every read has shown neither a size nor instances.
    pub empty_since: Option<Instant>,
}

/// A change of a group's size that was not ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignEdit {
    /// Desired capacity before.
    pub from: u32,
    /// Desired capacity after.
    pub to: u32,
    /// Time at which it was seen.
    pub at: UnixTime,
}

/// Launch times of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// Time at which it was first seen.
    pub seen_at: UnixTime,
    /// Time at which AWS reports that its launch began.
    pub begun_at: Option<UnixTime>,
    /// Time at which it was last seen held by a lifecycle hook.
    pub held_at: Option<UnixTime>,
    /// Time at which a list last had it, on the clock that never jumps.
    pub listed_at: Instant,
}

impl Birth {
    /// Time from which it should have become a node: a hook may hold a launch for its whole timeout.
    #[must_use]
    pub fn counts_from(&self) -> UnixTime {
        let begun = self.begun_at.unwrap_or(self.seen_at);
        self.held_at.map_or(begun, |held| held.max(begun))
    }
}

/// Last resolved template of a group.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The template, or why there is none.
    pub template: Result<Arc<GroupTemplate>, String>,
    /// The type of its machines, if there is only one.
    pub instance_type: Option<Arc<str>>,
    /// True if it launches spot instances, and nothing else.
    pub spot: bool,
    /// Reason why the group is not to shrink now, if so.
    pub updating: Option<String>,
}

/// Trouble with reads.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Error of the read.
    pub error: CallError,
    /// Number of failures in a row.
    pub count: u32,
    /// Not tried again before.
    pub until: Instant,
}

/// Known state of a region.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Groups as last read.
    pub groups: BTreeMap<Arc<str>, Read>,
    /// Names of groups that each selector found.
    pub selected: BTreeMap<Tags, BTreeSet<Arc<str>>>,
    /// Objects and times of the last whole read.
    pub whole: Option<(Wanted, UnixTime, Instant)>,
    /// The last failed read, if none has succeeded since.
    pub failure: Option<Failure>,
    /// Instances that we terminated, with the time since which AWS lists them no more: a list may be older than the one before, so
    /// they stay for [`LIST_LAG`] after that.
    pub gone: BTreeMap<Arc<str>, Option<Instant>>,
    /// Launch times of instances.
    pub births: BTreeMap<Arc<str>, Birth>,
    /// Launches of groups, as their activities report them.
    pub launches: BTreeMap<Arc<str>, (Launches, Instant)>,
    /// Our last write on each group.
    pub wrote: BTreeMap<Arc<str>, Instant>,
    /// Number of writes that each group has had: a read that a write overtook is not stored.
    pub writes: BTreeMap<Arc<str>, u64>,
    /// Templates of groups.
    pub shapes: BTreeMap<Arc<str>, Shape>,
    /// Groups whose launches fail until something is mended.
    pub holds: Holds,
    /// Quotas that were used up: when, and in which words.
    pub quotas: BTreeMap<String, (UnixTime, Arc<str>)>,
    /// Optional actions that are not permitted or do not exist, with AWS's words: not tried again for a while.
    pub denied: BTreeMap<&'static str, (String, Instant)>,
    /// Interruptions of instances that queues have announced.
    pub interruptions: Interruptions,
    /// Queues of interruptions that pools ask for, by name.
    pub queues: BTreeMap<Arc<str>, Queue>,
    /// Groups that we made, with their tags: a search by tags may not find them for a while.
    pub made: BTreeMap<Arc<str>, (Tags, Instant)>,
}

/// A queue of interruptions.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// Its address, once it is known.
    pub url: Option<Arc<str>>,
    /// The last failed call, if none has succeeded since.
    pub failure: Option<Failure>,
}

impl Snapshot {
    /// True if everything is to be read: for the first time, after a minute, or because other groups are asked for.
    #[must_use]
    pub fn whole_due(&self, wanted: &Wanted, clock: Instant) -> bool {
        match &self.whole {
            None => true,
            Some((before, _, at)) => before != wanted || REST <= clock.saturating_duration_since(*at),
        }
    }

    /// True if reads pause after a failure.
    #[must_use]
    pub fn pausing(&self, clock: Instant) -> bool {
        self.failure.as_ref().is_some_and(|failure| clock < failure.until)
    }

    /// Notes a failed read.
    pub fn failed(&mut self, error: CallError, clock: Instant) {
        let count = self.failure.as_ref().map_or(0, |failure| failure.count).saturating_add(1);
        let pause = PAUSE.saturating_mul(1 << (count - 1).min(4)).min(REST);
        self.failure = Some(Failure { error, count, until: clock + pause });
    }

    /// Names of groups with something under way whose last read is too old.
    #[must_use]
    pub fn busy(&self, clock: Instant) -> Vec<Arc<str>> {
        let due = |(name, read): &(&Arc<str>, &Read)| {
            self.pace(name, read, clock).is_some_and(|pace| read.clock + pace <= clock)
        };
        self.groups.iter().filter(due).map(|(name, _)| name.clone()).collect()
    }

    /// Returns the period in which a group is read by itself; `None` at rest.
    #[must_use]
    pub fn pace(&self, name: &Arc<str>, read: &Read, clock: Instant) -> Option<Duration> {
        let ours = self.wrote.get(name).is_some_and(|at| clock.saturating_duration_since(*at) < AFTERMATH);
        if ours {
            return Some(HURRY);
        }
        let busy = clock.saturating_duration_since(read.busy_since?);
        if SETTLED_AFTER <= busy {
            None
        } else if Duration::from_secs(120) <= busy {
            Some(PATIENCE)
        } else {
            Some(HURRY)
        }
    }

    /// Time at which something newer will be known.
    #[must_use]
    pub fn next_in(&self, clock: Instant) -> Duration {
        let whole = self
            .whole
            .as_ref()
            .map_or(Duration::ZERO, |(_, _, at)| (*at + REST).saturating_duration_since(clock));
        let busy = self.groups.iter().filter_map(|(name, read)| {
            Some((read.clock + self.pace(name, read, clock)?).saturating_duration_since(clock))
        });
        let next = busy.fold(whole, Duration::min);
        let next = match &self.failure {
            Some(failure) => next.max(failure.until.saturating_duration_since(clock)),
            None => next,
        };
        if self.queues.is_empty() { next } else { next.min(QUEUE) }
    }

    /// The number of writes each of these groups has had so far.
    #[must_use]
    pub fn writes_of(&self, name: &str) -> u64 {
        self.writes.get(name).copied().unwrap_or(0)
    }

    /// Notes a write of ours on a group.
    pub fn note_write(&mut self, name: &Arc<str>, clock: Instant) {
        self.wrote.insert(name.clone(), clock);
        let count = self.writes.entry(name.clone()).or_default();
        *count = count.saturating_add(1);
    }

    /// Stores a read of a group, unless a write of ours came between: `writes` is the result of [`Self::writes_of`]
    /// when the read began.
    pub fn store(&mut self, mut group: Group, writes: u64, at: UnixTime, clock: Instant) {
        if self.writes_of(&group.name) != writes {
            return;
        }
        for machine in &group.instances {
            let birth = Birth { seen_at: at, begun_at: None, held_at: None, listed_at: clock };
            let birth = self.births.entry(machine.id.clone()).or_insert(birth);
            birth.listed_at = clock;
            if machine.waits_for_hook() {
                birth.held_at = Some(at);
            }
        }
        let kept = self.left_out(&group, clock);
        group.instances.extend(kept);
        let before = self.groups.get(&group.name);
        let quiet =
            |name: &Arc<str>, read: &Read| self.wrote.get(name).is_none_or(|wrote| *wrote < read.clock);
        let edited = before.filter(|read| read.group.desired != group.desired && quiet(&group.name, read));
        let foreign = match edited {
            Some(read) => Some(ForeignEdit { from: read.group.desired, to: group.desired, at }),
            None => before
                .and_then(|read| read.foreign.clone())
                .filter(|edit| at.since(edit.at) <= FOREIGN_EDIT_SHOWN),
        };
        let busy_since = group.in_flight().then(|| before.and_then(|read| read.busy_since).unwrap_or(clock));
        let shortage = before.map(|read| read.shortage).unwrap_or_default().after(group.shortage(), at);
        let is_empty = group.desired == 0 && group.instances.is_empty();
        let empty_since = is_empty.then(|| before.and_then(|read| read.empty_since).unwrap_or(clock));
        let name = group.name.clone();
        let read = Read { group, at, clock, busy_since, shortage, foreign, empty_since };
        self.groups.insert(name, read);
    }

    /// Time for which a group has had neither size nor instances, our last write on it not within; `None` if it has.
    #[must_use]
    pub fn empty_for(&self, name: &Arc<str>, clock: Instant) -> Option<Duration> {
        let empty = self.groups.get(name)?.empty_since?;
        let since = self.wrote.get(name).map_or(empty, |wrote| empty.max(*wrote));
        Some(clock.saturating_duration_since(since))
    }

    /// Notes a group that we made.
    pub fn made(&mut self, name: &Arc<str>, tags: Tags, clock: Instant) {
        self.made.insert(name.clone(), (tags, clock));
        self.select_made(clock);
    }

    /// Groups that we made so lately that a search by their tags may not find them.
    #[must_use]
    pub fn lately_made(&self, clock: Instant) -> BTreeMap<Arc<str>, Tags> {
        let lately =
            self.made.iter().filter(|(_, (_, at))| clock.saturating_duration_since(*at) < MADE_LATELY);
        lately.map(|(name, (tags, _))| (name.clone(), tags.clone())).collect()
    }

    /// Takes groups that we made lately and that are there for found by their tags.
    pub fn select_made(&mut self, clock: Instant) {
        let lately = self.lately_made(clock);
        self.made.retain(|name, _| lately.contains_key(name));
        for (name, tags) in lately {
            if self.groups.contains_key(&name) {
                self.selected.entry(tags).or_default().insert(name);
            }
        }
    }

    /// Instances that were there a moment ago, are not in the list of this read, and that its size still asks for: reads
    /// are consistent in the end only, and a list may be older than the size beside it. Left out, their nodes would be
    /// nobody's, and be bought once more. What AWS takes away it lists as leaving first, and its size asks for another.
    fn left_out(&self, group: &Group, clock: Instant) -> Vec<Machine> {
        let Some(before) = self.groups.get(&group.name) else { return Vec::new() };
        let missing = group.shortage();
        let recent = |id: &Arc<str>| {
            let listed = self.births.get(id).map(|birth| clock.saturating_duration_since(birth.listed_at));
            listed.is_some_and(|age| age <= LIST_LAG)
        };
        let left_out = before.group.instances.iter().filter(|one| {
            matches!(one.phase(), MachinePhase::Counted(_))
                && group.machine(&one.id).is_none()
                && !self.gone.contains_key(&one.id)
                && recent(&one.id)
        });
        left_out.take(usize::try_from(missing).unwrap_or(0)).cloned().collect()
    }

    /// Returns the state of an instance that a message names.
    #[must_use]
    pub fn fate(&self, id: &str) -> Fate {
        if self.gone.contains_key(id) {
            return Fate::Going;
        }
        match self.groups.values().find_map(|read| read.group.machine(id)).map(Machine::phase) {
            Some(MachinePhase::Leaving) => Fate::Going,
            Some(MachinePhase::Counted(_) | MachinePhase::Aside | MachinePhase::Warm) => Fate::Here,
            None => Fate::Unlisted,
        }
    }

    /// Drops what belongs to groups and instances that are there no more.
    pub fn forget(&mut self, wanted: &Wanted, clock: Instant) {
        let selected: BTreeSet<&Arc<str>> = self.selected.values().flatten().collect();
        self.groups.retain(|name, _| wanted.names.contains(name) || selected.contains(name));
        let groups = &self.groups;
        let listed: BTreeSet<Arc<str>> =
            groups.values().flat_map(|read| &read.group.instances).map(|one| one.id.clone()).collect();
        self.births.retain(|id, _| listed.contains(id));
        self.gone.retain(|id, unlisted_since| {
            if listed.contains(id) {
                *unlisted_since = None;
                return true;
            }
            clock < *unlisted_since.get_or_insert(clock) + LIST_LAG
        });
        self.launches.retain(|name, _| groups.contains_key(name));
        self.wrote.retain(|name, _| groups.contains_key(name));
        self.shapes.retain(|name, _| groups.contains_key(name));
        self.holds.retain(|name| groups.contains_key(name));
    }

    /// Adopts a group's activities.
    pub fn store_launches(&mut self, name: &Arc<str>, launches: Launches, clock: Instant) {
        for (id, at) in &launches.begun {
            if let Some(birth) = self.births.get_mut(id) {
                birth.begun_at = Some(*at);
            }
        }
        let zones = self.groups.get(name).map_or(0, |read| read.group.zones.len());
        self.holds.take(name, &launches, zones);
        self.launches.insert(name.clone(), (launches, clock));
    }

    /// Names of groups whose activities matter and were not read for a while: instances are missing, or one is not a
    /// node and its launch is not known.
    #[must_use]
    pub fn activities_due(&self, registered: &BTreeSet<Arc<str>>, clock: Instant) -> Vec<Arc<str>> {
        let due = |(name, read): &(&Arc<str>, &Read)| {
            let group = &read.group;
            // A read before our last write does not show the effect of that write.
            let before_write = |at: &Instant| self.wrote.get(*name).is_some_and(|wrote| *at <= *wrote);
            let recent =
                self.launches.get(*name).is_some_and(|(_, at)| clock < *at + ACTIVITIES && !before_write(at));
            let unknown = || {
                group.instances.iter().any(|one| {
                    matches!(one.phase(), MachinePhase::Counted(_))
                        && !registered.contains(&one.id)
                        && self.births.get(&one.id).is_some_and(|birth| birth.begun_at.is_none())
                })
            };
            // Old shortages are looked at once a minute.
            let settled = self.pace(name, read, clock).is_none()
                && self.launches.get(*name).is_some_and(|(_, at)| clock < *at + REST);
            !recent && !settled && (group.counted() < group.desired || unknown())
        };
        self.groups.iter().filter(due).map(|(name, _)| name.clone()).collect()
    }

    /// Failed launches of a group whose instances are missing.
    pub fn failed_launches(&self, name: &str) -> impl Iterator<Item = &FailedLaunch> {
        let missing = self.groups.get(name).is_some_and(|read| read.group.counted() < read.group.desired);
        let launches = self.launches.get(name).filter(|_| missing);
        launches.into_iter().flat_map(|(launches, _)| &launches.failed)
    }
}
