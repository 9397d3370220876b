//! A cluster while it is being filled into a world, object by object. It neither reads files nor measures plans.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headroom_core::config::{Config, Consolidation, Policy, Pool};
use headroom_core::known::Known;
use headroom_core::labels::{Labels, ObjectKey};
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::{
    LabelSelector, PodAffinityTerm, Toleration, TolerationOperator, TopologySpread,
};
use headroom_core::testing;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::{GROUP_LABEL, HOSTNAME_LABEL, Node, POOL_LABEL, Readiness, ZONE_LABEL};
use headroom_core::world::pod::{Owner, Pod, PodClass, PodPhase};
use headroom_core::world::provider::{GroupState, Instance, InstanceState, ProviderState};
use headroom_core::world::template::NodeTemplate;
use headroom_core::world::workload::{Controller, ControllerKind, PrioritySource};
use headroom_core::world::{Delta, World};

/// The instant of all plans, 2000-01-01T00:00:00Z: T0 of the golden vectors.
pub(crate) const T0: UnixTime = UnixTime(946_684_800);

/// A node group of a pool; the groups of one pool are of one shape, each in a zone of its own.
#[derive(Clone, Debug)]
pub struct Group {
    pub id: String,
    pub pool: String,
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    pub labels: BTreeMap<String, String>,
    pub max: u32,
    pub target: u32,
}

/// A node of a group.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    pub name: String,
    pub group: String,
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    pub labels: BTreeMap<String, String>,
}

/// Pods of one class and one owner, bound to one node or pending.
#[derive(Clone, Debug, Default)]
pub struct PodSpec {
    pub name: String,
    pub namespace: String,
    pub class: ClassSpec,
    pub node: Option<String>,
    pub owner: Option<(String, String)>,
    pub created_after: i64,
    /// Number; `None` for one pod of just this name.
    pub count: Option<u32>,
}

/// The properties that distinguish the classes of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassSpec {
    pub namespace: String,
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    pub labels: BTreeMap<String, String>,
    pub node_selector: BTreeMap<String, String>,
    /// Largest skew between zones among the pods of the same labels.
    pub zone_skew: Option<i32>,
    /// True if no two pods of the same labels share a node.
    pub apart: bool,
    /// Taints that are tolerated: key and value.
    pub tolerates: Vec<(String, String)>,
}

/// The world so far, with equal strings stored once, as the operator's decoder does.
#[derive(Default)]
pub struct Cluster {
    pub world: World,
    pub groups: Vec<Group>,
    /// Pods without a node; they have not been applied.
    pub pending: Vec<Delta>,
    pub changes_count: u32,
    pub apply_time: Duration,
    /// True if nodes go where their pods fit elsewhere or on cheaper ones, as by default; else as in Cluster Autoscaler.
    pub consolidates: bool,
    texts: BTreeSet<Arc<str>>,
    owners: BTreeMap<(String, String, String), Arc<Owner>>,
    classes: BTreeMap<ClassSpec, Arc<PodClass>>,
    uid: u64,
}

impl Cluster {
    pub fn node(&mut self, spec: NodeSpec) {
        let mut labels = self.labels(&spec.labels);
        labels.insert(self.text(HOSTNAME_LABEL), self.text(&spec.name));
        if !spec.group.is_empty() {
            let pool =
                self.groups.iter().find(|group| group.id == spec.group).map(|group| group.pool.clone());
            labels.insert(self.text(POOL_LABEL), self.text(&pool.unwrap_or_default()));
            labels.insert(self.text(GROUP_LABEL), self.text(&spec.group));
        }
        let amounts = Resources::new(spec.cpu_milli, spec.memory_bytes).with_pods(110);
        let node = Node {
            name: self.text(&spec.name),
            uid: self.next_uid(),
            provider_id: self.text(&format!("fake://{}", spec.name)),
            labels,
            capacity: amounts.clone(),
            allocatable: amounts,
            ready: Readiness::Ready,
            ready_changed_at: UnixTime(T0.0 - 86_400),
            created_at: UnixTime(T0.0 - 86_400),
            ..Node::default()
        };
        self.apply(Delta::NodeApplied(Box::new(node)));
    }

    pub fn pod(&mut self, spec: PodSpec) {
        let class = self.class(&spec.class);
        let owner = spec.owner.as_ref().map(|(kind, name)| self.owner(&spec.namespace, kind, name));
        let node = spec.node.as_deref().map(|name| self.text(name));
        let names: Vec<String> = match spec.count {
            Some(count) => (0..count).map(|index| format!("{}-{index}", spec.name)).collect(),
            None => vec![spec.name],
        };
        for name in names {
            let pod = Pod {
                key: ObjectKey::new(self.text(&spec.namespace), name),
                uid: self.next_uid(),
                class: class.clone(),
                owner: owner.clone(),
                node: node.clone(),
                phase: if node.is_some() { PodPhase::Running } else { PodPhase::Pending },
                unschedulable: node.is_none(),
                created_at: UnixTime(T0.0 + spec.created_after),
                ..Pod::default()
            };
            let bound = pod.node.is_some();
            let delta = Delta::PodApplied(Box::new(pod));
            if bound { self.apply(delta) } else { self.pending.push(delta) }
        }
    }

