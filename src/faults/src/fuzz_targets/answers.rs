//! Answers of the API server to calls of the operator: scales, the lease, discovery and metrics of objects; and EKS's.

use std::time::Duration;

use headroom_core::pods::spec::ScaleTargetRef;
use headroom_core::time::UnixTime;
use http::{Method, Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::Understood;
use super::objects::decoded;
use headroom_aws::ec2::described_node_group;
use headroom_observe::host::Host;
use headroom_observe::metrics::{Bounds, ClusterMetrics, MetricsSource};
use headroom_operator::actuate::guard::{CrashPoint, Guard};
use headroom_operator::actuate::scale::{ScaleTarget, Scales};
use headroom_operator::controllers::leader::{Alarm, Election, LeaseOptions};

/// Calls of one simulated operator whose API server answers by `answer` to the path of each request.
fn served<T>(
    answer: impl Fn(&Method, &str) -> Value + Send + Sync + 'static,
    calls: impl AsyncFnOnce(Client, std::sync::Arc<Host>) -> Result<T, String>,
) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let service = tower::service_fn(move |request: Request<Body>| {
            let body = answer(request.method(), request.uri().path()).to_string().into_bytes();
            async move { Ok::<_, std::io::Error>(Response::new(Body::from(body))) }
        });
        let host = Host::simulated(UnixTime(1_800_000_000).to_jiff(), 1);
        calls(Client::new(service, "shop"), host).await
    })
}

pub(super) fn sane_scale() -> String {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "resourceVersion": "7"},
        "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=web"}})
    .to_string()
}

pub(super) fn scale(answer: &Value) -> Understood {
    let answer = answer.clone();
    let target = ScaleTarget {
        group: "apps".into(),
        kind: "Deployment".into(),
        namespace: "shop".into(),
        name: "web".into(),
    };
    served(
        move |_, _| answer.clone(),
        async |client, host| {
            let scales = Scales::new(client, host);
            let live = scales.read(&target).await?;
            let size = live.scale.spec_replicas;
            let written = scales.write(&target, (size, size.saturating_add(1)), &live.resource_version).await;
            written.map(drop).map_err(|error| error.to_string())
        },
    )
}

pub(super) fn sane_lease() -> String {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "headroom", "namespace": "shop", "resourceVersion": "7", "uid": "u"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 10, "leaseTransitions": 4,
            "acquireTime": "2027-01-15T07:00:00.000000Z", "renewTime": "2027-01-15T08:00:00.000000Z"}})
    .to_string()
}

/// Half a minute of an election in which the lease is read, and every write answered, as this.
pub(super) fn lease(answer: &Value) -> Understood {
    decoded::<Lease>(answer)?;
    let answer = answer.clone();
    served(
        move |_, _| answer.clone(),
        async |client, host| {
            let options = LeaseOptions {
                name: "headroom".to_owned(),
                identity: "us".to_owned(),
                duration: Duration::from_secs(10),
                retry: Duration::from_secs(2),
            };
            let alarm = Alarm { shown: Box::new(|| 0), raise: Box::new(|| {}) };
            let guard = Guard::new(host.clone(), CrashPoint::none(), None);
            let (election, _leadership) =
                Election::new(Api::default_namespaced(client), options, host, guard, alarm);
            let _ended = tokio::time::timeout(Duration::from_secs(30), election.run()).await;
            Ok(())
        },
    )
}

/// Returns the answers of discovery: the group of a kind, its resources, and the versions of custom metrics.
pub(super) fn sane_discovery() -> String {
    let group = |name: &str, version: &str| {
        let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": [version], "preferredVersion": version})
    };
    let resource = |name: &str, kind: &str| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get", "update"]});
    json!({"group": group("example.com", "v1"), "custom": group("custom.metrics.k8s.io", "v1beta2"),
        "resources": {"kind": "APIResourceList", "groupVersion": "example.com/v1", "resources": [
            resource("things", "Thing"), resource("things/scale", "Scale")]}})
    .to_string()
}

/// The same answers for both who ask: the metrics of objects, and scales of kinds that are not built in.
pub(super) fn discovery(answer: &Value) -> Understood {
    let answer = answer.clone();
    let at = move |_: &Method, path: &str| match path {
        "/apis" => json!({"kind": "APIGroupList", "groups": [answer["group"], answer["custom"]]}),
        "/apis/custom.metrics.k8s.io" => answer["custom"].clone(),
        "/apis/example.com" => answer["group"].clone(),
        path if path.ends_with("/scale") => json!({"metadata": {"name": "t"}, "spec": {"replicas": 1}}),
        path if path.contains("/namespaces/") => metric_values(),
        _ => answer["resources"].clone(),
    };
    served(at, async |client, host| {
        let metrics = ClusterMetrics::new(client.clone(), &host, Bounds::default());
        let found = metrics.object_metric("shop", &thing(), "rps", None).await;
        let target = ScaleTarget {
            group: "example.com".into(),
            kind: "Thing".into(),
            namespace: "shop".into(),
            name: "t".into(),
        };
        Scales::new(client, host).read(&target).await?;
        found.map(drop).map_err(|failure| failure.to_string())
    })
}

fn thing() -> ScaleTargetRef {
    ScaleTargetRef { api_version: "example.com/v1".into(), kind: "Thing".into(), name: "t".into() }
}

fn metric_values() -> Value {
    json!({"kind": "MetricValueList", "items": [{"describedObject": {"kind": "Thing", "name": "t", "namespace": "shop"},
        "metric": {"name": "rps"}, "timestamp": UnixTime(1_799_999_990).to_jiff().to_string(), "value": "1500m"}]})
}

pub(super) fn sane_object_metric() -> String {
    metric_values().to_string()
}

pub(super) fn object_metric(answer: &Value) -> Understood {
    let answer = answer.clone();
    let known: Value = serde_json::from_str(&sane_discovery()).map_err(|error| error.to_string())?;
    let at = move |_: &Method, path: &str| match path {
        "/apis/custom.metrics.k8s.io" => known["custom"].clone(),
        "/apis/example.com" => known["group"].clone(),
        "/apis/example.com/v1" => known["resources"].clone(),
        _ => answer.clone(),
    };
    served(at, async |client, host| {
        let metrics = ClusterMetrics::new(client, &host, Bounds::default());
        let found = metrics.object_metric("shop", &thing(), "rps", None).await;
        found.map(drop).map_err(|failure| failure.to_string())
    })
}

pub(super) fn sane_eks() -> String {
    json!({"nodegroup": {"nodegroupName": "web", "clusterName": "prod", "status": "ACTIVE", "capacityType": "SPOT",
        "labels": {"team": "web"}, "tags": {"a": "b"},
        "taints": [{"key": "k", "value": "v", "effect": "NO_SCHEDULE"}]}})
    .to_string()
}

pub(super) fn eks(answer: &[u8]) -> Understood {
    described_node_group(&String::from_utf8_lossy(answer)).map(drop)
}
