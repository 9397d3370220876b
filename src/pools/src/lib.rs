//! What is known of pools and their groups before anything is decided, and the form of what is decided.
//!
//! `config` is the settings of users. `state` counts nodes and groups by state and knows the node that a group would make
//! next, with its `devices`; `interruption` finds the nodes that their cloud is about to take. `increase` is the life of a
//! purchase from its intent to its nodes. `plan` is what a plan returns, `verdicts` its
//! part about nodes, `wake` the time of the next one, and `quarantine` what is left out of one.

pub mod config;
pub mod devices;
pub mod increase;
pub mod interruption;
pub mod plan;
pub mod quarantine;
pub mod state;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod verdicts;
pub mod wake;
