//! One server: reads its groups in rounds, keeps what was read, and remembers writes whose end is open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use headroom_core::time::UnixTime;
use headroom_core::world::provider::GroupOptions;
use headroom_observe::host::Host;
use headroom_provider::gate::Gate;
use regex::Regex;
use tokio::time::Instant;

use super::calls::{Answer, CallError, Calls, Status};
use super::group::{Group, Reading};
use super::memory::Memory;
use super::options;
use super::wire::{Instance, NodeGroup};

/// Longest round of reads.
const ROUND_MAX: Duration = Duration::from_secs(30);
/// Reads under way at once.
const PARALLEL_READS: usize = 8;
/// Pause between rounds at rest, and while something is open.
const PAUSE_AT_REST: Duration = Duration::from_secs(30);
const PAUSE_OPEN: Duration = Duration::from_secs(10);
/// Pause before the round after a write.
const PAUSE_AFTER_WRITE: Duration = Duration::from_secs(1);
/// Pause after a server that asks for fewer calls.
const PAUSE_EXHAUSTED: Duration = Duration::from_secs(60);
/// A server without groups that had some has probably just started, for so long.
const STARTING_MAX: Duration = Duration::from_secs(120);
/// Templates and options are read again after this long; after an error sooner.
const TEMPLATE_TTL: Duration = Duration::from_secs(600);
const TEMPLATE_RETRY: Duration = Duration::from_secs(60);
/// Longest id of a group, in bytes.
const ID_MAX: usize = 253;

/// One server.
pub(crate) struct Server {
    /// Its calls.
    pub calls: Arc<dyn Calls>,
    /// The guard of writes.
    pub gate: Arc<dyn Gate>,
    /// Time and tasks.
    pub host: Arc<Host>,
    snapshot: Mutex<Snapshot>,
    memories: Mutex<BTreeMap<Arc<str>, Arc<tokio::sync::Mutex<Memory>>>>,
    /// One round at a time.
    reading: tokio::sync::Mutex<()>,
}

/// Groups that pools ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// By id.
    pub ids: BTreeSet<Arc<str>>,
    /// By expressions for whole ids.
    pub expressions: Vec<Regex>,
}

impl Wanted {
    /// True if a pool asks for the group.
    #[must_use]
    pub(crate) fn has(&self, id: &str) -> bool {
        self.ids.contains(id) || self.expressions.iter().any(|expression| expression.is_match(id))
    }
}

/// State of a server.
#[derive(Default)]
pub(crate) struct Snapshot {
    /// Groups that a pool asks for.
    pub groups: BTreeMap<Arc<str>, Group>,
    /// Ids of groups that cannot be managed, as text without control characters.
    pub unusable: BTreeSet<String>,
    /// Time at which the last complete round was read.
    pub read_at: Option<UnixTime>,
    /// Error of the last round; `None` if it succeeded.
    pub failure: Option<CallError>,
    /// Provider ids of the cluster's nodes.
    pub registered: BTreeSet<Arc<str>>,
    due: Option<Instant>,
    empty_since: Option<Instant>,
}

impl Server {
    /// A server of which nothing has been read.
    #[must_use]
    pub(crate) fn new(calls: Arc<dyn Calls>, host: Arc<Host>, gate: Arc<dyn Gate>) -> Self {
        Self {
            calls,
            gate,
            host,
            snapshot: Mutex::default(),
            memories: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        }
    }

    /// Locks the snapshot; never held over an await.
    pub(crate) fn snapshot(&self) -> MutexGuard<'_, Snapshot> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory of a group's writes; locked while one is under way.
    #[must_use]
    pub(crate) fn memory(&self, group: &Arc<str>) -> Arc<tokio::sync::Mutex<Memory>> {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.entry(group.clone()).or_default().clone()
    }

    /// Notes the begin or the end of a write: reads that began before it do not count, and the next round is due.
    pub(crate) fn note_write(&self, group: &Arc<str>) {
        let now = self.host.monotonic();
        let mut snapshot = self.snapshot();
        snapshot.due = None;
        if let Some(group) = snapshot.groups.get_mut(group) {
            group.writes += 1;
            group.written_at = Some(now);
        }
    }

