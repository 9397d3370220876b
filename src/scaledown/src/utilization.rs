//! Utilization of a node by the requests of its pods: the number that makes it a candidate to go. It decides nothing.

use std::cmp::Ordering;
use std::sync::Arc;

use headroom_cluster::world::node::Node;
use headroom_cluster::world::pod::Pod;
use headroom_scaleup::context::TERMINATING_EXTRA;
use headroom_values::resources::Resources;
use headroom_values::time::UnixTime;

/// Extended resources that make a node a GPU node; the first one it has decides.
/// Upstream: nvidia.com/gpu, amd.com/gpu, gpu.intel.com/i915 and the like, one a cloud.
const GPU_RESOURCES: [&str; 3] = ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"];

/// Settings of the measurement of a node: pods that are left out, and the label of GPU nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// DaemonSet pods are taken off both sides. Upstream default: false.
    pub ignore_daemon_sets: bool,
    /// Mirror pods are taken off both sides. Upstream default: false.
    pub ignore_mirror: bool,
    /// The label of nodes that have, or will have, a GPU; `None` when the cloud has no such label.
    pub gpu_label: Option<Arc<str>>,
    /// Pods of a lower priority count nothing. Upstream: they are taken out of the snapshot before.
    pub priority_cutoff: Option<i32>,
}

/// Requested over allocatable of one resource, in the resource's own unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Sum of the requests of pods.
    pub requested: i64,
    /// Amount that the node offers; zero or less only after DaemonSet or mirror pods were taken off.
    pub allocatable: i64,
}

/// Utilization of a node by requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Utilization {
    /// Cpu; zero on GPU nodes, where it is not looked at.
    pub cpu: Share,
    /// Memory; zero on GPU nodes.
    pub memory: Share,
    /// The GPU resource; zero elsewhere.
    pub gpu: Share,
    /// The resource that decides, as Kubernetes names it.
    pub resource: &'static str,
    /// True if the GPU threshold is the one to compare with.
    pub on_gpu: bool,
}

/// Reason why a node cannot be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing can be said of a node that offers none of it.
    #[error("failed to measure the node: no allocatable {0}")]
    NothingAllocatable(&'static str),
}

impl Utilization {
    /// The share of the resource that decides.
    #[must_use]
    pub fn share(&self) -> Share {
        match self.resource {
            "cpu" => self.cpu,
            "memory" => self.memory,
            _ => self.gpu,
        }
    }
}

impl Share {
    /// True if more than `percent` of what is offered is asked for; exact, without floating point.
    ///
    /// Nothing offered: exceeded if anything is asked for, else not. A negative offer is never exceeded by a
    /// positive request, as upstream's quotient is then negative.
    #[must_use]
    pub fn exceeds_percent(self, percent: u32) -> bool {
        let asked = i128::from(self.requested) * 100;
        let limit = i128::from(self.allocatable) * i128::from(percent);
        match self.allocatable.cmp(&0) {
            Ordering::Greater => asked > limit,
            Ordering::Equal => asked > 0,
            Ordering::Less => asked < limit,
        }
    }

    /// True if this quotient is greater than `other`; false when either is zero over zero.
    fn exceeds(self, other: Self) -> bool {
        match (self.limit(), other.limit()) {
            (Limit::Undefined, _) | (_, Limit::Undefined) => false,
            (Limit::Infinite(a), Limit::Infinite(b)) => a > b,
            (Limit::Infinite(sign), Limit::Finite) => sign > 0,
            (Limit::Finite, Limit::Infinite(sign)) => sign < 0,
            (Limit::Finite, Limit::Finite) => {
                let left = i128::from(self.requested) * i128::from(other.allocatable);
                let right = i128::from(other.requested) * i128::from(self.allocatable);
                if (self.allocatable < 0) == (other.allocatable < 0) { left > right } else { left < right }
            }
        }
    }

    fn limit(self) -> Limit {
        match (self.allocatable, self.requested.signum()) {
            (0, 0) => Limit::Undefined,
            (0, sign) => Limit::Infinite(sign),
            _ => Limit::Finite,
        }
    }
}

/// Limit of a quotient.
enum Limit {
    Finite,
    Infinite(i64),
    Undefined,
}

/// True if `pod` is past its deletion, its grace and [`TERMINATING_EXTRA`]: it holds nothing any more.
///
/// Source: Cluster Autoscaler, utils/drain, IsPodLongTerminating.
#[must_use]
pub fn long_terminating(pod: &Pod, now: UnixTime) -> bool {
    let over = |at: UnixTime| at.plus(pod.class.termination_grace).plus(TERMINATING_EXTRA) < now;
    pod.deletion_at.is_some_and(over)
}

