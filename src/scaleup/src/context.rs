//! State of one plan in progress: the inputs, the snapshot it tries things on, and its decisions so far.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::demand::{Demand, PodGroup};
use crate::expander::consultation::Consultation;
use crate::packing::RoomyNodes;
use headroom_cluster::history::History;
use headroom_cluster::scheduling::devices::Slice;
use headroom_cluster::scheduling::{ClassIx, Mark, NodeIx, PodRef, Presence, Snapshot, TemplateNode};
use headroom_cluster::world::node::{GROUP_LABEL, Readiness};
use headroom_cluster::world::quota_use::QuotaUse;
use headroom_cluster::world::view::View;
use headroom_cluster::world::{NodeId, PodId, World};
use headroom_pools::config::Config;
use headroom_pools::devices::{self, published};
use headroom_pools::increase;
use headroom_pools::interruption;
use headroom_pools::plan::{CandidateTaints, Plan, Reasons, Step};
use headroom_pools::quarantine::{Part, Quarantine};
use headroom_pools::state::cluster_state::{ClusterState, Stage};
use headroom_pools::state::daemons::Daemons;
use headroom_pools::state::drivers;
use headroom_pools::state::template;
use headroom_pools::wake::Wake;
use headroom_values::resources::Resources;
use headroom_values::time::{Seconds, UnixTime};

/// A pod that outlives its deletion and grace by more than this is taken for gone. Upstream: the same 30 s.
pub const TERMINATING_EXTRA: Seconds = Seconds(30);

/// Pods whose grace is over within this time have ended before a new node could be there. It is the grace that pods have by default:
/// the new pods of a rolling update take the room of those that they replace.
const ENDS_SOON: Seconds = Seconds(30);

/// Nodes that this plan buys for one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purchase {
    /// Number of nodes.
    pub nodes: u32,
    /// Number of them that only fill the pool up to its minimum.
    pub for_min: u32,
    /// Number of them that are not given up any more: those for the minimum, and those that an earlier round settled on.
    pub kept: u32,
    /// Pods planned onto them.
    pub pods: u32,
    /// Number of those that do not exist yet.
    pub anticipated: u32,
    /// Standby pods of buffers planned onto them.
    pub standby: u32,
    /// The buffer with the most of those.
    pub standby_of: Option<Arc<str>>,
    /// Pods of ProvisioningRequests planned onto them.
    pub requested: u32,
    /// The first of these requests.
    pub requested_by: Option<Arc<str>>,
    /// Names of some of the pods, sorted.
    pub examples: Vec<Arc<str>>,
    /// Index in the demand of the group of pods with the most pods here.
    pub largest: Option<(usize, u32)>,
}

/// Nodes bought so far, by pool and group.
pub type Purchases = BTreeMap<(Arc<str>, Arc<str>), Purchase>;

/// Template of each group's next node, by pool and group; `None` if it is unknown.
type Templates = BTreeMap<(Arc<str>, Arc<str>), Option<Arc<TemplateNode>>>;

/// One plan in the making.
#[derive(Debug)]
pub struct Context<'w> {
    /// State of the cluster.
    pub world: &'w World,
    /// Settings of users.
    pub config: &'w Config,
    /// Memory at the beginning of the plan.
    pub history: &'w History,
    /// The instant of the plan.
    pub now: UnixTime,
    /// Memory after the plan.
    pub next: History,
    /// Counts per pool and group.
    pub cluster: ClusterState<'w>,
    /// Nodes with what runs on them, and what is planned onto them so far.
    pub snapshot: Snapshot<'w>,
    /// Pods that want nodes; what has found a place is taken out of its group.
    pub demand: Demand,
    /// Nodes with room for pods that have no place, while nodes are bought for them.
    pub roomy: RoomyNodes,
    /// Standby pods of booked requests and of buffers that Apply pools left without a place, by class of each.
    pub standby_left: Vec<StandbyLeft>,
    /// Gangs that Apply pools left without room, each with the pods that it needs at once.
    pub gangs_left: Vec<(Vec<PodGroup>, u32)>,
    /// Classes of gangs that wait until the last of their nodes is ready.
    pub gangs_apart: BTreeSet<ClassIx>,
    /// Steps so far.
    pub steps: Vec<Step>,
    /// Reasons so far.
    pub reasons: Reasons,
    /// Time of the next plan.
    pub wake: Wake,
    /// Nodes whose soft taint is to change.
    pub candidate_taints: CandidateTaints,
    /// Nodes bought so far, by pool and group.
    pub purchases: Purchases,
    /// Capacity of upcoming nodes and of those bought so far, which no node of the world shows.
    pub unseen_capacity: Resources,
    /// Questions to the server of expander `Grpc`, and its answers.
    pub expander: Consultation,
    /// Pools and classes left out.
    pub quarantine: &'w Quarantine,
    /// Part of the plan in progress.
    pub part: &'w RefCell<Part>,
    /// Nodes in the snapshot that no node of the world is: those on their way, and those bought so far.
    pub planned: Vec<PlannedNode>,
    /// CapacityQuotas, and what of them registered nodes have.
    pub quotas: Vec<QuotaUse<'w>>,
    templates: Templates,
    daemons: Daemons,
    base: Mark,
    /// Nodes of the world that have not started, in order.
    starting: Vec<NodeIx>,
    /// Pods whose room counts as free since they end soon, each with its node.
    ending: Vec<(PodRef, NodeIx)>,
    /// Pods that want another place because the cloud is about to take their nodes.
    pub displaced: Vec<PodId>,
}

