//! The subresources `scale`, `eviction` and `binding` with the API server's answers; PDB status itself is an actor's work.

use std::sync::Arc;

use serde_json::{Value, json};

use super::object::{at, condition, number, object_at, seconds, set_condition, text};
use super::write::check_preconditions;
use super::{ApiError, Author, DeleteOptions, Filter, Kind, LabelSelector, ObjectKey, Part, Store};

/// Result of an eviction that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// The pod is gone, or goes after its grace.
    Evicted,
}

/// Maximum number of disrupted pods that a budget remembers before it refuses.
///
/// Source: pkg/registry/core/pod/storage/eviction.go MaxDisruptedPodSize.
const DISRUPTED_PODS_MAX: usize = 2000;

impl Store {
    /// The `autoscaling/v1` Scale of a workload; 404 where the kind has none.
    pub fn scale(&self, kind: Kind, key: &ObjectKey) -> Result<Value, ApiError> {
        if !kind.info().has_scale {
            return Err(ApiError::no_such_path());
        }
        let object = self.get(kind, key)?;
        let metadata = |field: &str| at(object, &["metadata", field]).cloned().unwrap_or_default();
        let selector = at(object, &["spec", "selector"]).map(selector_text).unwrap_or_default();
        Ok(json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": metadata("name"), "namespace": metadata("namespace"), "uid": metadata("uid"),
                         "resourceVersion": metadata("resourceVersion"),
                         "creationTimestamp": metadata("creationTimestamp")},
            "spec": {"replicas": number(object, &["spec", "replicas"]).unwrap_or(0)},
            "status": {"replicas": number(object, &["status", "replicas"]).unwrap_or(0), "selector": selector},
        }))
    }

    /// Sets `spec.replicas` through the scale subresource; a resource version in `scale` must be the current one.
    ///
    /// 404, 409, and 422 for a negative number.
    pub fn set_scale(
        &mut self,
        kind: Kind,
        key: &ObjectKey,
        scale: &Value,
        author: Author<'_>,
    ) -> Result<Value, ApiError> {
        let result = self.try_set_scale(kind, key, scale, author);
        self.record(author, "scale", kind, Some(key), result.as_ref().err());
        result
    }

    fn try_set_scale(
        &mut self,
        kind: Kind,
        key: &ObjectKey,
        scale: &Value,
        author: Author<'_>,
    ) -> Result<Value, ApiError> {
        if !kind.info().has_scale {
            return Err(ApiError::no_such_path());
        }
        let before = self.get(kind, key)?.clone();
        let wanted = |field: &str| text(scale, &["metadata", field]).filter(|value| !value.is_empty());
        check_preconditions(kind, key, &before, wanted("uid"), wanted("resourceVersion"))?;
        let replicas = number(scale, &["spec", "replicas"]).unwrap_or(0);
        if replicas < 0 {
            let why = format!("spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0");
            return Err(ApiError::invalid(kind, &key.name, &why));
        }
        let mut after = (*before).clone();
        object_at(&mut after, &["spec"]).insert("replicas".into(), replicas.into());
        self.update(kind, key, before, after, Part::Main, author)?;
        self.scale(kind, key)
    }

    /// Binds a pending pod to a node; 409 when it is bound already.
    pub fn bind(&mut self, key: &ObjectKey, node: &str, author: Author<'_>) -> Result<(), ApiError> {
        let result = self.get(Kind::Pod, key).cloned().and_then(|pod| {
            if let Some(bound) = text(&pod, &["spec", "nodeName"]) {
                let why = format!("pod {} is already assigned to node {bound:?}", key.name);
                return Err(ApiError::conflict(Kind::Pod, &key.name, &why));
            }
            let now = self.now();
            let mut after = (*pod).clone();
            object_at(&mut after, &["spec"]).insert("nodeName".into(), node.into());
            set_condition(&mut after, "PodScheduled", "True", "", "", now);
            // Node name and condition go in one write, as the binding of the real server does.
            self.commit(Kind::Pod, key.clone(), Some(pod), after, Part::Main, author);
            Ok(())
        });
        self.record(author, "bind", Kind::Pod, Some(key), result.as_ref().err());
        result
    }

    /// Evicts a pod if its disruption budget allows one more.
    ///
    /// 404 and 409 as for a deletion; 429 with the cause `DisruptionBudget` when the budget is spent; 500 when
    /// several budgets cover the pod.
    /// Source: pkg/registry/core/pod/storage/eviction.go.
    pub fn evict(
        &mut self,
        key: &ObjectKey,
        options: &DeleteOptions,
        author: Author<'_>,
    ) -> Result<Eviction, ApiError> {
        let result = self.try_evict(key, options);
        self.record(author, "evict", Kind::Pod, Some(key), result.as_ref().err());
        result
    }

    fn try_evict(&mut self, key: &ObjectKey, options: &DeleteOptions) -> Result<Eviction, ApiError> {
        let pod = self.get(Kind::Pod, key)?.clone();
        // The budget is spent first, and stays so when a precondition of the deletion fails: so does a real server.
        let leaving = at(&pod, &["metadata", "deletionTimestamp"]).is_some();
        let unprotected =
            matches!(text(&pod, &["status", "phase"]), Some("Pending" | "Succeeded" | "Failed"));
        if !leaving && !unprotected {
            let in_namespace = Filter { namespace: key.namespace.to_string(), ..Filter::default() };
            let budgets: Vec<(ObjectKey, Arc<Value>)> = self
                .list(Kind::PodDisruptionBudget, &in_namespace)
                .filter(|(_, budget)| covers(budget, &pod))
                .map(|(key, budget)| (key.clone(), budget.clone()))
                .collect();
            match budgets.as_slice() {
                [] => {}
                [(name, budget)] => self.spend(name, budget, &pod, &key.name)?,
                _ => {
                    let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource \
                               does not support.";
                    return Err(ApiError::new(500, "InternalError", why));
                }
            }
        }
        self.try_delete(Kind::Pod, key, options)?;
        Ok(Eviction::Evicted)
    }

    fn spend(
        &mut self,
        name: &ObjectKey,
        budget: &Value,
        pod: &Value,
        pod_name: &str,
    ) -> Result<(), ApiError> {
        let status = |field: &str| number(budget, &["status", field]).unwrap_or(0);
        let (healthy, desired) = (status("currentHealthy"), status("desiredHealthy"));
        let ready = condition(pod, "Ready").and_then(|c| c.get("status")?.as_str()) == Some("True");
        if !ready {
            let always = text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == Some("AlwaysAllow");
            if always || (desired > 0 && desired <= healthy) {
                return Ok(());
            }
        }
        let generation = number(budget, &["metadata", "generation"]).unwrap_or(0);
        if status("observedGeneration") < generation {
            let why = format!("The disruption budget {} is still being processed by the server.", name.name);
            return Err(refused(&why, Some(10)));
        }
        let spent =
            at(budget, &["status", "disruptedPods"]).and_then(Value::as_object).map_or(0, |pods| pods.len());
        let allowed = status("disruptionsAllowed");
        if allowed <= 0 || DISRUPTED_PODS_MAX <= spent {
            let why = format!(
                "The disruption budget {} needs {desired} healthy pods and has {healthy} currently",
                name.name
            );
            return Err(refused(&why, None));
        }
        let now = self.now();
        self.edit(Kind::PodDisruptionBudget, name, Author::actor("api-server"), |budget| {
            let status = object_at(budget, &["status"]);
            status.insert("disruptionsAllowed".into(), (allowed - 1).into());
            object_at(budget, &["status", "disruptedPods"]).insert(pod_name.into(), seconds(now));
        })?;
        Ok(())
    }
}

/// True if a budget selects a pod; a budget without a selector selects none.
pub(crate) fn covers(budget: &Value, pod: &Value) -> bool {
    at(budget, &["spec", "selector"]).is_some_and(|selector| LabelSelector::of_object(selector).matches(pod))
}

fn refused(cause: &str, retry_after_seconds: Option<i64>) -> ApiError {
    let mut error = ApiError::new(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    );
    error.details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
    if let Some(seconds) = retry_after_seconds {
        error.details["retryAfterSeconds"] = seconds.into();
    }
    error
}

/// The query form of an object's label selector.
fn selector_text(selector: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (key, value) in at(selector, &["matchLabels"]).and_then(Value::as_object).into_iter().flatten() {
        parts.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for expression in at(selector, &["matchExpressions"]).and_then(Value::as_array).into_iter().flatten() {
        let key = text(expression, &["key"]).unwrap_or_default();
        let list = at(expression, &["values"]).and_then(Value::as_array).into_iter().flatten();
        let values = list.filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        parts.push(match text(expression, &["operator"]) {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.join(",")
}
