//! State of nodes and groups before anything is decided: counts, templates, bounds, backoffs and memory.

pub mod backoff;
pub mod blocked_since;
pub mod bounds;
pub mod cluster_state;
pub mod daemons;
pub mod drivers;
pub mod foreign;
pub mod group_settings;
pub mod health;
pub mod learn;
pub mod memory;
mod owners;
pub mod template;
