//! Claims of devices: which nodes are bought for them, and why none is.

use headroom_core::config::Config;
use headroom_core::reason::Reason;
use headroom_core::scheduling::devices::{
    Attribute, Class, ClassSpec, TaintRule, Toleration, TolerationOperator,
};
use headroom_core::testing::devices::{
    DRIVER, claim_spec, declared, device, free_claim, held_claim, selector, slice, slice_of, taint_rule,
};
use headroom_core::testing::{
    NodeBuilder, PodBuilder, WorldBuilder, config, daemon_set, node, pod, pool, world,
};
use headroom_core::world::devices::{DeviceKind, DeviceObject};
use headroom_core::world::record::WorldRecord;
use headroom_core::world::{Delta, World};

use crate::scale_up::{answer, check, plan_fresh, verdict};

/// A pool whose nodes have so many devices.
fn gpus(count: usize) -> Config {
    config([pool("gpu").with(|pool| pool.devices = Some(declared(count)))])
}

/// A pool whose devices are learned.
fn unknown_gpus() -> Config {
    config([pool("gpu")])
}

fn cluster() -> WorldBuilder {
    world().with_devices().claim_template("one", claim_spec(1, &[]))
}

fn member(name: &str) -> NodeBuilder {
    node(name).of("gpu", "a")
}

fn train(name: &str) -> PodBuilder {
    pod(name).cpu("100m").devices_of_template("one")
}

/// A node of group a with four devices, of which bound pods hold the first `held`.
fn with_node(world: WorldBuilder, name: &str, held: usize) -> WorldBuilder {
    let world = world.node(member(name)).slice(slice(name, 4));
    (0..held).fold(world, |world, number| {
        let (pod, claim) = (format!("p-{name}-{number}"), format!("c-{name}-{number}"));
        world.pod(train(&pod).on(name)).resource_claim(held_claim(&claim, name, &[number], &[&pod]))
    })
}

#[test]
fn declared_devices_decide_how_many_nodes_are_bought_from_zero() {
    let world = cluster().group("gpu", "a", "", 0).pods(train("train").times(10)).build();
    check(&plan_fresh(&world, &gpus(4)), &[("gpu", "a", 0, 3)]);
}

#[test]
fn pods_get_the_free_devices_of_a_node_and_new_nodes_for_the_rest() {
    let at = |held| {
        with_node(cluster(), "n1", held).group("gpu", "a", "", 1).pods(train("train").times(3)).build()
    };
    check(&plan_fresh(&at(1), &unknown_gpus()), &[]);
    check(&plan_fresh(&at(2), &unknown_gpus()), &[("gpu", "a", 1, 2)]);
}

#[test]
fn devices_are_learned_from_a_living_node() {
    let world = with_node(cluster(), "n1", 4).group("gpu", "a", "", 1).pods(train("train").times(9)).build();
    check(&plan_fresh(&world, &unknown_gpus()), &[("gpu", "a", 1, 4)]);
}

#[test]
fn devices_that_a_daemon_set_claims_are_not_sold() {
    let set = daemon_set("monitor", pod("monitor").cpu("10m").devices_of_template("one"));
    let template = |world: WorldBuilder| {
        let key = headroom_core::labels::ObjectKey::new("kube-system", "one");
        let spec = std::sync::Arc::new(claim_spec(1, &[]));
        let template = headroom_core::world::devices::ClaimTemplate { key, spec, ..Default::default() };
        world.device(DeviceObject::Template(template))
    };
    let world = template(cluster()).daemon_set(set).group("gpu", "a", "", 0).pods(train("train").times(6));
    check(&plan_fresh(&world.build(), &gpus(4)), &[("gpu", "a", 0, 2)]);
}

#[test]
fn nothing_is_bought_while_a_new_node_has_not_published_its_devices() {
    let young = |age: i64| member("n2").age(age);
    let at = |age| {
        let world = with_node(cluster(), "n1", 4).node(young(age));
        world.group("gpu", "a", "", 2).pods(train("train").times(4)).build()
    };
    check(&plan_fresh(&at(60), &unknown_gpus()), &[]);
    check(&plan_fresh(&at(60), &gpus(4)), &[]);
    // After the startup timeout it is what it is.
    check(&plan_fresh(&at(3_600), &unknown_gpus()), &[("gpu", "a", 2, 3)]);
}

