//! What a meter reads of a cluster at one moment: the same fields, whether the cluster is real or simulated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::nodes::state::foreign::is_foreign;
use headroom_core::snapshot::Snapshot;
use headroom_core::time::UnixTime;
use headroom_core::world::node::{DELETION_TAINT, KARPENTER_PREFIX, Node, POOL_LABEL};
use headroom_core::world::workload::ControllerKind;
use headroom_simulator::initial_state::pool_of_nodes;
use headroom_simulator::store::{Kind, Store, at, number, text, timestamp};
use serde_json::Value;

use crate::prices::Prices;

/// A cluster at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// The moment.
    pub at: UnixTime,
    /// Nodes, by name.
    pub nodes: Vec<NodeSeen>,
    /// Pods.
    pub pods: Vec<PodSeen>,
    /// Replicas that ReplicaSets, StatefulSets and ReplicationControllers ask for.
    pub replicas: i64,
}

/// Label of Karpenter's nodes: the name of its NodePool.
pub const KARPENTER_POOL_LABEL: &str = "karpenter.sh/nodepool";

/// A node at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSeen {
    /// Name.
    pub name: Arc<str>,
    /// Unique id.
    pub uid: Arc<str>,
    /// Its pool; `karpenter/` and the name of its NodePool for a node of Karpenter.
    pub pool: Arc<str>,
    /// Price in millionths an hour; `None` if nobody knows it.
    pub price_per_hour_micro: Option<i64>,
    /// Time of its creation.
    pub created_at: UnixTime,
    /// True if its pods have to leave it: it is cordoned, marked or being deleted.
    pub leaving: bool,
    /// True if an autoscaler runs it.
    pub counts: bool,
}

/// A pod at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSeen {
    /// Unique id.
    pub uid: Arc<str>,
    /// Its node; `None` while it waits.
    pub node: Option<Arc<str>>,
    /// Time of its creation.
    pub created_at: UnixTime,
    /// True if a deletion timestamp is set.
    pub ending: bool,
    /// True if it can go elsewhere: it has not finished, and neither a DaemonSet nor its node made it.
    pub moves: bool,
}

impl Observation {
    /// The real cluster at the moment of the snapshot.
    #[must_use]
    pub fn of(snapshot: &Snapshot, prices: &Prices) -> Self {
        let world = &snapshot.world;
        let places = pool_of_nodes(snapshot);
        let nodes = world.nodes.iter().map(|node| {
            let pool = places.get(&node.provider_id).or_else(|| places.get(&node.name)).cloned();
            seen(node, pool, prices)
        });
        let pods = world.pods.iter().map(|pod| {
            let owner = pod.owner.and_then(|place| world.owners.get(place));
            PodSeen {
                uid: pod.uid.clone(),
                node: pod.node.clone(),
                created_at: pod.created_at,
                ending: pod.deletion_at.is_some(),
                moves: !pod.phase.finished() && owner.is_none_or(|owner| moves(&owner.kind)),
            }
        });
        let asks = world.controllers.iter().filter(|controller| controller.kind != ControllerKind::Job);
        Self {
            at: snapshot.now,
            nodes: nodes.collect(),
            pods: pods.collect(),
            replicas: asks.map(|controller| i64::from(controller.desired)).sum(),
        }
    }

    /// The simulated cluster at the moment `now`.
    #[must_use]
    pub fn of_store(store: &Store, now: UnixTime, prices: &Prices) -> Self {
        let nodes = store.all(Kind::Node).map(|(key, node)| simulated_node(&key.name, node, prices));
        let pods = store.all(Kind::Pod).map(|(_, pod)| simulated_pod(pod));
        let asks = [Kind::ReplicaSet, Kind::StatefulSet].into_iter().flat_map(|kind| store.all(kind));
        Self {
            at: now,
            nodes: nodes.collect(),
            pods: pods.collect(),
            replicas: asks.filter_map(|(_, object)| number(object, &["spec", "replicas"])).sum(),
        }
    }

