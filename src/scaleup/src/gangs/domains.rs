//! Gangs that must run in one domain of a topology key: which domain each of them gets. It buys nothing: what a trial
//! bought is taken back.
//!
//! Once the domain of a gang is chosen, its pods have it in their node selector for the rest of the plan. A label that the
//! cloud chooses for each new node is on no node to come, so no domain of it is bought.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::units::Unit;
use super::{TRIALS_MAX, begin, is_of, trial};
use crate::context::{Context, Purchases};
use crate::demand::{Demand, PodGroup};
use crate::{limits, serve};
use headroom_cluster::scheduling::node_affinity::LabelledNode;
use headroom_cluster::scheduling::{ClassIx, NodeIx, PodRef, Snapshot};
use headroom_cluster::world::World;
use headroom_cluster::world::pod::PodClass;
use headroom_pools::config::Mode;
use headroom_values::labels::ObjectKey;
use headroom_values::reason::Reason;

/// Most domains that are tried for one gang: those with the most nodes that take its pods.
const DOMAINS_MAX: usize = 16;

/// A class whose node selector names a domain, and the class that it was made of.
pub(super) type Narrowed = (ClassIx, ClassIx);

/// The key of which all pods of a class's gang must share one value.
///
/// Source: scheduling.k8s.io PodGroup, `spec.schedulingConstraints.topology[].key`.
pub(super) fn key_of<'w>(world: &'w World, class: &PodClass) -> Option<&'w Arc<str>> {
    let gang = class.gang.as_ref().filter(|gang| world.gangs().served.contains(&gang.kind))?;
    let key = (gang.kind, ObjectKey::new(class.namespace.clone(), &*gang.name));
    world.gangs().objects.get(&key)?.topology_key.as_ref()
}

/// Chooses a domain for each gang that must run in one: the most important and oldest first, each beside those before it, and
/// narrows its pods to that. A gang without any gets the reason.
pub(super) fn narrow(ctx: &mut Context<'_>, units: &mut [Unit], base: &Purchases) {
    if units.iter().all(|unit| unit.topology_key.is_none()) {
        return;
    }
    let mut all = ctx.demand.clone();
    let asked = ctx.expander.clone();
    ctx.expander.is_muted = true;
    begin(ctx, Demand::default(), base);
    let mut trials = 0;
    for unit in units.iter_mut().filter(|unit| unit.barrier().is_none()) {
        let Some(key) = unit.topology_key.clone() else { continue };
        let groups: Vec<PodGroup> =
            all.groups.iter().filter(|group| is_of(ctx, group, unit)).cloned().collect();
        if TRIALS_MAX <= trials {
            unit.verdict.reason = Some(Reason::WorkLimitReached);
            continue;
        }
        let domains = match bound_domain(ctx, unit, &key) {
            Some(domain) => vec![domain],
            None => domains(ctx, &groups, &key, Mode::Apply),
        };
        trials += domains.len();
        let need = unit.need().saturating_sub(unit.nominated_count);
        let Some(narrowed) = best(ctx, &groups, &key, &domains, (need, Mode::Apply)) else {
            unit.verdict.reason = Some(Reason::GangDoesNotFit);
            continue;
        };
        trial::occupy(ctx, with_classes(&groups, &narrowed), need);
        all.groups.iter_mut().for_each(|group| group.class = narrowed_of(&narrowed, group.class));
        unit.narrowed = narrowed;
    }
    ctx.expander = asked;
    begin(ctx, all, base);
}

/// The groups of a gang that Apply pools left, narrowed to the domain that suits it best with nodes of Preview pools.
pub(super) fn for_preview(ctx: &mut Context<'_>, groups: Vec<PodGroup>, need: u32) -> Vec<PodGroup> {
    let key = groups.first().and_then(|group| key_of(ctx.world, ctx.snapshot.class(group.class)).cloned());
    let Some(key) = key else { return groups };
    let domains = domains(ctx, &groups, &key, Mode::Preview);
    let narrowed = best(ctx, &groups, &key, &domains, (need, Mode::Preview));
    narrowed.map(|narrowed| with_classes(&groups, &narrowed)).unwrap_or_default()
}

/// The class before it was narrowed.
pub(super) fn original_of(narrowed: &[Narrowed], class: ClassIx) -> ClassIx {
    narrowed.iter().find(|(to, _)| *to == class).map_or(class, |(_, from)| *from)
}

fn narrowed_of(narrowed: &[Narrowed], class: ClassIx) -> ClassIx {
    narrowed.iter().find(|(_, from)| *from == class).map_or(class, |(to, _)| *to)
}

fn with_classes(groups: &[PodGroup], narrowed: &[Narrowed]) -> Vec<PodGroup> {
    let of = |group: &PodGroup| PodGroup { class: narrowed_of(narrowed, group.class), ..group.clone() };
    groups.iter().map(of).collect()
}

