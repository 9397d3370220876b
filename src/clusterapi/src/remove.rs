//! The removal of named Machines: mark, proof that the mark was seen, one lowering, and a look at who left. Lowering twice
//! for one victim would take a node that nobody drained: whatever is in doubt is left undone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use headroom_core::time::UnixTime;
use headroom_core::world::provider::FailureClass;
use headroom_provider::Error;
use headroom_provider::cluster_api::GroupKind;

use super::calls::Trouble;
use super::group::{Group, Settled, instance_id};
use super::mark::{ACKNOWLEDGED, Mark, STEP_SECONDS, is_ours};
use super::options;
use super::place::Place;
use super::wire::Machine;

/// Longest wait for the proof that a mark was seen; machines without a Node are waited for as long.
const PROOF_WAIT: Duration = Duration::from_secs(5);
/// Longest wait for the machines to go.
const LEAVING_WAIT: Duration = Duration::from_secs(5);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// Attempts to write a size that somebody else writes too.
pub(crate) const ATTEMPTS: usize = 3;

/// Machines of one group that are to leave.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// The pool.
    pub pool: Arc<str>,
    /// The intent's id.
    pub intent: Arc<str>,
    /// The group's kind.
    pub kind: GroupKind,
    /// Its name.
    pub name: Arc<str>,
    /// Fewest nodes, as the spec has it.
    pub min: u32,
    /// The victims.
    pub victims: Vec<Wanted>,
}

/// A machine that is to leave.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Its id as core knows it.
    pub id: Arc<str>,
    /// True if it was a node when it was chosen.
    pub joined: bool,
}

impl Order {
    fn group_id(&self) -> Arc<str> {
        format!("{}/{}", self.kind, self.name).into()
    }
}

/// Result of each victim's removal.
type Ends = BTreeMap<Arc<str>, Result<(), Error>>;

struct Removal<'a> {
    place: &'a Place,
    order: &'a Order,
    ends: Ends,
    /// True if an earlier attempt may have sent a size that has not taken effect yet.
    is_doubtful: bool,
}

/// A victim that is there and not leaving.
#[derive(Clone)]
struct Victim {
    id: Arc<str>,
    joined: bool,
    machine: Machine,
}

/// Removes the machines: one answer each, in their order.
pub(crate) async fn remove(place: &Place, order: &Order) -> Vec<Result<(), Error>> {
    let mut removal = Removal { place, order, ends: Ends::new(), is_doubtful: false };
    let rest = match place.turn(&order.group_id()) {
        Some(_turn) => match removal.run().await {
            Ok(()) => Error::unknown("its end was not seen"),
            Err(error) => error,
        },
        None => Error::unknown("another write on the group is under way"),
    };
    let end = |wanted: &Wanted| removal.ends.get(&wanted.id).cloned().unwrap_or_else(|| Err(rest.clone()));
    order.victims.iter().map(end).collect()
}

fn unread(trouble: &Trouble) -> Error {
    match trouble {
        Trouble::Status(403, words) => Error::refused(FailureClass::PermissionDenied, words.clone()),
        other => Error::unknown(other.words()),
    }
}

fn refused(words: impl Into<String>) -> Error {
    Error::refused(FailureClass::Other, words)
}

