//! Which nodes are bought and which are given back, and why. It reads World, History and Config, and touches nothing.

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
