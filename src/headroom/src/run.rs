//! `headroom run`: wires the crates together over a real cluster and keeps them running until it is asked to stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kube::api::Api;
use kube::client::ClientBuilder;
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::options::RunOptions;
use crate::scorekeeping;
use headroom_api::validate::ValidatedWorkloads;
#[cfg(feature = "external-grpc")]
use headroom_api::{ExternalScalerServer, ExternalScalerTls};
use headroom_api::{HttpServer, MetricSource, RedisServer};
use headroom_observe::host::Host;
use headroom_observe::metrics::{
    Bounds, ClusterMetrics, HttpSource, PrometheusSource, ReadObserver, RedisSource, RedisTls, SHARED_PART,
};
use headroom_observe::{KubeFeed, NodeClaims};
use headroom_operator::actuate::guard::{Call, CrashPoint, Guard};
use headroom_operator::actuate::layer::{ClientKind, GuardLayer, behind};
use headroom_operator::controllers::definitions;
use headroom_operator::controllers::health::{self, Health};
use headroom_operator::controllers::inspection;
use headroom_operator::controllers::leader::{self, LeaseOptions};
use headroom_operator::controllers::nodes::Ended;
use headroom_operator::controllers::page::{self, Board};
use headroom_operator::controllers::wiring::{ReplicaDependencies, Wired, WorkloadDependencies, wire};
use headroom_operator::controllers::workloads::MetricsFor;
use headroom_operator::options::{PLAN_INTERVAL_MIN, STUCK_AFTER};
use headroom_operator::report::otlp::TraceSink;
use headroom_operator::report::{Metrics, ScorecardSink};
use headroom_provider::CloudProvider;
use headroom_provider::clouds::Clouds;
use headroom_provider::expander::AskExpander;
use headroom_provider::kube_nodes::KubeNodes;
use headroom_provider::kwok::{self, Kwok};

/// Longest wait at a graceful stop for the shards to be given back.
const SHARDS_RETURN_MAX: Duration = Duration::from_secs(10);

/// Runs until SIGTERM or SIGINT, or until the lease is lost.
///
/// # Errors
/// If no cluster is configured, an address cannot be used, or the lease was lost.
pub async fn run(options: RunOptions) -> anyhow::Result<()> {
    let host = Host::machine();
    let metrics = Arc::new(if options.cluster_autoscaler_metrics {
        Metrics::with_cluster_autoscaler_names()
    } else {
        Metrics::default()
    });
    let observed = metrics.clone();
    let observer = Box::new(move |call: &Call| observed.call(&call.operation, &call.result));
    let guard = Guard::new(host.clone(), CrashPoint::from_environment(), Some(observer));
    let observed = metrics.clone();
    guard.observe_clouds(Box::new(move |action, outcome, took| observed.cloud_call(action, outcome, took)));
    let config = cluster_config().await?;
    let work = client(&config, &guard, ClientKind::Work)?;
    let lease = lease_options(&options, &host);
    let lease_api =
        Api::namespaced(client(&config, &guard, ClientKind::Lease)?, &options.leader_election_namespace);
    info!(version = env!("CARGO_PKG_VERSION"), identity = %lease.identity, "starting");

    let health = Arc::new(Health::default());
    health::watchdog(health.clone(), STUCK_AFTER);
    let pages = health::serve(options.metrics_address, health.clone(), exposition(metrics.clone()));
    host.spawn(async move {
        if let Err(problem) = pages.await {
            error!(%problem, "failed to serve the metrics address");
        }
    });
    let (address, snapshots) =
        (options.snapshot_address, inspection::serve(options.snapshot_address, health.clone()));
    host.spawn(async move {
        if let Err(problem) = snapshots.await {
            error!(%problem, %address, "failed to serve snapshots");
        }
    });

    let mut stop = stop_signal(&host)?;
    if !definitions::wait(&work, &host, &health, &mut stop, |message| warn!("{message}")).await {
        info!("stopped");
        return Ok(());
    }

    let board = options.page_address.map(|address| {
        let board = Arc::new(Board::default());
        let page = page::serve(address, board.clone());
        host.spawn(async move {
            if let Err(problem) = page.await {
                error!(%problem, %address, "failed to serve the page");
            }
        });
        info!(%address, "the page is served");
        board
    });

    if options.scorecard {
        let sink = ScorecardSink::new(work.clone());
        let (host, health, page) = (host.clone(), health.clone(), board.clone());
        let claims = NodeClaims::new(work.clone());
        let ports = scorekeeping::Ports { host: host.clone(), health, sink, claims, page };
        host.spawn(scorekeeping::keep(ports));
    }

    let observed = KubeFeed::start_with_workloads(&work, &host);
    let endpoint = options.otlp_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty());
    let headers = options.otlp_headers.as_deref();
    let traces = endpoint.map(|endpoint| TraceSink::start(endpoint, headers, &lease.identity, &host));
    let dependencies = ReplicaDependencies {
        plan_interval_min: PLAN_INTERVAL_MIN,
        traces: traces.transpose()?,
        preview: options.preview,
        workloads: Some(WorkloadDependencies {
            feed: observed.clone(),
            metrics: metrics_of(&work, &host, &metrics),
            shards: shards(&config, &guard, options.workload_shards)?,
        }),
        feed: Arc::new(observed),
        provider: providers(&config, &work, &host, &guard)?,
        expander: expander(&host),
        work,
        lease_api: lease_api.clone(),
        lease: lease.clone(),
        host: host.clone(),
        guard: guard.clone(),
        stop,
        health,
        metrics,
        page: board,
    };
    let Wired { nodes, shards_returned } = wire(dependencies);
    match nodes.run().await {
        Ended::Stopped => {
            leader::release(&lease_api, &lease, &guard).await;
            if let Some(returned) = shards_returned {
                wait_for(returned).await;
            }
            info!("stopped");
            Ok(())
        }
        Ended::LeaseLost => {
            anyhow::bail!("the lease was lost; ending, so that the next start reads memory anew")
        }
    }
}

