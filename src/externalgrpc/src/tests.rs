//! Rows of the failure table over a scripted server: what is bought, what is deleted, what core reads.

mod expander;
mod faults;
mod server;
mod suite;
mod vectors;
mod views;
mod writes;

pub(crate) use server::{Bench, Fault};