/// Standby pods that Apply pools left without a place.
#[derive(Clone, Debug)]
pub struct StandbyLeft {
    /// Pods of one class of one owner.
    pub group: PodGroup,
    /// True if nodes are bought for them.
    pub buys: bool,
}

/// A node of the snapshot that will come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedNode {
    /// The node.
    pub node: NodeIx,
    /// Its pool.
    pub pool: Arc<str>,
    /// Its group.
    pub group: Arc<str>,
    /// True if this plan buys it; else it has been asked for before.
    pub bought: bool,
}

/// The amounts with the devices that a new node of the group has and this one does not offer yet.
fn with_devices(mut known: Resources, all: &Resources) -> Resources {
    for (name, amount) in all.extended_iter() {
        if known.extended(name) == 0 {
            known.set_extended(name.clone(), amount);
        }
    }
    known
}

impl<'w> Context<'w> {
    /// Reads the world: settles what has come to its end, counts nodes, and adds those that are on their way.
    #[must_use]
    pub fn new(
        view: impl Into<View<'w>>,
        history: &'w History,
        config: &'w Config,
        now: UnixTime,
        quarantine: &'w Quarantine,
        part: &'w RefCell<Part>,
    ) -> Self {
        let view = view.into();
        let mut next = history.clone();
        let mut wake = Wake::new(now);
        let mut cluster = ClusterState::new(view, &next, config, now, &mut wake);
        if increase::settle(&mut next, &cluster, view, config, now) {
            wake = Wake::new(now);
            cluster = ClusterState::new(view, &next, config, now, &mut wake);
        }
        let snapshot = Snapshot::new(view.world);
        let mut ctx = Self {
            world: view.world,
            config,
            history,
            now,
            next,
            cluster,
            base: snapshot.checkpoint(),
            snapshot,
            demand: Demand::default(),
            roomy: RoomyNodes::default(),
            standby_left: Vec::new(),
            gangs_left: Vec::new(),
            gangs_apart: BTreeSet::new(),
            steps: Vec::new(),
            reasons: Reasons::default(),
            wake,
            candidate_taints: CandidateTaints::default(),
            purchases: BTreeMap::new(),
            unseen_capacity: Resources::default(),
            expander: Consultation::default(),
            quarantine,
            part,
            planned: Vec::new(),
            quotas: Vec::new(),
            templates: BTreeMap::new(),
            daemons: Daemons::default(),
            starting: Vec::new(),
            ending: Vec::new(),
            displaced: Vec::new(),
        };
        ctx.prepare_nodes();
        ctx.expect_drivers();
        ctx.drop_expendable();
        ctx.free_ending();
        ctx.free_interrupted();
        ctx.base = ctx.snapshot.checkpoint();
        ctx.add_planned_nodes();
        ctx
    }

    /// Names the part that is being worked on.
    pub fn working_on(&self, part: Part) {
        *self.part.borrow_mut() = part.clone();
        #[cfg(any(test, feature = "testing"))]
        headroom_pools::testing::break_at(&part);
    }

