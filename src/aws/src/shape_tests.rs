//! Template of a new node, from types, tags, EKS and the pool.

use std::collections::BTreeMap;

use headroom_core::labels::Labels;
use headroom_core::time::UnixTime;

use super::super::calls::NodeGroup;
use super::*;
use headroom_provider::{NodeShape, ProviderSettings};

fn machine(name: &str, cpus: u32, memory_mib: u64) -> InstanceType {
    InstanceType {
        name: name.into(),
        cpus,
        memory_mib,
        interfaces: 3,
        addresses: 10,
        ..InstanceType::default()
    }
}

fn pool(node: NodeShape) -> PoolAtProvider {
    let settings = ProviderSettings::Aws(Settings::default());
    PoolAtProvider { name: "general".into(), created_at: UnixTime(0), max_nodes: 10, settings, node }
}

fn node(tags: &[(&str, &str)], resolved: &Resolved, shape: NodeShape) -> GroupTemplate {
    let group = Group {
        name: "a".into(),
        zones: vec!["eu-west-1a".into()],
        tags: tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..Group::default()
    };
    let settings = Settings { region: Some("eu-west-1".into()), ..Settings::default() };
    template(&group, &pool(shape), &settings, resolved).expect("a template")
}

fn of(types: &[InstanceType]) -> Resolved {
    Resolved { types: types.to_vec(), version: "3".into(), ..Resolved::default() }
}

#[test]
fn amounts_leave_what_the_hypervisor_and_the_system_keep() {
    let (capacity, allocatable) = amounts(&machine("m5.large", 2, 8192));
    assert_eq!((capacity.cpu_milli, capacity.pods), (2000, 29));
    // 6 % of the first core and 1 % of the second.
    assert_eq!(allocatable.cpu_milli, 1930);
    let kept = (capacity.memory_bytes - allocatable.memory_bytes) / MIB;
    assert_eq!(kept, 255 + 11 * 29 + 100);
    assert!(capacity.memory_bytes < 8192 * MIB * 93 / 100);
}

#[test]
fn of_several_types_the_least_of_each_counts_and_no_label_is_guessed() {
    let arm = InstanceType { arm64: true, ..machine("m6g.large", 4, 8192) };
    let found = node(&[], &of(&[machine("r5.large", 2, 16384), arm]), NodeShape::default());
    assert_eq!((found.node.capacity.cpu_milli, found.trust), (2000, TemplateTrust::Mixed));
    assert!(found.node.capacity.memory_bytes < 8192 * MIB);
    let label = |key| found.node.labels.get(key);
    assert_eq!((label("kubernetes.io/arch"), label("node.kubernetes.io/instance-type")), (None, None));
    let open = |key: &str| found.open_labels[key].iter().map(|value| &**value).collect::<Vec<_>>();
    assert_eq!(open("kubernetes.io/arch"), ["amd64", "arm64"]);
    assert_eq!(open("node.kubernetes.io/instance-type"), ["r5.large", "m6g.large"]);
    assert_eq!(label("topology.kubernetes.io/zone"), Some("eu-west-1a"));
}

#[test]
fn sources_hold_in_their_order_the_pool_last() {
    let node_group = NodeGroup {
        labels: BTreeMap::from([
            ("team".to_owned(), "eks".to_owned()),
            ("tier".to_owned(), "eks".to_owned()),
        ]),
        taints: vec![("dedicated".to_owned(), String::new(), "NO_SCHEDULE".to_owned())],
        ..NodeGroup::default()
    };
    let tags = [
        ("k8s.io/cluster-autoscaler/node-template/label/team", "tag"),
        ("k8s.io/cluster-autoscaler/node-template/label/rack", "tag"),
        ("k8s.io/cluster-autoscaler/node-template/taint/dedicated", "x:NoSchedule"),
        ("k8s.io/cluster-autoscaler/node-template/taint/odd", "x:Never"),
        ("k8s.io/cluster-autoscaler/node-template/resources/vendor.example/gpu", "4"),
        ("k8s.io/cluster-autoscaler/node-template/resources/cpu", "broken"),
        ("other-k8s.io/cluster-autoscaler/node-template/label/not", "ours"),
    ];
    let resolved = Resolved { node_group: Some(node_group), ..of(&[machine("m5.large", 2, 8192)]) };
    let labels: Labels = [("tier", "pool")].into_iter().collect();
    let found = node(&tags, &resolved, NodeShape { labels, ..NodeShape::default() });
    let label = |key| found.node.labels.get(key);
    assert_eq!((label("team"), label("rack"), label("tier")), (Some("eks"), Some("tag"), Some("pool")));
    let taints: Vec<_> = found.node.taints.iter().map(|taint| (&*taint.key, &*taint.value)).collect();
    assert_eq!(taints, [("dedicated", "")]);
    assert_eq!(
        (found.node.capacity.extended("vendor.example/gpu"), found.node.capacity.cpu_milli),
        (4, 2000)
    );
    assert_eq!(label("not"), None);
}

#[test]
fn amounts_that_the_pool_declares_hold_and_need_no_type() {
    let amounts = Resources::new(16_000, 64 << 30).with_pods(110);
    let shape = NodeShape { capacity: amounts.clone(), allocatable: amounts.clone(), ..NodeShape::default() };
    let found = node(&[], &of(&[]), shape);
    assert_eq!((found.node.allocatable, found.trust), (amounts, TemplateTrust::Declared));
}

#[test]
fn described_types_are_as_small_as_their_requirements_let_them_be() {
    let least = least_machine(Requirements { cpus: 4, memory_mib: 16_384 }).expect("both are said");
    let resolved = Resolved { described: true, ..of(&[least]) };
    let found = node(
        &[("k8s.io/cluster-autoscaler/node-template/label/tier", "web")],
        &resolved,
        NodeShape::default(),
    );
    let (capacity, labels) = (&found.node.capacity, &found.node.labels);
    assert_eq!((capacity.cpu_milli, capacity.pods, found.trust), (4_000, 38, TemplateTrust::Mixed));
    assert!(capacity.memory_bytes < 16_384 * MIB);
    for unknown in ["kubernetes.io/arch", "node.kubernetes.io/instance-type"] {
        assert_eq!(labels.get(unknown), None, "{unknown}");
        assert!(found.open_labels.contains_key(unknown), "{unknown}");
    }
    assert_eq!(labels.get("tier"), Some("web"));
    let unsaid = least_machine(Requirements { cpus: 4, memory_mib: 0 }).expect_err("no least memory");
    assert!(unsaid.contains("MemoryMiB.Min") && unsaid.contains("template.capacity"), "{unsaid}");
}
