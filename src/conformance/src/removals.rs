//! The families that ask whether a node may go: how full it is, and whether a pod lets it go.

use headroom_core::labels::ObjectKey;
use headroom_core::nodes::scale_down::drainability::{Disruptions, Drainability, Rules};
use headroom_core::nodes::scale_down::utilization::{self, Measure, Share};
use headroom_core::scheduling::constraints::LabelSelector;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::workload::{
    Controller, ControllerKind, DaemonSet, DisruptionBudget, PrioritySource,
};
use headroom_core::world::{Delta, World};
use serde::Deserialize;
use serde_json::Value;

use crate::model::{Node, Pod};

/// The label of GPU nodes in the vectors.
const GPU_LABEL: &str = "example.com/accelerator";
/// Fractions are rounded to 9 digits.
const TOLERANCE: f64 = 1e-6;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct UtilizationInput {
    node: Node,
    pods: Option<Vec<Pod>>,
    ignore_daemonsets: bool,
    ignore_mirror: bool,
    now_s: i64,
}

/// True if node and pods give the reference's quotients, and the resource that decides.
pub(crate) fn utilization(input: &Value, out: &Value) -> Result<(), String> {
    let input = UtilizationInput::deserialize(input).map_err(|error| error.to_string())?;
    let pods: Vec<_> = input.pods.unwrap_or_default().iter().flat_map(Pod::to_core).collect();
    let measure = Measure {
        ignore_daemon_sets: input.ignore_daemonsets,
        ignore_mirror: input.ignore_mirror,
        gpu_label: Some(GPU_LABEL.into()),
        priority_cutoff: None,
    };
    let found = utilization::utilization(&input.node.to_core(), pods.iter(), &measure, UnixTime(input.now_s));
    let found = match found {
        Err(_) if out["error"] == true => return Ok(()),
        Err(error) => return Err(error.to_string()),
        Ok(found) if out["error"] == true => return Err(format!("expected an error, got {found:?}")),
        Ok(found) => found,
    };
    let zero = Share { requested: 0, allocatable: 1 };
    let (cpu, memory, gpu) =
        if found.on_gpu { (zero, zero, found.gpu) } else { (found.cpu, found.memory, zero) };
    for (key, share) in [("cpu", cpu), ("mem", memory), ("gpu", gpu), ("utilization", found.share())] {
        let (expected, got) = (out[key].as_f64().unwrap_or(0.0), quotient(share));
        if (expected - got).abs() > TOLERANCE * expected.abs().max(1.0) {
            return Err(format!("{key}: expected {expected}, got {got}"));
        }
    }
    match out["resource"].as_str() == Some(found.resource) {
        true => Ok(()),
        false => Err(format!("expected {} to decide, got {}", out["resource"], found.resource)),
    }
}

