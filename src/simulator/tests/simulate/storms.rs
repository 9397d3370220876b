//! Random scenarios in rough conditions, each with a calm end in which everything must come right.
//!
//! `HEADROOM_STORMS=200` runs as many seeds; `HEADROOM_STORM=17` runs one of them alone.

use headroom_core::world::provider::FailureClass;
use headroom_simulator::cluster::Timings;
use headroom_simulator::run::{Options, run};
use headroom_simulator::scenario::{Action, Event, Scenario, Target};
use headroom_simulator::store::{Kind, ObjectKey};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::inspector::{End, Inspector};

/// Seeds without the environment's word: a minute of work at most.
const STORMS: u64 = 16;

/// Pods of the one size of a pool's workload that fit one of its nodes.
const PODS_PER_NODE: i64 = 4;

struct Storm {
    scenario: Scenario,
    /// Number of nodes that each pool needs at its highest load.
    need: Vec<(String, usize)>,
    /// True if the load also goes down again.
    falls: bool,
}

fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

/// A scenario from its seed. Even seeds only grow, so that every node bought can be counted.
fn storm(seed: u64) -> Storm {
    let mut random = fastrand::Rng::with_seed(seed);
    let falls = seed % 2 == 1;
    let (mut manifests, mut events, mut need) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..random.usize(1..=2) {
        let name = format!("p{index}");
        let least = random.i64(0..=2);
        manifests.push((Kind::NodePool, pool(&name, least, falls, &mut random)));
        manifests.push((Kind::Deployment, deployment(&name)));
        if random.bool() {
            manifests.push((Kind::PodDisruptionBudget, budget(&name)));
        }
        let mut replicas = 0;
        let mut at = random.i64(0..120);
        for _ in 0..random.usize(1..=4) {
            replicas += random.i64(1..=9);
            events.push(scale(&name, at, replicas));
            at += random.i64(10..300);
        }
        if falls {
            events.push(scale(&name, 20 * 60, replicas / 4));
        }
        if falls && random.bool() {
            events.push(Event {
                after: minutes(random.i64(1..25)),
                action: Action::Deploy(target(&name), None),
            });
        }
        let nodes = replicas.max(0).unsigned_abs().div_ceil(PODS_PER_NODE.unsigned_abs());
        need.push((name, usize::try_from(nodes.max(least.unsigned_abs())).expect("small")));
    }
    if random.bool() {
        let lasts = SignedDuration::from_secs(random.i64(30..400));
        events.push(Event {
            after: SignedDuration::from_secs(random.i64(0..600)),
            action: Action::LaunchFailure {
                pool: None,
                zone: random.bool().then(|| "a".to_owned()),
                class: FailureClass::OutOfCapacity,
                lasts,
            },
        });
    }
    if random.bool() {
        let after = SignedDuration::from_secs(random.i64(0..600));
        events.push(Event { after, action: Action::SlowCloud(3, SignedDuration::from_secs(40), minutes(5)) });
    }
    events.sort_by_key(|event| event.after);
    let scenario = Scenario {
        name: format!("storm {seed}"),
        description: String::new(),
        start: "2026-03-02T07:00:00Z".parse().expect("a time"),
        duration: minutes(if falls { 60 } else { 40 }),
        tick: SignedDuration::from_secs(1),
        seed,
        timings: Timings { node_ready: SignedDuration::from_secs(20), ..Timings::default() },
        manifests,
        events,
    };
    Storm { scenario, need, falls }
}

fn pool(name: &str, least: i64, shrinks: bool, random: &mut fastrand::Rng) -> Value {
    let zones = &["a", "b", "c"][..random.usize(1..=3)];
    let join_delay = if random.bool() { 0 } else { random.u32(1..60) };
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "provider": {"type": "KWOK", "kwok": {"zones": zones, "simulation": {"joinDelay": format!("{join_delay}s")}}},
            "minNodes": least, "maxNodes": 30,
            "template": {"labels": {"pool": name}, "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
            "scaleUp": {"backoff": {"initial": "1m", "max": "4m", "resetAfter": "1h"}},
            "scaleDown": {"enabled": shrinks, "unneededFor": "2m", "delayAfterAdd": "2m"},
        },
    })
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "nodeSelector": {"pool": name},
                    "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
                },
            },
        },
    })
}

fn budget(name: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}},
    })
}

fn target(name: &str) -> Target {
    Target { kind: Kind::Deployment, key: ObjectKey::new("default", name) }
}

fn scale(name: &str, seconds: i64, replicas: i64) -> Event {
    Event { after: SignedDuration::from_secs(seconds), action: Action::Scale(target(name), replicas) }
}

/// Everything that is wrong with the run of one seed.
fn wrongs(seed: u64) -> Vec<String> {
    let Storm { scenario, need, falls } = storm(seed);
    let rough = Options::of(&scenario).rough(&scenario);
    let replicas_count = 1 + usize::from(seed.is_multiple_of(3));
    let options = Options {
        keep_trace: true,
        replicas_count,
        // Short lives, so that many end between the journal and the last effect of an intent.
        effects_per_life_max: 10,
        calm_after: scenario.duration / 2,
        ..rough
    };
    let (mut inspector, mut end) = (Inspector::default(), End::default());
    let over = scenario.start + scenario.duration;
    let outcome = run(&scenario, &options, &mut |scene| {
        inspector.look(scene);
        if over <= scene.now {
            end = End::of(scene.cluster);
        }
    })
    .expect("a runtime can be built");
    let mut wrongs = inspector.violations;
    wrongs.append(&mut end.wrong);
    wrongs.extend(end.pending.iter().map(|pod| format!("pod {pod} has no node at the end")));
    for (pool, need) in need {
        let made = inspector.made.get(&pool).copied().unwrap_or(0);
        let there = end.nodes.get(&pool).copied().unwrap_or(0);
        if !falls && made != need {
            wrongs.push(format!("pool {pool} needs {need} nodes and {made} were bought"));
        }
        if falls && there > need {
            wrongs.push(format!("pool {pool} needed {need} nodes at most and keeps {there}"));
        }
    }
    if outcome.faults_count == 0 {
        wrongs.push("no fault struck: the storm was none".to_owned());
    }
    wrongs
}

#[test]
fn whatever_goes_wrong_comes_right_and_nothing_is_bought_twice() {
    let number = |name: &str| std::env::var(name).ok().and_then(|word| word.parse::<u64>().ok());
    let seeds: Vec<u64> = match number("HEADROOM_STORM") {
        Some(seed) => vec![seed],
        None => (0..number("HEADROOM_STORMS").unwrap_or(STORMS)).collect(),
    };
    // Two at a time: each is one thread's work.
    let (even, odd): (Vec<u64>, Vec<u64>) = seeds.into_iter().partition(|seed| seed.is_multiple_of(2));
    let other = std::thread::spawn(move || failures(&odd));
    let mut failed = failures(&even);
    failed.extend(other.join().expect("a panic of a run has been printed"));
    assert!(failed.is_empty(), "{} seeds failed\n{}", failed.len(), failed.join("\n"));
}

/// The seeds that failed, each with how to play it again; printed as they are found, since many take their time.
fn failures(seeds: &[u64]) -> Vec<String> {
    let mut failed = Vec::new();
    for seed in seeds {
        let wrongs = wrongs(*seed);
        if !wrongs.is_empty() {
            let replay = format!("HEADROOM_STORM={seed} cargo test --test simulate storms");
            let message = format!("seed {seed} ({replay}):\n  {}", wrongs.join("\n  "));
            eprintln!("{message}");
            failed.push(message);
        }
    }
    failed
}
