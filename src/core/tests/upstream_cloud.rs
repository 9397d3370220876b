//! A plain cloud for tests of profile ClusterAutoscaler: it does what the loops ask for and decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use headroom_core::config::{Config, Profile};
use headroom_core::history::History;
use headroom_core::known::Known;
use headroom_core::labels::ObjectKey;
use headroom_core::nodes::upstream::{
    Act, Answer, LoopStatus, ScaleDownStatus, ScaleUpStatus, act, answer, next_act,
};
use headroom_core::plan::{Outcome, Step, StepResult};
use headroom_core::testing::{
    NOW, NodeBuilder, PodBuilder, PoolBuilder, config, daemon_set, no_schedule, pod,
};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::{DELETION_TAINT, GROUP_LABEL, Node};
use headroom_core::world::provider::{GroupState, Instance, InstanceState};
use headroom_core::world::workload::DisruptionBudget;
use headroom_core::world::{Delta, World};
use headroom_core::{absorb, plan};

/// Most rounds of effects in one test; more would be a loop without end.
const ROUNDS_MAX: usize = 1000;

/// The configuration of these pools, whose unneeded nodes go in the loop that finds them.
pub fn at_once(pools: impl IntoIterator<Item = PoolBuilder>) -> Config {
    let hasty = |pool: PoolBuilder| pool.with(|pool| pool.scale_down.unneeded_for = Seconds(0));
    let mut config = config(pools.into_iter().map(hasty));
    config.profile = Profile::ClusterAutoscaler;
    config
}

/// A pod of ReplicaSet `web`.
pub fn web(name: &str) -> PodBuilder {
    pod(name).owner("ReplicaSet", "web")
}

/// So many seconds after the beginning.
pub fn second(second: i64) -> UnixTime {
    NOW.plus(Seconds(second))
}

/// World, settings and memory; seconds count from [`NOW`].
pub struct Cloud {
    pub world: World,
    pub config: Config,
    pub history: History,
    /// Pods whose eviction is refused.
    pub clinging: BTreeSet<String>,
    /// Everything that was asked for, with its second.
    pub asked: Vec<(i64, Act)>,
    /// The increases of the last loop.
    pub steps: Vec<Step>,
}

