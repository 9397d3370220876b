//! Objects that no sane person writes, by the thousand: each is understood or refused with words, and nothing panics.
//!
//! Each case is a valid object with a few of its values replaced, dropped or doubled. `HEADROOM_CASES` says how many of
//! each kind are tried; `make soak` tries a million.

use headroom::api::validate::{validate_policy, validate_pool, validate_scaling};
use headroom::api::{ClusterScalingPolicySpec, NodePool, NodePoolSpec, ScalingPolicySpec};
use headroom::host::Host;
use headroom::metrics::{Bounds, ClusterMetrics, MetricsSource};
use headroom::observe::convert::{node, pod, workload};
use headroom::observe::decoder::Decoder;
use headroom::observe::slim::{SlimDeployment, SlimDisruptionBudget, SlimNode, SlimPod};
use headroom::report::{parse, status_of};
use headroom::simulate::damage;
use headroom_core::quantity::Quantity;
use headroom_core::time::UnixTime;
use headroom_core::window::Window;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};

const CASES: u64 = 2_000;

/// Tries damaged copies of `sane`; `read` must understand the sane one itself.
fn try_all(sane: &Value, read: impl Fn(&Value) -> Result<(), String>) {
    let tried = damage::try_objects(sane, damage::cases(CASES), read);
    let tally = tried.expect("each case is understood or refused with words");
    assert!(0 < tally.refused, "nothing was refused: the cases are too tame");
}

fn decoded<T: for<'a> Deserialize<'a>>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}

fn in_words<T>(checked: Result<T, Vec<impl ToString>>) -> Result<(), String> {
    checked.map(drop).map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

#[test]
fn node_pools() {
    let sane = json!({
        "mode": "Apply", "minNodes": 1, "maxNodes": 10, "limits": {"cpu": "100", "memory": "1Ti"}, "priority": 3,
        "provider": {"type": "AWS", "aws": {"region": "eu-west-1", "clusterName": "prod",
            "nodeGroups": [{"name": "web-a"}, {"name": "web-b", "maxNodes": 20}]}},
        "template": {"labels": {"team": "web"}, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
            "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"}, "reserved": {"cpu": "80m"}},
        "price": {"perHour": "0.768"},
        "scaleUp": {"provisionTimeout": "15m", "backoff": {"initial": "5m", "max": "30m", "resetAfter": "3h"}},
        "scaleDown": {"utilizationThreshold": 50, "unneededFor": "10m", "budgets": [
            {"name": "always", "maxNodes": "10%"},
            {"name": "day", "maxNodes": 0, "reasons": ["Empty"],
                "window": {"timeZone": "Europe/Berlin", "start": "0 8 * * 1-5", "duration": "10h"}}]},
        "schedules": [{"name": "office", "minNodes": 5,
            "window": {"timeZone": "Asia/Shanghai", "start": "30 11 * * *", "duration": "2h30m"}}],
    });
    try_all(&sane, |value| {
        let spec: NodePoolSpec = decoded(value)?;
        in_words(validate_pool(&NodePool::new("p", spec)))
    });
}

#[test]
fn scaling_policies() {
    let sane = json!({
        "mode": "Apply",
        "target": {"type": "Scale", "scale": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        "minReplicas": 2, "maxReplicas": 20,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 60}}}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 300,
            "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}},
        "schedules": [{"name": "lunch", "minReplicas": 5,
            "window": {"timeZone": "Asia/Shanghai", "start": "30 11 * * 1-5", "duration": "2h30m"}}],
        "fallback": {"after": "3m", "replicas": "Hold"},
    });
    try_all(&sane, |value| {
        let spec: ScalingPolicySpec = decoded(value)?;
        in_words(validate_scaling(&spec))
    });
}