    /// A ReplicaSet that has all the pods it wants: recordings count replicas that never existed, and those would be
    /// demand.
    pub fn replica_set(&mut self, namespace: &str, name: &str) {
        let uid = self.owner(namespace, "ReplicaSet", name).uid.clone();
        let controller = Controller {
            kind: ControllerKind::ReplicaSet,
            key: ObjectKey::new(self.text(namespace), name),
            desired: self.world.active_pods_of(&uid),
            uid,
            class: Arc::default(),
            stalled: None,
            in_order: false,
            priority_class: PrioritySource::Template,
        };
        self.apply(Delta::ControllerApplied(Box::new(controller)));
    }

    /// Lets each group's provider speak, when all nodes are there; the settings that go with it.
    pub fn finish(&mut self) -> Config {
        let mut said: BTreeMap<String, ProviderState> = BTreeMap::new();
        for group in self.groups.clone() {
            let own = |node: &Node| node.labels.get(GROUP_LABEL) == Some(&*group.id);
            let instances = self.world.nodes().filter(|(_, node, _)| own(node)).map(|(_, node, _)| {
                let instance = Instance {
                    state: InstanceState::Running,
                    node: Some(node.name.clone()),
                    created_at: Some(node.created_at),
                };
                (node.provider_id.clone(), instance)
            });
            let state = GroupState {
                zone: group.labels.get(ZONE_LABEL).map(|zone| Arc::from(zone.as_str())),
                target: group.target,
                max: group.max,
                instances: instances.collect(),
                ..GroupState::default()
            };
            let id = self.text(&group.id);
            said.entry(group.pool).or_default().groups.insert(id, state);
        }
        for (pool, value) in said {
            let said = Delta::ProviderObserved(self.text(&pool), Known::Known { value, at: T0 });
            self.apply(said);
        }
        let firsts: BTreeMap<&str, &Group> =
            self.groups.iter().rev().map(|group| (&*group.pool, group)).collect();
        let consolidates = self.consolidates;
        testing::config(firsts.into_values().map(|group| pool(group, consolidates)))
    }

    fn apply(&mut self, delta: Delta) {
        let began = Instant::now();
        self.world.apply(delta);
        self.apply_time += began.elapsed();
        self.changes_count += 1;
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(stored) = self.texts.get(text) {
            return stored.clone();
        }
        let stored: Arc<str> = Arc::from(text);
        self.texts.insert(stored.clone());
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

    fn class(&mut self, spec: &ClassSpec) -> Arc<PodClass> {
        if let Some(class) = self.classes.get(spec) {
            return class.clone();
        }
        let labels = self.labels(&spec.labels);
        let spread = |skew: &i32| TopologySpread {
            max_skew: *skew,
            topology_key: ZONE_LABEL.into(),
            selector: Some(LabelSelector { match_labels: labels.clone(), ..LabelSelector::default() }),
            min_domains: 1,
            honor_node_affinity: true,
            honor_node_taints: false,
        };
        let apart = PodAffinityTerm {
            selector: Some(LabelSelector { match_labels: labels.clone(), ..LabelSelector::default() }),
            namespaces: Vec::new(),
            namespace_selector: None,
            topology_key: HOSTNAME_LABEL.into(),
        };
        let tolerate = |(key, value): &(String, String)| Toleration {
            key: key.as_str().into(),
            value: value.as_str().into(),
            operator: TolerationOperator::Equal,
            effect: None,
        };
        let class = Arc::new(PodClass {
            namespace: self.text(&spec.namespace),
            requests: Resources::new(spec.cpu_milli, spec.memory_bytes).with_pods(1),
            node_selector: self.labels(&spec.node_selector),
            pod_anti_affinity: if spec.apart { vec![apart] } else { Vec::new() },
            topology_spread: spec.zone_skew.iter().map(spread).collect(),
            tolerations: spec.tolerates.iter().map(tolerate).collect(),
            scheduler: self.text("default-scheduler"),
            restarts_always: true,
            labels,
            ..PodClass::default()
        });
        self.classes.insert(spec.clone(), class.clone());
        class
    }

    fn owner(&mut self, namespace: &str, kind: &str, name: &str) -> Arc<Owner> {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        if let Some(owner) = self.owners.get(&key) {
            return owner.clone();
        }
        let uid = self.text(&format!("{kind}/{namespace}/{name}"));
        let owner = Arc::new(Owner { kind: self.text(kind), name: self.text(name), uid });
        self.owners.insert(key, owner.clone());
        owner
    }
}

/// Millionths that a CPU costs in an hour.
const CPU_PRICE_MICRO: i64 = 10_000;

/// The pool of a group: it declares its shape, and its price where that counts; clocks start at once.
fn pool(group: &Group, consolidates: bool) -> testing::PoolBuilder {
    testing::pool(&group.pool).bounds(0, 3 * group.max).with(|pool: &mut Pool| {
        let amounts = Resources::new(group.cpu_milli, group.memory_bytes).with_pods(110);
        let lasting = group.labels.iter().filter(|(key, _)| *key != ZONE_LABEL);
        let labels = lasting.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        pool.template = Some(NodeTemplate {
            labels,
            capacity: amounts.clone(),
            allocatable: amounts,
            ..NodeTemplate::default()
        });
        pool.scale_down.delay_after_add = Seconds(0);
        if consolidates {
            pool.price_per_hour_micro = Some(group.cpu_milli * CPU_PRICE_MICRO / 1000);
            pool.scale_down.policy = Policy::WhenCheaper(Consolidation::default());
        }
    })
}
