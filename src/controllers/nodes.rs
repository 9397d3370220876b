//! The node loop: read, decide, journal, act, report. One loop for all pools, since they compete for the same pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use headroom_core::history::History;
use headroom_core::known::Known;
use headroom_core::nodes::demand::wanted_count;
use headroom_core::nodes::memory as clocks;
use headroom_core::nodes::tenure::Tenure;
use headroom_core::plan::{Outcome, Plan, PodVerdict, Step, StepResult};
use headroom_core::snapshot::Snapshot;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::ProviderState;
use headroom_core::world::{Delta, Kind, World};
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::config::{self, Settings};
use super::facts;
use super::health::Health;
use super::leader::Leadership;
use super::memory::{
    self, InFlight, ReadBack, StepKey, StoredCluster, StoredPool, StoredPools, journal_differs, journal_of,
};
use super::page::{Board, Seen};
use super::relapse;
use super::rest::Rest;
use super::turns;
use super::view;
use crate::actuate::guard::Guard;
use crate::actuate::steps::Executor;
use crate::api::NodePoolStatus;
use crate::host::Host;
use crate::host::bugs::{self, Bug};
use crate::observe::{Feed, Policies, PolicyChange, Watch};
use crate::options::{
    GATHERING, GATHERING_MAX, PLAN_INTERVAL_MAX, PLAN_INTERVAL_MIN, PROVIDER_INTERVAL_MAX,
    PROVIDER_INTERVAL_MIN, PROVIDER_RETRY, REGRESSION_HOLD, REPORT_INTERVAL_MIN, STEPS_MAX, TAKEOVER_GAP,
    VIEW_AGE_MAX,
};
use crate::provider::{Asked, CloudProvider, Observation};
use crate::report::otlp::TraceSink;
use crate::report::traces::{Call, Traces, trace_id};
use crate::report::{self, Herald, Metrics, StatusSink, WriteError};

/// Everything outside that the loop touches.
#[derive(Clone)]
pub struct Ports {
    /// Time and tasks.
    pub host: Arc<Host>,
    /// The claim.
    pub guard: Guard,
    /// What the watches deliver.
    pub feed: Arc<dyn Feed>,
    /// Where status and events go.
    pub sink: Arc<dyn StatusSink>,
    /// The clouds.
    pub provider: Arc<dyn CloudProvider>,
    /// Who carries out steps.
    pub executor: Executor,
    /// Who leads.
    pub leadership: watch::Receiver<Leadership>,
    /// Becomes true when the process is to stop.
    pub stop: watch::Receiver<bool>,
    /// What the loop says of itself.
    pub health: Arc<Health>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// What the live page shows, if there is one.
    pub page: Option<Arc<Board>>,
    /// Where traces of decisions go, if anywhere.
    pub traces: Option<TraceSink>,
    /// Whether nothing is done but told.
    pub preview: bool,
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Stopped,
    /// The lease was lost: memory may be behind, so the process should end.
    LeaseLost,
}

/// The status of each pool, as it should be.
type Statuses = BTreeMap<Arc<str>, NodePoolStatus>;

/// Pause before what failed is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// A wall clock that is off by so many seconds since the last turn was set; time servers slew by less.
const CLOCK_JUMP_MIN: i64 = 5;
/// How long a graceful stop waits for steps under way.
const WIND_DOWN_MAX: Duration = Duration::from_secs(10);

/// What came of a report.
struct Reported {
    /// When one that had to wait is due.
    due: Option<Instant>,
    /// Whether every status says now what it should.
    all: bool,
}

/// A step that has ended.
struct Finished {
    key: StepKey,
    outcomes: Vec<Outcome>,
    /// The call as a trace tells it, if it is for a decision.
    call: Option<Call>,
}

/// The loop and what it holds between two turns.
pub struct NodeLoop {
    ports: Ports,
    world: World,
    policies: Policies,
    settings: Settings,
    stored: StoredPools,
    cluster: Option<StoredCluster>,
    herald: Herald,
    history: History,
    traces: Traces,
    /// Since when each node has been kept by its reason, in this term.
    tenure: Tenure,
    /// The term in which `history` was read back; `None` while not leading.
    term: Option<u64>,
    in_flight: InFlight,
    finished: mpsc::UnboundedReceiver<Finished>,
    finish: mpsc::UnboundedSender<Finished>,
    outcomes: Vec<Outcome>,
    /// Whether nodes or pools have changed since the providers were last asked.
    providers_due: bool,
    /// When the providers are asked again although nothing has changed.
    providers_due_at: Option<Instant>,
    /// The wall clock and the clock that never jumps, as both stood at the last turn.
    clocks: Option<(UnixTime, Instant)>,
    /// What the last plan was made of, if it left nothing to do.
    rest: Option<Rest>,
}

