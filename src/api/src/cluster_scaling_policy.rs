//! ClusterScalingPolicy: what holds for all pools together, and the answer to "why is my pod pending".

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Duration, MAX_NODES, NAME_PATTERN, NodeBudget, Quantity};
use super::external_grpc::{ADDRESS_PATTERN, ExternalGrpcTls, SERVER_NAME_PATTERN};

/// The only name that a ClusterScalingPolicy may have.
pub const POLICY_NAME: &str = "default";

/// Settings of all pools together. There is at most one, named `default`; without it every default holds.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "headroom.dev",
    version = "v1alpha1",
    kind = "ClusterScalingPolicy",
    plural = "clusterscalingpolicies",
    shortname = "hcsp",
    category = "headroom",
    status = "ClusterScalingPolicyStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "What holds for all pools together. There is at most one, named `default`; without it every default holds.",
    validation = Rule::new("self.metadata.name == 'default'")
        .message("metadata.name must be default: there is one ClusterScalingPolicy; rename it"),
    printcolumn(name = "Disruption", type_ = "string", json_path = ".spec.nodes.voluntaryDisruption", description = "Allowed when empty"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Unplaced pods", type_ = "integer", json_path = ".status.unplacedPods", description = "Pods that no node and no pool can take"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.unplaced[0].reason", description = "Why the largest group of them has no place"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterScalingPolicySpec {
    /// Purchases and removals of nodes in the whole cluster. Default: the defaults of its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeScaling>,

    /// Scaling of workloads in the whole cluster. Default: the defaults of its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workloads: Option<WorkloadScaling>,
}

/// Largest number that `maxPoliciesPerNamespace` accepts.
pub const POLICIES_PER_NAMESPACE_MAX: i64 = 100_000;

/// Scaling of workloads in the whole cluster: what the controller-manager takes as flags.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadScaling {
    /// Controller that runs HorizontalPodAutoscalers. `Observe`: the controller-manager; the operator computes the same
    /// decisions and reports them in ScalingPolicies, and writes nothing to HPAs and their workloads. `Replace`: the
    /// operator, status and events included, once nobody else has written the HPA's status for two sync periods and its
    /// `observedGeneration`, which a controller-manager that still runs HPAs takes away, has stood for as long. Default:
    /// `Observe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "HpaOwnership")]
    pub hpa_ownership: Option<HpaOwnership>,

    /// Time between two evaluations of each workload. Default: `15s`. Range: `1s` to `10m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_period: Option<Duration>,

    /// Shortest `timing.syncPeriod` that a ScalingPolicy gets: what asks the metrics APIs more often is a matter of the whole
    /// cluster. Default: `5s`, or `syncPeriod` where that is shorter. Range: `1s` to `10m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_sync_period: Option<Duration>,

    /// Deviation of a metric from its target, as a fraction, up to which the number of replicas is kept. Default:
    /// `"0.1"`. Range: 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Quantity>,

    /// Time for which a workload keeps the highest recommendation before it shrinks, where its behavior sets none.
    /// Default: `5m`. At most `1h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downscale_stabilization: Option<Duration>,

    /// Time after its start for which the CPU of a pod that is not ready, or whose sample is older than its readiness,
    /// does not count. Default: `5m`. At most `1h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_initialization_period: Option<Duration>,

    /// A pod that has become unready within this time after its start is taken to have never been ready. Default: `30s`.
    /// At most `1h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_readiness_delay: Option<Duration>,

    /// Maximum ScalingPolicies of one namespace, those that the operator keeps for HPAs included; the newest beyond it are
    /// Stalled. Default: 5000. Range: 1 to 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = POLICIES_PER_NAMESPACE_MAX))]
    pub max_policies_per_namespace: Option<i32>,

    /// Component that chooses the pods that go when the operator lowers the replicas of a workload. `ByReplicaSet`: the ReplicaSet
    /// controller by its own ranking. `EmptyNodes`: the operator, so that nodes become empty without an eviction; it writes
    /// `controller.kubernetes.io/pod-deletion-cost` to pods of ReplicaSets, keeps zones even, and leaves a workload alone whose
    /// pods have costs of somebody else. The chart grants it by the value of the same name. Default: `ByReplicaSet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ScaleInChoice")]
    pub scale_in: Option<ScaleInChoice>,

    /// Servers that ScalingPolicies may ask for metrics. Default: none. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(o, o.name == s.name))")
        .message("metricSources[].name must be unique: rename one of the two sources"))]
    pub metric_sources: Vec<MetricSource>,
}

