//! The fields of every node that a plan reads, side by side in one table. It holds nothing that is not in the nodes
//! themselves.
//!
//! A plan looks at all nodes, and most of them need no second look: few bytes in order are read many times faster than
//! objects scattered over memory.

use std::sync::Arc;

use crate::world::interner::InternedId;
use crate::world::node::{
    DELETION_TAINT, GROUP_LABEL, Node, POOL_LABEL, Readiness, ZONE_LABEL, is_karpenters,
};
use headroom_values::resources::Resources;
use headroom_values::time::UnixTime;

/// The place of a node by its labels; equal for all nodes of a group and zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Badge {
    /// The value of [`POOL_LABEL`].
    pub pool: Option<Arc<str>>,
    /// The value of [`GROUP_LABEL`].
    pub group: Option<Arc<str>>,
    /// The value of [`ZONE_LABEL`].
    pub zone: Option<Arc<str>>,
    /// True if a label or an annotation is Karpenter's.
    pub karpenter: bool,
}

impl Badge {
    /// The badge of a node.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        let label = |wanted: &str| {
            node.labels.shared().find(|(key, _)| &***key == wanted).map(|(_, value)| value.clone())
        };
        let mut keys = node.labels.iter().chain(node.annotations.iter()).map(|(key, _)| key);
        Self {
            pool: label(POOL_LABEL),
            group: label(GROUP_LABEL),
            zone: label(ZONE_LABEL),
            karpenter: keys.any(is_karpenters),
        }
    }

    /// True for the labels that are part of a badge.
    #[must_use]
    pub fn has(key: &str) -> bool {
        matches!(key, POOL_LABEL | GROUP_LABEL | ZONE_LABEL)
    }

    /// The value of one of these labels; `None` for others.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let value = match key {
            POOL_LABEL => &self.pool,
            GROUP_LABEL => &self.group,
            ZONE_LABEL => &self.zone,
            _ => &None,
        };
        value.as_deref()
    }
}

/// The amounts that decide for most nodes and pods, without the rarer resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amounts {
    /// Processor time in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
    /// Pods.
    pub pods: i64,
}

impl Amounts {
    /// Cpu, memory and pods of these resources.
    #[must_use]
    pub fn of(resources: &Resources) -> Self {
        Self { cpu_milli: resources.cpu_milli, memory_bytes: resources.memory_bytes, pods: resources.pods }
    }

    /// Returns the difference after `taken` is taken; below zero where more is taken than there is.
    #[must_use]
    pub fn less(self, taken: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_sub(taken.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_sub(taken.memory_bytes),
            pods: self.pods.saturating_sub(taken.pods),
        }
    }

    /// Returns the sum.
    #[must_use]
    pub fn with(self, more: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_add(more.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_add(more.memory_bytes),
            pods: self.pods.saturating_add(more.pods),
        }
    }

    /// Returns the lesser of each amount.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.min(other.cpu_milli),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            pods: self.pods.min(other.pods),
        }
    }

    /// Returns the greater of each amount.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.max(other.cpu_milli),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            pods: self.pods.max(other.pods),
        }
    }

    /// True if `self` fits into `free`; a request of zero fits always.
    #[must_use]
    pub fn fit(self, free: Self) -> bool {
        let fits = |asked: i64, free: i64| asked <= 0 || asked <= free;
        fits(self.cpu_milli, free.cpu_milli)
            && fits(self.memory_bytes, free.memory_bytes)
            && fits(self.pods, free.pods)
    }
}

/// One node in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeDigest {
    /// True if the node has been delivered; else only pods bound to it are known, and nothing else here counts.
    pub delivered: bool,
    /// The Ready condition.
    pub ready: Readiness,
    /// True if a deletion timestamp is set.
    pub deleting: bool,
    /// True if it carries [`DELETION_TAINT`].
    pub deletion_taint: bool,
    /// True if it carries any taint.
    pub tainted: bool,
    /// True if it is cordoned.
    pub unschedulable: bool,
    /// True if it carries an annotation that decisions read, beside that of its template.
    pub annotated: bool,
    /// True if it offers extended resources.
    pub extended: bool,
    /// The id of its badge in [`super::World::badges`].
    pub badge: InternedId,
    /// As [`super::NodeEntry::unusual_count`].
    pub unusual_count: u32,
    /// Creation.
    pub created_at: UnixTime,
    /// Sum of the requests of its pods that have not finished.
    pub requested: Amounts,
    /// Amounts that its pods can use.
    pub allocatable: Amounts,
}

impl NodeDigest {
    /// Takes over the fields of a delivered node.
    pub(super) fn take(&mut self, node: &Node, badge: InternedId) {
        *self = Self {
            delivered: true,
            ready: node.ready,
            deleting: node.deleting,
            deletion_taint: node.taints.iter().any(|taint| &*taint.key == DELETION_TAINT),
            tainted: !node.taints.is_empty(),
            unschedulable: node.unschedulable,
            annotated: node.is_annotated(),
            extended: node.allocatable.extended_iter().next().is_some(),
            badge,
            created_at: node.created_at,
            allocatable: Amounts::of(&node.allocatable),
            unusual_count: self.unusual_count,
            requested: self.requested,
        };
    }

    /// True if it is ready, without taints and not cordoned, deleted or annotated: nothing about it is special.
    #[must_use]
    pub fn is_ordinary(&self) -> bool {
        self.ready == Readiness::Ready
            && !self.tainted
            && !self.unschedulable
            && !self.deleting
            && !self.annotated
    }
}
