//! Purchase and removal of nodes, and the reasons for both: the parts of `plan_nodes`, by the names of what they do.

pub use headroom_pools::{increase, interruption, quarantine, state, wake};
pub use headroom_scaledown::{self as scale_down, consolidation, removal, rotation};
pub use headroom_scaleup::{
    self as scale_up, buffers, context, explain, gangs, packing, preview, quotas, requests,
};
