//! Follows one kind for ever by kube's watcher: list, watch, resume, list anew. It knows no kind by name and keeps no
//! object. The pauses between calls are made one layer lower, in `wire`.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use tokio::sync::watch::Receiver;

use super::feed::{Port, Shown};
use super::object::{AnyObject, DECODING, Decoding};
use super::watched::WatchedResource;
use super::wire::{KindWire, WATCH_SECONDS};

/// Follows the kind of `wire` for ever through `client`, whose calls go through it. The first object that cannot be
/// decoded makes it list anew with each object decoded on its own, so that one strange object never hides the others.
pub(super) async fn follow(client: Client, wire: Arc<KindWire>) {
    let watch = wire.port.watch;
    let follower = Follower::new(client, wire, watch.resource());
    DECODING.scope(Decoding { watch, guarded: false }, follower.until_left()).await;
    loop {
        follower.port().warn("an object cannot be decoded: from now on each is decoded on its own");
        DECODING.scope(Decoding { watch, guarded: true }, follower.until_left()).await;
    }
}

/// Follows an optional kind until the server does not have it any more.
pub(super) async fn follow_until_absent(client: Client, wire: Arc<KindWire>, resource: WatchedResource) {
    let decoding = Decoding { watch: wire.port.watch, guarded: true };
    let follower = Follower::new(client, wire, resource);
    while DECODING.scope(decoding, follower.until_left()).await != Left::Absent {}
}

/// Reason why a kind is not followed any more.
#[derive(PartialEq, Eq)]
enum Left {
    /// Its answers cannot be decoded.
    Undecodable,
    /// The server does not have the kind, which is optional.
    Absent,
}

/// Next state of a watcher after an event.
enum Next {
    /// It is asked for more.
    Event,
    /// It is replaced by a new one, which lists: it would go on from a version that the server does not know, or it has
    /// shown an older state.
    List,
    /// The kind is left.
    Leave(Left),
}

struct Follower {
    api: Api<AnyObject>,
    config: watcher::Config,
    resource: WatchedResource,
    wire: Arc<KindWire>,
}

impl Follower {
    fn port(&self) -> &Port {
        &self.wire.port
    }

    fn new(client: Client, wire: Arc<KindWire>, resource: WatchedResource) -> Self {
        let mut config = watcher::Config::default().timeout(WATCH_SECONDS);
        if !resource.field_selector.is_empty() {
            config = config.fields(resource.field_selector);
        }
        Self { api: Api::all_with(client, &resource.api), config, resource, wire }
    }

    async fn until_left(&self) -> Left {
        let mut distrusted = self.port().distrusted();
        loop {
            distrusted.mark_unchanged();
            let events = watcher(self.api.clone(), self.config.clone()).boxed();
            let left = self.until_useless(events, &mut distrusted).await;
            self.wire.failed();
            if let Some(left) = left {
                return left;
            }
        }
    }

    /// Passes events on until the watcher is of no use any more: the kind is left, or everything is to be listed anew
    /// (`None`). What it has shown is not believed any more when `distrusted` changes.
    async fn until_useless(
        &self,
        mut events: BoxStream<'static, watcher::Result<Event<AnyObject>>>,
        distrusted: &mut Receiver<()>,
    ) -> Option<Left> {
        let mut list_began = false;
        loop {
            let event = tokio::select! {
                biased;
                // The sender lives as long as the port.
                _ = distrusted.changed() => return None,
                () = self.wire.went_back.notified() => return None,
                event = events.next() => event,
            };
            let next = match event {
                Some(Ok(event)) => self.take(event, &mut list_began),
                Some(Err(error)) => self.take_error(error),
                // kube's watchers do not end.
                None => Next::List,
            };
            match next {
                Next::Event => {}
                Next::List => return None,
                Next::Leave(left) => return Some(left),
            }
        }
    }

    fn take(&self, event: Event<AnyObject>, list_began: &mut bool) -> Next {
        let port = self.port();
        // Not with Init: a list that never answers must not unsettle what is known.
        if matches!(event, Event::InitApply(_) | Event::InitDone) && !*list_began {
            port.list_started();
            *list_began = true;
        }
        let version = match event {
            Event::Init => {
                *list_began = false;
                return Next::Event;
            }
            Event::InitApply(object) => {
                object.applied(port);
                return Next::Event;
            }
            Event::InitDone => {
                port.list_shown();
                return Next::Event;
            }
            Event::Apply(object) => {
                let version = object.meta().resource_version.clone();
                object.applied(port);
                version
            }
            Event::Delete(object) => {
                object.gone(port);
                object.meta().resource_version.clone()
            }
        };
        // A server that was put back keeps silent of everything up to the version that was asked for.
        let went_back = version.is_some_and(|version| port.shown(&version, Shown::Object));
        if went_back { Next::List } else { Next::Event }
    }

    fn take_error(&self, error: watcher::Error) -> Next {
        self.wire.failed();
        let listing = matches!(error, watcher::Error::InitialListFailed(_));
        let cause = match error {
            watcher::Error::InitialListFailed(cause)
            | watcher::Error::WatchStartFailed(cause)
            | watcher::Error::WatchFailed(cause) => cause,
            watcher::Error::WatchError(status) => kube::Error::Api(status),
            watcher::Error::NoResourceVersion => {
                self.port().trouble("the answer names no resourceVersion");
                return Next::Event;
            }
        };
        match cause {
            kube::Error::Api(status) if matches!(status.code, 404 | 410) => {
                if listing && status.code == 404 && self.resource.optional {
                    return Next::Leave(Left::Absent);
                }
                if listing && status.code == 404 && self.resource.may_be_absent {
                    self.note_absent();
                }
                // A watcher would ask for the same version for ever.
                if listing { Next::Event } else { Next::List }
            }
            kube::Error::Api(status) if status.code == 429 => {
                self.port().trouble(&status.message);
                Next::Event
            }
            kube::Error::Api(status) if status.code == 403 && self.resource.optional => {
                self.port().absent();
                self.port().trouble(&kube::Error::Api(status).to_string());
                Next::Event
            }
            kube::Error::SerdeError(error) => {
                self.port().trouble(&error.to_string());
                Next::Leave(Left::Undecodable)
            }
            other => {
                self.port().trouble(&other.to_string());
                Next::Event
            }
        }
    }

    /// A kind that the server does not know has no objects.
    fn note_absent(&self) {
        let port = self.port();
        port.list_started();
        port.list_ended();
        port.trouble(&format!(
            "the CRD {}.{} is not installed: install the CRDs, by `headroom crds | kubectl apply --server-side -f -` or as \
             docs/install.md has it; the watch goes on by itself",
            self.resource.api.plural, self.resource.api.group,
        ));
    }
}
