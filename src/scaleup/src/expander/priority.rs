//! The highest pool priority. It reads nothing else.

use std::cmp::Reverse;

use super::{Offer, smallest};

/// The offers of the pools with the highest priority.
#[must_use]
pub fn narrow(offers: &[Offer], left: &[usize]) -> Vec<usize> {
    smallest(offers, left, |offer| Reverse(offer.priority))
}
