//! Changes of the world by an object that was applied or deleted, with all sums kept up to date.

use std::ops::Bound;
use std::sync::Arc;

use super::digest::{Amounts, Badge, NodeDigest};
use super::interner::InternedId;
use super::listing::Listing;
use super::node::Node;
use super::pod::Pod;
use super::provider::ProviderState;
use super::volume::{AttachLimits, CsiDriver};
use super::{Delta, Kind, NodeEntry, NodeId, PodEntry, PodId, Sweep, World};
use headroom_values::known::Known;
use headroom_values::labels::ObjectKey;
use headroom_values::resources::Resources;

impl World {
    /// Applies one change. Any order and repetition of changes that ends in the same objects gives the same world.
    pub fn apply(&mut self, delta: Delta) {
        self.revision += 1;
        self.note_seen(&delta);
        match delta {
            Delta::PodApplied(pod) => self.apply_pod(*pod),
            Delta::PodDeleted(key) => self.delete_pod(&key),
            Delta::NodeApplied(node) => self.apply_node(*node),
            Delta::NodeDeleted(name) => self.delete_node(&name),
            Delta::ControllerApplied(controller) => {
                self.controllers.insert((controller.kind, controller.key.clone()), *controller);
            }
            Delta::ControllerDeleted(kind, key) => {
                self.controllers.remove(&(kind, key));
            }
            Delta::DaemonSetApplied(set) => {
                self.daemon_sets.insert(set.key.clone(), *set);
            }
            Delta::DaemonSetDeleted(key) => {
                self.daemon_sets.remove(&key);
            }
            Delta::BudgetApplied(budget) => {
                self.budgets.insert(budget.key.clone(), *budget);
            }
            Delta::BudgetDeleted(key) => {
                self.budgets.remove(&key);
            }
            Delta::NamespaceApplied(name, labels) => {
                self.namespaces.insert(name, labels);
            }
            Delta::NamespaceDeleted(name) => {
                self.namespaces.remove(&name);
            }
            Delta::ClaimApplied(claim) => {
                self.storage.claims.insert(claim.key.clone(), *claim);
            }
            Delta::ClaimDeleted(key) => {
                self.storage.claims.remove(&key);
            }
            Delta::VolumeApplied(volume) => {
                self.storage.volumes.insert(volume.name.clone(), *volume);
            }
            Delta::VolumeDeleted(name) => {
                self.storage.volumes.remove(&name);
            }
            Delta::StorageClassApplied(class) => {
                self.storage.classes.insert(class.name.clone(), *class);
            }
            Delta::StorageClassDeleted(name) => {
                self.storage.classes.remove(&name);
            }
            Delta::CsiNodeApplied(node, limits) => self.apply_csi_node(node, limits),
            Delta::CsiNodeDeleted(node) => {
                self.storage.attach_limits.remove(&node);
            }
            Delta::CsiDriverApplied(name, driver) => self.apply_csi_driver(&name, driver),
            Delta::CsiDriverDeleted(name) => self.apply_csi_driver(&name, CsiDriver::default()),
            Delta::StorageCapacityApplied(capacity) => {
                self.storage.capacities.insert(capacity.key.clone(), *capacity);
            }
            Delta::StorageCapacityDeleted(key) => {
                self.storage.capacities.remove(&key);
            }
            Delta::AttachmentApplied(attachment) => self.storage.attachments.insert(*attachment),
            Delta::AttachmentDeleted(name) => self.storage.attachments.remove(&name),
            Delta::PriorityClassApplied(name, class) => {
                self.priority_classes.insert(name, class);
            }
            Delta::PriorityClassDeleted(name) => {
                self.priority_classes.remove(&name);
            }
            Delta::BufferApplied(buffer) => {
                self.standby.buffers.insert(buffer.key.clone(), *buffer);
            }
            Delta::BufferDeleted(key) => {
                self.standby.buffers.remove(&key);
            }
            Delta::PodTemplateApplied(template) => {
                self.standby.templates.insert(template.key.clone(), *template);
            }
            Delta::PodTemplateDeleted(key) => {
                self.standby.templates.remove(&key);
            }
            Delta::DeploymentApplied(template) => {
                self.standby.deployments.insert(template.key.clone(), *template);
            }
            Delta::DeploymentDeleted(key) => {
                self.standby.deployments.remove(&key);
            }
            Delta::QuotaApplied(quota) => {
                self.standby.quotas.insert(quota.key.clone(), *quota);
            }
            Delta::QuotaDeleted(key) => {
                self.standby.quotas.remove(&key);
            }
            Delta::RequestApplied(request) => {
                self.requests.objects.insert(request.key.clone(), *request);
            }
            Delta::RequestDeleted(key) => {
                self.requests.objects.remove(&key);
            }
            Delta::RequestsOfOthers(keys) => self.requests.of_others = keys,
            Delta::ExpanderAnswered(answers) => self.expander = *answers,
            Delta::BuffersOfOthers(keys) => self.standby.of_others = keys,
            Delta::CapacityQuotaApplied(quota) => {
                self.capacity_quotas.insert(quota.name.clone(), *quota);
            }
            Delta::CapacityQuotaDeleted(name) => {
                self.capacity_quotas.remove(&name);
            }
            Delta::GangApplied(gang) => {
                self.gangs.served.insert(gang.kind);
                self.gangs.objects.insert((gang.kind, gang.key.clone()), *gang);
            }
            Delta::GangDeleted(kind, key) => {
                self.gangs.objects.remove(&(kind, key));
            }
            Delta::GangKindMissing(kind) => {
                self.gangs.served.remove(&kind);
                self.gangs.objects.retain(|(other, _), _| *other != kind);
            }
            Delta::DeviceApplied(object) => self.devices.apply(*object),
            Delta::DeviceDeleted(kind, key) => self.devices.delete(kind, &key),
            Delta::DeviceKindMissing(kind) => self.devices.missing(kind),
            Delta::ProviderObserved(pool, state) => {
                self.observe_provider(pool, state);
            }
            Delta::ProviderForgotten(pool) => {
                self.providers.remove(&pool);
                self.listings.remove(&pool);
            }
            Delta::ListStarted(kind) => {
                self.sweeps.insert(kind, Sweep::default());
            }
            Delta::ListEnded(kind) => self.sweep(kind),
        }
    }