#[test]
fn cluster_scaling_policies() {
    let sane = json!({
        "nodes": {"limits": {"nodes": 100, "cpu": "1000", "memory": "4Ti", "min": {"cpu": "2"}}, "newPodDelay": "0s",
            "health": {"maxUnreadyPercent": 45, "okUnreadyCount": 3},
            "removals": {"maxParallel": 10, "budgets": [{"name": "all", "maxNodes": "5%"}]}},
        "workloads": {"hpaOwnership": "Observe", "syncPeriod": "15s"},
    });
    try_all(&sane, |value| {
        let spec: ClusterScalingPolicySpec = decoded(value)?;
        in_words(validate_policy(&spec))
    });
}

#[test]
fn stored_statuses() {
    let time = "2026-03-02T07:00:00Z";
    let sane = json!({
        "observedGeneration": 3, "lastScaleUp": time, "lastFailure": time,
        "nodes": {"desired": 3, "ready": 2}, "bounds": {"minNodes": 0, "maxNodes": 9},
        "backoffs": [{"group": "a", "class": "OutOfCapacity", "failures": 2, "since": time,
            "until": "2026-03-02T07:05:00Z", "message": "full"}],
        "intents": [{"id": "3-4", "epoch": 3, "action": "Remove", "phase": "Deleting", "group": "a",
            "instances": [{"node": "n", "id": "i-1"}], "reason": "Empty", "startedAt": time, "phaseSince": time,
            "deadline": "2026-03-02T07:15:00Z"}],
        "unneeded": [{"since": time, "nodes": ["n1", "n2"]}],
        "decisions": [{"id": "3-4", "time": time, "action": "ScaleDown", "from": 3, "to": 2, "reason": "Empty",
            "message": "n is empty", "outcome": "InProgress"}],
    });
    // Nothing of a status is ever refused: what cannot be read is left out, and told of.
    let read = |value: &Value| {
        let (status, notes) = status_of(value);
        let (history, more) = parse(&status);
        let ends = history.intents.iter().filter(|intent| intent.deadline < UnixTime(0)).count();
        let told = format!("{notes:?}{more:?}");
        if ends == 0
            && told.len() == format!("{:?}{:?}", status_of(&sane).1, parse(&status_of(&sane).0).1).len()
        {
            Ok(())
        } else {
            Err(told)
        }
    };
    try_all(&sane, read);
}

#[test]
fn pods_nodes_budgets_and_deployments() {
    let term = json!({"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"});
    let pod_spec = json!({
        "nodeName": "n1", "priority": 5, "terminationGracePeriodSeconds": 30, "nodeSelector": {"pool": "web"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "cpu", "operator": "Gt", "values": ["3"]}]}]}}},
        "containers": [{"name": "c", "ports": [{"hostPort": 80}],
            "resources": {"requests": {"cpu": "100m", "memory": "1Gi", "nvidia.com/gpu": "1"}}}],
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "d", "persistentVolumeClaim": {"claimName": "d"}}],
    });
    let metadata = json!({"name": "web-1", "namespace": "shop", "uid": "u", "resourceVersion": "7",
        "labels": {"app": "web"}, "annotations": {"cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "30s"},
        "creationTimestamp": "2026-11-01T00:00:00Z"});
    let sane = json!({"metadata": metadata, "spec": pod_spec, "status": {"phase": "Running"}});
    try_all(&sane, |value| {
        let slim: SlimPod = decoded(value)?;
        pod::pod(&slim, &mut Decoder::default()).map(drop).map_err(|error| error.to_string())
    });
    let sane = json!({
        "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "a"}},
        "spec": {"providerID": "kwok://n1", "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}]},
    });
    try_all(&sane, |value| {
        let slim: SlimNode = decoded(value)?;
        node::node(&slim, &mut Decoder::default()).map(drop).map_err(|error| error.to_string())
    });
    let sane = json!({
        "metadata": {"name": "b", "namespace": "shop"},
        "spec": {"minAvailable": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}},
        "status": {"disruptionsAllowed": 1},
    });
    try_all(&sane, |value| {
        let slim: SlimDisruptionBudget = decoded(value)?;
        workload::disruption_budget(&slim, &mut Decoder::default())
            .map(drop)
            .map_err(|error| error.to_string())
    });
    let sane = json!({
        "metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}},
    });
    try_all(&sane, |value| decoded::<SlimDeployment>(value).map(drop));
}

