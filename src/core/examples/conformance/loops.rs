//! The family that runs whole loops of scaling up over a plain in-memory cloud, which decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::config::{ClusterSettings, Config, NodeTemplate, Pool, Profile, ScaleDown, ScaleUp};
use headroom_core::history::History;
use headroom_core::known::Known;
use headroom_core::labels::ObjectKey;
use headroom_core::nodes::similarity::Similarity;
use headroom_core::nodes::upstream::UpstreamOptions;
use headroom_core::plan::{Outcome, Step, StepResult};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::{FailureClass, GroupState, Instance, InstanceState, ProviderState};
use headroom_core::world::workload::DaemonSet;
use headroom_core::world::{Delta, World};
use headroom_core::{absorb, plan};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::families::{Priorities, expander_named, priorities};
use crate::model::{Group, Node, Pod, Toleration};
use crate::words::{difference, expanded, sorted, told};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    options: Options,
    groups: Vec<Group>,
    #[serde(default)]
    nodes: Option<Vec<Node>>,
    #[serde(default)]
    pods: Option<Vec<Pod>>,
    #[serde(default)]
    daemonsets: Option<Vec<Set>>,
    #[serde(default)]
    events: Option<Vec<Event>>,
    #[serde(default)]
    priorities: Option<Priorities>,
    ticks: i64,
    tick_s: i64,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Options {
    #[allow(dead_code)]
    scale_down_enabled: Option<bool>,
    expander: Option<String>,
    max_nodes_total: u32,
    max_cores_total: Option<i64>,
    max_memory_total_gib: Option<i64>,
    #[allow(dead_code)]
    min_cores_total: i64,
    #[allow(dead_code)]
    min_memory_total_gib: i64,
    balance_similar_node_groups: bool,
    balancing_ignore_labels: Vec<String>,
    scale_up_from_zero: Option<bool>,
    enforce_node_group_min_size: bool,
    expendable_pods_priority_cutoff: Option<i32>,
    new_pod_scale_up_delay_s: i64,
    max_nodes_per_scaleup: Option<u32>,
    max_total_unready_percentage: Option<u32>,
    ok_total_unready_count: Option<u32>,
    max_node_provision_s: Option<i64>,
    max_node_startup_s: Option<i64>,
    initial_node_group_backoff_s: Option<i64>,
    max_node_group_backoff_s: Option<i64>,
    node_group_backoff_reset_s: Option<i64>,
    bypassed_scheduler_names: Vec<String>,
    startup_taints: Vec<String>,
    status_taints: Vec<String>,
    force_ds: bool,
    scale_up_simulation_for_skipped_node_groups: bool,
    /// Chooses between two ways that the reference has to the same numbers.
    #[allow(dead_code)]
    fastpath_binpacking: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct GroupOptions {
    zero_or_max: bool,
    #[allow(dead_code)]
    allow_non_atomic_scale_up_to_max: bool,
    max_node_provision_s: Option<i64>,
    max_node_startup_s: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    name: String,
    #[serde(default)]
    ns: Option<String>,
    #[serde(default)]
    cpu_m: i64,
    #[serde(default)]
    mem: i64,
    #[serde(default)]
    node_selector: BTreeMap<String, String>,
    #[serde(default)]
    tolerations: Vec<Toleration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    tick: i64,
    #[serde(default)]
    add_pods: Option<Vec<Pod>>,
    #[serde(default)]
    delete_pods: Option<Vec<String>>,
    #[serde(default)]
    update_nodes: Option<Vec<Node>>,
}

/// The world around the loop.
struct Cloud {
    world: World,
    targets: BTreeMap<String, i64>,
    /// Instances by group, with the instant at which each becomes a node.
    instances: BTreeMap<String, BTreeMap<Arc<str>, Option<i64>>>,
    made: BTreeMap<String, usize>,
    /// The entry of the input that each pod comes from.
    entries: BTreeMap<ObjectKey, String>,
}

/// Whether one of the outcomes is reached.
pub fn scale_up(input: &Value, outs: &[&Value]) -> Result<(), String> {
    let input: Input = serde_json::from_value(input.clone()).map_err(|error| error.to_string())?;
    let (ticks, targets) = run(&input);
    let got = json!({"ticks": ticks, "final_targets": targets});
    let expected: Vec<Value> = outs.iter().map(|out| expanded(out, input.ticks)).collect();
    if expected.contains(&got) {
        return Ok(());
    }
    Err(difference(&expected[0], &got))
}

fn run(input: &Input) -> (Vec<Value>, Value) {
    let config = config(input);
    let mut cloud = Cloud::new(input);
    let mut history = History::default();
    let mut ticks = Vec::new();
    for tick in 0..input.ticks {
        let now = tick * input.tick_s;
        cloud.advance(input, tick, now);
        cloud.observe(input, now);
        let planned = plan(&cloud.world, &history, &config, UnixTime(now));
        history = planned.next_history;
        let status = planned.upstream.unwrap_or_default();
        let mut actions = Vec::new();
        for fix in &status.fixes {
            if let Some(target) = cloud.targets.get_mut(&*fix.group) {
                *target -= fix.by;
            }
            actions.push(json!({"action": "decrease_target", "group": &*fix.group, "delta": -fix.by}));
        }
        let failed = cloud.carry_out(input, &planned.steps, &mut history, &config, now, &mut actions);
        let status = told(&status, failed.as_ref(), &cloud.world, &cloud.entries);
        ticks.push(json!({"actions": sorted(actions.into_iter()), "scale_up": status}));
    }
    (ticks, json!(cloud.targets))
}

impl Cloud {
    fn new(input: &Input) -> Self {
        let mut cloud = Self {
            world: World::new(),
            targets: input.groups.iter().map(|group| (group.id.clone(), group.target)).collect(),
            instances: BTreeMap::new(),
            made: BTreeMap::new(),
            entries: BTreeMap::new(),
        };
        for node in input.nodes.iter().flatten() {
            let node_id: Arc<str> = format!("fake://{}", node.name).into();
            cloud.instances.entry(node.group.clone()).or_default().insert(node_id, None);
            cloud.world.apply(Delta::NodeApplied(Box::new(node.to_core())));
        }
        for set in input.daemonsets.iter().flatten() {
            let namespace = set.ns.clone().unwrap_or_else(|| "kube-system".into());
            let pod = Pod {
                name: set.name.clone(),
                ns: Some(namespace.clone()),
                cpu_m: set.cpu_m,
                mem: set.mem,
                node_selector: set.node_selector.clone(),
                tolerations: set.tolerations.clone(),
                ..Pod::default()
            };
            for pod in pod.to_core() {
                cloud.world.apply(Delta::DaemonSetApplied(Box::new(DaemonSet {
                    uid: format!("DaemonSet/{namespace}/{}", set.name).into(),
                    key: ObjectKey::new(namespace.clone(), set.name.as_str()),
                    class: pod.class,
                })));
            }
        }
        cloud.add_pods(input.pods.iter().flatten());
        cloud
    }

    fn add_pods<'p>(&mut self, pods: impl Iterator<Item = &'p Pod>) {
        for entry in pods {
            let name = format!("{}/{}", entry.ns.as_deref().unwrap_or("default"), entry.name);
            for pod in entry.to_core() {
                self.entries.insert(pod.key.clone(), name.clone());
                self.world.apply(Delta::PodApplied(Box::new(pod)));
            }
        }
    }

    /// Events of the tick, and instances that become nodes.
    fn advance(&mut self, input: &Input, tick: i64, now: i64) {
        for event in input.events.iter().flatten().filter(|event| event.tick == tick) {
            self.add_pods(event.add_pods.iter().flatten());
            for name in event.delete_pods.iter().flatten() {
                if let Some((namespace, name)) = name.split_once('/') {
                    self.world.apply(Delta::PodDeleted(ObjectKey::new(namespace, name)));
                }
            }
        }
        for event in input.events.iter().flatten().filter(|event| event.tick == tick) {
            for node in event.update_nodes.iter().flatten() {
                if self.world.node_named(&node.name).is_some() {
                    self.world.apply(Delta::NodeApplied(Box::new(node.to_core())));
                }
            }
        }
        for group in &input.groups {
            let Some(instances) = self.instances.get_mut(&group.id) else { continue };
            for (id, due) in instances {
                if due.is_some_and(|due| due <= now) {
                    *due = None;
                    let mut node = group.template.clone().unwrap_or_default();
                    node.name = id.trim_start_matches("fake://").to_owned();
                    node.created_s = now;
                    self.world.apply(Delta::NodeApplied(Box::new(node.to_core())));
                }
            }
        }
    }

    /// What the provider of each group says: a pool of one group.
    fn observe(&mut self, input: &Input, now: i64) {
        for group in &input.groups {
            let number = |value: i64| u32::try_from(value.max(0)).unwrap_or(u32::MAX);
            let running = Instance { state: InstanceState::Running, node: None, created_at: None };
            let instances = self.instances.get(&group.id).into_iter().flatten();
            let state = GroupState {
                zone: None,
                target: number(self.targets.get(&group.id).copied().unwrap_or(0)),
                min: number(group.min),
                max: number(group.max),
                instances: instances.map(|(id, _)| (id.clone(), running.clone())).collect(),
                failures: Vec::new(),
            };
            let id: Arc<str> = group.id.as_str().into();
            let value = ProviderState { groups: BTreeMap::from([(id.clone(), state)]) };
            self.world.apply(Delta::ProviderObserved(id, Known::Known { value, at: UnixTime(now) }));
        }
    }

    /// Does the steps whose intent is still open; the group whose increase failed, if one did.
    fn carry_out(
        &mut self,
        input: &Input,
        steps: &[Step],
        history: &mut History,
        config: &Config,
        now: i64,
        actions: &mut Vec<Value>,
    ) -> Option<Arc<str>> {
        let mut failed = None;
        for step in steps {
            let Step::Increase { pool, intent, group, from, to, .. } = step else { continue };
            if history.pools.get(pool).is_none_or(|memory| memory.intent(intent).is_none()) {
                continue;
            }
            let Some(told) = input.groups.iter().find(|told| told.id == **group) else { continue };
            let result = match told.fail_increase.as_str().filter(|message| !message.is_empty()) {
                Some(message) => {
                    failed = Some(group.clone());
                    let (class, message) = (FailureClass::Other, Arc::from(message));
                    StepResult::IncreaseFailed { class, message, created: 0 }
                }
                None => {
                    self.grow(told, i64::from(to - from), now);
                    actions.push(json!({"action": "increase", "group": &**group, "delta": to - from}));
                    StepResult::Increased
                }
            };
            let outcome = Outcome { pool: pool.clone(), intent: intent.clone(), result };
            absorb(history, &[outcome], &self.world, config, UnixTime(now));
        }
        failed
    }

    fn grow(&mut self, group: &Group, delta: i64, now: i64) {
        *self.targets.entry(group.id.clone()).or_insert(0) += delta;
        let Some(start) = group.node_start_s else { return };
        for _ in 0..delta {
            let number = self.made.entry(group.id.clone()).or_insert(0);
            let id: Arc<str> = format!("fake://{}-new-{number}", group.id).into();
            *number += 1;
            self.instances.entry(group.id.clone()).or_default().insert(id, Some(now + start));
        }
    }
}

