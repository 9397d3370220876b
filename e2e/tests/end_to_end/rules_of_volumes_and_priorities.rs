//! Rules that look at volumes, claims, namespaces, priorities and whole pods: the scheduler fills exactly what was bought
//! for them, and nothing is bought for pods that no node would help.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{Pool, Workload, csi_node, deployment, pool, stateful_set, volume_and_claim};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const TWO_MINUTES: Duration = Duration::from_secs(120);
const TIER: &str = "example.com/tier";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const DRIVER: &str = "disks.example.com";
/// A driver that makes volumes only where it has reported free capacity.
const REPORTING_DRIVER: &str = "reporting.example.com";

/// Pools with the number of nodes that they have in the end.
const NODES: [(&str, usize); 10] = [
    ("attach", 2),
    ("alone", 1),
    ("made-in-c", 1),
    ("room-in-b", 1),
    ("cheap", 1),
    ("keys", 2),
    ("neighbours", 2),
    ("tainted", 1),
    ("overhead", 2),
    ("whole-pod", 2),
];
/// Workloads with the number of their pods that run in the end.
const RUNNING: [(&str, usize); 13] = [
    ("attach", 4),
    ("alone", 1),
    ("made-in-c", 1),
    ("room-in-b", 1),
    ("no-room", 0),
    ("wanted", 3),
    ("first", 2),
    ("second", 2),
    ("quiet", 2),
    ("tolerant", 2),
    ("overhead", 4),
    ("whole-pod", 4),
    ("shunned", 0),
];

#[tokio::test]
async fn pods_run_exactly_on_what_was_bought_for_their_volumes_and_priorities() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        for object in volumes().into_iter().chain(surroundings()) {
            cluster.apply(object).await?;
        }
        for (pool, _) in NODES {
            cluster.apply(pool_of(pool)).await?;
        }
        // What is there before the others: a node that reports its limit, pods that give way, neighbours to avoid.
        cluster.apply(in_tier(filler(), "cheap")).await?;
        cluster.apply(in_tier(deployment("noisy").namespace("others").replicas(2), "neighbours")).await?;
        cluster.pods_come_to_run("default", "filler", 4).await?;
        cluster.pods_come_to_run("others", "noisy", 2).await?;
        report_limit(cluster).await?;
        for (workload, tier) in workloads() {
            cluster.apply(in_tier(workload, tier)).await?;
        }
        provision(cluster, "made-in-c", "in-c", "c").await?;
        provision(cluster, "room-in-b", "reported", "b").await?;
        for (name, pods) in RUNNING {
            cluster.pods_come_to_run("default", name, pods).await?;
        }
        wait::stays("no node is missing and none is too many", Duration::from_secs(3), async || {
            for (pool, nodes) in NODES {
                let found = cluster.nodes_of_pool(pool).await?.len();
                ensure!(found == nodes, "{pool} has {found} nodes, {nodes} wanted");
            }
            Ok(())
        })
        .await?;
        for (name, pods) in RUNNING {
            cluster.running_pods_are("default", &format!("app={name}"), pods).await?;
        }
        operator.process().check_running()
    })
    .await;
}

fn pool_of(name: &str) -> Pool {
    let made = pool(name).label(TIER, name).zones(&["a", "b", "c"]);
    match name {
        // There from the start, and in one group: a new node is known to be like it.
        "attach" | "cheap" => made.zones(&["a"]).nodes(1, 10),
        "tainted" => made
            .set("/spec/template/taints", json!([{"key": "dedicated", "value": "x", "effect": "NoExecute"}])),
        _ => made,
    }
}

fn in_tier(workload: Workload, tier: &str) -> Workload {
    workload.node_selector(TIER, tier)
}

/// Four pods that take up a node of 4 CPU and give way to any other.
fn filler() -> Workload {
    let made = deployment("filler").replicas(4).requests("900m", "64Mi");
    made.set_in_pod("/spec/priorityClassName", "expendable")
}

