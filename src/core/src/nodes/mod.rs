//! Which nodes are bought and which are given back, and why. It reads World, History and Config, and touches nothing.

pub mod plan_nodes;

pub mod backoff;
pub mod balance;
pub mod bounds;
pub mod budgets;
pub mod candidates;
pub mod cluster_state;
pub mod context;
pub mod demand;
pub mod drainability;
pub mod estimator;
pub mod expander;
pub mod explain;
pub mod foreign;
pub mod health;
pub mod increase;
pub mod learn;
pub mod limits;
pub mod memory;
pub mod packing;
pub mod patterns;
pub mod placement;
pub mod preview;
pub mod registry;
pub mod relocation;
pub mod removal;
mod room;
pub mod scale_down;
pub mod scale_up;
pub mod similarity;
pub mod template;
mod trial;
pub mod unregistered;
pub mod utilization;
pub mod verdicts;
pub mod wake;
