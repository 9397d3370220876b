//! The life of a removal, from journal to the node's end: the next bounded step of each open intent. It chooses no
//! node, and remembers nothing but what History holds.

mod absorb;
mod drain;
mod ending;
mod open;
mod phases;
mod surge;
mod sweep;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

pub use absorb::absorb_one;
pub use drain::holds_node;
pub use open::{Opening, open_intent};
pub use surge::surges_wanted;

use crate::drainability::Disruptions;
use headroom_cluster::history::{Action, History, Intent, PoolHistory, Removal, RemovalPhase};
use headroom_cluster::world::World;
use headroom_cluster::world::running_gangs::RunningGangs;
use headroom_cluster::world::view::Freshness;
use headroom_pools::config::{Config, Pool};
use headroom_pools::plan::Step;
use headroom_pools::quarantine::{Part, Quarantine};
use headroom_pools::state::foreign::Members;
use headroom_pools::state::health::Health;
use headroom_values::reason::Reason;
use headroom_values::time::{Seconds, UnixTime};
use phases::One;
use sweep::{keep_within_min, take_orphans_off};

/// From seeing our own mark to the first eviction or deletion: pods bound just before the mark show up in this time.
/// Upstream: node-delete-delay-after-taint, 5 s.
pub const SETTLE: Seconds = Seconds(5);
/// The same before the first eviction. Differs from upstream, where it is 5 s too: a pod that shows up later is evicted
/// with the others, and the node is looked at once more before its deletion.
pub const SETTLE_DRAIN: Seconds = Seconds(2);
/// A mark that does not show within this is given up.
pub const MARK_TIMEOUT: Seconds = Seconds(120);
/// Between two rounds of evictions, and between two calls to delete. Upstream: 10 s.
pub const RETRY: Seconds = Seconds(10);
/// A deletion that has not ended by then is given up, if the provider says that the instance runs. Upstream: 5 min.
pub const DELETE_TIMEOUT: Seconds = Seconds(300);
/// Time that an annotation may hold a deletion up. Upstream: node-deletion-delay-timeout, the same 2 min.
pub const DELAY_DELETION_MAX: Seconds = Seconds(120);
/// A pod may outlive the longest grace of its pool by this before its drain has failed. Upstream: the same 30 s.
pub const GONE_EXTRA: Seconds = Seconds(30);
/// Between two rounds of evictions when budgets have room again.
pub const RETRY_SOON: Seconds = Seconds(1);
/// Most pods in one eviction step, so that a step stays within its deadline.
pub const EVICTIONS_MAX: usize = 20;
/// Most nodes in one step that marks or deletes, for the same reason.
pub const NODES_MAX: usize = 20;

/// Input of every rule of this module.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The cluster.
    pub world: &'a World,
    /// Freshness of the view of it.
    pub freshness: &'a Freshness,
    /// Settings of users.
    pub config: &'a Config,
    /// Membership of each node.
    pub members: &'a Members<'a>,
    /// True if removals may go on at all.
    pub health: &'a Health,
    /// The present.
    pub now: UnixTime,
    /// Pools and classes left out because of a panic, and the place where the part in progress is noted (design rule
    /// 7).
    pub guard: Option<(&'a Quarantine, &'a RefCell<Part>)>,
}

impl Scene<'_> {
    /// Notes that this pool is being worked on; false when it has been set aside.
    pub(crate) fn work_on(&self, pool: &Arc<str>) -> bool {
        let Some((quarantine, part)) = self.guard else { return true };
        *part.borrow_mut() = Part::Pool(pool.clone());
        !quarantine.pools.contains(pool)
    }

    /// Notes that no pool in particular is being worked on.
    pub(crate) fn work_done(&self) {
        if let Some((_, part)) = self.guard {
            *part.borrow_mut() = Part::Whole;
        }
    }
}

