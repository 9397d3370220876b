//! Changes that the watches have delivered and the loop has not yet taken: one entry an object, and the urgency with
//! which the loop is woken.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use headroom_core::labels::ObjectKey;
use headroom_core::world::buffer::Template;
use headroom_core::world::node::Node;
use headroom_core::world::pod::Pod;
use headroom_core::world::workload::{Controller, DaemonSet, DisruptionBudget};
use headroom_core::world::{Delta, Kind};

/// So many waiting changes wake the loop whatever they are: a first list is taken in pieces, not as a heap of hundreds
/// of megabytes.
pub const RING_AT: usize = 10_000;

/// Changes in order, at most one an object; a newer change of the same object takes the place of the older one at the
/// end of the queue, so that the marks of a running list stay right.
#[derive(Debug, Default)]
pub struct Queue {
    slots: Vec<Option<Delta>>,
    places: FxHashMap<(Kind, ObjectKey), usize>,
    vacant_count: usize,
    contents: FxHashMap<Kind, Contents>,
}

/// Memory of a kind's objects that distinguishes a change from a heartbeat.
#[derive(Debug, Default)]
struct Contents {
    listing: bool,
    hashes: FxHashMap<ObjectKey, u64>,
}

/// True if the loop should be woken at once, or the change can wait for the next tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Something that may lead to a decision: a pod nobody can place, a pod gone, a node or controller changed.
    AtOnce,
    /// Nothing that a decision waits for: a pod bound or started, labels of a namespace.
    NextTick,
    /// Nothing has changed that decisions read; it was not queued.
    Nothing,
}

impl Queue {
    /// Takes a change in. Unchanged objects (a node's heartbeat) are dropped, except while their kind is being listed:
    /// the list must name them.
    pub fn push(&mut self, delta: Delta) -> Urgency {
        let urgency = urgency(&delta);
        if self.note(&delta) {
            return Urgency::Nothing;
        }
        if let Some(place) = place(&delta)
            && let Some(index) = self.places.insert(place, self.slots.len())
        {
            self.slots[index] = None;
            self.vacant_count += 1;
        }
        self.slots.push(Some(delta));
        if self.vacant_count > 1024 && self.vacant_count * 2 > self.slots.len() {
            self.compact();
        }
        if self.len() >= RING_AT { Urgency::AtOnce } else { urgency }
    }

    /// Everything that waits, oldest first; the queue is empty afterwards.
    pub fn take(&mut self) -> Vec<Delta> {
        self.places.clear();
        self.places.shrink_to(RING_AT);
        self.vacant_count = 0;
        mem::take(&mut self.slots).into_iter().flatten().collect()
    }

