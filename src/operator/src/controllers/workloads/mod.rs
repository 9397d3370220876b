//! The loop of workloads: each one is looked at once a sync period, spread over it, and at once when it is edited.

mod due;
mod evaluate;
mod gather;
mod homes;
mod housekeeping;
pub mod last;
mod observation;
pub mod outside;
mod ownership;
mod pushes;
mod questions;
mod refused;
mod release;
mod reporting;
mod resolve;
mod scale_in;
mod state;
mod surge;
mod timing;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use headroom_core::history::Surge;
use headroom_core::labels::ObjectKey;
use headroom_core::pods::input::Options;
use headroom_core::pods::selector::Registry;
use headroom_core::time::Seconds;
use headroom_core::world::surge::SurgeWorkload;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::{debug, error, info};

use self::due::Due;
use self::evaluate::{Dependencies, Ended, Rules};
use self::last::LastEvaluations;
use self::pushes::Pushes;
use self::refused::Refused;
use self::release::Release;
use self::resolve::{ResolvedWorkloads, Workload};
use self::state::State;
use super::health::Health;
use super::leader::Leadership;
use super::shards::Shard;
use super::shards::placement::shard_of;
use super::shards::seat::Seat;
use crate::actuate::deletion_costs::DeletionCosts;
use crate::actuate::guard::Guard;
use crate::actuate::scale::Scales;
use crate::options::{GATHERING, WORKLOADS_IN_FLIGHT_MAX};
use headroom_api::HpaOwnership;
use headroom_api::validate::{ValidatedWorkloads, validate_policy};
use headroom_observe::KubeFeed;
use headroom_observe::host::Host;
use headroom_observe::metrics::MetricsSource;
use headroom_report::otlp::TraceSink;
use headroom_report::{EvaluationResult, KubeSink, Metrics, ScalingSink};

pub use self::resolve::{WorkloadPhase, resolve};
pub use self::state::hpa_status;

/// The pause after something was in the way.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Time that a workload whose evaluation has panicked is left alone.
const QUARANTINE: Duration = Duration::from_secs(60);
/// The loop comes round at least this often while it does not lead, or has something left to do.
const TURN_MAX: Duration = Duration::from_secs(1);
/// The same while nothing is due: whatever matters wakes it.
const IDLE_TURN_MAX: Duration = Duration::from_secs(5);
/// Time that a graceful stop waits for evaluations under way.
const WIND_DOWN_MAX: Duration = Duration::from_secs(10);

/// Makes a source of metrics for the settings that hold: it shares answers for most of a sync period.
pub type MetricsFor = Box<dyn Fn(&ValidatedWorkloads) -> Arc<dyn MetricsSource> + Send + Sync>;

/// Everything outside that the loop touches.
pub struct WorkloadPorts {
    /// Time and tasks.
    pub host: Arc<Host>,
    /// The shards of all workloads, each with its claim. One shard has all workloads, and the leader's claim.
    pub shards: Vec<Shard>,
    /// Source of observations; started with the watches that workloads need.
    pub feed: KubeFeed,
    /// Source of metrics, by the current settings.
    pub metrics: MetricsFor,
    /// Counters of decisions, and the measure of their lateness.
    pub numbers: Arc<Metrics>,
    /// Display of the last evaluation of each workload, and of a missing permission.
    pub health: Arc<Health>,
    /// Destination of traces of decisions; `None` if they are not exported.
    pub traces: Option<TraceSink>,
    /// State of the leader election.
    pub leadership: watch::Receiver<Leadership>,
    /// Becomes true when the process is to stop.
    pub stop: watch::Receiver<bool>,
    /// Dry run: report decisions, change nothing.
    pub preview: bool,
}

