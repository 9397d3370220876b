//! Scalers of workloads in a snapshot of a cluster: its HPAs and ScalingPolicies, on the load that their status
//! reports.
//!
//! A metric that pods share, each its part, is a load: what the status reports for each replica, times the replicas. One with a
//! target of type Value is none, and is left out, as is what the status does not report. The simulation has no Deployments of a
//! snapshot, only their ReplicaSets: what scales a Deployment scales the ReplicaSet that keeps its pods. Schedules, behavior
//! and fallback stay as they are.

use headroom_core::labels::ObjectKey as CoreKey;
use headroom_core::pods::spec::{HpaSpec, MetricSpec};
use headroom_core::pods::{defaulting, metric_name};
use headroom_core::quantity::Quantity;
use headroom_core::world::record::WorldRecord;
use headroom_core::world::workload::ControllerKind;
use serde_json::{Value, json};

use headroom_api::ScalingPolicyStatus;
use headroom_explain::Evidence;
use headroom_explain::evidence::{HpaSeen, PolicySeen};
use headroom_simulator::cluster::{Metric, member};
use headroom_simulator::scenario::Target;
use headroom_simulator::store::{Kind, ObjectKey, at, number, text};

/// The HPAs and ScalingPolicies of a cluster as they can be simulated.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Scalers {
    /// HorizontalPodAutoscalers and ScalingPolicies, to be applied as anybody's manifests.
    pub manifests: Vec<(Kind, Value)>,
    /// The workloads that they scale, each with what its pods have of a metric together, in thousandths of its unit.
    pub loads: Vec<(Target, Metric, i64)>,
    /// Notes on the parts that are left out, each a sentence without its full stop.
    pub notes: Vec<String>,
}

/// One of them: its manifest, the load of its workload unless another one has it, and the metrics that are left out,
/// with the reason.
struct One {
    manifest: Value,
    loads: Vec<(Target, Metric, i64)>,
    left_out: Vec<String>,
}

