//! One HTTP server that answers with JSON: a GET below its address, and the number at a place in the answer.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headroom_api::json_path::JsonPath;
use headroom_core::pods::input::Sample;
use headroom_core::quantity::Quantity;
use http::{HeaderValue, Request, StatusCode, header};
use kube::Client;
use serde_json::Value;

use super::answer::{Absurdity, Answer, Failure, Outage, Question, Why, cut, number};
use super::budget::Budget;
use super::call::{NUMBER_MAX_BYTES, Reply, send, why_of_status};
use super::connect::{Credentials, connect};
use super::declared::{Server, permits};

/// An HTTP server as ClusterScalingPolicy.workloads.metricSources declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSource {
    /// The name by which ScalingPolicies refer to it.
    pub name: String,
    /// Address, with the path that all questions begin with.
    pub url: String,
    /// A file with a bearer token, read anew each minute; `None` for none.
    pub bearer_token_file: Option<PathBuf>,
    /// A file with `name:password`, read for each request; `None` for none.
    pub basic_auth_file: Option<PathBuf>,
    /// True if these may be sent over plain `http://`.
    pub allow_insecure_credentials: bool,
    /// A file with the CA's certificate in PEM; `None` for those that the system trusts.
    pub ca_file: Option<PathBuf>,
    /// Namespaces whose policies may ask it; all, if there are none.
    pub namespaces: Vec<String>,
}

/// A question to an HTTP server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpQuery {
    /// Name of the server.
    pub source: String,
    /// Path, and query, below its address.
    pub path: String,
    /// Place of the number in the answer, as a JSONPath.
    pub value: String,
}

impl HttpQuery {
    /// The question, for the message of a failure.
    #[must_use]
    pub fn question(&self) -> Question {
        Question::new(
            &format!("http source {}", self.source),
            format_args!("{} of {}", self.value, self.path),
        )
    }
}

/// A declared server with its connections.
pub(super) struct HttpServer {
    source: HttpSource,
    client: Result<Client, String>,
}

impl Server for HttpServer {
    type Source = HttpSource;

    fn new(source: HttpSource) -> Self {
        let credentials = Credentials {
            bearer_token_file: source.bearer_token_file.as_deref(),
            sends_others: source.basic_auth_file.is_some(),
            allow_insecure: source.allow_insecure_credentials,
            allow_insecure_field: "allowInsecureCredentials",
        };
        let client = connect(&source.url, &credentials, source.ca_file.as_deref());
        Self { source, client }
    }

    fn declaration(&self) -> &HttpSource {
        &self.source
    }

    fn name(source: &HttpSource) -> &str {
        &source.name
    }

    fn problem(&self) -> Option<&str> {
        self.client.as_ref().err().map(String::as_str)
    }
}

impl HttpServer {
    /// The number that a query asks for. Nothing says when it was taken, so it counts as taken now.
    pub(super) async fn read(
        &self,
        question: &Question,
        namespace: &str,
        query: &HttpQuery,
        deadline: Duration,
        budget: &Budget,
    ) -> Answer<Sample> {
        let HttpSource { name, namespaces, .. } = &self.source;
        permits(question, (name, "http"), namespaces, namespace)?;
        let client = self.client.as_ref().map_err(|problem| question.refused(problem))?;
        let place = JsonPath::parse(&query.value).map_err(|problem| question.refused(problem))?;
        let mut request = Request::get(&query.path).header(header::ACCEPT, "application/json");
        if let Some(login) = self.basic_auth(question)? {
            request = request.header(header::AUTHORIZATION, login);
        }
        let request = request.body(Vec::new()).map_err(|error| question.refused(error))?;
        let (reply, _held) = send(client, request, deadline, NUMBER_MAX_BYTES, budget, question).await?;
        let value = read(&reply, &place, question)?;
        Ok(Sample::of(value))
    }

    /// The header of basic authentication, if the source asks for it. The file is small and in memory: a mounted Secret.
    fn basic_auth(&self, question: &Question) -> Answer<Option<HeaderValue>> {
        let Some(file) = &self.source.basic_auth_file else { return Ok(None) };
        let unreadable = |problem: String| {
            question.failure(Why::NotPermitted(format!(
                "basicAuthFile {} of the source {problem}",
                file.display()
            )))
        };
        let login =
            std::fs::read_to_string(file).map_err(|error| unreadable(format!("cannot be read: {error}")))?;
        let login = login.trim_end_matches(['\r', '\n']);
        if !login.contains(':') {
            return Err(unreadable("is not of the form name:password".to_owned()));
        }
        let mut header = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(login)))
            .map_err(|error| unreadable(error.to_string()))?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

/// The number at a place in the body of a successful answer; several are added up.
///
/// # Errors
/// If there is none, or one of them is not a number that can be counted with.
pub fn number_at(body: &[u8], place: &JsonPath) -> Answer<Quantity> {
    let reply = Reply { status: StatusCode::OK, body: body.to_vec() };
    read(&reply, place, &Question::new("http", "a number"))
}

fn read(reply: &Reply, place: &JsonPath, question: &Question) -> Answer<Quantity> {
    if !reply.status.is_success() {
        return Err(refusal(reply, question));
    }
    let garbled = |message: String| question.failure(Why::Outage(Outage::Garbled(message)));
    let document: Value =
        serde_json::from_slice(&reply.body).map_err(|error| garbled(cut(&error.to_string(), 200)))?;
    let found = place.find(&document);
    if found.is_empty() {
        return Err(question.failure(Why::Empty));
    }
    let mut sum = 0.0;
    for one in found {
        let value = match one {
            Value::Number(value) => value.as_f64(),
            Value::String(text) => text.trim().parse::<f64>().ok(),
            _ => None,
        };
        sum += value.ok_or_else(|| {
            let found = cut(&one.to_string(), 64);
            question.refused(format!("what is there is no number but {found}: correct http.value"))
        })?;
    }
    if sum < 0.0 {
        return Err(question.failure(Why::Absurd(Absurdity::Negative(sum.to_string()))));
    }
    number(sum).map_err(|absurdity| question.failure(Why::Absurd(absurdity)))
}

/// Converts an error status to a failure. A path that is not there may be the queue's that nobody has made yet, or a typing error.
fn refusal(reply: &Reply, question: &Question) -> Failure {
    let message = cut(&String::from_utf8_lossy(&reply.body), 300);
    question.failure(match reply.status {
        StatusCode::BAD_REQUEST => Why::Refused(message),
        StatusCode::NOT_FOUND => Why::Empty,
        other => why_of_status(other, message),
    })
}