/// The loop and what it holds between two turns.
pub struct WorkloadLoop {
    /// Those of the first shard: for what all shards share.
    dependencies: Arc<Dependencies>,
    /// The shards, whether this replica holds them or not.
    parts: Vec<Part>,
    metrics: MetricsFor,
    leadership: watch::Receiver<Leadership>,
    stop: watch::Receiver<bool>,
    settings: ValidatedWorkloads,
    rules: Arc<Rules>,
    preview: bool,
    evaluations: Arc<LastEvaluations>,
    health: Arc<Health>,
    /// Policies of HPAs that could not be made or deleted.
    refused: Refused,
    resolved: ResolvedWorkloads,
    resolved_with: bool,
    slots: BTreeMap<ObjectKey, Slot>,
    due: Due,
    /// Streams of external scalers that wake workloads before they are due.
    pushes: Pushes,
    /// Workloads that may have one replica more while a node is drained.
    surging: Vec<ObjectKey>,
    /// Report to the node loop on each workload that was looked at in this term.
    surge_reports: BTreeMap<ObjectKey, Option<SurgeWorkload>>,
    /// Policies whose surges were wanted in the last turn; `None` before it was known.
    surges_seen: Option<BTreeSet<ObjectKey>>,
    /// Surges whose policies are gone.
    orphans: BTreeMap<ObjectKey, Surge>,
    began_at: Instant,
    /// Time at which edits are taken in that came in pieces; `None` while none is known.
    gathered_at: Option<Instant>,
    finished: mpsc::UnboundedReceiver<Finished>,
    finish: mpsc::UnboundedSender<Finished>,
}

/// One shard in the loop.
struct Part {
    dependencies: Arc<Dependencies>,
    guard: Guard,
    seat: Arc<Seat>,
    /// The term in which memory was read back; `None` while another replica holds the shard, or nobody.
    term: Option<u64>,
}

impl Part {
    /// The term in which this replica may act. A term begins once all work of an earlier one has ended.
    fn epoch(&self) -> Option<u64> {
        let claim = self.guard.claim().filter(|_| self.seat.is_open());
        claim.map(|claim| claim.epoch).filter(|epoch| self.term == Some(*epoch) || self.seat.is_idle())
    }
}

/// State of one workload in the loop.
struct Slot {
    due_at: Instant,
    /// None while it is being looked at, and before it has been for the first time.
    state: Option<State>,
    in_flight: bool,
    /// It was edited while it was being looked at.
    again: bool,
}

/// An evaluation that has ended.
struct Finished {
    term: u64,
    key: ObjectKey,
    /// None after a panic.
    result: Option<(State, Ended)>,
}

impl WorkloadLoop {
    /// A loop that has seen nothing yet.
    ///
    /// # Panics
    /// If there is no shard.
    #[must_use]
    pub fn new(ports: WorkloadPorts) -> Self {
        let WorkloadPorts { host, shards, feed, metrics, numbers, health, traces, leadership, stop, preview } =
            ports;
        let (finish, finished) = mpsc::unbounded_channel();
        let settings = ValidatedWorkloads::default();
        let began_at = host.monotonic();
        let pushes = Pushes::new(host.clone());
        let nobody_else_runs_hpas = Arc::new(AtomicBool::new(false));
        let part = |Shard { guard, work, seat }| {
            let dependencies = Arc::new(Dependencies {
                scales: Scales::new(work.clone(), host.clone()),
                release: Release::new(work.clone()),
                costs: DeletionCosts::new(work.clone()),
                health: health.clone(),
                sink: ScalingSink::new(work.clone()),
                events: KubeSink::new(work),
                registry: Mutex::new(Registry::default()),
                host: host.clone(),
                feed: feed.clone(),
                numbers: numbers.clone(),
                traces: traces.clone(),
                nobody_else_runs_hpas: nobody_else_runs_hpas.clone(),
            });
            Part { dependencies, guard, seat, term: None }
        };
        let parts: Vec<Part> = shards.into_iter().map(part).collect();
        Self {
            dependencies: parts[0].dependencies.clone(),
            parts,
            rules: Arc::new(rules(&settings, metrics(&settings))),
            metrics,
            leadership,
            stop,
            settings,
            preview,
            evaluations: health.evaluations.clone(),
            health,
            refused: Refused::default(),
            resolved: ResolvedWorkloads::default(),
            resolved_with: false,
            slots: BTreeMap::new(),
            due: Due::new(WORKLOADS_IN_FLIGHT_MAX),
            pushes,
            surging: Vec::new(),
            surge_reports: BTreeMap::new(),
            surges_seen: None,
            orphans: BTreeMap::new(),
            began_at,
            gathered_at: None,
            finished,
            finish,
        }
    }