/// Sources of metrics that share one answer for most of a sync period: a list of pod metrics once a namespace and period.
fn metrics_of(work: &Client, host: &Arc<Host>, numbers: &Arc<Metrics>) -> MetricsFor {
    let (client, host, numbers) = (work.clone(), host.clone(), numbers.clone());
    Box::new(move |settings| {
        let shared = settings.sync_period.mul_f32(SHARED_PART).max(Duration::from_millis(500));
        let bounds = Bounds {
            share_usage_for: shared,
            share_for: shared.min(Duration::from_secs(5)),
            ..Bounds::default()
        };
        let numbers = numbers.clone();
        let observer: ReadObserver = Arc::new(move |source, outcome| numbers.workloads.read(source, outcome));
        let source = ClusterMetrics::new(client.clone(), &host, bounds).observed_by(observer);
        let servers: Vec<PrometheusSource> = settings.metric_sources.iter().filter_map(prometheus).collect();
        source.declare(&servers);
        let servers: Vec<HttpSource> = settings.metric_sources.iter().filter_map(http).collect();
        source.declare_http(&servers);
        let servers: Vec<RedisSource> = settings.metric_sources.iter().filter_map(redis).collect();
        source.declare_redis(&servers);
        Arc::new(with_scalers(source, settings, &host))
    })
}

fn prometheus(source: &MetricSource) -> Option<PrometheusSource> {
    let server = source.prometheus.as_ref()?;
    Some(PrometheusSource {
        name: source.name.clone(),
        url: server.url.clone(),
        namespace_label: server.namespace_label.clone(),
        bearer_token_file: server.bearer_token_file.as_ref().map(PathBuf::from),
        allow_insecure_token: server.allow_insecure_token.unwrap_or(false),
        ca_file: server.ca_file.as_ref().map(PathBuf::from),
    })
}

fn http(source: &MetricSource) -> Option<HttpSource> {
    let HttpServer {
        url,
        bearer_token_file,
        basic_auth_file,
        allow_insecure_credentials,
        ca_file,
        namespaces,
    } = source.http.as_ref()?;
    Some(HttpSource {
        name: source.name.clone(),
        url: url.clone(),
        bearer_token_file: bearer_token_file.as_ref().map(PathBuf::from),
        basic_auth_file: basic_auth_file.as_ref().map(PathBuf::from),
        allow_insecure_credentials: allow_insecure_credentials.unwrap_or(false),
        ca_file: ca_file.as_ref().map(PathBuf::from),
        namespaces: namespaces.clone(),
    })
}

