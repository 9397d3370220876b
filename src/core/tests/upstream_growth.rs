//! What profile ClusterAutoscaler asks the cloud for: limits, whole groups, minima, price, order, and time-outs.

use headroom_core::config::{Config, Expander};
use headroom_core::nodes::similarity::Similarity;
use headroom_core::nodes::upstream::{Fix, ScaleDownResult, ScaleUpResult, ScaleUpStatus, Skip};
use headroom_core::plan::{Outcome, Step, StepResult};
use headroom_core::testing::{NOW, NodeBuilder, PoolBuilder, controller, memory, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::pod::PodPhase;
use headroom_core::world::provider::FailureClass;
use headroom_core::world::workload::ControllerKind;
use headroom_core::{absorb, plan};

use crate::upstream_cloud::{Cloud, at_once, web};

const GPU: &str = "nvidia.com/gpu";
const GPU_LABEL: &str = "example.com/accelerator";

/// A pool with one group of the same name and no nodes.
fn cloud(pools: impl IntoIterator<Item = PoolBuilder>) -> Cloud {
    let config = at_once(pools);
    let empty = world().controller(controller(ControllerKind::ReplicaSet, "web", 99, web("web")));
    let scene = config.pools.iter().fold(empty, |scene, pool| scene.group(&pool.name, &pool.name, "", 0));
    Cloud::new(scene.build(), config)
}

/// Pool `general`, its group `general` with these nodes and this target.
fn with_nodes(nodes: impl IntoIterator<Item = NodeBuilder>, target: u32) -> Cloud {
    let mut cloud = cloud([pool("general")]);
    for node in nodes {
        cloud.put_node(node.of("general", "general"));
    }
    cloud.put_group("general", target);
    cloud
}

fn put_pods(cloud: &mut Cloud, count: usize, cpu: &str) {
    for index in 0..count {
        cloud.put_pod(web(&format!("web-{index}")).cpu(cpu).memory("1Gi"));
    }
}

/// `(group, new target)` of all that grows, in order.
fn grown(status: &ScaleUpStatus) -> Vec<(&str, i64)> {
    status.increased.iter().map(|resized| (&*resized.group, resized.new)).collect()
}

#[test]
fn pods_with_gpus_are_waited_for_until_they_are_half_a_minute_old() {
    for (age, expected) in [(29, ScaleUpResult::InCooldown), (30, ScaleUpResult::Successful)] {
        let mut cloud = cloud([pool("gpu").extended(GPU, 1)]);
        cloud.put_pod(web("web").extended(GPU, 1).with(|pod| pod.created_at = UnixTime(NOW.0 - age)));
        assert_eq!(cloud.scale_up(0).result, expected, "{age} s");
    }
}

#[test]
fn nodes_on_their_way_count_against_the_cluster_limits() {
    let mut cloud = cloud([pool("general")]);
    cloud.config.cluster.max_cpu_milli = Some(8000);
    put_pods(&mut cloud, 1, "3");
    assert_eq!(grown(&cloud.scale_up(0)), [("general", 1)]);
    cloud.grow(0);
    put_pods(&mut cloud, 4, "3");
    assert_eq!(grown(&cloud.scale_up(10)), [("general", 2)]);
}

#[test]
fn a_whole_group_that_is_there_in_part_needs_room_for_the_rest_only() {
    let mut cloud = with_nodes([node("old").cpu("1")], 1);
    cloud.config.cluster.upstream.zero_or_max = ["general".into()].into();
    cloud.config.cluster.upstream.down.enabled = false;
    cloud.change_group("general", |state| state.max = 3);
    cloud.config.cluster.max_nodes = Some(3);
    // The old node is too small, and too young to be an example.
    cloud.change_node("old", |node| node.ready_changed_at = NOW);
    put_pods(&mut cloud, 1, "3");
    assert_eq!(grown(&cloud.scale_up(0)), [("general", 3)]);
}

#[test]
fn a_whole_group_is_not_balanced_with_others() {
    for (whole, expected) in [(None, 2), (Some("a"), 1), (Some("b"), 1)] {
        let mut cloud = cloud([pool("a"), pool("b")]);
        cloud.config.cluster.upstream.balancing = Some(Similarity::default());
        cloud.config.cluster.upstream.zero_or_max = whole.into_iter().map(Into::into).collect();
        for group in ["a", "b"] {
            cloud.change_group(group, |state| state.max = 2);
        }
        put_pods(&mut cloud, 2, "3");
        assert_eq!(cloud.scale_up(0).increased.len(), expected, "{whole:?}");
    }
}

#[test]
fn groups_that_differ_are_not_balanced() {
    let mut cloud = cloud([pool("a"), pool("b").label("other", "yes")]);
    cloud.config.cluster.upstream.balancing = Some(Similarity::default());
    put_pods(&mut cloud, 2, "3");
    assert_eq!(grown(&cloud.scale_up(0)), [("a", 2)]);
}

/// The estimate counts an existing node on which the last of the pods finds room once the others have theirs.
#[test]
fn the_limit_on_nodes_holds_though_the_estimate_counts_an_existing_node() {
    let spread = |name: &str| pod(name).label("app", "web").spread("app", "web", "kubernetes.io/hostname", 1);
    let mut cloud = with_nodes([node("a"), node("full")], 2);
    cloud.config.cluster.upstream.down.enabled = false;
    cloud.config.cluster.max_nodes = Some(3);
    cloud.put_pod(spread("here").owner("ReplicaSet", "web").cpu("100m").on("a"));
    cloud.put_pod(web("filler").cpu("3500m").on("full"));
    for index in 0..3 {
        let large = spread(&format!("large-{index}")).owner("ReplicaSet", "large");
        cloud.put_pod(large.cpu("1").priority(1));
    }
    cloud.put_pod(spread("small").owner("ReplicaSet", "small").cpu("200m"));
    let status = cloud.scale_up(0);
    assert_eq!(status.options[0].nodes, 2, "{status:?}");
    assert_eq!(grown(&status), [("general", 3)]);
}

#[test]
fn a_group_for_which_no_limit_leaves_room_is_not_asked_to_grow() {
    let larger = memory("16Gi") + memory("64Mi");
    let mut cloud = cloud([
        pool("a"),
        pool("b").with(|pool| pool.template.as_mut().expect("a template").capacity.memory_bytes = larger),
    ]);
    cloud.config.cluster.upstream.balancing = Some(Similarity::default());
    cloud.config.cluster.max_memory_bytes = Some(2 * memory("16Gi"));
    put_pods(&mut cloud, 2, "3");
    assert_eq!(grown(&cloud.scale_up(0)), [("a", 1)]);
}

#[test]
fn a_group_that_is_held_back_is_not_filled_up_either() {
    let mut cloud = cloud([pool("general")]);
    cloud.config.cluster.upstream.enforce_min = true;
    cloud.change_minimum("general", 2);
    let planned = plan(&cloud.world, &cloud.history, &cloud.config, NOW);
    cloud.history = planned.next_history;
    let [Step::Increase { pool, intent, .. }] = &planned.steps[..] else { panic!("{:?}", planned.steps) };
    let result = StepResult::IncreaseFailed { class: FailureClass::Other, message: "no".into(), created: 0 };
    let outcome = Outcome { pool: pool.clone(), intent: intent.clone(), result };
    absorb(&mut cloud.history, &[outcome], &cloud.world, &cloud.config, NOW);
    assert_eq!(cloud.tick(10).min_size.expect("a report").increased, []);
}

#[test]
fn filling_up_compares_the_limit_on_nodes_with_the_size_of_the_group() {
    for (max_nodes, expected) in [(1, None), (3, Some(3)), (9, Some(5))] {
        let mut cloud = with_nodes([node("old")], 1);
        cloud.config.cluster.upstream.enforce_min = true;
        cloud.change_minimum("general", 5);
        cloud.config.cluster.max_nodes = Some(max_nodes);
        let status = cloud.tick(0).min_size.expect("a report");
        let expected: Vec<(&str, i64)> = expected.into_iter().map(|new| ("general", new)).collect();
        assert_eq!(grown(&status), expected, "{max_nodes}");
    }
}

/// Two groups that are balanced; the second wastes less, so that it is the first to grow.
fn balanced() -> Cloud {
    let less = memory("16Gi") - memory("64Mi");
    let mut cloud = cloud([
        pool("a"),
        pool("b").with(|pool| pool.template.as_mut().expect("a template").capacity.memory_bytes = less),
    ]);
    cloud.config.cluster.upstream.balancing = Some(Similarity::default());
    cloud
}

#[test]
fn increases_are_asked_for_in_the_order_in_which_they_were_decided() {
    let mut cloud = balanced();
    put_pods(&mut cloud, 2, "3");
    assert_eq!(grown(&cloud.scale_up(0)), [("b", 1), ("a", 1)]);
    assert_eq!(cloud.grow(0), [("b".to_owned(), 0, 1), ("a".to_owned(), 0, 1)]);
}

#[test]
fn a_superseded_increase_leaves_the_journal_and_the_other_stays() {
    let mut cloud = balanced();
    put_pods(&mut cloud, 2, "3");
    cloud.scale_up(0);
    let Step::Increase { pool, intent, .. } = &cloud.steps[0] else { panic!("{:?}", cloud.steps) };
    let outcome = Outcome { pool: pool.clone(), intent: intent.clone(), result: StepResult::Superseded };
    absorb(&mut cloud.history, &[outcome], &cloud.world, &cloud.config, NOW);
    assert!(cloud.history.pools["b"].intents.is_empty());
    assert_eq!(cloud.history.pools["a"].intents.len(), 1);
}

/// A group grew from one node to two, and the second never came.
fn late() -> Cloud {
    let mut cloud = with_nodes([node("old")], 1);
    put_pods(&mut cloud, 2, "3");
    assert_eq!(grown(&cloud.scale_up(0)), [("general", 2)]);
    cloud.grow(0);
    cloud
}

#[test]
fn a_target_is_lowered_by_what_did_not_come_in_time() {
    let mut cloud = late();
    assert_eq!(cloud.tick(900).fixes, []);
    assert_eq!(cloud.tick(901).fixes, [Fix { group: "general".into(), by: 1 }]);
}

#[test]
fn what_is_taken_back_counts_no_more_when_nodes_are_removed() {
    let mut cloud = late();
    cloud.change_minimum("general", 1);
    for name in ["web-0", "web-1"] {
        cloud.take_pod(name);
    }
    let told = cloud.scale_down(901);
    assert_eq!((told.result, told.unneeded), (ScaleDownResult::NoCandidates, vec![]));
}

#[test]
fn a_target_that_is_wrong_for_too_long_is_lowered_to_the_nodes_there_are() {
    let mut cloud = with_nodes([node("old")], 3);
    cloud.config.cluster.upstream.down.enabled = false;
    assert_eq!(cloud.tick(0).fixes, []);
    assert_eq!(cloud.tick(900).fixes, []);
    assert_eq!(cloud.tick(901).fixes, [Fix { group: "general".into(), by: 2 }]);
}

#[test]
fn a_pod_at_the_cutoff_keeps_its_room() {
    for (priority, expected) in [(-10, ScaleUpResult::Successful), (-11, ScaleUpResult::NotNeeded)] {
        let mut cloud = with_nodes([node("old")], 1);
        cloud.put_pod(web("low").cpu("3").priority(priority).on("old"));
        put_pods(&mut cloud, 1, "3");
        assert_eq!(cloud.scale_up(0).result, expected, "{priority}");
    }
}

#[test]
fn pods_that_end_or_are_gated_cause_no_nodes() {
    let mut cloud = cloud([pool("general")]);
    cloud.config.cluster.upstream.bypassed_schedulers = vec!["default-scheduler".into()];
    cloud.put_pod(web("ending").cpu("1").with(|pod| pod.deletion_at = Some(NOW)));
    cloud.put_pod(web("gated").cpu("1").with(|pod| (pod.unschedulable, pod.gated) = (false, true)));
    cloud.put_pod(web("finished").cpu("1").with(|pod| {
        pod.phase = PodPhase::Failed;
    }));
    assert_eq!(cloud.scale_up(0).result, ScaleUpResult::NotNeeded);
    cloud.put_pod(web("new").cpu("1").with(|pod| pod.unschedulable = false));
    assert_eq!(cloud.scale_up(0).result, ScaleUpResult::Successful);
}

#[test]
fn by_price_nodes_with_gpus_are_the_last_to_be_bought() {
    let gpus: [fn(PoolBuilder) -> PoolBuilder; 2] =
        [|pool| pool.label(GPU_LABEL, "yes"), |pool| pool.extended(GPU, 1)];
    for equipped in gpus {
        let mut cloud = cloud([
            equipped(pool("cheap-gpu")).with(|pool| pool.price_per_hour_micro = Some(100_000)),
            pool("plain").with(|pool| pool.price_per_hour_micro = Some(200_000)),
        ]);
        cloud.config.cluster.expanders = vec![Expander::Price];
        cloud.config.cluster.upstream.gpu_label = Some(GPU_LABEL.into());
        put_pods(&mut cloud, 1, "3");
        assert_eq!(grown(&cloud.scale_up(0)), [("plain", 1)]);
    }
    let mut cloud = cloud([
        pool("cheap").with(|pool| pool.price_per_hour_micro = Some(100_000)),
        pool("plain").with(|pool| pool.price_per_hour_micro = Some(200_000)),
    ]);
    cloud.config.cluster.expanders = vec![Expander::Price];
    put_pods(&mut cloud, 1, "3");
    assert_eq!(grown(&cloud.scale_up(0)), [("cheap", 1)]);
}

/// A node that was asked for has registered as given, and the pod for which it was asked still waits.
fn registered(young: NodeBuilder, config: impl FnOnce(&mut Config)) -> Cloud {
    let mut cloud = cloud([pool("general").extended(GPU, 1)]);
    config(&mut cloud.config);
    cloud.config.pools[0].scale_down.unready_for = Seconds(0);
    put_pods(&mut cloud, 1, "3");
    assert_eq!(grown(&cloud.scale_up(0)), [("general", 1)]);
    cloud.grow(0);
    cloud.put_node(young.of("general", "general").age(0));
    cloud.put_group("general", 1);
    cloud
}

#[test]
fn a_node_that_is_starting_is_not_bought_again_and_not_taken_for_two() {
    type Change = fn(&mut Config);
    let nodes: [(NodeBuilder, Change); 4] = [
        (node("young").unready_for(0), |_| {}),
        (node("young").taint("own", "starting"), |config| {
            config.cluster.upstream.startup_taints = vec!["own".into()];
        }),
        (node("young").taint("startup-taint.cluster-autoscaler.kubernetes.io/own", "yes"), |_| {}),
        (node("young").label(GPU_LABEL, "yes").cpu("1"), |config| {
            config.cluster.upstream.gpu_label = Some(GPU_LABEL.into());
        }),
    ];
    for (young, config) in nodes {
        let mut cloud = registered(young.clone(), config);
        let told = cloud.tick(60);
        assert_eq!(told.scale_up.expect("a report").result, ScaleUpResult::NotNeeded, "{young:?}");
        let down = told.scale_down.expect("a report");
        assert!(down.unneeded.is_empty(), "{young:?}: {down:?}");
        put_pods(&mut cloud, 2, "3");
        assert_eq!(grown(&cloud.scale_up(70)), [("general", 2)], "{young:?}");
    }
}

#[test]
fn nothing_moves_to_a_node_that_is_starting() {
    let mut cloud = registered(node("young").unready_for(0), |_| {});
    cloud.take_pod("web-0");
    cloud.put_node(node("old").cpu("4").of("general", "general"));
    cloud.put_pod(web("moving").cpu("1").on("old"));
    cloud.put_group("general", 2);
    let told = cloud.scale_down(60);
    assert_eq!((told.unneeded, told.started), (vec![], vec![]));
}

#[test]
fn a_node_that_starts_without_being_asked_for_takes_pods() {
    let mut cloud = with_nodes([node("young").age(0).unready_for(0)], 1);
    put_pods(&mut cloud, 1, "3");
    assert_eq!(cloud.scale_up(10).result, ScaleUpResult::NotNeeded);
}

#[test]
fn all_that_is_short_is_told() {
    let mut cloud = cloud([pool("general").with(|pool| {
        let allocatable = &mut pool.template.as_mut().expect("a template").allocatable;
        (allocatable.pods, allocatable.ephemeral_bytes) = (0, 10);
    })]);
    cloud.put_pod(web("web").cpu("5").with_class(|class| class.requests.ephemeral_bytes = 20));
    let status = cloud.scale_up(0);
    let why = format!("{:?}", status.refused[0].rejected["general"]);
    for resource in ["pods", "cpu", "ephemeral-storage"] {
        assert_eq!(why.matches(&format!("resource: \"{resource}\"")).count().min(1), 1, "{resource}: {why}");
    }
}

#[test]
fn a_whole_group_without_room_for_all_of_it_is_left_out() {
    let mut cloud = cloud([pool("general")]);
    cloud.config.cluster.upstream.zero_or_max = ["general".into()].into();
    cloud.change_group("general", |state| state.max = 3);
    cloud.config.cluster.max_nodes = Some(2);
    put_pods(&mut cloud, 1, "3");
    let status = cloud.scale_up(0);
    assert_eq!(status.refused[0].skipped["general"], Skip::AtomicOverNodeLimit);
}
