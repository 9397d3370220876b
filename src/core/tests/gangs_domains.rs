//! Gangs whose pods must share one value of a node label: all go to one domain, or none is bought for.

use std::sync::Arc;

use headroom_core::config::{Config, Mode};
use headroom_core::labels::ObjectKey;
use headroom_core::plan::{GangVerdict, Plan};
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, NodeBuilder, PodBuilder, WorldBuilder, config, node, pod, pool, world};
use headroom_core::time::UnixTime;
use headroom_core::world::Delta;
use headroom_core::world::gang::{Gang, GangKind, GangRef};
use headroom_core::world::node::ZONE_LABEL;
use headroom_core::world::provider::GroupState;

use crate::scale_up::{check, increases, plan_fresh};

const RACK: &str = "example.com/rack";

fn gang(name: &str, min: u32, key: &str) -> Delta {
    Delta::GangApplied(Box::new(Gang {
        kind: GangKind::PodGroup,
        key: ObjectKey::new("default", name),
        created_at: UnixTime(NOW.0 - 600),
        minimums: [("".into(), min)].into(),
        done_count: 0,
        disrupted_at_once: false,
        topology_key: (!key.is_empty()).then(|| key.into()),
    }))
}

/// A pod of a gang that takes a node of four cores for itself.
fn member(name: &str, gang: &str) -> PodBuilder {
    let gang = Arc::new(GangRef::new(GangKind::PodGroup, gang.into()));
    pod(name).cpu("3").memory("1Gi").with_class(|class| class.gang = Some(gang))
}

/// A pool with groups a and b, one in each zone, each of at most so many nodes.
fn zones(most: [u32; 2]) -> WorldBuilder {
    let group = |world: WorldBuilder, (id, zone, max): (&str, &str, u32)| {
        let state = GroupState { zone: Some(zone.into()), max, ..GroupState::default() };
        world.group_state("general", id, state)
    };
    [("a", "z1", most[0]), ("b", "z2", most[1])].into_iter().fold(world(), group)
}

fn general() -> Config {
    config([pool("general")])
}

/// So many nodes of a rack, which nobody buys.
fn rack(world: WorldBuilder, name: &str, count: usize) -> WorldBuilder {
    let node = |number: usize| node(&format!("{name}-{number}")).label(RACK, name);
    (0..count).map(node).fold(world, |world: WorldBuilder, node: NodeBuilder| world.node(node))
}

fn verdict<'p>(plan: &'p Plan, gang: &str) -> &'p GangVerdict {
    let found = plan.reasons.gangs.iter().find(|verdict| &*verdict.gang.name == gang);
    found.expect("a verdict on each gang")
}

#[test]
fn all_nodes_for_a_gang_are_bought_in_one_zone() {
    let with =
        |key: &str| zones([9, 9]).delta(gang("train", 4, key)).pods(member("w", "train").times(4)).build();
    check(&plan_fresh(&with(""), &general()), &[("general", "a", 0, 2), ("general", "b", 0, 2)]);
    check(&plan_fresh(&with(ZONE_LABEL), &general()), &[("general", "a", 0, 4)]);
}

#[test]
fn the_domain_with_room_for_all_is_taken_although_it_is_not_the_first() {
    let world = zones([3, 9]).delta(gang("train", 4, ZONE_LABEL)).pods(member("w", "train").times(4)).build();
    let plan = plan_fresh(&world, &general());
    check(&plan, &[("general", "b", 0, 4)]);
    assert_eq!(verdict(&plan, "train").reason, None);
}

#[test]
fn nothing_is_bought_where_each_domain_has_room_for_a_part_only() {
    let world = zones([3, 2]).delta(gang("train", 4, ZONE_LABEL)).pods(member("w", "train").times(4)).build();
    let plan = plan_fresh(&world, &general());
    check(&plan, &[]);
    let verdict = verdict(&plan, "train");
    assert_eq!((verdict.reason, verdict.fit_count), (Some(Reason::GangDoesNotFit), 3));
    assert_eq!(
        verdict.describe(),
        format!(
            "PodGroup default/train needs 4 pods at once in one domain of {ZONE_LABEL}: 0 run, and 3 of the 4 others fit"
        )
    );
}

