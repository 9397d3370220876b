//! The behaviour of the simulated cluster, one rule a test.

use serde_json::{Value, json};

use super::*;
use crate::store::{Author, DeleteOptions, Part, Patch, condition, number, text};

const ME: Author<'static> = Author::actor("test");

struct World {
    cluster: SimCluster,
    now: Timestamp,
}

impl World {
    fn new() -> World {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        World { cluster: SimCluster::new(SharedStore::new(1, now), Timings::default()), now }
    }

    fn with_nodes(count: usize) -> World {
        let mut world = World::new();
        for index in 0..count {
            world.create(Kind::Node, node(&format!("n{index}")));
        }
        world.run_for(5);
        world
    }

    fn create(&mut self, kind: Kind, object: Value) {
        self.cluster.store.with(|store| store.create(kind, object, ME)).unwrap();
    }

    fn patch(&mut self, kind: Kind, name: &str, patch: Value) {
        let namespace = if kind.info().namespaced { "default" } else { "" };
        let key = ObjectKey::new(namespace, name);
        self.cluster
            .store
            .with(|store| store.patch(kind, &key, &Patch::Merge(patch), Part::Main, ME))
            .unwrap();
    }

    fn delete(&mut self, kind: Kind, name: &str) {
        let key = ObjectKey::new(if kind.info().namespaced { "default" } else { "" }, name);
        self.cluster.store.with(|store| store.delete(kind, &key, &DeleteOptions::default(), ME)).unwrap();
    }

    /// Steps through every due event of the next seconds.
    fn run_for(&mut self, seconds: i64) {
        let end = self.now + SignedDuration::from_secs(seconds);
        self.cluster.step(self.now);
        while let Some(next) = self.cluster.next_event_at(self.now).filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.cluster.step(self.now);
        }
        self.now = end;
        self.cluster.step(end);
    }

    fn list(&self, kind: Kind) -> Vec<Arc<Value>> {
        self.cluster.store.with(|store| store.all(kind).map(|(_, object)| object.clone()).collect())
    }

    fn pods(&self, phase: &str) -> usize {
        self.list(Kind::Pod).iter().filter(|pod| text(pod, &["status", "phase"]) == Some(phase)).count()
    }

    fn get(&self, kind: Kind, name: &str) -> Arc<Value> {
        let namespace = if kind.info().namespaced { "default" } else { "" };
        self.cluster.store.with(|store| store.get(kind, &ObjectKey::new(namespace, name)).cloned()).unwrap()
    }
}

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"type": "kwok", "topology.kubernetes.io/zone": "a"}},
           "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}}})
}

fn template(cpu: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}},
           "spec": {"containers": [{"name": "main", "image": "v1", "resources": {"requests": {"cpu": cpu}}}]}})
}

fn workload(name: &str, replicas: i64, cpu: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"},
           "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(cpu)}})
}

#[test]
fn deployment_becomes_running_pods_and_says_so() {
    let mut world = World::with_nodes(2);
    world.create(Kind::Deployment, workload("web", 6, "1"));
    world.run_for(5);
    assert_eq!(world.pods("Running"), 6);
    assert_eq!(number(&world.get(Kind::Deployment, "web"), &["status", "availableReplicas"]), Some(6));
}

#[test]
fn pods_spread_over_the_emptiest_nodes() {
    let mut world = World::with_nodes(3);
    world.create(Kind::Deployment, workload("web", 6, "1"));
    world.run_for(5);
    let on = |name: &str| {
        world.list(Kind::Pod).iter().filter(|p| text(p, &["spec", "nodeName"]) == Some(name)).count()
    };
    assert_eq!((on("n0"), on("n1"), on("n2")), (2, 2, 2));
}

