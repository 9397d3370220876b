//! Which nodes are bought and which are given back, and why. It reads World, History and Config, and touches nothing.

pub mod plan_nodes;

pub mod backoff;
pub mod balance;
pub mod bounds;
pub mod cluster_state;
pub mod context;
pub mod demand;
pub mod expander;
pub mod explain;
pub mod increase;
pub mod learn;
pub mod limits;
pub mod packing;
pub mod placement;
pub mod preview;
pub mod scale_up;
pub mod template;
pub mod wake;
pub mod budgets;
pub mod candidates;
pub mod drainability;
pub mod foreign;
pub mod health;
pub mod memory;
pub mod relocation;
pub mod removal;
mod room;
pub mod scale_down;
pub mod unregistered;
pub mod utilization;
pub mod verdicts;
