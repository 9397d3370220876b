//! Runs a scenario from its first to its last second: cluster, events and operator in virtual time on one thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::account::{AccountFaults, SharedAccount};
use super::cluster::SimCluster;
use super::disturbance::{self, Backups, Disturbance, Stored};
use super::judge::SharedJudge;
use super::ledger::Summary;
use super::replica::{Ended, Life, PortKind, Surroundings};
use super::scenario::{Happening, Scenario, Timeline};
use super::sky::SharedCluster;
use super::store::{Author, Kind, SharedStore};
use super::trace::{Line, StableHash};
use super::wire::{ApiServer, FaultRates, Faults};
use headroom_observe::host::Host;

/// From the end of a replica's process to the start of the next one, as a kubelet would take.
const RESTART_AFTER: SignedDuration = SignedDuration::from_secs(5);

/// How much of the change log is kept where nobody watches: pages of a list are read within an instant.
const TYPED_HISTORY: SignedDuration = SignedDuration::from_secs(10);

/// Who has put in what stood at the beginning.
const SNAPSHOT: Author<'static> = Author::actor("snapshot");

/// How a scenario is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the operator observes.
    pub port: PortKind,
    /// Shapes names, uids and faults.
    pub seed: u64,
    /// Replicas of the operator; at least 1.
    pub replicas_count: usize,
    /// What goes wrong with requests.
    pub faults: FaultRates,
    /// Each life of a replica ends after a drawn number of effect points, at most this many; 0 for never.
    pub effects_per_life_max: u64,
    /// Whether every line of the trace is kept.
    pub keep_trace: bool,
    /// From this time after the start on nothing goes wrong any more.
    pub calm_after: SignedDuration,
    /// What strikes when, counted from the start; in order.
    pub disturbances: Vec<(SignedDuration, Disturbance)>,
    /// The account behind pools of provider AWS.
    pub account: Option<SharedAccount>,
    /// Who holds every write against the invariants.
    pub judge: Option<SharedJudge>,
    /// Objects that stand when the run begins, as they are, owners before what they own.
    pub standing: Arc<Vec<(Kind, Value)>>,
}

impl Options {
    /// One replica on the typed port, and nothing goes wrong but what the scenario says.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Options {
        Options {
            port: PortKind::default(),
            seed: scenario.seed,
            replicas_count: 1,
            faults: FaultRates::default(),
            effects_per_life_max: 0,
            keep_trace: false,
            calm_after: SignedDuration::ZERO,
            disturbances: Vec::new(),
            account: None,
            judge: None,
            standing: Arc::default(),
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

/// What the spectator of a run is shown after each step.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The time.
    pub now: Timestamp,
    /// The cluster after the step.
    pub cluster: &'a SimCluster,
    /// What the scenario did in it.
    pub happened: &'a [Happening],
    /// The operator's replicas, those that live.
    pub lives: &'a [Option<Life>],
}

/// What a run comes to.
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
    /// What went wrong and how often, by its name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Lives of replicas that ended before the run did.
    pub deaths_count: u64,
    /// When the run ended: at the scenario's end, or when the judge had seen enough.
    pub ended_at: Timestamp,
}

/// Runs the scenario; `spectate` is shown every step.
///
/// # Errors
/// When the runtime cannot be built.
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