impl NodeLoop {
    /// A loop that has seen nothing yet.
    #[must_use]
    pub fn new(ports: Ports) -> Self {
        let (finish, finished) = mpsc::unbounded_channel();
        let settings = Settings { preview: ports.preview, ..Settings::default() };
        Self {
            ports,
            world: World::new(),
            policies: Policies::default(),
            settings,
            stored: StoredPools::new(),
            cluster: None,
            herald: Herald::default(),
            history: History::default(),
            traces: Traces::default(),
            tenure: Tenure::default(),
            term: None,
            in_flight: InFlight::default(),
            finished,
            finish,
            outcomes: Vec::new(),
            providers_due: true,
            providers_due_at: None,
            clocks: None,
            rest: None,
        }
    }

    /// Turns until asked to stop, or until the lease is lost.
    pub async fn run(mut self) -> Ended {
        loop {
            let pause = self.turn().await;
            self.ports.health.turned(self.ports.feed.synced());
            if *self.ports.leadership.borrow() == Leadership::Lost {
                return Ended::LeaseLost;
            }
            if *self.ports.stop.borrow() {
                return self.wind_down().await;
            }
            self.rest(pause).await;
        }
    }

    /// One turn. Each line is one call; those with `await` are I/O, the others are pure.
    async fn turn(&mut self) -> Duration {
        self.take_in();
        if !self.leads().await {
            self.ports.health.inspection.answer(|| None);
            self.show(false, None, &[]);
            return PLAN_INTERVAL_MAX;
        }
        let now = self.ports.host.now();
        self.follow_clock(now);
        self.ask_providers(now).await;
        let news = !self.outcomes.is_empty();
        self.absorb(now);
        if !news && let Some(rest) = self.rest.filter(|rest| self.still_holds(rest, now)) {
            self.ports.health.inspection.answer(|| Some(self.view(now)));
            self.measure_watches(now);
            return self.pause(rest.wake_at, None, now);
        }
        if bugs::on(Bug::BadPoolStopsLoop) && self.settings.config.pools.len() < self.policies.pools.len() {
            return RETRY_PAUSE;
        }
        let whole = self.policies.pools.len() <= self.settings.config.pools.len();
        assert!(whole || !bugs::on(Bug::OddObjectPanics), "a pool cannot be read");
        let began_at = self.ports.host.wall();
        let mut plan = self.plan(now);
        let planned_at = self.ports.host.wall();
        self.ports.health.inspection.answer(|| Some(self.view(now)));
        let mut statuses = self.statuses(&plan, now);
        let journalled = self.journal(&plan, &statuses).await;
        if self.forget_unjournalled(&mut plan, &journalled) {
            statuses = self.statuses(&plan, now);
        }
        self.begin_steps(&plan, &journalled, now);
        let at_rest = plan.steps.is_empty() && self.in_flight.is_empty() && self.history == plan.next_history;
        self.history = plan.next_history.clone();
        self.trace((began_at, planned_at));
        self.ports.metrics.pools(&statuses);
        self.show(true, Some(&statuses), &plan.reasons.pods);
        self.measure_watches(now);
        let reported = self.report(statuses).await;
        let said = self.report_cluster(&plan, now).await;
        self.tell(&plan);
        self.rest = (at_rest && reported.all && said).then(|| Rest {
            revision: self.world.revision(),
            planned_at: self.ports.host.monotonic(),
            wake_at: plan.wake_at,
            stale: self.world.is_stale(),
        });
        self.pause(plan.wake_at, reported.due, now)
    }

    /// Whether a plan would be the one that this rest began with.
    fn still_holds(&self, rest: &Rest, now: UnixTime) -> bool {
        rest.lasts(self.world.revision(), self.is_view_stale(now), now, self.ports.host.monotonic())
    }

    /// What a plan made now reads, and what the last decisions on replicas have read.
    fn view(&self, now: UnixTime) -> Snapshot {
        let snapshot = Snapshot::of(&self.world, &self.history, &self.settings.config, now);
        snapshot.watched(&self.tenure).with_replicas(self.ports.health.looks.record())
    }

