//! NodePool, provider ExternalGrpc: a server of Cluster Autoscaler's externalgrpc protocol and its node groups.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Duration, MAX_NODES};

/// The form of a server's address: a name or an IP address (IPv6 in brackets), and a port.
pub const ADDRESS_PATTERN: &str =
    r"^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$";

/// The form of a server's name in its certificate.
pub const SERVER_NAME_PATTERN: &str = r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$";

/// The form of a node group's id: no control characters.
pub const GROUP_ID_PATTERN: &str = r"^[^\x00-\x1f\x7f]+$";

/// A file below the one folder from which certificates and keys are read.
pub const CERTIFICATE_FILE_PATTERN: &str = "^/etc/headroom/external-grpc(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$";

/// Provider ExternalGrpc: node groups of a server that speaks Cluster Autoscaler's externalgrpc protocol.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.nodeGroups) || has(self.idRegex)")
    .message("provider.externalGrpc must name groups in nodeGroups, or find them by idRegex: add one of the two"))]
#[x_kube(validation = Rule::new("has(self.tls) != (has(self.insecure) && self.insecure)")
    .message("provider.externalGrpc needs exactly one of tls and insecure: true: who answers decides which nodes are deleted"))]
pub struct ExternalGrpcProvider {
    /// Address of the server, host and port, such as `autoscaling.example:8086`; IPv6 addresses in brackets. One server
    /// process must answer: servers keep sizes in memory, so no load balancing between several. Required.
    #[schemars(length(min = 3, max = 260), regex(pattern = ADDRESS_PATTERN))]
    pub address: String,

    /// Encryption and authentication of the connection. Default: none; required unless `insecure` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ExternalGrpcTls>,

    /// True to connect without encryption and authentication. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,

    /// Deadline of a read. Default: `5s`. Range: 1s to 60s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_timeout: Option<Duration>,

    /// Deadline of a write. A write without an answer is not repeated before twice this time, and at least 60 s. Default:
    /// `60s`. Range: 5s to 15m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_timeout: Option<Duration>,

    /// Groups by their exact id. A group may belong to one pool only: an exact id precedes a regex, then the older pool
    /// precedes. Default: none. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("size(self) > 0 && self.all(g, self.exists_one(o, o.id == g.id))")
        .message("externalGrpc.nodeGroups must name at least one group, and none twice: remove the second one"))]
    pub node_groups: Vec<ExternalGrpcNodeGroup>,

    /// Regular expression for ids of further groups; it has to match the whole id. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub id_regex: Option<String>,

    /// Scale-down settings that the server has for a group. `Honor`: they precede the pool's. `Ignore`: they are not asked
    /// for. Default: `Honor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ExternalGrpcOptions")]
    pub options: Option<ExternalGrpcOptions>,
}

/// Encryption and authentication of a connection. Files are read again each minute.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.certFile) == has(self.keyFile)")
    .message("externalGrpc.tls needs both certFile and keyFile, or neither: add the missing one"))]
pub struct ExternalGrpcTls {
    /// File with the certificates in PEM of the CAs that may have signed the server's, below
    /// `/etc/headroom/external-grpc/`. Required.
    #[schemars(length(max = 256), regex(pattern = CERTIFICATE_FILE_PATTERN))]
    pub ca_file: String,

    /// File with the operator's own certificate in PEM, below the same folder. Default: none; required with `keyFile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = CERTIFICATE_FILE_PATTERN))]
    pub cert_file: Option<String>,

    /// File with the key of that certificate, below the same folder. Default: none; required with `certFile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = CERTIFICATE_FILE_PATTERN))]
    pub key_file: Option<String>,

    /// Name that the server's certificate has to be for. Default: the host of `address`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = SERVER_NAME_PATTERN))]
    pub server_name: Option<String>,
}

/// A node group of the server.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.minNodes) || !has(self.maxNodes) || self.minNodes <= self.maxNodes")
    .message("nodeGroups[].minNodes must not be greater than its maxNodes: lower minNodes or raise maxNodes").field_path(".minNodes"))]
pub struct ExternalGrpcNodeGroup {
    /// Id of the group at the server. Required.
    #[schemars(length(min = 1, max = 253), regex(pattern = GROUP_ID_PATTERN))]
    pub id: String,

    /// Fewest nodes of this group. The server's own minimum holds where it is higher. Default: the server's minimum. Range:
    /// 0 to 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub min_nodes: Option<i32>,

    /// Most nodes of this group. The server's own maximum holds where it is lower. Default: the server's maximum. Range: 0
    /// to 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub max_nodes: Option<i32>,
}

/// Use of the scale-down settings that a server has for its groups.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExternalGrpcOptions {
    /// The server's precede the pool's.
    #[default]
    Honor,
    /// The server is not asked.
    Ignore,
}
