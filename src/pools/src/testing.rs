//! Small builders for test data with meaningful defaults. For tests only: they panic on nonsense.

pub mod devices;

use std::sync::Arc;

use crate::config::{ClusterSettings, Config, Mode, Pool, ScaleDown, ScaleUp};
use crate::quarantine::Part;
use headroom_cluster::scheduling::constraints::{
    LabelSelector, NodeSelectorTerm, Operator, PodAffinityTerm, RequiredNodeAffinity, Requirement, Taint,
    TaintEffect, Toleration, TolerationOperator, TopologySpread,
};
use headroom_cluster::world::node::{GROUP_LABEL, HOSTNAME_LABEL, Node, POOL_LABEL, Readiness, ZONE_LABEL};
use headroom_cluster::world::pod::{Owner, Pod, PodClass, PodPhase};
use headroom_cluster::world::provider::{
    GroupOptions, GroupState, Hold, Instance, InstanceState, ProviderState,
};
use headroom_cluster::world::template::NodeTemplate;
use headroom_cluster::world::volume::{ClaimSpec, PodClaim, StorageClass, Volume, VolumeClaim};
use headroom_cluster::world::workload::{
    Controller, ControllerKind, DaemonSet, DisruptionBudget, PrioritySource,
};
use headroom_cluster::world::{Delta, World};
use headroom_values::known::Known;
use headroom_values::labels::{Labels, ObjectKey};
use headroom_values::resources::Resources;
use headroom_values::time::{Seconds, UnixTime};

/// The instant at which test worlds begin.
pub const NOW: UnixTime = UnixTime(1_000_000);

/// A pool of this name, or a class of pods for this scheduler, makes the plan panic: bugs for tests of quarantine.
pub const BROKEN: &str = "testing-broken";

/// Panics when the part is [`BROKEN`].
///
/// # Panics
/// On purpose.
pub fn break_at(part: &Part) {
    let broken = match part {
        Part::Whole => false,
        Part::Pool(pool) => &**pool == BROKEN,
        Part::Class(class) => &*class.scheduler == BROKEN,
    };
    assert!(!broken, "broken for a test");
}

/// Milli-cores of `500m` or `2`.
#[must_use]
pub fn cpu(text: &str) -> i64 {
    match text.strip_suffix('m') {
        Some(milli) => milli.parse().expect("a number of milli-cores"),
        None => text.parse::<i64>().expect("a number of cores") * 1000,
    }
}

/// Bytes of `512Mi` or `4Gi`.
#[must_use]
pub fn memory(text: &str) -> i64 {
    let (number, shift) = match (text.strip_suffix("Gi"), text.strip_suffix("Mi")) {
        (Some(number), _) => (number, 30),
        (_, Some(number)) => (number, 20),
        _ => (text, 0),
    };
    number.parse::<i64>().expect("a number of bytes") << shift
}

/// A pending, unschedulable pod of namespace `default`, created at [`NOW`] less a minute, asking for nothing.
#[must_use]
pub fn pod(name: &str) -> PodBuilder {
    let class = PodClass {
        namespace: "default".into(),
        requests: Resources::default().with_pods(1),
        restarts_always: true,
        scheduler: "default-scheduler".into(),
        termination_grace: Seconds(30),
        ..PodClass::default()
    };
    PodBuilder {
        pod: Pod {
            key: ObjectKey::new("default", name),
            uid: format!("uid-{name}").into(),
            unschedulable: true,
            created_at: UnixTime(NOW.0 - 60),
            ..Pod::default()
        },
        class,
    }
}

/// See [`pod`].
#[derive(Clone, Debug)]
pub struct PodBuilder {
    pod: Pod,
    class: PodClass,
}

impl PodBuilder {
    /// Cpu request.
    #[must_use]
    pub fn cpu(mut self, amount: &str) -> Self {
        self.class.requests.cpu_milli = cpu(amount);
        self
    }

    /// Memory request.
    #[must_use]
    pub fn memory(mut self, amount: &str) -> Self {
        self.class.requests.memory_bytes = memory(amount);
        self
    }

