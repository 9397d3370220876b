//! Deletion costs of pods: a bounded number of small patches, none of which takes a value away from anybody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use headroom_core::deletion_cost::{DELETION_COST_ANNOTATION, OWN_DELETION_COST_ANNOTATION};
use headroom_core::scale_in::CostWrite;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Error as KubeError};
use serde_json::json;
use tracing::warn;

use super::scale::{FIELD_MANAGER, is_missing_permission, plain};
use headroom_observe::host::Host;

/// Patches under way at once.
const AT_ONCE: usize = 16;
/// No patch is begun later than this after the first one: the replicas are lowered then, whatever is marked.
const BEGIN_DEADLINE: Duration = Duration::from_secs(10);
/// Ways to grant the permission, for messages.
pub const WRITE_COSTS: &str = "workloads.scaleIn is EmptyNodes; grant what that takes by the value of the same name of the chart, or by \
     the component config/components/empty-nodes";

/// Reason why costs were not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    /// No role permits it.
    #[error("{0}")]
    Forbidden(String),
    /// Anything else, or the deadline has passed.
    #[error("{0}")]
    Failed(String),
}

/// Result of the writes of one scale-in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Costs that are as they should be now.
    pub count: usize,
    /// The last thing that went wrong, pods that are gone or that somebody else has given a cost left out.
    pub error: Option<CostError>,
}

/// Writes deletion costs.
pub struct DeletionCosts {
    client: Client,
    /// True once a missing permission was logged.
    denied: AtomicBool,
}

impl DeletionCosts {
    /// Writes through `client`, which must not retry by itself and must carry the guard's layer.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, denied: AtomicBool::new(false) }
    }

    /// Writes the costs, in their order and some at once. A missing permission ends it.
    ///
    /// Each is a server-side apply without force: a cost of another field manager makes the server refuse it, even if that was
    /// set a moment ago, and taking off removes only what this operator owns. It names the pod's unique id, so that no other pod
    /// of the name is changed, and none is made.
    pub async fn write(&self, host: &Host, namespace: &str, writes: &[CostWrite]) -> Written {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let began_at = host.monotonic();
        let mut written = Written::default();
        for some in writes.chunks(AT_ONCE) {
            if began_at + BEGIN_DEADLINE <= host.monotonic() {
                let message =
                    format!("{} of {} deletion costs were written in time", written.count, writes.len());
                written.error = Some(CostError::Failed(message));
                break;
            }
            for result in join_all(some.iter().map(|write| apply(&pods, namespace, write))).await {
                match result {
                    Ok(()) => written.count += 1,
                    Err(error) if is_about_the_pod(&error) => {}
                    Err(error) => written.error = Some(self.note(&error)),
                }
            }
            if let Some(CostError::Forbidden(_)) = written.error {
                break;
            }
        }
        written
    }

    fn note(&self, error: &KubeError) -> CostError {
        if !is_missing_permission(error) {
            return CostError::Failed(plain(error));
        }
        let message = format!("{}: {WRITE_COSTS}", plain(error));
        if !self.denied.swap(true, Ordering::Relaxed) {
            warn!(
                error = message,
                "deletion costs are not written; the ReplicaSet controller chooses the pods that go"
            );
        }
        CostError::Forbidden(message)
    }
}

async fn apply(pods: &Api<Pod>, namespace: &str, write: &CostWrite) -> Result<(), KubeError> {
    let mut metadata = json!({"name": write.name, "namespace": namespace, "uid": write.uid});
    if let Some(cost) = write.cost {
        let cost = cost.to_string();
        metadata["annotations"] = json!({DELETION_COST_ANNOTATION: cost, OWN_DELETION_COST_ANNOTATION: cost});
    }
    let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    let params = PatchParams::apply(FIELD_MANAGER);
    pods.patch_metadata(&write.name, &params, &Patch::Apply(&body)).await.map(drop)
}

