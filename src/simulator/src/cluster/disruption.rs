//! The disruption controller: keeps the status of every PodDisruptionBudget true; it evicts nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::pods::{Owner, PodFacts, Pods, owner};
use super::queue::WorkQueue;
use super::template::count_or_percent;
use crate::store::{
    Author, Entry, Filter, Kind, LabelSelector, ObjectKey, Store, at, number, object_at, set_condition,
    timestamp,
};

const ME: Author<'static> = Author::actor("disruption-controller");
/// Source: disruption.go DeletionTimeout: an eviction that was allowed but never came counts this long.
const DISRUPTED_FOR: SignedDuration = SignedDuration::from_mins(2);

/// The pods that a budget covers, as they were when they last changed.
type Covered = BTreeMap<ObjectKey, Arc<PodFacts>>;

/// Budgets with the pods that they cover, kept as pods come and go.
#[derive(Debug, Default)]
pub(super) struct Disruption {
    budgets: BTreeMap<ObjectKey, (LabelSelector, Covered)>,
    pub(super) queue: WorkQueue<ObjectKey>,
}

impl Disruption {
    pub(super) fn observe_budget(&mut self, entry: &Entry, store: &Store, pods: &Pods) {
        if entry.deleted {
            self.budgets.remove(&entry.key);
            return;
        }
        let Some(selector) = at(&entry.object, &["spec", "selector"]).map(LabelSelector::of_object) else {
            return;
        };
        self.queue.add(entry.key.clone());
        if self.budgets.get(&entry.key).is_some_and(|(known, _)| *known == selector) {
            return;
        }
        let filter =
            Filter { namespace: entry.key.namespace.to_string(), labels: selector, ..Filter::default() };
        // A pod that has come since is yet to be observed.
        let covered = store.list(Kind::Pod, &filter);
        let covered = covered.filter_map(|(key, _)| Some((key.clone(), pods.get(key)?.clone()))).collect();
        self.budgets.insert(entry.key.clone(), (filter.labels, covered));
    }

    /// `pod` is what is left of it after the change.
    pub(super) fn observe_pod(&mut self, entry: &Entry, pod: Option<&Arc<PodFacts>>) {
        if self.budgets.is_empty() {
            return;
        }
        let first = ObjectKey::new(&entry.key.namespace, "");
        let budgets =
            self.budgets.range_mut(first..).take_while(|(key, _)| key.namespace == entry.key.namespace);
        for (key, (selector, covered)) in budgets {
            let is = pod.filter(|_| selector.matches(&entry.object));
            let was = match is {
                Some(pod) => covered.insert(entry.key.clone(), pod.clone()),
                None => covered.remove(&entry.key),
            };
            if is.is_some() || was.is_some() {
                self.queue.add(key.clone());
            }
        }
    }

    /// Source: disruption.go trySync, getExpectedPodCount, countHealthyPods, buildDisruptedPodMap.
    pub(super) fn act(&mut self, store: &mut Store) {
        let now = store.now();
        for key in self.queue.take_due(now) {
            let Some((_, covered)) = self.budgets.get(&key) else { continue };
            let Some(budget) = store.find(Kind::PodDisruptionBudget, &key).cloned() else { continue };
            let (disrupted, recheck_at) = still_disrupted((&key.namespace, &budget), covered, now);
            let expected = expected_pods(store, &budget, covered);
            let healthy = covered
                .iter()
                .filter(|(key, pod)| pod.active() && pod.ready && !disrupted.contains_key(&*key.name))
                .count() as i64;
            let desired =
                match (at(&budget, &["spec", "minAvailable"]), at(&budget, &["spec", "maxUnavailable"])) {
                    (Some(min), _) => count_or_percent(Some(min), expected, true, "0"),
                    // Upstream rounds the percentage of maxUnavailable up too.
                    (None, max) => (expected - count_or_percent(max, expected, true, "0")).max(0),
                };
            let allowed = if 0 < expected { (healthy - desired).max(0) } else { 0 };
            // The budget is there: it was read a few lines above.
            let _ = store.edit(Kind::PodDisruptionBudget, &key, ME, |budget| {
                let generation = number(budget, &["metadata", "generation"]).unwrap_or(1);
                let status = object_at(budget, &["status"]);
                for (field, count) in [
                    ("disruptionsAllowed", allowed),
                    ("currentHealthy", healthy),
                    ("desiredHealthy", desired),
                    ("expectedPods", expected),
                    ("observedGeneration", generation),
                ] {
                    status.insert(field.into(), count.into());
                }
                if disrupted.is_empty() {
                    status.remove("disruptedPods");
                } else {
                    status.insert("disruptedPods".into(), Value::Object(disrupted));
                }
                let (word, reason) =
                    if 0 < allowed { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
                set_condition(budget, "DisruptionAllowed", word, reason, "", now);
            });
            if let Some(at) = recheck_at {
                self.queue.add_at(at, key);
            }
        }
    }
}

fn still_disrupted(
    (namespace, budget): (&str, &Value),
    covered: &Covered,
    now: Timestamp,
) -> (Map<String, Value>, Option<Timestamp>) {
    let mut kept = Map::new();
    let mut recheck_at: Option<Timestamp> = None;
    let entries = at(budget, &["status", "disruptedPods"]).and_then(Value::as_object);
    for (name, since) in entries.into_iter().flatten() {
        let present = covered.get(&ObjectKey::new(namespace, name)).is_some_and(|pod| pod.active());
        let wrapped = serde_json::json!({"since": since});
        let ends_at = timestamp(&wrapped, &["since"]).and_then(|since| since.checked_add(DISRUPTED_FOR).ok());
        if let Some(ends_at) = ends_at.filter(|ends_at| present && now < *ends_at) {
            kept.insert(name.clone(), since.clone());
            recheck_at = Some(recheck_at.map_or(ends_at, |known| known.min(ends_at)));
        }
    }
    (kept, recheck_at)
}

/// With a whole number in `minAvailable` the pods that there are; otherwise what their controllers want.
fn expected_pods(store: &Store, budget: &Value, covered: &Covered) -> i64 {
    if at(budget, &["spec", "minAvailable"]).is_some_and(Value::is_number) {
        return covered.values().filter(|pod| pod.active()).count() as i64;
    }
    // Looked at once for each controller, however many pods it has: whether one stands for its pods.
    let mut scaled: FxHashMap<&str, bool> = FxHashMap::default();
    let mut counted: BTreeSet<(Kind, ObjectKey)> = BTreeSet::new();
    let mut expected = 0;
    for pod in covered.values() {
        let is_scaled = pod.owner.as_ref().is_some_and(|set| {
            *scaled.entry(&set.uid).or_insert_with(|| match scale_of(store, set) {
                Some((workload, replicas)) => {
                    expected += if counted.insert(workload) { replicas } else { 0 };
                    true
                }
                None => false,
            })
        });
        expected += i64::from(!is_scaled && pod.active());
    }
    expected
}

/// The workload that a set belongs to, or else the set itself, with the number of pods that it wants; `None` if that is not known.
fn scale_of(store: &Store, set: &Owner) -> Option<((Kind, ObjectKey), i64)> {
    let object = store.find(set.kind, &set.key)?;
    let above = owner(object).and_then(|above| Some((store.find(above.kind, &above.key)?, above)));
    let (workload, object) = match above {
        Some((object, above)) => ((above.kind, above.key), object),
        None => ((set.kind, set.key.clone()), object),
    };
    Some((workload, number(object, &["spec", "replicas"])?))
}
