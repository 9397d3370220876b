//! A group whose nodes get a zone, or a type, that its cloud chooses: bought for pods that are right wherever they come.

use std::sync::Arc;

use headroom_core::config::Config;
use headroom_core::plan::Plan;
use headroom_core::reason::Reason;
use headroom_core::scheduling::constraints::Operator;
use headroom_core::testing::{
    PodBuilder, WorldBuilder, bound_claim, claim, config, node, pod, pool, storage_class, volume, world,
};
use headroom_core::world::node::ZONE_LABEL;
use headroom_core::world::provider::{GroupState, GroupTemplate, OpenLabels, TemplateTrust};

use crate::scale_up::{answer, check, plan_fresh};

const DRIVER_ZONE: &str = "topology.ebs.csi.aws.com/zone";
const TYPE: &str = "node.kubernetes.io/instance-type";
const ARCH: &str = "kubernetes.io/arch";

fn values(values: &[&str]) -> Vec<Arc<str>> {
    values.iter().map(|value| Arc::from(*value)).collect()
}

/// A group whose next node comes to zone a or b.
fn wide_state() -> GroupState {
    GroupState { zones: values(&["a", "b"]), max: 100, ..GroupState::default() }
}

fn wide() -> WorldBuilder {
    world().group_state("general", "wide", wide_state())
}

fn one_pool() -> Config {
    config([pool("general")])
}

fn plan_of(world: WorldBuilder) -> Plan {
    plan_fresh(&world.build(), &one_pool())
}

fn bought(world: WorldBuilder) -> bool {
    !plan_of(world).steps.is_empty()
}

fn web() -> PodBuilder {
    pod("web").cpu("1").label("app", "web")
}

#[test]
fn pod_that_needs_one_of_the_zones_is_not_helped_and_the_reason_is_reported() {
    let plan = plan_of(wide().pod(web().selector(ZONE_LABEL, "a")));
    check(&plan, &[]);
    let (reason, message) = answer(&plan, "web", "general");
    assert_eq!(reason, Reason::NodeSelectorMismatch);
    assert_eq!(message, "needs topology.kubernetes.io/zone=a; pool has a or b as its cloud chooses");
}

#[test]
fn pod_whose_affinity_holds_in_every_zone_is_helped_and_no_other() {
    let asks = |operator, zones: &[&str]| bought(wide().pod(web().affinity(ZONE_LABEL, operator, zones)));
    assert!(asks(Operator::In, &["a", "b", "c"]));
    assert!(!asks(Operator::In, &["a"]));
    assert!(asks(Operator::NotIn, &["c"]));
    assert!(!asks(Operator::NotIn, &["a"]), "AWS may choose it");
    assert!(asks(Operator::Exists, &[]));
    assert!(!asks(Operator::DoesNotExist, &[]));
}

#[test]
fn pods_that_spread_or_avoid_each_other_over_zones_are_not_helped_and_the_reason_is_reported() {
    for pods in [
        web().spread("app", "web", ZONE_LABEL, 1),
        web().away_from("app", "web", ZONE_LABEL),
        web().near("app", "web", ZONE_LABEL),
    ] {
        let plan = plan_of(wide().pod(pods));
        check(&plan, &[]);
        let (reason, message) = answer(&plan, "web", "general");
        assert_eq!(reason, Reason::UnsupportedConstraint, "{message}");
        assert!(message.contains("a new node gets a or b as its cloud chooses"), "{message}");
    }
}

#[test]
fn pod_that_another_keeps_out_of_a_zone_is_not_helped() {
    let guard = pod("guard").label("app", "guard").away_from("app", "web", ZONE_LABEL).on("full");
    let full = node("full").zone("a").cpu("0");
    assert!(!bought(wide().node(full.clone()).pod(guard).pod(web())));
    assert!(bought(wide().node(full).pod(web())));
}