/// The steps that open removals need now.
#[derive(Clone, Debug, Default)]
pub struct Advance {
    /// In order: marks come off first, then deletions, evictions and new marks.
    pub steps: Vec<Step>,
    /// Time at which the next one may be due although nothing happens.
    pub wake_at: Option<UnixTime>,
    /// Budgets, as indexes into [`Disruptions`], for which the API server is asked although their status allows nothing.
    asked: BTreeSet<usize>,
}

impl Advance {
    pub(crate) fn wake(&mut self, at: UnixTime) {
        self.wake_at = Some(self.wake_at.map_or(at, |before| before.min(at)));
    }
}

/// Moves every open removal on by one step, and takes marks off that no open intent stands for.
///
/// A stale view moves nothing. Resuming after a crash is the same path: all that is read is World and History.
pub fn advance(history: &mut History, scene: &Scene<'_>) -> Advance {
    let mut advance = Advance::default();
    if scene.freshness.stale {
        return advance;
    }
    let mut disruptions = Disruptions::of(scene.world);
    // Nodes that the cloud takes come first: they use what budgets still allow before others do.
    let gangs = gangs_after(history, scene);
    for taken in [true, false] {
        for (name, memory) in &mut history.pools {
            let Some(pool) = scene.config.pool(name) else {
                // A pool that is gone manages nothing: its marks are orphans now.
                memory.intents.retain(|intent| matches!(intent.action, Action::Increase(_)));
                continue;
            };
            if scene.work_on(name) {
                advance_pool(scene, pool, memory, taken, (&mut disruptions, &gangs), &mut advance);
            }
        }
    }
    scene.work_done();
    take_orphans_off(history, scene, &mut advance);
    advance.steps.sort_by_key(order);
    advance
}

/// The gangs that run, less all pods on nodes of open removals.
fn gangs_after(history: &History, scene: &Scene<'_>) -> RunningGangs {
    let mut gangs = RunningGangs::of(scene.world, scene.config.cluster.expendable_pods_priority_cutoff);
    for (_, removal) in history.pools.values().flat_map(PoolHistory::removals) {
        let victims = removal.victims.iter().filter(|_| removal.phase != RemovalPhase::Undoing);
        for (id, _, _) in victims.filter_map(|victim| scene.world.node_named(&victim.node)) {
            gangs.leave(scene.world, &scene.world.node(id).pods);
        }
    }
    gangs
}

fn order(step: &Step) -> u8 {
    match step {
        Step::Unmark { .. } => 0,
        Step::Delete { .. } => 1,
        Step::Evict { .. } => 2,
        Step::Mark { .. } => 3,
        Step::Increase { .. } | Step::Cancel { .. } => 4,
    }
}

/// Moves those removals on whose nodes the cloud takes (`taken`), or all others.
fn advance_pool<'s>(
    scene: &Scene<'s>,
    pool: &Pool,
    memory: &mut PoolHistory,
    taken: bool,
    (disruptions, gangs): (&mut Disruptions<'s>, &RunningGangs),
    advance: &mut Advance,
) {
    if taken {
        keep_within_min(scene, pool, memory);
    }
    for mut intent in std::mem::take(&mut memory.intents) {
        let keep = match &intent.action {
            Action::Increase(_) => true,
            Action::Remove(_) if taken != (intent.reason == Reason::Interrupted) => true,
            Action::Remove(_) => {
                let mut one = One { scene, pool, memory, intent: &mut intent, disruptions, gangs, advance };
                one.advance()
            }
        };
        if keep {
            memory.intents.push(intent);
        }
    }
}

pub(crate) fn removal_of(intent: &Intent) -> &Removal {
    match &intent.action {
        Action::Remove(removal) => removal,
        Action::Increase(_) => unreachable!("only removals are advanced here"),
    }
}

pub(crate) fn removal_of_mut(intent: &mut Intent) -> &mut Removal {
    match &mut intent.action {
        Action::Remove(removal) => removal,
        Action::Increase(_) => unreachable!("only removals are advanced here"),
    }
}
