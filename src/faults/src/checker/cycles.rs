//! Cycles that come to nothing: nodes bought for pods that stay unbound, and removed; pods evicted over and over while
//! the demand stays the same. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::{Checker, truth};
use headroom_simulator::store::{Entry, Kind, ObjectKey, Store, at, text};

/// Most times that a node is bought for a pod that stays unbound and a node of the pool is removed after it.
const CYCLES_MAX: usize = 2;
/// Most purchases for a pod that stays unbound, without those after which pods of others may have needed the nodes.
const PURCHASES_MAX: usize = 6;
/// Most evictions for each pod of a Deployment while no Deployment changes its size.
const EVICTIONS_EACH_MAX: usize = 3;

/// True if a pod is one of a Deployment's: its name is the Deployment's, a hash and a suffix.
fn is_of(pod: &ObjectKey, deployment: &ObjectKey) -> bool {
    pod.namespace == deployment.namespace && pod.name.rsplitn(3, '-').nth(2) == Some(&*deployment.name)
}

/// Purchases by the pods that their decisions name.
#[derive(Debug, Default)]
pub struct Cycles {
    decisions: BTreeSet<(String, String)>,
    pods: BTreeMap<ObjectKey, Bought>,
    /// Sizes of workloads: when one changes the demand is another.
    sizes: BTreeMap<ObjectKey, Option<i64>>,
    /// Pods of each Deployment that were evicted since then.
    evicted: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
}

/// Purchases for one pod.
#[derive(Debug, Default)]
struct Bought {
    pool: String,
    purchases_count: usize,
    /// True if a Deployment has more pods since the last one: they may have taken the room, and would have been bought for.
    grown: bool,
    cycles_count: usize,
    /// True if the last one was for this pod alone and no node of the pool has been removed since.
    open: bool,
    /// Nodes whose removal had begun by then: they go for an earlier demand.
    leaving: BTreeSet<String>,
}

impl Checker {
    /// I31: a pod was evicted.
    pub(super) fn note_eviction(&mut self, pod: &ObjectKey, now: Timestamp) {
        let wrong = self.cycles.as_mut().and_then(|cycles| cycles.evicted(pod));
        wrong.into_iter().for_each(|message| self.violated(now, "I31", message));
    }

    /// I31: reads decisions and removed nodes.
    pub(super) fn note_cycle(&mut self, store: &Store, entry: &Entry) {
        let Some(cycles) = &mut self.cycles else { return };
        let unbound = |key: &ObjectKey| {
            let pod = store.get(Kind::Pod, key).ok();
            pod.is_some_and(|pod| text(pod, &["spec", "nodeName"]).is_none_or(str::is_empty))
        };
        cycles.pods.retain(|key, _| unbound(key));
        let wrong = match entry.kind {
            Kind::Deployment => {
                let size = at(&entry.object, &["spec", "replicas"]).and_then(Value::as_i64);
                cycles.sized(&entry.key, size);
                Vec::new()
            }
            Kind::NodePool => {
                let pods = cycles.new_purchases(entry).into_iter().filter(unbound).collect();
                cycles.bought(&entry.key.name, pods, &leaving(entry))
            }
            Kind::Node if entry.deleted => {
                let pool = truth::pool_of(&entry.object).unwrap_or_default();
                cycles.removed(&pool, &entry.key.name)
            }
            _ => Vec::new(),
        };
        wrong.into_iter().for_each(|message| self.violated(entry.at, "I31", message));
    }
}

/// Nodes that open removals of a pool name.
fn leaving(pool: &Entry) -> BTreeSet<String> {
    let removals = truth::intents(&pool.object).into_iter().filter(truth::Intent::removes);
    removals.flat_map(|removal| removal.instances).map(|(node, _)| node).collect()
}

