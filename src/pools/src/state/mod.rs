//! State of nodes and groups before anything is decided: counts, templates, bounds and backoffs.

pub mod backoff;
pub mod blocked_since;
pub mod bounds;
pub mod cluster_state;
pub mod daemons;
pub mod drivers;
pub mod foreign;
pub mod group_settings;
pub mod health;
mod owners;
pub mod template;
