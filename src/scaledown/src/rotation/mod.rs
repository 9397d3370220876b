//! Rotation: nodes that the pool's template would not make any more, or that are too old, are replaced. Here is which nodes
//! are outdated; `turn` buys for the next of them, and `preferred` for nodes of pools that were the second choice. Pods are
//! moved and nodes removed by the ordinary life of a removal.

pub mod preferred;
mod repair;
mod turn;

pub use turn::consider;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::removal::Scene;
use headroom_cluster::history::{PoolHistory, RotationStop};
use headroom_cluster::scheduling::constraints::Taint;
use headroom_cluster::world::node::{Node, Readiness, TEMPLATE_ANNOTATION};
use headroom_pools::config::{Pool, Rotation};
use headroom_pools::state::foreign::Membership;
use headroom_pools::state::health::not_started;
use headroom_values::known::Known;
use headroom_values::labels::Labels;
use headroom_values::reason::Reason;
use headroom_values::resources::Resources;
use headroom_values::time::{Seconds, UnixTime};

/// A ready node that the present template made within this time shows that nodes of it start.
const PROVEN_FOR: Seconds = Seconds::hours(24);
/// A rotation that was stopped because its nodes did not get ready is tried again after this time.
const STOPPED_FOR: Seconds = Seconds::hours(24);
/// Basis of the hash: FNV-1a with 64 bits.
const HASH_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
/// Prime of the hash.
const HASH_PRIME: u64 = 0x0100_0000_01b3;

/// True if nodes leave for this reason only for what they are: outdated, to be repaired, or of a pool that was the second choice.
#[must_use]
pub fn is_rotation(reason: Reason) -> bool {
    matches!(reason, Reason::Drifted | Reason::Expired | Reason::Unhealthy | Reason::NotPreferred)
}

/// Reason why a node of the pool is outdated: `Unhealthy`, or else `Drifted`, or else `Expired`; `None` while it is not, while
/// nothing is known of what made it, and in pools that rotate nothing.
#[must_use]
pub fn outdated(node: &Node, member: &Membership<'_>, pool: &Pool, scene: &Scene<'_>) -> Option<Reason> {
    let rotation = &pool.scale_down.rotation;
    if repair::due_at(node, rotation).is_some_and(|at| at <= scene.now) {
        return Some(Reason::Unhealthy);
    }
    if rotation.replace_drifted && has_drifted(node, member, pool, scene) {
        return Some(Reason::Drifted);
    }
    expires_at(node, rotation).is_some_and(|at| at <= scene.now).then_some(Reason::Expired)
}

/// True if what made the node is known, and is not what the pool would make a node of now.
fn has_drifted(node: &Node, member: &Membership<'_>, pool: &Pool, scene: &Scene<'_>) -> bool {
    if let Some(template) = &pool.scale_down.rotation.template {
        return node.annotations.get(TEMPLATE_ANNOTATION).is_some_and(|made_by| made_by != &**template);
    }
    let provider = scene.world.provider(&pool.name).and_then(Known::value);
    let group = provider.and_then(|provider| provider.groups.get(member.group));
    group.is_some_and(|group| group.outdated.contains(member.instance))
}

/// Returns when the node becomes outdated by the passing of time alone: when it expires, or when a condition has lasted
/// long enough.
pub fn changes_at(node: &Node, rotation: &Rotation) -> impl Iterator<Item = UnixTime> {
    expires_at(node, rotation).into_iter().chain(repair::due_at(node, rotation))
}

/// Returns when the node expires: after the pool's age, less or more by up to 10 % of it. The part follows from the
/// node's name, so that nodes which were made together do not go together; `None` where nodes do not expire.
#[must_use]
pub fn expires_at(node: &Node, rotation: &Rotation) -> Option<UnixTime> {
    let age = rotation.max_age?;
    let share = 9_000 + i128::from(hash(node.name.as_bytes()) % 2_001);
    let length = i64::try_from(i128::from(age.0) * share / 10_000).unwrap_or(i64::MAX);
    Some(node.created_at.plus(Seconds(length)))
}