#[test]
fn pod_without_room_is_unschedulable_until_a_node_comes() {
    let mut world = World::with_nodes(1);
    world.create(Kind::Deployment, workload("web", 5, "1"));
    world.run_for(5);
    let pending: Vec<_> = world
        .list(Kind::Pod)
        .into_iter()
        .filter(|p| text(p, &["status", "phase"]) == Some("Pending"))
        .collect();
    assert_eq!(pending.len(), 1);
    let scheduled = condition(&pending[0], "PodScheduled").unwrap();
    assert_eq!((&scheduled["status"], &scheduled["reason"]), (&json!("False"), &json!("Unschedulable")));
    assert_eq!(scheduled["message"], "0/1 nodes are available: 1 Insufficient cpu.");
    world.create(Kind::Node, node("n1"));
    world.run_for(5);
    assert_eq!(world.pods("Running"), 5);
}

#[test]
fn higher_priority_is_bound_first() {
    let mut world = World::new();
    let pod = |name: &str, priority: i64| {
        json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"priority": priority,
               "containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}})
    };
    world.create(Kind::Pod, pod("a-low", 0));
    world.create(Kind::Pod, pod("b-high", 5));
    world.create(Kind::Node, node("n1"));
    world.run_for(5);
    assert_eq!(text(&world.get(Kind::Pod, "b-high"), &["spec", "nodeName"]), Some("n1"));
    assert_eq!(text(&world.get(Kind::Pod, "a-low"), &["spec", "nodeName"]), None);
}

