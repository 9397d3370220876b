//! Scenarios are read, refused with words that help, and happen.

use std::fs;

use super::*;
use crate::cluster::SimCluster;
use crate::store::{ObjectKey, SharedStore, number};

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: v1, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {type: kwok, topology.kubernetes.io/zone: a}}
status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}}
";

/// A folder of its own for each test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, scenario: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("headroom-scenario-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("scenario.yaml"), scenario).unwrap();
        fs::write(folder.join("web.yaml"), WEB).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn check_refused(name: &str, scenario: &str, expected: &str) {
    let folder = Folder::new(name, scenario);
    let error = Scenario::load(&folder.0).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    assert!(error.contains("scenario.yaml"), "{error}");
}

#[test]
fn error_names_file_field_and_fix() {
    check_refused("no-duration", "seed: 1", "duration: missing: write how long");
    check_refused("typo", "duration: 1h\nsed: 1", "sed: unknown field: use one of: description,");
    check_refused(
        "negative",
        "duration: 1h\nevents:\n- {at: 1m, scale: {deployment: web, replicas: -1}}",
        "events[0].scale.replicas: `-1` is out of range: write a whole number from 0 to 100000",
    );
    check_refused(
        "unknown-target",
        "duration: 1h\nevents:\n- {scale: {deployment: wep, replicas: 1}}",
        "events[0].scale.deployment: no Deployment default/wep in the manifests: use one of: default/web",
    );
    check_refused(
        "two",
        "duration: 1h\nevents:\n- {message: a, restartOperator: true}",
        "events[0]: 2 things at once",
    );
    check_refused(
        "curve",
        "duration: 1h\nevents:\n- {scale: {deployment: web, curve: [[5m, 1], [5m, 2]]}}",
        "events[0].scale.curve[1][0]: not later than the point before: order the points by time",
    );
    check_refused(
        "class",
        "duration: 1h\nevents:\n- {launchFailure: {class: Stockout, for: 5m}}",
        "events[0].launchFailure.class: `Stockout` is no class: write one of: OutOfCapacity,",
    );
}

#[test]
fn a_load_is_one_amount_of_one_metric() {
    let refused = |name: &str, load: &str, expected: &str| {
        let scenario = format!("duration: 1h\nevents:\n- {{load: {{deployment: web, {load}}}}}");
        check_refused(name, &scenario, &format!("events[0].load{expected}"));
    };
    refused("load-none", "step: 1m", ": no amount: write exactly one of: milliCpu: 2000, curve:");
    refused("load-two", "milliCpu: 1, memoryMi: 1", ": several amounts: write exactly one of:");
    refused(
        "load-much",
        "memoryMi: 9999999999",
        ".memoryMi: `9999999999` is out of range: write a whole number",
    );
    refused("load-what", "value: 3", ".metric: missing: write the metric that it is of");
    let memory = "metric: {type: Resource, resource: {name: memory}}";
    refused(
        "load-resource",
        &format!("value: 3, {memory}"),
        ".metric.type: `Resource` is no type of a metric: write one of: Pods, Object, External, Prometheus, ExternalScaler, HTTP, Redis; CPU is milliCpu, \
         memory is memoryMi",
    );
    refused(
        "load-both",
        &format!("milliCpu: 3, {memory}"),
        ".metric: milliCpu is not of this metric: write value: 300 in its place, or leave metric out",
    );
    let target =
        "metric: {type: External, external: {metric: {name: queue}, target: {type: Value}}}, value: 3";
    refused("load-target", target, ".metric.external.target: unknown field: use one of: metric");
    let nameless = "metric: {type: Pods, pods: {metric: {}}}, value: 3";
    refused("load-nameless", nameless, ".metric.pods.metric.name: missing: write the name of the metric");
    let objectless =
        "metric: {type: Object, object: {describedObject: front, metric: {name: rps}}}, value: 3";
    refused(
        "load-object",
        objectless,
        ".metric: it cannot be read: write it as in spec.metrics, without target",
    );
}

