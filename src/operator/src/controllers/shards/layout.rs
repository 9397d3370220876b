//! The number of shards that the cluster's workloads are divided into, and whose Leases count: replicas that were started
//! with different numbers must not both run a workload. Pure.
//!
//! With one shard the leader's Lease is the shard's. A leader of more declares their number in an annotation of that Lease,
//! together with its own name: the declaration of a leader before it says nothing. Whoever has taken a Lease looks at all
//! Leases once more before it acts, and waits while one of another number is held. Of two that take theirs at one time the
//! later one sees the other's, so at most one acts. Leaders of one shard look only where the annotation has ever been set.

use k8s_openapi::api::coordination::v1::Lease;

/// Annotation of the leader's Lease: the number of shards and the holder that declares it.
const SHARDS: &str = "headroom.dev/workload-shards";

/// Declares the number of shards as `holder`, in the leader's Lease that it is about to write. One shard is not declared.
pub(in super::super) fn declare(lease: &mut Lease, count: usize, holder: &str) {
    if 1 < count {
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(SHARDS.to_owned(), format!("{count} {holder}"));
    }
}

/// True if any leader has ever declared more than one shard.
pub(in super::super) fn is_declared(lease: &Lease) -> bool {
    declaration(lease).is_some()
}

fn declaration(lease: &Lease) -> Option<&str> {
    lease.metadata.annotations.as_ref()?.get(SHARDS).map(String::as_str)
}

/// True if replicas of `count` shards, more than one, may run workloads by the leader's Lease: its holder has declared that
/// number, or the last one had and is gone.
pub(super) fn is_in_force(leader: &Lease, count: usize) -> bool {
    let holder = leader.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
    let declared = declaration(leader).and_then(|text| text.split_once(' '));
    declared.is_some_and(|(number, by)| number == count.to_string() && (holder.is_empty() || holder == by))
}

/// Name of the Lease of a shard.
pub(super) fn shard_name(leader: &str, shard: usize, count: usize) -> String {
    format!("{leader}-shard-{shard}-of-{count}")
}

/// Name of the Lease by which a replica is known to live.
pub(super) fn member_name(leader: &str, count: usize, identity: &str) -> String {
    format!("{}{:016x}", members_prefix(leader, count), super::placement::hash(identity))
}

/// Beginning of the names of such Leases.
pub(super) fn members_prefix(leader: &str, count: usize) -> String {
    format!("{leader}-member-of-{count}-")
}

/// True if it is a member's, of any number of shards.
pub(super) fn is_member(leader: &str, name: &str) -> bool {
    name.strip_prefix(leader).is_some_and(|rest| rest.starts_with("-member-of-"))
}

/// True if it is that of a shard of another number than `count`.
pub(super) fn is_of_other_layout(leader: &str, name: &str, count: usize) -> bool {
    shards_in(leader, name).is_some_and(|other| other != count)
}

/// The number of shards in the name of a shard's Lease.
fn shards_in(leader: &str, name: &str) -> Option<usize> {
    let rest = name.strip_prefix(leader)?.strip_prefix("-shard-")?;
    let (shard, count) = rest.split_once("-of-")?;
    shard.parse::<usize>().ok()?;
    count.parse().ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;

    use super::*;

    fn held_by(holder: &str) -> Lease {
        let spec = LeaseSpec { holder_identity: Some(holder.to_owned()), ..LeaseSpec::default() };
        Lease { spec: Some(spec), ..Lease::default() }
    }

    #[test]
    fn number_is_in_force_while_its_declarer_leads_and_once_it_is_gone() {
        let mut lease = held_by("a");
        assert!(!is_in_force(&lease, 4) && !is_declared(&lease));
        declare(&mut lease, 4, "a");
        assert!(is_in_force(&lease, 4) && !is_in_force(&lease, 2) && is_declared(&lease));
        let released = Lease { metadata: lease.metadata.clone(), ..held_by("") };
        assert!(is_in_force(&released, 4));
    }

    #[test]
    fn declaration_of_a_leader_before_says_nothing_while_another_leads() {
        let mut lease = held_by("a");
        declare(&mut lease, 4, "a");
        // A leader of one shard, which may be of a version that knows no shards, keeps what it finds.
        let mut taken = Lease { metadata: lease.metadata, ..held_by("b") };
        declare(&mut taken, 1, "b");
        assert!(!is_in_force(&taken, 4) && is_declared(&taken));
    }

    #[test]
    fn shards_of_every_number_are_known_by_their_names() {
        assert!(is_of_other_layout("headroom", &shard_name("headroom", 3, 4), 1));
        assert!(is_of_other_layout("headroom", &shard_name("headroom", 0, 2), 4));
        assert!(!is_of_other_layout("headroom", &shard_name("headroom", 0, 4), 4));
        for other in ["headroom", "headroom-shard-x-of-4", "other-shard-0-of-4", "headroom-member-of-4-00"] {
            assert!(!is_of_other_layout("headroom", other, 1), "{other}");
        }
    }
}
