//! Runs a scenario from its first to its last second: cluster, events and operator in virtual time on one thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::cluster::SimCluster;
use super::environment::Environment;
use super::replica::{Ended, Life, PortKind, Surroundings};
use super::scenario::{Happening, Scenario, Timeline};
use super::simulated_cloud::SharedCluster;
use super::statistics::Summary;
use super::store::{Author, Kind, SharedStore};
use super::trace::{Line, StableHash};
use super::wire::{ApiServer, FaultRates, Faults};
use headroom_observe::host::Host;
use headroom_operator::options::PLAN_INTERVAL_MIN;

/// From the end of a replica's process to the start of the next one, as a kubelet would take.
const RESTART_AFTER: SignedDuration = SignedDuration::from_secs(5);

/// Age up to which entries of the change log are kept without watches: pages of a list are read within an instant.
const TYPED_HISTORY: SignedDuration = SignedDuration::from_secs(10);

/// Author of the objects at the start.
const SNAPSHOT: Author<'static> = Author::actor("snapshot");

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Interface by which the operator observes.
    pub port: PortKind,
    /// Shapes names, uids and faults.
    pub seed: u64,
    /// Shortest pause between two plans of the operator, whatever wakes it.
    pub plan_interval_min: Duration,
    /// Replicas of the operator; at least 1.
    pub replicas_count: usize,
    /// Numbers of shards of the workloads, in order, and the time from which on replicas are started with each; before the
    /// first and with 1 the leader runs all.
    pub shards: Vec<(Timestamp, usize)>,
    /// Fault rates of requests.
    pub faults: FaultRates,
    /// Each life of a replica ends after a drawn number of effect points, at most this many; 0 for never.
    pub effects_per_life_max: u64,
    /// True if every line of the trace is kept.
    pub keep_trace: bool,
    /// From this time after the start on nothing goes wrong any more.
    pub calm_after: SignedDuration,
    /// Environment beside cluster and operator: another cloud, faults, an audit.
    pub environment: Option<Arc<dyn Environment>>,
    /// Objects that stand when the run begins, as they are, owners before what they own.
    pub initial_state: Arc<Vec<(Kind, Value)>>,
}

impl Options {
    /// One replica on the typed port, and no faults but those of the scenario.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Options {
        Options {
            port: PortKind::default(),
            seed: scenario.seed,
            plan_interval_min: PLAN_INTERVAL_MIN,
            replicas_count: 1,
            shards: Vec::new(),
            faults: FaultRates::default(),
            effects_per_life_max: 0,
            keep_trace: false,
            calm_after: SignedDuration::ZERO,
            environment: None,
            initial_state: Arc::default(),
        }
    }

    /// The same in rough conditions: requests fail, answers get lost, watches break and the operator dies again and
    /// again, for the first two thirds of the scenario.
    #[must_use]
    pub fn rough(self, scenario: &Scenario) -> Options {
        let faults = FaultRates {
            refuse: 200,
            drop_before: 100,
            drop_after: 100,
            delay: 300,
            delay_max: Duration::from_secs(4),
            cut_watch: 3000,
            ..FaultRates::default()
        };
        let calm_after = scenario.duration / 3 * 2;
        Options { port: PortKind::Wire, faults, effects_per_life_max: 60, calm_after, ..self }
    }
}

/// State that the spectator of a run gets after each step.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The time.
    pub now: Timestamp,
    /// The cluster after the step.
    pub cluster: &'a SimCluster,
    /// Events of the scenario in it.
    pub happened: &'a [Happening],
    /// The operator's replicas, those that live.
    pub lives: &'a [Option<Life>],
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The figures.
    pub summary: Summary,
    /// The hash of the trace.
    pub hash: StableHash,
    /// The lines of the trace, if they were kept.
    pub trace: Vec<Line>,
    /// Lines in the trace.
    pub trace_count: u64,
    /// Requests that a fault struck.
    pub faults_count: u64,
    /// Number of faults, by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Lives of replicas that ended before the run did.
    pub deaths_count: u64,
    /// Time at which the run ended: at the scenario's end, or earlier when its environment had seen enough.
    pub ended_at: Timestamp,
}

