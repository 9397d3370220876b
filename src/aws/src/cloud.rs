//! One region: reads what its pools ask for as seldom as the budget requires, and keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headroom_core::time::UnixTime;

use super::activities::{self, Class};
use super::calls::{CallError, Calls, NAMES_PER_CALL, Trouble};
use super::group::Group;
use super::prices::SpotMarket;
use super::queues;
use super::quota::quota_family;
use super::snapshot::{Snapshot, Wanted};
use super::templates::Templates;
use headroom_observe::host::Host;
use headroom_provider::gate::Gate;

/// Activities older than this do not show what is missing now.
const ACTIVITY_AGE_MAX: i64 = 3_600;

/// One region.
pub struct Cloud {
    /// Its calls.
    pub calls: Arc<dyn Calls>,
    /// The entry point of writes.
    pub gate: Arc<dyn Gate>,
    /// Time.
    pub host: Arc<Host>,
    /// Launch settings of groups.
    pub templates: Templates,
    /// Prices of the spot market.
    pub spot: SpotMarket,
    snapshot: Mutex<Snapshot>,
    /// One refresh at a time.
    refreshing: tokio::sync::Mutex<()>,
    /// One write in flight per group.
    locks: Mutex<BTreeMap<Arc<str>, Arc<tokio::sync::Mutex<()>>>>,
}

impl Cloud {
    /// A region of which nothing has been read.
    #[must_use]
    pub fn new(calls: Arc<dyn Calls>, host: Arc<Host>, gate: Arc<dyn Gate>) -> Self {
        Self {
            calls,
            gate,
            host,
            templates: Templates::default(),
            spot: SpotMarket::default(),
            snapshot: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
            locks: Mutex::default(),
        }
    }

