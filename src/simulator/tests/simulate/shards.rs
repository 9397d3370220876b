//! Three replicas run workloads in shards: when one is stopped, cut off or killed, others decide on its workloads within 10 s,
//! also where it is back at once, and it never decides beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use headroom_simulator::cluster::{Load, Metric};
use headroom_simulator::environment::Environment;
use headroom_simulator::replica::PortKind;
use headroom_simulator::run::{Options, Stage, run};
use headroom_simulator::scenario::{Action, Event, Scenario};
use headroom_simulator::store::{Kind, Store};
use headroom_simulator::wire::{Audit, Call, Caller};
use jiff::{SignedDuration, Timestamp};

use crate::fixtures;

const NAMESPACES: usize = 12;
const SHARDS: usize = 6;
const REPLICAS: usize = 3;
/// Time at which a replica is struck …
const STRUCK_AFTER: SignedDuration = SignedDuration::from_secs(100);
/// … and for how long.
const STRUCK_FOR: SignedDuration = SignedDuration::from_secs(60);
/// Longest time until others have decided on each of its workloads.
const TAKEOVER_MAX: SignedDuration = SignedDuration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    /// It is stopped as by SIGSTOP.
    Pause,
    /// It reaches nothing.
    Cut,
    /// It is killed, and started anew five seconds later.
    Kill,
}

/// A question for the metrics of a namespace.
type Look = (Timestamp, usize, String);

/// Strikes one replica, and records the questions for metrics: each is the beginning of a decision.
#[derive(Clone, Debug)]
struct Strike {
    replica: usize,
    blow: Blow,
    at: Timestamp,
    done: Arc<Mutex<(bool, bool)>>,
    looks: Arc<Mutex<Vec<Look>>>,
}

impl Strike {
    fn strike_one(&self, stage: &mut Stage, on: bool) {
        match self.blow {
            Blow::Pause => stage.pause(self.replica, on),
            Blow::Cut => stage.surroundings().server.network().cut(self.replica, on),
            Blow::Kill if on => stage.kill(self.replica),
            Blow::Kill => {}
        }
    }
}

impl Environment for Strike {
    fn audit(&self) -> Option<Box<dyn Audit>> {
        Some(Box::new(self.clone()))
    }

    fn strike(&self, stage: &mut Stage, now: Timestamp) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if self.at <= now && !std::mem::replace(&mut done.0, true) {
            self.strike_one(stage, true);
        }
        if self.at + STRUCK_FOR <= now && !std::mem::replace(&mut done.1, true) {
            self.strike_one(stage, false);
        }
    }

    fn next_at(&self) -> Option<Timestamp> {
        let (struck, ended) = *self.done.lock().unwrap_or_else(PoisonError::into_inner);
        (!ended).then_some(if struck { self.at + STRUCK_FOR } else { self.at })
    }
}

impl Audit for Strike {
    fn before(&mut self, _: &Store, _: &Call) {}

    fn after(&mut self, _: &Store, _: &Call, _: u16) {}

    fn heard(&mut self, _: Caller, _: Kind, _: Timestamp) {}

    fn measured(&mut self, _: &Store, _: &Load, (caller, space): (Caller, &str), _: bool, now: Timestamp) {
        let look = (now, caller.replica, space.to_owned());
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).push(look);
    }
}

/// Twelve namespaces with a workload each, whose load never changes.
fn scenario() -> Scenario {
    let (mut manifests, mut events) = (vec![fixtures::node()], Vec::new());
    for number in 0..NAMESPACES {
        let namespace = format!("team-{number}");
        manifests.extend([fixtures::deployment(&namespace), fixtures::policy(&namespace)]);
        let action = Action::Load(fixtures::target(&namespace), Metric::Cpu, 1500);
        events.push(Event { after: SignedDuration::ZERO, action });
    }
    fixtures::scenario("shards", SignedDuration::from_mins(4), manifests, events)
}

/// The looks of a run in which one replica is struck.
fn looks(replica: usize, blow: Blow) -> (Timestamp, Vec<Look>) {
    let scenario = scenario();
    let at = scenario.start + STRUCK_AFTER;
    let strike = Strike { replica, blow, at, done: Arc::default(), looks: Arc::default() };
    let options = Options {
        port: PortKind::Wire,
        replicas_count: REPLICAS,
        shards: vec![(scenario.start, SHARDS)],
        environment: Some(Arc::new(strike.clone())),
        ..Options::of(&scenario)
    };
    run(&scenario, &options, &mut |_| {}).expect("a runtime can be built");
    let looks = strike.looks.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (at, looks)
}

/// The replica that looked at each namespace last in a stretch of time.
fn owners(looks: &[Look], within: std::ops::Range<Timestamp>) -> BTreeMap<&str, usize> {
    let within = looks.iter().filter(|(at, _, _)| within.contains(at));
    within.map(|(_, replica, namespace)| (namespace.as_str(), *replica)).collect()
}

fn others_go_on(blow: Blow) {
    for replica in 0..REPLICAS {
        let (at, looks) = looks(replica, blow);
        let before = owners(&looks, at - SignedDuration::from_secs(16)..at);
        assert_eq!(before.len(), NAMESPACES, "{blow:?} of {replica}");
        let all: BTreeSet<usize> = before.values().copied().collect();
        assert_eq!(all.len(), REPLICAS, "each runs some: {before:?}");
        for (namespace, _) in before.iter().filter(|(_, owner)| **owner == replica) {
            let of_namespace = looks.iter().filter(|(_, _, one)| one == namespace);
            let mut after = of_namespace.filter(|(when, _, _)| at <= *when);
            // A killed one may get some of its shards again when it is back.
            let goes_on = |by: usize| blow == Blow::Kill || by != replica;
            let taken = after.clone().find(|(_, by, _)| goes_on(*by)).expect("others go on");
            let took = taken.0.duration_since(at);
            assert!(took <= TAKEOVER_MAX, "{blow:?} of {replica}: {namespace} waited {took:#}");
            let beside =
                after.find(|(when, by, _)| *by == replica && taken.0 <= *when && *when < at + STRUCK_FOR);
            assert!(
                blow == Blow::Kill || beside.is_none(),
                "{blow:?} of {replica}: {beside:?} after {taken:?}"
            );
        }
        let back = owners(&looks, at + SignedDuration::from_secs(100)..at + SignedDuration::from_secs(130));
        assert_eq!(back.len(), NAMESPACES);
        let all: BTreeSet<usize> = back.values().copied().collect();
        // A paused or cut-off leader has ended itself; its next life has another name, and shards again.
        assert_eq!(all.len(), REPLICAS, "{blow:?} of {replica}: it gets shards again: {back:?}");
    }
}

#[test]
fn others_decide_on_the_workloads_of_a_paused_replica_within_ten_seconds() {
    others_go_on(Blow::Pause);
}

#[test]
fn others_decide_on_the_workloads_of_a_replica_that_is_cut_off_within_ten_seconds() {
    others_go_on(Blow::Cut);
}

#[test]
fn workloads_of_a_killed_replica_that_comes_back_at_once_are_decided_on_within_ten_seconds() {
    others_go_on(Blow::Kill);
}
