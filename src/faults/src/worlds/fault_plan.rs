//! Faults of a seed: the kinds that strike, their rates and their times. Swarm testing: most kinds are off in most
//! seeds.

use std::time::Duration;

use headroom_core::world::provider::FailureClass;
use jiff::SignedDuration;

use super::World;
use crate::account::AccountFaults;
use crate::disturbance::{Disturbance, Stored};
use headroom_simulator::scenario::{Action, Event};
use headroom_simulator::wire::FaultRates;

/// Faults of a run.
#[derive(Debug, Clone)]
pub struct FaultPlan {
    /// Faults of requests to the API server.
    pub requests: FaultRates,
    /// Faults of the account.
    pub account: AccountFaults,
    /// Each life of a replica ends after a drawn number of effects, at most this many; 0 for never.
    pub effects_per_life_max: u64,
    /// Replicas.
    pub replicas_count: usize,
    /// Disturbances at set times.
    pub disturbances: Vec<(SignedDuration, Disturbance)>,
    /// Events of the cloud at set times.
    pub events: Vec<Event>,
    /// True if machines go, or do not come, or are not what was promised: then purchases cannot be counted.
    pub machines_fail: bool,
}

impl FaultPlan {
    /// No trouble: one replica and nothing wrong.
    #[must_use]
    pub fn none() -> FaultPlan {
        FaultPlan {
            requests: FaultRates::default(),
            account: AccountFaults::default(),
            effects_per_life_max: 0,
            replicas_count: 1,
            disturbances: Vec::new(),
            events: Vec::new(),
            machines_fail: false,
        }
    }

    /// The trouble of `seed` for this world.
    #[must_use]
    pub fn of(seed: u64, world: &World) -> FaultPlan {
        let mut dice =
            Dice { random: fastrand::Rng::with_seed(seed ^ 0x0000_b10e_0000_0002), only: None, next: 0 };
        // In every eighth seed one kind alone strikes, and hard.
        dice.only = (seed % 8 == 7).then(|| dice.random.u32(0..KINDS));
        let mut fault_plan = FaultPlan::none();
        fault_plan.requests(&mut dice);
        fault_plan.account(&mut dice);
        if dice.on() {
            fault_plan.effects_per_life_max = dice.random.u64(3..40);
        }
        let end = world.trouble_seconds();
        fault_plan.replicas(&mut dice, end);
        fault_plan.cloud_model(&mut dice, end);
        fault_plan.status(&mut dice, end, world);
        fault_plan.disturbances.sort_by_key(|(at, _)| *at);
        fault_plan
    }

    /// True if somebody lays hands on stored status.
    #[must_use]
    pub fn status_tampered(&self) -> bool {
        self.disturbances.iter().any(|(_, one)| one.lays_hands_on().is_some())
    }

    fn requests(&mut self, dice: &mut Dice) {
        let rates = &mut self.requests;
        rates.refuse = dice.rate(600);
        rates.drop_before = dice.rate(400);
        rates.drop_after = dice.rate(400);
        rates.delay = dice.rate(1000);
        rates.delay_max = Duration::from_secs(dice.random.u64(1..6));
        rates.cut_watch = dice.rate(4000);
        rates.old_list = dice.rate(5000);
        rates.old_list_revisions_max = dice.random.u64(1..60);
    }

    fn account(&mut self, dice: &mut Dice) {
        let faults = &mut self.account;
        faults.throttle_reads = dice.rate(3000);
        faults.throttle_writes = dice.rate(2000);
        faults.lose_request = dice.rate(2000);
        faults.lose_reply = dice.rate(3000);
        faults.contend = dice.rate(2000);
        faults.stale_read = dice.rate(3000);
        faults.never_join = dice.rate(2500);
        faults.join_late = dice.rate(3000);
        faults.wrong_node = dice.rare(1500);
        self.machines_fail |= 0 < faults.never_join + faults.join_late + faults.wrong_node;
    }