impl Cycles {
    /// A Deployment has a size. Where that is another one, a node that is removed from here on is so for another demand; and the
    /// Deployment's own pods begin anew.
    fn sized(&mut self, deployment: &ObjectKey, size: Option<i64>) {
        let before = self.sizes.insert(deployment.clone(), size);
        if before == Some(size) {
            return;
        }
        let grown = before.is_none_or(|before| before < size);
        self.evicted.clear();
        for (pod, bought) in &mut self.pods {
            bought.open = false;
            bought.grown |= grown && !is_of(pod, deployment);
            if is_of(pod, deployment) {
                bought.cycles_count = 0;
            }
        }
    }

    /// Nodes of a pool were bought for these pods.
    fn bought(&mut self, pool: &str, pods: Vec<ObjectKey>, leaving: &BTreeSet<String>) -> Vec<String> {
        let mut wrong = Vec::new();
        for key in pods {
            let bought = self.pods.entry(key.clone()).or_default();
            pool.clone_into(&mut bought.pool);
            // Where others have taken the room, the purchase and what becomes of its node are for their pods too.
            let for_others = std::mem::take(&mut bought.grown);
            bought.purchases_count += usize::from(!for_others);
            bought.open = !for_others;
            bought.leaving.clone_from(leaving);
            if PURCHASES_MAX < bought.purchases_count {
                let count = bought.purchases_count;
                wrong.push(format!("nodes were bought {count} times for pod {key}, which stays unbound"));
            }
        }
        wrong
    }

    /// A pod was evicted: its Deployment's pods have been moved so often since the demand was last another.
    fn evicted(&mut self, pod: &ObjectKey) -> Option<String> {
        let deployment = self.sizes.keys().find(|deployment| is_of(pod, deployment))?;
        let size = self.sizes.get(deployment).copied().flatten().unwrap_or(1);
        let most = EVICTIONS_EACH_MAX * usize::try_from(size).unwrap_or(0).max(1);
        let evicted = self.evicted.entry(deployment.clone()).or_default();
        let count = evicted.len() + usize::from(evicted.insert(pod.clone()));
        (most < count)
            .then(|| format!("{count} pods of the {size} of {deployment} were evicted for one demand"))
    }

    /// A node of a pool was removed.
    fn removed(&mut self, pool: &str, node: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let counts = |bought: &Bought| bought.open && bought.pool == pool && !bought.leaving.contains(node);
        for (key, bought) in self.pods.iter_mut().filter(|(_, bought)| counts(bought)) {
            bought.open = false;
            bought.cycles_count += 1;
            if CYCLES_MAX < bought.cycles_count {
                let count = bought.cycles_count;
                wrong.push(format!("{count} times a node was bought for pod {key} and one removed again"));
            }
        }
        wrong
    }

