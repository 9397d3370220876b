//! An external scaler on KEDA's own package scales workloads: to zero and back, by its own target, early where it reports work,
//! over mutual TLS; one that is silent changes nothing, and delays no other workload.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::Options;
use e2e::external_scaler::ExternalScaler;
use e2e::fixtures::{cluster_policy, deployment, node};
use e2e::harness::cluster_test;
use e2e::pki::MutualTls;
use e2e::wait;
use e2e::workloads::scaling_policy;
use futures::StreamExt as _;
use headroom_externalgrpc::scaler;
use headroom_observe::host::Host;
use headroom_observe::metrics::{
    Bounds, ClusterMetrics, MetricsSource as _, ScaledObject, ScalerQuery, ScalerSource, ScalerTls,
};
use kube::{Client, Config};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// Several sync periods.
const A_WHILE: Duration = Duration::from_secs(7);

/// The cluster's settings with these sources: quick sync periods, no stabilization.
fn settings(sources: &[Value]) -> Value {
    cluster_policy(json!({"workloads": {
        "syncPeriod": "2s", "downscaleStabilization": "2s", "metricSources": sources}}))
}

/// A policy of the Deployment of the same name, by external scaler `source`, from 0 replicas on.
fn policy(name: &str, source: &str, more: &Value) -> Value {
    let mut policy = scaling_policy(name, name, 10);
    policy["spec"]["minReplicas"] = 0.into();
    policy["spec"]["timing"] = json!({"toZeroAfter": "2s"});
    let mut asked = json!({"source": source, "metadata": {"queue": "orders"}});
    for (key, value) in more.as_object().into_iter().flatten() {
        asked[key] = value.clone();
    }
    policy["spec"]["metrics"] = json!([{"type": "ExternalScaler", "externalScaler": asked}]);
    policy
}

fn queue(value: f64, active: bool) -> Value {
    json!({"specs": [{"name": "queue", "target": 5}], "values": {"queue": value}, "active": active})
}

#[tokio::test]
async fn a_workload_goes_to_zero_and_back_by_an_external_scaler() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let server = ExternalScaler::start(cluster.folder(), "scaler", None).await?;
        server.answer(&queue(12.0, true))?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(settings(&[server.source("q")])).await?;
        cluster.apply(deployment("web").replicas(1).requests("100m", "64Mi")).await?;
        cluster.apply(policy("web", "q", &json!({}))).await?;
        wait::until("three pods for twelve at the server's own five each", MINUTE, async || {
            cluster.replicas_are("web", 3)
        })
        .await?;
        let log = server.log();
        ensure!(log.contains("/externalscaler.ExternalScaler/IsActive"), "{log}");
        let reference =
            log.lines().find(|line| line.contains("GetMetrics ")).context("no GetMetrics")?.to_owned();
        for part in [
            "name:\"web\"",
            "namespace:\"default\"",
            "key:\"queue\"",
            "value:\"orders\"",
            "metricName:\"queue\"",
        ] {
            ensure!(reference.replace(": ", ":").contains(part), "{part} is not in {reference}");
        }

        server.answer(&queue(0.0, false))?;
        wait::until("nothing is left", MINUTE, async || {
            cluster.replicas_are("web", 0)?;
            cluster.running_pods_are("default", "app=web", 0).await
        })
        .await?;
        server.answer(&queue(7.5, true))?;
        wait::until("two pods for seven and a half", MINUTE, async || cluster.replicas_are("web", 2)).await?;
        let decision = cluster.scaling_status("web")?["decisions"][0].clone();
        ensure!(decision["from"] == 0 && decision["to"] == 2, "{decision}");
        ensure!(decision["message"].to_string().contains("external metric q(nil)"), "{decision}");

        server.answer(&json!({"fail": "the queue is away"}))?;
        let words = wait::until("status reports the server's words", MINUTE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "False", "MetricsOutage")
        })
        .await?;
        ensure!(words.contains("the queue is away"), "{words}");
        wait::stays("the size, while nothing is known", A_WHILE, async || cluster.replicas_are("web", 2))
            .await?;

        server.answer(&json!({"specs": [{"name": "queue", "target": 5}, {"name": "lag", "target": 1}],
            "values": {"queue": 20, "lag": 1}, "active": true}))?;
        server.restart().await?;
        let named = json!({"metricName": "queue", "target": {"type": "AverageValue", "averageValue": "4"}});
        cluster.apply(policy("web", "q", &named)).await?;
        wait::until("five pods for twenty, by the policy's own target", MINUTE, async || {
            cluster.replicas_are("web", 5)
        })
        .await?;
        cluster.apply(policy("web", "q", &json!({"metadata": {"queue": "others"}}))).await?;
        let words = wait::until("status names the field and the metrics", MINUTE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "False", "MetricsQueryRefused")
        })
        .await?;
        ensure!(
            words.contains("several metrics, queue, lag: name one as externalScaler.metricName"),
            "{words}"
        );
        cluster.apply(policy("web", "elsewhere", &json!({}))).await?;
        let words = wait::until("status names the list", MINUTE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "False", "MetricsNotRegistered")
        })
        .await?;
        ensure!(words.contains("declare elsewhere in workloads.metricSources"), "{words}");
        cluster.replicas_are("web", 5)?;
        operator.process().check_running()
    })
    .await;
}

