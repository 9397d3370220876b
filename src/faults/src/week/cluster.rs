//! The objects of the long run: pools of three kinds of market, Deployments of several sizes, budgets, settings. It makes nothing
//! happen.

use headroom_simulator::scenario::Target;
use headroom_simulator::store::{Kind, ObjectKey};
use serde_json::{Value, json};

/// Thousandths of a CPU that each node has.
pub(super) const NODE_CPU_MILLI: i64 = 10_000;
/// Pools on demand.
const GENERAL_POOLS: i64 = 4;
/// Zones, one node group each.
pub(super) const ZONES: [&str; 3] = ["a", "b", "c"];
/// Requests of a pod, in thousandths of a CPU.
const SIZES_MILLI: [i64; 6] = [250, 500, 1000, 500, 1000, 1000];
/// Sizes of Deployments relative to each other.
const WEIGHTS: [i64; 4] = [1, 2, 3, 8];
/// Deployments are spread over so many namespaces: anticipation is limited for each.
const NAMESPACES: usize = 10;
/// Each of so many Deployments has a budget, or is bound to a zone.
const BUDGET_EVERY: usize = 5;
const ZONAL_EVERY: usize = 6;

/// A market: its share of the load and of the nodes, in percent of the nodes at most.
#[derive(Debug, Clone, Copy)]
struct Tier {
    name: &'static str,
    load_percent: i64,
    /// Of the Deployments.
    workloads_percent: usize,
}

const TIERS: [Tier; 3] = [
    Tier { name: "general", load_percent: 80, workloads_percent: 75 },
    Tier { name: "spot", load_percent: 11, workloads_percent: 17 },
    Tier { name: "cloud", load_percent: 2, workloads_percent: 8 },
];

/// A Deployment and the replicas that it has at the peak of a working day.
#[derive(Debug, Clone)]
pub(super) struct Workload {
    pub(super) target: Target,
    pub(super) peak: i64,
    /// Its place among all, by which its rises and rollouts are spread.
    pub(super) index: usize,
    cpu_milli: i64,
    tier: &'static str,
}

/// The Deployments of a cluster of at most so many nodes.
pub(super) fn workloads(nodes: i64) -> Vec<Workload> {
    let count = usize::try_from(nodes / 50).unwrap_or(0).clamp(12, 300);
    let mut all = Vec::new();
    for tier in TIERS {
        let own = (count * tier.workloads_percent / 100).max(1);
        let weights: i64 = (0..own).map(|index| WEIGHTS[index % WEIGHTS.len()]).sum();
        let cpu_milli = nodes * NODE_CPU_MILLI * tier.load_percent / 100;
        for index in 0..own {
            let share = cpu_milli * WEIGHTS[index % WEIGHTS.len()] / weights;
            let size = SIZES_MILLI[index % SIZES_MILLI.len()];
            let key =
                ObjectKey::new(&format!("team-{}", index % NAMESPACES), &format!("{}-{index}", tier.name));
            all.push(Workload {
                target: Target { kind: Kind::Deployment, key },
                peak: (share / size).max(1),
                index: all.len(),
                cpu_milli: size,
                tier: tier.name,
            });
        }
    }
    all
}

/// Names of the pools on demand.
pub(super) fn general_pools() -> impl Iterator<Item = String> {
    (0..GENERAL_POOLS).map(|index| format!("general-{index}"))
}

/// Most nodes of the pool whose machines an account of AWS has.
pub(super) fn cloud_nodes(nodes: i64) -> i64 {
    (nodes * 4 / 100).max(3)
}

/// Removals at once in the whole cluster, and drains among them: the defaults are for small clusters.
pub(super) fn parallel_removals(nodes: i64) -> (i64, i64) {
    let removals = (nodes / 50).clamp(10, 1000);
    (removals, removals / 2)
}

/// Everything that is there at the beginning.
pub(super) fn manifests(nodes: i64, workloads: &[Workload]) -> Vec<(Kind, Value)> {
    let mut all = vec![(Kind::ClusterScalingPolicy, settings(nodes))];
    let kwok = json!({"type": "KWOK", "kwok": {"zones": ZONES, "simulation": {"joinDelay": "30s"}}});
    for name in general_pools() {
        all.push((Kind::NodePool, pool(&name, "general", &kwok, ((nodes * 22 / 100).max(4), "0.40"))));
    }
    all.push((Kind::NodePool, pool("spot", "spot", &kwok, ((nodes * 16 / 100).max(4), "0.15"))));
    let groups: Vec<Value> = cloud_groups().map(|(group, _)| json!({"name": group})).collect();
    let aws = json!({"type": "AWS", "aws": {"region": "sim-1", "nodeGroups": groups}});
    all.push((Kind::NodePool, pool("cloud", "cloud", &aws, (cloud_nodes(nodes), "0.40"))));
    for workload in workloads {
        all.push((Kind::Deployment, workload.deployment()));
        if workload.index.is_multiple_of(BUDGET_EVERY) {
            all.push((Kind::PodDisruptionBudget, workload.budget()));
        }
    }
    all
}

/// Groups of the account and their zones.
pub(super) fn cloud_groups() -> impl Iterator<Item = (String, &'static str)> {
    ZONES.iter().map(|zone| (format!("cloud-{zone}"), *zone))
}

fn settings(nodes: i64) -> Value {
    let (removals, drains) = parallel_removals(nodes);
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "ClusterScalingPolicy", "metadata": {"name": "default"},
        "spec": {"nodes": {"removals": {"maxParallel": removals, "maxParallelDrains": drains}}},
    })
}

fn pool(name: &str, tier: &str, provider: &Value, (max, price): (i64, &str)) -> Value {
    let cpu = (NODE_CPU_MILLI / 1000).to_string();
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "provider": provider, "minNodes": 0, "maxNodes": max, "price": {"perHour": price},
            "template": {
                "labels": {"pool": name, "tier": tier},
                "capacity": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
            },
        },
    })
}

impl Workload {
    fn deployment(&self) -> Value {
        let name = &*self.target.key.name;
        let mut selector = json!({"tier": self.tier});
        if self.tier == "general" && self.index % ZONAL_EVERY == 1 {
            selector["topology.kubernetes.io/zone"] = ZONES[self.index / ZONAL_EVERY % ZONES.len()].into();
        }
        let cpu = format!("{}m", self.cpu_milli);
        let memory = format!("{}Mi", self.cpu_milli * 4);
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": &*self.target.key.namespace},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {
                        "nodeSelector": selector, "terminationGracePeriodSeconds": 10,
                        "containers": [{
                            "name": "main", "image": "web:1",
                            "resources": {"requests": {"cpu": cpu, "memory": memory}},
                        }],
                    },
                },
            },
        })
    }

    fn budget(&self) -> Value {
        let (name, namespace) = (&*self.target.key.name, &*self.target.key.namespace);
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"maxUnavailable": "10%", "selector": {"matchLabels": {"app": name}}},
        })
    }
}
