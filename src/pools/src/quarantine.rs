//! What is set aside when a part of a plan panics (design rule 7).

use std::collections::BTreeSet;
use std::sync::Arc;

use headroom_cluster::world::pod::PodClass;

/// The part of the work that is being done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Nothing in particular.
    #[default]
    Whole,
    /// One pool.
    Pool(Arc<str>),
    /// One class of pods.
    Class(Arc<PodClass>),
}

/// Pools and classes left out of this plan because of a panic.
#[derive(Clone, Debug, Default)]
pub struct Quarantine {
    /// Pools that are neither grown nor shrunk.
    pub pools: BTreeSet<Arc<str>>,
    /// Classes whose pods do not count as demand.
    pub classes: Vec<Arc<PodClass>>,
}
