//! SIMULATE: a cluster in memory on which the operator's own loops run in virtual time; it decides nothing for the operator.

pub mod run;

pub mod cluster;
pub mod ledger;
pub mod narrate;
pub mod replica;
pub mod scenario;
pub mod sky;
pub mod store;
pub mod trace;
pub mod typed_feed;
pub mod wire;
