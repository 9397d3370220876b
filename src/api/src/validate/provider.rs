//! Source of a pool's nodes and shape of a new node: parsed, in range, every default filled in.

use std::collections::BTreeMap;
use std::time::Duration;

use super::attach_limits::read_attach_limits;
use super::aws_managed::{self, ValidatedManaged};
use super::cluster_api::{self, ValidatedClusterApi};
use super::devices::{ValidatedDevices, read_devices};
use super::external_grpc::{self, ValidatedExternalGrpc};
use super::{Amounts, Checker, MAX_NODES, VALUE_FIX, is_label_value, is_qualified_name};
use crate::node_pool::{
    AwsProvider, AwsRole, FailureClass, KwokProvider, KwokSimulation, MixedTypes, NodeTemplate, Provider,
    ProviderType, Taint,
};

/// Source of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValidatedProvider {
    /// Node objects that KWOK brings to life.
    Kwok(ValidatedKwok),
    /// Auto Scaling groups.
    Aws(ValidatedAws),
    /// Node groups of a server of the externalgrpc protocol.
    ExternalGrpc(ValidatedExternalGrpc),
    /// Machine groups of a cluster that Cluster API runs.
    ClusterApi(ValidatedClusterApi),
}

/// Node objects that KWOK brings to life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedKwok {
    /// The zones, one node group each; at least one, no two alike.
    pub zones: Vec<String>,
    /// Time that a new node takes to appear.
    pub join_delay: Duration,
    /// Launches that are made to fail.
    pub failures: Vec<ValidatedFailure>,
}

/// Auto Scaling groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedAws {
    /// Their region; the environment's, if none.
    pub region: Option<String>,
    /// The role that is assumed for its calls; none for the operator's own identity.
    pub role: Option<AwsRole>,
    /// The cluster whose tag selected groups must have; none only if the user asked for that.
    pub cluster_name: Option<String>,
    /// Groups by name, no two alike.
    pub node_groups: Vec<ValidatedAwsGroup>,
    /// Tags that selected groups must have; an empty value matches any. Empty: nothing is selected.
    pub tag_selector: BTreeMap<String, String>,
    /// Groups that the operator makes; then no others are named.
    pub managed: Option<ValidatedManaged>,
    /// Assumed shape of a new node of a group with several types.
    pub mixed_types: MixedTypes,
    /// Name of the queue that reports interruptions, if one is read.
    pub interruption_queue: Option<String>,
}

/// An Auto Scaling group by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedAwsGroup {
    /// Its name.
    pub name: String,
    /// Fewest nodes, if the spec sets it.
    pub min_nodes: Option<u32>,
    /// Most nodes, if the spec sets it.
    pub max_nodes: Option<u32>,
}

/// A launch failure to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedFailure {
    /// The zone whose launches fail; every zone, if none.
    pub zone: Option<String>,
    /// Kind of the failure.
    pub class: FailureClass,
    /// Its text, never empty.
    pub message: String,
    /// Number of nodes of each request that fail; all, if none.
    pub count: Option<u32>,
}

/// Shape of a new node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidatedTemplate {
    /// Labels besides those that the operator and the provider set.
    pub labels: BTreeMap<String, String>,
    /// Taints that a node keeps.
    pub taints: Vec<Taint>,
    /// Taints that a node has until it is set up.
    pub startup_taints: Vec<Taint>,
    /// Capacity of the node, with `pods` filled in; none if it is asked of the provider.
    pub capacity: Option<Amounts>,
    /// Part of it that the system keeps.
    pub reserved: Amounts,
    /// The devices of the node; none if they are learned.
    pub devices: Option<Vec<ValidatedDevices>>,
    /// Number of volumes that the node attaches, by CSI driver; none if they are learned.
    pub attach_limits: Option<BTreeMap<String, u32>>,
}

impl ValidatedTemplate {
    /// Amounts that pods can request of a new node: capacity less reserved, never under 0; none without a capacity.
    pub fn allocatable(&self) -> Option<Amounts> {
        let rest = |(resource, amount): (&String, &i64)| {
            let reserved = self.reserved.get(resource).copied().unwrap_or(0);
            (resource.clone(), amount.saturating_sub(reserved).max(0))
        };
        self.capacity.as_ref().map(|capacity| capacity.iter().map(rest).collect())
    }
}

