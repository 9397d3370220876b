//! The room that decides how many replicas a workload gets: every rule of autoscaling/v2, and schedules and fallback.
//!
//! It decides for one workload at a time, from values; it fetches nothing. How a controller calls it, once a sync period
//! and workload:
//!
//! 1. Read the scale subresource. `Err(message)` goes into [`input::Input::scale`] as it is.
//! 2. Parse its selector with [`selector::Selector::parse`] and hand it to [`selector::Registry::put`]; take the pods
//!    it matches from the watch's store and ask [`selector::Registry::rivals`] for other HPAs over the same pods. If
//!    it is empty or can not be read, pass no pods: the decision reports it by itself.
//! 3. Ask for the metrics and give one [`input::Answer`] for each, in the order of the spec. A call that failed is
//!    [`input::Unknown::Failed`]; nothing unknown is ever passed as 0. When the size is 0 and stays so, above max
//!    or below min, no metric is looked at ([`decide::needs_metrics`] decides that), so none needs to be asked for.
//! 4. `let decision = decide(&input)`. Nothing has happened yet.
//! 5. If [`decision::Decision::rescale`] is there and is to be carried out: make [`decision::Decision::journal`] durable
//!    ([`memory::render`]), which holds the scale event, then write the scale. Else go on with
//!    [`decision::WriteOutcome::NotWritten`].
//! 6. `let tick = after_write(decision, outcome)`: publish `tick.events`, write `tick.status` if it differs from the
//!    stored one, publish `FailedUpdateStatus` if that failed, publish `tick.events_after_status`, and keep
//!    `tick.memory`. [`durability::urgency`] returns how soon the memory must be stored again.
//!
//! [`record`] holds the input of a decision as a file does, so that it can be made again from there.
//!
//! After a restart the memory is what [`memory::parse`] makes of status, handed through [`durability::resumed`], which
//! adds the time during which nobody watched (design rule 9). A workload that was never seen has [`memory::Memory::default`].
//!
//! Source: kubernetes pkg/controller/podautoscaler, release 1.35.

pub mod admission;
pub mod after_write;
pub mod amount;
mod behavior;
pub mod conditions;
pub mod decide;
pub mod decision;
pub mod defaulting;
pub mod durability;
pub mod formula;
pub mod input;
pub mod memory;
mod metric;
pub mod moment;
mod numbers;
pub mod record;
mod replica_calculator;
mod requests;
mod rollout;
pub mod schedules;
pub mod selector;
pub mod spec;
mod stabilization;
pub mod status;
pub mod surge;
pub mod zero;

pub use after_write::after_write;
pub use decide::{decide, needs_metrics};
pub use metric::name as metric_name;
