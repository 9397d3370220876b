//! Objects that are written out are read again as the same snapshot.

use std::sync::Arc;

use headroom_core::config::{
    Budget, Ceiling, ClusterSettings, Config, Consolidation, Expander, Policy, RepairRule, RequestSettings,
    Schedule,
};
use headroom_core::history::History;
use headroom_core::reason::Reason;
use headroom_core::scheduling::constraints::{
    LabelSelector, NodeSelectorTerm, Operator, PodAffinityTerm, RequiredNodeAffinity, Requirement,
    TaintEffect, Toleration, TolerationOperator, TopologySpread,
};
use headroom_core::snapshot::Snapshot;
use headroom_core::testing::{NOW, config, controller, node, pod, pool, world};
use headroom_core::time::Seconds;
use headroom_core::window::Window;
use headroom_core::world::World;
use headroom_core::world::capacity_quota::{CapacityQuota, PRICE};
use headroom_core::world::devices::{DeviceClaimSource, PodDeviceClaim};
use headroom_core::world::gang::{GangKind, GangRef};
use headroom_core::world::node::ConditionStatus;
use headroom_core::world::pod::{PodClass, SafeToEvict};
use headroom_core::world::volume::{
    AccessModes, AttachLimits, ClaimSpec, CsiDriver, FreeVolume, PodClaim, StorageCapacity, StorageClass,
    Volume, VolumeClaim,
};
use headroom_core::world::workload::{ControllerKind, PrioritySource};
use serde_json::json;

use super::*;
use headroom_api::{ClusterScalingPolicySpec, NodePoolSpec};
use headroom_observe::convert::{capacity_quota as quotas, class, volume as storage};
use headroom_observe::decoder::Decoder;
use headroom_observe::slim::{
    SlimCapacityQuota, SlimClaim, SlimCsiDriver, SlimCsiNode, SlimPod, SlimStorageCapacity, SlimStorageClass,
    SlimVolume,
};
use headroom_observe::{Policies, PolicyObject};
use headroom_operator::controllers::config::Settings;

fn texts(list: &[&str]) -> Vec<Arc<str>> {
    list.iter().map(|text| Arc::from(*text)).collect()
}

fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement { key: key.into(), operator, values: texts(values) }
}

/// A class with everything that a class can have.
fn every_constraint() -> PodClass {
    let selector = LabelSelector {
        match_labels: [("app", "web")].into_iter().collect(),
        match_expressions: vec![requirement("tier", Operator::NotIn, &["x", "y"])],
    };
    let term = |namespaces: &[&str]| PodAffinityTerm {
        selector: Some(selector.clone()),
        namespaces: texts(namespaces),
        namespace_selector: Some(LabelSelector::default()),
        topology_key: "topology.kubernetes.io/zone".into(),
    };
    let toleration = |key: &str, operator, value: &str, effect| Toleration {
        key: key.into(),
        value: value.into(),
        operator,
        effect,
    };
    let mut requests = headroom_core::resources::Resources::new(1250, 3 << 30).with_pods(1);
    requests.ephemeral_bytes = 1 << 20;
    requests.set_extended("example.com/gpu", 2);
    PodClass {
        namespace: "shop".into(),
        labels: [("app", "web"), ("tier", "front")].into_iter().collect(),
        requests,
        node_selector: [("disk", "fast")].into_iter().collect(),
        node_affinity: Some(RequiredNodeAffinity {
            terms: vec![NodeSelectorTerm {
                match_expressions: vec![
                    requirement("size", Operator::Gt, &["4"]),
                    requirement("old", Operator::DoesNotExist, &[]),
                ],
                match_fields: vec![requirement("metadata.name", Operator::In, &["n1"])],
            }],
        }),
        pod_affinity: vec![term(&["a", "b"])],
        pod_anti_affinity: vec![term(&[])],
        topology_spread: vec![TopologySpread {
            max_skew: 2,
            topology_key: "topology.kubernetes.io/zone".into(),
            selector: Some(selector.clone()),
            min_domains: 3,
            honor_node_affinity: false,
            honor_node_taints: true,
        }],
        tolerations: vec![
            toleration("dedicated", TolerationOperator::Equal, "x", Some(TaintEffect::NoSchedule)),
            toleration("", TolerationOperator::Exists, "", None),
            toleration("grade", TolerationOperator::Greater, "5", Some(TaintEffect::NoExecute)),
            toleration(
                "node.kubernetes.io/not-ready",
                TolerationOperator::Exists,
                "",
                Some(TaintEffect::NoExecute),
            ),
        ],
        host_ports: vec![("UDP".into(), "10.0.0.1".into(), 53), ("TCP".into(), "".into(), 80)],
        claims: vec![
            PodClaim { name: "data".into(), template: None },
            PodClaim { name: "p-cache".into(), template: Some(Arc::new(claim_spec())) },
        ],
        device_claims: vec![
            PodDeviceClaim { name: "gpu".into(), source: DeviceClaimSource::Template("one-gpu".into()) },
            PodDeviceClaim { name: "net".into(), source: DeviceClaimSource::Claim("shared".into()) },
        ],
        local_volumes: texts(&["scratch"]),
        priority: 1000,
        scheduler: "default-scheduler".into(),
        restarts_always: false,
        mirror: true,
        safe_to_evict: SafeToEvict::OnCompletion,
        safe_local_volumes: Some("scratch".into()),
        daemon_set: true,
        daemon_set_eviction: Some(false),
        scale_up_delay: Some(Seconds(90)),
        termination_grace: Seconds(7),
        ..PodClass::default()
    }
}

