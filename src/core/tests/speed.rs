//! Duration of a scale-down pass on large clusters. Ignored: a figure, not a rule; run it in release.

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::time::Instant;

use headroom_core::history::History;
use headroom_core::labels::ObjectKey;
use headroom_core::plan;
use headroom_core::resources::Resources;
use headroom_core::testing::{NOW, budget, config, controller, node, pod, pool, world};
use headroom_core::time::Seconds;
use headroom_core::world::buffer::{BufferSource, CapacityBuffer, OWN_STRATEGY, Template};
use headroom_core::world::workload::{ControllerKind, PrioritySource};
use headroom_core::world::{Delta, World};
use serde_json::Value;

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
    measure_world(&cluster(nodes, every));
}

fn measure_world(world: &World) {
    let eager = pool("a").bounds(0, 100_000).with(|pool| pool.scale_down.delay_after_add = Seconds(0));
    let config = config([eager]);
    let nodes = world.nodes().count();
    let first = plan(world, &History::default(), &config, NOW);
    let began = Instant::now();
    let again = plan(world, &first.next_history, &config, NOW.plus(Seconds(10)));
    let took = began.elapsed();
    let unneeded: usize = again.next_history.pools.values().map(|memory| memory.unneeded.len()).sum();
    println!("{nodes} nodes, {} pods: {unneeded} unneeded in {took:?}", world.pods_count());
}

/// The cluster with buffers of two pods each, as many as asked for.
fn with_buffers(mut world: World, count: u32) -> World {
    for index in 0..count {
        let key = ObjectKey::new("default", format!("b-{index}"));
        world.apply(Delta::PodTemplateApplied(Box::new(Template {
            key: key.clone(),
            generation: 1,
            class: pod("x").cpu("500m").memory("1Gi").label("app", &format!("b-{index}")).class(),
            priority_class: PrioritySource::Template,
        })));
        world.apply(Delta::BufferApplied(Box::new(CapacityBuffer {
            source: BufferSource::Template((&*key.name).into()),
            key,
            strategy: OWN_STRATEGY.into(),
            replicas: Some(2),
            ..CapacityBuffer::default()
        })));
    }
    world
}

#[test]
#[ignore = "a figure, not a rule"]
fn two_hundred_buffers_at_five_thousand_nodes() {
    for buffers in [0, 200] {
        println!("{buffers} buffers");
        measure_world(&with_buffers(cluster(5000, 5000), buffers));
    }
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

/// A cluster in the format of the golden vectors' loops, from the file that HEADROOM_SPEED_INPUT names.
#[test]
#[ignore = "a figure, not a rule"]
fn cluster_of_a_file() {
    let Ok(path) = std::env::var("HEADROOM_SPEED_INPUT") else { return };
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("JSON");
    let input = file.get("in").unwrap_or(&file);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or("").to_owned();
    let amounts = |value: &Value| {
        let int = |key: &str| value[key].as_i64().unwrap_or(0);
        Resources::new(int("cpu_m"), int("mem"))
    };
    let mut builder = world();
    for made in list(&input["controllers"]) {
        let replicas = u32::try_from(made["replicas"].as_u64().unwrap_or(0)).expect("small");
        builder = builder.controller(controller(
            ControllerKind::ReplicaSet,
            &text(&made, "name"),
            replicas,
            pod("x"),
        ));
    }
    for made in list(&input["nodes"]) {
        let amounts = amounts(&made).with_pods(110);
        let node = node(&text(&made, "name")).of("a", &text(&made, "group"));
        builder = builder.node(node.with(|node| node.allocatable = amounts));
    }
    for made in list(&input["pods"]) {
        let amounts = amounts(&made).with_pods(1);
        let app = text(&made["owner"], "name");
        let pod = pod(&text(&made, "name")).label("app", &app).owner("ReplicaSet", &app);
        builder = builder.pod(pod.on(&text(&made, "node")).with_class(|class| class.requests = amounts));
    }
    for group in list(&input["groups"]) {
        let target = u32::try_from(group["target"].as_u64().unwrap_or(0)).expect("small");
        builder = builder.group("a", &text(&group, "id"), "", target);
    }
    measure_world(&builder.build());
}
