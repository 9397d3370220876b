//! What scales workloads on a cluster that there is: its HPAs and ScalingPolicies, on the load that their status tells.
//!
//! The simulation measures CPU and has no Deployments of a snapshot, only their ReplicaSets: what scales a Deployment scales
//! the ReplicaSet that keeps its pods. What else one measures is left out, and one that measures nothing else too. Schedules,
//! behavior and fallback stay as they are.

use headroom_core::labels::ObjectKey as CoreKey;
use headroom_core::quantity::Quantity;
use headroom_core::world::record::WorldRecord;
use headroom_core::world::workload::ControllerKind;
use serde_json::{Value, json};

use crate::api::ScalingPolicyStatus;
use crate::explain::Evidence;
use crate::explain::evidence::{HpaSeen, PolicySeen};
use crate::simulate::scenario::Target;
use crate::simulate::store::{Kind, ObjectKey, at, number, text};

/// The HPAs and ScalingPolicies of a cluster as they can be simulated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scalers {
    /// HorizontalPodAutoscalers and ScalingPolicies, to be applied as anybody's manifests.
    pub manifests: Vec<(Kind, Value)>,
    /// The workloads that they scale, each with what its pods use together, in thousandths of a CPU.
    pub loads: Vec<(Target, i64)>,
    /// What is left out, each a sentence without its stop.
    pub notes: Vec<String>,
}

/// One of them: its manifest, the workload with its load unless another one tells that, and whether some of its metrics are
/// left out.
type One = (Value, Option<(Target, i64)>, bool);

/// The HPAs and ScalingPolicies that `evidence` tells of, on the workloads of `world`.
#[must_use]
pub fn of(evidence: &Evidence, world: &WorldRecord) -> Scalers {
    let mut scalers = Scalers::default();
    for hpa in &evidence.hpas {
        scalers.add(Kind::HorizontalPodAutoscaler, "HPA", &hpa.key, one(hpa, evidence));
    }
    for policy in &evidence.policies {
        let made = one_policy(policy, evidence, world, &scalers);
        scalers.add(Kind::ScalingPolicy, "ScalingPolicy", &policy.key, made);
    }
    scalers
}

impl Scalers {
    fn add(&mut self, kind: Kind, word: &str, key: &CoreKey, made: Result<One, String>) {
        match made {
            Ok((manifest, load, partly)) => {
                self.manifests.push((kind, manifest));
                self.loads.extend(load);
                if partly {
                    self.notes.push(format!("of {word} {key} CPU alone is measured"));
                }
            }
            Err(why) => self.notes.push(format!("{word} {key} is left out, its replicas stay: {why}")),
        }
    }

    fn has_hpa(&self, namespace: &str, name: &str) -> bool {
        let own = |(kind, manifest): &(Kind, Value)| {
            *kind == Kind::HorizontalPodAutoscaler
                && ObjectKey::of(manifest) == ObjectKey::new(namespace, name)
        };
        self.manifests.iter().any(own)
    }
}

const OLD: &str = "an older program wrote the snapshot, without what it asks for";
const CPU_ONLY: &str = "the simulation measures CPU only";

/// The metrics of CPU, and whether there are others.
fn measured(spec: &Value) -> (Vec<&Value>, bool) {
    let metrics: Vec<&Value> =
        at(spec, &["metrics"]).and_then(Value::as_array).into_iter().flatten().collect();
    let (cpu, others): (Vec<&Value>, Vec<&Value>) = metrics.into_iter().partition(|metric| is_cpu(metric));
    (cpu, !others.is_empty())
}

/// The manifest of an HPA, with the load on what it scales.
fn one(hpa: &HpaSeen, evidence: &Evidence) -> Result<One, String> {
    let spec = hpa.spec.as_ref().ok_or(OLD)?;
    let (kind, name) = workload((&hpa.target.0, &hpa.target.1), &hpa.key.namespace, evidence)?;
    let (cpu, others) = measured(spec);
    let Some(measured) = cpu.first() else { return Err(CPU_ONLY.to_owned()) };
    let average = hpa.cpu_milli.ok_or("its status tells no CPU usage yet")?;
    let current = hpa.current.filter(|current| 0 < *current).ok_or("its status tells no replicas")?;
    let mut own = json!({
        "scaleTargetRef": {"apiVersion": kind.api_version(), "kind": kind.info().kind, "name": name},
        "minReplicas": number(spec, &["minReplicas"]).unwrap_or(1),
        "maxReplicas": number(spec, &["maxReplicas"]).unwrap_or(hpa.max),
        "metrics": [measured],
    });
    if let Some(behavior) = at(spec, &["behavior"]) {
        own["behavior"] = behavior.clone();
    }
    let manifest = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"namespace": hpa.key.namespace, "name": hpa.key.name},
        "spec": own,
    });
    let target = Target { kind, key: ObjectKey::new(&hpa.key.namespace, &name) };
    Ok((manifest, Some((target, average.saturating_mul(current))), others))
}

