//! A small world from a seed: pools, workloads and what people do to them. Nothing in it goes wrong.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::FaultPlan;
use crate::checker::{Checker, Goal, RemovalLimit, Scaled};
use headroom_simulator::cluster::Timings;
use headroom_simulator::scenario::{Action, Event, Scenario, Target};
use headroom_simulator::store::{Kind, ObjectKey};

/// In this time at the beginning things go wrong.
const TROUBLE: SignedDuration = SignedDuration::from_mins(4);
/// And in this time afterwards nothing does, and the goal must be reached.
const TAIL: SignedDuration = SignedDuration::from_mins(15);
/// For so long it must hold before the run ends.
const STAY: SignedDuration = SignedDuration::from_secs(90);
/// Pods of a workload that fit one node of its pool.
const PODS_PER_NODE: i64 = 4;

/// The world of a seed.
#[derive(Debug, Clone)]
pub struct World {
    /// Manifests and events.
    pub scenario: Scenario,
    /// Groups of the account: pool, name and zone.
    pub groups: Vec<(String, String, String)>,
    /// True if the account knows the synchronous launch.
    pub launches_at_once: bool,
    /// True if demand never falls: then every node bought can be counted.
    pub grows_only: bool,
    /// Nodes that each pool needs at its highest load.
    pub need: Vec<(String, usize)>,
    /// Pools each of which can serve every pod; empty where a workload is bound to its pool.
    pub alternatives: Vec<String>,
    /// Workloads that are scaled by their load.
    pub scaled: Vec<Scaled>,
    /// Numbers of shards of the workloads, each with the time after the start from which replicas are started with it.
    pub shards: Vec<(SignedDuration, usize)>,
    /// True if the operator runs HPAs.
    pub runs_hpas: bool,
    /// Times in which the controller-manager runs HPAs: the start and, unless for good, the end.
    pub hpas_run_by_others: Vec<(Timestamp, Option<Timestamp>)>,
    /// Budgets of removals that people wrote.
    pub removal_limits: Vec<RemovalLimit>,
    /// Goal that the end is compared with.
    pub goal: Goal,
    /// Time that it must hold without a write.
    pub stay: SignedDuration,
    /// Time that things go wrong.
    trouble: SignedDuration,
}

