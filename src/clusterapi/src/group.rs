//! A group with its MachineSets and Machines, and the question by which removals stand or fall: would lowering its size
//! take exactly the marked machines? Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::reason::Reason;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::Hold;
use headroom_observe::convert::node::machine_id;
use headroom_provider::cluster_api::GroupKind;
use headroom_provider::shortage::Shortage;

use super::mark::{Mark, is_ours};
use super::wire::{Cluster, Machine, REPLICAS_MANAGED_BY, Scalable};

/// The replacement of a machine whose deletion takes longer is not waited for: about the time of a drain, and of a new node
/// on most clouds.
const SLOW_DELETION: Seconds = Seconds(300);

/// A group as one read, or the watches, gave it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// Its kind.
    pub kind: GroupKind,
    /// The object whose size is written.
    pub object: Scalable,
    /// Its MachineSets: those of a MachineDeployment, or the object itself.
    pub sets: Vec<Scalable>,
    /// Its Machines, those being deleted among them.
    pub machines: Vec<Machine>,
    /// Its Cluster; `None` if there is none.
    pub cluster: Option<Cluster>,
}

/// The id by which core knows a machine: as nodes carry it, or by its name before it has one.
#[must_use]
pub(crate) fn instance_id(namespace: &str, machine: &Machine) -> Arc<str> {
    match machine.provider_id() {
        Some(id) => machine_id(id).into(),
        None => format!("capi://{namespace}/{}", machine.metadata.name).into(),
    }
}

/// Settledness of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// A lowering takes marked machines, whichever they are.
    All,
    /// A lowering takes marked machines of one MachineSet alone, by its unique id: the oldest under `OnDelete`.
    Only(String),
}

