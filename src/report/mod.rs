//! The room that tells: status from memory and back, events, metrics. It decides nothing, and writes nothing but status
//! and events.

mod conditions;
pub mod fit;
pub mod parse;
pub mod render;
#[cfg(test)]
mod round_trip_tests;
mod words;

pub use fit::fit;
pub use parse::{parse, parse_with_notes, readable_status, status_with_notes};
pub use render::{Acceptance, GroupView, PoolView, TemplateSource, render};
