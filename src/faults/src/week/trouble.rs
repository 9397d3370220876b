//! What goes wrong in the long run, and when: machines, capacity, the API server, the operator's own processes.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use headroom_core::world::provider::FailureClass;
use jiff::SignedDuration;

use super::Span;
use super::cluster::{ZONES, general_pools};
use crate::account::AccountFaults;
use crate::disturbance::Disturbance;
use headroom_simulator::scenario::{Action, Event, Share, SpotInterruption};
use headroom_simulator::wire::FaultRates;

/// Everything that goes wrong.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    pub(super) events: Vec<Event>,
    pub(super) disturbances: Vec<(SignedDuration, Disturbance)>,
}

/// Rates of single requests that go wrong all the time, in 10,000.
pub(super) fn rates() -> FaultRates {
    let delay_max = Duration::from_secs(3);
    FaultRates { refuse: 10, drop_before: 5, drop_after: 5, delay: 20, delay_max, ..FaultRates::default() }
}

/// Rates while the API server is slow.
fn slow_rates() -> FaultRates {
    FaultRates { refuse: 300, delay: 3000, ..rates() }
}

/// Rates of what the account does wrong, in 10,000.
pub(super) fn account() -> AccountFaults {
    AccountFaults {
        throttle_reads: 100,
        throttle_writes: 100,
        lose_request: 50,
        lose_reply: 50,
        contend: 100,
        stale_read: 100,
        never_join: 200,
        join_late: 300,
        wrong_node: 50,
    }
}

impl Trouble {
    /// What goes wrong within `span` in a cluster of at most `nodes` nodes with so many replicas of the operator.
    pub(super) fn of(seed: u64, span: &Span, nodes: i64, replicas: usize) -> Trouble {
        let mut plan = Plan {
            random: Rng::with_seed(seed ^ 0x0000_3eec_0000_0005),
            span: *span,
            trouble: Trouble::default(),
        };
        plan.machines(nodes);
        plan.capacity();
        plan.api_server(replicas);
        plan.processes(replicas);
        let Plan { mut trouble, .. } = plan;
        trouble.disturbances.sort_by_key(|(at, _)| *at);
        trouble
    }
}

/// Number of faults that events of the scenario are, by name; machines that break are counted one by one.
pub(super) fn count(events: &[Event]) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for event in events {
        let (name, count) = match &event.action {
            Action::BreakNodes(count, _) => ("machine broken", u64::try_from(*count).unwrap_or(0)),
            Action::LoseJoins(..) => ("period in which nodes never become ready", 1),
            Action::SpotInterruption(_) => ("spot interruption", 1),
            Action::LaunchFailure { .. } => ("capacity refused", 1),
            Action::SlowCloud(..) => ("cloud slow", 1),
            Action::ZoneOutage(..) => ("zone out", 1),
            _ => continue,
        };
        *counts.entry(name).or_default() += count;
    }
    counts
}

struct Plan {
    random: Rng,
    span: Span,
    trouble: Trouble,
}

impl Plan {
    /// A time in each stretch of so many hours; of a short run in each half.
    fn every(&mut self, hours: i64) -> Vec<SignedDuration> {
        let busy = self.span.busy_minutes() * 60;
        let period = (hours * 3600).min(busy / 2).max(60);
        let starts = (0..busy / period).map(|number| number * period);
        starts.map(|start| SignedDuration::from_secs(start + self.random.i64(0..period))).collect()
    }

    /// So many minutes, and in short runs not more than a twelfth of it.
    fn minutes(&self, minutes: i64) -> SignedDuration {
        SignedDuration::from_mins(minutes.min(self.span.busy_minutes() / 12).max(1))
    }

    fn event(&mut self, after: SignedDuration, action: Action) {
        self.trouble.events.push(Event { after, action });
    }

    fn during(&mut self, at: SignedDuration, lasts: SignedDuration, one: impl Fn(bool) -> Disturbance) {
        self.trouble.disturbances.push((at, one(true)));
        self.trouble.disturbances.push((at + lasts, one(false)));
    }