/// Controller that runs HorizontalPodAutoscalers.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HpaOwnership {
    /// The controller-manager; the operator watches and explains.
    #[default]
    Observe,
    /// The operator.
    Replace,
}

/// Component that chooses the pods that go when replicas are lowered.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScaleInChoice {
    /// The ReplicaSet controller.
    #[default]
    ByReplicaSet,
    /// The operator, by deletion costs.
    EmptyNodes,
}

/// A server that ScalingPolicies may ask for metrics. Exactly one of `prometheus`, `externalScaler`, `http` and `redis` is set.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.prometheus), has(self.externalScaler), has(self.http), has(self.redis)].filter(one, one).size() == 1")
    .message("metricSources[] needs exactly one of prometheus, externalScaler, http and redis: set one and remove the others"))]
pub struct MetricSource {
    /// Name by which ScalingPolicies refer to it, unique in the list. Required.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,

    /// A Prometheus server. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusServer>,

    /// A server of KEDA's external scaler protocol. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_scaler: Option<ExternalScalerServer>,

    /// A server that answers with JSON. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpServer>,

    /// A Redis server, or one that speaks its protocol. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis: Option<RedisServer>,
}

/// A Redis server, or one that speaks its protocol, such as Valkey. A single server: neither Sentinel nor Cluster is asked for another one.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.tls) != (has(self.insecure) && self.insecure)")
    .message("redis needs exactly one of tls and insecure: true: add tls, or insecure: true for a connection without encryption"))]
#[x_kube(validation = Rule::new("!has(self.username) || has(self.passwordFile)")
    .message("redis.username needs a password: add passwordFile, or remove username").field_path(".username"))]
pub struct RedisServer {
    /// Address of the server, host and port, such as `redis.queues:6379`; IPv6 addresses in brackets. Required.
    #[schemars(length(min = 3, max = 260), regex(pattern = ADDRESS_PATTERN))]
    pub address: String,

    /// Encryption of the connection. Default: none; required unless `insecure` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<RedisTls>,

    /// True to connect without encryption, and to send the password so. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,

    /// User of Redis' ACL whose password it is. Default: the default user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub username: Option<String>,

    /// A file with the password, read for each connection, below `/etc/headroom/metric-sources/`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = MOUNTED_FILE_PATTERN))]
    pub password_file: Option<String>,

    /// Beginning of the keys that policies may ask for. Default: none, so that they may ask for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub key_prefix: Option<String>,

    /// Namespaces whose policies may ask the server, which does not tell namespaces apart. Default: all. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63), regex(pattern = NAME_PATTERN)))]
    pub namespaces: Vec<String>,
}

/// Encryption of a connection to a Redis server.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedisTls {
    /// File with the certificates in PEM of the CAs that may have signed the server's, below
    /// `/etc/headroom/metric-sources/`. Required.
    #[schemars(length(max = 256), regex(pattern = MOUNTED_FILE_PATTERN))]
    pub ca_file: String,

    /// Name that the server's certificate has to be for. Default: the host of `address`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = SERVER_NAME_PATTERN))]
    pub server_name: Option<String>,
}

/// A server that answers GET requests with JSON, such as the management API of RabbitMQ or the monitoring endpoint of NATS.
/// Redirects are not followed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.bearerTokenFile) || !has(self.basicAuthFile)")
    .message("http has both bearerTokenFile and basicAuthFile: remove one of the two"))]
#[x_kube(validation = Rule::new(
    "(!has(self.bearerTokenFile) && !has(self.basicAuthFile)) || self.url.startsWith('https://') \
     || (has(self.allowInsecureCredentials) && self.allowInsecureCredentials)")
    .message("bearerTokenFile or basicAuthFile would be sent without encryption: use an https:// url, or set allowInsecureCredentials to true"))]
pub struct HttpServer {
    /// Address of the server, such as `https://rabbitmq.queues:15671/api/queues`; the paths of policies come below it, so that a path
    /// here bounds what they can ask for. Required.
    #[schemars(length(min = 8, max = 512), regex(pattern = "^https?://"))]
    pub url: String,

