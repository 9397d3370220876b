//! Faults of a run beside those of its requests, and their checker: the AWS account, disturbances at set times, the
//! checker.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headroom_aws::Aws;
use headroom_observe::Feed;
use headroom_provider::clouds::Clouds;
use headroom_provider::{CloudProvider, aws, kwok};
use headroom_simulator::cluster::SimCluster;
use headroom_simulator::environment::{Environment, LifeContext};
use headroom_simulator::run::Stage;
use headroom_simulator::wire::Audit;
use jiff::{SignedDuration, Timestamp};

use crate::account::{AccountCalls, AccountFaults, SharedAccount};
use crate::checker::SharedChecker;
use crate::disturbance::{self, Backups, Disturbance, Stored};
use crate::seams::{FaultyFeed, FaultyProvider, SeamFault};

/// The environment of a run with faults.
#[derive(Debug)]
pub struct FaultEnvironment {
    account: Option<SharedAccount>,
    checker: SharedChecker,
    trouble: Mutex<Trouble>,
    seam: Option<SeamFault>,
}

/// Disturbances to come, and what those that struck left behind.
#[derive(Debug)]
struct Trouble {
    due: VecDeque<(Timestamp, Disturbance)>,
    struck: BTreeMap<&'static str, u64>,
    backups: Backups,
}

impl FaultEnvironment {
    /// `account` is the cloud behind pools of provider AWS. Each of the disturbances strikes so long after `start`; they are in
    /// order.
    #[must_use]
    pub fn new(
        checker: SharedChecker,
        account: Option<SharedAccount>,
        start: Timestamp,
        disturbances: &[(SignedDuration, Disturbance)],
    ) -> Self {
        let after = |length| start.saturating_add(length).unwrap_or(Timestamp::MAX);
        let due = disturbances.iter().map(|(at, one)| (after(*at), one.clone())).collect();
        let trouble = Trouble { due, struck: BTreeMap::new(), backups: Backups::new() };
        Self { account, checker, trouble: Mutex::new(trouble), seam: None }
    }

    /// The same with an incident at a seam of the operator.
    #[must_use]
    pub fn with_seam(self, seam: Option<SeamFault>) -> Self {
        Self { seam, ..self }
    }

    fn clouds(&self, embedded: Arc<dyn CloudProvider>, life: &LifeContext<'_>) -> Arc<dyn CloudProvider> {
        let Some(account) = &self.account else { return embedded };
        let around = life.surroundings;
        let calls = AccountCalls {
            state: account.clone(),
            cluster: around.cluster.clone(),
            host: around.server_host.clone(),
            caller: life.caller,
            network: around.server.network().clone(),
            checker: self.checker.clone(),
        };
        let groups = Aws::new(Box::new(calls), life.host.clone(), Arc::new(life.guard.clone()));
        let clouds = Clouds::default().with(kwok::Settings::KIND, embedded);
        Arc::new(clouds.with(aws::Settings::KIND, Arc::new(groups)))
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn strike_one(&self, stage: &mut Stage, one: &Disturbance, now: Timestamp) {
        if let Some(deaf) = one.deafens() {
            self.checker.lock().hears_nothing(deaf, now);
        }
        let network = stage.surroundings().server.network().clone();
        match one {
            Disturbance::Pause(replica, paused) => {
                stage.pause(*replica, *paused);
                self.checker.lock().stopped(*paused, now);
            }
            Disturbance::Cut(replica, cut) => network.cut(*replica, *cut),
            Disturbance::Clock(replica, offset) => stage.set_clock_off(*replica, *offset),
            Disturbance::Kill(replica) => stage.kill(*replica),
            Disturbance::SilentWatches(silent) => {
                network.silence_watches(*silent);
                self.checker.lock().watches_silent(*silent, now);
            }
            Disturbance::Requests(rates, _) => {
                stage.surroundings().server.with_faults(|faults| faults.rates = *rates);
            }
            Disturbance::Scheduler(stopped) => stage.surroundings().cluster.lock().stop_scheduler(*stopped),
            Disturbance::Reclaim => {
                if self.account.as_ref().is_some_and(|account| account.lock().reclaim(now)) {
                    self.checker.lock().lost_count += 1;
                }
            }
            Disturbance::EraseStatus(_)
            | Disturbance::BackUpStatus(_)
            | Disturbance::RestoreStatus(_)
            | Disturbance::TamperStatus(_)
            | Disturbance::ForgeRemoval(..) => self.strike_status(stage, one, now),
        }
    }

    fn strike_status(&self, stage: &Stage, one: &Disturbance, now: Timestamp) {
        if let Some(Stored::PoliciesOf(namespace)) = one.lays_hands_on() {
            self.checker.lock().sizes_forgotten(&namespace, now);
        }
        let backups = &mut self.trouble().backups;
        stage.surroundings().server.store().with(|store| {
            store.advance_to(now);
            disturbance::strike_status(store, backups, one);
        });
    }
}

impl Environment for FaultEnvironment {
    fn audit(&self) -> Option<Box<dyn Audit>> {
        Some(Box::new(self.checker.clone()))
    }