/// True if the pod is gone, or its cost is somebody else's: there is nothing to be done about either.
fn is_about_the_pod(error: &KubeError) -> bool {
    matches!(error, KubeError::Api(status) if status.is_conflict() || status.is_not_found())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt as _, Full};
    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    type Calls = Arc<Mutex<Vec<(String, Value)>>>;

    /// Costs on a server that answers with `answer`, and the calls it gets.
    fn costs(answer: impl Fn(usize) -> (u16, Value) + Clone + Send + 'static) -> (DeletionCosts, Calls) {
        let calls = Calls::default();
        let noted = calls.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (noted, answer) = (noted.clone(), answer.clone());
            async move {
                let call = format!("{} {}", request.method(), request.uri());
                let body = request.into_body().collect().await.expect("a body").to_bytes();
                let mut noted = noted.lock().expect("no test panics in it");
                let (code, answer) = answer(noted.len());
                noted.push((call, serde_json::from_slice(&body).expect("JSON")));
                let body = Full::new(Bytes::from(answer.to_string()));
                Ok::<_, Infallible>(Response::builder().status(code).body(body).expect("a response"))
            }
        });
        (DeletionCosts::new(Client::new(service, "default")), calls)
    }

    fn patched() -> (u16, Value) {
        (
            200,
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "web-1"}}),
        )
    }

    fn refused(code: u16, reason: &str, message: &str) -> (u16, Value) {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": message});
        (code, status)
    }

    fn writes(count: usize, cost: Option<i32>) -> Vec<CostWrite> {
        let write = |number: usize| CostWrite { name: format!("web-{number}").into(), uid: "u".into(), cost };
        (0..count).map(write).collect()
    }

    #[tokio::test]
    async fn cost_is_applied_without_force_to_the_pod_of_that_id() {
        let (costs, calls) = costs(|_| patched());
        let written = costs.write(&Host::machine(), "shop", &writes(1, Some(-1))).await;
        assert_eq!(written, Written { count: 1, error: None });
        let calls = calls.lock().expect("no test panics in it");
        let (call, body) = &calls[0];
        assert!(call.starts_with("PATCH /api/v1/namespaces/shop/pods/web-0?"), "{call}");
        assert!(call.contains("fieldManager=headroom") && !call.contains("force"), "{call}");
        let annotations =
            json!({"controller.kubernetes.io/pod-deletion-cost": "-1", "headroom.dev/deletion-cost": "-1"});
        assert_eq!((&body["metadata"]["uid"], &body["metadata"]["annotations"]), (&json!("u"), &annotations));
    }

    #[tokio::test]
    async fn taking_off_names_no_annotation() {
        let (costs, calls) = costs(|_| patched());
        costs.write(&Host::machine(), "shop", &writes(1, None)).await;
        assert_eq!(calls.lock().expect("no test panics in it")[0].1["metadata"].get("annotations"), None);
    }

    #[tokio::test]
    async fn cost_of_somebody_else_is_left_and_the_others_are_written() {
        let conflict = refused(409, "Conflict", "Apply failed with 1 conflict");
        let (costs, _) = costs(move |call| if call == 0 { conflict.clone() } else { patched() });
        let written = costs.write(&Host::machine(), "shop", &writes(3, Some(1))).await;
        assert_eq!(written, Written { count: 2, error: None });
    }

    #[tokio::test]
    async fn missing_permission_ends_the_writes_and_is_named_with_how_it_is_granted() {
        let message = "pods \"web-0\" is forbidden: User \"x\" cannot patch resource \"pods\"";
        let (costs, calls) = costs(move |_| refused(403, "Forbidden", message));
        let written = costs.write(&Host::machine(), "shop", &writes(100, Some(-1))).await;
        let Some(CostError::Forbidden(error)) = written.error else { panic!("{written:?}") };
        assert!(error.contains("cannot patch") && error.contains("config/components/empty-nodes"), "{error}");
        assert_eq!(calls.lock().expect("no test panics in it").len(), AT_ONCE);
    }
}
