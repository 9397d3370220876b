//! Worlds in which CapacityBuffers reserve whole nodes beside a load that rises and falls.

use serde_json::{Value, json};

use super::World;
use super::world::{deployment, node_pool, target};
use headroom_simulator::scenario::Action;
use headroom_simulator::store::Kind;

/// Most pods of the load: four nodes.
const PODS_MAX: i64 = 16;
/// Nothing is changed by people in so many seconds before trouble ends.
const CALM_BEFORE_END: i64 = 60;
/// More than a node has beside a pod of the load.
const CHUNK: &str = "3200m";

impl World {
    /// A pool, a load, and one or two buffers, each of one or two replicas that need a node each.
    pub(super) fn reserved_room(&mut self, random: &mut fastrand::Rng) {
        let end = self.pool_with_a_load(PODS_MAX, random);
        for index in 0..random.usize(1..=2) {
            let name = format!("room-{index}");
            self.scenario.manifests.push((Kind::CapacityBuffer, buffer(&name, random.i64(1..=2))));
            if random.u8(0..3) == 0 {
                let changed = vec![(Kind::CapacityBuffer, buffer(&name, random.i64(0..=2)))];
                self.at(random.i64(60..end), Action::Apply(changed));
            }
        }
        self.scenario.events.sort_by_key(|event| event.after);
    }

    /// A pool, a load of at most so many pods, and the template of a pod that needs a node for itself. Returns the second at
    /// which people change nothing any more.
    pub(super) fn pool_with_a_load(&mut self, pods_max: i64, random: &mut fastrand::Rng) -> i64 {
        let zones = &["a", "b"][..random.usize(1..=2)];
        let provider = if random.bool() {
            self.add_groups("p0", zones)
        } else {
            let delay = format!("{}s", random.u32(0..20));
            json!({"type": "KWOK", "kwok": {"zones": zones, "simulation": {"joinDelay": delay}}})
        };
        let mut pool = node_pool("p0", &provider, 0, true, ["15s", "30s", "2m"][random.usize(0..3)]);
        pool["spec"]["price"] = json!({"perHour": "0.2"});
        let policy = if random.bool() { "WhenUnderutilized" } else { "WhenCheaper" };
        pool["spec"]["scaleDown"]["policy"] = policy.into();
        self.scenario.manifests.push((Kind::NodePool, pool));
        self.scenario.manifests.push((Kind::Deployment, deployment("p0")));
        self.scenario.manifests.push((Kind::PodTemplate, chunk()));
        let end = self.trouble_seconds() - CALM_BEFORE_END;
        let mut at = random.i64(0..40);
        while at < end {
            self.at(at, Action::Scale(target("p0"), random.i64(0..=pods_max)));
            at += random.i64(15..250);
        }
        end
    }
}

/// Pod of a buffer or a request: one a node.
pub(super) fn chunk_pod() -> Value {
    let container =
        json!({"name": "c", "image": "c", "resources": {"requests": {"cpu": CHUNK, "memory": "64Mi"}}});
    json!({"nodeSelector": {"pool": "p0"}, "containers": [container]})
}

fn chunk() -> Value {
    json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "chunk", "namespace": "default"},
        "template": {"metadata": {}, "spec": chunk_pod()},
    })
}

fn buffer(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "provisioningStrategy": "headroom.dev/active-capacity",
            "podTemplateRef": {"name": "chunk"}, "replicas": replicas,
        },
    })
}