    fn apply_pod(&mut self, mut pod: Pod) {
        self.delete_pod(&pod.key);
        let class = self.classes.acquire(&pod.class);
        pod.class = self.classes.get(class).clone();
        if let Some(owner) = &pod.owner {
            let id = self.owners.acquire(owner);
            pod.owner = Some(self.owners.get(id).clone());
        }
        let id = self.free_pods.pop().unwrap_or_else(|| {
            self.pods.push(None);
            PodId(u32::try_from(self.pods.len() - 1).expect("fewer than 2^32 pods fit in memory"))
        });
        self.pod_ids.insert(pod.key.clone(), id);
        self.owned.add(&pod);
        let node = pod.node.as_ref().map(|name| self.node_slot(name));
        let mut position = 0;
        if let Some(node) = node {
            let of = |id: PodId| self.pods[id.0 as usize].as_ref().map(|entry| &entry.pod.key);
            let place = self.node(node).pods.partition_point(|other| of(*other) < Some(&pod.key));
            let entry = self.node_mut(node);
            entry.pods.insert(place, id);
            if !pod.phase.finished() {
                entry.requested.add(&pod.class.requests);
                entry.unusual_count += u32::from(unusual(&pod));
                self.load_changed(node);
            }
            if self.bound.len() <= class.0 as usize {
                self.bound.resize(class.0 as usize + 1, Vec::new());
            }
            let bound = &mut self.bound[class.0 as usize];
            position = u32::try_from(bound.len()).expect("fewer than 2^32 pods fit in memory");
            bound.push(id);
        } else {
            self.unbound.insert(pod.key.clone(), id);
        }
        self.pods[id.0 as usize] = Some(PodEntry { pod, class, node, position });
    }

    fn delete_pod(&mut self, key: &ObjectKey) {
        let Some(id) = self.pod_ids.remove(key) else { return };
        let Some(PodEntry { pod, class, node, position }) = self.pods[id.0 as usize].take() else { return };
        self.free_pods.push(id);
        self.unbound.remove(key);
        self.owned.remove(&pod);
        if let Some(owner) = &pod.owner {
            let owner_id = self.owners.acquire(owner);
            self.owners.release(owner_id);
            self.owners.release(owner_id);
        }
        if let Some(node) = node {
            let entry = self.node_mut(node);
            entry.pods.retain(|other| *other != id);
            if !pod.phase.finished() {
                entry.requested.subtract(&pod.class.requests);
                entry.unusual_count -= u32::from(unusual(&pod));
                self.load_changed(node);
            }
            self.unbind(class, position);
            self.drop_node_if_unused(node);
        }
        self.classes.release(class);
    }

