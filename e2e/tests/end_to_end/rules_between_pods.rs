//! Rules that look at zones, other pods, ports and volumes: pods run exactly on what was bought for them, zone by zone.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{Pool, Workload, deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const TWO_MINUTES: Duration = Duration::from_secs(120);
const TIER: &str = "example.com/tier";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// A workload alone in its tier of three zones, and the zones of the nodes that the scheduler needs for it.
struct Case {
    tier: &'static str,
    pool: Pool,
    workload: Workload,
    pods: usize,
    zones: Zones,
}

enum Zones {
    These(&'static [&'static str]),
    /// So many nodes, all in one zone.
    One(usize),
    /// So many nodes, anywhere.
    Any(usize),
}

#[tokio::test]
async fn pods_run_exactly_on_what_was_bought_for_their_rules() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        for object in volumes() {
            cluster.apply(object).await?;
        }
        let cases = cases();
        for case in &cases {
            cluster.apply(case.pool.clone().zones(&["a", "b", "c"]).label(TIER, case.tier)).await?;
            cluster.apply(case.workload.clone().node_selector(TIER, case.tier)).await?;
        }
        for case in &cases {
            served(cluster, case).await?;
        }
        let count = cluster.nodes().await?.len();
        wait::stays("nothing more is bought", Duration::from_secs(3), async || {
            let nodes = cluster.nodes().await?.len();
            ensure!(nodes == count, "{nodes} nodes, {count} before");
            Ok(())
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}

fn cases() -> Vec<Case> {
    let case = |tier: &'static str, pods: u8, zones, pointer: &str, rule: Value| {
        let workload = deployment(tier).replicas(pods.into()).set_in_pod(pointer, rule);
        Case { tier, pool: pool(tier), workload, pods: pods.into(), zones }
    };
    let spread = |tier: &str, key: &str, more: Value| {
        let mut rule = json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": tier}}});
        more.as_object().into_iter().flatten().for_each(|(key, value)| rule[key] = value.clone());
        json!([rule])
    };
    let term = |tier: &str, key: &str| {
        let mut rule = json!({});
        rule[REQUIRED] = json!([{"labelSelector": {"matchLabels": {"app": tier}}, "topologyKey": key}]);
        rule
    };
    let (spreads, affinity) = ("/spec/topologySpreadConstraints", "/spec/affinity");
    let mut on_nodes = json!({});
    on_nodes[REQUIRED] = json!({"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "example.com/cores", "operator": "Gt", "values": ["4"]},
        {"key": ZONE, "operator": "NotIn", "values": ["a", "b"]}]}]});
    let claim = |name: &str| json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
    let chosen = case("chosen", 5, Zones::These(&["c", "c"]), "/spec/affinity/nodeAffinity", on_nodes);
    vec![
        case(
            "spread",
            6,
            Zones::These(&["a", "b", "c"]),
            spreads,
            spread("spread", ZONE, json!({"minDomains": 3})),
        ),
        case("hosts", 3, Zones::Any(3), spreads, spread("hosts", HOSTNAME, json!({"minDomains": 3}))),
        case(
            "zone-apart",
            3,
            Zones::These(&["a", "b", "c"]),
            &format!("{affinity}/podAntiAffinity"),
            term("zone-apart", ZONE),
        ),
        case("together", 6, Zones::One(2), &format!("{affinity}/podAffinity"), term("together", ZONE)),
        case(
            "ports",
            2,
            Zones::Any(2),
            "/spec/containers/0/ports",
            json!([{"containerPort": 80, "hostPort": 8080}]),
        ),
        Case { pool: pool("chosen").label("example.com/cores", "8"), ..chosen },
        case("bound", 1, Zones::These(&["b"]), "/spec/volumes", claim("bound")),
        case("waiting", 1, Zones::These(&["c"]), "/spec/volumes", claim("waiting")),
    ]
}

/// A claim that is bound to a volume in zone b, and one that waits for its pod beside a free volume in zone c.
fn volumes() -> Vec<Value> {
    let volume = |name: &str, class: &str, zone: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "local": {"path": "/data"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]}}}})
    };
    let claim = |name: &str, class: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": "1Gi"}}}})
    };
    vec![
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "waits"},
            "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}),
        volume("in-b", "", "b"),
        volume("in-c", "waits", "c"),
        claim("bound", ""),
        claim("waiting", "waits"),
    ]
}

async fn served(cluster: &ControlPlane, case: &Case) -> Result<()> {
    let Case { tier, pods, zones, .. } = case;
    wait::until(&format!("{pods} pods of {tier} run on the nodes they need"), TWO_MINUTES, async || {
        cluster.running_pods_are("default", &format!("app={tier}"), *pods).await?;
        let nodes = cluster.nodes_of_pool(tier).await?;
        let labels = nodes.iter().map(|node| node.metadata.labels.clone().unwrap_or_default());
        let mut found: Vec<String> =
            labels.map(|labels| labels.get(ZONE).cloned().unwrap_or_default()).collect();
        found.sort();
        let right = match zones {
            Zones::These(zones) => found == *zones,
            Zones::One(count) => found.len() == *count && found.iter().all(|zone| *zone == found[0]),
            Zones::Any(count) => found.len() == *count,
        };
        ensure!(right, "the nodes of {tier} are in {found:?}");
        Ok(())
    })
    .await
}
