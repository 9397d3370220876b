//! The client: one HTTP/2 channel to a server, with TLS by files that may change. It repeats nothing.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt as _};
use headroom_core::text::with_causes;
use headroom_observe::host::Host;
use headroom_observe::host::files;
use headroom_provider::external_grpc::{Address, Tls};
use http::uri::PathAndQuery;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

use super::calls::{Answer, CallError, Calls, End, Status};
use super::wire::{
    DeleteNodesRequest, Empty, GroupRequest, Instance, Instances, Node, NodeGroup, NodeGroupForNode,
    NodeGroupForNodeRequest, NodeGroups, Options, OptionsAnswer, OptionsRequest, ResizeRequest, SERVICE,
    TargetSize, Template,
};

/// Longest wait for a connection.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// Pause after a connection that failed; each next one is twice as long, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Largest answer: groups of thousands of instances exceed tonic's 4 MiB.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Largest request: what servers in Go accept by default.
const REQUEST_BYTES_MAX: usize = 4 << 20;
/// A connection is probed after so long without a packet, so that a stream whose server has vanished ends.
const PROBED_AFTER: Duration = Duration::from_secs(60);
/// Files with certificates and keys are read again after this long.
const FILES_TTL: Duration = Duration::from_secs(60);

/// The connection to one server.
pub(crate) struct Client {
    address: Address,
    host: Arc<Host>,
    /// Largest answer that is read.
    answer_bytes_max: usize,
    state: Mutex<State>,
    /// One attempt to connect at a time.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    channel: Option<Channel>,
    /// Texts of the files that the channel was made with.
    files: Option<Files>,
    files_read_at: Option<Instant>,
    /// Not connected again before.
    paused_until: Option<Instant>,
    pause: Duration,
    /// Error of the last attempt.
    problem: String,
}

/// Texts of certificates and key.
#[derive(Clone, PartialEq, Eq)]
struct Files {
    ca: String,
    identity: Option<(String, String)>,
}

impl Client {
    /// A client that connects at its first call.
    #[must_use]
    pub(crate) fn new(address: Address, host: Arc<Host>) -> Self {
        let connecting = tokio::sync::Mutex::default();
        Self { address, host, answer_bytes_max: ANSWER_BYTES_MAX, state: Mutex::default(), connecting }
    }

    /// The same, which reads answers of so many bytes at most.
    #[must_use]
    pub(crate) fn with_answers_of(self, answer_bytes_max: usize) -> Self {
        Self { answer_bytes_max, ..self }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel, connected: a failed connect sends nothing of a call.
    async fn channel(&self) -> Result<Channel, CallError> {
        let _one_at_a_time = self.connecting.lock().await;
        let now = self.host.monotonic();
        self.read_files(now)?;
        let files = {
            let state = self.state();
            if let Some(channel) = &state.channel {
                return Ok(channel.clone());
            }
            if state.paused_until.is_some_and(|until| now < until) {
                return Err(CallError::not_sent(state.problem.clone()));
            }
            state.files.clone()
        };
        match self.connect(files).await {
            Ok(channel) => {
                let mut state = self.state();
                (state.pause, state.paused_until) = (Duration::ZERO, None);
                state.channel = Some(channel.clone());
                Ok(channel)
            }
            Err(problem) => {
                let mut state = self.state();
                state.pause = (state.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
                state.paused_until = Some(self.host.monotonic() + state.pause);
                state.problem = format!("failed to connect to {}: {problem}", self.address.address);
                Err(CallError::not_sent(state.problem.clone()))
            }
        }
    }

    async fn connect(&self, files: Option<Files>) -> Result<Channel, String> {
        let endpoint = self.endpoint(files).map_err(|error| with_causes(&error))?;
        let attempt = tokio::time::timeout(CONNECT_DEADLINE, endpoint.connect()).await;
        attempt
            .map_err(|_| format!("no answer within {CONNECT_DEADLINE:?}"))?
            .map_err(|error| with_causes(&error))
    }

    fn endpoint(&self, files: Option<Files>) -> Result<Endpoint, tonic::transport::Error> {
        let Address { address, tls } = &self.address;
        let scheme = if tls.is_some() { "https" } else { "http" };
        // No keepalive pings: servers in Go disconnect clients that ping more often than every five minutes.
        let endpoint =
            Endpoint::from_shared(format!("{scheme}://{address}"))?.connect_timeout(CONNECT_DEADLINE);
        let endpoint = endpoint.tcp_keepalive(Some(PROBED_AFTER));
        let (Some(tls), Some(files)) = (tls, files) else { return Ok(endpoint) };
        let host = address.rsplit_once(':').map_or(&**address, |(host, _)| host);
        let name = tls.server_name.as_deref().unwrap_or(host.trim_matches(['[', ']']));
        let mut config =
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(files.ca)).domain_name(name);
        if let Some((cert, key)) = files.identity {
            config = config.identity(Identity::from_pem(cert, key));
        }
        endpoint.tls_config(config)
    }

    /// Reads certificates and key where it is time; changed ones make a new channel, unreadable ones keep the old.
    fn read_files(&self, now: Instant) -> Result<(), CallError> {
        let Some(tls) = &self.address.tls else { return Ok(()) };
        let mut state = self.state();
        if state.files_read_at.is_some_and(|at| now < at + FILES_TTL) && state.files.is_some() {
            return Ok(());
        }
        state.files_read_at = Some(now);
        match texts(tls) {
            Ok(files) if state.files.as_ref() == Some(&files) => {}
            Ok(files) => {
                if state.files.is_some() {
                    tracing::info!(address = %self.address.address, "certificates have changed; connecting anew");
                }
                (state.files, state.channel, state.paused_until) = (Some(files), None, None);
            }
            Err(problem) if state.files.is_none() => return Err(CallError::not_sent(problem)),
            Err(problem) => {
                tracing::warn!(%problem, "certificates not read again; the old ones stay in use");
            }
        }
        Ok(())
    }

    async fn call<Q, A>(&self, rpc: &'static str, message: Q, deadline: Duration) -> Answer<A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        self.call_of(SERVICE, rpc, message, deadline).await
    }

    /// Calls an RPC of the service whose path begins with `service`.
    pub(crate) async fn call_of<Q, A>(
        &self,
        service: &'static str,
        rpc: &'static str,
        message: Q,
        deadline: Duration,
    ) -> Answer<A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let (mut grpc, path) = self.ready(service, rpc, message.encoded_len()).await?;
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        let call = grpc.unary::<Q, A, _>(request, path, ProstCodec::default());
        let error = match tokio::time::timeout(deadline, call).await {
            Ok(Ok(answer)) => return Ok(answer.into_inner()),
            Ok(Err(status)) => failed(rpc, &status),
            Err(_) => CallError::no_answer(format!("{rpc}: no answer within {deadline:?}")),
        };
        if error.end == End::NoAnswer {
            // The connection may be dead without knowing it.
            self.state().channel = None;
        }
        Err(error)
    }

