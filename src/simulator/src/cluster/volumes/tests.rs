//! Volumes decide where simulated pods run, and are made where they run.

use jiff::Timestamp;

use super::super::{SimCluster, Timings};
use super::*;
use crate::store::SharedStore;

const TEST: Author<'static> = Author::actor("test");

/// A cluster of nodes `n-a` and `n-b` in two zones with 4 CPUs each, and a class whose volumes wait for their pods.
fn cluster() -> SimCluster {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let cluster = SimCluster::new(SharedStore::new(1, now), Timings::default());
    for zone in ["a", "b"] {
        create(&cluster, Kind::Node, node(&format!("n-{zone}"), zone));
    }
    create(&cluster, Kind::StorageClass, class("fast", "WaitForFirstConsumer", "ebs"));
    cluster
}

fn create(cluster: &SimCluster, kind: Kind, object: Value) {
    cluster.store().with(|store| store.create(kind, object, TEST)).unwrap();
}

fn node(name: &str, zone: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {ZONE_LABEL: zone, POOL_LABEL: "general"}},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}, "capacity": {"cpu": "4"},
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn class(name: &str, mode: &str, provisioner: &str) -> Value {
    json!({"metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": provisioner, "volumeBindingMode": mode})
}

fn claim(name: &str, mode: &str) -> Value {
    json!({"metadata": {"namespace": "default", "name": name},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "5Gi"}}}})
}

fn volume(name: &str, zone: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
        "csi": {"driver": "ebs", "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": ZONE_LABEL, "operator": "In", "values": [zone]}]}]}}}})
}

