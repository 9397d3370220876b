//! Measures what the watches cost: `make bench-watch`, or ARGS="--pods 450000 --changes 1000 --seconds 20". It checks nothing.
//!
//! An API server within the process answers the lists and watches of a `KubeFeed` as a real one writes them: nodes with 30 pods each in
//! pages of 500, then so many changed pods a second. Pods are as kubelets leave them, with `managedFields`, probes, volumes and
//! statuses. Processor time is that of the process less what the answers take to make; peak memory is that of the whole process,
//! the cluster in it included.

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, stream};
use headroom_core::world::World;
use headroom_observe::host::{Host, thread_cpu_time};
use headroom_observe::{Feed, KubeFeed};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;

type Error = Box<dyn std::error::Error>;
type Answer = UnsyncBoxBody<Bytes, Infallible>;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PODS_PER_NODE: u64 = 30;
const PODS_PER_REPLICA_SET: u64 = 900;
const PAGE: u64 = 500;
/// The version of all lists; changes have later ones.
const LISTED: u64 = 10_000_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let asked = asked(std::env::args().skip(1))?;
    let server =
        Arc::new(Server { pods: asked["--pods"], changes: asked["--changes"], making: AtomicU64::new(0) });
    let pods = server.pods;
    let bytes = server.pod(0, LISTED).len();
    println!("{pods} pods of {bytes} bytes on {} nodes", server.nodes());

    let (answering, mut world) = (server.clone(), World::new());
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answering.answer(&request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let (host, began_at, before) = (Host::machine(), Instant::now(), server.cost());
    let feed = KubeFeed::start(&Client::new(service, "default"), &host);
    while !feed.synced() || world.pods_count() < usize::try_from(pods)? {
        take_in(&feed, &mut world).await;
    }
    let cpu = server.cost() - before;
    println!(
        "start: {:.1} s of processor time, {:.1} us a pod; {:.1} s by the clock with {:.1} s to make the answers; {} MB at most",
        cpu.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / pods as f64,
        began_at.elapsed().as_secs_f64(),
        Duration::from_nanos(server.making.load(Ordering::Relaxed)).as_secs_f64(),
        peak_mb(),
    );

    let (began_at, before, revision) = (Instant::now(), server.cost(), world.revision());
    while began_at.elapsed() < Duration::from_secs(asked["--seconds"]) {
        take_in(&feed, &mut world).await;
    }
    let (took, cpu) = (began_at.elapsed().as_secs_f64(), (server.cost() - before).as_secs_f64());
    let changes = world.revision() - revision;
    println!(
        "changes: {:.0} a second taken in for {took:.0} s: {:.3} cores, {:.1} us a change; {} MB at most",
        changes as f64 / took,
        cpu / took,
        cpu * 1e6 / changes.max(1) as f64,
        peak_mb(),
    );
    Ok(())
}

/// The numbers of the command line, by word.
fn asked(mut words: impl Iterator<Item = String>) -> Result<BTreeMap<String, u64>, Error> {
    let defaults = [("--pods", 450_000), ("--changes", 1000), ("--seconds", 20)];
    let mut asked: BTreeMap<String, u64> =
        defaults.into_iter().map(|(word, number)| (word.to_owned(), number)).collect();
    while let Some(word) = words.next() {
        let known = asked.get_mut(&word).ok_or_else(|| format!("{word} is not known"))?;
        *known = words.next().ok_or_else(|| format!("{word} needs a number"))?.parse()?;
    }
    Ok(asked)
}

/// Lets the watches work for as long as the operator gathers changes, and applies what came.
async fn take_in(feed: &KubeFeed, world: &mut World) {
    tokio::time::sleep(Duration::from_millis(300)).await;
    feed.take().into_iter().for_each(|delta| world.apply(delta));
}

/// Answers as an API server.
struct Server {
    pods: u64,
    /// Pods that change in a second.
    changes: u64,
    /// Nanoseconds of processor time spent on answers.
    making: AtomicU64,
}

