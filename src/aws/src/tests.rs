//! Tests of the provider against groups in memory: every rule on sizes, and a storm of everything at once.

#![allow(clippy::disallowed_methods, reason = "tests measure their own time")]

mod call_table;
mod creation;
mod creation_storm;
mod fake;
mod queues;
mod roles;
mod rules;
mod storm;
mod suite;
mod wire;
