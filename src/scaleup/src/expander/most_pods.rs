//! The most pods helped. It ignores how many nodes that takes.

use std::cmp::Reverse;

use super::{Offer, smallest};

/// The offers that help the most pods.
///
/// Source: expander/mostpods/mostpods.go.
#[must_use]
pub fn narrow(offers: &[Offer], left: &[usize]) -> Vec<usize> {
    smallest(offers, left, |offer| Reverse(offer.pods))
}