impl Removal<'_> {
    async fn run(&mut self) -> Result<(), Error> {
        let (group, machines) = self.read().await?;
        let victims = self.find(&group, &machines);
        if victims.is_empty() {
            return Ok(());
        }
        self.clear_left_marks(&group, &victims).await?;
        self.resume(&group, &victims).await?;
        let now = self.place.host.now();
        let is_recent = |mark: Mark| !mark.is_old(now);
        self.is_doubtful =
            victims.iter().any(|victim| victim.machine.mark().and_then(Mark::parse).is_some_and(is_recent));
        let victims = self.room(&group, victims).await?;
        if victims.is_empty() {
            return Ok(());
        }
        let mark = Mark {
            pool: self.order.pool.to_string(),
            intent: self.order.intent.to_string(),
            generation: group.object.metadata.generation,
            replicas: group.object.replicas(),
            count: u32::try_from(victims.len()).unwrap_or(u32::MAX),
            at: self.place.host.now(),
        };
        if let Err(error) = self.mark(&victims, &mark).await {
            self.take_off().await;
            return Err(error);
        }
        self.lower(&victims, &mark).await?;
        self.look(&group, &victims).await
    }

    async fn read(&self) -> Result<(Group, Vec<Machine>), Error> {
        let Order { kind, name, .. } = self.order;
        let found = self.place.read_group(*kind, name).await.map_err(|trouble| unread(&trouble))?;
        found.ok_or_else(|| refused(format!("{kind} {name} does not exist")))
    }

    /// The victims that are there; those that are gone or going have their end.
    fn find(&mut self, group: &Group, machines: &[Machine]) -> Vec<Victim> {
        let namespace = &self.place.address.namespace;
        let mut found = Vec::new();
        for Wanted { id, joined } in &self.order.victims {
            // A machine that was known by its name may have an id by now.
            let name = id.strip_prefix(&format!("capi://{namespace}/"));
            let is_it = |machine: &&Machine| match name {
                Some(name) => machine.metadata.name == name,
                None => instance_id(namespace, machine) == *id,
            };
            let end = match machines.iter().filter(is_it).collect::<Vec<_>>().as_slice() {
                [] => Ok(()),
                [one] if one.metadata.is_deleting() => Ok(()),
                [one] if !group.live().any(|machine| machine.metadata.uid == one.metadata.uid) => {
                    let (kind, group) = (self.order.kind, &self.order.name);
                    Err(refused(format!("Machine {} is not of {kind} {group}", one.metadata.name)))
                }
                [one] if !joined && one.node().is_some() => {
                    Err(refused(format!("Machine {} has become a node since", one.metadata.name)))
                }
                [one] => {
                    let machine = (*one).clone();
                    found.push(Victim { id: id.clone(), joined: *joined, machine });
                    continue;
                }
                _ => Err(Error::unknown(format!("two Machines have the provider id {id}"))),
            };
            self.ends.insert(id.clone(), end);
        }
        found
    }

    /// Marks of earlier removals on other machines would let those go: they are taken off first, once no lowering that they
    /// were set for can take effect any more.
    async fn clear_left_marks(&self, group: &Group, victims: &[Victim]) -> Result<(), Error> {
        let (pool, intent) = (&*self.order.pool, &*self.order.intent);
        for machine in group.live() {
            let Some(value) = machine.mark().filter(|value| is_ours(value)) else { continue };
            let mark = Mark::parse(value);
            let is_victim = victims.iter().any(|victim| victim.machine.metadata.uid == machine.metadata.uid);
            let own = |mark: &Mark| mark.pool == pool && mark.intent == intent;
            if is_victim && mark.as_ref().is_some_and(own) {
                continue;
            }
            let name = &machine.metadata.name;
            if !is_over(group, mark.as_ref(), self.place.host.now()) {
                return Err(Error::unknown(format!(
                    "an earlier removal of Machine {name} may yet take effect"
                )));
            }
            self.place.unmark(machine).await.map_err(|trouble| unread(&trouble))?;
            return Err(Error::unknown(format!(
                "the mark of an earlier removal was taken off Machine {name}"
            )));
        }
        Ok(())
    }

    /// Continues an earlier attempt: a size that was written for a victim is never written again.
    async fn resume(&mut self, group: &Group, victims: &[Victim]) -> Result<(), Error> {
        let generation = group.object.metadata.generation;
        let has_moved = |victim: &&Victim| {
            let mark = victim.machine.mark().and_then(Mark::parse);
            mark.is_some_and(|mark| mark.has_moved(generation))
        };
        let moved: Vec<&Victim> = victims.iter().filter(has_moved).collect();
        if moved.is_empty() {
            return Ok(());
        }
        if let Err(hold) = group.settled() {
            let words = format!("its size was written; waiting for the machines to go: {}", hold.message);
            return Err(Error::unknown(words));
        }
        for victim in moved {
            self.place.unmark(&victim.machine).await.map_err(|trouble| unread(&trouble))?;
            let name = &victim.machine.metadata.name;
            let words =
                format!("Machine {name} stays: another machine left in its place, or the size was raised");
            self.ends.insert(victim.id.clone(), Err(refused(words)));
        }
        Err(Error::unknown("the group has changed since its machines were marked"))
    }

    /// The victims that a lowering takes for sure and that the group's minimum leaves room for.
    async fn room(&mut self, group: &Group, mut victims: Vec<Victim>) -> Result<Vec<Victim>, Error> {
        let settled = group.settled().map_err(|hold| Error::unknown(hold.message.to_string()))?;
        if let Some(manager) = group.managed_by() {
            return Err(refused(format!("its size is managed by {manager}")));
        }
        if let Settled::Only(set) = settled {
            victims.retain(|victim| {
                let leaves = victim.machine.metadata.controller() == Some(&set);
                if !leaves {
                    let words =
                        format!("Machine {} is not of the oldest MachineSet", victim.machine.metadata.name);
                    self.ends.insert(victim.id.clone(), Err(refused(words)));
                }
                leaves
            });
        }
        if self.order.kind == GroupKind::Pool {
            // Its provider is only trusted once it has been seen to take the marked one.
            victims.truncate(1);
        }
        let (min, _) = options::bounds(&group.object.metadata.annotations).map_err(refused)?;
        let min = min.max(self.order.min);
        let room = usize::try_from(group.object.replicas().saturating_sub(min)).unwrap_or(usize::MAX);
        for victim in victims.split_off(room.min(victims.len())) {
            let end = if victim.joined {
                Err(refused(format!("{} {} is at its minimum of {min}", self.order.kind, self.order.name)))
            } else {
                // It is replaced, and nobody is disturbed.
                self.place.delete_machine(&victim.machine).await.map_err(|trouble| unread(&trouble))
            };
            self.ends.insert(victim.id, end);
        }
        Ok(victims)
    }

    /// Marks the victims and waits for the proof that Cluster API's controllers have seen it: they copy an annotation to
    /// the Node. Without it, a slow watch would let them see the new size first and choose freely.
    async fn mark(&self, victims: &[Victim], mark: &Mark) -> Result<(), Error> {
        // A value of its own for each attempt: an older proof proves nothing.
        let proof = format!("{}.{:08x}", self.order.intent, self.place.host.random() >> 32);
        for victim in victims {
            self.place.mark(&victim.machine, mark, &proof).await.map_err(|trouble| unread(&trouble))?;
        }
        let until = self.place.host.monotonic() + PROOF_WAIT;
        let mut nodes: BTreeSet<&str> = victims.iter().filter_map(|victim| victim.machine.node()).collect();
        let nodeless = victims.iter().any(|victim| victim.machine.node().is_none());
        loop {
            let mut shown = Vec::new();
            for node in &nodes {
                let value = self.place.nodes.annotation(node, ACKNOWLEDGED).await.map_err(Error::unknown)?;
                if value.as_deref() == Some(&proof) {
                    shown.push(*node);
                }
            }
            shown.iter().for_each(|node| {
                nodes.remove(node);
            });
            let over = until <= self.place.host.monotonic();
            match nodes.first() {
                None if !nodeless || over => return Ok(()),
                Some(node) if over => {
                    return Err(Error::unknown(format!(
                        "node {node} does not show the annotation {ACKNOWLEDGED} of its Machine within {PROOF_WAIT:?}: \
                         Cluster API 1.10 or newer has to run, and to reach the workload cluster"
                    )));
                }
                _ => self.place.host.sleep(PAUSE).await,
            }
        }
    }

    /// Writes the size once, on a read that shows everything as it has to be.
    async fn lower(&self, victims: &[Victim], mark: &Mark) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let ready = match self.read().await {
                Ok((group, _)) => self.is_ready(&group, victims, mark).map(|()| group),
                Err(error) => Err(error),
            };
            let group = match ready {
                Ok(group) => group,
                Err(error) => {
                    self.take_off().await;
                    return Err(error);
                }
            };
            let size = mark.replicas.saturating_sub(mark.count);
            match self.place.write_size(self.order.kind, &group.object, size).await {
                Ok(()) => return Ok(()),
                Err(Trouble::Status(409, _)) => {}
                Err(Trouble::Status(status, words)) if status < 500 => {
                    self.take_off().await;
                    return Err(unread(&Trouble::Status(status, words)));
                }
                Err(Trouble::NotSent(words)) => {
                    self.take_off().await;
                    return Err(Error::unknown(words));
                }
                // It may have taken effect, or may yet: the marks stay, and the next attempt finds out.
                Err(trouble) => return Err(Error::unknown(trouble.words())),
            }
        }
        self.take_off().await;
        Err(Error::unknown("somebody else writes the group all the time"))
    }

    fn is_ready(&self, group: &Group, victims: &[Victim], mark: &Mark) -> Result<(), Error> {
        let settled = group.settled().map_err(|hold| Error::unknown(hold.message.to_string()))?;
        let object = &group.object;
        if object.metadata.generation != mark.generation || object.replicas() != mark.replicas {
            return Err(Error::unknown("the group's spec has changed since its machines were marked"));
        }
        if STEP_SECONDS <= self.place.host.now().since(mark.at).0 {
            return Err(Error::unknown("too much time has passed since the machines were marked"));
        }
        let (wanted, written) = (victims.iter(), mark.written());
        let wanted: BTreeSet<&str> = wanted.map(|victim| victim.machine.metadata.uid.as_str()).collect();
        let marked: BTreeSet<&str> = group
            .live()
            .filter(|machine| machine.mark().is_some())
            .map(|machine| machine.metadata.uid.as_str())
            .collect();
        let as_written = group.live().all(|machine| machine.mark().is_none_or(|value| value == written));
        if wanted != marked || !as_written {
            return Err(Error::unknown("other machines than the victims are marked"));
        }
        for victim in victims {
            let uid = &victim.machine.metadata.uid;
            let machine = group.live().find(|machine| machine.metadata.uid == *uid);
            if !victim.joined && machine.is_some_and(|machine| machine.node().is_some()) {
                let name = &victim.machine.metadata.name;
                return Err(Error::unknown(format!("Machine {name} has become a node since")));
            }
            if let Settled::Only(set) = &settled
                && machine.is_some_and(|machine| machine.metadata.controller() != Some(set))
            {
                return Err(Error::unknown("a victim is not of the oldest MachineSet"));
            }
        }
        Ok(())
    }

    /// Takes the marks of this intent off. They stay where a size that was written for them may yet take effect, or has just
    /// done so: without them another machine would go. The next attempt finds out, or the sweep once they are over.
    async fn take_off(&self) {
        if self.is_doubtful {
            return;
        }
        let Ok((group, _)) = self.read().await else { return };
        let own = |machine: &&Machine| {
            let mark = machine.mark().and_then(Mark::parse);
            mark.is_some_and(|mark| mark.pool == *self.order.pool && mark.intent == *self.order.intent)
        };
        for machine in group.live().filter(own) {
            if let Err(trouble) = self.place.unmark(machine).await {
                let (machine, error) = (&machine.metadata.name, trouble.words());
                tracing::warn!(%machine, %error, "a mark stays until it is over");
            }
        }
    }

    /// Waits until each victim goes.
    async fn look(&mut self, before: &Group, victims: &[Victim]) -> Result<(), Error> {
        let until = self.place.host.monotonic() + LEAVING_WAIT;
        loop {
            let (group, _) = self.read().await?;
            let stays = |victim: &&Victim| {
                group.live().any(|machine| machine.metadata.uid == victim.machine.metadata.uid)
            };
            let staying = victims.iter().filter(stays).count();
            for victim in victims.iter().filter(|victim| !stays(victim)) {
                self.ends.insert(victim.id.clone(), Ok(()));
            }
            if staying == 0 {
                return Ok(());
            }
            if self.order.kind == GroupKind::Pool {
                self.note_choice(before, &group, victims);
            }
            if until <= self.place.host.monotonic() {
                let words = format!("{staying} marked machines have not begun to go");
                return Err(Error::unknown(words));
            }
            self.place.host.sleep(PAUSE).await;
        }
    }

    /// A MachinePool's provider that takes another machine is never asked again.
    fn note_choice(&self, before: &Group, now: &Group, victims: &[Victim]) {
        let is_victim = |machine: &&Machine| {
            victims.iter().any(|victim| victim.machine.metadata.uid == machine.metadata.uid)
        };
        let left = |machine: &&Machine| !now.live().any(|other| other.metadata.uid == machine.metadata.uid);
        if let Some(other) = before.live().filter(left).find(|machine| !is_victim(machine)) {
            let words = format!("its provider took Machine {} and not the marked one", other.metadata.name);
            self.place.store().choosing.insert(self.order.group_id(), words);
        }
    }
}

