//! The guard as a tower layer under a kube client: real or in-memory server, nothing passes beside it.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::DATE;
use http::{HeaderMap, Method, Request, Response};
use http_body::Body as HttpBody;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use jiff::fmt::rfc2822::DateTimeParser;
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

use super::guard::{Guard, READ_DEADLINE, Refusal};
use headroom_observe::host::Host;
use headroom_observe::is_watch;

/// Wraps a client's service in a [`Guard`].
#[derive(Clone, Debug)]
pub struct GuardLayer {
    guard: Guard,
    kind: ClientKind,
}

/// Purpose of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// Everything but the lease: mutations need the claim.
    Work,
    /// The lease itself, on a connection of its own: it makes the claim and so cannot need it.
    Lease,
}

impl GuardLayer {
    /// A layer for clients of `kind`.
    #[must_use]
    pub fn new(guard: Guard, kind: ClientKind) -> Self {
        Self { guard, kind }
    }
}

impl<S> Layer<S> for GuardLayer {
    type Service = GuardService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GuardService { inner, guard: self.guard.clone(), kind: self.kind }
    }
}

/// A client behind `guard` over `base`, which is behind none: clients of several guards share its connections.
#[must_use]
pub fn behind(base: &Client, guard: Guard, kind: ClientKind) -> Client {
    let (base, namespace) = (base.clone(), base.default_namespace().to_owned());
    let service = tower::service_fn(move |request| {
        let base = base.clone();
        async move { base.send(request).await }
    });
    Client::new(GuardLayer::new(guard, kind).layer(service), namespace)
}

/// A client's service behind the guard.
#[derive(Clone, Debug)]
pub struct GuardService<S> {
    inner: S,
    guard: Guard,
    kind: ClientKind,
}

/// The body of a guarded answer: a watch's stream as it comes, anything else read whole within the deadline.
pub type GuardedBody = UnsyncBoxBody<Bytes, BoxError>;

impl<S, B> Service<Request<Body>> for GuardService<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError> + 'static,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<GuardedBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let clock = ClockReading::begin(&self.guard);
        if is_watch(&request) {
            let answer = self.inner.call(request);
            return Box::pin(async move {
                let response = answer.await.map_err(Into::into)?;
                clock.end(response.headers());
                Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
            });
        }
        let operation = operation(&request);
        let mutates = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        if mutates && self.kind == ClientKind::Work {
            // The leave is taken before the service sees the request: it may act as soon as it is called.
            return match self.guard.admit(operation) {
                Ok(leave) => {
                    let exchange = whole(self.inner.call(request), clock);
                    Box::pin(async move { leave.see_through(status_of, exchange).await? })
                }
                Err(refusal) => Box::pin(std::future::ready(Err(refusal.into()))),
            };
        }
        let exchange = whole(self.inner.call(request), clock);
        Box::pin(async move {
            match tokio::time::timeout(READ_DEADLINE, exchange).await {
                Ok(answer) => answer,
                Err(_) => Err(Refusal::Deadline { operation, deadline: READ_DEADLINE }.into()),
            }
        })
    }
}

/// The answer with its body read whole, so that a body which stalls falls under the same deadline.
async fn whole<E, B>(
    answer: impl Future<Output = Result<Response<B>, E>>,
    clock: ClockReading,
) -> Result<Response<GuardedBody>, BoxError>
where
    E: Into<BoxError>,
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (parts, body) = answer.await.map_err(Into::into)?.into_parts();
    clock.end(&parts.headers);
    let bytes = body.collect().await.map_err(Into::into)?.to_bytes();
    Ok(Response::from_parts(parts, Full::new(bytes).map_err(|never| match never {}).boxed_unsync()))
}

/// The API server dates each answer: that is how replicas learn what time it is in the cluster.
struct ClockReading {
    host: Arc<Host>,
    sent_at: Instant,
}

impl ClockReading {
    fn begin(guard: &Guard) -> Self {
        let host = guard.host();
        Self { sent_at: host.monotonic(), host }
    }

    /// The head of the answer has come. One without a readable date changes nothing.
    fn end(&self, headers: &HeaderMap) {
        const DATES: DateTimeParser = DateTimeParser::new();
        let date = headers.get(DATE).and_then(|date| DATES.parse_timestamp(date.as_bytes()).ok());
        if let Some(date) = date {
            self.host.heard(date, self.sent_at);
        }
    }
}

/// The HTTP status, for the call log.
fn status_of(answer: &Result<Response<GuardedBody>, BoxError>) -> String {
    match answer {
        Ok(response) => response.status().as_u16().to_string(),
        Err(_) => "error".to_owned(),
    }
}

/// Verb and path without the host, as the call log and crash points name it.
fn operation<B>(request: &Request<B>) -> String {
    format!("{} {}", request.method(), request.uri().path())
}
