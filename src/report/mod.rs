//! The room that tells: status from memory and back, events, metrics. It decides nothing, and writes nothing but status
//! and events.

mod conditions;
pub mod fit;
pub mod metrics;
pub mod parse;
pub mod render;
pub mod write;
pub use metrics::Metrics;
pub use write::{KubeSink, StatusSink, WriteError};
#[cfg(test)]
mod round_trip_tests;
mod words;

pub use fit::fit;
pub use parse::{parse, status_of};
pub use render::{Acceptance, GroupView, PoolView, TemplateSource, render};
