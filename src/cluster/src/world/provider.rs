//! State of a pool's cloud: groups, their target sizes and their instances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::world::template::NodeTemplate;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};

/// Key of a backoff: never more than what failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackoffKey {
    /// The group.
    pub group: Arc<str>,
    /// The zone, where the failure names one.
    pub zone: Option<Arc<str>>,
    /// The instance type, where the failure names one.
    pub instance_type: Option<Arc<str>>,
    /// The market (`OnDemand`, `Spot`), where the failure names one.
    pub market: Option<Arc<str>>,
}

/// Labels that every new node has and whose value is known once it is there: the values that there may be, none where
/// those are not known either.
pub type OpenLabels = BTreeMap<Arc<str>, Vec<Arc<str>>>;

/// The state of one pool at its provider, as one read gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderState {
    /// The node groups by id. A pool without groups cannot grow.
    pub groups: BTreeMap<Arc<str>, GroupState>,
    /// Facts on the groups that a person should know, in order of kind and group.
    pub notices: Vec<Notice>,
    /// The claim of another pool that keeps this one from acting, in words; `None` when nobody else claims its groups.
    pub conflict: Option<Arc<str>>,
    /// Proof, in words, that the groups' machines are nodes of another cluster; `None` when there is none. Nothing is done then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong_cluster: Option<Arc<str>>,
}

/// One node group at the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupState {
    /// The zone of all its nodes, if it has one.
    pub zone: Option<Arc<str>>,
    /// The zones among which the cloud chooses for each new node; empty where `zone` is set or nothing is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<Arc<str>>,
    /// Number of instances that the cloud wants to have.
    pub target: u32,
    /// The cloud's own lower bound.
    pub min: u32,
    /// The cloud's own upper bound.
    pub max: u32,
    /// Instances by provider id; those that are nodes already are among them.
    pub instances: BTreeMap<Arc<str>, Instance>,
    /// Trouble that the cloud reported of its own accord since the last read (failed launches).
    pub failures: Vec<LaunchFailure>,
    /// The provider's template of a new node of the group; `None` when it knows nothing.
    pub template: Option<Arc<GroupTemplate>>,
    /// Provider ids of instances that were made of something else than the group makes instances of now, as far as the
    /// provider knows both.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub outdated: BTreeSet<Arc<str>>,
    /// Instances that the cloud has announced it takes soon, by provider id, with its announcement.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub interrupted: BTreeMap<Arc<str>, Arc<str>>,
    /// Settings that the group's own marks give, over those of its pool; `None` when they give none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Arc<GroupOptions>>,
    /// True if the pool's spec names it no more: its nodes count and leave, and it never grows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retired: bool,
    /// Reason that none of its machines is removed; `None` when there is none. It may grow all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Instances that the group's own controller makes without a new size, in place of some that are gone or going.
    /// They are within `target`; 0 where the cloud does not report them.
    #[serde(skip_serializing_if = "is_zero")]
    pub replacements: u32,
    /// Rank among the groups of a pool whose groups are of several shapes: groups of one rank are alike but for their zone,
    /// and of ranks that do as well the lowest is bought. `None` where all groups of the pool are alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Price of one node for one hour, in millionths of a currency unit, where the groups of the pool differ in it. `None`
    /// where it is unknown, or the pool's own holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_hour_micro: Option<i64>,
    /// True if its machines are known to be spot machines, some of them at least: without prices they are not compared with others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spot: bool,
    /// Fewest ranks over which the nodes of the groups that have this are spread, as far as enough ranks take the pods: the cloud
    /// takes such machines back, and those of one kind together. `None` where it does not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diversity: Option<u32>,
    /// True if the cloud does not have the group yet: its first increase makes it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub possible: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Reason that no machine of a group is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The reason of each node of the group.
    pub reason: Reason,
    /// Description for a person, with the words of the group's own controller.
    pub message: Arc<str>,
    /// Instances that may be removed all the same.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub except: BTreeSet<Arc<str>>,
}

/// Settings of one group that its cloud's marks (tags) give. A field that is `None` is as in the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupOptions {
    /// In place of the pool's, in percent; 0 to 100.
    pub utilization_threshold_percent: Option<u32>,
    /// In place of the pool's, in percent; 0 to 100.
    pub gpu_utilization_threshold_percent: Option<u32>,
    /// In place of the pool's.
    pub unneeded_for: Option<Seconds>,
    /// In place of the pool's.
    pub unready_for: Option<Seconds>,
    /// In place of the pool's; at most [`GroupOptions::LENGTH_MAX`].
    pub provision_timeout: Option<Seconds>,
    /// True if DaemonSet pods are left out when a node is measured, in place of the pool's setting.
    pub ignore_daemon_sets: Option<bool>,
}