    /// A file with a bearer token, read anew each minute, below `/etc/headroom/metric-sources/`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = MOUNTED_FILE_PATTERN))]
    pub bearer_token_file: Option<String>,

    /// A file with a name and a password in the form `name:password`, for basic authentication, read for each request, below the same
    /// folder. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = MOUNTED_FILE_PATTERN))]
    pub basic_auth_file: Option<String>,

    /// True to send the token or the password over plain `http://`, where everybody on the way can read it. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_insecure_credentials: Option<bool>,

    /// A file with the certificate of the CA in PEM that the server's certificate is checked against, below the same
    /// folder. Default: the CAs that the operator's image trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = MOUNTED_FILE_PATTERN))]
    pub ca_file: Option<String>,

    /// Namespaces whose policies may ask the server, which does not tell namespaces apart. Default: all. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63), regex(pattern = NAME_PATTERN)))]
    pub namespaces: Vec<String>,
}

/// A server of KEDA's external scaler protocol (`externalscaler.ExternalScaler`, over gRPC).
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.tls) != (has(self.insecure) && self.insecure)")
    .message("externalScaler needs exactly one of tls and insecure: true: add tls, or insecure: true for a connection without encryption"))]
pub struct ExternalScalerServer {
    /// Address of the server, host and port, such as `scaler.queues:6000`; IPv6 addresses in brackets. Required.
    #[schemars(length(min = 3, max = 260), regex(pattern = ADDRESS_PATTERN))]
    pub address: String,

    /// Encryption and authentication of the connection. Default: none; required unless `insecure` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ExternalScalerTls>,

    /// True to connect without encryption. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,

    /// Namespaces whose policies may ask the server: it is sent the namespace, and tells namespaces apart itself or not at
    /// all. Default: all. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63), regex(pattern = NAME_PATTERN)))]
    pub namespaces: Vec<String>,
}

/// Encryption and authentication of a connection to an external scaler. Files are read again each minute.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.certFile) == has(self.keyFile)")
    .message("externalScaler.tls needs both certFile and keyFile, or neither: add the missing one"))]
pub struct ExternalScalerTls {
    /// File with the certificates in PEM of the CAs that may have signed the server's, below
    /// `/etc/headroom/metric-sources/`. Required.
    #[schemars(length(max = 256), regex(pattern = MOUNTED_FILE_PATTERN))]
    pub ca_file: String,

    /// File with the operator's own certificate in PEM, below the same folder. Default: none; required with `keyFile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = MOUNTED_FILE_PATTERN))]
    pub cert_file: Option<String>,

    /// File with the key of that certificate, below the same folder. Default: none; required with `certFile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = MOUNTED_FILE_PATTERN))]
    pub key_file: Option<String>,

    /// Name that the server's certificate has to be for. Default: the host of `address`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = SERVER_NAME_PATTERN))]
    pub server_name: Option<String>,
}

/// A Prometheus server, or anything that answers its query API.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.bearerTokenFile) || self.url.startsWith('https://') \
     || (has(self.allowInsecureToken) && self.allowInsecureToken)")
    .message("bearerTokenFile would be sent without encryption: use an https:// url, or set allowInsecureToken to true"))]
pub struct PrometheusServer {
    /// Address of its API, such as `http://prometheus.monitoring:9090`. Required.
    #[schemars(length(min = 8, max = 512), regex(pattern = "^https?://"))]
    pub url: String,

    /// The label that holds the namespace of a series; queries are confined by it to the policy's namespace. Default:
    /// `namespace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[a-zA-Z_][a-zA-Z0-9_]*$"))]
    pub namespace_label: Option<String>,

    /// A file with a bearer token, read anew each minute: a Secret mounted into the operator's pod below
    /// `/etc/headroom/metric-sources/`. The operator reads no Secrets by itself. Default: no token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = MOUNTED_FILE_PATTERN))]
    pub bearer_token_file: Option<String>,

    /// True to send the token over plain `http://`, where everybody on the way can read it; without it a token needs an
    /// `https://` url. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_insecure_token: Option<bool>,

    /// A file with the certificate of the CA in PEM that the server's certificate is checked against, below the same
    /// folder. Default: the CAs that the operator's image trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = MOUNTED_FILE_PATTERN))]
    pub ca_file: Option<String>,
}

