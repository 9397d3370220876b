//! Rules whose answer lies in what is there already: a preemption under way, pods of other owners, zones that only others
//! have nodes in. Pods run exactly on what was bought for them, and nothing is bought for pods that no node would help.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{Pool, Workload, bare_pod, deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const TWO_MINUTES: Duration = Duration::from_secs(120);
const TIER: &str = "example.com/tier";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// Keeps a pod that is being evicted where it is until it is taken off.
const FINALIZER: &str = "example.com/stays";

/// Pools with the zones of the nodes that they have in the end.
const NODES: [(&str, &[&str]); 11] = [
    ("contested", &["a"]),
    ("tenants", &["a", "a"]),
    ("waves", &["a", "a", "b", "c"]),
    ("narrow", &["a", "a", "a"]),
    ("open", &["a", "a", "a"]),
    ("walled", &["b", "c"]),
    ("shy", &["a", "a"]),
    ("fields", &["a", "a"]),
    ("cordoned", &["a", "a"]),
    ("soft", &["a"]),
    ("operators", &["a"]),
];
/// Workloads with the number of their pods that run in the end.
const RUNNING: [(&str, usize); 14] = [
    ("urgent", 1),
    ("tenant-x", 2),
    ("tenant-y", 2),
    ("wave-one", 4),
    ("wave-two", 3),
    ("honoring", 2),
    ("ignoring", 1),
    ("passing", 2),
    ("counting", 1),
    ("shy", 1),
    ("guest", 1),
    ("elsewhere", 2),
    ("driven-off", 2),
    ("soft", 2),
];