    /// The node that a group would add; `None` when nothing is known of its shape.
    pub fn template(&mut self, pool: &Arc<str>, group: &Arc<str>) -> Option<Arc<TemplateNode>> {
        let key = (pool.clone(), group.clone());
        if let Some(known) = self.templates.get(&key) {
            return known.clone();
        }
        let state = self.cluster.pools.get(pool)?;
        let memory = self.next.pools.get(pool);
        let node = template::template_node(state, group, &self.cluster, memory, self.world);
        let drivers = drivers::of_group(state, group, &self.cluster, self.world, self.now);
        let devices = devices::template::devices(state, group, &self.cluster, memory, self.world);
        let alike = template::started_nodes(state, group, &self.cluster, self.world, self.now);
        let made = node.map(|node| {
            template::with_daemon_sets(
                node,
                (drivers, devices),
                &alike,
                &mut self.daemons,
                &mut self.snapshot,
            )
        });
        self.templates.insert(key, made.clone());
        made
    }

    /// The template of a group, if this plan has asked for it and its shape is known.
    #[must_use]
    pub fn known_template(&self, pool: &Arc<str>, group: &Arc<str>) -> Option<&TemplateNode> {
        self.templates.get(&(pool.clone(), group.clone()))?.as_deref()
    }

    /// The template of a group of unknown shape, by another group of its pool: a pool's nodes are of one shape.
    ///
    /// After a restart the cloud may not have reported all templates: a node that was asked for takes pods all the same, and
    /// left out of account it would be bought once more. So would one that this plan buys for the pool's minimum. Labels with the other group's zone get this one's.
    fn shape_of_sibling(&mut self, pool: &Arc<str>, group: &Arc<str>) -> Option<Arc<TemplateNode>> {
        let groups = &self.cluster.pools.get(pool)?.groups;
        let zone =
            |id: &Arc<str>| groups.get(id).and_then(|group| group.state).and_then(|state| state.zone.clone());
        let own = zone(group);
        let others: Vec<(Arc<str>, Option<Arc<str>>)> =
            groups.keys().filter(|id| *id != group).map(|id| (id.clone(), zone(id))).collect();
        let (template, theirs) =
            others.into_iter().find_map(|(id, zone)| Some((self.template(pool, &id)?, zone)))?;
        let mut template = (*template).clone();
        let labels = &mut template.node.labels;
        let zonal = labels.shared().filter(|(_, value)| theirs.as_ref() == Some(*value));
        let zonal: Vec<Arc<str>> = zonal.map(|(key, _)| key.clone()).collect();
        for key in zonal {
            match &own {
                Some(own) => labels.insert(&*key, own.clone()),
                None => labels.remove(&key),
            };
        }
        labels.insert(GROUP_LABEL, group.clone());
        Some(Arc::new(template))
    }

    /// Nodes bought so far for a pool.
    #[must_use]
    pub fn purchased(&self, pool: &str) -> u32 {
        self.purchases.iter().filter(|((name, _), _)| &**name == pool).map(|(_, bought)| bought.nodes).sum()
    }

    /// Nodes bought so far for a group.
    #[must_use]
    pub fn purchased_of(&self, pool: &Arc<str>, group: &Arc<str>) -> u32 {
        self.purchases.get(&(pool.clone(), group.clone())).map_or(0, |purchase| purchase.nodes)
    }

    /// Number of groups of a pool for which nodes were bought so far.
    #[must_use]
    pub fn purchased_groups(&self, pool: &str) -> usize {
        self.purchases.iter().filter(|((name, _), bought)| &**name == pool && 0 < bought.nodes).count()
    }

    /// Nodes bought so far for all pools.
    #[must_use]
    pub fn purchased_total(&self) -> u32 {
        self.purchases.values().map(|bought| bought.nodes).sum()
    }

    /// Adds a node to the snapshot that will come; `None` when its shape is not known.
    pub fn add_planned(
        &mut self,
        pool: &Arc<str>,
        group: &Arc<str>,
        name: String,
        bought: bool,
    ) -> Option<NodeIx> {
        let template = match self.template(pool, group) {
            Some(template) => template,
            None => self.shape_of_sibling(pool, group)?,
        };
        self.unseen_capacity.add(&template.node.capacity);
        let node = self.snapshot.add_node(&template, name.into());
        self.planned.push(PlannedNode { node, pool: pool.clone(), group: group.clone(), bought });
        Some(node)
    }

    /// True if a node is on its way: asked for, bought by this plan, or registered and not started yet.
    #[must_use]
    pub fn is_coming(&self, node: NodeIx) -> bool {
        self.snapshot.real_count() <= node.0 as usize || self.starting.binary_search(&node).is_ok()
    }

