//! One replica more while a node is drained, in the decisions on replicas.

use std::sync::Arc;

use headroom_core::pods::after_write;
use headroom_core::pods::decision::{Decision, SurgeStep, WriteOutcome};
use headroom_core::pods::input::{Answer, PodSeen, ReadyCondition};
use headroom_core::pods::memory::{parse, render};
use headroom_core::pods::moment::Moment;
use headroom_core::pods::surge::{self, SurgeWish, own_replicas, steady_pods};
use headroom_core::time::Seconds;

use crate::replicas::{START, Workload, per_replica, ready_pod, value};

/// Ten of the metric for each replica.
fn workload(replicas: i32) -> Workload {
    Workload::new(replicas, vec![per_replica(10_000)])
}

fn decide(workload: &Workload, second: i64, wish: SurgeWish, total: i64) -> Decision {
    let pod = ready_pod();
    let pods: Vec<&PodSeen> = (0..workload.scale.spec_replicas).map(|_| &pod).collect();
    let answers: [Answer<'_>; 1] = [value(total * 1000)];
    surge::decide(&workload.input(second, &workload.scale, &pods, &answers), wish)
}

/// Decides and writes; returns the size and the step.
fn tick(workload: &mut Workload, second: i64, wish: SurgeWish, total: i64) -> (i32, Option<SurgeStep>) {
    let decision = decide(workload, second, wish, total);
    let step = decision.steps.surge;
    if let Some(change) = &decision.rescale {
        assert_eq!(change.from, workload.scale.spec_replicas);
        workload.scale.spec_replicas = change.to;
        workload.scale.status_replicas = change.to;
    }
    let at = Moment::from(START.plus(Seconds(second)));
    let tick = after_write(decision, &WriteOutcome::Written { at });
    // What a restarted process would read.
    workload.memory = parse(&render(&tick.memory));
    workload.status = tick.status;
    (workload.scale.spec_replicas, step)
}

#[test]
fn one_replica_more_comes_at_once_and_goes_at_once() {
    let mut web = workload(3);
    assert_eq!(tick(&mut web, 0, SurgeWish::None, 30), (3, None));
    let before = web.memory.recommendations.clone();
    assert_eq!(tick(&mut web, 1, SurgeWish::One, 30), (4, Some(SurgeStep::Begins)));
    assert_eq!(tick(&mut web, 15, SurgeWish::One, 30), (4, Some(SurgeStep::Holds)));
    assert_eq!(web.status.desired_replicas, 4);
    // No window of 300 s holds it, since nobody has ever wished for it.
    assert_eq!(tick(&mut web, 20, SurgeWish::None, 30), (3, Some(SurgeStep::Ends)));
    assert_eq!(web.memory.surged_from, None);
    assert!(web.memory.recommendations.iter().all(|wish| wish.replicas == 3), "{before:?} {:?}", web.memory);
    assert_eq!(tick(&mut web, 30, SurgeWish::None, 30), (3, None));
}

#[test]
fn rates_of_the_policy_do_not_count_it() {
    let mut web = workload(3).at_once();
    tick(&mut web, 0, SurgeWish::One, 30);
    tick(&mut web, 15, SurgeWish::None, 30);
    assert_eq!((web.memory.up_events.len(), web.memory.down_events.len()), (0, 0));
}

#[test]
fn load_that_grows_meanwhile_is_met_beside_it() {
    let mut web = workload(3).at_once();
    tick(&mut web, 0, SurgeWish::One, 30);
    assert_eq!(tick(&mut web, 15, SurgeWish::One, 50), (6, Some(SurgeStep::Holds)));
    assert_eq!(web.memory.up_events.iter().map(|event| event.change).collect::<Vec<_>>(), [2]);
    assert_eq!(web.memory.surged_from, Some(5));
    assert_eq!(tick(&mut web, 30, SurgeWish::None, 50), (5, Some(SurgeStep::Ends)));
}

#[test]
fn size_never_goes_over_max_replicas() {
    let mut web = workload(3);
    web.spec.max_replicas = 3;
    assert_eq!(tick(&mut web, 0, SurgeWish::One, 30), (3, None));
    web.spec.max_replicas = 4;
    assert_eq!(tick(&mut web, 15, SurgeWish::One, 30), (4, Some(SurgeStep::Begins)));
    // Its own growth takes the place of the surge.
    assert_eq!(tick(&mut web, 30, SurgeWish::One, 90), (4, Some(SurgeStep::Ends)));
    assert_eq!(web.memory.surged_from, None);
}

#[test]
fn restarted_process_keeps_it_until_the_wish_is_known() {
    let mut web = workload(3);
    tick(&mut web, 0, SurgeWish::One, 30);
    assert_eq!(tick(&mut web, 15, SurgeWish::Unknown, 30), (4, Some(SurgeStep::Holds)));
    assert_eq!(tick(&mut web, 30, SurgeWish::None, 30), (3, Some(SurgeStep::Ends)));
    assert_eq!(tick(&mut web, 45, SurgeWish::Unknown, 30), (3, None));
}

#[test]
fn write_that_did_not_land_is_not_taken_for_one() {
    let mut web = workload(3);
    let decision = decide(&web, 0, SurgeWish::One, 30);
    // The process ends between the journal and the write.
    web.memory = decision.journal;
    assert_eq!(web.memory.surged_from, Some(3));
    assert_eq!(own_replicas(&web.memory, 3), 3);
    assert_eq!(own_replicas(&web.memory, 4), 3);
    assert_eq!(own_replicas(&web.memory, 7), 7, "somebody else's size");
    assert_eq!(tick(&mut web, 15, SurgeWish::None, 30), (3, None));
    assert_eq!(web.memory.surged_from, None);
}

#[test]
fn only_a_steady_workload_may_have_one() {
    let web = workload(2);
    let pods = |names: &[(&str, bool)]| -> Vec<PodSeen> {
        let pod = |(name, ready): &(&str, bool)| PodSeen {
            name: Arc::from(*name),
            ready: ready_pod().ready.map(|known| ReadyCondition { ready: Some(*ready), ..known }),
            ..ready_pod()
        };
        names.iter().map(pod).collect()
    };
    let names = |web: &Workload, list: &[(&str, bool)], wish, total| {
        let pods = pods(list);
        steady_pods(&web.scale, &decide(web, 0, wish, total), pods.iter()).map(|names| names.concat())
    };
    let all = [("b", true), ("a", true)];
    assert_eq!(names(&web, &all, SurgeWish::None, 20).as_deref(), Some("ab"));
    assert_eq!(names(&web, &[("a", true), ("b", false)], SurgeWish::None, 20), None, "one is not ready");
    assert_eq!(names(&web, &[("a", true)], SurgeWish::None, 20), None, "one is missing");
    assert_eq!(names(&web, &all, SurgeWish::None, 90), None, "it is about to grow");
    assert_eq!(names(&web, &all, SurgeWish::One, 20), None, "it has one more");
    let mut full = workload(2);
    full.spec.max_replicas = 2;
    assert_eq!(names(&full, &all, SurgeWish::None, 20), None, "it is at its limit");
}
