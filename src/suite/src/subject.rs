//! A provider on a model of its cloud, as the checks need it.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use headroom_core::history::Victim;
use headroom_core::time::UnixTime;
use headroom_provider::{CloudProvider, Error, Increase, NodeMetadata, Observation, PoolAtProvider};

/// The group's maximum.
pub const MAX: u32 = 700;

/// Fault of requests to the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The next write that changes a size does not arrive.
    LoseIncrease,
    /// The next write that changes a size takes effect, and its answer is lost.
    LoseIncreaseAnswer,
    /// The next deletion takes effect, and its answer is lost.
    LoseDeletionAnswer,
    /// The next write that changes a size is throttled.
    ThrottleIncrease,
    /// All reads fail until [`Subject::heal`].
    FailReads,
    /// All reads are throttled until [`Subject::heal`].
    ThrottleReads,
}

/// A provider with one pool of one group.
pub trait Subject: Sync + 'static {
    /// The provider.
    fn provider(&self) -> &dyn CloudProvider;

    /// The pool.
    fn pool(&self) -> PoolAtProvider;

    /// The group's id.
    fn group(&self) -> Arc<str>;

    /// The time.
    fn now(&self) -> UnixTime;

    /// An increase of the group under the intent `1-1`, decided now.
    fn request(&self, from: u32, to: u32) -> Increase;

    /// Lets time pass for the cloud and for the provider.
    fn pass(&self, seconds: u64) -> BoxFuture<'_, ()>;

    /// The provider's answer about the pool.
    fn observe(&self) -> BoxFuture<'_, Result<Observation, Error>>;

    /// Another process with the same cloud: what the provider kept in memory is lost.
    fn restart(self) -> BoxFuture<'static, Self>
    where
        Self: Sized;

    /// Plays a fault; false if this cloud has no such fault.
    fn play(&self, fault: Fault) -> bool;

    /// Ends the faults that last.
    fn heal(&self);

    /// Size that the cloud has for the group.
    fn size(&self) -> u32;

    /// Sets the size by hand, without the provider; false if this cloud has no sizes.
    fn resize(&self, size: u32) -> bool;

    /// Ids of the instances that are there and not going, as observations name them.
    fn instances(&self) -> BTreeSet<Arc<str>>;

    /// An instance as a victim, with the metadata of its Node.
    fn victim(&self, id: &str) -> (Victim, Option<NodeMetadata>);
}
