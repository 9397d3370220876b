//! The group of each node: by its labels, or else by the instance that its provider lists; and the nodes of each group
//! while they are counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Pool;
use crate::devices::published;
use crate::state::cluster_state::{PoolState, Stage};
use crate::state::template;
use crate::wake::Wake;
use headroom_cluster::history::LearnedDevices;
use headroom_cluster::world::digest::{Badge, NodeDigest};
use headroom_cluster::world::node::Node;
use headroom_cluster::world::provider::TemplateTrust;
use headroom_cluster::world::template::NodeTemplate;
use headroom_cluster::world::{NodeId, World};
use headroom_values::known::Known;
use headroom_values::time::UnixTime;

/// The nodes of one group while they are counted.
pub(super) struct Kin<'w> {
    pub(super) pool: Arc<str>,
    pub(super) group: Arc<str>,
    pub(super) spec: &'w Pool,
    /// The provider's template, if it has devices.
    pub(super) devices: Option<&'w NodeTemplate>,
    pub(super) nodes: Vec<(NodeId, Stage)>,
    /// Nodes that the cloud is about to take and still counts.
    pub(super) interrupted: u32,
}

impl Kin<'_> {
    /// Takes young nodes whose drivers have not published all devices for starting ones.
    pub(super) fn await_devices(
        &mut self,
        world: &World,
        remembered: Option<&LearnedDevices>,
        now: UnixTime,
        wake: &mut Wake,
    ) {
        let name = |id: &NodeId| &*world.node(*id).name;
        let ready = self.nodes.iter().filter(|(_, stage)| *stage == Stage::Ready);
        let expected = published::expected(self.spec, ready.map(|(id, _)| name(id)), remembered, world);
        if expected.is_empty() {
            return;
        }
        for (id, stage) in self.nodes.iter_mut().filter(|(_, stage)| *stage == Stage::Ready) {
            let started_by = world.digest(*id).created_at.plus(self.spec.scale_up.startup_timeout);
            if now < started_by
                && !published::missing(&expected, &published::published(name(id), world)).is_empty()
            {
                wake.note(started_by);
                *stage = Stage::NotStarted;
            }
        }
    }

    /// True if the driver of the node's devices may still be starting: it offers none, and it is young.
    ///
    /// Source: processors/customresources/gpu_processor.go, FilterOutNodesWithUnreadyResources.
    pub(super) fn lacks_devices(&self, node: &Node, now: UnixTime, wake: &mut Wake) -> bool {
        let started_by = node.created_at.plus(self.spec.scale_up.startup_timeout);
        let lacks = self.devices.is_some_and(|said| !template::has_devices(&node.allocatable, said))
            && now < started_by;
        if lacks {
            wake.note(started_by);
        }
        lacks
    }
}

/// Group of each node: by its labels, or else by its instance.
pub(super) struct Owners<'w> {
    pub(super) kins: Vec<Kin<'w>>,
    /// By badge: what it claims; made when a node first shows it.
    claims: Vec<Option<Claim>>,
    /// By node: the group that lists its instance; made when labels do not name it.
    listed: Option<Vec<Option<usize>>>,
    world: &'w World,
    specs: BTreeMap<Arc<str>, (&'w Pool, Vec<Arc<str>>)>,
}

/// The group of a node, as far as a badge names it.
#[derive(Clone)]
enum Claim {
    /// It names the group.
    Named(usize),
    /// It names the pool: the group is that of the instance, if the pool lists it, or else the group without a name.
    Pool(usize),
    /// It names nothing: the instance decides.
    Silent,
}

impl<'w> Owners<'w> {
    pub(super) fn new(world: &'w World, pools: &BTreeMap<Arc<str>, PoolState<'w>>) -> Self {
        let spec = |(name, state): (&Arc<str>, &PoolState<'w>)| {
            (name.clone(), (state.pool, state.groups.keys().cloned().collect()))
        };
        let specs = pools.iter().map(spec).collect();
        Self { kins: Vec::new(), claims: vec![None; world.badges().capacity()], listed: None, world, specs }
    }

