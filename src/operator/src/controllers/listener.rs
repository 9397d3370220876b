//! HTTP listeners of bounded cost, whoever connects: deadlines, a number of connections, and who is answered on loopback. It
//! knows no page.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tower::Service;

/// Pause after a connection could not be accepted: file descriptors may have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Limits of a listener.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most connections at once. A further one ends one of the peer that has most of them, the oldest that has not asked yet:
    /// whoever asks at once is answered, however many connect.
    pub connections_max: usize,
    /// Longest wait for the head of a request.
    pub head: Duration,
    /// Longest time from the head's first byte to the answer's last one, the wait included.
    pub exchange: Duration,
    /// True if, on loopback, only this machine is answered, and only when it asks for a name of loopback.
    pub private: bool,
}

impl Bounds {
    /// Probes and metrics: answered from memory in milliseconds.
    pub(super) const METRICS: Self = Self {
        connections_max: 128,
        head: Duration::from_secs(5),
        exchange: Duration::from_secs(30),
        private: false,
    };
    /// The live page.
    pub(super) const PAGE: Self = Self { private: true, ..Self::METRICS };
    /// Snapshots: half a minute's wait for the loop, then tens of megabytes through a forwarded port.
    pub(super) const SNAPSHOTS: Self =
        Self { connections_max: 8, exchange: Duration::from_secs(300), private: true, ..Self::METRICS };
}

/// Answers connections, one request each, until the task is ended.
pub(super) async fn serve(listener: TcpListener, router: Router, bounds: Bounds) {
    let on_loopback = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let bounds = Bounds { private: bounds.private && on_loopback, ..bounds };
    let mut exchanges = JoinSet::new();
    let mut open: VecDeque<Connection> = VecDeque::new();
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        while exchanges.try_join_next().is_some() {}
        open.retain(|one| !one.task.is_finished());
        if bounds.connections_max <= open.len()
            && let Some(ended) = most_dispensable(&open).and_then(|place| open.remove(place))
        {
            ended.task.abort();
        }
        let asked = Arc::new(AtomicBool::new(false));
        let task = exchanges.spawn(exchange(stream, peer, router.clone(), bounds, asked.clone()));
        open.push_back(Connection { peer: plain(peer.ip()), asked, task });
        // A request that has come already is answered before the next connection can end it.
        tokio::task::yield_now().await;
    }
}

/// A connection that is open.
struct Connection {
    peer: IpAddr,
    /// True once the head of its request has come.
    asked: Arc<AtomicBool>,
    task: AbortHandle,
}

/// The place of the connection that is ended for a new one, in `open` from the oldest to the youngest: of the peer with most
/// connections, the oldest that has not asked, or else the oldest. So nobody who connects again and again can end a probe.
fn most_dispensable(open: &VecDeque<Connection>) -> Option<usize> {
    let mut n_of_peer: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for one in open {
        *n_of_peer.entry(one.peer).or_default() += 1;
    }
    let rank = |one: &Connection| {
        (Reverse(n_of_peer.get(&one.peer).copied().unwrap_or(0)), one.asked.load(Ordering::Relaxed))
    };
    open.iter().enumerate().min_by_key(|(place, one)| (rank(one), *place)).map(|(place, _)| place)
}

/// One request and its answer. A peer that breaks off, or is too slow, is nobody's concern.
async fn exchange(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    bounds: Bounds,
    asked: Arc<AtomicBool>,
) {
    let answer = service_fn(move |request: Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        let mut router = router.clone();
        async move {
            if bounds.private && !(is_this_machine(peer) && asks_for_loopback(request.headers())) {
                return Ok::<_, Infallible>(refusal());
            }
            router.call(request.map(Body::new)).await
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    let _ = tokio::time::timeout(bounds.exchange, connection).await;
}

/// The answer to another site whose name was made to point here: it reads nothing through a visitor's browser.
fn refusal() -> Response {
    (StatusCode::FORBIDDEN, "answered on loopback only: use kubectl port-forward and ask for localhost\n")
        .into_response()
}

/// True for the very addresses that a forwarded port comes from. A mesh delivers what comes from outside from others of
/// 127.0.0.0/8, such as 127.0.0.6.
fn is_this_machine(peer: SocketAddr) -> bool {
    let ip = plain(peer.ip());
    ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST
}

/// The same address where an IPv4 one is written as IPv6.
fn plain(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4),
        ip => ip,
    }
}

fn asks_for_loopback(headers: &HeaderMap) -> bool {
    headers.get(HOST).and_then(|host| host.to_str().ok()).is_some_and(names_loopback)
}

fn names_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests have no host")]
mod tests {
    use std::sync::Mutex;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::actuate::guard::{CrashPoint, Guard};
    use crate::controllers::leader::{Alarm, Election, Leadership, LeaseOptions};
    use headroom_observe::host::Host;

