//! Devices of nodes: what a node to come will have, and which nodes have not published theirs yet.

pub mod published;
pub mod template;
