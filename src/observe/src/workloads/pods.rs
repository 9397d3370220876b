//! Pods by namespace and labels: which of them a selector selects is found without looking at every pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::labels::{Labels, ObjectKey};
use headroom_core::pods::input::PodSeen;
use headroom_core::pods::selector::Selector;

/// Key and value of a label.
type Pair = (Arc<str>, Arc<str>);

/// All pods.
#[derive(Debug, Default)]
pub(super) struct Pods {
    namespaces: BTreeMap<Arc<str>, Namespace>,
}

/// The pods of one namespace, those of equal labels together: a selector is held against each set of labels once.
#[derive(Debug, Default)]
struct Namespace {
    groups: BTreeMap<Arc<Labels>, BTreeMap<Arc<str>, Arc<PodSeen>>>,
    /// Labels of each pod when it was last observed.
    labels: BTreeMap<Arc<str>, Arc<Labels>>,
    /// The sets of labels that hold a pair.
    by_pair: BTreeMap<Pair, BTreeSet<Arc<Labels>>>,
}

impl Pods {
    pub(super) fn apply(&mut self, namespace: &Arc<str>, labels: &Labels, pod: PodSeen) {
        self.namespaces.entry(namespace.clone()).or_default().apply(labels, pod);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(namespace) = self.namespaces.get_mut(&key.namespace) {
            namespace.remove(&key.name);
            if namespace.labels.is_empty() {
                self.namespaces.remove(&key.namespace);
            }
        }
    }

    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        let keys = |(namespace, pods): (&Arc<str>, &Namespace)| {
            pods.labels.keys().map(|name| ObjectKey::new(namespace.clone(), &**name)).collect::<Vec<_>>()
        };
        self.namespaces.iter().flat_map(keys).collect()
    }

    /// The pods that a selector selects, by name, with the sets of labels they have; an empty one selects all.
    pub(super) fn select(&self, namespace: &str, selector: &Selector) -> Selected {
        let mut found = Selected::default();
        let Some(namespace) = self.namespaces.get(namespace) else { return found };
        let mut take = |(labels, pods): (&Arc<Labels>, &BTreeMap<Arc<str>, Arc<PodSeen>>)| {
            if selector.matches(labels) {
                found.labels.push(labels.clone());
                found.pods.extend(pods.values().cloned());
            }
        };
        match selector.anchor() {
            Some(pair) => {
                let sets = namespace.by_pair.get(&pair).into_iter().flatten();
                sets.filter_map(|labels| namespace.groups.get_key_value(labels)).for_each(&mut take);
            }
            None => namespace.groups.iter().for_each(&mut take),
        }
        found.pods.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }
}

/// Pods that a selector selects.
#[derive(Clone, Debug, Default)]
pub struct Selected {
    /// The pods, by name.
    pub pods: Vec<Arc<PodSeen>>,
    /// The sets of labels they have, each once.
    pub labels: Vec<Arc<Labels>>,
}

impl Namespace {
    fn apply(&mut self, labels: &Labels, pod: PodSeen) {
        let name = pod.name.clone();
        if self.labels.get(&name).is_some_and(|known| **known != *labels) {
            self.remove(&name);
        }
        let labels = match self.groups.get_key_value(labels) {
            Some((shared, _)) => shared.clone(),
            None => {
                let shared = Arc::new(labels.clone());
                for (key, value) in labels.iter() {
                    self.by_pair.entry((key.into(), value.into())).or_default().insert(shared.clone());
                }
                shared
            }
        };
        self.groups.entry(labels.clone()).or_default().insert(name.clone(), Arc::new(pod));
        self.labels.insert(name, labels);
    }

    fn remove(&mut self, name: &str) {
        let Some(labels) = self.labels.remove(name) else { return };
        let Some(pods) = self.groups.get_mut(&labels) else { return };
        pods.remove(name);
        if !pods.is_empty() {
            return;
        }
        self.groups.remove(&labels);
        for (key, value) in labels.iter() {
            let pair = (key.into(), value.into());
            if let Some(sets) = self.by_pair.get_mut(&pair) {
                sets.remove(&labels);
                if sets.is_empty() {
                    self.by_pair.remove(&pair);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use headroom_core::deletion_cost::DeletionCost;
    use headroom_core::pods::input::{PodPhase, PodRequests};

    use super::*;

    fn pod(name: &str) -> PodSeen {
        PodSeen {
            name: name.into(),
            phase: PodPhase::Running,
            deleting: false,
            started_at: None,
            ready: None,
            requests: Arc::new(PodRequests::default()),
            deletion_cost: DeletionCost::Unset,
        }
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().copied().collect()
    }

    fn names(pods: &Pods, selector: &str) -> Vec<String> {
        let selector = Selector::parse(selector).unwrap();
        pods.select("shop", &selector).pods.iter().map(|pod| pod.name.to_string()).collect()
    }

    #[test]
    fn a_selector_finds_the_pods_of_its_namespace_by_their_present_labels() {
        let (mut pods, shop) = (Pods::default(), Arc::from("shop"));
        pods.apply(&shop, &labels(&[("app", "web"), ("v", "1")]), pod("b"));
        pods.apply(&shop, &labels(&[("app", "web"), ("v", "2")]), pod("a"));
        pods.apply(&shop, &labels(&[("app", "db")]), pod("c"));
        pods.apply(&Arc::from("other"), &labels(&[("app", "web")]), pod("d"));
        assert_eq!(names(&pods, "app=web"), ["a", "b"]);
        assert_eq!(names(&pods, ""), ["a", "b", "c"]);
        pods.apply(&shop, &labels(&[("app", "db")]), pod("a"));
        assert_eq!(names(&pods, "app=web"), ["b"]);
        assert_eq!(names(&pods, "app in (db,x)"), ["a", "c"]);
    }

    #[test]
    fn nothing_is_left_of_pods_that_are_gone() {
        let (mut pods, shop) = (Pods::default(), Arc::from("shop"));
        pods.apply(&shop, &labels(&[("app", "web")]), pod("a"));
        pods.remove(&ObjectKey::new("shop", "a"));
        assert_eq!(names(&pods, "app=web"), [""; 0]);
        assert!(pods.namespaces.is_empty());
    }
}