/// The HPAs and ScalingPolicies of `evidence`, on the workloads of `world`.
#[must_use]
pub(crate) fn of(evidence: &Evidence, world: &WorldRecord) -> Scalers {
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
            Ok(One { manifest, loads, left_out }) => {
                self.manifests.push((kind, manifest));
                self.loads.extend(loads);
                if !left_out.is_empty() {
                    self.notes.push(format!("{word} {key} is without {}", left_out.join(", ")));
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
const NOT_REPORTED: &str = "its status does not report it yet";
const OF_SERVER: &str = "its target is the server's own, which the snapshot does not have";
const VALUE: &str = "a target of type Value: how its value answers to replicas is not known";
const CONTAINER: &str = "a snapshot does not distinguish the containers of a pod";
const UNKNOWN: &str = "no such metric is simulated";

/// The metrics of a scaler that can be simulated, the loads that they measure, and the others with the reason.
struct Chosen {
    metrics: Vec<Value>,
    loads: Vec<(Metric, i64)>,
    left_out: Vec<String>,
}

impl Chosen {
    /// Chooses among the metrics of `spec`; `average_milli` is the value of one in the status for each of the `replicas`, in
    /// thousandths. Where none is written, it is the one that the API server adds.
    ///
    /// # Errors
    /// If nothing is left, with the reason.
    fn of(
        spec: &Value,
        replicas: Option<i64>,
        average_milli: impl Fn(&Value, &Metric) -> Option<i64>,
    ) -> Result<Chosen, String> {
        let written = at(spec, &["metrics"]).and_then(Value::as_array).filter(|metrics| !metrics.is_empty());
        let asked = match written {
            Some(metrics) => metrics.clone(),
            None => defaulting::defaulted(&HpaSpec::default()).metrics.iter().map(|one| json!(one)).collect(),
        };
        let replicas = replicas.filter(|count| 0 < *count).ok_or("its status reports no replicas")?;
        let mut chosen = Chosen { metrics: Vec::new(), loads: Vec::new(), left_out: Vec::new() };
        for asked in asked {
            let shared = shared(&asked);
            let load = shared.and_then(|metric| {
                let average =
                    average_milli(&asked, &metric).ok_or_else(|| (metric.to_string(), NOT_REPORTED))?;
                Ok((metric, average.saturating_mul(replicas)))
            });
            match load {
                Ok(load) => {
                    chosen.loads.push(load);
                    chosen.metrics.push(asked);
                }
                Err((name, why)) => chosen.left_out.push(format!("{name} ({why})")),
            }
        }
        if chosen.metrics.is_empty() {
            return Err(format!("none of its metrics can be simulated: {}", chosen.left_out.join(", ")));
        }
        Ok(chosen)
    }

    /// Fewest replicas of a spec: at least one where only the metrics of pods can show that one is needed again.
    fn least(&self, spec: &Value) -> i64 {
        let least = number(spec, &["minReplicas"]).unwrap_or(1);
        let outlives = self.loads.iter().any(|(metric, _)| metric.outlives_pods());
        if outlives { least } else { least.max(1) }
    }

    fn on(self, target: &Target, manifest: Value) -> One {
        let loads = self.loads.into_iter().map(|(metric, milli)| (target.clone(), metric, milli));
        One { manifest, loads: loads.collect(), left_out: self.left_out }
    }
}

/// Returns the metric whose value the pods share; else its name, and why it is left out.
fn shared(asked: &Value) -> Result<Metric, (String, &'static str)> {
    let Some(metric) = Metric::of(asked) else {
        let member = member(asked).unwrap_or(&Value::Null);
        let name = text(member, &["name"]).or_else(|| text(member, &["metric", "name"]));
        let name = name.or_else(|| text(asked, &["type"])).unwrap_or("metric");
        return Err(match text(member, &["container"]) {
            Some(container) => (format!("{name} of container {container}"), CONTAINER),
            None => (name.to_owned(), UNKNOWN),
        });
    };
    match (member(asked).and_then(|member| text(member, &["target", "type"])), &metric) {
        (Some("Value"), _) => Err((metric.to_string(), VALUE)),
        (None, Metric::ExternalScaler { .. }) => Err((metric.to_string(), OF_SERVER)),
        _ => Ok(metric),
    }
}

/// The manifest of an HPA, with the load on what it scales.
fn one(hpa: &HpaSeen, evidence: &Evidence) -> Result<One, String> {
    let spec = hpa.spec.as_ref().ok_or(OLD)?;
    let metrics = hpa.current_metrics.as_ref().ok_or(OLD)?;
    let (kind, name) = workload((&hpa.target.0, &hpa.target.1), &hpa.key.namespace, evidence)?;
    let chosen = Chosen::of(spec, hpa.current, |_, metric| milli_of_hpa(metrics, metric))?;
    let mut own = json!({
        "scaleTargetRef": {"apiVersion": kind.api_version(), "kind": kind.info().kind, "name": name},
        "minReplicas": chosen.least(spec),
        "maxReplicas": number(spec, &["maxReplicas"]).unwrap_or(hpa.max),
        "metrics": chosen.metrics,
    });
    if let Some(behavior) = at(spec, &["behavior"]) {
        own["behavior"] = behavior.clone();
    }
    let manifest = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"namespace": hpa.key.namespace, "name": hpa.key.name},
        "spec": own,
    });
    Ok(chosen.on(&Target { kind, key: ObjectKey::new(&hpa.key.namespace, &name) }, manifest))
}

/// The value of a metric for each replica in the status of an HPA, in thousandths of its unit.
fn milli_of_hpa(current_metrics: &[Value], metric: &Metric) -> Option<i64> {
    let found = current_metrics.iter().find(|one| Metric::of(one).as_ref() == Some(metric))?;
    let average = text(member(found)?, &["current", "averageValue"])?;
    Quantity::parse(average).ok().map(Quantity::milli)
}

