//! Every field, annotation and type of trigger of KEDA's ScaledObject, and what becomes of it here. Data.
//!
//! Source: KEDA 2.21, its CustomResourceDefinition, and the parameters of the triggers that have a counterpart.

use super::Becomes::{self, Field, Instead, Shapes};
use super::{Table, row, rows};

const RELEASE: &str = "KEDA 2.21";

/// `spec` of a ScaledObject of `keda.sh/v1alpha1`.
pub(in crate::import) const SCALED_OBJECT: Table = Table {
    release: RELEASE,
    kind: "ScaledObject",
    rows: &[
        rows("scaleTargetRef", "apiVersion kind name", Field("target.scale")),
        row(
            "scaleTargetRef.envSourceContainerName",
            Instead("no trigger here reads a container's variables"),
        ),
        row("pollingInterval", Shapes("a part of `fallback.after`; below 15 s `timing.syncPeriod`")),
        row(
            "initialCooldownPeriod",
            Instead(
                "a workload goes to 0 once no metric has been active for timing.toZeroAfter, from the first look at it on: set \
                 minReplicas to 1 for as long as it must not",
            ),
        ),
        row("cooldownPeriod", Field("timing.toZeroAfter")),
        row(
            "idleReplicaCount",
            Shapes(
                "`minReplicas: 0` beside a minReplicaCount of at most 1; else in a comment, and a preview",
            ),
        ),
        row("minReplicaCount", Field("minReplicas")),
        row("maxReplicaCount", Field("maxReplicas")),
        row("fallback.failureThreshold", Field("fallback.after")),
        row("fallback.replicas", Field("fallback.replicas")),
        row("fallback.behavior", Shapes("`fallback.direction`, or `fallback.replicas: Hold`")),
        row(
            "advanced.restoreToOriginalReplicaCount",
            Shapes("in a comment: a workload without a policy stays at its size"),
        ),
        rows(
            "advanced.scalingModifiers",
            "formula target activationTarget metricType",
            Shapes(
                "`formula`, over metrics with the names of the triggers; in a comment, and a preview, where the expression is none here",
            ),
        ),
        row("advanced.horizontalPodAutoscalerConfig.name", Instead("there is no HPA that would have a name")),
        rows(
            "advanced.horizontalPodAutoscalerConfig.behavior",
            "scaleUp.stabilizationWindowSeconds scaleUp.selectPolicy scaleUp.tolerance scaleUp.policies[].type scaleUp.policies[].value scaleUp.policies[].periodSeconds scaleDown.stabilizationWindowSeconds scaleDown.selectPolicy scaleDown.tolerance scaleDown.policies[].type scaleDown.policies[].value scaleDown.policies[].periodSeconds",
            Field("behavior"),
        ),
        row("triggers[].type", Shapes("`metrics` or `schedules`, see the types of triggers")),
        row("triggers[].name", Shapes("`metrics[].name` where the formula has it, else in comments only")),
        row("triggers[].metadata", Shapes("see the parameters of the triggers")),
        row("triggers[].metricType", Field("metrics[].….target.type")),
        row(
            "triggers[].useCachedMetrics",
            Shapes("in a comment: an answer is shared by all policies for the sync period"),
        ),
        rows(
            "triggers[].authenticationRef",
            "name kind",
            Shapes(
                "in a comment, and a preview: a token and a CA of Prometheus are files of its source (`bearerTokenFile`, `caFile`), and so are the CA, the certificate and the key for an external scaler (`tls`)",
            ),
        ),
    ],
};

/// `metadata` of a trigger `cpu` or `memory`.
pub(in crate::import) const RESOURCE: Table = Table {
    release: RELEASE,
    kind: "cpu, memory",
    rows: &[
        row("value", Field("metrics[].resource.target")),
        row("type", Field("metrics[].resource.target.type")),
        row("containerName", Field("metrics[].containerResource.container")),
    ],
};

/// `metadata` of a trigger `cron`.
pub(in crate::import) const CRON: Table = Table {
    release: RELEASE,
    kind: "cron",
    rows: &[
        row("timezone", Field("schedules[].window.timeZone")),
        row("start", Field("schedules[].window.start")),
        row("end", Field("schedules[].window.duration")),
        row("desiredReplicas", Field("schedules[].minReplicas")),
    ],
};

/// Treatment of fields for requests that a source of metrics cannot send.
const ONLY_A_TOKEN: Becomes = Instead(
    "a source sends a bearer token (bearerTokenFile) or nothing: put a proxy that adds it before the server, and name the proxy as url",
);

