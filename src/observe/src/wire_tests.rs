//! The watches against a scripted API server, on paused time: lists, resumption, expiry, silence, strange objects.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use headroom_core::labels::ObjectKey;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::gang::GangKind;
use headroom_core::world::{Kind, World};

use super::feed::{Feed, KubeFeed};
use super::policies::Policies;
use super::slim::{SlimPod, SlimQuota, SlimRequest};
use super::watched::Watch;
use crate::host::Host;

/// The body of an answer.
type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// Server's answer to one call.
#[derive(Clone, Debug)]
enum Reply {
    /// A list.
    List { version: &'static str, items: Vec<Value>, next: &'static str },
    /// Events; afterwards the watch stays open in silence.
    Open(Vec<Value>),
    /// Events; afterwards the watch ends in good order.
    Ends(Vec<Value>),
    /// A refusal.
    Fails(u16),
    /// No answer at all.
    Never,
}

/// The script, by plural; a list without a script is empty, a watch without one silent.
#[derive(Debug, Default)]
struct Server {
    lists: BTreeMap<String, VecDeque<Reply>>,
    watches: BTreeMap<String, VecDeque<Reply>>,
    calls: Vec<String>,
}

impl Server {
    fn list(mut self, plural: &str, reply: Reply) -> Self {
        self.lists.entry(plural.to_owned()).or_default().push_back(reply);
        self
    }

    fn watch(mut self, plural: &str, reply: Reply) -> Self {
        self.watches.entry(plural.to_owned()).or_default().push_back(reply);
        self
    }

    /// `None` if it never answers.
    fn answer(&mut self, request: &Request<Body>) -> Option<Response<Answer>> {
        let plural = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        self.calls.push(request.uri().to_string());
        let watching = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let (script, otherwise) = if watching {
            (&mut self.watches, Reply::Open(Vec::new()))
        } else {
            (&mut self.lists, list("1", Vec::new()))
        };
        Some(match script.get_mut(&plural).and_then(VecDeque::pop_front).unwrap_or(otherwise) {
            Reply::Never => return None,
            Reply::List { version, items, next } => whole(
                200,
                &json!({"kind": "List", "apiVersion": "v1", "items": items,
                    "metadata": {"resourceVersion": version, "continue": next}}),
            ),
            Reply::Fails(code) => whole(
                code,
                &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                    "message": "refused", "reason": "Scripted"}),
            ),
            Reply::Open(events) => streamed(events, true),
            Reply::Ends(events) => streamed(events, false),
        })
    }
}

fn whole(code: u16, body: &Value) -> Response<Answer> {
    Response::builder()
        .status(code)
        .body(Full::new(Bytes::from(body.to_string())).boxed_unsync())
        .expect("a response")
}

fn streamed(events: Vec<Value>, open: bool) -> Response<Answer> {
    let frames =
        stream::iter(events).map(|event| Ok::<_, Infallible>(Frame::data(Bytes::from(format!("{event}\n")))));
    let rest = stream::once(async move {
        if open {
            future::pending::<()>().await;
        }
    });
    let frames = frames.chain(rest.filter_map(|()| async { None }));
    Response::new(StreamBody::new(frames).boxed_unsync())
}

fn list(version: &'static str, items: Vec<Value>) -> Reply {
    Reply::List { version, items, next: "" }
}

fn pod(name: &str, version: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name,
        "resourceVersion": version}, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending"}})
}

