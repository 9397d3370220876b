//! The input of a decision as a value that can be written down, read again and planned again. It decides nothing.

use serde::{Deserialize, Serialize};

use headroom_cluster::history::History;
use headroom_cluster::world::World;
use headroom_cluster::world::record::{Error, WorldRecord};
use headroom_cluster::world::view::View;
use headroom_pods::record::{self, ReplicaDecision, ReplicaRecord};
use headroom_pools::config::Config;
use headroom_pools::plan::Plan;
use headroom_pools::state::blocked_since::{BlockedSince, KeptNodes};
use headroom_values::reason::Reason;
use headroom_values::time::UnixTime;

/// Everything that [`crate::plan()`] reads, what decisions on replicas have read, and the clocks that explanations show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshot {
    /// The instant of the plan.
    pub now: UnixTime,
    /// Settings of users.
    pub config: Config,
    /// Memory of the operator.
    pub history: History,
    /// State of the cluster.
    pub world: WorldRecord,
    /// Time since which each node has been kept by its reason, for explanations; no plan reads it. Empty where nobody watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptNodes>,
    /// Inputs of the last decision on the replicas of each workload, each with its own instant. `None` where they were
    /// not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<ReplicaRecord>,
}

impl Snapshot {
    /// Returns the inputs of a plan made from these four.
    #[must_use]
    pub fn of<'w>(view: impl Into<View<'w>>, history: &History, config: &Config, now: UnixTime) -> Self {
        let world = WorldRecord::of(view);
        Self {
            now,
            config: config.clone(),
            history: history.clone(),
            world,
            kept: Vec::new(),
            replicas: None,
        }
    }

    /// The same, with the clocks of whoever watched this world.
    #[must_use]
    pub fn watched(self, blocked_since: &BlockedSince, world: &World) -> Self {
        Self { kept: blocked_since.rows(world), ..self }
    }

    /// The same, with what decisions on replicas were made from.
    #[must_use]
    pub fn with_replicas(self, replicas: ReplicaRecord) -> Self {
        Self { replicas: Some(replicas), ..self }
    }

    /// Time since which this node has been kept by this reason, and whether that was seen to begin.
    #[must_use]
    pub fn kept_since(&self, node: &str, reason: Reason) -> Option<(UnixTime, bool)> {
        let has = |row: &&KeptNodes| {
            row.reason == reason && row.nodes.binary_search_by(|one| (**one).cmp(node)).is_ok()
        };
        self.kept.iter().find(has).map(|row| (row.since, row.seen))
    }

    /// Plans again. The same snapshot always gives the same plan.
    ///
    /// # Errors
    /// If the record of the world is none.
    pub fn replay(&self) -> Result<Plan, Error> {
        let (world, freshness) = (self.world.world()?, self.world.freshness());
        Ok(crate::plan(View::new(&world, &freshness), &self.history, &self.config, self.now))
    }

    /// Makes the last decision on each workload's replicas again, in order of the policies; `None` where their inputs were
    /// not noted. The same snapshot always gives the same decisions.
    ///
    /// # Errors
    /// If an entry of the record names what is not there.
    pub fn replay_replicas(&self) -> Result<Option<Vec<ReplicaDecision>>, record::Error> {
        self.replicas.as_ref().map(ReplicaRecord::decide).transpose()
    }
}