#[test]
fn a_pool_of_several_slices_offers_nothing_until_all_are_there() {
    let mut part = slice("n1", 4);
    part.spec.pool.resource_slice_count = 2;
    let world =
        cluster().node(member("n1")).slice(part).group("gpu", "a", "", 1).pods(train("train").times(2));
    let plan =
        plan_fresh(&world.build(), &config([pool("gpu").with(|pool| pool.devices = Some(Vec::new()))]));
    check(&plan, &[]);
    assert_eq!(answer(&plan, "train-0", "gpu").0, Reason::DevicesDoNotMatch);
}

#[test]
fn a_claim_that_pods_share_is_allocated_once() {
    let share = |name: &str| pod(name).cpu("1").devices_of_claim("shared");
    let world = cluster().resource_claim(free_claim("shared", claim_spec(4, &[]))).group("gpu", "a", "", 0);
    let world = world.pods(share("share").times(3)).build();
    check(&plan_fresh(&world, &gpus(4)), &[("gpu", "a", 0, 1)]);
}

#[test]
fn a_claim_in_use_keeps_its_pods_on_its_node() {
    let share = |name: &str| pod(name).cpu("2").devices_of_claim("shared");
    let world = cluster().node(member("n1")).slice(slice("n1", 4)).pod(share("first").on("n1"));
    let world = world.resource_claim(held_claim("shared", "n1", &[0], &["first"])).group("gpu", "a", "", 1);
    check(&plan_fresh(&world.clone().pod(share("second")).build(), &unknown_gpus()), &[]);
    let plan = plan_fresh(&world.pods(share("more").times(2)).build(), &unknown_gpus());
    check(&plan, &[]);
    let (reason, message) = answer(&plan, "more-0", "gpu");
    assert_eq!(reason, Reason::ClaimElsewhere);
    assert_eq!(message, "claim shared is allocated on node n1, used by 2 pods");
}

#[test]
fn an_allocation_that_only_a_pending_pod_has_is_no_obstacle() {
    let mut world = with_node(cluster(), "n1", 3).group("gpu", "a", "", 1);
    world = world.pod(train("late")).resource_claim(held_claim("late", "n1", &[3], &["late"]));
    check(&plan_fresh(&world.build(), &unknown_gpus()), &[]);
}

#[test]
fn devices_of_pods_under_the_expendable_cutoff_are_not_free() {
    let world = cluster().node(member("n1")).slice(slice("n1", 1)).group("gpu", "a", "", 1);
    let world = world.pod(train("batch").priority(-20).on("n1"));
    let world = world.resource_claim(held_claim("batch", "n1", &[0], &["batch"])).pod(train("train"));
    check(&plan_fresh(&world.build(), &unknown_gpus()), &[("gpu", "a", 1, 2)]);
}

#[test]
fn a_claim_that_no_device_meets_names_request_selector_and_nearest_class() {
    let expression = "device.attributes['gpu.example.com'].model == 'B'";
    let with = |selectors: &[&str], class: &str| {
        let mut spec = claim_spec(1, selectors);
        spec.devices.requests[0].exactly.as_mut().expect("exact").device_class_name = class.into();
        let selectors = vec![selector("device.driver == 'nic.example.com'")];
        let spec_of_nic = ClassSpec { selectors, ..ClassSpec::default() };
        let nic = Class { name: "nic".into(), spec: spec_of_nic, ..Class::default() };
        let world = cluster().device(DeviceObject::Class(nic));
        let world = world.claim_template("odd", spec).group("gpu", "a", "", 0);
        let plan = plan_fresh(&world.pod(pod("odd").devices_of_template("odd")).build(), &gpus(4));
        check(&plan, &[]);
        answer(&plan, "odd", "gpu")
    };
    let (reason, message) = with(&[expression], DRIVER);
    assert_eq!(reason, Reason::DevicesDoNotMatch);
    assert_eq!(
        message,
        format!(
            "claim gpu, request gpus: none of 4 devices passes `{expression}`; class gpu.example.com alone has 4"
        )
    );
    let (_, message) = with(&[], "nic");
    assert!(
        message.ends_with("`device.driver == 'nic.example.com'`; nearest class: gpu.example.com (4)"),
        "{message}"
    );
}