    /// Waits for a bell, an outcome, a change of leadership, the stop, or the end of the pause.
    ///
    /// A bell is answered a moment later: what one `kubectl apply` brings arrives one object after the other, and nodes
    /// bought for all of it together are fewer than those bought for each.
    async fn rest(&mut self, pause: Duration) {
        self.ports.host.sleep(PLAN_INTERVAL_MIN).await;
        let (feed, health) = (self.ports.feed.clone(), self.ports.health.clone());
        let rung = tokio::select! {
            biased;
            _ = self.ports.stop.changed() => false,
            _ = self.ports.leadership.changed() => false,
            Some(finished) = self.finished.recv() => { self.note(finished); false }
            () = feed.notified() => true,
            () = health.inspection.rung() => false,
            () = self.ports.host.sleep(pause.saturating_sub(PLAN_INTERVAL_MIN)) => false,
        };
        if rung {
            self.gather().await;
        }
    }

    /// Lets what arrives together be decided together: a moment, and another as long as more pods are wanted than a
    /// moment before, up to a bound. Nodes bought for the first half of a burst suit the second half badly.
    async fn gather(&mut self) {
        let end = self.ports.host.monotonic() + GATHERING_MAX;
        loop {
            self.take_in();
            let wanted = wanted_count(&self.world);
            self.ports.host.sleep(GATHERING).await;
            self.take_in();
            if wanted_count(&self.world) <= wanted || end <= self.ports.host.monotonic() + GATHERING {
                return;
            }
        }
    }

    /// Takes in what watches and steps have delivered since the last turn.
    fn take_in(&mut self) {
        for mut delta in self.ports.feed.take() {
            if relapse::missed(&mut delta) {
                continue;
            }
            self.providers_due |=
                matches!(delta, Delta::NodeApplied(_) | Delta::NodeDeleted(_) | Delta::ListEnded(_));
            self.world.apply(delta);
        }
        let changes = self.ports.feed.take_policies();
        if !changes.is_empty() {
            // Most changes are the operator's own status writes coming back: they leave the settings as they are.
            let edited = changes.iter().any(|change| change.is_edit(&self.policies));
            changes.into_iter().for_each(|change| self.policies.apply(change));
            if edited {
                self.settings.update(&self.policies);
                self.providers_due = true;
                self.rest = None;
            }
            self.sync_stored();
        }
        while let Ok(finished) = self.finished.try_recv() {
            self.note(finished);
        }
    }

    fn note(&mut self, finished: Finished) {
        let until = finished.outcomes.iter().find_map(|outcome| match outcome.result {
            StepResult::Pending(until) => Some(until),
            // What the guard refused, or what nobody knows the end of, is not hammered on.
            StepResult::Refused { .. } | StepResult::Unknown { .. } => {
                Some(self.ports.host.now().plus(Seconds(1)))
            }
            _ => None,
        });
        // The provider has something else than the plan believed: planned from the same old answer, the next one would
        // ask for the same again, and so on without end; or it would not see what came while it was to be taken back.
        self.providers_due |= finished
            .outcomes
            .iter()
            .any(|outcome| matches!(outcome.result, StepResult::Superseded | StepResult::Increased));
        self.in_flight.end(&finished.key, until);
        if let Some(call) = &finished.call {
            self.traces.called(call);
        }
        self.outcomes.extend(finished.outcomes);
    }

    /// Brings what is known of stored pools up to what the watch has delivered. Our own writes may be ahead of it.
    fn sync_stored(&mut self) {
        let mut read = Vec::new();
        for (name, object) in &self.policies.pools {
            match self.stored.get_mut(name) {
                Some(stored) => match stored.seen(object) {
                    ReadBack::Known => {}
                    news => read.push((name.clone(), news)),
                },
                None => {
                    // A pool that brings a status along (a restored backup) brings its memory along.
                    self.stored.insert(name.clone(), StoredPool::of(object));
                    read.push((name.clone(), ReadBack::Another));
                }
            }
        }
        read.into_iter().for_each(|(name, news)| self.remember(&name, news));
        let pools = &self.policies.pools;
        let gone: Vec<Arc<str>> =
            self.stored.keys().filter(|name| !pools.contains_key(*name)).cloned().collect();
        for name in gone {
            self.stored.remove(&name);
            self.history.pools.remove(&name);
            self.world.apply(Delta::ProviderForgotten(name));
        }
    }

