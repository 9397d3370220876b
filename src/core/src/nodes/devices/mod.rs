//! Devices of nodes: what a node to come will have, which nodes have not published theirs yet, and how much is in use.

pub(super) mod published;
pub(super) mod template;
pub(super) mod utilization;