    /// The node of this name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&NodeSeen> {
        let place = self.nodes.binary_search_by(|node| (*node.name).cmp(name)).ok()?;
        self.nodes.get(place)
    }

    /// The time at which the first pod of each node was made, of those that can go elsewhere.
    pub(crate) fn first_pods(&self) -> BTreeMap<&str, UnixTime> {
        let mut first = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| pod.moves) {
            let Some(node) = &pod.node else { continue };
            let made = first.entry(&**node).or_insert(pod.created_at);
            *made = (*made).min(pod.created_at);
        }
        first
    }
}

/// True if pods with an owner of this kind can go to another node: neither those of DaemonSets nor static ones.
pub(crate) fn moves(kind: &str) -> bool {
    !matches!(kind, "DaemonSet" | "Node")
}

fn seen(node: &Node, pool: Option<Arc<str>>, prices: &Prices) -> NodeSeen {
    let foreign = is_foreign(node);
    let own = pool.or_else(|| node.labels.get(POOL_LABEL).map(Arc::from));
    let name = match (node.labels.get(KARPENTER_POOL_LABEL), &own) {
        (Some(of), _) if foreign => format!("karpenter/{of}").into(),
        (_, own) => own.clone().unwrap_or_default(),
    };
    let marked = node.taints.iter().any(|taint| is_mark(&taint.key));
    NodeSeen {
        name: node.name.clone(),
        uid: node.uid.clone(),
        price_per_hour_micro: prices.of_node(own.as_deref().unwrap_or_default(), node),
        pool: name,
        created_at: node.created_at,
        leaving: node.unschedulable || node.deleting || marked,
        counts: foreign || own.is_some(),
    }
}

/// True for taints by which autoscalers mark what they empty.
fn is_mark(key: &str) -> bool {
    key == DELETION_TAINT || key.strip_prefix(KARPENTER_PREFIX).is_some_and(|key| key.starts_with("disrupt"))
}

fn simulated_node(name: &Arc<str>, node: &Value, prices: &Prices) -> NodeSeen {
    let pool = text(node, &["metadata", "labels", POOL_LABEL]);
    let taints = at(node, &["spec", "taints"]).and_then(Value::as_array).into_iter().flatten();
    let marked = taints.filter_map(|taint| text(taint, &["key"])).any(is_mark);
    let cordoned = at(node, &["spec", "unschedulable"]).and_then(Value::as_bool).unwrap_or(false);
    NodeSeen {
        name: name.clone(),
        uid: text(node, &["metadata", "uid"]).unwrap_or_default().into(),
        pool: pool.unwrap_or_default().into(),
        price_per_hour_micro: pool.and_then(|pool| prices.of_pool(pool)),
        created_at: created_at(node),
        leaving: cordoned || marked || at(node, &["metadata", "deletionTimestamp"]).is_some(),
        counts: pool.is_some(),
    }
}

fn simulated_pod(pod: &Value) -> PodSeen {
    let owners = at(pod, &["metadata", "ownerReferences"]).and_then(Value::as_array).into_iter().flatten();
    let kinds: BTreeSet<&str> = owners.filter_map(|owner| text(owner, &["kind"])).collect();
    let finished = matches!(text(pod, &["status", "phase"]), Some("Succeeded" | "Failed"));
    PodSeen {
        uid: text(pod, &["metadata", "uid"]).unwrap_or_default().into(),
        node: text(pod, &["spec", "nodeName"]).map(Arc::from),
        created_at: created_at(pod),
        ending: at(pod, &["metadata", "deletionTimestamp"]).is_some(),
        moves: !finished && kinds.into_iter().all(moves),
    }
}

fn created_at(object: &Value) -> UnixTime {
    timestamp(object, &["metadata", "creationTimestamp"]).map(UnixTime::from_jiff).unwrap_or_default()
}
