//! Sends traces to a collector: OTLP over HTTP in JSON. Spans that cannot be sent are dropped and logged once a minute;
//! nothing waits.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use kube::client::Body;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::traces::{Span, Trace};
use headroom_observe::host::Host;

/// Traces that wait for the collector; more are dropped.
const QUEUE: usize = 1024;
/// Traces of one request.
const BATCH: usize = 64;
/// Longest wait for the collector.
const DEADLINE: Duration = Duration::from_secs(10);
/// Largest answer of the collector that is read, in bytes.
const ANSWER_MAX_BYTES: usize = 64 << 10;
/// Longest part of a refusal that is logged, in characters.
const ANSWER_CHARS_MAX: usize = 300;
/// Shortest time between two logs of trouble.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);
/// Path below the endpoint to which OTLP over HTTP sends traces.
const PATH: &str = "/v1/traces";

/// Takes finished traces.
#[derive(Clone, Debug)]
pub struct TraceSink {
    queue: mpsc::Sender<Trace>,
}

impl TraceSink {
    /// Starts to send to the collector at `endpoint`, such as `http://collector:4318`; `headers` as
    /// `OTEL_EXPORTER_OTLP_HEADERS` has them: `name=value`, separated by commas.
    ///
    /// # Errors
    /// If the endpoint or a header is invalid.
    pub fn start(
        endpoint: &str,
        headers: Option<&str>,
        identity: &str,
        host: &Arc<Host>,
    ) -> anyhow::Result<TraceSink> {
        let base = endpoint.trim_end_matches('/').parse::<http::Uri>().ok();
        let base = base.filter(|base| base.scheme().is_some() && base.authority().is_some());
        let base = base.with_context(|| {
            format!("--otlp-endpoint {endpoint:?} is no URL: write for example http://collector:4318")
        })?;
        let headers = read_headers(headers.unwrap_or_default())?;
        // The Kubernetes client is an HTTP client with TLS and a base URL; nothing in it needs the server to be Kubernetes.
        let client = Client::try_from(Config::new(base)).context("failed to set up a client for traces")?;
        let (queue, waiting) = mpsc::channel(QUEUE);
        let exporter = Exporter { client, headers, identity: identity.to_owned(), host: host.clone() };
        host.spawn(exporter.run(waiting));
        info!(%endpoint, "traces are sent");
        Ok(TraceSink { queue })
    }

    /// Hands over a trace. One that finds the queue full is dropped: decisions wait for nobody.
    pub fn put(&self, trace: Trace) {
        let _ = self.queue.try_send(trace);
    }
}

/// Errors name the invalid header and quote none of it: a header may be a secret.
fn read_headers(text: &str) -> anyhow::Result<Vec<(HeaderName, HeaderValue)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let read = |(index, pair): (usize, &str)| {
        let invalid = |what: &str| format!("OTEL_EXPORTER_OTLP_HEADERS: {what} {}", index + 1);
        let (name, value) = pair
            .split_once('=')
            .with_context(|| invalid("write name=value, separated by commas; there is no = in header"))?;
        // Without the cause, which may quote.
        let name = HeaderName::try_from(name.trim()).ok();
        let name = name.with_context(|| invalid("invalid character in the name of header"))?;
        let value = HeaderValue::try_from(value.trim()).ok();
        let mut value = value.with_context(|| invalid("invalid character in the value of header"))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    pairs.enumerate().map(read).collect()
}

struct Exporter {
    client: Client,
    headers: Vec<(HeaderName, HeaderValue)>,
    identity: String,
    host: Arc<Host>,
}

