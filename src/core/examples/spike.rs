//! Feeds a recorded cluster to the world as changes and prints time and memory. It decides nothing and checks nothing.
//!
//! `cargo run --release -p headroom-core --example spike -- PATH.json.gz`, where the file holds the `in` object of a
//! loop case of the golden vectors: groups, nodes, pods, controllers. Wanted at 15,000 nodes and 450,000 pods: under
//! 300 MB, and under 20 ms for a plan after one pod changed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;
use std::time::Instant;

use flate2::read::GzDecoder;
use headroom_core::config::{ClusterSettings, Config, Mode, NodeTemplate, Pool, Profile, ScaleDown, ScaleUp};
use headroom_core::history::History;
use headroom_core::known::Known;
use headroom_core::labels::{Labels, ObjectKey};
use headroom_core::resources::Resources;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::{GROUP_LABEL, Node, POOL_LABEL, Readiness};
use headroom_core::world::pod::{Owner, Pod, PodClass, PodPhase};
use headroom_core::world::provider::{GroupState, Instance, InstanceState, ProviderState};
use headroom_core::world::workload::{Controller, ControllerKind};
use headroom_core::world::{Delta, Kind, World};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// T0 of the vectors, 2000-01-01T00:00:00Z.
const T0: i64 = 946_684_800;

#[derive(Deserialize)]
struct BenchGroup {
    id: String,
    min: u32,
    max: u32,
    target: u32,
    template: BenchTemplate,
}

#[derive(Deserialize)]
struct BenchTemplate {
    cpu_m: i64,
    mem: i64,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct BenchNode {
    name: String,
    #[serde(default)]
    group: String,
    cpu_m: i64,
    mem: i64,
    #[serde(default = "default_pods")]
    pods: i64,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    created_s: i64,
}

fn default_pods() -> i64 {
    110
}

#[derive(Deserialize)]
struct BenchPod {
    name: String,
    #[serde(default = "default_namespace")]
    ns: String,
    #[serde(default)]
    cpu_m: i64,
    #[serde(default)]
    mem: i64,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    node: Option<String>,
    owner: Option<BenchOwner>,
    #[serde(default)]
    created_s: i64,
    #[serde(default)]
    count: Option<u32>,
}

fn default_namespace() -> String {
    "default".to_owned()
}

#[derive(Deserialize)]
struct BenchOwner {
    kind: String,
    name: String,
}

#[derive(Deserialize)]
struct BenchController {
    kind: String,
    #[serde(default = "default_namespace")]
    ns: String,
    name: String,
    replicas: u32,
}

/// The world while it is being filled, with equal strings stored once, as the operator's decoder does.
#[derive(Default)]
struct Filling {
    world: World,
    texts: BTreeMap<Arc<str>, ()>,
    owners: BTreeMap<(String, String, String), Arc<Owner>>,
    classes: BTreeMap<PodClassKey, Arc<PodClass>>,
    pools: Vec<Pool>,
    groups: BTreeMap<String, GroupState>,
    instances: BTreeMap<String, BTreeMap<Arc<str>, Instance>>,
    changes_count: u64,
    uid: u64,
    apply_time: std::time::Duration,
}

/// What tells the classes of a recording apart.
type PodClassKey = (String, i64, i64, BTreeMap<String, String>);

impl Filling {
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some((stored, ())) = self.texts.get_key_value(text) {
            return stored.clone();
        }
        let stored: Arc<str> = Arc::from(text);
        self.texts.insert(stored.clone(), ());
        stored
    }

    fn labels(&mut self, labels: &BTreeMap<String, String>) -> Labels {
        labels.iter().map(|(key, value)| (self.text(key), self.text(value))).collect()
    }

    /// An id as long as a real one.
    fn next_uid(&mut self) -> Arc<str> {
        self.uid += 1;
        Arc::from(format!("{:08x}-0000-4000-8000-{:012x}", self.uid, self.uid))
    }

    fn apply(&mut self, delta: Delta) {
        let began = Instant::now();
        self.world.apply(delta);
        self.apply_time += began.elapsed();
        self.changes_count += 1;
    }

    fn node(&mut self, bench: BenchNode) {
        let mut allocatable = Resources::new(bench.cpu_m, bench.mem);
        allocatable.pods = bench.pods;
        let mut labels = self.labels(&bench.labels);
        labels.insert(self.text("kubernetes.io/hostname"), self.text(&bench.name));
        if !bench.group.is_empty() {
            labels.insert(self.text(POOL_LABEL), self.text(&bench.group));
            labels.insert(self.text(GROUP_LABEL), self.text(&bench.group));
            let instance = Instance {
                state: InstanceState::Running,
                node: Some(self.text(&bench.name)),
                created_at: None,
            };
            let id = self.text(&format!("fake://{}", bench.name));
            self.instances.entry(bench.group.clone()).or_default().insert(id, instance);
        }
        let node = Node {
            name: self.text(&bench.name),
            uid: self.next_uid(),
            provider_id: self.text(&format!("fake://{}", bench.name)),
            labels,
            capacity: allocatable.clone(),
            allocatable,
            ready: Readiness::Ready,
            ready_changed_at: UnixTime(T0 + bench.created_s),
            created_at: UnixTime(T0 + bench.created_s),
            ..Node::default()
        };
        self.apply(Delta::NodeApplied(Box::new(node)));
    }

