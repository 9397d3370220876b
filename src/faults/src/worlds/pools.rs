//! Worlds in which pools come and go, as when GitOps prunes them and applies them again, and in which people limit removals:
//! by budgets of pools and of the cluster, some of them for a few minutes, and by the kill switch.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::World;
use super::world::{deployment, node_pool, target};
use crate::checker::RemovalLimit;
use headroom_simulator::scenario::Action;
use headroom_simulator::store::{Kind, ObjectKey};

/// Pods that fit one node.
const PODS_PER_NODE: i64 = 4;
/// Most nodes that a pool's load asks for.
const NODES_MAX: i64 = 6;
/// Pools are there, and nothing is stopped, from so many seconds before trouble ends.
const BACK_BEFORE_CALM: i64 = 30;

impl World {
    /// One to three pools whose loads rise and fall; most of them go in the midst of it and come again.
    pub(super) fn pools_come_and_go(&mut self, random: &mut fastrand::Rng) {
        let mut of_cluster = Vec::new();
        for index in 0..random.usize(0..=1) {
            of_cluster.push(self.limit(None, index, random));
        }
        let settings = |spec: Value| {
            let metadata = json!({"name": "default"});
            json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "ClusterScalingPolicy", "metadata": metadata,
                "spec": {"nodes": spec}})
        };
        self.scenario
            .manifests
            .push((Kind::ClusterScalingPolicy, settings(json!({"removals": {"budgets": of_cluster}}))));
        if random.u8(0..3) == 0 {
            let from = random.i64(60..self.trouble_seconds() - 240);
            let until = random.i64(from + 30..self.trouble_seconds() - BACK_BEFORE_CALM);
            for (at, word) in [(from, "Stopped"), (until, "Allowed")] {
                let switch = settings(json!({"voluntaryDisruption": word}));
                self.at(at, Action::Apply(vec![(Kind::ClusterScalingPolicy, switch)]));
            }
        }
        for index in 0..random.usize(1..=3) {
            self.pool_that_goes(&format!("p{index}"), random);
        }
        self.scenario.events.sort_by_key(|event| event.after);
    }

    fn pool_that_goes(&mut self, name: &str, random: &mut fastrand::Rng) {
        let zones = &["a", "b"][..random.usize(1..=2)];
        let provider = if random.bool() {
            self.add_groups(name, zones)
        } else {
            json!({"type": "KWOK", "kwok": {"zones": zones, "simulation": {"joinDelay": format!("{}s", random.u32(0..20))}}})
        };
        let least = if random.u8(0..3) == 0 { random.i64(1..=2) } else { 0 };
        let mut pool = node_pool(name, &provider, least, true, "30s");
        let budgets: Vec<Value> =
            (0..random.usize(0..=2)).map(|index| self.limit(Some(name), index, random)).collect();
        pool["spec"]["scaleDown"]["budgets"] = json!(budgets);
        self.scenario.manifests.push((Kind::NodePool, pool.clone()));
        self.scenario.manifests.push((Kind::Deployment, deployment(name)));
        self.need.push((name.to_owned(), 0));
        let end = self.trouble_seconds() - BACK_BEFORE_CALM;
        let mut at = random.i64(1..30);
        while at < end {
            self.at(at, Action::Scale(target(name), random.i64(0..=NODES_MAX * PODS_PER_NODE)));
            at += random.i64(15..150);
        }
        let stays_away = random.u8(0..6) == 0;
        let mut at = random.i64(20..240);
        for _ in 0..random.usize(0..=3) {
            let back = at + if random.bool() { random.i64(1..10) } else { random.i64(10..120) };
            if end <= back {
                break;
            }
            self.at(at, Action::Delete(Kind::NodePool, ObjectKey::new("", name)));
            self.at(back, Action::Apply(vec![(Kind::NodePool, pool.clone())]));
            at = back + random.i64(5..240);
        }
        if stays_away && at < end {
            self.at(at, Action::Delete(Kind::NodePool, ObjectKey::new("", name)));
            self.goal.unmanaged.push(name.to_owned());
            self.goal.hopeless.push(format!("{name}-"));
        }
    }

    /// A budget of a pool, or of the cluster; the checker knows it.
    fn limit(&mut self, pool: Option<&str>, index: usize, random: &mut fastrand::Rng) -> Value {
        let most = random.usize(0..=3);
        let mut budget = json!({"name": format!("b{index}"), "maxNodes": most});
        let reason = [None, Some("Empty"), Some("Underutilized")][random.usize(0..3)];
        if let Some(reason) = reason {
            budget["reasons"] = json!([reason]);
        }
        // One that lets nothing go ends before the end, or the goal could not be reached.
        let window = (most == 0 || random.bool()).then(|| {
            let opens = random.i64(0..=8);
            (opens, random.i64(1..=10 - opens))
        });
        let time = |minutes| self.scenario.start + SignedDuration::from_mins(minutes);
        if let Some((opens, lasts)) = window {
            // Worlds start on the hour.
            let hour = self.scenario.start.strftime("%-H").to_string();
            budget["window"] =
                json!({"start": format!("{opens} {hour} * * *"), "duration": format!("{lasts}m")});
        }
        let active = window.map(|(opens, lasts)| (time(opens), time(opens + lasts)));
        let limit = RemovalLimit { pool: pool.map(str::to_owned), most, reason, active };
        self.removal_limits.push(limit);
        budget
    }
}
