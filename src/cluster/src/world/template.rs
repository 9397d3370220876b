//! What a new node offers.

use serde::{Deserialize, Serialize};

use headroom_values::labels::Labels;
use headroom_values::resources::Resources;

use crate::scheduling::constraints::Taint;

/// What a new node of a pool offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTemplate {
    /// Labels, the pool's own among them; zone and hostname are added per group and node.
    pub labels: Labels,
    /// Lasting taints.
    pub taints: Vec<Taint>,
    /// What the machine has.
    pub capacity: Resources,
    /// What pods can have: capacity less what is reserved.
    pub allocatable: Resources,
}
