//! Worlds in which pools compete under CapacityQuotas: of nodes, cores, memory, GPUs and the price of an hour, by
//! selectors that overlap. Loads rise and fall, and people change the quotas.

use serde_json::{Value, json};

use super::World;
use super::world::{deployment, node_pool, target};
use headroom_simulator::scenario::Action;
use headroom_simulator::store::{Kind, ObjectKey};

/// Pods that fit one node.
const PODS_PER_NODE: i64 = 4;
/// Most nodes that a pool's load asks for.
const NODES_MAX: i64 = 6;
/// Nothing is changed by people in so many seconds before trouble ends.
const CALM_BEFORE_END: i64 = 60;

impl World {
    /// Two or three pools and one or two quotas that bound them together.
    pub(super) fn limited_capacity(&mut self, random: &mut fastrand::Rng) {
        let pools: Vec<String> = (0..random.usize(2..=3)).map(|index| format!("p{index}")).collect();
        for name in &pools {
            self.competing_pool(name, random);
        }
        if random.u8(0..4) == 0 {
            self.scenario.manifests.push((Kind::Node, foreign_node()));
        }
        for index in 0..random.usize(1..=2) {
            self.quota(&format!("q{index}"), &pools, random);
        }
        self.goal.pods_wait_for_quotas = true;
        self.scenario.events.sort_by_key(|event| event.after);
    }

    fn competing_pool(&mut self, name: &str, random: &mut fastrand::Rng) {
        let zones = &["a", "b"][..random.usize(1..=2)];
        let on_aws = random.bool();
        let provider = if on_aws {
            self.add_groups(name, zones)
        } else {
            let delay = if random.bool() { 0 } else { random.u32(1..20) };
            json!({"type": "KWOK", "kwok": {"zones": zones, "simulation": {"joinDelay": format!("{delay}s")}}})
        };
        let least = if random.u8(0..4) == 0 { random.i64(1..=2) } else { 0 };
        let mut pool = node_pool(name, &provider, least, true, "30s");
        if random.u8(0..8) != 0 {
            // Thousandths: no two of them sum up to a round amount by chance alone.
            pool["spec"]["price"] = json!({"perHour": format!("0.{:03}", random.u32(150..900))});
        }
        if !on_aws && random.bool() {
            pool["spec"]["template"]["capacity"]["nvidia.com/gpu"] = json!(random.u32(1..=2).to_string());
        }
        self.scenario.manifests.push((Kind::NodePool, pool));
        self.scenario.manifests.push((Kind::Deployment, deployment(name)));
        let end = self.trouble_seconds() - CALM_BEFORE_END;
        let mut at = random.i64(0..40);
        while at < end {
            self.at(at, Action::Scale(target(name), random.i64(0..=NODES_MAX * PODS_PER_NODE)));
            at += random.i64(15..150);
        }
    }

    /// A quota over some of the pools or zones; in a third of the cases people change it or take it away for a while.
    fn quota(&mut self, name: &str, pools: &[String], random: &mut fastrand::Rng) {
        let selector = selector(pools, random);
        let limits = limits(random);
        self.scenario.manifests.push((Kind::CapacityQuota, quota(name, &selector, &limits)));
        if random.u8(0..3) != 0 {
            return;
        }
        let end = self.trouble_seconds() - CALM_BEFORE_END;
        for _ in 0..random.usize(1..=3) {
            let at = random.i64(30..end - 130);
            if random.u8(0..3) == 0 {
                let back = at + random.i64(1..120);
                self.at(at, Action::Delete(Kind::CapacityQuota, ObjectKey::new("", name)));
                let again = vec![(Kind::CapacityQuota, quota(name, &selector, &limits))];
                self.at(back, Action::Apply(again));
            } else {
                let limits: Value = limits
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(resource, _)| (resource.clone(), limit(resource, random)))
                    .collect::<serde_json::Map<String, Value>>()
                    .into();
                self.at(at, Action::Apply(vec![(Kind::CapacityQuota, quota(name, &selector, &limits))]));
            }
        }
    }
}

fn quota(name: &str, selector: &Value, limits: &Value) -> Value {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityQuota", "metadata": {"name": name},
        "spec": {"selector": selector, "limits": {"resources": limits}},
    })
}

/// All nodes, those of some pools, or those of a zone.
fn selector(pools: &[String], random: &mut fastrand::Rng) -> Value {
    match random.u8(0..5) {
        0 => json!({"matchLabels": {"topology.kubernetes.io/zone": "a"}}),
        1 => json!({"matchLabels": {"pool": pools[random.usize(0..pools.len())]}}),
        2 => {
            let out = &pools[random.usize(0..pools.len())];
            json!({"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": [out]}]})
        }
        3 => json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": pools}]}),
        _ => json!({}),
    }
}

/// Limits of one or two resources.
fn limits(random: &mut fastrand::Rng) -> Value {
    let resources = ["nodes", "nodes", "cpu", "memory", "nvidia.com/gpu", "headroom.dev/price-per-hour"];
    let mut limits = serde_json::Map::new();
    for _ in 0..random.usize(1..=2) {
        let resource = resources[random.usize(0..resources.len())];
        limits.insert(resource.to_owned(), limit(resource, random));
    }
    limits.into()
}

fn limit(resource: &str, random: &mut fastrand::Rng) -> Value {
    let words = match resource {
        // Every other one ends within a node.
        "cpu" => random.u32(8..=36).to_string(),
        "memory" => format!("{}Gi", random.u32(32..=144)),
        "nvidia.com/gpu" => random.u32(1..=8).to_string(),
        "headroom.dev/price-per-hour" => random.u32(1..=5).to_string(),
        _ => random.u32(2..=9).to_string(),
    };
    words.into()
}

/// A node of no pool, which every quota without a selector counts. No pod of these worlds fits it.
fn foreign_node() -> Value {
    let room = json!({"cpu": "4", "memory": "16Gi", "pods": "110"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "foreign-0"},
        "status": {"capacity": room, "allocatable": room}})
}
