//! Measures a simulated day of 500 nodes and 10,000 pods through the typed port; it prints figures and asserts nothing.
//!
//! `make bench-day`, or with ARGS="HOURS NODES" for less: the load goes up and down four times.

use std::time::Instant;

use headroom::simulate::cluster::Timings;
use headroom::simulate::run::{Options, run};
use headroom::simulate::scenario::{Action, Event, Scenario, Target};
use headroom::simulate::store::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Deployments among which the pods are spread.
const WORKLOADS: i64 = 20;
/// Pods of half a CPU on nodes of ten: twenty a node.
const PODS_PER_NODE: i64 = 20;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<i64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let (hours, nodes) = (arguments.first().copied().unwrap_or(24), arguments.get(1).copied().unwrap_or(500));
    let scenario = scenario(hours, nodes);
    let options = Options::of(&scenario);
    let began_at = Instant::now();
    let (mut steps_count, mut pods_max) = (0_u64, 0);
    let outcome = run(&scenario, &options, &mut |scene| {
        steps_count += 1;
        pods_max = pods_max.max(scene.cluster.ledger.now().running_pods);
    })?;
    let took = began_at.elapsed();
    println!("{hours} h, at most {} nodes and {pods_max} pods: {took:.2?}", outcome.summary.nodes_max);
    println!("{steps_count} steps, {} calls, {:?}", outcome.trace_count, outcome.summary);
    Ok(())
}

fn scenario(hours: i64, nodes: i64) -> Scenario {
    let mut manifests = vec![(Kind::NodePool, pool(nodes))];
    let mut events = Vec::new();
    let most = nodes * PODS_PER_NODE / WORKLOADS;
    for index in 0..WORKLOADS {
        let name = format!("web-{index}");
        manifests.push((Kind::Deployment, deployment(&name, most / 5)));
        let target = Target { kind: Kind::Deployment, key: ObjectKey::new("default", &name) };
        for minute in 0..hours * 60 {
            // From a fifth of the pods to all of them and back every six hours.
            let part = 180 - (minute % 360 - 180).abs();
            let replicas = most / 5 + (most - most / 5) * part / 180;
            let after = SignedDuration::from_mins(minute);
            events.push(Event { after, action: Action::Scale(target.clone(), replicas) });
        }
    }
    events.sort_by_key(|event| event.after);
    Scenario {
        name: "bench-day".to_owned(),
        description: String::new(),
        start: Timestamp::UNIX_EPOCH,
        duration: SignedDuration::from_hours(hours),
        tick: SignedDuration::from_secs(1),
        seed: 1,
        timings: Timings { node_ready: SignedDuration::from_secs(40), ..Timings::default() },
        manifests,
        events,
    }
}

fn pool(nodes: i64) -> Value {
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": "general"},
        "spec": {
            "provider": {"type": "KWOK", "kwok": {"zones": ["a", "b", "c"], "joinDelay": "20s"}},
            "minNodes": 1, "maxNodes": nodes,
            "template": {"capacity": {"cpu": "10", "memory": "64Gi", "pods": "110"}},
        },
    })
}

fn deployment(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "main", "image": "web:1",
                    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                }]},
            },
        },
    })
}