    /// Number of changes that wait.
    pub fn len(&self) -> usize {
        self.slots.len() - self.vacant_count
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Remembers what the object looks like now; whether it looks exactly as before and need not be queued.
    fn note(&mut self, delta: &Delta) -> bool {
        match delta {
            Delta::ListStarted(kind) => {
                self.contents.insert(*kind, Contents { listing: true, hashes: FxHashMap::default() });
                return false;
            }
            Delta::ListEnded(kind) => {
                self.contents.entry(*kind).or_default().listing = false;
                return false;
            }
            _ => {}
        }
        let Some((kind, key)) = place(delta) else { return false };
        if kind == Kind::Pod {
            // Pods are too many to remember each, and a pod that is updated has nearly always changed.
            return false;
        }
        let contents = self.contents.entry(kind).or_default();
        match content_hash(delta) {
            Some(hash) => contents.hashes.insert(key, hash) == Some(hash) && !contents.listing,
            None => {
                contents.hashes.remove(&key);
                false
            }
        }
    }

    fn compact(&mut self) {
        self.slots.retain(Option::is_some);
        self.vacant_count = 0;
        self.places.clear();
        for (index, delta) in self.slots.iter().enumerate() {
            if let Some(place) = delta.as_ref().and_then(place) {
                self.places.insert(place, index);
            }
        }
    }
}

/// The object a change is about; `None` for the marks of a list and for reports of providers.
fn place(delta: &Delta) -> Option<(Kind, ObjectKey)> {
    let cluster = |name: &Arc<str>| ObjectKey::new("", &**name);
    Some(match delta {
        Delta::PodApplied(pod) => (Kind::Pod, pod.key.clone()),
        Delta::PodDeleted(key) => (Kind::Pod, key.clone()),
        Delta::NodeApplied(node) => (Kind::Node, cluster(&node.name)),
        Delta::NodeDeleted(name) => (Kind::Node, cluster(name)),
        Delta::ControllerApplied(controller) => (Kind::Controller(controller.kind), controller.key.clone()),
        Delta::ControllerDeleted(kind, key) => (Kind::Controller(*kind), key.clone()),
        Delta::DaemonSetApplied(set) => (Kind::DaemonSet, set.key.clone()),
        Delta::DaemonSetDeleted(key) => (Kind::DaemonSet, key.clone()),
        Delta::BudgetApplied(budget) => (Kind::Budget, budget.key.clone()),
        Delta::BudgetDeleted(key) => (Kind::Budget, key.clone()),
        Delta::NamespaceApplied(name, _) | Delta::NamespaceDeleted(name) => (Kind::Namespace, cluster(name)),
        Delta::ClaimApplied(claim) => (Kind::Claim, claim.key.clone()),
        Delta::ClaimDeleted(key) => (Kind::Claim, key.clone()),
        Delta::VolumeApplied(volume) => (Kind::Volume, cluster(&volume.name)),
        Delta::VolumeDeleted(name) => (Kind::Volume, cluster(name)),
        Delta::StorageClassApplied(class) => (Kind::StorageClass, cluster(&class.name)),
        Delta::StorageClassDeleted(name) => (Kind::StorageClass, cluster(name)),
        Delta::CsiNodeApplied(name, _) | Delta::CsiNodeDeleted(name) => (Kind::CsiNode, cluster(name)),
        Delta::CsiDriverApplied(name, _) | Delta::CsiDriverDeleted(name) => (Kind::CsiDriver, cluster(name)),
        Delta::StorageCapacityApplied(capacity) => (Kind::StorageCapacity, capacity.key.clone()),
        Delta::StorageCapacityDeleted(key) => (Kind::StorageCapacity, key.clone()),
        Delta::AttachmentApplied(attachment) => (Kind::Attachment, cluster(&attachment.name)),
        Delta::AttachmentDeleted(name) => (Kind::Attachment, cluster(name)),
        Delta::PriorityClassApplied(name, _) | Delta::PriorityClassDeleted(name) => {
            (Kind::PriorityClass, cluster(name))
        }
        Delta::BufferApplied(buffer) => (Kind::Buffer, buffer.key.clone()),
        Delta::BufferDeleted(key) => (Kind::Buffer, key.clone()),
        Delta::PodTemplateApplied(template) => (Kind::PodTemplate, template.key.clone()),
        Delta::PodTemplateDeleted(key) => (Kind::PodTemplate, key.clone()),
        Delta::DeploymentApplied(template) => (Kind::Deployment, template.key.clone()),
        Delta::DeploymentDeleted(key) => (Kind::Deployment, key.clone()),
        Delta::QuotaApplied(quota) => (Kind::Quota, quota.key.clone()),
        Delta::QuotaDeleted(key) => (Kind::Quota, key.clone()),
        Delta::RequestApplied(request) => (Kind::Request, request.key.clone()),
        Delta::RequestDeleted(key) => (Kind::Request, key.clone()),
        Delta::CapacityQuotaApplied(quota) => (Kind::CapacityQuota, cluster(&quota.name)),
        Delta::CapacityQuotaDeleted(name) => (Kind::CapacityQuota, cluster(name)),
        Delta::GangApplied(gang) => (Kind::Gang(gang.kind), gang.key.clone()),
        Delta::GangDeleted(kind, key) => (Kind::Gang(*kind), key.clone()),
        Delta::DeviceApplied(object) => {
            let (kind, key) = object.place();
            (Kind::Device(kind), key)
        }
        Delta::DeviceDeleted(kind, key) => (Kind::Device(*kind), key.clone()),
        Delta::ProviderObserved(..)
        | Delta::ProviderForgotten(_)
        | Delta::GangKindMissing(_)
        | Delta::DeviceKindMissing(_)
        | Delta::BuffersOfOthers(_)
        | Delta::RequestsOfOthers(_)
        | Delta::ExpanderAnswered(_)
        | Delta::ListStarted(_)
        | Delta::ListEnded(_) => return None,
    })
}

/// Returns how soon a change should be handled, by itself.
fn urgency(delta: &Delta) -> Urgency {
    match delta {
        Delta::PodApplied(pod) => pod_urgency(pod),
        Delta::PodDeleted(_)
        | Delta::NodeApplied(_)
        | Delta::NodeDeleted(_)
        | Delta::ControllerApplied(_)
        // A claim that gets its volume may be what a pod waits for.
        | Delta::ClaimApplied(_)
        | Delta::BufferApplied(_)
        | Delta::PodTemplateApplied(_)
        | Delta::RequestApplied(_)
        | Delta::RequestDeleted(_)
        // What it holds back may be bought now.
        | Delta::CapacityQuotaApplied(_)
        | Delta::CapacityQuotaDeleted(_)
        | Delta::GangApplied(_)
        // Devices that a driver publishes may be what pods wait for.
        | Delta::DeviceApplied(_)
        | Delta::ProviderObserved(..)
        | Delta::ProviderForgotten(_)
        | Delta::ListEnded(_) => Urgency::AtOnce,
        Delta::ControllerDeleted(..)
        | Delta::DaemonSetApplied(_)
        | Delta::DaemonSetDeleted(_)
        | Delta::BudgetApplied(_)
        | Delta::BudgetDeleted(_)
        | Delta::NamespaceApplied(..)
        | Delta::NamespaceDeleted(_)
        | Delta::ClaimDeleted(_)
        | Delta::VolumeApplied(_)
        | Delta::VolumeDeleted(_)
        | Delta::StorageClassApplied(_)
        | Delta::StorageClassDeleted(_)
        | Delta::CsiNodeApplied(..)
        | Delta::CsiNodeDeleted(_)
        | Delta::CsiDriverApplied(..)
        | Delta::CsiDriverDeleted(_)
        | Delta::StorageCapacityApplied(_)
        | Delta::StorageCapacityDeleted(_)
        | Delta::AttachmentApplied(_)
        | Delta::AttachmentDeleted(_)
        | Delta::PriorityClassApplied(..)
        | Delta::PriorityClassDeleted(_)
        | Delta::BufferDeleted(_)
        | Delta::PodTemplateDeleted(_)
        | Delta::DeploymentApplied(_)
        | Delta::DeploymentDeleted(_)
        | Delta::QuotaApplied(_)
        | Delta::QuotaDeleted(_)
        | Delta::GangDeleted(..)
        | Delta::GangKindMissing(_)
        | Delta::DeviceDeleted(..)
        | Delta::DeviceKindMissing(_)
        | Delta::BuffersOfOthers(_)
        | Delta::RequestsOfOthers(_)
        | Delta::ExpanderAnswered(_)
        | Delta::ListStarted(_) => Urgency::NextTick,
    }
}

/// A pod that needs a node, or has just given one back, is looked at at once. A pending pod that the scheduler has not
/// handled yet waits: most of them it places.
fn pod_urgency(pod: &Pod) -> Urgency {
    let waits = pod.node.is_none() && pod.unschedulable && !pod.gated;
    if waits || pod.phase.finished() { Urgency::AtOnce } else { Urgency::NextTick }
}

/// A hash of everything decisions read of an applied object; `None` for deletions and for pods. SipHash with fixed
/// keys: the same in every process.
fn content_hash(delta: &Delta) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    match delta {
        Delta::NodeApplied(node) => hash_node(node, &mut hasher),
        Delta::ControllerApplied(controller) => {
            let Controller { kind, key: _, uid, desired, class, stalled, priority_class, in_order } =
                &**controller;
            (kind, uid, desired, class, stalled, priority_class, in_order).hash(&mut hasher);
        }
        Delta::DaemonSetApplied(set) => {
            let DaemonSet { key: _, uid, class, priority_class, desired } = &**set;
            (uid, class, priority_class, desired).hash(&mut hasher);
        }
        Delta::BudgetApplied(budget) => {
            let DisruptionBudget { key: _, selector, disruptions_allowed, one_short } = &**budget;
            (selector, disruptions_allowed, one_short).hash(&mut hasher);
        }
        Delta::NamespaceApplied(_, labels) => labels.hash(&mut hasher),
        Delta::ClaimApplied(claim) => claim.hash(&mut hasher),
        Delta::VolumeApplied(volume) => volume.hash(&mut hasher),
        Delta::StorageClassApplied(class) => class.hash(&mut hasher),
        Delta::CsiNodeApplied(_, limits) => limits.hash(&mut hasher),
        Delta::CsiDriverApplied(_, driver) => driver.hash(&mut hasher),
        Delta::StorageCapacityApplied(capacity) => capacity.hash(&mut hasher),
        Delta::AttachmentApplied(attachment) => attachment.hash(&mut hasher),
        Delta::PriorityClassApplied(_, class) => class.hash(&mut hasher),
        Delta::BufferApplied(buffer) => buffer.hash(&mut hasher),
        Delta::PodTemplateApplied(template) | Delta::DeploymentApplied(template) => {
            let Template { key: _, generation, class, priority_class } = &**template;
            (generation, class, priority_class).hash(&mut hasher);
        }
        Delta::QuotaApplied(quota) => quota.hash(&mut hasher),
        Delta::RequestApplied(request) => request.hash(&mut hasher),
        Delta::CapacityQuotaApplied(quota) => quota.hash(&mut hasher),
        Delta::GangApplied(gang) => gang.hash(&mut hasher),
        _ => return None,
    }
    Some(hasher.finish())
}

