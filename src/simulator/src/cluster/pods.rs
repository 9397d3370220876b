//! The pods of the cluster as the actors see them, by owner and by node, kept from the change log; it writes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::config::DEFAULT_SCHEDULER;
use jiff::{SignedDuration, Timestamp};
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::fit::{PodShape, signature};
use super::gangs::GangOf;
use crate::store::{Entry, Kind, ObjectKey, at, condition, number, text, timestamp};

/// The life of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// Fields of a pod that the actors need, parsed once a change.
#[derive(Debug, Clone)]
pub(crate) struct PodFacts {
    pub(crate) uid: Arc<str>,
    pub(crate) owner: Option<Owner>,
    pub(crate) node: Option<Arc<str>>,
    /// The number of its node: thousands of pods are compared by their nodes, and a number needs no look at a name.
    pub(crate) node_number: Option<u32>,
    pub(crate) phase: Phase,
    pub(crate) ready: bool,
    pub(crate) leaving_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) priority: i64,
    pub(crate) deletion_cost: i64,
    pub(crate) run_for: Option<jiff::SignedDuration>,
    pub(crate) revision_label: Option<Arc<str>>,
    pub(crate) gated: bool,
    /// True if the default scheduler is to bind it; others do not exist here.
    pub(crate) ours: bool,
    /// Time until which the scheduler refuses it wherever it fits, as a plugin would.
    pub(crate) refused_until: Option<Timestamp>,
    /// The gang that it is bound with.
    pub(crate) gang: Option<Arc<GangOf>>,
    pub(crate) shape: Arc<PodShape>,
    pub(crate) class: usize,
}

/// The controller of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) kind: Kind,
    pub(crate) key: ObjectKey,
    pub(crate) uid: Arc<str>,
}

impl PodFacts {
    /// True if it has neither ended nor begun to terminate.
    pub(crate) fn active(&self) -> bool {
        self.leaving_at.is_none() && matches!(self.phase, Phase::Pending | Phase::Running)
    }

    /// True if it holds room on its node.
    pub(crate) fn occupies(&self) -> bool {
        self.node.is_some() && matches!(self.phase, Phase::Pending | Phase::Running)
    }
}

/// All pods, with the look-ups that the actors need.
///
/// The indexes hold the facts themselves: controllers walk thousands of pods at each sync, and a search by name
/// for each of them was two thirds of a simulated day.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    all: FxHashMap<ObjectKey, Arc<PodFacts>>,
    by_owner: BTreeMap<Arc<str>, ControllerPods>,
    by_node: BTreeMap<Arc<str>, BTreeMap<ObjectKey, Arc<PodFacts>>>,
    /// Nodes that pods were bound to, numbered as they came; kept for good, so that a number means one name.
    node_numbers: FxHashMap<Arc<str>, u32>,
    shapes: BTreeMap<String, usize>,
    classes: Vec<Arc<PodShape>>,
}

/// The pods of one controller, with the sums that it asks for at each look.
#[derive(Debug, Default)]
struct ControllerPods {
    pods: BTreeMap<ObjectKey, Arc<PodFacts>>,
    active_count: usize,
    ready_count: usize,
    /// Number of active ones on each node, by its number; no zeros.
    crowds: FxHashMap<u32, usize>,
}

impl ControllerPods {
    fn note(&mut self, before: Option<&PodFacts>, after: Option<&PodFacts>) {
        let active = |pod: Option<&PodFacts>| usize::from(pod.is_some_and(PodFacts::active));
        let ready = |pod: Option<&PodFacts>| usize::from(pod.is_some_and(|pod| pod.active() && pod.ready));
        self.active_count = self.active_count + active(after) - active(before);
        self.ready_count = self.ready_count + ready(after) - ready(before);
        let (was, is) = (crowded(before), crowded(after));
        if was == is {
            return;
        }
        if let Some(was) = was
            && let Some(count) = self.crowds.get_mut(&was)
        {
            *count -= 1;
            if *count == 0 {
                self.crowds.remove(&was);
            }
        }
        if let Some(is) = is {
            *self.crowds.entry(is).or_default() += 1;
        }
    }
}

