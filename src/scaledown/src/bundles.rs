//! Intents that nodes which go now share: the journal is short, and many nodes may go at once. It picks no node.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::candidates::Candidate;
use headroom_cluster::history::{History, INTENTS_MAX, PoolHistory, VICTIM_BYTES_MAX, VICTIMS_MAX};
use headroom_pools::config::Config;
use headroom_values::reason::Reason;

/// Intents that removals leave free in each pool's journal, so that it can always grow.
pub const INTENTS_KEPT_FREE: usize = 10;
/// Most nodes drained under one intent. They are deleted together, so each may wait for the slowest; and more of them
/// would be read and written again on each tick.
const DRAINS_MAX: usize = 8;

/// True if the journal of its pool has room for one more candidate beside those chosen.
#[must_use]
pub fn has_room(chosen: &[Candidate], candidate: &Candidate, memory: Option<&PoolHistory>) -> bool {
    let open = memory.map_or(0, |memory| memory.intents.len());
    let free = (INTENTS_MAX - INTENTS_KEPT_FREE).saturating_sub(open);
    let mut alone = 0;
    let mut bytes = memory.map_or(0, PoolHistory::victim_bytes);
    let mut shared: BTreeMap<(&Arc<str>, Reason), usize> = BTreeMap::new();
    let same_pool = chosen.iter().filter(|other| other.pool == candidate.pool);
    for one in same_pool.chain([candidate]) {
        bytes += one.victim.bytes();
        if goes_alone(one.reason) {
            alone += 1;
        } else {
            *shared.entry((&one.group, one.reason)).or_insert(0) += 1;
        }
    }
    let bundles = shared.iter().map(|((_, reason), count)| match reason {
        Reason::Empty => count.div_ceil(VICTIMS_MAX),
        _ => count.div_ceil(DRAINS_MAX),
    });
    bytes <= VICTIM_BYTES_MAX && alone + bundles.sum::<usize>() <= free
}

/// The chosen in the bundles that one intent each opens: empty nodes of a group together, as many as an intent may
/// name; underutilized ones alone while the journal has room, else up to [`DRAINS_MAX`] of a group; others alone.
#[must_use]
pub fn of(chosen: Vec<Candidate>, history: &History, config: &Config) -> Vec<Vec<Candidate>> {
    let mut shared: BTreeMap<(usize, Arc<str>, Reason), Vec<Candidate>> = BTreeMap::new();
    let mut alone = Vec::new();
    let mut order = Vec::new();
    let (whole, chosen) = chosen.into_iter().partition(|one| goes_whole(one, config));
    let whole = whole_groups(whole);
    for candidate in chosen {
        if goes_alone(candidate.reason) {
            alone.push(vec![candidate]);
            continue;
        }
        let key = (candidate.pool, candidate.group.clone(), candidate.reason);
        let members = shared.entry(key.clone()).or_default();
        if members.is_empty() {
            order.push(key);
        }
        members.push(candidate);
    }
    let mut drains: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for ((pool, _, reason), members) in &shared {
        let (groups, nodes) = drains.entry(*pool).or_default();
        *groups += 1;
        *nodes += if *reason == Reason::Empty { 0 } else { members.len() };
    }
    let size = |pool: usize| {
        let (groups, nodes) = drains.get(&pool).copied().unwrap_or_default();
        let open = history.pools.get(&config.pools[pool].name).map_or(0, |memory| memory.intents.len());
        let single = alone.iter().filter(|one| one[0].pool == pool).count();
        let taken = open + single + groups;
        let free = (INTENTS_MAX - INTENTS_KEPT_FREE).saturating_sub(taken).max(1);
        nodes.div_ceil(free).clamp(1, DRAINS_MAX)
    };
    let mut bundles = whole;
    // Bulks of empty nodes first: they disturb nobody.
    order.sort_by_key(|(_, _, reason)| *reason != Reason::Empty);
    for key in order {
        let members = shared.remove(&key).unwrap_or_default();
        let size = if key.2 == Reason::Empty { VICTIMS_MAX } else { size(key.0) };
        bundles.extend(members.chunks(size).map(<[Candidate]>::to_vec));
    }
    bundles.extend(alone);
    bundles
}

