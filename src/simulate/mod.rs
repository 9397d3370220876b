//! SIMULATE: a cluster in memory on which the operator's own loops run in virtual time; it decides nothing for the operator.

pub mod cluster;
pub mod ledger;
pub mod scenario;
pub mod store;
pub mod trace;
pub mod wire;
