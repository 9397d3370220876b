//! Nodes with devices: when they may go, and how their use is measured.

use headroom_core::config::Config;
use headroom_core::reason::Reason;
use headroom_core::testing::devices::{claim_spec, free_claim, held_claim, slice};
use headroom_core::testing::{NOW, PodBuilder, WorldBuilder};
use headroom_core::world::devices::ResourceClaim;

use crate::scale_down::{cluster, member, reasons, replica, run, settings, unneeded};

fn busy(name: &str, node: &str) -> PodBuilder {
    replica(name).devices_of_template("one").on(node)
}

/// Nodes n and m with four devices each; pods of n and m, each with one device.
fn world(on_n: usize, on_m: usize) -> WorldBuilder {
    let pods = |node: &'static str, count: usize| {
        (0..count).map(move |number| busy(&format!("{node}{number}"), node))
    };
    let world = cluster([member("m"), member("n")], pods("n", on_n).chain(pods("m", on_m)));
    let world = world.with_devices().claim_template("one", claim_spec(1, &[]));
    let world = world.slice(slice("n", 4)).slice(slice("m", 4));
    let claims = [("n", on_n), ("m", on_m)].into_iter().flat_map(|(node, count)| {
        (0..count).map(move |number| {
            let pod = format!("{node}{number}");
            held_claim(&format!("c-{pod}"), node, &[number], &[&pod])
        })
    });
    claims.fold(world, WorldBuilder::resource_claim)
}

fn verdict(world: WorldBuilder, config: &Config) -> (Reason, Option<String>) {
    let decided = run(&world.build(), config, &mut unneeded(&["n"]), NOW);
    let found = reasons(&decided).into_iter().find(|(node, _, _)| node == "n").expect("a verdict on n");
    (found.1, found.2)
}

#[test]
fn a_node_goes_whose_pods_find_devices_elsewhere() {
    assert_eq!(verdict(world(1, 3), &settings()).0, Reason::Underutilized);
}

#[test]
fn a_node_stays_whose_pods_find_no_devices_elsewhere() {
    let found = verdict(world(1, 4), &settings());
    assert_eq!(found, (Reason::NoPlaceForClaims, Some("pod/default/n0".into())));
    // Two leave room for one.
    assert_eq!(verdict(world(2, 3), &settings()).0, Reason::NoPlaceForClaims);
}

#[test]
fn a_node_with_devices_is_measured_by_them() {
    assert_eq!(verdict(world(3, 0), &settings()).0, Reason::NotUnderutilized);
    assert_eq!(verdict(world(2, 1), &settings()).0, Reason::Underutilized);
    let idle = world(0, 3).pod(replica("big").cpu("3900m").on("n"));
    assert_ne!(verdict(idle, &settings()).0, Reason::NotUnderutilized, "cpu does not count");
}

#[test]
fn a_node_whose_pool_is_not_all_there_stays() {
    let mut part = slice("n", 4);
    part.spec.pool.resource_slice_count = 2;
    assert_eq!(verdict(world(0, 0).slice(part), &settings()).0, Reason::DevicePoolIncomplete);
}

#[test]
fn a_claim_that_cannot_be_read_keeps_its_pods_node() {
    let broken = |name: &str| ResourceClaim { fault: "odd".into(), ..free_claim(name, claim_spec(1, &[])) };
    let user = held_claim("x", "n", &[0], &["n0"]).users;
    let made_for = ResourceClaim { users: user, ..broken("c-n0") };
    let found = verdict(world(1, 0).resource_claim(made_for), &settings());
    assert_eq!(found, (Reason::ClaimNotReady, Some("pod/default/n0".into())));
    let other = verdict(world(1, 1).resource_claim(broken("of-nobody")), &settings());
    assert_eq!(other.0, Reason::Underutilized);
}

#[test]
fn a_shared_claim_keeps_its_pods_together() {
    let share = |name: &str, node: &str| replica(name).devices_of_claim("shared").on(node);
    let held = held_claim("shared", "n", &[0], &["a", "b"]);
    let both = world(0, 0).resource_claim(held).pod(share("a", "n")).pod(share("b", "n"));
    // The last of them frees it; until then the first one can go nowhere.
    assert_eq!(verdict(both, &settings()).0, Reason::NoPlaceForClaims);
    let alone = held_claim("shared", "n", &[0], &["a"]);
    let one = world(0, 1).resource_claim(alone).pod(share("a", "n"));
    assert_eq!(verdict(one, &settings()).0, Reason::Underutilized);
}
