//! Worlds whose scheduler refuses pods for reasons that the operator does not know, and in which some pods have a scheduler
//! that does not exist. Nothing else goes wrong in them.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::World;
use super::world::{deployment, node_pool, target};
use headroom_simulator::cluster::REFUSED_ANNOTATION;
use headroom_simulator::scenario::Action;
use headroom_simulator::store::Kind;

/// Long enough for two backoffs of a class, and for many cycles without them.
pub(super) const TROUBLE: SignedDuration = SignedDuration::from_mins(40);

impl World {
    /// A pool, small pods that come and go, and one to three Deployments whose pods are refused, for a while or for good.
    pub(super) fn refused_pods(&mut self, random: &mut fastrand::Rng) {
        let provider = if random.bool() {
            self.add_groups("p0", &["a", "b"])
        } else {
            json!({"type": "KWOK", "kwok": {"zones": ["a"], "simulation": {"joinDelay": format!("{}s", random.u32(0..20))}}})
        };
        let unneeded_for = ["15s", "30s", "2m"][random.usize(0..3)];
        let mut pool = node_pool("p0", &provider, 0, true, unneeded_for);
        pool["spec"]["scaleDown"]["delayAfterAdd"] = ["5s", "15s", "1m"][random.usize(0..3)].into();
        self.scenario.manifests.push((Kind::NodePool, pool));
        for (name, cpu) in [("web", "600m"), ("api", "1100m")] {
            self.scenario.manifests.push((Kind::Deployment, sized(name, "p0", cpu)));
            let mut at = random.i64(0..60);
            while at < TROUBLE.as_secs() {
                self.at(at, Action::Scale(target(name), random.i64(1..=6)));
                at += random.i64(60..900);
            }
        }
        for index in 0..random.usize(1..=3) {
            self.add_refused(index, random);
        }
        self.goal.hopeless.push("odd-".to_owned());
    }

    fn add_refused(&mut self, index: usize, random: &mut fastrand::Rng) {
        let name = format!("odd-{index}");
        let mut odd = sized(&name, "p0", ["500m", "1500m", "2500m", "3500m"][random.usize(0..4)]);
        let template = &mut odd["spec"]["template"];
        if random.u8(0..4) == 0 {
            template["spec"]["schedulerName"] = "volcano".into();
        } else {
            let percent = [100, 100, 50][random.usize(0..3)];
            let refusal = match random.bool() {
                true => percent.to_string(),
                false => format!("{percent}/{}", random.u32(20..2400)),
            };
            template["metadata"]["annotations"] = json!({REFUSED_ANNOTATION: refusal});
        }
        self.scenario.manifests.push((Kind::Deployment, odd));
        self.at(random.i64(0..300), Action::Scale(target(&name), random.i64(1..=3)));
    }
}

/// A Deployment whose pods ask for so much.
fn sized(name: &str, pool: &str, cpu: &str) -> Value {
    let mut made = deployment(name);
    let spec = &mut made["spec"]["template"]["spec"];
    spec["nodeSelector"] = json!({"pool": pool});
    spec["containers"][0]["resources"]["requests"]["cpu"] = cpu.into();
    made
}