    /// Turns until asked to stop.
    pub async fn run(mut self) {
        loop {
            let pause = self.turn().await;
            if *self.stop.borrow() || *self.leadership.borrow() == Leadership::Lost {
                return self.wind_down().await;
            }
            self.rest(pause).await;
        }
    }

    /// One turn. Each line is one call; those with `await` are I/O, the others are pure.
    async fn turn(&mut self) -> Duration {
        while let Ok(finished) = self.finished.try_recv() {
            self.note(finished);
        }
        if !self.leads() {
            self.health.surges.workloads.set(self.no_surges());
            return TURN_MAX;
        }
        self.look_around();
        self.meet_reports();
        self.meet_surges();
        self.give_back().await;
        self.keep_house().await;
        self.begin_looks()
    }

    async fn rest(&mut self, pause: Duration) {
        let (dependencies, reported) = (self.dependencies.clone(), self.pushes.reported());
        let (seat, is_sharded) = (self.parts[0].seat.clone(), 1 < self.parts.len());
        tokio::select! {
            biased;
            _ = self.stop.changed() => {}
            _ = self.leadership.changed() => {}
            () = seat.changed(), if is_sharded => {}
            Some(finished) = self.finished.recv() => self.note(finished),
            () = dependencies.feed.workloads_edited(), if self.gathered_at.is_none() => self.gather(),
            () = dependencies.health.surges.wanted.changed() => {}
            () = reported.news() => {}
            () = dependencies.host.sleep(pause) => {}
        }
    }

    /// Something was edited. What one `kubectl apply` brings arrives one object after the other, and is taken in together;
    /// workloads that are due meanwhile are looked at as they were.
    fn gather(&mut self) {
        self.gathered_at = Some(self.dependencies.host.monotonic() + GATHERING);
    }

    /// True if this replica may act on any workload; memory of another term is dropped.
    fn leads(&mut self) -> bool {
        for index in 0..self.parts.len() {
            let epoch = self.parts[index].epoch();
            if self.parts[index].term != epoch {
                self.parts[index].term = epoch;
                self.forget_part(index);
            }
        }
        let run_count = self.parts.iter().filter(|part| part.term.is_some()).count();
        self.dependencies.numbers.workloads.runs(run_count);
        0 < run_count && self.dependencies.feed.workloads(|known| known.synced()).unwrap_or(false)
    }

    /// Drops all memory of the workloads of a shard.
    fn forget_part(&mut self, index: usize) {
        let keys: Vec<ObjectKey> =
            self.slots.keys().filter(|key| self.part_of(&key.namespace) == index).cloned().collect();
        for key in keys {
            self.forget(&key);
        }
        let count = self.parts.len();
        self.orphans.retain(|policy, _| shard_of(&policy.namespace, count) != index);
        self.pushes.end_in(|namespace| shard_of(namespace, count) == index);
        self.surges_seen = None;
        self.resolved_with = false;
        self.kept();
    }

    /// The shard of a namespace's workloads.
    fn part_of(&self, namespace: &str) -> usize {
        shard_of(namespace, self.parts.len())
    }

    /// True if this replica runs the workloads of a namespace.
    fn owns(&self, namespace: &str) -> bool {
        self.parts[self.part_of(namespace)].term.is_some()
    }

