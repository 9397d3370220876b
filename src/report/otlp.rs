//! Sends traces to a collector: OTLP over HTTP in JSON. What cannot be sent is dropped and said once a minute; nothing waits.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::traces::{Span, Trace};
use crate::host::Host;

/// Traces that wait for the collector; more are dropped.
const QUEUE: usize = 1024;
/// Traces of one request.
const BATCH: usize = 64;
/// Longest wait for the collector.
const DEADLINE: Duration = Duration::from_secs(10);
/// Trouble is told no more often.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);
/// Where OTLP over HTTP takes traces, below the endpoint.
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
    /// When the endpoint or a header is none.
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

fn read_headers(text: &str) -> anyhow::Result<Vec<(String, String)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').with_context(|| {
                format!(
                    "OTEL_EXPORTER_OTLP_HEADERS: {pair:?} is no header: write name=value, separated by commas"
                )
            })?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}

struct Exporter {
    client: Client,
    headers: Vec<(String, String)>,
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
        let answer = self.client.request_text(request.body(body)?);
        let answer = tokio::time::timeout(DEADLINE, answer).await;
        answer.context("the collector did not answer in time")?.context("the collector refused")?;
        Ok(())
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
    let mut told = json!({
        "traceId": trace.id, "spanId": id, "name": span.name, "kind": if span.call { 3 } else { 1 },
        "startTimeUnixNano": nanoseconds(span.start), "endTimeUnixNano": nanoseconds(span.end),
        "attributes": span.attributes.iter().map(|(name, value)| attribute(name, value)).collect::<Vec<_>>(),
        "status": status,
    });
    if let Some(parent) = parent {
        told["parentSpanId"] = parent.into();
    }
    told
}

/// Numbers of 64 bits are texts in this form.
fn nanoseconds(at: Timestamp) -> String {
    at.as_nanosecond().max(0).to_string()
}

fn attribute(name: &str, value: &str) -> Value {
    json!({"key": name, "value": {"stringValue": value}})
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::HeaderMap;
    use axum::routing::post;

    use super::*;
    use crate::report::traces::trace_id;

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
        let (told, mut heard) = mpsc::unbounded_channel();
        let app = Router::new().route(
            "/v1/traces",
            post(move |headers: HeaderMap, body: String| {
                let _ = told.send((headers, body));
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
}
