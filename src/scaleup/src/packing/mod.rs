//! Number of new nodes that a set of pods needs: first fit by descending size (`pack`), or node by node (`patterns`), and nodes of
//! several shapes by their price (`mixtures`).

pub mod mixtures;
mod pack;
pub mod patterns;
mod roomy;

pub use pack::{
    Growable, PackedNode, Packing, PackingLimits, Wanted, may_come_round, pack, pack_again, score,
};
pub(crate) use pack::{empty_room, hosting};
pub use roomy::RoomyNodes;
