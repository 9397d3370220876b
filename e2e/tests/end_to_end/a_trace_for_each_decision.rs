//! A real OpenTelemetry collector gets one trace a decision: the plan, the intent, the call, and the node that became ready; or what was
//! measured and the size that was written.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::collector::Collector;
use e2e::control_plane::Options;
use e2e::fixtures::{deployment, pool};
use e2e::harness::cluster_test;
use e2e::wait;
use e2e::workloads::{quick_workloads, scaling_policy};
use serde_json::Value;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_scale_up_is_one_trace_from_the_plan_to_the_ready_node() {
    cluster_test(Options::new().without_hpa_controller(), async |cluster| {
        let collector = Collector::start(&cluster.folder().join("collector")).await?;
        let operator =
            cluster.operator().env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint()).start()?;
        operator.ready().await?;
        // The pods are first: what the first plan of a pool decides has a trace too.
        cluster.apply(deployment("web")).await?;
        cluster.apply(pool("general").nodes(0, 3)).await?;
        wait::until("web runs", MINUTE, async || cluster.running_pods_are("default", "app=web", 1).await)
            .await?;
        let spans = trace(&collector, "scale up").await?;
        let intent = cluster.pool_status("general").await?["decisions"][0]["id"].clone();
        let root = root(&spans)?;
        let attribute = |name: &str| {
            let own = root["attributes"].as_array().into_iter().flatten().find(|one| one["key"] == name);
            own.and_then(|one| one["value"]["stringValue"].as_str()).unwrap_or_default().to_owned()
        };
        ensure!(intent.is_string() && intent == attribute("headroom.intent"), "{root:#} is not of {intent}");
        ensure!(attribute("headroom.outcome") == "Done", "{root:#}");
        has_parts(&spans, &["plan", "intent", "call", "node ready"])?;

        // One replica is fewer than this policy allows.
        cluster.apply(quick_workloads("Observe", "0s")).await?;
        let mut policy = scaling_policy("web", "web", 5);
        policy["spec"]["minReplicas"] = 2.into();
        cluster.apply(policy).await?;
        let spans = trace(&collector, "scale replicas").await?;
        let attributes = self::root(&spans)?["attributes"].to_string();
        for part in ["default/web", "Deployment default/web", "\"Done\""] {
            ensure!(attributes.contains(part), "{part} is not in {attributes}");
        }
        has_parts(&spans, &["journal", "scale"])?;
        // What it does not understand it refuses, and the operator says so.
        ensure!(!operator.log().contains("traces not sent"), "{}", operator.log());
        operator.process().check_running()
    })
    .await;
}

/// Spans of the first trace whose root has this name.
async fn trace(collector: &Collector, name: &str) -> Result<Vec<Value>> {
    wait::until(&format!("a trace of {name} arrives"), MINUTE, async || {
        let traces = collector.traces()?;
        let found = traces.into_iter().find(|spans| root(spans).is_ok_and(|root| root["name"] == name));
        found.context("there is none")
    })
    .await
}

/// The span without a parent.
fn root(spans: &[Value]) -> Result<&Value> {
    let is_root = |span: &&Value| span["parentSpanId"].as_str().unwrap_or_default().is_empty();
    spans.iter().find(is_root).context("no root")
}

/// Errors unless spans of these names are children of the root, ended well and within it.
fn has_parts(spans: &[Value], names: &[&str]) -> Result<()> {
    let root = root(spans)?;
    let time = |span: &Value, end: &str| span[end].as_str().unwrap_or_default().parse::<u64>();
    for name in names {
        let part = spans.iter().find(|span| span["name"] == *name);
        let part = part.with_context(|| format!("no {name}: {spans:#?}"))?;
        ensure!(part["parentSpanId"] == root["spanId"] && part["status"]["code"] == 1, "{part:#}");
        ensure!(time(part, "startTimeUnixNano")? <= time(part, "endTimeUnixNano")?, "{part:#}");
        ensure!(
            time(part, "endTimeUnixNano")? <= time(root, "endTimeUnixNano")?,
            "{part:#} outlives {root:#}"
        );
    }
    Ok(())
}