impl Exporter {
    async fn run(self, mut waiting: mpsc::Receiver<Trace>) {
        let mut complained_at = None;
        let mut lost = 0;
        let mut batch = Vec::with_capacity(BATCH);
        while waiting.recv_many(&mut batch, BATCH).await > 0 {
            let Err(problem) = self.send(&batch).await else {
                batch.clear();
                continue;
            };
            lost += batch.len();
            batch.clear();
            let now = self.host.monotonic();
            if complained_at.is_none_or(|at| now.duration_since(at) >= COMPLAINT_INTERVAL) {
                complained_at = Some(now);
                warn!(lost, problem = %format!("{problem:#}"), "traces not sent");
            }
        }
    }

    async fn send(&self, traces: &[Trace]) -> anyhow::Result<()> {
        let body = serde_json::to_vec(&request(traces, &self.identity))?;
        let mut request = http::Request::post(PATH).header(http::header::CONTENT_TYPE, "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let answer = self.exchange(request.body(Body::from(body))?);
        let (status, answer) = tokio::time::timeout(DEADLINE, answer)
            .await
            .context("the collector did not answer in time")??;
        if !status.is_success() {
            let answer: String = String::from_utf8_lossy(&answer).chars().take(ANSWER_CHARS_MAX).collect();
            bail!("the collector refused: {status}: {answer}");
        }
        Ok(())
    }

    async fn exchange(&self, request: http::Request<Body>) -> anyhow::Result<(StatusCode, Bytes)> {
        let answer = self.client.send(request).await.context("failed to reach the collector")?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_MAX_BYTES).collect().await;
        let body = body.map_err(|error| anyhow!(error)).context("failed to read the collector's answer")?;
        Ok((status, body.to_bytes()))
    }
}

/// The body of a request: ExportTraceServiceRequest in the JSON form of protobuf, ids in hex as OTLP wants them.
fn request(traces: &[Trace], identity: &str) -> Value {
    let spans: Vec<Value> = traces.iter().flat_map(spans).collect();
    let version = env!("CARGO_PKG_VERSION");
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            attribute("service.name", "headroom"),
            attribute("service.version", version),
            attribute("service.instance.id", identity),
        ]},
        "scopeSpans": [{"scope": {"name": "headroom", "version": version}, "spans": spans}],
    }]})
}

fn spans(trace: &Trace) -> Vec<Value> {
    let root = trace.span_id(0);
    let parts = trace.spans.iter().enumerate();
    let parts = parts.map(|(place, part)| span(trace, part, &trace.span_id(place + 1), Some(&root)));
    std::iter::once(span(trace, &trace.root, &root, None)).chain(parts).collect()
}

fn span(trace: &Trace, span: &Span, id: &str, parent: Option<&str>) -> Value {
    // Kinds: 1 is internal, 3 a client's. Statuses: 1 is ok, 2 an error.
    let status = match &span.failure {
        Some(message) => json!({"code": 2, "message": message}),
        None => json!({"code": 1}),
    };
    let mut rendered = json!({
        "traceId": trace.id, "spanId": id, "name": span.name, "kind": if span.call { 3 } else { 1 },
        "startTimeUnixNano": nanoseconds(span.start), "endTimeUnixNano": nanoseconds(span.end),
        "attributes": span.attributes.iter().map(|(name, value)| attribute(name, value)).collect::<Vec<_>>(),
        "status": status,
    });
    if let Some(parent) = parent {
        rendered["parentSpanId"] = parent.into();
    }
    rendered
}

/// Numbers of 64 bits are texts in this form.
fn nanoseconds(at: Timestamp) -> String {
    at.as_nanosecond().max(0).to_string()
}

