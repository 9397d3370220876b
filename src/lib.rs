//! Headroom as a library: the rooms of the operator, in the order in which a decision passes through them.

pub mod actuate;
pub mod api;
pub mod cli;
pub mod controllers;
pub mod explain;
pub mod host;
pub mod metrics;
pub mod observe;
pub mod options;
pub mod page;
pub mod provider;
pub mod report;
pub mod simulate;
pub mod telemetry;
