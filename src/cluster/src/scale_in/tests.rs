//! Tests of the choice of pods that go.

use super::*;
use crate::scheduling::constraints::{Taint, TaintEffect, TopologySpread};
use crate::world::Delta;
use crate::world::pod::{DO_NOT_DISRUPT_ANNOTATION, Owner, PROTECTED_FOREVER, PodClass, PodPhase};
use crate::world::provider::{GroupState, Instance, InstanceState, ProviderState};
use headroom_values::known::Known;
use headroom_values::labels::Labels;
use headroom_values::time::Seconds;

const NOW: UnixTime = UnixTime(1_000_000);

/// A cluster of nodes with 4 CPUs, all of one pool.
#[derive(Default)]
struct Cluster {
    nodes: BTreeMap<String, Node>,
    pods: Vec<Pod>,
    foreign: BTreeSet<String>,
    unready: BTreeSet<String>,
    costs: BTreeMap<String, DeletionCost>,
}

impl Cluster {
    fn node(&mut self, name: &str) -> &mut Node {
        self.nodes.entry(name.to_owned()).or_insert_with(|| Node {
            name: name.into(),
            provider_id: format!("test://{name}").into(),
            allocatable: Resources::new(4000, 16 << 30),
            ..Node::default()
        })
    }

    /// Adds a pod of a ReplicaSet with one CPU to a node.
    fn pod(&mut self, name: &str, set: &str, node: &str) -> &mut Pod {
        self.node(node);
        let owner = Owner { kind: "ReplicaSet".into(), name: set.into(), uid: format!("uid-{set}").into() };
        let class = PodClass { requests: Resources::new(1000, 1 << 30), ..PodClass::default() };
        self.pods.push(Pod {
            key: ObjectKey::new("shop", name),
            uid: format!("uid-{name}").into(),
            class: Arc::new(class),
            owner: Some(Arc::new(owner)),
            node: Some(node.into()),
            phase: PodPhase::Running,
            ..Pod::default()
        });
        self.pods.last_mut().expect("it was pushed")
    }

    /// Adds pods `web-<node>-<number>` of the workload to each node.
    fn web(&mut self, nodes: &[(&str, usize)]) {
        for (node, count) in nodes {
            for number in 0..*count {
                self.pod(&format!("web-{node}-{number}"), "web", node);
            }
        }
    }

    fn world(&self) -> World {
        let mut world = World::new();
        let mut group = GroupState::default();
        for (name, node) in &self.nodes {
            world.apply(Delta::NodeApplied(Box::new(node.clone())));
            if !self.foreign.contains(name) {
                let state = InstanceState::Running;
                group
                    .instances
                    .insert(node.provider_id.clone(), Instance { state, node: None, created_at: None });
            }
        }
        let state = ProviderState { groups: [("g".into(), group)].into(), ..ProviderState::default() };
        world.apply(Delta::ProviderObserved("general".into(), Known::Known { value: state, at: NOW }));
        for pod in &self.pods {
            world.apply(Delta::PodApplied(Box::new(pod.clone())));
        }
        world
    }

    fn scale_in(&self, to: usize) -> ScaleIn {
        let own = self.pods.iter().filter(|pod| pod.key.name.starts_with("web"));
        let replica = |pod: &Pod| Replica {
            name: Arc::from(&*pod.key.name),
            ready: !self.unready.contains(&*pod.key.name),
            cost: self.costs.get(&*pod.key.name).copied().unwrap_or_default(),
        };
        ScaleIn { namespace: "shop".into(), replicas: own.map(replica).collect(), to }
    }

    fn choose(&self, to: usize) -> Result<Choice, LeftAlone> {
        one_of(choose(&self.world(), &[self.scale_in(to)], NOW))
    }

