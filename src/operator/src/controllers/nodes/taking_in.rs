//! Inputs of the node loop: watches, ends of steps, stored memory, the claim, the state of providers.

use std::sync::Arc;
use std::time::Duration;

use headroom_core::config::Mode;
use headroom_core::history::{Action, History};
use headroom_core::known::Known;
use headroom_core::memory as clocks;
use headroom_core::nodes::state::blocked_since::BlockedSince;
use headroom_core::plan::StepResult;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::view::Freshness;
use headroom_core::world::{Delta, Kind};
use tracing::{debug, info, warn};

use super::{CLOCK_JUMP_MIN, Finished, NodeLoop};
use crate::controllers::leader::Leadership;
use crate::controllers::memory::{InFlight, ReadBack, StoredPool};
use crate::controllers::{facts, memory};
use crate::options::{
    PROVIDER_INTERVAL_MAX, PROVIDER_INTERVAL_MIN, PROVIDER_RETRY, REGRESSION_HOLD, TAKEOVER_GAP, VIEW_AGE_MAX,
};
use headroom_observe::{PolicyChange, Watch};
use headroom_provider::{Asked, Observation, OpenIntents};
use headroom_report::WriteError;
use headroom_report::traces::Traces;

impl NodeLoop {
    /// Takes in what watches and steps have delivered since the last turn.
    pub(super) fn take_in(&mut self) {
        for delta in self.ports.feed.take() {
            self.providers_due |=
                matches!(delta, Delta::NodeApplied(_) | Delta::NodeDeleted(_) | Delta::ListEnded(_));
            self.world.apply(delta);
        }
        let changes = self.ports.feed.take_policies();
        if !changes.is_empty() {
            self.shown_by_watch(&changes);
            self.take_in_policies(changes);
            self.sync_stored();
        }
        while let Ok(finished) = self.finished.try_recv() {
            self.note(finished);
        }
    }

    pub(super) fn take_in_policies(&mut self, changes: Vec<PolicyChange>) {
        // Most changes are the operator's own status writes coming back: they leave the settings as they are.
        let edited = changes.iter().any(|change| change.is_edit(&self.policies));
        changes.into_iter().for_each(|change| self.policies.apply(change));
        if edited {
            self.settings.update(&self.policies);
            self.providers_due = true;
            self.rest = None;
        }
    }

    pub(super) fn note(&mut self, finished: Finished) {
        let until = finished.outcomes.iter().find_map(|outcome| match outcome.result {
            StepResult::Pending(until) => Some(until),
            // What the guard refused, or what nobody knows the end of, is not hammered on.
            StepResult::Refused { .. } | StepResult::Unknown { .. } => {
                Some(self.ports.host.now().plus(Seconds(1)))
            }
            _ => None,
        });
        // The provider has something else than the plan believed: planned from the same old answer, the next one would
        // ask for the same again, and so on without end; or it would not see what came while it was to be taken back.
        self.providers_due |= finished
            .outcomes
            .iter()
            .any(|outcome| matches!(outcome.result, StepResult::Superseded | StepResult::Increased));
        self.in_flight.end(&finished.key, until);
        if let Some(call) = &finished.call {
            self.traces.called(call);
        }
        self.outcomes.extend(finished.outcomes);
    }

    /// Brings what is known of stored pools up to what the watch has delivered. Our own writes may be ahead of it.
    pub(super) fn sync_stored(&mut self) {
        let mut read = Vec::new();
        for (name, object) in &self.policies.pools {
            match self.stored.get_mut(name) {
                Some(stored) => match stored.seen(object) {
                    ReadBack::Known => {}
                    // Somebody else leads, and writes; a term begins with reading all pools.
                    ReadBack::Late if self.term.is_none() => {}
                    news => read.push((name.clone(), news)),
                },
                None => {
                    // A pool that brings a status along (a restored backup) brings its memory along.
                    self.stored.insert(name.clone(), StoredPool::of(object));
                    read.push((name.clone(), ReadBack::Another));
                }
            }
        }
        read.into_iter().for_each(|(name, news)| self.remember(&name, news));
        let pools = &self.policies.pools;
        let gone: Vec<Arc<str>> =
            self.stored.keys().filter(|name| !pools.contains_key(*name)).cloned().collect();
        for name in gone {
            self.stored.remove(&name);
            self.history.pools.remove(&name);
            self.world.apply(Delta::ProviderForgotten(name));
        }
    }

    /// Makes the memory of a pool what was read of it, where that is the newer one.
    pub(super) fn remember(&mut self, pool: &Arc<str>, read: ReadBack) {
        if read == ReadBack::Known {
            return;
        }
        self.rest = None;
        let Some(stored) = self.stored.get(pool) else { return };
        let now = self.ports.host.now();
        let mut history = History { pools: [(pool.clone(), stored.history.clone())].into() };
        match read {
            ReadBack::Known => {}
            ReadBack::Another => {
                let restored = history.pools.values_mut();
                restored.for_each(|memory| clocks::recheck_deletions(memory, &self.world, now));
            }
            ReadBack::Late => {
                info!(pool = %pool, "the leader before has written once more; going on from that");
                history = self.taken_up(history, now);
            }
            ReadBack::Landed(answers) => {
                headroom_core::absorb(&mut history, &answers, &self.settings.config, now);
            }
        }
        self.history.pools.extend(history.pools);
    }

