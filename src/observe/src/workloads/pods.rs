//! Pods by namespace and labels: which of them a selector selects is found without looking at every pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::labels::{Labels, ObjectKey};
use headroom_core::pods::input::PodSeen;
use headroom_core::pods::selector::Selector;
use headroom_core::world::pod::Owner;

/// Key and value of a label.
type Pair = (Arc<str>, Arc<str>);

/// All pods.
#[derive(Debug, Default)]
pub(super) struct Pods {
    namespaces: BTreeMap<Arc<str>, Namespace>,
}

/// Fields that the replicas of a workload share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    labels: Arc<Labels>,
    /// Their controller.
    owner: Option<Arc<Owner>>,
}

/// The pods of one namespace, those of equal labels and one controller together: a selector is held against each set once.
#[derive(Debug, Default)]
struct Namespace {
    groups: BTreeMap<Arc<Alike>, BTreeMap<Arc<str>, Arc<PodSeen>>>,
    /// Group of each pod when it was last observed.
    alike: BTreeMap<Arc<str>, Arc<Alike>>,
    /// The groups whose labels hold a pair.
    by_pair: BTreeMap<Pair, BTreeSet<Arc<Alike>>>,
}

impl Pods {
    pub(super) fn apply(
        &mut self,
        namespace: &Arc<str>,
        labels: Labels,
        owner: Option<Arc<Owner>>,
        pod: PodSeen,
    ) {
        let alike = Alike { labels: Arc::new(labels), owner };
        self.namespaces.entry(namespace.clone()).or_default().apply(alike, pod);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(namespace) = self.namespaces.get_mut(&key.namespace) {
            namespace.remove(&key.name);
            if namespace.alike.is_empty() {
                self.namespaces.remove(&key.namespace);
            }
        }
    }

    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        let keys = |(namespace, pods): (&Arc<str>, &Namespace)| {
            pods.alike.keys().map(|name| ObjectKey::new(namespace.clone(), &**name)).collect::<Vec<_>>()
        };
        self.namespaces.iter().flat_map(keys).collect()
    }

    /// The pods that a selector selects and whose controller `counts`, by name, with the sets of labels they have; an empty
    /// selector selects all.
    pub(super) fn select(
        &self,
        namespace: &str,
        selector: &Selector,
        counts: impl Fn(Option<&Owner>) -> bool,
    ) -> Selected {
        let mut found = Selected::default();
        let Some(namespace) = self.namespaces.get(namespace) else { return found };
        let mut take = |(alike, pods): (&Arc<Alike>, &BTreeMap<Arc<str>, Arc<PodSeen>>)| {
            if selector.matches(&alike.labels) && counts(alike.owner.as_deref()) {
                // Groups of equal labels stand side by side.
                if found.labels.last() != Some(&alike.labels) {
                    found.labels.push(alike.labels.clone());
                }
                found.pods.extend(pods.values().cloned());
            }
        };
        match selector.anchor() {
            Some(pair) => {
                let sets = namespace.by_pair.get(&pair).into_iter().flatten();
                sets.filter_map(|alike| namespace.groups.get_key_value(alike)).for_each(&mut take);
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
    fn apply(&mut self, alike: Alike, pod: PodSeen) {
        let name = pod.name.clone();
        if self.alike.get(&name).is_some_and(|known| **known != alike) {
            self.remove(&name);
        }
        let alike = match self.groups.get_key_value(&alike) {
            Some((shared, _)) => shared.clone(),
            None => {
                let shared = Arc::new(alike);
                for (key, value) in shared.labels.iter() {
                    self.by_pair.entry((key.into(), value.into())).or_default().insert(shared.clone());
                }
                shared
            }
        };
        self.groups.entry(alike.clone()).or_default().insert(name.clone(), Arc::new(pod));
        self.alike.insert(name, alike);
    }

    fn remove(&mut self, name: &str) {
        let Some(alike) = self.alike.remove(name) else { return };
        let Some(pods) = self.groups.get_mut(&alike) else { return };
        pods.remove(name);
        if !pods.is_empty() {
            return;
        }
        self.groups.remove(&alike);
        for (key, value) in alike.labels.iter() {
            let pair = (key.into(), value.into());
            if let Some(sets) = self.by_pair.get_mut(&pair) {
                sets.remove(&alike);
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
        pods.select("shop", &selector, |_| true).pods.iter().map(|pod| pod.name.to_string()).collect()
    }

    #[test]
    fn a_selector_finds_the_pods_of_its_namespace_by_their_present_labels() {
        let (mut pods, shop) = (Pods::default(), Arc::from("shop"));
        pods.apply(&shop, labels(&[("app", "web"), ("v", "1")]), None, pod("b"));
        pods.apply(&shop, labels(&[("app", "web"), ("v", "2")]), None, pod("a"));
        pods.apply(&shop, labels(&[("app", "db")]), None, pod("c"));
        pods.apply(&Arc::from("other"), labels(&[("app", "web")]), None, pod("d"));
        assert_eq!(names(&pods, "app=web"), ["a", "b"]);
        assert_eq!(names(&pods, ""), ["a", "b", "c"]);
        pods.apply(&shop, labels(&[("app", "db")]), None, pod("a"));
        assert_eq!(names(&pods, "app=web"), ["b"]);
        assert_eq!(names(&pods, "app in (db,x)"), ["a", "c"]);
    }

    #[test]
    fn pods_of_equal_labels_are_told_apart_by_their_controllers() {
        let (mut pods, shop) = (Pods::default(), Arc::from("shop"));
        let owner = |uid: &str| {
            Some(Arc::new(Owner { kind: "ReplicaSet".into(), name: uid.into(), uid: uid.into() }))
        };
        let web = || labels(&[("app", "web")]);
        pods.apply(&shop, web(), owner("1"), pod("a"));
        pods.apply(&shop, web(), owner("2"), pod("b"));
        pods.apply(&shop, web(), None, pod("c"));
        let of = |pods: &Pods, counts: &dyn Fn(Option<&Owner>) -> bool| {
            let found = pods.select("shop", &Selector::parse("app=web").unwrap(), counts);
            let names: Vec<String> = found.pods.iter().map(|pod| pod.name.to_string()).collect();
            (names.join(""), found.labels.len())
        };
        assert_eq!(of(&pods, &|_| true), ("abc".to_owned(), 1));
        assert_eq!(of(&pods, &|owner| owner.is_some_and(|owner| &*owner.uid == "2")), ("b".to_owned(), 1));
        // Another controller has taken it over.
        pods.apply(&shop, web(), owner("2"), pod("a"));
        assert_eq!(of(&pods, &|owner| owner.is_some_and(|owner| &*owner.uid == "2")), ("ab".to_owned(), 1));
        assert_eq!(of(&pods, &|owner| owner.is_some_and(|owner| &*owner.uid == "1")), (String::new(), 0));
    }

    #[test]
    fn nothing_is_left_of_pods_that_are_gone() {
        let (mut pods, shop) = (Pods::default(), Arc::from("shop"));
        pods.apply(&shop, labels(&[("app", "web")]), None, pod("a"));
        pods.remove(&ObjectKey::new("shop", "a"));
        assert_eq!(names(&pods, "app=web"), [""; 0]);
        assert!(pods.namespaces.is_empty());
    }
}