    /// An extended resource.
    #[must_use]
    pub fn extended(mut self, name: &str, amount: i64) -> Self {
        self.class.requests.set_extended(name, amount);
        self
    }

    /// A label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.class.labels.insert(key, value);
        self
    }

    /// A pair of the node selector.
    #[must_use]
    pub fn selector(mut self, key: &str, value: &str) -> Self {
        self.class.node_selector.insert(key, value);
        self
    }

    /// One more required node affinity term of one expression.
    #[must_use]
    pub fn affinity(mut self, key: &str, operator: Operator, values: &[&str]) -> Self {
        let requirement = requirement(key, operator, values);
        self.class
            .node_affinity
            .get_or_insert_with(RequiredNodeAffinity::default)
            .terms
            .push(NodeSelectorTerm { match_expressions: vec![requirement], match_fields: Vec::new() });
        self
    }

    /// Required affinity to pods with this label, over `topology_key`.
    #[must_use]
    pub fn near(mut self, key: &str, value: &str, topology_key: &str) -> Self {
        self.class.pod_affinity.push(affinity_term(key, value, topology_key));
        self
    }

    /// Required anti-affinity to pods with this label, over `topology_key`.
    #[must_use]
    pub fn away_from(mut self, key: &str, value: &str, topology_key: &str) -> Self {
        self.class.pod_anti_affinity.push(affinity_term(key, value, topology_key));
        self
    }

    /// A DoNotSchedule spread of pods with this label.
    #[must_use]
    pub fn spread(mut self, key: &str, value: &str, topology_key: &str, max_skew: i32) -> Self {
        self.class.topology_spread.push(TopologySpread {
            max_skew,
            topology_key: topology_key.into(),
            selector: Some(label_selector(key, value)),
            min_domains: 1,
            honor_node_affinity: true,
            honor_node_taints: false,
        });
        self
    }

    /// A toleration for any value and effect of a key.
    #[must_use]
    pub fn tolerates(mut self, key: &str) -> Self {
        self.class.tolerations.push(Toleration {
            key: key.into(),
            value: "".into(),
            operator: TolerationOperator::Exists,
            effect: None,
        });
        self
    }

    /// A TCP host port.
    #[must_use]
    pub fn host_port(mut self, port: u16) -> Self {
        self.class.host_ports.push(("TCP".into(), "".into(), port));
        self
    }

    /// A claim that people make.
    #[must_use]
    pub fn claim(mut self, name: &str) -> Self {
        self.class.claims.push(PodClaim { name: name.into(), template: None });
        self
    }

    /// A claim that a controller makes, of this storage class.
    #[must_use]
    pub fn claim_template(mut self, name: &str, storage_class: &str) -> Self {
        let template = ClaimSpec { storage_class: Some(storage_class.into()), ..ClaimSpec::default() };
        self.class.claims.push(PodClaim { name: name.into(), template: Some(Arc::new(template)) });
        self
    }

    /// Priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.class.priority = priority;
        self
    }

    /// Namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.class.namespace = namespace.into();
        self.pod.key = ObjectKey::new(namespace, self.pod.key.name);
        self
    }

    /// Owned by a controller; its uid is `uid-<kind>-<name>`, as [`controller`] makes it.
    #[must_use]
    pub fn owner(mut self, kind: &str, name: &str) -> Self {
        self.pod.owner = Some(Arc::new(Owner {
            kind: kind.into(),
            name: name.into(),
            uid: format!("uid-{kind}-{name}").into(),
        }));
        self.class.daemon_set = kind == "DaemonSet";
        self
    }

    /// Bound to a node and running.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.pod.node = Some(node.into());
        self.pod.phase = PodPhase::Running;
        self.pod.unschedulable = false;
        self
    }

    /// Changes the pod's own part.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Pod)) -> Self {
        change(&mut self.pod);
        self
    }

    /// Changes the class.
    #[must_use]
    pub fn with_class(mut self, change: impl FnOnce(&mut PodClass)) -> Self {
        change(&mut self.class);
        self
    }

    /// The class alone.
    #[must_use]
    pub fn class(self) -> Arc<PodClass> {
        Arc::new(self.class)
    }

    /// The pod.
    #[must_use]
    pub fn build(self) -> Pod {
        Pod { class: Arc::new(self.class), ..self.pod }
    }

    /// `count` such pods, `<name>-0` and on, of one class.
    #[must_use]
    pub fn times(self, count: usize) -> Vec<Pod> {
        let pod = self.build();
        (0..count)
            .map(|index| Pod {
                key: ObjectKey::new(pod.key.namespace.clone(), format!("{}-{index}", pod.key.name)),
                uid: format!("{}-{index}", pod.uid).into(),
                ..pod.clone()
            })
            .collect()
    }
}