#[test]
fn loads_are_put_in_thousandths_of_what_they_are_of() {
    let queue = "metric: {type: External, external: {metric: {name: queue}}}";
    let folder = Folder::new(
        "loads",
        &format!(
            "
duration: 10m
events:
- {{load: {{deployment: web, curve: [[0s, 500], [2m, 700]]}}}}
- {{load: {{deployment: web, memoryMi: 3}}}}
- {{at: 1m, load: {{deployment: web, {queue}, value: [[0s, 10], [1m, 30]], step: 30s}}}}
"
        ),
    );
    let scenario = Scenario::load(&folder.0).unwrap();
    let put = |event: &Event| match &event.action {
        Action::Load(_, metric, milli) => (event.after.as_secs(), metric.to_string(), *milli),
        other => panic!("{other:?}"),
    };
    let expected = [
        (0, "CPU", 500),
        (0, "memory", 3 * 1024 * 1024 * 1000),
        (60, "CPU", 600),
        (60, "external metric queue", 10_000),
        (90, "external metric queue", 20_000),
        (120, "CPU", 700),
        (120, "external metric queue", 30_000),
    ];
    let expected = expected.map(|(second, metric, milli)| (second, metric.to_owned(), milli));
    assert_eq!(scenario.events.iter().map(put).collect::<Vec<_>>(), expected);
}

#[test]
fn the_market_needs_a_pool_that_is_there_and_numbers_that_are_some() {
    check_refused(
        "no-pool",
        "duration: 1h\nevents:\n- {spotInterruption: {pool: spot, nodes: 3}}",
        "events[0].spotInterruption.pool: no NodePool spot in the manifests: add a manifest of kind NodePool",
    );
    check_refused(
        "no-share",
        "duration: 1h\nevents:\n- {spotInterruption: {pool: spot, nodes: 120%}}",
        "events[0].spotInterruption.nodes: `\"120%\"` is no number of nodes: write a number from 1",
    );
    check_refused(
        "no-price",
        "duration: 1h\nevents:\n- {price: {pool: spot, perHour: cheap}}",
        "events[0].price.perHour: `cheap` is no price: write a decimal number",
    );
    check_refused(
        "no-hours",
        "duration: 1h\nevents:\n- {price: {pool: spot, perHours: '1'}}",
        "events[0].price.perHours: unknown field: use one of: pool, perHour",
    );
}

#[test]
fn nodes_that_are_taken_back_are_warned_first_and_the_price_changes() {
    let folder = Folder::new(
        "market",
        "
duration: 10m
events:
- {at: 1m, spotInterruption: {pool: spot, nodes: 50%, zone: a, notice: 2m}}
- {at: 2m, price: {pool: spot, perHour: '0.3'}}
",
    );
    let node = |name: &str, zone: &str| {
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{type: kwok, headroom.dev/pool: spot, \
             topology.kubernetes.io/zone: {zone}}}}}\n"
        )
    };
    let pool = "apiVersion: headroom.dev/v1alpha1\nkind: NodePool\nmetadata: {name: spot}\nspec: {maxNodes: 9, \
                provider: {type: KWOK, kwok: {zones: [a]}}, template: {capacity: {cpu: \"4\", memory: 8Gi}}}\n";
    let nodes = [node("s1", "a"), node("s2", "a"), node("s3", "b")].concat();
    fs::write(folder.0.join("pool.yaml"), format!("{pool}{nodes}")).unwrap();
    let scenario = Scenario::load(&folder.0).unwrap();
    let mut cluster = SimCluster::new(SharedStore::new(scenario.seed, scenario.start), scenario.timings);
    let mut timeline = Timeline::of(&scenario);
    assert_eq!(timeline.begin(&scenario, &cluster), []);
    let mut nodes = Vec::new();
    for second in 0..240 {
        let now = scenario.start + SignedDuration::from_secs(second);
        timeline.run_due(&mut cluster, now);
        cluster.step(now);
        if second % 60 == 59 {
            let of_pool = |name: &str| name.starts_with('s');
            let count = cluster.store().with(|store| {
                let spot = store.all(Kind::Node).filter(|(key, _)| of_pool(&key.name));
                let (warned, calm): (Vec<_>, Vec<_>) =
                    spot.partition(|(_, node)| node.to_string().contains("spot-itn"));
                (warned.len(), calm.len())
            });
            nodes.push(count);
        }
    }
    assert_eq!(nodes, [(0, 3), (1, 2), (1, 2), (0, 2)]);
    let price = cluster.store().with(|store| {
        let pool = store.find(Kind::NodePool, &ObjectKey::new("", "spot")).cloned().unwrap();
        pool.pointer("/spec/price/perHour").cloned()
    });
    assert_eq!(price, Some("0.3".into()));
}

