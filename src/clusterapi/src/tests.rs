//! Tests of the provider against Cluster API's objects and controllers in memory.

mod bench;
mod calls;
mod growing;
mod removals;
mod server;
mod storm;
mod suite;
mod views;
mod world;
