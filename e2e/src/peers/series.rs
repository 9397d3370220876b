//! Numbers that change over time, and live counts of objects; it knows nothing of autoscalers.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

/// A number and the instants at which it changed.
#[derive(Debug)]
pub(super) struct Series(Vec<(Instant, f64)>);

impl Series {
    fn new(at: Instant) -> Self {
        Self(vec![(at, 0.0)])
    }

    fn set(&mut self, at: Instant, value: f64) {
        if self.now() != value {
            self.0.push((at, value));
        }
    }

    /// The latest value.
    pub(super) fn now(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, value)| *value)
    }

    /// The value at an instant.
    pub(super) fn at(&self, instant: Instant) -> f64 {
        self.0.iter().take_while(|(at, _)| *at <= instant).last().map_or(0.0, |(_, value)| *value)
    }

    /// The largest value from `since` on.
    pub(super) fn most(&self, since: Instant) -> f64 {
        let later = self.0.iter().filter(|(at, _)| since < *at).map(|(_, value)| *value);
        later.fold(self.at(since), f64::max)
    }

    /// The last instant at which it changed.
    pub(super) fn last_change(&self) -> Option<Instant> {
        self.0.last().map(|(at, _)| *at)
    }

    /// Value times seconds, summed from `since` to `until`.
    pub(super) fn integral(&self, since: Instant, until: Instant) -> f64 {
        let ends = self.0.iter().skip(1).map(|(at, _)| *at).chain([until]);
        let parts = self.0.iter().zip(ends).map(|((from, value), to)| {
            let (from, to) = ((*from).max(since), to.min(until));
            value * to.saturating_duration_since(from).as_secs_f64()
        });
        parts.sum()
    }
}

/// The objects of a kind, each with an amount, as a watch sees them.
#[derive(Debug)]
pub(super) struct Count {
    amounts: BTreeMap<String, f64>,
    /// Those of a list under way.
    listed: BTreeMap<String, f64>,
    /// Number of objects.
    pub(super) number: Series,
    /// Their amounts together.
    pub(super) amount: Series,
    /// Objects that have come, and gone, since the start.
    pub(super) come: Series,
    pub(super) gone: Series,
}

impl Count {
    fn new(at: Instant) -> Self {
        let series = || Series::new(at);
        let (amounts, listed) = (BTreeMap::new(), BTreeMap::new());
        Self { amounts, listed, number: series(), amount: series(), come: series(), gone: series() }
    }

    fn take(&mut self, at: Instant, event: Event<(String, f64)>) {
        match event {
            Event::Apply((name, amount)) => {
                let is_new = self.amounts.insert(name, amount).is_none();
                self.note(at, usize::from(is_new), 0);
            }
            Event::Delete((name, _)) => {
                let was_there = self.amounts.remove(&name).is_some();
                self.note(at, 0, usize::from(was_there));
            }
            Event::Init => self.listed.clear(),
            Event::InitApply((name, amount)) => {
                self.listed.insert(name, amount);
            }
            Event::InitDone => {
                let before = std::mem::replace(&mut self.amounts, std::mem::take(&mut self.listed));
                let come = self.amounts.keys().filter(|name| !before.contains_key(*name)).count();
                let gone = before.keys().filter(|name| !self.amounts.contains_key(*name)).count();
                self.note(at, come, gone);
            }
        }
    }

    fn note(&mut self, at: Instant, come: usize, gone: usize) {
        self.come.set(at, self.come.now() + count(come));
        self.gone.set(at, self.gone.now() + count(gone));
        self.number.set(at, count(self.amounts.len()));
        self.amount.set(at, self.amounts.values().sum());
    }
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

/// A [`Count`] that follows the cluster until it is dropped.
#[derive(Debug)]
pub(super) struct Live {
    count: Arc<Mutex<Count>>,
    task: JoinHandle<()>,
}

impl Live {
    /// Counts the objects that `config` selects.
    pub(super) fn start<K>(api: Api<K>, config: Config, amount_of: fn(&K) -> f64) -> Self
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let count = Arc::new(Mutex::new(Count::new(Instant::now())));
        let shared = Arc::clone(&count);
        let task = tokio::spawn(async move {
            let mut events = std::pin::pin!(watcher(api, config).default_backoff());
            while let Some(event) = events.next().await {
                // It lists anew after an error.
                let Ok(event) = event else { continue };
                locked(&shared).take(Instant::now(), amounts(event, amount_of));
            }
        });
        Self { count, task }
    }

    pub(super) fn count(&self) -> MutexGuard<'_, Count> {
        locked(&self.count)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn locked(count: &Mutex<Count>) -> MutexGuard<'_, Count> {
    count.lock().unwrap_or_else(PoisonError::into_inner)
}

fn amounts<K: Resource>(event: Event<K>, amount_of: fn(&K) -> f64) -> Event<(String, f64)> {
    let amount = |object: K| (object.name_any(), amount_of(&object));
    match event {
        Event::Apply(object) => Event::Apply(amount(object)),
        Event::Delete(object) => Event::Delete(amount(object)),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(amount(object)),
        Event::InitDone => Event::InitDone,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn an_integral_counts_the_asked_time_only() {
        let start = Instant::now();
        let mut series = Series::new(start);
        series.set(at(start, 10), 4.0);
        series.set(at(start, 20), 1.0);
        assert_eq!(series.integral(at(start, 15), at(start, 30)), 4.0 * 5.0 + 1.0 * 10.0);
        assert_eq!((series.at(at(start, 19)), series.most(at(start, 20))), (4.0, 1.0));
        assert_eq!(series.last_change(), Some(at(start, 20)));
    }

    #[test]
    fn a_second_list_counts_what_went_while_nobody_watched() {
        let start = Instant::now();
        let mut count = Count::new(start);
        let node = |name: &str, cpus: f64| (name.to_owned(), cpus);
        count.take(at(start, 1), Event::Apply(node("a", 0.0)));
        count.take(at(start, 2), Event::Apply(node("a", 4.0)));
        count.take(at(start, 2), Event::Apply(node("b", 16.0)));
        assert_eq!((count.number.now(), count.amount.now(), count.come.now()), (2.0, 20.0, 2.0));
        count.take(at(start, 3), Event::Init);
        count.take(at(start, 3), Event::InitApply(node("b", 16.0)));
        assert_eq!(count.number.now(), 2.0, "a list that is not complete changes nothing");
        count.take(at(start, 4), Event::InitDone);
        assert_eq!((count.number.now(), count.amount.now(), count.gone.now()), (1.0, 16.0, 1.0));
    }
}
