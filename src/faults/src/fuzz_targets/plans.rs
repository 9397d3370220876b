//! Whole plans on small worlds made of what tenants may write, with a limit on time: nothing that is read may keep the
//! operator from its next decision. `hack/fuzz.sh` limits the memory too.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use headroom_core::config::Config;
use headroom_core::history::History;
use headroom_core::known::Known;
use headroom_core::plan::{Plan, Step};
use headroom_core::reason::Reason;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::{Delta, World};
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::Understood;
use super::objects::{decoded, sane_node, sane_node_pool, sane_pod};
use super::watched::{
    sane_capacity_buffer, sane_daemon_set, sane_job, sane_namespace, sane_pod_template, sane_priority_class,
    sane_quota, sane_replica_set, sane_replication_controller, sane_stateful_set, sane_storage_class,
};
use headroom_api::PolicyObject;
use headroom_observe::decoder::Decoder;
use headroom_observe::host::Host;
use headroom_observe::policies::{Policies, PolicyChange};
use headroom_observe::slim::{
    SlimCapacityBuffer, SlimClaim, SlimCsiNode, SlimDaemonSet, SlimDisruptionBudget, SlimJob, SlimNamespace,
    SlimNode, SlimPod, SlimPodTemplate, SlimPriorityClass, SlimQuota, SlimReplicaSet,
    SlimReplicationController, SlimStatefulSet, SlimStorageClass, SlimVolume,
};
use headroom_observe::watched::{Change, Watched};
use headroom_operator::controllers::config::Settings;
use headroom_operator::controllers::facts;
use headroom_provider::kube_nodes::KubeNodes;
use headroom_provider::kwok::Kwok;
use headroom_provider::{Asked, CloudProvider as _};

/// Longest plan of a small world, in unoptimized builds on busy machines too.
const PLAN_TIME_MAX: Duration = Duration::from_secs(5);
/// Most objects of a small world.
const OBJECTS_MAX: usize = 300;
/// Instants of the plans, after the newest object: at once, after the next look, and when nodes are long unneeded.
const LATER: [i64; 3] = [0, 60, 1_800];
const NOW: UnixTime = UnixTime(1_800_000_000);

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

pub(super) fn sane() -> String {
    let kwok = json!({"type": "KWOK", "kwok": {"zones": ["a", "b"], "simulation": {"joinDelay": "1s"}}});
    let mut spec = parsed(&sane_node_pool());
    spec["provider"] = kwok;
    let mut node = parsed(&sane_node());
    node["metadata"]["labels"] = json!({"headroom.dev/pool": "web", "headroom.dev/group": "a", "pool": "web",
        "topology.kubernetes.io/zone": "a", "kubernetes.io/hostname": "n1"});
    node["metadata"]["creationTimestamp"] = json!("2026-11-01T00:00:00Z");
    let mut pending = parsed(&sane_pod());
    pending["metadata"]["name"] = json!("web-2");
    pending["spec"]["nodeName"] = Value::Null;
    pending["status"] = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
    json!({
        "pools": {"web": spec}, "nodes": [node], "pods": [parsed(&sane_pod()), pending],
        "replicaSets": [parsed(&sane_replica_set())], "statefulSets": [parsed(&sane_stateful_set())],
        "jobs": [parsed(&sane_job())], "daemonSets": [parsed(&sane_daemon_set())],
        "replicationControllers": [parsed(&sane_replication_controller())],
        "namespaces": [parsed(&sane_namespace())], "buffers": [parsed(&sane_capacity_buffer())],
        "podTemplates": [parsed(&sane_pod_template())], "quotas": [parsed(&sane_quota())],
        "storageClasses": [parsed(&sane_storage_class())], "priorityClasses": [parsed(&sane_priority_class())],
    })
    .to_string()
}

/// Three plans, each with the memory of the one before. Objects that cannot be read are left out, as the operator does.
pub(super) fn plans(value: &Value) -> Understood {
    let lists = value.as_object().ok_or("not an object with lists of objects")?;
    let n_objects: usize = lists.values().filter_map(Value::as_array).map(Vec::len).sum();
    if OBJECTS_MAX < n_objects {
        return Err(format!("{n_objects} objects: at most {OBJECTS_MAX} are a small world"));
    }
    let mut refused = Vec::new();
    let settings = settings(&value["pools"], &mut refused);
    let mut world = world(value, &mut refused);
    // The client of the provider starts a task when it is made.
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let entered = runtime.enter();
    observe(&mut world, &settings);
    drop(entered);
    let machine = Host::machine();
    let mut history = History::default();
    for later in LATER {
        let now = NOW.plus(Seconds(later));
        let started = machine.monotonic();
        let plan = headroom_core::plan(&world, &history, &settings.config, now);
        let took = machine.monotonic() - started;
        assert!(took <= PLAN_TIME_MAX, "a plan took {took:?}: {value}");
        within_bounds(&plan, &settings.config);
        assert_no_bug(&plan);
        history = plan.next_history;
    }
    if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) }
}

