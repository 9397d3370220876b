//! Decides about nodes: pure, synchronous and deterministic. No clock, no client, no kube, no logging.
//!
//! Its parts that know nothing of pools are packages of their own and appear here under their own names: the values
//! (`headroom-values`), the cluster, its memory and the scheduler's rules (`headroom-cluster`) and the replicas of workloads
//! (`headroom-pods`).

pub mod config;
pub mod nodes;
pub mod plan;
pub mod snapshot;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use headroom_cluster::{history, question, scale_in, scheduling, world};
pub use headroom_pods as pods;
pub use headroom_values::{
    deletion_cost, go_values, known, labels, printable, quantity, reason, resources, text, time, window,
};

pub use nodes::plan_nodes::{absorb, plan};
