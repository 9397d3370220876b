//! Observation of the cluster: slim wire objects become deltas and policy changes, and metrics the load. The only
//! package that watches; it decides nothing and writes nothing. `host` is time, tasks and randomness, for everything
//! above.

mod bookmarks;
pub mod convert;
pub mod decoder;
pub mod feed;
pub mod host;
pub mod metrics;
mod node_claims;
mod object;
mod optional;
mod pace;
mod partial_object;
pub mod policies;
pub mod queue;
pub mod slim;
mod watch;
pub mod watched;
mod wire;
#[cfg(test)]
mod wire_tests;
pub mod workloads;

pub use feed::{Feed, KubeFeed, Port, WatchHealth};
pub use node_claims::NodeClaims;
pub use partial_object::PartialObject;
pub use policies::{Policies, PolicyChange, PolicyObject};
pub use watched::{Watch, Watched};
pub use wire::is_watch;
pub use workloads::{Edited, HpaObject, ScaleKind, ScaleSeen, Selected, Workloads, Writer};
