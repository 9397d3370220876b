//! Measures a simulated day of 500 nodes and 10,000 pods through the typed port; it prints figures and asserts nothing.
//!
//! `make bench-day`, or ARGS="HOURS NODES RISES": by default 24 hours in which the load of 500 nodes rises and falls once;
//! ARGS="24 500 4" is the same day with four times the changes.

use std::time::Instant;

use headroom_observe::host::thread_cpu_time;
use headroom_simulator::cluster::Timings;
use headroom_simulator::run::{Options, run};
use headroom_simulator::scenario::{Action, Event, Scenario, Target};
use headroom_simulator::store::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Deployments among which the pods are spread.
const WORKLOADS: i64 = 20;
/// Pods of half a CPU on nodes of ten: twenty a node.
const PODS_PER_NODE: i64 = 20;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<i64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let argument = |index: usize, default: i64| arguments.get(index).copied().unwrap_or(default).max(1);
    let (hours, nodes, rises) = (argument(0, 24), argument(1, 500), argument(2, 1));
    let scenario = scenario(hours, nodes, rises);
    let options = Options::of(&scenario);
    let (began_at, cpu_before) = (Instant::now(), thread_cpu_time());
    let (mut steps_count, mut pods_max) = (0_u64, 0);
    let outcome = run(&scenario, &options, &mut |scene| {
        steps_count += 1;
        pods_max = pods_max.max(scene.cluster.statistics.now().running_pods);
    })?;
    let took = began_at.elapsed().as_secs_f64();
    let nodes_max = outcome.summary.nodes_max;
    println!("{hours} h with {rises} rises and falls, at most {nodes_max} nodes and {pods_max} pods");
    // The simulation runs in this thread.
    let cpu = (thread_cpu_time() - cpu_before).as_secs_f64();
    let pace = hours as f64 * 3600.0 / cpu;
    println!("{cpu:.2} s of processor time ({pace:.0} times real time), {took:.2} s by the clock");
    println!("{steps_count} steps, {} writes, trace {}", outcome.trace_count, outcome.hash);
    println!("{:?}", outcome.summary);
    Ok(())
}

fn scenario(hours: i64, nodes: i64, rises: i64) -> Scenario {
    let mut manifests = vec![(Kind::NodePool, pool(nodes))];
    let mut events = Vec::new();
    let most = nodes * PODS_PER_NODE / WORKLOADS;
    for index in 0..WORKLOADS {
        let name = format!("web-{index}");
        manifests.push((Kind::Deployment, deployment(&name, most / 5)));
        let target = Target { kind: Kind::Deployment, key: ObjectKey::new("default", &name) };
        let mut current = most / 5;
        for minute in 0..hours * 60 {
            // From a fifth of the pods to all of them and back, in each of the equal parts of the run.
            let half = hours * 30 / rises;
            let part = half - (minute % (2 * half) - half).abs();
            let replicas = most / 5 + (most - most / 5) * part / half;
            if std::mem::replace(&mut current, replicas) == replicas {
                continue;
            }
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
            "provider": {"type": "KWOK", "kwok": {"zones": ["a", "b", "c"], "simulation": {"joinDelay": "20s"}}},
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
