//! Messages as the official Go package encodes them: field numbers and types are the protocol's. Made by
//! `e2e/externalgrpc/vectors`.

use std::fmt::Debug;

use prost::Message;

use crate::wire::{
    CoreNode, DeleteNodesRequest, GroupRequest, Instance, InstanceError, InstanceStatus, Instances,
    Nanoseconds, Node, NodeGroup, NodeGroupForNode, NodeGroupForNodeRequest, NodeGroups, Options,
    OptionsRequest, ResizeRequest, State, TargetSize, Template,
};

const VECTORS: &str = include_str!("vectors.txt");

pub(super) fn bytes(name: &str) -> Vec<u8> {
    let line = VECTORS.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect(name);
    let digits = line.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
}

/// The vector is the message.
fn reads<T: Message + Default + PartialEq + Debug>(name: &str, message: &T) {
    assert_eq!(T::decode(&*bytes(name)).as_ref(), Ok(message), "{name}");
}

/// The vector is the message, and the message the vector.
fn is<T: Message + Default + PartialEq + Debug>(name: &str, message: &T) {
    reads(name, message);
    assert_eq!(message.encode_to_vec(), bytes(name), "{name}");
}

fn node() -> Node {
    Node {
        provider_id: "cloud://n1".to_owned(),
        name: "n1".to_owned(),
        labels: [("a".to_owned(), "b".to_owned())].into(),
        annotations: [("c".to_owned(), "d".to_owned())].into(),
    }
}

#[test]
fn messages_are_those_of_the_official_package() {
    let group = NodeGroup { id: "web".to_owned(), min_size: 1, max_size: 10 };
    // The field debug is not read.
    reads("NodeGroups", &NodeGroups { node_groups: vec![group.clone()] });
    reads("NodeGroupForNode", &NodeGroupForNode { node_group: Some(group) });
    is("NodeGroupForNodeRequest", &NodeGroupForNodeRequest { node: Some(node()) });
    is("GroupRequest", &GroupRequest { id: "web".to_owned() });
    is("TargetSize", &TargetSize { target_size: 7 });
    is("Increase", &ResizeRequest { delta: 3, id: "web".to_owned() });
    is("Decrease", &ResizeRequest { delta: -2, id: "web".to_owned() });
    is("DeleteNodes", &DeleteNodesRequest { nodes: vec![node()], id: "web".to_owned() });
    let error = InstanceError { code: "STOCK".to_owned(), message: "none left".to_owned(), class: 1 };
    let status = InstanceStatus { state: State::Creating.into(), error: Some(error) };
    let instance = Instance { id: "cloud://n1".to_owned(), status: Some(status) };
    is("Instances", &Instances { instances: vec![instance] });
}

#[test]
fn a_template_is_a_node_of_the_kubernetes_package() {
    let template = Template::decode(&*bytes("Template")).expect("a template");
    assert_eq!(template.node_bytes, [0_u8; 0]);
    let node = CoreNode::decode(&*template.node_info).expect("a Node");
    assert_eq!(node.metadata.expect("there").labels["disk"], "ssd");
    let taint = node.spec.expect("there").taints.remove(0);
    assert_eq!(
        (taint.key.as_str(), taint.value.as_str(), taint.effect.as_str()),
        ("only", "x", "NoSchedule")
    );
    let status = node.status.expect("there");
    assert_eq!(
        (status.capacity["cpu"].string.as_str(), status.allocatable["memory"].string.as_str()),
        ("4", "16Gi")
    );
}

#[test]
fn settings_of_the_old_generation_are_those_of_the_official_package() {
    let minutes = |minutes: i64| Some(Nanoseconds { duration: minutes * 60_000_000_000 });
    let defaults = Options {
        utilization_threshold: 0.5,
        gpu_utilization_threshold: 0.7,
        unneeded_time: minutes(10),
        unready_time: minutes(20),
        provision_time: minutes(15),
        ignore_daemon_sets: true,
        ..Options::default()
    };
    is("Options", &OptionsRequest { id: "web".to_owned(), defaults: Some(defaults) });
}