    /// Makes the memory of a pool what was read of it, where that is the newer one.
    fn remember(&mut self, pool: &Arc<str>, read: ReadBack) {
        self.rest = None;
        let Some(stored) = self.stored.get(pool) else { return };
        let answers = match read {
            ReadBack::Known => return,
            ReadBack::Another => Vec::new(),
            ReadBack::Landed(answers) => answers,
        };
        self.history.pools.insert(pool.clone(), stored.history.clone());
        if !answers.is_empty() {
            let now = self.ports.host.now();
            headroom_core::absorb(&mut self.history, &answers, &self.world, &self.settings.config, now);
        }
    }

    /// Whether this replica may act, with its memory read back when it has just begun to lead.
    async fn leads(&mut self) -> bool {
        let claim = self.ports.guard.claim();
        self.ports.metrics.leading(claim.is_some());
        let Some(claim) = claim else {
            self.term = None;
            return false;
        };
        if !self.ports.feed.synced() && !bugs::on(Bug::ActsBeforeSynced) {
            return false;
        }
        if self.term == Some(claim.epoch) {
            return true;
        }
        match self.take_over(claim.epoch).await {
            Ok(()) => true,
            Err(error) => {
                warn!(%error, "failed to read the pools back; not acting yet");
                false
            }
        }
    }

    /// Reads memory back from status, live: the watch may be behind the last leader's writes.
    async fn take_over(&mut self, epoch: u64) -> Result<(), WriteError> {
        for object in self.ports.sink.read_pools().await? {
            // A server that has fallen behind may answer with less than the watch has shown already.
            let seen = self.policies.pools.get(&object.name).filter(|seen| seen.uid == object.uid);
            let seen = seen.filter(|_| !bugs::on(Bug::OlderListBelieved));
            let ahead =
                seen.filter(|seen| memory::newer(&seen.resource_version, &object.resource_version)).cloned();
            let object = ahead.unwrap_or(object);
            let before = self.stored.get(&object.name).filter(|_| !bugs::on(Bug::OlderListBelieved));
            let stored = StoredPool::taken_over(&object, before);
            self.stored.insert(object.name.clone(), stored);
            self.policies.apply(PolicyChange::Pool(Box::new(object)));
        }
        self.settings.update(&self.policies);
        self.settings.config.epoch = epoch;
        self.history = History::default();
        self.traces = Traces::default();
        self.tenure = Tenure::default();
        for (name, stored) in &self.stored {
            self.history.pools.insert(name.clone(), stored.history.clone());
        }
        for memory in self.history.pools.values_mut() {
            if bugs::on(Bug::BackoffForgotten) {
                memory.backoffs.clear();
            }
            if bugs::on(Bug::IntentsForgotten) {
                memory.intents.clear();
            }
        }
        let now = self.ports.host.now();
        if !bugs::on(Bug::StatusTrustedBlindly) {
            clocks::sanitize(&mut self.history, &self.settings.config, now);
        }
        let gap = match *self.ports.leadership.borrow() {
            Leadership::Leading { gap, .. } => gap,
            Leadership::Standby | Leadership::Lost => Duration::ZERO,
        };
        if gap > TAKEOVER_GAP {
            let seconds = i64::try_from(gap.as_secs()).unwrap_or(i64::MAX);
            info!(seconds, "nobody led for a while; every clock waits that much longer");
            clocks::age_clocks(&mut self.history, Seconds(seconds));
        }
        self.rest = None;
        self.in_flight = InFlight::default();
        self.outcomes.clear();
        self.providers_due = true;
        self.term = Some(epoch);
        Ok(())
    }