    /// Notes the end of a write from a task that outlives its step.
    pub(crate) fn noted(self: &Arc<Self>) -> impl Fn(&Arc<str>) + Send + use<> {
        let server = Arc::downgrade(self);
        move |group| {
            if let Some(server) = server.upgrade() {
                server.note_write(group);
            }
        }
    }

    /// Returns the time until the next round.
    #[must_use]
    pub(crate) fn next_in(&self) -> Duration {
        let due = self.snapshot().due;
        due.map_or(PAUSE_AFTER_WRITE, |due| due.saturating_duration_since(self.host.monotonic()))
    }

    /// Reads everything if it is due. A failed round leaves what was known, with its age.
    pub(crate) async fn round(&self, wanted: &Wanted, registered: &BTreeSet<Arc<str>>, deadline: Duration) {
        let _one_at_a_time = self.reading.lock().await;
        let began_at = self.host.monotonic();
        {
            let mut snapshot = self.snapshot();
            snapshot.registered.clone_from(registered);
            let known = wanted.ids.iter().all(|id| snapshot.groups.contains_key(id));
            if snapshot.due.is_some_and(|due| began_at < due) && known {
                return;
            }
        }
        let read = tokio::time::timeout(ROUND_MAX, self.read_all(wanted, deadline)).await;
        let read =
            read.unwrap_or_else(|_| Err(CallError::no_answer(format!("a round took over {ROUND_MAX:?}"))));
        let mut snapshot = self.snapshot();
        let open = snapshot.groups.values().any(|group| group.is_open(registered));
        let pause = match &read {
            Err(error) if error.is(Status::Exhausted) => PAUSE_EXHAUSTED,
            Err(_) => PAUSE_OPEN,
            Ok(()) if open => PAUSE_OPEN,
            Ok(()) => PAUSE_AT_REST,
        };
        snapshot.due = Some(self.host.monotonic() + pause);
        snapshot.failure = read.err();
    }

    async fn read_all(&self, wanted: &Wanted, deadline: Duration) -> Answer<()> {
        self.calls.refresh(deadline).await?;
        let at = self.host.now();
        let listed = self.calls.node_groups(deadline).await?;
        let ids = self.take_list(wanted, listed)?;
        let reads = ids.into_iter().map(|id| self.read_group(id, deadline));
        let ends: Vec<Answer<()>> = stream::iter(reads).buffered(PARALLEL_READS).collect().await;
        ends.into_iter().collect::<Answer<()>>()?;
        self.snapshot().read_at = Some(at);
        Ok(())
    }

    /// Takes in the list of groups; returns those to read.
    fn take_list(&self, wanted: &Wanted, listed: Vec<NodeGroup>) -> Answer<Vec<Arc<str>>> {
        let now = self.host.monotonic();
        let mut snapshot = self.snapshot();
        if listed.is_empty() && !snapshot.groups.is_empty() {
            let since = *snapshot.empty_since.get_or_insert(now);
            if now < since + STARTING_MAX {
                return Err(CallError::no_answer("the server lists no group; it may have just started"));
            }
        } else {
            snapshot.empty_since = None;
        }
        snapshot.unusable.clear();
        let mut found = BTreeSet::new();
        for group in listed {
            if group.id.is_empty() || ID_MAX < group.id.len() || group.id.chars().any(char::is_control) {
                snapshot.unusable.insert(group.id.chars().take(60).flat_map(char::escape_default).collect());
                continue;
            }
            if wanted.has(&group.id) {
                let id: Arc<str> = group.id.as_str().into();
                snapshot.groups.entry(id.clone()).or_default().bounds = (group.min_size, group.max_size);
                found.insert(id);
            }
        }
        snapshot.groups.retain(|id, _| wanted.has(id));
        for id in &wanted.ids {
            snapshot.groups.entry(id.clone()).or_default();
        }
        for (id, group) in &mut snapshot.groups {
            if !found.contains(id) {
                let (since, rounds) = group.missing.unwrap_or((now, 0));
                group.missing = Some((since, rounds.saturating_add(1)));
            }
        }
        Ok(found.into_iter().collect())
    }

