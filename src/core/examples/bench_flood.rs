//! Measures one plan while one namespace floods the cluster with pods of as many classes, and fails where a plan takes more
//! than its bounds or leaves others unserved.
//!
//! `make bench-flood` runs each kind of flood on a cluster of 1,000 nodes (at most 10,000) and on one of 17 (at most 300),
//! each in a process of its own; `ARGS="KIND NODES MAX PODS"` runs one. Per row: processor seconds of the plan, peak memory of the
//! process with the cluster in it, nodes bought, pods of the flood with a place and left out of the plan, and pods of
//! the other namespaces with a place. Bounds: 2 s, 256 MB, and every pod of the others.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::sync::{Arc, LazyLock};

use headroom_core::config::Config;
use headroom_core::history::History;
use headroom_core::labels::ObjectKey;
use headroom_core::plan;
use headroom_core::plan::{Plan, Step};
use headroom_core::scheduling::constraints::{
    LabelSelector, NodeSelectorTerm, Operator, PodAffinityTerm, RequiredNodeAffinity, Requirement,
};
use headroom_core::testing::{
    NOW, PodBuilder, claim, config, controller, label_selector, node, pod, pool, requirement, storage_class,
    world,
};
use headroom_core::world::node::{HOSTNAME_LABEL, ZONE_LABEL};
use headroom_core::world::pod::PodClass;
use headroom_core::world::provider::{GroupState, Instance, InstanceState};
use headroom_core::world::volume::AttachLimits;
use headroom_core::world::workload::ControllerKind;
use headroom_core::world::{Delta, World};

type Error = Box<dyn std::error::Error>;

/// Kinds of flood, and how many pods each brings.
const KINDS: [(&str, u32); 18] = [
    ("none", 0),
    ("plain", 10_000),
    ("shapes", 10_000),
    ("own-term", 3000),
    ("shared-term", 3000),
    ("everyone", 3000),
    ("unlike-terms", 3000),
    ("deployments", 10_000),
    ("bound-guards", 3000),
    ("host-port", 10_000),
    ("volumes", 10_000),
    ("100-terms", 3000),
    ("100-own-terms", 3000),
    ("affinity-values", 300),
    ("notin-values", 3000),
    ("bound-flood", 3000),
    ("spread", 3000),
    ("affinity", 3000),
];
/// Nodes, and the most that the pool may have.
const CLUSTERS: [(u32, u32); 2] = [(1000, 10_000), (17, 300)];
/// Other namespaces, each with this many pods.
const OTHERS: u32 = 20;
const OTHER_PODS: u32 = 2;
const FLOOD: &str = "flood";
/// Values for long lists: the same texts are kept once, as the operator keeps them.
static VALUES: LazyLock<Vec<Arc<str>>> =
    LazyLock::new(|| (0..10_000).map(|value| Arc::from(format!("v-{value}"))).collect());
/// Maximum processor time of a plan.
const SECONDS_MAX: f64 = 2.0;
const PEAK_MB_MAX: u64 = 256;