    /// Asks every pool's provider what it has. A failed read leaves the older answer, with its age.
    async fn ask_providers(&mut self, now: UnixTime) {
        let clock = self.ports.host.monotonic();
        let aged = self.providers_due_at.is_none_or(|at| at <= clock);
        if !self.providers_due && !aged {
            return;
        }
        self.providers_due = false;
        let mut next_in = PROVIDER_INTERVAL_MAX;
        let nodes = facts::own_nodes(&self.world);
        let registered = facts::registered(&self.world);
        let none = Vec::new();
        let pools: Vec<Asked<'_>> = self
            .settings
            .providers
            .values()
            .map(|pool| {
                let nodes = nodes.get(&pool.name).unwrap_or(&none);
                Asked { pool, nodes, registered: &registered }
            })
            .collect();
        // What a provider counts from the nodes of the view is as old as the view.
        let seen_at = self.nodes_as_of(now);
        let answers = self.ports.provider.observe(&pools).await;
        let names: Vec<Arc<str>> = pools.iter().map(|asked| asked.pool.name.clone()).collect();
        for (pool, answer) in names.into_iter().zip(answers) {
            match answer {
                Ok(Observation { state: value, read_at, next_in: due }) => {
                    next_in = next_in.min(due.unwrap_or(PROVIDER_INTERVAL_MAX));
                    let at = read_at.unwrap_or(seen_at);
                    self.world.apply(Delta::ProviderObserved(pool, Known::Known { value, at }));
                }
                Err(_) if bugs::on(Bug::UnknownIsZero) => {
                    let nothing = Known::Known { value: ProviderState::default(), at: now };
                    self.world.apply(Delta::ProviderObserved(pool, nothing));
                }
                Err(_) if bugs::on(Bug::ProviderCallHangs) => {
                    self.ports.host.sleep(Duration::from_secs(86_400)).await;
                    return;
                }
                Err(error) => {
                    assert!(!bugs::on(Bug::ThrottleIsFatal), "the provider did not answer");
                    warn!(pool = %pool, %error, "provider did not answer");
                    next_in = next_in.min(PROVIDER_RETRY);
                    if self.world.provider(&pool).is_none_or(|known| known.value().is_none()) {
                        let why = error.to_string();
                        self.world.apply(Delta::ProviderObserved(pool, Known::Unknown { why }));
                    }
                }
            }
        }
        self.providers_due_at = Some(clock + next_in.max(PROVIDER_INTERVAL_MIN));
    }

    /// A wall clock that was set since the last turn takes the memory with it: no clock may run out by that.
    fn follow_clock(&mut self, now: UnixTime) {
        let clock = self.ports.host.monotonic();
        let Some((wall, before)) = self.clocks.replace((now, clock)) else { return };
        let passed = i64::try_from(clock.saturating_duration_since(before).as_secs()).unwrap_or(i64::MAX);
        let jump = now.since(wall).0.saturating_sub(passed);
        if CLOCK_JUMP_MIN <= jump.saturating_abs() && !bugs::on(Bug::WallClockTimers) {
            warn!(seconds = jump, "the wall clock was set; every clock moves with it");
            clocks::shift_clocks(&mut self.history, Seconds(jump));
            self.tenure.shift(Seconds(jump));
            self.rest = None;
        }
    }

    /// Turns what the world answered into memory.
    fn absorb(&mut self, now: UnixTime) {
        let outcomes = std::mem::take(&mut self.outcomes);
        relapse::ended(&mut self.history, &outcomes);
        for outcome in &outcomes {
            debug!(pool = %outcome.pool, intent = %outcome.intent, result = ?outcome.result, "step ended");
            if let Some(stored) = self.stored.get_mut(&outcome.pool) {
                stored.answered(outcome);
            }
        }
        headroom_core::absorb(&mut self.history, &outcomes, &self.world, &self.settings.config, now);
    }

    /// When nodes were last heard of; `now` when that is not known or, by a clock that was set, later.
    fn nodes_as_of(&self, now: UnixTime) -> UnixTime {
        let nodes = Watch::World(Kind::Node);
        let silence = self.ports.feed.silent_for(nodes, now);
        let silence = silence.filter(|_| !bugs::on(Bug::LateNodeTerminated)).unwrap_or_default();
        UnixTime(now.0.saturating_sub(silence.0.max(0)))
    }

    /// Whether the view is too old, or of a cluster that was set back too lately, to remove anything by.
    fn is_view_stale(&self, now: UnixTime) -> bool {
        let stale = self.ports.feed.staleness(now).is_none_or(|age| age > VIEW_AGE_MAX);
        // A restored backup has forgotten nodes, pods and intents: until the cluster has found itself nothing goes.
        let set_back = self.ports.feed.regressed_at().is_some_and(|at| now.since(at) < REGRESSION_HOLD);
        (stale && !bugs::on(Bug::StaleViewTrusted)) || (set_back && !bugs::on(Bug::RestoredViewTrusted))
    }

    fn plan(&mut self, now: UnixTime) -> Plan {
        relapse::memory(&mut self.history);
        relapse::growth(&mut self.settings.config, &self.history, now);
        self.world.set_stale(self.is_view_stale(now));
        self.world.set_nodes_silent_for(now.since(self.nodes_as_of(now)));
        self.world.set_asking(self.in_flight.increases());
        let started = self.ports.host.monotonic();
        let mut plan = headroom_core::plan(&self.world, &self.history, &self.settings.config, now);
        let took = self.ports.host.monotonic() - started;
        // What status cannot hold may not be remembered either (law 2).
        for memory in plan.next_history.pools.values_mut() {
            *memory = report::fit(memory).0;
        }
        if !self.world.is_stale() {
            self.tenure.note(&plan.reasons.nodes, now);
        }
        self.ports.metrics.planned(took, &plan, &self.world, now);
        plan
    }