    /// Takes the pod at this place off the bound pods of its class; the last one takes the place.
    fn unbind(&mut self, class: InternedId, position: u32) {
        let bound = &mut self.bound[class.0 as usize];
        bound.swap_remove(position as usize);
        let moved = bound.get(position as usize).copied();
        if bound.is_empty() {
            *bound = Vec::new();
        }
        if let Some(entry) = moved.and_then(|id| self.pods[id.0 as usize].as_mut()) {
            entry.position = position;
        }
    }

    /// Writes down in short what the pods of a node ask for.
    fn load_changed(&mut self, id: NodeId) {
        let (requested, unusual_count) = {
            let entry = self.node(id);
            (Amounts::of(&entry.requested), entry.unusual_count)
        };
        let digest = &mut self.digests[id.0 as usize];
        digest.requested = requested;
        digest.unusual_count = unusual_count;
    }

    fn apply_node(&mut self, node: Node) {
        let id = self.node_slot(&node.name);
        if node.is_annotated() {
            self.annotated.insert(node.name.clone(), id);
        } else {
            self.annotated.remove(&node.name);
        }
        if node.candidate {
            self.candidates.insert(node.name.clone(), id);
        } else {
            self.candidates.remove(&node.name);
        }
        let badge = self.badges.acquire(&Arc::new(Badge::of(&node)));
        let before = self.digests[id.0 as usize];
        self.digests[id.0 as usize].take(&node, badge);
        let name = node.name.clone();
        let provider_id = node.provider_id.clone();
        let known = self.node_mut(id).node.replace(node);
        if before.delivered {
            self.badges.release(before.badge);
        }
        if known.as_ref().is_none_or(|known| known.provider_id != provider_id) {
            self.unlist(id, known.as_ref());
            self.list(id, &name, provider_id);
        }
    }

    /// A delivered node shows up in the listings of providers.
    fn list(&mut self, id: NodeId, name: &str, provider_id: Arc<str>) {
        for (pool, listing) in &mut self.listings {
            if let Some(state) = self.providers.get(pool).and_then(Known::value) {
                listing.node_came(id, name, &provider_id, state);
            }
        }
        if !provider_id.is_empty() {
            self.provider_ids.insert((provider_id.clone(), id));
            self.note_carriers(&provider_id);
        }
    }

    /// Takes a node out of the listings of providers.
    fn unlist(&mut self, id: NodeId, known: Option<&Node>) {
        let Some(known) = known else { return };
        self.provider_ids.remove(&(known.provider_id.clone(), id));
        self.twins.remove(&id);
        self.note_carriers(&known.provider_id);
        self.listings.values_mut().for_each(|listing| listing.node_went(id, &self.provider_ids));
    }

    fn observe_provider(&mut self, pool: Arc<str>, state: Known<ProviderState>) {
        let same = |before: &ProviderState, now: &ProviderState| {
            let instances = |state: &ProviderState| state.groups.len();
            instances(before) == instances(now)
                && before
                    .groups
                    .iter()
                    .zip(&now.groups)
                    .all(|((id, before), (other, now))| id == other && before.instances == now.instances)
        };
        match &state {
            Known::Unknown { .. } => {
                self.listings.remove(&pool);
            }
            Known::Known { value, at } => {
                let before = self.providers.get(&pool).and_then(Known::value);
                if !before.is_some_and(|before| same(before, value)) || !self.listings.contains_key(&pool) {
                    let named = |name: &str| self.node_named(name).map(|(id, _, _)| id);
                    let mut listing = Listing::new(value, &self.provider_ids, named);
                    self.listings.remove(&pool).into_iter().for_each(|before| listing.remember(before));
                    self.listings.insert(pool.clone(), listing);
                }
                self.listings.get_mut(&pool).into_iter().for_each(|listing| listing.read(*at));
            }
        }
        self.providers.insert(pool, state);
    }