fn pod(name: &str, claim: &str) -> Value {
    json!({"metadata": {"namespace": "default", "name": name}, "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}})
}

/// Returns the node of a pod, or the message that says why it has none.
fn place(cluster: &mut SimCluster, name: &str) -> String {
    let now = cluster.store().with(|store| store.now());
    cluster.step(now);
    cluster.store().with(|store| {
        let pod = store.find(Kind::Pod, &ObjectKey::new("default", name)).unwrap();
        let message = crate::store::condition(pod, "PodScheduled").and_then(|it| text(it, &["message"]));
        text(pod, &["spec", "nodeName"]).or(message).unwrap_or_default().to_owned()
    })
}

fn found(cluster: &SimCluster, kind: Kind, name: &str) -> Option<Arc<Value>> {
    let namespace = if kind.info().namespaced { "default" } else { "" };
    cluster.store().with(|store| store.find(kind, &ObjectKey::new(namespace, name)).cloned())
}

#[test]
fn a_pod_runs_where_its_volume_is() {
    let mut cluster = cluster();
    create(&cluster, Kind::PersistentVolume, volume("disk", "b"));
    let mut bound = claim("data", "ReadWriteOnce");
    bound["spec"]["volumeName"] = "disk".into();
    create(&cluster, Kind::PersistentVolumeClaim, bound);
    create(&cluster, Kind::Pod, pod("db", "data"));
    assert_eq!(place(&mut cluster, "db"), "n-b");
}

#[test]
fn a_volume_that_waits_for_its_pod_is_made_in_its_zone_and_holds_the_next_pod_there() {
    let mut cluster = cluster();
    create(&cluster, Kind::Pod, pod("db", "data"));
    assert!(place(&mut cluster, "db").contains("persistentvolumeclaim not found"));
    create(&cluster, Kind::PersistentVolumeClaim, claim("data", "ReadWriteOnce"));
    let node = place(&mut cluster, "db");
    let made = found(&cluster, Kind::PersistentVolumeClaim, "data").unwrap();
    let disk = found(&cluster, Kind::PersistentVolume, bound_to(&made).unwrap()).unwrap();
    let zone =
        &disk["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"][0];
    assert_eq!(format!("n-{}", zone.as_str().unwrap()), node);
    create(&cluster, Kind::Pod, pod("second", "data"));
    create(&cluster, Kind::Pod, pod("third", "data"));
    assert_eq!((place(&mut cluster, "second"), place(&mut cluster, "third")), (node.clone(), node));
}

#[test]
fn a_volume_is_made_only_where_its_driver_has_reported_capacity() {
    let mut cluster = cluster();
    create(
        &cluster,
        Kind::CSIDriver,
        json!({"metadata": {"name": "ebs"}, "spec": {"storageCapacity": true}}),
    );
    // Nodes that have just come take nothing yet.
    create(&cluster, Kind::Pod, pod("first", "nothing"));
    place(&mut cluster, "first");
    create(&cluster, Kind::PersistentVolumeClaim, claim("data", "ReadWriteOnce"));
    create(&cluster, Kind::Pod, pod("db", "data"));
    let said = place(&mut cluster, "db");
    assert!(said.contains("did not have enough free storage"), "{said}");
    for (zone, size) in [("a", "4Gi"), ("b", "5Gi")] {
        let capacity = json!({"metadata": {"namespace": "default", "name": zone}, "storageClassName": "fast",
            "nodeTopology": {"matchLabels": {ZONE_LABEL: zone}}, "capacity": size});
        create(&cluster, Kind::CSIStorageCapacity, capacity);
    }
    assert_eq!(place(&mut cluster, "db"), "n-b");
}

#[test]
fn a_claim_that_does_not_wait_is_bound_at_once_and_one_without_a_maker_never() {
    let mut cluster = cluster();
    create(&cluster, Kind::StorageClass, class("at-once", "Immediate", "ebs"));
    create(&cluster, Kind::StorageClass, class("by-hand", "Immediate", NO_PROVISIONER));
    for name in ["at-once", "by-hand"] {
        let mut own = claim(name, "ReadWriteOnce");
        own["spec"]["storageClassName"] = name.into();
        create(&cluster, Kind::PersistentVolumeClaim, own);
        create(&cluster, Kind::Pod, pod(&format!("pod-{name}"), name));
    }
    assert!(place(&mut cluster, "pod-at-once").starts_with("n-"));
    assert!(place(&mut cluster, "pod-by-hand").contains("unbound immediate PersistentVolumeClaims"));
}

#[test]
fn a_node_attaches_no_more_than_its_driver_can_and_a_new_node_as_many_as_its_siblings() {
    let mut cluster = cluster();
    for name in ["n-a", "n-b"] {
        let drivers = json!([{"name": "ebs", "allocatable": {"count": 1}}]);
        create(&cluster, Kind::CSINode, json!({"metadata": {"name": name}, "spec": {"drivers": drivers}}));
    }
    let mut places = BTreeSet::new();
    for name in ["one", "two", "three"] {
        create(&cluster, Kind::PersistentVolumeClaim, claim(name, "ReadWriteOnce"));
        create(&cluster, Kind::Pod, pod(name, name));
        places.insert(place(&mut cluster, name));
    }
    let full = places.iter().any(|place| place.contains("2 node(s) exceed max volume count"));
    assert!(full && places.len() == 3, "{places:?}");
    create(&cluster, Kind::Node, node("n-c", "a"));
    assert_eq!(place(&mut cluster, "three"), "n-c");
    let reported = found(&cluster, Kind::CSINode, "n-c").expect("its driver has reported");
    assert_eq!(limits(&reported), [("ebs", 1)].into());
}

#[test]
fn a_driver_that_pods_require_is_on_new_nodes_and_the_others_take_no_pod_with_its_volumes() {
    let mut cluster = cluster();
    // Nodes that have just come take nothing yet.
    create(&cluster, Kind::Pod, pod("first", "nothing"));
    place(&mut cluster, "first");
    let driver = json!({"metadata": {"name": "ebs"}, "spec": {"preventPodSchedulingIfMissing": true}});
    create(&cluster, Kind::CSIDriver, driver);
    create(&cluster, Kind::PersistentVolumeClaim, claim("data", "ReadWriteOnce"));
    create(&cluster, Kind::Pod, pod("db", "data"));
    let message = place(&mut cluster, "db");
    assert!(message.contains("2 node(s) did not have the CSI driver of a volume"), "{message}");
    create(&cluster, Kind::Node, node("n-c", "a"));
    assert_eq!(place(&mut cluster, "db"), "n-c");
}

#[test]
fn a_claim_for_one_pod_is_mounted_by_one_and_by_the_next_when_that_is_gone() {
    let mut cluster = cluster();
    create(&cluster, Kind::PersistentVolumeClaim, claim("data", ALONE));
    create(&cluster, Kind::Pod, pod("first", "data"));
    assert!(place(&mut cluster, "first").starts_with("n-"));
    create(&cluster, Kind::Pod, pod("second", "data"));
    assert!(place(&mut cluster, "second").contains("ReadWriteOncePod"));
    let key = ObjectKey::new("default", "first");
    let now = crate::store::DeleteOptions::now();
    cluster.store().with(|store| store.delete(Kind::Pod, &key, &now, TEST)).unwrap();
    assert!(place(&mut cluster, "second").starts_with("n-"));
}

#[test]
fn pods_of_a_stateful_set_keep_their_claims_and_ephemeral_ones_go_with_their_pod() {
    let mut cluster = cluster();
    let template = json!({"metadata": {"labels": {"app": "db"}}, "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "volumes": [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": claim("x", "ReadWriteOnce")["spec"]}}}]}});
    let set = json!({"metadata": {"namespace": "default", "name": "db"}, "spec": {
        "replicas": 2, "podManagementPolicy": "Parallel", "selector": {"matchLabels": {"app": "db"}}, "template": template,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim("x", "ReadWriteOnce")["spec"]}]}});
    create(&cluster, Kind::StatefulSet, set);
    assert!(place(&mut cluster, "db-1").starts_with("n-"));
    for name in ["data-db-0", "data-db-1", "db-0-tmp"] {
        let claim = found(&cluster, Kind::PersistentVolumeClaim, name).expect("made");
        assert!(bound_to(&claim).is_some(), "{name}");
    }
    let key = ObjectKey::new("default", "db");
    cluster.store().with(|store| {
        store.delete(Kind::StatefulSet, &key, &crate::store::DeleteOptions::now(), TEST).unwrap();
    });
    for seconds in [1, 40, 80] {
        let at = cluster.store().with(|store| store.now()) + jiff::SignedDuration::from_secs(seconds);
        cluster.step(at);
    }
    assert!(found(&cluster, Kind::PersistentVolumeClaim, "data-db-0").is_some());
    assert!(found(&cluster, Kind::PersistentVolumeClaim, "db-0-tmp").is_none());
}