    fn statuses(&self, plan: &Plan, now: UnixTime) -> Statuses {
        view::statuses(&self.world, &plan.next_history, &plan.reasons, &self.settings, &self.stored, now)
    }

    /// Writes the journal of each pool that is about to act, before it acts (law 3).
    ///
    /// Returns the pools whose intents are stored; the others keep the memory they had and plan again.
    async fn journal(&mut self, plan: &Plan, statuses: &Statuses) -> BTreeSet<Arc<str>> {
        let acting: BTreeSet<&Arc<str>> = plan.steps.iter().filter_map(journal_of).collect();
        if bugs::on(Bug::EffectBeforeIntent) {
            return acting.into_iter().cloned().collect();
        }
        let (mut journalled, mut writes) = (BTreeSet::new(), Vec::new());
        for pool in acting {
            let next = plan.next_history.pools.get(pool);
            let (Some(stored), Some(next), Some(status)) = (self.stored.get(pool), next, statuses.get(pool))
            else {
                continue;
            };
            if journal_differs(next, &stored.history)
                && !relapse::stored_by_another_term(next, &stored.history)
            {
                writes.push((pool.clone(), stored.resource_version.clone(), status.clone()));
            } else {
                journalled.insert(pool.clone());
            }
        }
        let written = self.write(writes).await;
        journalled.extend(written.into_iter().filter(|(_, written)| *written).map(|(pool, _)| pool));
        journalled
    }

    /// Takes back what was decided for pools whose journal could not be written. Returns whether there were any.
    fn forget_unjournalled(&self, plan: &mut Plan, journalled: &BTreeSet<Arc<str>>) -> bool {
        let acting: BTreeSet<Arc<str>> = plan.steps.iter().filter_map(journal_of).cloned().collect();
        let mut any = false;
        for pool in acting.difference(journalled) {
            any = true;
            // The write may have been done although its answer was lost: its ids are not used again.
            let used = plan.next_history.pools.get(pool).map_or(0, |memory| memory.sequence);
            let mut memory = self.history.pools.get(pool).cloned().unwrap_or_default();
            if !bugs::on(Bug::SequenceReused) {
                memory.sequence = memory.sequence.max(used);
            }
            plan.next_history.pools.insert(pool.clone(), memory);
        }
        any
    }

    /// Writes statuses, all at once, and remembers what is stored now. Returns which were written.
    async fn write(&mut self, writes: Vec<(Arc<str>, String, NodePoolStatus)>) -> Vec<(Arc<str>, bool)> {
        let sink = self.ports.sink.clone();
        let calls = writes.into_iter().map(|(pool, version, status)| {
            let sink = sink.clone();
            async move {
                let answer = sink.write_pool(&pool, &version, &status).await;
                (pool, status, answer)
            }
        });
        let mut results = Vec::new();
        for (pool, status, answer) in join_all(calls).await {
            let mut written = answer.is_ok() || bugs::on(Bug::JournalAssumed);
            self.ports.metrics.status_written(answer.as_ref().map(|_| ()));
            match answer {
                Ok(version) => {
                    let at = self.ports.host.monotonic();
                    if let Some(stored) = self.stored.get_mut(&pool) {
                        stored.written(version, status, at);
                    }
                }
                Err(error) => {
                    info!(pool = %pool, %error, "status not written; planning again");
                    if let (WriteError::Failed(_), Some(stored)) = (&error, self.stored.get_mut(&pool))
                        && !bugs::on(Bug::SequenceReused)
                    {
                        stored.sent(status.clone());
                    }
                    let landed = self.refresh(&pool).await;
                    let at = self.ports.host.monotonic();
                    if let Some(stored) = self.stored.get_mut(&pool).filter(|_| landed) {
                        // The write was done and its answer lost.
                        written |= stored.status == status;
                        stored.reported_at = Some(at);
                    }
                }
            }
            results.push((pool, written));
        }
        results
    }

