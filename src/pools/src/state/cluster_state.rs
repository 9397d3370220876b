//! Number of nodes of each pool and group, by state, and number of those on their way. It counts and decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::config::{Config, Pool};
use crate::devices::published;
use crate::increase;
use crate::interruption;
use crate::state::bounds::{self, Bounds};
use crate::state::group_settings::GroupSettings;
use crate::state::owners::{Kin, Owners};
use crate::state::template;
use crate::wake::Wake;
use headroom_cluster::history::{
    Action, History, Increase, IncreasePhase, Intent, PoolHistory, RemovalPhase,
};
use headroom_cluster::scheduling::constraints::Taint;
use headroom_cluster::world::listing::Listing;
use headroom_cluster::world::node::{Node, Readiness};
use headroom_cluster::world::provider::BackoffKey;
use headroom_cluster::world::provider::{GroupState, InstanceState, ProviderState};
use headroom_cluster::world::view::View;
use headroom_cluster::world::{NodeId, World};
use headroom_values::known::Known;
use headroom_values::resources::Resources;
use headroom_values::time::UnixTime;

/// Put on cordoned nodes by the node lifecycle controller; it does not go by itself.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Every pool's state.
#[derive(Clone, Debug)]
pub struct ClusterState<'w> {
    /// By pool name; every pool of the configuration has an entry.
    pub pools: BTreeMap<Arc<str>, PoolState<'w>>,
    /// Nodes of the world that no pool owns.
    pub foreign_count: u32,
    /// Capacity of all nodes of the world, foreign ones included, that are not leaving; summed only where the cluster's
    /// cpu or memory is limited.
    pub capacity: Resources,
    /// By node id: the index in `kins` and the state of each node that a pool owns.
    members: Vec<Option<(u32, Stage)>>,
    /// Pool and group of nodes.
    kins: Vec<(Arc<str>, Arc<str>)>,
    /// True if a limit on the cluster's cpu or memory asks for its capacity.
    limited: bool,
    /// True if nodes publish devices, or are expected to.
    pub publishes_devices: bool,
    /// Nodes that their cloud is about to take, with the source of that.
    pub interrupted: BTreeMap<NodeId, Arc<str>>,
}

/// A node's place in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'c> {
    /// The pool.
    pub pool: &'c Arc<str>,
    /// The group; empty when neither the node nor the provider names it.
    pub group: &'c Arc<str>,
    /// State of the node.
    pub stage: Stage,
}

/// The state of a registered node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Ready and without startup taints.
    Ready,
    /// Not ready yet, and younger than the pool's startup timeout: it counts as on its way.
    NotStarted,
    /// Not ready.
    Unready,
    /// Suspended by the cloud: neither ready nor unready.
    Suspended,
    /// Carries our mark or a deletion timestamp, or is the victim of an open removal.
    Leaving,
}

/// One pool's state.
#[derive(Clone, Debug)]
pub struct PoolState<'w> {
    /// The pool.
    pub pool: &'w Pool,
    /// State that the provider reported; `None` when it is unknown.
    pub provider: Option<&'w ProviderState>,
    /// Reason why it is not known.
    pub provider_unknown: Option<Arc<str>>,
    /// Its bounds now.
    pub bounds: Bounds,
    /// Its groups: those of the provider, and those that nodes or open increases name.
    pub groups: BTreeMap<Arc<str>, GroupCounts<'w>>,
}

/// One group's counts.
#[derive(Clone, Debug, Default)]
pub struct GroupCounts<'w> {
    /// State of the group that the provider reported; `None` when it did not name the group.
    pub state: Option<&'w GroupState>,
    /// The nodes of the world.
    pub nodes: Vec<NodeId>,
    /// Ready nodes.
    pub ready: u32,
    /// Nodes that are not ready and too old to be starting.
    pub unready: u32,
    /// Nodes that are still starting.
    pub not_started: u32,
    /// Nodes that the cloud has suspended.
    pub suspended: u32,
    /// Nodes that are leaving.
    pub leaving: u32,
    /// Those of them that the cloud is about to take and still counts.
    pub interrupted: u32,
    /// Instances that are not a node yet and may still become one.
    pub unregistered: u32,
    /// Instances that did not become nodes in time, or whose launch failed.
    pub long_unregistered: Vec<Arc<str>>,
    /// Nodes that will come: asked for or running, but not in the world yet.
    pub upcoming: u32,
    /// Machines that the cloud has or is asked for and that are not in the world, including those nobody waits for any more.
    pub not_registered: u32,
    /// The target as far as we know: the provider's, or the one that an open increase will make of it.
    pub target: u32,
    /// True if a failure holds the group back, and until when.
    pub backed_off_until: Option<UnixTime>,
    /// True if the group has an open increase.
    pub growing: bool,
    /// Instances that are not a node and that an open removal names.
    pub going: u32,
    /// True if so many of the nodes that it wants are missing or unready that it must not grow.
    pub unhealthy: bool,
}

