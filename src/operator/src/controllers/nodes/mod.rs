//! The node loop: read, decide, journal, act, report. One loop for all pools, since they compete for the same pods.

mod acting;
mod buffers;
mod candidates;
mod capacity_quotas;
mod consulting;
mod live;
mod reporting;
mod requests;
mod silence;
mod taking_in;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use headroom_core::history::History;
use headroom_core::nodes::removal::surges_wanted;
use headroom_core::nodes::scale_up::demand::wanted_count;
use headroom_core::nodes::state::blocked_since::BlockedSince;
use headroom_core::plan::{Outcome, Plan};
use headroom_core::snapshot::Snapshot;
use headroom_core::time::UnixTime;
use headroom_core::world::World;
use headroom_core::world::view::{Freshness, View};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use self::silence::Silence;
use super::config::Settings;
use super::health::Health;
use super::leader::Leadership;
use super::log_throttle::LogThrottle;
use super::memory::{InFlight, StepKey, StoredCluster, StoredPools};
use super::page::Board;
use super::rest::Rest;
use super::view;
use crate::actuate::guard::Guard;
use crate::actuate::steps::Executor;
use crate::options::{GATHERING, GATHERING_MAX, PLAN_INTERVAL_MAX};
use headroom_api::NodePoolStatus;
use headroom_observe::host::Host;
use headroom_observe::{Feed, Policies};
use headroom_provider::CloudProvider;
use headroom_provider::expander::AskExpander;
use headroom_report::otlp::TraceSink;
use headroom_report::traces::{Call, Traces};
use headroom_report::{EventRecorder, Metrics, StatusSink};

/// Everything outside that the loop touches.
#[derive(Clone)]
pub struct Ports {
    /// Time and tasks.
    pub host: Arc<Host>,
    /// The claim.
    pub guard: Guard,
    /// Source of observations: the watches.
    pub feed: Arc<dyn Feed>,
    /// Destination of status and events.
    pub sink: Arc<dyn StatusSink>,
    /// The clouds.
    pub provider: Arc<dyn CloudProvider>,
    /// Asks the server of expander `Grpc`, if that is possible here.
    pub expander: Option<Arc<dyn AskExpander>>,
    /// Executor of steps.
    pub executor: Executor,
    /// State of the leader election.
    pub leadership: watch::Receiver<Leadership>,
    /// Becomes true when the process is to stop.
    pub stop: watch::Receiver<bool>,
    /// State that the loop reports of itself.
    pub health: Arc<Health>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Data of the live page, if there is one.
    pub page: Option<Arc<Board>>,
    /// Destination of traces of decisions; `None` if they are not exported.
    pub traces: Option<TraceSink>,
    /// Dry run: report decisions, change nothing.
    pub preview: bool,
    /// Shortest pause between two plans.
    pub plan_interval_min: Duration,
}

/// Reason why the loop ended.
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
/// After a plan as much time passes as it took, so that plans take half a processor at most; but no more than this.
const REST_AFTER_PLAN_MAX: Duration = Duration::from_secs(1);
/// A wall clock that is off by so many seconds since the last turn was set; time servers slew by less.
const CLOCK_JUMP_MIN: i64 = 5;
/// Time that a graceful stop waits for steps under way.
const WIND_DOWN_MAX: Duration = Duration::from_secs(10);

/// Result of a report.
struct Reported {
    /// Time at which one that had to wait is due.
    due: Option<Instant>,
    /// True if every status is now as it should be.
    all: bool,
}

/// A step that has ended.
struct Finished {
    key: StepKey,
    outcomes: Vec<Outcome>,
    /// The call as a trace shows it, if it is for a decision.
    call: Option<Call>,
}

