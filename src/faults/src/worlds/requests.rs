//! Worlds in which jobs ask for room as a whole by ProvisioningRequests, beside a load that rises and falls.

use serde_json::{Value, json};

use super::World;
use super::buffers::chunk_pod;
use super::world::{deployment, target};
use crate::checker::{ASKS_TOO_MUCH, NODES_MAX};
use headroom_simulator::scenario::Action;
use headroom_simulator::store::{Kind, ObjectKey};

/// Most pods of the load: two nodes. The requests of a world ask for nine at most, so that all of it fits.
const PODS_MAX: i64 = 8;

impl World {
    /// A pool, a load, and two or three requests of one to three pods that need a node each. In a third of the worlds one more
    /// asks for more than the pool may have.
    pub(super) fn room_asked_for_as_a_whole(&mut self, random: &mut fastrand::Rng) {
        let end = self.pool_with_a_load(PODS_MAX, random);
        for index in 0..random.usize(2..=3) {
            self.job(&format!("job-{index}"), end, random);
        }
        if random.u8(0..3) == 0 {
            let request = request(ASKS_TOO_MUCH, "atomic-scale-up.headroom.dev", NODES_MAX + 1, 60);
            self.at(random.i64(0..end), Action::Apply(vec![(Kind::ProvisioningRequest, request)]));
        }
        self.scenario.events.sort_by_key(|event| event.after);
    }

    /// A request. Of a third the pods come, and go again in a while; some are deleted.
    fn job(&mut self, name: &str, end: i64, random: &mut fastrand::Rng) {
        let count = random.usize(1..=3);
        let class =
            if random.u8(0..5) == 0 { "check-capacity.headroom.dev" } else { "atomic-scale-up.headroom.dev" };
        let booked_for = [60, 300, 600][random.usize(0..3)];
        let at = random.i64(0..end - 60);
        let request = request(name, class, count, booked_for);
        self.at(at, Action::Apply(vec![(Kind::ProvisioningRequest, request)]));
        match random.u8(0..6) {
            0 | 1 => {
                self.scenario.manifests.push((Kind::Deployment, pods_of(name, class)));
                let starts = at + random.i64(0..120);
                let count = i64::try_from(count).unwrap_or(0);
                self.at(starts, Action::Scale(target(name), count));
                self.at(end.max(starts + 1), Action::Scale(target(name), 0));
            }
            2 => {
                let key = ObjectKey::new("default", name);
                self.at(at + random.i64(1..300), Action::Delete(Kind::ProvisioningRequest, key));
            }
            _ => {}
        }
    }
}

fn request(name: &str, class: &str, count: usize, booked_for: u32) -> Value {
    json!({
        "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "provisioningClassName": class, "parameters": {"bookingSeconds": booked_for.to_string()},
            "podSets": [{"podTemplateRef": {"name": "chunk"}, "count": count}],
        },
    })
}

/// The pods of a job, which name its request.
fn pods_of(name: &str, class: &str) -> Value {
    let mut deployment = deployment(name);
    let template = &mut deployment["spec"]["template"];
    template["metadata"]["annotations"] = json!({
        "autoscaling.x-k8s.io/consume-provisioning-request": name,
        "autoscaling.x-k8s.io/provisioning-class-name": class,
    });
    template["spec"] = chunk_pod();
    template["spec"]["terminationGracePeriodSeconds"] = 2.into();
    deployment
}
