//! A ScaledObject of a NATS stream, imported from KEDA's words, scales a workload by NATS' own server: to zero and back, and messages that
//! were taken and not acknowledged are still work.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::control_plane::Options;
use e2e::fixtures::{cluster_policy, deployment, node};
use e2e::harness::cluster_test;
use e2e::nats::Nats;
use e2e::wait;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

/// The objects that `headroom import keda` prints for a ScaledObject of a stream.
fn imported(cluster: &e2e::control_plane::ControlPlane, endpoint: &str) -> anyhow::Result<Vec<Value>> {
    let scaled = json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"name": "web"}, "cooldownPeriod": 2, "maxReplicaCount": 10,
            "triggers": [{"type": "nats-jetstream", "metadata": {"natsServerMonitoringEndpoint": endpoint, "account": "$G",
                "stream": "orders", "consumer": "workers", "lagThreshold": "5"}}],
        },
    });
    let file = cluster.folder().join("scaled-object.yaml");
    fs::write(&file, scaled.to_string())?;
    let printed = cluster.headroom(&["import", "keda", &file.display().to_string()])?;
    println!("$ headroom import keda scaled-object.yaml\n{printed}");
    let documents = printed.split("\n---\n").map(|text| Ok(serde_saphyr::from_str(text)?));
    documents.collect()
}

#[tokio::test]
async fn a_workload_follows_a_stream_of_nats_to_zero_and_back() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let nats = Nats::start(cluster.folder()).await?;
        nats.stream("orders", "workers")?;
        nats.publish("orders", 12)?;
        let operator = cluster.operator().start()?;
        operator.ready().await?;
        let objects = imported(cluster, nats.monitoring())?;
        let [settings, policy] = objects.as_slice() else { anyhow::bail!("{objects:?}") };
        let sources = &settings["spec"]["workloads"]["metricSources"];
        ensure!(policy["spec"]["mode"].is_null(), "nothing is missing: {policy}");
        let quick = |namespaces: Value| {
            let mut sources = sources.clone();
            sources[0]["http"]["namespaces"] = namespaces;
            cluster_policy(json!({"workloads": {
                "syncPeriod": "2s", "downscaleStabilization": "2s", "metricSources": sources}}))
        };
        cluster.apply(quick(json!(["default"]))).await?;
        cluster.apply(node("n1", "16", "64Gi")).await?;
        cluster.apply(deployment("web").replicas(1).requests("100m", "64Mi")).await?;
        cluster.apply(policy.clone()).await?;
        wait::until("three pods for twelve messages, five each", MINUTE, async || {
            cluster.replicas_are("web", 3)
        })
        .await?;

        nats.take("orders", "workers", 2, true)?;
        nats.take("orders", "workers", 10, false)?;
        wait::until("two pods for the ten that are not acknowledged", MINUTE, async || {
            cluster.replicas_are("web", 2)
        })
        .await?;
        let decision = cluster.scaling_status("web")?["decisions"][0].clone();
        ensure!(decision["message"].to_string().contains("of /jsz?acc=%24G&consumers=true"), "{decision}");

        nats.stream("returns", "workers")?;
        let mut other = policy.clone();
        let place = other["spec"]["metrics"][0]["http"]["value"].as_str().context("a place")?;
        other["spec"]["metrics"][0]["http"]["value"] = place.replace("orders", "returns").into();
        cluster.apply(other).await?;
        wait::until("nothing is left for an empty stream", MINUTE, async || {
            cluster.replicas_are("web", 0)?;
            cluster.running_pods_are("default", "app=web", 0).await
        })
        .await?;
        nats.publish("returns", 7)?;
        wait::until("two pods for seven", MINUTE, async || cluster.replicas_are("web", 2)).await?;

        cluster.apply(quick(json!(["elsewhere"]))).await?;
        let words = wait::until("status names the field", MINUTE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "False", "MetricsNotPermitted")
        })
        .await?;
        ensure!(words.contains("metricSources[].http.namespaces"), "{words}");
        cluster.apply(quick(json!([]))).await?;
        wait::until("it is asked again", MINUTE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "True", "MetricsRead")
        })
        .await?;
        nats.stop();
        wait::until("status says that nobody answers", MINUTE, async || {
            cluster.scaling_condition_is("web", "MetricsAvailable", "False", "MetricsOutage")
        })
        .await?;
        cluster.replicas_are("web", 2)?;
        operator.process().check_running()
    })
    .await;
}
