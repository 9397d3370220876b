//! The load is read from metrics-server and from adapters of the aggregation layer; every kind of failure is distinguished.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use e2e::control_plane::{Component, ControlPlane, Options, User};
use e2e::fixtures::{deployment, node};
use e2e::harness::cluster_test;
use e2e::metrics_api::{CUSTOM, MetricsApi, Mood};
use e2e::wait;
use headroom_core::pods::input::{Number, Sample};
use headroom_core::pods::spec::ScaleTargetRef;
use headroom_observe::host::Host;
use headroom_observe::metrics::{Answer, Bounds, ClusterMetrics, MetricsSource as _};
use jiff::SignedDuration;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn usage_is_read_from_metrics_server_and_its_end_is_an_outage() {
    cluster_test(Options::new().with_metrics_server(), async |cluster| {
        cluster.apply(node("n1", "4", "16Gi")).await?;
        let web = deployment("web").replicas(2).requests("500m", "1Gi");
        cluster.apply(web.pod_annotation("kwok.x-k8s.io/usage-cpu", "700m")).await?;
        let metrics = reader(cluster).await?;

        wait::until("both pods of web use 700m", 3 * MINUTE, async || {
            let usage = metrics.pod_usage("default").await?;
            let cpu = usage.iter().map(|pod| {
                let containers = pod.containers.iter();
                containers.filter_map(|c| c.usage.get("cpu")).map(|cpu| cpu.milli()).sum::<i64>()
            });
            let cpu: Vec<i64> = cpu.collect();
            ensure!(cpu == [700, 700], "they use {cpu:?}");
            ensure!(usage.iter().all(|pod| pod.pod.starts_with("web-") && pod.window.0 > 0), "{usage:?}");
            Ok(())
        })
        .await?;
        fails(metrics.pod_usage("kube-system").await, "MetricsEmpty", "no metrics returned")?;
        let missing = metrics.external_metric("default", "sqs_length", None).await;
        fails(missing, "MetricsNotRegistered", "no API group external.metrics.k8s.io")?;
        let missing = metrics.pod_metric("default", "rps", "app=web", None).await;
        fails(missing, "MetricsNotRegistered", "no API group custom.metrics.k8s.io")?;

        // A server that hangs is given up at the deadline; one that is gone is reported by the API server.
        cluster.component(Component::MetricsServer)?.pause()?;
        wait::until("a hanging metrics-server is an outage", MINUTE, async || {
            fails(metrics.pod_usage("default").await, "MetricsOutage", "")
        })
        .await?;
        cluster.component(Component::MetricsServer)?.restart()?;
        wait::until("it is back", 2 * MINUTE, async || Ok(metrics.pod_usage("default").await.map(drop)?))
            .await
    })
    .await;
}