impl Server {
    fn nodes(&self) -> u64 {
        self.pods.div_ceil(PODS_PER_NODE)
    }

    /// Processor time of the thread without what answers took to make.
    fn cost(&self) -> Duration {
        thread_cpu_time() - Duration::from_nanos(self.making.load(Ordering::Relaxed))
    }

    fn made<T>(&self, make: impl FnOnce() -> T) -> T {
        let before = thread_cpu_time();
        let made = make();
        let took = u64::try_from((thread_cpu_time() - before).as_nanos()).unwrap_or(u64::MAX);
        self.making.fetch_add(took, Ordering::Relaxed);
        made
    }

    fn answer(self: &Arc<Self>, request: &Request<Body>) -> Response<Answer> {
        let uri = request.uri();
        let plural = uri.path().rsplit('/').next().unwrap_or_default();
        let query = uri.query().unwrap_or_default();
        if query.contains("watch=true") {
            return if plural == "pods" { self.pod_changes() } else { silent() };
        }
        let from =
            query.split('&').find_map(|pair| pair.strip_prefix("continue=")?.parse().ok()).unwrap_or(0);
        let body = self.made(|| match plural {
            "pods" => list(from, self.pods, |index| self.pod(index, LISTED)),
            "nodes" => list(from, self.nodes(), node),
            _ => list(0, 0, |_| String::new()),
        });
        Response::new(Full::new(Bytes::from(body)).boxed_unsync())
    }

    /// Ten events each hundredth of the changes of a second; the connection stays open.
    fn pod_changes(self: &Arc<Self>) -> Response<Answer> {
        let server = self.clone();
        let frames = stream::unfold(0_u64, move |sent| {
            let server = server.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let count = (server.changes / 50).max(1);
                let text = server
                    .made(|| (sent..sent + count).map(|number| server.change(number)).collect::<String>());
                Some((Ok::<_, Infallible>(Frame::data(Bytes::from(text))), sent + count))
            }
        });
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    fn change(&self, number: u64) -> String {
        let pod = self.pod(number.wrapping_mul(7919) % self.pods, LISTED + 1 + number);
        // Objects in lists do not name their kind, those of a watch do.
        let fields = pod.trim_start_matches('{');
        format!("{{\"type\":\"MODIFIED\",\"object\":{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",{fields}}}\n")
    }

    /// A pod of a ReplicaSet. `version` stands in its status too, so that no two are alike.
    fn pod(&self, index: u64, version: u64) -> String {
        let (app, node) = (index / PODS_PER_REPLICA_SET, index % self.nodes());
        let address = format!("10.{}.{}.{}", index >> 16 & 255, index >> 8 & 255, index & 255);
        format!(
            concat!(
                r#"{{"metadata":{{"name":"web-{app}-7d9c5b8f6d-{index:x}","generateName":"web-{app}-7d9c5b8f6d-","namespace":"team-{team}","#,
                r#""uid":"00000000-0000-4000-8000-{index:012x}","resourceVersion":"{version}","creationTimestamp":"2026-11-01T08:00:00Z","#,
                r#""labels":{{"app":"web-{app}","pod-template-hash":"7d9c5b8f6d","tier":"frontend"}},"annotations":{{"prometheus.io/scrape":"true"}},"#,
                r#""ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-{app}-7d9c5b8f6d","uid":"rs-{app}","controller":true,"blockOwnerDeletion":true}}],"#,
                r#""managedFields":[{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-11-01T08:00:00Z","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:generateName":{{}},"f:labels":{{".":{{}},"f:app":{{}},"f:pod-template-hash":{{}},"f:tier":{{}}}},"f:ownerReferences":{{".":{{}}}}}},"f:spec":{{"f:containers":{{"k:{{\"name\":\"main\"}}":{{".":{{}},"f:image":{{}},"f:name":{{}},"f:ports":{{".":{{}}}},"f:readinessProbe":{{".":{{}},"f:httpGet":{{}}}},"f:resources":{{".":{{}},"f:requests":{{}}}}}}}},"f:dnsPolicy":{{}},"f:restartPolicy":{{}},"f:schedulerName":{{}},"f:terminationGracePeriodSeconds":{{}}}}}}}},{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-11-01T08:00:09Z","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{"k:{{\"type\":\"Ready\"}}":{{".":{{}},"f:status":{{}}}}}},"f:containerStatuses":{{}},"f:hostIP":{{}},"f:phase":{{}},"f:podIP":{{}}}}}},"subresource":"status"}}]}},"#,
                r#""spec":{{"volumes":[{{"name":"kube-api-access-{index:x}","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}}],"defaultMode":420}}}}],"#,
                r#""containers":[{{"name":"main","image":"registry.example/web:1.2.3","ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}}],"env":[{{"name":"GOMEMLIMIT","value":"400MiB"}},{{"name":"NODE","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"spec.nodeName"}}}}}}],"resources":{{"limits":{{"memory":"512Mi"}},"requests":{{"cpu":"250m","memory":"512Mi"}}}},"volumeMounts":[{{"name":"kube-api-access-{index:x}","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"readinessProbe":{{"httpGet":{{"path":"/healthz","port":"http","scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}],"#,
                r#""restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","nodeName":"node-{node}","securityContext":{{}},"schedulerName":"default-scheduler","#,
                r#""tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"#,
                r#""status":{{"phase":"Running","conditions":[{{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-01T08:00:01Z"}},{{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-01T08:00:09Z"}},{{"type":"ContainersReady","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-01T08:00:09Z"}},{{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-01T08:00:00Z","message":"{version}"}}],"#,
                r#""hostIP":"10.0.0.1","podIP":"{address}","podIPs":[{{"ip":"{address}"}}],"startTime":"2026-11-01T08:00:00Z","containerStatuses":[{{"name":"main","state":{{"running":{{"startedAt":"2026-11-01T08:00:04Z"}}}},"lastState":{{}},"ready":true,"restartCount":0,"image":"registry.example/web:1.2.3","imageID":"registry.example/web@sha256:{index:064x}","containerID":"containerd://{index:064x}","started":true}}],"qosClass":"Burstable"}}}}"#
            ),
            app = app,
            team = app % 40,
            index = index,
            version = version,
            node = node,
            address = address,
        )
    }
}