impl GroupCounts<'_> {
    /// Nodes of the world, leaving ones too.
    #[must_use]
    pub fn registered(&self) -> u32 {
        self.ready + self.unready + self.not_started + self.suspended + self.leaving
    }
}

impl PoolState<'_> {
    /// Nodes that the pool wants: the sum of its groups' targets.
    #[must_use]
    pub fn target(&self) -> u32 {
        self.groups.values().map(|group| group.target).fold(0, u32::saturating_add)
    }

    /// Nodes that the pool wants without those that the cloud is about to take.
    #[must_use]
    pub fn lasting_target(&self) -> u32 {
        let interrupted = self.groups.values().map(|group| group.interrupted);
        self.target().saturating_sub(interrupted.fold(0, u32::saturating_add))
    }

    /// Rank of a group, if the pool has several shapes.
    #[must_use]
    pub fn rank_of(&self, group: &str) -> Option<u32> {
        self.groups.get(group)?.state?.rank
    }

    /// Registered nodes that are not leaving.
    #[must_use]
    pub fn registered(&self) -> u32 {
        self.groups.values().map(|group| group.registered() - group.leaving).sum()
    }
}

impl<'w> ClusterState<'w> {
    /// Counts the nodes of a view as the pools of `config` see them at `now`.
    #[must_use]
    pub fn new(
        view: impl Into<View<'w>>,
        history: &History,
        config: &'w Config,
        now: UnixTime,
        wake: &mut Wake,
    ) -> Self {
        let view = view.into();
        let world = view.world;
        let mut pools = BTreeMap::new();
        for pool in &config.pools {
            pools.insert(pool.name.clone(), empty_pool(pool, world, history, now, wake));
        }
        let mut state = Self {
            pools,
            foreign_count: 0,
            capacity: Resources::default(),
            members: vec![None; world.node_capacity()],
            kins: Vec::new(),
            limited: config.cluster.max_cpu_milli.is_some() || config.cluster.max_memory_bytes.is_some(),
            publishes_devices: !published::is_unused(world, config.pools.iter(), history),
            interrupted: interruption::of(world, history, config),
        };
        state.count_nodes(view, history, now, wake);
        for pool_state in state.pools.values_mut() {
            let memory = history.pools.get(&pool_state.pool.name);
            count_instances(pool_state, memory, view, now, wake);
            for (id, group) in &mut pool_state.groups {
                let asked = memory.map_or(0, |memory| asked_for(memory, id));
                group.unhealthy = unhealthy(group, asked, config);
            }
        }
        state
    }