    /// A listener on loopback that answers `/` with `ok`, and its address.
    async fn listening(bounds: Bounds) -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().route("/", get(|| async { "ok" }));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, router, bounds));
        (address, tasks)
    }

    /// The first line of the answer to a request whose Host is `host`.
    async fn ask(mut stream: TcpStream, host: &str) -> String {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer.lines().next().unwrap_or_default().to_owned()
    }

    async fn connected(address: SocketAddr) -> TcpStream {
        TcpStream::connect(address).await.expect("a connection")
    }

    /// A connection to `address` from `source`, another address of loopback.
    async fn connected_from(source: [u8; 4], address: SocketAddr) -> TcpStream {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from((source, 0))).expect("all of 127.0.0.0/8 is this machine's");
        socket.connect(address).await.expect("a connection")
    }

    #[test]
    fn only_names_of_loopback_are_answered_on_loopback() {
        let hosts = ["localhost", "localhost:8081", "127.0.0.1:8081", "[::1]:8081", "[::1]"];
        assert!(hosts.iter().all(|host| names_loopback(host)));
        let others =
            ["evil.example", "evil.example:8081", "localhost.evil.example", "127.0.0.1.evil.example", ""];
        assert!(!others.iter().any(|host| names_loopback(host)));
    }

    #[tokio::test]
    async fn a_private_listener_answers_this_machine_by_its_own_names_only() {
        let (address, _tasks) = listening(Bounds::SNAPSHOTS).await;
        assert_eq!(ask(connected(address).await, "localhost:8082").await, "HTTP/1.1 200 OK");
        assert_eq!(ask(connected(address).await, "evil.example").await, "HTTP/1.1 403 Forbidden");
        let mesh = connected_from([127, 0, 0, 6], address).await;
        assert_eq!(ask(mesh, "localhost:8082").await, "HTTP/1.1 403 Forbidden");
    }

    #[tokio::test]
    async fn a_public_listener_answers_by_any_name() {
        let (address, _tasks) = listening(Bounds::METRICS).await;
        assert_eq!(
            ask(connected(address).await, "headroom-metrics.headroom-system").await,
            "HTTP/1.1 200 OK"
        );
    }

    #[tokio::test]
    async fn a_head_that_does_not_come_in_time_ends_its_connection() {
        let bounds = Bounds { head: Duration::from_millis(200), ..Bounds::METRICS };
        let (address, _tasks) = listening(bounds).await;
        let mut slow = connected(address).await;
        let mut read = Vec::new();
        let mut trickle = tokio::time::interval(Duration::from_millis(20));
        // A byte now and then does not lengthen the wait.
        let ended = timeout(Duration::from_secs(5), async {
            let (mut answer, mut request) = slow.split();
            tokio::select! {
                _ = answer.read_to_end(&mut read) => {}
                () = async { loop { trickle.tick().await; let _ = request.write_all(b"G").await; } } => {}
            }
        });
        assert!(ended.await.is_ok(), "it is still open");
    }

    #[tokio::test]
    async fn an_answer_that_nobody_reads_ends_with_its_time() {
        let bounds = Bounds { exchange: Duration::from_millis(200), ..Bounds::METRICS };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().route("/", get(|| async { "x".repeat(64 << 20) }));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, router, bounds));
        let mut stream = connected(address).await;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("it is sent");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut answer = Vec::new();
        // What is left in buffers is read; the rest never comes.
        let _ = timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await.expect("it was ended");
        assert!(answer.len() < 64 << 20, "all of it came");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn probes_are_answered_while_others_connect_in_a_tight_loop() {
        let (address, mut tasks) = listening(Bounds::METRICS).await;
        let n_connected = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = n_connected.clone();
        tasks.spawn(async move {
            let mut flood = VecDeque::new();
            loop {
                // Two peers, so that there is more than one with many connections.
                for source in [[127, 0, 0, 2], [127, 0, 0, 3]] {
                    flood.push_back(connected_from(source, address).await);
                    count.fetch_add(1, Ordering::Relaxed);
                }
                flood.drain(..flood.len().saturating_sub(512));
            }
        });
        for probe in 1..=20 {
            let stream = connected(address).await;
            // The request comes late: meanwhile the flood would have ended every connection that is open.
            let seen = n_connected.load(Ordering::Relaxed);
            while n_connected.load(Ordering::Relaxed) < seen + 2 * Bounds::METRICS.connections_max {
                tokio::task::yield_now().await;
            }
            let answer = timeout(Duration::from_secs(5), ask(stream, "10.0.0.7:8080")).await;
            assert_eq!(answer.expect("in time"), "HTTP/1.1 200 OK", "probe {probe}");
        }
    }

    #[tokio::test]
    async fn a_request_that_is_being_answered_outlives_idle_connections_of_its_own_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (come, go) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
        let (has_come, may_go) = (come.clone(), go.clone());
        let answer = || async move {
            has_come.notify_one();
            may_go.notified().await;
            "ok"
        };
        let router = Router::new().route("/", get(answer));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, router, Bounds { connections_max: 4, ..Bounds::METRICS }));
        let first = tokio::spawn(ask(connected(address).await, "localhost"));
        come.notified().await;
        let mut idle = Vec::new();
        for _ in 0..8 {
            idle.push(connected(address).await);
        }
        // Once the first of them was ended, and with it three more, the limit has been reached.
        for stream in &mut idle[..4] {
            let ended = timeout(Duration::from_secs(5), stream.read(&mut [0])).await;
            assert!(ended.is_ok(), "it is still open");
        }
        go.notify_one();
        assert_eq!(first.await.expect("it ended"), "HTTP/1.1 200 OK");
    }

    /// Pause between two renewals of the lease below.
    const RETRY: Duration = Duration::from_millis(100);

    /// A lease as an API server in memory stores it, and when it was written.
    #[derive(Default)]
    struct StoredLease {
        object: Mutex<Option<serde_json::Value>>,
        written_at: Mutex<Vec<Instant>>,
    }

    impl StoredLease {
        /// The answer to a request: what is stored, after the write if it is one.
        async fn answer(
            &self,
            request: Request<kube::client::Body>,
        ) -> Result<Response<kube::client::Body>, std::io::Error> {
            let body = request.into_body().collect_bytes().await.expect("it is in memory");
            let mut object = self.object.lock().expect("nobody panics in it");
            if let Ok(mut lease) = serde_json::from_slice::<serde_json::Value>(&body) {
                let mut written_at = self.written_at.lock().expect("nobody panics in it");
                written_at.push(Instant::now());
                lease["metadata"]["resourceVersion"] = written_at.len().to_string().into();
                *object = Some(lease);
            }
            let missing =
                serde_json::json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
            let (status, answer) = object.as_ref().map_or((404_u16, &missing), |lease| (200, lease));
            let body = kube::client::Body::from(answer.to_string().into_bytes());
            Ok(axum::http::Response::builder().status(status).body(body).expect("it is valid"))
        }

        fn n_writes(&self) -> usize {
            self.written_at.lock().expect("nobody panics in it").len()
        }

        async fn is_renewed_once_more(&self) {
            let before = self.n_writes();
            let renewed = async {
                while self.n_writes() <= before {
                    tokio::time::sleep(RETRY).await;
                }
            };
            timeout(Duration::from_secs(5), renewed).await.expect("it is renewed");
        }

        fn longest_pause(&self) -> Duration {
            let written_at = self.written_at.lock().expect("nobody panics in it");
            written_at.windows(2).map(|two| two[1] - two[0]).max().unwrap_or_default()
        }
    }

    /// An election that has been won.
    async fn elected(
        lease: &Arc<StoredLease>,
        tasks: &mut JoinSet<()>,
    ) -> tokio::sync::watch::Receiver<Leadership> {
        let stored = lease.clone();
        let service = tower::service_fn(move |request| {
            let stored = stored.clone();
            async move { stored.answer(request).await }
        });
        let api = kube::Api::default_namespaced(kube::Client::new(service, "headroom-system"));
        let options = LeaseOptions {
            name: "headroom".to_owned(),
            identity: "us".to_owned(),
            duration: Duration::from_secs(10),
            retry: RETRY,
        };
        let host = Host::machine();
        let guard = Guard::new(host.clone(), CrashPoint::none(), None);
        let alarm = Alarm { shown: Box::new(|| 0), raise: Box::new(|| {}) };
        let (election, mut leadership) = Election::new(api, options, host, guard, alarm);
        tasks.spawn(election.run());
        let leads = leadership.wait_for(|now| matches!(now, Leadership::Leading { .. }));
        timeout(Duration::from_secs(5), leads).await.expect("in time").expect("it runs");
        leadership
    }

    /// Idle connections of the test below; two descriptors each.
    const IDLE: usize = 2000;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_thousand_idle_connections_disturb_neither_probes_nor_the_lease() {
        let (address, mut tasks) = listening(Bounds::METRICS).await;
        // The operator's own election, on the same runtime.
        let lease = Arc::new(StoredLease::default());
        let leadership = elected(&lease, &mut tasks).await;
        let mut idle = Vec::with_capacity(IDLE);
        let mut slowest = Duration::ZERO;
        for number in 0..IDLE {
            idle.push(connected(address).await);
            if number % 100 == 99 {
                let began = Instant::now();
                assert_eq!(ask(connected(address).await, "10.0.0.7:8080").await, "HTTP/1.1 200 OK");
                slowest = slowest.max(began.elapsed());
            }
        }
        // Kubernetes gives a probe one second, and the lease has two seconds between renewals.
        assert!(slowest < Duration::from_secs(1), "a probe took {slowest:?}");
        lease.is_renewed_once_more().await;
        assert_eq!(leadership.has_changed().ok(), Some(false), "the lease was lost");
        let pause = lease.longest_pause();
        assert!(pause < RETRY + Duration::from_secs(1), "the lease was not renewed for {pause:?}");
        // Most of them were ended meanwhile: what is open is bounded.
        let mut open = 0;
        for stream in &mut idle {
            let mut byte = [0];
            let ended = timeout(Duration::from_millis(1), stream.read(&mut byte)).await;
            open += usize::from(ended.is_err());
        }
        assert!(open <= Bounds::METRICS.connections_max, "{open} are open");
    }
}