#[tokio::test]
async fn custom_and_external_metrics_come_through_the_aggregation_layer() {
    cluster_test(Options::new(), async |cluster| {
        let adapter = MetricsApi::start(cluster, &["v1beta1", "v1beta2"]).await?;
        let metrics = reader(cluster).await?;

        adapter.set_custom("default", "pods/*/rps", &[("web-1", "1500m"), ("web-2", "3")]);
        let pods = metrics.pod_metric("default", "rps", "app=web", None).await?;
        let values: Vec<(&str, i64)> = pods.iter().map(|value| (&*value.pod, milli(&value.sample))).collect();
        ensure!(values == [("web-1", 1500), ("web-2", 3000)], "{values:?}");
        let asked = adapter.asked();
        let wanted = format!("/apis/{CUSTOM}/v1beta2/namespaces/default/pods/*/rps?labelSelector=app%3Dweb");
        ensure!(asked == [wanted], "{asked:?}");

        adapter.set_custom("default", "deployments.apps/web/queue", &[("web", "12")]);
        adapter.set_custom("default", "metrics/jobs", &[("default", "7")]);
        adapter.set_custom("default", "nodes/n1/heat", &[("n1", "90")]);
        for (object, metric, value) in [
            (reference("apps/v1", "Deployment", "web"), "queue", 12_000),
            (reference("v1", "Namespace", "any"), "jobs", 7000),
            (reference("v1", "Node", "n1"), "heat", 90_000),
        ] {
            let sample = metrics.object_metric("default", &object, metric, None).await?;
            ensure!(milli(&sample) == value, "{metric} is {sample:?}");
        }
        let stranger = metrics.object_metric("default", &reference("apps/v1", "Robot", "r"), "m", None).await;
        fails(stranger, "MetricsQueryRefused", "no kind Robot")?;

        adapter.set_external("default", "sqs|length", &["4", "5"]);
        let series = metrics.external_metric("default", "sqs|length", None).await?;
        ensure!(series.iter().map(milli).collect::<Vec<_>>() == [4000, 5000], "{series:?}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn every_failure_of_an_adapter_is_distinguished() {
    cluster_test(Options::new(), async |cluster| {
        let adapter = MetricsApi::start(cluster, &["v1beta1"]).await?;
        let metrics = reader(cluster).await?;
        let ask = async || metrics.external_metric("default", "sqs", None).await;

        fails(ask().await, "MetricsEmpty", "no metrics returned")?;
        adapter.set_external("default", "sqs", &["5"]);
        ensure!(ask().await?.len() == 1, "one series was set");
        adapter.set_external("default", "sqs", &["5", "99E"]);
        fails(ask().await, "MetricsAbsurd", "99E is out of range")?;
        adapter.set_external("default", "sqs", &[]);
        fails(ask().await, "MetricsEmpty", "no metrics returned")?;
        adapter.set_external("default", "sqs", &["5"]);
        adapter.set_age(SignedDuration::from_mins(10));
        fails(ask().await, "MetricsStale", "5m is allowed")?;
        adapter.set_age(SignedDuration::from_mins(-10));
        fails(ask().await, "MetricsStale", "in the future")?;
        adapter.set_age(SignedDuration::ZERO);
        adapter.set_mood(Mood::Failing(500));
        fails(ask().await, "MetricsOutage", "fails as it was set to")?;
        adapter.set_mood(Mood::Failing(403));
        fails(ask().await, "MetricsNotPermitted", "not permitted")?;
        adapter.set_mood(Mood::Garbled);
        fails(ask().await, "MetricsOutage", "cannot be read")?;
        adapter.set_mood(Mood::Slow(MINUTE));
        fails(ask().await, "MetricsOutage", "no answer within 3 s")?;
        adapter.set_mood(Mood::Well);
        ensure!(ask().await?.len() == 1, "it is well again");

        // The adapter serves the older version of custom metrics only.
        adapter.set_custom("default", "pods/*/rps", &[("web-1", "1")]);
        metrics.pod_metric("default", "rps", "", None).await?;
        let asked = adapter.asked();
        ensure!(asked.last().is_some_and(|path| path.contains("/v1beta1/")), "{asked:?}");

        adapter.stop();
        wait::until("an adapter that is gone is an outage", MINUTE, async || {
            fails(ask().await, "MetricsOutage", "unavailable")
        })
        .await?;
        cluster.kubectl(&["delete", "apiservice", "v1beta1.external.metrics.k8s.io"])?;
        wait::until("its API is not registered any more", MINUTE, async || {
            fails(ask().await, "MetricsNotRegistered", "no API group external.metrics.k8s.io")
        })
        .await
    })
    .await;
}

/// Short of memory, so that each look is a new one, and with a deadline that a test can wait for.
async fn reader(cluster: &ControlPlane) -> Result<ClusterMetrics> {
    let bounds = Bounds {
        deadline: Duration::from_secs(3),
        share_usage_for: Duration::ZERO,
        share_for: Duration::ZERO,
        ..Bounds::default()
    };
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig_of(User::Headroom))?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // As the operator's own: a client that tries a 503 again turns every outage into a missed deadline.
    config.default_retry = false;
    Ok(ClusterMetrics::new(Client::try_from(config)?, &Host::machine(), bounds))
}

/// Errors unless the answer is this failure with these words.
fn fails<T>(answer: Answer<T>, reason: &str, words: &str) -> Result<()> {
    match answer {
        Ok(_) => bail!("there is a value, and {reason} is wanted"),
        Err(failure) => {
            let message = failure.to_string();
            ensure!(failure.reason() == reason && message.contains(words), "{}: {message}", failure.reason());
            Ok(())
        }
    }
}

fn reference(api_version: &str, kind: &str, name: &str) -> ScaleTargetRef {
    ScaleTargetRef { api_version: api_version.into(), kind: kind.into(), name: name.into() }
}

fn milli(sample: &Sample) -> i64 {
    match &sample.value {
        Number::Quantity(quantity) => quantity.milli(),
        Number::NotFinite(text) => panic!("{text} is no number"),
    }
}
