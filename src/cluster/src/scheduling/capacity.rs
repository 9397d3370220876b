//! VolumeBinding's storage capacity: whether a driver has reported capacity for a volume on a node. It marks no capacity as taken.

use std::sync::Arc;

use crate::scheduling::constraints::{NodeSelectorTerm, RequiredNodeAffinity};
use crate::scheduling::node_affinity::{self, LabelledNode};
use crate::scheduling::refusal::Refusal;
use crate::world::node::ZONE_LABEL;
use crate::world::volume::{ClaimSpec, PodClaim, Storage, StorageCapacity, StorageClass};
use headroom_values::labels::Labels;

/// The capacity that the driver of a claim has reported for volumes of the claim's class.
#[derive(Debug)]
pub(super) struct ReportedCapacity {
    claim: Arc<str>,
    class: Arc<str>,
    wanted_bytes: i64,
    parts: Vec<Part>,
}

/// Nodes with the capacity for each of them.
#[derive(Debug)]
struct Part {
    labels: Labels,
    /// `None` asks for nothing more than the labels.
    more: Option<RequiredNodeAffinity>,
    largest_bytes: i64,
}

impl ReportedCapacity {
    /// `None` when volumes of the class can be made wherever its topologies let them: its provisioner is no CSI driver,
    /// or one that does not report its capacity. Nor is anything asked of a claim without a size.
    ///
    /// Source: kube-scheduler, volumebinding/binder.go, hasEnoughCapacity.
    pub(super) fn of(
        claim: &PodClaim,
        spec: &ClaimSpec,
        class: &StorageClass,
        storage: &Storage,
    ) -> Option<Self> {
        if !storage.reporting_drivers.contains(&class.provisioner) || spec.request_bytes <= 0 {
            return None;
        }
        let parts = storage.capacities.values().filter(|one| one.storage_class == class.name);
        Some(Self {
            claim: claim.name.clone(),
            class: class.name.clone(),
            wanted_bytes: spec.request_bytes,
            parts: parts.filter_map(Part::of).collect(),
        })
    }

    /// True if a volume can be made for the node. For one that is so new that its driver may not have reported it yet
    /// (`is_new`), a missing report is not a refusal.
    ///
    /// A node to come is checked by the labels of its template, as upstream checks it: where drivers report node by
    /// node, they are those of a node of its group, and give the capacity left there.
    ///
    /// # Errors
    /// [`Refusal::StorageCapacity`], with the largest capacity that was reported for the node.
    pub(super) fn check(&self, node: &impl LabelledNode, is_new: bool) -> Result<(), Refusal> {
        let largest_bytes = match node.open(ZONE_LABEL) {
            // It may come in any of these zones: there must be room in each.
            Some(zones) if !zones.is_empty() => {
                zones.iter().map(|zone| self.largest(&InZone { node, zones, zone })).min().flatten()
            }
            Some(_) | None => self.largest(node),
        };
        match largest_bytes {
            None if is_new => Ok(()),
            Some(largest) if self.wanted_bytes <= largest => Ok(()),
            largest_bytes => Err(Refusal::StorageCapacity {
                claim: self.claim.clone(),
                class: self.class.clone(),
                wanted_bytes: self.wanted_bytes,
                largest_bytes,
            }),
        }
    }

    /// Number of parts that are looked at for a node.
    pub(super) fn parts_count(&self) -> usize {
        self.parts.len()
    }

    fn largest(&self, node: &impl LabelledNode) -> Option<i64> {
        let reached = self.parts.iter().filter(|part| part.has(node));
        reached.map(|part| part.largest_bytes).max()
    }
}

impl Part {
    /// `None` for what the scheduler passes over: without nodes, or without a size.
    fn of(capacity: &StorageCapacity) -> Option<Self> {
        let nodes = capacity.nodes.as_ref()?;
        let expressions = nodes.match_expressions.clone();
        let term = NodeSelectorTerm { match_expressions: expressions, match_fields: Vec::new() };
        Some(Self {
            labels: nodes.match_labels.clone(),
            more: (!nodes.match_expressions.is_empty()).then(|| RequiredNodeAffinity { terms: vec![term] }),
            largest_bytes: capacity.largest_bytes?,
        })
    }

    fn has(&self, node: &impl LabelledNode) -> bool {
        node_affinity::matches(&self.labels, self.more.as_ref(), node)
    }
}

/// A node to come, in one of the zones that its cloud may choose.
struct InZone<'n, N> {
    node: &'n N,
    zones: &'n [Arc<str>],
    zone: &'n str,
}

impl<N: LabelledNode> LabelledNode for InZone<'_, N> {
    fn node_name(&self) -> &str {
        self.node.node_name()
    }

    fn label(&self, key: &str) -> Option<&str> {
        if self.node.open(key) == Some(self.zones) { Some(self.zone) } else { self.node.label(key) }
    }

    fn open(&self, key: &str) -> Option<&[Arc<str>]> {
        self.node.open(key).filter(|open| *open != self.zones)
    }
}
