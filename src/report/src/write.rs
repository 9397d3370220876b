//! The only writer of status and events; every write names the version it was made from, and none is tried again here.

use std::borrow::Cow;

use futures::FutureExt;
use futures::future::BoxFuture;
use headroom_core::labels::ObjectKey;
use headroom_core::world::buffer::BufferStatus;
use headroom_core::world::capacity_quota::QuotaStatus;
use headroom_core::world::request::RequestStatus;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams, Request};
use kube::{Api, Client, Resource};
use serde::{Deserialize, Serialize};

use super::events::{EventNote, Regarding, RegardingKind};
use super::{write_buffers, write_capacity_quotas, write_requests};
use headroom_api::{
    ClusterScalingPolicySpec, ClusterScalingPolicyStatus, NodePoolSpec, NodePoolStatus, PolicyObject, Stored,
    StoredClusterScalingPolicy, StoredNodePool, StoredScalingPolicy,
};

/// The name under which the operator writes.
pub const FIELD_MANAGER: &str = "headroom";
/// The name of the writer in events.
const REPORTING_CONTROLLER: &str = "headroom.dev/headroom";
/// Namespace of events about cluster-scoped objects. Source: client-go, which does the same.
const CLUSTER_EVENTS_NAMESPACE: &str = "default";
/// The cause that the API server names where an apply meets fields of another manager. Source: apimachinery,
/// CauseTypeFieldManagerConflict.
const FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";

/// Reason why something was not written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object has changed since the version named: read it again and plan again.
    #[error("failed to write: the object has changed since it was read")]
    Conflict,
    /// Another controller has written other values into the same fields: nothing was applied.
    #[error("failed to write: another controller writes these fields")]
    Owned,
    /// The object is gone.
    #[error("failed to write: the object is gone")]
    Gone,
    /// The API server refused it as invalid: a bug of ours.
    #[error("failed to write: refused as invalid: {0}")]
    Invalid(String),
    /// A role or an admission policy does not permit it.
    #[error("failed to write: not permitted: {0}")]
    Forbidden(String),
    /// Anything else. Whether the write happened is not known.
    #[error("failed to reach the API server: {0}")]
    Failed(String),
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 409 => {
                let mut causes = status.details.iter().flat_map(|details| &details.causes);
                let is_owned = causes.any(|cause| cause.reason == FIELD_MANAGER_CONFLICT);
                if is_owned { Self::Owned } else { Self::Conflict }
            }
            kube::Error::Api(status) if status.code == 404 => Self::Gone,
            kube::Error::Api(status) if status.code == 403 => Self::Forbidden(status.message),
            kube::Error::Api(status) if status.code == 422 => Self::Invalid(status.message),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// Destination of status and events: the API server, or a simulated one.
pub trait StatusSink: Send + Sync {
    /// Every NodePool, read live.
    fn read_pools(&self) -> BoxFuture<'_, Result<Vec<PolicyObject<NodePoolSpec>>, WriteError>>;

    /// One NodePool, read live; `None` when it does not exist.
    fn read_pool<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<PolicyObject<NodePoolSpec>>, WriteError>>;

    /// One ClusterScalingPolicy, read live; `None` when it does not exist.
    fn read_policy<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<PolicyObject<ClusterScalingPolicySpec>>, WriteError>>;