/// The manifest of a ScalingPolicy, with the load on what it scales unless its HPA has that.
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
            true => Ok(One { manifest: manifest(own), loads: Vec::new(), left_out: Vec::new() }),
            false => Err(format!("so is HPA {}, whose replicas it bounds", policy.target.1)),
        };
    }
    let (kind, name) = workload((&policy.target.0, &policy.target.1), &policy.key.namespace, evidence)?;
    let target = Target { kind, key: ObjectKey::new(&policy.key.namespace, &name) };
    let current = policy.status.current_replicas.map(i64::from);
    let average = |asked: &Value, metric: &Metric| {
        milli_of_policy(&policy.status, asked, || request_milli(&target, world, metric))
    };
    let chosen = Chosen::of(&own, current, average)?;
    own["target"] = json!({"type": "Scale", "scale":
        {"apiVersion": kind.api_version(), "kind": kind.info().kind, "name": name}});
    own["minReplicas"] = chosen.least(&own).into();
    own["metrics"] = json!(chosen.metrics);
    Ok(chosen.on(&target, manifest(own)))
}

/// The value of a metric for each replica in the status of a ScalingPolicy, in thousandths of its unit: a quantity, or a part of
/// what a pod requests.
fn milli_of_policy(
    status: &ScalingPolicyStatus,
    asked: &Value,
    request_milli: impl FnOnce() -> Option<i64>,
) -> Option<i64> {
    let name = step_name(asked)?;
    let metrics = &status.recommendation.as_ref()?.metrics;
    // A long name is cut in the status.
    let own = |metric: &str| metric == name || NAME_MAX <= metric.chars().count() && name.starts_with(metric);
    let current = metrics.iter().find(|one| own(&one.metric))?.current.as_ref()?;
    match current.strip_suffix('%') {
        Some(percent) => Some(percent.parse::<i64>().ok()?.saturating_mul(request_milli()?) / 100),
        None => Quantity::parse(current).ok().map(Quantity::milli),
    }
}

/// Longest name of a metric in the status of a ScalingPolicy, in characters.
const NAME_MAX: usize = 256;

/// The name of a metric in the steps of a decision, where a query to Prometheus is an external metric by its text, a metric of
/// an external scaler one by its name or that of the source, a number of an HTTP server one by its place, and one of Redis one by its key.
fn step_name(asked: &Value) -> Option<String> {
    let external = |name: &Value, target: &Value| json!({"type": "External", "external": {"metric": {"name": name}, "target": target}});
    let in_v2 = if let Some(prometheus) = at(asked, &["prometheus"]) {
        external(&prometheus["query"], &prometheus["target"])
    } else if let Some(scaler) = at(asked, &["externalScaler"]) {
        external(scaler.get("metricName").unwrap_or(&scaler["source"]), &scaler["target"])
    } else if let Some(http) = at(asked, &["http"]) {
        let name = format!("{} of {}", text(http, &["value"])?, text(http, &["path"])?);
        external(&name.into(), &http["target"])
    } else if let Some(redis) = at(asked, &["redis"]) {
        let key = text(redis, &["key"])?;
        let name = match (text(redis, &["count"]), text(redis, &["group"])) {
            (Some(count), Some(group)) => format!("{count} of {group} on {key}"),
            _ => key.to_owned(),
        };
        external(&name.into(), &redis["target"])
    } else {
        asked.clone()
    };
    serde_json::from_value::<MetricSpec>(in_v2).ok().as_ref().map(metric_name)
}

/// Returns a pod's request for a resource, in thousandths of its unit; `None` when it is not known or nothing, and for
/// metrics that are not a resource.
fn request_milli(target: &Target, world: &WorldRecord, metric: &Metric) -> Option<i64> {
    let kind = match target.kind {
        Kind::StatefulSet => ControllerKind::StatefulSet,
        _ => ControllerKind::ReplicaSet,
    };
    let key = CoreKey::new(target.key.namespace.clone(), &*target.key.name);
    let controller = world.controllers.iter().find(|one| one.kind == kind && one.key == key)?;
    let requests = &world.classes.get(controller.class)?.requests;
    let milli = match metric {
        Metric::Cpu => requests.cpu_milli,
        Metric::Memory => requests.memory_bytes.saturating_mul(1000),
        Metric::Pods(_)
        | Metric::Object(..)
        | Metric::External(_)
        | Metric::Prometheus { .. }
        | Metric::ExternalScaler { .. }
        | Metric::Http { .. }
        | Metric::Redis { .. } => 0,
    };
    Some(milli).filter(|milli| 0 < *milli)
}

