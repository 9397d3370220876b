//! Start of a simulation: a scenario, manifests alone, or a snapshot of a cluster; and the changes to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use headroom_core::time::Seconds;
use jiff::SignedDuration;

use crate::simulate::length;
use crate::{scalers, source};
use headroom_explain::Case;
use headroom_explain::explanation::counted;
use headroom_simulator::changes::{Changes, Start, read_price, read_times};
use headroom_simulator::cluster::Timings;
use headroom_simulator::initial_state;
use headroom_simulator::scenario::{Scenario, read_manifests};
use headroom_simulator::store::{Kind, ObjectKey};

/// Default length of runs from manifests and snapshots.
const LENGTH: SignedDuration = SignedDuration::from_hours(1);
/// From a node's registration to Ready on a cluster that there is.
const NODE_READY: SignedDuration = SignedDuration::from_secs(15);

/// Changes to the start.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct WhatIf {
    /// Put the objects of this file or folder in the place of those of the same name, or beside them; repeatable
    #[arg(long = "with", value_name = "PATH")]
    with: Vec<PathBuf>,

    /// Let a node of the pool cost so much an hour; repeatable
    #[arg(long = "price", value_name = "POOL=PRICE", value_parser = read_price)]
    prices: Vec<(String, String)>,

    /// Multiply the load: the replicas of workloads, or what they have to carry
    #[arg(long = "load", value_name = "TIMES", value_parser = read_times)]
    load: Option<i64>,

    /// Take out a zone, from the beginning to the end; repeatable
    #[arg(long = "zone-down", value_name = "ZONE")]
    zones_down: Vec<String>,
}

/// Length and join delay of a run that does not start from a scenario.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Length {
    /// Length of the run; 1h by default, or that of the scenario
    #[arg(long = "for", value_name = "TIME", value_parser = length)]
    duration: Option<SignedDuration>,

    /// On a snapshot: from a decision to buy a node to its registration
    #[arg(long, value_name = "TIME", value_parser = length, default_value = "45s")]
    join_delay: SignedDuration,
}

impl WhatIf {
    /// The changes.
    #[must_use]
    pub(crate) fn changes(&self) -> Changes {
        Changes {
            with: self.with.clone(),
            prices: self.prices.clone(),
            load_milli: self.load,
            zones_down: self.zones_down.clone(),
        }
    }
}

/// Reads a scenario's folder, manifests, or a snapshot, by what it is.
///
/// # Errors
/// If it is none of them, or cannot be used; the message names the file, the field and the fix.
pub(crate) fn start(path: &Path, length: &Length) -> anyhow::Result<Start> {
    let mut start = read(path, length)?;
    start.run_hpas();
    Ok(start)
}

fn read(path: &Path, length: &Length) -> anyhow::Result<Start> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let is = |known: &[&str]| known.contains(&extension);
    if path.is_dir() && path.join("scenario.yaml").exists() {
        let mut scenario = Scenario::load(path)?;
        scenario.duration = length.duration.unwrap_or(scenario.duration);
        return Ok(bare(scenario));
    }
    if path.is_dir() || is(&["yaml", "yml"]) {
        let manifests = read_manifests(path)?;
        if !manifests.iter().any(|(kind, _)| *kind == Kind::NodePool) {
            bail!("{}: no NodePool among the manifests; add one, or a scenario.yaml", path.display());
        }
        let duration = length.duration.unwrap_or(LENGTH);
        return Ok(bare(Scenario::of_manifests(&stem(path), manifests, duration)));
    }
    if is(&["json", "gz"]) {
        let case = source::read(path)?;
        return of_case(&case, &stem(path), length)
            .with_context(|| format!("failed to simulate {}", path.display()));
    }
    if path.exists() {
        bail!("{} is no folder, and neither .yaml nor .json nor .gz", path.display());
    }
    bail!(
        "{} is not there; name a scenario's folder, manifests, or a file that `headroom snapshot -o` wrote",
        path.display()
    )
}

