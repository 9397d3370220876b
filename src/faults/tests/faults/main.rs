//! Random worlds with random faults, and damaged inputs: no invariant is violated, and nothing panics.

mod hostile;
mod incidents;
mod report;
mod seeds;
mod week;
