//! Random histories of ticks in a small closed world: what must hold at every tick of scale-down, whatever happens.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::config::{Budget, Ceiling, Config, Mode};
use headroom_core::history::{History, RemovalPhase};
use headroom_core::known::Known;
use headroom_core::labels::ObjectKey;
use headroom_core::mixing::mixed;
use headroom_core::nodes::removal::{DELETE_TIMEOUT, holds_node};
use headroom_core::nodes::state::bounds::bounds;
use headroom_core::nodes::state::foreign::marked_by;
use headroom_core::nodes::wake::Wake;
use headroom_core::plan::{Outcome, Step, StepResult};
use headroom_core::reason::Reason;
use headroom_core::scheduling::{PodRef, Snapshot};
use headroom_core::testing::{NOW, budget, config, controller, no_schedule, node, pod, pool, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::{DELETION_TAINT, INTENT_ANNOTATION, Node, Readiness};
use headroom_core::world::pod::Pod;
use headroom_core::world::provider::{Instance, InstanceState};
use headroom_core::world::view::{Freshness, View};
use headroom_core::world::workload::ControllerKind;
use headroom_core::world::{Delta, World};
use headroom_core::{absorb, plan};
use proptest::prelude::*;

const TICK: i64 = 5;

/// A generator of its own, so that a seed means the same history for ever.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0) % bound
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// Loss of the process at a tick.
#[derive(Clone, Copy, PartialEq)]
enum Crash {
    /// Nothing.
    No,
    /// The process dies after the journal and before the first step.
    BeforeSteps,
    /// The process dies after the steps, and their outcomes are never heard of.
    BeforeOutcomes,
}

/// A cluster whose other controllers are simple and obedient.
struct Cluster {
    world: World,
    freshness: Freshness,
    history: History,
    config: Config,
    now: UnixTime,
    chance: Chance,
    /// By name of the budget (and label value) the fewest pods that must run.
    min_available: BTreeMap<String, usize>,
    /// Instances that the provider deletes at an instant.
    dying: BTreeMap<Arc<str>, UnixTime>,
    pods_made: u64,
    evictions: u64,
    deletions: u64,
    /// True if pods go to the emptiest node, as the default scheduler likes it, or to the first.
    spreads: bool,
}

impl Cluster {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let config = config([pool("a").with(|pool| {
            pool.scale_down.unneeded_for = Seconds(20);
            pool.scale_down.unready_for = Seconds(60);
            pool.scale_down.delay_after_add = Seconds(0);
            pool.scale_down.delay_after_failure = Seconds(30);
            pool.scale_down.drain.eviction_timeout = Seconds(60);
        })]);
        let nodes = 6 + chance.below(10);
        let mut builder = world();
        for index in 0..nodes {
            builder = builder.node(node(&format!("n{index:02}")).of("a", "a-1").zone("z1"));
        }
        for app in ["web", "api", "db"] {
            builder = builder
                .controller(controller(ControllerKind::ReplicaSet, app, 20, pod("x")))
                .budget(budget(app, "app", app, 0));
        }
        let target = u32::try_from(nodes).expect("few nodes");
        let mut cluster = Self {
            world: builder.group("a", "a-1", "z1", target).build(),
            freshness: Freshness::default(),
            history: History::default(),
            config,
            now: NOW,
            chance,
            min_available: BTreeMap::new(),
            dying: BTreeMap::new(),
            pods_made: 0,
            evictions: 0,
            deletions: 0,
            spreads: false,
        };
        for app in ["web", "api", "db"] {
            let count = 1 + cluster.chance.below(12);
            (0..count).for_each(|_| cluster.make_pod(app));
            let min = usize::try_from(cluster.chance.below(count)).expect("small");
            cluster.min_available.insert(app.into(), min);
        }
        cluster.physics();
        cluster
    }

    /// A pod like the one that was evicted.
    fn make_again(&mut self, pod: &Pod) {
        self.pods_made += 1;
        let name = format!("{}-again-{}", pod.class.labels.get("app").unwrap_or(""), self.pods_made);
        let key = ObjectKey::new(pod.key.namespace.clone(), name);
        let made = Pod {
            uid: format!("uid-{}", key.name).into(),
            key,
            class: pod.class.clone(),
            owner: pod.owner.clone(),
            unschedulable: true,
            created_at: self.now,
            ..Pod::default()
        };
        self.world.apply(Delta::PodApplied(Box::new(made)));
    }

    fn make_pod(&mut self, app: &str) {
        self.pods_made += 1;
        let name = format!("{app}-{}", self.pods_made);
        let milli = format!("{}m", 200 + 100 * self.chance.below(12));
        let made = pod(&name).cpu(&milli).label("app", app).owner("ReplicaSet", app).build();
        self.world.apply(Delta::PodApplied(Box::new(made)));
    }

    fn pods(&self) -> Vec<Pod> {
        let mut keys: Vec<Pod> = Vec::new();
        for (_, _, entry) in self.world.nodes() {
            keys.extend(entry.pods.iter().map(|id| self.world.pod(*id).pod.clone()));
        }
        keys.sort_by(|a, b| a.key.cmp(&b.key));
        keys
    }

    fn node(&self, name: &str) -> Option<Node> {
        self.world.node_named(name).map(|(_, node, _)| node.clone())
    }

    fn put(&mut self, node: Node) {
        self.world.apply(Delta::NodeApplied(Box::new(node)));
    }

    fn healthy(&self, app: &str) -> usize {
        let runs = |pod: &Pod| pod.class.labels.get("app") == Some(app) && pod.deletion_at.is_none();
        self.pods().iter().filter(|pod| runs(pod)).count()
    }

    /// One tick of the operator: plan, journal, effects, outcomes.
    fn tick(&mut self, crash: Crash, arrival: bool) {
        let before: Vec<_> = self.history.pools.values().flat_map(|memory| memory.intents.clone()).collect();
        let planned = plan(View::new(&self.world, &self.freshness), &self.history, &self.config, self.now);
        self.history = planned.next_history;
        let steps = planned.steps;
        self.check_bounds(before.iter().map(|intent| intent.id.clone()).collect(), &steps);
        if crash == Crash::BeforeSteps {
            return;
        }
        if arrival {
            self.arrive();
        }
        for step in steps {
            for outcome in self.effect(&step) {
                let lost = crash == Crash::BeforeOutcomes;
                if !lost {
                    absorb(&mut self.history, &[outcome], &self.config, self.now);
                }
            }
        }
    }

    /// A pod is bound by hand to a node that is leaving.
    fn arrive(&mut self) {
        let marked: Vec<Arc<str>> = self
            .world
            .nodes()
            .filter(|(_, node, _)| marked_by(node).is_some())
            .map(|(_, node, _)| node.name.clone())
            .collect();
        if let Some(name) = marked.first() {
            self.pods_made += 1;
            let made = pod(&format!("web-{}", self.pods_made)).cpu("100m").label("app", "web");
            let made = made.owner("ReplicaSet", "web").on(name).build();
            self.world.apply(Delta::PodApplied(Box::new(made)));
        }
    }

    fn check_bounds(&self, known: Vec<Arc<str>>, steps: &[Step]) {
        let memory = &self.history.pools["a"];
        let opened = memory.removals().any(|(intent, _)| !known.contains(&intent.id));
        let leaving: usize = memory.removals().map(|(_, removal)| removal.victims.len()).sum();
        let drains = memory.removals().filter(|(intent, removal)| {
            intent.reason != Reason::Empty && removal.phase < RemovalPhase::Deleting
        });
        let draining: usize = drains.map(|(_, removal)| removal.victims.len()).sum();
        let cluster = &self.config.cluster;
        let pool = &self.config.pools[0];
        if opened {
            assert!(leaving <= cluster.max_removals as usize, "{leaving} leave");
            assert!(draining <= cluster.max_drains as usize, "{draining} drain");
            assert!(!cluster.voluntary_disruption_stopped && pool.mode == Mode::Apply);
            for budget in &pool.scale_down.budgets {
                if let Ceiling::Nodes(nodes) = budget.ceiling {
                    assert!(leaving <= nodes as usize, "{leaving} leave under {nodes}");
                }
            }
        }
        let min = bounds(pool, self.now, &mut Wake::new(self.now)).min;
        let registered = self.world.nodes().count();
        for step in steps {
            let Step::Delete { intent, victims, force, .. } = step else { continue };
            let open = memory.intent(intent).expect("a deletion has an intent");
            let deleting: usize = memory
                .removals()
                .filter(|(_, removal)| removal.phase == RemovalPhase::Deleting)
                .flat_map(|(_, removal)| &removal.victims)
                .filter(|victim| self.node(&victim.node).is_some())
                .count();
            if open.deadline == self.now.plus(DELETE_TIMEOUT) {
                assert!(registered - deleting >= min as usize, "{registered} - {deleting} under {min}");
            }
            for victim in victims {
                let Some((_, node, entry)) = self.world.node_named(&victim.node) else { continue };
                let held = entry.pods.iter().find(|id| holds_node(&self.world.pod(**id).pod, self.now));
                let planned_first = open.deadline == self.now.plus(DELETE_TIMEOUT);
                assert!(held.is_none() || *force || !planned_first, "a pod runs on {}", victim.node);
                assert_eq!(marked_by(node), Some(&**intent));
            }
        }
    }

    fn effect(&mut self, step: &Step) -> Vec<Outcome> {
        let answer = |pool: &Arc<str>, intent: &Arc<str>, result| Outcome {
            pool: pool.clone(),
            intent: intent.clone(),
            result,
        };
        match step {
            Step::Increase { pool, intent, group, to, .. } => {
                self.grow(group, intent, *to);
                vec![answer(pool, intent, StepResult::Increased)]
            }
            // Seldom, when an instance went between two looks while more were asked for: what is missing is wished no more.
            Step::Cancel { pool, intent, group, .. } => {
                let mut state = self.provider();
                let found = state.groups.get_mut(group).expect("the only group");
                found.target = found.target.min(u32::try_from(found.instances.len()).expect("few"));
                self.observe(state);
                vec![answer(pool, intent, StepResult::Increased)]
            }
            Step::Mark { pool, intent, nodes } => {
                for name in nodes {
                    let Some(mut node) = self.node(name) else { continue };
                    node.taints.retain(|taint| &*taint.key != DELETION_TAINT);
                    node.taints.push(no_schedule(DELETION_TAINT, ""));
                    node.annotations.insert(INTENT_ANNOTATION, intent.clone());
                    node.unschedulable = true;
                    self.put(node);
                }
                vec![answer(pool, intent, StepResult::Marked)]
            }
            Step::Unmark { pool, intent, node } => {
                if let Some(mut found) = self.node(node) {
                    found.taints.retain(|taint| &*taint.key != DELETION_TAINT);
                    found.annotations.remove(INTENT_ANNOTATION);
                    found.unschedulable = false;
                    self.put(found);
                }
                let result = StepResult::Unmarked { node: node.clone() };
                match (pool, intent) {
                    (Some(pool), Some(intent)) => vec![answer(pool, intent, result)],
                    _ => Vec::new(),
                }
            }
            Step::Evict { pool, intent, node, pods, .. } => {
                let mut refused = Vec::new();
                for eviction in pods {
                    if !self.evict(&eviction.pod, eviction.grace) {
                        refused.push((eviction.pod.clone(), true, Arc::from("disruption budget")));
                    }
                }
                vec![answer(
                    pool,
                    intent,
                    StepResult::Evicted { node: node.clone(), refused, accepted: Vec::new() },
                )]
            }
            Step::Delete { pool, intent, victims, force, .. } => {
                let mut outcomes = Vec::new();
                for victim in victims {
                    let result = self.delete(&victim.node, &victim.id, *force);
                    outcomes.push(answer(pool, intent, result));
                }
                outcomes
            }
        }
    }

    /// The eviction API: a budget's pods never fall under its minimum.
    fn evict(&mut self, key: &ObjectKey, grace: Seconds) -> bool {
        let Some(id) = self.world.pod_id(key) else { return true };
        let mut pod = self.world.pod(id).pod.clone();
        let app = pod.class.labels.get("app").unwrap_or("").to_owned();
        let min = self.min_available.get(&app).copied().unwrap_or(0);
        if pod.deletion_at.is_some() {
            return true;
        }
        if self.healthy(&app) <= min {
            return false;
        }
        pod.deletion_at = Some(self.now.plus(grace));
        self.make_again(&pod);
        self.world.apply(Delta::PodApplied(Box::new(pod)));
        self.evictions += 1;
        true
    }

    /// The provider, behind a live look at the node.
    fn delete(&mut self, name: &Arc<str>, id: &Arc<str>, force: bool) -> StepResult {
        if let Some((_, _, entry)) = self.world.node_named(name) {
            let pods = entry.pods.iter().map(|id| &self.world.pod(*id).pod);
            let held = pods.filter(|pod| holds_node(pod, self.now)).map(|pod| pod.key.clone()).min();
            if let (false, Some(pod)) = (force, held) {
                return StepResult::NotEmpty { node: name.clone(), pod };
            }
        }
        if self.dying.contains_key(name) {
            return StepResult::Deleted;
        }
        if !self.spreads && self.chance.one_in(10) {
            return StepResult::DeleteFailed { node: name.clone(), message: "no".into() };
        }
        let mut state = self.provider();
        let group = state.groups.get_mut("a-1").expect("the only group");
        if let Some(instance) = group.instances.get_mut(id) {
            instance.state = InstanceState::Deleting;
            group.target -= 1;
        }
        self.observe(state);
        let delay = i64::try_from(self.chance.below(20)).expect("small");
        self.dying.insert(name.clone(), self.now.plus(Seconds(delay)));
        self.deletions += 1;
        StepResult::Deleted
    }

    /// The provider makes the nodes of an increase; a repeated request makes none twice.
    fn grow(&mut self, group: &Arc<str>, intent: &Arc<str>, to: u32) {
        let mut state = self.provider();
        let found = state.groups.get_mut(group).expect("the only group");
        let names = (0..).map(|index| format!("grown-{intent}-{index}")).zip(found.target..to);
        for name in names.map(|(name, _)| name) {
            let made = node(&name).of("a", "a-1").zone("z1").with(|node| {
                node.created_at = self.now;
                node.ready_changed_at = self.now;
            });
            let made = made.build();
            let instance = Instance {
                state: InstanceState::Running,
                node: Some(made.name.clone()),
                created_at: Some(self.now),
            };
            found.instances.insert(made.provider_id.clone(), instance);
            self.world.apply(Delta::NodeApplied(Box::new(made)));
        }
        found.target = found.target.max(to);
        self.observe(state);
    }

    fn provider(&self) -> headroom_core::world::provider::ProviderState {
        self.world.provider("a").and_then(Known::value).expect("known").clone()
    }

    fn observe(&mut self, state: headroom_core::world::provider::ProviderState) {
        self.world.apply(Delta::ProviderObserved("a".into(), Known::Known { value: state, at: self.now }));
    }

    /// Everything that is not the operator: kubelets, scheduler, provider, disruption controller.
    fn physics(&mut self) {
        for pod in self.pods() {
            let ready = pod.node.as_ref().and_then(|name| self.node(name)).map(|node| node.ready);
            if ready == Some(Readiness::Ready) && pod.deletion_at.is_some_and(|at| at <= self.now) {
                self.world.apply(Delta::PodDeleted(pod.key));
            }
        }
        let now = self.now;
        let gone: Vec<Arc<str>> =
            self.dying.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.dying.remove(&name);
            let Some((_, node, entry)) = self.world.node_named(&name) else { continue };
            let id = node.provider_id.clone();
            let keys: Vec<ObjectKey> =
                entry.pods.iter().map(|id| self.world.pod(*id).pod.key.clone()).collect();
            keys.into_iter().for_each(|key| self.world.apply(Delta::PodDeleted(key)));
            self.world.apply(Delta::NodeDeleted(name));
            let mut state = self.provider();
            state.groups.get_mut("a-1").expect("the only group").instances.remove(&id);
            self.observe(state);
        }
        self.schedule();
        let apps: Vec<(String, usize)> =
            self.min_available.iter().map(|(app, min)| (app.clone(), *min)).collect();
        for (app, min) in apps {
            let allowed = u32::try_from(self.healthy(&app).saturating_sub(min)).expect("small");
            self.world.apply(Delta::BudgetApplied(Box::new(budget(&app, "app", &app, allowed))));
        }
        let state = self.provider();
        self.observe(state);
    }

    fn schedule(&mut self) {
        if self.spreads {
            return self.schedule_spreading();
        }
        let mut bound = Vec::new();
        {
            let mut snapshot = Snapshot::new(&self.world);
            let nodes: Vec<_> = snapshot.nodes().map(|(ix, view)| (ix, view.name().clone())).collect();
            for (id, entry) in self.world.unbound() {
                let class = snapshot.class_of(PodRef::Real(id));
                if let Some((ix, name)) = nodes.iter().find(|(ix, _)| snapshot.fits(class, *ix)) {
                    snapshot.place(PodRef::Real(id), *ix);
                    bound.push((entry.pod.clone(), name.clone()));
                }
            }
        }
        for (mut pod, name) in bound {
            pod.node = Some(name);
            pod.phase = headroom_core::world::pod::PodPhase::Running;
            self.world.apply(Delta::PodApplied(Box::new(pod)));
        }
    }

    /// The default scheduler's taste: the node with the smallest part of its cpu asked for.
    fn schedule_spreading(&mut self) {
        let mut bound = Vec::new();
        {
            let mut snapshot = Snapshot::new(&self.world);
            let nodes: Vec<_> = snapshot.nodes().map(|(ix, view)| (ix, view.name().clone())).collect();
            for (id, entry) in self.world.unbound() {
                let class = snapshot.class_of(PodRef::Real(id));
                let fitting: Vec<_> = nodes.iter().filter(|(ix, _)| snapshot.fits(class, *ix)).collect();
                let found =
                    fitting.into_iter().min_by_key(|(ix, _)| snapshot.node(*ix).requested().cpu_milli);
                if let Some((ix, name)) = found {
                    snapshot.place(PodRef::Real(id), *ix);
                    bound.push((entry.pod.clone(), name.clone()));
                }
            }
        }
        for (mut pod, name) in bound {
            pod.node = Some(name);
            pod.phase = headroom_core::world::pod::PodPhase::Running;
            self.world.apply(Delta::PodApplied(Box::new(pod)));
        }
    }

    /// Something happens from outside.
    fn disturb(&mut self) {
        match self.chance.below(12) {
            0 => self.make_pod("web"),
            1 | 2 => {
                let pods = self.pods();
                let index = usize::try_from(self.chance.below(1 + pods.len() as u64)).expect("small");
                if let Some(pod) = pods.get(index) {
                    self.world.apply(Delta::PodDeleted(pod.key.clone()));
                }
            }
            3 => self.config.pools[0].min_nodes = u32::try_from(self.chance.below(6)).expect("small"),
            4 => self.config.cluster.voluntary_disruption_stopped = self.chance.one_in(3),
            5 => self.config.pools[0].mode = if self.chance.one_in(3) { Mode::Suspend } else { Mode::Apply },
            6 => self.config.cluster.max_drains = 1 + u32::try_from(self.chance.below(4)).expect("small"),
            7 => {
                let nodes = u32::try_from(self.chance.below(5)).expect("small");
                let budget = Budget {
                    name: "b".into(),
                    ceiling: Ceiling::Nodes(nodes),
                    reasons: vec![],
                    window: None,
                };
                self.config.pools[0].scale_down.budgets =
                    if self.chance.one_in(2) { vec![budget] } else { vec![] };
            }
            8 => self.flip(|node, now| {
                node.ready =
                    if node.ready == Readiness::Ready { Readiness::Unknown } else { Readiness::Ready };
                node.ready_changed_at = now;
            }),
            9 => self.flip(|node, _| {
                let key = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
                if node.annotations.get(key).is_some() {
                    node.annotations.remove(key);
                } else {
                    node.annotations.insert(key, "true");
                }
            }),
            10 => self.flip(|node, _| node.annotations.insert("headroom.dev/remove", "requested")),
            _ => self.freshness.stale = self.chance.one_in(4),
        }
    }

    fn flip(&mut self, change: impl Fn(&mut Node, UnixTime)) {
        let nodes: Vec<Node> = self.world.nodes().map(|(_, node, _)| node.clone()).collect();
        let index = usize::try_from(self.chance.below(1 + nodes.len() as u64)).expect("small");
        if let Some(mut node) = nodes.into_iter().nth(index) {
            change(&mut node, self.now);
            self.put(node);
        }
    }

    fn pass_time(&mut self) {
        self.now = self.now.plus(Seconds(TICK));
        self.physics();
    }

    /// Nothing new is begun; what is under way ends.
    fn come_to_rest(&mut self) {
        self.freshness.stale = false;
        self.config.cluster.voluntary_disruption_stopped = true;
        for _ in 0..80 {
            self.tick(Crash::No, false);
            self.pass_time();
        }
        let open = self.history.pools["a"].removals().count();
        assert_eq!(open, 0, "{:?}", self.history.pools["a"].intents);
        for (_, node, _) in self.world.nodes() {
            assert_eq!(marked_by(node), None, "{} is marked at rest", node.name);
            assert!(!node.unschedulable, "{} is cordoned at rest", node.name);
        }
    }

    fn names(&self) -> Vec<String> {
        self.world.nodes().map(|(_, node, _)| node.name.to_string()).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bounds_hold_at_every_tick_and_no_mark_is_left_at_rest(seed in any::<u64>()) {
        let mut cluster = Cluster::new(seed);
        cluster.history.pools.entry("a".into()).or_default();
        for _ in 0..120 {
            if cluster.chance.one_in(4) {
                cluster.disturb();
            }
            let crash = match cluster.chance.below(12) {
                0 => Crash::BeforeSteps,
                1 => Crash::BeforeOutcomes,
                _ => Crash::No,
            };
            let arrival = cluster.chance.one_in(20);
            cluster.tick(crash, arrival);
            cluster.pass_time();
        }
        cluster.come_to_rest();
    }
}

