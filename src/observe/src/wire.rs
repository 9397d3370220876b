//! The tower layer between kube's watcher and the client: it notes what the watcher keeps to itself, the contacts,
//! bookmarks and ends of watches, and paces calls. It decodes no object.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tower::{BoxError, Service};

use headroom_core::time::{Seconds, UnixTime};

use super::bookmarks::Bookmarks;
use super::feed::{Port, Shown};
use super::optional::versions_of;
use super::pace::{Failure, Pace};
use super::watched::Watch;

/// Time after which the server ends a watch, which is then resumed. Far shorter than client-go's 5 to 10 min: a
/// connection that died in silence is noticed only then, and bookmarks, which come once a minute, are too rare for a view
/// that must not be older than a minute when something is removed. It costs a quarter of a request a second in all.
pub(super) const WATCH_SECONDS: u32 = 40;
/// Longest wait for the head of the answer to a list.
pub(super) const LIST_DEADLINE: Duration = Duration::from_secs(60);
/// Longest wait for the head of the answer to a watch.
const OPEN_DEADLINE: Duration = Duration::from_secs(30);

/// True if the answer to this request is a stream that ends when the server likes.
pub fn is_watch<B>(request: &Request<B>) -> bool {
    matches!(parameter(request, "watch"), Some("true" | "1"))
}

fn parameter<'a, B>(request: &'a Request<B>, name: &str) -> Option<&'a str> {
    let mut pairs = request.uri().query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(key, value)| (key == name).then_some(value))
}

/// All watches of one client.
#[derive(Clone)]
pub(super) struct Wire {
    client: Client,
    /// By the path of their collection.
    kinds: Arc<BTreeMap<String, Arc<KindWire>>>,
}

impl Wire {
    /// A client whose calls go through the layer to `client`, and what the layer keeps for each kind.
    pub(super) fn under(client: &Client, ports: Vec<Port>) -> (Client, Vec<Arc<KindWire>>) {
        let kinds: Vec<_> = ports.into_iter().map(|port| Arc::new(KindWire::new(port))).collect();
        let mut by_path: BTreeMap<_, _> =
            kinds.iter().map(|kind| (kind.port.watch.resource().path, kind.clone())).collect();
        for kind in &kinds {
            for version in versions_of(kind.port.watch) {
                by_path.insert(kind.port.watch.resource().in_version(version).path, kind.clone());
            }
        }
        let wire = Self { client: client.clone(), kinds: Arc::new(by_path) };
        (Client::new(wire, client.default_namespace()), kinds)
    }
}

impl Service<Request<Body>> for Wire {
    type Response = Response<WireBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.client.clone();
        let Some(kind) = self.kinds.get(request.uri().path()).cloned() else {
            let path = request.uri().path().to_owned();
            return Box::pin(async move { Err(format!("{path} is not watched").into()) });
        };
        Box::pin(async move { kind.call(client, request).await })
    }
}

/// Cached data of one kind.
#[derive(Debug)]
pub(super) struct KindWire {
    /// Destination of its changes.
    pub(super) port: Port,
    /// Resolves when a bookmark has shown that the server went back to an older state.
    pub(super) went_back: Notify,
    pace: Mutex<Pace>,
}

impl KindWire {
    fn new(port: Port) -> Self {
        let place = Watch::ALL.iter().position(|watch| *watch == port.watch).unwrap_or_default();
        Self { port, went_back: Notify::new(), pace: Mutex::new(Pace::new(place)) }
    }

    /// The watcher could not use an answer, although the layer saw nothing wrong with it.
    pub(super) fn failed(&self) {
        self.pace().failed(Failure::Trouble);
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call(
        self: Arc<Self>,
        client: Client,
        request: Request<Body>,
    ) -> Result<Response<WireBody>, BoxError> {
        let watches = is_watch(&request);
        if let Some(version) = parameter(&request, "resourceVersion").filter(|_| watches) {
            self.port.watch_asked(version);
        }
        let pause = self.pace().take();
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let (call, deadline) = if watches { ("watch", OPEN_DEADLINE) } else { ("list", LIST_DEADLINE) };
        let answer = match timeout(deadline, client.send(request)).await {
            Ok(answer) => answer.map_err(BoxError::from),
            Err(_) => Err(format!("no answer to {call} within {} s", deadline.as_secs()).into()),
        };
        let status = answer.as_ref().map_or(StatusCode::SERVICE_UNAVAILABLE, Response::status);
        match status {
            StatusCode::TOO_MANY_REQUESTS => self.pace().failed(Failure::Shed),
            status if status.is_success() => self.port.contact(),
            _ => self.failed(),
        }
        let opened = watches && status.is_success();
        Ok(answer?.map(|body| WireBody::new(body, opened.then_some(self))))
    }
}

/// The body of an answer.
pub(super) struct WireBody {
    body: Body,
    watch: Option<OpenWatch>,
}

impl WireBody {
    /// With the kind that a watch is of; `None` for a list.
    fn new(body: Body, watched: Option<Arc<KindWire>>) -> Self {
        let open = |kind: Arc<KindWire>| OpenWatch {
            opened_at: kind.port.now(),
            bookmarks: Bookmarks::default(),
            orderly: false,
            kind,
        };
        Self { body, watch: watched.map(open) }
    }
}

impl HttpBody for WireBody {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, kube::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match (&mut self.watch, &frame) {
            (Some(watch), Some(Ok(frame))) => watch.heard(frame),
            (Some(watch), None) => watch.orderly = true,
            _ => {}
        }
        if !matches!(frame, Some(Ok(_))) {
            self.watch = None;
        }
        Poll::Ready(frame)
    }
}

/// A watch that the server has opened, until it ends, breaks or is let go of.
struct OpenWatch {
    kind: Arc<KindWire>,
    opened_at: UnixTime,
    bookmarks: Bookmarks,
    /// True once the server has ended it.
    orderly: bool,
}

impl OpenWatch {
    fn heard(&mut self, frame: &Frame<Bytes>) {
        let port = &self.kind.port;
        port.contact();
        let version = frame.data_ref().and_then(|bytes| self.bookmarks.read(bytes));
        if version.is_some_and(|version| port.shown(&version, Shown::Bookmark)) {
            self.kind.went_back.notify_one();
        }
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        let port = &self.kind.port;
        // The watcher lets go of a silent watch and asks again without a word.
        if !self.orderly && port.silence().is_some_and(|silence| Seconds(i64::from(WATCH_SECONDS)) < silence)
        {
            port.trouble("the watch fell silent");
        }
        self.kind.pace().watch_over(port.now().since(self.opened_at), self.orderly);
    }
}
