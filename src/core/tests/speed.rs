//! How long a scale-down pass takes on large clusters. Ignored: a figure, not a rule; run it in release.

use std::time::Instant;

use headroom_core::history::History;
use headroom_core::plan;
use headroom_core::testing::{NOW, budget, config, controller, node, pod, pool, world};
use headroom_core::time::Seconds;
use headroom_core::world::World;
use headroom_core::world::workload::ControllerKind;

/// `nodes` nodes with 30 pods each, one in `every` of them underused with 6.
fn cluster(nodes: u32, every: u32) -> World {
    let mut builder = world();
    for app in 0..200 {
        let name = format!("app-{app}");
        builder = builder
            .controller(controller(ControllerKind::ReplicaSet, &name, 5000, pod("x")))
            .budget(budget(&name, "app", &name, 500));
    }
    for index in 0..nodes {
        let name = format!("n{index:05}");
        builder = builder.node(node(&name).of("a", "a-1").zone(["x", "y", "z"][index as usize % 3]));
        let pods = if index % every == 0 { 6 } else { 30 };
        for number in 0..pods {
            let app = format!("app-{}", (index * 7 + number) % 200);
            let made = pod(&format!("p-{index}-{number}")).label("app", &app).owner("ReplicaSet", &app);
            builder = builder.pod(made.cpu("100m").memory("256Mi").on(&name));
        }
    }
    builder.group("a", "a-1", "", nodes).build()
}

fn measure(nodes: u32, every: u32) {
    let world = cluster(nodes, every);
    let config =
        config([pool("a").bounds(0, 100_000).with(|pool| pool.scale_down.delay_after_add = Seconds(0))]);
    let first = plan(&world, &History::default(), &config, NOW);
    let began = Instant::now();
    let again = plan(&world, &first.next_history, &config, NOW.plus(Seconds(10)));
    let took = began.elapsed();
    let unneeded = again.next_history.pools["a"].unneeded.len();
    println!("{nodes} nodes, {} pods: {unneeded} unneeded in {took:?}", world.pods_count());
    assert!(unneeded > 0);
}

#[test]
#[ignore = "a figure, not a rule"]
fn five_thousand_nodes_a_fifth_underused() {
    measure(5000, 5);
}

#[test]
#[ignore = "a figure, not a rule"]
fn fifteen_thousand_nodes_a_tenth_underused() {
    measure(15_000, 10);
}