/// None, with an error noted, if the member that the type names is missing.
pub(super) fn read_provider(check: &mut Checker, provider: &Provider) -> Option<ValidatedProvider> {
    let Provider { type_, kwok, aws, external_grpc: member, cluster_api: machines } = provider;
    match type_ {
        ProviderType::Aws => match aws {
            Some(aws) => Some(ValidatedProvider::Aws(read_aws(check, aws))),
            None => {
                check.error("spec.provider.aws", "is missing for provider type AWS", "add spec.provider.aws");
                None
            }
        },
        ProviderType::ExternalGrpc => match member {
            Some(written) => Some(ValidatedProvider::ExternalGrpc(external_grpc::read(check, written))),
            None => {
                let (path, fix) = ("spec.provider.externalGrpc", "add spec.provider.externalGrpc");
                check.error(path, "is missing for provider type ExternalGrpc", fix);
                None
            }
        },
        ProviderType::ClusterApi => match machines {
            Some(written) => Some(ValidatedProvider::ClusterApi(cluster_api::read(check, written))),
            None => {
                let (path, fix) = ("spec.provider.clusterApi", "add spec.provider.clusterApi");
                check.error(path, "is missing for provider type ClusterApi", fix);
                None
            }
        },
        ProviderType::Kwok => match kwok {
            Some(kwok) => Some(ValidatedProvider::Kwok(read_kwok(check, kwok))),
            None => {
                check.error(
                    "spec.provider.kwok",
                    "is missing for provider type KWOK",
                    "add spec.provider.kwok",
                );
                None
            }
        },
    }
}

