//! One call to a metrics API: a deadline, bounds on the answer's size and on all answers together, and a distinct reason
//! for every failure; no retry.

use std::time::Duration;

use headroom_core::text::with_causes;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::answer::{Answer, Failure, Outage, Question, Why, cut};
use super::budget::{Budget, Held};

/// Largest answer about all pods of a namespace, in bytes: the usages of over 100,000 pods.
pub(super) const PODS_MAX_BYTES: usize = 64 << 20;
/// Largest answer that lists the series of one metric, in bytes: a thousand of them.
pub(super) const SERIES_MAX_BYTES: usize = 256 << 10;
/// Largest answer that lists kinds, in bytes: over 10,000 of them.
pub(super) const LIST_MAX_BYTES: usize = 4 << 20;
/// Largest answer that holds one number, in bytes.
pub(super) const NUMBER_MAX_BYTES: usize = 64 << 10;
/// Longest part of a server's words that is kept, in characters.
const WORDS_MAX: usize = 300;

/// Answer, with any status.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

/// Sends `request` and reads the whole answer within `deadline`. Redirects are not followed: they come back as they are,
/// and with them neither a token nor a query goes to another server. The body is in `budget` as long as what comes with it
/// is held.
///
/// # Errors
/// `Outage` if no answer came, or one of more than `bytes_max`.
pub(super) async fn send<'a>(
    client: &Client,
    request: Request<Vec<u8>>,
    deadline: Duration,
    bytes_max: usize,
    budget: &'a Budget,
    question: &Question,
) -> Answer<(Reply, Held<'a>)> {
    let mut held = budget.hold();
    let exchange = async {
        let response =
            client.send(request.map(Body::from)).await.map_err(|error| Outage::Unreachable(words(&error)))?;
        let (head, body) = response.into_parts();
        Ok(Reply { status: head.status, body: read(body, bytes_max, &mut held).await? })
    };
    let answer = tokio::time::timeout(deadline, exchange).await;
    let answer = answer.unwrap_or_else(|_| {
        Err(if held.waits() { Outage::Crowded(deadline) } else { Outage::Deadline(deadline) })
    });
    answer.map(|reply| (reply, held)).map_err(|outage| question.failure(Why::Outage(outage)))
}

/// A whole body, as far as there is memory for it.
async fn read(mut body: Body, bytes_max: usize, held: &mut Held<'_>) -> Result<Vec<u8>, Outage> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Outage::Garbled(words(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len().saturating_add(data.len());
        if bytes_max < length {
            return Err(Outage::Garbled(format!("it has more than {} KiB", bytes_max >> 10)));
        }
        held.grow_to(length).await;
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// A GET of `path` from the API server, decoded.
///
/// # Errors
/// All of [`refusal`], and `Outage` if the answer is not what was asked for.
pub(super) async fn get<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    deadline: Duration,
    bytes_max: usize,
    budget: &Budget,
    question: &Question,
) -> Answer<T> {
    let request = Request::get(path).body(Vec::new()).map_err(|error| question.refused(error))?;
    let (reply, _held) = send(client, request, deadline, bytes_max, budget, question).await?;
    if !reply.status.is_success() {
        return Err(refusal(&reply, question));
    }
    serde_json::from_slice(&reply.body)
        .map_err(|error| question.failure(Why::Outage(Outage::Garbled(cut(&error.to_string(), WORDS_MAX)))))
}

/// The part of a `Status` object that is read. An aggregated server's own errors come as such an object; those of the
/// API server in front of it as plain text.
#[derive(Deserialize)]
struct StatusBody {
    kind: String,
    #[serde(default)]
    message: String,
}

/// Converts an error status of the API server, or of an aggregated server behind it, to a failure.
pub(super) fn refusal(reply: &Reply, question: &Question) -> Failure {
    let status_object =
        serde_json::from_slice::<StatusBody>(&reply.body).ok().filter(|body| body.kind == "Status");
    let message = match &status_object {
        Some(object) => cut(&object.message, WORDS_MAX),
        None => cut(&String::from_utf8_lossy(&reply.body), WORDS_MAX),
    };
    question.failure(match reply.status {
        // A server behind the API reports in its own words that it does not know this metric or object; the API server
        // itself reports that there is no such path, since no APIService has claimed it.
        StatusCode::NOT_FOUND if status_object.is_some() => Why::Empty,
        StatusCode::NOT_FOUND => Why::NotRegistered(not_registered(&question.source)),
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Why::Refused(message),
        other => why_of_status(other, message),
    })
}

/// What an error status means, whoever the server is.
pub(super) fn why_of_status(status: StatusCode, message: String) -> Why {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Why::NotPermitted(message),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
            Why::Outage(Outage::Unavailable(message))
        }
        other => Why::Outage(Outage::Status { code: other.as_u16(), message }),
    }
}

/// Returns a message on the missing API group, and how to add it.
pub(super) fn not_registered(group: &str) -> String {
    let fix = match group {
        "metrics.k8s.io" => "install metrics-server",
        "custom.metrics.k8s.io" => "install an adapter that serves custom metrics",
        _ => "install an adapter that serves external metrics",
    };
    format!("the API server has no API group {group}: {fix}")
}

/// An error with its causes, cut.
fn words(error: &dyn std::error::Error) -> String {
    cut(&with_causes(error), WORDS_MAX)
}