    /// Replaces the status of a pool, if it still has that version; returns the new one.
    fn write_pool<'a>(
        &'a self,
        name: &'a str,
        resource_version: &'a str,
        status: &'a NodePoolStatus,
    ) -> BoxFuture<'a, Result<String, WriteError>>;

    /// Replaces the status of a cluster policy, if it still has that version; returns the new one.
    fn write_policy<'a>(
        &'a self,
        name: &'a str,
        resource_version: &'a str,
        status: &'a ClusterScalingPolicyStatus,
    ) -> BoxFuture<'a, Result<String, WriteError>>;

    /// Applies the status of a CapacityBuffer, or with `None` gives up what was applied before.
    fn write_buffer<'a>(
        &'a self,
        key: &'a ObjectKey,
        status: Option<&'a BufferStatus>,
    ) -> BoxFuture<'a, Result<(), WriteError>>;

    /// Applies the status of a ProvisioningRequest to the version named, or with `None` gives up what was applied before.
    fn write_request<'a>(
        &'a self,
        key: &'a ObjectKey,
        status: Option<(&'a str, &'a RequestStatus)>,
    ) -> BoxFuture<'a, Result<(), WriteError>>;

    /// Applies the status of a CapacityQuota, or with `None` gives up what was applied before.
    fn write_capacity_quota<'a>(
        &'a self,
        name: &'a str,
        status: Option<&'a QuotaStatus>,
    ) -> BoxFuture<'a, Result<(), WriteError>>;

    /// Writes an event that happened at `at`. Writing it twice writes it once.
    fn write_event<'a>(
        &'a self,
        event: &'a EventNote,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), WriteError>>;
}

/// The API server.
#[derive(Clone)]
pub struct KubeSink {
    client: Client,
    pools: Api<StoredNodePool>,
    policies: Api<StoredClusterScalingPolicy>,
}

impl std::fmt::Debug for KubeSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeSink").finish_non_exhaustive()
    }
}

impl KubeSink {
    /// Writes through `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { pools: Api::all(client.clone()), policies: Api::all(client.clone()), client }
    }
}

impl StatusSink for KubeSink {
    fn read_pools(&self) -> BoxFuture<'_, Result<Vec<PolicyObject<NodePoolSpec>>, WriteError>> {
        async {
            let list = self.pools.list(&ListParams::default()).await?;
            Ok(list.items.into_iter().map(Stored::read).collect())
        }
        .boxed()
    }

    fn read_pool<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<PolicyObject<NodePoolSpec>>, WriteError>> {
        read_live(&self.pools, name).boxed()
    }

    fn read_policy<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<PolicyObject<ClusterScalingPolicySpec>>, WriteError>> {
        read_live(&self.policies, name).boxed()
    }

    fn write_pool<'a>(
        &'a self,
        name: &'a str,
        resource_version: &'a str,
        status: &'a NodePoolStatus,
    ) -> BoxFuture<'a, Result<String, WriteError>> {
        replace_status(&self.pools, name, resource_version, status).boxed()
    }

    fn write_policy<'a>(
        &'a self,
        name: &'a str,
        resource_version: &'a str,
        status: &'a ClusterScalingPolicyStatus,
    ) -> BoxFuture<'a, Result<String, WriteError>> {
        replace_status(&self.policies, name, resource_version, status).boxed()
    }

    fn write_buffer<'a>(
        &'a self,
        key: &'a ObjectKey,
        status: Option<&'a BufferStatus>,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        write_buffers::apply_status(&self.client, key, status).boxed()
    }

    fn write_request<'a>(
        &'a self,
        key: &'a ObjectKey,
        status: Option<(&'a str, &'a RequestStatus)>,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        write_requests::apply_status(&self.client, key, status).boxed()
    }

    fn write_capacity_quota<'a>(
        &'a self,
        name: &'a str,
        status: Option<&'a QuotaStatus>,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        write_capacity_quotas::apply_status(&self.client, name, status).boxed()
    }

    fn write_event<'a>(
        &'a self,
        event: &'a EventNote,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        async move {
            let namespace = match &*event.regarding.key.namespace {
                "" => CLUSTER_EVENTS_NAMESPACE,
                namespace => namespace,
            };
            let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
            match events.create(&params(), &wire_event(event, namespace, at)).await {
                Ok(_) => Ok(()),
                // The name is made of the event: it is there from an earlier try.
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                Err(error) => Err(error.into()),
            }
        }
        .boxed()
    }
}