fn settings(pools: &Value, refused: &mut Vec<String>) -> Settings {
    let mut policies = Policies::default();
    for (name, spec) in pools.as_object().into_iter().flatten() {
        let metadata = json!({"name": name, "uid": name, "creationTimestamp": "2026-11-01T00:00:00Z"});
        if let Ok(metadata) = decoded(&metadata) {
            let object = PolicyObject::read(metadata, spec.clone(), Value::Null);
            policies.apply(PolicyChange::Pool(Box::new(object)));
        }
    }
    let mut settings = Settings::default();
    settings.update(&policies);
    refused.extend(settings.invalid_pools.values().cloned());
    settings
}

fn world(value: &Value, refused: &mut Vec<String>) -> World {
    let mut world = World::new();
    let mut decoder = Decoder::default();
    let mut intake = Intake { world: &mut world, decoder: &mut decoder, refused };
    intake.take::<SlimNode>(&value["nodes"]);
    intake.take::<SlimPod>(&value["pods"]);
    intake.take::<SlimNamespace>(&value["namespaces"]);
    intake.take::<SlimReplicaSet>(&value["replicaSets"]);
    intake.take::<SlimReplicationController>(&value["replicationControllers"]);
    intake.take::<SlimStatefulSet>(&value["statefulSets"]);
    intake.take::<SlimJob>(&value["jobs"]);
    intake.take::<SlimDaemonSet>(&value["daemonSets"]);
    intake.take::<SlimDisruptionBudget>(&value["budgets"]);
    intake.take::<SlimPriorityClass>(&value["priorityClasses"]);
    intake.take::<SlimPodTemplate>(&value["podTemplates"]);
    intake.take::<SlimQuota>(&value["quotas"]);
    intake.take::<SlimCapacityBuffer>(&value["buffers"]);
    intake.take::<SlimStorageClass>(&value["storageClasses"]);
    intake.take::<SlimCsiNode>(&value["csiNodes"]);
    intake.take::<SlimVolume>(&value["volumes"]);
    intake.take::<SlimClaim>(&value["claims"]);
    world
}

struct Intake<'a> {
    world: &'a mut World,
    decoder: &'a mut Decoder,
    refused: &'a mut Vec<String>,
}

impl Intake<'_> {
    fn take<K: Watched>(&mut self, list: &Value) {
        for object in list.as_array().into_iter().flatten() {
            let change = decoded::<K>(object)
                .and_then(|object| object.applied(self.decoder).map_err(|error| error.to_string()));
            match change {
                Ok(Change::World(delta)) => self.world.apply(delta),
                Ok(Change::StandIn(delta, error)) => {
                    self.world.apply(delta);
                    self.refused.push(error.to_string());
                }
                Ok(Change::Policy(_) | Change::None) => {}
                Err(error) => self.refused.push(error),
            }
        }
    }
}

/// The cloud has the nodes that there are.
fn observe(world: &mut World, settings: &Settings) {
    let service = tower::service_fn(|_: Request<Body>| async {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_FOUND;
        Ok::<_, std::io::Error>(response)
    });
    // Nothing is asked of it: this provider reads the nodes of the watch only.
    let kwok = Kwok::new(KubeNodes::new(Client::new(service, "default")));
    let (nodes, registered) = (facts::own_nodes(world), facts::registered(world));
    let none = Vec::new();
    for (name, pool) in &settings.providers {
        let asked = [Asked { pool, nodes: nodes.get(name).unwrap_or(&none), registered: &registered }];
        let answer = kwok.observe(&asked).now_or_never().and_then(|answers| answers.into_iter().next());
        let known = match answer {
            Some(Ok(observed)) => Known::Known { value: observed.state, at: NOW.plus(Seconds(LATER[2])) },
            Some(Err(error)) => Known::Unknown { why: error.to_string() },
            None => Known::Unknown { why: "no answer".to_owned() },
        };
        world.apply(Delta::ProviderObserved(Arc::clone(name), known));
    }
}

/// No increase goes over the maximum of its pool.
fn within_bounds(plan: &Plan, config: &Config) {
    for step in &plan.steps {
        let Step::Increase { pool, to, .. } = step else { continue };
        let most = config.pool(pool).map_or(0, |pool| pool.max_nodes);
        assert!(*to <= most, "{pool} is to grow to {to}, over its maximum of {most}");
    }
}

/// Checks that nothing panicked: a part that did is caught and set aside, and its reason names the panic.
fn assert_no_bug(plan: &Plan) {
    let reasons = &plan.reasons;
    let of_pools = reasons.pools.values().flatten().map(|said| said.reason);
    let of_pods =
        reasons.pods.iter().flat_map(|said| said.pools.iter().map(|pool| pool.reason).chain(said.skipped));
    let of_buffers = reasons.buffers.iter().filter_map(|said| said.fault.as_ref()).map(|fault| fault.reason);
    let of_nodes = reasons.nodes.iter().map(|said| said.reason);
    let mut all = of_pools.chain(of_pods).chain(of_buffers).chain(of_nodes);
    assert!(!all.any(|reason| reason == Reason::Internal), "a panic was caught: {reasons:?}");
}