fn read_aws(check: &mut Checker, aws: &AwsProvider) -> ValidatedAws {
    let AwsProvider {
        region,
        assume_role,
        cluster_name,
        any_cluster,
        node_groups,
        tag_selector,
        managed,
        mixed_types,
        interruption_queue,
    } = aws;
    let path = "spec.provider.aws";
    let named = |name: &String| {
        (1..=80).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    check.require(
        interruption_queue.as_ref().is_none_or(named),
        &format!("{path}.interruptionQueue"),
        "is not the name of a queue",
        "write its name of at most 80 letters, digits, - and _, not its address",
    );
    check.require(
        assume_role.as_ref().is_none_or(|role| is_role_arn(&role.arn)),
        &format!("{path}.assumeRole.arn"),
        "is not the ARN of a role",
        "write for example arn:aws:iam::123456789012:role/headroom",
    );
    check.require(
        !node_groups.is_empty() || !tag_selector.is_empty() || managed.is_some(),
        path,
        "names no group",
        "name groups in nodeGroups, find them by tagSelector, or have them made by managed",
    );
    let named = !node_groups.is_empty() || !tag_selector.is_empty() || any_cluster.is_some();
    check.require(
        managed.is_none() || (!named && mixed_types.is_none()),
        &format!("{path}.managed"),
        "excludes nodeGroups, tagSelector, anyCluster and mixedTypes",
        "remove them, or make another pool of them",
    );
    check.require(
        managed.is_none() || cluster_name.is_some(),
        &format!("{path}.managed"),
        "could not tell its groups from those of other clusters",
        "set clusterName",
    );
    let confined = tag_selector.is_empty() || cluster_name.is_some() || any_cluster.unwrap_or(false);
    check.require(
        confined,
        &format!("{path}.tagSelector"),
        "could take the groups of other clusters",
        "set clusterName, or anyCluster: true",
    );
    check.require(
        !(any_cluster.unwrap_or(false) && cluster_name.is_some()),
        &format!("{path}.anyCluster"),
        "contradicts clusterName",
        "remove one of the two",
    );
    check.require(
        !tag_selector.keys().any(String::is_empty),
        &format!("{path}.tagSelector"),
        "has a tag without a key",
        "name the tag",
    );
    check.unique(node_groups.iter().map(|group| group.name.as_str()), &format!("{path}.nodeGroups"));
    let mut groups = Vec::with_capacity(node_groups.len());
    for (index, group) in node_groups.iter().enumerate() {
        let path = format!("{path}.nodeGroups[{index}]");
        check.require(!group.name.is_empty(), &path, "has no name", "name the Auto Scaling group");
        let mut bound = |written: Option<i32>, field: &str| {
            written.map(|n| check.count(Some(n), 0, (0, MAX_NODES), &format!("{path}.{field}")))
        };
        let (min_nodes, max_nodes) = (bound(group.min_nodes, "minNodes"), bound(group.max_nodes, "maxNodes"));
        let ordered = min_nodes.is_none_or(|min| max_nodes.is_none_or(|max| min <= max));
        check.require(ordered, &path, "has minNodes above maxNodes", "lower minNodes or raise maxNodes");
        groups.push(ValidatedAwsGroup { name: group.name.clone(), min_nodes, max_nodes });
    }
    ValidatedAws {
        region: region.clone(),
        role: assume_role.clone(),
        cluster_name: cluster_name.clone(),
        node_groups: groups,
        tag_selector: tag_selector.clone(),
        managed: managed.as_ref().map(|written| aws_managed::read(check, written)),
        mixed_types: mixed_types.unwrap_or_default(),
        interruption_queue: interruption_queue.clone(),
    }
}

/// True for `arn:PARTITION:iam::ACCOUNT:role/NAME`.
fn is_role_arn(arn: &str) -> bool {
    let mut parts = arn.splitn(6, ':');
    let head = (
        parts.next(),
        parts.next().map(|partition| partition.starts_with("aws")),
        parts.next(),
        parts.next(),
    );
    let account = parts.next().unwrap_or_default();
    let name = parts.next().and_then(|rest| rest.strip_prefix("role/")).unwrap_or_default();
    head == (Some("arn"), Some(true), Some("iam"), Some(""))
        && account.len() == 12
        && account.bytes().all(|byte| byte.is_ascii_digit())
        && !name.is_empty()
}

fn read_kwok(check: &mut Checker, kwok: &KwokProvider) -> ValidatedKwok {
    let KwokProvider { zones, simulation } = kwok;
    let (join_delay, failures) = match simulation {
        Some(KwokSimulation { join_delay, failures }) => (join_delay.as_ref(), failures.as_slice()),
        None => (None, [].as_slice()),
    };
    let path = "spec.provider.kwok";
    check.unique(zones.iter().map(String::as_str), &format!("{path}.zones"));
    let named = !zones.is_empty() && zones.iter().all(|zone| !zone.is_empty() && is_label_value(zone));
    check.require(named, &format!("{path}.zones"), "has no zone, or one that is no label value", VALUE_FIX);
    let path = "spec.provider.kwok.simulation";
    let join_delay = check.duration(join_delay, 1, &format!("{path}.joinDelay"));
    let mut read = Vec::with_capacity(failures.len());
    for (index, failure) in failures.iter().enumerate() {
        let path = format!("{path}.failures[{index}]");
        let known = failure.zone.as_ref().is_none_or(|zone| zones.contains(zone));
        check.require(
            known,
            &format!("{path}.zone"),
            "is not one of kwok.zones",
            "correct it or add it to kwok.zones",
        );
        let count =
            failure.count.map(|count| check.count(Some(count), 1, (1, 1000), &format!("{path}.count")));
        let message = failure.message.clone().filter(|message| !message.is_empty());
        read.push(ValidatedFailure {
            zone: failure.zone.clone(),
            class: failure.class,
            message: message.unwrap_or_else(|| format!("{:?}", failure.class)),
            count,
        });
    }
    ValidatedKwok { zones: zones.clone(), join_delay, failures: read }
}

pub(super) fn read_template(
    check: &mut Checker,
    template: &NodeTemplate,
    provider: ProviderType,
) -> ValidatedTemplate {
    let NodeTemplate { labels, taints, startup_taints, capacity, reserved, devices, attach_limits } =
        template;
    let path = "spec.template";
    check.labels(labels, &format!("{path}.labels"));
    check_taints(check, taints, &format!("{path}.taints"));
    check_taints(check, startup_taints, &format!("{path}.startupTaints"));
    let mut capacity = capacity.as_ref().map(|written| check.amounts(written, &format!("{path}.capacity")));
    let reserved =
        reserved.as_ref().map(|r| check.amounts(r, &format!("{path}.reserved"))).unwrap_or_default();
    match &mut capacity {
        Some(capacity) => {
            let useful = ["cpu", "memory"].iter().all(|r| capacity.get(*r).is_some_and(|amount| 0 < *amount));
            check.require(useful, "spec.template.capacity", "lacks cpu or memory", "set both to more than 0");
            // As upstream: a node takes 110 pods unless the spec sets another number.
            capacity.entry("pods".to_owned()).or_insert(110);
        }
        None => match provider {
            ProviderType::Kwok => {
                let fix = "set cpu and memory: provider KWOK has no machine to ask";
                check.error("spec.template.capacity", "is missing", fix);
            }
            ProviderType::Aws | ProviderType::ClusterApi | ProviderType::ExternalGrpc => {}
        },
    }
    for (resource, amount) in &reserved {
        let has = capacity.as_ref().and_then(|c| c.get(resource)).is_some_and(|capacity| amount <= capacity);
        let path = format!("{path}.reserved[{resource}]");
        check.require(has, &path, "is more than template.capacity has", "lower it or raise the capacity");
    }
    ValidatedTemplate {
        labels: labels.clone(),
        taints: taints.clone(),
        startup_taints: startup_taints.clone(),
        capacity,
        reserved,
        devices: read_devices(check, devices.as_ref()),
        attach_limits: read_attach_limits(check, attach_limits.as_ref()),
    }
}

pub(super) fn check_taints(check: &mut Checker, taints: &[Taint], path: &str) {
    let names: Vec<String> = taints.iter().map(|taint| format!("{}:{:?}", taint.key, taint.effect)).collect();
    check.unique(names.iter().map(String::as_str), path);
    for (index, taint) in taints.iter().enumerate() {
        let path = format!("{path}[{index}]");
        check.require(is_qualified_name(&taint.key), &path, "has no valid key", "use name or prefix/name");
        let value = taint.value.as_deref().unwrap_or_default();
        check.require(is_label_value(value), &path, "has no valid value", VALUE_FIX);
    }
}
