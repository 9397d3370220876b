//! Worlds in which workloads change hands: those of `load`, with policies that are not always applied, and with a
//! controller-manager that runs HPAs too, for a while or for good.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::World;
use headroom_simulator::scenario::Action;
use headroom_simulator::store::{Kind, ObjectKey, text};

/// Everything is handed back so many seconds before trouble ends.
const BACK_BEFORE_CALM: i64 = 30;

/// A policy, and from when to when it is there, in seconds from the start.
struct Lived {
    name: String,
    from: i64,
    until: i64,
}

impl World {
    /// Workloads that change hands.
    pub(super) fn handed_over(&mut self, random: &mut fastrand::Rng) {
        let runs_hpas = random.u8(0..5) != 0;
        self.scaled_workloads(runs_hpas, random);
        let namespaces: Vec<String> = self.scaled.iter().map(|one| one.key.namespace.to_string()).collect();
        for namespace in namespaces {
            self.keep_homes(&namespace, random);
            if random.u8(0..3) != 0 {
                self.edit_modes(&namespace, random);
            }
        }
        if random.u8(0..6) != 0 {
            self.run_hpas_by_others(random);
        }
        self.scenario.events.sort_by_key(|event| event.after);
    }

    /// HPAs get a policy of a user's in some worlds: the operator's own ones are edited by nobody.
    fn keep_homes(&mut self, namespace: &str, random: &mut fastrand::Rng) {
        let home = |name: &str| {
            let metadata = json!({"name": "home", "namespace": namespace});
            let spec = json!({"target": {"type": "HPA", "hpa": {"name": name}}});
            (
                Kind::ScalingPolicy,
                json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy",
                "metadata": metadata, "spec": spec}),
            )
        };
        let hpa = |(kind, object): &(Kind, Value)| {
            let key = ObjectKey::of(object);
            (*kind == Kind::HorizontalPodAutoscaler && *key.namespace == *namespace)
                .then(|| key.name.to_string())
        };
        let known = self.policies_of(namespace);
        if let Some(name) = self.scenario.manifests.iter().find_map(hpa).filter(|_| known.is_empty()) {
            if random.u8(0..4) != 0 {
                self.scenario.manifests.push(home(&name));
            }
            return;
        }
        let later = self.scenario.events.iter().find_map(|event| match &event.action {
            // The edits of an HPA that is there from the beginning apply it too; those have a policy by now.
            Action::Apply(objects) => Some((event.after, objects.iter().find_map(hpa)?)),
            _ => None,
        });
        if let Some((after, name)) = later.filter(|(_, name)| name == "rival")
            && random.bool()
        {
            self.at(after.as_secs(), Action::Apply(vec![home(&name)]));
        }
    }

    /// The policies of a namespace that people write.
    fn policies_of(&self, namespace: &str) -> Vec<Lived> {
        let end = self.trouble_seconds() - BACK_BEFORE_CALM;
        let there = self.scenario.manifests.iter().map(|one| (0, one));
        let later = self.scenario.events.iter().flat_map(|event| {
            let objects = match &event.action {
                Action::Apply(objects) => objects.as_slice(),
                _ => &[],
            };
            objects.iter().map(|one| (event.after.as_secs(), one))
        });
        let mut found: Vec<Lived> = Vec::new();
        for (from, (kind, object)) in there.chain(later) {
            let key = ObjectKey::of(object);
            // A policy without a target is an edit of one that is there.
            let whole = text(object, &["spec", "target", "type"]).is_some();
            if *kind == Kind::ScalingPolicy && *key.namespace == *namespace && whole {
                let until = self.deleted_at(&key).unwrap_or(end).min(end);
                found.push(Lived { name: key.name.to_string(), from, until });
            }
        }
        found
    }

    fn deleted_at(&self, policy: &ObjectKey) -> Option<i64> {
        self.scenario.events.iter().find_map(|event| match &event.action {
            Action::Delete(Kind::ScalingPolicy, key) if key == policy => Some(event.after.as_secs()),
            _ => None,
        })
    }

    /// One policy is only previewed, or suspended, once or more often, and applied again each time.
    fn edit_modes(&mut self, namespace: &str, random: &mut fastrand::Rng) {
        let mut policies = self.policies_of(namespace);
        if policies.is_empty() {
            return;
        }
        let Lived { name, from, until } = policies.swap_remove(random.usize(0..policies.len()));
        let mode = |mode: &str| {
            let metadata = json!({"name": name, "namespace": namespace});
            let policy = json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy",
                "metadata": metadata, "spec": {"mode": mode}});
            Action::Apply(vec![(Kind::ScalingPolicy, policy)])
        };
        let mut at = from + if random.u8(0..3) == 0 { 0 } else { random.i64(10..240) };
        for _ in 0..random.usize(1..=3) {
            // Some come back before anybody has heard of them.
            let lasts = if random.u8(0..3) == 0 { random.i64(2..50) } else { random.i64(60..330) };
            let back = (at + lasts).min(until - 1);
            if back <= at {
                return;
            }
            self.at(at, mode(if random.bool() { "Preview" } else { "Suspend" }));
            self.at(back, mode("Apply"));
            at = back + random.i64(5..120);
        }
    }

    /// The controller-manager runs HPAs: from the start or from later on, until it ends or for good, or twice.
    fn run_hpas_by_others(&mut self, random: &mut fastrand::Rng) {
        let end = self.trouble_seconds() - BACK_BEFORE_CALM;
        let begins = random.i64(20..end - 240);
        let ends = random.i64(begins + 30..end - 60);
        let stints = match random.u8(0..6) {
            0 => vec![(0, Some(ends))],
            1 | 2 => vec![(begins, Some(ends))],
            3 => vec![(begins, None)],
            4 => vec![(0, None)],
            _ => vec![(0, Some(begins)), (ends, Some(random.i64(ends + 20..end)))],
        };
        let time = |seconds| self.scenario.start + SignedDuration::from_secs(seconds);
        self.hpas_run_by_others = stints.iter().map(|(from, until)| (time(*from), until.map(time))).collect();
        for (from, until) in stints {
            self.at(from, Action::HpaController(true));
            if let Some(until) = until {
                self.at(until, Action::HpaController(false));
            }
        }
    }
}
