//! What scales workloads on a cluster that there is: its HPAs with what they measure, on the load that their status tells.
//!
//! The simulation measures CPU and has no Deployments of a snapshot, only their ReplicaSets: an HPA of a Deployment scales
//! the ReplicaSet that keeps its pods. What else an HPA measures is left out, and an HPA that measures nothing else too.

use headroom_core::labels::ObjectKey as CoreKey;
use headroom_core::quantity::Quantity;
use serde_json::{Value, json};

use crate::explain::Evidence;
use crate::explain::evidence::HpaSeen;
use crate::simulate::scenario::Target;
use crate::simulate::store::{Kind, ObjectKey, at, number, text};

/// The HPAs of a cluster as they can be simulated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scalers {
    /// HorizontalPodAutoscalers, to be applied as anybody's manifests.
    pub manifests: Vec<(Kind, Value)>,
    /// The workloads that they scale, each with what its pods use together, in thousandths of a CPU.
    pub loads: Vec<(Target, i64)>,
    /// What is left out, each a sentence without its stop.
    pub notes: Vec<String>,
}

/// The HPAs that `evidence` tells of.
#[must_use]
pub fn of(evidence: &Evidence) -> Scalers {
    let mut scalers = Scalers::default();
    for hpa in &evidence.hpas {
        match one(hpa, evidence) {
            Ok((manifest, target, load, partly)) => {
                scalers.manifests.push((Kind::HorizontalPodAutoscaler, manifest));
                scalers.loads.push((target, load));
                if partly {
                    scalers.notes.push(format!("of HPA {} CPU alone is measured", hpa.key));
                }
            }
            Err(why) => scalers.notes.push(format!("HPA {} is left out, its replicas stay: {why}", hpa.key)),
        }
    }
    if !evidence.policies.is_empty() {
        let count = evidence.policies.len();
        scalers.notes.push(format!("ScalingPolicies are left out, which --with can bring: {count}"));
    }
    scalers
}

/// The manifest, what it scales, the load on that, and whether some of its metrics are left out.
fn one(hpa: &HpaSeen, evidence: &Evidence) -> Result<(Value, Target, i64, bool), String> {
    let spec = hpa.spec.as_ref().ok_or("an older program wrote the snapshot, without what HPAs ask for")?;
    let (kind, name) = workload(hpa, evidence)?;
    let metrics: Vec<&Value> =
        at(spec, &["metrics"]).and_then(Value::as_array).into_iter().flatten().collect();
    let (cpu, others): (Vec<&Value>, Vec<&Value>) = metrics.into_iter().partition(|metric| is_cpu(metric));
    let Some(measured) = cpu.first() else { return Err("the simulation measures CPU only".to_owned()) };
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
    Ok((manifest, target, average.saturating_mul(current), !others.is_empty()))
}

/// What keeps the pods that the HPA scales: a StatefulSet, a ReplicaSet, or the largest ReplicaSet of a Deployment.
fn workload(hpa: &HpaSeen, evidence: &Evidence) -> Result<(Kind, String), String> {
    let (kind, name) = (hpa.target.0.as_str(), &hpa.target.1);
    let in_namespace = |key: &CoreKey| key.namespace == hpa.key.namespace;
    let there = |kind: &str| {
        let own = |seen: &&crate::explain::evidence::WorkloadSeen| {
            seen.kind == kind && in_namespace(&seen.key) && *seen.key.name == **name
        };
        evidence.workloads.iter().any(|seen| own(&seen))
    };
    match kind {
        "StatefulSet" if there(kind) => Ok((Kind::StatefulSet, name.clone())),
        "ReplicaSet" if there(kind) => Ok((Kind::ReplicaSet, name.clone())),
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
        let scalers = of(&evidence(hpa("Deployment", vec![other, cpu()])));
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
            let scalers = of(&evidence(hpa));
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
