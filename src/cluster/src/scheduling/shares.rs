//! The shares of namespaces in the work of one plan: nobody's pods use up what the pods of others need. It searches nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::scheduling::snapshot::ClassIx;

/// Parts of a plan's work of which one search for all pods may take one: a plan searches several times.
const SEARCHES: u64 = 8;

/// Budget of a plan that is left, in work units.
///
/// Half of the work of a search is for whoever comes first, and half is shared out evenly among the namespaces with
/// pods that want nodes. So one namespace may use all that others leave, and never what is theirs. The same holds for
/// the plan as a whole, since nodes are bought and pods placed anew several times.
#[derive(Clone, Debug)]
pub struct Shares {
    /// Budget of each search that all namespaces share.
    common: u64,
    search: Purse,
    plan: Purse,
    /// Classes whose search ended for want of work units, and whether some of their pods had a place by then.
    cut: BTreeMap<ClassIx, bool>,
}

/// Work units for one search, or for all of a plan.
#[derive(Clone, Debug)]
struct Purse {
    /// The work counter up to which everybody may search.
    common_until: u64,
    /// Further budget of each namespace.
    share: u64,
    spent: BTreeMap<Arc<str>, u64>,
}

impl Default for Shares {
    fn default() -> Self {
        let unlimited = || Purse { common_until: u64::MAX, share: 0, spent: BTreeMap::new() };
        Self { common: u64::MAX, search: unlimited(), plan: unlimited(), cut: BTreeMap::new() }
    }
}

impl Shares {
    /// Shares `max` work units out among so many namespaces.
    #[must_use]
    pub fn new(max: u64, namespaces: usize) -> Self {
        let namespaces = u64::try_from(namespaces.max(1)).unwrap_or(u64::MAX);
        let purse =
            |max: u64| Purse { common_until: max / 2, share: max / 2 / namespaces, spent: BTreeMap::new() };
        let common = max / SEARCHES / 2;
        Self { common, search: purse(max / SEARCHES), plan: purse(max), cut: BTreeMap::new() }
    }

    /// Everybody together may search until the work counter stands at `until`.
    #[must_use]
    pub fn until(until: u64) -> Self {
        let plan = Purse { common_until: until, share: 0, spent: BTreeMap::new() };
        Self { plan, ..Self::default() }
    }

    /// True if nobody may search any more when the work counter stands at `now`.
    #[must_use]
    pub fn is_spent(&self, now: u64) -> bool {
        self.plan.share == 0 && self.plan.common_until <= now
    }

    /// All pods are searched for anew; the work counter stands at `now`.
    pub fn begin_search(&mut self, now: u64) {
        self.search.common_until = now.saturating_add(self.common);
        self.search.spent.clear();
    }

    /// The work counter at which the search for pods of this namespace ends.
    #[must_use]
    pub fn limit(&self, namespace: &str, now: u64) -> u64 {
        self.search.limit(namespace, now).min(self.plan.limit(namespace, now))
    }

    /// Books work that was done for pods of this namespace.
    pub fn charge(&mut self, namespace: &Arc<str>, work_units: u64) {
        for purse in [&mut self.search, &mut self.plan] {
            *purse.spent.entry(namespace.clone()).or_insert(0) += work_units;
        }
    }

    /// The search for pods of this class ended early; `placed` is true if some have a place.
    pub fn cut(&mut self, class: ClassIx, placed: bool) {
        *self.cut.entry(class).or_insert(placed) |= placed;
    }

    /// True if the search for pods of this class ended early: no node is bought for the others.
    #[must_use]
    pub fn is_cut(&self, class: ClassIx) -> bool {
        self.cut.contains_key(&class)
    }

    /// True if no pod of this class is looked at any more.
    #[must_use]
    pub fn is_left_out(&self, class: ClassIx) -> bool {
        self.cut.get(&class) == Some(&false)
    }

    /// True if any search ended early.
    #[must_use]
    pub fn any_cut(&self) -> bool {
        !self.cut.is_empty()
    }
}

impl Purse {
    fn limit(&self, namespace: &str, now: u64) -> u64 {
        let spent = self.spent.get(namespace).copied().unwrap_or(0);
        self.common_until.max(now.saturating_add(self.share.saturating_sub(spent)))
    }
}
