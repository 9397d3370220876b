//! Follows the groups of a case step by step with the product's own memory. It compares nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::config::{ClusterSettings, Config, Mode, Pool, ScaleDown, ScaleUp};
use headroom_core::history::{Action, History, Increase as CoreIncrease, IncreasePhase, Intent, PoolHistory};
use headroom_core::known::Known;
use headroom_core::nodes::scale_up::limits;
use headroom_core::nodes::state::backoff;
use headroom_core::nodes::state::cluster_state::ClusterState;
use headroom_core::nodes::state::foreign::Members;
use headroom_core::nodes::state::health::Health;
use headroom_core::nodes::wake::Wake;
use headroom_core::plan::{Plan, Step as PlanStep};
use headroom_core::reason::Reason;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::BackoffKey;
use headroom_core::world::provider::{
    FailureClass, GroupOptions, GroupState, Instance as CoreInstance, InstanceState, LaunchFailure,
    ProviderState,
};
use headroom_core::world::{Delta, World};
use headroom_core::{config, plan};
use serde_json::{Value, json};

use super::{Input, Instance, Overrides, Step};

/// The rules that are taken back to see whether they explain a difference.
#[derive(Clone, Copy, Default)]
pub(super) struct Undone {
    /// As if a purchase changed those of its group that are open.
    pub(super) merged: bool,
    /// As if a size that somebody lowers was believed at once.
    pub(super) believed: bool,
    /// As if a launch that failed took only itself from a purchase, and reported nothing while there is none.
    pub(super) failures: bool,
}

/// Number of machines of each group that have lost their node.
pub(super) type Left = BTreeMap<String, u64>;

/// The product's view of the groups, and what it remembers.
pub(super) struct Follower {
    config: Config,
    world: World,
    history: History,
    targets: BTreeMap<String, i64>,
    instances: BTreeMap<String, BTreeMap<Arc<str>, (Instance, i64)>>,
    own: BTreeMap<String, Overrides>,
    undone: Undone,
    /// Failures that were reported while no purchase of their group was open: group, instance and instant.
    unasked: BTreeSet<(String, Arc<str>, i64)>,
}

impl Follower {
    pub(super) fn new(input: &Input, undone: Undone) -> Result<Self, String> {
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
            undone,
            unasked: BTreeSet::new(),
        })
    }

    /// Returns the inputs of decisions after each step, and how many machines of each group have lost their node.
    pub(super) fn follow(mut self, input: &Input) -> Result<Vec<(Value, Left)>, String> {
        let mut steps = Vec::new();
        for step in &input.steps {
            self.take_up(step);
            self.observe(step.at_s);
            self.register(step);
            if self.undone.failures {
                self.note_unasked(step.at_s);
                self.observe(step.at_s);
            }
            if self.undone.believed {
                self.believe_sizes();
            }
            let now = UnixTime(step.at_s);
            // The cloud takes back at once what it is asked to, and the next plan sees that it has.
            while self.plan(now) {
                self.observe(step.at_s);
            }
            steps.push((self.state(now), self.left()));
        }
        Ok(steps)
    }

    /// Plans once; true if the plan has taken something back.
    fn plan(&mut self, now: UnixTime) -> bool {
        let mut planned = plan(&self.world, &self.history, &self.config, now);
        if self.undone.failures {
            self.keep_the_rest(&mut planned, now);
        }
        self.history = planned.next_history;
        // An instance that never became a node is deleted by the loop, which is not part of this family.
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

    /// Launches that failed take only themselves from what was asked for: the rest of each purchase stays open, and no size
    /// is lowered for them.
    fn keep_the_rest(&self, planned: &mut Plan, now: UnixTime) {
        for (pool, memory) in &mut planned.next_history.pools {
            let listed = self.instances.get(&**pool).into_iter().flatten();
            let failed = listed.filter(|(_, (one, since))| one.error.is_some() && *since == now.0).count();
            let mut failed = u32::try_from(failed).unwrap_or(u32::MAX);
            let before = self.history.pools.get(pool).map(|before| before.intents.as_slice());
            for intent in before.unwrap_or_default() {
                let mut intent = intent.clone();
                let Action::Increase(increase) = &mut intent.action else { continue };
                let open = |other: &Intent| {
                    let Action::Increase(one) = &other.action else { return false };
                    other.id == intent.id && one.phase == IncreasePhase::Requested
                };
                if intent.deadline < now || !self.fails(pool) || memory.intents.iter().any(open) {
                    continue;
                }
                let lost = failed.min(increase.to - increase.from);
                failed -= lost;
                increase.to -= lost;
                memory.intents.retain(|other| other.id != intent.id);
                planned.steps.retain(
                    |step| !matches!(step, PlanStep::Cancel { intent: other, .. } if *other == intent.id),
                );
                if increase.from < increase.to {
                    memory.intents.push(intent);
                }
            }
        }
    }

    /// True if the cloud reports a failed launch of the group.
    fn fails(&self, group: &str) -> bool {
        self.instances.get(group).into_iter().flatten().any(|(_, (one, _))| one.error.is_some())
    }

    /// Purchases are worth no more than the size that the cloud wants.
    fn believe_sizes(&mut self) {
        for (pool, memory) in &mut self.history.pools {
            let target = self.targets.get(&**pool).copied().unwrap_or(0);
            let target = u32::try_from(target.max(0)).unwrap_or(u32::MAX);
            for intent in &mut memory.intents {
                if let Action::Increase(increase) = &mut intent.action {
                    increase.to = increase.to.min(target.max(increase.from));
                }
            }
        }
    }

    /// Notes the failures that are reported for the first time while no purchase of their group is open.
    fn note_unasked(&mut self, now: i64) {
        for (group, listed) in &self.instances {
            let memory = self.history.pools.get(&**group);
            if memory.is_some_and(|memory| memory.growing(group).next().is_some()) {
                continue;
            }
            let new = listed.iter().filter(|(_, (one, since))| one.error.is_some() && *since == now);
            self.unasked.extend(new.map(|(id, _)| (group.clone(), id.clone(), now)));
        }
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
                let same = before.get(&key).filter(|(earlier, _)| manner(earlier) == manner(one));
                (key, (one.clone(), same.map_or(step.at_s, |(_, since)| *since)))
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
                failures: listed()
                    .filter(|(key, (_, since))| {
                        !self.unasked.contains(&(id.clone(), Arc::clone(key), *since))
                    })
                    .filter_map(|(_, one)| failure(one))
                    .collect(),
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
            if self.undone.merged {
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

    fn left(&self) -> Left {
        let count = |group: &String| {
            let listing = self.world.listing(group)?;
            let left = listing.unseen().iter().filter(|id| listing.left(id).is_some());
            Some((group.clone(), u64::try_from(left.count()).unwrap_or(u64::MAX)))
        };
        self.own.keys().filter_map(count).collect()
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

/// Changes open purchases as another purchase does in the reference: it moves their time, or takes back from them.
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

/// Returns the class in which an instance is listed: 0 if it is coming or there, 1 if it is going, 2 if it failed.
///
/// Vectors contain no time of creation: an instance is as old as the time for which it has been listed in one manner.
fn manner(one: &Instance) -> u8 {
    if one.error.is_some() { 2 } else { u8::from(one.state.as_deref() == Some("deleting")) }
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
        devices: None,
        attach_limits: None,
        startup_taints: Vec::new(),
        price_per_hour_micro: None,
        priority: 0,
        group_scaling: config::GroupScaling::default(),
        scale_up,
        scale_down: ScaleDown { enabled: false, ..ScaleDown::default() },
        schedules: Vec::new(),
    }
}
