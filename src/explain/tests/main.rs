//! The tests of snapshots and of what their readers do with them, as one program.

mod replay;
mod replay_questions;
mod replay_replicas;
