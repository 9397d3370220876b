//! The reference's rules that protect pods, minimum sizes and limits, checked at each step of the product. It keeps its
//! own clocks and believes no verdict of the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::config::{Config, Pool};
use headroom_core::history::Backoff;
use headroom_core::known::Known;
use headroom_core::nodes::scale_down::drainability::{Disruptions, Drainability, Rules};
use headroom_core::nodes::scale_down::relocation::Destinations;
use headroom_core::nodes::scale_down::standby::Standby;
use headroom_core::nodes::scale_down::utilization::{Measure, utilization};
use headroom_core::nodes::state::backoff;
use headroom_core::nodes::state::group_settings::GroupSettings;
use headroom_core::plan::{Eviction, Step};
use headroom_core::reason::Reason;
use headroom_core::resources::Resources;
use headroom_core::scheduling::{NodeIx, PodRef, Presence, Snapshot};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::{Node, Readiness, SCALE_DOWN_DISABLED_ANNOTATION};
use headroom_core::world::provider::FailureClass;
use headroom_core::world::{PodEntry, PodId, World};

/// The checker of one run.
#[derive(Debug, Default)]
pub(crate) struct Shield {
    /// Descriptions of the violations.
    pub(crate) violations: Vec<String>,
    /// Time since which each node has had nothing that keeps it.
    clocks: BTreeMap<Arc<str>, i64>,
    backoffs: BTreeMap<Arc<str>, Backoff>,
    /// Nodes that were marked and are there.
    leaving: BTreeSet<Arc<str>>,
    /// Unready nodes that were marked although their pods have no other place: they do not run there either.
    pub(crate) unplaced: BTreeSet<Arc<str>>,
}

/// State that a step is checked against.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    /// The world before the step.
    pub(crate) world: &'a World,
    /// The settings.
    pub(crate) config: &'a Config,
    /// The instant.
    pub(crate) now: i64,
}

impl Shield {
    /// Moves the clocks on.
    pub(crate) fn observe(&mut self, scene: Scene<'_>) {
        let mut seen = BTreeSet::new();
        for (_, node, entry) in scene.world.nodes() {
            seen.insert(node.name.clone());
            if self.leaving.contains(&node.name) {
                continue;
            }
            let Some((pool, settings)) = scene.pool_of(node) else { continue };
            let kept = node.annotations.get(SCALE_DOWN_DISABLED_ANNOTATION) == Some("true")
                || node.ready == Readiness::Ready && scene.is_busy(node, &entry.pods, settings)
                || entry.pods.iter().any(|pod| scene.blocks(scene.world.pod(*pod), pool));
            if kept {
                self.clocks.remove(&node.name);
            } else {
                self.clocks.entry(node.name.clone()).or_insert(scene.now);
            }
        }
        self.clocks.retain(|name, _| seen.contains(name));
        self.leaving.retain(|name| seen.contains(name));
    }

    /// Checks the steps of one plan.
    pub(crate) fn check(&mut self, steps: &[Step], scene: Scene<'_>) {
        for step in steps {
            match step {
                Step::Mark { nodes, .. } => {
                    let new = nodes.iter().filter(|node| !self.leaving.contains(*node));
                    let new: Vec<Arc<str>> = new.cloned().collect();
                    self.check_marks(&new, scene);
                }
                Step::Unmark { node, .. } => {
                    self.leaving.remove(node);
                }
                Step::Evict { node, pods, .. } => self.check_evictions(node, pods, scene),
                Step::Increase { group, to, .. } => self.check_increase(group, *to, scene),
                Step::Cancel { .. } | Step::Delete { .. } => {}
            }
        }
        self.check_totals(steps, scene);
    }

    /// Notes that the cloud refused an increase.
    pub(crate) fn failed(&mut self, group: &Arc<str>, scene: Scene<'_>) {
        let Some(pool) = scene.config.pool(group) else { return };
        let before = self.backoffs.get(group);
        let now = UnixTime(scene.now);
        let before = before.filter(|entry| !backoff::forgotten(entry, now, &pool.scale_up));
        let entry = backoff::after_failure(before, FailureClass::Other, "", now, &pool.scale_up);
        self.backoffs.insert(group.clone(), entry);
    }