fn config(input: &Input) -> Config {
    let options = &input.options;
    let words = |all: &[String]| -> Vec<Arc<str>> { all.iter().map(|word| word.as_str().into()).collect() };
    let ids = input.groups.iter().map(|group| group.id.as_str());
    let priorities = priorities(input.priorities.as_ref(), ids);
    let mut zero_or_max = BTreeSet::new();
    let mut pools: Vec<Pool> = Vec::new();
    for group in &input.groups {
        let own: Option<GroupOptions> =
            serde_json::from_value(group.options.clone()).expect("documented options of a group");
        let own = own.unwrap_or_default();
        if own.zero_or_max {
            zero_or_max.insert(Arc::from(group.id.as_str()));
        }
        pools.push(pool(group, options, &own, priorities.get(&group.id).copied()));
    }
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    let defaults = ClusterSettings::default();
    let chain = options.expander.as_deref().unwrap_or("least-waste");
    let balancing =
        Similarity { ignored_labels: words(&options.balancing_ignore_labels), ..Similarity::default() };
    let cluster = ClusterSettings {
        expanders: chain.split(',').map(expander_named).collect(),
        max_nodes: (options.max_nodes_total != 0).then_some(options.max_nodes_total),
        max_cpu_milli: Some(options.max_cores_total.unwrap_or(320_000) * 1000),
        max_memory_bytes: Some(options.max_memory_total_gib.unwrap_or(6_400_000) << 30),
        max_unready_percent: options.max_total_unready_percentage.unwrap_or(45),
        ok_unready_count: options.ok_total_unready_count.unwrap_or(3),
        expendable_pods_priority_cutoff: options.expendable_pods_priority_cutoff.unwrap_or(-10),
        new_pod_delay: Seconds(options.new_pod_scale_up_delay_s),
        max_nodes_per_scale_up: options.max_nodes_per_scaleup.unwrap_or(1000),
        upstream: UpstreamOptions {
            balancing: options.balance_similar_node_groups.then_some(balancing),
            zero_or_max,
            startup_taints: words(&options.startup_taints),
            status_taints: words(&options.status_taints),
            force_daemon_sets: options.force_ds,
            scale_up_from_zero: options.scale_up_from_zero.unwrap_or(true),
            enforce_min: options.enforce_node_group_min_size,
            bypassed_schedulers: words(&options.bypassed_scheduler_names),
            simulate_skipped: options.scale_up_simulation_for_skipped_node_groups,
            gpu_label: Some("example.com/accelerator".into()),
        },
        ..defaults
    };
    Config { profile: Profile::ClusterAutoscaler, epoch: 1, pools, cluster }
}

