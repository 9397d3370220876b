//! The operator's own loops on the simulated cluster: what users care about holds in every example and every storm.

mod buffers;
mod bursts;
mod consolidation;
mod examples;
mod fixtures;
mod inspector;
mod journals;
mod library;
mod neighbours;
mod numbers;
mod protocol;
mod refused;
mod reported;
mod shards;
mod storms;
mod surge_drain;
mod to_zero;
mod workloads;