fn claim_spec() -> ClaimSpec {
    ClaimSpec {
        storage_class: Some("fast".into()),
        access: AccessModes::of(["ReadWriteOnce", "ReadWriteOncePod"]),
        request_bytes: 5 << 30,
        block: true,
        selector: Some(LabelSelector {
            match_labels: [("tier", "disk")].into_iter().collect(),
            match_expressions: Vec::new(),
        }),
    }
}

fn read_back(class: &PodClass) -> PodClass {
    let template = pods::template(class, "p", &PrioritySource::Template);
    let slim: SlimPod = serde_json::from_value(template).expect("a pod");
    let source = class::Source {
        namespace: &class.namespace,
        pod_name: "p",
        metadata: &slim.metadata,
        spec: &slim.spec,
        status: &slim.status,
        daemon_set: class.daemon_set,
    };
    class::of(source, &mut Decoder::default()).expect("understood")
}

#[test]
fn a_class_is_read_back_as_it_was() {
    let class = every_constraint();
    assert_eq!(read_back(&class), class);
    let plain = PodClass {
        namespace: "shop".into(),
        requests: headroom_core::resources::Resources::new(100, 0).with_pods(1),
        scheduler: "default-scheduler".into(),
        restarts_always: true,
        termination_grace: Seconds(30),
        ..PodClass::default()
    };
    assert_eq!(read_back(&plain), plain);
}

#[test]
fn a_gang_is_read_back_as_it_was() {
    for kind in [GangKind::PodGroup, GangKind::Workload, GangKind::Volcano] {
        let group: Arc<str> = if kind == GangKind::Workload { "workers".into() } else { "".into() };
        let gang = GangRef { kind, name: "train".into(), group: group.clone(), replica: group };
        let class = PodClass { gang: Some(Arc::new(gang)), ..every_constraint() };
        assert_eq!(read_back(&class), class);
    }
}

#[test]
fn a_quota_is_read_back_as_it_was() {
    let limits = [("cpu", 64_500), ("memory", 3 << 30), ("nvidia.com/gpu", 8), (PRICE, 2_500_000)];
    let quota = CapacityQuota {
        name: "gpus".into(),
        uid: "u-1".into(),
        generation: 3,
        selector: LabelSelector {
            match_expressions: vec![requirement("team", Operator::In, &["research"])],
            ..LabelSelector::default()
        },
        limits: limits.into_iter().map(|(name, limit)| (Arc::from(name), limit)).collect(),
        ..CapacityQuota::default()
    };
    let slim: SlimCapacityQuota = serde_json::from_value(capacity_quota(&quota)).expect("it decodes");
    let read = quotas::capacity_quota(&slim, &mut Decoder::default()).expect("it has a name");
    assert_eq!(read, quota);
}