    /// The pool, group and stage of a node; `None` for foreign ones.
    #[must_use]
    pub fn member(&self, node: NodeId) -> Option<Member<'_>> {
        let (kin, stage) = self.members.get(node.0 as usize).copied().flatten()?;
        let (pool, group) = &self.kins[kin as usize];
        Some(Member { pool, group, stage })
    }

    /// True if the node takes pods.
    #[must_use]
    pub fn is_ready(&self, node: NodeId) -> bool {
        self.member(node).is_some_and(|member| member.stage == Stage::Ready)
    }

    /// Price of one node of the group for one hour, in millionths: the group's, else its pool's; `None` if it is unknown.
    #[must_use]
    pub fn price_per_hour_micro(&self, pool: &str, group: &str) -> Option<i64> {
        let pool = self.pools.get(pool)?;
        let own = pool.groups.get(group).and_then(|group| group.state?.price_per_hour_micro);
        own.or(pool.pool.price_per_hour_micro)
    }

    /// True if the provider reports that new nodes of the group have devices.
    #[must_use]
    pub fn group_has_devices(&self, pool: &str, group: &str) -> bool {
        let state =
            self.pools.get(pool).and_then(|pool| pool.groups.get(group)).and_then(|group| group.state);
        let said = state.and_then(|state| state.template.as_deref());
        said.is_some_and(|said| said.node.allocatable.extended_iter().any(|(_, amount)| 0 < amount))
    }

    /// Nodes there are and nodes on their way, foreign ones included, leaving ones too.
    #[must_use]
    pub fn nodes_total(&self) -> u32 {
        let owned = self.pools.values().flat_map(|pool| pool.groups.values());
        owned.map(|group| group.registered() + group.upcoming).fold(self.foreign_count, u32::saturating_add)
    }

    /// Ids of the instances that a provider reports as going away.
    fn going(&self) -> FxHashSet<&'w str> {
        let groups =
            self.pools.values().flat_map(|pool| pool.groups.values()).filter_map(|group| group.state);
        let instances = groups.flat_map(|state| &state.instances);
        let going = instances.filter(|(_, instance)| instance.state == InstanceState::Deleting);
        going.map(|(id, _)| &**id).collect()
    }

    /// True if the provider reports that the node's machine is going away: it is not capacity, whatever the node still
    /// reports.
    fn terminating(&self, pool: &str, group: &str, node: &Node) -> bool {
        let state =
            self.pools.get(pool).and_then(|pool| pool.groups.get(group)).and_then(|group| group.state);
        let instance = state.and_then(|state| state.instances.get(&node.provider_id));
        instance.is_some_and(|instance| instance.state == InstanceState::Deleting)
    }

    fn count_nodes(&mut self, view: View<'w>, history: &History, now: UnixTime, wake: &mut Wake) {
        let world = view.world;
        let (victims, seen_at) = (victims(history), view.freshness.nodes_as_of(now));
        // Mostly empty, and without it every node would be looked up in its group's instances, on each plan.
        let going = self.going();
        let mut owners = Owners::new(world, &self.pools);
        for (id, name, digest) in world.digests() {
            let owner = owners.of(id, digest);
            if owner.is_some() && world.is_later_twin(id) {
                continue;
            }
            let whole = || world.node(id).node.as_ref();
            let goes = digest.deleting
                || !going.is_empty()
                    && owner.zip(whole()).is_some_and(|(owner, node)| {
                        let Kin { pool, group, .. } = &owners.kins[owner];
                        going.contains(&*node.provider_id) && self.terminating(pool, group, node)
                    });
            let is_taken = !self.interrupted.is_empty() && self.interrupted.contains_key(&id);
            let leaving =
                goes || digest.deletion_taint || is_taken || !victims.is_empty() && victims.contains(name);
            if self.limited
                && !leaving
                && let Some(node) = whole()
            {
                self.capacity.add(&node.capacity);
            }
            let Some(owner) = owner else {
                self.foreign_count += 1;
                continue;
            };
            let kin = &mut owners.kins[owner];
            let ordinary = digest.ready == Readiness::Ready && !digest.tainted;
            // Of most nodes the digest is enough, and the node itself is not touched.
            let node = if leaving || ordinary && kin.devices.is_none() { None } else { whole() };
            let stage = match (leaving, ordinary, node) {
                (true, _, _) => Stage::Leaving,
                (false, true, Some(node)) if kin.lacks_devices(node, seen_at, wake) => Stage::NotStarted,
                (false, false, Some(node)) => stage(node, kin.spec, seen_at, wake),
                (false, _, _) => Stage::Ready,
            };
            kin.nodes.push((id, stage));
            kin.interrupted += u32::from(is_taken && !goes);
        }
        if self.publishes_devices {
            for kin in &mut owners.kins {
                let memory = history.pools.get(&kin.pool);
                let remembered = memory.and_then(|memory| memory.learned_devices.get(&kin.group));
                kin.await_devices(world, remembered.map(|known| &**known), seen_at, wake);
            }
        }
        for Kin { pool, group, nodes, interrupted, .. } in owners.kins {
            let Some(state) = self.pools.get_mut(&pool) else { continue };
            if nodes.is_empty() {
                continue;
            }
            let counts = state.groups.entry(group.clone()).or_default();
            counts.interrupted = interrupted;
            let kin = u32::try_from(self.kins.len()).expect("fewer groups than nodes");
            counts.nodes.reserve(nodes.len());
            for (id, stage) in nodes {
                counts.nodes.push(id);
                match stage {
                    Stage::Ready => counts.ready += 1,
                    Stage::NotStarted => counts.not_started += 1,
                    Stage::Unready => counts.unready += 1,
                    Stage::Suspended => counts.suspended += 1,
                    Stage::Leaving => counts.leaving += 1,
                }
                self.members[id.0 as usize] = Some((kin, stage));
            }
            self.kins.push((pool, group));
        }
    }
}

