//! Drives the product through a case: plans at each tick and whenever an open removal is due, until it is at rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::config::Config;
use headroom_core::history::{Action, History};
use headroom_core::plan::{Outcome, Plan, StepResult};
use headroom_core::reason::Reason;
use headroom_core::time::UnixTime;
use headroom_core::{absorb, plan};

use super::input::Input;
use super::parts::Trace;
use super::settings;
use super::shield::{Scene, Shield};
use super::world::VectorWorld;

/// Most plans at one instant, and most instants between two ticks; more would be a loop without end.
const ROUNDS_MAX: usize = 100;
/// Most ticks after those of the case, until nothing moves any more.
const REST_TICKS_MAX: i64 = 200;

/// Run of a case.
pub(crate) struct Run {
    /// Actions, the time of rest included.
    pub(crate) trace: Trace,
    /// The sizes at rest.
    pub(crate) targets_at_rest: BTreeMap<String, i64>,
    /// The instant at which the ticks of the case were over.
    pub(crate) horizon: i64,
    /// The plan of the first tick.
    pub(crate) first: Plan,
    /// Reason why each node stayed, or went, in order of time; only what changed.
    pub(crate) verdicts: BTreeMap<Arc<str>, Vec<(i64, Reason)>>,
    /// Rules of the reference that were broken on the way.
    pub(crate) violations: Vec<String>,
    /// Unready nodes that left although their pods have no other place.
    pub(crate) unplaced: BTreeSet<Arc<str>>,
}

struct Driver<'i> {
    world: VectorWorld<'i>,
    history: History,
    config: Config,
    wake_at: Option<i64>,
    shield: Shield,
    first: Option<Plan>,
    verdicts: BTreeMap<Arc<str>, Vec<(i64, Reason)>>,
}

/// Runs the case.
pub(crate) fn run(input: &Input) -> Result<Run, String> {
    let config = settings::config(&input.options, &input.groups, input.priorities.as_ref())?;
    let mut driver = Driver {
        world: VectorWorld::new(input)?,
        history: History::default(),
        config,
        wake_at: None,
        shield: Shield::default(),
        first: None,
        verdicts: BTreeMap::new(),
    };
    for tick in 0..input.ticks {
        driver.tick(tick, input.tick_s)?;
    }
    let mut tick = input.ticks;
    while driver.removes() && tick < input.ticks + REST_TICKS_MAX {
        driver.tick(tick, input.tick_s)?;
        tick += 1;
    }
    Ok(Run {
        trace: driver.world.trace,
        targets_at_rest: driver.world.targets,
        horizon: input.ticks * input.tick_s,
        first: driver.first.unwrap_or_default(),
        verdicts: driver.verdicts,
        violations: driver.shield.violations,
        unplaced: driver.shield.unplaced,
    })
}

impl Driver<'_> {
    fn tick(&mut self, tick: i64, length: i64) -> Result<(), String> {
        let now = tick * length;
        self.world.advance(tick, now);
        self.settle(now)?;
        for _ in 0..ROUNDS_MAX {
            let removes = self.removes();
            let due = [self.wake_at.filter(|_| removes), self.world.next_end()];
            let Some(due) = due.into_iter().flatten().min().filter(|due| *due <= now + length) else { break };
            self.world.end_pods(due);
            self.settle(due)?;
        }
        Ok(())
    }

    /// Plans and carries out at one instant, and again while an open removal has a next step.
    ///
    /// More is bought at the next tick only: the reference's limit on new nodes is one of each loop.
    fn settle(&mut self, now: i64) -> Result<(), String> {
        let mut before = None;
        for round in 0..ROUNDS_MAX {
            self.world.observe(now)?;
            let planned = plan(&self.world.world, &self.history, &self.config, UnixTime(now));
            let moved = planned.next_history != self.history;
            self.history = planned.next_history.clone();
            self.wake_at = planned.wake_at.map(|at| at.0).filter(|at| now < *at);
            let steps = planned.steps.clone();
            self.note_verdicts(&planned, now);
            self.first.get_or_insert(planned);
            let scene = Scene { world: &self.world.world, config: &self.config, now };
            self.shield.observe(scene);
            self.shield.check(&steps, scene);
            for step in &steps {
                let outcomes = self.world.carry_out(step, now);
                absorb(&mut self.history, &outcomes, &self.config, UnixTime(now));
                let failed = |outcome: &Outcome| matches!(outcome.result, StepResult::IncreaseFailed { .. });
                for outcome in outcomes.iter().filter(|outcome| failed(outcome)) {
                    let scene = Scene { world: &self.world.world, config: &self.config, now };
                    self.shield.failed(&outcome.pool, scene);
                }
            }
            let rests = steps.is_empty() && (!moved || 0 < round);
            if !self.removes() || rests || before.as_ref() == Some(&steps) {
                break;
            }
            before = Some(steps).filter(|steps| !steps.is_empty());
        }
        Ok(())
    }

    fn note_verdicts(&mut self, planned: &Plan, now: i64) {
        for verdict in planned.reasons.nodes.iter() {
            let known = self.verdicts.entry(verdict.node.clone()).or_default();
            if known.last().is_none_or(|(_, reason)| *reason != verdict.reason) {
                known.push((now, verdict.reason));
            }
        }
    }

    /// True if a removal is under way.
    fn removes(&self) -> bool {
        let intents = self.history.pools.values().flat_map(|memory| &memory.intents);
        intents.into_iter().any(|intent| matches!(intent.action, Action::Remove(_)))
    }
}