    /// Three replicas, each of which is stopped or cut off for a while that is about as long as a Lease of a shard lasts. Where
    /// the number of shards changes, each replica is started anew some time after that.
    pub(super) fn replicas_of_shards(&mut self, seed: u64, world: &World) {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x0000_5a4d_0000_0005);
        self.replicas_count = 3;
        let end = world.trouble_seconds();
        for replica in 0..self.replicas_count {
            let kind = if random.bool() { Disturbance::Pause } else { Disturbance::Cut };
            self.during(random.i64(20..end - 60), random.i64(2..30), |on| kind(replica, on));
            for (at, _) in &world.shards {
                let at = at.as_secs() + random.i64(0..90);
                self.strike(at, Disturbance::Kill(replica));
            }
        }
        self.disturbances.sort_by_key(|(at, _)| *at);
    }

    fn replicas(&mut self, dice: &mut Dice, end: i64) {
        if dice.random.u8(0..3) == 0 {
            self.replicas_count = 2;
        }
        let count = self.replicas_count;
        let kinds: [fn(usize, bool) -> Disturbance; 2] = [Disturbance::Pause, Disturbance::Cut];
        for kind in kinds {
            if !dice.on() {
                continue;
            }
            for _ in 0..dice.random.usize(1..=3) {
                let (replica, at) = (dice.random.usize(0..count), dice.random.i64(0..end));
                self.during(at, dice.random.i64(2..60), |on| kind(replica, on));
            }
        }
        if dice.on() {
            for _ in 0..dice.random.usize(1..=4) {
                let offset = [-86_400, -3_600, -90, 45, 1_800, 86_400][dice.random.usize(0..6)];
                let one = Disturbance::Clock(dice.random.usize(0..count), SignedDuration::from_secs(offset));
                self.strike(dice.random.i64(0..end), one);
            }
        }
        if dice.on() {
            for _ in 0..dice.random.usize(1..=4) {
                self.strike(dice.random.i64(0..end), Disturbance::Kill(dice.random.usize(0..count)));
            }
        }
        if dice.on() {
            self.during(dice.random.i64(0..end), dice.random.i64(20..300), Disturbance::SilentWatches);
        }
        if dice.on() {
            self.during(dice.random.i64(0..end), dice.random.i64(10..120), Disturbance::Scheduler);
        }
    }

    fn cloud_model(&mut self, dice: &mut Dice, end: i64) {
        let seconds = SignedDuration::from_secs;
        if dice.on() {
            for _ in 0..dice.random.usize(1..=2) {
                let action = Action::LaunchFailure {
                    pool: None,
                    zone: dice.random.bool().then(|| "a".to_owned()),
                    class: FailureClass::OutOfCapacity,
                    lasts: seconds(dice.random.i64(20..150)),
                };
                self.event(dice.random.i64(0..end - 150), action);
            }
        }
        if dice.on() {
            let lasts = seconds(dice.random.i64(20..120));
            let action = Action::SlowCloud(dice.random.u32(1..4), seconds(dice.random.i64(5..60)), lasts);
            self.event(dice.random.i64(0..end - 120), action);
        }
        if dice.on() && dice.random.bool() {
            let action = Action::ZoneOutage("a".to_owned(), seconds(dice.random.i64(20..150)));
            self.event(dice.random.i64(0..end - 150), action);
            self.machines_fail = true;
        }
        if dice.on() && dice.random.bool() {
            for _ in 0..dice.random.usize(1..=3) {
                self.strike(dice.random.i64(60..end), Disturbance::Reclaim);
            }
            self.machines_fail = true;
        }
    }

    fn status(&mut self, dice: &mut Dice, end: i64, world: &World) {
        let pool = world.need.first().map(|(pool, _)| Stored::Pool(pool.clone()));
        let workload = world.scaled.first().map(|one| Stored::PoliciesOf(one.key.namespace.to_string()));
        let Some(stored) = pool.or(workload) else { return };
        let kind = dice.random.u8(0..3);
        if !dice.on() || dice.random.bool() {
            return;
        }
        let at = dice.random.i64(30..end);
        match kind {
            0 => self.strike(at, Disturbance::EraseStatus(stored)),
            1 => {
                self.strike(dice.random.i64(5..at), Disturbance::BackUpStatus(stored.clone()));
                self.strike(at, Disturbance::RestoreStatus(stored));
            }
            _ => self.strike(at, Disturbance::TamperStatus(stored)),
        }
    }

    fn strike(&mut self, at: i64, one: Disturbance) {
        self.disturbances.push((SignedDuration::from_secs(at), one));
    }

    fn during(&mut self, at: i64, seconds: i64, one: impl Fn(bool) -> Disturbance) {
        self.strike(at, one(true));
        self.strike(at + seconds, one(false));
    }

    fn event(&mut self, at: i64, action: Action) {
        self.events.push(Event { after: SignedDuration::from_secs(at), action });
    }
}

/// Kinds of fault that [`Dice`] decides on, in order.
const KINDS: u32 = 27;

/// Decides which kinds strike.
struct Dice {
    random: fastrand::Rng,
    /// The one kind that strikes alone.
    only: Option<u32>,
    next: u32,
}

impl Dice {
    /// True if the next kind strikes.
    fn on(&mut self) -> bool {
        let drawn = self.random.u8(0..3) == 0;
        let number = self.next;
        self.next += 1;
        self.only.map_or(drawn, |only| only == number)
    }

    /// A rate of up to `max`, or zero.
    fn rate(&mut self, max: u32) -> u32 {
        let drawn = self.random.u32(1..=max);
        if self.on() { drawn } else { 0 }
    }

    /// The same for what is off even more often.
    fn rare(&mut self, max: u32) -> u32 {
        let drawn = self.rate(max);
        if self.random.bool() { drawn } else { 0 }
    }
}