fn event(kind: &str, object: Value) -> Value {
    // The tag goes first, as API servers write it.
    serde_json::from_str(&format!(r#"{{"type":"{kind}","object":{object}}}"#)).expect("an event")
}

/// A feed on a scripted server; the clock starts at 0 and follows tokio's.
struct Rig {
    feed: KubeFeed,
    server: Arc<Mutex<Server>>,
    host: Arc<Host>,
    world: World,
    policies: Policies,
}

impl Rig {
    fn new(server: Server) -> Self {
        let server = Arc::new(Mutex::new(server));
        let answering = server.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let response = answering.lock().expect("no test panics in it").answer(&request);
            async move {
                match response {
                    Some(response) => Ok::<_, Infallible>(response),
                    None => future::pending().await,
                }
            }
        });
        let client = Client::new(service, "default");
        let host = Host::simulated(UnixTime(0).to_jiff(), 1);
        let feed = KubeFeed::start(&client, &host);
        Self { feed, server, host, world: World::new(), policies: Policies::default() }
    }

    /// Lets `seconds` pass and takes in what came.
    async fn pass(&mut self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        for delta in self.feed.take() {
            self.world.apply(delta);
        }
        for change in self.feed.take_policies() {
            self.policies.apply(change);
        }
    }

    fn calls_of(&self, plural: &str) -> usize {
        let server = self.server.lock().expect("no test panics in it");
        server.calls.iter().filter(|call| call.contains(&format!("/{plural}?"))).count()
    }

    fn health_of(&self, watch: Watch) -> super::WatchHealth {
        let health = self.feed.health(self.host.now());
        health.into_iter().find(|health| health.watch == watch).expect("every watch is there")
    }
}

const PODS: Watch = Watch::World(Kind::Pod);

