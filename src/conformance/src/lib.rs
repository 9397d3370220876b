//! Golden vectors of the reference against the decisions of Headroom. For development only.

pub mod choice;
pub mod cluster;
pub mod dra;
pub mod estimator;
pub mod families;
pub mod files;
pub mod hpa;
pub mod likeness;
pub mod lines;
pub mod loops;
pub mod model;
pub mod outcome;
pub mod removals;
pub mod table;
