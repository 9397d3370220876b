//! The operator's own loops on the simulated cluster: what users care about holds in every example and every storm.

mod consolidation;
mod examples;
mod faults;
mod hashes;
#[cfg(feature = "failpoints")]
mod incidents;
mod inspector;
mod library;
mod protocol;
mod storms;
mod workloads;
