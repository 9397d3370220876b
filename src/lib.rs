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

/// The allocator of every program made of this library. A quarter of a simulated day is spent in glibc's, and musl's, which the
/// static binary of the images would have, takes one lock for all threads (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
