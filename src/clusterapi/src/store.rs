//! Objects that the watches of one place have shown. It makes no request and decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::time::{Seconds, UnixTime};
use headroom_provider::cluster_api::GroupKind;
use headroom_provider::shortage::Shortage;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::calls::{Event, Trouble};
use super::group::Group;
use super::template::Templates;
use super::wire::{Cluster, Machine, Scalable, read};

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Groups.
    Group(GroupKind),
    /// Machines.
    Machine,
    /// The Cluster.
    Cluster,
}

impl Kind {
    /// Every kind.
    pub(crate) const ALL: [Self; 5] = [
        Self::Group(GroupKind::Deployment),
        Self::Group(GroupKind::Set),
        Self::Group(GroupKind::Pool),
        Self::Machine,
        Self::Cluster,
    ];

    /// The plural, as paths and permissions name it.
    #[must_use]
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Group(GroupKind::Deployment) => "machinedeployments",
            Self::Group(GroupKind::Set) => "machinesets",
            Self::Group(GroupKind::Pool) => "machinepools",
            Self::Machine => "machines",
            Self::Cluster => "clusters",
        }
    }

    /// The kind as Cluster API spells it.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Group(kind) => kind.as_str(),
            Self::Machine => "Machine",
            Self::Cluster => "Cluster",
        }
    }
}

/// Objects of one kind.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    /// Objects by name.
    pub objects: BTreeMap<String, T>,
    incoming: Option<BTreeMap<String, T>>,
    /// True once they have been listed.
    pub listed: bool,
    /// Error of the watch, and the time since which it fails.
    pub trouble: Option<(Trouble, UnixTime)>,
    /// Objects that cannot be read, with the problem.
    pub unreadable: BTreeMap<String, String>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            incoming: None,
            listed: false,
            trouble: None,
            unreadable: BTreeMap::new(),
        }
    }
}

impl<T: DeserializeOwned> Shelf<T> {
    fn take(&mut self, event: Event, now: UnixTime) {
        match event {
            Event::ListBegan => self.incoming = Some(BTreeMap::new()),
            Event::Listed(value) => {
                if let (Some((name, object)), Some(incoming)) = (self.read(&value), &mut self.incoming) {
                    incoming.insert(name, object);
                }
            }
            Event::ListEnded => {
                if let Some(incoming) = self.incoming.take() {
                    self.objects = incoming;
                    self.listed = true;
                }
                self.trouble = None;
            }
            Event::Applied(value) => {
                if let Some((name, object)) = self.read(&value) {
                    self.objects.insert(name, object);
                }
                self.trouble = None;
            }
            Event::Deleted(value) => {
                let name = value["metadata"]["name"].as_str().unwrap_or_default();
                self.objects.remove(name);
                self.unreadable.remove(name);
                self.trouble = None;
            }
            Event::Failed(trouble) => {
                let since = self.trouble.take().map_or(now, |(_, since)| since);
                self.trouble = Some((trouble, since));
            }
        }
    }

    fn read(&mut self, value: &Value) -> Option<(String, T)> {
        let name = value["metadata"]["name"].as_str()?.to_owned();
        match read(value) {
            Ok(object) => {
                self.unreadable.remove(&name);
                Some((name, object))
            }
            Err(problem) => {
                self.unreadable.insert(name, problem);
                None
            }
        }
    }
}

/// Memory of a group's size, in this process only.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sizes {
    last: Option<u32>,
    /// The last size that was written here: from, to.
    wrote: Option<(u32, u32)>,
    /// The last change by somebody else: from, to, when.
    pub foreign: Option<(u32, u32, UnixTime)>,
    undone: Vec<UnixTime>,
    /// Time for which it has had fewer machines than its size.
    pub shortage: Shortage,
}

impl Sizes {
    /// Time that a change by somebody else is reported.
    const REPORTED: Seconds = Seconds(600);
    /// Changes that were undone within this time count.
    const UNDONE_WITHIN: Seconds = Seconds(3_600);
    /// So many of them, and the group is left alone.
    const UNDONE_MAX: usize = 3;

    /// A size was written here.
    pub(crate) fn wrote(&mut self, from: u32, to: u32) {
        self.wrote = Some((from, to));
    }