#[test]
fn more_devices_than_a_node_has_are_refused_with_numbers() {
    let world = cluster().claim_template("many", claim_spec(5, &[])).group("gpu", "a", "", 0);
    let plan = plan_fresh(&world.pod(pod("many").devices_of_template("many")).build(), &gpus(4));
    check(&plan, &[]);
    let (reason, message) = answer(&plan, "many", "gpu");
    assert_eq!(reason, Reason::DevicesInsufficient);
    assert_eq!(message, "claim gpu, request gpus: wants 5 of class gpu.example.com; 4 match, 0 are taken");
}

#[test]
fn what_only_a_living_machine_has_is_not_sold() {
    let uuid = "GPU-18db0e85-99e9-c746-8531-ffeb86328b39";
    let mut gpu = device("gpu-0", "A");
    gpu.attributes.insert("uuid".into(), Attribute::String(uuid.into()));
    let expression = format!("device.attributes['gpu.example.com'].uuid == '{uuid}'");
    let world = cluster().claim_template("that", claim_spec(1, &[&expression])).node(member("n1"));
    let world = world.slice(slice_of("n1", vec![gpu])).pod(train("first").on("n1"));
    let world = world.resource_claim(held_claim("first", "n1", &[0], &["first"])).group("gpu", "a", "", 1);
    let plan =
        plan_fresh(&world.clone().pod(pod("that").devices_of_template("that")).build(), &unknown_gpus());
    check(&plan, &[]);
    let (reason, message) = answer(&plan, "that", "gpu");
    assert_eq!(reason, Reason::DevicesUnknown);
    assert!(message.contains("attribute uuid is not known yet"), "{message}");
    // The product is.
    let model = "device.attributes['gpu.example.com'].model == 'A'";
    let world = world.claim_template("model", claim_spec(1, &[model]));
    let plan = plan_fresh(&world.pod(pod("model").devices_of_template("model")).build(), &unknown_gpus());
    check(&plan, &[("gpu", "a", 1, 2)]);
}

#[test]
fn a_selector_that_fails_says_so() {
    let world =
        cluster().claim_template("bad", claim_spec(1, &["device.attributes['gpu.example.com'].size > 3"]));
    let world = world.group("gpu", "a", "", 0).pod(pod("bad").devices_of_template("bad"));
    let plan = plan_fresh(&world.build(), &gpus(4));
    check(&plan, &[]);
    let (reason, message) = answer(&plan, "bad", "gpu");
    assert_eq!(reason, Reason::SelectorFails);
    assert!(message.contains("claim gpu, request gpus, selector #0"), "{message}");
}

#[test]
fn claims_whose_objects_are_missing_buy_nothing() {
    let ask = |world: WorldBuilder, ask: PodBuilder| {
        let plan = plan_fresh(&world.group("gpu", "a", "", 0).pod(ask).build(), &gpus(4));
        check(&plan, &[]);
        answer(&plan, "ask", "gpu")
    };
    let not_ready = |found: (Reason, String), words: &str| {
        assert_eq!(found.0, Reason::ClaimNotReady);
        assert!(found.1.contains(words), "{}", found.1);
    };
    let of = |template: &str| pod("ask").devices_of_template(template);
    not_ready(ask(cluster(), of("none")), "template none does not exist");
    not_ready(ask(cluster(), pod("ask").devices_of_claim("none")), "ResourceClaim none does not exist");
    let mut spec = claim_spec(1, &[]);
    spec.devices.requests[0].exactly.as_mut().expect("exact").device_class_name = "tpu".into();
    not_ready(ask(cluster().claim_template("tpu", spec), of("tpu")), "class tpu does not exist");
    let mut going = free_claim("going", claim_spec(1, &[]));
    going.deleting = true;
    let world = cluster().resource_claim(going);
    not_ready(ask(world, pod("ask").devices_of_claim("going")), "is being deleted");
    let absent = cluster().delta(Delta::DeviceKindMissing(DeviceKind::Slice));
    let (reason, message) = ask(absent, of("one"));
    assert_eq!(reason, Reason::UnsupportedConstraint);
    assert!(message.contains("resource.k8s.io/v1"), "{message}");
}