/// Runs the scenario; `spectate` is shown every step.
///
/// # Errors
/// If the runtime cannot be built.
pub fn run(
    scenario: &Scenario,
    options: &Options,
    spectate: &mut dyn FnMut(&Scene<'_>),
) -> std::io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(async {
        let mut stage = Stage::set(scenario, options);
        stage.play(spectate).await;
        stage.outcome()
    }))
}

/// A run that is moved on from outside, for as long as its owner likes: the scenario's length bounds nothing.
///
/// It belongs to one thread, whose random numbers it shapes.
#[derive(Debug)]
pub struct Session {
    // Its tasks end before their runtime does.
    stage: Stage,
    runtime: tokio::runtime::Runtime,
}

impl Session {
    /// Sets the scenario up at its start; nothing has happened yet.
    ///
    /// # Errors
    /// If the runtime cannot be built.
    pub fn begin(scenario: &Scenario, options: &Options) -> std::io::Result<Session> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        let stage = runtime.block_on(async { Stage::set(scenario, options) });
        Ok(Session { stage, runtime })
    }

    /// Lets everything happen that is due before `at`; nothing if that is past.
    pub fn advance_to(&mut self, at: Timestamp) {
        let Session { stage, runtime } = self;
        runtime.block_on(stage.play_until(at, &mut |_| {}));
        stage.around.server.store().with(|store| store.advance_to(at));
        // A session has no end at which somebody reads them.
        stage.around.cluster.lock().statistics.forget_minutes();
    }

    /// Sets the time from a node's registration to Ready, for nodes that come from here on.
    pub fn set_node_ready(&mut self, after: SignedDuration) {
        self.stage.around.cluster.lock().set_node_ready(after);
    }

    /// The objects of the cluster, to be read, and to be changed as anybody might.
    #[must_use]
    pub fn store(&self) -> &SharedStore {
        self.stage.around.server.store()
    }
}

/// Everything of a running scenario.
#[derive(Debug)]
pub struct Stage {
    end: Timestamp,
    calm_from: Timestamp,
    calm: bool,
    around: Surroundings,
    timeline: Timeline,
    pending_notes: Vec<Happening>,
    lives: Vec<Option<Life>>,
    lives_count: u64,
    births: VecDeque<(Timestamp, usize)>,
    random: fastrand::Rng,
    effects_per_life_max: u64,
    ended: mpsc::UnboundedReceiver<Ended>,
    end_of_life: mpsc::UnboundedSender<Ended>,
    current: Vec<u64>,
    deaths_count: u64,
    offsets: Vec<SignedDuration>,
    paused: Vec<bool>,
}