/// A file below the one folder that users may mount files into: with any other, whoever may write this object could
/// have the operator send its own token to a server of theirs.
pub const MOUNTED_FILE_PATTERN: &str = "^/etc/headroom/metric-sources(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$";

/// Purchases and removals of nodes in the whole cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.grpcExpander) == (has(self.expanders) && self.expanders.exists(e, e == 'Grpc'))")
    .message("expander Grpc and nodes.grpcExpander need each other: add the missing one, or remove the other").field_path(".expanders"))]
pub struct NodeScaling {
    /// Choice of one pool among those that fit the same pods: each expander keeps the best of what the one before
    /// left; a tie at the end goes to the fewest nodes, then to the first by name. Default: `[LeastWaste]`. At most 5, no two
    /// alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    #[x_kube(validation = Rule::new("self.all(e, self.exists_one(o, o == e))")
        .message("nodes.expanders must not repeat an expander: remove the second one"))]
    pub expanders: Vec<Expander>,

    /// The server that expander `Grpc` asks. Default: none; required with expander `Grpc`, and only allowed then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_expander: Option<GrpcExpander>,

    /// True if nodes that one pool would get are spread over all pools whose nodes are alike, the smallest first. Alike:
    /// equal capacity but for 1.5 % of memory, 5 % of what is allocatable and free, and equal labels but for zone, name,
    /// pool and group. The groups of one pool are always balanced. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balance_similar_pools: Option<bool>,

    /// Ceilings on the sum over all nodes of the cluster, those of no pool included. A scale-up that would pass one is
    /// cut to what fits. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ClusterLimits>,

    /// Safety stop: while so many nodes are unready that the cause is likely not the nodes, no node is added or
    /// removed. Default: the defaults of its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthGate>,

    /// Pods with a priority lower than this neither make a pool grow nor keep a node. Default: -10. Range: -2147483648
    /// to 1000000000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = i32::MIN, max = 1_000_000_000))]
    pub expendable_pods_priority_cutoff: Option<i32>,

    /// Age of a pod before it makes a pool grow. A longer one in the pod's annotation
    /// `cluster-autoscaler.kubernetes.io/pod-scale-up-delay` holds for that pod. Default: `0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_pod_delay: Option<Duration>,

    /// Schedulers whose pods make a pool grow at once. Pods of other schedulers do so once their condition `PodScheduled`
    /// is False with reason `Unschedulable`: without that mark their scheduler may be missing, or hold them back. With an
    /// empty list this holds for all pods. Default: `[default-scheduler]`. At most 16, no two alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)))]
    #[x_kube(validation = Rule::new("self.all(e, self.exists_one(o, o == e))")
        .message("nodes.immediateSchedulers must not repeat a scheduler: remove the second one"))]
    pub immediate_schedulers: Option<Vec<String>>,

    /// Number of nodes that may be leaving at once in the whole cluster. Default: the defaults of its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removals: Option<Removals>,

    /// The emergency switch. `Stopped`: no node is removed, of any pool and for any reason, and removals under way are
    /// undone. Pools still grow, and machines that never became nodes are still taken back. Default: `Allowed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "VoluntaryDisruption")]
    pub voluntary_disruption: Option<VoluntaryDisruption>,

    /// Replicas that controllers have decided on and not created yet count as demand. Default: the defaults of its
    /// fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anticipation: Option<Anticipation>,

    /// The CapacityBuffers (`autoscaling.x-k8s.io`) for which room is kept, by their `spec.provisioningStrategy`. `Own`:
    /// those that ask for `headroom.dev/active-capacity`. `All`: those of the default strategy
    /// `buffer.x-k8s.io/active-capacity` too, which other autoscalers serve as well. Default: `Own`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BufferService")]
    pub capacity_buffers: Option<BufferService>,

    /// The ProvisioningRequests (`autoscaling.x-k8s.io`) that are served, besides those of the classes
    /// `check-capacity.headroom.dev` and `atomic-scale-up.headroom.dev`. Default: the defaults of its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_requests: Option<ProvisioningRequests>,
}

