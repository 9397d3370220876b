//! The room that decides: pure, synchronous and deterministic. No clock, no client, no kube, no logging.
#![deny(missing_docs)]

pub mod config;
pub mod history;
pub mod known;
pub mod labels;
pub mod plan;
pub mod quantity;
pub mod reason;
pub mod resources;
pub mod scheduling;
pub mod time;
pub mod window;
pub mod world;