impl Stage {
    fn set(scenario: &Scenario, options: &Options) -> Stage {
        let store = SharedStore::new(options.seed, scenario.start);
        if options.keep_trace {
            store.with(|store| store.trace.keep_lines());
        }
        // The server's host is made first: making a host seeds the thread's generator.
        let server_host = Host::simulated(scenario.start, options.seed);
        let server =
            ApiServer::new(store.clone(), server_host.clone(), Faults::seeded(options.seed, options.faults));
        if let Some(audit) = options.environment.as_ref().and_then(|environment| environment.audit()) {
            server.audit_by(audit);
        }
        let mut timings = scenario.timings;
        if options.port == PortKind::Typed && options.environment.is_none() {
            // Nobody watches, and the one reader of the log reads after each step: what it no longer needs stays warm in
            // the processor's caches for what is written next.
            timings.history = timings.history.min(TYPED_HISTORY);
        }
        let cluster = SimCluster::new(store, timings);
        cluster.store().with(|store| {
            for (kind, object) in &*options.initial_state {
                store.restore(*kind, object.clone(), SNAPSHOT);
            }
        });
        let timeline = Timeline::of(scenario);
        let pending_notes = timeline.begin(scenario, &cluster);
        let (end_of_life, ended) = mpsc::unbounded_channel();
        let after = |length| scenario.start.saturating_add(length).unwrap_or(Timestamp::MAX);
        Stage {
            end: after(scenario.duration),
            calm_from: after(options.calm_after),
            calm: false,
            around: Surroundings {
                server,
                cluster: SharedCluster::new(cluster),
                server_host,
                port: options.port,
                tick: scenario.tick.unsigned_abs(),
                scales_workloads: scenario.scales_workloads(),
                shards: options.shards.clone(),
                seed: options.seed,
                plan_interval_min: options.plan_interval_min,
                environment: options.environment.clone(),
            },
            timeline,
            pending_notes,
            lives: (0..options.replicas_count).map(|_| None).collect(),
            lives_count: 0,
            births: (0..options.replicas_count).map(|replica| (scenario.start, replica)).collect(),
            random: fastrand::Rng::with_seed(options.seed ^ 0x0b5e_55ed),
            effects_per_life_max: options.effects_per_life_max,
            ended,
            end_of_life,
            current: vec![0; options.replicas_count],
            deaths_count: 0,
            offsets: vec![SignedDuration::ZERO; options.replicas_count],
            paused: vec![false; options.replicas_count],
        }
    }