impl GroupOptions {
    /// Longest time of an option: a day.
    pub const LENGTH_MAX: Seconds = Seconds(86_400);
}

impl GroupState {
    /// Instances that are not on their way out.
    #[must_use]
    pub fn live_count(&self) -> u32 {
        let live = self.instances.values().filter(|instance| instance.state != InstanceState::Deleting);
        u32::try_from(live.count()).unwrap_or(u32::MAX)
    }
}

/// A provider's template of a new node of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupTemplate {
    /// The node, the pool's own labels and taints among its own.
    pub node: NodeTemplate,
    /// Labels in which its machines differ; none of them is among the node's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub open_labels: OpenLabels,
    /// Trust in the template beside what live nodes show.
    pub trust: TemplateTrust,
    /// The provider's version of what it was read from, if it has versions.
    pub version: Option<Arc<str>>,
}

/// Trust in a provider's template beside what live nodes show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TemplateTrust {
    /// Worked out from the type of machine: a live node, or what was learned from one, knows better.
    #[default]
    Estimate,
    /// Its machines differ: a live node is not a template for the next one.
    Mixed,
    /// Its amounts are those that the user wrote: they hold.
    Declared,
}

/// Something about a group, or about the provider as a whole, that a person should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// Kind of the fact.
    pub kind: NoticeKind,
    /// The group; `None` when it concerns all of them.
    pub group: Option<Arc<str>>,
    /// For a person.
    pub message: Arc<str>,
}

/// The kinds of notices; a closed set, whose words are reasons of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NoticeKind {
    /// A permission is missing.
    PermissionMissing,
    /// The last read failed; the reported state is older.
    ReadFailed,
    /// A group that the spec names does not exist.
    GroupNotFound,
    /// A group that can not be managed.
    GroupUnsupported,
    /// A quota of the account keeps a group from growing.
    QuotaExhausted,
    /// A group that is being deleted, or some of whose processes are suspended.
    GroupSuspended,
    /// The launch template of the group cannot be read.
    TemplateUnreadable,
    /// A tag of the group can not be read.
    TagUnreadable,
    /// Somebody else changed the group's size.
    ForeignEdit,
    /// The prices of some groups' nodes are not known.
    PriceUnknown,
    /// Wanted instances do not come and can not be cancelled.
    Unfulfilled,
    /// The group's own bounds are narrower than the spec's.
    BoundsClamped,
    /// The cloud may terminate nodes by itself to even out zones.
    ZoneRebalancing,
}

impl NoticeKind {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 13] = [
        Self::PermissionMissing,
        Self::ReadFailed,
        Self::GroupNotFound,
        Self::GroupUnsupported,
        Self::QuotaExhausted,
        Self::GroupSuspended,
        Self::TemplateUnreadable,
        Self::TagUnreadable,
        Self::ForeignEdit,
        Self::PriceUnknown,
        Self::Unfulfilled,
        Self::BoundsClamped,
        Self::ZoneRebalancing,
    ];

    /// The word for conditions.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PermissionMissing => "PermissionMissing",
            Self::ReadFailed => "ReadFailed",
            Self::GroupNotFound => "GroupNotFound",
            Self::GroupUnsupported => "GroupUnsupported",
            Self::QuotaExhausted => "QuotaExhausted",
            Self::GroupSuspended => "GroupSuspended",
            Self::TemplateUnreadable => "TemplateUnreadable",
            Self::TagUnreadable => "TagUnreadable",
            Self::ForeignEdit => "ForeignEdit",
            Self::PriceUnknown => "PriceUnknown",
            Self::Unfulfilled => "Unfulfilled",
            Self::BoundsClamped => "BoundsClamped",
            Self::ZoneRebalancing => "ZoneRebalancing",
        }
    }
}

/// One instance of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// State of the instance.
    pub state: InstanceState,
    /// The node it is, where the provider knows (kwok: always).
    pub node: Option<Arc<str>>,
    /// Time at which it was asked for, if known.
    pub created_at: Option<UnixTime>,
}

/// The life of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstanceState {
    /// Asked for, not running yet.
    Creating,
    /// Running.
    Running,
    /// Its launch failed: it counts as there until it has been taken back, and nobody waits for it.
    Failed,
    /// Going away.
    Deleting,
}

/// A launch that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchFailure {
    /// Key of the backoff that follows.
    pub key: BackoffKey,
    /// The class of trouble.
    pub class: FailureClass,
    /// The cloud's own words.
    pub message: Arc<str>,
    /// Time at which the cloud reports that it happened.
    pub at: UnixTime,
}

/// Reason why a launch failed; a closed set, so that it can label a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
