//! Follows one kind for ever: list, watch, resume, relist. It knows no kind by name and keeps no object.
//!
//! Written here and not taken from `kube::runtime::watcher`, which hides bookmarks and reconnections: a quiet watch
//! that works and one that is dead look alike through it, and nothing may be removed from a view of unknown age.

use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use tokio::sync::watch::Receiver;
use tokio::time::{sleep, timeout};

use headroom_core::time::Seconds;

use super::feed::Port;
use super::remains::{Guarded, Remains};
use super::slim::{SlimCapacityBuffer, SlimPodTemplate, SlimQuota};
use super::watched::{Watch, Watched};

/// Objects a page of a list. 500 is kube's and client-go's.
const PAGE_SIZE: u32 = 500;
/// Longest wait for one page.
const LIST_DEADLINE: Duration = Duration::from_secs(60);
/// Longest wait for the answer to the start of a watch.
const OPEN_DEADLINE: Duration = Duration::from_secs(30);
/// After so long the server ends a watch and it is resumed. Far shorter than client-go's 5 to 10 min: a connection that
/// died in silence is noticed only then, and bookmarks, which come once a minute, are too rare for a view that must not
/// be older than a minute when something is removed. It costs a quarter of a request a second in all.
const WATCH_SECONDS: u32 = 40;
/// A watch that says nothing for so long is dead: the server ends it after [`WATCH_SECONDS`].
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);
/// First pause after trouble; doubles up to [`PAUSE_MAX`]. The values of client-go's reflector.
const PAUSE_MIN: Duration = Duration::from_millis(800);
/// Longest pause after trouble.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Longest pause after a server has shed our load: it is well, and only busy.
const SHED_PAUSE_MAX: Duration = Duration::from_secs(4);
/// Between the turns of two kinds after that. All kinds begin together; asking together again, most would be refused
/// together again.
const TURN: Duration = Duration::from_millis(100);
/// Between two looks for a kind that is not installed: well within the age at which a view is too old.
const ABSENT_PAUSE: Duration = Duration::from_secs(30);
/// A watch that lasted so long ends the row of troubles.
const STABLE_AFTER: Seconds = Seconds(2);

/// The object itself, or what is left of one that cannot be decoded.
trait Payload<K>: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + 'static
where
    Self: serde::de::DeserializeOwned,
{
    fn open(self) -> Result<K, Box<Remains>>;
}

impl<K: Watched> Payload<K> for K {
    fn open(self) -> Result<K, Box<Remains>> {
        Ok(self)
    }
}

impl<K: Watched> Payload<K> for Guarded<K> {
    fn open(self) -> Result<K, Box<Remains>> {
        match self {
            Self::Whole(whole) => Ok(whole),
            Self::Broken(remains) => Err(remains),
        }
    }
}

/// Follows `K` for ever. The first object that cannot be decoded makes it list anew with a guard around each object,
/// at several times the cost, so that one strange object never hides the others.
pub(super) async fn follow<K: Watched>(client: Client, port: Port) {
    let place = Watch::ALL.iter().position(|watch| *watch == K::WATCH).unwrap_or_default();
    let turn = TURN * u32::try_from(place).unwrap_or_default();
    let mut pause = Pause { next: PAUSE_MIN, turn };
    let _ = until_undecodable::<K, K>(Api::all(client.clone()), &port, &mut pause).await;
    loop {
        port.warn("an object cannot be decoded: from now on each is decoded on its own");
        let _ = until_undecodable::<K, Guarded<K>>(Api::all(client.clone()), &port, &mut pause).await;
    }
}

/// Follows CapacityBuffers, in the first of their versions that the server has, with the PodTemplates and ResourceQuotas
/// that decide on their shape and size. Where the kind is not installed, nothing is read but a look for it twice a minute.
pub(super) async fn follow_buffers(client: Client, buffers: Port, templates: Port, quotas: Port) {
    let ports = [&buffers, &templates, &quotas];
    loop {
        let stable = present::<SlimCapacityBuffer>(&client).await;
        let found = match stable {
            Ok(true) => Ok(Some(false)),
            Ok(false) => present::<SlimCapacityBuffer<true>>(&client).await.map(|is| is.then_some(true)),
            Err(stop) => Err(stop),
        };
        match found {
            Ok(Some(false)) => tokio::select! {
                biased;
                () = until_absent::<SlimCapacityBuffer>(&client, &buffers) => {}
                () = until_absent::<SlimPodTemplate>(&client, &templates) => {}
                () = until_absent::<SlimQuota>(&client, &quotas) => {}
            },
            Ok(Some(true)) => tokio::select! {
                biased;
                () = until_absent::<SlimCapacityBuffer<true>>(&client, &buffers) => {}
                () = until_absent::<SlimPodTemplate>(&client, &templates) => {}
                () = until_absent::<SlimQuota>(&client, &quotas) => {}
            },
            Ok(None) => {
                buffers.contact();
                ports.iter().for_each(|port| port.absent());
                sleep(ABSENT_PAUSE).await;
            }
            Err(Stop::Forbidden(why)) => {
                buffers.trouble(&why);
                ports.iter().for_each(|port| port.absent());
                sleep(ABSENT_PAUSE).await;
            }
            Err(stop) => {
                if let Stop::Trouble(why) | Stop::Undecodable(why) | Stop::Shed(why) = &stop {
                    buffers.trouble(why);
                }
                sleep(SHED_PAUSE_MAX).await;
            }
        }
    }
}

