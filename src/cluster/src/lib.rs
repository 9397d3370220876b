//! The cluster as the watches delivered it, what the operator remembers of it, and the scheduler's rules over it. Pure; it
//! decides nothing.

pub mod history;
pub mod question;
pub mod scale_in;
pub mod scheduling;
pub mod similarity;
pub mod world;
