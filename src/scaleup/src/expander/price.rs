//! The lowest price for what is placed. Offers without a price are left out.

use super::{Offer, real};
use headroom_values::resources::Resources;

/// Price of a core for an hour, by which pods are valued. Source: cloudprovider/gce/pricing.go.
const CORE_HOUR: f64 = 0.033_174;
/// Price of a GiB of memory for an hour, likewise.
const GIB_HOUR: f64 = 0.004_446;

/// The offers with the lowest score.
#[must_use]
pub fn narrow(offers: &[Offer], left: &[usize]) -> Vec<usize> {
    let scored: Vec<(usize, f64)> =
        left.iter().filter_map(|index| score(&offers[*index]).map(|score| (*index, score))).collect();
    let least = scored.iter().map(|(_, score)| *score).fold(f64::INFINITY, f64::min);
    scored.into_iter().filter(|(_, score)| *score <= least).map(|(index, _)| index).collect()
}

/// Price of the nodes over the worth of the pods.
///
/// Source: expander/price/price.go, BestOptions. Differs from upstream: prices alone decide and not how well a node's size
/// suits the cluster, because a price that the user states already says what suits.
fn score(offer: &Offer) -> Option<f64> {
    let nodes = f64::from(offer.nodes);
    let price = real(offer.price_per_hour_micro?) / 1e6;
    let stabilizer = worth(&Resources::new(500, 500 << 20));
    Some((nodes * price + stabilizer) / (worth(&offer.requested) + stabilizer))
}

/// Returns the worth of requests for an hour, in units of the currency.
fn worth(requests: &Resources) -> f64 {
    real(requests.cpu_milli) / 1000.0 * CORE_HOUR + real(requests.memory_bytes) / real(1 << 30) * GIB_HOUR
}
