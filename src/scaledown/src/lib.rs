//! Scale-down: choice of the nodes that go now, their removal, and the nodes that come in place of others.
//!
//! In the order in which `decide` uses them: `candidates` classifies each node by its own state (`utilization`,
//! `device_utilization`, `drainability`, `minimums`) that has its turn (`turns`), `promised` keeps room that pods are
//! waiting for, `trial` looks for other places for the pods (`relocation`, beside buffers as the scheduler sees them:
//! `standby`) and keeps the node's clock (`clocks` has those of the plan before), `terminating` foresees nodes whose pods are ending, `zone_balance` orders
//! equal candidates, `budgets`, `whole`, `together` and `gangs` bound what leaves at once, `bundles` shares intents,
//! `surge` finds workloads that may have one replica more where a budget keeps the node, `second_choice` collects what
//! a preferred pool could take over, `eviction_cooldown` leaves pods alone that came in place of evicted ones,
//! `verdicts` keeps one reason for each node, and `candidate_taints` keeps pods away from nodes that go next.
//! `unregistered` deletes instances that never became nodes.
//!
//! `removal` gives each open removal its next step. `rotation` replaces nodes that are old or outdated, `consolidation`
//! those that cheaper ones could replace: what comes in their place is bought first.

use headroom_values::time::Seconds;

pub mod budgets;
pub mod bundles;
pub mod candidate_taints;
pub mod candidates;
mod clocks;
pub mod consolidation;
mod decide;
mod device_utilization;
pub mod drainability;
mod emptiest;
pub mod eviction_cooldown;
mod gangs;
mod interrupted;
mod message;
mod minimums;
mod promised;
mod rankings;
pub mod relocation;
pub mod removal;
pub mod rotation;
mod second_choice;
pub mod standby;
mod surge;
mod terminating;
mod together;
mod trial;
pub mod turns;
pub mod unregistered;
pub mod utilization;
pub mod verdicts;
mod whole;
mod zone_balance;

pub use decide::{ScaleDown, decide};

/// Clocks of API server and operator may differ by so much when an object's creation is compared with a decision.
const CLOCKS_DIFFER: Seconds = Seconds(5);
