//! Evictions under one PodDisruptionBudget go one after another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use headroom_core::labels::ObjectKey;
use tokio::sync::OwnedMutexGuard;

/// The turns at each budget.
///
/// The API server counts an eviction by writing the budget's status and begins again when another write was faster. Many at
/// once mostly write past each other: twelve conflicts for each pod that left, and answers of "timed out", were seen
/// when two hundred pods under four budgets were evicted together.
#[derive(Debug, Default)]
pub struct Lanes {
    by_budget: Mutex<BTreeMap<ObjectKey, Arc<tokio::sync::Mutex<()>>>>,
}

impl Lanes {
    /// Waits for the turn at this budget, which lasts until what is returned is dropped. First come, first served.
    pub async fn enter(&self, budget: &ObjectKey) -> OwnedMutexGuard<()> {
        let lane = {
            let mut lanes = self.by_budget.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever waits or acts holds a count of its lane: the others are over.
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
            lanes.entry(budget.clone()).or_default().clone()
        };
        lane.lock_owned().await
    }
}
