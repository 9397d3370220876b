//! The input of a decision as a value that can be written down, read again and planned again. It decides nothing.

pub mod hide;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::history::History;
use crate::plan::Plan;
use crate::time::UnixTime;
use crate::world::World;
use crate::world::record::{Error, WorldRecord};

/// Everything that [`crate::plan`] reads.
///
/// Under profile ClusterAutoscaler the memory and the options that only the reference has are left out: it keeps them in
/// its process and nowhere else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshot {
    /// The instant of the plan.
    pub now: UnixTime,
    /// What users asked for.
    pub config: Config,
    /// What is remembered.
    pub history: History,
    /// What is.
    pub world: WorldRecord,
}

impl Snapshot {
    /// What a plan made from these four reads.
    #[must_use]
    pub fn of(world: &World, history: &History, config: &Config, now: UnixTime) -> Self {
        Self { now, config: config.clone(), history: history.clone(), world: WorldRecord::of(world) }
    }

    /// Plans again. The same snapshot always gives the same plan.
    ///
    /// # Errors
    /// If the record of the world is none.
    pub fn replay(&self) -> Result<Plan, Error> {
        Ok(crate::plan(&self.world.world()?, &self.history, &self.config, self.now))
    }
}

/// Maps whose keys are no text, as lists of pairs.
pub(crate) mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}
