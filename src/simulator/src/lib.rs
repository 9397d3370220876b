//! SIMULATE: a cluster in memory on which the operator's own loops run in virtual time; it decides nothing for the operator.

pub mod run;

pub mod changes;
pub mod cluster;
pub mod compare;
pub mod environment;
pub mod initial_state;
pub mod measured;
pub mod render;
pub mod replica;
pub mod run_record;
pub mod scenario;
pub mod simulated_cloud;
pub mod statistics;
pub mod store;
pub mod trace;
pub mod typed_feed;
pub mod wire;
#[cfg(test)]
mod workload_tests;
