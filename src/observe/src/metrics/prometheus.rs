//! One Prometheus server: a confined instant query, its single value, and the time of the sample behind it.

use std::path::PathBuf;
use std::time::Duration;

use headroom_core::pods::input::{Number, Sample};
use headroom_core::pods::moment::Moment;
use http::{Request, StatusCode, header};
use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;

use super::answer::{Absurdity, Answer, Failure, Outage, Question, Why, cut, number};
use super::apis::percent_encoded;
use super::budget::Budget;
use super::call::{NUMBER_MAX_BYTES, Reply, send, why_of_status};
use super::connect::{Credentials, connect};
use super::declared::Server;
use super::promql::{Confined, confine};

/// Most series that are asked for: one is wanted, and a second shows that there are too many. Servers that do not know
/// the parameter answer with all of them, up to [`NUMBER_MAX_BYTES`].
const SERIES_MAX: usize = 2;
/// Time that Prometheus looks back for a sample by default.
const LOOKBACK: Duration = Duration::from_secs(300);

/// A Prometheus server as ClusterScalingPolicy.workloads.metricSources declares it, or anything that answers its query
/// API (Thanos, Mimir, VictoriaMetrics).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusSource {
    /// The name by which ScalingPolicies refer to it.
    pub name: String,
    /// Base address of its API, such as `http://prometheus.monitoring:9090`; a path before `/api` may follow.
    pub url: String,
    /// The label that holds the namespace of a series; `None` for `namespace`.
    pub namespace_label: Option<String>,
    /// A file with a bearer token, read anew each minute; `None` for no authentication.
    pub bearer_token_file: Option<PathBuf>,
    /// True if the token may be sent over plain `http://`.
    pub allow_insecure_token: bool,
    /// A file with the CA's certificate in PEM; `None` for those that the system trusts.
    pub ca_file: Option<PathBuf>,
}

/// A declared server with its connections.
pub(super) struct PrometheusServer {
    source: PrometheusSource,
    client: Result<Client, String>,
}

/// An answer of the query API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    status: String,
    data: Option<Data>,
    #[serde(default)]
    error_type: String,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Scalar(Point),
    Vector(Vec<Element>),
    Matrix(serde::de::IgnoredAny),
    String(serde::de::IgnoredAny),
}

/// Unix seconds and the value as text.
type Point = (f64, String);

#[derive(Deserialize)]
struct Element {
    /// Absent for a native histogram.
    value: Option<Point>,
}

impl Server for PrometheusServer {
    type Source = PrometheusSource;

    fn new(source: PrometheusSource) -> Self {
        let credentials = Credentials {
            bearer_token_file: source.bearer_token_file.as_deref(),
            sends_others: false,
            allow_insecure: source.allow_insecure_token,
            allow_insecure_field: "allowInsecureToken",
        };
        let client = connect(&source.url, &credentials, source.ca_file.as_deref());
        Self { source, client }
    }

    fn declaration(&self) -> &PrometheusSource {
        &self.source
    }

    fn name(source: &PrometheusSource) -> &str {
        &source.name
    }

    fn problem(&self) -> Option<&str> {
        self.client.as_ref().err().map(String::as_str)
    }
}

impl PrometheusServer {
    /// The one value of `query` at `now`. Its time is that of the youngest sample that the query saw.
    pub(super) async fn query(
        &self,
        question: &Question,
        namespace: &str,
        query: &str,
        deadline: Duration,
        budget: &Budget,
        now: Timestamp,
    ) -> Answer<Sample> {
        let client = self.client.as_ref().map_err(|problem| question.refused(problem))?;
        let label = self.source.namespace_label.as_deref().unwrap_or("namespace");
        let confined = confine(query, label, namespace).map_err(|error| question.refused(error))?;
        let value = self.instant(client, question, &confined.query, deadline, budget, now);
        let (value, sampled) = match &confined.freshness {
            Some(freshness) => {
                let sampled = self.instant(client, question, freshness, deadline, budget, now);
                let (value, sampled) = futures::join!(value, sampled);
                (value?, Some(sampled))
            }
            None => (value.await?, None),
        };
        let value = number(value).map_err(|absurdity| question.failure(Why::Absurd(absurdity)))?;
        let at = sampled_at(question, &confined, sampled, now)?;
        Ok(Sample { value: Number::Quantity(value), at: Some(at) })
    }

    /// The one number that an instant query comes to, NaN and infinities included.
    async fn instant(
        &self,
        client: &Client,
        question: &Question,
        query: &str,
        deadline: Duration,
        budget: &Budget,
        now: Timestamp,
    ) -> Answer<f64> {
        // The server is to give up when we do.
        let timeout = deadline.as_secs().max(1);
        let query = percent_encoded(query);
        let form = format!("query={query}&time={now}&limit={SERIES_MAX}&timeout={timeout}s");
        let request = Request::post("/api/v1/query")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(form.into_bytes())
            .map_err(|error| question.refused(error))?;
        let (reply, _held) = send(client, request, deadline, NUMBER_MAX_BYTES, budget, question).await?;
        read(reply, question)
    }
}

