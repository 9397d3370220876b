//! Request of a pod for one resource, as utilization counts it.

use crate::input::{ContainerRequests, PodSeen, ResourceAmounts};
use headroom_values::quantity::Quantity;

/// The request of a pod in thousandths, of all containers or of one; the error names the missing part.
///
/// With pod-level requests (and the gate on, and no container named): the pod's own request, where that lacks the
/// resource the aggregate of its containers, plus overhead. Else the sum over containers and sidecars, each of which
/// must have the request, without overhead.
///
/// Source: podautoscaler replica_calculator.go, calculatePodRequests.
pub(super) fn request_milli(
    pod: &PodSeen,
    container: Option<&str>,
    resource: &str,
    pod_level_gate: bool,
) -> Result<i128, String> {
    let pod_level = pod.requests.pod_level.as_ref().filter(|requests| {
        pod_level_gate && container.is_none() && requests.0.iter().any(|(name, _)| is_pod_level(name))
    });
    match pod_level {
        Some(own) => whole_pod(pod, own, resource),
        None => of_containers(pod, container, resource),
    }
}

/// True if a resource may be requested for a pod as a whole.
fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

fn whole_pod(pod: &PodSeen, own: &ResourceAmounts, resource: &str) -> Result<i128, String> {
    let own = own.get(resource).filter(|_| is_pod_level(resource));
    let request = own.or_else(|| aggregate(pod, resource));
    let overhead = pod.requests.overhead.get(resource);
    sum(request, overhead)
        .map(|request| i128::from(request.milli()))
        .ok_or_else(|| format!("missing request for {resource} in pod {} and in its containers", pod.name))
}

/// Containers and sidecars together, at least the peak while init containers run; `None` if nobody requests it.
///
/// Source: component-helpers resource/helpers.go, AggregateContainerRequests.
fn aggregate(pod: &PodSeen, resource: &str) -> Option<Quantity> {
    let mut running = pod
        .requests
        .containers
        .iter()
        .fold(None, |total, container| sum(total, container.requests.get(resource)));
    let (mut sidecars, mut peak) = (None, None);
    for init in &pod.requests.init_containers {
        let request = init.container.requests.get(resource);
        if init.restartable {
            running = sum(running, request);
            sidecars = sum(sidecars, request);
            peak = peak.max(sidecars);
        } else {
            peak = peak.max(sum(sidecars, request));
        }
    }
    running.max(peak)
}

fn sum(a: Option<Quantity>, b: Option<Quantity>) -> Option<Quantity> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.plus(b)),
        (one, other) => one.or(other),
    }
}

fn of_containers(pod: &PodSeen, container: Option<&str>, resource: &str) -> Result<i128, String> {
    let sidecars =
        pod.requests.init_containers.iter().filter(|init| init.restartable).map(|init| &init.container);
    let counted = |candidate: &&ContainerRequests| container.is_none_or(|name| name == &*candidate.name);
    let (mut total, mut found) = (0_i128, false);
    for candidate in pod.requests.containers.iter().chain(sidecars).filter(counted) {
        found = true;
        let request = candidate.requests.get(resource).ok_or_else(|| {
            format!("missing request for {resource} in container {} of pod {}", candidate.name, pod.name)
        })?;
        total += i128::from(request.milli());
    }
    match container {
        Some(name) if !found => Err(format!("container {name} not found in pod {}", pod.name)),
        Some(_) | None => Ok(total),
    }
}
