//! Settings of a pool's cloud, and the one list of clouds. Everybody else asks through [`CloudSettings`].

use headroom_api::validate::{ValidatedPool, ValidatedProvider};
use headroom_core::world::provider::ProviderState;

use super::{OwnNode, PoolAtProvider, aws, cluster_api, external_grpc, kwok};

/// Cloud of a pool, and its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderSettings {
    /// Node objects that KWOK brings to life.
    Kwok(kwok::Settings),
    /// Auto Scaling groups.
    Aws(aws::Settings),
    /// Node groups of a server of the externalgrpc protocol.
    ExternalGrpc(external_grpc::Settings),
    /// MachineDeployments, MachineSets and MachinePools of Cluster API.
    ClusterApi(cluster_api::Settings),
}

/// Properties of a cloud that the operator and the commands have to know.
pub trait CloudSettings {
    /// The word of `spec.provider.type`.
    fn kind(&self) -> &'static str;

    /// True if groups grow and shrink by a size that is written, so that writes of one group affect each other. Other clouds
    /// are asked for each node by its name.
    fn writes_sizes(&self) -> bool {
        true
    }

    /// True if all victims that a step names in a group are deleted by one call, since each alone would wait for the others.
    fn deletes_together(&self) -> bool {
        false
    }

    /// True if the operator makes the Node objects, so that the pool's template is the node.
    fn makes_nodes(&self) -> bool {
        false
    }

    /// The pool's state as far as its spec and nodes give it; `None` if only the cloud knows.
    fn state_without_cloud(&self, pool: &PoolAtProvider, nodes: &[OwnNode]) -> Option<ProviderState> {
        let _ = (pool, nodes);
        None
    }
}

impl ProviderSettings {
    fn cloud(&self) -> &dyn CloudSettings {
        match self {
            Self::Kwok(settings) => settings,
            Self::Aws(settings) => settings,
            Self::ExternalGrpc(settings) => settings,
            Self::ClusterApi(settings) => settings,
        }
    }
}

impl CloudSettings for ProviderSettings {
    fn kind(&self) -> &'static str {
        self.cloud().kind()
    }

    fn writes_sizes(&self) -> bool {
        self.cloud().writes_sizes()
    }

    fn deletes_together(&self) -> bool {
        self.cloud().deletes_together()
    }

    fn makes_nodes(&self) -> bool {
        self.cloud().makes_nodes()
    }

    fn state_without_cloud(&self, pool: &PoolAtProvider, nodes: &[OwnNode]) -> Option<ProviderState> {
        self.cloud().state_without_cloud(pool, nodes)
    }
}

impl From<&ValidatedPool> for ProviderSettings {
    fn from(pool: &ValidatedPool) -> Self {
        match &pool.provider {
            ValidatedProvider::Kwok(kwok) => Self::Kwok(kwok.into()),
            ValidatedProvider::Aws(valid) => Self::Aws(aws::Settings::of(pool, valid)),
            ValidatedProvider::ExternalGrpc(valid) => {
                Self::ExternalGrpc(external_grpc::Settings::of(pool, valid))
            }
            ValidatedProvider::ClusterApi(valid) => Self::ClusterApi(valid.into()),
        }
    }
}