    /// Nodes of the pods that go, each as often as it loses a pod, sorted.
    fn emptied(&self, to: usize) -> Vec<String> {
        let choice = self.choose(to).expect("nothing is in the way");
        let node = |key: &ObjectKey| {
            let pod = self.pods.iter().find(|pod| pod.key == *key);
            pod.and_then(|pod| pod.node.as_ref()).map(ToString::to_string)
        };
        let mut nodes: Vec<String> = choice.going.iter().filter_map(node).collect();
        nodes.sort();
        nodes
    }
}

fn one_of(choices: Vec<Result<Choice, LeftAlone>>) -> Result<Choice, LeftAlone> {
    let [choice] = choices.try_into().expect("one answer a question");
    choice
}

#[test]
fn half_of_the_replicas_leave_half_of_the_nodes() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 2), ("b", 2), ("c", 2), ("d", 2)]);
    assert_eq!(cluster.emptied(4), ["a", "a", "b", "b"]);
}

#[test]
fn as_many_nodes_as_possible_become_empty() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 3), ("b", 1), ("c", 2), ("d", 2)]);
    assert_eq!(cluster.emptied(5), ["b", "c", "c"]);
}

#[test]
fn nodes_with_pods_that_would_have_to_move_come_after_those_without() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 1), ("b", 2), ("c", 1)]);
    cluster.pod("api-1", "api", "a");
    cluster.pod("api-2", "api", "c");
    cluster.pod("api-3", "api", "c");
    assert_eq!(cluster.emptied(2), ["b", "b"]);
    assert_eq!(cluster.emptied(1), ["a", "b", "b"], "the emptiest of the others is next");
}

#[test]
fn workloads_that_shrink_together_empty_the_same_nodes() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 1), ("b", 1), ("c", 2), ("d", 2)]);
    for (name, node) in [("api-1", "a"), ("api-2", "b")] {
        cluster.pod(name, "api", node);
    }
    let api =
        ["api-1", "api-2"].map(|name| Replica { name: name.into(), ready: true, cost: DeletionCost::Unset });
    let api = ScaleIn { namespace: "shop".into(), replicas: api.into(), to: 1 };
    let choices = choose(&cluster.world(), &[cluster.scale_in(3), api], NOW);
    let going: Vec<Vec<&str>> = choices.iter().flatten().map(|choice| names(choice)).collect();
    assert_eq!(going, [vec!["web-c-0", "web-c-1", "web-a-0"], vec!["api-1"]]);
}

#[test]
fn the_pods_of_one_workload_are_not_used_up_before_those_of_the_others() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 2), ("b", 2), ("c", 1), ("d", 1), ("e", 1), ("f", 1)]);
    cluster.foreign.insert("z".to_owned());
    let api = ["c", "d", "e", "f", "z"].map(|node| {
        cluster.pod(&format!("api-{node}"), "api", node);
        Replica { name: format!("api-{node}").into(), ready: true, cost: DeletionCost::Unset }
    });
    let api = ScaleIn { namespace: "shop".into(), replicas: api.into(), to: 1 };
    // All four pods of web that go from a and b would leave the pods of api on four nodes that keep one of web each.
    let choices = choose(&cluster.world(), &[cluster.scale_in(4), api], NOW);
    let going: Vec<Vec<&str>> = choices.iter().flatten().map(|choice| names(choice)).collect();
    assert_eq!(going[0], ["web-a-0", "web-a-1", "web-c-0", "web-d-0"]);
}

#[test]
fn larger_nodes_become_empty_first() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 2), ("b", 3), ("c", 2)]);
    cluster.node("b").allocatable = Resources::new(16_000, 64 << 30);
    assert_eq!(cluster.emptied(4), ["b", "b", "b"]);
}

