//! The operator's own loops on the simulated cluster: what users care about holds in every example and every storm.

mod examples;
mod hashes;
mod inspector;
mod storms;
