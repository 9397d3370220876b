//! A world of workloads that are scaled by their load: policies and HPAs, what they carry, and what people do to them. Nodes
//! are there for all pods, so that nothing but sizes is at stake.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::World;
use super::world::deployment;
use crate::checker::{Scaled, Weight};
use headroom_simulator::cluster::Metric;
use headroom_simulator::scenario::{Action, Target};
use headroom_simulator::store::{Kind, ObjectKey};

/// Nodes, and thousandths of a CPU of each: more than all workloads together ever ask for.
const NODES: usize = 2;
/// Minutes from the start in which schedules may open.
const OPENS_WITHIN: i64 = 9;
/// The longest way to the goal: sixteen pods, of which one may come or go every two minutes.
const LONGEST_WAY: SignedDuration = SignedDuration::from_mins(32);

/// One workload as it is drawn.
struct Draft {
    namespace: String,
    key: ObjectKey,
    weight: Weight,
    min: i64,
    max: i64,
    behaves: bool,
}

impl World {
    /// Two to four workloads, each in a namespace of its own; some of HPAs where the operator runs those.
    pub(super) fn scaled_workloads(&mut self, runs_hpas: bool, random: &mut fastrand::Rng) {
        for index in 0..NODES {
            self.scenario.manifests.push((Kind::Node, node(index)));
        }
        self.runs_hpas = runs_hpas;
        if self.runs_hpas {
            let settings = json!({
                "apiVersion": "headroom.dev/v1alpha1", "kind": "ClusterScalingPolicy", "metadata": {"name": "default"},
                "spec": {"workloads": {"hpaOwnership": "Replace"}},
            });
            self.scenario.manifests.push((Kind::ClusterScalingPolicy, settings));
        }
        for index in 0..random.usize(2..=4) {
            self.scaled_workload(&format!("w{index}"), random);
        }
        for _ in 0..random.usize(0..=3) {
            let lasts = SignedDuration::from_secs(random.i64(10..150));
            self.at(random.i64(30..self.trouble_seconds() - 150), Action::MetricsOutage(lasts));
        }
        self.scenario.events.sort_by_key(|event| event.after);
        self.scenario.duration += LONGEST_WAY;
    }

    fn scaled_workload(&mut self, namespace: &str, random: &mut fastrand::Rng) {
        let draft = Draft {
            namespace: namespace.to_owned(),
            key: ObjectKey::new(namespace, "app"),
            weight: Weight {
                request_milli: [200, 500, 1000][random.usize(0..3)],
                percent: random.i64(40..=80),
            },
            min: random.i64(1..=3),
            max: random.i64(7..=16),
            behaves: random.u8(0..3) != 0,
        };
        let replicas = random.i64(draft.min..=6);
        self.scenario.manifests.push((Kind::Deployment, draft.deployment(replicas)));
        let blind = random.u8(0..7) == 0;
        let hpa = self.runs_hpas && random.bool();
        let openings = if random.u8(0..3) == 0 { vec![self.opening(draft.max, random)] } else { Vec::new() };
        let mut spec = draft.spec(blind, random);
        let mut added = self.added(&openings);
        if !blind && random.u8(0..4) == 0 {
            added["fallback"] = json!({"after": "60s", "replicas": random.i64(3..9).to_string()});
        }
        if hpa {
            spec["scaleTargetRef"] = draft.reference();
            self.scenario.manifests.push((Kind::HorizontalPodAutoscaler, draft.hpa("app", &spec)));
            if added.as_object().is_some_and(|added| !added.is_empty()) || random.bool() {
                added["target"] = json!({"type": "HPA", "hpa": {"name": "app"}});
                self.scenario.manifests.push((Kind::ScalingPolicy, draft.policy("user", &added)));
            }
        } else {
            self.scenario
                .manifests
                .push((Kind::ScalingPolicy, draft.on_scale("app", &merged(&spec, &added))));
        }
        let load_milli = self.waves(&draft, replicas, random);
        self.edits(&draft, hpa, random);
        if !hpa && !blind && openings.is_empty() && random.u8(0..3) == 0 {
            self.rival(&draft, random);
        }
        self.scaled.push(Scaled { key: draft.key, weight: draft.weight, openings, blind, load_milli });
    }