#[test]
fn pods_of_daemon_sets_and_pods_that_are_going_do_not_count_on_a_node() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 1), ("b", 1), ("c", 1)]);
    cluster.pod("api-1", "api", "a");
    let agent = cluster.pod("agent", "agent", "b");
    agent.class = Arc::new(PodClass { daemon_set: true, ..PodClass::default() });
    cluster.pod("old", "old", "c").deletion_at = Some(NOW);
    assert_eq!(cluster.emptied(1), ["b", "c"]);
    let mut world = cluster.world();
    world.send_away(&[ObjectKey::new("shop", "api-1")], NOW.plus(Seconds(60)), NOW);
    let choose_at = |now| one_of(choose(&world, &[cluster.scale_in(2)], now)).expect("a choice");
    assert_eq!(names(&choose_at(NOW)), ["web-a-0"], "what another scale-in sends away counts as gone");
    assert_eq!(names(&choose_at(NOW.plus(Seconds(60)))), ["web-b-0"], "for a time");
}

#[test]
fn nodes_that_leave_anyway_are_left_first() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 1), ("b", 1), ("c", 2)]);
    let taint = Taint { key: DELETION_TAINT.into(), value: "".into(), effect: TaintEffect::NoSchedule };
    cluster.node("c").taints.push(taint);
    assert_eq!(cluster.emptied(2), ["c", "c"]);
    cluster.nodes.get_mut("c").expect("a node").taints.clear();
    cluster.node("c").unschedulable = true;
    assert_eq!(cluster.emptied(2), ["c", "c"]);
}

#[test]
fn nodes_that_stay_whatever_happens_are_left_last() {
    let kept: [fn(&mut Cluster); 5] = [
        |cluster| cluster.foreign.extend(["a".to_owned()]),
        |cluster| cluster.node("a").annotations = one(SCALE_DOWN_DISABLED_ANNOTATION),
        |cluster| cluster.node("a").annotations = one(DO_NOT_DISRUPT_ANNOTATION),
        |cluster| cluster.pod("job", "job", "a").protected_until = Some(PROTECTED_FOREVER),
        |cluster| cluster.pod("naked", "naked", "a").owner = None,
    ];
    for (index, keep) in kept.into_iter().enumerate() {
        let mut cluster = Cluster::default();
        cluster.web(&[("a", 1), ("b", 2), ("c", 2)]);
        cluster.pod("api-1", "api", "b");
        cluster.pod("api-2", "api", "c");
        keep(&mut cluster);
        assert_eq!(cluster.emptied(3), ["b", "b"], "case {index}");
    }
}

fn one(annotation: &str) -> Labels {
    [(annotation, "true")].into_iter().collect()
}

#[test]
fn zones_stay_as_even_as_they_are() {
    let mut cluster = Cluster::default();
    for (node, zone) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")] {
        cluster.node(node).labels.insert(ZONE_LABEL, zone);
    }
    cluster.web(&[("a1", 2), ("a2", 2), ("b1", 2), ("b2", 2)]);
    assert_eq!(cluster.emptied(4), ["a1", "a1", "b1", "b1"]);
    assert_eq!(cluster.emptied(7), ["b1"], "one zone has one less");
}

#[test]
fn what_stays_is_not_all_on_one_node() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 2), ("b", 2), ("c", 2)]);
    assert_eq!(cluster.emptied(2), ["a", "a", "b", "c"]);
    assert_eq!(cluster.emptied(1).len(), 5, "a single pod has no choice");
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 4)]);
    assert_eq!(cluster.emptied(2), ["a", "a"], "nor have pods that are on one node already");
}

#[test]
fn pods_that_go_before_any_cost_are_not_chosen_beside() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 1), ("b", 2), ("c", 2)]);
    cluster.unready.insert("web-c-0".to_owned());
    assert_eq!(cluster.choose(4), Ok(Choice::default()), "the unready one goes by itself");
    assert_eq!(cluster.emptied(3), ["a"]);
}

#[test]
fn set_with_costs_of_others_is_left_alone() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 2), ("b", 2)]);
    cluster.costs.insert("web-b-1".to_owned(), DeletionCost::Foreign);
    assert_eq!(cluster.choose(2), Err(LeftAlone::CostOfOthers));
}