    /// Takes all placements and added nodes back, and adds the nodes that are on their way or bought so far, in the
    /// order in which the next plan will see them.
    pub fn start_over(&mut self) {
        self.snapshot.rollback(self.base);
        self.planned.clear();
        self.unseen_capacity = Resources::default();
        self.add_planned_nodes();
    }

    /// Changes what is there, for good: also for every time that this plan starts over. Placements so far are taken back.
    pub fn change_base(&mut self, change: impl FnOnce(&mut Snapshot)) {
        self.snapshot.rollback(self.base);
        change(&mut self.snapshot);
        self.base = self.snapshot.checkpoint();
        self.start_over();
    }

    /// True if pods of this class were set aside.
    #[must_use]
    pub fn quarantined(&self, class: ClassIx) -> bool {
        let class = self.snapshot.class(class);
        self.quarantine.classes.iter().any(|other| other == class)
    }

    /// The plan as it stands.
    #[must_use]
    pub fn finish(mut self) -> Plan {
        let known = &self.history.pools;
        self.next.pools.retain(|name, memory| {
            known.contains_key(name) || *memory != headroom_cluster::history::PoolHistory::default()
        });
        // What status cannot hold may not be remembered either (design rule 2).
        for (name, memory) in &mut self.next.pools {
            let left_out = memory.fit();
            if 0 < left_out {
                self.reasons.left_out.insert(name.clone(), left_out);
            }
        }
        Plan {
            steps: self.steps,
            reasons: self.reasons,
            next_history: self.next,
            wake_at: self.wake.earliest(),
            candidate_taints: self.candidate_taints,
            question: self.expander.question,
            answers_used: self.expander.used,
        }
    }

    /// Starting nodes are looked at as they will be; leaving ones take no pods.
    fn prepare_nodes(&mut self) {
        let groups = || self.cluster.pools.values().flat_map(|pool| pool.groups.values());
        if groups().all(|group| group.leaving == 0 && group.not_started == 0) {
            return;
        }
        let mut starting = Vec::new();
        for (id, _, _) in self.world.digests() {
            let Some(member) = self.cluster.member(id) else { continue };
            let Some(ix) = self.snapshot.index_of(id) else { continue };
            match member.stage {
                Stage::Leaving => self.snapshot.set_presence(ix, Presence::Ghost),
                Stage::NotStarted => starting.push((ix, member.pool.clone(), member.group.clone())),
                Stage::Ready | Stage::Unready | Stage::Suspended => {}
            }
        }
        self.starting = starting.iter().map(|(ix, _, _)| *ix).collect();
        for (ix, pool_name, group) in starting {
            let Some(pool) = self.config.pool(&pool_name) else { continue };
            let view = self.snapshot.node(ix);
            let taints =
                view.taints().iter().filter(|taint| !template::is_passing(taint, pool)).cloned().collect();
            // A node that has just registered may not have reported its amounts yet.
            let (blank, known) = (view.allocatable().pods == 0, view.allocatable().clone());
            let devices = !blank && self.cluster.group_has_devices(&pool_name, &group);
            let publishes = self.cluster.publishes_devices;
            let template =
                if blank || devices || publishes { self.template(&pool_name, &group) } else { None };
            if let Some(expected) = template.as_ref().and_then(|template| template.devices.clone()) {
                self.expect_devices(ix, &expected);
            }
            let template = template.filter(|_| blank || devices);
            // Nor may its devices be there yet.
            let allocatable = template.map(|template| match &template.node.allocatable {
                all if blank => all.clone(),
                all => with_devices(known, all),
            });
            self.snapshot.expect_started(ix, taints, allocatable);
        }
    }

    /// Looks at a starting node as having the devices that its drivers have not published yet.
    fn expect_devices(&mut self, node: NodeIx, expected: &[Slice]) {
        let found = published::published(self.snapshot.node(node).name(), self.world);
        let counts = published::counts_of(expected);
        let missing: BTreeSet<&Arc<str>> = published::missing(&counts, &found).into_iter().collect();
        let slices = expected.iter().filter(|slice| missing.contains(&slice.spec.driver));
        let slices: Vec<Slice> = slices.cloned().collect();
        if !slices.is_empty() {
            self.snapshot.expect_devices(node, &slices);
        }
    }