fn empty_pool<'w>(
    pool: &'w Pool,
    world: &'w World,
    history: &History,
    now: UnixTime,
    wake: &mut Wake,
) -> PoolState<'w> {
    let (provider, provider_unknown) = match world.provider(&pool.name) {
        Some(Known::Known { value, .. }) => (Some(value), None),
        Some(Known::Unknown { why }) => (None, Some(Arc::from(why.as_str()))),
        None => (None, Some(Arc::from("the provider has not been asked yet"))),
    };
    let mut groups: BTreeMap<Arc<str>, GroupCounts<'w>> = BTreeMap::new();
    for (id, state) in provider.iter().flat_map(|provider| &provider.groups) {
        groups.insert(id.clone(), GroupCounts { state: Some(state), ..GroupCounts::default() });
    }
    if let Some(memory) = history.pools.get(&pool.name) {
        for intent in &memory.intents {
            if let Action::Increase(increase) = &intent.action {
                groups.entry(increase.group.clone()).or_default();
            }
        }
    }
    let bounds = bounds::bounds(pool, now, wake);
    PoolState { pool, provider, provider_unknown, bounds, groups }
}

/// Names of the nodes that open removals name, those being undone apart.
fn victims(history: &History) -> BTreeSet<Arc<str>> {
    history
        .pools
        .values()
        .flat_map(PoolHistory::removals)
        .filter(|(_, removal)| removal.phase != RemovalPhase::Undoing)
        .flat_map(|(_, removal)| removal.victims.iter().map(|victim| victim.node.clone()))
        .collect()
}

/// Ready, starting or unready as of `now`, the instant at which the node was last known to be so; a starting node's deadline is
/// noted in `wake`.
///
/// Source: clusterstate.go, getReadiness: a node counts as not started while created + startup timeout > now.
fn stage(node: &Node, pool: &Pool, now: UnixTime, wake: &mut Wake) -> Stage {
    if node.ready == Readiness::Suspended {
        return Stage::Suspended;
    }
    let started_by = node.created_at.plus(pool.scale_up.startup_timeout);
    let young = now < started_by;
    // The condition turns Ready a moment before the taints of a new node are taken off: by the condition alone, the
    // node would neither take pods nor count as on its way, and its pods would be bought for twice.
    let held = node
        .taints
        .iter()
        .any(|taint| if young { keeps_pods_off(taint, pool) } else { template::is_startup(taint, pool) });
    if node.ready == Readiness::Ready && !held {
        return Stage::Ready;
    }
    if young {
        wake.note(started_by);
        Stage::NotStarted
    } else {
        Stage::Unready
    }
}

/// True if a taint of a new node will go by itself, and keeps pods off until then.
fn keeps_pods_off(taint: &Taint, pool: &Pool) -> bool {
    template::delays_start(taint, pool) && &*taint.key != UNSCHEDULABLE_TAINT
}

