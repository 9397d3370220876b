//! Golden vectors of the reference against the decisions of Headroom. For development only.

mod choice;
mod cluster;
mod dra;
mod estimator;
mod families;
pub mod files;
mod hpa;
mod likeness;
pub mod lines;
mod loops;
mod model;
pub mod outcome;
mod removals;
pub mod table;
