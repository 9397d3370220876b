//! The scale subresource of any kind, and the policies that the operator keeps for HPAs: each one guarded call or two.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headroom_core::pods::input::Scale;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
};
use kube::discovery::{ApiGroup, Scope};
use kube::{Client, Error as KubeError, discovery};
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::warn;

use headroom_observe::host::Host;

/// The name under which sizes are written, as shown by the workload's managed fields.
pub const FIELD_MANAGER: &str = "headroom";
/// Time that a kind that was found is not looked for again.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Time that a kind that was not found, or has no scale, is not looked for again.
const UNKNOWN_FOR: Duration = Duration::from_secs(30);

/// Ways to grant the permission to read and write scales, for messages.
pub const SCALE_WORKLOADS: &str = "grant it by workloads.scale of the chart, by the component config/components/scale, or for a kind \
     of another maker by a role: docs/install.md, What it may do";
/// Ways to grant the permissions to run HPAs, for messages.
pub const RUN_HPAS: &str = "workloads.hpaOwnership is Replace; grant what that takes by the value of the same name of the chart, or by \
     the component config/components/replace-hpas";
/// Ways to grant the permission to keep policies for HPAs that are observed, for messages.
pub const EXPLAIN_HPAS: &str =
    "HPAs are not explained in status; grant it by workloads.explainHpas of the chart if they are to be";

/// The object that is scaled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScaleTarget {
    /// Its API group; empty for the core group.
    pub group: Arc<str>,
    /// Its kind.
    pub kind: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// A scale as the API server has it at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveScale {
    /// Unique id of the object.
    pub uid: Arc<str>,
    /// Values of the scale.
    pub scale: Scale,
    /// The version that a write must name.
    pub resource_version: String,
}

/// A write that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// Somebody else changed the size in between: the decision stands on sand, the next look decides anew.
    #[error("the size was changed to {fresh} by somebody else in the meantime")]
    Superseded {
        /// The size it has now.
        fresh: i32,
    },
    /// The object is not there (any more), or the API server refused the call.
    #[error("{0}")]
    Failed(String),
    /// The call was not answered, or not by the API server itself: whether the size was written is unknown.
    #[error("{0}")]
    Unanswered(String),
}

/// Reason why a policy of an HPA was not made or deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeepError {
    /// No role permits it.
    #[error("{0}")]
    Forbidden(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl From<&KubeError> for KeepError {
    fn from(error: &KubeError) -> Self {
        if is_missing_permission(error) { Self::Forbidden(plain(error)) } else { Self::Failed(plain(error)) }
    }
}

/// Kinds by API version and name.
type Kinds = BTreeMap<(Arc<str>, Arc<str>), Kind>;

/// Reads and writes scales.
pub struct Scales {
    client: Client,
    host: Arc<Host>,
    kinds: Mutex<Kinds>,
    /// True once a missing permission was logged; the conditions of the policies name each.
    denied: AtomicBool,
}

/// Cached result of the discovery of a kind.
#[derive(Clone)]
struct Kind {
    found: Result<ApiResource, String>,
    until: Instant,
}

impl std::fmt::Debug for Scales {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scales").finish_non_exhaustive()
    }
}

/// Tries of one write: each conflict costs a read. Source: client-go util/retry, DefaultRetry, five steps.
const TRIES: usize = 5;

impl Scales {
    /// Calls through `client`, which must not retry by itself and must carry the guard's layer.
    #[must_use]
    pub fn new(client: Client, host: Arc<Host>) -> Self {
        Self { client, host, kinds: Mutex::default(), denied: AtomicBool::new(false) }
    }

    /// The scale of an object, read live.
    ///
    /// # Errors
    /// In words for a condition: the kind is not known, has no scale subresource, or the read failed.
    pub async fn read(&self, target: &ScaleTarget) -> Result<LiveScale, String> {
        let api = self.api(target).await?;
        let scale = api.get_scale(&target.name).await.map_err(|error| self.in_words(&error))?;
        Ok(LiveScale {
            uid: scale.metadata.uid.unwrap_or_default().into(),
            resource_version: scale.metadata.resource_version.unwrap_or_default(),
            scale: Scale {
                spec_replicas: scale.spec.and_then(|spec| spec.replicas).unwrap_or(0),
                status_replicas: scale.status.as_ref().map_or(0, |status| status.replicas),
                selector: scale.status.and_then(|status| status.selector).unwrap_or_default(),
            },
        })
    }

