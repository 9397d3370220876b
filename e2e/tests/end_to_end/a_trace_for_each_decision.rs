//! A collector that speaks OTLP gets one trace a decision: the plan, the intent, the call, and the node that became ready; or what was
//! measured and the size that was written.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use axum::routing::post;
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::{quick_workloads, scaling_policy};
use serde_json::Value;
use tokio::sync::mpsc;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_scale_up_is_one_trace_from_the_plan_to_the_ready_node() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let (sender, mut heard) = mpsc::unbounded_channel::<String>();
        let take = post(move |body: String| {
            let _ = sender.send(body);
            async { "{}" }
        });
        let collector = Router::new().route("/v1/traces", take);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let server = tokio::spawn(async move { axum::serve(listener, collector).await });
        let operator = cluster.operator().env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).start()?;
        operator.ready().await?;
        // The pods are first: what the first plan of a pool decides has a trace too.
        cluster.apply(deployment("web")).await?;
        cluster.apply(pool("general").nodes(0, 3)).await?;
        wait::until("web runs", MINUTE, async || cluster.running_pods_are("default", "app=web", 1).await)
            .await?;
        let body = tokio::time::timeout(MINUTE, heard.recv()).await.context("no trace in a minute")?;
        let body: Value = serde_json::from_str(&body.context("the collector has ended")?)?;
        let intent = cluster.pool_status("general").await?["decisions"][0]["id"].clone();
        check(&body, intent.as_str().unwrap_or_default())?;

        // One replica is fewer than this policy allows.
        cluster.apply(quick_workloads("Observe", "0s")).await?;
        let mut policy = scaling_policy("web", "web", 5);
        policy["spec"]["minReplicas"] = 2.into();
        cluster.apply(policy).await?;
        let root =
            tokio::time::timeout(MINUTE, replicas(&mut heard)).await.context("no trace in a minute")??;
        let attributes = root["attributes"].to_string();
        for part in ["default/web", "Deployment default/web", "\"Done\""] {
            ensure!(attributes.contains(part), "{part} is not in {root:#}");
        }
        server.abort();
        operator.process().check_running()
    })
    .await;
}

/// The root of the first trace of a decision about replicas, which has its parts.
async fn replicas(heard: &mut mpsc::UnboundedReceiver<String>) -> Result<Value> {
    loop {
        let body: Value = serde_json::from_str(&heard.recv().await.context("the collector has ended")?)?;
        let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().context("no spans")?;
        let Some(root) = spans.iter().find(|span| span["name"] == "scale replicas") else { continue };
        for name in ["journal", "scale"] {
            let part = spans.iter().find(|span| span["name"] == name);
            let part = part.with_context(|| format!("no {name}: {body:#}"))?;
            ensure!(part["parentSpanId"] == root["spanId"] && part["status"]["code"] == 1, "{part:#}");
        }
        return Ok(root.clone());
    }
}

fn check(body: &Value, intent: &str) -> Result<()> {
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().context("no spans")?;
    let root = spans.iter().find(|span| span.get("parentSpanId").is_none()).context("no root")?;
    ensure!(root["name"] == "scale up", "{root:#}");
    let attribute = |name: &str| {
        let own = root["attributes"].as_array().into_iter().flatten().find(|one| one["key"] == name);
        own.and_then(|one| one["value"]["stringValue"].as_str()).unwrap_or_default().to_owned()
    };
    ensure!(!intent.is_empty() && attribute("headroom.intent") == intent, "{root:#} is not of {intent}");
    ensure!(attribute("headroom.outcome") == "Done", "{root:#}");
    for name in ["plan", "intent", "call", "node ready"] {
        let span =
            spans.iter().find(|span| span["name"] == name).with_context(|| format!("no {name}: {body:#}"))?;
        ensure!(span["parentSpanId"] == root["spanId"] && span["traceId"] == root["traceId"], "{span:#}");
        ensure!(span["status"]["code"] == 1, "{span:#}");
    }
    Ok(())
}
