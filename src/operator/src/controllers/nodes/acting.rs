//! Execution of a plan by the node loop: the journal is written, then steps begin.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use headroom_core::history::PoolHistory;
use headroom_core::plan::{Plan, Step};
use headroom_core::reason::Reason;
use headroom_core::time::UnixTime;
use tracing::{debug, info};

use super::{Finished, NodeLoop, Statuses};
use crate::controllers::memory::{Beginning, StepKey, has_other_increase, journal_differs, journal_of};
use crate::controllers::nodes::reporting::write_events;
use crate::controllers::{facts, turns};
use crate::options::STEPS_MAX;
use headroom_api::NodePoolStatus;
use headroom_provider::CloudSettings;
use headroom_report::traces::{Call, trace_id};
use headroom_report::{WriteError, events};

/// Pools whose journal was to be written. Those that are in neither set are stored, and act when they are planned for again.
pub(super) struct Journalled {
    /// Those that may act: their intents are stored as the plan has them.
    ready: BTreeSet<Arc<str>>,
    /// Those that are not stored as the plan has them. What is stored of them may be news, and is the memory then.
    failed: BTreeSet<Arc<str>>,
}

impl NodeLoop {
    /// Writes the journal of each pool that is about to act, before it acts (design rule 3).
    ///
    /// Where nodes are bought, an increase that has ended is stored first: limits that several pools share may have given what it
    /// leaves to another pool, and whoever reads one status without the other would carry out both.
    ///
    /// Pools for which that fails keep the memory they had, or get the one that was read instead, and plan again.
    pub(super) async fn journal(&mut self, plan: &Plan, statuses: &Statuses) -> Journalled {
        let acting: BTreeSet<Arc<str>> = plan.steps.iter().filter_map(journal_of).cloned().collect();
        let differs = |pool: &Arc<str>, differ: fn(&PoolHistory, &PoolHistory) -> bool| {
            let (next, stored) = (plan.next_history.pools.get(pool), self.stored.get(pool));
            next.zip(stored).is_some_and(|(next, stored)| differ(next, &stored.history))
        };
        let begins = |pool: &&Arc<str>| differs(pool, has_other_increase);
        let ends = |pool: &&Arc<str>| differs(pool, |next, stored| has_other_increase(stored, next));
        let buying: BTreeSet<Arc<str>> = acting.iter().filter(begins).cloned().collect();
        let mut ended: BTreeSet<Arc<str>> = BTreeSet::new();
        if !buying.is_empty() {
            ended = self.stored.keys().filter(ends).cloned().collect();
        }
        let stored = self.store(&ended, plan, statuses).await;
        let waits = |pool: &&Arc<str>| stored.len() < ended.len() && buying.contains(*pool);
        let next = acting.iter().filter(|pool| !waits(pool)).cloned().collect();
        let ready = self.store(&next, plan, statuses).await;
        let failed = acting.union(&ended).filter(|pool| !stored.contains(*pool) && !ready.contains(*pool));
        Journalled { failed: failed.cloned().collect(), ready }
    }

    /// Writes the statuses of these pools whose intents are stored otherwise. Returns those that are stored as they are now.
    async fn store(
        &mut self,
        pools: &BTreeSet<Arc<str>>,
        plan: &Plan,
        statuses: &Statuses,
    ) -> BTreeSet<Arc<str>> {
        let (mut journalled, mut writes) = (BTreeSet::new(), Vec::new());
        for pool in pools {
            let next = plan.next_history.pools.get(pool);
            let (Some(stored), Some(next), Some(status)) = (self.stored.get(pool), next, statuses.get(pool))
            else {
                continue;
            };
            if journal_differs(next, &stored.history) || has_other_increase(&stored.history, next) {
                writes.push((pool.clone(), stored.resource_version.clone(), status.clone()));
            } else {
                journalled.insert(pool.clone());
            }
        }
        let written = self.write(writes).await;
        journalled.extend(written.into_iter().filter(|(_, written)| *written).map(|(pool, _)| pool));
        journalled
    }

    /// Takes back what was decided for pools whose journal could not be written. Returns whether there were any.
    pub(super) fn forget_unjournalled(&self, plan: &mut Plan, journalled: &Journalled) -> bool {
        for pool in &journalled.failed {
            if !self.stored.contains_key(pool) {
                plan.next_history.pools.remove(pool);
                continue;
            }
            // The write may have been done although its answer was lost: its ids are not used again.
            let used = plan.next_history.pools.get(pool).map_or(0, |memory| memory.sequence);
            let mut memory = self.history.pools.get(pool).cloned().unwrap_or_default();
            memory.sequence = memory.sequence.max(used);
            plan.next_history.pools.insert(pool.clone(), memory);
        }
        !journalled.failed.is_empty()
    }