/// One requirement.
#[must_use]
pub fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement { key: key.into(), operator, values: values.iter().map(|value| Arc::from(*value)).collect() }
}

/// A selector of one label.
#[must_use]
pub fn label_selector(key: &str, value: &str) -> LabelSelector {
    LabelSelector { match_labels: [(key, value)].into_iter().collect(), match_expressions: Vec::new() }
}

fn affinity_term(key: &str, value: &str, topology_key: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        selector: Some(label_selector(key, value)),
        namespaces: Vec::new(),
        namespace_selector: None,
        topology_key: topology_key.into(),
    }
}

/// A ready node of 4 cores, 16 GiB and 110 pods, a day old, in no pool.
#[must_use]
pub fn node(name: &str) -> NodeBuilder {
    let amounts = Resources::new(4000, 16 << 30).with_pods(110);
    NodeBuilder(Node {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        provider_id: format!("kwok://{name}").into(),
        labels: [(HOSTNAME_LABEL, name)].into_iter().collect(),
        allocatable: amounts.clone(),
        capacity: amounts,
        ready: Readiness::Ready,
        created_at: UnixTime(NOW.0 - 86_400),
        ready_changed_at: UnixTime(NOW.0 - 86_400),
        ..Node::default()
    })
}

/// See [`node`].
#[derive(Clone, Debug)]
pub struct NodeBuilder(Node);

impl NodeBuilder {
    /// Member of a pool's group.
    #[must_use]
    pub fn of(self, pool: &str, group: &str) -> Self {
        self.label(POOL_LABEL, pool).label(GROUP_LABEL, group)
    }

    /// Zone label.
    #[must_use]
    pub fn zone(self, zone: &str) -> Self {
        self.label(ZONE_LABEL, zone)
    }

    /// Cpu, both capacity and allocatable.
    #[must_use]
    pub fn cpu(mut self, amount: &str) -> Self {
        self.0.allocatable.cpu_milli = cpu(amount);
        self.0.capacity.cpu_milli = cpu(amount);
        self
    }

    /// Memory, both capacity and allocatable.
    #[must_use]
    pub fn memory(mut self, amount: &str) -> Self {
        self.0.allocatable.memory_bytes = memory(amount);
        self.0.capacity.memory_bytes = memory(amount);
        self
    }

    /// A label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.labels.insert(key, value);
        self
    }

    /// An annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0.annotations.insert(key, value);
        self
    }

    /// A NoSchedule taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str) -> Self {
        self.0.taints.push(no_schedule(key, value));
        self
    }

    /// Not ready since so many seconds before [`NOW`].
    #[must_use]
    pub fn unready_for(mut self, seconds: i64) -> Self {
        self.0.ready = Readiness::NotReady;
        self.0.ready_changed_at = UnixTime(NOW.0 - seconds);
        self
    }

    /// Created so many seconds before [`NOW`].
    #[must_use]
    pub fn age(mut self, seconds: i64) -> Self {
        self.0.created_at = UnixTime(NOW.0 - seconds);
        self.0.ready_changed_at = self.0.created_at;
        self
    }

    /// Changes anything else.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Node)) -> Self {
        change(&mut self.0);
        self
    }

    /// The node.
    #[must_use]
    pub fn build(self) -> Node {
        self.0
    }
}

/// A NoSchedule taint.
#[must_use]
pub fn no_schedule(key: &str, value: &str) -> Taint {
    Taint { key: key.into(), value: value.into(), effect: TaintEffect::NoSchedule }
}

