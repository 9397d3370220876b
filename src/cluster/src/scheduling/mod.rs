//! Does this pod fit this node: one file a predicate, each named after kube-scheduler's plugin. It decides nothing else.

mod capacity;
mod class_rules;
pub mod coming_drivers;
pub mod constraints;
mod cost;
mod counter;
pub mod devices;
pub mod fit;
mod guards;
pub mod host_ports;
pub mod node_affinity;
pub mod node_name;
mod node_views;
pub mod own_rules;
pub mod pod_affinity;
pub mod refusal;
pub mod resources;
mod selector_index;
pub mod shares;
pub mod snapshot;
pub mod taints;
pub mod topology;
pub mod topology_spread;
pub mod volumes;

pub use coming_drivers::ComingDrivers;
pub use fit::Full;
pub use refusal::Refusal;
pub use shares::Shares;
pub use snapshot::{ClassIx, Mark, NodeIx, NodeView, PodRef, Presence, Snapshot, TemplateNode};