    fn pod(&mut self, bench: BenchPod) {
        let class = self.class(&bench);
        let owner = bench.owner.as_ref().map(|owner| self.owner(&bench.ns, owner));
        let node = bench.node.as_deref().map(|name| self.text(name));
        let names: Vec<String> = match bench.count {
            Some(count) => (0..count).map(|index| format!("{}-{index}", bench.name)).collect(),
            None => vec![bench.name],
        };
        for name in names {
            let pod = Pod {
                key: ObjectKey::new(self.text(&bench.ns), name),
                uid: self.next_uid(),
                class: class.clone(),
                owner: owner.clone(),
                node: node.clone(),
                phase: if node.is_some() { PodPhase::Running } else { PodPhase::Pending },
                unschedulable: node.is_none(),
                created_at: UnixTime(T0 + bench.created_s),
                ..Pod::default()
            };
            self.apply(Delta::PodApplied(Box::new(pod)));
        }
    }

    fn class(&mut self, bench: &BenchPod) -> Arc<PodClass> {
        let key = (bench.ns.clone(), bench.cpu_m, bench.mem, bench.labels.clone());
        if let Some(class) = self.classes.get(&key) {
            return class.clone();
        }
        let mut requests = Resources::new(bench.cpu_m, bench.mem);
        requests.pods = 1;
        let class = Arc::new(PodClass {
            namespace: self.text(&bench.ns),
            labels: self.labels(&bench.labels),
            requests,
            scheduler: self.text("default-scheduler"),
            restarts_always: true,
            ..PodClass::default()
        });
        self.classes.insert(key, class.clone());
        class
    }

    fn owner(&mut self, ns: &str, bench: &BenchOwner) -> Arc<Owner> {
        let key = (bench.kind.clone(), ns.to_owned(), bench.name.clone());
        if let Some(owner) = self.owners.get(&key) {
            return owner.clone();
        }
        let owner = Arc::new(Owner {
            kind: self.text(&bench.kind),
            name: self.text(&bench.name),
            uid: self.text(&format!("{}/{ns}/{}", bench.kind, bench.name)),
        });
        self.owners.insert(key, owner.clone());
        owner
    }

    /// Each group of the recording becomes a pool of one group.
    fn group(&mut self, bench: BenchGroup) {
        let mut amounts = Resources::new(bench.template.cpu_m, bench.template.mem);
        amounts.pods = default_pods();
        let mut labels = self.labels(&bench.template.labels);
        labels.insert(POOL_LABEL, bench.id.as_str());
        self.pools.push(Pool {
            name: bench.id.as_str().into(),
            uid: bench.id.as_str().into(),
            created_at: UnixTime(T0),
            deleting: false,
            mode: Mode::Apply,
            min_nodes: bench.min,
            max_nodes: bench.max,
            limit_cpu_milli: None,
            limit_memory_bytes: None,
            template: Some(NodeTemplate {
                labels,
                taints: Vec::new(),
                capacity: amounts.clone(),
                allocatable: amounts,
            }),
            startup_taints: Vec::new(),
            price_per_hour_micro: None,
            priority: 0,
            scale_up: ScaleUp::default(),
            scale_down: ScaleDown::default(),
            schedules: Vec::new(),
        });
        let state =
            GroupState { target: bench.target, min: bench.min, max: bench.max, ..GroupState::default() };
        self.groups.insert(bench.id, state);
    }

    /// What the providers say, once everything is read.
    fn provide(&mut self, now: UnixTime) {
        for (id, mut state) in std::mem::take(&mut self.groups) {
            state.instances = self.instances.remove(&id).unwrap_or_default();
            let groups = BTreeMap::from([(Arc::from(id.as_str()), state)]);
            let known = Known::Known { value: ProviderState { groups }, at: now };
            self.apply(Delta::ProviderObserved(id.as_str().into(), known));
        }
    }

    fn controller(&mut self, bench: BenchController) {
        let kind = match bench.kind.as_str() {
            "ReplicaSet" => ControllerKind::ReplicaSet,
            "StatefulSet" => ControllerKind::StatefulSet,
            "Job" => ControllerKind::Job,
            "ReplicationController" => ControllerKind::ReplicationController,
            _ => return,
        };
        let controller = Controller {
            kind,
            key: ObjectKey::new(self.text(&bench.ns), bench.name.as_str()),
            uid: self.text(&format!("{}/{}/{}", bench.kind, bench.ns, bench.name)),
            desired: bench.replicas,
            class: Arc::default(),
            stalled: None,
        };
        self.apply(Delta::ControllerApplied(Box::new(controller)));
    }
}

