//! Purchase and removal of nodes, and the reasons for both. It reads World, History and Config, and touches nothing.
//!
//! The order of one plan (`plan_nodes`):
//!
//! 1. `removal`: each open removal gets its next step.
//! 2. `state`: nodes and groups are counted by state; templates are learned from live nodes.
//! 3. `scale_up`: minimum sizes, then demand: pods are placed on nodes that exist or are on their way, and for the rest
//!    one offer after the other is packed (`packing`), chosen (`scale_up::expander`) and journalled.
//!    `gangs` sees to it that pods that are scheduled together are bought for together or not at all.
//! 4. `requests`: room that ProvisioningRequests ask for as a whole, and hold for a while, after all pods. `buffers`: room that CapacityBuffers keep free, after all pods.
//! 5. `explain`, `preview`: why pods got no node, and what Preview pools would do.
//! 6. `scale_down`: which nodes go, from candidates to those that leave now; then `rotation` and `consolidation`, whose
//!    replacements are bought first.
//!
//! `context` is what all of it works on; `interruption` finds the nodes that their cloud is about to take, and `quotas`
//! counts the nodes that CapacityQuotas leave.

use crate::time::Seconds;

pub mod buffers;
pub mod consolidation;
pub mod context;
mod devices;
pub mod explain;
pub mod gangs;
pub mod interruption;
pub mod packing;
pub mod plan_nodes;
pub mod preview;
pub mod quotas;
pub mod removal;
pub mod requests;
pub mod rotation;
pub mod scale_down;
pub mod scale_up;
pub mod state;
pub mod wake;

/// Clocks of API server and operator may differ by so much when an object's creation is compared with a decision.
const CLOCKS_DIFFER: Seconds = Seconds(5);