    /// The pods named by scale-ups that were not in the pool's status before. A plan that buys in several groups has a decision
    /// for each, which is one purchase.
    fn new_purchases(&mut self, entry: &Entry) -> BTreeSet<ObjectKey> {
        let decisions = at(&entry.object, &["status", "decisions"]).and_then(Value::as_array);
        let mut named = BTreeSet::new();
        for decision in decisions.into_iter().flatten() {
            let id = text(decision, &["id"]).unwrap_or_default();
            let is_new = self.decisions.insert((entry.key.name.to_string(), id.to_owned()));
            if !is_new || text(decision, &["action"]) != Some("ScaleUp") {
                continue;
            }
            let examples = at(decision, &["pods", "examples"]).and_then(Value::as_array);
            let names = examples.into_iter().flatten().filter_map(Value::as_str);
            named.extend(
                names.filter_map(|name| name.split_once('/')).map(|(ns, name)| ObjectKey::new(ns, name)),
            );
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("default", name)
    }

    /// Violations where a node is bought for a pod and one removed four times, with `between` before each purchase.
    fn cycled(between: impl Fn(&mut Cycles, i64)) -> usize {
        let mut cycles = Cycles::default();
        let mut wrong = 0;
        for round in 0..4 {
            between(&mut cycles, round);
            wrong += cycles.bought("p0", vec![key("odd-0-5d4f-x7k")], &BTreeSet::new()).len();
            wrong += cycles.removed("other", "n").len();
            wrong += cycles.removed("p0", "n").len();
            wrong += cycles.removed("p0", "n").len();
        }
        wrong
    }

    #[test]
    fn cycles_are_counted_while_other_workloads_shrink_between_them() {
        assert_eq!(cycled(|_, _| {}), 2, "the third and the fourth");
        assert_eq!(cycled(|cycles, round| cycles.sized(&key("web"), Some(9 - round))), 2);
        let grown = cycled(|cycles, round| cycles.sized(&key("web"), Some(round)));
        assert_eq!(grown, 0, "others have taken the room each time");
        assert_eq!(
            cycled(|cycles, round| cycles.sized(&key("odd-0"), Some(round))),
            0,
            "another demand each time"
        );
        assert_eq!(cycled(|cycles, _| cycles.sized(&key("odd-0"), Some(1))), 2, "its size stays");
    }

    #[test]
    fn removal_after_a_change_of_size_is_for_another_demand() {
        let mut cycles = Cycles::default();
        for size in 0..4 {
            assert_eq!(
                cycles.bought("p0", vec![key("odd-0-5d4f-x7k")], &BTreeSet::new()),
                Vec::<String>::new()
            );
            cycles.sized(&key("web"), Some(size));
            assert_eq!(cycles.removed("p0", "n"), Vec::<String>::new());
        }
    }

    #[test]
    fn removal_that_had_begun_before_the_purchase_is_for_an_earlier_demand() {
        let mut cycles = Cycles::default();
        for _ in 0..4 {
            cycles.bought("p0", vec![key("odd-0-5d4f-x7k")], &BTreeSet::from(["old".to_owned()]));
            assert_eq!(cycles.removed("p0", "old"), Vec::<String>::new());
        }
    }

    #[test]
    fn evictions_of_a_deployment_whose_demand_stays_are_bounded() {
        let moved = |between: &dyn Fn(&mut Cycles, i64)| {
            let mut cycles = Cycles::default();
            cycles.sized(&key("web"), Some(2));
            let rounds = 0..8;
            rounds
                .filter(|round| {
                    between(&mut cycles, *round);
                    let pod = key(&format!("web-5d4f-{round}"));
                    let wrong = cycles.evicted(&pod).is_some();
                    // The same eviction, asked for once more.
                    assert_eq!(cycles.evicted(&pod).is_some(), wrong);
                    wrong
                })
                .count()
        };
        assert_eq!(moved(&|_, _| {}), 2, "the seventh and the eighth");
        assert_eq!(moved(&|cycles, _| cycles.sized(&key("web"), Some(2))), 2, "its size stays");
        assert_eq!(moved(&|cycles, round| cycles.sized(&key("api"), Some(round))), 0, "another demand");
    }

    #[test]
    fn purchases_for_a_pod_that_stays_unbound_are_bounded() {
        let mut cycles = Cycles::default();
        let wrong: usize =
            (0..8).map(|_| cycles.bought("p0", vec![key("odd-0-5d4f-x7k")], &BTreeSet::new()).len()).sum();
        assert_eq!(wrong, 8 - PURCHASES_MAX);
    }

    #[test]
    fn purchases_after_other_workloads_have_grown_are_for_their_pods_too() {
        let wrong = |sizes: &dyn Fn(i64) -> i64| {
            let mut cycles = Cycles::default();
            cycles.sized(&key("web"), Some(100));
            let mut buys = |round| {
                cycles.sized(&key("web"), Some(sizes(round)));
                cycles.bought("p0", vec![key("odd-0-5d4f-x7k")], &BTreeSet::new()).len()
            };
            (0..8).map(&mut buys).sum::<usize>()
        };
        assert_eq!(wrong(&|round| 101 + round), 0);
        assert_eq!(wrong(&|round| 99 - round), 8 - PURCHASES_MAX, "pods that leave take no room");
    }
}