    /// Calls an RPC that answers with a stream. It has no deadline: servers may answer nothing for as long as nothing happens.
    pub(crate) async fn stream_of<Q, A>(
        &self,
        service: &'static str,
        rpc: &'static str,
        message: Q,
    ) -> Answer<BoxStream<'static, Answer<A>>>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let (mut grpc, path) = self.ready(service, rpc, message.encoded_len()).await?;
        let opened = grpc.server_streaming::<Q, A, _>(Request::new(message), path, ProstCodec::default());
        match opened.await {
            Ok(answers) => Ok(answers
                .into_inner()
                .map(move |answer| answer.map_err(|status| failed(rpc, &status)))
                .boxed()),
            Err(status) => Err(failed(rpc, &status)),
        }
    }

    /// A connection that takes a call, and the call's path.
    async fn ready(
        &self,
        service: &'static str,
        rpc: &'static str,
        request_bytes: usize,
    ) -> Answer<(Grpc<Channel>, PathAndQuery)> {
        let channel = self.channel().await?;
        if REQUEST_BYTES_MAX < request_bytes {
            return Err(CallError::not_sent(format!("{rpc}: the request is larger than 4 MiB")));
        }
        let mut grpc = Grpc::new(channel).max_decoding_message_size(self.answer_bytes_max);
        if let Err(error) = grpc.ready().await {
            self.state().channel = None;
            return Err(CallError::not_sent(format!("{rpc}: {}", with_causes(&error))));
        }
        let path = PathAndQuery::try_from(format!("{service}{rpc}"))
            .map_err(|error| CallError::not_sent(error.to_string()))?;
        Ok((grpc, path))
    }
}

/// Converts a status to an error. A dead connection appears as unknown, cancelled or unavailable, with a transport
/// error as its source; tonic's own timeout appears as cancelled.
fn failed(rpc: &str, status: &tonic::Status) -> CallError {
    let by_transport = std::error::Error::source(status).is_some();
    let end = match status.code() {
        Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable => End::NoAnswer,
        _ if by_transport => End::NoAnswer,
        Code::NotFound => End::Status(Status::NotFound),
        Code::PermissionDenied | Code::Unauthenticated => End::Status(Status::Denied),
        Code::FailedPrecondition => End::Status(Status::Precondition),
        Code::ResourceExhausted => End::Status(Status::Exhausted),
        Code::Unimplemented => End::Status(Status::Unimplemented),
        _ => End::Status(Status::Other),
    };
    let words = status.message();
    let words = if words.is_empty() { status.code().description() } else { words };
    let message = match status.code() {
        // The server's clock may be a moment before ours, or what the server itself waited for has not come.
        Code::DeadlineExceeded => format!("{rpc}: no answer in time, the server reports: {words}"),
        _ => format!("{rpc}: {words}"),
    };
    CallError { end, message }
}