    /// Nodes of one shape have equal limits: each set of limits is stored once for neighbours in order of names.
    fn apply_csi_node(&mut self, node: Arc<str>, limits: AttachLimits) {
        if limits.is_empty() {
            self.storage.attach_limits.remove(&node);
            return;
        }
        let before = (Bound::Unbounded, Bound::Excluded(&*node));
        let known = self.storage.attach_limits.range::<str, _>(before).next_back();
        let shared = known.map(|(_, known)| known).filter(|known| ***known == limits).cloned();
        self.storage.attach_limits.insert(node, shared.unwrap_or_else(|| Arc::new(limits)));
    }

    /// Drivers of which nothing is asked are not kept.
    fn apply_csi_driver(&mut self, name: &Arc<str>, driver: CsiDriver) {
        let CsiDriver { reports_capacity, required } = driver;
        let storage = &mut self.storage;
        for (drivers, belongs) in
            [(&mut storage.reporting_drivers, reports_capacity), (&mut storage.required_drivers, required)]
        {
            if belongs {
                drivers.insert(name.clone());
            } else {
                drivers.remove(name);
            }
        }
    }

    fn delete_node(&mut self, name: &str) {
        let Some(&id) = self.node_ids.get(name) else { return };
        self.annotated.remove(name);
        self.candidates.remove(name);
        let known = self.node_mut(id).node.take();
        if known.is_some() {
            let digest = &mut self.digests[id.0 as usize];
            let NodeDigest { badge, requested, unusual_count, .. } = *digest;
            *digest = NodeDigest { requested, unusual_count, ..NodeDigest::default() };
            self.badges.release(badge);
        }
        self.unlist(id, known.as_ref());
        self.drop_node_if_unused(id);
    }