#[tokio::test(start_paused = true)]
async fn pages_and_events_become_the_world() {
    let server = Server::default()
        .list("pods", Reply::List { version: "5", items: vec![pod("a", "3")], next: "more" })
        .list("pods", list("5", vec![pod("b", "4")]))
        .watch("pods", Reply::Open(vec![event("ADDED", pod("c", "6")), event("DELETED", pod("a", "7"))]));
    let mut rig = Rig::new(server);
    rig.pass(1).await;
    assert!(rig.feed.synced());
    assert_eq!(rig.world.pods_count(), 2);
    assert_eq!(rig.health_of(PODS).version, 7);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_resumed_from_the_last_version_without_a_list() {
    let server = Server::default()
        .list("pods", list("5", Vec::new()))
        .watch("pods", Reply::Ends(vec![event("ADDED", pod("a", "6"))]));
    let mut rig = Rig::new(server);
    rig.pass(5).await;
    let server = rig.server.lock().expect("no test panics in it");
    let calls: Vec<&String> = server.calls.iter().filter(|call| call.contains("/pods?")).collect();
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert!(calls[2].contains("resourceVersion=6"), "{}", calls[2]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_one_list_that_sweeps_what_is_gone() {
    let expired = json!({"kind": "Status", "code": 410, "message": "too old", "reason": "Expired"});
    let server = Server::default()
        .list("pods", list("5", vec![pod("a", "3"), pod("b", "4")]))
        .watch("pods", Reply::Open(vec![event("ERROR", expired)]))
        .list("pods", list("9", vec![pod("b", "4")]));
    let mut rig = Rig::new(server);
    rig.pass(5).await;
    assert_eq!(rig.world.pods_count(), 1);
    assert_eq!(rig.calls_of("pods"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_failing_list_leaves_what_is_known_and_is_tried_again_ever_more_slowly() {
    let mut server = Server::default();
    for _ in 0..6 {
        server = server.list("pods", Reply::Fails(403));
    }
    let mut rig = Rig::new(server);
    rig.pass(20).await;
    assert!(!rig.feed.synced());
    assert_eq!(rig.calls_of("pods"), 5, "0, 0.8, 2.4, 5.6 and 12 s");
    assert!(rig.health_of(PODS).trouble.expect("refused").contains("refused"));
    assert_eq!(rig.feed.staleness(rig.host.now()), None);
    rig.pass(60).await;
    assert!(rig.feed.synced());
    assert_eq!(rig.health_of(PODS).trouble, None);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_costs_only_itself() {
    let mut strange = pod("strange", "4");
    strange["spec"]["containers"] = json!({"not": "a list"});
    let items = vec![pod("a", "3"), strange];
    let server = Server::default().list("pods", list("5", items.clone())).list("pods", list("5", items));
    let mut rig = Rig::new(server);
    rig.pass(5).await;
    assert!(rig.feed.synced());
    assert_eq!(rig.world.pods_count(), 1);
    assert_eq!(rig.health_of(PODS).undecodable_count, 1);
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_that_cannot_be_decoded_stands_on_its_node_and_keeps_it() {
    let mut strange = pod("strange", "4");
    strange["spec"] = json!({"containers": {"not": "a list"}, "nodeName": "n1"});
    let mut odd = pod("odd", "4");
    odd["spec"]["nodeName"] = json!("n1");
    odd["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "2 cores"}});
    let items = vec![odd, strange.clone()];
    let server = Server::default()
        .list("pods", list("5", items.clone()))
        .list("pods", list("5", items))
        .watch("pods", Reply::Open(vec![event("DELETED", strange)]));
    let mut rig = Rig::new(server);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    rig.pass(0).await;
    let on_node: Vec<_> = ["odd", "strange"]
        .into_iter()
        .filter_map(|name| rig.world.pod_id(&ObjectKey::new("shop", name)))
        .map(|id| &rig.world.pod(id).pod)
        .map(|pod| (&*pod.key.name, pod.node.as_deref(), pod.class.unreadable))
        .collect();
    assert_eq!(on_node, [("odd", Some("n1"), true)], "the other is gone, though nobody could read it");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_not_understood_costs_only_itself_and_no_second_list() {
    let mut strange = pod("strange", "4");
    strange["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "2 cores"}});
    let mut rig = Rig::new(Server::default().list("pods", list("5", vec![pod("a", "3"), strange])));
    rig.pass(5).await;
    assert_eq!((rig.world.pods_count(), rig.health_of(PODS).undecodable_count), (1, 1));
    assert_eq!(rig.calls_of("pods"), 2);
}

#[tokio::test(start_paused = true)]
async fn silence_shows_as_age_and_ends_in_a_new_watch() {
    let mut rig = Rig::new(Server::default());
    rig.pass(40).await;
    assert_eq!(rig.health_of(PODS).silent_for, Some(Seconds(40)));
    assert_eq!(rig.feed.staleness(rig.host.now()), Some(Seconds(40)));
    rig.pass(10).await;
    assert!(rig.health_of(PODS).silent_for < Some(Seconds(10)));
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_refused_together_do_not_ask_together_again() {
    let shed = || Reply::Fails(429);
    let server = Server::default()
        .list("nodepools", shed())
        .list("nodes", shed())
        .list("pods", shed())
        .list("pods", shed())
        .list("pods", shed());
    let mut rig = Rig::new(server);
    // A tenth of a second lies between the turns of two kinds, and 0.8 s before the first: 16 looks and 2 for each kind, and some
    // more.
    let looks = 16 + 2 * Watch::ALL.len() + 16;
    let mut asked = Vec::new();
    for _ in 0..looks {
        tokio::time::sleep(Duration::from_millis(50)).await;
        asked.push((rig.calls_of("nodepools"), rig.calls_of("nodes"), rig.calls_of("pods")));
    }
    let moment = |of: fn(&(usize, usize, usize)) -> usize| asked.iter().position(|calls| 1 < of(calls));
    let moments = [moment(|calls| calls.0), moment(|calls| calls.1), moment(|calls| calls.2)];
    assert!(moments.iter().all(Option::is_some) && moments[0] != moments[1] && moments[1] != moments[2]);
    rig.pass(12).await;
    assert!(rig.feed.synced(), "throttled three times, the pauses stay short");
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_counts_as_contact() {
    let bookmark = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "44"}});
    let server = Server::default().watch("pods", Reply::Open(vec![event("BOOKMARK", bookmark)]));
    let mut rig = Rig::new(server);
    rig.pass(1).await;
    assert_eq!(rig.health_of(PODS).version, 44);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_back_in_time_is_noticed() {
    let expired = json!({"kind": "Status", "code": 410, "message": "too old", "reason": "Expired"});
    let server = Server::default()
        .list("pods", list("50", Vec::new()))
        .watch("pods", Reply::Open(vec![event("ERROR", expired)]))
        .list("pods", list("40", Vec::new()));
    let mut rig = Rig::new(server);
    rig.pass(5).await;
    assert_eq!(rig.health_of(PODS).regressions_count, 1);
    assert!(rig.feed.regressed_at().is_some(), "nothing is removed for a while");
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_is_distrusted_lists_everything_anew_and_sees_how_far_the_server_went_back() {
    // The restored server sends nothing to a watch from version 50 until it has come so far again.
    let server = Server::default()
        .list("pods", list("50", vec![pod("a", "49"), pod("b", "48")]))
        .watch("pods", Reply::Open(Vec::new()))
        .list("pods", list("40", vec![pod("b", "30")]));
    let mut rig = Rig::new(server);
    rig.pass(3).await;
    assert_eq!((rig.calls_of("pods"), rig.feed.regressed_at()), (2, None));
    rig.feed.distrust();
    rig.pass(3).await;
    assert_eq!((rig.calls_of("pods"), rig.calls_of("nodes")), (4, 4), "a list and a watch more of each kind");
    assert!(rig.feed.regressed_at().is_some(), "nothing is removed for a while");
    assert_eq!(rig.world.pods_count(), 1, "what the restored server does not know is forgotten");
}

#[tokio::test(start_paused = true)]
async fn without_our_crds_there_are_no_pools_and_the_trouble_is_named() {
    let pool = json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool", "spec": {"maxNodes": "x"},
        "metadata": {"name": "broken", "uid": "u", "resourceVersion": "3"}});
    let server = Server::default()
        .list("nodepools", list("5", vec![pool]))
        .watch("nodepools", Reply::Ends(Vec::new()))
        .watch("nodepools", Reply::Fails(404))
        .list("nodepools", Reply::Fails(404));
    let mut rig = Rig::new(server);
    tokio::time::sleep(Duration::from_millis(100)).await;
    rig.pass(0).await;
    assert_eq!(rig.policies.pools.len(), 1, "an undecodable pool is there, with its error");
    rig.pass(3).await;
    assert_eq!(rig.policies.pools.len(), 0);
    assert!(rig.feed.synced());
    assert!(
        rig.health_of(Watch::NodePools).trouble.expect("trouble is reported").contains("install the CRDs")
    );
}

#[tokio::test(start_paused = true)]
async fn only_urgent_changes_ring() {
    let mut waiting = pod("a", "7");
    waiting["status"]["conditions"] =
        json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    let server = Server::default().watch("pods", Reply::Ends(vec![event("ADDED", pod("a", "6"))]));
    let server = server.watch("pods", Reply::Open(vec![event("MODIFIED", waiting)]));
    let rig = Rig::new(server);
    tokio::time::sleep(Duration::from_millis(400)).await;
    rig.feed.notified().await; // The lists.
    let woken = tokio::time::timeout(Duration::from_millis(200), rig.feed.notified()).await;
    assert!(woken.is_err(), "a new pod waits for the scheduler");
    tokio::time::timeout(Duration::from_secs(2), rig.feed.notified()).await.expect("nobody can place it");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_put_back_is_listed_anew() {
    let bookmark = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "12"}});
    let server = Server::default()
        .list("pods", list("50", vec![pod("forgotten", "48")]))
        .watch("pods", Reply::Open(vec![event("BOOKMARK", bookmark)]))
        .list("pods", list("12", Vec::new()));
    let mut rig = Rig::new(server);
    rig.pass(5).await;
    assert_eq!(rig.world.pods_count(), 0, "what the restored server does not know is gone");
    assert_eq!((rig.calls_of("pods"), rig.health_of(PODS).version), (4, 12));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_watches_at_once_is_asked_ever_more_slowly() {
    let mut server = Server::default();
    for _ in 0..20 {
        server = server.watch("pods", Reply::Ends(Vec::new()));
    }
    let mut rig = Rig::new(server);
    rig.pass(20).await;
    assert_eq!(rig.calls_of("pods"), 6, "a list, and watches at 0, 0.8, 2.4, 5.6 and 12 s");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_has_expired_before_the_watch_begins_leads_to_a_list() {
    let server = Server::default()
        .list("pods", list("5", vec![pod("a", "3")]))
        .watch("pods", Reply::Fails(410))
        .list("pods", list("9", vec![pod("b", "8")]));
    let mut rig = Rig::new(server);
    rig.pass(5).await;
    assert_eq!((rig.calls_of("pods"), rig.health_of(PODS).version), (4, 9));
    assert_eq!(rig.world.pods_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_never_answered_is_asked_for_again() {
    let server = Server::default().watch("pods", Reply::Never);
    let mut rig = Rig::new(server);
    rig.pass(29).await;
    assert_eq!(rig.calls_of("pods"), 2);
    rig.pass(2).await;
    assert_eq!(rig.calls_of("pods"), 3);
    assert!(rig.health_of(PODS).silent_for <= Some(Seconds(1)));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_shows_an_older_state_is_known_as_such_before_it_counts() {
    let server = Server::default()
        .list("pods", list("50", vec![pod("a", "49")]))
        .watch("pods", Reply::Fails(410))
        .list("pods", list("40", Vec::new()));
    let mut rig = Rig::new(server);
    let mut seen = Vec::new();
    for _ in 0..200 {
        rig.pass(0).await;
        seen.push((rig.world.pods_count(), rig.feed.regressed_at().is_some()));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    seen.dedup();
    assert_eq!(seen, [(0, false), (1, false), (0, true)]);
}

#[tokio::test(start_paused = true)]
async fn lists_without_a_version_are_asked_for_ever_more_slowly() {
    let nothing = || Reply::List { version: "", items: Vec::new(), next: "" };
    let mut server = Server::default();
    for _ in 0..6 {
        server = server.list("pods", nothing());
    }
    let mut rig = Rig::new(server);
    rig.pass(20).await;
    assert_eq!(rig.calls_of("pods"), 5, "0, 0.8, 2.4, 5.6 and 12 s");
    assert!(rig.health_of(PODS).trouble.expect("no version").contains("resourceVersion"));
}

fn buffer(name: &str, version: &str) -> Value {
    json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": name,
        "namespace": "shop", "uid": name, "resourceVersion": version}, "spec": {"replicas": 2}})
}

/// A cluster without the kind, whose first probes of both versions fail like this.
fn without_buffers(code: u16) -> Server {
    let missing = || Reply::Fails(404);
    let server =
        Server::default().list("provisioningrequests", missing()).list("provisioningrequests", missing());
    let probes = if code == 404 { 2 } else { 1 };
    (0..probes).fold(server, |server, _| server.list("capacitybuffers", Reply::Fails(code)))
}

#[tokio::test(start_paused = true)]
async fn buffers_that_are_not_installed_are_looked_for_and_hold_up_nothing() {
    let server = without_buffers(404)
        .list("capacitybuffers", list("7", vec![buffer("web", "6")]))
        .list("capacitybuffers", list("7", vec![buffer("web", "6")]));
    let mut rig = Rig::new(server);
    rig.pass(5).await;
    assert!(rig.feed.synced());
    assert!(rig.feed.staleness(rig.host.now()).is_some());
    assert_eq!(rig.calls_of("podtemplates"), 0);
    assert!(rig.world.standby().buffers.is_empty());
    rig.pass(40).await;
    assert_eq!(rig.world.standby().buffers.len(), 1);
    assert_ne!(rig.calls_of("podtemplates"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_for_buffers_stops_nothing_else() {
    let mut rig = Rig::new(without_buffers(403));
    rig.pass(5).await;
    assert!(rig.feed.synced());
    let health = rig.health_of(Watch::World(Kind::Buffer));
    assert!(health.listed && health.trouble.is_some_and(|why| why.contains("403")), "it says why");
}

#[tokio::test(start_paused = true)]
async fn buffers_of_the_older_version_alone_are_read() {
    let server = Server::default()
        .list("capacitybuffers", Reply::Fails(404))
        .list("capacitybuffers", list("7", vec![buffer("web", "6")]))
        .list("capacitybuffers", list("7", vec![buffer("web", "6")]));
    let mut rig = Rig::new(server);
    rig.pass(5).await;
    assert_eq!(rig.world.standby().buffers.len(), 1);
    let server = rig.server.lock().expect("no test panics in it");
    assert!(server.calls.iter().any(|call| call.contains("/v1alpha1/capacitybuffers")));
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_goes_takes_its_buffers_along() {
    let server = Server::default()
        .list("capacitybuffers", list("7", Vec::new()))
        .list("capacitybuffers", list("7", vec![buffer("web", "6")]))
        .watch("capacitybuffers", Reply::Fails(404))
        .list("capacitybuffers", Reply::Fails(404))
        .list("capacitybuffers", Reply::Fails(404))
        .list("capacitybuffers", Reply::Fails(404));
    let mut rig = Rig::new(server);
    rig.pass(20).await;
    assert!(rig.world.standby().buffers.is_empty());
    assert!(rig.feed.synced());
}

#[tokio::test(start_paused = true)]
async fn templates_are_read_for_requests_alone_too() {
    let request = json!({"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": {
        "name": "train", "namespace": "shop", "uid": "u", "resourceVersion": "6"}, "spec": {}});
    let server = Server::default()
        .list("capacitybuffers", Reply::Fails(404))
        .list("capacitybuffers", Reply::Fails(404))
        .list("provisioningrequests", list("7", Vec::new()))
        .list("provisioningrequests", list("7", vec![request]));
    let mut rig = Rig::new(server);
    rig.pass(5).await;
    assert!(rig.feed.synced());
    assert_eq!(rig.world.requests().objects.len(), 1);
    assert_ne!(rig.calls_of("podtemplates"), 0);
}

#[tokio::test(start_paused = true)]
async fn quotas_are_read_without_buffers_and_without_their_permission_nothing_waits() {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods",
        "namespace": "shop", "uid": "q", "resourceVersion": "6"}, "status": {"hard": {"pods": "3"}}});
    // Asked for at 0, 0.8, 2.4 and 5.6 s.
    let denied = |server: Server, _| server.list("resourcequotas", Reply::Fails(403));
    let server = (0..3).fold(without_buffers(404), denied);
    let mut rig = Rig::new(server.list("resourcequotas", list("7", vec![quota])));
    rig.pass(5).await;
    assert!(rig.feed.synced() && rig.world.standby().quotas.is_empty());
    let health = rig.health_of(Watch::World(Kind::Quota));
    assert!(health.listed && health.trouble.is_some_and(|why| why.contains("403")), "it says why");
    rig.pass(20).await;
    assert_eq!(rig.world.standby().quotas.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_kind_of_gangs_that_is_not_installed_is_known_to_be_missing_until_it_comes() {
    let mut rig = Rig::new(Server::default().list("workloads", Reply::Fails(404)));
    rig.pass(5).await;
    assert!(rig.feed.synced());
    let served = |rig: &Rig, kind| rig.world.gangs().served.contains(&kind);
    assert!(!served(&rig, GangKind::Workload));
    // Of these the server has none, and has the kinds.
    assert!(served(&rig, GangKind::PodGroup) && served(&rig, GangKind::Volcano));
    rig.pass(40).await;
    assert!(served(&rig, GangKind::Workload));
}

#[tokio::test]
async fn a_list_wakes_who_decides_on_workloads_only_where_they_read_the_kind() {
    let host = Host::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
    let feed = KubeFeed::unfed_with_workloads(&host);
    let wakes = || feed.workloads_edited().now_or_never().is_some();
    // Kinds that are not installed are asked for again every half minute.
    feed.port::<SlimRequest>().absent();
    feed.port::<SlimQuota>().list_ended();
    assert!(!wakes());
    feed.port::<SlimPod>().list_ended();
    assert!(wakes());
}
