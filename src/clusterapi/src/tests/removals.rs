//! The machine that is named leaves, and no other: with failures, crashes and other writers at each step.

use std::sync::Arc;

use headroom_core::reason::Reason;
use headroom_provider::cluster_api::GroupKind;
use serde_json::json;

use super::bench::{Bench, GROUP, pool};
use super::world::{Fault, World};
use crate::mark::Mark;
use crate::wire::DELETE_MACHINE;

const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/capi/machines/";
const SCALE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/capi/machinedeployments/a/scale";

fn meanwhile(act: impl Fn(&mut World) + Send + Sync + 'static) -> Fault {
    Fault::Meanwhile(Arc::new(act))
}

fn unknown(ends: &[Result<(), headroom_provider::Error>]) -> String {
    match ends {
        [Err(error)] if error.unknown => error.message.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_named_machine_leaves_although_another_would_be_chosen() {
    let bench = Bench::new(World::new(5)).await;
    let victim = bench.healthy_last();
    assert_eq!(bench.delete(&[&victim]).await, [Ok(())]);
    let world = bench.world();
    assert_eq!((world.shrunk.clone(), world.size("a")), (vec![victim], 4));
    assert_eq!(world.sent("PUT", "scale"), 1);
}

#[tokio::test(start_paused = true)]
async fn all_victims_of_a_step_leave_by_one_write() {
    let bench = Bench::new(World::new(5)).await;
    let live = bench.world().live();
    let victims: Vec<&str> = live[2..].iter().map(String::as_str).collect();
    assert_eq!(bench.delete(&victims).await, [Ok(()), Ok(()), Ok(())]);
    let mut world = bench.world();
    world.shrunk.sort();
    assert_eq!((world.shrunk.clone(), world.size("a"), world.sent("PUT", "")), (live[2..].to_vec(), 2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_gone_or_going_costs_no_write() {
    let bench = Bench::new(World::new(3)).await;
    bench.world().deletions_wait = true;
    let going = bench.healthy_last();
    bench.world().delete_machine(&going);
    assert_eq!(bench.delete(&[&going, "never-was"]).await, [Ok(()), Ok(())]);
    let world = bench.world();
    assert_eq!((world.sent("PUT", ""), world.sent("PATCH", ""), world.size("a")), (0, 0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_mark_of_somebody_else_stops_removals_before_any_write() {
    let bench = Bench::new(World::new(3)).await;
    let (victim, other) = (bench.healthy_last(), bench.world().live()[0].clone());
    bench.world().annotate("machines", &other, DELETE_MACHINE, "yes".into());
    unknown(&bench.delete(&[&victim]).await);
    let hold = bench.group().await.hold.expect("removals are held");
    assert_eq!(hold.reason, Reason::GroupChanging);
    let world = bench.world();
    assert_eq!((world.sent("PATCH", ""), world.sent("PUT", ""), world.marked()), (0, 0, vec![other]));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_mark_between_mark_and_lowering_takes_ours_off_again() {
    let bench = Bench::new(World::new(3)).await;
    let (victim, other) = (bench.healthy_last(), bench.world().live()[0].clone());
    let foreign = other.clone();
    let mark = meanwhile(move |world| world.annotate("machines", &foreign, DELETE_MACHINE, "yes".into()));
    bench.world().faults.push_back((format!("PATCH {MACHINES}"), mark));
    unknown(&bench.delete(&[&victim]).await);
    let world = bench.world();
    assert_eq!((world.sent("PUT", ""), world.marked(), world.size("a")), (0, vec![other], 3));
}

#[tokio::test(start_paused = true)]
async fn a_group_that_rolls_out_keeps_its_nodes() {
    let bench = Bench::new(World::new(3)).await;
    bench.world().deletions_wait = true;
    bench.world().roll_out("a");
    bench.pass(1).await;
    let hold = bench.group().await.hold.expect("removals are held");
    assert_eq!(hold.reason, Reason::GroupRollingOut);
    let victim = bench.healthy_last();
    unknown(&bench.delete(&[&victim]).await);
    assert_eq!(bench.world().sent("PATCH", ""), 0);
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_begins_after_the_mark_takes_it_off() {
    let bench = Bench::new(World::new(3)).await;
    let victim = bench.healthy_last();
    bench.world().deployment_is_held = true;
    bench.world().faults.push_back((format!("PATCH {MACHINES}"), meanwhile(|world| world.roll_out("a"))));
    unknown(&bench.delete(&[&victim]).await);
    let world = bench.world();
    assert_eq!((world.sent("PUT", ""), world.marked().len(), world.size("a")), (0, 0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_paused_cluster_is_left_alone() {
    let bench = Bench::new(World::new(3)).await;
    let victim = bench.healthy_last();
    bench.world().edit("clusters", "prod", |cluster| cluster["spec"]["paused"] = true.into());
    unknown(&bench.delete(&[&victim]).await);
    let group = bench.group().await;
    assert_eq!(group.hold.map(|hold| hold.reason), Some(Reason::GroupPaused));
    assert_eq!((group.min, group.max), (0, 3));
    {
        let world = bench.world();
        assert_eq!((world.sent("PUT", ""), world.sent("PATCH", "")), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_size_that_somebody_writes_after_the_mark_is_judged_anew() {
    let bench = Bench::new(World::new(3)).await;
    let victim = bench.healthy_last();
    bench.world().faults.push_back((format!("PUT {SCALE}"), meanwhile(|world| world.scale("a", 4))));
    unknown(&bench.delete(&[&victim]).await);
    {
        let world = bench.world();
        assert_eq!((world.size("a"), world.marked().len()), (4, 0));
    }
    bench.pass(5).await;
    assert_eq!(bench.deleted(&[&victim]).await, [Ok(())]);
    let world = bench.world();
    assert_eq!((world.size("a"), world.shrunk.clone()), (3, vec![victim]));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_changes_under_the_write_is_no_reason_to_give_up() {
    let bench = Bench::new(World::new(3)).await;
    let victim = bench.healthy_last();
    let touch =
        meanwhile(|world| world.edit("machinedeployments", "a", |object| object["status"]["x"] = 1.into()));
    bench.world().faults.push_back((format!("PUT {SCALE}"), touch));
    assert_eq!(bench.delete(&[&victim]).await, [Ok(())]);
    {
        let world = bench.world();
        assert_eq!((world.sent("PUT", ""), world.shrunk.clone()), (2, vec![victim]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_mark_and_lowering_goes_on_with_the_same_machine() {
    let bench = Bench::new(World::new(5)).await;
    let victim = bench.healthy_last();
    bench.world().faults.push_back((format!("PUT {SCALE}"), Fault::Hang));
    let bench = bench.killed_in_deletion(&[&victim]).await;
    {
        let world = bench.world();
        assert_eq!((world.marked(), world.size("a")), (vec![victim.clone()], 5));
    }
    assert_eq!(bench.deleted(&[&victim]).await, [Ok(())]);
    {
        let world = bench.world();
        assert_eq!((world.shrunk.clone(), world.size("a")), (vec![victim], 4));
    }
}

#[tokio::test(start_paused = true)]
async fn a_size_of_a_dead_process_that_arrives_late_takes_the_victim() {
    for verb in ["PUT", "GET"] {
        let bench = Bench::new(World::new(5)).await;
        let victim = bench.healthy_last();
        bench.world().faults.push_back((format!("PUT {SCALE}"), Fault::Delay));
        let bench = bench.killed_in_deletion(&[&victim]).await;
        // It arrives while the next process checks or writes: after the marks are renewed.
        let renewed = meanwhile(move |world| {
            let group = SCALE.trim_end_matches("/scale");
            world.faults.push_back((format!("{verb} {group}"), meanwhile(World::let_arrive)));
        });
        bench.world().faults.push_back(("PATCH".to_owned(), renewed));
        assert_eq!(bench.deleted(&[&victim]).await, [Ok(())]);
        let world = bench.world();
        assert_eq!((world.shrunk.clone(), world.size("a")), (vec![victim], 4));
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_without_proof_stays_while_a_size_may_arrive() {
    let bench = Bench::new(World::new(5)).await;
    let victim = bench.healthy_last();
    bench.world().faults.push_back((format!("PUT {SCALE}"), Fault::Delay));
    let bench = bench.killed_in_deletion(&[&victim]).await;
    bench.world().informer_is_held = true;
    unknown(&bench.delete(&[&victim]).await);
    assert_eq!(bench.world().marked(), std::slice::from_ref(&victim));
    bench.world().informer_is_held = false;
    bench.world().let_arrive();
    assert_eq!(bench.deleted(&[&victim]).await, [Ok(())]);
    assert_eq!(bench.world().shrunk, [victim]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_the_lowering_never_lowers_again() {
    let bench = Bench::new(World::new(5)).await;
    let victim = bench.healthy_last();
    bench.world().sets_are_held = true;
    bench.world().faults.push_back((format!("PUT {SCALE}"), Fault::HangAfter));
    let bench = bench.killed_in_deletion(&[&victim]).await;
    let words = unknown(&bench.delete(&[&victim]).await);
    assert!(words.contains("waiting"), "{words}");
    {
        let world = bench.world();
        assert_eq!((world.size("a"), world.sent("PUT", "")), (4, 1));
    }
    bench.world().sets_are_held = false;
    assert_eq!(bench.deleted(&[&victim]).await, [Ok(())]);
    {
        let world = bench.world();
        assert_eq!((world.shrunk.clone(), world.sent("PUT", "")), (vec![victim], 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_the_lowering_is_not_a_second_lowering() {
    for fault in [Fault::LoseAnswer, Fault::LoseCall] {
        let bench = Bench::new(World::new(5)).await;
        let victim = bench.healthy_last();
        bench.world().faults.push_back((format!("PUT {SCALE}"), fault));
        unknown(&bench.delete(&[&victim]).await);
        assert_eq!(bench.deleted(&[&victim]).await, [Ok(())]);
        {
            let world = bench.world();
            assert_eq!((world.shrunk.clone(), world.size("a")), (vec![victim], 4));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_victim_whose_room_went_to_another_machines_end_stays_and_is_not_paid_for_twice() {
    let bench = Bench::new(World::new(3)).await;
    let (victim, other) = (bench.healthy_last(), bench.world().live()[0].clone());
    let gone = other.clone();
    // Deleted by hand at the same time: the lowering cancels its replacement.
    bench
        .world()
        .faults
        .push_back((format!("PUT {SCALE}"), meanwhile(move |world| world.delete_machine(&gone))));
    let ends = bench.deleted(&[&victim]).await;
    let [Err(error)] = ends.as_slice() else { panic!("{ends:?}") };
    assert!(!error.unknown && error.message.contains("another machine left"), "{error}");
    let world = bench.world();
    assert_eq!((world.size("a"), world.sent("PUT", ""), world.marked().len()), (2, 1, 0));
    assert!(world.live().contains(&victim) && world.shrunk.is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_proof_that_the_mark_was_seen_nothing_is_lowered() {
    let bench = Bench::new(World::new(3)).await;
    let victim = bench.healthy_last();
    bench.world().informer_is_held = true;
    let words = unknown(&bench.delete(&[&victim]).await);
    assert!(words.contains("does not show the annotation"), "{words}");
    {
        let world = bench.world();
        assert_eq!((world.sent("PUT", ""), world.marked().len()), (0, 0));
    }
    bench.world().informer_is_held = false;
    assert_eq!(bench.deleted(&[&victim]).await, [Ok(())]);
    assert_eq!(bench.world().shrunk, [victim]);
}

#[tokio::test(start_paused = true)]
async fn a_group_at_its_minimum_gives_no_node_and_replaces_a_machine_that_never_joined() {
    let mut world = World::new(3);
    world.annotate(
        "machinedeployments",
        "a",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size",
        "3".into(),
    );
    let bench = Bench::new(world).await;
    let victim = bench.healthy_last();
    let ends = bench.delete(&[&victim]).await;
    assert!(
        ends[0].as_ref().is_err_and(|error| !error.unknown && error.message.contains("minimum of 3")),
        "{ends:?}"
    );
    bench.world().machines_never_join = true;
    bench.world().delete_machine(&victim);
    bench.pass(2).await;
    let stuck = bench.nodeless().into_iter().find(|name| *name != victim).unwrap();
    let mut deletion = bench.deletion("1-8", GROUP, &[&stuck]);
    deletion.victims[0] =
        (headroom_core::history::Victim { node: "".into(), id: format!("capi://capi/{stuck}").into() }, None);
    let ends = headroom_provider::CloudProvider::delete_together(&bench.provider, &deletion).await;
    assert_eq!(ends, [Ok(())]);
    {
        let world = bench.world();
        assert_eq!((world.size("a"), world.sent("DELETE", &stuck)), (3, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_without_an_open_intent_comes_off_once_no_write_of_its_step_can_land() {
    let bench = Bench::new(World::new(3)).await;
    let victim = bench.healthy_last();
    bench.world().faults.push_back((format!("PUT {SCALE}"), Fault::Hang));
    let bench = bench.killed_in_deletion(&[&victim]).await;
    bench.note_open(&["1-7"]);
    bench.settle().await;
    assert_eq!(bench.group().await.hold, None, "an open removal does not hold others");
    bench.note_open(&[]);
    bench.settle().await;
    let still = bench.world().marked();
    assert_eq!(still, std::slice::from_ref(&victim), "a write of the dead process may yet land");
    assert_eq!(bench.group().await.hold.map(|hold| hold.reason), Some(Reason::GroupChanging));
    bench.pass(70).await;
    bench.settle().await;
    assert!(bench.world().marked().is_empty());
    assert_eq!(bench.group().await.hold, None);
    assert_eq!(bench.world().sent("PUT", ""), 1);
}

#[tokio::test(start_paused = true)]
async fn a_mark_of_another_removal_is_waited_for_and_then_taken_off() {
    let bench = Bench::new(World::new(3)).await;
    let (victim, other) = (bench.healthy_last(), bench.world().live()[0].clone());
    let mark = Mark {
        pool: "gone".to_owned(),
        intent: "9-9".to_owned(),
        generation: bench.world().get("machinedeployments", "a").unwrap()["metadata"]["generation"]
            .as_i64()
            .unwrap(),
        replicas: 3,
        count: 1,
        at: bench.host.now(),
    };
    bench.world().annotate("machines", &other, DELETE_MACHINE, mark.written().into());
    let words = unknown(&bench.delete(&[&victim]).await);
    assert!(words.contains("may yet take effect"), "{words}");
    assert_eq!(bench.deleted(&[&victim]).await, [Ok(())]);
    assert!(mark.at.0 + 70 <= bench.host.now().0);
    {
        let world = bench.world();
        assert_eq!((world.shrunk.clone(), world.live().len()), (vec![victim], 2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_lags_decides_nothing() {
    let bench = Bench::new(World::new(4)).await;
    bench.world().watch_is_held = true;
    let (victim, other) = (bench.healthy_last(), bench.world().live()[0].clone());
    bench.world().deletions_wait = true;
    bench.world().creates_nothing = true;
    bench.world().delete_machine(&other);
    bench.pass(1).await;
    assert_eq!(bench.group().await.hold, None, "the watch shows the old state");
    unknown(&bench.delete(&[&victim]).await);
    {
        let world = bench.world();
        assert_eq!((world.sent("PATCH", ""), world.sent("PUT", "")), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn machines_of_the_oldest_set_leave_under_on_delete_and_others_are_refused() {
    let bench = Bench::new(World::new(3)).await;
    bench.world().edit("machinedeployments", "a", |object| {
        object["spec"]["rollout"] = json!({"strategy": {"type": "OnDelete"}})
    });
    bench.world().roll_out("a");
    bench.pass(1).await;
    bench.world().scale("a", 5);
    bench.pass(2).await;
    let live = bench.world().live();
    let (old, new) = (
        live.iter().filter(|name| name.starts_with("a-1")),
        live.iter().filter(|name| name.starts_with("a-2")),
    );
    let (old, new): (Vec<&String>, Vec<&String>) = (old.collect(), new.collect());
    assert_eq!((old.len(), new.len()), (3, 2));
    let hold = bench.group().await.hold.expect("the new set's machines stay");
    assert_eq!((hold.reason, hold.except.len()), (Reason::GroupRollingOut, 3));
    let ends = bench.delete(&[new[1]]).await;
    assert!(ends[0].as_ref().is_err_and(|error| error.message.contains("oldest MachineSet")), "{ends:?}");
    assert_eq!(bench.delete(&[old[2]]).await, [Ok(())]);
    assert_eq!(bench.world().shrunk, [old[2].clone()]);
}

#[tokio::test(start_paused = true)]
async fn a_stand_alone_set_shrinks_by_name() {
    let mut world = World::new(0);
    let metadata = json!({"labels": {"cluster.x-k8s.io/cluster-name": "prod"}, "annotations": {}});
    world.put(
        "machinesets",
        "bare",
        json!({"metadata": metadata, "spec": {"clusterName": "prod", "replicas": 3}}),
    );
    let mut bench = Bench::new(world).await;
    bench.pool = pool("general", &[(GroupKind::Set, "bare")]);
    let victim = bench.healthy_last();
    let deletion = bench.deletion("1-7", "MachineSet/bare", &[&victim]);
    let ends = headroom_provider::CloudProvider::delete_together(&bench.provider, &deletion).await;
    assert_eq!((ends, bench.world().shrunk.clone()), (vec![Ok(())], vec![victim]));
}

fn machine_pool(size: u32) -> World {
    let mut world = World::new(0);
    let metadata = json!({"labels": {"cluster.x-k8s.io/cluster-name": "prod"}, "annotations": {}});
    let status = json!({"infrastructureMachineKind": "LabMachine", "replicas": size});
    let spec = json!({"clusterName": "prod", "replicas": size});
    world.put("machinepools", "mp", json!({"metadata": metadata, "spec": spec, "status": status}));
    world
}

#[tokio::test(start_paused = true)]
async fn a_machine_pool_whose_provider_takes_another_machine_is_never_shrunk_again() {
    for chooses in [false, true] {
        let mut bench = Bench::new(machine_pool(3)).await;
        bench.pool = pool("general", &[(GroupKind::Pool, "mp")]);
        bench.world().pool_chooses = chooses;
        let victims = bench.world().live();
        let deletion = bench.deletion("1-7", "MachinePool/mp", &[&victims[1], &victims[2]]);
        let ends = headroom_provider::CloudProvider::delete_together(&bench.provider, &deletion).await;
        assert!(ends[1].as_ref().is_err_and(|error| error.unknown), "one at a time: {ends:?}");
        let hold = bench.state().await.groups["MachinePool/mp"].hold.clone().map(|hold| hold.reason);
        assert_eq!(hold == Some(Reason::CannotNameMachine), chooses, "{hold:?}");
        assert_eq!(ends[0].is_ok(), !chooses);
        assert_eq!(bench.world().sent("PUT", ""), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_cluster_is_refused() {
    let bench = Bench::new(World::new(3)).await;
    let victim = bench.healthy_last();
    let mut deletion = bench.deletion("1-7", GROUP, &[&victim]);
    deletion.victims[0].1.as_mut().unwrap().annotations =
        [("cluster.x-k8s.io/cluster-name", "staging")].into_iter().collect();
    let ends = headroom_provider::CloudProvider::delete_together(&bench.provider, &deletion).await;
    assert!(ends[0].as_ref().is_err_and(|error| !error.unknown), "{ends:?}");
    assert_eq!(bench.world().sent("PATCH", ""), 0);
}