    fn broken(&mut self, at: i64, what: String) {
        self.violations.push(format!("at {at} s {what}"));
    }

    fn check_marks(&mut self, nodes: &[Arc<str>], scene: Scene<'_>) {
        for name in nodes {
            let Some((_, node, entry)) = scene.world.node_named(name) else { continue };
            let Some((pool, settings)) = scene.pool_of(node) else { continue };
            if node.annotations.get(SCALE_DOWN_DISABLED_ANNOTATION) == Some("true") {
                self.broken(scene.now, format!("node {name} goes though it is annotated"));
            }
            for pod in &entry.pods {
                if scene.blocks(scene.world.pod(*pod), pool) {
                    let key = &scene.world.pod(*pod).pod.key;
                    self.broken(scene.now, format!("node {name} goes though pod {key} keeps it"));
                }
            }
            self.check_clock(node, settings, scene);
            self.leaving.insert(name.clone());
        }
        self.check_sizes(scene);
        self.check_places(nodes, scene);
        self.check_parallelism(scene);
    }

    /// No more nodes leave at once, and no more with pods on them, than the limits allow. Whole groups may go beyond them.
    fn check_parallelism(&mut self, scene: Scene<'_>) {
        let (mut all, mut drains) = (0u32, 0u32);
        for name in self.leaving.iter() {
            let Some((_, node, entry)) = scene.world.node_named(name) else { continue };
            let Some((pool, _)) = scene.pool_of(node) else { continue };
            if pool.scales_whole() {
                continue;
            }
            let stays = |pod: &PodId| {
                let entry = scene.world.pod(*pod);
                scene.must_move(entry, pool) || entry.pod.deletion_at.is_some()
            };
            all += 1;
            drains += u32::from(entry.pods.iter().any(stays));
        }
        let cluster = &scene.config.cluster;
        if cluster.max_removals < all || cluster.max_drains < drains {
            self.broken(scene.now, format!("{all} nodes leave, {drains} of them with pods"));
        }
    }

    fn check_clock(&mut self, node: &Node, settings: GroupSettings<'_>, scene: Scene<'_>) {
        let (since, limit) = match node.ready {
            Readiness::Ready => (self.clocks.get(&node.name).copied(), settings.unneeded_for()),
            // A node that was unneeded before keeps its clock.
            _ => (self.clocks.get(&node.name).copied(), settings.unready_for()),
        };
        let over = since.is_some_and(|since| limit == Seconds(0) || since + limit.0 < scene.now);
        if !over {
            let since = since.map_or("never".to_owned(), |since| since.to_string());
            self.broken(scene.now, format!("node {} goes too early: since {since}, {limit}", node.name));
        }
    }

    /// Every group keeps its minimum, and the cluster its least cores and memory, without the nodes that leave.
    fn check_sizes(&mut self, scene: Scene<'_>) {
        for pool in &scene.config.pools {
            let Some(state) = scene.world.provider(&pool.name).and_then(Known::value) else { continue };
            for (id, group) in &state.groups {
                let of_group = |name: &&Arc<str>| {
                    let node = scene.world.node_named(name).map(|(_, node, _)| node);
                    node.is_some_and(|node| group.instances.contains_key(&node.provider_id))
                };
                let leave = u32::try_from(self.leaving.iter().filter(of_group).count()).unwrap_or(u32::MAX);
                if leave != 0 && group.target < group.min.saturating_add(leave) {
                    self.broken(scene.now, format!("group {id} falls under its minimum"));
                }
            }
        }
        let stays = |node: &&Node| !self.leaving.contains(&node.name);
        let mut left = Resources::default();
        let nodes = scene.world.nodes().map(|(_, node, _)| node);
        nodes.filter(stays).for_each(|node| left.add(&node.capacity));
        let cluster = &scene.config.cluster;
        if cluster.min_cpu_milli.is_some_and(|least| left.cpu_milli < least)
            || cluster.min_memory_bytes.is_some_and(|least| left.memory_bytes < least)
        {
            self.broken(scene.now, "the cluster falls under its least cores or memory".to_owned());
        }
    }

