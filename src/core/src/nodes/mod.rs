//! Which nodes are bought and which are given back, and why. It reads World, History and Config, and touches nothing.

pub mod budgets;
pub mod drainability;
pub mod utilization;