    /// The memory of earlier terms as this one goes on from it.
    fn taken_up(&self, mut history: History, now: UnixTime) -> History {
        clocks::sanitize(&mut history, &self.settings.config, now);
        for memory in history.pools.values_mut() {
            clocks::recheck_deletions(memory, &self.world, now);
        }
        let gap = match *self.ports.leadership.borrow() {
            Leadership::Leading { gap, .. } => gap,
            Leadership::Standby | Leadership::Lost => Duration::ZERO,
        };
        if gap > TAKEOVER_GAP {
            let seconds = i64::try_from(gap.as_secs()).unwrap_or(i64::MAX);
            info!(seconds, "no leader for a while; extending all timers");
            clocks::age_clocks(&mut history, Seconds(seconds));
        }
        history
    }

    /// True if this replica may act, with its memory read back when it has just begun to lead.
    pub(super) async fn leads(&mut self) -> bool {
        let claim = self.ports.guard.claim();
        self.ports.metrics.leading(claim.is_some());
        let Some(claim) = claim else {
            self.term = None;
            return false;
        };
        if !self.ports.feed.synced() {
            return false;
        }
        if self.term == Some(claim.epoch) {
            return true;
        }
        match self.take_over(claim.epoch).await {
            Ok(()) => {
                self.unread.over();
                true
            }
            Err(error) => {
                if self.unread.due(&error.to_string(), self.ports.host.now()) {
                    warn!(%error, "failed to read the pools back; not acting yet");
                }
                false
            }
        }
    }

    /// Reads memory back from status, live: the watch may be behind the last leader's writes.
    async fn take_over(&mut self, epoch: u64) -> Result<(), WriteError> {
        for object in self.ports.sink.read_pools().await? {
            // A server that has fallen behind may answer with less than the watch has shown already.
            let seen = self.policies.pools.get(&object.name).filter(|seen| seen.uid == object.uid);
            let ahead =
                seen.filter(|seen| memory::newer(&seen.resource_version, &object.resource_version)).cloned();
            let object = ahead.unwrap_or(object);
            let before = self.stored.get(&object.name);
            let stored = StoredPool::taken_over(&object, before);
            self.stored.insert(object.name.clone(), stored);
            self.policies.apply(PolicyChange::Pool(Box::new(object)));
        }
        self.settings.update(&self.policies);
        self.settings.config.epoch = epoch;
        self.history = History::default();
        self.traces = Traces::default();
        self.blocked_since = BlockedSince::default();
        for (name, stored) in &self.stored {
            self.history.pools.insert(name.clone(), stored.history.clone());
        }
        let now = self.ports.host.now();
        for (name, memory) in &self.history.pools {
            // Shorter settings than those it was written by cap it too, and are not news.
            if !clocks::is_possible(memory, now)
                && let Some(stored) = self.stored.get_mut(name)
            {
                warn!(pool = %name, "times in the stored status that no decision could have written were set back");
                stored.left_out.push("times that no decision could have written were set back".into());
            }
        }
        let read = std::mem::take(&mut self.history);
        self.history = self.taken_up(read, now);
        self.rest = None;
        self.in_flight = InFlight::default();
        self.outcomes.clear();
        self.providers_due = true;
        self.term = Some(epoch);
        Ok(())
    }

    /// Asks every pool's provider what it has. A failed read leaves the older answer, with its age.
    pub(super) async fn ask_providers(&mut self, now: UnixTime) {
        let clock = self.ports.host.monotonic();
        let aged = self.providers_due_at.is_none_or(|at| at <= clock);
        if !self.providers_due && !aged {
            return;
        }
        self.providers_due = false;
        let mut next_in = PROVIDER_INTERVAL_MAX;
        let nodes = facts::own_nodes(&self.world);
        let registered = facts::registered(&self.world);
        let none = Vec::new();
        let pools: Vec<Asked<'_>> = self
            .settings
            .providers
            .values()
            .map(|pool| {
                let nodes = nodes.get(&pool.name).unwrap_or(&none);
                Asked { pool, nodes, registered: &registered }
            })
            .collect();
        // What a provider counts from the nodes of the view is as old as the view.
        let seen_at = self.nodes_as_of(now);
        let open = |memory: &headroom_core::history::PoolHistory| {
            memory.intents.iter().map(|intent| intent.id.clone()).collect()
        };
        let open: OpenIntents =
            self.history.pools.iter().map(|(pool, memory)| (pool.clone(), open(memory))).collect();
        self.ports.provider.note_open(&open);
        let answers = self.ports.provider.observe(&pools).await;
        let names: Vec<Arc<str>> = pools.iter().map(|asked| asked.pool.name.clone()).collect();
        self.silence.keep(|pool| self.settings.providers.contains_key(pool));
        for (pool, answer) in names.into_iter().zip(answers) {
            match answer {
                Ok(Observation { state: value, read_at, next_in: due }) => {
                    next_in = next_in.min(due.unwrap_or(PROVIDER_INTERVAL_MAX));
                    if self.silence.ends(&pool) {
                        info!(pool = %pool, "provider answers again");
                    }
                    let at = read_at.unwrap_or(seen_at);
                    self.world.apply(Delta::ProviderObserved(pool, Known::Known { value, at }));
                }
                Err(error) => {
                    if self.silence.is_due(&pool, &error.to_string(), now) {
                        warn!(pool = %pool, %error, "provider did not answer");
                    }
                    next_in = next_in.min(PROVIDER_RETRY);
                    if self.world.provider(&pool).is_none_or(|known| known.value().is_none()) {
                        let why = error.to_string();
                        self.world.apply(Delta::ProviderObserved(pool, Known::Unknown { why }));
                    }
                }
            }
        }
        self.tidy_providers().await;
        self.providers_due_at = Some(clock + next_in.max(PROVIDER_INTERVAL_MIN));
    }