    /// The pods of the new nodes have places on what stays.
    fn check_places(&mut self, nodes: &[Arc<str>], scene: Scene<'_>) {
        let mut snapshot = Snapshot::new(scene.world);
        for (ix, _) in snapshot.nodes().map(|(ix, view)| (ix, view.name().clone())).collect::<Vec<_>>() {
            let leaves = self.leaving.contains(snapshot.node(ix).name());
            if leaves {
                snapshot.set_presence(ix, Presence::Ghost);
            }
        }
        // The scheduler gives their room to others.
        let expendable: Vec<(PodRef, NodeIx)> = snapshot
            .nodes()
            .flat_map(|(ix, _)| snapshot.pods(ix).map(move |pod| (pod, ix)))
            .filter(|(pod, _)| matches!(pod, PodRef::Real(id) if scene.is_expendable(scene.world.pod(*id))))
            .collect();
        for (pod, ix) in expendable {
            snapshot.remove(pod, ix);
        }
        let open: Vec<NodeIx> = snapshot
            .nodes()
            .filter(|(ix, _)| snapshot.presence(*ix) == Presence::Present)
            .filter(|(_, view)| view.real().is_some_and(|(_, node)| node.ready == Readiness::Ready))
            .map(|(ix, _)| ix)
            .collect();
        let mut destinations = Destinations::new(open);
        // Pods that run come first.
        let mut nodes: Vec<_> = nodes.iter().filter_map(|name| scene.world.node_named(name)).collect();
        nodes.sort_by_key(|(_, node, _)| node.ready != Readiness::Ready);
        for (_, node, entry) in nodes {
            let name = &node.name;
            let Some((pool, _)) = scene.pool_of(node) else { continue };
            let Some(ix) = snapshot.named(name) else { continue };
            let moving: Vec<PodRef> = entry
                .pods
                .iter()
                .filter(|pod| scene.must_move(scene.world.pod(**pod), pool))
                .map(|pod| PodRef::Real(*pod))
                .collect();
            let all = destinations.move_all(&mut snapshot, &moving, ix).is_ok();
            if all || destinations.spread_all(&mut snapshot, &moving, ix, Standby::default()).is_ok() {
                continue;
            }
            if node.ready == Readiness::Ready {
                self.broken(scene.now, format!("pods of node {name} have no other place"));
            } else {
                self.unplaced.insert(name.clone());
            }
        }
    }

    fn check_evictions(&mut self, node: &Arc<str>, pods: &[Eviction], scene: Scene<'_>) {
        let mut disruptions = Disruptions::of(scene.world);
        let pool = scene.world.node_named(node).and_then(|(_, node, _)| scene.pool_of(node));
        for Eviction { pod, .. } in pods {
            let (Some(id), Some((pool, _))) = (scene.world.pod_id(pod), pool) else { continue };
            let entry = scene.world.pod(id);
            if scene.blocks(entry, pool) {
                self.broken(scene.now, format!("pod {pod} is evicted though it may not be"));
            }
            // One pod of each budget is asked for now and then whatever its status is: the API server decides.
            let guarded = disruptions.exhausted(entry.class, &entry.pod.class).is_some();
            if guarded && 1 < pods.len() {
                self.broken(scene.now, format!("pod {pod} is evicted though its budget allows none"));
            }
            disruptions.spend(entry.class, &entry.pod.class);
        }
    }

    fn check_increase(&mut self, group: &Arc<str>, to: u32, scene: Scene<'_>) {
        if let Some(entry) = self.backoffs.get(group)
            && scene.now <= entry.until.0
        {
            self.broken(scene.now, format!("group {group} grows in its back-off"));
        }
        let state = scene.world.provider(group).and_then(Known::value);
        let Some(state) = state.and_then(|state| state.groups.get(group)) else { return };
        let most = scene.config.cluster.max_nodes_per_scale_up;
        let whole = scene.config.scales_whole(group);
        if state.max < to {
            self.broken(scene.now, format!("group {group} grows beyond its maximum"));
        }
        if most != 0 && most < to.saturating_sub(state.target) && !whole {
            self.broken(scene.now, format!("group {group} grows by more than {most} nodes at once"));
        }
    }