/// Returns the object that keeps the pods of a workload, by its kind and name: a StatefulSet, a ReplicaSet, or the
/// largest ReplicaSet of a Deployment.
fn workload(
    (kind, name): (&str, &str),
    namespace: &str,
    evidence: &Evidence,
) -> Result<(Kind, String), String> {
    let in_namespace = |key: &CoreKey| *key.namespace == *namespace;
    let there = |kind: &str| {
        let own = |seen: &&headroom_explain::evidence::WorkloadSeen| {
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

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_explain::evidence::WorkloadSeen;

    fn seen(kind: &str, name: &str, replicas: u32, owner: Option<(&str, &str)>) -> WorkloadSeen {
        WorkloadSeen {
            kind: kind.to_owned(),
            key: CoreKey::new("shop", name),
            replicas,
            owner: owner.map(|(kind, name)| (kind.to_owned(), name.to_owned())),
            ..WorkloadSeen::default()
        }
    }

    fn resource(name: &str, mut member: Value) -> Value {
        member["name"] = name.into();
        json!({"type": "Resource", "resource": member})
    }

    fn half_of(name: &str) -> Value {
        resource(name, json!({"target": {"type": "Utilization", "averageUtilization": 50}}))
    }

    fn cpu() -> Value {
        half_of("cpu")
    }

    /// A metric of the type that a target may have, asked for.
    fn external(target: &str) -> Value {
        let target = match target {
            "Value" => json!({"type": "Value", "value": "30"}),
            _ => json!({"type": "AverageValue", "averageValue": "30"}),
        };
        json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": target}})
    }

    /// Of the set that keeps the pods of Deployment web.
    fn load(metric: Metric, milli: i64) -> (Target, Metric, i64) {
        (Target { kind: Kind::ReplicaSet, key: ObjectKey::new("shop", "web-new") }, metric, milli)
    }

    fn hpa(kind: &str, metrics: Vec<Value>) -> HpaSeen {
        HpaSeen {
            key: CoreKey::new("shop", "web"),
            target: (kind.to_owned(), "web".to_owned()),
            current: Some(4),
            current_metrics: Some(vec![resource("cpu", json!({"current": {"averageValue": "150m"}}))]),
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
        let scalers =
            of(&evidence(hpa("Deployment", vec![external("Value"), cpu()])), &WorldRecord::default());
        assert_eq!(scalers.loads, [load(Metric::Cpu, 600)]);
        let (_, manifest) = &scalers.manifests[0];
        assert_eq!(manifest["spec"]["scaleTargetRef"]["name"], "web-new");
        assert_eq!(manifest["spec"]["metrics"], json!([cpu()]));
        assert_eq!(manifest["spec"]["behavior"]["scaleUp"]["stabilizationWindowSeconds"], 60);
        assert_eq!(
            scalers.notes,
            [
                "HPA shop/web is without external metric queue (a target of type Value: how its value answers to replicas \
              is not known)"
            ]
        );
    }

    #[test]
    fn whatever_pods_share_is_a_load_and_the_status_gives_its_size() {
        let queue = json!({"name": "queue", "selector": {"matchLabels": {"of": "web"}}});
        let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front"});
        let members = [
            ("Resource", "resource", json!({"name": "memory"}), "200Mi", 4000 * (200 << 20)),
            ("Pods", "pods", json!({"metric": {"name": "rps"}}), "12500m", 50_000),
            ("Object", "object", json!({"metric": {"name": "rps"}, "describedObject": ingress}), "7", 28_000),
            ("External", "external", json!({"metric": queue}), "3", 12_000),
        ];
        let (mut asked, mut reported, mut expected) = (Vec::new(), vec![json!({"type": ""})], Vec::new());
        for (kind, field, member, average, milli) in members {
            let (mut spec, mut status) = (member.clone(), member);
            spec["target"] = json!({"type": "AverageValue", "averageValue": "1"});
            status["current"] = json!({"averageValue": average});
            asked.push(json!({"type": kind, field: spec}));
            reported.push(json!({"type": kind, field: status}));
            let metric = Metric::of(asked.last().expect("it was pushed")).expect("a metric");
            expected.push(load(metric, milli));
        }
        let hpa = HpaSeen { current_metrics: Some(reported), ..hpa("Deployment", asked.clone()) };
        let scalers = of(&evidence(hpa), &WorldRecord::default());
        assert_eq!((scalers.loads, scalers.notes), (expected, Vec::new()));
        assert_eq!(scalers.manifests[0].1["spec"]["metrics"], json!(asked));
    }

    #[test]
    fn no_scaler_is_at_zero_if_nothing_but_its_pods_is_measured() {
        let least = |metrics: Vec<Value>| {
            let reported = json!({"type": "External", "external": {"metric": {"name": "queue"}, "current": {"averageValue": "1"}}});
            let mut hpa = hpa("Deployment", metrics);
            hpa.current_metrics.get_or_insert_default().push(reported);
            hpa.spec.as_mut().expect("a spec")["minReplicas"] = json!(0);
            of(&evidence(hpa), &WorldRecord::default()).manifests[0].1["spec"]["minReplicas"].clone()
        };
        assert_eq!(least(vec![cpu(), external("AverageValue")]), 0);
        assert_eq!(least(vec![cpu(), external("Value")]), 1);
    }

    #[test]
    fn hpa_that_cannot_be_simulated_is_left_out_with_a_note() {
        let notes = |hpa: HpaSeen, evidence: fn(HpaSeen) -> Evidence| {
            let scalers = of(&evidence(hpa), &WorldRecord::default());
            assert!(scalers.manifests.is_empty() && scalers.loads.is_empty(), "{scalers:?}");
            scalers.notes.join("; ")
        };
        let value = notes(hpa("Deployment", vec![external("Value")]), evidence);
        assert!(value.contains("external metric queue (a target of type Value:"), "{value}");
        let container = json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app",
            "target": {"type": "Utilization", "averageUtilization": 50}}});
        let container = notes(hpa("Deployment", vec![container]), evidence);
        assert!(
            container.contains("cpu of container app (a snapshot does not distinguish the containers"),
            "{container}"
        );
        let memory = notes(hpa("Deployment", vec![half_of("memory"), external("AverageValue")]), evidence);
        assert!(
            memory.contains("memory (its status does not report it yet), external metric queue (its"),
            "{memory}"
        );
        let unread = HpaSeen { current_metrics: None, ..hpa("Deployment", vec![cpu()]) };
        assert!(notes(unread, evidence).contains("older program"));
        let empty = HpaSeen { current: Some(0), ..hpa("Deployment", vec![cpu()]) };
        assert!(notes(empty, evidence).contains("reports no replicas"));
        let old = HpaSeen { spec: None, ..hpa("Deployment", vec![cpu()]) };
        assert!(notes(old, evidence).contains("older program"));
        assert!(notes(hpa("StatefulSet", vec![cpu()]), evidence).contains("no StatefulSet web"));
        assert!(notes(hpa("Rollout", vec![cpu()]), evidence).contains("Rollout is not simulated"));
    }

    /// A policy of Deployment web whose pods use 80 % of the 500m and 25 % of the 2Gi that they ask for, of a queue of 48.
    fn policy(spec: Value) -> PolicySeen {
        let target = match spec["target"]["type"] == "HPA" {
            true => ("HPA".to_owned(), "web".to_owned()),
            false => ("Deployment".to_owned(), "web".to_owned()),
        };
        let status = json!({"currentReplicas": 4, "recommendation": {"metrics": [
            {"metric": "external metric sum(queue)(nil)", "current": "12"},
            {"metric": "memory resource utilization (percentage of request)", "current": "25%"},
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
        let pod = pod("x").cpu("500m").memory("2Gi").with(|pod| pod.key.namespace = "shop".into());
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
    fn scaling_policy_scales_the_set_that_keeps_the_pods_under_the_load_in_its_status() {
        let schedules = json!([{"name": "office", "minReplicas": 9, "window":
            {"timeZone": "Etc/UTC", "start": "0 8 * * 1-5", "duration": "10h"}}]);
        let spec = |metrics: Vec<Value>| {
            json!({"minReplicas": 0, "maxReplicas": 30, "schedules": schedules,
            "target": {"type": "Scale", "scale": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            "metrics": metrics})
        };
        let scalers = of_policy(Vec::new(), spec(vec![query("Value"), cpu(), half_of("memory")]));
        let memory = load(Metric::Memory, 4000 * (512 << 20));
        assert_eq!(scalers.loads, [load(Metric::Cpu, 4 * 400), memory], "{:?}", scalers.notes);
        let own = &scalers.manifests[0].1["spec"];
        assert_eq!(own["target"]["scale"]["name"], "web-new");
        assert_eq!(
            (&own["metrics"], &own["minReplicas"], &own["schedules"]),
            (&json!([cpu(), half_of("memory")]), &json!(1), &schedules)
        );
        let without = "ScalingPolicy shop/office is without query sum(queue) to main (a target of type Value";
        assert!(scalers.notes[0].starts_with(without), "{:?}", scalers.notes);

        let scalers = of_policy(Vec::new(), spec(vec![query("AverageValue")]));
        let asked = Metric::Prometheus { source: "main".to_owned(), query: "sum(queue)".to_owned() };
        assert_eq!(scalers.loads, [load(asked, 48_000)], "{:?}", scalers.notes);
        assert_eq!(scalers.manifests[0].1["spec"]["minReplicas"], 0);
    }

    /// A query to Prometheus, with a target of a type.
    fn query(target: &str) -> Value {
        let target = external(target)["external"]["target"].clone();
        json!({"type": "Prometheus", "prometheus": {"source": "main", "query": "sum(queue)", "target": target}})
    }

    #[test]
    fn a_scaling_policy_without_metrics_measures_what_it_does_on_a_cluster() {
        let spec = json!({"maxReplicas": 30,
            "target": {"type": "Scale", "scale": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
        let scalers = of_policy(Vec::new(), spec);
        assert_eq!(scalers.loads, [load(Metric::Cpu, 4 * 400)], "{:?}", scalers.notes);
    }

    #[test]
    fn a_query_longer_than_the_status_holds_is_known_by_its_beginning() {
        let mut long = query("AverageValue");
        long["prometheus"]["query"] = "q".repeat(300).into();
        let name: String = step_name(&long).expect("a name").chars().take(NAME_MAX).collect();
        let status = json!({"recommendation": {"metrics": [{"metric": "external", "current": "1"},
            {"metric": name, "current": "2"}]}});
        let status = serde_json::from_value(status).expect("a status");
        assert_eq!(milli_of_policy(&status, &long, || None), Some(2000));
    }

    #[test]
    fn scaling_policy_of_an_hpa_bounds_it_and_goes_with_it() {
        let adopts = || json!({"target": {"type": "HPA", "hpa": {"name": "web"}}});
        let scalers = of_policy(vec![hpa("Deployment", vec![cpu()])], adopts());
        assert_eq!((scalers.manifests.len(), scalers.loads.len(), scalers.notes.len()), (2, 1, 0));
        let alone = of_policy(vec![hpa("Rollout", vec![cpu()])], adopts());
        assert!(alone.manifests.is_empty() && alone.notes[1].contains("so is HPA web"), "{:?}", alone.notes);
    }
}
