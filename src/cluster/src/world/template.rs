//! Template of a new node.

use serde::{Deserialize, Serialize};

use headroom_values::labels::Labels;
use headroom_values::resources::Resources;

use crate::scheduling::constraints::Taint;

/// Template of a pool's new node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTemplate {
    /// Labels, the pool's own among them; zone and hostname are added per group and node.
    pub labels: Labels,
    /// Lasting taints.
    pub taints: Vec<Taint>,
    /// Amounts of the machine.
    pub capacity: Resources,
    /// Amounts that pods can use: capacity less what is reserved.
    pub allocatable: Resources,
}