    /// Sets `spec.replicas` from `from` to `to`, if the object still has that version; returns the new version.
    ///
    /// A conflict that has left the size alone (its controller writes the status often) is tried again with the fresh
    /// version, up to five times in all.
    ///
    /// # Errors
    /// [`ScaleError`]; nothing was written when it is [`ScaleError::Superseded`].
    pub async fn write(
        &self,
        target: &ScaleTarget,
        (from, to): (i32, i32),
        resource_version: &str,
    ) -> Result<String, ScaleError> {
        let api = self.api(target).await.map_err(ScaleError::Failed)?;
        let params = PostParams { dry_run: false, field_manager: Some(FIELD_MANAGER.to_owned()) };
        let mut version = resource_version.to_owned();
        for _ in 0..TRIES {
            let mut body = k8s_openapi::api::autoscaling::v1::Scale::default();
            body.metadata.name = Some(target.name.to_string());
            body.metadata.namespace = Some(target.namespace.to_string());
            body.metadata.resource_version = Some(version.clone());
            body.spec = Some(k8s_openapi::api::autoscaling::v1::ScaleSpec { replicas: Some(to) });
            match api.replace_scale(&target.name, &params, &body).await {
                Ok(written) => return Ok(written.metadata.resource_version.unwrap_or_default()),
                Err(KubeError::Api(status)) if status.is_conflict() => {
                    let live = self.read(target).await.map_err(ScaleError::Failed)?;
                    // Nor is it ours if it is what we want: no write of this look has been sent twice.
                    if live.scale.spec_replicas != from {
                        return Err(ScaleError::Superseded { fresh: live.scale.spec_replicas });
                    }
                    version = live.resource_version;
                }
                Err(error) if is_refusal(&error) => return Err(ScaleError::Failed(self.in_words(&error))),
                Err(error) => return Err(ScaleError::Unanswered(plain(&error))),
            }
        }
        Err(ScaleError::Failed(format!("{TRIES} tries met a conflict each")))
    }