#[test]
fn pods_of_one_template_are_one_class() {
    let world = cluster().group("gpu", "a", "", 0).pods(train("train").times(7)).build();
    let plan = plan_fresh(&world, &gpus(4));
    assert_eq!(verdict(&plan, "train-0").pods_count, 7);
}

/// Three pods that claim a device each, one node with four devices, and a rule.
fn with_rule(rule: TaintRule) -> World {
    let world = with_node(cluster(), "n1", 0).group("gpu", "a", "", 1).pods(train("train").times(3));
    world.device(DeviceObject::TaintRule(rule)).build()
}

#[test]
fn taints_of_rules_count_for_the_devices_that_they_select() {
    let plan = |rule: TaintRule| plan_fresh(&with_rule(rule), &unknown_gpus());
    check(&plan(taint_rule("one", Some("n1"), Some("gpu-0"))), &[]);
    // The pool is the node's: a new one has no such taint.
    check(&plan(taint_rule("node", Some("n1"), None)), &[("gpu", "a", 1, 2)]);
    check(&plan(taint_rule("other", Some("n2"), None)), &[]);
    let mut nobody = taint_rule("nobody", None, None);
    nobody.spec.device_selector = None;
    check(&plan(nobody), &[]);
    let mut advice = taint_rule("advice", None, None);
    advice.spec.taint.effect = "None".into();
    check(&plan(advice), &[]);
}

#[test]
fn a_rule_for_a_driver_taints_devices_of_nodes_to_come() {
    let rule = || taint_rule("all", None, None);
    let plan = plan_fresh(&with_rule(rule()), &gpus(4));
    check(&plan, &[]);
    let (reason, message) = answer(&plan, "train-0", "gpu");
    assert_eq!(reason, Reason::DeviceTaint);
    assert_eq!(message, "claim gpu, request gpus: taint sick:NoSchedule of devices is not tolerated");
    // Claims that tolerate it buy.
    let mut spec = claim_spec(1, &[]);
    let exactly = spec.devices.requests[0].exactly.as_mut().expect("exact");
    let operator = TolerationOperator::Exists;
    exactly.tolerations = vec![Toleration { key: "sick".into(), operator, ..Toleration::default() }];
    let world = cluster().claim_template("hardy", spec).group("gpu", "a", "", 0);
    let world = world.pod(pod("hardy").devices_of_template("hardy"));
    let world = world.device(DeviceObject::TaintRule(rule())).build();
    check(&plan_fresh(&world, &gpus(4)), &[("gpu", "a", 0, 1)]);
}

#[test]
fn a_server_without_taint_rules_has_devices_all_the_same() {
    let world = cluster().delta(Delta::DeviceKindMissing(DeviceKind::TaintRule)).group("gpu", "a", "", 0);
    check(&plan_fresh(&world.pod(train("train")).build(), &gpus(4)), &[("gpu", "a", 0, 1)]);
}

/// The extended resource that the tests' class serves.
const GPU: &str = "example.com/gpu";

/// A server with a class that serves [`GPU`].
fn serving() -> WorldBuilder {
    cluster().serving_class("gpu-a", GPU, 1)
}

fn plain(name: &str, gpus: i64) -> PodBuilder {
    pod(name).cpu("100m").extended(GPU, gpus)
}

#[test]
fn extended_resources_that_a_class_serves_buy_nodes_by_their_devices() {
    let world = serving().group("gpu", "a", "", 0).pods(plain("plain", 2).times(5)).build();
    check(&plan_fresh(&world, &gpus(4)), &[("gpu", "a", 0, 3)]);
    let by_name = format!("deviceclass.resource.kubernetes.io/{DRIVER}");
    let pods = pod("named").cpu("100m").extended(&by_name, 1).times(5);
    check(
        &plan_fresh(&cluster().group("gpu", "a", "", 0).pods(pods).build(), &gpus(4)),
        &[("gpu", "a", 0, 2)],
    );
}

