//! SIMULATE: a cluster in memory on which the operator's own loops run in virtual time; it decides nothing for the operator.

pub mod run;
#[cfg(feature = "aws")]
pub mod swarm;

#[cfg(feature = "aws")]
pub mod account;
#[cfg(not(feature = "aws"))]
#[path = "no_account.rs"]
pub mod account;
pub mod changes;
pub mod chronicle;
pub mod cluster;
pub mod compare;
pub mod disturbance;
#[cfg(feature = "aws")]
pub mod doors;
pub mod forgery;
pub mod judge;
pub mod ledger;
pub mod measured;
pub mod narrate;
pub mod replica;
pub mod scenario;
pub mod sky;
pub mod standing;
pub mod store;
pub mod trace;
pub mod typed_feed;
pub mod wire;
#[cfg(test)]
mod workload_tests;