/// The loop and what it holds between two turns.
pub struct NodeLoop {
    ports: Ports,
    world: World,
    /// Freshness of the world at the last plan.
    freshness: Freshness,
    /// Duration of the last plan.
    plan_took: Duration,
    policies: Policies,
    settings: Settings,
    stored: StoredPools,
    /// Pools that were not there when they were read, though no watch has shown their end; when each is looked for again.
    missing: BTreeMap<Arc<str>, Instant>,
    cluster: Option<StoredCluster>,
    buffer_writes: buffers::BufferWrites,
    quota_writes: capacity_quotas::QuotaWrites,
    request_writes: requests::RequestWrites,
    recorder: EventRecorder,
    history: History,
    traces: Traces,
    /// Time since which each node has been kept by its reason, in this term.
    blocked_since: BlockedSince,
    /// The term in which `history` was read back; `None` while not leading.
    term: Option<u64>,
    /// The reason why it was not read back, as logged.
    unread: LogThrottle,
    /// Pools whose provider does not answer, as logged.
    silence: Silence,
    in_flight: InFlight,
    consulting: consulting::Consulting,
    finished: mpsc::UnboundedReceiver<Finished>,
    finish: mpsc::UnboundedSender<Finished>,
    outcomes: Vec<Outcome>,
    /// True if nodes or pools have changed since the providers were last asked.
    providers_due: bool,
    /// Time at which the providers are asked again although nothing has changed.
    providers_due_at: Option<Instant>,
    /// The wall clock and the clock that never jumps, as both stood at the last turn.
    clocks: Option<(UnixTime, Instant)>,
    /// Soft taints are not written before this.
    candidates_due_at: Option<Instant>,
    /// Inputs of the last plan, if it left nothing to do.
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
            freshness: Freshness::default(),
            plan_took: Duration::ZERO,
            policies: Policies::default(),
            settings,
            stored: StoredPools::new(),
            missing: BTreeMap::new(),
            cluster: None,
            buffer_writes: buffers::BufferWrites::default(),
            quota_writes: capacity_quotas::QuotaWrites::default(),
            request_writes: requests::RequestWrites::default(),
            recorder: EventRecorder::default(),
            history: History::default(),
            traces: Traces::default(),
            blocked_since: BlockedSince::default(),
            term: None,
            unread: LogThrottle::default(),
            silence: Silence::default(),
            in_flight: InFlight::default(),
            consulting: consulting::Consulting::new(),
            finished,
            finish,
            outcomes: Vec::new(),
            providers_due: true,
            providers_due_at: None,
            clocks: None,
            candidates_due_at: None,
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
            self.ports.health.scale_ins.send_away();
            self.ports.health.surges.wanted.set(None);
            self.show(false, None, &[]);
            return PLAN_INTERVAL_MAX;
        }
        let now = self.ports.host.now();
        self.follow_clock(now);
        self.ports.health.scale_ins.answer(&mut self.world, now);
        self.world.set_surge_workloads(self.ports.health.surges.workloads.get());
        self.look_for_missing().await;
        self.ask_providers(now).await;
        let news = !self.outcomes.is_empty();
        self.absorb(now);
        if !news && let Some(rest) = self.rest.filter(|rest| self.still_holds(rest, now)) {
            self.ports.health.inspection.answer(|| Some(self.snapshot(now)));
            self.measure_watches(now);
            return self.pause(rest.wake_at, None, now);
        }
        let began_at = self.ports.host.wall();
        let mut plan = self.plan(now);
        let planned_at = self.ports.host.wall();
        self.ports.health.inspection.answer(|| Some(self.snapshot(now)));
        let mut statuses = self.statuses(&plan, now);
        let journalled = self.journal(&plan, &statuses).await;
        if self.forget_unjournalled(&mut plan, &journalled) {
            statuses = self.statuses(&plan, now);
        }
        self.begin_steps(&plan, &journalled, now);
        self.consult(&plan);
        let at_rest = plan.steps.is_empty() && self.in_flight.is_empty() && self.history == plan.next_history;
        self.history = plan.next_history.clone();
        self.ports.health.surges.wanted.set(Some(surges_wanted(&self.history)));
        self.trace((began_at, planned_at));
        self.ports.metrics.pools(&statuses);
        self.show(true, Some(&statuses), &plan.reasons.pods);
        self.measure_watches(now);
        let reported = self.report(statuses).await;
        let said = self.report_cluster(&plan, now).await;
        let buffers_due = self.report_buffers(&plan, now).await;
        let requests_due = self.report_requests(&plan, now).await;
        let quotas_due = self.report_capacity_quotas(&plan, now).await;
        let taints_due = self.taint_candidates(&plan).await;
        let dues = [buffers_due, requests_due, quotas_due, taints_due];
        let status_due: Option<Instant> = dues.into_iter().flatten().min();
        self.send_events(&plan);
        self.rest = (at_rest && reported.all && said && status_due.is_none()).then(|| Rest {
            revision: self.world.revision(),
            planned_at: self.ports.host.monotonic(),
            wake_at: plan.wake_at,
            stale: self.freshness.stale,
        });
        self.pause(plan.wake_at, reported.due.into_iter().chain(status_due).min(), now)
    }

    /// True if a plan would be the one that this rest began with.
    fn still_holds(&self, rest: &Rest, now: UnixTime) -> bool {
        rest.lasts(self.world.revision(), self.is_view_stale(now), now, self.ports.host.monotonic())
    }

    /// Returns the inputs of a plan made now, and those of the last decisions on replicas.
    fn snapshot(&self, now: UnixTime) -> Snapshot {
        let snapshot = Snapshot::of(self.view(), &self.history, &self.settings.config, now);
        snapshot
            .watched(&self.blocked_since, &self.world)
            .with_replicas(self.ports.health.evaluations.record())
    }

    /// Waits for a wake-up, an outcome, a change of leadership, the stop, or the end of the pause.
    ///
    /// A wake-up is answered a moment later: what one `kubectl apply` brings arrives one object after the other, and nodes
    /// bought for all of it together are fewer than those bought for each. Nor are plans that take long made without a pause:
    /// in a large cluster there is always a change.
    async fn rest(&mut self, pause: Duration) {
        let least = self.ports.plan_interval_min.max(self.plan_took.min(REST_AFTER_PLAN_MAX));
        self.ports.host.sleep(least).await;
        let (feed, health) = (self.ports.feed.clone(), self.ports.health.clone());
        let woken = tokio::select! {
            biased;
            _ = self.ports.stop.changed() => false,
            _ = self.ports.leadership.changed() => false,
            Some(finished) = self.finished.recv() => { self.note(finished); false }
            Some(reply) = self.consulting.replies.recv() => { self.note_reply(reply); false }
            () = feed.notified() => true,
            () = health.inspection.asked() => false,
            () = health.surges.workloads.changed() => false,
            () = health.scale_ins.asked() => {
                // Workloads that one `kubectl apply` shrinks ask one after the other, and are answered together.
                self.ports.host.sleep(GATHERING).await;
                false
            }
            () = self.ports.host.sleep(pause.saturating_sub(least)) => false,
        };
        if woken {
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

    fn plan(&mut self, now: UnixTime) -> Plan {
        self.forget_answers(now);
        self.meet_pools();
        self.meet_buffers();
        self.meet_requests();
        self.freshness = self.freshness_at(now);
        let started = self.ports.host.monotonic();
        let plan = headroom_core::plan(self.view(), &self.history, &self.settings.config, now);
        let took = self.ports.host.monotonic() - started;
        self.plan_took = took;
        if !self.freshness.stale {
            self.blocked_since.note(&plan.reasons.nodes, &self.world, now);
        }
        self.ports.metrics.planned(took, &plan, &self.world, now);
        plan
    }

    fn view(&self) -> View<'_> {
        View::new(&self.world, &self.freshness)
    }

    fn statuses(&self, plan: &Plan, now: UnixTime) -> Statuses {
        view::statuses(self.view(), &plan.next_history, &plan.reasons, &self.settings, &self.stored, now)
    }

    /// Time that nothing need be looked at, unless a change wakes the loop.
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