fn bare(scenario: Scenario) -> Start {
    Start { scenario, initial_state: Arc::default(), most: BTreeMap::new() }
}

/// The name without the ending for the kind of file.
fn stem(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let known = [".json.gz", ".json", ".gz", ".yaml", ".yml"];
    let stem = known.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    stem.to_owned()
}

fn of_case(case: &Case, name: &str, length: &Length) -> anyhow::Result<Start> {
    let join_delay = Seconds(length.join_delay.as_secs());
    let initial_state = initial_state::of(&case.input, join_delay)?;
    if !initial_state.policies.iter().any(|(kind, _)| *kind == Kind::NodePool) {
        bail!("the snapshot has no pool that can be simulated: {}", initial_state.notes.join("; "));
    }
    let world = &case.input.world;
    let duration = length.duration.unwrap_or(LENGTH);
    let scenario = Scenario {
        description: format!(
            "{} and {} as of {}",
            counted(world.nodes.len(), "node"),
            counted(world.pods.iter().filter(|pod| !pod.phase.finished()).count(), "pod"),
            case.input.now
        ),
        start: case.input.now.to_jiff(),
        timings: Timings { node_ready: NODE_READY, ..Timings::default() },
        ..Scenario::of_manifests(name, initial_state.policies, duration)
    };
    let mut start = Start { scenario, initial_state: Arc::new(initial_state.objects), most: most(case) };
    let scalers = scalers::of(&case.evidence, &case.input.world);
    start.scenario.manifests.extend(scalers.manifests);
    for (target, metric, milli) in scalers.loads {
        start.load(target, metric, milli);
    }
    for note in initial_state.notes.into_iter().chain(scalers.notes) {
        start.note(note);
    }
    Ok(start)
}