impl Cloud {
    pub fn new(world: World, config: Config) -> Self {
        Self {
            world,
            config,
            history: History::default(),
            clinging: BTreeSet::new(),
            asked: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// One loop; what is due before has been done.
    pub fn tick(&mut self, at: i64) -> LoopStatus {
        self.until(at);
        let plan = plan(&self.world, &self.history, &self.config, second(at));
        self.history = plan.next_history;
        self.steps = plan.steps;
        let status = plan.upstream.expect("a report");
        self.do_all(status.acts.clone(), at);
        status
    }

    pub fn scale_up(&mut self, at: i64) -> ScaleUpStatus {
        self.tick(at).scale_up.expect("a report")
    }

    pub fn scale_down(&mut self, at: i64) -> ScaleDownStatus {
        self.tick(at).scale_down.expect("a report")
    }

    /// Leads deletions on.
    pub fn until(&mut self, at: i64) {
        let mut rounds = 0;
        while let Some(due) = next_act(&self.history).filter(|due| *due <= second(at)) {
            assert!(rounds < ROUNDS_MAX, "deletions go on without end");
            rounds += 1;
            self.act(due.0 - NOW.0);
        }
    }

    /// Leads deletions on at one instant.
    pub fn act(&mut self, at: i64) {
        let acts = act(&self.world, &mut self.history, &self.config, second(at));
        self.do_all(acts, at);
    }

    /// Grows the groups as the last loop asked for; `(group, from, to)` in order.
    pub fn grow(&mut self, at: i64) -> Vec<(String, u32, u32)> {
        let mut grown = Vec::new();
        for step in std::mem::take(&mut self.steps) {
            let Step::Increase { pool, intent, group, from, to, .. } = step else { continue };
            self.change_group(&group, |state| state.target = to);
            let outcome = Outcome { pool, intent, result: StepResult::Increased };
            absorb(&mut self.history, &[outcome], &self.world, &self.config, second(at));
            grown.push((group.to_string(), from, to));
        }
        grown
    }

    pub fn put_node(&mut self, node: NodeBuilder) {
        self.world.apply(Delta::NodeApplied(Box::new(node.build())));
    }

    pub fn put_pod(&mut self, pod: PodBuilder) {
        self.world.apply(Delta::PodApplied(Box::new(pod.build())));
    }

    /// Adds a group to pool `general`, with its nodes of the world as instances.
    pub fn put_group(&mut self, id: &str, target: u32) {
        let of = |node: &Node| {
            (node.labels.get(GROUP_LABEL) == Some(id)).then(|| {
                let (state, node_name) = (InstanceState::Running, Some(node.name.clone()));
                (node.provider_id.clone(), Instance { state, node: node_name, created_at: None })
            })
        };
        let instances = self.world.nodes().filter_map(|(_, node, _)| of(node)).collect();
        let state = GroupState { target, max: 1000, instances, ..GroupState::default() };
        let known = self.world.provider("general").and_then(Known::value).cloned();
        let mut value = known.unwrap_or_default();
        value.groups.insert(id.into(), state);
        self.world.apply(Delta::ProviderObserved("general".into(), Known::Known { value, at: NOW }));
    }

    pub fn put_daemon_set(&mut self, name: &str) {
        self.world.apply(Delta::DaemonSetApplied(Box::new(daemon_set(name, pod(name)))));
    }

    pub fn put_budget(&mut self, budget: DisruptionBudget) {
        self.world.apply(Delta::BudgetApplied(Box::new(budget)));
    }

    /// The fewest nodes that the cloud allows a group.
    pub fn change_minimum(&mut self, group: &str, min: u32) {
        self.change_group(group, |state| state.min = min);
    }

    /// Deletes a pod of namespace `default`.
    pub fn take_pod(&mut self, name: &str) {
        self.world.apply(Delta::PodDeleted(ObjectKey::new("default", name)));
    }

    pub fn change_node(&mut self, name: &str, change: impl FnOnce(&mut Node)) {
        let mut node = self.world.node_named(name).expect("a node").1.clone();
        change(&mut node);
        self.world.apply(Delta::NodeApplied(Box::new(node)));
    }

    /// When each pod was asked to go.
    pub fn evictions(&self) -> Vec<(i64, String)> {
        let evict = |(at, act): &(i64, Act)| match act {
            Act::Evict { pod, .. } => Some((*at, pod.name.to_string())),
            _ => None,
        };
        self.asked.iter().filter_map(evict).collect()
    }

    /// When each node was deleted.
    pub fn deletions(&self) -> Vec<(i64, String)> {
        let delete = |(at, act): &(i64, Act)| match act {
            Act::Delete { node, .. } => Some((*at, node.to_string())),
            _ => None,
        };
        self.asked.iter().filter_map(delete).collect()
    }

    fn do_all(&mut self, acts: Vec<Act>, at: i64) {
        for act in acts {
            self.asked.push((at, act.clone()));
            let mut said = Answer::Done;
            match &act {
                Act::HardTaint(node) => {
                    let taint = no_schedule(DELETION_TAINT, &second(at).0.to_string());
                    self.change_node(node, |node| node.taints.push(taint));
                }
                Act::HardUntaint(node) => {
                    self.change_node(node, |node| node.taints.retain(|taint| &*taint.key != DELETION_TAINT));
                }
                Act::Cordon(node) => self.change_node(node, |node| node.unschedulable = true),
                Act::Uncordon(node) => self.change_node(node, |node| node.unschedulable = false),
                Act::SoftTaint(_) | Act::SoftUntaint(_) => {}
                Act::Evict { pod, .. } if self.clinging.contains(&*pod.name) => said = Answer::Refused,
                Act::Evict { pod, .. } => self.world.apply(Delta::PodDeleted(pod.clone())),
                Act::Delete { group, node, .. } => {
                    self.world.apply(Delta::NodeDeleted(node.clone()));
                    self.change_group(group, |state| state.target -= 1);
                }
            }
            let more = answer(&mut self.history, &self.config, &act, said, second(at));
            self.do_all(more, at);
        }
    }

    pub fn change_group(&mut self, group: &str, change: impl FnOnce(&mut GroupState)) {
        let pools: Vec<Arc<str>> = self.config.pools.iter().map(|pool| pool.name.clone()).collect();
        let owner =
            |pool: &Arc<str>| self.world.provider(pool)?.value()?.groups.contains_key(group).then_some(());
        let pool = pools.iter().find(|pool| owner(pool).is_some()).expect("a group").clone();
        let mut known = self.world.provider(&pool).expect("a provider").clone();
        if let Known::Known { value, .. } = &mut known {
            change(value.groups.get_mut(group).expect("a group"));
        }
        self.world.apply(Delta::ProviderObserved(pool, known));
    }
}
