//! Replays the golden vectors of `utilization` and `drainability`: outcomes computed by Cluster Autoscaler.

use std::sync::Arc;

use headroom_core::labels::{Labels, ObjectKey};
use headroom_core::nodes::drainability::{Disruptions, Drainability, Rules};
use headroom_core::nodes::utilization::{Measure, Share, utilization};
use headroom_core::resources::Resources;
use headroom_core::scheduling::constraints::LabelSelector;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::Node;
use headroom_core::world::pod::{Owner, Pod, PodClass, PodPhase, SafeToEvict};
use headroom_core::world::workload::{Controller, ControllerKind, DaemonSet, DisruptionBudget};
use headroom_core::world::{Delta, World};
use serde_json::Value;

const ANNOTATIONS: &str = "cluster-autoscaler.kubernetes.io";

fn cases(text: &str) -> impl Iterator<Item = Value> + '_ {
    text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).expect("a JSON line"))
}

fn int(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or(0)
}

fn text<'v>(value: &'v Value, key: &str, default: &'v str) -> &'v str {
    value[key].as_str().unwrap_or(default)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn labels(value: &Value) -> Labels {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or(""))).collect()
}

fn pair(value: &Value) -> Resources {
    Resources::new(value[0].as_i64().unwrap_or(0), value[1].as_i64().unwrap_or(0))
}

fn requests(pod: &Value) -> Resources {
    let mut sum = Resources::new(int(pod, "cpu_m"), int(pod, "mem"));
    for (name, amount) in pod["ext"].as_object().into_iter().flatten() {
        sum.set_extended(name.as_str(), amount.as_i64().unwrap_or(0));
    }
    list(&pod["containers"]).for_each(|container| sum.add(&pair(container)));
    list(&pod["init_containers"]).for_each(|container| sum.raise_to(&pair(container)));
    sum.add(&pair(&pod["overhead"]));
    sum.pods = 1;
    sum
}

fn pod(value: &Value) -> Pod {
    let annotations = labels(&value["annotations"]);
    let annotation = |name: &str| annotations.get(&format!("{ANNOTATIONS}/{name}")).map(str::to_owned);
    let owner = value["owner"].as_object().map(|_| {
        let kind = text(&value["owner"], "kind", "");
        let name = text(&value["owner"], "name", "");
        let uid = format!("{kind}/{}/{name}", text(value, "ns", "default"));
        Arc::new(Owner { kind: kind.into(), name: name.into(), uid: uid.into() })
    });
    let local = |volume: &&Value| matches!(text(volume, "type", ""), "emptyDir" | "hostPath");
    let namespace: Arc<str> = text(value, "ns", "default").into();
    let class = PodClass {
        namespace: namespace.clone(),
        labels: labels(&value["labels"]),
        requests: requests(value),
        local_volumes: list(&value["volumes"]).filter(local).map(|v| text(v, "name", "").into()).collect(),
        priority: i32::try_from(int(value, "priority")).expect("a small number"),
        restarts_always: text(value, "restart_policy", "Always") == "Always",
        mirror: annotations.get("kubernetes.io/config.mirror").is_some(),
        safe_to_evict: match annotation("safe-to-evict").as_deref() {
            Some("true") => SafeToEvict::Always,
            Some("false") => SafeToEvict::Never,
            Some("on-completion") => SafeToEvict::OnCompletion,
            _ => SafeToEvict::Unset,
        },
        safe_local_volumes: annotation("safe-to-evict-local-volumes").map(Into::into),
        daemon_set: annotation("daemonset-pod").as_deref() == Some("true")
            || owner.as_ref().is_some_and(|owner| &*owner.kind == "DaemonSet"),
        termination_grace: Seconds(value["grace_s"].as_i64().unwrap_or(30)),
        ..PodClass::default()
    };
    Pod {
        key: ObjectKey::new(namespace, text(value, "name", "")),
        class: Arc::new(class),
        owner,
        node: value["node"].as_str().map(Into::into),
        phase: match text(value, "phase", "Running") {
            "Succeeded" => PodPhase::Succeeded,
            "Failed" => PodPhase::Failed,
            "Pending" => PodPhase::Pending,
            _ => PodPhase::Running,
        },
        created_at: UnixTime(int(value, "created_s")),
        deletion_at: value["deleted_s"].as_i64().map(UnixTime),
        ..Pod::default()
    }
}

fn node(value: &Value) -> Node {
    let mut allocatable = Resources::new(int(value, "cpu_m"), int(value, "mem"));
    for (name, amount) in value["ext"].as_object().into_iter().flatten() {
        allocatable.set_extended(name.as_str(), amount.as_i64().unwrap_or(0));
    }
    Node {
        name: text(value, "name", "").into(),
        labels: labels(&value["labels"]),
        allocatable,
        ..Node::default()
    }
}