#[tokio::test]
async fn a_report_of_work_wakes_the_workload_within_a_second_also_after_the_server_came_back() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let server = ExternalScaler::start(cluster.folder(), "scaler", None).await?;
        server.answer(&queue(0.0, false))?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        let mut settings = settings(&[server.source("q")]);
        // By its period alone a change would be seen after a minute on average.
        settings["spec"]["workloads"]["syncPeriod"] = "2m".into();
        settings["spec"]["workloads"]["minSyncPeriod"] = "1s".into();
        cluster.apply(settings).await?;
        cluster.apply(deployment("web").replicas(1).requests("100m", "64Mi")).await?;
        cluster.apply(policy("web", "q", &json!({"push": true}))).await?;
        let opened = |count: usize| {
            let found = server.log().matches("stream of default/web: ").count();
            ensure!(count <= found, "the stream has reported {found} times");
            Ok(())
        };
        wait::until("the stream is open", MINUTE, async || opened(1)).await?;
        wait::until("the first look is over", MINUTE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "True", "MetricsRead").map(drop)
        })
        .await?;
        tokio::time::sleep(Duration::from_secs(3)).await;

        let woken = async |value: f64, replicas: u64| -> Result<Duration> {
            server.answer(&queue(value, true))?;
            let began_at = Instant::now();
            wait::until("the workload grows", MINUTE, async || cluster.replicas_are("web", replicas)).await?;
            let took = began_at.elapsed();
            println!("from the report to {replicas} replicas: {took:?}");
            Ok(took)
        };
        let took = woken(12.0, 3).await?;
        ensure!(took < Duration::from_secs(2), "from the report to the size it took {took:?}");

        server.restart().await?;
        wait::until("the stream is open again", MINUTE, async || opened(3)).await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        server.answer(&queue(12.0, false))?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        // Four at once are what the default rates of scaleUp allow, also from 0.
        let took = woken(20.0, 4).await?;
        ensure!(took < Duration::from_secs(2), "after the restart it took {took:?}");
        operator.process().check_running()
    })
    .await;
}