/// Runs a calm cluster for 15 min; at tick `at` the process crashes.
fn calm(seed: u64, at: usize, crash: Crash) -> Cluster {
    let mut cluster = Cluster::new(seed);
    cluster.history.pools.entry("a".into()).or_default();
    for tick in 0..180 {
        // The provider never fails here: only the crash differs.
        cluster.chance = Chance(1);
        cluster.tick(if tick == at { crash } else { Crash::No }, false);
        cluster.pass_time();
    }
    cluster
}

#[test]
fn a_crash_at_any_tick_leads_to_the_same_end() {
    for seed in 0..3 {
        let undisturbed = calm(seed, usize::MAX, Crash::No);
        assert!(undisturbed.deletions > 0, "seed {seed} removes something");
        for crash in [Crash::BeforeSteps, Crash::BeforeOutcomes] {
            for at in 0..30 {
                let mut crashed = calm(seed, at, crash);
                assert_eq!(crashed.names(), undisturbed.names(), "seed {seed}, tick {at}");
                crashed.come_to_rest();
            }
        }
    }
}

/// After 2,500 pods of four sizes is cut to a fifth, the nodes follow close to the lower bound.
#[test]
#[ignore = "a figure, not a rule: about a minute in release"]
fn burst_that_is_cut_to_a_fifth_leaves_few_nodes() {
    let mut cluster = Cluster::new(7);
    cluster.spreads = true;
    cluster.min_available.clear();
    cluster.pods().into_iter().for_each(|pod| cluster.world.apply(Delta::PodDeleted(pod.key)));
    cluster.config.pools[0].max_nodes = 2000;
    cluster.config.cluster.max_nodes_per_scale_up = 2000;
    cluster.config.cluster.max_removals = 1000;
    cluster.config.cluster.max_drains = 100;
    for (app, count, cpu, memory) in [
        ("a", 1250, "250m", "512Mi"),
        ("b", 750, "1", "2Gi"),
        ("c", 375, "2", "12Gi"),
        ("d", 125, "3500m", "4Gi"),
    ] {
        let made = controller(ControllerKind::ReplicaSet, app, count, pod("x"));
        cluster.world.apply(Delta::ControllerApplied(Box::new(made)));
        let pods = pod(app).cpu(cpu).memory(memory).label("app", app).owner("ReplicaSet", app);
        let pods = pods.times(usize::try_from(count).expect("small"));
        pods.into_iter().for_each(|pod| cluster.world.apply(Delta::PodApplied(Box::new(pod))));
    }
    for _ in 0..4 {
        cluster.tick(Crash::No, false);
        cluster.pass_time();
    }
    println!("grown to {} nodes, {} pods pending", cluster.names().len(), cluster.world.unbound().count());
    for pod in cluster.pods() {
        let number = pod.key.name.rsplit('-').next().and_then(|text| text.parse::<u32>().ok());
        if number.is_some_and(|number| !number.is_multiple_of(5)) {
            cluster.world.apply(Delta::PodDeleted(pod.key));
        }
    }
    for (app, count) in [("a", 250), ("b", 150), ("c", 75), ("d", 25)] {
        let made = controller(ControllerKind::ReplicaSet, app, count, pod("x"));
        cluster.world.apply(Delta::ControllerApplied(Box::new(made)));
    }
    let cut_at = cluster.now;
    for round in 0..60 {
        cluster.tick(Crash::No, false);
        cluster.pass_time();
        if round % 4 == 3 {
            let waiting = cluster.world.unbound().count();
            let (nodes, evictions) = (cluster.names().len(), cluster.evictions);
            println!(
                "{}: {nodes} nodes, {evictions} evictions, {waiting} pending",
                cluster.now.since(cut_at)
            );
        }
    }
}
