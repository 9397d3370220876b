//! For development only: random worlds with random faults, the checker that holds every write of the operator against the
//! invariants, an AWS account in memory, and fuzz targets for everything that is read from outside.

pub mod account;
pub mod checker;
pub mod disturbance;
pub mod environment;
pub mod forgery;
pub mod fuzz_targets;
pub mod seams;
pub mod week;
pub mod worlds;
