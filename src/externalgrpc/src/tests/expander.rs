//! Questions to the server of expander `Grpc` as upstream's package reads them, and what is read of its answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::question::{Question, QuestionOption, QuestionPod};
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::{Operator, Toleration, TolerationOperator};
use headroom_core::testing::{no_schedule, pod};
use headroom_core::world::pod::{Owner, PodClass};
use headroom_core::world::template::NodeTemplate;
use prost::Message as _;

use crate::expander::wire::{BestOptionsRequest, BestOptionsResponse, CorePod, NamedOption};
use crate::expander::{named, request};
use crate::tests::vectors::bytes;

/// The pod of `e2e/externalgrpc/vectors`, with everything that is sent of a pod.
fn class() -> Arc<PodClass> {
    pod("web-1")
        .cpu("1500m")
        .memory("2Gi")
        .extended("example.com/gpu", 1)
        .label("app", "web")
        .selector("disk", "ssd")
        .affinity("zone", Operator::In, &["a", "b"])
        .near("app", "db", "zone")
        .away_from("app", "web", "host")
        .spread("app", "web", "zone", 2)
        .host_port(8080)
        .claim("data")
        .priority(7)
        .with_class(|class| {
            class.tolerations = vec![Toleration {
                key: "only".into(),
                value: "x".into(),
                operator: TolerationOperator::Equal,
                effect: Some(headroom_core::scheduling::constraints::TaintEffect::NoSchedule),
            }];
        })
        .class()
}

fn option(name: &str, pods: &[(usize, usize)]) -> QuestionOption {
    let mut capacity = Resources::new(4000, 16 << 30);
    capacity.pods = 110;
    QuestionOption {
        name: name.into(),
        pool: "web".into(),
        nodes_count: 2,
        pods_count: 3,
        node: NodeTemplate {
            labels: [("disk", "ssd")].into_iter().collect(),
            taints: vec![no_schedule("only", "x")],
            allocatable: capacity.clone(),
            capacity,
        },
        pods: pods.to_vec(),
    }
}

fn question(pods: usize) -> Question {
    let owner = Owner { kind: "ReplicaSet".into(), name: "web".into(), uid: "rs-1".into() };
    let (class, owner) = (class(), Some(Arc::new(owner)));
    let pods = (1..=pods).map(|number| QuestionPod {
        key: headroom_core::labels::ObjectKey::new("default", format!("web-{number}")),
        uid: format!("uid-{number}").into(),
        owner: owner.clone(),
        class: class.clone(),
    });
    let pods: Vec<QuestionPod> = pods.collect();
    let count = pods.len();
    Question::new(vec![option("a", &[(0, count)]), option("b", &[(0, count.min(1))])], pods)
}

#[test]
fn the_request_is_what_upstreams_package_writes() {
    let written = request(&question(1), true);
    let upstream = BestOptionsRequest::decode(&*bytes("BestOptions")).expect("a request");
    assert_eq!(upstream.options[0].pods, written.options[0].pods);
    assert_eq!(upstream.nodes["a"], written.nodes["a"]);
    assert_eq!((upstream.options[0].node_count, &*upstream.options[0].node_group_id), (2, "a"));
}

#[test]
fn both_generations_are_written_alike() {
    let written = request(&question(2), true);
    for option in &written.options {
        let new: Vec<CorePod> =
            option.pods_bytes.iter().map(|pod| CorePod::decode(&**pod).expect("a pod")).collect();
        assert_eq!(new, option.pods);
    }
    let counts: Vec<usize> = written.options.iter().map(|option| option.pods.len()).collect();
    assert_eq!(counts, [2, 1]);
    let new: BTreeMap<&String, &Vec<u8>> = written.nodes_bytes.iter().collect();
    assert!(written.nodes.iter().all(|(name, node)| *new[name] == node.encode_to_vec()));
}

#[test]
fn large_questions_go_without_old_fields_and_larger_ones_without_pods() {
    let medium = request(&question(2_000), true);
    assert!(medium.nodes.is_empty() && medium.options[0].pods.is_empty(), "{} bytes", medium.encoded_len());
    assert_eq!(medium.options[0].pods_bytes.len(), 2_000);
    let mut all = question(5_000);
    all.options.extend((0..9).map(|number| option(&format!("c{number}"), &[(0, 5_000)])));
    let large = request(&all, true);
    assert!(large.options.iter().all(|option| option.pods_bytes.is_empty()));
    assert!(large.encoded_len() < 4 << 20, "{} bytes", large.encoded_len());
    assert_eq!(large.nodes_bytes.len(), 11);
}

#[test]
fn pods_stay_in_the_cluster_where_the_policy_says_so() {
    let written = request(&question(3), false);
    assert!(written.options.iter().all(|option| option.pods.is_empty() && option.pods_bytes.is_empty()));
    assert_eq!(written.nodes.len(), 2);
}

#[test]
fn only_names_that_were_asked_about_are_read_and_each_once() {
    let answer = |ids: &[&str]| BestOptionsResponse {
        options: ids.iter().map(|id| NamedOption { node_group_id: (*id).to_owned() }).collect(),
    };
    let question = question(1);
    let read = |ids: &[&str]| {
        let named = named(&answer(ids), &question);
        (named.kept.join(","), named.is_empty)
    };
    assert_eq!(read(&["b", "of-nobody", "a", "b"]), ("a,b".to_owned(), false));
    assert_eq!(read(&["of-nobody"]), (String::new(), false));
    assert_eq!(read(&[]), (String::new(), true));
}