    /// Time at which a schedule opens and closes, in whole minutes, and its floor.
    fn opening(&self, max: i64, random: &mut fastrand::Rng) -> (Timestamp, Timestamp, i64) {
        let opens = self.scenario.start + SignedDuration::from_mins(random.i64(1..=OPENS_WITHIN));
        let lasts = SignedDuration::from_mins(random.i64(1..=8));
        (opens, opens + lasts, random.i64(4..=max))
    }

    /// Returns the fields that a policy adds to the spec of its workload: schedules.
    fn added(&self, openings: &[(Timestamp, Timestamp, i64)]) -> Value {
        let Some((opens, closes, floor)) = openings.first() else { return json!({}) };
        let passed = opens.duration_since(self.scenario.start).as_mins();
        // Worlds start on the hour.
        let hour = self.scenario.start.strftime("%-H").to_string();
        let window = json!({
            "start": format!("{passed} {hour} * * *"),
            "duration": format!("{}m", closes.duration_since(*opens).as_mins()),
        });
        json!({"schedules": [{"name": "rush", "minReplicas": floor, "window": window}]})
    }

    /// A load that changes every minute or two; what it is at the end.
    fn waves(&mut self, draft: &Draft, replicas: i64, random: &mut fastrand::Rng) -> i64 {
        let one = draft.weight.request_milli * draft.weight.percent / 100;
        let target = || Target { kind: Kind::Deployment, key: draft.key.clone() };
        let (mut at, mut load) = (0, one * replicas);
        while at < self.trouble_seconds() - 60 {
            self.at(at, Action::Load(target(), Metric::Cpu, load));
            at += if random.u8(0..4) == 0 { random.i64(5..30) } else { random.i64(60..180) };
            load = one * random.i64(5..=draft.max * 12) / 10;
        }
        self.at(at, Action::Load(target(), Metric::Cpu, load));
        if random.u8(0..3) == 0 {
            for _ in 0..random.usize(1..=3) {
                let lasts = SignedDuration::from_secs(random.i64(20..150));
                let at = random.i64(30..self.trouble_seconds() - 150);
                self.at(at, Action::MissingUsage(target(), random.usize(1..=4), lasts));
            }
        }
        if random.u8(0..8) == 0 {
            let at = random.i64(60..self.trouble_seconds() - 60);
            self.at(at, Action::Scale(target(), random.i64(draft.min..=draft.max)));
        }
        load
    }

    /// People change bounds or behavior in mid-course.
    fn edits(&mut self, draft: &Draft, hpa: bool, random: &mut fastrand::Rng) {
        if random.u8(0..3) != 0 {
            return;
        }
        for _ in 0..random.usize(1..=3) {
            let spec = match random.u8(0..3) {
                0 => json!({"minReplicas": random.i64(1..=5)}),
                1 => json!({"maxReplicas": random.i64(5..=16)}),
                // Changes are counted from a behavior on: it is never taken away or added.
                _ if draft.behaves => json!({"behavior": behavior(random)}),
                _ => json!({"maxReplicas": draft.max}),
            };
            let edit = if hpa {
                (Kind::HorizontalPodAutoscaler, draft.hpa("app", &spec))
            } else {
                (Kind::ScalingPolicy, draft.policy("app", &spec))
            };
            self.at(random.i64(30..self.trouble_seconds() - 30), Action::Apply(vec![edit]));
        }
    }

