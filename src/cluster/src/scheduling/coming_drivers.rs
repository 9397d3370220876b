//! CSI drivers of nodes: those that are there, and those that will be. It places nothing.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::scheduling::snapshot::{NodeIx, NodeView, Snapshot};
use crate::world::World;
use crate::world::volume::AttachLimits;

/// CSI drivers that will be on a node, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComingDrivers {
    /// Drivers with the number of volumes that each attaches; `None` when no driver is known.
    pub limits: Option<Arc<AttachLimits>>,
    /// Drivers that pods require on their nodes and that will not be there. What nothing is known of is not among them.
    pub missing: Vec<Arc<str>>,
}

impl Snapshot<'_> {
    /// Looks at a new node as having the drivers of volumes that will register on it, and their labels.
    ///
    /// For building the snapshot only: it is not taken back by a rollback.
    pub fn expect_drivers(&mut self, node: NodeIx, drivers: ComingDrivers) {
        let node = &mut self.nodes[node];
        node.awaits_drivers = true;
        node.coming = Some(drivers);
    }

    /// Counts with these limits on nodes to come, beside those that nodes report.
    ///
    /// For building the snapshot only: it is not taken back by a rollback.
    pub fn expect_limits(&mut self, limits: &AttachLimits) {
        self.limited_drivers().extend(limits.limited().cloned());
    }

    /// CSI drivers that a node attaches a limited number of volumes of, or that one to come does.
    pub(super) fn limited_drivers(&mut self) -> &mut FxHashSet<Arc<str>> {
        let storage = self.world().storage();
        self.limited_drivers.get_or_insert_with(|| storage.limited_drivers())
    }
}

impl NodeView<'_> {
    /// Returns its CSI drivers, with the number of volumes that each attaches; `None` when no driver is known.
    #[must_use]
    pub fn attach_limits<'a>(&'a self, world: &'a World) -> Option<&'a AttachLimits> {
        let known = || world.storage().attach_limits.get(&**self.name()).filter(|_| !self.is_added());
        let coming = self.coming_drivers().and_then(|coming| coming.limits.as_ref());
        coming.or_else(known).map(|limits| &**limits)
    }

    /// True if a driver that pods require on their nodes is not on this one: unknown is not missing.
    #[must_use]
    pub fn lacks_driver(&self, driver: &Arc<str>, world: &World) -> bool {
        match self.coming_drivers() {
            Some(coming) => coming.missing.contains(driver),
            None => !self.attach_limits(world).is_some_and(|limits| limits.names(driver)),
        }
    }
}