    /// Makes an object; Ok when one of that name is there already.
    ///
    /// # Errors
    /// [`KeepError`], in words for a log line.
    pub async fn create(
        &self,
        resource: &ApiResource,
        namespace: &str,
        object: Value,
    ) -> Result<(), KeepError> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, resource);
        let object: DynamicObject =
            serde_json::from_value(object).map_err(|error| KeepError::Failed(error.to_string()))?;
        let params = PostParams { dry_run: false, field_manager: Some(FIELD_MANAGER.to_owned()) };
        match api.create(&params, &object).await {
            Ok(_) => Ok(()),
            Err(KubeError::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(KeepError::from(&error)),
        }
    }

    /// Deletes the object of that namespace and name if it still is the one with that unique id, and has that version where
    /// one is given. Ok when it is gone, or is another one now.
    ///
    /// # Errors
    /// [`KeepError`], in words for a log line.
    pub async fn delete(
        &self,
        resource: &ApiResource,
        (namespace, name): (&str, &str),
        uid: &str,
        version: Option<&str>,
    ) -> Result<(), KeepError> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, resource);
        let resource_version = version.map(str::to_owned);
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match api.delete(name, &params).await {
            Ok(_) => Ok(()),
            Err(KubeError::Api(status)) if status.is_not_found() => Ok(()),
            Err(KubeError::Api(status)) if status.is_conflict() && version.is_none() => Ok(()),
            Err(error) => Err(KeepError::from(&error)),
        }
    }

    /// Takes the reference to one owner, by its unique id, and one label off the object of that namespace and name, if it
    /// still is the one with that unique id. Ok when it is gone, or is another one now.
    ///
    /// # Errors
    /// [`KeepError`], in words for a log line.
    pub async fn disown(
        &self,
        resource: &ApiResource,
        (namespace, name): (&str, &str),
        uid: &str,
        owner_uid: &str,
        label: &str,
    ) -> Result<(), KeepError> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, resource);
        let Some(live) = api.get_opt(name).await.map_err(|error| KeepError::from(&error))? else {
            return Ok(());
        };
        let metadata = live.metadata;
        if metadata.uid.as_deref() != Some(uid) {
            return Ok(());
        }
        let others = metadata.owner_references.unwrap_or_default().into_iter();
        let others: Vec<_> = others.filter(|owner| owner.uid != owner_uid).collect();
        let body = json!({"metadata": {"resourceVersion": metadata.resource_version, "uid": uid,
            "ownerReferences": others, "labels": {label: null}}});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match api.patch(name, &params, &Patch::Merge(&body)).await {
            Ok(_) => Ok(()),
            Err(KubeError::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(KeepError::from(&error)),
        }
    }

    /// The API server's own words; where a permission is missing, with how it is granted.
    fn in_words(&self, error: &KubeError) -> String {
        let text = plain(error);
        if !is_missing_permission(error) {
            return text;
        }
        if !self.denied.swap(true, Ordering::Relaxed) {
            warn!(error = text, "workloads are not scaled: {SCALE_WORKLOADS}");
        }
        format!("{text}: {SCALE_WORKLOADS}")
    }

    async fn api(&self, target: &ScaleTarget) -> Result<Api<DynamicObject>, String> {
        let resource = self.resource(&target.group, &target.kind).await?;
        Ok(Api::namespaced_with(self.client.clone(), &target.namespace, &resource))
    }

    /// The resource of a kind, at any version that the server serves.
    async fn resource(&self, group: &Arc<str>, kind: &Arc<str>) -> Result<ApiResource, String> {
        if let Some(resource) = built_in(group, kind) {
            return Ok(resource);
        }
        let place = (group.clone(), kind.clone());
        let now = self.host.monotonic();
        if let Some(known) = self.kinds().get(&place).filter(|known| now < known.until) {
            return known.found.clone();
        }
        let found = self.discover(group, kind).await;
        let length = if found.is_ok() { KNOWN_FOR } else { UNKNOWN_FOR };
        self.kinds().insert(place, Kind { found: found.clone(), until: self.host.monotonic() + length });
        found
    }

    async fn discover(&self, group: &str, kind: &str) -> Result<ApiResource, String> {
        let missing = || format!("no matches for kind \"{kind}\" in group \"{group}\"");
        let known: ApiGroup = match discovery::group(&self.client, group).await {
            Ok(known) => known,
            Err(KubeError::Discovery(_)) => return Err(missing()),
            Err(error) => return Err(plain(&error)),
        };
        let preferred = known.recommended_kind(kind);
        let any = || {
            let versions: Vec<&str> = known.versions().collect();
            versions
                .iter()
                .flat_map(|version| known.versioned_resources(version))
                .find(|(one, _)| one.kind == kind)
        };
        let (resource, capabilities) = preferred.or_else(any).ok_or_else(missing)?;
        if capabilities.scope != Scope::Namespaced {
            return Err(format!(
                "kind \"{kind}\" of group \"{group}\" is not namespaced: it cannot be scaled"
            ));
        }
        Ok(resource)
    }

    fn kinds(&self) -> std::sync::MutexGuard<'_, Kinds> {
        // No code panics while it holds the lock.
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kinds that every server serves need no look.
fn built_in(group: &str, kind: &str) -> Option<ApiResource> {
    let plural = match (group, kind) {
        ("apps", "Deployment") => "deployments",
        ("apps", "ReplicaSet") => "replicasets",
        ("apps", "StatefulSet") => "statefulsets",
        _ => return None,
    };
    Some(ApiResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    })
}

/// True if the API server has refused the call, so that nothing was done.
fn is_refusal(error: &KubeError) -> bool {
    matches!(error, KubeError::Api(status) if (400..500).contains(&status.code))
}

/// True if no role permits the call. Admission answers with the same code, but in words of its own.
pub(super) fn is_missing_permission(error: &KubeError) -> bool {
    matches!(error, KubeError::Api(status) if status.code == 403 && status.message.contains(" cannot "))
}

