//! Which shard a namespace is of, and which replica should hold each shard. Pure, and the same in every replica and version.

use std::collections::{BTreeMap, BTreeSet};

use headroom_core::mixing::mixed;

/// Returns the shard of a namespace's workloads, of `count`; 0 where there are none. Another hash needs other names of the
/// Leases: replicas of two versions would both run a workload.
#[must_use]
pub fn shard_of(namespace: &str, count: usize) -> usize {
    let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
    usize::try_from(mixed(hash(namespace)) % count).unwrap_or(0)
}

/// Returns the member that should hold each of `count` shards; nothing for no members.
///
/// Rendezvous hashing: every pair of a shard and a member has a score, and the highest come first. No member gets more than its
/// share, rounded up. A member that comes or goes moves few shards but its own.
#[must_use]
pub(super) fn holders<'m>(members: &BTreeSet<&'m str>, count: usize) -> BTreeMap<usize, &'m str> {
    let Some(share) = (!members.is_empty()).then(|| count.div_ceil(members.len())) else {
        return BTreeMap::new();
    };
    let mut pairs: Vec<(u64, usize, &str)> = (0..count)
        .flat_map(|shard| members.iter().map(move |member| (score(member, shard), shard, *member)))
        .collect();
    pairs.sort_by(|a, b| b.cmp(a));
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    let mut holders = BTreeMap::new();
    for (_, shard, member) in pairs {
        let count = held.entry(member).or_default();
        if *count < share && !holders.contains_key(&shard) {
            *count += 1;
            holders.insert(shard, member);
        }
    }
    holders
}

fn score(member: &str, shard: usize) -> u64 {
    let shard = u64::try_from(shard).unwrap_or(u64::MAX);
    mixed(hash(member) ^ mixed(shard.wrapping_add(1)))
}

/// FNV-1a of 64 bits. Source: draft-eastlake-fnv, section 2.
pub(super) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("headroom-{number}")).collect()
    }

    fn placed(members: &[String], count: usize) -> BTreeMap<usize, &str> {
        holders(&members.iter().map(String::as_str).collect(), count)
    }

    #[test]
    fn hash_never_changes() {
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
        let shards: Vec<usize> =
            ["default", "kube-system", "shop", "team-a", "team-b"].map(|name| shard_of(name, 6)).into();
        assert_eq!(shards, FIXED_SHARDS);
        let members = names(3);
        let holders: Vec<&str> = placed(&members, 6).into_values().collect();
        assert_eq!(holders, FIXED_HOLDERS);
    }

    /// Written down when the first version with shards was made.
    const FIXED_SHARDS: [usize; 5] = [4, 1, 0, 1, 2];
    const FIXED_HOLDERS: [&str; 6] =
        ["headroom-1", "headroom-2", "headroom-0", "headroom-2", "headroom-1", "headroom-0"];

    #[test]
    fn one_shard_has_everything() {
        assert_eq!((shard_of("default", 1), shard_of("default", 0)), (0, 0));
    }

    #[test]
    fn namespaces_are_spread_evenly() {
        let mut counts = [0; 6];
        for number in 0..6000 {
            counts[shard_of(&format!("team-{number}"), 6)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn every_shard_has_a_holder_and_no_member_more_than_its_share() {
        for (replicas, count) in [(1, 4), (2, 4), (3, 4), (3, 6), (5, 4), (7, 64)] {
            let members = names(replicas);
            let placed = placed(&members, count);
            assert_eq!(placed.len(), count);
            for member in &members {
                let held = placed.values().filter(|holder| *holder == member).count();
                assert!(held <= count.div_ceil(replicas), "{replicas} {count} {member} {held}");
            }
        }
        assert!(placed(&[], 3).is_empty());
    }

    #[test]
    fn a_member_that_goes_moves_few_shards_but_its_own() {
        let (all, fewer) = (names(4), names(3));
        let (before, after) = (placed(&all, 12), placed(&fewer, 12));
        let moved =
            before.iter().filter(|(shard, holder)| after[shard] != **holder && **holder != "headroom-3");
        assert!(moved.count() <= 2);
    }
}