/// Fingerprint of what a provider makes nodes of, for [`TEMPLATE_ANNOTATION`]: labels, taints and amounts, whatever the
/// order in which they are written.
#[must_use]
pub fn template_hash(
    labels: &Labels,
    taints: &[Taint],
    capacity: &Resources,
    allocatable: &Resources,
) -> Arc<str> {
    let mut text = String::new();
    let mut labels: Vec<_> = labels.iter().collect();
    labels.sort_unstable();
    let mut taints: Vec<_> = taints.iter().map(|taint| (&taint.key, &taint.value, taint.effect)).collect();
    taints.sort_unstable();
    // Infallible: a String takes everything.
    let _ = write!(text, "{labels:?}{taints:?}");
    for amounts in [capacity, allocatable] {
        let extended: BTreeMap<_, _> = amounts.extended_iter().collect();
        let _ = write!(text, "{},{},{},{extended:?};", amounts.cpu_milli, amounts.memory_bytes, amounts.pods);
    }
    format!("{:016x}", hash(text.as_bytes())).into()
}

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(HASH_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(HASH_PRIME))
}

/// Returns the current version of the group's template, in one word; empty where that is not known.
fn template_of(pool: &Pool, group: &str, scene: &Scene<'_>) -> Arc<str> {
    if let Some(template) = &pool.scale_down.rotation.template {
        return template.clone();
    }
    let provider = scene.world.provider(&pool.name).and_then(Known::value);
    let group = provider.and_then(|provider| provider.groups.get(group));
    group.and_then(|group| group.template.as_ref()?.version.clone()).unwrap_or_default()
}

/// True if a ready node shows that nodes of the present template start.
fn is_proven(index: usize, pool: &Pool, scene: &Scene<'_>) -> bool {
    scene.world.nodes().any(|(id, node, _)| {
        scene.members.member(id).is_some_and(|member| {
            member.pool == index
                && node.ready == Readiness::Ready
                && scene.now < node.created_at.plus(PROVEN_FOR)
                && !not_started(node, pool, scene.now)
                && outdated(node, member, pool, scene).is_none()
        })
    })
}

/// The memory that a rotation of `group` has stopped, because nodes that it bought did not get ready.
#[must_use]
pub fn stop(pool: &Pool, group: &Arc<str>, scene: &Scene<'_>) -> RotationStop {
    RotationStop { group: group.clone(), template: template_of(pool, group, scene), since: scene.now }
}

/// True if the pool's rotation has stopped: for a day, or until the group that failed makes its nodes of something else.
#[must_use]
pub fn is_stopped(memory: &PoolHistory, pool: &Pool, scene: &Scene<'_>) -> bool {
    memory.rotation_stop.as_ref().is_some_and(|stop| {
        scene.now < stop.since.plus(STOPPED_FOR) && stop.template == template_of(pool, &stop.group, scene)
    })
}

/// Time at which a stopped rotation is tried again whatever its template is.
#[must_use]
pub fn resumes_at(memory: &PoolHistory) -> Option<UnixTime> {
    memory.rotation_stop.as_ref().map(|stop| stop.since.plus(STOPPED_FOR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_pools::testing::{NOW, no_schedule, node};

    #[test]
    fn nodes_of_one_age_expire_within_a_tenth_of_it_and_not_at_once() {
        let rotation = Rotation { max_age: Some(Seconds(100_000)), ..Rotation::default() };
        let ends: Vec<i64> = (0..100)
            .filter_map(|index| expires_at(&node(&format!("n{index}")).age(0).build(), &rotation))
            .map(|at| at.0 - NOW.0)
            .collect();
        assert_eq!(ends.len(), 100);
        assert!(ends.iter().all(|end| (90_000..=110_000).contains(end)), "{ends:?}");
        let (early, late) = (
            ends.iter().filter(|end| **end < 95_000).count(),
            ends.iter().filter(|end| 105_000 < **end).count(),
        );
        assert!(10 < early && 10 < late, "{early} early, {late} late");
        assert_eq!(expires_at(&node("n").build(), &Rotation::default()), None);
    }

    #[test]
    fn fingerprint_follows_what_is_made_and_not_the_order_in_which_it_is_written() {
        let amounts = Resources::new(4_000, 16 << 30);
        let labels = |pairs: &[(&'static str, &'static str)]| pairs.iter().copied().collect::<Labels>();
        let of = |pairs: &[(&'static str, &'static str)], taints: &[Taint]| {
            template_hash(&labels(pairs), taints, &amounts, &amounts)
        };
        let (a, b) = (no_schedule("a", "1"), no_schedule("b", "2"));
        let first = of(&[("x", "1"), ("y", "2")], &[a.clone(), b.clone()]);
        assert_eq!(first, of(&[("y", "2"), ("x", "1")], &[b.clone(), a.clone()]));
        assert_ne!(first, of(&[("x", "1"), ("y", "3")], &[a.clone(), b.clone()]));
        assert_ne!(first, of(&[("x", "1"), ("y", "2")], &[a]));
    }
}