    /// The cluster's limits on nodes, cores and memory.
    fn check_totals(&mut self, steps: &[Step], scene: Scene<'_>) {
        if !steps.iter().any(|step| matches!(step, Step::Increase { .. })) {
            return;
        }
        let mut wanted: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
        for step in steps {
            if let Step::Increase { group, from, to, .. } = step {
                *wanted.entry(group).or_default() += to.saturating_sub(*from);
            }
        }
        let mut used = Resources::default();
        let mut count = 0u32;
        for (_, node, _) in scene.world.nodes() {
            used.add(&node.capacity);
            count += 1;
        }
        for (group, nodes) in wanted {
            let state = scene.world.provider(group).and_then(Known::value);
            let template = state.and_then(|state| state.groups.get(group)?.template.as_ref());
            if let Some(template) = template {
                used.add(&template.node.capacity.times(i64::from(nodes)));
            }
            count += nodes;
        }
        let cluster = &scene.config.cluster;
        if cluster.max_nodes.is_some_and(|most| most < count)
            || cluster.max_cpu_milli.is_some_and(|most| most < used.cpu_milli)
            || cluster.max_memory_bytes.is_some_and(|most| most < used.memory_bytes)
        {
            self.broken(scene.now, format!("{count} nodes are beyond the cluster's limits"));
        }
    }
}

impl<'a> Scene<'a> {
    fn pool_of(self, node: &Node) -> Option<(&'a Pool, GroupSettings<'a>)> {
        let lists = |pool: &&Pool| {
            let state = self.world.provider(&pool.name).and_then(Known::value);
            let mut groups = state.into_iter().flat_map(|state| state.groups.values());
            groups.any(|group| group.instances.contains_key(&node.provider_id))
        };
        let pool = self.config.pools.iter().find(lists)?;
        Some((pool, GroupSettings::of(pool, &pool.name, self.world)))
    }

    fn is_busy(self, node: &Node, pods: &[PodId], settings: GroupSettings<'_>) -> bool {
        let measure = Measure {
            priority_cutoff: Some(self.config.cluster.expendable_pods_priority_cutoff),
            ignore_daemon_sets: settings.ignore_daemon_sets(),
            ignore_mirror: settings.ignore_mirror(),
            ..Measure::default()
        };
        let pods = pods.iter().map(|pod| &self.world.pod(*pod).pod).filter(|pod| !pod.phase.finished());
        utilization(node, pods, &measure, UnixTime(self.now)).map_or(true, |found| {
            let percent = if found.on_gpu {
                settings.gpu_utilization_threshold_percent()
            } else {
                settings.utilization_threshold_percent()
            };
            found.share().exceeds_percent(percent)
        })
    }

    fn drainability(self, entry: &PodEntry, pool: &Pool) -> Drainability {
        let rules = Rules::of(&pool.scale_down.drain);
        rules.drainability(entry, self.world, &mut Disruptions::of(self.world), UnixTime(self.now))
    }

    fn is_expendable(self, entry: &PodEntry) -> bool {
        entry.pod.class.priority < self.config.cluster.expendable_pods_priority_cutoff
    }

    /// True if the pod keeps its node for another reason than a PodDisruptionBudget.
    fn blocks(self, entry: &PodEntry, pool: &Pool) -> bool {
        let over = entry.pod.phase.finished() || self.is_expendable(entry);
        !over
            && matches!(self.drainability(entry, pool), Drainability::Block(block) if block.reason != Reason::NotEnoughPdb)
    }

    fn must_move(self, entry: &PodEntry, pool: &Pool) -> bool {
        let over = entry.pod.phase.finished() || self.is_expendable(entry) || entry.pod.deletion_at.is_some();
        !over && !matches!(self.drainability(entry, pool), Drainability::Skip | Drainability::DaemonSet)
    }
}