#[tokio::test]
async fn a_scaler_that_hangs_delays_no_other_workload() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let (silent, other) = (
            ExternalScaler::start(cluster.folder(), "silent", None).await?,
            ExternalScaler::start(cluster.folder(), "other", None).await?,
        );
        silent.answer(&json!({"hang": true}))?;
        other.answer(&queue(10.0, true))?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        cluster.apply(node("n1", "64", "64Gi")).await?;
        cluster.apply(settings(&[silent.source("silent"), other.source("other")])).await?;
        // More than a server may have in flight, in one namespace with the workload that is not to wait.
        for index in 0..60 {
            let name = format!("stuck-{index}");
            cluster.apply(deployment(&name).replicas(1).requests("10m", "8Mi")).await?;
            cluster.apply(policy(&name, "silent", &json!({}))).await?;
        }
        cluster.apply(deployment("web").replicas(1).requests("10m", "8Mi")).await?;
        cluster.apply(policy("web", "other", &json!({}))).await?;
        wait::until("status of one says that nobody answers", MINUTE, async || {
            cluster.scaling_condition_is("stuck-59", "MetricsAvailable", "False", "MetricsOutage").map(drop)
        })
        .await?;
        for (value, replicas) in [(10.0, 2), (25.0, 5), (40.0, 8)] {
            other.answer(&queue(value, true))?;
            let began_at = Instant::now();
            wait::until("the other workload follows its metric", MINUTE, async || {
                cluster.replicas_are("web", replicas)
            })
            .await?;
            let took = began_at.elapsed();
            // One sync period, the answer that is shared, and the write.
            ensure!(took < Duration::from_secs(6), "it followed after {took:?}");
        }
        for index in [0, 30, 59] {
            cluster.replicas_are(&format!("stuck-{index}"), 1)?;
        }
        operator.process().check_running()
    })
    .await;
}

#[tokio::test]
async fn a_scaler_behind_mutual_tls_is_asked_and_no_other() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let files = MutualTls::new(folder.path(), "scaler.example")?;
    let server = ExternalScaler::start(folder.path(), "scaler", Some(&files)).await?;
    server.answer(&queue(12.0, true))?;
    let source = |name: &str, ca: &Path, client: Option<&(PathBuf, PathBuf)>| ScalerSource {
        name: name.to_owned(),
        address: server.address().to_owned(),
        tls: Some(ScalerTls {
            ca_file: ca.to_path_buf(),
            identity_files: client.cloned(),
            server_name: Some("scaler.example".to_owned()),
        }),
        namespaces: Vec::new(),
    };
    // The cluster's own APIs are not asked here.
    let client = Client::try_from(Config::new("http://127.0.0.1:1".parse()?))?;
    let host = Host::machine();
    let bounds = Bounds { deadline: Duration::from_secs(3), ..Bounds::default() };
    let sources = [
        source("both", &files.ca, Some(&files.client)),
        source("no-client", &files.ca, None),
        source("other-ca", &files.other_ca, Some(&files.client)),
        source("lost-ca", Path::new("/nowhere/ca.crt"), Some(&files.client)),
        ScalerSource { tls: None, ..source("plain", &files.ca, None) },
    ];
    let metrics =
        ClusterMetrics::new(client, &host, bounds).with_scalers(&sources, &scaler::connect(host.clone()));
    let query = |source: &str| ScalerQuery {
        source: source.to_owned(),
        object: ScaledObject {
            name: "web".to_owned(),
            namespace: "shop".to_owned(),
            ..ScaledObject::default()
        },
        metric: None,
        wants_target: true,
    };
    let reading = metrics.external_scaler(&query("both")).await?;
    let target = reading.target.map(|target| target.units());
    ensure!(reading.values.len() == 1 && target == Some(5) && reading.active == Some(true), "{reading:?}");
    let mut reports = metrics.activity(&query("both"))?;
    let report = tokio::time::timeout(MINUTE, reports.next()).await?;
    ensure!(report == Some(Ok(true)), "{report:?}");

    let calls = server.log().matches("call ").count();
    for name in ["no-client", "other-ca", "lost-ca", "plain"] {
        let failure =
            metrics.external_scaler(&query(name)).await.err().with_context(|| format!("{name} was asked"))?;
        ensure!(failure.reason() == "MetricsOutage", "{name}: {failure}");
        let report =
            tokio::time::timeout(Duration::from_secs(3), metrics.activity(&query(name))?.next()).await;
        ensure!(!matches!(report, Ok(Some(Ok(_)))), "{name}: {report:?}");
    }
    ensure!(server.log().matches("call ").count() == calls, "a question arrived without trust");
    Ok(())
}