/// The domain in which the most pods have room, first one with room for all that are needed; of equal ones that with the
/// fewest new nodes, then the first.
fn best(
    ctx: &mut Context<'_>,
    groups: &[PodGroup],
    key: &Arc<str>,
    domains: &[Arc<str>],
    (need, mode): (u32, Mode),
) -> Option<Vec<Narrowed>> {
    let mut best = None;
    for domain in domains {
        let Some(narrowed) = narrowed(ctx, groups, key, domain) else { continue };
        if domains.len() == 1 {
            return Some(narrowed);
        }
        let (fit, bought) = trial::try_out(ctx, with_classes(groups, &narrowed), mode);
        let worth = (Reverse(fit.min(need)), Reverse(fit), bought);
        if best.as_ref().is_none_or(|(other, _)| worth < *other) {
            best = Some((worth, narrowed));
        }
    }
    best.map(|(_, narrowed)| narrowed)
}

/// The classes of these groups with the domain in their node selector; `None` if one selects another domain itself.
fn narrowed(
    ctx: &mut Context<'_>,
    groups: &[PodGroup],
    key: &Arc<str>,
    domain: &Arc<str>,
) -> Option<Vec<Narrowed>> {
    let classes: BTreeSet<ClassIx> = groups.iter().map(|group| group.class).collect();
    classes.into_iter().map(|class| Some((within(&mut ctx.snapshot, class, key, domain)?, class))).collect()
}

/// A class whose node selector names a domain besides; `None` if it names another one.
fn within(snapshot: &mut Snapshot<'_>, class: ClassIx, key: &Arc<str>, domain: &str) -> Option<ClassIx> {
    let mut narrowed = (**snapshot.class(class)).clone();
    if narrowed.node_selector.get(key).is_some_and(|other| *other != *domain) {
        return None;
    }
    narrowed.node_selector.insert(key.clone(), domain);
    Some(snapshot.class_ix(&Arc::new(narrowed)))
}

/// The class by which a pod that leaves a node looks for another one: the pods of its gang must stay in one domain.
#[must_use]
pub fn class_to_move(snapshot: &mut Snapshot<'_>, pod: PodRef, from: NodeIx) -> ClassIx {
    let class = snapshot.class_of(pod);
    let Some(key) = key_of(snapshot.world(), snapshot.class(class)).cloned() else { return class };
    let Some(domain) = snapshot.node(from).label(&key).map(str::to_owned) else { return class };
    within(snapshot, class, &key, &domain).unwrap_or(class)
}

/// The domain in which pods of the gang run; of several the first.
fn bound_domain(ctx: &Context<'_>, unit: &Unit, key: &str) -> Option<Arc<str>> {
    let mut found = BTreeSet::new();
    for (class_id, class) in ctx.world.classes().iter() {
        if class.namespace != unit.verdict.namespace || class.gang.as_ref() != Some(&unit.verdict.gang) {
            continue;
        }
        for pod in ctx.world.bound_pods(class_id) {
            let entry = ctx.world.pod(*pod);
            let node = entry.node.and_then(|id| ctx.world.node(id).node.as_ref());
            let runs = !entry.pod.phase.finished() && entry.pod.deletion_at.is_none();
            found.extend(node.filter(|_| runs).and_then(|node| node.labels.get(key)).map(Arc::from));
        }
    }
    found.pop_first()
}

/// The domains of nodes that take a pod of these groups, and of nodes that can be bought: those that can grow first, then
/// those with the most such nodes, then by name.
fn domains(ctx: &mut Context<'_>, groups: &[PodGroup], key: &str, mode: Mode) -> Vec<Arc<str>> {
    let Some(class) = groups.first().map(|group| group.class) else { return Vec::new() };
    let mut counts: BTreeMap<Arc<str>, (bool, u32)> = BTreeMap::new();
    let pools = ctx.config.pools.iter().filter(|pool| pool.mode == mode);
    for pool in pools.map(|pool| pool.name.clone()).collect::<Vec<_>>() {
        let Some(state) = ctx.cluster.pools.get(&pool) else { continue };
        if limits::pool_barrier(state, ctx.next.pools.get(&pool)).is_some() {
            continue;
        }
        for group in serve::growables(ctx, &pool) {
            if let Some(domain) = group.template.node.labels.get(key) {
                counts.entry(domain.into()).or_default().0 = true;
            }
        }
    }
    let nodes: Vec<(NodeIx, Arc<str>)> =
        (ctx.snapshot.nodes()).filter_map(|(node, view)| Some((node, Arc::from(view.label(key)?)))).collect();
    for (node, domain) in nodes {
        if ctx.snapshot.fits(class, node) {
            counts.entry(domain).or_default().1 += 1;
        }
    }
    let mut order: Vec<_> = counts.into_iter().map(|(domain, count)| (Reverse(count), domain)).collect();
    order.sort();
    order.into_iter().take(DOMAINS_MAX).map(|(_, domain)| domain).collect()
}