/// `metadata` of a trigger `prometheus`. A field that is `Instead` may change the answer: the code decides which of
/// them makes a preview.
pub(in crate::import) const PROMETHEUS: Table = Table {
    release: RELEASE,
    kind: "prometheus",
    rows: &[
        row("serverAddress", Field("workloads.metricSources[].prometheus.url")),
        row("query", Field("metrics[].prometheus.query")),
        row("threshold", Field("metrics[].prometheus.target")),
        row("activationThreshold", Field("metrics[].activation")),
        row("timeout", Instead("the source's timeout holds")),
        row(
            "ignoreNullValues",
            Instead("no data is never zero here: nothing shrinks, and fallback says what to do"),
        ),
        row("namespace", Instead("the query is confined to the policy's namespace")),
        row(
            "unsafeSsl",
            Instead("the server's certificate is always checked: give its CA as caFile of the source"),
        ),
        row(
            "queryParameters",
            Instead(
                "a query has no parameters: write them into the query, or let a proxy add them and name the proxy as url",
            ),
        ),
        row("customHeaders", ONLY_A_TOKEN),
        row("authModes", ONLY_A_TOKEN),
        row("authMode", ONLY_A_TOKEN),
        row("apiKey", ONLY_A_TOKEN),
        row("method", ONLY_A_TOKEN),
        row("keyParamName", ONLY_A_TOKEN),
        row("awsRegion", ONLY_A_TOKEN),
        row("identityOwner", ONLY_A_TOKEN),
        row("metricName", Instead("KEDA itself reads it no more")),
    ],
};

/// `metadata` of a trigger `external` or `external-push`, as far as KEDA itself reads it. All of it is sent to the server.
pub(in crate::import) const EXTERNAL: Table = Table {
    release: RELEASE,
    kind: "external, external-push",
    rows: &[
        row("scalerAddress", Field("workloads.metricSources[].externalScaler.address")),
        row("enableTLS", Field("workloads.metricSources[].externalScaler.tls")),
        row(
            "unsafeSsl",
            Instead("the server's certificate is always checked: give its CA as tls.caFile of the source"),
        ),
    ],
};

/// Treatment of parameters for requests that an HTTP source cannot send.
const ONLY_CREDENTIALS: Becomes = Instead(
    "a source sends a bearer token (bearerTokenFile), a name and password (basicAuthFile), or nothing: put a proxy that adds it before \
     the server, and name the proxy as url",
);

/// `metadata` of a trigger `rabbitmq`.
pub(in crate::import) const RABBITMQ: Table = Table {
    release: RELEASE,
    kind: "rabbitmq",
    rows: &[
        row("host", Field("workloads.metricSources[].http.url")),
        row(
            "hostFromEnv",
            Instead("no metric reads a container's variables: write the address as url of the source"),
        ),
        row(
            "usernameFromEnv",
            Instead("the name and the password are in the file that basicAuthFile of the source names"),
        ),
        row(
            "passwordFromEnv",
            Instead("the name and the password are in the file that basicAuthFile of the source names"),
        ),
        row("queueName", Field("metrics[].http.path")),
        row("vhostName", Field("metrics[].http.path")),
        row("mode", Shapes("`metrics[].http.value`")),
        row("excludeUnacknowledged", Shapes("`metrics[].http.value`")),
        row("protocol", Shapes("`metrics[].http.value`")),
        row("value", Field("metrics[].http.target")),
        row("queueLength", Field("metrics[].http.target")),
        row("activationValue", Field("metrics[].activation")),
        row("timeout", Instead("the source's timeout holds")),
        row(
            "unsafeSsl",
            Instead("the server's certificate is always checked: give its CA as caFile of the source"),
        ),
        row("useRegex", Instead("a metric is of one queue: add a metric for each")),
        row("operation", Instead("a metric is of one queue: add a metric for each")),
        row("pageSize", Instead("a metric is of one queue: add a metric for each")),
    ],
};

/// Treatment of an address in a variable of a container.
const FROM_ENV: Becomes =
    Instead("no metric reads a container's variables: write the address as address of the source");