/// Targets, instances without nodes, and nodes on their way.
fn count_instances(
    pool: &mut PoolState<'_>,
    memory: Option<&PoolHistory>,
    view: View<'_>,
    now: UnixTime,
    wake: &mut Wake,
) {
    let removed = memory.map(removed_instances).unwrap_or_default();
    let read_at = view.provider(&pool.pool.name).and_then(Known::read_at);
    for (id, group) in &mut pool.groups {
        let wanted = |(intent, of): (&Intent, &Increase)| increase::wanted(intent, of, group.state, read_at);
        let open = memory.map_or(0, |memory| memory.growing(id).map(wanted).max().unwrap_or(0));
        group.growing = memory.is_some_and(|memory| memory.growing(id).next().is_some());
        group.backed_off_until = memory.and_then(|memory| backed_off_until(memory, id, now));
        if let Some(until) = group.backed_off_until {
            wake.note(UnixTime(until.0 + 1));
        }
        let seen = instances_seen(group, pool.pool, &removed, view, read_at, now, wake);
        group.unregistered = seen.unregistered;
        group.long_unregistered = seen.long_unregistered;
        group.going = seen.going;
        let observed = group.state.map_or(0, |state| state.target);
        group.target = observed.max(open).max(seen.accounted);
        let missing = group.target.saturating_sub(seen.accounted);
        // Source: clusterstate.go, GetUpcomingNodes since 1.36 (#9360): a requested node that is not even an instance
        // counts only while an increase is open and no failure shows that it will not come. What is to be taken back is
        // such an increase too: as long as the cloud is asked for it, it may bring it, and after the failure's time it
        // is no less likely to than what would be asked for on top.
        let asked_for = memory.is_some_and(|memory| memory.increases_of(id).next().is_some());
        let expected = match group.backed_off_until {
            None if asked_for => missing,
            // Differs from upstream: what the group's own controller replaces is on its way though nobody asked for it,
            // because pods of the lost machine would be bought for twice.
            None => missing.min(group.state.map_or(0, |state| state.replacements)),
            // What the cloud has not answered yet is still being asked for, though another purchase of the group failed.
            Some(_) => missing.min(memory.map_or(0, |memory| being_asked_for(memory, id))),
        };
        group.upcoming = seen.unregistered.saturating_add(expected);
        group.not_registered = seen.without_node.saturating_add(seen.going).saturating_add(missing);
    }
}

/// Returns the number of nodes by which the open increases of `group` whose calls have not been answered would let it
/// grow.
fn being_asked_for(memory: &PoolHistory, group: &str) -> u32 {
    let unanswered =
        memory.growing(group).filter(|(_, increase)| increase.phase == IncreasePhase::Journalled);
    unanswered
        .fold(0, |sum: u32, (_, increase)| sum.saturating_add(increase.to.saturating_sub(increase.from)))
}

/// Time until which `group` is held back, if it is at `now`: the latest of its failures.
#[must_use]
pub fn backed_off_until(memory: &PoolHistory, group: &str, now: UnixTime) -> Option<UnixTime> {
    let holds = |(key, _): &(&BackoffKey, _)| &*key.group == group;
    let until = memory.backoffs.iter().filter(holds).map(|(_, backoff)| backoff.until).max()?;
    (now <= until).then_some(until)
}

/// Node names and provider ids of the victims of open removals: their instances are not new.
fn removed_instances(memory: &PoolHistory) -> BTreeSet<Arc<str>> {
    memory
        .removals()
        .flat_map(|(_, removal)| &removal.victims)
        .flat_map(|victim| [victim.node.clone(), victim.id.clone()])
        .collect()
}

/// Result of [`instances_seen`].
#[derive(Default)]
struct InstancesSeen {
    /// Instances that are or may become nodes, and nodes that came after the provider was read.
    accounted: u32,
    /// Instances that are no nodes, whether or not one is still expected of them.
    without_node: u32,
    unregistered: u32,
    long_unregistered: Vec<Arc<str>>,
    /// Instances that never became nodes and that an open removal names.
    going: u32,
}