fn redis(source: &MetricSource) -> Option<RedisSource> {
    let RedisServer { address, tls, insecure: _, username, password_file, key_prefix, namespaces } =
        source.redis.as_ref()?;
    let tls = tls.as_ref().map(|headroom_api::RedisTls { ca_file, server_name }| RedisTls {
        ca_file: ca_file.into(),
        server_name: server_name.clone(),
    });
    Some(RedisSource {
        name: source.name.clone(),
        address: address.clone(),
        tls,
        username: username.clone(),
        password_file: password_file.as_ref().map(PathBuf::from),
        key_prefix: key_prefix.clone().unwrap_or_default(),
        namespaces: namespaces.clone(),
    })
}

#[cfg(feature = "external-grpc")]
fn with_scalers(metrics: ClusterMetrics, settings: &ValidatedWorkloads, host: &Arc<Host>) -> ClusterMetrics {
    use headroom_observe::metrics::{ScalerSource, ScalerTls};

    let declared = settings.metric_sources.iter().filter_map(|source| {
        let ExternalScalerServer { address, tls, insecure: _, namespaces } =
            source.external_scaler.as_ref()?;
        let tls =
            tls.as_ref().map(|ExternalScalerTls { ca_file, cert_file, key_file, server_name }| ScalerTls {
                ca_file: ca_file.into(),
                identity_files: cert_file
                    .as_ref()
                    .zip(key_file.as_ref())
                    .map(|(cert, key)| (cert.into(), key.into())),
                server_name: server_name.clone(),
            });
        let (name, address, namespaces) = (source.name.clone(), address.clone(), namespaces.clone());
        Some(ScalerSource { name, address, tls, namespaces })
    });
    let declared: Vec<ScalerSource> = declared.collect();
    metrics.with_scalers(&declared, &headroom_externalgrpc::scaler::connect(host.clone()))
}

#[cfg(not(feature = "external-grpc"))]
fn with_scalers(metrics: ClusterMetrics, _: &ValidatedWorkloads, _: &Arc<Host>) -> ClusterMetrics {
    metrics
}

/// The clouds of this build. Nothing of a cloud is called before a pool asks for it.
fn providers(
    config: &Config,
    work: &Client,
    host: &Arc<Host>,
    guard: &Guard,
) -> anyhow::Result<Arc<dyn CloudProvider>> {
    let kwok = Kwok::new(KubeNodes::new(work.clone()));
    let clouds = Clouds::default().with(kwok::Settings::KIND, Arc::new(kwok));
    let clouds = with_aws(clouds, host, guard);
    let clouds = with_cluster_api(clouds, config, host, guard)?;
    Ok(Arc::new(with_external_grpc(clouds, host, guard)))
}

#[cfg(feature = "cluster-api")]
fn with_cluster_api(
    clouds: Clouds,
    config: &Config,
    host: &Arc<Host>,
    guard: &Guard,
) -> anyhow::Result<Clouds> {
    // A client of its own: its writes pass the guard as those of every cloud do, and its watches are not the cluster's.
    let client = Client::try_from(config.clone()).context("failed to set up the client of Cluster API")?;
    let groups = headroom_clusterapi::ClusterApi::new(client, host.clone(), Arc::new(guard.clone()));
    Ok(clouds.with(headroom_provider::cluster_api::Settings::KIND, Arc::new(groups)))
}

#[cfg(not(feature = "cluster-api"))]
fn with_cluster_api(clouds: Clouds, _: &Config, _: &Arc<Host>, _: &Guard) -> anyhow::Result<Clouds> {
    Ok(clouds)
}

#[cfg(feature = "aws")]
fn with_aws(clouds: Clouds, host: &Arc<Host>, guard: &Guard) -> Clouds {
    use headroom_aws::{Aws, RealAws};

    let gate = Arc::new(guard.clone());
    let groups = Aws::new(Box::new(RealAws::new(host.clone(), gate.clone())), host.clone(), gate);
    clouds.with(headroom_provider::aws::Settings::KIND, Arc::new(groups))
}