/// A pool in mode Apply of 0 to 100 nodes of 4 cores and 16 GiB, with 110 pods each.
#[must_use]
pub fn pool(name: &str) -> PoolBuilder {
    let amounts = Resources::new(4000, 16 << 30).with_pods(110);
    PoolBuilder(Pool {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        created_at: UnixTime(0),
        deleting: false,
        mode: Mode::Apply,
        min_nodes: 0,
        max_nodes: 100,
        limit_cpu_milli: None,
        limit_memory_bytes: None,
        template: Some(NodeTemplate {
            capacity: amounts.clone(),
            allocatable: amounts,
            ..NodeTemplate::default()
        }),
        devices: None,
        attach_limits: None,
        startup_taints: Vec::new(),
        price_per_hour_micro: None,
        priority: 0,
        group_scaling: crate::config::GroupScaling::default(),
        scale_up: ScaleUp::default(),
        scale_down: ScaleDown::default(),
        schedules: Vec::new(),
    })
}

/// See [`pool`].
#[derive(Clone, Debug)]
pub struct PoolBuilder(Pool);

impl PoolBuilder {
    /// Bounds.
    #[must_use]
    pub fn bounds(mut self, min: u32, max: u32) -> Self {
        self.0.min_nodes = min;
        self.0.max_nodes = max;
        self
    }

    /// Sets the amounts of a node, all of them allocatable.
    #[must_use]
    pub fn shape(mut self, cpu_amount: &str, memory_amount: &str) -> Self {
        let template = self.template();
        for amounts in [&mut template.allocatable, &mut template.capacity] {
            amounts.cpu_milli = cpu(cpu_amount);
            amounts.memory_bytes = memory(memory_amount);
        }
        self
    }

    /// An extended resource of each node.
    #[must_use]
    pub fn extended(mut self, name: &str, amount: i64) -> Self {
        let template = self.template();
        template.allocatable.set_extended(name, amount);
        template.capacity.set_extended(name, amount);
        self
    }

    /// A label of each node.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.template().labels.insert(key, value);
        self
    }

    /// A lasting NoSchedule taint of each node.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str) -> Self {
        self.template().taints.push(no_schedule(key, value));
        self
    }

    /// Mode.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.0.mode = mode;
        self
    }

    /// Changes anything else.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Pool)) -> Self {
        change(&mut self.0);
        self
    }

    /// The pool.
    #[must_use]
    pub fn build(self) -> Pool {
        self.0
    }

    fn template(&mut self) -> &mut NodeTemplate {
        self.0.template.get_or_insert_with(NodeTemplate::default)
    }
}

/// A configuration of these pools, epoch 1, defaults elsewhere.
#[must_use]
pub fn config(pools: impl IntoIterator<Item = PoolBuilder>) -> Config {
    let mut pools: Vec<Pool> = pools.into_iter().map(PoolBuilder::build).collect();
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    Config { epoch: 1, pools, cluster: ClusterSettings::default() }
}

/// A controller whose pods are made by `pod` builders with the same kind and name as owner.
#[must_use]
pub fn controller(kind: ControllerKind, name: &str, desired: u32, pods: PodBuilder) -> Controller {
    let word = match kind {
        ControllerKind::ReplicaSet => "ReplicaSet",
        ControllerKind::StatefulSet => "StatefulSet",
        ControllerKind::Job => "Job",
        ControllerKind::ReplicationController => "ReplicationController",
    };
    Controller {
        kind,
        key: ObjectKey::new(pods.class.namespace.clone(), name),
        uid: format!("uid-{word}-{name}").into(),
        desired,
        class: pods.class(),
        stalled: None,
        priority_class: PrioritySource::Template,
        in_order: false,
    }
}

/// A DaemonSet of namespace kube-system whose pods are made by the builder.
#[must_use]
pub fn daemon_set(name: &str, pods: PodBuilder) -> DaemonSet {
    let pods = pods.namespace("kube-system").with_class(|class| class.daemon_set = true);
    DaemonSet {
        key: ObjectKey::new("kube-system", name),
        uid: format!("uid-DaemonSet-{name}").into(),
        class: pods.class(),
        priority_class: PrioritySource::Template,
        desired: 0,
    }
}