/// The manifest of a ScalingPolicy, with the load on what it scales unless its HPA has told that.
fn one_policy(
    policy: &PolicySeen,
    evidence: &Evidence,
    world: &WorldRecord,
    scalers: &Scalers,
) -> Result<One, String> {
    let mut own = policy.spec.clone().ok_or(OLD)?;
    let manifest = |spec: Value| {
        json!({
            "apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy",
            "metadata": {"namespace": policy.key.namespace, "name": policy.key.name}, "spec": spec,
        })
    };
    if policy.target.0 == "HPA" {
        let there = scalers.has_hpa(&policy.key.namespace, &policy.target.1);
        return match there {
            true => Ok((manifest(own), None, false)),
            false => Err(format!("so is HPA {}, whose replicas it bounds", policy.target.1)),
        };
    }
    let (kind, name) = workload((&policy.target.0, &policy.target.1), &policy.key.namespace, evidence)?;
    let target = Target { kind, key: ObjectKey::new(&policy.key.namespace, &name) };
    own["target"] = json!({"type": "Scale", "scale":
        {"apiVersion": kind.api_version(), "kind": kind.info().kind, "name": name}});
    let (cpu, others) = measured(&own);
    if cpu.is_empty() && others {
        return Err(CPU_ONLY.to_owned());
    }
    if others {
        own["metrics"] = json!(cpu);
        // Nothing but the pods is left to tell when one is needed again.
        let least = number(&own, &["minReplicas"]).map_or(1, |least| least.max(1));
        own["minReplicas"] = least.into();
    }
    let average = policy_cpu_milli(&policy.status, request_milli(&target, world));
    let average = average.ok_or("its status tells no CPU usage yet")?;
    let current = policy.status.current_replicas.filter(|current| 0 < *current);
    let current = i64::from(current.ok_or("its status tells no replicas")?);
    Ok((manifest(own), Some((target, average.saturating_mul(current))), others))
}

/// What a pod of a workload asks for, in thousandths of a CPU; `None` when it is not known or nothing.
fn request_milli(target: &Target, world: &WorldRecord) -> Option<i64> {
    let kind = match target.kind {
        Kind::StatefulSet => ControllerKind::StatefulSet,
        _ => ControllerKind::ReplicaSet,
    };
    let key = CoreKey::new(target.key.namespace.clone(), &*target.key.name);
    let controller = world.controllers.iter().find(|one| one.kind == kind && one.key == key)?;
    let class = world.classes.get(controller.class)?;
    Some(class.requests.cpu_milli).filter(|milli| 0 < *milli)
}

/// What the status of a ScalingPolicy tells of the CPU of each pod, in thousandths: a quantity, or a part of its requests.
fn policy_cpu_milli(status: &ScalingPolicyStatus, request_milli: Option<i64>) -> Option<i64> {
    let metrics = &status.recommendation.as_ref()?.metrics;
    let told = metrics.iter().find(|metric| metric.metric.starts_with("cpu resource"))?.current.as_ref()?;
    match told.strip_suffix('%') {
        Some(percent) => Some(percent.parse::<i64>().ok()?.saturating_mul(request_milli?) / 100),
        None => Quantity::parse(told).ok().map(Quantity::milli),
    }
}

