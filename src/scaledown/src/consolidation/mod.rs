//! Consolidation: nodes that cost less take over, and only when they are ready do the others leave. It buys and plans;
//! pods are moved and nodes removed by the ordinary life of a removal.

mod market;
mod price;
mod replacing;
mod search;

pub use replacing::{OPEN_MAX, Replacing};
pub use search::consider;
pub(super) use search::{Offer, Purchase, buy, costs_less, may_leave, packed, spares};