/// One object, read live; `None` when it does not exist.
///
/// A list by name and no get: the views list these kinds anyway, so that no permission is needed besides. As with a get, no
/// version is named, so that no old cache answers.
pub(crate) async fn read_live<K: Stored>(
    api: &Api<K>,
    name: &str,
) -> Result<Option<PolicyObject<K::Spec>>, WriteError> {
    let by_name = ListParams::default().fields(&format!("metadata.name={name}"));
    match api.list(&by_name).await {
        Ok(list) => Ok(list.items.into_iter().next().map(Stored::read)),
        // The kind itself is gone.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Replaces the status of one object, if it still has that version; returns the new one.
pub(crate) async fn replace_status<K: Stored>(
    api: &Api<K>,
    name: &str,
    resource_version: &str,
    status: &K::Status,
) -> Result<String, WriteError> {
    let body = StatusWrite {
        api_version: K::api_version(&()),
        kind: K::kind(&()),
        // The namespace, if the kind has one, is in the path.
        metadata: Version {
            name: Some(name.to_owned()),
            resource_version: Some(resource_version.to_owned()),
        },
        status,
    };
    let body = serde_json::to_vec(&body).map_err(|error| WriteError::Invalid(error.to_string()))?;
    let request = Request::new(api.resource_url()).replace_subresource("status", name, &params(), body);
    let request = request.map_err(kube::Error::BuildRequest)?;
    let stored: StatusWritten = api.clone().into_client().request(request).await?;
    Ok(stored.metadata.resource_version.unwrap_or_default())
}

/// The body of a write of the status alone.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusWrite<'a, S> {
    api_version: Cow<'a, str>,
    kind: Cow<'a, str>,
    metadata: Version,
    status: &'a S,
}

/// Fields read from the answer to it: a status can be large, and this one is known.
#[derive(Deserialize)]
struct StatusWritten {
    metadata: Version,
}

/// Name and version of an object.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    name: Option<String>,
    resource_version: Option<String>,
}

pub(crate) fn params() -> PostParams {
    PostParams { dry_run: false, field_manager: Some(FIELD_MANAGER.to_owned()) }
}

fn wire_event(event: &EventNote, namespace: &str, at: Timestamp) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(event.name(at.as_microsecond())),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some(event.action.to_owned()),
        event_time: Some(MicroTime(at)),
        note: Some(event.note.clone()),
        reason: Some(event.reason.to_owned()),
        regarding: Some(reference(&event.regarding)),
        reporting_controller: Some(REPORTING_CONTROLLER.to_owned()),
        reporting_instance: Some(FIELD_MANAGER.to_owned()),
        type_: Some(if event.warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    }
}

