//! Scale-up: growth of the pools, and the groups that get the nodes.
//!
//! `context` is one plan in progress, on which all of it works. In the order in which a plan uses the rest: `demand`
//! collects pods that want a node, also those that do not exist yet (`expected`; `unbound` and `anticipation` leave out those that
//! nodes were bought for in vain),
//! `placement` places them on nodes that exist or are on their way (`alike_room`), `serve` asks each pool for an offer
//! (`packing`, `bounds`, `limits`, `quotas`), `expander` chooses one, `balance` spreads it over the groups
//! (`similar_pools`), `mixed` offers several shapes together by their price, `smaller` makes single nodes of other offers
//! cheaper shapes, `diversity` spreads spot machines over shapes, `followers` holds back pods that follow others into a
//! domain, `new_domains` those whose nodes would take more places away than they give, `spare` gives up what is not needed
//! after all, and `journal` writes down what is bought.
//!
//! `gangs` sees to it that pods that are scheduled together are bought for together or not at all. `requests` is room that
//! ProvisioningRequests ask for as a whole, `buffers` room that CapacityBuffers keep free. `explain` finds why pods got no
//! node, and `preview` what Preview pools would do.

mod alike_room;
pub mod anticipation;
pub mod balance;
pub mod bounds;
pub mod buffers;
pub mod context;
pub mod demand;
pub mod diversity;
pub mod expander;
mod expected;
pub mod explain;
pub mod followers;
pub mod gangs;
pub mod journal;
pub mod limits;
mod mixed;
mod new_domains;
pub mod packing;
pub mod placement;
pub mod preview;
pub mod quotas;
pub mod requests;
pub mod serve;
mod similar_pools;
mod smaller;
mod spare;
pub mod unbound;

pub use bounds::{barrier, new_capacity, rooms};
pub use journal::journal;
pub use serve::{enforce_min, note_pods, serve, serve_all};