fn snapshot_of(world: &World, config: &Config) -> Snapshot {
    Snapshot::of(world, &History::default(), config, NOW)
}

/// The settings that the operator takes from what stands.
fn settings_of(initial_state: &InitialState) -> Settings {
    let mut policies = Policies::default();
    for (kind, manifest) in &initial_state.policies {
        let spec = manifest["spec"].clone();
        if *kind == Kind::NodePool {
            let name: Arc<str> = manifest["metadata"]["name"].as_str().expect("a name").into();
            let spec: Result<NodePoolSpec, String> = serde_json::from_value(spec).map_err(|e| e.to_string());
            policies.pools.insert(name.clone(), object(name, spec));
        } else {
            let spec: Result<ClusterScalingPolicySpec, String> =
                serde_json::from_value(spec).map_err(|e| e.to_string());
            policies.clusters.insert("default".into(), object("default".into(), spec));
        }
    }
    let mut settings = Settings::default();
    settings.update(&policies);
    settings
}

fn object<S>(name: Arc<str>, spec: Result<S, String>) -> PolicyObject<S> {
    PolicyObject {
        name,
        namespace: "".into(),
        controller_uid: None,
        managed: false,
        uid: "u".into(),
        resource_version: "1".into(),
        generation: 1,
        created_at: NOW,
        deleting: false,
        spec,
        status: json!({}).into(),
    }
}