#[test]
fn taint_selector_and_affinity_decide_the_node() {
    let mut world = World::new();
    let mut tainted = node("gpu");
    tainted["metadata"]["labels"]["pool"] = "gpu".into();
    tainted["spec"] = json!({"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]});
    tainted["status"]["capacity"]["nvidia.com/gpu"] = "1".into();
    world.create(Kind::Node, tainted);
    world.create(Kind::Node, node("plain"));
    let mut wants_gpu = json!({"metadata": {"name": "wants-gpu", "namespace": "default"}, "spec": {
        "nodeSelector": {"pool": "gpu"}, "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}});
    world.create(Kind::Pod, wants_gpu.clone());
    wants_gpu["metadata"]["name"] = "second-gpu".into();
    let plain = json!({"metadata": {"name": "plain", "namespace": "default"}, "spec": {"containers": []}});
    world.create(Kind::Pod, plain);
    world.run_for(3);
    world.create(Kind::Pod, wants_gpu);
    world.run_for(3);
    assert_eq!(text(&world.get(Kind::Pod, "wants-gpu"), &["spec", "nodeName"]), Some("gpu"));
    assert_eq!(text(&world.get(Kind::Pod, "plain"), &["spec", "nodeName"]), Some("plain"));
    assert_eq!(text(&world.get(Kind::Pod, "second-gpu"), &["spec", "nodeName"]), None);
}

#[test]
fn rollout_stays_within_surge_and_unavailable() {
    let mut world = World::with_nodes(4);
    world.create(Kind::Deployment, workload("web", 8, "1"));
    world.run_for(5);
    let mut next = template("1");
    next["spec"]["containers"][0]["image"] = "v2".into();
    world.patch(Kind::Deployment, "web", json!({"spec": {"template": next}}));
    for _ in 0..40 {
        world.run_for(1);
        assert!(world.list(Kind::Pod).len() <= 10, "8 and a quarter more");
        assert!(6 <= world.pods("Running"), "8 less a quarter");
    }
    let images: Vec<_> =
        world.list(Kind::Pod).iter().map(|p| p["spec"]["containers"][0]["image"].clone()).collect();
    assert_eq!(images, vec![json!("v2"); 8]);
    assert_eq!(number(&world.get(Kind::Deployment, "web"), &["status", "updatedReplicas"]), Some(8));
}

#[test]
fn scaling_down_removes_pending_pods_first() {
    let mut world = World::with_nodes(1);
    world.create(Kind::Deployment, workload("web", 6, "1"));
    world.run_for(5);
    world.patch(Kind::Deployment, "web", json!({"spec": {"replicas": 4}}));
    world.run_for(5);
    assert_eq!((world.pods("Running"), world.pods("Pending")), (4, 0));
}

#[test]
fn stateful_set_starts_one_after_another_and_keeps_names() {
    let mut world = World::with_nodes(2);
    world.create(Kind::StatefulSet, workload("db", 3, "1"));
    world.cluster.step(world.now);
    assert_eq!(world.list(Kind::Pod).len(), 1);
    world.run_for(10);
    world.delete(Kind::Pod, "db-1");
    world.run_for(10);
    let names: Vec<_> = world.list(Kind::Pod).iter().map(|p| ObjectKey::of(p).name.to_string()).collect();
    assert_eq!(names, ["db-0", "db-1", "db-2"]);
    assert_eq!(world.pods("Running"), 3);
}

#[test]
fn job_runs_its_completions_with_its_parallelism_and_ends() {
    let mut world = World::with_nodes(1);
    let job = json!({"metadata": {"name": "batch", "namespace": "default", "annotations": {RUN_FOR_ANNOTATION: "60s"}},
        "spec": {"parallelism": 2, "completions": 4, "template": template("1")}});
    world.create(Kind::Job, job);
    world.run_for(30);
    assert_eq!(world.pods("Running"), 2);
    world.run_for(120);
    let job = world.get(Kind::Job, "batch");
    assert_eq!(number(&job, &["status", "succeeded"]), Some(4));
    assert!(condition(&job, "Complete").is_some());
}

#[test]
fn daemon_set_has_a_pod_on_each_node_that_comes() {
    let mut world = World::with_nodes(2);
    world.create(
        Kind::DaemonSet,
        json!({"metadata": {"name": "agent", "namespace": "default"},
                                         "spec": {"template": template("100m")}}),
    );
    world.run_for(5);
    world.create(Kind::Node, node("late"));
    world.run_for(5);
    let on: Vec<_> =
        world.list(Kind::Pod).iter().map(|p| text(p, &["spec", "nodeName"]).unwrap().to_owned()).collect();
    assert_eq!(on.len(), 3);
    assert!(on.contains(&"late".to_owned()));
}

#[test]
fn pods_of_a_deleted_node_are_collected_and_made_again_elsewhere() {
    let mut world = World::with_nodes(2);
    world.create(Kind::Deployment, workload("web", 4, "1"));
    world.run_for(5);
    world.delete(Kind::Node, "n0");
    world.run_for(60);
    assert_eq!(world.pods("Running"), 4);
    assert!(world.list(Kind::Pod).iter().all(|pod| text(pod, &["spec", "nodeName"]) == Some("n1")));
}

#[test]
fn deleting_a_deployment_leaves_nothing_behind() {
    let mut world = World::with_nodes(1);
    world.create(Kind::Deployment, workload("web", 3, "1"));
    world.run_for(5);
    world.delete(Kind::Deployment, "web");
    world.run_for(5);
    assert_eq!((world.list(Kind::ReplicaSet).len(), world.list(Kind::Pod).len()), (0, 0));
}

#[test]
fn budget_status_follows_the_pods() {
    let mut world = World::with_nodes(2);
    world.create(Kind::Deployment, workload("web", 4, "1"));
    world.create(
        Kind::PodDisruptionBudget,
        json!({"metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": "75%", "selector": {"matchLabels": {"app": "web"}}}}),
    );
    world.run_for(5);
    let status = |world: &World| {
        let budget = world.get(Kind::PodDisruptionBudget, "web");
        let count = |field| number(&budget, &["status", field]).unwrap();
        (count("expectedPods"), count("desiredHealthy"), count("currentHealthy"), count("disruptionsAllowed"))
    };
    assert_eq!(status(&world), (4, 3, 4, 1));
    let victim = ObjectKey::of(&world.list(Kind::Pod)[0]);
    world.cluster.store.with(|store| store.evict(&victim, &DeleteOptions::default(), ME)).unwrap();
    assert_eq!(status(&world).3, 0);
    world.run_for(5);
    assert_eq!(status(&world), (4, 3, 4, 1));
}

#[test]
fn zone_outage_makes_nodes_unknown_and_moves_pods_after_their_toleration() {
    let mut world = World::with_nodes(1);
    let mut other = node("other");
    other["metadata"]["labels"]["topology.kubernetes.io/zone"] = "b".into();
    world.create(Kind::Deployment, workload("web", 2, "1"));
    world.run_for(5);
    world.create(Kind::Node, other);
    world.run_for(5);
    let until = world.now + SignedDuration::from_mins(30);
    world.cluster.cloud_model.take_out("a", until);
    world.run_for(200);
    let n0 = world.get(Kind::Node, "n0");
    assert_eq!(condition(&n0, "Ready").unwrap()["status"], "Unknown");
    assert_eq!(n0["spec"]["taints"][0]["key"], "node.kubernetes.io/unreachable");
    world.run_for(200);
    let on_other =
        world.list(Kind::Pod).iter().filter(|p| text(p, &["spec", "nodeName"]) == Some("other")).count();
    assert_eq!(on_other, 2);
    world.run_for(1800);
    assert_eq!(condition(&world.get(Kind::Node, "n0"), "Ready").unwrap()["status"], "True");
    assert_eq!(world.list(Kind::Pod).len(), 2, "the pods of the lost node are gone with its return");
}

#[test]
fn slow_cloud_delays_the_join() {
    let mut world = World::new();
    let until = world.now + SignedDuration::from_mins(10);
    world.cluster.cloud_model.slow_down(60, SignedDuration::ZERO, until);
    world.create(Kind::Node, node("n0"));
    world.run_for(55);
    assert_ne!(condition(&world.get(Kind::Node, "n0"), "Ready").unwrap()["status"], "True");
    world.run_for(10);
    assert_eq!(condition(&world.get(Kind::Node, "n0"), "Ready").unwrap()["status"], "True");
}

#[test]
fn statistics_count_waits_and_node_time() {
    let mut world = World::new();
    world.create(Kind::Deployment, workload("web", 2, "1"));
    world.run_for(60);
    world.create(Kind::Node, node("n0"));
    world.run_for(3600);
    let summary = world.cluster.statistics.summary();
    assert_eq!(summary.pods_served, 2);
    assert_eq!(summary.longest_wait, SignedDuration::from_secs(62));
    assert!((summary.node_hours - 1.0).abs() < 0.001, "{}", summary.node_hours);
    assert!((summary.utilization_percent - 50.0).abs() < 0.1, "{}", summary.utilization_percent);
    let rows = world.cluster.statistics.minutes();
    assert_eq!((rows[0].pending_pods, rows[0].nodes), (2, 0));
    assert_eq!((rows[5].pending_pods, rows[5].running_pods, rows[5].wanted_replicas), (0, 2, 2));
}

#[test]
fn same_seed_gives_the_same_trace() {
    let run = || {
        let mut world = World::with_nodes(3);
        world.create(Kind::Deployment, workload("web", 9, "1"));
        world.run_for(30);
        world.patch(Kind::Deployment, "web", json!({"spec": {"replicas": 3}}));
        world.run_for(30);
        world.cluster.store.with(|store| store.trace.hash())
    };
    assert_eq!(run(), run());
}

/// The speed of the actors: a day of 500 nodes whose 10,000 pods go up and down four times.
///
/// Run by hand: `cargo test -p headroom --profile release --lib day_of -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn day_of_500_nodes_and_10000_pods() {
    let started = std::time::Instant::now();
    let mut world = World::with_nodes(0);
    for index in 0..500 {
        let mut node = node(&format!("n{index}"));
        node["status"]["capacity"]["cpu"] = "16".into();
        world.create(Kind::Node, node);
    }
    for index in 0..20 {
        world.create(Kind::Deployment, workload(&format!("web-{index}"), 100, "500m"));
    }
    for minute in 0..1440_i64 {
        let replicas = 100 + 400 * (180 - (minute % 360 - 180).abs()) / 180;
        for index in 0..20 {
            world.patch(Kind::Deployment, &format!("web-{index}"), json!({"spec": {"replicas": replicas}}));
        }
        world.run_for(60);
    }
    let (revision, lines) = world.cluster.store.with(|store| (store.revision(), store.trace.count()));
    println!("{:?} for a day, {revision} revisions, {lines} calls", started.elapsed());
    println!("{:?}", world.cluster.statistics.summary());
}
