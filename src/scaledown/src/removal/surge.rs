//! Workloads that have one replica more for an open removal: from the mark of its nodes until their pods have left.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::removal::phases::One;
use headroom_cluster::history::{History, PoolHistory, RemovalPhase, Surge};
use headroom_values::reason::Reason;

/// The surges that are wanted now: of removals whose nodes are marked, so that the new pod goes elsewhere, and whose pods
/// have not left. Sorted.
#[must_use]
pub fn surges_wanted(history: &History) -> Vec<Surge> {
    let removals = history.pools.values().flat_map(PoolHistory::removals);
    let marked = removals
        .filter(|(_, removal)| matches!(removal.phase, RemovalPhase::Marked | RemovalPhase::Draining));
    let mut wanted: Vec<Surge> = marked.flat_map(|(_, removal)| removal.surges.iter().cloned()).collect();
    wanted.sort();
    wanted
}

impl One<'_, '_> {
    /// Reason why the removal is called off for a workload whose policy does not allow one replica more any longer.
    pub(super) fn surge_forbidden(&self) -> Option<(Reason, String)> {
        let known = self.scene.world.surge_workloads()?;
        let allowed = |surge: &&Surge| known.iter().any(|workload| workload.policy == surge.policy);
        let surge = self.removal().surges.iter().find(|surge| !allowed(surge))?;
        let words = format!("ScalingPolicy {} does not allow one replica more any longer", surge.policy);
        Some((Reason::SurgeEnded, words))
    }

    /// Ends the surges of workloads whose pods have left the victims. A pod that is stopping has not left: the replica is
    /// given back when no controller can count that pod any more.
    pub(super) fn end_surges(&mut self) {
        if self.removal().surges.is_empty() {
            return;
        }
        let world = self.scene.world;
        let nodes = self.removal().victims.iter().filter_map(|victim| self.node(victim));
        let pods = nodes.flat_map(|(_, _, entry)| &entry.pods).map(|id| &world.pod(*id).pod);
        let owners = pods.filter(|pod| !pod.phase.finished()).filter_map(|pod| pod.owner.as_ref());
        let there: BTreeSet<Arc<str>> = owners.map(|owner| owner.uid.clone()).collect();
        self.removal_mut().surges.retain(|surge| there.contains(&surge.owner));
    }
}