fn attribute(name: &str, value: &str) -> Value {
    json!({"key": name, "value": {"stringValue": value}})
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests have no host")]
mod tests {
    use axum::Router;
    use axum::http::HeaderMap;
    use axum::routing::post;

    use super::*;
    use crate::traces::trace_id;

    fn trace() -> Trace {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let part = |name, start, end, failure: Option<&str>| Span {
            name,
            start: at(start),
            end: at(end),
            call: name == "call",
            attributes: vec![("headroom.pool", "general".to_owned())],
            failure: failure.map(str::to_owned),
        };
        Trace {
            id: trace_id("general", "5-17"),
            root: part("scale up", 10, 70, None),
            spans: vec![part("plan", 10, 11, None), part("call", 12, 14, Some("no machines"))],
        }
    }

    #[tokio::test]
    async fn a_collector_gets_each_span_under_its_decision() {
        let (sender, mut heard) = mpsc::unbounded_channel();
        let app = Router::new().route(
            "/v1/traces",
            post(move |headers: HeaderMap, body: String| {
                let _ = sender.send((headers, body));
                async { "{}" }
            }),
        );
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let server = tokio::task::spawn(async move { axum::serve(listener, app).await });
        let host = Host::machine();
        let sink = TraceSink::start(&endpoint, Some("x-team=blue"), "pod-1", &host).expect("an endpoint");
        sink.put(trace());
        let (headers, body) = heard.recv().await.expect("a request");
        server.abort();
        assert_eq!(headers.get("content-type").map(|value| value.as_bytes()), Some(&b"application/json"[..]));
        assert_eq!(headers.get("x-team").map(|value| value.as_bytes()), Some(&b"blue"[..]));
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        assert_eq!(spans.as_array().map(Vec::len), Some(3));
        assert_eq!(spans[0]["traceId"], trace_id("general", "5-17"));
        assert!(spans[0].get("parentSpanId").is_none());
        assert_eq!(spans[1]["parentSpanId"], spans[0]["spanId"]);
        assert_eq!((&spans[2]["kind"], &spans[2]["status"]["code"]), (&json!(3), &json!(2)));
        assert_eq!(spans[0]["startTimeUnixNano"], "10000000000");
        assert_eq!(spans[0]["attributes"][0], attribute("headroom.pool", "general"));
        assert_eq!(
            body["resourceSpans"][0]["resource"]["attributes"][2],
            attribute("service.instance.id", "pod-1")
        );
    }

    #[test]
    fn an_endpoint_or_header_that_is_none_is_named() {
        let host = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let _inside = host.enter();
        let machine = Host::machine();
        let wrong = TraceSink::start("collector:4318x/y", None, "i", &machine).expect_err("no URL");
        assert!(format!("{wrong:#}").contains("http://collector:4318"), "{wrong:#}");
        assert!(read_headers("a=b, c=d").is_ok());
        assert!(read_headers("token").expect_err("no header").to_string().contains("name=value"));
    }

    #[test]
    fn an_invalid_header_is_named_by_its_place_and_not_quoted() {
        for (headers, expected) in [
            ("a=b,hunter2", "no = in header 2"),
            ("a=b,c=d,hun ter2=x", "in the name of header 3"),
            ("hunter2=hunter2\u{1}", "in the value of header 1"),
        ] {
            let error = format!("{:?}", read_headers(headers).expect_err("an invalid header"));
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("ter2"), "{error}");
        }
        let read = read_headers("authorization=Bearer hunter2").expect("a header");
        assert!(!format!("{read:?}").contains("hunter2"));
    }

    #[tokio::test]
    async fn an_endless_answer_of_the_collector_is_left() {
        let endless = || async {
            let chunk = || Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 4096]));
            let chunks = futures::stream::repeat_with(chunk);
            axum::body::Body::from_stream(chunks)
        };
        let app = Router::new().route("/v1/traces", post(endless));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let server = tokio::task::spawn(async move { axum::serve(listener, app).await });
        let client = Client::try_from(Config::new(base.parse().expect("a URL"))).expect("a client");
        let exporter =
            Exporter { client, headers: Vec::new(), identity: "pod-1".to_owned(), host: Host::machine() };
        let problem = exporter.send(&[trace()]).await.expect_err("an endless answer");
        server.abort();
        assert!(format!("{problem:#}").contains("length limit exceeded"), "{problem:#}");
    }
}