/// The ProvisioningRequests that are served.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningRequests {
    /// Classes of Cluster Autoscaler that are served too; it must not serve them in this cluster itself. `CheckCapacity`:
    /// `check-capacity.autoscaling.x-k8s.io`. `BestEffortAtomicScaleUp`:
    /// `best-effort-atomic-scale-up.autoscaling.x-k8s.io`. Default: none. No two alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    #[x_kube(validation = Rule::new("self.all(e, self.exists_one(o, o == e))")
        .message("nodes.provisioningRequests.classes must not repeat a class: remove the second one"))]
    pub classes: Vec<RequestClass>,

    /// The value of a request's parameter `processorInstance` that names this operator. A request with another value is
    /// left alone. Default: none, so that every request with that parameter is left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub processor_instance: Option<String>,

    /// Time that granted room is held, unless the request's parameter `bookingSeconds` sets another. Default: `10m`.
    /// Range: `1m` to `24h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booking_for: Option<Duration>,
}

/// A class of ProvisioningRequests of Cluster Autoscaler.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RequestClass {
    /// The one that only answers.
    CheckCapacity,
    /// The one that buys what is missing, or nothing.
    BestEffortAtomicScaleUp,
}

/// Choice of one pool among those that fit the same pods.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Expander {
    /// The least CPU and memory left idle on the new nodes.
    LeastWaste,
    /// The fewest new nodes.
    LeastNodes,
    /// The most pods placed.
    MostPods,
    /// The highest `priority` of the pool.
    Priority,
    /// The lowest cost for the same pods, by `price` of the pool.
    Price,
    /// The options that the server in `grpcExpander` names; all options if it does not answer.
    Grpc,
}

/// The server that expander `Grpc` asks: any server of Cluster Autoscaler's expander `grpc`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.tls) != (has(self.insecure) && self.insecure)")
    .message("nodes.grpcExpander needs exactly one of tls and insecure: true: add tls"))]
#[x_kube(validation = Rule::new("!has(self.insecure) || !self.insecure || self.address.matches('^(localhost|127[.][0-9.]+|.::1.):[0-9]+$')")
    .message("nodes.grpcExpander.insecure is for a server of the operator's own pod, at localhost, 127.0.0.1 or [::1]: use tls for others").field_path(".insecure"))]
pub struct GrpcExpander {
    /// Address of the server, host and port, such as `chooser.example:7000`; IPv6 addresses in brackets. Required.
    #[schemars(length(min = 3, max = 260), regex(pattern = ADDRESS_PATTERN))]
    pub address: String,

    /// Encryption and authentication of the connection. Default: none; required unless `insecure` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ExternalGrpcTls>,

    /// True to connect without encryption, which is for a server in the operator's own pod. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,

    /// Deadline of a question. Without an answer the rest of `expanders` decides. Default: `5s`. Range: 1s to 30s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,

    /// Meaning of an answer that names no option. `Veto`: nothing is bought, and the server is asked again 30 s later.
    /// `Ignore`: the rest of `expanders` decides. Default: `Veto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EmptyAnswer")]
    pub on_empty: Option<EmptyAnswer>,

    /// Pods of each option. `Send`: the server gets their names, labels, requests and scheduling rules. `Omit`: it gets
    /// groups, numbers and nodes alone. Default: `Send`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ExpanderPods")]
    pub pods: Option<ExpanderPods>,
}

/// Meaning of an answer that names no option.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EmptyAnswer {
    /// Nothing is bought.
    #[default]
    Veto,
    /// The rest of the chain decides.
    Ignore,
}

/// Use of pods in questions to the server of expander `Grpc`.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExpanderPods {
    /// The server gets them.
    #[default]
    Send,
    /// They stay in the cluster.
    Omit,
}

/// The CapacityBuffers for which room is kept.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BufferService {
    /// Those that name this operator's strategy.
    #[default]
    Own,
    /// Those of the default strategy too.
    All,
}

/// True if nodes may be removed at all.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VoluntaryDisruption {
    /// Nodes are removed by the settings of the pools.
    #[default]
    Allowed,
    /// No node is removed, removals under way are undone.
    Stopped,
}

/// Ceilings on the sum over all nodes of the cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.min) || ((!has(self.min.cpu) || !has(self.cpu) || quantity(self.min.cpu).compareTo(quantity(self.cpu)) <= 0) && (!has(self.min.memory) || !has(self.memory) || quantity(self.min.memory).compareTo(quantity(self.memory)) <= 0))")
    .message("nodes.limits.min must not be more than the limit of the same resource: lower min or raise the limit").field_path(".min"))]