    fn machines(&mut self, nodes: i64) {
        let few = usize::try_from(nodes / 1500 + 1).unwrap_or(1);
        for at in self.every(2) {
            let lasts = self.minutes(360);
            self.event(at, Action::BreakNodes(few, lasts));
        }
        for at in self.every(12) {
            let lasts = self.minutes(60);
            self.event(at, Action::LoseJoins(3, lasts));
            let (pool, share) = ("spot".to_owned(), Share::Percent(20));
            let notice = SignedDuration::from_mins(2);
            let interruption = SpotInterruption { pool, zone: None, share, notice };
            self.event(at, Action::SpotInterruption(interruption));
        }
        for at in self.every(4) {
            self.trouble.disturbances.push((at, Disturbance::Reclaim));
        }
    }

    fn zone(&mut self) -> String {
        ZONES[self.random.usize(0..ZONES.len())].to_owned()
    }

    fn capacity(&mut self) {
        let pools: Vec<String> = general_pools().collect();
        for at in self.every(24) {
            let pool = Some(pools[self.random.usize(0..pools.len())].clone());
            self.refuse(at, pool, 180);
            let lasts = self.minutes(60);
            let at = at + self.minutes(240);
            self.event(at, Action::SlowCloud(3, SignedDuration::from_mins(2), lasts));
        }
        for at in self.every(48) {
            self.refuse(at, None, 60);
        }
        for at in self.every(72) {
            // Shorter than pods tolerate, so that a third of the cluster falls silent and stays.
            let zone = self.zone();
            self.event(at, Action::ZoneOutage(zone, SignedDuration::from_mins(4)));
        }
    }

    fn refuse(&mut self, at: SignedDuration, pool: Option<String>, minutes: i64) {
        let (zone, lasts) = (Some(self.zone()), self.minutes(minutes));
        self.event(at, Action::LaunchFailure { pool, zone, class: FailureClass::OutOfCapacity, lasts });
    }

    fn api_server(&mut self, replicas: usize) {
        for at in self.every(24) {
            let lasts = SignedDuration::from_mins(self.random.i64(2..10));
            for replica in 0..replicas {
                self.during(at, lasts, |on| Disturbance::Cut(replica, on));
            }
        }
        for at in self.every(24) {
            let lasts = SignedDuration::from_mins(self.random.i64(2..8));
            self.during(at, lasts, Disturbance::SilentWatches);
        }
        for at in self.every(12) {
            let lasts = SignedDuration::from_mins(self.random.i64(10..30));
            let at_rates = |on: bool| if on { slow_rates() } else { rates() };
            self.during(at, lasts, |on| Disturbance::Requests(at_rates(on), on));
        }
        for at in self.every(48) {
            let lasts = SignedDuration::from_secs(self.random.i64(60..180));
            self.during(at, lasts, Disturbance::Scheduler);
        }
    }

    fn processes(&mut self, replicas: usize) {
        for at in self.every(6) {
            let replica = self.random.usize(0..replicas);
            self.trouble.disturbances.push((at, Disturbance::Kill(replica)));
        }
        for at in self.every(12) {
            let (replica, seconds) = (self.random.usize(0..replicas), self.random.i64(20..90));
            self.during(at, SignedDuration::from_secs(seconds), |on| Disturbance::Pause(replica, on));
        }
        for at in self.every(12) {
            let (replica, seconds) = (self.random.usize(0..replicas), self.random.i64(60..180));
            self.during(at, SignedDuration::from_secs(seconds), |on| Disturbance::Cut(replica, on));
        }
        for at in self.every(24) {
            let (replica, off) = (self.random.usize(0..replicas), self.random.i64(-1800..1800));
            let offset = |on: bool| SignedDuration::from_secs(if on { off } else { 0 });
            self.during(at, SignedDuration::from_mins(10), |on| Disturbance::Clock(replica, offset(on)));
        }
    }
}