fn hash_node(node: &Node, hasher: &mut DefaultHasher) {
    let Node {
        name: _,
        uid,
        provider_id,
        labels,
        annotations,
        taints,
        candidate,
        unschedulable,
        allocatable,
        capacity,
        ready,
        ready_changed_at,
        created_at,
        deleting,
        conditions,
    } = node;
    (uid, provider_id, labels, annotations, taints, candidate, unschedulable).hash(hasher);
    (allocatable, capacity, ready, ready_changed_at, created_at, deleting, conditions).hash(hasher);
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_core::world::World;
    use headroom_core::world::node::Readiness;
    use headroom_core::world::pod::PodPhase;

    fn pod(name: &str) -> Pod {
        Pod { key: ObjectKey::new("shop", name), ..Pod::default() }
    }

    fn applied(pod: Pod) -> Delta {
        Delta::PodApplied(Box::new(pod))
    }

    fn node(name: &str) -> Node {
        Node { name: name.into(), ..Node::default() }
    }

    #[test]
    fn the_newest_change_of_an_object_is_the_only_one_that_waits() {
        let mut queue = Queue::default();
        queue.push(applied(pod("a")));
        queue.push(applied(Pod { phase: PodPhase::Running, ..pod("a") }));
        let taken = queue.take();
        assert!(matches!(&taken[..], [Delta::PodApplied(pod)] if pod.phase == PodPhase::Running));
        assert!(queue.is_empty());
    }

    #[test]
    fn an_object_seen_before_and_during_a_list_survives_it() {
        let mut queue = Queue::default();
        for delta in [
            applied(pod("a")),
            Delta::ListStarted(Kind::Pod),
            applied(pod("a")),
            Delta::ListEnded(Kind::Pod),
            applied(Pod { unschedulable: true, ..pod("a") }),
        ] {
            queue.push(delta);
        }
        let mut world = World::new();
        queue.take().into_iter().for_each(|delta| world.apply(delta));
        assert_eq!(world.pods_count(), 1);
    }

    #[test]
    fn a_heartbeat_is_no_change() {
        let mut queue = Queue::default();
        assert_eq!(queue.push(Delta::NodeApplied(Box::new(node("n")))), Urgency::AtOnce);
        assert_eq!(queue.push(Delta::NodeApplied(Box::new(node("n")))), Urgency::Nothing);
        let ready = Node { ready: Readiness::Ready, ..node("n") };
        assert_eq!(queue.push(Delta::NodeApplied(Box::new(ready))), Urgency::AtOnce);
    }

    #[test]
    fn a_relist_names_unchanged_objects_again() {
        let mut queue = Queue::default();
        queue.push(Delta::NodeApplied(Box::new(node("n"))));
        queue.take();
        queue.push(Delta::ListStarted(Kind::Node));
        queue.push(Delta::NodeApplied(Box::new(node("n"))));
        queue.push(Delta::ListEnded(Kind::Node));
        assert_eq!(queue.take().len(), 3);
        assert_eq!(queue.push(Delta::NodeApplied(Box::new(node("n")))), Urgency::Nothing);
    }

    #[test]
    fn a_node_that_comes_back_as_it_was_is_a_change() {
        let mut queue = Queue::default();
        queue.push(Delta::NodeApplied(Box::new(node("n"))));
        queue.push(Delta::NodeDeleted("n".into()));
        assert_eq!(queue.push(Delta::NodeApplied(Box::new(node("n")))), Urgency::AtOnce);
    }

    #[test]
    fn only_pods_that_need_or_free_a_node_ring_at_once() {
        let bound = Pod { node: Some("n".into()), ..pod("a") };
        let waiting = Pod { unschedulable: true, ..pod("a") };
        let done = Pod { phase: PodPhase::Succeeded, ..bound.clone() };
        let gated = Pod { gated: true, ..waiting.clone() };
        let urgencies = [bound, waiting, done, gated, pod("new")].map(|pod| pod_urgency(&pod));
        assert_eq!(
            urgencies,
            [Urgency::NextTick, Urgency::AtOnce, Urgency::AtOnce, Urgency::NextTick, Urgency::NextTick]
        );
    }

    #[test]
    fn a_full_queue_rings() {
        let mut queue = Queue::default();
        let last = (0..RING_AT).map(|number| queue.push(applied(pod(&number.to_string())))).last();
        assert_eq!(last, Some(Urgency::AtOnce));
    }

    #[test]
    fn vacated_slots_are_given_back() {
        let mut queue = Queue::default();
        for _ in 0..10_000 {
            queue.push(applied(pod("a")));
        }
        assert_eq!(queue.len(), 1);
        assert!(queue.slots.len() < 4_000);
    }
}
