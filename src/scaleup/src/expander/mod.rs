//! Choice of one offer among several: a chain of expanders, each narrowing. It counts nothing itself.

pub mod consultation;
pub mod least_nodes;
pub mod least_waste;
pub mod most_pods;
pub mod price;
pub mod priority;
pub mod random;

use std::sync::Arc;

use headroom_pools::config::Expander;
use headroom_values::reason::Reason;
use headroom_values::resources::Resources;

/// Offer of one pool: so many new nodes for so many pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The pool (or group), unique among offers; the last tie is broken by it.
    pub name: Arc<str>,
    /// New nodes.
    pub nodes: u32,
    /// Pods that they take.
    pub pods: u32,
    /// Capacity of one node.
    pub node: Resources,
    /// The sum of the requests of the pods they take.
    pub requested: Resources,
    /// The pool's priority.
    pub priority: i32,
    /// Price of a node in millionths per hour, if known.
    pub price_per_hour_micro: Option<i64>,
    /// True if a limit on nodes left some pods out that would have fit.
    pub limited: bool,
}

/// The index of the best offer, `None` when there is none that the chain leaves.
///
/// Offers without nodes or pods are left out. Differs from upstream: an expander that would leave none has no say
/// (`price` where no offer has one), because pods must not wait for a number; and what the chain leaves is narrowed to
/// the fewest nodes before the name decides, because each node costs a kubelet and its DaemonSets.
///
/// Expander `Grpc` leaves all: [`choose_asking`] is the one that asks.
#[must_use]
pub fn choose(offers: &[Offer], chain: &[Expander]) -> Option<usize> {
    choose_asking(offers, chain, |left| Reply::Keep(left.to_vec())).unwrap_or(None)
}

/// Answer of expander `Grpc`, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It leaves these.
    Keep(Vec<usize>),
    /// None of these is chosen in this plan.
    Wait(Held),
}

/// Offers of which none is chosen in this plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Indexes of the offers.
    pub offers: Vec<usize>,
    /// Reason why none of them is chosen.
    pub reason: Reason,
}

/// As [`choose`], with `ask` in the place of expander `Grpc`. It is asked where two or more offers are left.
///
/// # Errors
/// The offers that `ask` lets wait.
pub fn choose_asking(
    offers: &[Offer],
    chain: &[Expander],
    mut ask: impl FnMut(&[usize]) -> Reply,
) -> Result<Option<usize>, Held> {
    let mut left: Vec<usize> =
        (0..offers.len()).filter(|index| offers[*index].nodes != 0 && offers[*index].pods != 0).collect();
    for expander in chain {
        let narrowed = match expander {
            // Source: expander/factory/chain.go: a chain ends at one option.
            Expander::Grpc if left.len() < 2 => continue,
            Expander::Grpc => match ask(&left) {
                Reply::Keep(kept) => kept,
                Reply::Wait(held) => return Err(held),
            },
            _ => narrow(*expander, offers, &left),
        };
        if !narrowed.is_empty() {
            left = narrowed;
        }
    }
    Ok(least_nodes::narrow(offers, &left).into_iter().min_by(|a, b| offers[*a].name.cmp(&offers[*b].name)))
}

/// The offers with the lowest price for what they take, among those that no limit cut short; all where no price is known.
#[must_use]
pub fn cheapest(offers: &[Offer]) -> Vec<usize> {
    let all: Vec<usize> = (0..offers.len()).collect();
    let priced = price::narrow(offers, &comparable(offers, &all));
    if priced.is_empty() { all } else { priced }
}

/// The offers that one expander leaves.
#[must_use]
pub fn narrow(expander: Expander, offers: &[Offer], left: &[usize]) -> Vec<usize> {
    match expander {
        Expander::LeastWaste => least_waste::narrow(offers, &comparable(offers, left)),
        Expander::LeastNodes => least_nodes::narrow(offers, &comparable(offers, left)),
        Expander::MostPods => most_pods::narrow(offers, left),
        Expander::Priority => priority::narrow(offers, left),
        Expander::Price => price::narrow(offers, left),
        Expander::Random => random::narrow(offers, left),
        Expander::Grpc => left.to_vec(),
    }
}

/// Those of `left` that no limit cut short, if one of them helps at least as many pods as any that was cut.
///
/// Differs from upstream: an offer that could serve only the pods that suit it best looks better than it is.
fn comparable(offers: &[Offer], left: &[usize]) -> Vec<usize> {
    let whole: Vec<usize> = left.iter().copied().filter(|index| !offers[*index].limited).collect();
    let most = |indexes: &[usize]| indexes.iter().map(|index| offers[*index].pods).max();
    if most(left) <= most(&whole) { whole } else { left.to_vec() }
}

/// Those of `left` with the smallest key.
fn smallest<K: Ord>(offers: &[Offer], left: &[usize], key: impl Fn(&Offer) -> K) -> Vec<usize> {
    let best = left.iter().map(|index| key(&offers[*index])).min();
    left.iter().copied().filter(|index| Some(key(&offers[*index])) == best).collect()
}

/// An amount as a fraction's part; exact up to 2^53.
#[allow(clippy::cast_precision_loss)]
fn real(amount: i64) -> f64 {
    amount as f64
}
