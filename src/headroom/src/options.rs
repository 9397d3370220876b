//! Options of `headroom run`. Behaviour that users tune lives in specs, not here.

use std::net::SocketAddr;

use clap::{Args, ValueEnum};

/// Options of `headroom run`.
#[derive(Args, Clone, Debug)]
pub struct RunOptions {
    /// Address and port of /metrics, /healthz and /readyz
    #[arg(
        long,
        default_value = "0.0.0.0:8080",
        value_name = "ADDRESS:PORT",
        env = "HEADROOM_METRICS_ADDRESS"
    )]
    pub metrics_address: SocketAddr,

    /// Address and port of /debug/snapshot, the input of decisions. On loopback only this machine is answered, which
    /// forwarded ports count as; on another address, everybody who can reach it: names of all pods are in it
    #[arg(
        long,
        default_value = "127.0.0.1:8082",
        value_name = "ADDRESS:PORT",
        env = "HEADROOM_SNAPSHOT_ADDRESS"
    )]
    pub snapshot_address: SocketAddr,

    /// Expose the metrics of Cluster Autoscaler that mean the same under its names too; docs/metrics.md lists them
    #[arg(long, env = "HEADROOM_CLUSTER_AUTOSCALER_METRICS")]
    pub cluster_autoscaler_metrics: bool,

    /// Serve a read-only page of what the operator sees and decides: on loopback by default. It shows names of
    /// pods, nodes and pools to everybody who can reach it
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:8081",
        value_name = "ADDRESS:PORT",
        env = "HEADROOM_PAGE_ADDRESS"
    )]
    pub page_address: Option<SocketAddr>,

    /// Dry run, report decisions and change nothing: every pool and policy in mode Apply is previewed, and HPAs are
    /// observed. `headroom compare` shows the difference
    #[arg(long, env = "HEADROOM_PREVIEW")]
    pub preview: bool,

    /// Keep a Scorecard: what is done in the cluster beside what Headroom would do, simulated from the same demand.
    /// `headroom scorecard` shows it
    #[arg(long, env = "HEADROOM_SCORECARD")]
    pub scorecard: bool,

    /// Send a trace of each decision to this collector, by OTLP over HTTP; none by default
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,

    /// Headers of these requests, as name=value separated by commas
    #[arg(long, value_name = "HEADERS", env = "OTEL_EXPORTER_OTLP_HEADERS", hide_env_values = true)]
    pub otlp_headers: Option<String>,

    /// Namespace of the Lease by which replicas elect their leader
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE", env = "POD_NAMESPACE")]
    pub leader_election_namespace: String,

    /// Name of that Lease
    #[arg(long, default_value = "headroom", value_name = "NAME")]
    pub lease_name: String,

    /// Time that other replicas wait after this replica's last renewal of the lease, in seconds
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(2..=60))]
    pub lease_seconds: u64,

    /// Number of shards that workloads are divided into by their namespaces, each run by one replica at a time; with 1 the
    /// leader runs all. The same for all replicas: docs/install.md says how it is changed
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=64), env = "HEADROOM_WORKLOAD_SHARDS")]
    pub workload_shards: u8,

    /// Name of this replica; a part drawn at the start is added, so that no two processes ever share one
    #[arg(long, default_value = "headroom", value_name = "NAME", env = "POD_NAME")]
    pub identity: String,

    /// Format of log lines
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "HEADROOM_LOG_FORMAT")]
    pub log_format: LogFormat,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}