fn reference(regarding: &Regarding) -> ObjectReference {
    let (api_version, kind) = match regarding.kind {
        RegardingKind::Pod => ("v1".to_owned(), "Pod"),
        RegardingKind::Node => ("v1".to_owned(), "Node"),
        RegardingKind::NodePool => (StoredNodePool::api_version(&()).into_owned(), "NodePool"),
        RegardingKind::Hpa => ("autoscaling/v2".to_owned(), "HorizontalPodAutoscaler"),
        RegardingKind::ScalingPolicy => (StoredScalingPolicy::api_version(&()).into_owned(), "ScalingPolicy"),
    };
    ObjectReference {
        api_version: Some(api_version),
        kind: Some(kind.to_owned()),
        name: Some(regarding.key.name.to_string()),
        namespace: Some(regarding.key.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
        uid: Some(regarding.uid.to_string()).filter(|uid| !uid.is_empty()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use headroom_core::world::buffer::BufferCondition;
    use headroom_core::world::capacity_quota::PRICE;
    use http::Response;
    use http_body_util::{BodyExt, Full};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    type Calls = Arc<Mutex<Vec<(String, Value)>>>;

    /// A sink on a server that answers every call alike, and the calls it gets.
    fn sink(code: u16, answer: Value) -> (KubeSink, Calls) {
        let calls = Calls::default();
        let noted = calls.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (noted, answer) = (noted.clone(), answer.clone());
            async move {
                let line = format!("{} {}", request.method(), request.uri());
                let body = request.into_body().collect().await.expect("a whole body").to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                noted.lock().expect("no test panics in it").push((line, body));
                let body = Full::new(Bytes::from(answer.to_string()));
                Ok::<_, Infallible>(Response::builder().status(code).body(body).expect("a response"))
            }
        });
        (KubeSink::new(Client::new(service, "default")), calls)
    }

    fn failure(code: u16, reason: &str) -> Value {
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": "scripted"})
    }

    #[tokio::test]
    async fn a_status_write_names_the_version_it_was_made_from_and_no_spec() {
        let stored = json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "NodePool",
            "metadata": {"name": "general", "resourceVersion": "8"}});
        let (sink, calls) = sink(200, stored);
        let status = NodePoolStatus { sequence: Some(4), ..NodePoolStatus::default() };
        assert_eq!(sink.write_pool("general", "7", &status).await, Ok("8".to_owned()));
        let calls = calls.lock().expect("no test panics in it");
        let (line, body) = &calls[0];
        assert!(line.starts_with("PUT /apis/headroom.dev/v1alpha1/nodepools/general/status"), "{line}");
        assert_eq!(body["metadata"]["resourceVersion"], "7");
        assert_eq!((body.get("spec"), &body["status"]["sequence"]), (None, &json!(4)));
    }

    #[tokio::test]
    async fn a_conflict_is_reported_and_not_tried_again() {
        let (sink, calls) = sink(409, failure(409, "Conflict"));
        let answer = sink.write_pool("general", "7", &NodePoolStatus::default()).await;
        assert_eq!(answer, Err(WriteError::Conflict));
        assert_eq!(calls.lock().expect("no test panics in it").len(), 1);
    }

    #[tokio::test]
    async fn a_broken_pool_is_read_with_the_others() {
        let items = json!([
            {"metadata": {"name": "good"}, "spec": {"provider": {"type": "KWOK", "kwok": {"zones": ["a"]}}, "maxNodes": 1}},
            {"metadata": {"name": "bad"}, "spec": {"maxNodes": "x"}}]);
        let (sink, _) = sink(
            200,
            json!({"kind": "NodePoolList", "apiVersion": "headroom.dev/v1alpha1",
            "metadata": {"resourceVersion": "5"}, "items": items}),
        );
        let pools = sink.read_pools().await.expect("readable");
        assert!(pools[0].spec.is_ok() && pools[1].spec.is_err());
    }

    #[tokio::test]
    async fn the_status_of_a_buffer_is_applied_without_force() {
        let stored = json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "web", "namespace": "shop"}});
        let (sink, calls) = sink(200, stored);
        let condition =
            BufferCondition { holds: true, reason: "FitsExistingCapacity".into(), ..Default::default() };
        let status = BufferStatus {
            replicas: Some(5),
            conditions: [("Provisioning".into(), condition)].into(),
            ..BufferStatus::default()
        };
        let key = ObjectKey::new("shop", "web");
        assert_eq!(sink.write_buffer(&key, Some(&status)).await, Ok(()));
        assert_eq!(sink.write_buffer(&key, None).await, Ok(()));
        let calls = calls.lock().expect("no test panics in it");
        let (line, body) = &calls[0];
        let path = "PATCH /apis/autoscaling.x-k8s.io/v1beta1/namespaces/shop/capacitybuffers/web/status?";
        assert!(line.starts_with(path) && line.contains("fieldManager=headroom"), "{line}");
        assert!(!line.contains("force"), "{line}");
        assert_eq!(body["status"]["replicas"], 5);
        let written = &body["status"]["conditions"][0];
        assert_eq!((&written["type"], &written["status"]), (&json!("Provisioning"), &json!("True")));
        assert_eq!(written["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(calls[1].1.get("status"), None);
    }

    #[tokio::test]
    async fn the_status_of_a_quota_shows_amounts_as_a_user_writes_them() {
        let stored = json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityQuota",
            "metadata": {"name": "gpus"}});
        let (sink, calls) = sink(200, stored);
        let used = [("cpu", 1_500), ("memory", 3 << 30), ("nvidia.com/gpu", 8), (PRICE, 2_500_000)];
        let used = used.into_iter().map(|(resource, amount)| (resource.into(), amount)).collect();
        let status = QuotaStatus { observed_generation: Some(2), used, ..QuotaStatus::default() };
        assert_eq!(sink.write_capacity_quota("gpus", Some(&status)).await, Ok(()));
        let calls = calls.lock().expect("no test panics in it");
        let (line, body) = &calls[0];
        let path = "PATCH /apis/autoscaling.x-k8s.io/v1beta1/capacityquotas/gpus/status?";
        assert!(line.starts_with(path) && !line.contains("force"), "{line}");
        let shown = json!({"cpu": "1500m", "memory": "3Gi", "nvidia.com/gpu": "8", (PRICE): "2500m"});
        assert_eq!(body["status"]["used"]["resources"], shown);
        assert_eq!(body["metadata"].get("namespace"), None);
    }

    #[tokio::test]
    async fn a_buffer_of_the_older_version_alone_is_written_there() {
        let (sink, calls) = sink(404, failure(404, "NotFound"));
        let answer = sink.write_buffer(&ObjectKey::new("shop", "web"), Some(&BufferStatus::default())).await;
        assert_eq!(answer, Err(WriteError::Gone));
        let calls = calls.lock().expect("no test panics in it");
        assert!(calls[1].0.contains("/v1alpha1/"), "{}", calls[1].0);
    }

    #[tokio::test]
    async fn what_another_manager_has_written_to_a_buffer_is_a_conflict() {
        let mut owned = failure(409, "Conflict");
        owned["details"] =
            json!({"causes": [{"reason": "FieldManagerConflict", "field": ".status.replicas"}]});
        let (sink, calls) = sink(409, owned);
        let answer = sink.write_buffer(&ObjectKey::new("shop", "web"), Some(&BufferStatus::default())).await;
        assert_eq!(answer, Err(WriteError::Owned));
        assert_eq!(calls.lock().expect("no test panics in it").len(), 1);
    }

    #[tokio::test]
    async fn an_answer_to_a_request_names_the_version_it_was_made_from() {
        let (sink, calls) = sink(409, failure(409, "Conflict"));
        let key = ObjectKey::new("research", "train");
        let answer = sink.write_request(&key, Some(("7", &RequestStatus::default()))).await;
        assert_eq!(answer, Err(WriteError::Conflict), "no other controller: the view is behind");
        assert_eq!(calls.lock().expect("no test panics in it")[0].1["metadata"]["resourceVersion"], "7");
    }

    fn event() -> EventNote {
        EventNote {
            regarding: Regarding {
                kind: RegardingKind::NodePool,
                key: ObjectKey::new("", "general"),
                uid: "u".into(),
            },
            warning: true,
            reason: "FailedToScaleUpGroup",
            action: "ScaleUp",
            note: "none left".to_owned(),
        }
    }

    #[tokio::test]
    async fn events_of_cluster_scoped_objects_live_in_default_and_have_one_name() {
        let (sink, calls) = sink(409, failure(409, "AlreadyExists"));
        let at = Timestamp::from_second(1_800_000_000).expect("in range");
        for _ in 0..2 {
            assert_eq!(sink.write_event(&event(), at).await, Ok(()));
        }
        let calls = calls.lock().expect("no test panics in it");
        assert!(
            calls[0].0.starts_with("POST /apis/events.k8s.io/v1/namespaces/default/events"),
            "{}",
            calls[0].0
        );
        assert_eq!(calls[0].1["metadata"]["name"], calls[1].1["metadata"]["name"]);
        assert_eq!(calls[0].1["regarding"]["apiVersion"], "headroom.dev/v1alpha1");
        assert_eq!(calls[0].1["type"], "Warning");
    }
}