#[test]
fn every_field_of_the_page_is_read_and_every_event_is_on_it() {
    let page = include_str!("../../../../docs/scenarios.md");
    for name in super::events::ACTIONS.iter().chain(&super::SETTINGS) {
        assert!(page.contains(&format!("| `{name}` |")), "docs/scenarios.md says nothing of {name}");
    }
}

#[test]
fn manifest_of_an_unknown_kind_or_a_bad_pool_is_refused() {
    let folder = Folder::new("kind", "duration: 1h");
    fs::write(folder.0.join("x.yaml"), "apiVersion: x/v1\nkind: Thing\nmetadata: {name: a}").unwrap();
    let error = Scenario::load(&folder.0).unwrap_err().to_string();
    assert!(error.contains("x.yaml: document 1: kind: x/v1/Thing is not simulated"), "{error}");
    let pool = "apiVersion: headroom.dev/v1alpha1\nkind: NodePool\nmetadata: {name: a}\nspec: {minNodes: 3, maxNodes: 2, \
                provider: {type: KWOK, kwok: {zones: [a]}}, template: {capacity: {cpu: \"4\", memory: 8Gi}}}";
    fs::write(folder.0.join("x.yaml"), pool).unwrap();
    let error = Scenario::load(&folder.0).unwrap_err().to_string();
    assert!(error.contains("x.yaml: document 1: spec.minNodes"), "{error}");
}

#[test]
fn repeated_event_ends_with_its_until() {
    let folder =
        Folder::new("every", "duration: 1h\nevents:\n- {at: 5m, every: 10m, until: 30m, message: ping}");
    let scenario = Scenario::load(&folder.0).unwrap();
    let minutes: Vec<i64> = scenario.events.iter().map(|event| event.after.as_mins()).collect();
    assert_eq!(minutes, [5, 15, 25]);
}

#[test]
fn events_happen_at_their_time() {
    let folder = Folder::new(
        "happen",
        "
duration: 10m
events:
- {at: 2m, scale: {deployment: web, replicas: 5}}
- {at: 3m, deploy: {deployment: web, image: v2}}
- {at: 4m, zoneOutage: {zone: a, for: 1m}}
- {at: 6m, restartOperator: true}
- {at: 8m, delete: {kind: Deployment, name: web}}
",
    );
    let scenario = Scenario::load(&folder.0).unwrap();
    let mut cluster = SimCluster::new(SharedStore::new(scenario.seed, scenario.start), scenario.timings);
    let mut timeline = Timeline::of(&scenario);
    assert_eq!(timeline.begin(&scenario, &cluster), []);
    let mut seen = Vec::new();
    let mut replicas = Vec::new();
    for second in 0..600 {
        let now = scenario.start + SignedDuration::from_secs(second);
        seen.extend(timeline.run_due(&mut cluster, now));
        cluster.step(now);
        if second % 60 == 59 {
            let web = ObjectKey::new("default", "web");
            let web = cluster.store().with(|store| store.find(Kind::Deployment, &web).cloned());
            replicas.push(web.and_then(|web| number(&web, &["status", "readyReplicas"])));
        }
    }
    let (two, five) = (Some(2), Some(5));
    assert_eq!(replicas, [two, two, five, five, Some(0), five, five, five, None, None]);
    let note = |line: &str| Happening::Note(line.to_owned());
    assert_eq!(
        seen,
        [
            note("deploy Deployment default/web"),
            note("zone a is out for 1m"),
            Happening::RestartOperator,
            note("delete Deployment default/web"),
        ]
    );
    assert_eq!(timeline.next_at(), None);
}

#[test]
fn every_example_can_be_read() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("examples");
    let mut count = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("scenario.yaml").exists() {
            Scenario::load(&folder).unwrap_or_else(|error| panic!("{error}"));
            count += 1;
        }
    }
    assert!(0 < count);
}
