//! Gangs: all the pods that are needed at once are bound in one turn, in one domain of a label if they ask for it, or none.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Domain, Scheduler, Turn};
use crate::cluster::gangs::GangOf;
use crate::cluster::pods::Pods;
use crate::cluster::volumes::Reach;
use crate::store::{ObjectKey, Store};

/// A pod, and the place that it would have.
struct Place {
    turn: Turn,
    class: usize,
    node: Arc<str>,
    reach: Option<Reach>,
}

impl Scheduler {
    /// Lets gangs try again, if anything has changed.
    pub(super) fn admit_held(&mut self) {
        if std::mem::take(&mut self.gangs_changed) || !self.changed_nodes.is_empty() || self.volumes_changed {
            self.waiting.append(&mut self.held);
        }
    }

    /// Binds the pods of a gang, of which the given one is first: those that fit, if enough of them do. Whether any was bound.
    pub(super) fn bind_together(
        &mut self,
        store: &mut Store,
        pods: &Pods,
        gang: &GangOf,
        first: (Turn, usize),
    ) -> bool {
        let is_of = |key: &ObjectKey| pods.get(key).is_some_and(|pod| pod.gang.as_deref() == Some(gang));
        let others: Vec<Turn> = self.waiting.keys().filter(|turn| is_of(&turn.2)).cloned().collect();
        let mut members = vec![first];
        members.extend(others.into_iter().filter_map(|turn| self.waiting.remove_entry(&turn)));
        let Some(minimum) = gang.minimum(store) else {
            self.hold(store, members, "the object of its gang does not exist");
            return false;
        };
        let bound: Vec<Arc<str>> =
            self.placed.iter().filter(|(key, _)| is_of(key)).map(|(_, (node, _))| node.clone()).collect();
        let domains = match gang.topology_key(store) {
            Some(key) => self.domains(key, bound.first()).into_iter().map(Some).collect(),
            None => vec![None],
        };
        let count = bound.len() + members.len();
        let mut most = bound.len();
        for domain in domains {
            let (places, left) = self.places(store, pods, &members, domain.as_ref());
            let together = bound.len() + places.len();
            if minimum <= together && !places.is_empty() {
                let message = format!("{together} of {count} pods of its gang have room");
                return self.bind_all(store, pods, places, (left, &message));
            }
            places.iter().for_each(|place| self.take_back(&place.turn.2));
            most = most.max(together);
        }
        let message = format!("{most} of {count} pods of its gang have room, {minimum} are needed");
        self.hold(store, members, &message);
        false
    }

    /// The domains of a label in which the pods of a gang may be: that of the pod that is bound, else all that nodes have.
    fn domains(&self, key: &str, bound: Option<&Arc<str>>) -> BTreeSet<Domain> {
        let nodes = self.nodes.iter().filter(|(name, _)| bound.is_none_or(|bound| bound == *name));
        nodes.filter_map(|(_, state)| Some((key.to_owned(), state.shape.labels.get(key)?.clone()))).collect()
    }

    /// Binds pods to the places that they have; those left over wait. Whether any was bound.
    fn bind_all(
        &mut self,
        store: &mut Store,
        pods: &Pods,
        places: Vec<Place>,
        (mut left, message): (Vec<(Turn, usize)>, &str),
    ) -> bool {
        let mut any = false;
        for place in places {
            let shape = pods.get(&place.turn.2).map(|pod| pod.shape.clone());
            let binds = shape.is_some_and(|shape| {
                self.bind(store, &place.turn.2, &shape, (&place.node, Some(&place.reach)))
            });
            if binds {
                self.turns.remove(&place.turn.2);
                self.explained = None;
                any = true;
            } else {
                self.take_back(&place.turn.2);
                left.push((place.turn, place.class));
            }
        }
        self.hold(store, left, message);
        any
    }