    /// Locks the snapshot; never held over an await.
    pub fn snapshot(&self) -> MutexGuard<'_, Snapshot> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to write on a group, when the write before it has ended.
    pub async fn lock(&self, group: &Arc<str>) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.entry(group.clone()).or_default().clone()
        };
        lock.lock_owned().await
    }

    /// Reads what is due: everything once a minute, groups with something under way more often, activities of those
    /// whose instances are missing. A failed read leaves what was known, with its age.
    pub async fn refresh(&self, wanted: &Wanted, registered: &BTreeSet<Arc<str>>) {
        let _one_at_a_time = self.refreshing.lock().await;
        queues::refresh(self, wanted).await;
        let clock = self.host.monotonic();
        let (pausing, whole, busy) = {
            let snapshot = self.snapshot();
            (snapshot.pausing(clock), snapshot.whole_due(wanted, clock), snapshot.busy(clock))
        };
        if pausing {
            return;
        }
        let read = if whole { self.read_all(wanted).await } else { self.read_named(&busy).await };
        let read = match read {
            Ok(()) => self.read_activities(registered).await,
            Err(error) => Err(error),
        };
        let clock = self.host.monotonic();
        match read {
            Ok(()) => self.snapshot().failure = None,
            Err(error) => self.snapshot().failed(error, clock),
        }
    }

    async fn read_all(&self, wanted: &Wanted) -> Result<(), CallError> {
        let (at, clock) = (self.host.now(), self.host.monotonic());
        let before = self.snapshot().writes.clone();
        let mut found: BTreeMap<Arc<str>, Group> = BTreeMap::new();
        let mut selected = BTreeMap::new();
        for tags in &wanted.selectors {
            let groups = self.calls.groups_tagged(tags).await?;
            let names: BTreeSet<Arc<str>> = groups.iter().map(|group| group.name.clone()).collect();
            selected.insert(tags.clone(), names);
            found.extend(groups.into_iter().map(|group| (group.name.clone(), group)));
        }
        // Groups that were made a moment ago may not be found by their tags yet.
        let lately = self.snapshot().lately_made(clock);
        let names = wanted.names.iter().chain(lately.keys());
        let rest: Vec<Arc<str>> = names.filter(|name| !found.contains_key(*name)).cloned().collect();
        for names in rest.chunks(NAMES_PER_CALL) {
            let groups = self.calls.groups_named(names).await?;
            found.extend(groups.into_iter().map(|group| (group.name.clone(), group)));
        }
        let mut snapshot = self.snapshot();
        // A group that was written on meanwhile may be newer than this read.
        let written: BTreeSet<Arc<str>> = snapshot
            .writes
            .iter()
            .filter(|(name, count)| before.get(*name).copied().unwrap_or(0) != **count)
            .map(|(name, _)| name.clone())
            .collect();
        snapshot.groups.retain(|name, _| found.contains_key(name) || written.contains(name));
        for (name, group) in found {
            let writes = before.get(&name).copied().unwrap_or(0);
            snapshot.store(group, writes, at, clock);
        }
        snapshot.selected = selected;
        snapshot.select_made(clock);
        snapshot.whole = Some((wanted.clone(), at, clock));
        snapshot.forget(wanted, clock);
        Ok(())
    }

    /// Reads these groups; one that is there no more is forgotten.
    async fn read_named(&self, names: &[Arc<str>]) -> Result<(), CallError> {
        for names in names.chunks(NAMES_PER_CALL) {
            let (at, clock) = (self.host.now(), self.host.monotonic());
            let before = self.snapshot().writes.clone();
            let groups = self.calls.groups_named(names).await?;
            let mut snapshot = self.snapshot();
            for name in names {
                if !groups.iter().any(|group| group.name == *name) {
                    snapshot.groups.remove(name);
                }
            }
            for group in groups {
                let writes = before.get(&group.name).copied().unwrap_or(0);
                snapshot.store(group, writes, at, clock);
            }
        }
        Ok(())
    }

    /// Reads one group now, for a write: `None` when there is no such group.
    ///
    /// # Errors
    /// [`CallError`] when AWS did not answer: then nothing is written.
    pub async fn fresh(&self, name: &Arc<str>) -> Result<Option<Group>, CallError> {
        self.read_named(std::slice::from_ref(name)).await?;
        Ok(self.snapshot().groups.get(name).map(|read| read.group.clone()))
    }

    async fn read_activities(&self, registered: &BTreeSet<Arc<str>>) -> Result<(), CallError> {
        let due = self.snapshot().activities_due(registered, self.host.monotonic());
        for name in due {
            let Err(error) = self.fresh_launches(&name).await else { continue };
            match error.kind {
                // The group went meanwhile, or the action is not permitted: the groups themselves can still be read.
                Trouble::Invalid | Trouble::NotImplemented => {}
                Trouble::Denied => {
                    let words = "launches that fail are not seen before scaleUp.provisionTimeout".to_owned();
                    self.snapshot().denied.insert(error.action, (words, self.host.monotonic()));
                    return Ok(());
                }
                Trouble::NotSent
                | Trouble::Throttled
                | Trouble::Credentials
                | Trouble::Contention
                | Trouble::Unknown => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the activities of a group now.
    ///
    /// # Errors
    /// [`CallError`] when AWS did not answer.
    pub async fn fresh_launches(&self, name: &Arc<str>) -> Result<activities::Launches, CallError> {
        let since = UnixTime(self.host.now().0 - ACTIVITY_AGE_MAX);
        let list = self.calls.activities(name, since).await?;
        let launches = activities::launches(&list);
        let clock = self.host.monotonic();
        let mut snapshot = self.snapshot();
        snapshot.denied.remove("autoscaling:DescribeScalingActivities");
        snapshot.store_launches(name, launches.clone(), clock);
        let quota = launches.failed.iter().find(|failed| failed.class == Class::Quota);
        let family = snapshot
            .shapes
            .get(name)
            .and_then(|shape| Some(quota_family(shape.instance_type.as_deref()?, shape.spot)));
        if let (Some(failed), Some(family)) = (quota, family) {
            snapshot.quotas.insert(family, (failed.at, failed.message.clone()));
        }
        Ok(launches)
    }
}
