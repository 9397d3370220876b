//! Pods that look at other pods: the simulated scheduler, which shares no rule with the plan, fills what was planned.

use std::collections::{BTreeMap, BTreeSet};

use headroom_simulator::cluster::Timings;
use headroom_simulator::run::{Options, run};
use headroom_simulator::scenario::Scenario;
use headroom_simulator::store::{Kind, Store, at, text};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::inspector::{End, Inspector};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

fn deployment(name: &str, replicas: u32, cpu: &str, rule: (&str, Value)) -> (Kind, Value) {
    let mut spec = json!({
        "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
    });
    spec[rule.0] = rule.1;
    let made = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    });
    (Kind::Deployment, made)
}

fn scenario() -> Scenario {
    let term = |kind: &str, name: &str, key: &str| {
        let term = json!({"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": key});
        let mut rule = json!({});
        rule[kind]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([term]);
        ("affinity", rule)
    };
    let spread = json!([{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "minDomains": 3, "labelSelector": {"matchLabels": {"app": "spread"}}}]);
    let pool = json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": "general"},
        "spec": {
            "provider": {"type": "KWOK", "kwok": {"zones": ["a", "b", "c"], "simulation": {"joinDelay": "5s"}}},
            "minNodes": 0, "maxNodes": 40,
            "template": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
        },
    });
    Scenario {
        name: "neighbours".to_owned(),
        description: String::new(),
        start: "2026-03-02T07:00:00Z".parse().expect("a time"),
        duration: SignedDuration::from_mins(5),
        tick: SignedDuration::from_secs(1),
        seed: 3,
        timings: Timings { node_ready: SignedDuration::from_secs(5), ..Timings::default() },
        manifests: vec![
            (Kind::NodePool, pool),
            deployment("spread", 6, "1", ("topologySpreadConstraints", spread)),
            deployment("apart", 5, "1", term("podAntiAffinity", "apart", HOSTNAME)),
            deployment("together", 4, "3", term("podAffinity", "together", ZONE)),
        ],
        events: Vec::new(),
    }
}

/// By workload: the node and the zone of each pod.
fn places(store: &Store) -> BTreeMap<String, Vec<(String, String)>> {
    let zones: BTreeMap<&str, &str> = store
        .all(Kind::Node)
        .map(|(key, node)| (&*key.name, text(node, &["metadata", "labels", ZONE]).expect("a zone")))
        .collect();
    let mut places: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (_, pod) in store.all(Kind::Pod) {
        let app = text(pod, &["metadata", "labels", "app"]).expect("an app");
        let node = at(pod, &["spec", "nodeName"]).and_then(Value::as_str).unwrap_or_default();
        let zone = zones.get(node).copied().unwrap_or_default();
        places.entry(app.to_owned()).or_default().push((node.to_owned(), zone.to_owned()));
    }
    places
}

#[test]
fn simulated_scheduler_fills_what_was_planned_for_pods_that_look_at_others() {
    let scenario = scenario();
    let options = Options { keep_trace: true, ..Options::of(&scenario) };
    let (mut inspector, mut end) = (Inspector::default(), End::default());
    let mut found = BTreeMap::new();
    run(&scenario, &options, &mut |scene| {
        inspector.look(scene);
        end = End::of(scene.cluster);
        found = scene.cluster.store().with(|store| places(store));
    })
    .expect("a runtime can be built");
    assert_eq!(inspector.violations, Vec::<String>::new());
    assert_eq!((&end.wrong, &end.pending), (&vec![], &vec![]));

    let zones = |app: &str| -> Vec<&str> {
        let mut zones: Vec<&str> = found[app].iter().map(|(_, zone)| zone.as_str()).collect();
        zones.sort_unstable();
        zones
    };
    assert_eq!(zones("spread"), ["a", "a", "b", "b", "c", "c"]);
    assert_eq!(zones("together").iter().collect::<BTreeSet<_>>().len(), 1, "{found:?}");
    assert_eq!(found["apart"].iter().map(|(node, _)| node).collect::<BTreeSet<_>>().len(), 5, "{found:?}");
    let used: BTreeSet<&String> = found.values().flatten().map(|(node, _)| node).collect();
    let nodes: usize = end.nodes.values().sum();
    assert_eq!((used.len(), inspector.made.values().sum::<usize>()), (nodes, nodes), "{found:?}");
}