/// A PodDisruptionBudget of namespace `default` for pods with this label.
#[must_use]
pub fn budget(name: &str, key: &str, value: &str, disruptions_allowed: u32) -> DisruptionBudget {
    DisruptionBudget {
        key: ObjectKey::new("default", name),
        selector: label_selector(key, value),
        disruptions_allowed,
        one_short: false,
    }
}

/// A claim of namespace `default` for this storage class, not bound.
#[must_use]
pub fn claim(name: &str, storage_class: &str) -> VolumeClaim {
    VolumeClaim {
        key: ObjectKey::new("default", name),
        spec: Arc::new(ClaimSpec { storage_class: Some(storage_class.into()), ..ClaimSpec::default() }),
        ..VolumeClaim::default()
    }
}

/// A claim of namespace `default` that is bound to a volume.
#[must_use]
pub fn bound_claim(name: &str, volume: &str) -> VolumeClaim {
    VolumeClaim { volume: Some(volume.into()), bound: true, ..claim(name, "") }
}

/// A CSI volume of driver `disk` that nodes with this label reach.
#[must_use]
pub fn volume(name: &str, key: &str, value: &str) -> Volume {
    let term = NodeSelectorTerm {
        match_expressions: vec![requirement(key, Operator::In, &[value])],
        match_fields: Vec::new(),
    };
    Volume {
        name: name.into(),
        node_affinity: Some(Arc::new(RequiredNodeAffinity { terms: vec![term] })),
        csi: Some(("disk".into(), name.into())),
        ..Volume::default()
    }
}

/// A class of driver `disk` whose volumes wait for pods, and are made in these zones only if there are any.
#[must_use]
pub fn storage_class(name: &str, zones: &[&str]) -> StorageClass {
    let values = zones.iter().map(|zone| Arc::from(*zone)).collect();
    let term = vec![(Arc::from(ZONE_LABEL), values)];
    StorageClass {
        name: name.into(),
        provisioner: "disk".into(),
        waits_for_consumer: true,
        topologies: if zones.is_empty() { Vec::new() } else { vec![term] },
        is_default: false,
    }
}

/// A world filled step by step.
#[derive(Clone, Debug, Default)]
pub struct WorldBuilder {
    world: World,
}

/// An empty world to fill.
#[must_use]
pub fn world() -> WorldBuilder {
    WorldBuilder::default()
}

impl WorldBuilder {
    /// A node.
    #[must_use]
    pub fn node(self, node: NodeBuilder) -> Self {
        self.delta(Delta::NodeApplied(Box::new(node.build())))
    }

    /// A pod.
    #[must_use]
    pub fn pod(self, pod: PodBuilder) -> Self {
        self.pods([pod.build()])
    }

    /// Pods.
    #[must_use]
    pub fn pods(mut self, pods: impl IntoIterator<Item = Pod>) -> Self {
        for pod in pods {
            self.world.apply(Delta::PodApplied(Box::new(pod)));
        }
        self
    }

    /// A controller.
    #[must_use]
    pub fn controller(self, controller: Controller) -> Self {
        self.delta(Delta::ControllerApplied(Box::new(controller)))
    }

    /// A DaemonSet.
    #[must_use]
    pub fn daemon_set(self, set: DaemonSet) -> Self {
        self.delta(Delta::DaemonSetApplied(Box::new(set)))
    }

    /// A PodDisruptionBudget.
    #[must_use]
    pub fn budget(self, budget: DisruptionBudget) -> Self {
        self.delta(Delta::BudgetApplied(Box::new(budget)))
    }

    /// A group at the provider, read at [`NOW`]: id, zone, target, and the bounds 0 to 1,000.
    ///
    /// Nodes of the world that carry the pool's and the group's label are its running instances.
    #[must_use]
    pub fn group(self, pool: &str, id: &str, zone: &str, target: u32) -> Self {
        let instances = self
            .world
            .nodes()
            .filter(|(_, node, _)| {
                node.labels.get(POOL_LABEL) == Some(pool) && node.labels.get(GROUP_LABEL) == Some(id)
            })
            .map(|(_, node, _)| {
                let instance = Instance {
                    state: InstanceState::Running,
                    node: Some(node.name.clone()),
                    created_at: Some(node.created_at),
                };
                (node.provider_id.clone(), instance)
            })
            .collect();
        let state = GroupState {
            zone: (!zone.is_empty()).then(|| zone.into()),
            target,
            min: 0,
            max: 1000,
            instances,
            ..GroupState::default()
        };
        self.group_state(pool, id, state)
    }