/// What keeps the pods of a workload, by its kind and name: a StatefulSet, a ReplicaSet, or the largest ReplicaSet of a
/// Deployment.
fn workload(
    (kind, name): (&str, &str),
    namespace: &str,
    evidence: &Evidence,
) -> Result<(Kind, String), String> {
    let in_namespace = |key: &CoreKey| *key.namespace == *namespace;
    let there = |kind: &str| {
        let own = |seen: &&crate::explain::evidence::WorkloadSeen| {
            seen.kind == kind && in_namespace(&seen.key) && *seen.key.name == *name
        };
        evidence.workloads.iter().any(|seen| own(&seen))
    };
    match kind {
        "StatefulSet" if there(kind) => Ok((Kind::StatefulSet, name.to_owned())),
        "ReplicaSet" if there(kind) => Ok((Kind::ReplicaSet, name.to_owned())),
        "Deployment" => {
            let sets = evidence.workloads.iter().filter(|seen| {
                let owner = seen.owner.as_ref().map(|(kind, name)| (kind.as_str(), name.as_str()));
                seen.kind == "ReplicaSet" && in_namespace(&seen.key) && owner == Some(("Deployment", name))
            });
            let largest = sets.max_by_key(|set| set.replicas);
            let largest = largest.ok_or_else(|| format!("Deployment {name} has no ReplicaSet with pods"))?;
            Ok((Kind::ReplicaSet, largest.key.name.to_string()))
        }
        "StatefulSet" | "ReplicaSet" => Err(format!("there is no {kind} {name}")),
        other => Err(format!("a {other} is not simulated")),
    }
}

/// What the status of an HPA tells of the CPU of each pod, in thousandths; `None` while it tells nothing.
#[must_use]
pub fn cpu_milli(status: &Value) -> Option<i64> {
    let current = at(status, &["currentMetrics"]).and_then(Value::as_array);
    let cpu = current.into_iter().flatten().find(|metric| is_cpu(metric))?;
    let told = text(cpu, &["resource", "current", "averageValue"])?;
    Quantity::parse(told).ok().map(Quantity::milli)
}