/// The API server's own words instead of the whole answer.
pub(super) fn plain(error: &KubeError) -> String {
    match error {
        KubeError::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use kube::client::Body;

    type Calls = Arc<Mutex<Vec<String>>>;

    /// Scales on a server that answers the n-th call with the n-th answer, and the calls it gets.
    fn scales(answers: Vec<(u16, Value)>) -> (Scales, Calls) {
        let calls = Calls::default();
        let noted = calls.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let mut noted = noted.lock().expect("no test panics in it");
            let (code, answer) = answers[noted.len()].clone();
            noted.push(format!("{} {}", request.method(), request.uri()));
            let body = Full::new(Bytes::from(answer.to_string()));
            std::future::ready(Ok::<_, Infallible>(
                Response::builder().status(code).body(body).expect("a response"),
            ))
        });
        let host = Host::simulated(jiff::Timestamp::UNIX_EPOCH, 1);
        (Scales::new(Client::new(service, "default"), host), calls)
    }

    fn scale(replicas: i32, version: &str) -> Value {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "resourceVersion": version},
            "spec": {"replicas": replicas}, "status": {"replicas": replicas, "selector": "app=web"}})
    }

    fn conflict() -> (u16, Value) {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409, "reason": "Conflict",
            "message": "changed"});
        (409, status)
    }

    fn web() -> ScaleTarget {
        ScaleTarget {
            group: "apps".into(),
            kind: "Deployment".into(),
            namespace: "shop".into(),
            name: "web".into(),
        }
    }

    #[tokio::test]
    async fn a_conflict_that_left_the_size_alone_is_tried_again() {
        let (scales, calls) = scales(vec![conflict(), (200, scale(3, "8")), (200, scale(5, "9"))]);
        assert_eq!(scales.write(&web(), (3, 5), "7").await, Ok("9".to_owned()));
        let calls = calls.lock().expect("no test panics in it");
        let path = "/apis/apps/v1/namespaces/shop/deployments/web/scale";
        assert!(calls[0].starts_with(&format!("PUT {path}")) && calls[0].contains("fieldManager=headroom"));
        assert_eq!(calls[1], format!("GET {path}"));
        assert_eq!(calls.len(), 3);
    }

    #[tokio::test]
    async fn a_size_that_somebody_else_has_changed_is_left_alone() {
        let (scales, calls) = scales(vec![conflict(), (200, scale(9, "8"))]);
        assert_eq!(scales.write(&web(), (3, 5), "7").await, Err(ScaleError::Superseded { fresh: 9 }));
        assert_eq!(calls.lock().expect("no test panics in it").len(), 2);
    }

    #[tokio::test]
    async fn a_refusal_did_nothing_and_of_a_lost_answer_nobody_knows() {
        let failing =
            |code: u16| json!({"kind": "Status", "status": "Failure", "code": code, "message": "no"});
        let (denied, _) = scales(vec![(403, failing(403))]);
        assert_eq!(denied.write(&web(), (3, 5), "7").await, Err(ScaleError::Failed("no".to_owned())));
        let (lost, _) = scales(vec![(504, failing(504))]);
        assert_eq!(lost.write(&web(), (3, 5), "7").await, Err(ScaleError::Unanswered("no".to_owned())));
    }

    #[tokio::test]
    async fn a_missing_permission_is_named_with_how_it_is_granted() {
        let answer = |message: &str| {
            let status = json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": message});
            (403, status)
        };
        let rule = "deployments.apps \"web\" is forbidden: User \"system:serviceaccount:headroom-system:headroom\" cannot get \
                    resource \"deployments/scale\" in API group \"apps\" in the namespace \"shop\"";
        let (denied, _) = scales(vec![answer(rule)]);
        let message = denied.read(&web()).await.expect_err("it is denied");
        assert!(message.starts_with(rule) && message.contains("workloads.scale of the chart"), "{message}");

        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let (denied, _) = scales(vec![answer("User \"x\" cannot create resource"), answer("quota exceeded")]);
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
        let made = denied.create(&resource, "shop", body.clone()).await;
        assert!(matches!(made, Err(KeepError::Forbidden(_))), "{made:?}");
        let made = denied.create(&resource, "shop", body).await;
        assert_eq!(made, Err(KeepError::Failed("quota exceeded".to_owned())), "admission is no role");
    }

    #[tokio::test]
    async fn a_size_that_is_there_already_was_not_written_now() {
        let (scales, _) = scales(vec![conflict(), (200, scale(5, "8"))]);
        assert_eq!(scales.write(&web(), (3, 5), "7").await, Err(ScaleError::Superseded { fresh: 5 }));
    }
}
