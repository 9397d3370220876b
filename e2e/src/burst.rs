//! The mix of pods that autoscalers are measured with: arriving, running, and the fewest nodes for it; it measures nothing.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};

use crate::cluster::is_ready;
use crate::control_plane::ControlPlane;
use crate::fixtures::{deployment, node};
use crate::wait;

/// Longest time that a burst may take before the run counts as failed.
const DEADLINE: Duration = Duration::from_secs(600);

/// One Deployment of the mix.
pub struct Share {
    pub name: &'static str,
    pub percent: u32,
    pub cpu_milli: u32,
    pub memory_mib: u32,
}

/// The mix that autoscalers are measured with.
pub const MIX: [Share; 4] = [
    Share { name: "tiny", percent: 50, cpu_milli: 250, memory_mib: 512 },
    Share { name: "medium", percent: 30, cpu_milli: 1000, memory_mib: 2 * 1024 },
    Share { name: "memory", percent: 15, cpu_milli: 2000, memory_mib: 12 * 1024 },
    Share { name: "compute", percent: 5, cpu_milli: 3500, memory_mib: 4 * 1024 },
];

/// The larger of the two shapes, which the lower bound counts in.
pub const LARGE_CPU: u32 = 16;
pub const LARGE_MEMORY_GIB: u32 = 64;

/// One Deployment for each share of `n_pods`.
pub async fn create_deployments(cluster: &ControlPlane, n_pods: u32) -> Result<()> {
    for share in &MIX {
        let workload = deployment(share.name)
            .replicas(n_pods * share.percent / 100)
            .requests(&format!("{}m", share.cpu_milli), &format!("{}Mi", share.memory_mib));
        cluster.create(workload).await?;
    }
    Ok(())
}

/// As many nodes as the lower bound has, each half as large again, so that no pod waits for a fitting place.
pub async fn put_nodes(cluster: &ControlPlane, count: u32) -> Result<()> {
    for number in 0..count {
        let shape = node(
            &format!("floor-{number}"),
            &(LARGE_CPU * 3 / 2).to_string(),
            &format!("{}Gi", LARGE_MEMORY_GIB * 3 / 2),
        );
        cluster.apply(shape).await?;
    }
    wait::until("all nodes are ready and untainted", Duration::from_secs(120), async || {
        let nodes = cluster.nodes().await?;
        let tainted = |node: &Node| {
            node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).is_some_and(|taints| !taints.is_empty())
        };
        let n_usable = nodes.iter().filter(|node| is_ready(node) && !tainted(node)).count();
        ensure!(u32::try_from(n_usable)? == count, "{n_usable} of {count} are");
        Ok(())
    })
    .await
}

/// The moment at which the last of `n_pods` was seen running.
pub async fn wait_until_running(cluster: &ControlPlane, n_pods: u32) -> Result<Instant> {
    wait_until_running_of(cluster, "", n_pods, DEADLINE).await
}

/// The same of the pods that a label selector finds, within `deadline`. A watch of names alone, so that counting costs the
/// shared machine little.
pub async fn wait_until_running_of(
    cluster: &ControlPlane,
    selector: &str,
    n_pods: u32,
    deadline: Duration,
) -> Result<Instant> {
    let pods: Api<PartialObjectMeta<Pod>> = Api::namespaced(cluster.client(), "default");
    let config = watcher::Config::default().fields("status.phase=Running").labels(selector);
    let mut events = pin!(watcher(pods, config));
    let mut running: BTreeSet<String> = BTreeSet::new();
    let counting = async {
        while let Some(event) = events.next().await {
            match event? {
                Event::Apply(pod) | Event::InitApply(pod) => running.extend(pod.metadata.name),
                Event::Delete(pod) => {
                    running.remove(&pod.metadata.name.unwrap_or_default());
                }
                Event::Init | Event::InitDone => {}
            }
            if u32::try_from(running.len())? == n_pods {
                break;
            }
        }
        Ok(Instant::now())
    };
    let counted: Result<Result<Instant>, _> = tokio::time::timeout(deadline, counting).await;
    counted.unwrap_or_else(|_| {
        Err(anyhow::anyhow!("only {} of {n_pods} pods run after {deadline:?}", running.len()))
    })
}

/// The fewest large nodes whose CPU and memory sums hold the mix.
pub fn lower_bound(n_pods: u32) -> u32 {
    lower_bound_of(MIX.each_ref().map(|share| n_pods * share.percent / 100))
}

/// CPUs that the mix asks for, rounded up.
pub fn cpus_asked(n_pods: u32) -> u32 {
    MIX.iter().map(|share| n_pods * share.percent / 100 * share.cpu_milli).sum::<u32>().div_ceil(1000)
}

/// The same for so many pods of each share of the mix, in its order.
pub fn lower_bound_of(pods: [u32; MIX.len()]) -> u32 {
    let sum = |request: fn(&Share) -> u32| {
        MIX.iter().zip(pods).map(|(share, pods)| pods * request(share)).sum::<u32>()
    };
    let by_cpu = sum(|share| share.cpu_milli).div_ceil(LARGE_CPU * 1000);
    let by_memory = sum(|share| share.memory_mib).div_ceil(LARGE_MEMORY_GIB * 1024);
    by_cpu.max(by_memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_bound_is_what_the_sums_of_the_mix_need() {
        assert_eq!((lower_bound(1000), lower_bound(5000)), (57, 282));
        assert_eq!((cpus_asked(1000), cpus_asked(5000)), (900, 4500));
    }

    #[test]
    fn the_mix_is_whole() {
        assert_eq!(MIX.iter().map(|share| share.percent).sum::<u32>(), 100);
    }
}
