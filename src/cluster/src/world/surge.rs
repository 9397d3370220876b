//! Workloads that may have one replica more while a node is drained, as the loop of workloads reports them. It decides
//! nothing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::World;
use headroom_values::labels::ObjectKey;

/// A workload whose ScalingPolicy allows one replica more for a drain, and is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SurgeWorkload {
    /// The ScalingPolicy. Its namespace is the workload's.
    pub policy: ObjectKey,
    /// Name of the Deployment that it scales.
    pub deployment: Arc<str>,
    /// Replicas of the Deployment without a surge.
    pub replicas: u32,
    /// Names of its pods, sorted, while it is steady: all replicas are there and ready, nothing is about to change, and one
    /// more is within `maxReplicas`. Empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<Arc<str>>,
}

impl World {
    /// Takes over what is known of workloads that allow a surge, in order of their policies; `None` while not all of them
    /// have been looked at.
    pub fn set_surge_workloads(&mut self, workloads: Option<Vec<SurgeWorkload>>) {
        if self.surge_workloads != workloads {
            self.surge_workloads = workloads;
            self.revision += 1;
        }
    }

    /// The workloads that allow a surge; `None` while not all of them have been looked at.
    #[must_use]
    pub fn surge_workloads(&self) -> Option<&[SurgeWorkload]> {
        self.surge_workloads.as_deref()
    }
}
