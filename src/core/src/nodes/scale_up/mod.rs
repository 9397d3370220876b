//! Scale-up: growth of the pools, and the groups that get the nodes.
//!
//! In the order in which a plan uses them: `demand` collects pods that want a node (`unbound` and `anticipation` leave
//! out those that nodes were bought for in vain), `placement` places them on nodes that exist or are on their way (`alike_room`),
//! `serve` asks each pool for an offer (`packing`, `bounds`, `limits`), `expander` chooses one, `balance` spreads it over the
//! groups (`similar_pools`, `similarity`), `mixed` offers several shapes together by their price, `smaller` makes single nodes of
//! other offers cheaper shapes,
//! `diversity` spreads spot machines over shapes, `followers` holds back pods that follow others into a domain, `new_domains`
//! those whose nodes would take more places away than they give, `spare` gives up what is not needed after all, and `increase` is the life of the intent.

mod alike_room;
pub mod anticipation;
pub mod balance;
pub(in crate::nodes) mod bounds;
pub mod demand;
pub(in crate::nodes) mod diversity;
pub mod expander;
pub mod followers;
pub mod increase;
pub mod limits;
mod mixed;
pub(in crate::nodes) mod new_domains;
pub mod placement;
pub(in crate::nodes) mod serve;
pub(in crate::nodes) mod similar_pools;
mod smaller;
pub(in crate::nodes) mod spare;
pub mod unbound;

pub use headroom_cluster::similarity;

pub use bounds::{barrier, new_capacity, rooms};
pub use serve::{enforce_min, journal, note_pods, serve, serve_all};
