//! Settings of a pool of machine groups of Cluster API. The package `headroom-clusterapi` acts on them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use headroom_api::cluster_api::ClusterApiKind;
use headroom_api::validate::ValidatedClusterApi;

use super::CloudSettings;

/// The one folder of kubeconfigs of management clusters.
pub const MANAGEMENT_FOLDER: &str = "/etc/headroom/management";

/// Settings of a pool of machine groups of Cluster API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Place of the groups.
    pub place: Place,
    /// Groups by name.
    pub groups: Vec<NamedGroup>,
    /// Labels of further groups, all of which must match; empty if none are selected.
    pub match_labels: BTreeMap<Arc<str>, Arc<str>>,
}

/// The machines of one workload cluster: pools with equal ones share watches.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Kubeconfig of the management cluster; `None` for the operator's own cluster.
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the Cluster.
    pub namespace: Arc<str>,
    /// Name of the Cluster.
    pub cluster: Arc<str>,
}

/// A group by name, with bounds that narrow its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedGroup {
    /// Its kind.
    pub kind: GroupKind,
    /// Its name.
    pub name: Arc<str>,
    /// Fewest nodes.
    pub min: Option<u32>,
    /// Most nodes.
    pub max: Option<u32>,
}

/// The kinds of scalable objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// A MachineDeployment.
    #[default]
    Deployment,
    /// A MachineSet without a MachineDeployment.
    Set,
    /// A MachinePool.
    Pool,
}

impl GroupKind {
    /// The kind as Cluster API spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "MachineDeployment",
            Self::Set => "MachineSet",
            Self::Pool => "MachinePool",
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Settings {
    /// The word of `spec.provider.type`.
    pub const KIND: &'static str = "ClusterApi";

    /// The entry of the spec that names a group.
    #[must_use]
    pub fn named(&self, kind: GroupKind, name: &str) -> Option<&NamedGroup> {
        self.groups.iter().find(|group| group.kind == kind && &*group.name == name)
    }
}

impl CloudSettings for Settings {
    fn kind(&self) -> &'static str {
        Self::KIND
    }

    fn deletes_together(&self) -> bool {
        true
    }
}

impl From<&ValidatedClusterApi> for Settings {
    fn from(valid: &ValidatedClusterApi) -> Self {
        let ValidatedClusterApi { cluster_name, namespace, kubeconfig, groups, match_labels } = valid;
        let folder = PathBuf::from(MANAGEMENT_FOLDER);
        let groups = groups.iter().map(|group| NamedGroup {
            kind: match group.kind {
                ClusterApiKind::MachineDeployment => GroupKind::Deployment,
                ClusterApiKind::MachineSet => GroupKind::Set,
                ClusterApiKind::MachinePool => GroupKind::Pool,
            },
            name: group.name.as_str().into(),
            min: group.min_nodes,
            max: group.max_nodes,
        });
        Self {
            place: Place {
                kubeconfig: kubeconfig.as_ref().map(|file| folder.join(file)),
                namespace: namespace.as_str().into(),
                cluster: cluster_name.as_str().into(),
            },
            groups: groups.collect(),
            match_labels: match_labels.iter().map(|(key, value)| (&**key, &**value)).map(pair).collect(),
        }
    }
}

fn pair((key, value): (&str, &str)) -> (Arc<str>, Arc<str>) {
    (key.into(), value.into())
}