    /// Writes statuses, all at once, and remembers what is stored now. Returns which were written.
    pub(super) async fn write(
        &mut self,
        writes: Vec<(Arc<str>, String, NodePoolStatus)>,
    ) -> Vec<(Arc<str>, bool)> {
        let sink = self.ports.sink.clone();
        let calls = writes.into_iter().map(|(pool, version, status)| {
            let sink = sink.clone();
            async move {
                let answer = sink.write_pool(&pool, &version, &status).await;
                (pool, status, answer)
            }
        });
        let mut results = Vec::new();
        for (pool, status, answer) in join_all(calls).await {
            let mut written = answer.is_ok();
            self.ports.metrics.status_written(answer.as_ref().map(|_| ()));
            match answer {
                Ok(version) => {
                    let at = self.ports.host.monotonic();
                    if let Some(stored) = self.stored.get_mut(&pool) {
                        stored.written(version, status, at);
                    }
                }
                Err(error) => {
                    info!(pool = %pool, %error, "status not written; planning again");
                    if let (WriteError::Failed(_), Some(stored)) = (&error, self.stored.get_mut(&pool)) {
                        stored.sent(status.clone());
                    }
                    let landed = self.refresh(&pool).await;
                    let at = self.ports.host.monotonic();
                    if let Some(stored) = self.stored.get_mut(&pool).filter(|_| landed) {
                        // The write was done and its answer lost.
                        written |= stored.status == status;
                        stored.reported_at = Some(at);
                    }
                }
            }
            results.push((pool, written));
        }
        results
    }

    /// Begins the steps whose intents are stored. They run beside the loop and report back.
    pub(super) fn begin_steps(&mut self, plan: &Plan, journalled: &Journalled, now: UnixTime) {
        for step in &plan.steps {
            if self.in_flight.len() >= STEPS_MAX {
                break;
            }
            if journal_of(step).is_some_and(|pool| !journalled.ready.contains(pool)) {
                continue;
            }
            if self.waits_its_turn(step, plan) {
                continue;
            }
            let key = StepKey::of(step);
            if let Some(beginning) = self.in_flight.begin(&key, step, now) {
                self.begin(step.clone(), key, beginning, now);
            }
        }
    }

    /// True if the step writes a group's size that another write, decided before it, is still to change.
    fn waits_its_turn(&self, step: &Step, plan: &Plan) -> bool {
        let Some(pool) = step.address().0 else { return false };
        let provider = self.settings.providers.get(pool);
        let Some(memory) = plan.next_history.pools.get(pool) else { return false };
        provider.is_some_and(|pool| pool.settings.writes_sizes())
            && turns::waits(step, memory, &self.in_flight.deletions())
    }

    fn begin(&mut self, step: Step, key: StepKey, beginning: Beginning, now: UnixTime) {
        let (pool, intent) = step.address();
        let decision = pool.cloned().zip(intent.cloned()).filter(|_| self.ports.traces.is_some());
        let trace = decision.as_ref().map(|(pool, intent)| trace_id(pool, intent));
        match beginning {
            Beginning::First => info!(step = %facts::in_words(&step), trace, "step begun"),
            // One launch or one refusal can take many attempts.
            Beginning::Again => debug!(step = %facts::in_words(&step), trace, "step begun again"),
        }
        let facts = facts::of_step(&step, &self.world, &self.history, &self.settings, now);
        let word = step.word();
        let (executor, finish) = (self.ports.executor.clone(), self.finish.clone());
        let (sink, removal) = (self.ports.sink.clone(), self.reason_of(&step));
        let host = self.ports.host.clone();
        let began_at = host.wall();
        self.ports.host.spawn(async move {
            let outcomes = executor.run(&step, &facts).await;
            let ended_at = host.wall();
            let failure = facts::failure_of(&outcomes);
            let events = removal.map(|reason| events::evicted(&outcomes, reason)).unwrap_or_default();
            let call =
                decision.map(|(pool, intent)| Call { pool, intent, step: word, failure, began_at, ended_at });
            // The loop may have ended meanwhile; the next one finds out from status.
            let _ = finish.send(Finished { key, outcomes, call });
            write_events(&*sink, events, host.time()).await;
        });
    }

    /// The reason of the removal that an eviction belongs to.
    fn reason_of(&self, step: &Step) -> Option<Reason> {
        let Step::Evict { pool, intent, .. } = step else { return None };
        let memory = self.history.pools.get(pool)?;
        memory.intents.iter().find(|one| one.id == *intent).map(|one| one.reason)
    }
}