#[cfg(not(feature = "aws"))]
fn with_aws(clouds: Clouds, _: &Arc<Host>, _: &Guard) -> Clouds {
    clouds
}

#[cfg(feature = "external-grpc")]
fn with_external_grpc(clouds: Clouds, host: &Arc<Host>, guard: &Guard) -> Clouds {
    let groups = headroom_externalgrpc::ExternalGrpc::new(host.clone(), Arc::new(guard.clone()));
    clouds.with(headroom_provider::external_grpc::Settings::KIND, Arc::new(groups))
}

#[cfg(feature = "external-grpc")]
#[allow(clippy::unnecessary_wraps, reason = "builds without the feature have none")]
fn expander(host: &Arc<Host>) -> Option<Arc<dyn AskExpander>> {
    Some(Arc::new(headroom_externalgrpc::expander::Expander::new(host.clone())))
}

#[cfg(not(feature = "external-grpc"))]
fn expander(_: &Arc<Host>) -> Option<Arc<dyn AskExpander>> {
    None
}

#[cfg(not(feature = "external-grpc"))]
fn with_external_grpc(clouds: Clouds, _: &Arc<Host>, _: &Guard) -> Clouds {
    clouds
}

/// The cluster that KUBECONFIG, `~/.kube/config` or the pod's service account names.
///
/// # Errors
/// If none of them can be read.
pub async fn cluster_config() -> anyhow::Result<Config> {
    let mut config = Config::infer()
        .await
        .context("failed to find a cluster: set KUBECONFIG, or run in a pod with a service account")?;
    // A retried write could land after the lease is lost, and a refused eviction must be seen at once.
    config.default_retry = false;
    Ok(config)
}

/// A client behind the guard.
///
/// # Errors
/// If the TLS settings of `config` are invalid.
pub fn client(config: &Config, guard: &Guard, kind: ClientKind) -> anyhow::Result<Client> {
    let layer = GuardLayer::new(guard.clone(), kind);
    let builder = ClientBuilder::try_from(config.clone()).context("failed to set up the cluster's client")?;
    Ok(builder.with_layer(&layer).build())
}

/// A guard of its own for each shard, with a client behind it; none for one shard, which is the leader's.
fn shards(config: &Config, guard: &Guard, count: u8) -> anyhow::Result<Vec<(Guard, Client)>> {
    if count < 2 {
        return Ok(Vec::new());
    }
    let base = Client::try_from(config.clone()).context("failed to set up the cluster's client")?;
    let shard = |_| {
        let guard = guard.apart();
        (guard.clone(), behind(&base, guard, ClientKind::Work))
    };
    Ok((0..count).map(shard).collect())
}

/// Waits until all shards are given back, so that other replicas need not wait for their Leases to run out.
async fn wait_for(mut returned: watch::Receiver<bool>) {
    if tokio::time::timeout(SHARDS_RETURN_MAX, returned.wait_for(|returned| *returned)).await.is_err() {
        warn!("giving the shards back took too long; their leases will expire");
    }
}

fn lease_options(options: &RunOptions, host: &Host) -> LeaseOptions {
    let duration = Duration::from_secs(options.lease_seconds);
    LeaseOptions {
        name: options.lease_name.clone(),
        identity: format!("{}_{:08x}", options.identity, host.random() >> 32),
        duration,
        // Four attempts fit into the lease before it runs out.
        retry: duration / 5,
    }
}

/// Becomes true at SIGTERM or SIGINT.
fn stop_signal(host: &Arc<Host>) -> anyhow::Result<watch::Receiver<bool>> {
    let (sender, receiver) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?;
    host.spawn(async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => warn!("SIGTERM: stopping"),
            _ = interrupt.recv() => warn!("SIGINT: stopping"),
        }
        sender.send_replace(true);
        // The sender lives on: a channel without one would look like a change at each turn.
        std::future::pending::<()>().await;
    });
    Ok(receiver)
}

fn exposition(metrics: Arc<Metrics>) -> Arc<dyn Fn() -> String + Send + Sync> {
    Arc::new(move || metrics.exposition())
}
