//! Tests of the provider against groups in memory: every rule on sizes, and a storm of everything at once.

mod fake;
mod rules;
mod storm;
mod wire;