#[test]
fn extended_resources_and_claims_share_the_devices_of_a_node() {
    let both = plain("both", 1).devices_of_template("one").times(4);
    check(
        &plan_fresh(&serving().group("gpu", "a", "", 0).pods(both).build(), &gpus(4)),
        &[("gpu", "a", 0, 2)],
    );
    // On a living node too: its pods hold two of four by a claim, and one by an extended resource.
    let world = with_node(serving(), "n1", 2).pod(plain("bound", 1).on("n1"));
    let world = world.resource_claim(held_claim("bound-extended-resources-x7", "n1", &[2], &["bound"]));
    let world = world.group("gpu", "a", "", 1);
    check(&plan_fresh(&world.clone().pod(plain("one", 1)).build(), &unknown_gpus()), &[]);
    check(
        &plan_fresh(&world.pods(plain("more", 1).times(2)).build(), &unknown_gpus()),
        &[("gpu", "a", 1, 2)],
    );
}

#[test]
fn a_node_that_has_an_extended_resource_itself_serves_it_without_devices() {
    let has = |amount: i64, held: usize| {
        let world = with_node(serving(), "n1", held);
        let world = world.node(member("n1").with(|node| node.allocatable.set_extended(GPU, amount)));
        let world = world.group("gpu", "a", "", 1).pod(plain("plain", 3));
        plan_fresh(&world.build(), &gpus(4))
    };
    check(&has(0, 0), &[]);
    // Four free devices do not help where two are allocatable.
    check(&has(2, 0), &[("gpu", "a", 1, 2)]);
    check(&has(3, 4), &[]);
}

#[test]
fn extended_resources_that_devices_do_not_meet_are_refused_with_the_class() {
    let world = serving().group("gpu", "a", "", 0).pod(plain("plain", 5)).build();
    let plan = plan_fresh(&world, &gpus(4));
    check(&plan, &[]);
    let (reason, message) = answer(&plan, "plain", "gpu");
    assert_eq!(reason, Reason::DevicesInsufficient);
    let expected =
        "claim extended-resources, request example.com/gpu: wants 5 of class gpu-a; 4 match, 0 are taken";
    assert_eq!(message, expected);
    // Without a class it is a resource like others.
    let plan = plan_fresh(&cluster().group("gpu", "a", "", 0).pod(plain("plain", 1)).build(), &gpus(4));
    check(&plan, &[]);
    assert_eq!(answer(&plan, "plain", "gpu").0, Reason::InsufficientResources);
}

#[test]
fn the_newest_class_serves_an_extended_resource_then_the_first_by_name() {
    let serves = |classes: &[(&str, i64)]| {
        let world =
            classes.iter().fold(cluster(), |world, (name, second)| world.serving_class(name, GPU, *second));
        let plan = plan_fresh(&world.group("gpu", "a", "", 0).pod(plain("plain", 5)).build(), &gpus(4));
        answer(&plan, "plain", "gpu").1
    };
    assert!(serves(&[("b", 7), ("a", 5)]).contains("of class b;"));
    assert!(serves(&[("b", 5), ("a", 7)]).contains("of class a;"));
    assert!(serves(&[("b", 7), ("a", 7)]).contains("of class a;"));
    let gone = Delta::DeviceDeleted(DeviceKind::Class, headroom_core::labels::ObjectKey::new("", "b"));
    let world = cluster().serving_class("b", GPU, 7).serving_class("a", GPU, 5).delta(gone);
    let plan = plan_fresh(&world.group("gpu", "a", "", 0).pod(plain("plain", 5)).build(), &gpus(4));
    assert!(answer(&plan, "plain", "gpu").1.contains("of class a;"));
}

#[test]
fn devices_survive_a_record() {
    let world = with_node(cluster(), "n1", 2).resource_claim(free_claim("idle", claim_spec(2, &["true"])));
    let rule = DeviceObject::TaintRule(taint_rule("one", Some("n1"), Some("gpu-0")));
    let world: World = world.device(rule).build();
    let record = WorldRecord::of(&world);
    let text = serde_json::to_string(&record).expect("written");
    let read: WorldRecord = serde_json::from_str(&text).expect("read");
    assert_eq!(read, record);
    assert_eq!(read.world().expect("a world").canonical(), world.canonical());
}
