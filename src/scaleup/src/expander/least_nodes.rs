//! The fewest new nodes. It ignores what they cost.

use super::{Offer, smallest};

/// The offers with the fewest nodes; those without any are dropped.
///
/// Source: expander/leastnodes/leastnodes.go.
#[must_use]
pub fn narrow(offers: &[Offer], left: &[usize]) -> Vec<usize> {
    let some: Vec<usize> = left.iter().copied().filter(|index| offers[*index].nodes != 0).collect();
    smallest(offers, &some, |offer| offer.nodes)
}