    fn owned<T>(&self, all: &BTreeMap<ObjectKey, Arc<T>>) -> BTreeMap<ObjectKey, Arc<T>> {
        let owned = all.iter().filter(|(key, _)| self.owns(&key.namespace));
        owned.map(|(key, object)| (key.clone(), object.clone())).collect()
    }

    /// Policies and HPAs of the shards that this replica holds, resolved.
    fn resolve(&self) -> ResolvedWorkloads {
        let settings = &self.settings;
        let resolved = self.dependencies.feed.workloads(|known| {
            if self.parts.len() == 1 {
                return resolve::resolve(known.policies(), known.hpas(), settings);
            }
            let (policies, hpas) = (self.owned(known.policies()), self.owned(known.hpas()));
            let mut resolved = resolve::resolve(&policies, &hpas, settings);
            resolved.without_surges();
            resolved
        });
        let mut resolved = resolved.unwrap_or_default();
        if self.preview {
            resolved.preview();
        }
        resolved
    }

    /// Takes in what was edited: which workloads there are, and which are to be looked at at once.
    fn look_around(&mut self) {
        let dependencies = self.dependencies.clone();
        let now = dependencies.host.monotonic();
        if self.gathered_at.is_some_and(|at| now < at) {
            return;
        }
        self.gathered_at = None;
        let edits = dependencies.feed.workloads(|known| known.take_edited()).unwrap_or_default();
        if edits.is_empty() && self.resolved_with {
            return;
        }
        self.resolved_with = true;
        self.take_settings();
        let fresh = self.resolve();
        let gone: Vec<ObjectKey> =
            self.slots.keys().filter(|key| !fresh.workloads.contains_key(*key)).cloned().collect();
        for key in gone {
            self.note_orphan(&key);
            self.forget(&key);
        }
        for (key, workload) in &fresh.workloads {
            let same = self.resolved.workloads.get(key).is_some_and(|known| known == workload);
            match self.slots.get_mut(key) {
                Some(_) if same => {}
                Some(slot) if slot.in_flight => slot.again = true,
                Some(_) => self.schedule(key, now),
                None => {
                    let slot = Slot { due_at: now, state: None, in_flight: false, again: false };
                    self.slots.insert(key.clone(), slot);
                    self.evaluations.expect(key);
                    self.due.insert(now, key.clone());
                }
            }
        }
        self.resolved = fresh;
        self.surging = self.resolved.surging();
        let (metrics, pace) = (&self.rules.metrics, self.settings.min_sync_period);
        self.pushes.keep(self.resolved.workloads.values(), metrics, pace);
    }

    /// Looks at once at workloads whose external scalers have reported.
    fn meet_reports(&mut self) {
        let now = self.dependencies.host.monotonic();
        for key in self.pushes.reported().take() {
            match self.slots.get_mut(&key) {
                Some(slot) if slot.in_flight => slot.again = true,
                Some(slot) if now < slot.due_at => self.schedule(&key, now),
                Some(_) | None => {}
            }
        }
    }

    /// Takes over the ClusterScalingPolicy; an invalid one leaves the settings as they were.
    fn take_settings(&mut self) {
        let stored = self.dependencies.feed.workloads(|known| known.cluster().cloned()).flatten();
        let mut fresh = match stored.as_ref().map(|stored| stored.spec.as_ref().map(validate_policy)) {
            None => ValidatedWorkloads::default(),
            Some(Ok(Ok(policy))) => policy.workloads,
            // The node loop reports it in the policy's status.
            Some(Ok(Err(_)) | Err(_)) => return,
        };
        if self.preview {
            fresh.ownership = HpaOwnership::Observe;
        }
        if fresh == self.settings {
            return;
        }
        info!(ownership = ?fresh.ownership, sync_period = ?fresh.sync_period, "settings of workloads changed");
        let period = fresh.sync_period != self.settings.sync_period;
        self.kept();
        self.settings = fresh;
        // A missing permission that is still needed is missed again.
        self.health.set_missing_cost_permission(None);
        self.rules = Arc::new(rules(&self.settings, (self.metrics)(&self.settings)));
        // They are of the sources before.
        self.pushes.clear();
        if period {
            let keys: Vec<ObjectKey> = self.slots.keys().cloned().collect();
            for key in keys {
                let at = self.next_due(&key);
                self.schedule(&key, at);
            }
        }
    }