fn workloads() -> Vec<(Workload, &'static str)> {
    let small = |workload: Workload| workload.requests("100m", "64Mi");
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}}]);
    let claim = |name: &str| json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
    let whole = json!({"requests": {"cpu": "2", "memory": "1Gi"}});
    let apart = |selector: Value, more: Value| {
        let mut term = json!({"labelSelector": {"matchLabels": selector}, "topologyKey": HOSTNAME});
        more.as_object().into_iter().flatten().for_each(|(key, value)| term[key] = value.clone());
        let mut rule = json!({});
        rule[REQUIRED] = json!([term]);
        rule
    };
    // Both revisions keep apart from their own kind only, though the selector names both.
    let revision = |name: &str| {
        let rule = apart(json!({"series": "keys"}), json!({"matchLabelKeys": ["revision"]}));
        let made = deployment(name).replicas(2).pod_label("series", "keys").pod_label("revision", name);
        (made.set_in_pod("/spec/affinity/podAntiAffinity", rule), "keys")
    };
    let from_noisy =
        apart(json!({"app": "noisy"}), json!({"namespaceSelector": {"matchLabels": {"team": "loud"}}}));
    vec![
        // Two volumes a node, though CPU is there for all.
        (small(stateful_set("attach").replicas(4).set("/spec/volumeClaimTemplates", claims)), "attach"),
        // The second pod may not use the claim beside the first, on no node.
        (deployment("alone").replicas(2).set_in_pod("/spec/volumes", claim("alone")), "alone"),
        (deployment("made-in-c").set_in_pod("/spec/volumes", claim("made-in-c")), "made-in-c"),
        // Capacity for its volume is reported in zone b only, and nowhere for that of the other.
        (deployment("room-in-b").set_in_pod("/spec/volumes", claim("room-in-b")), "room-in-b"),
        (deployment("no-room").set_in_pod("/spec/volumes", claim("no-room")), "room-in-b"),
        (deployment("wanted").replicas(3), "cheap"),
        revision("first"),
        revision("second"),
        (
            deployment("quiet").replicas(2).set_in_pod("/spec/affinity/podAntiAffinity", from_noisy),
            "neighbours",
        ),
        (deployment("tolerant").replicas(2).toleration("dedicated", "x"), "tainted"),
        (deployment("shunned").replicas(2), "tainted"),
        // 1 CPU, and as much for what the pod runs in.
        (deployment("overhead").replicas(4).set_in_pod("/spec/runtimeClassName", "heavy"), "overhead"),
        (small(deployment("whole-pod").replicas(4).set_in_pod("/spec/resources", whole)), "whole-pod"),
    ]
}

/// Volumes that are there, one for each replica of attach and one for one pod alone; a class that makes them in zone c.
fn volumes() -> Vec<Value> {
    let claim = |name: &str, class: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let room = |zone: &str, size: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"name": format!("room-{zone}"), "namespace": "default"}, "storageClassName": "reported",
            "nodeTopology": {"matchLabels": {ZONE: zone}}, "capacity": "1Ti", "maximumVolumeSize": size})
    };
    let mut too_large = claim("no-room", "reported");
    too_large["spec"]["resources"]["requests"]["storage"] = "4Gi".into();
    let mut objects = vec![
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "in-c"},
            "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["c"]}]}]}),
        claim("made-in-c", "in-c"),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": REPORTING_DRIVER},
            "spec": {"storageCapacity": true}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "reported"},
            "provisioner": REPORTING_DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}),
        room("a", "512Mi"),
        room("b", "2Gi"),
        claim("room-in-b", "reported"),
        too_large,
    ];
    objects.extend(volume_and_claim("alone", DRIVER).map(|mut object| {
        object["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
        object
    }));
    objects.extend((0..4).flat_map(|index| volume_and_claim(&format!("data-attach-{index}"), DRIVER)));
    objects
}

fn surroundings() -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "others", "labels": {"team": "loud"}}}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "expendable"}, "value": -20}),
        json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "heavy"},
            "handler": "heavy", "overhead": {"podFixed": {"cpu": "1", "memory": "1Gi"}}}),
    ]
}

/// Plays the driver on the node of the pool attach: two volumes, no more.
async fn report_limit(cluster: &ControlPlane) -> Result<()> {
    wait::until("the pool attach has its node", TWO_MINUTES, async || {
        cluster.ready_nodes_are("attach", 1).await
    })
    .await?;
    for node in cluster.nodes_of_pool("attach").await? {
        let name = node.metadata.name.unwrap_or_default();
        cluster.apply(csi_node(&name, DRIVER, 2)).await?;
    }
    Ok(())
}

/// Plays the driver that makes the volume of a claim where the scheduler wants it, which must be this zone.
async fn provision(cluster: &ControlPlane, name: &str, class: &str, zone: &str) -> Result<()> {
    let node = wait::until("the scheduler has chosen a node for the volume", TWO_MINUTES, async || {
        let claim = cluster.kubectl(&["get", "pvc", name, "-o", "json"])?;
        let claim: Value = serde_json::from_str(&claim)?;
        let node = claim["metadata"]["annotations"][SELECTED_NODE].as_str().map(str::to_owned);
        node.context("no node is chosen")
    })
    .await?;
    let nodes = cluster.nodes_of_pool(name).await?;
    let chosen = nodes.into_iter().find(|one| one.metadata.name.as_ref() == Some(&node));
    let labels = chosen.and_then(|node| node.metadata.labels).unwrap_or_default();
    ensure!(labels.get(ZONE).is_some_and(|own| own == zone), "{node} has the labels {labels:?}");
    cluster
        .apply(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "storageClassName": class, "claimRef": {"namespace": "default", "name": name},
                "csi": {"driver": DRIVER, "volumeHandle": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": ZONE, "operator": "In", "values": [zone]}]}]}}}}))
        .await?;
    Ok(())
}
