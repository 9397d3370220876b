//! What a new node of each group says to each group of equal pods, and why not. It places nothing for good.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::status::{RefusedPods, Rejection, Skip};
use super::templates::Group;
use crate::nodes::context::Context;
use crate::resources::{Resources, Shortfall};
use crate::scheduling::{ClassIx, PodRef, Refusal};
use crate::world::PodId;

/// Equal pods that wait for a node.
pub struct PodGroup {
    /// Their class.
    pub class: ClassIx,
    /// The pods.
    pub ids: Vec<PodId>,
    /// The same, as the snapshot places them.
    pub pods: Vec<PodRef>,
}

/// What a new node of the group says to the first pod of each group of pods; `None` for yes.
pub fn try_group(ctx: &mut Context<'_>, group: &Group, pods: &[PodGroup]) -> Vec<Option<Rejection>> {
    let Some(template) = &group.template else { return Vec::new() };
    let mark = ctx.snapshot.checkpoint();
    let trial = ctx.snapshot.add_node(template, "template-trial".into());
    let mut free = template.node.allocatable.clone();
    free.subtract(&template.daemon_requested);
    let verdicts = pods
        .iter()
        .map(|pods| {
            let refusal = ctx.snapshot.check(pods.class, trial).err()?;
            let short = match &refusal {
                Refusal::Resources(_) => shortfalls(&ctx.snapshot.class(pods.class).requests, &free),
                _ => Vec::new(),
            };
            Some(Rejection::Refused(refusal, short))
        })
        .collect();
    ctx.snapshot.rollback(mark);
    verdicts
}

/// Every resource that is short, not only the first.
fn shortfalls(asked: &Resources, free: &Resources) -> Vec<Shortfall> {
    let mut asked = asked.clone();
    let mut all = Vec::new();
    while let Some(short) = asked.shortfall(free) {
        match &*short.resource {
            "pods" => asked.pods = 0,
            "cpu" => asked.cpu_milli = 0,
            "memory" => asked.memory_bytes = 0,
            "ephemeral-storage" => asked.ephemeral_bytes = 0,
            _ => asked.set_extended(short.resource.clone(), 0),
        }
        all.push(short);
    }
    all
}

/// Each group of pods with the groups that take it, and why the others do not.
pub fn takers(
    ctx: &mut Context<'_>,
    groups: &[Group],
    verdicts: &BTreeMap<usize, Vec<Option<Rejection>>>,
    skipped: &BTreeMap<Arc<str>, Skip>,
    pods: &[PodGroup],
) -> Vec<(RefusedPods, Vec<Arc<str>>)> {
    let mut tried: BTreeMap<Arc<str>, Vec<Option<Rejection>>> = BTreeMap::new();
    if ctx.config.cluster.upstream.simulate_skipped {
        for group in groups.iter().filter(|group| skipped.contains_key(&group.id)) {
            tried.insert(group.id.clone(), try_group(ctx, group, pods));
        }
    }
    let mut all = Vec::new();
    for (index, group) in pods.iter().enumerate() {
        let mut refused =
            RefusedPods { pods: group.ids.clone(), rejected: BTreeMap::new(), skipped: skipped.clone() };
        let mut takers = Vec::new();
        for (valid, verdicts) in verdicts {
            match verdicts.get(index) {
                Some(Some(why)) => {
                    refused.rejected.insert(groups[*valid].id.clone(), why.clone());
                }
                Some(None) => takers.push(groups[*valid].id.clone()),
                None => {}
            }
        }
        for (id, verdicts) in &tried {
            if let Some(Some(why)) = verdicts.get(index) {
                refused.skipped.remove(id);
                refused.rejected.insert(id.clone(), why.clone());
            }
        }
        all.push((refused, takers));
    }
    all
}
