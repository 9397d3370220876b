//! A Prometheus server behind TLS that wants a token: with both files it is read, and what is wrong with either is reported.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use e2e::tls::Tls;
use headroom_core::pods::input::{Number, Sample};
use headroom_observe::host::Host;
use headroom_observe::metrics::{Answer, Bounds, ClusterMetrics, MetricsSource as _, PrometheusSource};
use kube::{Client, Config};
use serde_json::json;
use tokio::net::TcpListener;

const TOKEN: &str = "a-secret-of-this-test";

#[tokio::test]
async fn token_and_ca_of_a_metric_source_are_used_and_their_faults_reported() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (port, ca) = serve().await?;
    let file = |name: &str, text: &str| -> Result<std::path::PathBuf> {
        let path = folder.path().join(name);
        fs::write(&path, text)?;
        Ok(path)
    };
    let (ca, token) = (file("ca.crt", &ca)?, file("token", TOKEN)?);
    let stale = file("stale", "of-yesterday")?;
    let source = |name: &str, ca: Option<&Path>, token: Option<&Path>| PrometheusSource {
        name: name.to_owned(),
        url: format!("https://localhost:{port}/prometheus"),
        namespace_label: None,
        bearer_token_file: token.map(Path::to_path_buf),
        allow_insecure_token: false,
        ca_file: ca.map(Path::to_path_buf),
    };
    let metrics = reader()?;
    metrics.declare(&[
        source("both", Some(&ca), Some(&token)),
        source("no-token", Some(&ca), None),
        source("old-token", Some(&ca), Some(&stale)),
        source("no-ca", None, Some(&token)),
        source("lost-ca", Some(Path::new("/nowhere/ca.crt")), Some(&token)),
    ]);
    let ask = async |name: &str| metrics.prometheus("shop", name, "sum(queue)").await;

    let sample = ask("both").await.context("with both files")?;
    ensure!(milli(&sample)? == 12_500, "{sample:?}");
    fails(ask("no-token").await, "MetricsNotPermitted", "a token is wanted")?;
    fails(ask("old-token").await, "MetricsNotPermitted", "a token is wanted")?;
    // The system trusts no such server: nothing is sent to it, the token least of all.
    fails(ask("no-ca").await, "MetricsOutage", "ertificate")?;
    fails(ask("lost-ca").await, "MetricsQueryRefused", "cannot be set up")
}

/// A server of Prometheus's query API on loopback, and the certificate to trust.
async fn serve() -> Result<(u16, String)> {
    let listener = TcpListener::bind(("localhost", 0)).await?;
    let port = listener.local_addr()?.port();
    let (tls, ca) = Tls::new(listener)?;
    let router = Router::new().route("/prometheus/api/v1/query", axum::routing::post(answer));
    tokio::spawn(async move { axum::serve(tls, router).await });
    Ok((port, ca))
}

async fn answer(request: Request) -> Response {
    let authorization = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    if authorization != Some(&format!("Bearer {TOKEN}")) {
        return (http::StatusCode::UNAUTHORIZED, "a token is wanted").into_response();
    }
    let now = jiff::Timestamp::now().as_second();
    // Asked for the time of the sample, it returns the time.
    let bytes = axum::body::to_bytes(request.into_body(), 1 << 16).await.unwrap_or_default();
    let asks_time = String::from_utf8_lossy(&bytes).contains("timestamp");
    let value = if asks_time { now.to_string() } else { "12.5".to_owned() };
    let body = json!({"status": "success", "data": {"resultType": "vector",
        "result": [{"metric": {}, "value": [now, value]}]}});
    ([("content-type", "application/json")], body.to_string()).into_response()
}

fn reader() -> Result<ClusterMetrics> {
    // The cluster's own APIs are not asked here.
    let client = Client::try_from(Config::new("http://127.0.0.1:1".parse()?))?;
    let bounds = Bounds { deadline: Duration::from_secs(5), ..Bounds::default() };
    Ok(ClusterMetrics::new(client, &Host::machine(), bounds))
}

fn milli(sample: &Sample) -> Result<i64> {
    match &sample.value {
        Number::Quantity(quantity) => Ok(quantity.milli()),
        Number::NotFinite(text) => bail!("{text} is no number"),
    }
}

/// Errors unless the answer is this failure with these words.
fn fails(answer: Answer<Sample>, reason: &str, words: &str) -> Result<()> {
    let failure = answer.err().with_context(|| format!("there is a value, and {reason} is wanted"))?;
    let message = failure.to_string();
    ensure!(failure.reason() == reason && message.contains(words), "{}: {message}", failure.reason());
    ensure!(!message.contains(TOKEN), "the message contains the token: {message}");
    Ok(())
}