#[test]
fn quantities_and_windows() {
    try_all(&json!("100.5Mi"), |value| {
        let text = value.as_str().ok_or("no text")?;
        let quantity = Quantity::parse(text).map_err(|error| error.to_string())?;
        // Sums and their texts hold for whatever was read.
        let sum = quantity.plus(quantity);
        Quantity::parse(&sum.to_decimal()).map(drop).map_err(|error| error.to_string())
    });
    try_all(&json!({"zone": "Europe/Berlin", "start": "0 8 * * 1-5", "seconds": 3_600}), |value| {
        let word = |field: &str| value[field].as_str().unwrap_or("no text");
        let window = Window::new(word("zone"), word("start"), value["seconds"].as_u64().unwrap_or(0));
        let window = window.map_err(|error| error.to_string())?;
        let now = UnixTime(1_800_000_000).to_jiff();
        let (active, next) = (window.active_at(now), window.next_change(now));
        if next.is_some_and(|next| next <= now) {
            Err(format!("{active:?} ends in the past"))
        } else {
            Ok(())
        }
    });
}

/// One question to a metrics server that answers this.
fn asked<T>(answer: &Value, ask: impl AsyncFn(&ClusterMetrics) -> Result<T, String>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime can be built").block_on(async {
        let body = answer.to_string();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let versions = json!({"kind": "APIGroup", "apiVersion": "v1", "name": "custom.metrics.k8s.io", "versions": [
                {"groupVersion": "custom.metrics.k8s.io/v1beta2", "version": "v1beta2"}]});
            let discovery = request.uri().path() == "/apis/custom.metrics.k8s.io";
            let body = if discovery { versions.to_string() } else { body.clone() };
            async move { Ok::<_, std::io::Error>(http::Response::new(Body::from(body.into_bytes()))) }
        });
        let host = Host::simulated(UnixTime(1_800_000_000).to_jiff(), 1);
        let metrics = ClusterMetrics::new(Client::new(service, "default"), &host, Bounds::default());
        ask(&metrics).await.map(drop)
    })
}

#[test]
fn answers_of_the_metrics_apis() {
    let time = UnixTime(1_799_999_990).to_jiff().to_string();
    let sane = json!({"kind": "PodMetricsList", "metadata": {}, "items": [
        {"metadata": {"name": "web-1", "namespace": "d"}, "timestamp": time, "window": "14.997s", "containers": [
            {"name": "app", "usage": {"cpu": "700123456n", "memory": "128Mi"}}]},
        {"metadata": {"name": "web-2", "namespace": "d"}, "timestamp": time, "window": "15s", "containers": []},
    ]});
    try_all(&sane, |answer| {
        asked(answer, async |metrics| metrics.pod_usage("d").await.map_err(|failure| failure.to_string()))
    });
    let of_pod = |name: &str, value: &str| {
        json!({"describedObject": {"kind": "Pod", "name": name, "namespace": "d"}, "metric": {"name": "rps"},
            "timestamp": time, "value": value})
    };
    let sane = json!({"kind": "MetricValueList", "metadata": {}, "items": [of_pod("web-1", "12"), of_pod("web-2", "1500m")]});
    try_all(&sane, |answer| {
        asked(answer, async |metrics| {
            metrics.pod_metric("d", "rps", "app=web", None).await.map_err(|failure| failure.to_string())
        })
    });
    let series = |value: &str| json!({"metricName": "queue", "metricLabels": {"q": "a"}, "timestamp": time, "value": value});
    let sane =
        json!({"kind": "ExternalMetricValueList", "metadata": {}, "items": [series("3"), series("1k")]});
    try_all(&sane, |answer| {
        asked(answer, async |metrics| {
            metrics.external_metric("d", "queue", None).await.map_err(|failure| failure.to_string())
        })
    });
}
