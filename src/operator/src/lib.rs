//! The loops of the operator and what they act through: guard and steps, and the live page. What they report
//! through is a package of its own.

pub mod actuate;
pub mod controllers;
pub mod options;
pub mod page;

pub use headroom_report as report;
