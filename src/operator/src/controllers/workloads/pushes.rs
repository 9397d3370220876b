//! Streams of activity that external scalers are asked to keep open: what they report wakes the loop of workloads before a
//! workload is due. They decide nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use headroom_core::labels::ObjectKey;
use tokio::sync::{Notify, oneshot};
use tracing::{debug, warn};

use super::questions::Query;
use super::resolve::{Workload, WorkloadPhase};
use headroom_api::Mode;
use headroom_observe::host::Host;
use headroom_observe::metrics::{MetricsSource, ScalerQuery};

/// Streams that are open at once.
const STREAMS_MAX: usize = 512;
/// Those of one namespace.
const STREAMS_PER_NAMESPACE_MAX: usize = 64;
/// Pause before a stream is opened again; each next one without a report in between is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A stream by its policy and its question.
type StreamKey = (ObjectKey, ScalerQuery);

/// The streams that are kept open.
pub(super) struct Pushes {
    host: Arc<Host>,
    /// Each stream ends when its end of the channel is dropped.
    streams: BTreeMap<StreamKey, oneshot::Sender<()>>,
    reported: Arc<Reported>,
    /// Streams that were too many when they were last counted.
    refused_count: usize,
}

/// Policies whose external scalers have reported.
#[derive(Default)]
pub(super) struct Reported {
    policies: Mutex<BTreeSet<ObjectKey>>,
    news: Notify,
}

impl Reported {
    fn put(&self, policy: &ObjectKey) {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner).insert(policy.clone());
        self.news.notify_one();
    }

    /// Waits until there is a report to take.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    /// The policies with reports since this was asked last.
    pub(super) fn take(&self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut *self.policies.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Pushes {
    /// No stream is open.
    pub(super) fn new(host: Arc<Host>) -> Self {
        Self { host, streams: BTreeMap::new(), reported: Arc::default(), refused_count: 0 }
    }

    pub(super) fn reported(&self) -> Arc<Reported> {
        self.reported.clone()
    }

    /// Ends all streams.
    pub(super) fn clear(&mut self) {
        self.streams.clear();
        self.reported.take();
    }

    /// Ends the streams of policies in such namespaces.
    pub(super) fn end_in(&mut self, is_such: impl Fn(&str) -> bool) {
        self.streams.retain(|(policy, _), _| !is_such(&policy.namespace));
    }

    /// Keeps exactly the streams that these workloads want, within the bounds: those that are open stay. A stream wakes the
    /// loop once in `pace` at most, which is the shortest time between two evaluations that a policy may have.
    pub(super) fn keep<'a>(
        &mut self,
        workloads: impl Iterator<Item = &'a Arc<Workload>>,
        metrics: &Arc<dyn MetricsSource>,
        pace: Duration,
    ) {
        let (wanted, refused_count) = bounded(workloads.flat_map(|workload| wanted(workload)));
        self.streams.retain(|key, _| wanted.contains(key));
        for key in wanted {
            if self.streams.contains_key(&key) {
                continue;
            }
            let (end, ended) = oneshot::channel();
            let stream = Stream {
                host: self.host.clone(),
                metrics: metrics.clone(),
                reported: self.reported.clone(),
                key: key.clone(),
                pace,
                last: None,
            };
            self.host.spawn(stream.follow(ended));
            self.streams.insert(key, end);
        }
        if self.refused_count < refused_count {
            warn!(
                count = refused_count,
                "streams of external scalers that are too many: their workloads are evaluated when they are due"
            );
        }
        self.refused_count = refused_count;
    }
}

/// The streams that a workload wants.
fn wanted(workload: &Workload) -> Vec<StreamKey> {
    if workload.phase != WorkloadPhase::Owner || workload.mode == Mode::Suspend {
        return Vec::new();
    }
    let query = |query: &Option<Query>| match query {
        Some(Query::Scaler { query, push: true }) => Some((workload.key.clone(), query.clone())),
        Some(Query::Scaler { .. } | Query::Prometheus { .. } | Query::Http(_) | Query::Redis(_)) | None => {
            None
        }
    };
    workload.queries.iter().filter_map(query).collect()
}

