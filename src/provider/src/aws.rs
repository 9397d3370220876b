//! Settings of a pool of Auto Scaling groups. The package `headroom-aws` acts on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_api::node_pool;
use headroom_api::validate::{ValidatedAws, ValidatedManaged, ValidatedPool};

pub use headroom_api::aws_managed::{AwsOperator as Operator, AwsRequirementKey as RequirementKey};
pub use headroom_api::node_pool::AwsRole as Role;
pub use headroom_api::validate::{
    ValidatedPrice as DeclaredPrice, ValidatedRequirement as Requirement, ValidatedSubnets as Subnets,
};

use headroom_core::time::Seconds;

use super::CloudSettings;

/// Tag by which a group that the operator made is known; its value is the pool's name.
pub const MANAGED_TAG: &str = "headroom.dev/managed";

/// Value of the cluster's tag of a group that the operator made.
pub const OWNED: &str = "owned";

/// Tag that names the cluster of a group; the cluster's name follows.
const CLUSTER_TAG_PREFIX: &str = "k8s.io/cluster-autoscaler/";

/// Settings of a pool of Auto Scaling groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The region; `None` for the environment's.
    pub region: Option<Arc<str>>,
    /// The role that is assumed for all calls; `None` for the operator's own identity.
    pub role: Option<Role>,
    /// The cluster whose tag selected groups must have.
    pub cluster_name: Option<Arc<str>>,
    /// Groups by name.
    pub groups: Vec<NamedGroup>,
    /// Tags of groups to be found; empty finds none.
    pub selector: BTreeMap<String, String>,
    /// Groups that the operator makes; then no others are named.
    pub managed: Option<Managed>,
    /// Assumed shape of a new node of a group with several types.
    pub mixed: MixedTypes,
    /// Name of the queue that reports interruptions.
    pub interruption_queue: Option<Arc<str>>,
}

/// Groups that the operator makes for one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// The pool.
    pub pool: Arc<str>,
    /// The cluster.
    pub cluster: Arc<str>,
    /// Id of the launch template; exactly one of id and name is there.
    pub template_id: Option<Arc<str>>,
    /// Name of the launch template.
    pub template_name: Option<Arc<str>>,
    /// Version of the launch template: a number, `$Default` or `$Latest`.
    pub template_version: Arc<str>,
    /// Subnets; each group is in one.
    pub subnets: Vec<Subnets>,
    /// Conditions on machines.
    pub requirements: Vec<Requirement>,
    /// Declared prices; the first that names a machine counts.
    pub prices: Vec<DeclaredPrice>,
    /// Highest price of a machine for an hour, in millionths; `None` for any.
    pub max_price_micro: Option<i64>,
    /// Fewest types over which spot machines are spread; 1 for no spread.
    pub min_spot_types: u32,
    /// Time after which a group without instances is deleted.
    pub delete_empty_after: Seconds,
}

impl Managed {
    fn of(pool: &str, cluster: &str, valid: &ValidatedManaged) -> Self {
        let ValidatedManaged {
            template_id,
            template_name,
            template_version,
            subnets,
            requirements,
            prices,
            max_price_micros,
            min_spot_types,
            delete_empty_after,
        } = valid;
        Self {
            pool: pool.into(),
            cluster: cluster.into(),
            template_id: template_id.as_deref().map(Into::into),
            template_name: template_name.as_deref().map(Into::into),
            template_version: template_version.as_str().into(),
            subnets: subnets.clone(),
            requirements: requirements.clone(),
            prices: prices.clone(),
            max_price_micro: max_price_micros.map(|micros| i64::try_from(micros).unwrap_or(i64::MAX)),
            min_spot_types: *min_spot_types,
            delete_empty_after: Seconds(i64::try_from(delete_empty_after.as_secs()).unwrap_or(i64::MAX)),
        }
    }

    /// The tags of the pool's groups: a group without all of them is not its.
    #[must_use]
    pub fn tags(&self) -> BTreeMap<String, String> {
        let cluster = format!("{CLUSTER_TAG_PREFIX}{}", self.cluster);
        BTreeMap::from([(cluster, OWNED.to_owned()), (MANAGED_TAG.to_owned(), self.pool.to_string())])
    }
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

impl Settings {
    /// The settings of a pool of this provider.
    #[must_use]
    pub fn of(pool: &ValidatedPool, valid: &ValidatedAws) -> Self {
        let ValidatedAws {
            region,
            role,
            cluster_name,
            node_groups,
            tag_selector,
            managed,
            mixed_types,
            interruption_queue,
        } = valid;
        let cluster = cluster_name.as_deref().unwrap_or_default();
        let groups = node_groups.iter().map(|group| NamedGroup {
            name: group.name.as_str().into(),
            min: group.min_nodes,
            max: group.max_nodes,
        });
        Self {
            region: region.as_deref().map(Into::into),
            role: role.clone(),
            cluster_name: cluster_name.as_deref().map(Into::into),
            groups: groups.collect(),
            selector: tag_selector.clone(),
            managed: managed.as_ref().map(|managed| Managed::of(&pool.name, cluster, managed)),
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
        if let Some(managed) = &self.managed {
            return Some(managed.tags());
        }
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
