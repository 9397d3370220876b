//! The smallest idle part of cpu and memory. It ignores prices.

use super::{Offer, real};

/// Difference in waste (mean idle part of cpu and memory) up to which two offers count as equal.
///
/// Packings of unlike shapes almost never waste exactly the same; within two parts in a hundred the number of nodes
/// matters more.
const TOLERANCE: f64 = 0.02;

/// The offers with the least waste.
///
/// Waste is the idle part of cpu plus that of memory, of the nodes' capacity.
/// Source: expander/waste/waste.go. Differs from upstream: near ties are ties.
#[must_use]
pub fn narrow(offers: &[Offer], left: &[usize]) -> Vec<usize> {
    let least = left.iter().map(|index| waste(&offers[*index])).fold(f64::INFINITY, f64::min);
    left.iter().copied().filter(|index| waste(&offers[*index]) <= least + TOLERANCE * 2.0).collect()
}

/// Idle part of cpu plus idle part of memory: 0 for a perfect fit, 2 for empty nodes.
#[must_use]
pub fn waste(offer: &Offer) -> f64 {
    let idle = |capacity: i64, requested: i64| {
        let all = real(capacity) * f64::from(offer.nodes);
        (all - real(requested)) / all
    };
    idle(offer.node.cpu_milli, offer.requested.cpu_milli)
        + idle(offer.node.memory_bytes, offer.requested.memory_bytes)
}