    /// Reads one pool anew after a failed write, so that the next one names the right version. Returns whether it has a
    /// status of ours whose write was not answered.
    async fn refresh(&mut self, pool: &Arc<str>) -> bool {
        match self.ports.sink.read_pool(pool).await {
            Ok(Some(object)) => {
                let Some(stored) = self.stored.get_mut(pool) else { return false };
                let read = stored.read_back(&object);
                if !stored.ours {
                    // Nothing of ours has been written in this term: what the leader before us wrote last, after our
                    // takeover read the pool, is the memory.
                    self.history.pools.insert(pool.clone(), stored.history.clone());
                    clocks::sanitize(&mut self.history, &self.settings.config, self.ports.host.now());
                }
                let landed = matches!(read, ReadBack::Landed(_));
                if landed {
                    self.remember(pool, read);
                }
                return landed;
            }
            Ok(None) => {}
            Err(error) => warn!(pool = %pool, %error, "failed to read the pool"),
        }
        false
    }

    /// Begins the steps whose intents are stored. They run beside the loop and report back.
    fn begin_steps(&mut self, plan: &Plan, journalled: &BTreeSet<Arc<str>>, now: UnixTime) {
        for step in &plan.steps {
            if self.in_flight.len() >= STEPS_MAX {
                break;
            }
            if journal_of(step).is_some_and(|pool| !journalled.contains(pool)) {
                continue;
            }
            if bugs::on(Bug::OrphanMarksStay) && matches!(step, Step::Unmark { .. }) {
                continue;
            }
            if self.waits_its_turn(step, plan) {
                continue;
            }
            let key = StepKey::of(step);
            if self.in_flight.begin(&key, now) {
                self.begin(step.clone(), key, now);
            }
        }
    }

    /// Whether the step writes a group's size that another write, decided before it, is still to change.
    fn waits_its_turn(&self, step: &Step, plan: &Plan) -> bool {
        let Some(pool) = step.address().0 else { return false };
        let provider = self.settings.providers.get(pool);
        let Some(memory) = plan.next_history.pools.get(pool) else { return false };
        provider.is_some_and(|pool| pool.settings.writes_sizes())
            && turns::waits(step, memory, &self.in_flight.deletions())
    }

    fn begin(&mut self, step: Step, key: StepKey, now: UnixTime) {
        let (pool, intent) = step.address();
        let decision = pool.cloned().zip(intent.cloned()).filter(|_| self.ports.traces.is_some());
        let trace = decision.as_ref().map(|(pool, intent)| trace_id(pool, intent));
        info!(step = %facts::in_words(&step), trace, "step begun");
        let facts = facts::of_step(&step, &self.world, &self.history, &self.settings, now);
        let word = step.word();
        let (executor, finish) = (self.ports.executor.clone(), self.finish.clone());
        let host = self.ports.host.clone();
        let began_at = host.wall();
        self.ports.host.spawn(async move {
            let outcomes = executor.run(&step, &facts).await;
            let ended_at = host.wall();
            let failure = facts::failure_of(&outcomes);
            let call =
                decision.map(|(pool, intent)| Call { pool, intent, step: word, failure, began_at, ended_at });
            // The loop may have ended meanwhile; the next one finds out from status.
            let _ = finish.send(Finished { key, outcomes, call });
        });
    }

    /// Sends the traces of what is through, where anybody wants them.
    fn trace(&mut self, plan: (Timestamp, Timestamp)) {
        let Some(sink) = &self.ports.traces else { return };
        let now = self.ports.host.wall();
        let finished = self.traces.planned(plan, &self.history, &self.world, now);
        finished.into_iter().for_each(|trace| sink.put(trace));
    }

    /// Writes what differs, at most once a second per pool.
    async fn report(&mut self, statuses: Statuses) -> Reported {
        let clock = self.ports.host.monotonic();
        let (mut writes, mut due) = (Vec::new(), None);
        for (name, status) in statuses {
            let Some(stored) = self.stored.get(&name) else { continue };
            if status == stored.status && !bugs::on(Bug::StatusEveryTurn) {
                continue;
            }
            let not_before = stored.reported_at.map_or(clock, |at| at + REPORT_INTERVAL_MIN);
            if clock < not_before {
                due = Some(due.map_or(not_before, |due: Instant| due.min(not_before)));
            } else {
                writes.push((name, stored.resource_version.clone(), status));
            }
        }
        let written = self.write(writes).await;
        Reported { due, all: due.is_none() && written.iter().all(|(_, written)| *written) }
    }

    /// Puts what this turn knows on the live page's board, if there is one; without statuses of its own those last read.
    fn show(&self, leading: bool, statuses: Option<&Statuses>, verdicts: &[PodVerdict]) {
        let Some(board) = &self.ports.page else { return };
        let last_read =
            || self.stored.iter().map(|(name, stored)| (name.clone(), stored.status.clone())).collect();
        let read: Statuses = if statuses.is_some() { Statuses::new() } else { last_read() };
        board.note(&Seen {
            now: self.ports.host.now(),
            leading,
            world: &self.world,
            config: &self.settings.config,
            statuses: statuses.unwrap_or(&read),
            verdicts,
        });
    }