/// True if a left mark can be taken off without harm. Where a size was written since, it may have been for this machine: as
/// long as the controllers have not done with it, another machine would go in its place. Where none was, a write of the
/// mark's step may yet come for a while.
pub(crate) fn is_over(group: &Group, mark: Option<&Mark>, now: UnixTime) -> bool {
    match mark {
        Some(mark) if !mark.has_moved(group.object.metadata.generation) => mark.is_old(now),
        Some(_) | None => group.settled().is_ok(),
    }
}

/// Takes off the marks of removals that are not open any more, once they are over.
pub(crate) async fn sweep(place: &Place, group: &Group, id: &Arc<str>, is_open: impl Fn(&Mark) -> bool) {
    let Some(_turn) = place.turn(id) else { return };
    // Read past the cache: an old state may look settled.
    let Ok(Some((group, _))) = place.read_group(group.kind, &group.object.metadata.name).await else {
        return;
    };
    let now = place.host.now();
    for machine in group.live() {
        let Some(value) = machine.mark().filter(|value| is_ours(value)) else { continue };
        let mark = Mark::parse(value);
        if mark.as_ref().is_some_and(&is_open) || !is_over(&group, mark.as_ref(), now) {
            continue;
        }
        match place.unmark(machine).await {
            Ok(()) => {
                tracing::info!(machine = %machine.metadata.name, "the mark of an ended removal was taken off")
            }
            Err(trouble) => {
                tracing::debug!(machine = %machine.metadata.name, error = trouble.words(), "a mark stays")
            }
        }
    }
}
