//! True if all that were chosen can leave at once. It chooses nothing, and lets go of what cannot.

use crate::candidates::{self, Candidate};
use crate::decide::Pass;
use crate::relocation::Destinations;
use crate::standby::Standby;
use crate::trial::{no_place, pods_to_move};
use crate::verdicts::Verdict;
use headroom_cluster::scheduling::snapshot::{NodeIx, Presence, Snapshot};
use headroom_values::reason::Reason;

/// Most pairs of a pod that moves and a node that stays for which nodes leave together: a tenth of a second or so. For
/// looking at them there are twice as many work units, whatever was spent before.
const TOGETHER_WORK_MAX: u64 = 4_000_000;

impl Pass<'_, '_> {
    /// Lets candidates go again, the last ones first, until the pods of all find room at once, however the scheduler
    /// spreads them. Only where nodes get full: elsewhere the threshold leaves room enough.
    ///
    /// One by one they were tried with each one's pods in place before the next. Leaving together, their pods come in any
    /// order, and the smallest first is the worst: they fill every hole that a larger one needs.
    pub(crate) fn keep_what_fits_together(&mut self, snapshot: &mut Snapshot<'_>) {
        let config = self.scene.config;
        let may_wait = |one: &Candidate| one.may_wait(config);
        let mut fewer = 1;
        snapshot.allow_work(2 * TOGETHER_WORK_MAX);
        while self.chosen.iter().any(may_wait) {
            let Err(verdict) = self.fit_together(snapshot) else { return };
            for _ in 0..fewer {
                let Some(last) = self.chosen.iter().rposition(may_wait) else { break };
                let one = self.chosen.remove(last);
                self.verdict(one.id, Some(one.pool), verdict.clone());
            }
            fewer *= 2;
        }
    }

    /// True if the pods of all that were chosen find room, the smallest first, each on the emptiest node. The snapshot is
    /// left as it was.
    fn fit_together(&self, snapshot: &mut Snapshot<'_>) -> Result<(), Verdict> {
        let mark = snapshot.checkpoint();
        let mut pods = Vec::new();
        for one in self.chosen.iter().filter(|one| one.reason != Reason::Unready) {
            snapshot.set_presence(one.ix, Presence::Ghost);
            pods.extend(pods_to_move(one, snapshot, self.scene).into_iter().map(|pod| (pod, one.ix)));
        }
        let stay: Vec<NodeIx> =
            snapshot.indexes().filter(|ix| candidates::takes_pods(*ix, snapshot)).collect();
        let work = u64::try_from(pods.len().saturating_mul(stay.len())).unwrap_or(u64::MAX);
        let fits = if work <= TOGETHER_WORK_MAX {
            let standby = Standby::of(snapshot);
            let spread = Destinations::new(stay).spread(snapshot, &pods, standby);
            spread.map_err(|pod| no_place(pod, snapshot, self.scene))
        } else {
            // Too many for one plan: those that are let go come next.
            Err(Reason::NotUnneededLongEnough.into())
        };
        snapshot.rollback(mark);
        fits
    }
}