fn pool(group: &Group, options: &Options, own: &GroupOptions, priority: Option<i32>) -> Pool {
    let template = group.template.clone().unwrap_or_default();
    let node = template.to_core();
    let mut labels = node.labels.clone();
    labels.remove("kubernetes.io/hostname");
    let number = |value: i64| u32::try_from(value.max(0)).unwrap_or(u32::MAX);
    let or = |own: Option<i64>, all: Option<i64>| Seconds(own.or(all).unwrap_or(900));
    #[allow(clippy::cast_possible_truncation)]
    let price = group.price.map(|price| (price * 1e6).round() as i64);
    Pool {
        name: group.id.as_str().into(),
        uid: group.id.as_str().into(),
        created_at: UnixTime(0),
        deleting: false,
        mode: headroom_core::config::Mode::Apply,
        min_nodes: number(group.min),
        max_nodes: number(group.max),
        limit_cpu_milli: None,
        limit_memory_bytes: None,
        template: Some(NodeTemplate {
            labels,
            taints: node.taints,
            capacity: node.capacity,
            allocatable: node.allocatable,
        }),
        startup_taints: Vec::new(),
        price_per_hour_micro: price,
        priority: priority.unwrap_or(i32::MIN),
        scale_up: ScaleUp {
            enabled: true,
            provision_timeout: or(own.max_node_provision_s, options.max_node_provision_s),
            startup_timeout: or(own.max_node_startup_s, options.max_node_startup_s),
            backoff_initial: Seconds(options.initial_node_group_backoff_s.unwrap_or(300)),
            backoff_max: Seconds(options.max_node_group_backoff_s.unwrap_or(1800)),
            backoff_reset_after: Seconds(options.node_group_backoff_reset_s.unwrap_or(10_800)),
        },
        scale_down: ScaleDown { enabled: false, ..ScaleDown::default() },
        schedules: Vec::new(),
    }
}
