//! Requests that are easily counted wrong: the operator buys what the real scheduler fills, no node more, no pod left over.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Options};
use e2e::fixtures::{Pool, Workload, daemon_set, deployment, job, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
const TIER: &str = "example.com/tier";

/// A workload alone in its tier, and the number of nodes that the scheduler needs for it.
struct Case {
    tier: &'static str,
    pool: Pool,
    workload: Workload,
    pods: usize,
    nodes: usize,
}

#[tokio::test]
async fn every_kind_of_request_gets_exactly_the_nodes_that_the_scheduler_fills() {
    cluster_test(Options::new().jobs_run_on(), async |cluster| {
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let cases = cases();
        // A pod of the DaemonSet takes half a CPU on each node of its tier, before there is any such node. It counts there by its
        // system priority: another set counts once its pods run.
        let agent = daemon_set("agent")
            .requests("500m", "64Mi")
            .set_in_pod("/spec/priorityClassName", "system-node-critical");
        cluster.apply(in_tier(agent, "daemons")).await?;
        for case in &cases {
            cluster.apply(case.pool.clone().label(TIER, case.tier)).await?;
            cluster.apply(in_tier(case.workload.clone(), case.tier)).await?;
        }
        for case in &cases {
            served(cluster, case).await?;
        }
        wait::stays("nothing more is bought", Duration::from_secs(3), async || {
            let nodes = cluster.nodes().await?.len();
            let wanted: usize = cases.iter().map(|case| case.nodes).sum();
            ensure!(nodes == wanted, "{nodes} nodes, {wanted} wanted");
            Ok(())
        })
        .await?;
        operator.process().check_running()
    })
    .await;
}

fn cases() -> Vec<Case> {
    let case = |tier, workload: Workload, pods: u8, nodes| {
        let pool = pool(tier);
        Case { tier, pool, workload: workload.replicas(pods.into()), pods: pods.into(), nodes }
    };
    let init = |cpu: &str, more: Value| {
        let mut container = json!({"name": "first", "image": "example/none"});
        container["resources"] = json!({"requests": {"cpu": cpu}});
        more.as_object().into_iter().flatten().for_each(|(key, value)| container[key] = value.clone());
        json!([container])
    };
    let reserved = pool("reserved").set("/spec/template/reserved", json!({"cpu": "500m", "memory": "1Gi"}));
    let devices = pool("devices").set("/spec/template/capacity/example.com~1device", "2");
    let few_pods = pool("few-pods").set("/spec/template/capacity/pods", "3");
    let disks = pool("disks").set("/spec/template/capacity/ephemeral-storage", "10Gi");
    let anti = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{
        "labelSelector": {"matchLabels": {"app": "apart"}},
        "topologyKey": "kubernetes.io/hostname",
    }]});
    vec![
        // 3.5 CPU are left of 4: three pods a node.
        case("daemons", deployment("daemons"), 7, 3),
        // The init container's 3 CPU count, since more than the container's 1: one pod a node.
        case("init", deployment("init").set_in_pod("/spec/initContainers", init("3", json!({}))), 2, 2),
        // A sidecar runs beside: 2 CPU a pod, two pods a node.
        case(
            "sidecar",
            deployment("sidecar")
                .set_in_pod("/spec/initContainers", init("1", json!({"restartPolicy": "Always"}))),
            4,
            2,
        ),
        case("jobs", job("jobs"), 6, 2),
        case("apart", deployment("apart").set_in_pod("/spec/affinity/podAntiAffinity", anti), 3, 3),
        Case { pool: reserved, ..case("reserved", deployment("reserved"), 6, 2) },
        Case {
            pool: devices,
            ..case(
                "devices",
                deployment("devices").requests("100m", "64Mi").request("example.com/device", "1"),
                4,
                2,
            )
        },
        Case { pool: few_pods, ..case("few-pods", deployment("few-pods").requests("100m", "64Mi"), 7, 3) },
        Case {
            pool: disks,
            ..case(
                "disks",
                deployment("disks").requests("100m", "64Mi").request("ephemeral-storage", "6Gi"),
                2,
                2,
            )
        },
    ]
}

fn in_tier(workload: Workload, tier: &str) -> Workload {
    workload.node_selector(TIER, tier)
}

async fn served(cluster: &ControlPlane, case: &Case) -> Result<()> {
    let Case { tier, pods, nodes, .. } = case;
    wait::until(&format!("{pods} pods of {tier} run on {nodes} nodes"), MINUTE, async || {
        cluster.running_pods_are("default", &format!("app={tier}"), *pods).await?;
        cluster.ready_nodes_are(tier, *nodes).await
    })
    .await
}
