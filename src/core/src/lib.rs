//! The room that decides: pure, synchronous and deterministic. No clock, no client, no kube, no logging.
#![deny(missing_docs)]

pub mod cel;
pub mod config;
pub mod go_values;
pub mod history;
pub mod known;
pub mod labels;
pub mod nodes;
pub mod plan;
pub mod pods;
pub mod printable;
pub mod quantity;
pub mod reason;
pub mod resources;
pub mod scheduling;
pub mod snapshot;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
pub mod window;
pub mod world;

pub use nodes::plan_nodes::{absorb, plan};
