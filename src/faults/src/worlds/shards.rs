//! Worlds whose workloads are run in shards: those of `load`, with several namespaces, and in some of them another number of
//! shards later on.

use jiff::SignedDuration;

use super::World;

impl World {
    /// Workloads in shards.
    pub(super) fn sharded_workloads(&mut self, random: &mut fastrand::Rng) {
        let runs_hpas = random.bool();
        self.scaled_workloads(runs_hpas, random);
        self.shards.push((SignedDuration::ZERO, random.usize(2..=6)));
        let mut at = 0;
        for _ in 0..random.usize(0..=2) {
            at += random.i64(60..240);
            // One shard is the leader's.
            self.shards.push((SignedDuration::from_secs(at), random.usize(1..=4)));
        }
    }
}
