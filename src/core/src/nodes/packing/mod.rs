//! Number of new nodes that a set of pods needs: first fit by descending size (`pack`), or node by node (`patterns`).

mod pack;
pub mod patterns;

pub use pack::{Growable, PackedNode, Packing, PackingLimits, Wanted, may_come_round, pack, score};
