//! Decides about nodes: pure, synchronous and deterministic. No clock, no client, no kube, no logging.
//!
//! The order of one plan (`plan_nodes`):
//!
//! 1. `removal`: each open removal gets its next step.
//! 2. `state`: nodes and groups are counted by state; templates are learned from live nodes (`learn`).
//! 3. `scale_up`: minimum sizes, then demand: pods are placed on nodes that exist or are on their way, and for the rest
//!    one offer after the other is packed (`packing`), chosen (`scale_up::expander`) and journalled.
//! 4. `requests`, `buffers`: room that is asked for and room that is kept free, after all pods.
//! 5. `explain`, `preview`: why pods got no node, and what Preview pools would do.
//! 6. `scale_down`: which nodes go, from candidates to those that leave now; then `rotation` and `consolidation`, whose
//!    replacements are bought first.
//!
//! Its parts are packages of their own and appear here under their own names: the values (`headroom-values`), the cluster,
//! its memory and the scheduler's rules (`headroom-cluster`), the replicas of workloads (`headroom-pods`), pools and groups
//! (`headroom-pools`), what is bought (`headroom-scaleup`) and what goes (`headroom-scaledown`).

mod learn;
pub mod memory;
pub mod nodes;
pub mod plan_nodes;
pub mod snapshot;

pub use headroom_cluster::{history, question, scale_in, scheduling, similarity, world};
pub use headroom_pods as pods;
#[cfg(any(test, feature = "testing"))]
pub use headroom_pools::testing;
pub use headroom_pools::{config, plan, verdicts};
pub use headroom_values::{
    deletion_cost, go_values, known, labels, mixing, printable, quantity, reason, resources, text, time,
    window,
};

pub use plan_nodes::{absorb, plan};
