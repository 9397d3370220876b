//! Groups whose launches fail until something is mended: they are held, beside core's backoff, which comes and goes. Pure.
//!
//! This is a cache as the rest of the snapshot is: a restart forgets it, and the next failed launch brings it back.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::time::{Seconds, UnixTime};

use super::activities::{Class, Launches};
use super::group;

/// A held group is tried again after this long: what was wrong may be mended elsewhere (a key, a role, an image).
const HELD_FOR: Seconds = Seconds::hours(6);
/// The same for a missing permission: nothing of the group changes when it is given, so it is tried more often.
const PERMISSION_HELD_FOR: Seconds = Seconds::hours(1);
/// So many instances in a row that were launched and died make the template suspect.
const DIED_MAX: usize = 3;

/// Version of a group's launch settings: a change of it ends a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    launches: group::Launches,
    resolved: Option<Arc<str>>,
}

/// One group.
#[derive(Clone, Debug)]
struct Entry {
    version: Version,
    /// Failures before this moment speak of an earlier version, or are history.
    seen_at: UnixTime,
    held: Option<(UnixTime, String)>,
}

/// The holds of a region, by group.
#[derive(Clone, Debug, Default)]
pub struct Holds(BTreeMap<Arc<str>, Entry>);

impl Holds {
    /// Notes what a group launches now; another version ends the group's hold.
    pub fn see(&mut self, group: &group::Group, resolved: Option<Arc<str>>, now: UnixTime) {
        let version = Version { launches: group.launches.clone(), resolved };
        match self.0.get(&group.name) {
            Some(entry) if entry.version == version => {}
            _ => {
                self.0.insert(group.name.clone(), Entry { version, seen_at: now, held: None });
            }
        }
    }

    /// Takes in a failed launch of this class; `zones` is how many zones the group has.
    ///
    /// A wrong configuration and a missing permission hold the group. A type that its only zone does not have does so too; of several zones
    /// another one may have it. Other classes do not.
    pub fn failed(&mut self, name: &Arc<str>, class: Class, words: &str, zones: usize, at: UnixTime) {
        let (why, length) = match class {
            Class::Configuration => {
                ("its launches fail until its launch template, or what that names, is mended", HELD_FOR)
            }
            Class::Permission => ("its launches fail until a permission is given", PERMISSION_HELD_FOR),
            Class::Unsupported if zones == 1 => ("its zone does not have its type of machine", HELD_FOR),
            _ => return,
        };
        self.hold(name, why, words, at, length);
    }

    /// Adopts the launches that a group's activities report.
    pub fn take(&mut self, name: &Arc<str>, launches: &Launches, zones: usize) {
        for failed in &launches.failed {
            self.failed(name, failed.class, &failed.message, zones, failed.at);
        }
        let Some(entry) = self.0.get(name) else { return };
        let died = launches.died_at.iter().filter(|at| entry.seen_at <= **at);
        if let (true, Some(last)) = (DIED_MAX <= died.clone().count(), died.max().copied()) {
            let why = "its instances are launched and die: its launch template may be wrong";
            self.hold(name, why, &format!("{DIED_MAX} in a row"), last, HELD_FOR);
        }
    }

    fn hold(&mut self, name: &Arc<str>, why: &str, words: &str, at: UnixTime, length: Seconds) {
        let Some(entry) = self.0.get_mut(name).filter(|entry| entry.seen_at <= at) else { return };
        let until = at.plus(length);
        if entry.held.as_ref().is_none_or(|(known, _)| *known < until) {
            entry.held = Some((until, format!("{why}: it does not grow for now: {words}")));
        }
    }

    /// Reason why the group is held, if it is.
    #[must_use]
    pub fn held(&self, name: &str, now: UnixTime) -> Option<&str> {
        let (until, words) = self.0.get(name)?.held.as_ref()?;
        (now < *until).then_some(words.as_str())
    }

    /// Drops groups that are there no more.
    pub fn retain(&mut self, keep: impl Fn(&Arc<str>) -> bool) {
        self.0.retain(|name, _| keep(name));
    }
}
