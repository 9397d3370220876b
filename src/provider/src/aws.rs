//! Settings of a pool of Auto Scaling groups. The package `headroom-aws` acts on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_api::node_pool;
use headroom_api::validate::ValidatedAws;

use super::CloudSettings;

/// Tag that names the cluster of a group; the cluster's name follows.
const CLUSTER_TAG_PREFIX: &str = "k8s.io/cluster-autoscaler/";

/// Settings of a pool of Auto Scaling groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The region; `None` for the environment's.
    pub region: Option<Arc<str>>,
    /// The cluster whose tag selected groups must have.
    pub cluster_name: Option<Arc<str>>,
    /// Groups by name.
    pub groups: Vec<NamedGroup>,
    /// Tags of groups to be found; empty finds none.
    pub selector: BTreeMap<String, String>,
    /// Assumed shape of a new node of a group with several types.
    pub mixed: MixedTypes,
    /// Name of the queue that reports interruptions.
    pub interruption_queue: Option<Arc<str>>,
}

/// A group by name, with bounds that narrow its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedGroup {
    /// Its name.
    pub name: Arc<str>,
    /// Fewest nodes.
    pub min: Option<u32>,
    /// Most nodes.
    pub max: Option<u32>,
}

/// Assumed shape of a new node of a group with several types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MixedTypes {
    /// The least of each resource over all types.
    #[default]
    Smallest,
    /// The first type.
    First,
}

impl CloudSettings for Settings {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
}

impl From<&ValidatedAws> for Settings {
    fn from(valid: &ValidatedAws) -> Self {
        let ValidatedAws { region, cluster_name, node_groups, tag_selector, mixed_types, interruption_queue } =
            valid;
        let groups = node_groups.iter().map(|group| NamedGroup {
            name: group.name.as_str().into(),
            min: group.min_nodes,
            max: group.max_nodes,
        });
        Self {
            region: region.as_deref().map(Into::into),
            cluster_name: cluster_name.as_deref().map(Into::into),
            groups: groups.collect(),
            selector: tag_selector.clone(),
            interruption_queue: interruption_queue.as_deref().map(Into::into),
            mixed: match mixed_types {
                node_pool::MixedTypes::Smallest => MixedTypes::Smallest,
                node_pool::MixedTypes::First => MixedTypes::First,
            },
        }
    }
}

impl Settings {
    /// The word of `spec.provider.type`.
    pub const KIND: &'static str = "AWS";

    /// The tags that are asked for, the cluster's own among them; `None` when groups are found by name only.
    #[must_use]
    pub fn tags(&self) -> Option<BTreeMap<String, String>> {
        if self.selector.is_empty() {
            return None;
        }
        let mut tags = self.selector.clone();
        if let Some(cluster) = &self.cluster_name {
            tags.entry(format!("{CLUSTER_TAG_PREFIX}{cluster}")).or_default();
        }
        Some(tags)
    }

    /// The bounds that the spec sets for a group.
    #[must_use]
    pub fn bounds_of(&self, group: &str) -> (Option<u32>, Option<u32>) {
        let named = self.groups.iter().find(|named| &*named.name == group);
        named.map_or((None, None), |named| (named.min, named.max))
    }
}