fn texts(tls: &Tls) -> Result<Files, String> {
    let read = |path: &Path| {
        files::read_text(path).map_err(|error| format!("failed to read {}: {error}", path.display()))
    };
    let identity = match &tls.identity_files {
        Some((cert, key)) => Some((read(cert)?, read(key)?)),
        None => None,
    };
    Ok(Files { ca: read(&tls.ca_file)?, identity })
}

impl Calls for Client {
    fn refresh(&self, deadline: Duration) -> BoxFuture<'_, Answer<()>> {
        Box::pin(async move { self.call::<_, Empty>("Refresh", Empty {}, deadline).await.map(drop) })
    }

    fn node_groups(&self, deadline: Duration) -> BoxFuture<'_, Answer<Vec<NodeGroup>>> {
        Box::pin(async move {
            Ok(self.call::<_, NodeGroups>("NodeGroups", Empty {}, deadline).await?.node_groups)
        })
    }

    fn group_of<'a>(&'a self, node: &'a Node, deadline: Duration) -> BoxFuture<'a, Answer<Option<String>>> {
        Box::pin(async move {
            let request = NodeGroupForNodeRequest { node: Some(node.clone()) };
            let answer = self.call::<_, NodeGroupForNode>("NodeGroupForNode", request, deadline).await?;
            Ok(answer.node_group.map(|group| group.id).filter(|id| !id.is_empty()))
        })
    }

    fn target_size<'a>(&'a self, group: &'a str, deadline: Duration) -> BoxFuture<'a, Answer<i32>> {
        Box::pin(async move {
            let request = GroupRequest { id: group.to_owned() };
            Ok(self.call::<_, TargetSize>("NodeGroupTargetSize", request, deadline).await?.target_size)
        })
    }

    fn instances<'a>(&'a self, group: &'a str, deadline: Duration) -> BoxFuture<'a, Answer<Vec<Instance>>> {
        Box::pin(async move {
            let request = GroupRequest { id: group.to_owned() };
            Ok(self.call::<_, Instances>("NodeGroupNodes", request, deadline).await?.instances)
        })
    }

    fn template<'a>(&'a self, group: &'a str, deadline: Duration) -> BoxFuture<'a, Answer<Template>> {
        Box::pin(async move {
            let request = GroupRequest { id: group.to_owned() };
            self.call("NodeGroupTemplateNodeInfo", request, deadline).await
        })
    }

    fn options<'a>(
        &'a self,
        group: &'a str,
        defaults: &'a Options,
        deadline: Duration,
    ) -> BoxFuture<'a, Answer<Option<Options>>> {
        Box::pin(async move {
            let request = OptionsRequest { id: group.to_owned(), defaults: Some(defaults.clone()) };
            Ok(self.call::<_, OptionsAnswer>("NodeGroupGetOptions", request, deadline).await?.options)
        })
    }

    fn increase<'a>(&'a self, group: &'a str, delta: i32, deadline: Duration) -> BoxFuture<'a, Answer<()>> {
        Box::pin(async move {
            let request = ResizeRequest { delta, id: group.to_owned() };
            self.call::<_, Empty>("NodeGroupIncreaseSize", request, deadline).await.map(drop)
        })
    }

    fn decrease<'a>(&'a self, group: &'a str, delta: i32, deadline: Duration) -> BoxFuture<'a, Answer<()>> {
        Box::pin(async move {
            let request = ResizeRequest { delta, id: group.to_owned() };
            self.call::<_, Empty>("NodeGroupDecreaseTargetSize", request, deadline).await.map(drop)
        })
    }

    fn delete<'a>(&'a self, group: &'a str, node: &'a Node, deadline: Duration) -> BoxFuture<'a, Answer<()>> {
        Box::pin(async move {
            let request = DeleteNodesRequest { nodes: vec![node.clone()], id: group.to_owned() };
            self.call::<_, Empty>("NodeGroupDeleteNodes", request, deadline).await.map(drop)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_the_server_notices_first_is_no_answer_too() {
        let error = failed("BestOptions", &tonic::Status::deadline_exceeded("context deadline exceeded"));
        assert_eq!(error.end, End::NoAnswer);
        assert_eq!(
            error.message,
            "BestOptions: no answer in time, the server reports: context deadline exceeded"
        );
    }
}