#[test]
fn zonal_group_beside_it_takes_what_needs_the_zone() {
    let world = wide().group("general", "zonal", "a", 0);
    let plan = plan_of(world.pod(web().affinity(ZONE_LABEL, Operator::NotIn, &["b"])));
    check(&plan, &[("general", "zonal", 0, 1)]);
}

#[test]
fn volume_in_one_zone_is_not_reached_from_a_node_that_may_come_to_the_other() {
    let bound = |key| wide().claim(bound_claim("data", "pv")).volume(volume("pv", key, "a"));
    for key in [ZONE_LABEL, DRIVER_ZONE] {
        assert!(!bought(bound(key).pod(web().claim("data"))), "{key}");
    }
    let mut placed = volume("pv", ZONE_LABEL, "a");
    placed.node_affinity = None;
    placed.zones = vec![(ZONE_LABEL.into(), values(&["a"]))];
    assert!(!bought(wide().claim(bound_claim("data", "pv")).volume(placed).pod(web().claim("data"))));
    let waiting = |zones: &[&str]| {
        bought(
            wide()
                .storage_class(storage_class("wait", zones))
                .claim(claim("data", "wait"))
                .pod(web().claim("data")),
        )
    };
    assert!(waiting(&[]), "it is made where the pod goes");
    assert!(waiting(&["a", "b"]));
    assert!(!waiting(&["a"]));
}

#[test]
fn live_node_of_the_group_says_nothing_of_the_next_ones_zone() {
    let live = node("n1")
        .of("general", "wide")
        .zone("a")
        .label(DRIVER_ZONE, "a")
        .label("topology.k8s.aws/zone-id", "use1-az1");
    let state = |template: Option<GroupTemplate>| GroupState {
        target: 1,
        template: template.map(Into::into),
        ..wide_state()
    };
    let undeclared = config([pool("general").with(|pool| pool.template = None)]);
    for template in [None, Some(GroupTemplate::default())] {
        let there = world().node(live.clone()).group_state("general", "wide", state(template));
        let filled = there.pod(pod("filler").cpu("4").on("n1"));
        let bound = filled.clone().claim(bound_claim("data", "pv")).volume(volume("pv", DRIVER_ZONE, "a"));
        check(&plan_fresh(&bound.pod(web().claim("data")).build(), &undeclared), &[]);
        let id = web().selector("topology.k8s.aws/zone-id", "use1-az1");
        check(&plan_fresh(&filled.clone().pod(id).build(), &undeclared), &[]);
        check(&plan_fresh(&filled.pod(web()).build(), &undeclared), &[("general", "wide", 1, 2)]);
    }
}

#[test]
fn type_and_architecture_that_the_cloud_chooses_are_not_counted_on() {
    let group = |types: &[&str]| {
        let open_labels =
            OpenLabels::from([(TYPE.into(), values(types)), (ARCH.into(), values(&["amd64", "arm64"]))]);
        let node = pool("x").build().template.expect("the builder's");
        let template = GroupTemplate { node, open_labels, trust: TemplateTrust::Mixed, version: None };
        let state = GroupState {
            zone: Some("a".into()),
            max: 9,
            template: Some(template.into()),
            ..GroupState::default()
        };
        world().group_state("general", "mixed", state)
    };
    let undeclared = config([pool("general").with(|pool| pool.template = None)]);
    let bought = |types: &[&str], pods: PodBuilder| {
        !plan_fresh(&group(types).pod(pods).build(), &undeclared).steps.is_empty()
    };
    let named = ["m5.large", "m6g.large"];
    assert!(bought(&named, web()));
    assert!(bought(&named, web().affinity(TYPE, Operator::NotIn, &["t3.micro"])));
    assert!(!bought(&named, web().affinity(TYPE, Operator::NotIn, &["m5.large"])));
    assert!(!bought(&[], web().affinity(TYPE, Operator::NotIn, &["t3.micro"])), "it may be any");
    assert!(!bought(&named, web().affinity(ARCH, Operator::NotIn, &["arm64"])));
    assert!(bought(&named, web().affinity(ARCH, Operator::In, &["amd64", "arm64"])));
}