/// The first streams that are within the bounds, and the number of the others.
fn bounded(wanted: impl Iterator<Item = StreamKey>) -> (BTreeSet<StreamKey>, usize) {
    let (mut kept, mut refused_count) = (BTreeSet::new(), 0);
    let mut by_namespace: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for key in wanted {
        let count = by_namespace.entry(key.0.namespace.clone()).or_default();
        if kept.len() < STREAMS_MAX && *count < STREAMS_PER_NAMESPACE_MAX {
            *count += 1;
            kept.insert(key);
        } else {
            refused_count += 1;
        }
    }
    (kept, refused_count)
}

/// One stream, over all its connections.
struct Stream {
    host: Arc<Host>,
    metrics: Arc<dyn MetricsSource>,
    reported: Arc<Reported>,
    key: StreamKey,
    pace: Duration,
    /// The last report.
    last: Option<bool>,
}

impl Stream {
    async fn follow(mut self, mut ended: oneshot::Receiver<()>) {
        let mut pause = PAUSE_MIN;
        loop {
            let reported = tokio::select! {
                biased;
                _ = &mut ended => return,
                reported = self.listen() => reported,
            };
            if reported {
                pause = PAUSE_MIN;
            }
            tokio::select! {
                biased;
                _ = &mut ended => return,
                () = self.host.sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Reads one connection's reports to their end. Returns true if there was one.
    async fn listen(&mut self) -> bool {
        let (policy, query) = self.key.clone();
        let Ok(reports) = self.metrics.activity(&query) else { return false };
        let mut reports = reports.fuse();
        let mut any = false;
        while let Some(report) = reports.next().await {
            let mut active = match report {
                Ok(active) => active,
                Err(why) => {
                    debug!(workload = %policy, source = query.source, %why, "the stream of an external scaler ended");
                    return any;
                }
            };
            any = true;
            // Of what came during the pause below only the newest counts.
            while let Some(Some(Ok(newer))) = reports.next().now_or_never() {
                active = newer;
            }
            // Many servers report work only, never its end: each such report may be the one after a long rest.
            if active || self.last != Some(active) {
                self.last = Some(active);
                self.reported.put(&policy);
                self.host.sleep(self.pace).await;
            }
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use futures::stream::{self, BoxStream};
    use headroom_core::pods::input::{PodUsage, PodValue, Sample, ScalerReading};
    use headroom_core::pods::spec::{MetricSelector, ScaleTargetRef};
    use headroom_observe::metrics::{Answer, Called, Outage, Question, ScaledObject, Why};
    use tokio::time::Instant;

    use super::*;

    /// Reports of each connection, with the time after which each comes; then the connection ends. Without a script there is none.
    struct Script {
        host: Arc<Host>,
        connections: Mutex<Vec<Vec<(u64, bool)>>>,
        connected: Mutex<Vec<Instant>>,
    }

    impl Script {
        fn none<T>() -> BoxFuture<'static, Answer<T>>
        where
            T: Send + 'static,
        {
            async { Err(Question::new("nobody", "it").failure(Why::Empty)) }.boxed()
        }
    }

    impl MetricsSource for Script {
        fn pod_usage<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Answer<Arc<Vec<PodUsage>>>> {
            Self::none()
        }
        fn pod_metric<'a>(
            &'a self,
            _: &'a str,
            _: &'a str,
            _: &'a str,
            _: Option<&'a MetricSelector>,
        ) -> BoxFuture<'a, Answer<Arc<Vec<PodValue>>>> {
            Self::none()
        }
        fn object_metric<'a>(
            &'a self,
            _: &'a str,
            _: &'a ScaleTargetRef,
            _: &'a str,
            _: Option<&'a MetricSelector>,
        ) -> BoxFuture<'a, Answer<Sample>> {
            Self::none()
        }
        fn external_metric<'a>(
            &'a self,
            _: &'a str,
            _: &'a str,
            _: Option<&'a MetricSelector>,
        ) -> BoxFuture<'a, Answer<Arc<Vec<Sample>>>> {
            Self::none()
        }
        fn prometheus<'a>(&'a self, _: &'a str, _: &'a str, _: &'a str) -> BoxFuture<'a, Answer<Sample>> {
            Self::none()
        }
        fn external_scaler<'a>(&'a self, _: &'a ScalerQuery) -> BoxFuture<'a, Answer<ScalerReading>> {
            Self::none()
        }
        fn activity(&self, _: &ScalerQuery) -> Answer<BoxStream<'static, Called<bool>>> {
            self.connected.lock().unwrap().push(self.host.monotonic());
            let next = self.connections.lock().unwrap().pop().unwrap_or_default();
            // As from a network: what comes is there, whether anybody reads or not.
            let (send, reports) = futures::channel::mpsc::unbounded();
            self.host.spawn(async move {
                for (after, active) in next {
                    tokio::time::sleep(Duration::from_millis(after)).await;
                    let _ = send.unbounded_send(Ok(active));
                }
            });
            let end = stream::iter([Err(Why::Outage(Outage::Call("it went away".to_owned())))]);
            Ok(reports.chain(end).boxed())
        }
    }

    fn key(namespace: &str, name: &str) -> StreamKey {
        let object = ScaledObject {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            ..ScaledObject::default()
        };
        (
            ObjectKey::new(namespace, name),
            ScalerQuery { source: "q".to_owned(), object, ..ScalerQuery::default() },
        )
    }

    /// Moments of the wake-ups of a stream within a minute, in milliseconds, and those of its connections.
    async fn woken(mut connections: Vec<Vec<(u64, bool)>>) -> (Vec<u128>, Vec<u128>) {
        let host = Host::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        connections.reverse();
        let script = Arc::new(Script {
            host: host.clone(),
            connections: Mutex::new(connections),
            connected: Mutex::default(),
        });
        let reported = Arc::<Reported>::default();
        let began_at = host.monotonic();
        let stream = Stream {
            host: host.clone(),
            metrics: script.clone(),
            reported: reported.clone(),
            key: key("shop", "web"),
            pace: Duration::from_secs(5),
            last: None,
        };
        let (_end, ended) = oneshot::channel();
        host.spawn(stream.follow(ended));
        let mut moments = Vec::new();
        while tokio::time::timeout(Duration::from_secs(20), reported.news()).await.is_ok() {
            assert_eq!(reported.take().len(), 1);
            moments.push(began_at.elapsed().as_millis());
        }
        let connected =
            script.connected.lock().unwrap().iter().map(|at| (*at - began_at).as_millis()).collect();
        (moments, connected)
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_wakes_at_once_and_then_once_in_the_shortest_period() {
        let flips = vec![(300, true), (100, false), (100, true), (100, true), (9000, false), (9000, false)];
        let (woken, _) = woken(vec![flips]).await;
        // 300: work. 5300: the newest of three. 9600: no work, after the pause; that there is none is no news the second time.
        assert_eq!(woken, [300, 5300, 10300]);
    }

    #[tokio::test(start_paused = true)]
    async fn streams_that_end_are_opened_again_later_each_time_until_one_reports() {
        let (_, connected) = woken(vec![vec![], vec![], vec![(0, true)], vec![]]).await;
        // 1 s, 2 s, then one that reports: it pauses for the pace, then 1 s again.
        assert_eq!(connected[..5], [0, 1000, 3000, 9000, 11000]);
    }

    #[test]
    fn streams_are_bounded_in_all_and_in_each_namespace() {
        let of = |namespace: &str, count: usize| {
            let namespace = namespace.to_owned();
            (0..count).map(move |index| key(&namespace, &format!("p{index}")))
        };
        let (kept, refused) = bounded(of("a", 100).chain(of("b", 3)));
        assert_eq!((kept.len(), refused), (STREAMS_PER_NAMESPACE_MAX + 3, 36));
        let many = (0..20).flat_map(|n| of(&format!("n{n}"), 64));
        assert_eq!(bounded(many).0.len(), STREAMS_MAX);
    }
}
