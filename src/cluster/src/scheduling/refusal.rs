//! Reason why a pod does not fit a node, with the values that explain it. It holds no rule.

use std::fmt;
use std::sync::Arc;

use crate::scheduling::constraints::Taint;
use crate::scheduling::cost::RULE_WORDS_MAX;
use crate::scheduling::node_affinity::{self, LabelledNode};
use headroom_values::reason::Reason;
use headroom_values::resources::Shortfall;

/// The first rule that a node fails for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The node is cordoned or on its way out.
    Unschedulable,
    /// A taint with effect NoSchedule or NoExecute is not tolerated.
    Taint(Taint),
    /// The pod names another node.
    NodeName {
        /// The node it names.
        wanted: Arc<str>,
    },
    /// A pair of the node selector is missing.
    NodeSelector {
        /// The label.
        key: Arc<str>,
        /// The value asked for.
        wanted: Arc<str>,
        /// Value of the node, if it has one.
        found: Option<Arc<str>>,
    },
    /// No term of the required node affinity holds.
    NodeAffinity {
        /// The first requirement of the first term that fails, as people write it.
        wanted: Arc<str>,
        /// The label it is about.
        key: Arc<str>,
        /// Value of the node, if it has one.
        found: Option<Arc<str>>,
    },
    /// A host port is taken.
    HostPort {
        /// TCP, UDP or SCTP.
        protocol: Arc<str>,
        /// The port.
        port: u16,
    },
    /// A resource is short.
    Resources(Shortfall),
    /// Required pod affinity finds no matching pod in the node's domain.
    PodAffinity {
        /// The topology key.
        topology_key: Arc<str>,
    },
    /// Required anti-affinity, the pod's own or that of a pod in the node's domain, forbids the node.
    PodAntiAffinity {
        /// The topology key.
        topology_key: Arc<str>,
    },
    /// One more pod here would break a spread constraint, or the node lacks its topology key.
    TopologySpread {
        /// The topology key.
        topology_key: Arc<str>,
        /// The skew there would be; `None` when the node lacks the key.
        skew: Option<i64>,
        /// The skew allowed.
        max_skew: i32,
        /// Domains there are, and the `minDomains` that they fall short of: then the least count is taken for 0.
        too_few: Option<(u32, i32)>,
    },
    /// A claim's volume cannot be reached from the node, or cannot be made there.
    VolumeAffinity {
        /// The claim.
        claim: Arc<str>,
        /// Requirement of its volume on the node.
        wanted: Arc<str>,
        /// The label it is about; empty when it is about none.
        key: Arc<str>,
        /// Value of the node, if it has one.
        found: Option<Arc<str>>,
    },
    /// A claim keeps the pod off every node for now.
    VolumeNotReady {
        /// The claim.
        claim: Arc<str>,
        /// Reason.
        why: Arc<str>,
    },
    /// A claim of ReadWriteOncePod is used by another pod.
    VolumeInUse {
        /// The claim.
        claim: Arc<str>,
    },
    /// The node can attach no more volumes of a driver.
    AttachLimit {
        /// The driver.
        driver: Arc<str>,
        /// Volumes attached.
        used: u32,
        /// Volumes that the pod brings.
        wanted: u32,
        /// Most volumes.
        limit: u32,
    },
    /// A driver of the pod's volumes is not on the node, and its CSIDriver keeps such pods off it.
    DriverMissing {
        /// The driver.
        driver: Arc<str>,
    },
    /// A claim's driver reports no capacity for its volume on the node.
    StorageCapacity {
        /// The claim.
        claim: Arc<str>,
        /// The storage class.
        class: Arc<str>,
        /// Bytes that the claim asks for.
        wanted_bytes: i64,
        /// The largest volume that the driver reports can be made for the node; `None` when it reports nothing for the
        /// node.
        largest_bytes: Option<i64>,
    },
    /// A rule about a topology key whose value the cloud chooses for each new node: whether it would hold is not known.
    OpenDomain {
        /// The topology key.
        topology_key: Arc<str>,
        /// Known part of the node's value.
        found: Arc<str>,
    },
    /// The node does not have what claims of devices ask for.
    Devices {
        /// The rule that refuses the pod.
        reason: Reason,
        /// The claim and request, and what is missing.
        text: Arc<str>,
    },
    /// A constraint that this version cannot simulate.
    Unsupported {
        /// Feature, for example `resource claim gpu (devices)`.
        what: Arc<str>,
    },
}

impl Refusal {
    /// A rule about `topology_key` cannot be evaluated on this node, which will have a value that its cloud chooses.
    pub(super) fn open_domain(node: &impl LabelledNode, topology_key: &Arc<str>) -> Self {
        let found = node_affinity::found(node, topology_key).unwrap_or_default();
        Self::OpenDomain { topology_key: topology_key.clone(), found }
    }

    /// Claims of devices cannot be met.
    pub(super) fn devices(reason: Reason, text: impl Into<Arc<str>>) -> Self {
        Self::Devices { reason, text: text.into() }
    }

    /// The pod's rules about other pods are longer than is looked at; or, `for_now`, than the work that was left allows.
    pub(super) fn too_long(for_now: bool) -> Self {
        let what = if for_now {
            "rules about other pods beyond the work of one plan".to_owned()
        } else {
            format!("rules about other pods of more than {RULE_WORDS_MAX} keys, values and namespaces")
        };
        Self::Unsupported { what: what.into() }
    }