/// True if the server has the kind.
async fn present<K: Watched>(client: &Client) -> Result<bool, Stop> {
    let api = Api::<Guarded<K>>::all(client.clone());
    match bounded(LIST_DEADLINE, "list", api.list(&ListParams::default().limit(1))).await {
        Ok(_) => Ok(true),
        Err(Stop::Expired) => Ok(false),
        Err(stop) => Err(stop),
    }
}

/// Follows an optional kind until the server does not have it any more.
async fn until_absent<K: Watched>(client: &Client, port: &Port) {
    let mut pause = Pause { next: PAUSE_MIN, turn: Duration::ZERO };
    while until_undecodable::<K, Guarded<K>>(Api::all(client.clone()), port, &mut pause).await != Left::Absent
    {
    }
}

/// Why a kind is not followed any more.
#[derive(PartialEq, Eq)]
enum Left {
    /// An object cannot be decoded.
    Undecodable,
    /// The server does not have the kind, which is optional.
    Absent,
}

/// Why listing or watching stopped.
enum Stop {
    /// The server no longer has the versions asked for, or the kind: list anew.
    Expired,
    /// The server ended the watch in good order.
    Ended,
    /// The answer cannot be decoded.
    Undecodable(String),
    /// The server sheds load.
    Shed(String),
    /// The kind may not be read.
    Forbidden(String),
    /// Anything else.
    Trouble(String),
}

impl From<kube::Error> for Stop {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 410 || status.code == 404 => Self::Expired,
            kube::Error::Api(status) if status.code == 403 => {
                Self::Forbidden(kube::Error::Api(status).to_string())
            }
            kube::Error::Api(status) if status.code == 429 => Self::Shed(status.message),
            kube::Error::SerdeError(error) => Self::Undecodable(error.to_string()),
            other => Self::Trouble(other.to_string()),
        }
    }
}

struct Pause {
    next: Duration,
    /// How much longer than the first kind this one waits when load is shed.
    turn: Duration,
}

impl Pause {
    /// Waits as the reason asks for: after shed load for less long, and for this kind's turn.
    async fn after(&mut self, stop: &Stop) {
        let shed = matches!(stop, Stop::Shed(_));
        sleep(if shed { self.next.min(SHED_PAUSE_MAX) + self.turn } else { self.next }).await;
        self.next = (self.next * 2).min(PAUSE_MAX);
    }

    fn reset(&mut self) {
        self.next = PAUSE_MIN;
    }
}

async fn until_undecodable<K: Watched, P: Payload<K>>(api: Api<P>, port: &Port, pause: &mut Pause) -> Left {
    let mut distrusted = port.distrusted();
    loop {
        distrusted.mark_unchanged();
        let stop = match list::<K, P>(&api, port).await {
            Ok(mut version) => loop {
                let opened_at = port.now();
                let stop = watch::<K, P>(&api, port, &mut version, &mut distrusted).await;
                // A server that ends watches at once is treated as one in trouble.
                let lasted = port.now().since(opened_at) >= STABLE_AFTER;
                if lasted {
                    pause.reset();
                }
                match &stop {
                    Stop::Ended if lasted => {}
                    Stop::Ended => pause.after(&stop).await,
                    Stop::Trouble(why) | Stop::Shed(why) | Stop::Forbidden(why) => {
                        port.trouble(why);
                        pause.after(&stop).await;
                    }
                    Stop::Expired | Stop::Undecodable(_) => break stop,
                }
            },
            Err(Stop::Expired) if K::OPTIONAL => return Left::Absent,
            Err(Stop::Forbidden(why)) if K::OPTIONAL => {
                port.absent();
                Stop::Trouble(why)
            }
            Err(Stop::Expired) if K::MAY_BE_ABSENT => {
                port.list_started();
                port.list_ended();
                Stop::Trouble(format!(
                    "the CRD {}.{} is not installed: install the CRDs, by `headroom crds | kubectl apply \
                     --server-side -f -` or as docs/install.md has it; the watch goes on by itself",
                    K::plural(&()),
                    K::group(&()),
                ))
            }
            Err(stop) => stop,
        };
        if let Stop::Trouble(why) | Stop::Undecodable(why) | Stop::Shed(why) | Stop::Forbidden(why) = &stop {
            port.trouble(why);
        }
        pause.after(&stop).await;
        if matches!(stop, Stop::Undecodable(_)) {
            return Left::Undecodable;
        }
    }
}

