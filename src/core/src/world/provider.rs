//! What a pool's cloud says of itself: groups, their targets and their instances.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::history::BackoffKey;
use crate::time::UnixTime;

/// The state of one pool at its provider, as one read gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderState {
    /// The node groups by id. A pool without groups cannot grow.
    pub groups: BTreeMap<Arc<str>, GroupState>,
}

/// One node group at the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupState {
    /// The zone of all its nodes, if it has one.
    pub zone: Option<Arc<str>>,
    /// How many instances the cloud wants to have.
    pub target: u32,
    /// The cloud's own lower bound.
    pub min: u32,
    /// The cloud's own upper bound.
    pub max: u32,
    /// Instances by provider id; those that are nodes already are among them.
    pub instances: BTreeMap<Arc<str>, Instance>,
    /// Trouble that the cloud reported of its own accord since the last read (failed launches).
    pub failures: Vec<LaunchFailure>,
}

/// One instance of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// What it does.
    pub state: InstanceState,
    /// The node it is, where the provider knows (kwok: always).
    pub node: Option<Arc<str>>,
    /// When it was asked for, if known.
    pub created_at: Option<UnixTime>,
}

/// The life of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// Asked for, not running yet.
    Creating,
    /// Running.
    Running,
    /// Going away.
    Deleting,
}

/// A launch that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchFailure {
    /// What is to be backed off.
    pub key: BackoffKey,
    /// The class of trouble.
    pub class: FailureClass,
    /// The cloud's own words.
    pub message: Arc<str>,
    /// When the cloud says it happened.
    pub at: UnixTime,
}

/// Why a launch failed; a closed set, so that it can label a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureClass {
    /// The zone or type has no machines left.
    OutOfCapacity,
    /// An account limit.
    QuotaExceeded,
    /// The template, image or network is wrong; a retry alone will not help.
    InvalidConfiguration,
    /// A permission is missing.
    PermissionDenied,
    /// The cloud asks for fewer calls.
    Throttled,
    /// Launched, but no node registered in time.
    ProvisionTimeout,
    /// Anything else.
    Other,
}

impl FailureClass {
    /// Every class, in the order of declaration.
    pub const ALL: [Self; 7] = [
        Self::OutOfCapacity,
        Self::QuotaExceeded,
        Self::InvalidConfiguration,
        Self::PermissionDenied,
        Self::Throttled,
        Self::ProvisionTimeout,
        Self::Other,
    ];

    /// The word for status, events and metric labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OutOfCapacity => "OutOfCapacity",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::InvalidConfiguration => "InvalidConfiguration",
            Self::PermissionDenied => "PermissionDenied",
            Self::Throttled => "Throttled",
            Self::ProvisionTimeout => "ProvisionTimeout",
            Self::Other => "Other",
        }
    }

    /// The class of a word; `None` for words that are none.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }
}