/// Reads the recording object by object, so that the figures show the world and not the file.
impl<'de> Visitor<'de> for &mut Filling {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the `in` object of a loop case")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "groups" => map.next_value_seed(Each { filling: self, take: Filling::group })?,
                "nodes" => map.next_value_seed(Each { filling: self, take: Filling::node })?,
                "pods" => map.next_value_seed(Each { filling: self, take: Filling::pod })?,
                "controllers" => map.next_value_seed(Each { filling: self, take: Filling::controller })?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct Each<'a, T> {
    filling: &'a mut Filling,
    take: fn(&mut Filling, T),
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Each<'_, T> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Each<'_, T> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(item) = seq.next_element()? {
            (self.take)(self.filling, item);
        }
        Ok(())
    }
}

/// A line of /proc/self/status in MB; 0 where there is no such file.
fn memory_mb(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Every pod's node, name and class as they are, in a fresh copy: what a watch event of a changed pod brings.
fn changed(world: &World, key: &ObjectKey) -> Option<Delta> {
    let pod = world.pod(world.pod_id(key)?).pod.clone();
    let phase = if pod.phase == PodPhase::Running { PodPhase::Pending } else { PodPhase::Running };
    Some(Delta::PodApplied(Box::new(Pod { phase, ..pod })))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which recording? give the path of a .json.gz file")?;
    let before = memory_mb("VmRSS");
    let mut filling = Filling::default();
    let mut deserializer =
        serde_json::Deserializer::from_reader(BufReader::new(GzDecoder::new(File::open(&path)?)));
    deserializer.deserialize_map(&mut filling)?;
    let now = UnixTime(T0);
    filling.provide(now);
    let Filling { mut world, pools, changes_count, apply_time, .. } = filling;
    let nodes_count = world.nodes().count();
    println!("{nodes_count} nodes, {} pods, {changes_count} changes", world.pods_count());
    println!("filled at {:.1} µs a change", apply_time.as_secs_f64() * 1e6 / changes_count as f64);
    println!(
        "memory: {before} MB before, {} MB after, {} MB at most",
        memory_mb("VmRSS"),
        memory_mb("VmHWM")
    );

    let settings = ClusterSettings::default();
    let mut config = Config { profile: Profile::Headroom, epoch: 1, pools, cluster: settings };
    config.pools.sort_by(|a, b| a.name.cmp(&b.name));
    let history = time_plans(&mut world, &config, now);
    println!("memory: {} MB after, {} MB at most", memory_mb("VmRSS"), memory_mb("VmHWM"));
    drop(history);
    time_changes(&mut world);
    Ok(())
}

/// Plans again and again as the loop would; returns the memory of the last one.
fn time_plans(world: &mut World, config: &Config, now: UnixTime) -> History {
    let mut history = History::default();
    for turn in 0..3 {
        let began = Instant::now();
        let plan = headroom_core::plan(world, &history, config, now.plus(Seconds(turn)));
        println!("plan {turn}, nothing changed: {:.1} ms, {} steps", ms(began), plan.steps.len());
        history = plan.next_history;
    }
    let waiting = Pod {
        key: ObjectKey::new("default", "spike-new-pod"),
        class: Arc::new(PodClass {
            namespace: "default".into(),
            requests: Resources::new(500, 1 << 30).with_pods(1),
            scheduler: "default-scheduler".into(),
            restarts_always: true,
            ..PodClass::default()
        }),
        unschedulable: true,
        created_at: now,
        ..Pod::default()
    };
    world.apply(Delta::PodApplied(Box::new(waiting)));
    for turn in 3..6 {
        let began = Instant::now();
        let plan = headroom_core::plan(world, &history, config, now.plus(Seconds(turn)));
        println!("plan {turn}, one pod more: {:.1} ms, {} steps", ms(began), plan.steps.len());
        history = plan.next_history;
    }
    history
}

fn time_changes(world: &mut World) {
    let keys: Vec<ObjectKey> = world
        .nodes()
        .filter_map(|(_, _, entry)| entry.pods.first())
        .map(|id| world.pod(*id).pod.key.clone())
        .collect();
    let deltas: Vec<Delta> = keys.iter().filter_map(|key| changed(world, key)).collect();
    let began = Instant::now();
    let deltas_count = deltas.len().max(1);
    deltas.into_iter().for_each(|delta| world.apply(delta));
    println!("one pod of each node changed: {:.4} ms a change", ms(began) / deltas_count as f64);

    let all = relist(world);
    let began = Instant::now();
    all.into_iter().for_each(|delta| world.apply(delta));
    println!("all pods listed anew: {:.0} ms, {} MB at most", ms(began), memory_mb("VmHWM"));
}

/// A full list of pods.
fn relist(world: &World) -> Vec<Delta> {
    let pods = world.nodes().flat_map(|(_, _, entry)| &entry.pods);
    let applied = pods.map(|id| Delta::PodApplied(Box::new(world.pod(*id).pod.clone())));
    let mut deltas = vec![Delta::ListStarted(Kind::Pod)];
    deltas.extend(applied);
    deltas.push(Delta::ListEnded(Kind::Pod));
    deltas
}

fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
