//! The soft taint of nodes that go next: who gets it and when, who loses it, and that nothing is written at rest.

use headroom_core::config::{Config, Mode};
use headroom_core::history::{History, PoolHistory};
use headroom_core::nodes::scale_down::candidate_taints::WRITES_MAX;
use headroom_core::plan;
use headroom_core::plan::{CandidateTaints, Plan};
use headroom_core::testing::{NOW, NodeBuilder, PodBuilder, WorldBuilder, config, controller, pod, world};
use headroom_core::time::UnixTime;
use headroom_core::world::World;
use headroom_core::world::view::{Freshness, View};
use headroom_core::world::workload::ControllerKind;

use crate::consolidation::{bought, oversized, settings as cheaper};
use crate::scale_down::{member, replica, settings, with_pool};

/// Memory in which each of these nodes has been unneeded for so many seconds; 600 are needed.
fn unneeded_for(nodes: &[(&str, i64)]) -> History {
    let unneeded = nodes.iter().map(|(name, age)| ((*name).into(), UnixTime(NOW.0 - age))).collect();
    History { pools: [("a".into(), PoolHistory { unneeded, ..PoolHistory::default() })].into() }
}

/// These nodes and all replicas of a ReplicaSet, in the group a-1 of pool a.
fn cluster(nodes: impl IntoIterator<Item = NodeBuilder>, pods: Vec<PodBuilder>) -> World {
    let replicas = u32::try_from(pods.len()).expect("few pods");
    let nodes: Vec<NodeBuilder> = nodes.into_iter().collect();
    let count = u32::try_from(nodes.len()).expect("few nodes");
    let mut builder = world().controller(controller(ControllerKind::ReplicaSet, "web", replicas, pod("x")));
    builder = nodes.into_iter().fold(builder, WorldBuilder::node);
    builder = pods.into_iter().fold(builder, WorldBuilder::pod);
    builder.group("a", "a-1", "z1", count).build()
}

/// These nodes with a small replica on each of those named.
fn lightly_used(nodes: impl IntoIterator<Item = NodeBuilder>, names: &[&str]) -> World {
    cluster(nodes, names.iter().map(|name| replica(&format!("on-{name}")).on(name)).collect())
}

fn candidate(name: &str) -> NodeBuilder {
    member(name).with(|node| node.candidate = true)
}

fn named(plan: &Plan) -> (Vec<&str>, Vec<&str>) {
    let CandidateTaints { on, off } = &plan.candidate_taints;
    (on.iter().map(|node| &**node).collect(), off.iter().map(|node| &**node).collect())
}

fn planned<'w>(view: impl Into<View<'w>>, history: &History, config: &Config) -> Plan {
    plan(view, history, config, NOW)
}

#[test]
fn node_gets_it_in_the_last_quarter_of_its_time() {
    let world = lightly_used([member("n"), member("m")], &["n", "m"]);
    let early = planned(&world, &unneeded_for(&[("n", 449)]), &settings());
    assert_eq!(named(&early), (vec![], vec![]));
    assert!(early.wake_at.is_some_and(|at| at <= UnixTime(NOW.0 + 1)), "{:?}", early.wake_at);
    let due = planned(&world, &unneeded_for(&[("n", 450)]), &settings());
    assert_eq!(named(&due), (vec!["n"], vec![]));
}

#[test]
fn node_gets_it_at_once_while_another_one_is_drained() {
    let nodes = || [member("n"), member("m"), member("o")];
    let world = lightly_used(nodes(), &["n", "m", "o"]);
    let draining = planned(&world, &unneeded_for(&[("n", 601), ("m", 1)]), &settings());
    assert_eq!(named(&draining), (vec!["m"], vec![]), "and the one that is drained has the hard taint");
    // An empty node that goes sends no pods anywhere.
    let empty = lightly_used(nodes(), &["m", "o"]);
    let plan = planned(&empty, &unneeded_for(&[("n", 601), ("m", 1)]), &settings());
    assert!(!plan.steps.is_empty());
    assert_eq!(named(&plan), (vec![], vec![]));
}

#[test]
fn nothing_is_written_twice_and_a_clock_keeps_it() {
    let world = lightly_used([candidate("n"), member("m")], &["n", "m"]);
    for age in [1, 450, 599] {
        let plan = planned(&world, &unneeded_for(&[("n", age)]), &settings());
        assert_eq!(named(&plan), (vec![], vec![]), "{age}");
    }
}

#[test]
fn node_that_is_needed_again_loses_it() {
    let full = |name: &str| replica(&format!("full-{name}")).cpu("3500m").on(name);
    let world = cluster([candidate("n"), member("m")], vec![full("n"), full("m")]);
    let plan = planned(&world, &unneeded_for(&[("n", 599)]), &settings());
    assert_eq!(named(&plan), (vec![], vec!["n"]));
}

#[test]
fn it_is_taken_off_where_the_pool_removes_nothing_any_more() {
    let world = lightly_used([candidate("n"), member("m")], &["n", "m"]);
    let suspended = with_pool(|pool| pool.mode = Mode::Suspend);
    let disabled = with_pool(|pool| pool.scale_down.enabled = false);
    for config in [suspended, disabled, config([])] {
        assert_eq!(named(&planned(&world, &unneeded_for(&[("n", 599)]), &config)), (vec![], vec!["n"]));
    }
}

#[test]
fn stale_view_changes_none() {
    let world = lightly_used([candidate("n"), member("m")], &["n", "m"]);
    let stale = Freshness { stale: true, ..Freshness::default() };
    assert_eq!(
        named(&planned(View::new(&world, &stale), &History::default(), &settings())),
        (vec![], vec![])
    );
}

#[test]
fn one_plan_names_few_and_those_that_go_soonest() {
    let names: Vec<String> = (0..30).map(|index| format!("n{index:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = lightly_used(names.iter().map(|name| member(name)), &names);
    let ages: Vec<(&str, i64)> = (451..).step_by(7).zip(&names).map(|(age, name)| (*name, age)).collect();
    let plan = planned(&world, &unneeded_for(&ages[..20]), &settings());
    let (on, off) = named(&plan);
    let oldest: Vec<&str> = ages[10..20].iter().rev().map(|(name, _)| *name).collect();
    assert_eq!((on.len(), off.len()), (WRITES_MAX, 0));
    assert_eq!(on, oldest);

    let world = lightly_used(names.iter().map(|name| candidate(name)), &names);
    let disabled = with_pool(|pool| pool.scale_down.enabled = false);
    let CandidateTaints { on, off } = planned(&world, &History::default(), &disabled).candidate_taints;
    assert_eq!((on.len(), off.len()), (0, WRITES_MAX));
}

#[test]
fn nodes_that_wait_for_others_in_their_place_get_it() {
    let plan = plan(&oversized().build(), &bought(), &cheaper(), NOW);
    assert_eq!(named(&plan), (vec!["big"], vec![]));
}
