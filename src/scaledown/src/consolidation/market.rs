//! Market on which a machine is bought: spot, where the cloud may take it back at any time, or on demand.

use headroom_pools::state::cluster_state::ClusterState;
use headroom_values::labels::Labels;

/// Labels by which clouds and Karpenter mark spot nodes, with the value that says so.
const SPOT: [(&str, &str); 5] = [
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
];

/// True if a node of this group and with these labels is known to be a spot machine. One of which nobody says so counts as bought on demand.
pub(super) fn is_spot(cluster: &ClusterState<'_>, (pool, group): (&str, &str), labels: &Labels) -> bool {
    let state = cluster.pools.get(pool).and_then(|pool| pool.groups.get(group)?.state);
    state.is_some_and(|state| state.spot) || SPOT.iter().any(|(key, value)| labels.get(key) == Some(*value))
}
