//! Purchases that come to nothing again and again: nodes bought for pods that stay unbound, and removed. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Checker, truth};
use headroom_simulator::store::{Entry, Kind, ObjectKey, Store, at, text};

/// Most times that a node is bought for a pod that stays unbound and a node of the pool is removed after it.
const CYCLES_MAX: usize = 2;
/// Most purchases for a pod that stays unbound.
const PURCHASES_MAX: usize = 6;

/// Purchases by the pods that their decisions name.
#[derive(Debug, Default)]
pub struct Cycles {
    decisions: BTreeSet<(String, String)>,
    pods: BTreeMap<ObjectKey, Bought>,
    /// Sizes of workloads: when one changes the demand is another.
    sizes: BTreeMap<ObjectKey, Option<i64>>,
}

/// Purchases for one pod.
#[derive(Debug, Default)]
struct Bought {
    pool: String,
    purchases_count: usize,
    cycles_count: usize,
    /// True if no node of the pool has been removed since the last one.
    open: bool,
}

impl Checker {
    /// I31: reads decisions and removed nodes.
    pub(super) fn note_cycle(&mut self, store: &Store, entry: &Entry) {
        let Some(cycles) = &mut self.cycles else { return };
        let unbound = |key: &ObjectKey| {
            let pod = store.get(Kind::Pod, key).ok();
            pod.is_some_and(|pod| text(pod, &["spec", "nodeName"]).is_none_or(str::is_empty))
        };
        cycles.pods.retain(|key, _| unbound(key));
        let mut wrong = Vec::new();
        match entry.kind {
            Kind::Deployment => {
                let size = at(&entry.object, &["spec", "replicas"]).and_then(Value::as_i64);
                if cycles.sizes.insert(entry.key.clone(), size) != Some(size) {
                    // A node that is bought or removed from here on is so for another demand.
                    for bought in cycles.pods.values_mut() {
                        (bought.open, bought.cycles_count) = (false, 0);
                    }
                }
            }
            Kind::NodePool => {
                for key in cycles.new_purchases(entry).into_iter().filter(unbound) {
                    let bought = cycles.pods.entry(key.clone()).or_default();
                    bought.pool = entry.key.name.to_string();
                    bought.purchases_count += 1;
                    bought.open = true;
                    if PURCHASES_MAX < bought.purchases_count {
                        let count = bought.purchases_count;
                        wrong.push(format!(
                            "nodes were bought {count} times for pod {key}, which stays unbound"
                        ));
                    }
                }
            }
            Kind::Node if entry.deleted => {
                let pool = truth::pool_of(&entry.object).unwrap_or_default();
                for (key, bought) in
                    cycles.pods.iter_mut().filter(|(_, bought)| bought.open && bought.pool == pool)
                {
                    bought.open = false;
                    bought.cycles_count += 1;
                    if CYCLES_MAX < bought.cycles_count {
                        let count = bought.cycles_count;
                        wrong.push(format!(
                            "{count} times a node was bought for pod {key} and one removed again"
                        ));
                    }
                }
            }
            _ => {}
        }
        wrong.into_iter().for_each(|message| self.violated(entry.at, "I31", message));
    }
}

impl Cycles {
    /// The pods named by scale-ups that were not in the pool's status before.
    fn new_purchases(&mut self, entry: &Entry) -> Vec<ObjectKey> {
        let decisions = at(&entry.object, &["status", "decisions"]).and_then(Value::as_array);
        let mut named = Vec::new();
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