    /// Gives each pod the place that it would have beside those before it, within a domain if one is given, and returns those
    /// that have none.
    fn places(
        &mut self,
        store: &mut Store,
        pods: &Pods,
        members: &[(Turn, usize)],
        domain: Option<&Domain>,
    ) -> (Vec<Place>, Vec<(Turn, usize)>) {
        let (mut places, mut left) = (Vec::new(), Vec::new());
        for (turn, class) in members.iter().cloned() {
            let key = turn.2.clone();
            let Some(pod) = pods.get(&key) else { continue };
            let shape = pod.shape.clone();
            let found = self.reach(store, pods, &key, &shape).ok().and_then(|reach| {
                let node = self.best_node(&shape, reach.as_ref(), domain)?;
                Some((node, reach))
            });
            match found {
                Some((node, reach)) => {
                    self.occupy(&key, node.clone(), shape);
                    places.push(Place { turn, class, node, reach });
                }
                None => left.push((turn, class)),
            }
        }
        (places, left)
    }

    fn hold(&mut self, store: &mut Store, members: Vec<(Turn, usize)>, message: &str) {
        for (turn, class) in members {
            self.report(store, &turn.2, message);
            self.held.insert(turn, class);
        }
    }

    /// Takes back a place that was tried only: nothing has become free by it.
    fn take_back(&mut self, key: &ObjectKey) {
        let Some((node, shape)) = self.placed.remove(key) else { return };
        self.repellents.went(&shape);
        if let Some(state) = self.nodes.get_mut(&node) {
            state.used.add(&shape.requests, -1);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::cluster::{SimCluster, Timings};
    use crate::store::{Author, Kind, ObjectKey, SharedStore, text};

    const ZONE: &str = "topology.kubernetes.io/zone";

    fn create(cluster: &SimCluster, kind: Kind, object: Value) {
        cluster.store().with(|store| store.create(kind, object, Author::actor("test"))).unwrap();
    }

    /// A node with room for one pod.
    fn node(name: &str, zone: &str) -> Value {
        json!({"metadata": {"name": name, "labels": {ZONE: zone}},
            "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}, "capacity": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True"}]}})
    }

    fn pod(name: &str) -> Value {
        json!({"metadata": {"namespace": "default", "name": name}, "spec": {
            "schedulingGroup": {"podGroupName": "train"},
            "containers": [{"resources": {"requests": {"cpu": "3"}}}]}})
    }

    fn node_of(cluster: &mut SimCluster, pod: &str) -> String {
        let now = cluster.store().with(|store| store.now());
        cluster.step(now);
        cluster.store().with(|store| {
            let pod = store.find(Kind::Pod, &ObjectKey::new("default", pod)).unwrap();
            text(pod, &["spec", "nodeName"]).unwrap_or_default().to_owned()
        })
    }

    #[test]
    fn a_gang_with_a_topology_key_is_bound_in_one_domain_and_stays_there() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut cluster = SimCluster::new(SharedStore::new(1, now), Timings::default());
        let group = json!({"metadata": {"namespace": "default", "name": "train"}, "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": ZONE}]}}});
        create(&cluster, Kind::PodGroup, group);
        for (name, zone) in [("n-a1", "a"), ("n-b1", "b")] {
            create(&cluster, Kind::Node, node(name, zone));
        }
        create(&cluster, Kind::Pod, pod("w-0"));
        create(&cluster, Kind::Pod, pod("w-1"));
        assert_eq!(node_of(&mut cluster, "w-0"), "");

        create(&cluster, Kind::Node, node("n-b2", "b"));
        assert!(node_of(&mut cluster, "w-0").starts_with("n-b"));
        assert!(node_of(&mut cluster, "w-1").starts_with("n-b"));

        create(&cluster, Kind::Pod, pod("w-2"));
        assert_eq!(node_of(&mut cluster, "w-2"), "");
        create(&cluster, Kind::Node, node("n-b3", "b"));
        assert_eq!(node_of(&mut cluster, "w-2"), "n-b3");
    }
}
