//! How each autoscaler is started for a comparison: the settings that make them alike; it measures nothing.

use anyhow::Result;
use serde_json::json;

use super::Peer;
use super::catalogue::Shape;
use crate::cluster_autoscaler::ClusterAutoscaler;
use crate::control_plane::ControlPlane;
use crate::fixtures::cluster_policy;
use crate::karpenter::{self, Karpenter};
use crate::operator::Operator;
use crate::{binaries, shrink};

/// Flags of Cluster Autoscaler beside those that place it.
const FLAGS: [&str; 10] = [
    "--expander=least-waste",
    // It plans at once when a pod waits, and not only each scan interval.
    "--frequent-loops-enabled=true",
    "--scale-down-unneeded-time=30s",
    "--scale-down-delay-after-add=0s",
    "--scale-down-delay-after-failure=0s",
    "--max-scale-down-parallelism=1000",
    "--max-drain-parallelism=300",
    "--skip-nodes-with-system-pods=false",
    // Karpenter's defaults.
    "--kube-client-qps=200",
    "--kube-client-burst=300",
];

/// The settings of an autoscaler, for the reader of the figures: a node goes 30 s after it is not needed, and nothing else holds it.
pub fn settings_of(peer: Peer) -> String {
    match peer {
        Peer::Floor => "half as large again as the lower bound of nodes of 16 CPUs".to_owned(),
        Peer::Headroom => "one NodePool a shape with its price; `scaleDown`: `policy: WhenCheaper`, `unneededFor: 30s`, \
             `consolidateAfter: 30s`, no delays and no cooldown; `nodes.removals`: `maxParallel: 1000`, `maxParallelDrains: 300`; \
             `MIMALLOC_ALLOW_THP=0` as in the chart; with leader election"
            .to_owned(),
        Peer::Karpenter => "one NodePool with both shapes and their prices; `consolidationPolicy: WhenEmptyOrUnderutilized`, \
             `consolidateAfter: 30s`, budget `100%`; `FEATURE_GATES=CapacityBuffer=true`; without leader election"
            .to_owned(),
        Peer::ClusterAutoscaler => format!(
            "one group a shape of its KWOK provider, which has no prices and whose own client is built with 500 calls a second \
             instead of 5; `{}`; without leader election",
            FLAGS.join(" ")
        ),
    }
}

/// Headroom with these further flags.
pub async fn headroom(cluster: &ControlPlane, shapes: &[Shape], flags: &[&str]) -> Result<Operator> {
    let mut operator =
        cluster.operator().binary(binaries::release_operator()?).env("MIMALLOC_ALLOW_THP", "0");
    for flag in flags {
        operator = operator.flag(flag);
    }
    let operator = operator.start()?;
    operator.ready().await?;
    let removals = json!({"maxParallel": 1000, "maxParallelDrains": 300});
    cluster.apply(cluster_policy(json!({"nodes": {"removals": removals}}))).await?;
    for shape in shapes {
        let pool = shape.pool().quick_scale_down("30s");
        cluster.apply(shrink::when_cheaper(pool, "30s")).await?;
    }
    Ok(operator)
}

/// Karpenter.
pub async fn karpenter(cluster: &ControlPlane, shapes: &[Shape]) -> Result<Karpenter> {
    let types: Vec<_> = shapes.iter().map(Shape::instance_type).collect();
    let karpenter = Karpenter::start(cluster, &types).await?;
    karpenter.serve(cluster, karpenter::node_pool_of_all_types("general")).await?;
    Ok(karpenter)
}

pub(super) async fn cluster_autoscaler(
    cluster: &ControlPlane,
    shapes: &[Shape],
) -> Result<ClusterAutoscaler> {
    let groups: Vec<_> = shapes.iter().map(Shape::group).collect();
    ClusterAutoscaler::start(cluster, &groups, &FLAGS).await
}
