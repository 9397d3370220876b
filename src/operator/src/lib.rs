//! The loops of the operator and what they act and report through: guard and steps, status, events, metrics, the live page.

pub mod actuate;
pub mod controllers;
pub mod options;
pub mod page;
pub mod report;