    /// The slot of the node of this name, made if it is not there.
    fn node_slot(&mut self, name: &Arc<str>) -> NodeId {
        if let Some(&id) = self.node_ids.get(name) {
            return id;
        }
        let id = self.free_nodes.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.digests.push(NodeDigest::default());
            NodeId(u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 nodes fit in memory"))
        });
        self.digests[id.0 as usize] = NodeDigest::default();
        self.nodes[id.0 as usize] = Some(NodeEntry {
            name: name.clone(),
            node: None,
            pods: Vec::new(),
            requested: Resources::default(),
            unusual_count: 0,
        });
        self.node_ids.insert(name.clone(), id);
        self.node_order.take();
        self.node_names.set(id, name);
        id
    }

    fn node_mut(&mut self, id: NodeId) -> &mut NodeEntry {
        self.nodes[id.0 as usize].as_mut().expect("a live node id has an entry")
    }

    fn drop_node_if_unused(&mut self, id: NodeId) {
        let entry = self.node(id);
        if entry.node.is_none() && entry.pods.is_empty() {
            let name = entry.name.clone();
            self.node_ids.remove(&name);
            self.node_order.take();
            self.nodes[id.0 as usize] = None;
            self.free_nodes.push(id);
        }
    }

    /// Remembers an applied object's key while a full list of its kind is being delivered.
    fn note_seen(&mut self, delta: &Delta) {
        if self.sweeps.is_empty() {
            return;
        }
        let (kind, key) = match delta {
            Delta::PodApplied(pod) => (Kind::Pod, pod.key.clone()),
            Delta::NodeApplied(node) => (Kind::Node, cluster_key(&node.name)),
            Delta::ControllerApplied(controller) => {
                (Kind::Controller(controller.kind), controller.key.clone())
            }
            Delta::DaemonSetApplied(set) => (Kind::DaemonSet, set.key.clone()),
            Delta::BudgetApplied(budget) => (Kind::Budget, budget.key.clone()),
            Delta::NamespaceApplied(name, _) => (Kind::Namespace, cluster_key(name)),
            Delta::ClaimApplied(claim) => (Kind::Claim, claim.key.clone()),
            Delta::VolumeApplied(volume) => (Kind::Volume, cluster_key(&volume.name)),
            Delta::StorageClassApplied(class) => (Kind::StorageClass, cluster_key(&class.name)),
            Delta::CsiNodeApplied(node, _) => (Kind::CsiNode, cluster_key(node)),
            Delta::CsiDriverApplied(name, _) => (Kind::CsiDriver, cluster_key(name)),
            Delta::StorageCapacityApplied(capacity) => (Kind::StorageCapacity, capacity.key.clone()),
            Delta::AttachmentApplied(attachment) => (Kind::Attachment, cluster_key(&attachment.name)),
            Delta::PriorityClassApplied(name, _) => (Kind::PriorityClass, cluster_key(name)),
            Delta::BufferApplied(buffer) => (Kind::Buffer, buffer.key.clone()),
            Delta::PodTemplateApplied(template) => (Kind::PodTemplate, template.key.clone()),
            Delta::DeploymentApplied(template) => (Kind::Deployment, template.key.clone()),
            Delta::QuotaApplied(quota) => (Kind::Quota, quota.key.clone()),
            Delta::RequestApplied(request) => (Kind::Request, request.key.clone()),
            Delta::CapacityQuotaApplied(quota) => (Kind::CapacityQuota, cluster_key(&quota.name)),
            Delta::GangApplied(gang) => (Kind::Gang(gang.kind), gang.key.clone()),
            Delta::DeviceApplied(object) => {
                let (kind, key) = object.place();
                (Kind::Device(kind), key)
            }
            _ => return,
        };
        if let Some(sweep) = self.sweeps.get_mut(&kind) {
            sweep.seen.insert(key);
        }
    }

    /// Deletes what the full list of `kind` did not name.
    fn sweep(&mut self, kind: Kind) {
        let Some(Sweep { seen }) = self.sweeps.remove(&kind) else { return };
        let gone = |key: &ObjectKey| !seen.contains(key);
        match kind {
            Kind::Pod => {
                let mut keys: Vec<ObjectKey> = self.pod_ids.keys().filter(|key| gone(key)).cloned().collect();
                keys.sort();
                keys.iter().for_each(|key| self.delete_pod(key));
            }
            Kind::Node => {
                let names: Vec<Arc<str>> =
                    self.node_ids.keys().filter(|name| gone(&cluster_key(name))).cloned().collect();
                names.iter().for_each(|name| self.delete_node(name));
            }
            Kind::Controller(kind) => self.controllers.retain(|(k, key), _| *k != kind || !gone(key)),
            Kind::DaemonSet => self.daemon_sets.retain(|key, _| !gone(key)),
            Kind::Budget => self.budgets.retain(|key, _| !gone(key)),
            Kind::Namespace => self.namespaces.retain(|name, _| !gone(&cluster_key(name))),
            Kind::Claim => self.storage.claims.retain(|key, _| !gone(key)),
            Kind::Volume => self.storage.volumes.retain(|name, _| !gone(&cluster_key(name))),
            Kind::StorageClass => self.storage.classes.retain(|name, _| !gone(&cluster_key(name))),
            Kind::CsiNode => self.storage.attach_limits.retain(|name, _| !gone(&cluster_key(name))),
            Kind::CsiDriver => {
                self.storage.reporting_drivers.retain(|name| !gone(&cluster_key(name)));
                self.storage.required_drivers.retain(|name| !gone(&cluster_key(name)));
            }
            Kind::StorageCapacity => self.storage.capacities.retain(|key, _| !gone(key)),
            Kind::Attachment => self.storage.attachments.retain(|name| !gone(&cluster_key(name))),
            Kind::PriorityClass => self.priority_classes.retain(|name, _| !gone(&cluster_key(name))),
            Kind::Buffer => self.standby.buffers.retain(|key, _| !gone(key)),
            Kind::PodTemplate => self.standby.templates.retain(|key, _| !gone(key)),
            Kind::Deployment => self.standby.deployments.retain(|key, _| !gone(key)),
            Kind::Quota => self.standby.quotas.retain(|key, _| !gone(key)),
            Kind::Request => self.requests.objects.retain(|key, _| !gone(key)),
            Kind::CapacityQuota => self.capacity_quotas.retain(|name, _| !gone(&cluster_key(name))),
            Kind::Device(kind) => self.devices.retain(kind, |key| !gone(key)),
            Kind::Gang(kind) => {
                self.gangs.served.insert(kind);
                self.gangs.objects.retain(|(other, key), _| *other != kind || !gone(key));
            }
        }
    }
}

/// True if a measurement may leave this pod out although its node's sum counts it.
fn unusual(pod: &Pod) -> bool {
    pod.deletion_at.is_some() || pod.class.priority < 0
}

/// The key of a cluster-scoped object.
fn cluster_key(name: &Arc<str>) -> ObjectKey {
    ObjectKey::new("", &**name)
}
