//! The world without ids, for comparing worlds. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::world::buffer::Standby;
use crate::world::capacity_quota::CapacityQuota;
use crate::world::devices::Devices;
use crate::world::digest::{Badge, NodeDigest};
use crate::world::gang::Gangs;
use crate::world::interner::InternedId;
use crate::world::listing::Listing;
use crate::world::node::Node;
use crate::world::pod::Pod;
use crate::world::provider::ProviderState;
use crate::world::request::Requests;
use crate::world::volume::{PriorityClass, Storage};
use crate::world::workload::{Controller, DaemonSet, DisruptionBudget};
use crate::world::{NodeId, PodId, World};
use headroom_values::known::Known;
use headroom_values::labels::{Labels, ObjectKey};
use headroom_values::resources::Resources;
use headroom_values::time::UnixTime;

/// A world without ids: see [`World::canonical`].
#[derive(Clone, Debug, PartialEq)]
pub struct Canonical {
    pods: Vec<Pod>,
    nodes: Vec<CanonicalNode>,
    unbound: Vec<ObjectKey>,
    owned: BTreeMap<Arc<str>, (u32, Option<UnixTime>)>,
    controllers: Vec<Controller>,
    daemon_sets: Vec<DaemonSet>,
    budgets: Vec<DisruptionBudget>,
    annotated: Vec<Arc<str>>,
    namespaces: BTreeMap<Arc<str>, Labels>,
    storage: Storage,
    priority_classes: BTreeMap<Arc<str>, PriorityClass>,
    standby: Option<Standby>,
    gangs: Gangs,
    requests: Requests,
    capacity_quotas: BTreeMap<Arc<str>, CapacityQuota>,
    devices: Devices,
    providers: BTreeMap<Arc<str>, Known<ProviderState>>,
    listings: Vec<CanonicalListing>,
    badges_count: usize,
    classes_count: usize,
}

/// A node's name, the node, the pods bound to it in order, the sum of their requests with how many are unusual and how
/// many are kept by class, and the node in short.
type CanonicalNode =
    (Arc<str>, Option<Node>, Vec<ObjectKey>, (Resources, u32, usize), (NodeDigest, Option<Badge>));

/// A pool, the nodes that its provider lists by id and by name with group and instance, and the ids of no node.
type CanonicalListing = (
    Arc<str>,
    BTreeSet<(Arc<str>, Arc<str>, Arc<str>)>,
    BTreeSet<(Arc<str>, Arc<str>, Arc<str>)>,
    BTreeSet<Arc<str>>,
);

impl World {
    /// The world as sorted plain values: equal for any two histories that end in the same objects.
    #[must_use]
    pub fn canonical(&self) -> Canonical {
        let mut pods: Vec<Pod> = self.pods.iter().flatten().map(|entry| entry.pod.clone()).collect();
        pods.sort_by(|a, b| a.key.cmp(&b.key));
        let nodes = self.node_ids.values().map(|id| {
            let entry = self.node(*id);
            let mut names: Vec<ObjectKey> =
                entry.pods.iter().map(|id| self.pod(*id).pod.key.clone()).collect();
            names.sort();
            let bound: usize = entry.pods.iter().filter(|pod| self.is_bound(**pod, *id)).count();
            let short = self.canonical_digest(*id);
            let load = (entry.requested.clone(), entry.unusual_count, bound);
            (entry.name.clone(), entry.node.clone(), names, load, short)
        });
        let of_owner = |(uid, count): (&Arc<str>, u32)| (uid.clone(), (count, self.youngest_pod_of(uid)));
        let owned = self.owned.active().map(of_owner).collect();
        Canonical {
            pods,
            nodes: nodes.collect(),
            unbound: self.unbound.keys().cloned().collect(),
            owned,
            controllers: self.controllers.values().cloned().collect(),
            daemon_sets: self.daemon_sets.values().cloned().collect(),
            budgets: self.budgets.values().cloned().collect(),
            annotated: self.annotated.keys().cloned().collect(),
            namespaces: self.namespaces.clone(),
            storage: self.storage.clone(),
            priority_classes: self.priority_classes.clone(),
            standby: self.standby.referred_to(),
            gangs: self.gangs.clone(),
            requests: self.requests.clone(),
            capacity_quotas: self.capacity_quotas.clone(),
            devices: self.devices.clone(),
            providers: self.providers.clone(),
            listings: self
                .listings
                .iter()
                .map(|(pool, listing)| self.canonical_listing(pool, listing))
                .collect(),
            badges_count: self.badges.len(),
            classes_count: self.classes.len(),
        }
    }

    /// A node's digest, and its badge in place of the id.
    fn canonical_digest(&self, id: NodeId) -> (NodeDigest, Option<Badge>) {
        let digest = self.digests[id.0 as usize];
        let badge = digest.delivered.then(|| Badge::clone(self.badges.get(digest.badge)));
        (NodeDigest { badge: InternedId::default(), ..digest }, badge)
    }

    fn canonical_listing(&self, pool: &Arc<str>, listing: &Listing) -> CanonicalListing {
        let named = |nodes: Vec<(NodeId, &Arc<str>, &Arc<str>)>| {
            let named = nodes.into_iter().map(|(node, group, instance)| {
                (self.node(node).name.clone(), group.clone(), instance.clone())
            });
            named.collect::<BTreeSet<_>>()
        };
        let (by_id, by_name) = (named(listing.by_id().collect()), named(listing.by_name().collect()));
        (pool.clone(), by_id, by_name, listing.unseen().clone())
    }

    /// True if a pod stands where the bound pods of its class are kept.
    fn is_bound(&self, pod: PodId, node: NodeId) -> bool {
        let entry = self.pod(pod);
        let kept = self.bound_pods(entry.class).get(entry.position as usize);
        kept == Some(&pod) && entry.node == Some(node)
    }
}