    /// Lets providers remove what they made for pools and what is out of use. Of pools that may not act nothing goes.
    async fn tidy_providers(&mut self) {
        for (name, pool) in &self.settings.providers {
            let acts = self
                .settings
                .config
                .pool(name)
                .is_some_and(|pool| pool.mode == Mode::Apply && !pool.deleting);
            if !acts {
                continue;
            }
            let intents = self.history.pools.get(name).into_iter().flat_map(|memory| &memory.intents);
            let busy = intents.filter_map(|intent| match &intent.action {
                Action::Increase(increase) => Some(increase.group.clone()),
                Action::Remove(_) => None,
            });
            self.ports.provider.tidy(pool, &busy.collect()).await;
        }
    }

    /// A wall clock that was set since the last turn takes the memory with it: no clock may run out by that.
    pub(super) fn follow_clock(&mut self, now: UnixTime) {
        let clock = self.ports.host.monotonic();
        let Some((wall, before)) = self.clocks.replace((now, clock)) else { return };
        let passed = i64::try_from(clock.saturating_duration_since(before).as_secs()).unwrap_or(i64::MAX);
        let jump = now.since(wall).0.saturating_sub(passed);
        if CLOCK_JUMP_MIN <= jump.saturating_abs() {
            warn!(seconds = jump, "the wall clock was set; every clock moves with it");
            clocks::shift_clocks(&mut self.history, Seconds(jump));
            self.blocked_since.shift(Seconds(jump));
            // What a scale-in sent away by the old clock is waited for no longer.
            self.world.send_away([], now, UnixTime(i64::MAX));
            self.rest = None;
        }
    }

    /// Turns what the world answered into memory.
    pub(super) fn absorb(&mut self, now: UnixTime) {
        let outcomes = std::mem::take(&mut self.outcomes);
        for outcome in &outcomes {
            debug!(pool = %outcome.pool, intent = %outcome.intent, result = ?outcome.result, "step ended");
            if let Some(stored) = self.stored.get_mut(&outcome.pool) {
                stored.answered(outcome);
            }
        }
        headroom_core::absorb(&mut self.history, &outcomes, &self.settings.config, now);
    }

    /// Returns the freshness of the world.
    pub(super) fn freshness_at(&self, now: UnixTime) -> Freshness {
        Freshness {
            stale: self.is_view_stale(now),
            nodes_silent_for: now.since(self.nodes_as_of(now)),
            asking: self.in_flight.increases(),
        }
    }

    /// Time at which nodes were last heard of; `now` when that is not known or, by a clock that was set, later.
    pub(super) fn nodes_as_of(&self, now: UnixTime) -> UnixTime {
        let nodes = Watch::World(Kind::Node);
        let silence = self.ports.feed.silent_for(nodes, now).unwrap_or_default();
        UnixTime(now.0.saturating_sub(silence.0.max(0)))
    }

    /// True if the view is too old, or of a cluster that was set back too lately, to remove anything by.
    pub(super) fn is_view_stale(&self, now: UnixTime) -> bool {
        let stale = self.ports.feed.staleness(now).is_none_or(|age| age > VIEW_AGE_MAX);
        // A restored backup has forgotten nodes, pods and intents: until the cluster has found itself nothing goes.
        let set_back = self.ports.feed.regressed_at().is_some_and(|at| now.since(at) < REGRESSION_HOLD);
        stale || set_back
    }

    pub(super) fn measure_watches(&self, now: UnixTime) {
        for watch in self.ports.feed.health(now) {
            let silence = watch.silent_for.map(|silence| silence.0);
            let (regressions, undecodable) = (watch.regressions_count, watch.undecodable_count);
            self.ports.metrics.watch(watch.watch.as_str(), silence, regressions, undecodable);
        }
    }
}