fn main() -> Result<ExitCode, Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [kind, nodes, max, pods] = words.as_slice() {
        let within = measure(kind, nodes.parse()?, max.parse()?, pods.parse()?);
        return Ok(if within { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    println!(
        "{:>15} {:>6} {:>7} {:>7} {:>7} {:>8} {:>8} {:>8} {:>8} {:>9}",
        "flood", "nodes", "max", "pods", "CPU s", "peak MB", "bought", "placed", "left out", "others"
    );
    let program = std::env::current_exe()?;
    let mut all_within = true;
    for (kind, pods) in KINDS {
        if words.first().is_some_and(|only| only != kind) {
            continue;
        }
        for (nodes, max) in CLUSTERS {
            let numbers = [nodes, max, pods].map(|number| number.to_string());
            all_within &= Command::new(&program).arg(kind).args(numbers).status()?.success();
        }
    }
    if !all_within {
        println!(
            "a plan took more than {SECONDS_MAX} s or {PEAK_MB_MAX} MB, or pods of others have no place"
        );
    }
    Ok(if all_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures one flood; whether the plan was within its bounds.
fn measure(kind: &str, nodes: u32, max: u32, pods: u32) -> bool {
    let (world, config) = (cluster(kind, nodes, pods), settings(max));
    let before = processor_seconds();
    let plan = plan(&world, &History::default(), &config, NOW);
    let seconds = processor_seconds() - before;
    let bought: u32 = plan.steps.iter().map(nodes_of).sum();
    let [placed, left_out] = counts(&plan, |namespace| namespace == FLOOD);
    let [served, _] = counts(&plan, |namespace| namespace != FLOOD);
    let (peak, others) = (peak_mb(), OTHERS * OTHER_PODS);
    println!(
        "{kind:>15} {nodes:>6} {max:>7} {pods:>7} {seconds:>7.2} {peak:>8} {bought:>8} {placed:>8} {left_out:>8} {served:>6}/{others}",
    );
    seconds <= SECONDS_MAX && peak <= PEAK_MB_MAX && served == others
}

/// Pods with a place, and pods left out, of these namespaces.
fn counts(plan: &Plan, of: impl Fn(&str) -> bool) -> [u32; 2] {
    let mut counts = [0, 0];
    for verdict in plan.reasons.pods.iter().filter(|verdict| of(&verdict.namespace)) {
        match verdict.skipped {
            Some(_) => counts[1] += verdict.pods_count,
            None => counts[0] += verdict.pods_count - verdict.unplaced_count,
        }
    }
    counts
}

fn nodes_of(step: &Step) -> u32 {
    match step {
        Step::Increase { from, to, .. } => to - from,
        _ => 0,
    }
}

fn settings(max: u32) -> Config {
    config([pool("general").bounds(0, max)])
}

/// Nodes of 4 cores in three zones, half full, with the flood and with pods of other namespaces that each need a new node.
fn cluster(kind: &str, nodes: u32, pods: u32) -> World {
    let mut builder = world().storage_class(storage_class("disks", &[]));
    let mut instances = BTreeMap::new();
    for index in 0..nodes {
        let name = format!("n{index:05}");
        let made = node(&name).of("general", "g").zone(["a", "b", "c"][index as usize % 3]);
        builder = builder.node(made);
        // Of nodes that go only pods of the flood have to move.
        if kind != "bound-flood" {
            builder = builder.pod(pod(&format!("there-{index}")).cpu("2").memory("2Gi").on(&name));
        }
        let instance =
            Instance { state: InstanceState::Running, node: Some(name.as_str().into()), created_at: None };
        instances.insert(format!("kwok://{name}").into(), instance);
        if kind == "volumes" {
            let limits: AttachLimits = [(Arc::from("disk"), 25)].into_iter().collect();
            builder = builder.delta(Delta::CsiNodeApplied(name.as_str().into(), limits));
        }
    }
    let zone = Some(Arc::from("a"));
    let state = GroupState { zone, target: nodes, max: 20_000, instances, ..GroupState::default() };
    builder = builder.group_state("general", "g", state);
    for number in 0..OTHERS * OTHER_PODS {
        let namespace = format!("team-{}", number % OTHERS);
        let app = format!("app-{number}");
        let other = pod(&app).namespace(&namespace).label("app", &app).cpu("3").memory("3Gi");
        let other = match number % 3 {
            0 => other,
            1 => other.away_from("app", &app, HOSTNAME_LABEL),
            _ => other.spread("app", &app, ZONE_LABEL, 1),
        };
        builder = builder.pod(other);
    }
    for index in 0..pods {
        if kind == "bound-guards" {
            let guard = one("own-guard", index).with(|pod| pod.key.name = format!("guard-{index}").into());
            builder = builder.pod(guard.on(&format!("n{:05}", index % nodes)));
        }
        if kind == "bound-flood" {
            let (owner, name) = (format!("deployment-{index}"), format!("n{:05}", index % nodes));
            builder = builder.controller(controller(ControllerKind::ReplicaSet, &owner, 1, one(kind, index)));
            builder = builder.pod(one(kind, index).on(&name));
            continue;
        }
        if kind == "volumes" {
            let made = claim(&format!("data-{index}"), "disks");
            let key = ObjectKey::new(FLOOD, format!("data-{index}"));
            builder = builder.claim(headroom_core::world::volume::VolumeClaim { key, ..made });
        }
        builder = builder.pod(one(kind, index));
    }
    builder.build()
}

/// One pod of the flood.
fn one(kind: &str, index: u32) -> PodBuilder {
    let id = format!("id-{index}");
    let flood = pod(&format!("flood-{index}")).namespace(FLOOD).cpu("10m").label("app", "flood");
    let flood = flood.label("id", &id).owner("ReplicaSet", &format!("deployment-{index}"));
    match kind {
        "shapes" => flood.cpu(&format!("{}m", 10 + index % 1000)).memory(&format!("{}Mi", 1 + index / 1000)),
        "own-term" | "bound-flood" => flood.away_from("id", &id, HOSTNAME_LABEL),
        "shared-term" | "deployments" => flood.away_from("app", "flood", HOSTNAME_LABEL),
        "everyone" => flood.with_class(|class| class.pod_anti_affinity.push(everyone())),
        "unlike-terms" => flood.with_class(|class| avoid_all_but(class, &id)),
        "own-guard" => flood.with_class(|class| avoid_foes(class, &id)),
        "host-port" => flood.host_port(80),
        "volumes" => flood.claim(&format!("data-{index}")),
        "100-own-terms" => (0..100)
            .fold(flood, |flood, term| flood.away_from("foe", &format!("{index}-{term}"), HOSTNAME_LABEL)),
        "affinity-values" => flood.with_class(|class| class.node_affinity = Some(many_values(index))),
        "notin-values" => flood.with_class(|class| avoid_many(class, index)),
        "100-terms" => (0..100).fold(flood, |flood, term| {
            let other = format!("id-{}", (index + term) % 3000);
            flood.away_from("id", &other, HOSTNAME_LABEL)
        }),
        "spread" => flood.spread("id", &id, HOSTNAME_LABEL, 1).spread("app", "flood", ZONE_LABEL, 1),
        "affinity" => flood.near("id", &id, ZONE_LABEL),
        _ => flood,
    }
}

/// A term that keeps every labelled pod of every namespace off the node, in words that all share.
fn everyone() -> PodAffinityTerm {
    term(LabelSelector {
        match_expressions: vec![requirement("id", Operator::Exists, &[])],
        ..Default::default()
    })
}

/// A term in words of its own that keeps all pods off but those of this id.
fn avoid_all_but(class: &mut PodClass, id: &str) {
    let requirements =
        vec![requirement("app", Operator::In, &["flood"]), requirement("not", Operator::NotIn, &[id])];
    class
        .pod_anti_affinity
        .push(term(LabelSelector { match_expressions: requirements, ..Default::default() }));
}

/// A term in words of its own that keeps pods of a label off that no pod has, in every namespace.
fn avoid_foes(class: &mut PodClass, id: &str) {
    let mut selector = label_selector("app", "foe");
    selector.match_expressions.push(requirement("not", Operator::NotIn, &[id]));
    class.pod_anti_affinity.push(term(selector));
}

/// Node affinity that lists many values, the last of which is its own.
fn many_values(index: u32) -> RequiredNodeAffinity {
    let own = format!("own-{index}");
    let listed = VALUES.iter().cloned().chain([own.into()]);
    let asked = Requirement { key: ZONE_LABEL.into(), operator: Operator::In, values: listed.collect() };
    let term = NodeSelectorTerm { match_expressions: vec![asked], ..NodeSelectorTerm::default() };
    RequiredNodeAffinity { terms: vec![term] }
}

/// A term in words of its own that names no label that pods must have, and lists many values.
fn avoid_many(class: &mut PodClass, index: u32) {
    let own = format!("own-{index}");
    let listed = VALUES.iter().take(500).cloned().chain([own.into()]);
    let asked = Requirement { key: "id".into(), operator: Operator::NotIn, values: listed.collect() };
    class
        .pod_anti_affinity
        .push(term(LabelSelector { match_expressions: vec![asked], ..Default::default() }));
}

fn term(selector: LabelSelector) -> PodAffinityTerm {
    PodAffinityTerm {
        selector: Some(selector),
        namespaces: Vec::new(),
        namespace_selector: Some(LabelSelector::default()),
        topology_key: HOSTNAME_LABEL.into(),
    }
}

/// Processor time of this process so far; 0 where the kernel does not report it.
fn processor_seconds() -> f64 {
    let line = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    line.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// Peak memory of this process in MB; 0 where the kernel does not report it.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}