fn world(input: &Value) -> World {
    let mut world = World::new();
    for controller in list(&input["controllers"]) {
        let (kind, namespace, name) =
            (text(controller, "kind", ""), text(controller, "ns", "default"), text(controller, "name", ""));
        let kind = match kind {
            "ReplicaSet" => ControllerKind::ReplicaSet,
            "StatefulSet" => ControllerKind::StatefulSet,
            "Job" => ControllerKind::Job,
            "ReplicationController" => ControllerKind::ReplicationController,
            other => unreachable!("controller kind {other}"),
        };
        world.apply(Delta::ControllerApplied(Box::new(Controller {
            kind,
            key: ObjectKey::new(namespace, name),
            uid: "".into(),
            desired: u32::try_from(int(controller, "replicas")).expect("not negative"),
            class: Arc::default(),
            stalled: None,
        })));
    }
    for set in list(&input["daemonsets"]) {
        let key = ObjectKey::new(text(set, "ns", "kube-system"), text(set, "name", ""));
        world.apply(Delta::DaemonSetApplied(Box::new(DaemonSet {
            key,
            uid: "".into(),
            class: Arc::default(),
        })));
    }
    for budget in list(&input["pdbs"]) {
        world.apply(Delta::BudgetApplied(Box::new(DisruptionBudget {
            key: ObjectKey::new(text(budget, "ns", "default"), text(budget, "name", "")),
            selector: LabelSelector {
                match_labels: labels(&budget["match_labels"]),
                ..LabelSelector::default()
            },
            disruptions_allowed: u32::try_from(int(budget, "disruptions_allowed")).unwrap_or(0),
        })));
    }
    world
}

/// The README's number for a division by zero; fractions are rounded to 9 digits.
fn quotient(share: Share) -> f64 {
    match (share.requested, share.allocatable) {
        (0, 0) => -1e18,
        (_, 0) => 1e18,
        (requested, allocatable) => requested as f64 / allocatable as f64,
    }
}

#[test]
fn utilization_equals_upstream() {
    let mut count = 0;
    for case in cases(include_str!("vectors/utilization.jsonl")) {
        let (input, out, id) = (&case["in"], &case["out"], &case["id"]);
        let node = node(&input["node"]);
        let mut pods = Vec::new();
        for value in list(&input["pods"]) {
            let copies = value["count"].as_u64().unwrap_or(1);
            (0..copies).for_each(|_| pods.push(pod(value)));
        }
        let measure = Measure {
            ignore_daemon_sets: input["ignore_daemonsets"] == true,
            ignore_mirror: input["ignore_mirror"] == true,
            gpu_label: Some("example.com/accelerator".into()),
            priority_cutoff: None,
        };
        let found = utilization(&node, pods.iter(), &measure, UnixTime(int(input, "now_s")));
        count += 1;
        if out["error"] == true {
            assert!(found.is_err(), "{id}: {found:?}");
            continue;
        }
        let found = found.unwrap_or_else(|error| panic!("{id}: {error}"));
        let close = |key: &str, share: Share| {
            let measured = key == "utilization" || (key == "gpu") == found.on_gpu;
            let expected = out[key].as_f64().unwrap_or(0.0);
            let found = if measured { quotient(share) } else { 0.0 };
            assert!(
                (expected - found).abs() <= 1e-6 * expected.abs().max(1.0),
                "{id} {key}: {expected} {found}"
            );
        };
        close("cpu", found.cpu);
        close("mem", found.memory);
        close("gpu", found.gpu);
        close("utilization", found.share());
        assert_eq!(out["resource"], found.resource, "{id}");
    }
    assert_eq!(count, 175);
}

#[test]
fn drainability_equals_upstream() {
    let mut count = 0;
    for case in cases(include_str!("vectors/drainability.jsonl")) {
        let (input, out) = (&case["in"], &case["out"]);
        let options = &input["options"];
        let rules = Rules {
            system_pods_block: options["skip_nodes_with_system_pods"] == true,
            system_pods_block_for: Seconds(int(options, "bsp_disruption_timeout_s")),
            local_storage_blocks: options["skip_nodes_with_local_storage"] == true,
            custom_controllers_block: options["skip_nodes_with_custom_controller_pods"] == true,
            min_replicas: u32::try_from(int(options, "min_replica_count")).expect("not negative"),
        };
        let mut world = world(input);
        let pod = pod(&input["pod"]);
        world.apply(Delta::PodApplied(Box::new(pod.clone())));
        let entry = world.pod(world.pod_id(&pod.key).expect("applied"));
        let mut disruptions = Disruptions::of(&world);
        let found = rules.judge(entry, &world, &mut disruptions, UnixTime(int(input, "now_s")));
        let (class, reason) = match found {
            Drainability::Move => ("move", None),
            Drainability::DaemonSet => ("daemonset", None),
            Drainability::OnCompletion => ("on_completion", None),
            Drainability::Skip => ("skip", None),
            Drainability::Block(block) => ("block", Some(block.reason.as_str())),
        };
        assert_eq!((out["class"].as_str(), out["blocking_reason"].as_str()), (Some(class), reason), "{case}");
        count += 1;
    }
    assert_eq!(count, 183);
}