#[test]
fn pods_of_two_replica_sets_or_of_none_are_left_alone() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 2)]);
    cluster.pod("web-new", "web-2", "b");
    assert_eq!(cluster.choose(1), Err(LeftAlone::NotOneReplicaSet));
    let mut cluster = Cluster::default();
    let owner = Owner { kind: "StatefulSet".into(), ..Owner::default() };
    cluster.pod("web-0", "web", "a").owner = Some(Arc::new(owner));
    assert_eq!(cluster.choose(0), Err(LeftAlone::NotOneReplicaSet));
}

#[test]
fn required_spread_over_nodes_is_left_alone() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 1), ("b", 1)]);
    let spread = |key: &str| TopologySpread {
        max_skew: 1,
        topology_key: key.into(),
        selector: None,
        min_domains: 1,
        honor_node_affinity: true,
        honor_node_taints: false,
    };
    for (key, left_alone) in [("kubernetes.io/hostname", true), (ZONE_LABEL, false)] {
        for pod in &mut cluster.pods {
            pod.class = Arc::new(PodClass { topology_spread: vec![spread(key)], ..PodClass::default() });
        }
        assert_eq!(cluster.choose(1) == Err(LeftAlone::SpreadRequired), left_alone, "{key}");
    }
}

/// Names of the pods that go.
fn names(choice: &Choice) -> Vec<&str> {
    choice.going.iter().map(|key| &*key.name).collect()
}

/// The writes as name and cost.
fn written(choice: &Choice) -> Vec<(&str, Option<i32>)> {
    choice.writes.iter().map(|write| (&*write.name, write.cost)).collect()
}

#[test]
fn few_that_go_get_a_low_cost_and_few_that_stay_a_high_one() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 1), ("b", 4), ("c", 4)]);
    let few_go = cluster.choose(8).expect("a choice");
    assert_eq!(written(&few_go), [("web-a-0", Some(COST_FIRST))]);
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 4), ("b", 4), ("c", 1), ("d", 1)]);
    let few_stay = cluster.choose(3).expect("a choice");
    assert_eq!(few_stay.going.len(), 7);
    assert_eq!(few_stay.writes.len(), 3);
    assert!(few_stay.writes.iter().all(|write| write.cost == Some(COST_LAST)), "{few_stay:?}");
}

#[test]
fn nodes_that_keep_most_are_written_first_and_whole() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 3), ("b", 1), ("c", 1), ("d", 2), ("e", 9)]);
    // One stays elsewhere, so that no node has all.
    let choice = cluster.choose(7).expect("a choice");
    let names: Vec<&str> = choice.writes.iter().map(|write| &*write.name).collect();
    assert_eq!(names, ["web-e-3", "web-e-4", "web-e-5", "web-e-6", "web-e-7", "web-e-8", "web-a-2"]);
}

#[test]
fn costs_of_an_earlier_scale_in_are_put_right() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 1), ("b", 4), ("c", 4)]);
    cluster.costs.insert("web-b-0".to_owned(), DeletionCost::Own(COST_FIRST));
    cluster.costs.insert("web-c-0".to_owned(), DeletionCost::Own(COST_LAST));
    let choice = cluster.choose(8).expect("a choice");
    assert_eq!(written(&choice), [("web-b-0", None), ("web-a-0", Some(COST_FIRST))]);
    cluster.costs.clear();
    cluster.costs.insert("web-a-0".to_owned(), DeletionCost::Own(COST_FIRST));
    assert_eq!(cluster.choose(8).expect("a choice").writes, [], "nothing is written twice");
}

#[test]
fn writes_of_one_scale_in_are_bounded() {
    let mut cluster = Cluster::default();
    cluster.web(&[("a", 1500), ("b", 1500), ("c", 1500)]);
    let choice = cluster.choose(2200).expect("a choice");
    assert_eq!((choice.going.len(), choice.writes.len()), (2300, WRITES_MAX));
    assert!(choice.writes.iter().all(|write| write.cost == Some(COST_FIRST)));
}
