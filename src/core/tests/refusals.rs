//! Reasons why a pool does not help a pod: the first failing rule with its values, or the limit that keeps the pool
//! from growing.

use headroom_core::known::Known;
use headroom_core::reason::Reason;
use headroom_core::scheduling::constraints::Operator;
use headroom_core::testing::{config, node, pod, pool, world};
use headroom_core::world::Delta;
use headroom_core::world::node::ZONE_LABEL;

use crate::scale_up::{answer, check, plan_fresh};

#[test]
fn taint_that_is_not_tolerated_is_named() {
    let world = world().group("gpu", "a", "", 0).pod(pod("web").cpu("1")).build();
    let plan = plan_fresh(&world, &config([pool("gpu").taint("gpu", "only")]));
    check(&plan, &[]);
    let (reason, message) = answer(&plan, "web", "gpu");
    assert_eq!(reason, Reason::TaintNotTolerated);
    assert_eq!(message, "taint gpu=only:NoSchedule is not tolerated");
}

#[test]
fn zone_that_no_group_has_is_named_with_those_that_are() {
    let world = world()
        .group("general", "1", "a", 0)
        .group("general", "2", "c", 0)
        .pod(pod("web").cpu("1").affinity(ZONE_LABEL, Operator::In, &["b"]))
        .build();
    let plan = plan_fresh(&world, &config([pool("general")]));
    let (reason, message) = answer(&plan, "web", "general");
    assert_eq!(reason, Reason::NodeAffinityMismatch);
    assert_eq!(message, "needs topology.kubernetes.io/zone in (b); pool has a, c");
}

#[test]
fn pod_larger_than_the_node_is_refused_with_amounts() {
    let world = world().group("general", "a", "", 0).pod(pod("web").cpu("5")).build();
    let plan = plan_fresh(&world, &config([pool("general")]));
    let (reason, message) = answer(&plan, "web", "general");
    assert_eq!((reason, &*message), (Reason::InsufficientResources, "cpu: asks 5000m, 4000m free"));
}

#[test]
fn unknown_provider_stops_growth_of_its_pool_only() {
    let world = world()
        .delta(Delta::ProviderObserved("a".into(), Known::Unknown { why: "timeout".into() }))
        .group("b", "g", "", 0)
        .pods(pod("web").cpu("4").times(2))
        .build();
    let plan = plan_fresh(&world, &config([pool("a").bounds(5, 10), pool("b")]));
    check(&plan, &[("b", "g", 0, 2)]);
    assert_eq!(plan.reasons.pools["a"][0].reason, Reason::ProviderUnknown);
}

#[test]
fn room_of_expendable_pods_is_room() {
    let batch = pod("batch").cpu("4").priority(-11).on("n1");
    let world = world().node(node("n1")).group("general", "a", "", 0).pod(batch).pod(pod("web").cpu("4"));
    check(&plan_fresh(&world.build(), &config([pool("general")])), &[]);
}

#[test]
fn unhealthy_pool_does_not_grow() {
    let mut builder = world();
    for index in 0..8 {
        let state = node(&format!("n{index}")).of("general", "a");
        builder = builder.node(if index < 4 { state.unready_for(3600) } else { state });
    }
    let world =
        builder.group("general", "a", "", 8).pods(pod("web").cpu("4").memory("15Gi").times(9)).build();
    let plan = plan_fresh(&world, &config([pool("general")]));
    check(&plan, &[]);
    assert_eq!(answer(&plan, "web-0", "general").0, Reason::PoolUnhealthy);
}

#[test]
fn decision_reports_the_answers_of_other_pools() {
    let world =
        world().group("general", "a", "", 0).group("gpu", "a", "", 0).pod(pod("web").cpu("1")).build();
    let plan = plan_fresh(&world, &config([pool("general"), pool("gpu").taint("gpu", "")]));
    let considered = &plan.next_history.pools["general"].decisions[0].considered;
    assert_eq!((&*considered[0].pool, considered[0].reason), ("gpu", Reason::TaintNotTolerated));
}
