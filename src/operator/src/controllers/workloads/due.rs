//! Queue of evaluations: in order of time, with a share of the evaluations in flight for each namespace. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::labels::ObjectKey;
use tokio::time::Instant;

/// A namespace may have so many evaluations in flight for each one that is still free. Alone it gets three quarters of
/// all. An evaluation that ends goes to a namespace with few in flight before it goes to one with many, so one that has
/// none waits for a few evaluations at most, however many are overdue elsewhere.
const SHARE: usize = 3;

/// Workloads by the time they are due, and the evaluations in flight.
#[derive(Debug)]
pub(super) struct Due {
    in_flight_max: usize,
    in_flight: BTreeMap<Arc<str>, usize>,
    in_flight_count: usize,
    waiting: BTreeMap<Arc<str>, BTreeSet<(Instant, ObjectKey)>>,
    /// The first of each namespace.
    heads: BTreeSet<(Instant, Arc<str>)>,
}

impl Due {
    /// Nothing is due; at most `in_flight_max` evaluations at once.
    #[must_use]
    pub(super) fn new(in_flight_max: usize) -> Self {
        Self {
            in_flight_max,
            in_flight: BTreeMap::new(),
            in_flight_count: 0,
            waiting: BTreeMap::new(),
            heads: BTreeSet::new(),
        }
    }

    /// Puts a workload in line.
    pub(super) fn insert(&mut self, at: Instant, key: ObjectKey) {
        self.edit(&key.namespace.clone(), |waiting| {
            waiting.insert((at, key));
        });
    }

    /// Takes a workload out of the line.
    pub(super) fn remove(&mut self, at: Instant, key: &ObjectKey) {
        self.edit(&key.namespace, |waiting| {
            waiting.remove(&(at, key.clone()));
        });
    }

    /// The workload to look at now, with the time it was due at; none while all who are due have their share in flight.
    pub(super) fn next(&mut self, now: Instant) -> Option<(Instant, ObjectKey)> {
        let (_, namespace) = self
            .heads
            .iter()
            .take_while(|(at, _)| *at <= now)
            .find(|(_, namespace)| self.has_share(namespace))?;
        let namespace = namespace.clone();
        let mut first = None;
        self.edit(&namespace, |waiting| first = waiting.pop_first());
        first
    }

    /// Time at which the first workload is due whose namespace has a share left.
    #[must_use]
    pub(super) fn first_at(&self) -> Option<Instant> {
        self.heads.iter().find(|(_, namespace)| self.has_share(namespace)).map(|(at, _)| *at)
    }

    /// An evaluation has begun.
    pub(super) fn begin(&mut self, namespace: &Arc<str>) {
        *self.in_flight.entry(namespace.clone()).or_default() += 1;
        self.in_flight_count += 1;
    }

    /// An evaluation has ended.
    pub(super) fn end(&mut self, namespace: &Arc<str>) {
        self.in_flight_count = self.in_flight_count.saturating_sub(1);
        if let Some(count) = self.in_flight.get_mut(namespace) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.in_flight.remove(namespace);
            }
        }
    }

    /// Looks in flight.
    #[must_use]
    pub(super) fn in_flight_count(&self) -> usize {
        self.in_flight_count
    }

    fn has_share(&self, namespace: &Arc<str>) -> bool {
        let free = self.in_flight_max.saturating_sub(self.in_flight_count);
        self.in_flight.get(namespace).copied().unwrap_or(0) < SHARE * free
    }

    fn edit(&mut self, namespace: &Arc<str>, edit: impl FnOnce(&mut BTreeSet<(Instant, ObjectKey)>)) {
        let waiting = self.waiting.entry(namespace.clone()).or_default();
        let before = waiting.first().map(|(at, _)| *at);
        edit(waiting);
        let after = waiting.first().map(|(at, _)| *at);
        if waiting.is_empty() {
            self.waiting.remove(namespace);
        }
        if before != after {
            if let Some(at) = before {
                self.heads.remove(&(at, namespace.clone()));
            }
            if let Some(at) = after {
                self.heads.insert((at, namespace.clone()));
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests have no host")]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(namespace: &str, number: u32) -> ObjectKey {
        ObjectKey::new(namespace, format!("p-{number:03}"))
    }

    /// Begins whatever may begin; returns how many evaluations each namespace has in flight.
    fn begin_all(due: &mut Due, now: Instant) -> BTreeMap<Arc<str>, usize> {
        while let Some((_, key)) = due.next(now) {
            due.begin(&key.namespace);
        }
        due.in_flight.clone()
    }

    fn counts(expected: &[(&str, usize)]) -> BTreeMap<Arc<str>, usize> {
        expected.iter().map(|(namespace, count)| (Arc::from(*namespace), *count)).collect()
    }

    #[test]
    fn looks_begin_in_order_of_time_over_all_namespaces() {
        let (mut due, now) = (Due::new(128), Instant::now());
        let at = |second| now + Duration::from_secs(second);
        for (second, namespace) in [(3, "a"), (1, "b"), (2, "a"), (5, "b")] {
            due.insert(at(second), key(namespace, u32::try_from(second).unwrap()));
        }
        due.remove(at(2), &key("a", 2));
        assert_eq!(due.first_at(), Some(at(1)));
        let order: Vec<_> = std::iter::from_fn(|| due.next(at(4))).map(|(_, key)| key).collect();
        assert_eq!(order, [key("b", 1), key("a", 3)]);
        assert_eq!(due.first_at(), Some(at(5)));
    }

    #[test]
    fn namespace_that_fills_its_share_leaves_looks_for_others() {
        let (mut due, now) = (Due::new(128), Instant::now());
        (0..1000).for_each(|number| due.insert(now, key("slow", number)));
        assert_eq!(begin_all(&mut due, now), counts(&[("slow", 96)]));
        // Thousands of overdue evaluations of one namespace do not delay the one of another.
        due.insert(now + Duration::from_secs(9), key("quick", 0));
        assert_eq!(due.first_at(), Some(now + Duration::from_secs(9)));
        let later = now + Duration::from_secs(9);
        assert_eq!(begin_all(&mut due, later), counts(&[("quick", 1), ("slow", 96)]));
        due.end(&"quick".into());
        assert_eq!(begin_all(&mut due, later), counts(&[("slow", 96)]));
    }

    #[test]
    fn look_that_ends_goes_to_the_namespace_with_few_in_flight() {
        let (mut due, now) = (Due::new(128), Instant::now());
        for namespace in ["slow-a", "slow-b", "slow-c", "slow-d"] {
            (0..128).for_each(|number| due.insert(now, key(namespace, number)));
        }
        let full = [("slow-a", 96), ("slow-b", 24), ("slow-c", 6), ("slow-d", 2)];
        assert_eq!(begin_all(&mut due, now), counts(&full));
        let later = now + Duration::from_secs(9);
        due.insert(later, key("quick", 0));
        due.end(&"slow-a".into());
        assert_eq!(begin_all(&mut due, later).get("slow-d"), Some(&3));
        due.end(&"slow-a".into());
        assert_eq!(begin_all(&mut due, later).get("quick"), Some(&1));
        assert_eq!(due.in_flight_count(), 128);
    }
}
