//! The guard as a tower layer under a kube client: real or in-memory server, nothing passes beside it.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body::Body as HttpBody;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use super::guard::{Guard, READ_DEADLINE, Refusal};

/// Wraps a client's service in a [`Guard`].
#[derive(Clone, Debug)]
pub struct GuardLayer {
    guard: Guard,
    kind: ClientKind,
}

/// What a client is for.
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
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
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
        // The service that was polled ready answers this call; its clone waits for the next.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let (guard, kind) = (self.guard.clone(), self.kind);
        Box::pin(async move {
            if is_watch(&request) {
                let response = inner.call(request).await.map_err(Into::into)?;
                return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
            }
            let operation = operation(&request);
            let mutates = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
            let exchange = async move {
                let (parts, body) = inner.call(request).await.map_err(Into::into)?.into_parts();
                let bytes = body.collect().await.map_err(Into::into)?.to_bytes();
                let body = Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
                Ok::<_, BoxError>(Response::from_parts(parts, body))
            };
            if mutates && kind == ClientKind::Work {
                let describe = |answer: &Result<Response<GuardedBody>, BoxError>| match answer {
                    Ok(response) => response.status().as_u16().to_string(),
                    Err(_) => "error".to_owned(),
                };
                return guard.mutate(&operation, describe, exchange).await?;
            }
            match tokio::time::timeout(READ_DEADLINE, exchange).await {
                Ok(answer) => answer,
                Err(_) => Err(Refusal::Deadline { operation, deadline: READ_DEADLINE }.into()),
            }
        })
    }
}

/// Whether the answer is an endless stream.
fn is_watch<B>(request: &Request<B>) -> bool {
    request
        .uri()
        .query()
        .is_some_and(|query| query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1"))
}

/// Verb and path without the host, as the call log and crash points name it.
fn operation<B>(request: &Request<B>) -> String {
    format!("{} {}", request.method(), request.uri().path())
}
