//! Chance without a random generator: a hash of the offer, the same in every process. It draws nothing.

use super::Offer;

/// The one offer with the smallest hash of name, nodes and pods.
#[must_use]
pub fn narrow(offers: &[Offer], left: &[usize]) -> Vec<usize> {
    left.iter().copied().min_by_key(|index| (hash(&offers[*index]), *index)).into_iter().collect()
}

/// FNV-1a: short, and fixed for all time, unlike the standard library's hashers.
fn hash(offer: &Offer) -> u64 {
    let numbers = offer.nodes.to_le_bytes().into_iter().chain(offer.pods.to_le_bytes());
    offer
        .name
        .bytes()
        .chain(numbers)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
