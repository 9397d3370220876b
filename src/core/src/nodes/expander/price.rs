//! The lowest price for what is placed. Offers without a price are left out.

use super::{Offer, Surroundings, real};
use crate::config::Profile;
use crate::resources::Resources;

/// Price of a core for an hour, by which pods are valued. Source: cloudprovider/gce/pricing.go.
const CORE_HOUR: f64 = 0.033_174;
/// Price of a GiB of memory for an hour, likewise.
const GIB_HOUR: f64 = 0.004_446;
/// Unfitness of nodes with GPUs, which nobody wants for other pods. Source: expander/price/price.go.
const GPU_UNFITNESS: f64 = 1000.0;
/// Number of nodes over which unfitness loses its weight. Source: expander/price/price.go.
const UNFITNESS_FADE: f64 = 15.0;

/// The offers with the lowest score.
#[must_use]
pub fn narrow(offers: &[Offer], left: &[usize], around: Surroundings) -> Vec<usize> {
    let scored: Vec<(usize, f64)> =
        left.iter().filter_map(|index| score(&offers[*index], around).map(|score| (*index, score))).collect();
    let least = scored.iter().map(|(_, score)| *score).fold(f64::INFINITY, f64::min);
    scored.into_iter().filter(|(_, score)| *score <= least).map(|(index, _)| index).collect()
}

/// Price of the nodes over the worth of the pods, times how ill the node's size suits the cluster.
///
/// Source: expander/price/price.go, BestOptions. Differs from upstream under profile Headroom: prices alone decide,
/// because a price that the user states already says what suits.
fn score(offer: &Offer, around: Surroundings) -> Option<f64> {
    let nodes = f64::from(offer.nodes);
    let price = real(offer.price_per_hour_micro?) / 1e6;
    let stabilizer = worth(&Resources::new(500, 500 << 20));
    let ratio = (nodes * price + stabilizer) / (worth(&offer.requested) + stabilizer);
    Some(match around.profile {
        Profile::Headroom => ratio,
        Profile::ClusterAutoscaler => unfitness(offer, nodes, around.cluster_nodes) * ratio,
    })
}

fn unfitness(offer: &Offer, nodes: f64, cluster_nodes: u32) -> f64 {
    if offer.gpu {
        return GPU_UNFITNESS;
    }
    let (preferred, cores) = (preferred_cores(cluster_nodes), real(offer.node.cpu_milli) / 1000.0);
    let unfitness = (preferred / cores).max(cores / preferred);
    (unfitness - 1.0) * (1.0 - ((nodes - 1.0) / UNFITNESS_FADE).tanh()) + 1.0
}

/// Cores of the node that suits a cluster of this size. Source: expander/price/preferred.go.
fn preferred_cores(cluster_nodes: u32) -> f64 {
    match cluster_nodes {
        0..=2 => 1.0,
        3..=6 => 2.0,
        7..=20 => 4.0,
        21..=60 => 8.0,
        61..=200 => 16.0,
        _ => 32.0,
    }
}

/// What requests are worth in an hour.
fn worth(requests: &Resources) -> f64 {
    real(requests.cpu_milli) / 1000.0 * CORE_HOUR + real(requests.memory_bytes) / real(1 << 30) * GIB_HOUR
}