fn instances_seen(
    group: &GroupCounts<'_>,
    pool: &Pool,
    removed: &BTreeSet<Arc<str>>,
    view: View<'_>,
    read_at: Option<UnixTime>,
    now: UnixTime,
    wake: &mut Wake,
) -> InstancesSeen {
    let mut seen = InstancesSeen::default();
    let own = group.state.and_then(|state| state.options.as_deref());
    let timeout = GroupSettings::new(pool, own).provision_timeout();
    let no_instances = BTreeMap::new();
    let instances = group.state.map_or(&no_instances, |state| &state.instances);
    let (nobody, listing) = (BTreeSet::new(), view.listing(&pool.name));
    for id in &group.nodes {
        let digest = view.digest(*id);
        let late = read_at.is_none_or(|read_at| read_at <= digest.created_at);
        if !late || digest.deleting || digest.deletion_taint {
            continue;
        }
        let Some(node) = &view.node(*id).node else { continue };
        let listed = listing.is_some_and(|listing| listing.lists(*id));
        if !listed && !instances.contains_key(&node.name) {
            seen.accounted += 1;
        }
    }
    let unseen = listing.map_or(&nobody, Listing::unseen);
    for (id, instance) in instances {
        let named = |name: &Arc<str>| removed.contains(name);
        let gone = !removed.is_empty() && (named(id) || instance.node.as_ref().is_some_and(named));
        if instance.state == InstanceState::Deleting || gone {
            let wanted = instance.state != InstanceState::Deleting;
            seen.going += u32::from(wanted && unseen.contains(id));
            continue;
        }
        seen.accounted += 1;
        let is_node = |name: &Arc<str>| view.node_named(name).is_some();
        if unseen.is_empty() || !unseen.contains(id) || instance.node.as_ref().is_some_and(is_node) {
            continue;
        }
        seen.without_node += 1;
        if instance.state == InstanceState::Failed {
            seen.long_unregistered.push(id.clone());
            continue;
        }
        if let Some(left_at) = listing.and_then(|listing| listing.left(id)) {
            // Its node was there and may come again, which nobody waits for; until then its machine is left alone.
            let due = left_at.map(|left_at| left_at.plus(timeout));
            if due.is_some_and(|due| due < view.freshness.nodes_as_of(now)) {
                seen.long_unregistered.push(id.clone());
            } else if let Some(due) = due {
                wake.note(UnixTime(due.0 + 1));
            }
            continue;
        }
        let due = instance.created_at.map(|created| created.plus(timeout));
        match due {
            // A machine that became a node while nothing was heard of nodes is not late.
            Some(due) if due < view.freshness.nodes_as_of(now) => seen.long_unregistered.push(id.clone()),
            Some(due) => {
                seen.unregistered += 1;
                wake.note(UnixTime(due.0 + 1));
            }
            None if group.growing => seen.unregistered += 1,
            None => {}
        }
    }
    seen
}

/// True if more of the nodes that a group wants are missing or unready than may be: both limits must be passed. Where none
/// has come at all, none may be missing. Nodes that an open increase has asked for, that start, and that leave are not
/// missing; nor are instances that are still young.
///
/// Source: clusterstate.go, IsNodeGroupHealthy.
fn unhealthy(group: &GroupCounts<'_>, asked: u32, config: &Config) -> bool {
    let Some(state) = group.state else { return false };
    let late = u32::try_from(group.long_unregistered.len()).unwrap_or(u32::MAX);
    let wanted = state.target.saturating_sub(late).saturating_sub(group.going).saturating_sub(asked);
    let registered = group.registered();
    let missing = wanted.saturating_sub(registered - group.unready + group.unregistered);
    if registered + group.unregistered + late + group.going == 0 {
        return 0 < missing;
    }
    let (most, percent) = (config.cluster.ok_unready_count, config.cluster.max_unready_percent);
    most < missing && u64::from(registered) * u64::from(percent) < u64::from(missing) * 100
}

/// Returns the number of nodes by which the open increases of `group` let it grow, those that are taken back included.
fn asked_for(memory: &PoolHistory, group: &str) -> u32 {
    let grown = |(_, increase): (&Intent, &Increase)| increase.to.saturating_sub(increase.from);
    memory.increases_of(group).map(grown).fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use headroom_cluster::scheduling::constraints::TaintEffect;

    const NOW: UnixTime = UnixTime(1_000);

    fn new_node(taint: &str) -> Node {
        let taint = Taint { key: taint.into(), value: "".into(), effect: TaintEffect::NoSchedule };
        Node { ready: Readiness::Ready, created_at: NOW, taints: vec![taint], ..Node::default() }
    }

    fn stage_of(node: &Node, now: UnixTime) -> Stage {
        stage(node, &testing::pool("general").build(), now, &mut Wake::new(now))
    }

    #[test]
    fn new_node_is_on_its_way_until_its_not_ready_taint_is_gone() {
        assert_eq!(stage_of(&new_node("node.kubernetes.io/not-ready"), NOW), Stage::NotStarted);
    }

    #[test]
    fn cordoned_new_node_is_ready() {
        assert_eq!(stage_of(&new_node(UNSCHEDULABLE_TAINT), NOW), Stage::Ready);
    }

    #[test]
    fn old_node_under_memory_pressure_is_ready() {
        let later = UnixTime(1_000_000);
        assert_eq!(stage_of(&new_node("node.kubernetes.io/memory-pressure"), later), Stage::Ready);
    }
}