    /// A second policy, or an HPA, takes the same Deployment for its own; one of the two goes again.
    fn rival(&mut self, draft: &Draft, random: &mut fastrand::Rng) {
        let comes = random.i64(60..300);
        let goes = random.i64(comes + 60..self.trouble_seconds() - 30);
        let first_goes = random.bool();
        let mut spec = draft.spec(false, random);
        spec["minReplicas"] = json!(random.i64(1..=5));
        spec["maxReplicas"] = json!(random.i64(6..=16));
        let as_hpa = random.bool();
        let (kind, rival) = if as_hpa {
            spec["scaleTargetRef"] = draft.reference();
            (Kind::HorizontalPodAutoscaler, draft.hpa("rival", &spec))
        } else {
            (Kind::ScalingPolicy, draft.on_scale("rival", &spec))
        };
        self.at(comes, Action::Apply(vec![(kind, rival)]));
        // Somebody must be left who scales it: an HPA that is only observed is nobody.
        let (kind, name) = if first_goes && (!as_hpa || self.runs_hpas) {
            (Kind::ScalingPolicy, "app")
        } else {
            (kind, "rival")
        };
        self.at(goes, Action::Delete(kind, ObjectKey::new(&draft.namespace, name)));
    }
}

impl Draft {
    fn deployment(&self, replicas: i64) -> Value {
        let mut object = deployment("app");
        object["metadata"]["namespace"] = json!(self.namespace);
        object["spec"]["replicas"] = json!(replicas);
        let pod = &mut object["spec"]["template"]["spec"];
        pod["containers"][0]["resources"]["requests"]["cpu"] =
            json!(format!("{}m", self.weight.request_milli));
        if let Some(pod) = pod.as_object_mut() {
            pod.remove("nodeSelector");
        }
        object
    }

    /// Bounds, metrics and behavior, in the message that policies and HPAs share.
    fn spec(&self, blind: bool, random: &mut fastrand::Rng) -> Value {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": self.weight.percent}}});
        // Nobody serves it.
        let queue = json!({"type": "External", "external": {"metric": {"name": "queue"},
            "target": {"type": "AverageValue", "averageValue": "1"}}});
        let metrics = if blind { vec![cpu, queue] } else { vec![cpu] };
        let mut spec = json!({"minReplicas": self.min, "maxReplicas": self.max, "metrics": metrics});
        if self.behaves {
            spec["behavior"] = behavior(random);
        }
        spec
    }

    fn reference(&self) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": &*self.key.name})
    }

    fn hpa(&self, name: &str, spec: &Value) -> Value {
        let metadata = json!({"name": name, "namespace": self.namespace});
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec})
    }

    fn policy(&self, name: &str, spec: &Value) -> Value {
        let metadata = json!({"name": name, "namespace": self.namespace});
        json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy", "metadata": metadata, "spec": spec})
    }

    fn on_scale(&self, name: &str, spec: &Value) -> Value {
        let target = json!({"target": {"type": "Scale", "scale": self.reference()}});
        self.policy(name, &merged(spec, &target))
    }
}

/// Rates and windows of both directions. Windows are short, so that what they hold back is seen to happen; downwards they
/// last for as long as a new pod's usage is left out, or a size would swing for ever: upstream's proposal counts the load
/// that a starting pod has taken over, and not the pod.
fn behavior(random: &mut fastrand::Rng) -> Value {
    let mut rules = |windows: &[i64]| {
        let rate = |random: &mut fastrand::Rng| {
            let period = [15, 30, 60, 120][random.usize(0..4)];
            if random.bool() {
                json!({"type": "Pods", "value": random.i64(1..=4), "periodSeconds": period})
            } else {
                let percent = [20, 50, 100][random.usize(0..3)];
                json!({"type": "Percent", "value": percent, "periodSeconds": period})
            }
        };
        let rates: Vec<Value> = (0..random.usize(1..=2)).map(|_| rate(random)).collect();
        json!({
            "stabilizationWindowSeconds": windows[random.usize(0..windows.len())],
            "selectPolicy": if random.bool() { "Max" } else { "Min" },
            "policies": rates,
        })
    };
    json!({"scaleUp": rules(&[0, 0, 30, 60]), "scaleDown": rules(&[45, 60, 90, 120, 240])})
}

fn merged(spec: &Value, more: &Value) -> Value {
    let both = [spec, more].into_iter().filter_map(Value::as_object).flatten();
    Value::Object(both.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn node(index: usize) -> Value {
    let room = json!({"cpu": "128", "memory": "512Gi", "pods": "250"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("big-{index}")},
        "status": {"capacity": room, "allocatable": room}})
}