#[test]
fn pools_and_cluster_settings_are_read_back_as_they_were() {
    let window = Window::new("Europe/Berlin", "0 8 * * 1-5", 36_000).expect("a window");
    let general = pool("general").shape("4", "16Gi").bounds(1, 9).taint("dedicated", "x").with(|pool| {
        pool.limit_cpu_milli = Some(160_500);
        pool.price_per_hour_micro = Some(384_000);
        pool.priority = -7;
        pool.scale_down.policy =
            Policy::WhenCheaper(Consolidation { min_saving_percent: 20, consolidate_after: Seconds(3900) });
        pool.scale_down.utilization_threshold_percent = 65;
        pool.scale_down.budgets.push(Budget {
            name: "day".into(),
            ceiling: Ceiling::Percent(10),
            reasons: vec![Reason::Empty, Reason::Underutilized],
            window: Some(window.clone()),
        });
        pool.schedules.push(Schedule {
            name: "office".into(),
            window: window.clone(),
            min_nodes: Some(3),
            max_nodes: None,
        });
        pool.scale_up.provision_timeout = Seconds(61);
        pool.scale_down.rotation.max_age = Some(Seconds(7_200_000));
        pool.scale_down.rotation.replace_drifted = true;
        pool.scale_down.rotation.prefer_other_pool = true;
        let (condition, status) = ("KernelReady".into(), ConditionStatus::False);
        pool.scale_down.rotation.repair.push(RepairRule { condition, status, after: Seconds(1800) });
    });
    let mut written = config([general]);
    written.cluster = ClusterSettings {
        expanders: vec![Expander::Priority, Expander::LeastWaste],
        max_nodes: Some(50),
        max_cpu_milli: Some(1_000_000),
        min_memory_bytes: Some(1 << 30),
        max_drains: 4,
        new_pod_delay: Seconds(5),
        voluntary_disruption_stopped: true,
        requests: RequestSettings {
            best_effort_atomic: true,
            processor_instance: Some("gold".into()),
            booking_for: Seconds(120),
            ..RequestSettings::default()
        },
        ..ClusterSettings::default()
    };
    let world = world().group("general", "g-a", "a", 0).group("general", "g-b", "b", 0).build();
    let initial_state = of(&snapshot_of(&world, &written), Seconds(45)).expect("a world");
    let read = settings_of(&initial_state);
    assert_eq!(read.invalid_pools.values().collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!(read.invalid_policy, None);
    assert_eq!(read.config.cluster, written.cluster);
    let (mut was, is) = (written.pools[0].clone(), &read.config.pools[0]);
    let template = is.template.as_ref().expect("a shape");
    let before = was.template.as_ref().expect("a shape");
    assert_eq!((&template.capacity, &template.allocatable), (&before.capacity, &before.allocatable));
    assert_eq!(template.taints, before.taints);
    (was.template, was.uid, was.created_at) = (is.template.clone(), is.uid.clone(), is.created_at);
    // A fingerprint of the settings that make nodes, which are those of simulated machines.
    was.scale_down.rotation.template = is.scale_down.rotation.template.clone();
    assert_eq!(*is, was);
}

#[test]
fn a_pool_of_a_cloud_stands_on_simulated_machines_of_the_same_shape_in_the_same_zones() {
    let mut written = config([pool("general").bounds(0, 9)]);
    written.pools[0].template = None;
    let world = world()
        .group("general", "web-1", "eu-west-1a", 1)
        .group("general", "web-2", "eu-west-1b", 0)
        .node(node("n1").cpu("8").zone("eu-west-1a").of("general", "web-1"))
        .pod(pod("web-1").on("n1").cpu("1").owner("ReplicaSet", "web"))
        .controller(controller(ControllerKind::ReplicaSet, "web", 3, pod("x").cpu("1")))
        .build();
    let initial_state = of(&snapshot_of(&world, &written), Seconds(45)).expect("a world");
    let manifest = &initial_state.policies[0].1;
    assert_eq!(manifest["spec"]["provider"]["kwok"]["zones"], json!(["eu-west-1a", "eu-west-1b"]));
    assert_eq!(manifest["spec"]["template"]["capacity"]["cpu"], "8000m");
    let node = initial_state.objects.iter().find(|(kind, _)| *kind == Kind::Node).expect("the node");
    assert_eq!(node.1["metadata"]["labels"]["headroom.dev/group"], "eu-west-1a");
}

#[test]
fn a_pool_of_which_nothing_is_known_is_left_out_and_named() {
    let mut written = config([pool("general").bounds(0, 9)]);
    written.pools[0].template = None;
    let world = world().group("general", "web-1", "a", 0).build();
    let initial_state = of(&snapshot_of(&world, &written), Seconds(45)).expect("a world");
    assert!(initial_state.policies.iter().all(|(kind, _)| *kind != Kind::NodePool));
    assert!(initial_state.notes[0].contains("pool general is left out"), "{:?}", initial_state.notes);
}

/// The objects of one kind as the operator reads them.
fn read<S: serde::de::DeserializeOwned, T>(
    initial_state: &InitialState,
    kind: Kind,
    convert: impl Fn(&S, &mut Decoder) -> T,
) -> Vec<T> {
    let objects = initial_state.objects.iter().filter(|(own, _)| *own == kind);
    let slim = objects.map(|(_, object)| serde_json::from_value(object.clone()).expect("an object"));
    slim.map(|slim: S| convert(&slim, &mut Decoder::default())).collect()
}

#[test]
fn volumes_claims_classes_and_limits_are_read_back_as_they_were() {
    let key = |name: &str| CoreKey::new("shop", name);
    let bound = VolumeClaim {
        key: key("data"),
        spec: Arc::new(claim_spec()),
        volume: Some("disk".into()),
        bound: true,
        ..VolumeClaim::default()
    };
    let waiting = VolumeClaim { key: key("logs"), spec: Arc::new(claim_spec()), ..VolumeClaim::default() };
    let lost = VolumeClaim { key: key("lost"), unusable: true, ..waiting.clone() };
    let affinity = RequiredNodeAffinity {
        terms: vec![NodeSelectorTerm {
            match_expressions: vec![requirement(ZONE_LABEL, Operator::In, &["a"])],
            match_fields: Vec::new(),
        }],
    };
    let disk = Volume {
        name: "disk".into(),
        node_affinity: Some(Arc::new(affinity)),
        zones: vec![(ZONE_LABEL.into(), texts(&["a", "b"]))],
        csi: Some(("ebs".into(), "vol-1".into())),
        free: None,
    };
    let spare = Volume {
        name: "spare".into(),
        free: Some(Arc::new(FreeVolume {
            storage_class: "fast".into(),
            access: AccessModes::of(["ReadWriteOnce"]),
            capacity_bytes: 7 << 30,
            block: true,
            labels: [("tier", "disk")].into_iter().collect(),
        })),
        ..Volume::default()
    };
    let fast = StorageClass {
        name: "fast".into(),
        provisioner: "ebs".into(),
        waits_for_consumer: true,
        topologies: vec![vec![(ZONE_LABEL.into(), texts(&["a", "b"]))]],
        is_default: true,
    };
    let limits: AttachLimits = [(Arc::from("ebs"), Some(25)), (Arc::from("nfs"), None)].into_iter().collect();
    let mut snapshot = snapshot_of(&world().node(node("n1")).build(), &config([]));
    snapshot.world.claims = vec![bound.clone(), waiting.clone(), lost.clone()];
    snapshot.world.volumes = vec![disk.clone(), spare.clone()];
    snapshot.world.storage_classes = vec![fast.clone()];
    snapshot.world.attach_limits = [(Arc::from("n1"), limits.clone())].into();
    snapshot.world.reporting_drivers = [Arc::from("ebs")].into();
    snapshot.world.required_drivers = [Arc::from("ebs"), Arc::from("nfs")].into();
    let capacity = |name: &str, nodes: Option<LabelSelector>| StorageCapacity {
        key: CoreKey::new("drivers", name),
        storage_class: "fast".into(),
        nodes,
        largest_bytes: Some(10 << 30),
    };
    let in_a = LabelSelector {
        match_labels: [(ZONE_LABEL, "a")].into_iter().collect(),
        match_expressions: vec![requirement("disk", Operator::Exists, &[])],
    };
    let capacities = vec![
        capacity("all", Some(LabelSelector::default())),
        capacity("none", None),
        capacity("some", Some(in_a)),
    ];
    snapshot.world.storage_capacities = capacities.clone();
    let initial_state = of(&snapshot, Seconds(45)).expect("a world");
    let claims = read(&initial_state, Kind::PersistentVolumeClaim, |slim: &SlimClaim, decoder| {
        storage::claim(slim, decoder).expect("a claim")
    });
    assert_eq!(claims, [bound, waiting, lost]);
    let volumes = read(&initial_state, Kind::PersistentVolume, |slim: &SlimVolume, decoder| {
        storage::volume(slim, decoder).expect("a volume")
    });
    assert_eq!(volumes, [disk, spare]);
    let classes = read(&initial_state, Kind::StorageClass, |slim: &SlimStorageClass, decoder| {
        storage::storage_class(slim, decoder).expect("a class")
    });
    assert_eq!(classes, [fast]);
    let found = read(&initial_state, Kind::CSINode, |slim: &SlimCsiNode, decoder| {
        storage::attach_limits(slim, decoder)
    });
    assert_eq!(found, [limits]);
    let drivers = read(&initial_state, Kind::CSIDriver, |slim: &SlimCsiDriver, _| storage::csi_driver(slim));
    let driver = |reports_capacity| CsiDriver { reports_capacity, required: true };
    assert_eq!(drivers, [driver(true), driver(false)]);
    let read_back = read(&initial_state, Kind::CSIStorageCapacity, |slim: &SlimStorageCapacity, decoder| {
        storage::storage_capacity(slim, decoder).expect("a capacity")
    });
    assert_eq!(read_back, capacities);
}

#[test]
fn a_stateful_set_makes_the_claims_of_its_next_pods() {
    let next = pod("db-2").cpu("1").with_class(|class| {
        let claim = |name: &str| PodClaim { name: name.into(), template: Some(Arc::new(claim_spec())) };
        class.claims = vec![claim("db-scratch"), claim("data-db-2")];
    });
    let world = world().controller(controller(ControllerKind::StatefulSet, "db", 2, next)).build();
    let initial_state = of(&snapshot_of(&world, &config([])), Seconds(45)).expect("a world");
    let set = initial_state.objects.iter().find(|(kind, _)| *kind == Kind::StatefulSet).expect("the set");
    let templates = &set.1["spec"]["volumeClaimTemplates"];
    assert_eq!(
        (&templates[0]["metadata"]["name"], templates.as_array().map(Vec::len)),
        (&json!("data"), Some(1))
    );
    let volume = &set.1["spec"]["template"]["spec"]["volumes"][0];
    assert_eq!((&volume["name"], volume["ephemeral"].is_object()), (&json!("scratch"), true));
}