    fn measure_watches(&self, now: UnixTime) {
        for watch in self.ports.feed.health(now) {
            let silence = watch.silent_for.map(|silence| silence.0);
            let (regressions, undecodable) = (watch.regressions_count, watch.undecodable_count);
            self.ports.metrics.watch(watch.watch.as_str(), silence, regressions, undecodable);
        }
    }

    /// Writes the cluster policy's status, if there is such an object and it says something else. Returns whether it says now
    /// what it should.
    async fn report_cluster(&mut self, plan: &Plan, now: UnixTime) -> bool {
        let Some(object) = self.policies.clusters.get(config::POLICY_NAME) else {
            self.cluster = None;
            return true;
        };
        let known = self.cluster.as_ref().filter(|known| known.uid == object.uid);
        let stored = match known {
            Some(known) if !memory::newer(&object.resource_version, &known.resource_version) => known.clone(),
            _ => StoredCluster::of(object),
        };
        let status =
            view::cluster_status(object.generation, &plan.reasons, &self.settings, &stored.status, now);
        let written = stored.reported_at;
        let too_soon = written.is_some_and(|at| self.ports.host.monotonic() < at + REPORT_INTERVAL_MIN);
        let said = status == stored.status;
        if said || too_soon {
            self.cluster = Some(stored);
            return said;
        }
        let answer =
            self.ports.sink.write_policy(config::POLICY_NAME, &stored.resource_version, &status).await;
        self.ports.metrics.status_written(answer.as_ref().map(|_| ()));
        // After a failure the next turn builds on what the watch delivers by then.
        self.cluster = answer.ok().map(|resource_version| StoredCluster {
            resource_version,
            status,
            reported_at: Some(self.ports.host.monotonic()),
            uid: stored.uid,
        });
        self.cluster.is_some()
    }

    /// Sends the events that tell what is new, beside the loop: they are a courtesy, and nothing waits for them.
    fn tell(&mut self, plan: &Plan) {
        let notes = self.herald.tell(plan, &self.world, &self.settings.config);
        if notes.is_empty() {
            return;
        }
        let (sink, at) = (self.ports.sink.clone(), self.ports.host.time());
        self.ports.host.spawn(async move {
            for note in notes {
                if let Err(error) = sink.write_event(&note, at).await {
                    debug!(reason = note.reason, %error, "event not written");
                }
            }
        });
    }

    /// How long nothing need be looked at, unless something rings.
    fn pause(&mut self, wake_at: Option<UnixTime>, report_due: Option<Instant>, now: UnixTime) -> Duration {
        let clock = self.ports.host.monotonic();
        let mut pause = PLAN_INTERVAL_MAX;
        let step_due = self.in_flight.next_due(now);
        if let Some(at) = wake_at.into_iter().chain(step_due).min() {
            // Times are whole seconds rounded down: the instant has surely come one second later.
            let seconds = u64::try_from(at.since(now).0).unwrap_or(0);
            pause = pause.min(Duration::from_secs(seconds.saturating_add(1)));
        }
        if let Some(due) = report_due {
            pause = pause.min(due.saturating_duration_since(clock));
        }
        if !self.outcomes.is_empty() || self.providers_due {
            pause = pause.min(RETRY_PAUSE);
        }
        if let Some(due) = self.providers_due_at {
            pause = pause.min(due.saturating_duration_since(clock));
        }
        pause
    }

    /// Lets steps under way end, reads no more, and writes what they came to.
    async fn wind_down(mut self) -> Ended {
        let deadline = self.ports.host.monotonic() + WIND_DOWN_MAX;
        while !self.in_flight.is_empty() && self.ports.host.monotonic() < deadline {
            let rest = deadline.saturating_duration_since(self.ports.host.monotonic());
            tokio::select! {
                biased;
                Some(finished) = self.finished.recv() => self.note(finished),
                () = self.ports.host.sleep(rest) => {}
            }
        }
        if self.leads().await {
            let now = self.ports.host.now();
            self.absorb(now);
            let plan = Plan { next_history: self.history.clone(), ..Plan::default() };
            let statuses = self.statuses(&plan, now);
            self.stored.values_mut().for_each(|stored| stored.reported_at = None);
            self.report(statuses).await;
        }
        Ended::Stopped
    }
}