    /// The reason that status and metrics carry.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Unschedulable => Reason::NodeUnschedulable,
            Self::Taint(_) => Reason::TaintNotTolerated,
            Self::NodeName { .. } => Reason::NodeNameMismatch,
            Self::NodeSelector { .. } => Reason::NodeSelectorMismatch,
            Self::NodeAffinity { .. } => Reason::NodeAffinityMismatch,
            Self::HostPort { .. } => Reason::HostPortConflict,
            Self::Resources(_) => Reason::InsufficientResources,
            Self::PodAffinity { .. } => Reason::PodAffinityMismatch,
            Self::PodAntiAffinity { .. } => Reason::PodAntiAffinityConflict,
            Self::TopologySpread { .. } => Reason::TopologySpreadViolation,
            Self::VolumeAffinity { .. } => Reason::VolumeNodeAffinityMismatch,
            Self::VolumeNotReady { .. } => Reason::VolumeNotReady,
            Self::VolumeInUse { .. } => Reason::VolumeInUse,
            Self::AttachLimit { .. } => Reason::VolumeLimitReached,
            Self::DriverMissing { .. } => Reason::DriverMissing,
            Self::StorageCapacity { .. } => Reason::StorageCapacityInsufficient,
            Self::Devices { reason, .. } => *reason,
            Self::OpenDomain { .. } | Self::Unsupported { .. } => Reason::UnsupportedConstraint,
        }
    }

    /// The label whose value decided, with what the node has: lets a pool of several groups list all it has.
    #[must_use]
    pub fn label_found(&self) -> Option<(&str, Option<&str>)> {
        match self {
            Self::NodeSelector { key, found, .. } | Self::NodeAffinity { key, found, .. } => {
                Some((key, found.as_deref()))
            }
            Self::VolumeAffinity { key, found, .. } if !key.is_empty() => Some((key, found.as_deref())),
            _ => None,
        }
    }

    /// Returns the requirement of the pod, without the node's value.
    #[must_use]
    pub fn wanted(&self) -> String {
        match self {
            Self::NodeSelector { key, wanted, .. } => format!("needs {key}={wanted}"),
            Self::NodeAffinity { wanted, .. } => format!("needs {wanted}"),
            Self::VolumeAffinity { claim, wanted, .. } => format!("claim {claim} needs {wanted}"),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unschedulable => f.write_str("node is unschedulable"),
            Self::Taint(taint) if taint.value.is_empty() => {
                write!(f, "taint {}:{} is not tolerated", taint.key, taint.effect.as_str())
            }
            Self::Taint(taint) => {
                write!(f, "taint {}={}:{} is not tolerated", taint.key, taint.value, taint.effect.as_str())
            }
            Self::NodeName { wanted } => write!(f, "pod names node {wanted}"),
            Self::NodeSelector { found, .. } | Self::NodeAffinity { found, .. } => match found {
                Some(found) => write!(f, "{}; node has {found}", self.wanted()),
                None => write!(f, "{}; node has none", self.wanted()),
            },
            Self::HostPort { protocol, port } => write!(f, "host port {protocol} {port} is taken"),
            Self::Resources(shortfall) => write!(f, "{shortfall}"),
            Self::PodAffinity { topology_key } => {
                write!(f, "no pod that the required affinity asks for in this {topology_key}")
            }
            Self::PodAntiAffinity { topology_key } => {
                write!(f, "anti-affinity with a pod in this {topology_key}")
            }
            Self::TopologySpread { topology_key, skew: Some(skew), max_skew, too_few } => {
                write!(f, "spread over {topology_key}: skew would be {skew}, allowed {max_skew}")?;
                match too_few {
                    Some((domains, min)) => write!(f, "; {domains} domains are less than minDomains {min}"),
                    None => Ok(()),
                }
            }
            Self::TopologySpread { topology_key, skew: None, .. } => {
                write!(f, "spread over {topology_key}: node has no such label")
            }
            Self::VolumeAffinity { key, .. } if key.is_empty() => f.write_str(&self.wanted()),
            Self::VolumeAffinity { found, .. } => match found {
                Some(found) => write!(f, "{}; node has {found}", self.wanted()),
                None => write!(f, "{}; node has none", self.wanted()),
            },
            Self::VolumeNotReady { claim, why } => write!(f, "claim {claim}: {why}"),
            Self::VolumeInUse { claim } => {
                write!(f, "claim {claim} is used by another pod, and one alone may")
            }
            Self::AttachLimit { driver, used, wanted, limit } => {
                write!(f, "volumes of {driver}: {used} of at most {limit} are attached, {wanted} more wanted")
            }
            Self::DriverMissing { driver } => {
                write!(
                    f,
                    "driver {driver} of the pod's volumes is not on the node, and its CSIDriver has \
                     preventPodSchedulingIfMissing"
                )
            }
            Self::StorageCapacity { claim, class, wanted_bytes, largest_bytes: Some(largest) } => {
                write!(
                    f,
                    "claim {claim} needs a volume of {wanted_bytes} bytes of class {class}, and its driver can make \
                     at most {largest} bytes for the node"
                )
            }
            Self::StorageCapacity { claim, class, largest_bytes: None, .. } => {
                write!(
                    f,
                    "claim {claim}: no CSIStorageCapacity of class {class} with a size selects the labels of the node"
                )
            }
            Self::OpenDomain { topology_key, found } => {
                write!(f, "where its pods may run depends on {topology_key}, and a new node gets {found}")
            }
            Self::Devices { text, .. } => f.write_str(text),
            Self::Unsupported { what } => write!(f, "not simulated in this version: {what}"),
        }
    }
}