/// The node on which a pod counts as a neighbour of its siblings.
fn crowded(pod: Option<&PodFacts>) -> Option<u32> {
    pod.filter(|pod| pod.active())?.node_number
}

impl Pods {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<PodFacts>> {
        self.all.get(key)
    }

    /// The pods that a controller owns, by its uid.
    pub(crate) fn owned(&self, uid: &str) -> impl Iterator<Item = (&ObjectKey, &Arc<PodFacts>)> {
        self.by_owner.get(uid).into_iter().flat_map(|controller_pods| &controller_pods.pods)
    }

    /// Number of them that are active, and how many of those are ready.
    pub(crate) fn owned_counts(&self, uid: &str) -> (usize, usize) {
        self.by_owner
            .get(uid)
            .map_or((0, 0), |controller_pods| (controller_pods.active_count, controller_pods.ready_count))
    }

    /// Returns the number of a controller's active pods on each node, by its number; a node without any is left out.
    pub(crate) fn crowds(&self, uid: &str) -> Option<&FxHashMap<u32, usize>> {
        Some(&self.by_owner.get(uid)?.crowds)
    }

    /// The pods bound to a node.
    pub(crate) fn on_node(&self, node: &str) -> impl Iterator<Item = (&ObjectKey, &Arc<PodFacts>)> {
        self.by_node.get(node).into_iter().flatten()
    }

    /// Takes in a change of a pod; returns what was known of it before.
    pub(crate) fn observe(&mut self, entry: &Entry) -> Option<Arc<PodFacts>> {
        let before = self.all.remove(&entry.key);
        if entry.deleted {
            if let Some(before) = &before {
                self.leave(before, &entry.key);
            }
            return before;
        }
        // Owner and node never change while a pod lives, so an insert replaces what was there.
        let facts = Arc::new(self.facts(&entry.object, before.as_deref()));
        if let Some(owner) = &facts.owner {
            let controller_pods = self.by_owner.entry(owner.uid.clone()).or_default();
            controller_pods.note(before.as_deref(), Some(&facts));
            controller_pods.pods.insert(entry.key.clone(), facts.clone());
        }
        if let Some(node) = &facts.node {
            self.by_node.entry(node.clone()).or_default().insert(entry.key.clone(), facts.clone());
        }
        self.all.insert(entry.key.clone(), facts);
        before
    }