    /// A size was seen.
    pub(crate) fn see(&mut self, size: u32, now: UnixTime) {
        let before = self.last.replace(size);
        self.undone.retain(|at| now.since(*at) < Self::UNDONE_WITHIN);
        self.foreign = self.foreign.filter(|(_, _, at)| now.since(*at) < Self::REPORTED);
        let Some(before) = before.filter(|before| *before != size) else { return };
        match self.wrote {
            Some((_, to)) if to == size => {}
            Some((from, to)) => {
                self.foreign = Some((before, size, now));
                if from == size && before == to {
                    self.undone.push(now);
                }
            }
            None => self.foreign = Some((before, size, now)),
        }
    }

    /// True if what is written here is undone again and again.
    #[must_use]
    pub(crate) fn is_contested(&self) -> bool {
        Self::UNDONE_MAX <= self.undone.len()
    }
}

/// A group's templates as they were read.
#[derive(Clone, Debug)]
pub(crate) struct TemplatesRead {
    /// References in the group by which they were read.
    pub refs: String,
    /// The templates, or why they cannot be read.
    pub found: Result<Templates, String>,
    /// Time at which they were read.
    pub at: UnixTime,
}

/// Objects that the watches of one place have shown.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// MachineDeployments.
    pub deployments: Shelf<Scalable>,
    /// MachineSets.
    pub sets: Shelf<Scalable>,
    /// MachinePools.
    pub pools: Shelf<Scalable>,
    /// Machines.
    pub machines: Shelf<Machine>,
    /// The Cluster.
    pub clusters: Shelf<Cluster>,
    /// Sizes by group id.
    pub sizes: BTreeMap<Arc<str>, Sizes>,
    /// MachinePools whose provider took another machine than the marked one.
    pub choosing: BTreeMap<Arc<str>, String>,
    /// Templates by group id.
    pub templates: BTreeMap<Arc<str>, TemplatesRead>,
    /// Time since which no machine's node is a node of this cluster.
    pub strange_since: Option<UnixTime>,
}

impl Store {
    /// Takes in one change.
    pub(crate) fn take(&mut self, kind: Kind, event: Event, now: UnixTime) {
        match kind {
            Kind::Group(kind) => self.shelf_mut(kind).take(event, now),
            Kind::Machine => self.machines.take(event, now),
            Kind::Cluster => self.clusters.take(event, now),
        }
    }

    fn shelf_mut(&mut self, kind: GroupKind) -> &mut Shelf<Scalable> {
        match kind {
            GroupKind::Deployment => &mut self.deployments,
            GroupKind::Set => &mut self.sets,
            GroupKind::Pool => &mut self.pools,
        }
    }

    /// Groups of a kind.
    #[must_use]
    pub(crate) fn shelf(&self, kind: GroupKind) -> &Shelf<Scalable> {
        match kind {
            GroupKind::Deployment => &self.deployments,
            GroupKind::Set => &self.sets,
            GroupKind::Pool => &self.pools,
        }
    }

    /// Troubles of the watches, with the kind and the time of their beginning.
    #[must_use]
    pub(crate) fn troubles(&self) -> Vec<(Kind, &Trouble, UnixTime)> {
        let of = |kind| {
            let trouble = match kind {
                Kind::Group(kind) => &self.shelf(kind).trouble,
                Kind::Machine => &self.machines.trouble,
                Kind::Cluster => &self.clusters.trouble,
            };
            trouble.as_ref().map(|(trouble, since)| (kind, trouble, *since))
        };
        Kind::ALL.into_iter().filter_map(of).collect()
    }

    /// Kinds that have not been listed yet.
    #[must_use]
    pub(crate) fn unlisted(&self) -> Vec<Kind> {
        let listed = |kind: &Kind| match *kind {
            Kind::Group(kind) => self.shelf(kind).listed,
            Kind::Machine => self.machines.listed,
            Kind::Cluster => self.clusters.listed,
        };
        Kind::ALL.into_iter().filter(|kind| !listed(kind)).collect()
    }

    /// A group with its parts.
    #[must_use]
    pub(crate) fn group(&self, kind: GroupKind, name: &str, cluster: &str) -> Option<Group> {
        let object = self.shelf(kind).objects.get(name)?;
        let (sets, machines) = (self.sets.objects.values(), self.machines.objects.values());
        Some(Group::of((kind, object), sets, machines, self.clusters.objects.get(cluster)))
    }
}
