//! A pod that came in place of an evicted one keeps its node for a while.

use headroom_core::config::Config;
use headroom_core::history::{Evicted, History};
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, NodeBuilder, WorldBuilder, pod};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::REMOVE_ANNOTATION;

use crate::removal;
use crate::scale_down::{cluster, member, replica, run, unneeded, with_pool};

const CONTROLLER: &str = "ReplicaSet/default/web";
const COOLDOWN: i64 = 1_800;

/// Pool a with this cooldown.
fn with(cooldown: i64) -> Config {
    with_pool(|pool| pool.scale_down.eviction_cooldown = Seconds(cooldown))
}

fn ago(seconds: i64) -> UnixTime {
    UnixTime(NOW.0 - seconds)
}

/// Reason of node n, which has been unneeded for an hour, and the time of the next plan. Its pod is so old; pods of its controller have
/// been evicted from another pool, the first so long ago and the last five seconds ago.
fn verdict(age: i64, first: i64, config: &Config) -> (Reason, Option<UnixTime>) {
    verdict_of(cluster_with(age, member("n")), first, config)
}

fn cluster_with(age: i64, node: NodeBuilder) -> WorldBuilder {
    let young = replica("p").on("n").with(|pod| pod.created_at = ago(age));
    cluster([node, member("stays").cpu("16")], [young, pod("load").cpu("12").on("stays")])
}

fn verdict_of(world: WorldBuilder, first: i64, config: &Config) -> (Reason, Option<UnixTime>) {
    let mut history: History = unneeded(&["n"]);
    let other = history.pools.entry("other".into()).or_default();
    other.evicted.insert(CONTROLLER.into(), Evicted { since: ago(first), last: ago(5) });
    let decided = run(&world.build(), config, &mut history, NOW);
    let found = decided.verdicts.of("n").expect("a verdict");
    if found.reason == Reason::RecentlyDisrupted {
        assert_eq!(found.object, Some("pod/default/p"), "the pod that is too young");
    }
    (found.reason, decided.wake_at)
}

#[test]
fn evictions_are_remembered_by_controller() {
    let world = removal::cluster([removal::marked("n")], [removal::replica("p").on("n")]).build();
    let mut history = removal::draining();
    let now = removal::later(10);
    let advance = removal::step(
        &world,
        &removal::settings(|pool| pool.scale_down.eviction_cooldown = Seconds(COOLDOWN)),
        &mut history,
        now,
    );
    assert_eq!(removal::evicted(&advance), [["p"]]);
    let row = Evicted { since: now, last: now };
    assert_eq!(history.pools["a"].evicted, [(CONTROLLER.into(), row)].into());
}

#[test]
fn node_waits_for_the_pods_that_were_made_since_the_first_eviction() {
    let ends_at = ago(COOLDOWN - 1).plus(Seconds(COOLDOWN));
    assert_eq!(
        verdict(COOLDOWN - 1, COOLDOWN - 1, &with(COOLDOWN)),
        (Reason::RecentlyDisrupted, Some(ends_at))
    );
    assert_eq!(verdict(COOLDOWN, COOLDOWN, &with(COOLDOWN)).0, Reason::Underutilized, "the cooldown is over");
    assert_eq!(
        verdict(60, 54, &with(COOLDOWN)).0,
        Reason::Underutilized,
        "it was there before the first eviction"
    );
}

#[test]
fn the_cooldown_is_that_of_the_nodes_pool() {
    assert_eq!(verdict(60, 60, &with(61)).0, Reason::RecentlyDisrupted);
    assert_eq!(verdict(60, 60, &with(60)).0, Reason::Underutilized);
    assert_eq!(verdict(0, 60, &with(0)).0, Reason::Underutilized);
}

#[test]
fn node_that_somebody_asks_for_does_not_wait() {
    let asked_for = member("n").annotation(REMOVE_ANNOTATION, "requested");
    assert_eq!(verdict_of(cluster_with(60, asked_for), 60, &with(COOLDOWN)).0, Reason::RemovalRequested);
}
