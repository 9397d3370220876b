//! The family that follows groups over time: targets, nodes and instances in, counts, health and back-off out.
//!
//! The product keeps its requests as intents: what the vectors register becomes one, and the plan settles it.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::config::{ClusterSettings, Config, Mode, Pool, ScaleDown, ScaleUp};
use headroom_core::history::{
    Action, BackoffKey, History, Increase as CoreIncrease, IncreasePhase, Intent, PoolHistory,
};
use headroom_core::known::Known;
use headroom_core::nodes::scale_up::limits;
use headroom_core::nodes::state::backoff;
use headroom_core::nodes::state::cluster_state::ClusterState;
use headroom_core::nodes::state::foreign::Members;
use headroom_core::nodes::state::health::Health;
use headroom_core::nodes::wake::Wake;
use headroom_core::plan::Step as PlanStep;
use headroom_core::reason::Reason;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::{
    FailureClass, GroupOptions, GroupState, Instance as CoreInstance, InstanceState, LaunchFailure,
    ProviderState,
};
use headroom_core::world::{Delta, World};
use headroom_core::{config, plan};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::{Group, Node};
use crate::outcome::{Outcome, Rule};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    groups: Vec<Group>,
    max_total_unready_percentage: u32,
    ok_total_unready_count: u32,
    max_node_provision_s: i64,
    max_node_startup_s: i64,
    backoff_initial_max_reset_s: (i64, i64, i64),
    steps: Vec<Step>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Step {
    at_s: i64,
    targets: Option<BTreeMap<String, i64>>,
    nodes: Option<Vec<Node>>,
    keep_nodes: bool,
    instances: Option<BTreeMap<String, Option<Vec<Instance>>>>,
    register_scale_up: Option<Vec<Increase>>,
    register_scale_down: Option<Vec<Removal>>,
    register_failed_scale_up: Option<Vec<Failure>>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Instance {
    id: String,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Increase {
    group: String,
    delta: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // The product knows its removals by their intents.
struct Removal {
    group: String,
    node: String,
    expected_delete_s: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    group: String,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Overrides {
    max_node_provision_s: Option<i64>,
    max_node_startup_s: Option<i64>,
}

struct Follower {
    config: Config,
    world: World,
    history: History,
    targets: BTreeMap<String, i64>,
    instances: BTreeMap<String, BTreeMap<Arc<str>, (Instance, i64)>>,
    own: BTreeMap<String, Overrides>,
    merged: bool,
}

/// Follows the steps and compares what the product decides by.
pub fn compare(input: &Value, out: &Value) -> Outcome {
    let input = match Input::deserialize(input) {
        Ok(input) => input,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let own = compared(&input, out, false);
    match own {
        Outcome::Failed(_) if !matches!(compared(&input, out, true), Outcome::Failed(_)) => {
            Outcome::Different(Rule::PurchasesApart)
        }
        own => own,
    }
}

/// Compares each step. `merged`: as if a purchase changed those of its group that are open, as in the reference.
fn compared(input: &Input, out: &Value, merged: bool) -> Outcome {
    let steps = match Follower::new(input, merged).and_then(|follower| follower.follow(input)) {
        Ok(steps) => steps,
        Err(error) => return Outcome::Failed(error),
    };
    let mut outcome = Outcome::Same;
    for (number, ours) in steps.iter().enumerate() {
        let step = &out["steps"][number];
        let expected = reduced(step, theirs);
        if *ours == expected {
            continue;
        }
        if *ours == reduced(step, |group| with_instances(group, input)) {
            outcome = Outcome::Different(Rule::YoungInstances);
            continue;
        }
        return Outcome::Failed(format!("step {number}: expected {expected}\n       got {ours}"));
    }
    outcome
}

/// What of a step decides: what the product has numbers for.
fn reduced(step: &Value, of_group: impl Fn(&Value) -> Value) -> Value {
    let groups = step["groups"].as_object().into_iter().flatten();
    let groups = groups.map(|(id, group)| (id.clone(), of_group(group)));
    json!({"cluster_healthy": step["cluster_healthy"], "groups": groups.collect::<serde_json::Map<_, _>>()})
}

fn readiness(group: &Value, key: &str) -> u64 {
    group["readiness"][key].as_u64().unwrap_or(0)
}

/// A group as the reference has it.
fn theirs(group: &Value) -> Value {
    json!({
        "safe": group["safe_to_scale_up"],
        "backed_off": group["backed_off"],
        "upcoming": group["upcoming"],
        "ready": readiness(group, "ready"),
        "unready": readiness(group, "unready"),
        "long_unregistered": readiness(group, "long_unregistered"),
    })
}

/// The same where instances and nodes that are still young are on their way, whoever asked for them, and not missing.
fn with_instances(group: &Value, input: &Input) -> Value {
    let mut value = theirs(group);
    let young = readiness(group, "unregistered") + readiness(group, "not_started");
    if young == 0 {
        return value;
    }
    value["upcoming"] = json!(group["upcoming"].as_u64().unwrap_or(0).max(young));
    let there = ["ready", "suspended", "not_started", "deleted", "unregistered"];
    let there: u64 = there.into_iter().map(|key| readiness(group, key)).sum();
    let wanted = group["acceptable_min"].as_i64().and_then(|wanted| u64::try_from(wanted).ok()).unwrap_or(0);
    let missing = wanted.saturating_sub(there);
    let many = u64::from(input.ok_total_unready_count) < missing
        && readiness(group, "registered") * u64::from(input.max_total_unready_percentage) < missing * 100;
    value["safe"] = json!(!many && group["backed_off"] == json!(false));
    value
}

impl Follower {
    fn new(input: &Input, merged: bool) -> Result<Self, String> {
        let (initial, max, reset) = input.backoff_initial_max_reset_s;
        let mut pools = Vec::new();
        let mut own = BTreeMap::new();
        for group in &input.groups {
            let given: Option<Overrides> =
                serde_json::from_value(group.options.clone()).map_err(|error| error.to_string())?;
            let given = given.unwrap_or_default();
            let settings = ScaleUp {
                enabled: true,
                provision_timeout: Seconds(given.max_node_provision_s.unwrap_or(input.max_node_provision_s)),
                startup_timeout: Seconds(given.max_node_startup_s.unwrap_or(input.max_node_startup_s)),
                backoff_initial: Seconds(initial),
                backoff_max: Seconds(max),
                backoff_reset_after: Seconds(reset),
            };
            own.insert(group.id.clone(), given);
            pools.push(pool(&group.id, settings));
        }
        pools.sort_by(|a: &Pool, b| a.name.cmp(&b.name));
        let cluster = ClusterSettings {
            max_unready_percent: input.max_total_unready_percentage,
            ok_unready_count: input.ok_total_unready_count,
            anticipation: false,
            ..ClusterSettings::default()
        };
        Ok(Self {
            config: Config { epoch: 1, pools, cluster },
            world: World::new(),
            history: History::default(),
            targets: input.groups.iter().map(|group| (group.id.clone(), group.target)).collect(),
            instances: BTreeMap::new(),
            own,
            merged,
        })
    }

    fn follow(mut self, input: &Input) -> Result<Vec<Value>, String> {
        let mut steps = Vec::new();
        for step in &input.steps {
            self.take_up(step);
            self.observe(step.at_s);
            self.register(step);
            let now = UnixTime(step.at_s);
            // The cloud takes back at once what it is asked to, and the next plan sees that it has.
            while self.plan(now) {
                self.observe(step.at_s);
            }
            steps.push(self.state(now));
        }
        Ok(steps)
    }

    /// Plans once; true if the plan has taken something back.
    fn plan(&mut self, now: UnixTime) -> bool {
        let planned = plan(&self.world, &self.history, &self.config, now);
        self.history = planned.next_history;
        // What never became a node is deleted by the loop, which is no part of this family.
        for memory in self.history.pools.values_mut() {
            memory.intents.retain(|intent| matches!(intent.action, Action::Increase(_)));
        }
        let mut lowered = false;
        for step in &planned.steps {
            if let PlanStep::Cancel { group, from, .. } = step
                && let Some(target) = self.targets.get_mut(&**group)
            {
                let live = self.instances.get(&**group).map_or(0, BTreeMap::len);
                let kept = (*target).min(i64::from(*from).max(i64::try_from(live).unwrap_or(0)));
                lowered |= kept < *target;
                *target = kept;
            }
        }
        lowered
    }

    fn take_up(&mut self, step: &Step) {
        for (id, target) in step.targets.iter().flatten() {
            self.targets.insert(id.clone(), *target);
        }
        if !step.keep_nodes {
            let names: Vec<Arc<str>> = self.world.nodes().map(|(_, node, _)| node.name.clone()).collect();
            names.into_iter().for_each(|name| self.world.apply(Delta::NodeDeleted(name)));
            for node in step.nodes.iter().flatten() {
                self.world.apply(Delta::NodeApplied(Box::new(node.to_core())));
            }
        }
        for (id, instances) in step.instances.iter().flatten() {
            let before = self.instances.remove(id).unwrap_or_default();
            let now = instances.iter().flatten().map(|one| {
                let key: Arc<str> = one.id.as_str().into();
                let since = before.get(&key).map_or(step.at_s, |(_, since)| *since);
                (key, (one.clone(), since))
            });
            self.instances.insert(id.clone(), now.collect());
        }
    }

    fn observe(&mut self, now: i64) {
        for (id, own) in &self.own {
            let listed = || self.instances.get(id).into_iter().flatten();
            let failure = |(one, since): &(Instance, i64)| {
                let class = class_of(one.error.as_deref()?);
                let key = BackoffKey { group: id.as_str().into(), ..BackoffKey::default() };
                Some(LaunchFailure { key, class, message: "".into(), at: UnixTime(*since) })
            };
            let number = |value: i64| u32::try_from(value.max(0)).unwrap_or(u32::MAX);
            let state = GroupState {
                target: number(self.targets.get(id).copied().unwrap_or(0)),
                max: 1_000_000,
                // What failed to launch is reported as a failure, and is not an instance.
                instances: listed()
                    .filter(|(_, (one, _))| one.error.is_none())
                    .map(|(key, (one, since))| (key.clone(), instance(one, *since)))
                    .collect(),
                failures: listed().filter_map(|(_, one)| failure(one)).collect(),
                options: Some(Arc::new(GroupOptions {
                    provision_timeout: own.max_node_provision_s.map(Seconds),
                    ..GroupOptions::default()
                })),
                ..GroupState::default()
            };
            let groups = BTreeMap::from([(Arc::from(id.as_str()), state)]);
            let value = ProviderState { groups, ..ProviderState::default() };
            let known = Known::Known { value, at: UnixTime(now) };
            self.world.apply(Delta::ProviderObserved(id.as_str().into(), known));
        }
    }

    fn register(&mut self, step: &Step) {
        let now = UnixTime(step.at_s);
        for asked in step.register_scale_up.iter().flatten() {
            let Some(pool) = self.config.pool(&asked.group) else { continue };
            let timeout = pool.scale_up.provision_timeout;
            let target = self.targets.get(&asked.group).copied().unwrap_or(0);
            let number = |value: i64| u32::try_from(value.max(0)).unwrap_or(u32::MAX);
            let memory = self.history.pools.entry(pool.name.clone()).or_default();
            if self.merged {
                merge(memory, asked.delta, now.plus(timeout));
            }
            // The product knows no purchase of fewer nodes than none.
            if asked.delta <= 0 {
                continue;
            }
            let increase = CoreIncrease {
                group: pool.name.clone(),
                from: number(target - asked.delta),
                to: number(target),
                phase: IncreasePhase::Requested,
                accepted_at: Some(now),
            };
            let id = memory.next_intent_id(1);
            memory.intents.push(Intent {
                id,
                epoch: 1,
                action: Action::Increase(increase),
                reason: Reason::PodsUnschedulable,
                started_at: now,
                deadline: now.plus(timeout),
            });
        }
        for failed in step.register_failed_scale_up.iter().flatten() {
            let Some(pool) = self.config.pool(&failed.group) else { continue };
            let settings = pool.scale_up;
            let key = BackoffKey { group: pool.name.clone(), ..BackoffKey::default() };
            let memory = self.history.pools.entry(pool.name.clone()).or_default();
            backoff::register(memory, key, class_of(&failed.error), "", now, &settings);
        }
    }

    fn state(&self, now: UnixTime) -> Value {
        let state = ClusterState::new(&self.world, &self.history, &self.config, now, &mut Wake::new(now));
        let members = Members::of(&self.world, &self.config);
        let health = Health::of(&self.world, &self.config, &members, now);
        let groups = state.pools.iter().map(|(name, pool)| {
            let group = pool.groups.get(name);
            let barred = group.and_then(|group| limits::group_barrier(name, group)).is_some();
            let safe = limits::pool_barrier(pool, self.history.pools.get(name)).is_none() && !barred;
            let value = json!({
                "safe": safe,
                "backed_off": group.is_some_and(|group| group.backed_off_until.is_some()),
                "upcoming": group.map_or(0, |group| group.upcoming + group.not_started),
                "ready": group.map_or(0, |group| group.ready),
                "unready": group.map_or(0, |group| group.unready),
                "long_unregistered": group.map_or(0, |group| group.long_unregistered.len()),
            });
            (name.to_string(), value)
        });
        let groups: serde_json::Map<String, Value> = groups.collect();
        json!({"cluster_healthy": !health.cluster_unhealthy(), "groups": groups})
    }
}

/// What another purchase does to those that are open in the reference: it moves their time, or takes back from them.
fn merge(memory: &mut PoolHistory, delta: i64, deadline: UnixTime) {
    let mut less = u32::try_from(-delta).unwrap_or(0);
    for intent in &mut memory.intents {
        let Action::Increase(increase) = &mut intent.action else { continue };
        if 0 < delta {
            intent.deadline = deadline;
        }
        let taken = less.min(increase.to - increase.from);
        increase.to -= taken;
        less -= taken;
    }
    memory.intents.retain(|intent| !matches!(&intent.action, Action::Increase(one) if one.to <= one.from));
}

fn class_of(word: &str) -> FailureClass {
    if word == "quota" { FailureClass::QuotaExceeded } else { FailureClass::Other }
}

fn instance(one: &Instance, since: i64) -> CoreInstance {
    let state = match one.state.as_deref() {
        Some("creating") => InstanceState::Creating,
        Some("deleting") => InstanceState::Deleting,
        _ => InstanceState::Running,
    };
    CoreInstance { state, node: None, created_at: Some(UnixTime(since)) }
}

fn pool(id: &str, scale_up: ScaleUp) -> Pool {
    Pool {
        name: id.into(),
        uid: id.into(),
        created_at: UnixTime(0),
        deleting: false,
        mode: Mode::Apply,
        min_nodes: 0,
        max_nodes: u32::MAX,
        limit_cpu_milli: None,
        limit_memory_bytes: None,
        template: None,
        startup_taints: Vec::new(),
        price_per_hour_micro: None,
        priority: 0,
        group_scaling: config::GroupScaling::default(),
        scale_up,
        scale_down: ScaleDown { enabled: false, ..ScaleDown::default() },
        schedules: Vec::new(),
    }
}