/// The quotient, with the vectors' numbers for divisions by zero.
fn quotient(share: Share) -> f64 {
    match (share.requested, share.allocatable) {
        (0, 0) => -1e18,
        (_, 0) => 1e18,
        (requested, allocatable) => requested as f64 / allocatable as f64,
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct DrainabilityInput {
    pod: Pod,
    #[serde(default)]
    controllers: Vec<ControllerInput>,
    #[serde(default)]
    daemonsets: Vec<NamedInput>,
    #[serde(default)]
    pdbs: Vec<BudgetInput>,
    options: OptionsInput,
    now_s: i64,
}

/// A workload object that exists.
#[derive(Clone, Deserialize)]
pub(crate) struct ControllerInput {
    kind: String,
    ns: Option<String>,
    name: String,
    #[serde(default)]
    replicas: u32,
}

#[derive(Clone, Deserialize)]
struct NamedInput {
    name: String,
    ns: Option<String>,
}

/// A PodDisruptionBudget.
#[derive(Clone, Deserialize)]
pub(crate) struct BudgetInput {
    name: String,
    ns: Option<String>,
    #[serde(default)]
    match_labels: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    disruptions_allowed: u32,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionsInput {
    skip_nodes_with_system_pods: bool,
    skip_nodes_with_local_storage: bool,
    skip_nodes_with_custom_controller_pods: bool,
    min_replica_count: u32,
    bsp_disruption_timeout_s: i64,
}

/// True if the pod gets the reference's class and, if it blocks, its reason.
pub(crate) fn drainability(input: &Value, out: &Value) -> Result<(), String> {
    let input = DrainabilityInput::deserialize(input).map_err(|error| error.to_string())?;
    let rules = Rules {
        system_pods_block: input.options.skip_nodes_with_system_pods,
        system_pods_block_for: Seconds(input.options.bsp_disruption_timeout_s),
        local_storage_blocks: input.options.skip_nodes_with_local_storage,
        custom_controllers_block: input.options.skip_nodes_with_custom_controller_pods,
        min_replicas: input.options.min_replica_count,
    };
    let mut world = surroundings(&input)?;
    let pod = input.pod.to_core().into_iter().next().ok_or("no pod")?;
    let key = pod.key.clone();
    world.apply(Delta::PodApplied(Box::new(pod)));
    let entry = world.pod(world.pod_id(&key).ok_or("the pod is not there")?);
    let mut disruptions = Disruptions::of(&world);
    let got = match rules.drainability(entry, &world, &mut disruptions, UnixTime(input.now_s)) {
        Drainability::Move => ("move", None),
        Drainability::DaemonSet => ("daemonset", None),
        Drainability::OnCompletion => ("on_completion", None),
        Drainability::Skip => ("skip", None),
        Drainability::Block(block) => ("block", Some(block.reason.as_str())),
    };
    let expected = (out["class"].as_str().unwrap_or(""), out["blocking_reason"].as_str());
    if expected == got { Ok(()) } else { Err(format!("expected {expected:?}, got {got:?}")) }
}

/// The controllers, DaemonSets and budgets around the pod.
fn surroundings(input: &DrainabilityInput) -> Result<World, String> {
    let mut world = World::new();
    add_controllers(&mut world, &input.controllers)?;
    for made in &input.daemonsets {
        let key = ObjectKey::new(namespace(made.ns.as_deref(), "kube-system"), made.name.as_str());
        let set = DaemonSet {
            key,
            uid: made.name.as_str().into(),
            class: Default::default(),
            priority_class: PrioritySource::Template,
            desired: 0,
        };
        world.apply(Delta::DaemonSetApplied(Box::new(set)));
    }
    add_budgets(&mut world, &input.pdbs);
    Ok(world)
}

fn namespace(given: Option<&str>, default: &str) -> String {
    given.unwrap_or(default).to_owned()
}

/// Adds workload objects to the world.
pub(crate) fn add_controllers(world: &mut World, controllers: &[ControllerInput]) -> Result<(), String> {
    for made in controllers {
        let kind = match made.kind.as_str() {
            "ReplicaSet" => ControllerKind::ReplicaSet,
            "StatefulSet" => ControllerKind::StatefulSet,
            "Job" => ControllerKind::Job,
            "ReplicationController" => ControllerKind::ReplicationController,
            other => return Err(format!("no controller of kind {other}")),
        };
        world.apply(Delta::ControllerApplied(Box::new(Controller {
            kind,
            key: ObjectKey::new(namespace(made.ns.as_deref(), "default"), made.name.as_str()),
            uid: made.name.as_str().into(),
            desired: made.replicas,
            class: Default::default(),
            stalled: None,
            priority_class: PrioritySource::Template,
            in_order: false,
        })));
    }
    Ok(())
}

/// Adds PodDisruptionBudgets to the world, or replaces those of the same name.
pub(crate) fn add_budgets(world: &mut World, budgets: &[BudgetInput]) {
    for made in budgets {
        let pairs = made.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        world.apply(Delta::BudgetApplied(Box::new(DisruptionBudget {
            key: ObjectKey::new(namespace(made.ns.as_deref(), "default"), made.name.as_str()),
            selector: LabelSelector { match_labels: pairs.collect(), match_expressions: Vec::new() },
            disruptions_allowed: made.disruptions_allowed,
            one_short: false,
        })));
    }
}
