//! The effective request of a pod: kube-scheduler's rule for containers, init containers, sidecars and overhead.

use headroom_core::resources::Resources;

use crate::decoder::{Decoder, Error};
use crate::slim::{Amounts, Container, ContainerState, Needs, PodSpec, PodStatus};

/// Returns the resources that the scheduler reserves for the pod: the larger of what its containers and sidecars need
/// together, and of what each init container needs beside the sidecars started before it; pod-level cpu, memory and
/// huge pages replace that sum; overhead comes on top. `pods` is 1. Limits stand in for requests that are absent, since
/// templates are not defaulted by the API server as pods are.
///
/// # Errors
/// If a quantity cannot be read.
///
/// Source: component-helpers resource/helpers.go, PodRequests and AggregateContainerRequests.
pub fn of_pod(spec: &PodSpec, status: &PodStatus, decoder: &mut Decoder) -> Result<Resources, Error> {
    let infeasible = resize_is_infeasible(status);
    let mut total = Resources::default();
    for container in &spec.containers {
        total.add(&of_container(container, &status.container_statuses, infeasible, decoder)?);
    }
    let mut sidecars = Resources::default();
    let mut init_peak = Resources::default();
    for container in &spec.init_containers {
        let own = of_container(container, &status.init_container_statuses, infeasible, decoder)?;
        if container.restart_policy.as_deref() == Some("Always") {
            total.add(&own);
            sidecars.add(&own);
            init_peak.raise_to(&sidecars);
        } else {
            let mut beside = own;
            beside.add(&sidecars);
            init_peak.raise_to(&beside);
        }
    }
    total.raise_to(&init_peak);
    if let Some(needs) = &spec.resources {
        replace_by_pod_level(&mut total, needs, decoder)?;
    }
    if !spec.overhead.is_empty() {
        total.add(&decoder.resources(&spec.overhead)?);
    }
    total.pods = 1;
    Ok(total)
}

/// Pod-level requests replace the sum for the resources that may be set there.
fn replace_by_pod_level(total: &mut Resources, needs: &Needs, decoder: &mut Decoder) -> Result<(), Error> {
    let effective = effective(needs, decoder)?;
    let names = needs.requests.keys().chain(needs.limits.keys());
    for name in names {
        match name.as_str() {
            "cpu" => total.cpu_milli = effective.cpu_milli,
            "memory" => total.memory_bytes = effective.memory_bytes,
            pages if pages.starts_with("hugepages-") => {
                total.set_extended(decoder.text(pages), effective.extended(pages));
            }
            _ => {}
        }
    }
    Ok(())
}

/// One container's request. While it is resized in place the node still holds the larger of old and new; a resize
/// that the node cannot grant is not reserved for.
///
/// Source: component-helpers resource/helpers.go, determineContainerReqs.
fn of_container(
    container: &Container,
    states: &[ContainerState],
    infeasible: bool,
    decoder: &mut Decoder,
) -> Result<Resources, Error> {
    let mut request = match &container.resources {
        Some(needs) => effective(needs, decoder)?,
        None => Resources::default(),
    };
    let state = states.iter().find(|state| state.name == container.name);
    let Some((state, actual)) = state.and_then(|state| Some((state, state.resources.as_ref()?))) else {
        return Ok(request);
    };
    if infeasible {
        request = Resources::default();
    }
    request.raise_to(&decoder.resources(&actual.requests)?);
    request.raise_to(&decoder.resources(&state.allocated_resources)?);
    Ok(request)
}

/// Requests, and limits where a request is absent.
fn effective(needs: &Needs, decoder: &mut Decoder) -> Result<Resources, Error> {
    if needs.limits.keys().all(|name| needs.requests.contains_key(name)) {
        return decoder.resources(&needs.requests);
    }
    let mut merged: Amounts = needs.limits.clone();
    merged.extend(needs.requests.iter().map(|(name, text)| (name.clone(), text.clone())));
    decoder.resources(&merged)
}

fn resize_is_infeasible(status: &PodStatus) -> bool {
    status
        .conditions
        .iter()
        .any(|condition| condition.type_ == "PodResizePending" && condition.reason == "Infeasible")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The effective request of a pod given as JSON, as (milli-cores, bytes).
    fn check(pod: serde_json::Value, expected: (i64, i64)) {
        let pod: crate::slim::SlimPod = serde_json::from_value(pod).expect("a pod");
        let request = of_pod(&pod.spec, &pod.status, &mut Decoder::default()).expect("valid quantities");
        assert_eq!((request.cpu_milli, request.memory_bytes, request.pods), (expected.0, expected.1, 1));
    }

    fn container(cpu: &str, memory: &str) -> serde_json::Value {
        serde_json::json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
    }

    fn sidecar(cpu: &str, memory: &str) -> serde_json::Value {
        let mut sidecar = container(cpu, memory);
        sidecar["restartPolicy"] = "Always".into();
        sidecar
    }

    #[test]
    fn containers_add_up() {
        check(
            serde_json::json!({"metadata": {}, "spec": {"containers": [container("100m", "10"), container("1", "5")]}}),
            (1100, 15),
        );
    }

    #[test]
    fn a_large_init_container_raises_each_resource_on_its_own() {
        check(
            serde_json::json!({"metadata": {}, "spec": {
                "containers": [container("500m", "100")], "initContainers": [container("2", "50")]}}),
            (2000, 100),
        );
    }

    #[test]
    fn an_init_container_runs_beside_the_sidecars_before_it_only() {
        check(
            serde_json::json!({"metadata": {}, "spec": {
                "containers": [container("100m", "1")],
                "initContainers": [sidecar("1", "1"), container("2", "1"), sidecar("500m", "1")]}}),
            (3000, 3),
        );
    }

    #[test]
    fn sidecars_add_to_the_containers() {
        check(
            serde_json::json!({"metadata": {}, "spec": {
                "containers": [container("1", "1")], "initContainers": [sidecar("250m", "2")]}}),
            (1250, 3),
        );
    }

    #[test]
    fn pod_level_needs_replace_the_sum_and_overhead_comes_on_top() {
        check(
            serde_json::json!({"metadata": {}, "spec": {
                "containers": [container("1", "100")],
                "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "10m", "memory": "7"}}}),
            (3010, 107),
        );
    }

    #[test]
    fn a_limit_stands_in_for_an_absent_request() {
        check(
            serde_json::json!({"metadata": {}, "spec": {"containers": [
                {"name": "c", "resources": {"limits": {"cpu": "2", "memory": "9"}, "requests": {"memory": "4"}}}]}}),
            (2000, 4),
        );
    }

    #[test]
    fn a_shrinking_container_holds_its_old_size_until_the_kubelet_has_acted() {
        check(
            serde_json::json!({"metadata": {}, "spec": {"containers": [container("1", "10")]},
                "status": {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "2", "memory": "10"},
                    "resources": {"requests": {"cpu": "2", "memory": "10"}}}]}}),
            (2000, 10),
        );
    }

    #[test]
    fn a_resize_the_node_can_not_grant_is_not_reserved_for() {
        check(
            serde_json::json!({"metadata": {}, "spec": {"containers": [container("64", "10")]},
                "status": {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
                    "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "2", "memory": "10"},
                    "resources": {"requests": {"cpu": "2", "memory": "10"}}}]}}),
            (2000, 10),
        );
    }
}