    /// Begins to look at what is due; how long nothing is.
    fn begin_looks(&mut self) -> Duration {
        let now = self.dependencies.host.monotonic();
        while let Some((at, key)) = self.due.next(now) {
            let workload = self.resolved.workloads.get(&key).cloned();
            let Some(workload) = workload else { continue };
            let late = now - at;
            debug!(workload = %key, late_ms = late.as_millis(), "looking");
            self.dependencies.numbers.workloads.began(late);
            self.begin_look(key, workload);
        }
        let longest = if self.resolved_with { IDLE_TURN_MAX } else { TURN_MAX };
        let first_at = self.due.first_at().into_iter().chain(self.gathered_at).min();
        first_at.map_or(longest, |at| at.saturating_duration_since(now).min(longest))
    }

    fn begin_look(&mut self, key: ObjectKey, workload: Arc<Workload>) {
        let part = &self.parts[self.part_of(&key.namespace)];
        // A shard that is given away is forgotten in the next turn.
        let (Some(term), Some(working)) = (part.term, part.seat.begin()) else { return };
        let (dependencies, gap) = (part.dependencies.clone(), part.seat.gap());
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let known = slot.state.take().filter(|state| state.uid == workload.uid);
        let state = known.or_else(|| {
            let stored =
                self.dependencies.feed.workloads(|known| known.policies().get(&key).cloned()).flatten();
            Some(State::restore(&*stored?, self.dependencies.host.now(), gap))
        });
        let Some(mut state) = state else { return };
        slot.in_flight = true;
        self.due.begin(&key.namespace);
        let (rules, finish) = (self.rules.clone(), self.finish.clone());
        self.dependencies.host.spawn(async move {
            let evaluation = async {
                let ended = dependencies.evaluate(&workload, &rules, &mut state).await;
                (state, ended)
            };
            let result = AssertUnwindSafe(evaluation).catch_unwind().await.ok();
            if result.is_none() {
                // What was remembered went with the panic: the next evaluation reads it back.
                let _ =
                    AssertUnwindSafe(dependencies.report_panic(&workload, QUARANTINE)).catch_unwind().await;
            }
            drop(working);
            // Nobody listens only when the loop has ended.
            let _ = finish.send(Finished { term, key, result });
        });
    }

    /// Takes an evaluation's end in and sets the time of the next one.
    fn note(&mut self, finished: Finished) {
        let Finished { term, key, result } = finished;
        self.due.end(&key.namespace);
        if self.parts[self.part_of(&key.namespace)].term != Some(term) {
            return;
        }
        let (now, regular) = (self.dependencies.host.monotonic(), self.next_due(&key));
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.in_flight = false;
        let again = std::mem::take(&mut slot.again);
        self.dependencies.numbers.workloads.ended(match &result {
            Some((_, Ended::Well)) => EvaluationResult::Done,
            Some((_, Ended::Again)) => EvaluationResult::Again,
            None => EvaluationResult::Panicked,
        });
        let at = match result {
            Some((state, ended)) => {
                if let Some(last) = &state.last {
                    self.evaluations.put(&key, last.clone());
                }
                self.surge_reports.insert(key.clone(), state.surge.clone());
                slot.state = Some(state);
                match ended {
                    _ if again => now,
                    Ended::Again => regular.min(now + RETRY_PAUSE),
                    Ended::Well => regular,
                }
            }
            None => {
                error!(workload = %key, "a decision panicked; the workload is set aside for a while");
                now + QUARANTINE
            }
        };
        self.schedule(&key, at);
    }