pub struct ClusterLimits {
    /// Most nodes, those on their way included. Default: no limit. Range: 0 to 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub nodes: Option<i32>,

    /// Most CPU of all nodes together, for example `"3200"`. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,

    /// Most memory of all nodes together, for example `12800Gi`. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,

    /// Amounts that removals leave in the cluster: no node goes that would take its CPU or memory below. Nothing is bought to
    /// reach it. Default: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<ClusterMinimum>,
}

/// Amounts that removals leave in the cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterMinimum {
    /// Least CPU of all nodes together, for example `"64"`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,

    /// Least memory of all nodes together, for example `256Gi`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
}

/// Health below which the cluster is not scaled: more unready nodes than both numbers allow.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthGate {
    /// Percentage of the nodes that may be unready. Default: 45. Range: 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_unready_percent: Option<i32>,

    /// So many unready nodes are fine whatever their share. Default: 3. Range: 0 to 100000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_NODES))]
    pub ok_unready_count: Option<i32>,
}

/// Number of nodes that may be leaving at once in the whole cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.maxParallelDrains) ? self.maxParallelDrains : 1) <= (has(self.maxParallel) ? self.maxParallel : 10)")
    .message("removals.maxParallelDrains (default 1) must not be greater than removals.maxParallel (default 10): lower it or raise maxParallel").field_path(".maxParallelDrains"))]
pub struct Removals {
    /// Most nodes that may be leaving at once, empty ones included. Default: 10. Range: 1 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_parallel: Option<i32>,

    /// Most nodes that may be drained of pods at once; they count in `maxParallel` too. Default: 1. Range: 0 to 1000;
    /// with 0 only empty nodes are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub max_parallel_drains: Option<i32>,

    /// Further ceilings, over the nodes of all pools; percentages are of all their ready nodes. They hold besides the
    /// pools' own. Default: none. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = Rule::new("self.all(b, self.exists_one(o, o.name == b.name))")
        .message("budgets[].name must be unique: rename one of the two budgets"))]
    pub budgets: Vec<NodeBudget>,
}

/// Demand before the pods exist.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Anticipation {
    /// True if replicas that a ReplicaSet, StatefulSet or Job has decided on and not created yet count as demand.
    /// Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,

    /// Most such replicas that count at once. Default: 10000. Range: 0 to 50000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 50_000))]
    pub max_pods: Option<i32>,

    /// Most of them in one namespace. Default: 5000. Range: 0 to 50000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 50_000))]
    pub max_pods_per_namespace: Option<i32>,
}

/// Report of the operator about the cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterScalingPolicyStatus {
    /// The `metadata.generation` that this status speaks of. Lower than it: the last edit has not been seen yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready: the spec is accepted and the loop runs. Stalled: only an edit can help. Others, present while they hold:
    /// ClusterHealthy, DisruptionStopped, AtLimit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// Number of pods that no node and no pool can take now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub unplaced_pods: Option<i32>,

    /// Those pods, alike ones in one row, with the reason of each pool; the largest group comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub unplaced: Vec<UnplacedPods>,

    /// Number of rows that were left out of `unplaced` because status would have become too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub truncated: Option<i32>,
}

/// Pods alike that have no place, and why.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnplacedPods {
    /// Number of pods.
    #[schemars(range(min = 1))]
    pub pods: i32,

    /// Some of them, as namespace/name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(max = 317)))]
    pub examples: Vec<String>,

    /// Reason, in one word: that of the pool that comes closest.
    #[schemars(length(max = 128))]
    pub reason: String,

    /// The same in a sentence, with what would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,

    /// Answer of each pool, the closest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub pools: Vec<PoolVerdict>,

    /// Time since which they have been waiting.
    pub since: Time,
}

/// Reason why a pool does not take some pods.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolVerdict {
    /// Name of the pool.
    #[schemars(length(max = 253))]
    pub pool: String,

    /// Reason, such as `TaintNotTolerated`, `TooLarge`, `AtMaxNodes` or `BackingOff`.
    #[schemars(length(max = 128))]
    pub reason: String,

    /// The same in a sentence, with the key, the value or the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub message: Option<String>,
}
