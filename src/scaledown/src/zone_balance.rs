//! Turns of equal candidates of a group over several zones: one of the fullest zone goes first, so that the cloud finds
//! nothing to even out by terminating nodes itself. It chooses no node.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::candidates::Candidate;
use crate::removal::Scene;
use headroom_cluster::world::NodeId;
use headroom_values::reason::Reason;

/// A zone of a group: the pool's index, the group, the zone.
type Zone<'a> = (usize, &'a str, &'a str);

/// Number of nodes that its zone has when a candidate's turn comes, by the candidate's node; candidates of groups of one zone are
/// left out. The greater number goes first. Nodes in `leaving` are taken for gone.
///
/// Source: EC2 Auto Scaling, AZRebalance: it acts on a group whose zones differ, without draining.
#[must_use]
pub(crate) fn turns(
    found: &[Candidate],
    scene: &Scene<'_>,
    leaving: &BTreeMap<Arc<str>, Reason>,
) -> BTreeMap<Arc<str>, usize> {
    let wide = |pool: usize, group: &str| {
        let state = scene.world.provider(&scene.config.pools[pool].name).and_then(|known| known.value());
        state.and_then(|state| state.groups.get(group)).is_some_and(|group| !group.zones.is_empty())
    };
    let mut candidates: Vec<&Candidate> = found.iter().filter(|one| wide(one.pool, &one.group)).collect();
    if candidates.is_empty() {
        return BTreeMap::new();
    }
    let mut sizes: BTreeMap<Zone<'_>, usize> = BTreeMap::new();
    for (id, name, _) in scene.world.digests() {
        if let Some(zone) = zone_of(id, scene).filter(|_| !leaving.contains_key(name)) {
            *sizes.entry(zone).or_default() += 1;
        }
    }
    candidates.sort_by(|a, b| a.victim.node.cmp(&b.victim.node));
    let mut turns = BTreeMap::new();
    for candidate in candidates {
        let zone: Zone<'_> = (candidate.pool, &candidate.group, &candidate.zone);
        if let Some(left) = sizes.get_mut(&zone) {
            turns.insert(candidate.victim.node.clone(), *left);
            *left = left.saturating_sub(1);
        }
    }
    turns
}

fn zone_of<'a>(id: NodeId, scene: &Scene<'a>) -> Option<Zone<'a>> {
    let member = scene.members.member(id)?;
    let node = scene.world.node(id).node.as_ref()?;
    Some((member.pool, &**member.group, node.zone()))
}