#[test]
fn a_domain_with_free_nodes_comes_before_one_whose_nodes_are_bought() {
    let b = |number: usize| node(&format!("b-{number}")).of("general", "b").zone("z2");
    let world = (0..4).map(b).fold(world(), |world, node| world.node(node));
    let world = world.group("general", "a", "z1", 0).group("general", "b", "z2", 4);
    let world = world.delta(gang("train", 4, ZONE_LABEL)).pods(member("w", "train").times(4)).build();
    let plan = plan_fresh(&world, &general());
    check(&plan, &[]);
    assert_eq!((verdict(&plan, "train").reason, verdict(&plan, "train").fit_count), (None, 4));
}

#[test]
fn pods_that_run_decide_on_the_domain_of_the_others() {
    let on_b = node("b-0").of("general", "b").zone("z2");
    let world = world().node(on_b).pod(member("first", "train").on("b-0"));
    let world = world.group("general", "a", "z1", 0).group("general", "b", "z2", 1);
    let with =
        |min| world.clone().delta(gang("train", min, ZONE_LABEL)).pods(member("w", "train").times(2)).build();
    check(&plan_fresh(&with(3), &general()), &[("general", "b", 1, 3)]);
    // Those beyond the fewest, and those of a group that is not scheduled at once, too.
    check(&plan_fresh(&with(1), &general()), &[("general", "b", 1, 3)]);
    check(&plan_fresh(&with(0), &general()), &[("general", "b", 1, 3)]);
}

#[test]
fn pods_beyond_the_fewest_go_to_the_same_domain() {
    let world = zones([3, 9]).delta(gang("train", 2, ZONE_LABEL)).pods(member("w", "train").times(5)).build();
    check(&plan_fresh(&world, &general()), &[("general", "b", 0, 5)]);
}

#[test]
fn two_gangs_get_a_rack_each() {
    let world = rack(rack(world(), "r1", 3), "r2", 3);
    let both = [gang("one", 3, RACK), gang("two", 3, RACK)];
    let world = both.into_iter().fold(world, |world: WorldBuilder, gang| world.delta(gang));
    let fitting = world.clone().pods(member("o", "one").times(3)).pods(member("t", "two").times(3)).build();
    let plan = plan_fresh(&fitting, &general());
    assert_eq!([verdict(&plan, "one").reason, verdict(&plan, "two").reason], [None, None]);
    let more = world.pods(member("o", "one").times(3)).pods(member("t", "two").times(4)).build();
    let plan = plan_fresh(&more, &general());
    let left: u32 = plan.reasons.pods.iter().map(|verdict| verdict.unplaced_count).sum();
    assert_eq!(left, 1, "the fourth pod of the second gang has no rack to share");
}

#[test]
fn a_label_that_the_cloud_chooses_or_that_no_node_has_buys_nothing() {
    let open = world().group("general", "a", "", 0).group_zones("general", "a", &["z1", "z2"]);
    let open = open.delta(gang("train", 2, ZONE_LABEL)).pods(member("w", "train").times(2)).build();
    let none = zones([9, 9]).delta(gang("train", 2, RACK)).pods(member("w", "train").times(2)).build();
    for world in [open, none] {
        let plan = plan_fresh(&world, &general());
        check(&plan, &[]);
        assert_eq!(verdict(&plan, "train").reason, Some(Reason::GangDoesNotFit));
        assert_eq!(plan.reasons.pods[0].skipped, Some(Reason::GangDoesNotFit));
    }
}

#[test]
fn a_pod_that_selects_a_zone_takes_its_gang_there_and_two_that_differ_are_not_bought_for() {
    let pods = |zones: [&str; 2]| {
        let pod = |(number, zone): (usize, &str)| {
            member(&format!("w-{number}"), "train").selector(ZONE_LABEL, zone)
        };
        let pods = (0..2).zip(zones).map(pod);
        let world = pods.fold(self::zones([9, 9]), |world, pod| world.pod(pod));
        world.delta(gang("train", 2, ZONE_LABEL)).build()
    };
    check(&plan_fresh(&pods(["z2", "z2"]), &general()), &[("general", "b", 0, 2)]);
    check(&plan_fresh(&pods(["z1", "z2"]), &general()), &[]);
}

#[test]
fn a_preview_pool_shows_what_it_would_buy_in_one_domain() {
    let world = zones([9, 9]).delta(gang("train", 4, ZONE_LABEL)).pods(member("w", "train").times(4)).build();
    let plan = plan_fresh(&world, &config([pool("general").mode(Mode::Preview)]));
    assert!(increases(&plan).is_empty());
    assert_eq!(plan.reasons.preview.iter().map(|action| action.to).collect::<Vec<_>>(), [4]);
}