impl Group {
    /// The parts of a group among everything that a place has.
    #[must_use]
    pub(crate) fn of<'a>(
        (kind, object): (GroupKind, &Scalable),
        sets: impl IntoIterator<Item = &'a Scalable>,
        machines: impl IntoIterator<Item = &'a Machine>,
        cluster: Option<&Cluster>,
    ) -> Self {
        let uid = object.metadata.uid.as_str();
        let sets: Vec<Scalable> = match kind {
            GroupKind::Deployment => {
                sets.into_iter().filter(|set| set.metadata.controller() == Some(uid)).cloned().collect()
            }
            GroupKind::Set | GroupKind::Pool => vec![object.clone()],
        };
        let owners: BTreeSet<&str> = sets.iter().map(|set| set.metadata.uid.as_str()).collect();
        let owned = |machine: &Machine| machine.metadata.controller().is_some_and(|uid| owners.contains(uid));
        let machines = machines.into_iter().filter(|machine| owned(machine)).cloned().collect();
        Self { kind, object: object.clone(), machines, cluster: cluster.cloned(), sets }
    }

    /// Machines that are not being deleted.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Machine> {
        self.machines.iter().filter(|machine| !machine.metadata.is_deleting())
    }

    /// Their number.
    #[must_use]
    pub(crate) fn live_count(&self) -> u32 {
        u32::try_from(self.live().count()).unwrap_or(u32::MAX)
    }

    /// Machines that are missing though none that is being deleted takes their place: its MachineSets make them at once.
    #[must_use]
    pub(crate) fn shortage(&self) -> u32 {
        let count = u32::try_from(self.machines.len()).unwrap_or(u32::MAX);
        self.object.replicas().saturating_sub(count)
    }

    /// Reason why its MachineSets make no machine, if they report one.
    #[must_use]
    pub(crate) fn makes_nothing(&self) -> Option<&str> {
        self.object.news().filter(|news| news.contains("preflight") || news.contains("not exist"))
    }

    /// Machines that its MachineSets make without a new size: those that are missing, unless `lasting` is long, and the replacements of machines whose deletion has not. Victims of the operator are not replaced. 0
    /// where nothing is made, and for a MachinePool, whose cloud decides.
    #[must_use]
    pub(crate) fn replacements(&self, lasting: Shortage, now: UnixTime) -> u32 {
        if self.kind == GroupKind::Pool || self.stopped().is_some() || self.makes_nothing().is_some() {
            return 0;
        }
        let is_replaced = |machine: &&Machine| {
            let soon = |at: UnixTime| now < at.plus(SLOW_DELETION);
            machine.metadata.deleted_at().is_some_and(soon) && !machine.mark().is_some_and(is_ours)
        };
        let going = self.machines.iter().filter(is_replaced).count();
        let shortage = self.shortage();
        let later = self.object.replicas().saturating_sub(self.live_count()).saturating_sub(shortage);
        let later = later.min(u32::try_from(going).unwrap_or(u32::MAX));
        later + if lasting.is_long(now) { 0 } else { shortage }
    }

    fn live_of<'a>(&'a self, set: &'a Scalable) -> impl Iterator<Item = &'a Machine> {
        self.live().filter(|machine| machine.metadata.controller() == Some(&set.metadata.uid))
    }

    /// Machines that two of them share an id with.
    #[must_use]
    pub(crate) fn shared_id(&self) -> Option<&str> {
        let mut seen = BTreeMap::new();
        self.machines.iter().find_map(|machine| {
            let id = machine.provider_id()?;
            seen.insert(id, ()).map(|()| id)
        })
    }

    /// Reason why nothing of it is changed, not even its size.
    #[must_use]
    pub(crate) fn stopped(&self) -> Option<Hold> {
        let hold =
            |reason, message: &str| Some(Hold { reason, message: message.into(), except: BTreeSet::new() });
        let Self { object, cluster, .. } = self;
        if object.metadata.is_deleting() {
            return hold(Reason::GroupPaused, "it is being deleted");
        }
        match cluster {
            None => return hold(Reason::GroupPaused, "its Cluster does not exist"),
            Some(cluster) if cluster.metadata.is_deleting() => {
                return hold(Reason::GroupPaused, "its Cluster is being deleted");
            }
            Some(cluster) if cluster.is_paused() => {
                return hold(Reason::GroupPaused, "its Cluster is paused: set spec.paused to false");
            }
            Some(_) => {}
        }
        if object.is_paused() {
            return hold(
                Reason::GroupPaused,
                "it is paused: remove spec.paused and the annotation cluster.x-k8s.io/paused",
            );
        }
        None
    }

    /// Returns the name of another manager of its size, if that is known: it would undo our writes.
    #[must_use]
    pub(crate) fn managed_by(&self) -> Option<&str> {
        let by_label = self.object.metadata.annotations.get(REPLICAS_MANAGED_BY).map(String::as_str);
        by_label.filter(|by| *by != "false").or_else(|| self.object.metadata.size_applied_by())
    }

    /// True if a lowering would take marked machines and no others.
    ///
    /// # Errors
    /// [`Hold`] when it could take others, or nobody knows.
    pub(crate) fn settled(&self) -> Result<Settled, Hold> {
        if let Some(hold) = self.stopped() {
            return Err(hold);
        }
        let changing = |words: &str| self.hold(Reason::GroupChanging, words);
        if let Some(id) = self.shared_id() {
            return Err(changing(&format!("two of its Machines have the provider id {id}")));
        }
        if self.sets.iter().any(|set| set.metadata.is_paused() || set.metadata.is_deleting()) {
            return Err(self.hold(Reason::GroupPaused, "a MachineSet of it is paused or being deleted"));
        }
        let foreign = self.live().find(|machine| machine.mark().is_some_and(|mark| !is_ours(mark)));
        if let Some(machine) = foreign {
            let name = &machine.metadata.name;
            let words = format!("somebody else marked Machine {name} with cluster.x-k8s.io/delete-machine");
            return Err(changing(&words));
        }
        let in_place = self.sets.iter().any(|set| set.metadata.updates_in_place())
            || self.object.metadata.updates_in_place()
            || self.machines.iter().any(|machine| machine.metadata.updates_in_place());
        if in_place {
            return Err(self.hold(Reason::GroupRollingOut, "machines are updated in place"));
        }
        if !self.object.is_current() || self.sets.iter().any(|set| !set.is_current()) {
            return Err(changing("its controller has not seen its present spec"));
        }
        match self.kind {
            GroupKind::Deployment => self.settled_deployment(),
            GroupKind::Set => self.settled_set(&self.object).map(|()| Settled::All),
            GroupKind::Pool => self.settled_pool(),
        }
    }

    fn settled_deployment(&self) -> Result<Settled, Hold> {
        let in_use = |set: &&Scalable| {
            0 < set.replicas()
                || self.machines.iter().any(|one| one.metadata.controller() == Some(&set.metadata.uid))
        };
        let used: Vec<&Scalable> = self.sets.iter().filter(in_use).collect();
        let newest = self.sets.iter().max_by_key(|set| (set.revision(), set.metadata.created_at()));
        let total: u32 = self.sets.iter().map(Scalable::replicas).fold(0, u32::saturating_add);
        match used.as_slice() {
            [] => Err(self.hold(Reason::GroupChanging, "it has no machines yet")),
            [only] => {
                if newest.is_some_and(|newest| newest.metadata.uid != only.metadata.uid)
                    && !self.object.replaces_on_delete()
                {
                    return Err(self.hold(Reason::GroupRollingOut, "a new MachineSet takes over"));
                }
                let size = self.object.replicas();
                if only.replicas() != size || only.desired() != Some(size) {
                    return Err(self.hold(Reason::GroupChanging, "its MachineSet has another size"));
                }
                self.settled_set(only).map(|()| Settled::All)
            }
            _ if !self.object.replaces_on_delete() => {
                Err(self.hold(Reason::GroupRollingOut, "more than one MachineSet has machines"))
            }
            several => {
                several.iter().try_for_each(|set| self.settled_set(set))?;
                if total != self.object.replicas() {
                    return Err(self.hold(Reason::GroupChanging, "its MachineSets have another size"));
                }
                // The controller shrinks the oldest first.
                let sized = several.iter().filter(|set| 0 < set.replicas());
                let oldest = sized.min_by_key(|set| (set.metadata.created_at(), set.metadata.name.clone()));
                let newest = newest.map(|newest| newest.metadata.uid.as_str());
                match oldest {
                    Some(oldest) if newest != Some(&oldest.metadata.uid) => {
                        Ok(Settled::Only(oldest.metadata.uid.clone()))
                    }
                    _ => Err(self.hold(Reason::GroupRollingOut, "more than one MachineSet has machines")),
                }
            }
        }
    }

    fn settled_set(&self, set: &Scalable) -> Result<(), Hold> {
        let (live, size) = (self.live_of(set).count(), set.replicas());
        if u32::try_from(live) == Ok(size) {
            return Ok(());
        }
        let name = &set.metadata.name;
        let words = format!("MachineSet {name} has {live} machines and wants {size}");
        Err(self.hold(Reason::GroupChanging, &words))
    }

    fn settled_pool(&self) -> Result<Settled, Hold> {
        if !self.object.has_machines() {
            let words = "it has no Machines: its cloud would choose which node leaves";
            return Err(self.hold(Reason::CannotNameMachine, words));
        }
        let (live, size, counted) = (self.live_count(), self.object.replicas(), self.object.counted());
        if live != size || counted != size {
            let words = format!("it has {live} machines and wants {size}");
            return Err(self.hold(Reason::GroupChanging, &words));
        }
        Ok(Settled::All)
    }

    /// A hold with the words of the group's controller.
    fn hold(&self, reason: Reason, words: &str) -> Hold {
        let message = match self.object.news() {
            Some(news) => format!("{words}: {news}"),
            None => words.to_owned(),
        };
        Hold { reason, message: message.into(), except: BTreeSet::new() }
    }

    /// Returns the hold on removals of its machines for the plan; marks of open removals do not count.
    #[must_use]
    pub(crate) fn removals_held(&self, namespace: &str, is_open: impl Fn(&Mark) -> bool) -> Option<Hold> {
        match self.settled() {
            Ok(settled) => {
                let left = self.live().find(|machine| {
                    let mark = machine.mark().map(Mark::parse);
                    mark.is_some_and(|mark| !mark.as_ref().is_some_and(&is_open))
                });
                if let Some(machine) = left {
                    let words =
                        format!("the mark of an ended removal is taken off {}", machine.metadata.name);
                    return Some(self.hold(Reason::GroupChanging, &words));
                }
                let Settled::Only(oldest) = settled else { return None };
                let mut hold =
                    self.hold(Reason::GroupRollingOut, "only machines of its oldest MachineSet leave");
                let of_oldest = self.live().filter(|one| one.metadata.controller() == Some(&oldest));
                hold.except = of_oldest.map(|machine| instance_id(namespace, machine)).collect();
                Some(hold)
            }
            Err(hold) => Some(hold),
        }
    }
}