/// The most that HPAs and ScalingPolicies allow each ReplicaSet and StatefulSet.
fn most(case: &Case) -> BTreeMap<(Kind, ObjectKey), i64> {
    let evidence = &case.evidence;
    let scaled = |kind: &str, key: &headroom_core::labels::ObjectKey| {
        let policy = evidence.policy_of(kind, key).and_then(|policy| policy.status.bounds.as_ref());
        let hpa = evidence.hpa_of(kind, key).map(|hpa| hpa.max);
        policy.map(|bounds| i64::from(bounds.max_replicas)).or(hpa)
    };
    let mut most = BTreeMap::new();
    for workload in &evidence.workloads {
        let kind = match workload.kind.as_str() {
            "ReplicaSet" => Kind::ReplicaSet,
            "StatefulSet" => Kind::StatefulSet,
            _ => continue,
        };
        let own = scaled(&workload.kind, &workload.key);
        let owner = workload.owner.as_ref().and_then(|(kind, name)| {
            let key = headroom_core::labels::ObjectKey::new(workload.key.namespace.clone(), name.as_str());
            scaled(kind, &key)
        });
        if let Some(limit) = own.or(owner) {
            most.insert((kind, ObjectKey::new(&workload.key.namespace, &workload.key.name)), limit);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use headroom_core::history::History;
    use headroom_core::labels::ObjectKey as CoreKey;
    use headroom_core::snapshot::Snapshot;
    use headroom_core::testing::{
        NOW, bound_claim, config, controller, node, pod, pool, storage_class, volume, world,
    };
    use headroom_core::world::node::ZONE_LABEL;
    use headroom_core::world::workload::ControllerKind;
    use serde_json::{Value, json};

    use super::*;
    use headroom_explain::Evidence;
    use headroom_explain::case::ProviderView;
    use headroom_explain::evidence::{HpaSeen, WorkloadSeen};
    use headroom_simulator::run::{Options, run};
    use headroom_simulator::store::{number, text};

    /// A Deployment of two pods of a CPU and a GiB each, under an HPA of one metric, as its spec and its status have it, and at
    /// most 7 replicas.
    fn case(asked: Value, reported: Value) -> Case {
        let web = || pod("web-1").cpu("1").memory("1Gi").label("app", "web").label("pod-template-hash", "x1");
        let owned = |name: &str| {
            web().with(|pod| pod.key = CoreKey::new("default", name)).owner("ReplicaSet", "web-x1")
        };
        let world = world()
            .node(node("n1").cpu("16").of("general", "a").zone("a"))
            .group("general", "a", "a", 1)
            .controller(controller(ControllerKind::ReplicaSet, "web-x1", 2, web()))
            .pod(owned("web-1").on("n1"))
            .pod(owned("web-2").on("n1"));
        let input = Snapshot::of(&world.build(), &History::default(), &config([pool("general")]), NOW);
        let hpa = HpaSeen {
            key: CoreKey::new("default", "web"),
            target: ("Deployment".to_owned(), "web".to_owned()),
            min: 1,
            max: 7,
            current: Some(2),
            current_metrics: Some(vec![reported]),
            spec: Some(json!({"minReplicas": 1, "maxReplicas": 7, "metrics": [asked]})),
            ..HpaSeen::default()
        };
        let set = WorkloadSeen {
            kind: "ReplicaSet".to_owned(),
            key: CoreKey::new("default", "web-x1"),
            replicas: 2,
            owner: Some(("Deployment".to_owned(), "web".to_owned())),
            ..WorkloadSeen::default()
        };
        let evidence = Evidence { hpas: vec![hpa], workloads: vec![set], ..Evidence::default() };
        Case::new(input, evidence, ProviderView::Operator)
    }

    /// Each pod uses so much of a resource, of which half of the requests is wanted.
    fn of_resource(name: &str, average: &str) -> Case {
        let resource =
            |field: &str, value: Value| json!({"type": "Resource", "resource": {"name": name, field: value}});
        case(
            resource("target", json!({"type": "Utilization", "averageUtilization": 50})),
            resource("current", json!({"averageValue": average})),
        )
    }

    /// A metric of type `kind` of which there are 25 for each pod, and 30 are wanted.
    fn of_average(kind: &str, member: &Value) -> Case {
        let with = |field: &str, value: Value| {
            let mut member = member.clone();
            member[field] = value;
            json!({"type": kind, kind.to_lowercase(): member})
        };
        let target = json!({"type": "AverageValue", "averageValue": "30"});
        case(with("target", target), with("current", json!({"averageValue": "25"})))
    }

    /// Returns the number of replicas at so many thousandths of the load.
    fn replicas(case: &Case, load_milli: i64) -> i64 {
        let length = Length {
            duration: Some(SignedDuration::from_mins(20)),
            join_delay: SignedDuration::from_secs(45),
        };
        let mut start = of_case(case, "cluster", &length).expect("a cluster");
        start.run_hpas();
        let changes = Changes { load_milli: Some(load_milli), ..Changes::default() };
        let start = changes.applied(&start).expect("more load");
        let settings = Options { initial_state: start.initial_state.clone(), ..Options::of(&start.scenario) };
        let mut replicas = 0;
        run(&start.scenario, &settings, &mut |scene| {
            scene.cluster.store().with(|store| {
                let set = store.find(Kind::ReplicaSet, &ObjectKey::new("default", "web-x1"));
                replicas = set.and_then(|set| number(set, &["spec", "replicas"])).unwrap_or(-1);
            });
        })
        .expect("a runtime");
        replicas
    }

    #[test]
    fn load_on_a_snapshot_moves_replicas_by_the_decision_of_its_hpa() {
        // 800m in all at a target of 500m a pod: two are right, and one is as soon as the load halves.
        let cpu = of_resource("cpu", "400m");
        assert_eq!(replicas(&cpu, 1_000), 2);
        assert_eq!(replicas(&cpu, 500), 1);
        assert_eq!(replicas(&cpu, 2_500), 4);
        assert_eq!(replicas(&cpu, 10_000), 7, "its most, and not twenty times the replicas");
    }

    #[test]
    fn memory_is_a_load_like_cpu() {
        // 800Mi in all at a target of 512Mi a pod, three times.
        let memory = of_resource("memory", "400Mi");
        assert_eq!((replicas(&memory, 1_000), replicas(&memory, 3_000)), (2, 5));
    }

    #[test]
    fn metrics_that_pods_share_are_loads_whoever_serves_them() {
        // 50 in all at a target of 30 a pod, three times.
        let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front"});
        let queue = json!({"metric": {"name": "queue", "selector": {"matchLabels": {"of": "web"}}}});
        let external = of_average("External", &queue);
        assert_eq!((replicas(&external, 1_000), replicas(&external, 3_000)), (2, 5));
        let pods = of_average("Pods", &json!({"metric": {"name": "rps"}}));
        assert_eq!(replicas(&pods, 3_000), 5);
        let object = of_average("Object", &json!({"metric": {"name": "rps"}, "describedObject": ingress}));
        assert_eq!(replicas(&object, 3_000), 5);
    }

    /// A StatefulSet of one pod in zone a, whose volume is there too if it has one, and a pool that may buy in b.
    fn with_volume(mounts: bool) -> Case {
        let db = |pod: headroom_core::testing::PodBuilder| if mounts { pod.claim("data-db-0") } else { pod };
        let world = world()
            .node(node("n1").cpu("4").of("general", "a").zone("a"))
            .group("general", "a", "a", 1)
            .group("general", "b", "b", 0)
            .storage_class(storage_class("fast", &[]))
            .claim(bound_claim("data-db-0", "disk"))
            .volume(volume("disk", ZONE_LABEL, "a"))
            .controller(controller(ControllerKind::StatefulSet, "db", 1, db(pod("x").cpu("1"))))
            .pod(db(pod("db-0").cpu("1").owner("StatefulSet", "db")).on("n1"));
        let input = Snapshot::of(&world.build(), &History::default(), &config([pool("general")]), NOW);
        Case::new(input, Evidence::default(), ProviderView::Operator)
    }

    /// The zone that the one pod of db is in after half an hour without zone a.
    fn place_without_zone_a(case: &Case) -> Option<String> {
        let length = Length {
            duration: Some(SignedDuration::from_mins(30)),
            join_delay: SignedDuration::from_secs(45),
        };
        let start = of_case(case, "cluster", &length).expect("a cluster");
        assert!(
            start.scenario.events.iter().all(|event| !format!("{event:?}").contains("olumes are left out"))
        );
        let changes = Changes { zones_down: vec!["a".to_owned()], ..Changes::default() };
        let start = changes.applied(&start).expect("a zone less");
        let settings = Options { initial_state: start.initial_state.clone(), ..Options::of(&start.scenario) };
        let mut place = None;
        run(&start.scenario, &settings, &mut |scene| {
            scene.cluster.store().with(|store| {
                let db = store.find(Kind::Pod, &ObjectKey::new("default", "db-0"));
                let node = db.and_then(|db| text(db, &["spec", "nodeName"]));
                let node = node.and_then(|node| store.find(Kind::Node, &ObjectKey::new("", node)));
                let zone = node.and_then(|node| text(node, &["metadata", "labels", ZONE_LABEL]));
                place = zone.map(str::to_owned);
            });
        })
        .expect("a runtime");
        place
    }

    #[test]
    fn a_pod_waits_for_the_zone_of_its_volume_and_one_without_goes_elsewhere() {
        assert_eq!(place_without_zone_a(&with_volume(false)).as_deref(), Some("b"));
        assert_ne!(place_without_zone_a(&with_volume(true)).as_deref(), Some("b"));
    }
}
