//! Shards of workloads: each is run by the replica that holds its Lease. It decides on no workload.
//!
//! A workload is of the shard that its namespace hashes to, which no edit changes. Whatever one decision reads is in one
//! namespace: rivals for a target, selectors that overlap, the bound on policies, one list of pod metrics.

mod keeper;
mod layout;
mod observed;
pub mod placement;
pub mod seat;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::Api;
use tokio::sync::{Notify, watch};

pub(super) use self::keeper::Keeper;
pub(super) use self::layout::{declare, is_declared};
pub(super) use self::observed::ObservedLeases;

use self::seat::Seat;
use super::leader::LeaseOptions;
use crate::actuate::guard::Guard;

/// Most shards.
pub const SHARDS_MAX: usize = 64;

/// One shard as the loop of workloads sees it.
#[derive(Clone)]
pub struct Shard {
    /// The entry point of every mutation for its workloads.
    pub guard: Guard,
    /// A client behind that guard.
    pub work: Client,
    /// True if it is open, and the evaluations under way.
    pub seat: Arc<Seat>,
}

/// Shards whose seats are all closed, one for each pair of a guard and a client behind it. They wake one loop.
#[must_use]
pub fn closed(guarded: impl IntoIterator<Item = (Guard, Client)>) -> Vec<Shard> {
    let changed = Arc::new(Notify::new());
    let shard = |(guard, work)| Shard { guard, work, seat: Arc::new(Seat::new(changed.clone())) };
    guarded.into_iter().map(shard).collect()
}

/// What the keeper of the shards' Leases needs.
pub(super) struct KeeperPorts {
    /// Leases, by a client of kind `Lease` that does not retry writes.
    pub(super) api: Api<Lease>,
    /// Settings of the leader's lease: names and times of the others follow from them.
    pub(super) lease: LeaseOptions,
    /// The shards, at least two.
    pub(super) shards: Vec<Shard>,
    /// True once this replica could decide: its caches are filled.
    pub(super) ready: Box<dyn Fn() -> bool + Send + Sync>,
    /// Becomes true when the process is to stop.
    pub(super) stop: watch::Receiver<bool>,
}

/// Lease of a shard, from that of the leader: its time is six tenths, at least 2 s, so that the workloads of a replica that is
/// gone are decided on within the time that the leader's lease lasts.
fn shortened(lease: Duration) -> Duration {
    Duration::from_secs((lease.as_secs() * 6 / 10).max(2))
}
