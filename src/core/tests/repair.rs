//! Repair: which conditions call for a node's replacement, how many at once, and what holds it back.

use headroom_core::config::{Budget, Ceiling, Config, RepairRule};
use headroom_core::history::{History, RemovalPhase};
use headroom_core::plan;
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, NodeBuilder};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::{ConditionStatus, NodeCondition};

use crate::consolidation::{increases, marked, reason, replaced};
use crate::removal::open;
use crate::rotation::{PRESENT, cluster, first, later, member, settings};

const MINUTE: i64 = 60;

/// Pool a, whose nodes are replaced ten minutes after their kernel has locked up.
fn repairing() -> Config {
    let mut config = settings();
    let rotation = &mut config.pools[0].scale_down.rotation;
    rotation.replace_drifted = false;
    let (condition, status) = ("KernelDeadlock".into(), ConditionStatus::True);
    rotation.repair = vec![RepairRule { condition, status, after: Seconds::minutes(10) }];
    config
}

fn well(name: &str) -> NodeBuilder {
    member(name, PRESENT)
}

fn with_condition(name: &str, kind: &str, status: ConditionStatus, minutes: i64) -> NodeBuilder {
    let since = UnixTime(NOW.0 - minutes * MINUTE);
    well(name).with(|node| node.conditions = vec![NodeCondition { kind: kind.into(), status, since }])
}

fn locked_up(name: &str, minutes: i64) -> NodeBuilder {
    with_condition(name, "KernelDeadlock", ConditionStatus::True, minutes)
}

#[test]
fn a_node_is_replaced_when_its_condition_has_lasted_and_others_are_bought_first() {
    let plan = first(cluster([well("w1"), well("w2"), locked_up("sick", 11)]), &repairing());
    assert_eq!(replaced(&plan.next_history, "a"), ["sick"]);
    assert_eq!(increases(&plan), [("a-1".into(), 3, 4)]);
    assert!(marked(&plan).is_empty());
    assert_eq!(plan.reasons.outdated["a"], 1);
    let decision = &plan.next_history.pools["a"].decisions[0];
    assert_eq!(&*decision.message, "+1 nodes in place of 1 that have been unhealthy (sick); 1 pods move");
}

#[test]
fn a_condition_that_is_young_or_another_or_of_another_status_calls_for_nothing() {
    for node in [
        locked_up("n", 9),
        with_condition("n", "KernelDeadlock", ConditionStatus::Unknown, 60),
        with_condition("n", "ReadonlyFilesystem", ConditionStatus::True, 60),
    ] {
        let plan = first(cluster([well("w1"), node]), &repairing());
        assert!(increases(&plan).is_empty());
        assert_eq!(reason(&plan, "n"), Reason::NotUnderutilized);
    }
    let soon = first(cluster([well("w1"), locked_up("n", 9)]), &repairing());
    assert_eq!(soon.wake_at, Some(later(MINUTE)), "the plan looks again when the condition has lasted");
}

#[test]
fn a_fifth_of_the_ready_nodes_is_repaired_at_once_and_always_one() {
    let pool = |sick: usize| {
        let nodes = (0..10).map(|index| {
            let name = format!("n{index}");
            if index < sick { locked_up(&name, 30) } else { well(&name) }
        });
        first(cluster(nodes), &repairing())
    };
    assert_eq!(replaced(&pool(5).next_history, "a").len(), 2);
    assert_eq!(reason(&pool(5), "n4"), Reason::AwaitsRotation);
    let small = first(cluster([well("w1"), locked_up("s1", 30), locked_up("s2", 30)]), &repairing());
    assert_eq!(replaced(&small.next_history, "a"), ["s1"]);
}

#[test]
fn nodes_that_are_leaving_to_be_repaired_count_too() {
    let leaving = open(Reason::Unhealthy, RemovalPhase::Draining, &["n0"]);
    let nodes = |count: usize| cluster((0..count).map(|index| locked_up(&format!("n{index}"), 30))).build();
    let mut config = repairing();
    config.cluster.max_drains = 100;
    let of_five = plan(&nodes(5), &leaving, &config, later(1));
    assert!(replaced(&of_five.next_history, "a").is_empty() && increases(&of_five).is_empty());
    let of_ten = plan(&nodes(10), &leaving, &config, later(1));
    assert_eq!(replaced(&of_ten.next_history, "a").len(), 1);
}

#[test]
fn nodes_to_be_repaired_come_before_nodes_that_have_drifted() {
    let mut config = repairing();
    config.pools[0].scale_down.rotation.replace_drifted = true;
    let budget = Budget { name: "b".into(), ceiling: Ceiling::Nodes(1), reasons: Vec::new(), window: None };
    config.pools[0].scale_down.budgets = [Reason::Drifted, Reason::Unhealthy]
        .map(|reason| Budget { reasons: vec![reason], ..budget.clone() })
        .to_vec();
    config.cluster.max_drains = 1;
    let nodes = [well("w1"), member("old", "1111").age(100 * 3600), locked_up("sick", 30)];
    let plan = first(cluster(nodes), &config);
    assert_eq!(replaced(&plan.next_history, "a"), ["sick"]);
}

#[test]
fn nothing_is_repaired_while_a_zone_is_out() {
    let out = |name: &str| well(name).zone("z2").unready_for(300);
    let nodes = || [well("w1"), well("w2"), well("w3"), locked_up("sick", 30), out("o1"), out("o2")];
    let plan = first(cluster(nodes()), &repairing());
    assert!(replaced(&plan.next_history, "a").is_empty() && increases(&plan).is_empty());
}

#[test]
fn a_node_that_recovers_before_others_are_ready_stays() {
    let config = repairing();
    let bought = first(cluster([well("w1"), locked_up("n", 11)]), &config).next_history;
    let recovered = cluster([well("w1"), well("n")]).build();
    let plan = plan(&recovered, &bought, &config, later(5));
    assert!(marked(&plan).is_empty());
    let again = headroom_core::plan(&recovered, &History::default(), &config, later(5));
    assert_eq!(reason(&again, "n"), Reason::NotUnderutilized);
}