fn node(index: u64) -> String {
    format!(
        concat!(
            r#"{{"metadata":{{"name":"node-{index}","uid":"node-{index}","resourceVersion":"{version}","creationTimestamp":"2026-10-01T00:00:00Z","labels":{{"kubernetes.io/hostname":"node-{index}","topology.kubernetes.io/zone":"zone-{zone}","headroom.dev/pool":"general"}}}},"#,
            r#""spec":{{"providerID":"example://{index}"}},"status":{{"capacity":{{"cpu":"10","memory":"64Gi","pods":"110"}},"allocatable":{{"cpu":"9500m","memory":"62Gi","pods":"110"}},"conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"2026-10-01T00:01:00Z","lastHeartbeatTime":"2026-11-01T08:00:00Z"}}]}}}}"#
        ),
        index = index,
        version = LISTED,
        zone = index % 3,
    )
}

/// A page of a list that begins at `from`; the token of the next page is where that begins.
fn list(from: u64, count: u64, item: impl Fn(u64) -> String) -> String {
    let end = count.min(from + PAGE);
    let token = if end < count { end.to_string() } else { String::new() };
    let mut text = format!(
        r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{LISTED}","continue":"{token}"}},"items":["#
    );
    for index in from..end {
        let comma = if index == from { "" } else { "," };
        let _ = write!(text, "{comma}{}", item(index));
    }
    text.push_str("]}");
    text
}

/// A watch without events.
fn silent() -> Response<Answer> {
    Response::new(
        StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>().boxed()).boxed_unsync(),
    )
}

/// The peak of the process's memory in MB; 0 where there is no such file.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}