    fn schedule(&mut self, key: &ObjectKey, at: Instant) {
        let Some(slot) = self.slots.get_mut(key).filter(|slot| !slot.in_flight) else { return };
        self.due.remove(slot.due_at, key);
        slot.due_at = at;
        self.due.insert(at, key.clone());
    }

    fn forget(&mut self, key: &ObjectKey) {
        self.surge_reports.remove(key);
        self.evaluations.forget(key);
        if let Some(slot) = self.slots.remove(key) {
            self.due.remove(slot.due_at, key);
        }
        if let Some(hpa) = self.resolved.workloads.get(key).and_then(|workload| workload.hpa.as_ref()) {
            let part = &self.parts[self.part_of(&key.namespace)];
            let mut registry =
                part.dependencies.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            registry.remove(&hpa.namespace, &hpa.name);
        }
    }

    /// Time at which a workload is due next: each has its own moment in the period, so that they are spread over it.
    fn next_due(&self, key: &ObjectKey) -> Instant {
        let own = self.resolved.workloads.get(key).map(|workload| workload.timing.sync_period);
        let period = own.unwrap_or(self.settings.sync_period).max(Duration::from_secs(1));
        let mut hasher = DefaultHasher::new();
        (&key.namespace, &key.name).hash(&mut hasher);
        let millis = u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1);
        let phase = Duration::from_millis(hasher.finish() % millis);
        let elapsed = self.dependencies.host.monotonic() - self.began_at;
        let passed = u64::try_from(elapsed.saturating_sub(phase).as_millis()).unwrap_or(0) / millis;
        let next = self.began_at + phase + period * u32::try_from(passed).unwrap_or(u32::MAX);
        if next <= self.dependencies.host.monotonic() { next + period } else { next }
    }

    /// Lets evaluations under way end.
    async fn wind_down(mut self) {
        let deadline = self.dependencies.host.monotonic() + WIND_DOWN_MAX;
        while 0 < self.due.in_flight_count() && self.dependencies.host.monotonic() < deadline {
            let rest = deadline.saturating_duration_since(self.dependencies.host.monotonic());
            tokio::select! {
                biased;
                Some(finished) = self.finished.recv() => self.due.end(&finished.key.namespace),
                () = self.dependencies.host.sleep(rest) => {}
            }
        }
    }
}

/// The settings as decisions take them.
fn rules(settings: &ValidatedWorkloads, metrics: Arc<dyn MetricsSource>) -> Rules {
    let ValidatedWorkloads { ownership, scale_in, .. } = *settings;
    Rules { metrics, ownership, scale_in, options: options_of(settings) }
}

fn seconds(length: Duration) -> Seconds {
    Seconds(i64::try_from(length.as_secs()).unwrap_or(i64::MAX))
}

fn options_of(settings: &ValidatedWorkloads) -> Options {
    let ValidatedWorkloads {
        ownership: _,
        sync_period,
        min_sync_period: _,
        tolerance_milli,
        downscale_stabilization,
        cpu_initialization_period,
        initial_readiness_delay,
        max_policies_per_namespace: _,
        scale_in: _,
        metric_sources: _,
    } = settings;
    // At most 1000 thousandths: exact in 32 bits and so in a float.
    let tolerance = f64::from(i32::try_from(*tolerance_milli).unwrap_or(1000)) / 1000.0;
    Options {
        sync_period: seconds(*sync_period),
        downscale_stabilization: seconds(*downscale_stabilization),
        tolerance,
        cpu_initialization_period: seconds(*cpu_initialization_period),
        initial_readiness_delay: seconds(*initial_readiness_delay),
        ..Options::default()
    }
}