    async fn play(&mut self, spectate: &mut dyn FnMut(&Scene<'_>)) {
        self.play_until(self.end, spectate).await;
        // The operators end first, so that nothing more happens.
        self.lives.clear();
        self.show(self.around.server_host.wall(), spectate);
    }

    /// Plays on to `end`; the step of that very moment is still to come.
    async fn play_until(&mut self, end: Timestamp, spectate: &mut dyn FnMut(&Scene<'_>)) {
        let mut changes = self.around.server.store().subscribe();
        loop {
            let now = self.around.server_host.wall();
            if end <= now || self.is_over() {
                return;
            }
            self.change_faults(now);
            if let Some(environment) = self.around.environment.clone() {
                environment.strike(self, now);
            }
            self.show(now, spectate);
            self.give_birth(now);
            // What the step itself wrote needs no second one.
            changes.mark_unchanged();
            let next = self.next_at(now, end);
            tokio::select! {
                biased;
                Some(ended) = self.ended.recv() => self.bury(ended),
                () = changes.changed() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    fn is_over(&self) -> bool {
        self.around.environment.as_ref().is_some_and(|environment| environment.is_over())
    }

    /// One step of events and cluster, shown to the spectator.
    fn show(&mut self, now: Timestamp, spectate: &mut dyn FnMut(&Scene<'_>)) {
        let shared = self.around.cluster.clone();
        let mut cluster = shared.lock();
        cluster.store().with(|store| store.advance_to(now));
        let mut happened = std::mem::take(&mut self.pending_notes);
        happened.extend(self.timeline.run_due(&mut cluster, now));
        if let Some(environment) = &self.around.environment {
            environment.before_step(&cluster, now);
        }
        cluster.step(now);
        if let Some(environment) = &self.around.environment {
            environment.after_step(&cluster, now);
        }
        spectate(&Scene { now, cluster: &cluster, happened: &happened, lives: &self.lives });
        drop(cluster);
        if happened.contains(&Happening::RestartOperator) {
            for replica in 0..self.lives.len() {
                self.kill(replica);
            }
        }
    }

    fn change_faults(&mut self, now: Timestamp) {
        if !self.calm && self.calm_from <= now {
            self.calm = true;
            self.around.server.with_faults(|faults| faults.rates = FaultRates::default());
            self.calm_down(now);
        }
    }

    /// Network, clocks and clouds are as they should be from here on.
    fn calm_down(&mut self, now: Timestamp) {
        self.around.server.network().mend();
        if let Some(environment) = &self.around.environment {
            environment.calm_down(now);
        }
        self.around.cluster.lock().stop_scheduler(false);
        for replica in 0..self.lives.len() {
            self.offsets[replica] = SignedDuration::ZERO;
            self.paused[replica] = false;
            self.apply_state(replica);
        }
    }

    fn apply_state(&self, replica: usize) {
        if let Some(life) = &self.lives[replica] {
            life.host().set_clock_off(self.offsets[replica]);
            life.host().pause(self.paused[replica]);
        }
    }

    /// Server, cluster and clock of the run.
    #[must_use]
    pub fn surroundings(&self) -> &Surroundings {
        &self.around
    }

    /// Stops a replica as by SIGSTOP, or lets it go on.
    pub fn pause(&mut self, replica: usize, paused: bool) {
        self.paused[replica] = paused;
        self.apply_state(replica);
    }

    /// Sets a replica's wall clock off by `offset` from now on.
    pub fn set_clock_off(&mut self, replica: usize, offset: SignedDuration) {
        self.offsets[replica] = offset;
        self.apply_state(replica);
    }

    fn give_birth(&mut self, now: Timestamp) {
        while self.births.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, replica)) = self.births.pop_front()
        {
            self.lives_count += 1;
            self.current[replica] = self.lives_count;
            let drawn = self.random.u64(1..=self.effects_per_life_max.max(1));
            let dies_at = (0 < self.effects_per_life_max).then_some(drawn);
            let who = (replica, self.lives_count);
            let ended = self.end_of_life.clone();
            self.lives[replica] = Some(Life::begin(&self.around, who, dies_at, self.calm_from, ended));
            // A new process runs; its clock is the machine's, which is still off.
            self.paused[replica] = false;
            self.apply_state(replica);
        }
    }

    /// A life ended by itself; the word of one that was killed meanwhile does not count.
    fn bury(&mut self, (replica, number): Ended) {
        if self.current[replica] == number {
            self.kill(replica);
        }
    }

    /// Ends a replica's process as by SIGKILL; another begins 5 s later.
    pub fn kill(&mut self, replica: usize) {
        if self.lives[replica].take().is_none() {
            return;
        }
        self.deaths_count += 1;
        let at = self.around.server_host.wall().saturating_add(RESTART_AFTER).unwrap_or(Timestamp::MAX);
        self.births.push_back((at, replica));
    }

    /// Returns when the next event is due without anybody's change; never the past, and at most `end`.
    fn next_at(&self, now: Timestamp, end: Timestamp) -> Instant {
        let calm = (!self.calm).then_some(self.calm_from);
        let cluster = self.around.cluster.lock().next_event_at(now);
        let births = self.births.front().map(|(at, _)| *at);
        let beside = self.around.environment.as_ref().and_then(|environment| environment.next_at());
        let due = [cluster, self.timeline.next_at(), births, calm, beside].into_iter().flatten().min();
        let at = due.unwrap_or(end).min(end);
        let wait = Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
        self.around.server_host.monotonic() + wait
    }

    fn faults(&self) -> BTreeMap<&'static str, u64> {
        let mut all = self.around.server.with_faults(|faults| faults.struck().clone());
        if let Some(environment) = &self.around.environment {
            all.extend(environment.faults());
        }
        if 0 < self.deaths_count {
            all.insert("process ended", self.deaths_count);
        }
        all
    }

    fn outcome(&self) -> Outcome {
        let (hash, trace_count, trace) = self.around.server.store().with(|store| {
            let trace = &store.trace;
            (trace.hash(), trace.count(), trace.lines().to_vec())
        });
        Outcome {
            summary: self.around.cluster.lock().statistics.summary(),
            hash,
            trace,
            trace_count,
            faults_count: self.around.server.with_faults(|faults| faults.struck_count()),
            faults: self.faults(),
            deaths_count: self.deaths_count,
            ended_at: self.around.server_host.wall(),
        }
    }
}