    fn provider(&self, embedded: Arc<dyn CloudProvider>, life: &LifeContext<'_>) -> Arc<dyn CloudProvider> {
        let inner = self.clouds(embedded, life);
        match self.seam {
            Some(fault) => Arc::new(FaultyProvider { inner, fault, host: life.host.clone() }),
            None => inner,
        }
    }

    fn feed(&self, inner: Arc<dyn Feed>) -> Arc<dyn Feed> {
        match self.seam {
            Some(fault) => Arc::new(FaultyFeed { inner, fault }),
            None => inner,
        }
    }

    fn strike(&self, stage: &mut Stage, now: Timestamp) {
        loop {
            let due = self.trouble().due.pop_front_if(|(at, _)| *at <= now);
            let Some((_, one)) = due else { return };
            if let Some(name) = one.name() {
                *self.trouble().struck.entry(name).or_default() += 1;
            }
            self.strike_one(stage, &one, now);
        }
    }

    fn before_step(&self, cluster: &SimCluster, now: Timestamp) {
        if let Some(account) = &self.account {
            let mut account = account.lock();
            cluster.store().with(|store| account.step(store, &cluster.cloud_model, now));
            self.checker.lock().quotas.groups = account.groups_now();
        }
    }

    fn after_step(&self, cluster: &SimCluster, now: Timestamp) {
        let (mut late, mut slain) = Default::default();
        if let Some(account) = &self.account {
            let mut account = account.lock();
            (late, slain) = (std::mem::take(&mut account.late), std::mem::take(&mut account.slain));
        }
        for id in slain {
            let message = format!("the cloud chose instance {id}: its group's size was below what ran");
            self.checker.lock().violated(now, "I4", message);
        }
        cluster.store().with(|store| {
            let mut checker = self.checker.lock();
            for (pool, group) in late {
                checker.came_late(store, &pool, &group);
            }
            checker.step(store, now);
        });
    }

    fn calm_down(&self, now: Timestamp) {
        self.trouble().due.clear();
        if let Some(account) = &self.account {
            account.lock().faults = AccountFaults::default();
        }
        let mut checker = self.checker.lock();
        checker.watches_silent(false, now);
        checker.hears_all(now);
    }

    fn next_at(&self) -> Option<Timestamp> {
        let strike = self.trouble().due.front().map(|(at, _)| *at);
        let step = self.account.as_ref().and_then(|account| account.lock().next_at());
        [strike, step].into_iter().flatten().min()
    }

    fn is_over(&self) -> bool {
        self.checker.lock().over
    }

    fn faults(&self) -> BTreeMap<&'static str, u64> {
        let mut all = self.trouble().struck.clone();
        if let Some(account) = &self.account {
            all.extend(account.lock().struck.iter());
        }
        all
    }
}