    /// Takes a pod that is gone out of the indexes.
    fn leave(&mut self, pod: &PodFacts, key: &ObjectKey) {
        if let Some(owner) = &pod.owner
            && let Some(controller_pods) = self.by_owner.get_mut(&owner.uid)
        {
            controller_pods.note(Some(pod), None);
            controller_pods.pods.remove(key);
            if controller_pods.pods.is_empty() {
                self.by_owner.remove(&owner.uid);
            }
        }
        if let Some(node) = &pod.node
            && let Some(pods) = self.by_node.get_mut(node)
        {
            pods.remove(key);
            if pods.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    fn facts(&mut self, pod: &Value, before: Option<&PodFacts>) -> PodFacts {
        let phase = match text(pod, &["status", "phase"]) {
            Some("Running") => Phase::Running,
            Some("Succeeded") => Phase::Succeeded,
            Some("Failed") => Phase::Failed,
            _ => Phase::Pending,
        };
        let class = before.map_or_else(|| self.class_of(pod), |before| before.class);
        let status_of = |type_| condition(pod, type_).and_then(|c| c.get("status")?.as_str());
        let annotation = |name| text(pod, &["metadata", "annotations", name]);
        let hash = ["controller-revision-hash", "pod-template-hash"];
        let node = text(pod, &["spec", "nodeName"]).filter(|node| !node.is_empty());
        let node = node.map(|node| self.number_of(node));
        let created_at = timestamp(pod, &["metadata", "creationTimestamp"]).unwrap_or(Timestamp::UNIX_EPOCH);
        let name = text(pod, &["metadata", "name"]).unwrap_or_default();
        PodFacts {
            uid: before.map_or_else(
                || text(pod, &["metadata", "uid"]).unwrap_or_default().into(),
                |b| b.uid.clone(),
            ),
            owner: before.map_or_else(|| owner(pod), |before| before.owner.clone()),
            node_number: node.as_ref().map(|(_, number)| *number),
            node: node.map(|(name, _)| name),
            phase,
            ready: status_of("Ready") == Some("True"),
            leaving_at: timestamp(pod, &["metadata", "deletionTimestamp"]),
            created_at,
            started_at: timestamp(pod, &["status", "startTime"]),
            priority: number(pod, &["spec", "priority"]).unwrap_or(0),
            deletion_cost: annotation("controller.kubernetes.io/pod-deletion-cost")
                .and_then(|cost| cost.parse().ok())
                .unwrap_or(0),
            run_for: annotation(super::RUN_FOR_ANNOTATION).and_then(|duration| duration.parse().ok()),
            revision_label: hash
                .iter()
                .find_map(|name| text(pod, &["metadata", "labels", name]))
                .map(Arc::from),
            gated: at(pod, &["spec", "schedulingGates"])
                .and_then(Value::as_array)
                .is_some_and(|g| !g.is_empty()),
            ours: text(pod, &["spec", "schedulerName"]).is_none_or(|name| name == DEFAULT_SCHEDULER),
            refused_until: annotation(super::REFUSED_ANNOTATION)
                .and_then(|words| refused_until(words, name, created_at)),
            gang: before.map_or_else(|| GangOf::of(pod).map(Arc::new), |before| before.gang.clone()),
            shape: self.classes[class].clone(),
            class,
        }
    }

    fn number_of(&mut self, node: &str) -> (Arc<str>, u32) {
        if let Some((name, number)) = self.node_numbers.get_key_value(node) {
            return (name.clone(), *number);
        }
        let (name, number): (Arc<str>, u32) = (node.into(), self.node_numbers.len() as u32);
        self.node_numbers.insert(name.clone(), number);
        (name, number)
    }

    fn class_of(&mut self, pod: &Value) -> usize {
        let signature = signature(pod);
        if let Some(class) = self.shapes.get(&signature) {
            return *class;
        }
        self.classes.push(Arc::new(PodShape::of(pod)));
        self.shapes.insert(signature, self.classes.len() - 1);
        self.classes.len() - 1
    }
}

/// Returns until when a pod of this name is refused, by `<percent of pods>` or `<percent of pods>/<seconds from its
/// creation>`; `None` for those that are not.
fn refused_until(words: &str, name: &str, created_at: Timestamp) -> Option<Timestamp> {
    let (percent, seconds) =
        words.split_once('/').map_or((words, None), |(percent, rest)| (percent, Some(rest)));
    let hash =
        name.bytes().fold(0xcbf2_9ce4_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    if percent.parse::<u32>().ok()? <= (hash >> 8) % 100 {
        return None;
    }
    match seconds {
        None => Some(Timestamp::MAX),
        Some(seconds) => created_at.checked_add(SignedDuration::from_secs(seconds.parse().ok()?)).ok(),
    }
}

/// The uid of the object's controller.
pub(crate) fn owner_uid(object: &Value) -> Option<&str> {
    text(controller(object)?, &["uid"])
}

fn controller(object: &Value) -> Option<&Value> {
    let references = at(object, &["metadata", "ownerReferences"])?.as_array()?;
    references.iter().find(|r| r.get("controller").and_then(Value::as_bool) == Some(true))
}

/// The controlling owner, where it is of a kind that is simulated.
pub(crate) fn owner(object: &Value) -> Option<Owner> {
    let reference = controller(object)?;
    let word = |field: &str| text(reference, &[field]).unwrap_or_default();
    let kind = Kind::by_type(word("apiVersion"), word("kind"))?;
    let namespace = if kind.info().namespaced { text(object, &["metadata", "namespace"])? } else { "" };
    Some(Owner { kind, key: ObjectKey::new(namespace, word("name")), uid: word("uid").into() })
}