/// Everything of a running scenario.
struct Stage {
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
    disturbances: VecDeque<(Timestamp, Disturbance)>,
    struck: BTreeMap<&'static str, u64>,
    backups: Backups,
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
        if let Some(judge) = &options.judge {
            server.audit_by(Box::new(judge.clone()));
        }
        let mut timings = scenario.timings;
        if options.port == PortKind::Typed && options.disturbances.is_empty() {
            // Nobody watches, and the one reader of the log reads after each step: what it no longer needs stays warm in
            // the processor's caches for what is written next.
            timings.history = timings.history.min(TYPED_HISTORY);
        }
        let cluster = SimCluster::new(store, timings);
        cluster.store().with(|store| {
            for (kind, object) in &*options.standing {
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
                seed: options.seed,
                account: options.account.clone(),
                judge: options.judge.clone(),
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
            disturbances: options.disturbances.iter().map(|(at, one)| (after(*at), one.clone())).collect(),
            struck: BTreeMap::new(),
            backups: Backups::new(),
            offsets: vec![SignedDuration::ZERO; options.replicas_count],
            paused: vec![false; options.replicas_count],
        }
    }

    async fn play(&mut self, spectate: &mut dyn FnMut(&Scene<'_>)) {
        let mut bell = self.around.server.store().subscribe();
        loop {
            let now = self.around.server_host.wall();
            if self.end <= now || self.is_over() {
                // The operators end first, so that nothing more happens.
                self.lives.clear();
                self.show(now, spectate);
                return;
            }
            self.change_faults(now);
            self.disturb(now);
            self.show(now, spectate);
            self.give_birth(now);
            // What the step itself wrote needs no second one.
            bell.mark_unchanged();
            let next = self.next_at(now);
            tokio::select! {
                biased;
                Some(ended) = self.ended.recv() => self.bury(ended),
                () = bell.changed() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Whether the judge has seen enough.
    fn is_over(&self) -> bool {
        self.around.judge.as_ref().is_some_and(|judge| judge.lock().over)
    }

    /// One step of events and cluster, shown to the spectator.
    fn show(&mut self, now: Timestamp, spectate: &mut dyn FnMut(&Scene<'_>)) {
        let shared = self.around.cluster.clone();
        let mut cluster = shared.lock();
        cluster.store().with(|store| store.advance_to(now));
        let mut happened = std::mem::take(&mut self.pending_notes);
        happened.extend(self.timeline.run_due(&mut cluster, now));
        if let Some(account) = &self.around.account {
            let store = cluster.store().clone();
            store.with(|store| account.lock().step(store, &cluster.weather, now));
        }
        cluster.step(now);
        if let Some(judge) = &self.around.judge {
            let late = self.around.account.as_ref().map(|account| std::mem::take(&mut account.lock().late));
            let slain = self.around.account.as_ref().map(|account| std::mem::take(&mut account.lock().slain));
            for id in slain.into_iter().flatten() {
                let words = format!("the cloud chose instance {id}: its group's size was below what ran");
                judge.lock().blame(now, "I4", words);
            }
            cluster.store().with(|store| {
                let mut judge = judge.lock();
                for (pool, group) in late.into_iter().flatten() {
                    judge.came_late(store, &pool, &group);
                }
                judge.step(store, now);
            });
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
        self.disturbances.clear();
        self.around.server.network().mend();
        if let Some(account) = &self.around.account {
            account.lock().faults = AccountFaults::default();
        }
        if let Some(judge) = &self.around.judge {
            let mut judge = judge.lock();
            judge.watches_silent(false, now);
            judge.hears_all(now);
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

    /// Strikes what is due.
    fn disturb(&mut self, now: Timestamp) {
        while let Some((_, one)) = self.disturbances.pop_front_if(|(at, _)| *at <= now) {
            if let Some(name) = one.name() {
                *self.struck.entry(name).or_default() += 1;
            }
            self.strike(&one, now);
        }
    }

    fn strike(&mut self, one: &Disturbance, now: Timestamp) {
        if let (Some(deaf), Some(judge)) = (one.deafens(), &self.around.judge) {
            judge.lock().hears_nothing(deaf, now);
        }
        match one {
            Disturbance::Pause(replica, paused) => {
                self.paused[*replica] = *paused;
                self.apply_state(*replica);
                if let Some(judge) = &self.around.judge {
                    judge.lock().stopped(*paused, now);
                }
            }
            Disturbance::Cut(replica, cut) => self.around.server.network().cut(*replica, *cut),
            Disturbance::Clock(replica, offset) => {
                self.offsets[*replica] = *offset;
                self.apply_state(*replica);
            }
            Disturbance::Kill(replica) => self.kill(*replica),
            Disturbance::SilentWatches(silent) => {
                self.around.server.network().silence_watches(*silent);
                if let Some(judge) = &self.around.judge {
                    judge.lock().watches_silent(*silent, now);
                }
            }
            Disturbance::Scheduler(stopped) => self.around.cluster.lock().stop_scheduler(*stopped),
            Disturbance::Reclaim => {
                let reclaimed =
                    self.around.account.as_ref().is_some_and(|account| account.lock().reclaim(now));
                if let (true, Some(judge)) = (reclaimed, &self.around.judge) {
                    judge.lock().lost_count += 1;
                }
            }
            Disturbance::EraseStatus(_)
            | Disturbance::BackUpStatus(_)
            | Disturbance::RestoreStatus(_)
            | Disturbance::TamperStatus(_)
            | Disturbance::ForgeRemoval(..) => {
                if let (Some(Stored::PoliciesOf(namespace)), Some(judge)) =
                    (one.lays_hands_on(), &self.around.judge)
                {
                    judge.lock().sizes_forgotten(&namespace, now);
                }
                let backups = &mut self.backups;
                self.around.server.store().with(|store| {
                    store.advance_to(now);
                    disturbance::strike_status(store, backups, one);
                });
            }
        }
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

    fn kill(&mut self, replica: usize) {
        if self.lives[replica].take().is_none() {
            return;
        }
        self.deaths_count += 1;
        let at = self.around.server_host.wall().saturating_add(RESTART_AFTER).unwrap_or(Timestamp::MAX);
        self.births.push_back((at, replica));
    }

    /// When something is due without anybody's change; never the past, and at most the end.
    fn next_at(&self, now: Timestamp) -> Instant {
        let calm = (!self.calm).then_some(self.calm_from);
        let cluster = self.around.cluster.lock().next_event_at(now);
        let births = self.births.front().map(|(at, _)| *at);
        let strikes = self.disturbances.front().map(|(at, _)| *at);
        let account = self.around.account.as_ref().and_then(|account| account.lock().next_at());
        let due =
            [cluster, self.timeline.next_at(), births, calm, strikes, account].into_iter().flatten().min();
        let at = due.unwrap_or(self.end).min(self.end);
        let wait = Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
        self.around.server_host.monotonic() + wait
    }

    fn faults(&self) -> BTreeMap<&'static str, u64> {
        let mut all = self.around.server.with_faults(|faults| faults.struck().clone());
        all.extend(self.struck.iter());
        if let Some(account) = &self.around.account {
            all.extend(account.lock().struck.iter());
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
            summary: self.around.cluster.lock().ledger.summary(),
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