#[tokio::test]
async fn pods_run_exactly_on_what_was_bought_beside_what_is_there() {
    cluster_test(Options::new(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster
            .apply(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": "urgent"}, "value": 1000}))
            .await?;
        for (name, _) in NODES {
            cluster.apply(pool_of(name)).await?;
        }
        // What is there before the others.
        for (workload, tier) in first() {
            cluster.apply(workload.node_selector(TIER, tier)).await?;
        }
        for (name, pods) in [("squatter", 1), ("wave-one", 4), ("shy", 1), ("tenant-x", 2)] {
            cluster.pods_come_to_run("default", name, pods).await?;
        }
        for (name, nodes) in [("walled", 2), ("fields", 1), ("cordoned", 1)] {
            wait::until(&format!("{name} has its nodes"), TWO_MINUTES, async || {
                cluster.ready_nodes_are(name, nodes).await
            })
            .await?;
        }
        cluster.kubectl(&["cordon", &only_node(cluster, "cordoned").await?])?;
        let taken = only_node(cluster, "fields").await?;
        for (workload, tier) in second(&taken) {
            cluster.apply(workload.node_selector(TIER, tier)).await?;
        }
        preempted(cluster).await?;
        for (name, pods) in RUNNING {
            cluster.pods_come_to_run("default", name, pods).await?;
        }
        cluster.pods_come_to_run("default", "operators", 2).await?;
        wait::stays("no node is missing and none is too many", Duration::from_secs(3), async || {
            for (pool, zones) in NODES {
                let nodes = cluster.nodes_of_pool(pool).await?;
                let labels = nodes.iter().map(|node| node.metadata.labels.clone().unwrap_or_default());
                let mut found: Vec<String> =
                    labels.map(|labels| labels.get(ZONE).cloned().unwrap_or_default()).collect();
                found.sort();
                ensure!(found == zones, "the nodes of {pool} are in {found:?}, wanted in {zones:?}");
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
    let made = pool(name).label(TIER, name);
    match name {
        "contested" | "tenants" | "fields" | "cordoned" => made.nodes(1, 10),
        "waves" => made.zones(&["a", "b", "c"]),
        "open" => made.label(TIER, "walls"),
        // Of the tier of open, and no pod here tolerates its taint.
        "walled" => made.label(TIER, "walls").zones(&["b", "c"]).taint("wall", "high").nodes(2, 10),
        "soft" => made.set(
            "/spec/template/taints",
            json!([{"key": "rather", "value": "not", "effect": "PreferNoSchedule"}]),
        ),
        "operators" => made.label("example.com/cores", "2"),
        _ => made,
    }
}

fn first() -> Vec<(Workload, &'static str)> {
    let mut beside = json!({});
    beside[REQUIRED] = json!([{"labelSelector": {"matchLabels": {"app": "guest"}}, "topologyKey": HOSTNAME}]);
    let wave = deployment("wave-one").replicas(4).pod_label("series", "waves").pod_label("wave", "one");
    vec![
        (
            bare_pod("squatter").requests("3", "1Gi").set("/metadata/finalizers", json!([FINALIZER])),
            "contested",
        ),
        // Fills the one node in zone a.
        (wave.node_selector(ZONE, "a"), "waves"),
        (deployment("shy").set_in_pod("/spec/affinity/podAntiAffinity", beside), "shy"),
        // The only node of its pool takes both.
        tenant("tenant-x"),
    ]
}

fn tenant(name: &str) -> (Workload, &'static str) {
    let mut rule = json!({});
    rule[REQUIRED] = json!([{"labelSelector": {"matchExpressions": [{"key": "tenant", "operator": "Exists"}]},
        "mismatchLabelKeys": ["tenant"], "topologyKey": HOSTNAME}]);
    let made = deployment(name).replicas(2).pod_label("tenant", name);
    (made.set_in_pod("/spec/affinity/podAntiAffinity", rule), "tenants")
}

/// `taken` is the node of the pool fields.
fn second(taken: &str) -> Vec<(Workload, &'static str)> {
    let spread = |workload: Workload, selector: Value, more: Value| {
        let mut rule = json!({"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": selector}});
        more.as_object().into_iter().flatten().for_each(|(key, value)| rule[key] = value.clone());
        workload.set_in_pod("/spec/topologySpreadConstraints", json!([rule]))
    };
    // Two pods of which no node takes both.
    let wide = |name: &str, more: Value| {
        spread(deployment(name).replicas(2).requests("3", "1Gi"), json!({"app": name}), more)
    };
    let on_nodes = |workload: Workload, term: Value| {
        let mut rule = json!({});
        rule[REQUIRED] = json!({"nodeSelectorTerms": [term]});
        workload.replicas(2).set_in_pod("/spec/affinity/nodeAffinity", rule)
    };
    let wave = deployment("wave-two").replicas(3).pod_label("series", "waves").pod_label("wave", "two");
    vec![
        // It preempts the squatter: the node is promised to it, and a preemption takes the scheduler a moment.
        (
            deployment("urgent")
                .requests("2", "1Gi")
                .set_in_pod("/spec/priorityClassName", "urgent")
                .pod_annotation("cluster-autoscaler.kubernetes.io/pod-scale-up-delay", "2s"),
            "contested",
        ),
        // Pods of one tenant share a node, pods of two do not.
        tenant("tenant-y"),
        // One in each of three zones, since only its own wave counts.
        (
            spread(wave, json!({"series": "waves"}), json!({"matchLabelKeys": ["wave"], "minDomains": 3})),
            "waves",
        ),
        // Only zone a has nodes of this tier: no other counts.
        (wide("honoring", json!({"nodeAffinityPolicy": "Honor"})), "narrow"),
        // Zones b and c count, with the nodes of others in them: a second pod in zone a is one too many.
        (wide("ignoring", json!({"nodeAffinityPolicy": "Ignore"})), "narrow"),
        // Nodes behind the taint do not count.
        (wide("passing", json!({"nodeTaintsPolicy": "Honor"})), "walls"),
        // They do, as is the default: a second pod in zone a is one too many.
        (wide("counting", json!({})), "walls"),
        // It has no rule of its own: the shy pod keeps it off.
        (deployment("guest"), "shy"),
        (
            on_nodes(
                deployment("elsewhere"),
                json!({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [taken]}]}),
            ),
            "fields",
        ),
        (deployment("driven-off").replicas(2), "cordoned"),
        (deployment("soft").replicas(2), "soft"),
        (
            on_nodes(
                deployment("operators"),
                json!({"matchExpressions": [
                    {"key": "example.com/cores", "operator": "Lt", "values": ["4"]},
                    {"key": "example.com/cores", "operator": "Exists"},
                    {"key": "example.com/none", "operator": "DoesNotExist"},
                    {"key": ZONE, "operator": "In", "values": ["a", "b"]}]}),
            ),
            "operators",
        ),
    ]
}

/// The urgent pod has been promised the only node, nothing is bought for it, and it gets that node once it is free.
async fn preempted(cluster: &ControlPlane) -> Result<()> {
    let node = only_node(cluster, "contested").await?;
    wait::until("the scheduler preempts the squatter", TWO_MINUTES, async || {
        let pods = cluster.pods("default", "app=urgent").await?;
        let status = pods.into_iter().next().and_then(|pod| pod.status).context("no pod")?;
        let promised = status.nominated_node_name.unwrap_or_default();
        ensure!(promised == node, "it is promised {promised:?}");
        Ok(())
    })
    .await?;
    wait::stays(
        "nothing is bought for a pod whose node is being freed",
        Duration::from_secs(4),
        async || cluster.ready_nodes_are("contested", 1).await,
    )
    .await?;
    cluster.patch("Pod", "v1", "squatter", json!({"metadata": {"finalizers": null}})).await?;
    cluster.pods_come_to_run("default", "urgent", 1).await
}

async fn only_node(cluster: &ControlPlane, pool: &str) -> Result<String> {
    let nodes = cluster.nodes_of_pool(pool).await?;
    ensure!(nodes.len() == 1, "{pool} has {} nodes", nodes.len());
    nodes.into_iter().next().and_then(|node| node.metadata.name).context("a node without a name")
}