/// `metadata` of a trigger `redis`.
pub(in crate::import) const REDIS: Table = Table {
    release: RELEASE,
    kind: "redis",
    rows: &[
        row("address", Field("workloads.metricSources[].redis.address")),
        row("addressFromEnv", FROM_ENV),
        row("host", Field("workloads.metricSources[].redis.address")),
        row("hostFromEnv", FROM_ENV),
        row("port", Field("workloads.metricSources[].redis.address")),
        row("portFromEnv", FROM_ENV),
        row("usernameFromEnv", Instead("username of the source is the user whose password it sends")),
        row("passwordFromEnv", Instead("the password is in the file that passwordFile of the source names")),
        row("databaseIndex", Field("metrics[].redis.database")),
        row("enableTLS", Field("workloads.metricSources[].redis.tls")),
        row(
            "unsafeSsl",
            Instead("the server's certificate is always checked: give its CA as tls.caFile of the source"),
        ),
        row("listName", Field("metrics[].redis.key")),
        row("listLength", Field("metrics[].redis.target")),
        row("activationListLength", Field("metrics[].activation")),
    ],
};

/// `metadata` of a trigger `redis-streams`.
pub(in crate::import) const REDIS_STREAMS: Table = Table {
    release: RELEASE,
    kind: "redis-streams",
    rows: &[
        row("address", Field("workloads.metricSources[].redis.address")),
        row("addressFromEnv", FROM_ENV),
        row("host", Field("workloads.metricSources[].redis.address")),
        row("hostFromEnv", FROM_ENV),
        row("port", Field("workloads.metricSources[].redis.address")),
        row("portFromEnv", FROM_ENV),
        row("usernameFromEnv", Instead("username of the source is the user whose password it sends")),
        row("passwordFromEnv", Instead("the password is in the file that passwordFile of the source names")),
        row("databaseIndex", Field("metrics[].redis.database")),
        row("enableTLS", Field("workloads.metricSources[].redis.tls")),
        row(
            "unsafeSsl",
            Instead("the server's certificate is always checked: give its CA as tls.caFile of the source"),
        ),
        row("stream", Field("metrics[].redis.key")),
        row("consumerGroup", Field("metrics[].redis.group")),
        row("pendingEntriesCount", Shapes("`metrics[].redis.target` with `count: Pending`")),
        row("streamLength", Field("metrics[].redis.target")),
        row("lagCount", Shapes("`metrics[].redis.target` with `count: Lag`")),
        row("activationLagCount", Field("metrics[].activation")),
    ],
};

/// `metadata` of a trigger `nats-jetstream`.
pub(in crate::import) const NATS_JETSTREAM: Table = Table {
    release: RELEASE,
    kind: "nats-jetstream",
    rows: &[
        row("natsServerMonitoringEndpoint", Field("workloads.metricSources[].http.url")),
        row("useHttps", Field("workloads.metricSources[].http.url")),
        row("account", Shapes("`metrics[].http.path` and `value`")),
        row("stream", Field("metrics[].http.value")),
        row("consumer", Field("metrics[].http.value")),
        row("lagThreshold", Field("metrics[].http.target")),
        row("activationLagThreshold", Field("metrics[].activation")),
    ],
};

/// `metadata` of a trigger `metrics-api`.
pub(in crate::import) const METRICS_API: Table = Table {
    release: RELEASE,
    kind: "metrics-api",
    rows: &[
        row("url", Shapes("`workloads.metricSources[].http.url` and `metrics[].http.path`")),
        row("valueLocation", Field("metrics[].http.value")),
        row("targetValue", Field("metrics[].http.target")),
        row("activationTargetValue", Field("metrics[].activation")),
        row("format", Shapes("JSON alone")),
        row(
            "aggregateFromKubeServiceEndpoints",
            Instead(
                "the server is asked once, by its Service: let it report the number of all, or scale by Prometheus",
            ),
        ),
        row(
            "aggregationType",
            Instead(
                "the server is asked once, by its Service: let it report the number of all, or scale by Prometheus",
            ),
        ),
        row("timeout", Instead("the source's timeout holds")),
        row(
            "unsafeSsl",
            Instead("the server's certificate is always checked: give its CA as caFile of the source"),
        ),
        row("authMode", ONLY_CREDENTIALS),
        row("authModes", ONLY_CREDENTIALS),
        row("method", ONLY_CREDENTIALS),
        row("keyParamName", ONLY_CREDENTIALS),
    ],
};

