//! Holds back pods whose nodes would be the first of a domain, where these take more places of a spread away than they
//! give. It buys through `serve` only.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::context::{Context, Purchases};
use crate::demand::Demand;
use crate::serve;
use crate::spare;
use headroom_cluster::scheduling::node_affinity::LabelledNode;
use headroom_cluster::scheduling::{ClassIx, NodeIx};
use headroom_cluster::world::node::HOSTNAME_LABEL;
use headroom_values::reason::Reason;

/// A node label and its value.
type Domain = (Arc<str>, Arc<str>);

/// Most times that more pods are held back from one domain.
const ROUNDS_MAX: usize = 4;

/// Buys no node of a new domain if by that more pods get a place, those of a higher priority first, or as many on fewer new
/// nodes; true if so. `base` is what was bought before this demand was served.
///
/// An empty domain lowers the least count of every spread to 0. Pods that wait for nodes of another domain are then refused
/// there, as long as they are not bound. Pods that are left without a node by it are bought for once those others run.
///
/// Differs from upstream, which buys in one group a loop and meets this in the next one.
pub(crate) fn hold_back(ctx: &mut Context<'_>, wanted: &Demand, base: &Purchases) -> bool {
    if ctx.snapshot.shares.any_cut() {
        return false;
    }
    for domain in new_domains(ctx) {
        let (purchases, before) = (ctx.purchases.clone(), worth(ctx));
        let consultation = ctx.expander.clone();
        let held = serve_without(ctx, &domain, wanted, base);
        spare::place_anew(ctx, wanted);
        // Nobody is asked about a trial, and it decides nothing where somebody would be.
        let asked = ctx.expander.waiting != consultation.waiting;
        if !asked && bought_in(ctx, &domain).is_empty() && worth(ctx) < before {
            for at in held {
                let group = &mut ctx.demand.groups[at];
                if !group.pods.is_empty() {
                    let skipped = group.set_aside(0, Reason::WaitsForSpreadPods, ctx.world);
                    ctx.demand.skipped.push(skipped);
                }
            }
            return true;
        }
        (ctx.purchases, ctx.expander) = (purchases, consultation);
        spare::place_anew(ctx, wanted);
    }
    false
}

/// Serves the demand anew without the pods that stand on bought nodes of the domain; returns the groups of those pods.
fn serve_without(
    ctx: &mut Context<'_>,
    domain: &Domain,
    wanted: &Demand,
    base: &Purchases,
) -> BTreeSet<usize> {
    let (mut fewer, mut held) = (wanted.clone(), BTreeSet::new());
    for _ in 0..ROUNDS_MAX {
        let nodes = bought_in(ctx, domain);
        if nodes.is_empty() || !set_aside(ctx, &mut fewer, &nodes, &mut held) {
            break;
        }
        ctx.purchases = base.clone();
        serve::serve_rounds(ctx, &fewer);
    }
    held
}

/// Pods without a place by priority, the highest first, and then the bought nodes: less is better.
fn worth(ctx: &Context<'_>) -> (Vec<u32>, u32) {
    let mut by_priority: BTreeMap<Reverse<i32>, u32> = BTreeMap::new();
    for group in &ctx.demand.groups {
        *by_priority.entry(Reverse(group.priority)).or_insert(0) += group.unplaced();
    }
    (by_priority.into_values().collect(), ctx.purchased_total())
}

/// Domains of which this plan buys the first node; none unless pods that spread over domains of this kind have no place.
/// A node is always the first of its own name, so names are no such domains.
fn new_domains(ctx: &Context<'_>) -> BTreeSet<Domain> {
    let left = ctx.demand.groups.iter().filter(|group| !group.pods.is_empty());
    let keys: BTreeSet<Arc<str>> = left
        .flat_map(|group| &ctx.snapshot.class(group.class).topology_spread)
        .map(|spread| spread.topology_key.clone())
        .filter(|key| &**key != HOSTNAME_LABEL)
        .collect();
    let domains = |node: NodeIx| -> Vec<Domain> {
        let view = ctx.snapshot.node(node);
        keys.iter().filter_map(|key| Some((key.clone(), Arc::from(view.label(key)?)))).collect()
    };
    let bought: BTreeSet<NodeIx> =
        ctx.planned.iter().filter(|planned| planned.bought).map(|planned| planned.node).collect();
    let mut new: BTreeSet<Domain> = bought.iter().flat_map(|node| domains(*node)).collect();
    if new.is_empty() || ctx.demand.groups.len() < 2 {
        return BTreeSet::new();
    }
    for (node, _) in ctx.snapshot.nodes().filter(|(node, _)| !bought.contains(node)) {
        let known = domains(node);
        new.retain(|domain| !known.contains(domain));
    }
    new
}

/// Nodes of the domain that this plan buys.
fn bought_in(ctx: &Context<'_>, (key, value): &Domain) -> Vec<NodeIx> {
    let bought = ctx.planned.iter().filter(|planned| planned.bought).map(|planned| planned.node);
    bought.filter(|node| ctx.snapshot.node(*node).label(key) == Some(&**value)).collect()
}

/// Takes as many pods of each group out of the demand as stand on these nodes; false for none.
fn set_aside(ctx: &Context<'_>, demand: &mut Demand, nodes: &[NodeIx], held: &mut BTreeSet<usize>) -> bool {
    let mut standing: BTreeMap<ClassIx, usize> = BTreeMap::new();
    for pod in nodes.iter().flat_map(|node| ctx.snapshot.pods(*node)) {
        *standing.entry(ctx.snapshot.class_of(pod)).or_insert(0) += 1;
    }
    let mut any = false;
    for (at, group) in demand.groups.iter_mut().enumerate() {
        let Some(count) = standing.get_mut(&group.class).filter(|count| **count != 0) else { continue };
        let keep = group.pods.len().saturating_sub(*count);
        *count -= group.pods.len() - keep;
        any |= keep < group.pods.len();
        group.set_aside(keep, Reason::WaitsForSpreadPods, ctx.world);
        held.insert(at);
    }
    any
}
