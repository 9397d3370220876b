//! Worlds in which pods that are bound together or not at all come and go, beside a load that rises and falls.

use serde_json::{Value, json};

use super::World;
use super::buffers::chunk_pod;
use super::world::{deployment, target};
use crate::checker::NODES_MAX;
use headroom_core::world::gang::COSCHEDULING_LABEL;
use headroom_simulator::scenario::Action;
use headroom_simulator::store::Kind;

/// Most pods of the load: two nodes. The gangs of a world need nine at most, so that all of it fits.
const PODS_MAX: i64 = 8;
/// Name of the gang that needs more pods than the pool may have nodes.
const TOO_MUCH: &str = "too-much";
/// Name of the gang one of whose pods never comes.
const INCOMPLETE: &str = "incomplete";

impl World {
    /// A pool, a load, and two or three gangs of two or three pods that need a node each, or a quarter of one. In half of the worlds one more needs
    /// more than the pool may have, in half one never has all its pods.
    pub(super) fn pods_that_start_together(&mut self, random: &mut fastrand::Rng) {
        let end = self.pool_with_a_load(PODS_MAX, random);
        for index in 0..random.usize(2..=3) {
            self.gang(&format!("gang-{index}"), random.i64(2..=3), end, random);
        }
        let too_many = i64::try_from(NODES_MAX).unwrap_or(0) + 1;
        for (name, minimum, pods) in [(TOO_MUCH, too_many, too_many), (INCOMPLETE, 3, 2)] {
            if random.bool() {
                self.scenario.manifests.push((Kind::CoschedulingPodGroup, pod_group(name, minimum)));
                self.scenario.manifests.push((Kind::Deployment, pods_of(name)));
                self.at(random.i64(0..end), Action::Scale(target(name), pods));
                self.goal.hopeless.push(format!("{name}-"));
            }
        }
        self.scenario.events.sort_by_key(|event| event.after);
    }

    /// A gang whose pods come at once or one later than the others, and which may end and begin again.
    fn gang(&mut self, name: &str, minimum: i64, end: i64, random: &mut fastrand::Rng) {
        let group = (Kind::CoschedulingPodGroup, pod_group(name, minimum));
        let at = random.i64(0..end - 300);
        if random.u8(0..4) == 0 {
            // A controller may make the pods first.
            self.at(at + random.i64(1..120), Action::Apply(vec![group]));
        } else {
            self.scenario.manifests.push(group);
        }
        let mut pods = pods_of(name);
        if random.bool() {
            pods["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "800m".into();
        }
        self.scenario.manifests.push((Kind::Deployment, pods));
        if random.bool() {
            self.at(at, Action::Scale(target(name), minimum - 1));
            self.at(at + random.i64(1..240), Action::Scale(target(name), minimum));
        } else {
            self.at(at, Action::Scale(target(name), minimum));
        }
        if random.bool() {
            let over = at + random.i64(240..300);
            self.at(over, Action::Scale(target(name), 0));
            if random.bool() {
                self.at(over + random.i64(1..200), Action::Scale(target(name), minimum));
            }
        }
    }
}

fn pod_group(name: &str, minimum: i64) -> Value {
    json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": minimum},
    })
}

/// The pods of a gang, which name it.
fn pods_of(name: &str) -> Value {
    let mut deployment = deployment(name);
    let template = &mut deployment["spec"]["template"];
    template["metadata"]["labels"][COSCHEDULING_LABEL] = name.into();
    template["spec"] = chunk_pod();
    template["spec"]["terminationGracePeriodSeconds"] = 2.into();
    deployment
}
