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
            "nats-jetstream",
            "nsq",
            "pulsar",
            "rabbitmq",
            "redis",
            "redis-cluster",
            "redis-cluster-streams",
            "redis-sentinel",
            "redis-sentinel-streams",
            "redis-streams",
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
        &["external-mock", "metrics-api"],
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