/// True if a candidate goes with all the others of its group. A request to remove one node concerns that one alone.
#[must_use]
pub fn goes_whole(candidate: &Candidate, config: &Config) -> bool {
    let alone = matches!(candidate.reason, Reason::RemovalRequested | Reason::Interrupted);
    config.pools[candidate.pool].scales_whole() && !alone
}

/// Each group in one bundle, as far as an intent can name its nodes: nodes that go together are given up together. Its
/// reason is that of all its nodes, or else that of the ones which are drained.
fn whole_groups(chosen: Vec<Candidate>) -> Vec<Vec<Candidate>> {
    let mut groups: BTreeMap<(usize, Arc<str>), Vec<Candidate>> = BTreeMap::new();
    for one in chosen {
        groups.entry((one.pool, one.group.clone())).or_default().push(one);
    }
    for members in groups.values_mut() {
        let first = members[0].reason;
        if members.iter().any(|one| one.reason != first) {
            members.iter_mut().for_each(|one| one.reason = Reason::Underutilized);
        }
    }
    groups
        .into_values()
        .flat_map(|members| members.chunks(VICTIMS_MAX).map(<[Candidate]>::to_vec).collect::<Vec<_>>())
        .collect()
}

/// True if a node that goes for this reason has an intent of its own: the person who asked for it, or its state, concerns
/// this node alone.
fn goes_alone(reason: Reason) -> bool {
    !matches!(reason, Reason::Empty | Reason::Underutilized | Reason::Consolidated | Reason::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_cluster::history::Victim;
    use headroom_cluster::scheduling::NodeIx;
    use headroom_cluster::world::NodeId;
    use headroom_pools::testing::{config, pool};

    fn candidates(reason: Reason, group: &str, count: u32) -> Vec<Candidate> {
        let one = |index: u32| {
            let name: Arc<str> = format!("{group}-{index}").into();
            Candidate {
                id: NodeId(index),
                ix: NodeIx(index),
                pool: 0,
                group: group.into(),
                zone: "".into(),
                victim: Victim { node: name.clone(), id: name },
                reason,
                movable: Vec::new(),
                waits_for: None,
                sent_away: None,
                guarded_by: None,
                guarded: Vec::new(),
                surges: Vec::new(),
                since: None,
                fresh: None,
                replaced: false,
            }
        };
        (0..count).map(one).collect()
    }

    /// As many of `wanted` as the journal takes, in bundles.
    fn bundled(wanted: Vec<Candidate>) -> Vec<usize> {
        let mut chosen = Vec::new();
        for candidate in wanted {
            if has_room(&chosen, &candidate, None) {
                chosen.push(candidate);
            }
        }
        let bundles = of(chosen, &History::default(), &config([pool("a")]));
        bundles.iter().map(Vec::len).collect()
    }

    #[test]
    fn few_drains_have_an_intent_each_and_many_share() {
        assert_eq!(bundled(candidates(Reason::Underutilized, "g", 5)), [1; 5]);
        let many = bundled(candidates(Reason::Underutilized, "g", 260));
        assert_eq!((many.iter().sum::<usize>(), many.iter().max()), (260, Some(&7)));
    }

    #[test]
    fn journal_keeps_intents_free_however_many_nodes_could_go() {
        let mut wanted = candidates(Reason::Empty, "e", 150);
        wanted.extend(candidates(Reason::Unready, "u", 3));
        for group in ["g", "h", "i"] {
            wanted.extend(candidates(Reason::Underutilized, group, 101));
        }
        let bundles = bundled(wanted);
        assert!(bundles.len() <= INTENTS_MAX - INTENTS_KEPT_FREE, "{} intents", bundles.len());
        assert!(bundles.iter().sum::<usize>() > 150 + 3 + 200, "{bundles:?}");
    }

    #[test]
    fn names_of_all_victims_together_are_bounded() {
        let victim_bytes = candidates(Reason::Empty, "e", 1)[0].victim.bytes();
        let bundles = bundled(candidates(Reason::Empty, "e", 2_000));
        let bytes = bundles.iter().sum::<usize>() * victim_bytes;
        assert!(bytes <= VICTIM_BYTES_MAX + 2 * 2_000 * 3, "{bytes} bytes");
        assert!(400 < bundles.iter().sum::<usize>() && bundles.len() < 10, "{bundles:?}");
    }

    #[test]
    fn nodes_that_a_person_asked_for_go_alone() {
        assert_eq!(bundled(candidates(Reason::RemovalRequested, "g", 60)), [1; 40]);
    }
}