impl World {
    /// The world of `seed`.
    #[must_use]
    pub fn of(seed: u64) -> World {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x0000_f1a7_0000_0001);
        let mut world = World::empty(format!("seed {seed}"), seed, TROUBLE);
        world.launches_at_once = random.bool();
        world.grows_only = random.bool();
        for index in 0..random.usize(1..=2) {
            world.add_pool(&format!("p{index}"), &mut random);
        }
        if random.u8(0..4) == 0 {
            world.add_hostile(&mut random);
        }
        if !world.grows_only && random.u8(0..3) == 0 {
            world.edit_specs(&mut random);
        }
        world.scenario.events.sort_by_key(|event| event.after);
        world
    }

    /// A world without pools, in which things go wrong for so long.
    pub(super) fn empty(name: String, seed: u64, trouble: SignedDuration) -> World {
        World {
            scenario: Scenario {
                name,
                description: String::new(),
                start: "2026-03-02T07:00:00Z".parse().unwrap_or(Timestamp::UNIX_EPOCH),
                duration: trouble + TAIL,
                tick: SignedDuration::from_secs(1),
                seed,
                timings: Timings { node_ready: SignedDuration::from_secs(5), ..Timings::default() },
                manifests: Vec::new(),
                events: Vec::new(),
            },
            groups: Vec::new(),
            launches_at_once: false,
            grows_only: false,
            need: Vec::new(),
            alternatives: Vec::new(),
            scaled: Vec::new(),
            shards: Vec::new(),
            runs_hpas: false,
            hpas_run_by_others: Vec::new(),
            removal_limits: Vec::new(),
            goal: Goal::default(),
            stay: STAY,
            trouble,
        }
    }

    /// Returns the time at which trouble ends, counted from the start.
    #[must_use]
    pub fn calm_after(&self) -> SignedDuration {
        self.trouble
    }

    /// Length of the time of trouble, in seconds.
    #[must_use]
    pub fn trouble_seconds(&self) -> i64 {
        self.trouble.as_secs()
    }

    fn add_pool(&mut self, name: &str, random: &mut fastrand::Rng) {
        let zones = &["a", "b"][..random.usize(1..=2)];
        let on_aws = random.bool();
        let least = if random.u8(0..3) == 0 { random.i64(1..=2) } else { 0 };
        let provider = if on_aws {
            self.add_groups(name, zones)
        } else {
            let delay = if random.bool() { 0 } else { random.u32(1..20) };
            json!({"type": "KWOK", "kwok": {"zones": zones, "simulation": {"joinDelay": format!("{delay}s")}}})
        };
        let pool = node_pool(name, &provider, least, !self.grows_only, "30s");
        self.scenario.manifests.push((Kind::NodePool, pool));
        self.scenario.manifests.push((Kind::Deployment, deployment(name)));
        if random.u8(0..3) == 0 {
            self.scenario.manifests.push((Kind::PodDisruptionBudget, budget(name)));
        }
        let replicas = self.add_load(name, random);
        let nodes = replicas.max(0).unsigned_abs().div_ceil(PODS_PER_NODE.unsigned_abs());
        let need = usize::try_from(nodes.max(least.unsigned_abs())).unwrap_or(usize::MAX);
        self.need.push((name.to_owned(), need));
    }

    /// Groups of the account, one a zone, and the provider of their pool.
    pub(super) fn add_groups(&mut self, name: &str, zones: &[&str]) -> Value {
        let groups: Vec<String> = zones.iter().map(|zone| format!("{name}-{zone}")).collect();
        for (group, zone) in groups.iter().zip(zones) {
            self.groups.push((name.to_owned(), group.clone(), (*zone).to_owned()));
        }
        let named: Vec<Value> = groups.iter().map(|group| json!({"name": group})).collect();
        json!({"type": "AWS", "aws": {"region": "sim-1", "nodeGroups": named}})
    }

    fn add_load(&mut self, name: &str, random: &mut fastrand::Rng) -> i64 {
        let (mut replicas, mut at) = (0, random.i64(0..40));
        for _ in 0..random.usize(1..=3) {
            replicas += random.i64(1..=6);
            self.at(at, Action::Scale(target(name), replicas));
            at += random.i64(5..90);
        }
        if !self.grows_only {
            self.at(random.i64(120..225), Action::Scale(target(name), replicas / 4));
            if random.u8(0..3) == 0 {
                self.at(random.i64(60..225), Action::Deploy(target(name), None));
            }
        }
        replicas
    }

    /// Objects that no sane person writes, which stay to the end: the others must not notice.
    fn add_hostile(&mut self, random: &mut fastrand::Rng) {
        let pool = |name: &str, spec: Value| {
            let metadata = json!({"name": name});
            json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": metadata, "spec": spec})
        };
        let pod = |name: &str, cpu: &str| {
            let requests = json!({"cpu": cpu, "memory": "1Gi"});
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
                    "labels": {"odd": "\u{202e}\u{1f4a5}"}},
                "spec": {
                    "nodeSelector": {"odd": "nowhere"},
                    "containers": [{"name": "c", "image": "c", "resources": {"requests": requests}}],
                },
            })
        };
        let provider = json!({"type": "KWOK", "kwok": {"zones": ["a"]}});
        let all = [
            (
                Kind::NodePool,
                pool("hostile-bounds", json!({"minNodes": 9, "maxNodes": 1, "provider": provider})),
            ),
            (Kind::NodePool, pool("hostile-empty", json!({}))),
            (Kind::NodePool, pool("hostile-types", json!({"maxNodes": "many", "provider": [1, 2]}))),
            (
                Kind::NodePool,
                pool(
                    "hostile-quantities",
                    json!({"maxNodes": 3, "provider": provider,
                        "template": {"capacity": {"cpu": "1e1000", "memory": "-5Gi", "pods": "NaN"}}}),
                ),
            ),
            (Kind::Pod, pod("hostile-huge", "1e18")),
            // Quantities that are none are refused by a real API server, so no pod with one can be bound.
            (Kind::Pod, pod("hostile-tiny", "1n")),
            (Kind::Pod, pod("hostile-none", "0")),
        ];
        let first = random.usize(0..all.len());
        let count = random.usize(1..=3);
        for index in 0..count {
            let (kind, object) = all[(first + index) % all.len()].clone();
            if kind == Kind::NodePool {
                self.goal.unmanaged.push(ObjectKey::of(&object).name.to_string());
            }
            self.at(random.i64(0..200), Action::Apply(vec![(kind, object)]));
        }
        self.goal.hopeless.push("hostile-".to_owned());
    }

    /// People change their minds in the middle of things, and back again.
    fn edit_specs(&mut self, random: &mut fastrand::Rng) {
        let edit = |spec: Value| {
            let pool = json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": "p0"}, "spec": spec});
            Action::Apply(vec![(Kind::NodePool, pool)])
        };
        let least = self.scenario.manifests.first().and_then(|(_, pool)| pool["spec"]["minNodes"].as_i64());
        let (there, back) = match random.u8(0..4) {
            0 => (json!({"maxNodes": 2}), json!({"maxNodes": 12})),
            1 => (json!({"minNodes": 5}), json!({"minNodes": least})),
            2 => (json!({"mode": "Suspend"}), json!({"mode": "Apply"})),
            _ => (json!({"scaleDown": {"enabled": false}}), json!({"scaleDown": {"enabled": true}})),
        };
        let at = random.i64(20..160);
        self.at(at, edit(there));
        self.at(at + random.i64(5..70), edit(back));
    }

    pub(super) fn at(&mut self, seconds: i64, action: Action) {
        self.scenario.events.push(Event { after: SignedDuration::from_secs(seconds), action });
    }

    /// I2, I17: no more nodes are bought than the load needs, where that can be counted; what the cloud brought after all
    /// ([`Checker::came_late`]) apart.
    pub(super) fn check_purchases(&self, checker: &mut Checker, fault_plan: &FaultPlan, at: Timestamp) {
        if !self.grows_only || fault_plan.machines_fail || fault_plan.status_tampered() {
            return;
        }
        for (pool, need) in &self.need {
            let made = checker.made.get(pool).copied().unwrap_or(0);
            let late = checker.late.get(pool).copied().unwrap_or(0);
            if made < *need || *need + late < made {
                checker.violated(at, "I2", format!("pool {pool} needs {need} nodes and {made} were made"));
            }
        }
    }
}

/// A pool of nodes for four pods each; `shrinks` once they have not been needed for `unneeded_for`.
pub(super) fn node_pool(
    name: &str,
    provider: &Value,
    least: i64,
    shrinks: bool,
    unneeded_for: &str,
) -> Value {
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "provider": provider, "minNodes": least, "maxNodes": 12,
            "template": {"labels": {"pool": name}, "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
            "scaleUp": {
                "provisionTimeout": "2m", "startupTimeout": "2m",
                "backoff": {"initial": "20s", "max": "40s", "resetAfter": "10m"},
            },
            "scaleDown": {
                "enabled": shrinks, "unneededFor": unneeded_for, "unreadyFor": "1m", "delayAfterAdd": "20s",
                "delayAfterFailure": "20s",
            },
        },
    })
}

pub(super) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "nodeSelector": {"pool": name}, "terminationGracePeriodSeconds": 2,
                    "containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
                },
            },
        },
    })
}

fn budget(name: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}},
    })
}

pub(super) fn target(name: &str) -> Target {
    Target { kind: Kind::Deployment, key: ObjectKey::new("default", name) }
}