/// The number in the body of a successful answer, whatever was asked.
///
/// # Errors
/// If there is none, or more than one, or it is not a number that can be counted with.
pub fn number_in(body: &[u8]) -> Answer<f64> {
    read(Reply { status: StatusCode::OK, body: body.to_vec() }, &Question::new("prometheus", "a query"))
}

/// The number in an answer.
fn read(reply: Reply, question: &Question) -> Answer<f64> {
    let garbled = |message: String| question.failure(Why::Outage(Outage::Garbled(message)));
    let body: Result<Body, _> = serde_json::from_slice(&reply.body);
    if !reply.status.is_success() {
        return Err(refusal(reply, body.ok(), question));
    }
    let body = body.map_err(|error| garbled(cut(&error.to_string(), 200)))?;
    if body.status != "success" {
        return Err(garbled(format!("status {}: {}", body.status, cut(&body.error, 200))));
    }
    let point = match body.data {
        Some(Data::Scalar(point)) => point,
        Some(Data::Vector(mut elements)) => match (elements.len(), elements.pop()) {
            (1, Some(Element { value: Some(point) })) => point,
            (1, _) => {
                return Err(question.refused("the query gives a native histogram where a number is needed"));
            }
            (0, _) => return Err(question.failure(Why::Empty)),
            (n, _) => return Err(question.failure(Why::Absurd(Absurdity::ManyValues(n)))),
        },
        Some(Data::Matrix(_)) => {
            return Err(
                question.refused("the query gives a range of values: wrap it in avg_over_time() or the like")
            );
        }
        Some(Data::String(_)) => {
            return Err(question.refused("the query gives a text where a number is needed"));
        }
        None => return Err(garbled("a success without data".to_owned())),
    };
    // Rust reads the words that Prometheus writes: NaN, +Inf and -Inf.
    point.1.parse().map_err(|_| garbled(format!("{:?} is no number", cut(&point.1, 64))))
}

fn refusal(reply: Reply, body: Option<Body>, question: &Question) -> Failure {
    let message = match &body {
        Some(body) => cut(&format!("{}: {}", body.error_type, body.error), 300),
        None => cut(&String::from_utf8_lossy(&reply.body), 300),
    };
    question.failure(match reply.status {
        StatusCode::BAD_REQUEST if body.is_some() => Why::Refused(message),
        other => why_of_status(other, message),
    })
}

/// Returns the time of the sample that the value is based on.
fn sampled_at(
    question: &Question,
    confined: &Confined,
    sampled: Option<Answer<f64>>,
    now: Timestamp,
) -> Answer<Moment> {
    let evaluated_at = Moment::from_jiff(now);
    match sampled {
        None => Ok(evaluated_at),
        Some(Ok(seconds)) => Timestamp::from_microsecond(micros(seconds))
            .map(Moment::from_jiff)
            .map_err(|error| question.failure(Why::Outage(Outage::Garbled(error.to_string())))),
        // There is a value, though no sample is young enough: it comes from a range that reaches further back, unless
        // the query itself defines a value for no sample.
        Some(Err(Failure { why: Why::Empty, .. })) if confined.answers_absence => Ok(evaluated_at),
        Some(Err(Failure { why: Why::Empty, .. })) => {
            let at = Moment::from_jiff(now.checked_sub(LOOKBACK).unwrap_or(now));
            let age = evaluated_at.since(at);
            Err(question.failure(Why::Stale { at, age, age_max: age }))
        }
        Some(Err(failure)) => Err(failure),
    }
}

/// Saturates: a cast from float to integer does.
#[allow(clippy::cast_possible_truncation)]
fn micros(seconds: f64) -> i64 {
    (seconds * 1e6) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_damage as damage;

    /// Successful answers that were damaged: `faults/fuzz_targets`.
    #[test]
    fn with_an_error_status_no_body_is_an_answer() {
        let whole = br#"{"status":"success","data":{"resultType":"scalar","result":[1760000000.5,"1.5e3"]}}"#;
        let question = Question::new("prometheus", "a query");
        let bad = |body: &[u8]| {
            let answer = read(Reply { status: StatusCode::BAD_REQUEST, body: body.to_vec() }, &question);
            match answer.map_err(|failure| failure.to_string()) {
                Err(words) if !words.is_empty() => Ok(()),
                _ => Err(String::new()),
            }
        };
        damage::try_bytes(whole, b"0123456789eE+-.\"[]{}", damage::cases(2_000), bad).unwrap();
    }
}
