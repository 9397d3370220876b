//! Scale-down: choice of the nodes that go now. Their removal itself is in `crate::nodes::removal`.
//!
//! In the order in which `decide` uses them: `candidates` classifies each node by its own state (`utilization`,
//! `drainability`, `minimums`), `promised` keeps room that pods are waiting for, `trial` looks for other places for the
//! pods (`relocation`, beside buffers as the scheduler sees them: `standby`) and keeps the node's clock, `terminating`
//! foresees nodes whose pods are ending, `zone_balance` orders equal candidates, `budgets`, `whole`, `together` and
//! `gangs` bound what leaves at once, `bundles` shares intents, `surge` finds workloads that may have one replica more
//! where a budget keeps the node, `second_choice` collects what a preferred pool could take over, `eviction_cooldown` leaves pods
//! alone that came in place of evicted ones, `verdicts` keeps one reason for each node, and `candidate_taints` keeps pods away from nodes that go next. `unregistered` deletes
//! instances that never became nodes.

pub mod budgets;
pub mod bundles;
pub mod candidate_taints;
pub mod candidates;
mod decide;
pub mod drainability;
pub mod eviction_cooldown;
pub(in crate::nodes) mod gangs;
mod interrupted;
mod message;
pub(in crate::nodes) mod minimums;
pub(in crate::nodes) mod promised;
pub mod relocation;
mod second_choice;
pub mod standby;
pub(in crate::nodes) mod surge;
pub(in crate::nodes) mod terminating;
pub(in crate::nodes) mod together;
pub(in crate::nodes) mod trial;
pub mod unregistered;
pub mod utilization;
pub mod verdicts;
pub(in crate::nodes) mod whole;
pub(in crate::nodes) mod zone_balance;

pub use decide::{ScaleDown, decide};