    /// A group at the provider as given, read at [`NOW`].
    #[must_use]
    pub fn group_state(self, pool: &str, id: &str, state: GroupState) -> Self {
        let mut provider = match self.world.provider(pool).and_then(Known::value) {
            Some(provider) => provider.clone(),
            None => ProviderState::default(),
        };
        provider.groups.insert(id.into(), state);
        self.delta(Delta::ProviderObserved(pool.into(), Known::Known { value: provider, at: NOW }))
    }

    /// Options that the marks of a group at the provider give; the group is there already.
    #[must_use]
    pub fn group_options(self, pool: &str, id: &str, options: GroupOptions) -> Self {
        let provider = self.world.provider(pool).and_then(Known::value);
        let state = provider.and_then(|provider| provider.groups.get(id)).cloned().unwrap_or_default();
        self.group_state(pool, id, GroupState { options: Some(options.into()), ..state })
    }

    /// Sets the price of a node of a group for an hour, in millionths; the group is there already.
    #[must_use]
    pub fn group_price(self, pool: &str, id: &str, micro: i64) -> Self {
        let provider = self.world.provider(pool).and_then(Known::value);
        let state = provider.and_then(|provider| provider.groups.get(id)).cloned().unwrap_or_default();
        self.group_state(pool, id, GroupState { price_per_hour_micro: Some(micro), ..state })
    }

    /// Makes a group's machines spot machines; the group is there already.
    #[must_use]
    pub fn group_spot(self, pool: &str, id: &str) -> Self {
        let provider = self.world.provider(pool).and_then(Known::value);
        let state = provider.and_then(|provider| provider.groups.get(id)).cloned().unwrap_or_default();
        self.group_state(pool, id, GroupState { spot: true, ..state })
    }

    /// Sets the reason that no node of a group is removed; the group is there already.
    #[must_use]
    pub fn group_hold(self, pool: &str, id: &str, hold: Hold) -> Self {
        let provider = self.world.provider(pool).and_then(Known::value);
        let state = provider.and_then(|provider| provider.groups.get(id)).cloned().unwrap_or_default();
        self.group_state(pool, id, GroupState { hold: Some(hold), ..state })
    }

    /// Zones among which the cloud chooses for the nodes of a group; the group is there already.
    #[must_use]
    pub fn group_zones(self, pool: &str, id: &str, zones: &[&str]) -> Self {
        let provider = self.world.provider(pool).and_then(Known::value);
        let state = provider.and_then(|provider| provider.groups.get(id)).cloned().unwrap_or_default();
        let zones = zones.iter().map(|zone| Arc::from(*zone)).collect();
        self.group_state(pool, id, GroupState { zone: None, zones, ..state })
    }

    /// A namespace with labels.
    #[must_use]
    pub fn namespace(self, name: &str, labels: Labels) -> Self {
        self.delta(Delta::NamespaceApplied(name.into(), labels))
    }

    /// A claim.
    #[must_use]
    pub fn claim(self, claim: VolumeClaim) -> Self {
        self.delta(Delta::ClaimApplied(Box::new(claim)))
    }

    /// A volume.
    #[must_use]
    pub fn volume(self, volume: Volume) -> Self {
        self.delta(Delta::VolumeApplied(Box::new(volume)))
    }

    /// A storage class.
    #[must_use]
    pub fn storage_class(self, class: StorageClass) -> Self {
        self.delta(Delta::StorageClassApplied(Box::new(class)))
    }

    /// Any other change.
    #[must_use]
    pub fn delta(mut self, delta: Delta) -> Self {
        self.world.apply(delta);
        self
    }

    /// The world.
    #[must_use]
    pub fn build(self) -> World {
        self.world
    }
}