/// Returns the utilization of `node` by the requests of the `pods` on it.
///
/// A GPU node (label, or a GPU resource to offer) is measured by its GPU alone, and is at zero while the driver
/// does not offer any. Others by the larger of cpu and memory; memory on a tie. Callers leave finished pods out, as a snapshot does.
///
/// # Errors
/// If the node offers no cpu or no memory.
///
/// Source: Cluster Autoscaler, simulator/utilization/info.go, Calculate.
pub fn utilization<'p>(
    node: &Node,
    pods: impl Iterator<Item = &'p Pod>,
    measure: &Measure,
    now: UnixTime,
) -> Result<Utilization, Error> {
    let gpu_resource = gpu_resource(node, measure);
    let mut requested = Sums::default();
    let mut left_out = Sums::default();
    for pod in pods.filter(|pod| counts(pod, measure, now)) {
        let ignored =
            pod.class.daemon_set && measure.ignore_daemon_sets || pod.class.mirror && measure.ignore_mirror;
        if ignored { &mut left_out } else { &mut requested }
            .add(&pod.class.requests, gpu_resource.unwrap_or(""));
    }
    share_of(node, gpu_resource, &requested, &left_out)
}

/// The same for pods whose sum is known and of which none is left out.
///
/// # Errors
/// If the node offers no cpu or no memory.
pub fn utilization_of_sum(node: &Node, sum: &Resources, measure: &Measure) -> Result<Utilization, Error> {
    let gpu_resource = gpu_resource(node, measure);
    let mut requested = Sums::default();
    requested.add(sum, gpu_resource.unwrap_or(""));
    share_of(node, gpu_resource, &requested, &Sums::default())
}

fn share_of(
    node: &Node,
    gpu_resource: Option<&'static str>,
    requested: &Sums,
    left_out: &Sums,
) -> Result<Utilization, Error> {
    if let Some(resource) = gpu_resource {
        let offered = node.allocatable.extended(resource);
        // A label without the resource: the driver is not up yet, and upstream says 0.
        let gpu = if offered == 0 {
            Share { requested: 0, allocatable: 1 }
        } else {
            share(requested.gpu, offered, left_out.gpu)
        };
        let none = Share::default();
        return Ok(Utilization { cpu: none, memory: none, gpu, resource, on_gpu: true });
    }
    if node.allocatable.cpu_milli == 0 {
        return Err(Error::NothingAllocatable("cpu"));
    }
    if node.allocatable.memory_bytes == 0 {
        return Err(Error::NothingAllocatable("memory"));
    }
    let cpu = share(requested.cpu_milli, node.allocatable.cpu_milli, left_out.cpu_milli);
    let memory = share(requested.memory_bytes, node.allocatable.memory_bytes, left_out.memory_bytes);
    let resource = if cpu.exceeds(memory) { "cpu" } else { "memory" };
    Ok(Utilization { cpu, memory, gpu: Share::default(), resource, on_gpu: false })
}

/// The share that decides where no GPU does: the larger one, memory on a tie.
#[must_use]
pub fn deciding(cpu: Share, memory: Share) -> Share {
    if cpu.exceeds(memory) { cpu } else { memory }
}

/// The GPU resource that `node` is measured by; `None` when it is no GPU node.
fn gpu_resource(node: &Node, measure: &Measure) -> Option<&'static str> {
    let offered = GPU_RESOURCES.into_iter().find(|name| node.allocatable.extended(name) > 0);
    let labelled = measure.gpu_label.as_ref().is_some_and(|key| node.labels.get(key).is_some());
    offered.or(labelled.then_some(GPU_RESOURCES[0]))
}

fn counts(pod: &Pod, measure: &Measure, now: UnixTime) -> bool {
    let expendable = measure.priority_cutoff.is_some_and(|cutoff| pod.class.priority < cutoff);
    !expendable && !long_terminating(pod, now)
}

fn share(requested: i64, allocatable: i64, left_out: i64) -> Share {
    Share { requested, allocatable: allocatable.saturating_sub(left_out) }
}

/// Sums of the three amounts that are measured.
#[derive(Default)]
struct Sums {
    cpu_milli: i64,
    memory_bytes: i64,
    gpu: i64,
}

impl Sums {
    fn add(&mut self, requests: &Resources, gpu_resource: &str) {
        self.cpu_milli = self.cpu_milli.saturating_add(requests.cpu_milli);
        self.memory_bytes = self.memory_bytes.saturating_add(requests.memory_bytes);
        if !gpu_resource.is_empty() {
            self.gpu = self.gpu.saturating_add(requests.extended(gpu_resource));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_between(requested: i64, allocatable: i64) -> Share {
        Share { requested, allocatable }
    }

    #[test]
    fn exactly_the_threshold_is_not_above_it() {
        assert!(!share_between(500, 1000).exceeds_percent(50));
        assert!(share_between(501, 1000).exceeds_percent(50));
    }

    #[test]
    fn any_request_exceeds_an_offer_of_nothing() {
        assert!(share_between(1, 0).exceeds_percent(100));
        assert!(!share_between(0, 0).exceeds_percent(0));
    }

    #[test]
    fn quotients_compare_exactly_where_floats_would_not() {
        let huge = i64::MAX;
        assert!(share_between(huge, huge - 1).exceeds(share_between(huge - 1, huge - 1)));
    }
}
