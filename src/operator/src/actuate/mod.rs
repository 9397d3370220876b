//! Carrying out steps: every mutation passes the guard. This room has no choices left and never watches.

pub mod carriers;
pub mod deletion_costs;
pub mod gate;
pub mod guard;
pub mod layer;
pub mod nodes;
pub mod scale;
pub mod semaphores;
pub mod steps;