/// Whether a metric, asked for or told, is the pods' CPU.
fn is_cpu(metric: &Value) -> bool {
    text(metric, &["type"]) == Some("Resource") && text(metric, &["resource", "name"]) == Some("cpu")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::evidence::WorkloadSeen;

    fn seen(kind: &str, name: &str, replicas: u32, owner: Option<(&str, &str)>) -> WorkloadSeen {
        WorkloadSeen {
            kind: kind.to_owned(),
            key: CoreKey::new("shop", name),
            replicas,
            owner: owner.map(|(kind, name)| (kind.to_owned(), name.to_owned())),
            ..WorkloadSeen::default()
        }
    }

    fn cpu() -> Value {
        json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}})
    }

    fn hpa(kind: &str, metrics: Vec<Value>) -> HpaSeen {
        HpaSeen {
            key: CoreKey::new("shop", "web"),
            target: (kind.to_owned(), "web".to_owned()),
            current: Some(4),
            cpu_milli: Some(150),
            spec: Some(json!({"minReplicas": 2, "maxReplicas": 30, "metrics": metrics,
                "behavior": {"scaleUp": {"stabilizationWindowSeconds": 60}}})),
            ..HpaSeen::default()
        }
    }

    fn evidence(hpa: HpaSeen) -> Evidence {
        let owner = Some(("Deployment", "web"));
        let workloads = vec![
            seen("Deployment", "web", 4, None),
            seen("ReplicaSet", "web-old", 1, owner),
            seen("ReplicaSet", "web-new", 3, owner),
        ];
        Evidence { workloads, hpas: vec![hpa], ..Evidence::default() }
    }

    #[test]
    fn hpa_of_a_deployment_scales_the_set_that_keeps_its_pods_under_the_load_of_all() {
        let other = json!({"type": "External", "external": {"metric": {"name": "queue"}}});
        let scalers = of(&evidence(hpa("Deployment", vec![other, cpu()])), &WorldRecord::default());
        let target = Target { kind: Kind::ReplicaSet, key: ObjectKey::new("shop", "web-new") };
        assert_eq!(scalers.loads, [(target, 600)]);
        let (_, manifest) = &scalers.manifests[0];
        assert_eq!(manifest["spec"]["scaleTargetRef"]["name"], "web-new");
        assert_eq!(manifest["spec"]["metrics"], json!([cpu()]));
        assert_eq!(manifest["spec"]["behavior"]["scaleUp"]["stabilizationWindowSeconds"], 60);
        assert_eq!(scalers.notes, ["of HPA shop/web CPU alone is measured"]);
    }

    #[test]
    fn hpa_that_cannot_be_simulated_is_left_out_and_told() {
        let told = |hpa: HpaSeen, evidence: fn(HpaSeen) -> Evidence| {
            let scalers = of(&evidence(hpa), &WorldRecord::default());
            assert!(scalers.manifests.is_empty() && scalers.loads.is_empty(), "{scalers:?}");
            scalers.notes.join("; ")
        };
        let external = vec![json!({"type": "External"})];
        assert!(told(hpa("Deployment", external), evidence).contains("measures CPU only"));
        let unread = HpaSeen { cpu_milli: None, ..hpa("Deployment", vec![cpu()]) };
        assert!(told(unread, evidence).contains("no CPU usage"));
        let old = HpaSeen { spec: None, ..hpa("Deployment", vec![cpu()]) };
        assert!(told(old, evidence).contains("older program"));
        assert!(told(hpa("StatefulSet", vec![cpu()]), evidence).contains("no StatefulSet web"));
        assert!(told(hpa("Rollout", vec![cpu()]), evidence).contains("Rollout is not simulated"));
    }

    /// A policy of Deployment web whose pods use 80 % of the 500m that they ask for.
    fn policy(spec: Value) -> PolicySeen {
        let target = match spec["target"]["type"] == "HPA" {
            true => ("HPA".to_owned(), "web".to_owned()),
            false => ("Deployment".to_owned(), "web".to_owned()),
        };
        let status = json!({"currentReplicas": 4, "recommendation": {"metrics": [
            {"metric": "cpu resource utilization (percentage of request)", "current": "80%"}]}});
        PolicySeen {
            key: CoreKey::new("shop", "office"),
            target,
            mode: "Apply".to_owned(),
            status: serde_json::from_value(status).expect("a status"),
            spec: Some(spec),
        }
    }

    fn world() -> WorldRecord {
        use headroom_core::testing::{controller, pod, world};
        let pod = pod("x").cpu("500m").with(|pod| pod.key.namespace = "shop".into());
        let mut record = WorldRecord::of(
            &world().controller(controller(ControllerKind::ReplicaSet, "web-new", 3, pod)).build(),
        );
        record.controllers[0].key = CoreKey::new("shop", "web-new");
        record
    }

    fn of_policy(hpas: Vec<HpaSeen>, spec: Value) -> Scalers {
        let mut evidence = evidence(hpa("Deployment", vec![cpu()]));
        evidence.hpas = hpas;
        evidence.policies = vec![policy(spec)];
        of(&evidence, &world())
    }

    #[test]
    fn scaling_policy_scales_the_set_that_keeps_the_pods_under_the_load_that_its_status_tells() {
        let schedules = json!([{"name": "office", "minReplicas": 9, "window":
            {"timeZone": "Etc/UTC", "start": "0 8 * * 1-5", "duration": "10h"}}]);
        let prometheus = json!({"type": "Prometheus", "prometheus": {}});
        let scalers = of_policy(
            Vec::new(),
            json!({"minReplicas": 0, "maxReplicas": 30, "schedules": schedules,
            "target": {"type": "Scale", "scale": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            "metrics": [prometheus, cpu()]}),
        );
        let target = Target { kind: Kind::ReplicaSet, key: ObjectKey::new("shop", "web-new") };
        assert_eq!(scalers.loads, [(target, 4 * 400)], "{:?}", scalers.notes);
        let spec = &scalers.manifests[0].1["spec"];
        assert_eq!(spec["target"]["scale"]["name"], "web-new");
        assert_eq!(
            (&spec["metrics"], &spec["minReplicas"], &spec["schedules"]),
            (&json!([cpu()]), &json!(1), &schedules)
        );
        assert_eq!(scalers.notes, ["of ScalingPolicy shop/office CPU alone is measured"]);
    }

    #[test]
    fn scaling_policy_of_an_hpa_bounds_it_and_goes_with_it() {
        let adopts = || json!({"target": {"type": "HPA", "hpa": {"name": "web"}}});
        let scalers = of_policy(vec![hpa("Deployment", vec![cpu()])], adopts());
        assert_eq!((scalers.manifests.len(), scalers.loads.len(), scalers.notes.len()), (2, 1, 0));
        let alone = of_policy(vec![hpa("Rollout", vec![cpu()])], adopts());
        assert!(alone.manifests.is_empty() && alone.notes[1].contains("so is HPA web"), "{:?}", alone.notes);
    }

    #[test]
    fn usage_is_what_status_tells_of_cpu() {
        let metric = |name: &str, value: &str| json!({"type": "Resource", "resource": {"name": name, "current": {"averageValue": value}}});
        assert_eq!(
            cpu_milli(&json!({"currentMetrics": [metric("memory", "1Gi"), metric("cpu", "1500m")]})),
            Some(1500)
        );
        assert_eq!(cpu_milli(&json!({"currentMetrics": [metric("memory", "1Gi")]})), None);
        assert_eq!(cpu_milli(&json!({})), None);
    }
}