/// Lists all objects page by page and returns the version to watch from.
async fn list<K: Watched, P: Payload<K>>(api: &Api<P>, port: &Port) -> Result<String, Stop> {
    let mut params = ListParams::default().limit(PAGE_SIZE);
    if !K::FIELD_SELECTOR.is_empty() {
        params = params.fields(K::FIELD_SELECTOR);
    }
    let mut started = false;
    loop {
        let page = bounded(LIST_DEADLINE, "list", api.list(&params)).await?;
        if !started {
            // Only now: a list that never answers must not unsettle what is known.
            port.list_started();
            started = true;
        }
        port.contact();
        for object in page.items {
            deliver::<K, P>(object, port);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => {
                let version = page.metadata.resource_version.unwrap_or_default();
                if version.is_empty() {
                    return Err(Stop::Trouble("the list names no resourceVersion".to_owned()));
                }
                port.version(&version);
                port.list_ended();
                return Ok(version);
            }
        }
    }
}

/// Watches from `version`, which moves along, until something stops it: what it has shown is not believed any more when
/// `distrusted` changes.
async fn watch<K: Watched, P: Payload<K>>(
    api: &Api<P>,
    port: &Port,
    version: &mut String,
    distrusted: &mut Receiver<()>,
) -> Stop {
    let mut params = WatchParams::default().timeout(WATCH_SECONDS);
    if !K::FIELD_SELECTOR.is_empty() {
        params = params.fields(K::FIELD_SELECTOR);
    }
    let opened = bounded(OPEN_DEADLINE, "watch", api.watch(&params, version)).await;
    let mut events = match opened {
        Ok(stream) => stream.boxed(),
        Err(stop) => return stop,
    };
    port.contact();
    loop {
        let next = tokio::select! {
            biased;
            // The sender lives as long as the port.
            _ = distrusted.changed() => return Stop::Expired,
            next = timeout(SILENCE_MAX, events.next()) => next,
        };
        let event = match next {
            Err(_) => return Stop::Trouble("the watch fell silent".to_owned()),
            Ok(None) => return Stop::Ended,
            Ok(Some(Err(error))) => return error.into(),
            Ok(Some(Ok(event))) => event,
        };
        let seen = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let seen = object.meta().resource_version.clone();
                deliver::<K, P>(object, port);
                seen
            }
            WatchEvent::Deleted(object) => {
                port.gone::<K>(object.meta());
                object.meta().resource_version.clone()
            }
            WatchEvent::Bookmark(bookmark) => Some(bookmark.metadata.resource_version),
            WatchEvent::Error(status) => return kube::Error::Api(status).into(),
        };
        port.contact();
        if let Some(seen) = seen.filter(|seen| !seen.is_empty()) {
            port.version(&seen);
            // A server that was put back keeps silent of everything up to the version that was asked for.
            if is_older(&seen, version) {
                return Stop::Expired;
            }
            *version = seen;
        }
    }
}

/// Whether a version is older than another, as far as both are numbers.
fn is_older(version: &str, other: &str) -> bool {
    matches!((version.parse::<u64>(), other.parse::<u64>()), (Ok(version), Ok(other)) if version < other)
}

fn deliver<K: Watched, P: Payload<K>>(object: P, port: &Port) {
    match object.open() {
        Ok(object) => port.applied(object),
        Err(remains) => port.broken::<K>(&remains),
    }
}

async fn bounded<T>(
    deadline: Duration,
    call: &str,
    answer: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Stop> {
    match timeout(deadline, answer).await {
        Ok(answer) => answer.map_err(Stop::from),
        Err(_) => Err(Stop::Trouble(format!("no answer to {call} within {} s", deadline.as_secs()))),
    }
}