    async fn read_group(&self, id: Arc<str>, deadline: Duration) -> Answer<()> {
        let writes_before = self.writes(&id);
        let read = async {
            let target = self.calls.target_size(&id, deadline).await?;
            Ok((target, self.calls.instances(&id, deadline).await?))
        };
        let read: Answer<(i32, Vec<Instance>)> = read.await;
        let (now, at) = (self.host.monotonic(), self.host.now());
        let mut snapshot = self.snapshot();
        let registered = std::mem::take(&mut snapshot.registered);
        let mut end = Ok(());
        if let Some(group) = snapshot.groups.get_mut(&id).filter(|group| group.writes == writes_before) {
            match read {
                Ok(read) => group.take(read, at, now, &registered),
                Err(error) if error.is(Status::NotFound) => {
                    let (since, rounds) = group.missing.unwrap_or((now, 0));
                    group.missing = Some((since, rounds.saturating_add(1)));
                }
                // The answer concerns this group alone.
                Err(error) if error.is(Status::Other) || error.is(Status::Unimplemented) => {
                    group.trouble = Some(error);
                }
                Err(error) => end = Err(error),
            }
        }
        snapshot.registered = registered;
        end
    }

    fn writes(&self, id: &str) -> u64 {
        self.snapshot().groups.get(id).map_or(0, |group| group.writes)
    }

    /// Reads one group now, after a Refresh, for a write; `None` if the server does not list it.
    ///
    /// # Errors
    /// [`CallError`] when the server did not answer or refused: then nothing is written.
    pub(crate) async fn fresh(&self, id: &Arc<str>, deadline: Duration) -> Answer<Option<Reading>> {
        self.calls.refresh(deadline).await?;
        let listed = self.calls.node_groups(deadline).await?;
        let Some(found) = listed.into_iter().find(|group| group.id == **id) else { return Ok(None) };
        let target = self.calls.target_size(id, deadline).await?;
        let instances = self.calls.instances(id, deadline).await?;
        let (now, at) = (self.host.monotonic(), self.host.now());
        let mut snapshot = self.snapshot();
        let registered = std::mem::take(&mut snapshot.registered);
        let group = snapshot.groups.entry(id.clone()).or_default();
        group.bounds = (found.min_size, found.max_size);
        group.take((target, instances), at, now, &registered);
        let answer = match &group.trouble {
            Some(trouble) => Err(trouble.clone()),
            None => Ok(Some(group.reading())),
        };
        snapshot.registered = registered;
        answer
    }

    /// Reads templates and settings of groups where it is time. Trouble with one stays with it.
    pub(crate) async fn read_extras(
        &self,
        ids: &BTreeSet<Arc<str>>,
        defaults: Option<&GroupOptions>,
        deadline: Duration,
    ) {
        let now = self.host.monotonic();
        let due: Vec<Arc<str>> = {
            let snapshot = self.snapshot();
            let is_due = |id: &&Arc<str>| {
                let group = snapshot.groups.get(*id).filter(|group| group.missing.is_none());
                group.is_some_and(|group| group.extras_due.is_none_or(|due| due <= now))
            };
            ids.iter().filter(is_due).cloned().collect()
        };
        let reads = due.into_iter().map(|id| self.read_extra(id, defaults, deadline));
        stream::iter(reads).buffered(PARALLEL_READS).collect::<Vec<()>>().await;
    }

    async fn read_extra(&self, id: Arc<str>, defaults: Option<&GroupOptions>, deadline: Duration) {
        let template = self.calls.template(&id, deadline).await;
        let own = match defaults {
            Some(defaults) => {
                let answer = self.calls.options(&id, &options::written(defaults), deadline).await;
                // Any error means the pool's own settings.
                answer.ok().flatten().and_then(|answer| options::read(defaults, &answer))
            }
            None => None,
        };
        let now = self.host.monotonic();
        let mut snapshot = self.snapshot();
        let Some(group) = snapshot.groups.get_mut(&id) else { return };
        let (template, ttl) = match template {
            Ok(template) => {
                let bytes =
                    if template.node_bytes.is_empty() { template.node_info } else { template.node_bytes };
                (Ok(bytes.into()), TEMPLATE_TTL)
            }
            Err(error) if error.is(Status::Unimplemented) => (
                Err("the server has no templates: set template.capacity in the pool".to_owned()),
                TEMPLATE_TTL,
            ),
            Err(error) => (Err(error.message), TEMPLATE_RETRY),
        };
        if template.is_ok() || !matches!(group.template, Some(Ok(_))) {
            group.template = Some(template);
        }
        group.options = own;
        group.extras_due = Some(now + ttl);
    }
}
