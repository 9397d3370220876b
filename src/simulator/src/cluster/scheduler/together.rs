//! Gangs: all the pods that are needed at once are bound in one turn, or none.

use std::sync::Arc;

use super::{Scheduler, Turn};
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
        let bound = self.placed.keys().filter(|key| is_of(key)).count();
        let count = members.len();
        let (places, left) = self.places(store, pods, members);
        let together = bound + places.len();
        let enough = minimum <= together && !places.is_empty();
        let message =
            format!("{together} of {} pods of its gang have room, {minimum} are needed", bound + count);
        let mut left = left;
        let mut any = false;
        for place in places {
            let shape = pods.get(&place.turn.2).map(|pod| pod.shape.clone());
            let binds = enough
                && shape.is_some_and(|shape| {
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
        self.hold(store, left, &message);
        any
    }

    /// Gives each pod the place that it would have beside those before it, and returns those that have none.
    fn places(
        &mut self,
        store: &mut Store,
        pods: &Pods,
        members: Vec<(Turn, usize)>,
    ) -> (Vec<Place>, Vec<(Turn, usize)>) {
        let (mut places, mut left) = (Vec::new(), Vec::new());
        for (turn, class) in members {
            let key = turn.2.clone();
            let Some(pod) = pods.get(&key) else { continue };
            let shape = pod.shape.clone();
            let found = self.reach(store, pods, &key, &shape).ok().and_then(|reach| {
                let node = self.best_node(&shape, reach.as_ref())?;
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
