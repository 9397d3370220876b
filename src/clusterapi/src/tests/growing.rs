//! Growing, and taking back what did not come.

use std::sync::Arc;

use headroom_core::world::provider::FailureClass;
use headroom_provider::Increased;
use serde_json::json;

use super::bench::Bench;
use super::world::{Fault, World};

const SCALE: &str = "PUT /apis/cluster.x-k8s.io/v1beta2/namespaces/capi/machinedeployments/a/scale";

#[tokio::test(start_paused = true)]
async fn a_size_is_reached_once_however_often_it_is_asked_for() {
    for fault in [None, Some(Fault::LoseAnswer), Some(Fault::LoseCall)] {
        let bench = Bench::new(World::new(2)).await;
        let lost = fault.is_some();
        bench.world().faults.extend(fault.map(|fault| (SCALE.to_owned(), fault)));
        let first = bench.increase(2, 5).await;
        assert_eq!(first.is_err_and(|error| error.unknown), lost);
        for _ in 0..3 {
            assert_eq!(bench.increase(2, 5).await, Ok(Increased::Accepted));
        }
        bench.pass(3).await;
        {
            let world = bench.world();
            assert_eq!((world.size("a"), world.live().len()), (5, 5));
        }
        assert!(bench.world().sent("PUT", "") <= 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_size_that_moved_or_may_not_be_reached_is_planned_anew() {
    let bench = Bench::new(World::new(3)).await;
    assert_eq!(bench.increase(4, 6).await, Ok(Increased::Superseded), "somebody lowered it");
    let max = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    bench.world().annotate("machinedeployments", "a", max, "5".into());
    assert_eq!(bench.increase(3, 6).await, Ok(Increased::Superseded), "above its maximum");
    bench.world().edit("clusters", "prod", |cluster| cluster["spec"]["paused"] = true.into());
    assert_eq!(bench.increase(3, 4).await, Ok(Increased::Superseded), "paused");
    assert_eq!(bench.world().sent("PUT", ""), 0);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_read_and_judged_again() {
    let bench = Bench::new(World::new(2)).await;
    let higher = Fault::Meanwhile(Arc::new(|world: &mut World| world.scale("a", 7)));
    bench.world().faults.push_back((SCALE.to_owned(), higher));
    assert_eq!(bench.increase(2, 5).await, Ok(Increased::Accepted));
    assert_eq!(bench.world().size("a"), 7, "nothing is lowered by an increase");
}

#[tokio::test(start_paused = true)]
async fn a_size_that_another_manager_applies_is_not_written() {
    let bench = Bench::new(World::new(2)).await;
    let fields = json!([{"manager": "capi-topology", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    bench.world().edit("machinedeployments", "a", |object| object["metadata"]["managedFields"] = fields);
    bench.settle().await;
    assert_eq!(bench.increase(2, 5).await, Ok(Increased::Superseded));
    let notices = bench.notices().await;
    assert!(
        notices.iter().any(|words| words.starts_with("ForeignEdit") && words.contains("capi-topology")),
        "{notices:?}"
    );
    let group = bench.group().await;
    assert_eq!((group.min, group.max, bench.world().sent("PUT", "")), (2, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn refusals_are_told_apart() {
    let bench = Bench::new(World::new(2)).await;
    for (status, class) in [(403, FailureClass::PermissionDenied), (422, FailureClass::InvalidConfiguration)]
    {
        bench.world().faults.push_back((SCALE.to_owned(), Fault::Refuse(status)));
        let error = bench.increase(2, 3).await.unwrap_err();
        assert_eq!((error.class, error.unknown), (class, false));
    }
    bench.world().faults.push_back((SCALE.to_owned(), Fault::Refuse(503)));
    assert!(bench.increase(2, 3).await.unwrap_err().unknown);
}

#[tokio::test(start_paused = true)]
async fn machines_that_failed_are_taken_back_and_nodes_and_machines_on_their_way_stay() {
    let bench = Bench::new(World::new(2)).await;
    bench.world().machines_never_join = true;
    assert_eq!(bench.increase(2, 3).await, Ok(Increased::Accepted));
    bench.pass(2).await;
    let stay = bench.world().live();
    bench.world().launches_fail = Some("InsufficientInstanceCapacity: none");
    let coming = bench.nodeless();
    for name in &coming {
        bench.world().edit("machines", name, |machine| machine["status"]["conditions"] = json!([]));
    }
    assert_eq!(bench.increase(3, 5).await, Ok(Increased::Accepted));
    bench.pass(2).await;
    assert_eq!(bench.world().live().len(), 5);
    let mut last = Ok(Increased::Superseded);
    for _ in 0..5 {
        last = bench.cancel(2, 5).await;
        if last == Ok(Increased::Accepted) {
            break;
        }
        bench.pass(10).await;
    }
    assert_eq!(last, Ok(Increased::Accepted));
    bench.pass(1).await;
    {
        let world = bench.world();
        assert_eq!((world.size("a"), world.live()), (3, stay));
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_becomes_a_node_while_it_is_taken_back_stays() {
    let bench = Bench::new(World::new(1)).await;
    bench.world().launches_fail = Some("InsufficientInstanceCapacity: none");
    assert_eq!(bench.increase(1, 2).await, Ok(Increased::Accepted));
    bench.pass(2).await;
    let late = bench.nodeless().pop();
    let late = late.expect("it has not joined");
    let joins = late.clone();
    let join = Fault::Meanwhile(Arc::new(move |world: &mut World| world.join(&joins)));
    let path = format!("PATCH /apis/cluster.x-k8s.io/v1beta2/namespaces/capi/machines/{late}");
    bench.world().faults.push_back((path, join));
    let _ = bench.cancel(1, 2).await;
    bench.pass(2).await;
    assert_eq!(bench.cancel(1, 2).await, Ok(Increased::Accepted), "nothing is left to take back");
    {
        let world = bench.world();
        assert!(world.live().contains(&late) && world.marked().is_empty());
    }
    assert_eq!(bench.world().size("a"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_size_without_machines_is_lowered_to_those_that_are_there() {
    let bench = Bench::new(World::new(2)).await;
    let nodes = bench.world().live();
    bench.world().creates_nothing = true;
    assert_eq!(bench.increase(2, 6).await, Ok(Increased::Accepted));
    bench.pass(2).await;
    let _ = bench.cancel(2, 6).await;
    assert_eq!(bench.world().size("a"), 2);
    bench.pass(10).await;
    assert_eq!(bench.cancel(2, 6).await, Ok(Increased::Accepted));
    {
        let world = bench.world();
        assert_eq!((world.live(), world.sent("PATCH", "")), (nodes, 0));
    }
}
