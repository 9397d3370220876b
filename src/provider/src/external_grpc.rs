//! Settings of a pool of node groups behind the externalgrpc protocol. The package `headroom-externalgrpc` acts on them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use headroom_api::external_grpc::{ExternalGrpcOptions, ExternalGrpcTls};
use headroom_api::validate::{ValidatedExternalGrpc, ValidatedPool};
use headroom_core::time::Seconds;
use headroom_core::world::provider::GroupOptions;

use super::CloudSettings;

/// Settings of a pool of node groups behind the externalgrpc protocol.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The server. Pools with equal ones share a connection.
    pub server: Address,
    /// Deadline of a read.
    pub read_timeout: Duration,
    /// Deadline of a write.
    pub write_timeout: Duration,
    /// Groups by id.
    pub groups: Vec<NamedGroup>,
    /// Regular expression for whole ids of further groups.
    pub id_regex: Option<Arc<str>>,
    /// The pool's own scale-down settings, sent to the server as the defaults; `None` if the server is not asked for others.
    pub defaults: Option<GroupOptions>,
}

/// A server and how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Host and port.
    pub address: Arc<str>,
    /// Encryption; `None` for plaintext.
    pub tls: Option<Tls>,
}

/// Encryption and authentication, by files that are read again while the operator runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tls {
    /// Certificates of the CAs that may have signed the server's.
    pub ca_file: PathBuf,
    /// The operator's certificate and its key.
    pub identity_files: Option<(PathBuf, PathBuf)>,
    /// Name in the server's certificate; `None` for the address's host.
    pub server_name: Option<Arc<str>>,
}

/// A group by id, with bounds that narrow its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedGroup {
    /// Its id.
    pub id: Arc<str>,
    /// Fewest nodes.
    pub min: Option<u32>,
    /// Most nodes.
    pub max: Option<u32>,
}

impl Settings {
    /// The word of `spec.provider.type`.
    pub const KIND: &'static str = "ExternalGrpc";

    /// The settings of this provider in a pool whose scale-down settings are the defaults of its groups.
    #[must_use]
    pub fn of(pool: &ValidatedPool, valid: &ValidatedExternalGrpc) -> Self {
        let ValidatedExternalGrpc {
            address,
            tls,
            read_timeout,
            write_timeout,
            node_groups,
            id_regex,
            options,
        } = valid;
        let groups = node_groups.iter().map(|group| NamedGroup {
            id: group.id.as_str().into(),
            min: group.min_nodes,
            max: group.max_nodes,
        });
        Self {
            server: Address { address: address.as_str().into(), tls: tls.as_ref().map(Tls::from) },
            read_timeout: *read_timeout,
            write_timeout: *write_timeout,
            groups: groups.collect(),
            id_regex: id_regex.as_deref().map(Into::into),
            defaults: match options {
                ExternalGrpcOptions::Honor => Some(defaults(pool)),
                ExternalGrpcOptions::Ignore => None,
            },
        }
    }

    /// The bounds that the spec sets for a group.
    #[must_use]
    pub fn bounds_of(&self, group: &str) -> (Option<u32>, Option<u32>) {
        let named = self.groups.iter().find(|named| &*named.id == group);
        named.map_or((None, None), |named| (named.min, named.max))
    }
}

impl CloudSettings for Settings {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
}

impl From<&ExternalGrpcTls> for Tls {
    fn from(written: &ExternalGrpcTls) -> Self {
        let ExternalGrpcTls { ca_file, cert_file, key_file, server_name } = written;
        let pair = cert_file.as_ref().zip(key_file.as_ref());
        Self {
            ca_file: ca_file.into(),
            identity_files: pair.map(|(cert, key)| (cert.into(), key.into())),
            server_name: server_name.as_deref().map(Into::into),
        }
    }
}

fn defaults(pool: &ValidatedPool) -> GroupOptions {
    let seconds = |length: Duration| Some(Seconds(i64::try_from(length.as_secs()).unwrap_or(i64::MAX)));
    let scale_down = &pool.scale_down;
    GroupOptions {
        utilization_threshold_percent: Some(scale_down.utilization_threshold_percent.into()),
        gpu_utilization_threshold_percent: Some(scale_down.gpu_utilization_threshold_percent.into()),
        unneeded_for: seconds(scale_down.unneeded_for),
        unready_for: seconds(scale_down.unready_for),
        provision_timeout: seconds(pool.scale_up.provision_timeout),
        ignore_daemon_sets: Some(scale_down.ignore_daemon_sets_utilization),
    }
}