    /// Nodes that registered a moment ago will get volume drivers and their labels: without this a pod whose volume asks for
    /// such a label, or for the driver, would be bought for twice. Until their drivers have said how many volumes they attach,
    /// they attach as many as others of their group, or as many as their pool declares.
    fn expect_drivers(&mut self) {
        if self.world.storage().volumes.is_empty() && self.world.storage().classes.is_empty() {
            return;
        }
        for limits in self.config.pools.iter().filter_map(|pool| pool.attach_limits.as_ref()) {
            self.snapshot.expect_limits(limits);
        }
        for (id, drivers) in drivers::awaited(&self.cluster, self.world, self.now) {
            if let Some(ix) = self.snapshot.index_of(id) {
                self.snapshot.expect_drivers(ix, drivers);
            }
        }
    }

    /// Takes pods off their nodes whose priority is under the cutoff: the scheduler evicts them for any other pod, so no
    /// node is bought because of them.
    ///
    /// Source: core/static_autoscaler.go, initializeClusterSnapshot: the snapshot holds non-expendable pods only.
    fn drop_expendable(&mut self) {
        let cutoff = self.config.cluster.expendable_pods_priority_cutoff;
        let mut expendable = Vec::new();
        // Unusual are priorities below zero only.
        let nodes: Vec<NodeId> = match cutoff {
            ..=0 => self.world.unusual_nodes().collect(),
            1.. => self.world.nodes().map(|(id, _, _)| id).collect(),
        };
        for id in nodes {
            let Some(node) = self.snapshot.index_of(id) else { continue };
            let under = |pod: &PodRef| self.snapshot.class(self.snapshot.class_of(*pod)).priority < cutoff;
            expendable.extend(self.snapshot.pods(node).filter(under).map(|pod| (pod, node)));
        }
        for (pod, node) in expendable {
            // The scheduler makes no devices free by preemption.
            self.snapshot.remove_without_devices(pod, node);
        }
    }

    /// Frees the room of pods whose grace is over, or will be soon: they are gone before a new node would be there.
    ///
    /// Differs from upstream, where they hold their room until they are gone. A pod that is still there
    /// [`TERMINATING_EXTRA`] after its grace holds its room again, since nobody knows when it ends.
    fn free_ending(&mut self) {
        let mut ending = Vec::new();
        // The kubelet of a node that is not ready ends no pod that anybody hears of.
        let heard = |id: &NodeId| self.world.digest(*id).ready == Readiness::Ready;
        for id in self.world.unusual_nodes().filter(heard) {
            let Some(node) = self.snapshot.index_of(id) else { continue };
            for pod in self.snapshot.pods(node) {
                let PodRef::Real(pod_id) = pod else { continue };
                let Some(over_at) = self.world.pod(pod_id).pod.deletion_at else { continue };
                let kept_at = over_at.plus(TERMINATING_EXTRA);
                if over_at <= self.now.plus(ENDS_SOON) && self.now < kept_at {
                    ending.push((pod, node));
                    self.wake.note(kept_at);
                }
            }
        }
        ending.retain(|(pod, node)| self.snapshot.remove(*pod, *node));
        self.ending = ending;
    }

    /// Takes pods off the nodes that their cloud is about to take: they want other places, and hold none there.
    fn free_interrupted(&mut self) {
        for id in self.cluster.interrupted.keys() {
            let Some(node) = self.snapshot.index_of(*id) else { continue };
            let mut pods = interruption::displaced(*id, self.world, self.config);
            pods.retain(|pod| self.snapshot.remove(PodRef::Real(*pod), node));
            self.displaced.extend(pods);
        }
    }

    /// Puts the pods of [`Context::free_ending`] back: nothing is drained to where they still are.
    pub fn keep_ending(&mut self) {
        for (pod, node) in std::mem::take(&mut self.ending) {
            self.snapshot.place(pod, node);
        }
    }

    fn add_planned_nodes(&mut self) {
        let mut coming = Vec::new();
        for (name, pool) in &self.cluster.pools {
            for (group, counts) in &pool.groups {
                let key = (name.clone(), group.clone());
                let bought = self.purchases.get(&key).map_or(0, |purchase| purchase.nodes);
                coming.push((key, counts.upcoming, bought));
            }
        }
        for ((pool, group), upcoming, bought) in coming {
            for index in 0..upcoming.saturating_add(bought) {
                let name = format!("upcoming-{pool}-{group}-{index}");
                self.add_planned(&pool, &group, name, upcoming <= index);
            }
        }
    }
}
