//! Evictions under one PodDisruptionBudget go a few at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use headroom_core::labels::ObjectKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Evictions under one budget that are under way at once. One alone waits for most of its time; with many the API server
/// writes past itself.
const WIDTH: usize = 4;

/// The turns at each budget.
///
/// The API server counts an eviction by writing the budget's status and begins again when another write was faster. Many at
/// once mostly write past each other: twelve conflicts for each pod that left, and answers of "timed out", were seen
/// when two hundred pods under four budgets were evicted together.
#[derive(Debug, Default)]
pub struct BudgetSemaphores {
    by_budget: Mutex<BTreeMap<ObjectKey, Arc<Semaphore>>>,
}

impl BudgetSemaphores {
    /// Waits for the turn at this budget, which lasts until what is returned is dropped. First come, first served.
    ///
    /// `None` never comes: no semaphore is ever closed.
    pub async fn enter(&self, budget: &ObjectKey) -> Option<OwnedSemaphorePermit> {
        let semaphore = {
            let mut semaphores = self.by_budget.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever waits or acts holds a count of its semaphore: the others are over.
            semaphores.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
            semaphores.entry(budget.clone()).or_insert_with(|| Arc::new(Semaphore::new(WIDTH))).clone()
        };
        semaphore.acquire_owned().await.ok()
    }
}