/// Types of triggers that are neither a metric nor a schedule here, each group with what to do instead.
pub(in crate::import) const TRIGGERS: &[(&[&str], &str)] = &[
    (
        &[
            "activemq",
            "apache-kafka",
            "artemis-queue",
            "beanstalkd",
            "ibmmq",
            "kafka",
            "liiklus",
            "nsq",
            "pulsar",
            "redis-cluster",
            "redis-cluster-streams",
            "redis-sentinel",
            "redis-sentinel-streams",
            "solace-direct-messaging",
            "solace-event-queue",
        ],
        "scale by the length or the lag of its queue, which its exporter reports to Prometheus",
    ),
    (
        &[
            "aws-cloudwatch",
            "aws-dynamodb",
            "aws-dynamodb-streams",
            "aws-kinesis-stream",
            "aws-sqs-queue",
            "azure-app-insights",
            "azure-blob",
            "azure-cosmosdb",
            "azure-data-explorer",
            "azure-eventhub",
            "azure-log-analytics",
            "azure-monitor",
            "azure-queue",
            "azure-servicebus",
            "gcp-cloudtasks",
            "gcp-pubsub",
            "gcp-spanner",
            "gcp-stackdriver",
            "gcp-storage",
            "huawei-cloudeye",
            "openstack-metric",
            "openstack-swift",
        ],
        "scale by the cloud's metric: its exporter reports it to Prometheus, or a metrics adapter of the cloud serves it as External",
    ),
    (
        &[
            "datadog",
            "dynatrace",
            "elastic-forecast",
            "elasticsearch",
            "graphite",
            "influxdb",
            "loki",
            "new-relic",
            "opensearch",
            "predictkube",
            "solarwinds",
            "solr",
            "splunk",
            "splunk-observability",
            "sumologic",
        ],
        "scale by the same series in Prometheus, or by an External metric of a metrics adapter of that system",
    ),
    (
        &[
            "arangodb",
            "cassandra",
            "clickhouse",
            "couchdb",
            "etcd",
            "mongodb",
            "mssql",
            "mysql",
            "postgresql",
        ],
        "scale by the query's result, which an exporter with that query reports to Prometheus",
    ),
    (
        &["azure-pipelines", "forgejo-runner", "github-runner", "selenium-grid", "temporal"],
        "scale by the number of waiting jobs, which an exporter of that system reports to Prometheus",
    ),
    (
        &["kubernetes-resource", "kubernetes-workload"],
        "scale by the same number, which kube-state-metrics reports to Prometheus",
    ),
    (
        &["external-mock"],
        "let that server report its number to Prometheus, or serve it as External by a metrics adapter",
    ),
];

/// Types of triggers that become something, each with what.
pub(in crate::import) const CONVERTED: &[(&str, &str)] = &[
    ("cpu", "`metrics` of type Resource or ContainerResource"),
    ("memory", "`metrics` of type Resource or ContainerResource"),
    ("prometheus", "`metrics` of type Prometheus, and `workloads.metricSources` of the ClusterScalingPolicy"),
    (
        "external",
        "`metrics` of type ExternalScaler, and `workloads.metricSources` of the ClusterScalingPolicy; its parameters are `metadata`",
    ),
    ("external-push", "the same, with `push: true`"),
    (
        "rabbitmq",
        "`metrics` of type HTTP, of the management API, and `workloads.metricSources` of the ClusterScalingPolicy; a preview until the file with name and password is mounted",
    ),
    ("nats-jetstream", "`metrics` of type HTTP, of the monitoring endpoint, and `workloads.metricSources`"),
    ("metrics-api", "`metrics` of type HTTP, and `workloads.metricSources`"),
    (
        "redis",
        "`metrics` of type Redis, and `workloads.metricSources`; a preview until the files with password and CA are mounted, where it has them",
    ),
    (
        "redis-streams",
        "the same, with `count: Pending` or `Lag` of a consumer group, or the length of the stream",
    ),
    ("cron", "`schedules`"),
];

/// Annotations of a ScaledObject.
pub(in crate::import) const ANNOTATIONS: &[(&str, Becomes)] = &[
    ("autoscaling.keda.sh/paused", Field("mode: Suspend")),
    ("autoscaling.keda.sh/paused-replicas", Shapes("`mode: Suspend`, and a comment on the size")),
    ("autoscaling.keda.sh/paused-scale-in", Field("behavior.scaleDown.selectPolicy: Disabled")),
    ("autoscaling.keda.sh/paused-scale-out", Field("behavior.scaleUp.selectPolicy: Disabled")),
    ("autoscaling.keda.sh/force-activation", Shapes("`minReplicas` of at least 1")),
    (
        "scaledobject.keda.sh/transfer-hpa-ownership",
        Instead("there is no HPA: delete the one that it took over before the policy is set to Apply"),
    ),
    ("scaledobject.keda.sh/hpa-excluded-labels", Instead("there is no HPA that would have labels")),
    (
        "validations.keda.sh/hpa-ownership",
        Instead("two owners of a workload are never allowed: the policy says Stalled, reason Conflict"),
    ),
];