    /// The index of the node's group; `None` for a node of no pool.
    pub(super) fn of(&mut self, id: NodeId, digest: &NodeDigest) -> Option<usize> {
        let badge = digest.badge.0 as usize;
        let claim = match &self.claims[badge] {
            Some(claim) => claim.clone(),
            None => {
                let claim = self.claim(&self.world.badges().get(digest.badge).clone());
                self.claims[badge] = Some(claim.clone());
                claim
            }
        };
        match claim {
            Claim::Named(kin) => Some(kin),
            Claim::Pool(unnamed) => {
                let listed = self.listed(id);
                listed.filter(|kin| self.kins[*kin].pool == self.kins[unnamed].pool).or(Some(unnamed))
            }
            Claim::Silent => self.listed(id),
        }
    }

    fn claim(&mut self, badge: &Badge) -> Claim {
        let known = badge.pool.as_ref().and_then(|pool| self.specs.get_key_value(pool));
        let Some((pool, (_, groups))) = known else { return Claim::Silent };
        let pool = pool.clone();
        match &badge.group {
            Some(group) => {
                let group = groups.iter().find(|known| *known == group).unwrap_or(group).clone();
                Claim::Named(self.kin(&pool, &group))
            }
            None => Claim::Pool(self.kin(&pool, &Arc::from(""))),
        }
    }

    fn listed(&mut self, id: NodeId) -> Option<usize> {
        let listed = match self.listed.take() {
            Some(listed) => listed,
            None => self.list(),
        };
        let found = listed[id.0 as usize];
        self.listed = Some(listed);
        found
    }

    /// The group of each listed node; of two pools that list one, the first by name. A node whose id is not known yet, or is
    /// written otherwise, is its pool's by the name that the provider gives its instance.
    fn list(&mut self) -> Vec<Option<usize>> {
        let mut listed = vec![None; self.world.node_capacity()];
        let pools: Vec<Arc<str>> = self.specs.keys().rev().cloned().collect();
        let world = self.world;
        // The last entry counts.
        for pool in &pools {
            world.listing(pool).into_iter().for_each(|found| self.enter(pool, found.by_name(), &mut listed));
        }
        for pool in &pools {
            world.listing(pool).into_iter().for_each(|found| self.enter(pool, found.by_id(), &mut listed));
        }
        listed
    }

    fn enter<'n>(
        &mut self,
        pool: &Arc<str>,
        found: impl Iterator<Item = (NodeId, &'n Arc<str>, &'n Arc<str>)>,
        listed: &mut [Option<usize>],
    ) {
        let mut last: Option<(&Arc<str>, usize)> = None;
        for (node, group, _) in found {
            let kin = match last {
                Some((known, kin)) if Arc::ptr_eq(known, group) => kin,
                _ => self.kin(pool, group),
            };
            last = Some((group, kin));
            listed[node.0 as usize] = Some(kin);
        }
    }

    /// The template of a group whose nodes have devices, as its provider reports it. Where machines differ nothing is
    /// expected.
    fn devices(&self, pool: &Arc<str>, group: &str) -> Option<&'w NodeTemplate> {
        let state = self.world.provider(pool).and_then(Known::value)?.groups.get(group)?;
        let said = state.template.as_deref().filter(|said| said.trust == TemplateTrust::Estimate)?;
        said.node.allocatable.extended_iter().any(|(_, amount)| 0 < amount).then_some(&said.node)
    }

    /// The index of a group of a known pool.
    fn kin(&mut self, pool: &Arc<str>, group: &Arc<str>) -> usize {
        if let Some(known) = self.kins.iter().position(|kin| kin.pool == *pool && kin.group == *group) {
            return known;
        }
        let spec = self.specs[pool].0;
        let devices = self.devices(pool, group);
        self.kins.push(Kin {
            pool: pool.clone(),
            group: group.clone(),
            spec,
            devices,
            nodes: Vec::new(),
            interrupted: 0,
        });
        self.kins.len() - 1
    }
}
