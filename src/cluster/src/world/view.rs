//! A world at one instant, and how far it may be trusted then.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use headroom_values::time::{Seconds, UnixTime};

use super::{IntentId, World};

/// Freshness of a world, which its objects do not show: their age, and the calls under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// True if the watches have been silent or behind for too long: nothing may be removed on the strength of this view.
    pub stale: bool,
    /// Time since the last news of nodes; a negative one counts as 0 s.
    pub nodes_silent_for: Seconds,
    /// Increases, by pool and intent, whose call is under way: what it comes to is not known yet.
    pub asking: BTreeSet<(Arc<str>, IntentId)>,
}

/// A world with everything just heard, and no call under way.
pub static FRESH: Freshness =
    Freshness { stale: false, nodes_silent_for: Seconds(0), asking: BTreeSet::new() };

impl Freshness {
    /// The instant at which nodes were as the world shows them, at most `now`: later changes are not known.
    /// A time that nodes are given is over when it was over by then.
    #[must_use]
    pub fn nodes_as_of(&self, now: UnixTime) -> UnixTime {
        UnixTime(now.0.saturating_sub(self.nodes_silent_for.0.max(0)))
    }

    /// True if a call for this increase is under way.
    #[must_use]
    pub fn is_asking(&self, pool: &Arc<str>, intent: &IntentId) -> bool {
        !self.asking.is_empty() && self.asking.contains(&(pool.clone(), intent.clone()))
    }
}

/// View of the cluster for a plan. Stands for its world wherever only objects matter.
#[derive(Clone, Copy, Debug)]
pub struct View<'w> {
    /// The objects.
    pub world: &'w World,
    /// Freshness of these objects.
    pub freshness: &'w Freshness,
}

impl<'w> View<'w> {
    /// The world as it is known at this instant.
    #[must_use]
    pub fn new(world: &'w World, freshness: &'w Freshness) -> Self {
        Self { world, freshness }
    }
}

impl<'w> From<&'w World> for View<'w> {
    fn from(world: &'w World) -> Self {
        Self { world, freshness: &FRESH }
    }
}

impl Deref for View<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        self.world
    }
}
