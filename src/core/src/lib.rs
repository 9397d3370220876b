//! The room that decides: pure, synchronous and deterministic. No clock, no client, no kube.

pub mod quantity;
pub mod window;
