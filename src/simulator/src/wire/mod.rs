//! The wire port: the store behind HTTP as a tower service for a real kube Client; it opens no socket.

mod answer;
mod audit;
mod faults;
mod network;
mod request;
mod watch;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::BoxStream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use kube::client::Body;
use tokio::sync::oneshot;

pub use self::audit::{Audit, Call, Caller};
pub use self::faults::{Fault, FaultRates, Faults, RequestLine};
pub use self::network::Network;

use self::audit::Auditor;
use self::request::Target;
use super::cluster::SimCluster;
use super::store::SharedStore;
use headroom_observe::host::Host;

/// Body of an answer: one frame for an answer, many for a watch.
pub type ReplyBody = StreamBody<BoxStream<'static, Result<Frame<Bytes>, io::Error>>>;

/// The in-memory API server as one client sees it; clones share store and faults.
///
/// Each request runs as a task of its own, so a call whose caller went away can still commit.
#[derive(Debug, Clone)]
pub struct ApiServer {
    store: SharedStore,
    host: Arc<Host>,
    faults: Arc<Mutex<Faults>>,
    client: Arc<str>,
    caller: Option<Caller>,
    network: Arc<Network>,
    auditor: Auditor,
}

impl ApiServer {
    /// A server over `store` with a host of its own, whose wall clock its stamps show; faults come from `faults`.
    ///
    /// The host must not be a replica's: the server outlives them. Making a host seeds the thread's generator, so
    /// this one is made before theirs.
    pub fn new(store: SharedStore, host: Arc<Host>, faults: Faults) -> ApiServer {
        ApiServer {
            store,
            host,
            faults: Arc::new(Mutex::new(faults)),
            client: "client".into(),
            caller: None,
            network: Arc::default(),
            auditor: Auditor::default(),
        }
    }

    /// The same server as one life of a replica sees it, which the network may cut off and the auditor knows.
    pub fn called_by(&self, caller: Caller) -> ApiServer {
        ApiServer { caller: Some(caller), ..self.clone() }
    }

    /// Returns the network between the replicas and the server.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// True if the network lets this caller hear nothing.
    pub fn is_silent(&self) -> bool {
        self.network.is_silent(self.caller.map(|caller| caller.replica))
    }

    /// Lets `audit` see every mutating call of a replica before and after it is done.
    pub fn audit_by(&self, audit: Box<dyn Audit>) {
        self.auditor.set(audit);
    }

    /// Reports to the auditor that this server's caller has asked for the pod metrics of a namespace.
    pub fn measured(&self, cluster: &SimCluster, namespace: &str, answered: bool, now: Timestamp) {
        if let Some(caller) = self.caller {
            self.auditor.measured(cluster, (caller, namespace), answered, now);
        }
    }

    /// The same server as another client sees it: `name` stands in the trace and is its default field manager.
    pub fn named(&self, name: &str) -> ApiServer {
        ApiServer { client: name.into(), ..self.clone() }
    }

    /// A kube client over this service; made inside the runtime, because its buffer is a task.
    pub fn kube_client(&self, default_namespace: &str) -> kube::Client {
        kube::Client::new(self.clone(), default_namespace)
    }

    /// Looks at or changes the faults to come.
    pub fn with_faults<T>(&self, work: impl FnOnce(&mut Faults) -> T) -> T {
        work(&mut self.faults.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The store behind the service.
    pub fn store(&self) -> &SharedStore {
        &self.store
    }

    /// The answer with the server's time on it, as every HTTP server writes it.
    fn dated(&self, mut answer: http::Response<ReplyBody>) -> http::Response<ReplyBody> {
        const DATES: DateTimePrinter = DateTimePrinter::new();
        let date = DATES.timestamp_to_rfc9110_string(&self.host.wall());
        if let Some(date) = date.ok().and_then(|date| http::HeaderValue::try_from(date).ok()) {
            answer.headers_mut().insert(http::header::DATE, date);
        }
        answer
    }

    async fn serve(self, request: http::Request<Body>) -> Result<http::Response<ReplyBody>, io::Error> {
        let (parts, body) = request.into_parts();
        let line = RequestLine::new(&self.client, parts.method.as_str(), parts.uri.path(), parts.uri.query());
        let arrived_at = self.host.wall();
        let replica = self.caller.map(|caller| caller.replica);
        if self.network.is_cut(replica) {
            // Nobody answers: the caller waits for its own deadline.
            self.network.until_mended(&self.host, replica).await;
            return Err(faults::lost("before"));
        }
        let fault = self.with_faults(|faults| faults.decide(&line));
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        match fault {
            Fault::Refuse { code, retry_after_seconds } => {
                return Ok(answer::refusal(&faults::status(code, retry_after_seconds)));
            }
            Fault::DropBefore => return Err(faults::lost("before")),
            Fault::Delay(delay) => self.host.sleep(delay).await,
            Fault::None | Fault::DropAfter | Fault::CutWatch(_) | Fault::OldList(_) => {}
        }
        let target = match Target::parse(&parts, &self.client) {
            Ok(target) => target,
            Err(error) => return Ok(answer::refusal(&error)),
        };
        if target.is_watch() {
            let now = self.host.wall();
            self.store.with(|store| store.advance_to(now));
            let cut_after = if let Fault::CutWatch(after) = fault { Some(after) } else { None };
            let (network, auditor) = (self.network.clone(), self.auditor.clone());
            let line = network::Line { network, caller: self.caller, auditor };
            return Ok(watch::open(&self.store, &self.host, line, &target, cut_after));
        }
        let old_by = if let Fault::OldList(revisions) = fault { revisions } else { 0 };
        let now = self.host.wall();
        let reply = self.store.with(|store| {
            store.advance_to(now);
            let caller = self.caller.filter(|_| self.auditor.is_there());
            let call = caller.and_then(|caller| Call::of(caller, &target, &body, arrived_at, now));
            if let Some(call) = &call {
                self.auditor.before(store, call);
            }
            let reply = answer::answer(store, &target, &body, old_by);
            // One that was answered from an older state too: it names no version, so nobody who reads it can know.
            if let (Some(caller), Some(kind), Ok(_)) = (self.caller, target.lists_all(), &reply) {
                self.auditor.heard(caller, kind, now);
            }
            if let Some(call) = &call {
                let code = reply.as_ref().map_or_else(|error| error.code, |reply| reply.status().as_u16());
                self.auditor.after(store, call, code);
            }
            reply
        });
        if let Fault::DropAfter = fault {
            return Err(faults::lost("after"));
        }
        Ok(reply.unwrap_or_else(|error| answer::refusal(&error)))
    }
}

impl tower::Service<http::Request<Body>> for ApiServer {
    type Response = http::Response<ReplyBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (reply, answered) = oneshot::channel();
        let server = self.clone();
        // The server is a process of its own: it goes on when the caller is dropped.
        self.host.spawn(async move {
            // A caller that left does not concern the server.
            let _ = reply.send(server.clone().serve(request).await.map(|answer| server.dated(answer)));
        });
        Box::pin(async move { answered.await.unwrap_or_else(|_| Err(faults::lost("while"))) })
    }
}

#[cfg(test)]
mod tests;
