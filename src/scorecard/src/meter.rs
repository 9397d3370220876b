//! Counts one side from what is seen of it at one moment after the other. It knows neither clusters nor simulations.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::time::{Seconds, UnixTime};

use crate::figures::Figures;
use crate::observation::{NodeSeen, Observation, PodSeen};

/// Two looks that are further apart have nothing between them: nobody has seen it.
pub const GAP_MAX: Seconds = Seconds(300);

/// State of one side between two looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meter {
    /// Time of the first look since the last gap: how long pods from before it have waited, nobody has seen.
    began_at: Option<UnixTime>,
    at: Option<UnixTime>,
    nodes: BTreeMap<Arc<str>, NodeSeen>,
    pods: BTreeMap<Arc<str>, PodSeen>,
    replicas: i64,
}

/// What happened between two looks.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Time of the earlier look.
    pub since: UnixTime,
    /// Sums.
    pub figures: Figures,
}

impl Meter {
    /// What happened since the look before; `None` for the first one, and after a gap.
    ///
    /// A node counts from its creation; what ended between two looks counts half of the time between them. A pod that is bound
    /// when it is first seen has not waited.
    pub fn observe(&mut self, seen: Observation) -> Option<Interval> {
        let before = self.at.filter(|at| *at < seen.at && seen.at.since(*at).0 <= GAP_MAX.0);
        let interval = before.map(|since| {
            let mut figures = Figures::default();
            self.count_nodes(&seen, since, &mut figures);
            self.count_pods(&seen, since, &mut figures);
            figures.replica_seconds = self.replicas * seen.at.since(since).0;
            Interval { since, figures }
        });
        if before.is_none() {
            self.began_at = Some(seen.at);
        }
        self.at = Some(seen.at);
        self.replicas = seen.replicas;
        self.nodes = seen.nodes.into_iter().map(|node| (node.uid.clone(), node)).collect();
        self.pods = seen.pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
        interval
    }

    fn count_nodes(&self, seen: &Observation, since: UnixTime, figures: &mut Figures) {
        let length = seen.at.since(since).0;
        let mut gone = self.nodes.clone();
        for node in &seen.nodes {
            let known = gone.remove(&node.uid).is_some();
            let stood = if known { length } else { seen.at.since(node.created_at).0.clamp(0, length) };
            figures.nodes_added += i64::from(!known && node.counts);
            add_node(figures, node, stood);
        }
        for node in gone.values() {
            figures.nodes_removed += i64::from(node.counts);
            add_node(figures, node, length / 2);
        }
    }

    fn count_pods(&self, seen: &Observation, since: UnixTime, figures: &mut Figures) {
        let leaving = |name: &Arc<str>| match seen.node(name) {
            Some(node) => node.leaving,
            None => true,
        };
        let now: BTreeMap<&Arc<str>, &PodSeen> = seen.pods.iter().map(|pod| (&pod.uid, pod)).collect();
        for (uid, before) in &self.pods {
            let ended = now.get(uid).is_none_or(|pod| pod.ending && pod.moves);
            let was_moved = before.moves && !before.ending && ended;
            figures.evictions += i64::from(was_moved && before.node.as_ref().is_some_and(leaving));
        }
        for pod in seen.pods.iter().filter(|pod| pod.moves && pod.node.is_some()) {
            match self.pods.get(&pod.uid) {
                Some(before) if before.node.is_some() => {}
                Some(_) if self.began_at.is_some_and(|began_at| pod.created_at < began_at) => {}
                Some(_) => {
                    let bound_at = since.plus(Seconds(seen.at.since(since).0 / 2));
                    figures.waits.note(bound_at.since(pod.created_at));
                }
                // The view of the look before may have been a moment behind.
                None if self.began_at.is_some_and(|began_at| began_at <= pod.created_at) => {
                    figures.waits.note(Seconds(0));
                }
                None => {}
            }
        }
    }
}

fn add_node(figures: &mut Figures, node: &NodeSeen, seconds: i64) {
    if !node.counts {
        return;
    }
    let price = node.price_per_hour_micro.unwrap_or(0) * seconds;
    figures.node_seconds += seconds;
    figures.price_micro_seconds += price;
    figures.unpriced_node_seconds += if node.price_per_hour_micro.is_none() { seconds } else { 0 };
    let pool = figures.pool(&node.pool);
    pool.node_seconds += seconds;
    pool.price_micro_seconds += price;
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: UnixTime = UnixTime(1_000_000);

    fn at(seconds: i64) -> UnixTime {
        START.plus(Seconds(seconds))
    }

    fn node(name: &str, created: i64) -> NodeSeen {
        NodeSeen {
            name: name.into(),
            uid: name.into(),
            pool: "general".into(),
            price_per_hour_micro: Some(100),
            created_at: at(created),
            leaving: false,
            counts: true,
        }
    }

    fn pod(name: &str, created: i64, node: Option<&str>) -> PodSeen {
        PodSeen {
            uid: name.into(),
            node: node.map(Into::into),
            created_at: at(created),
            ending: false,
            moves: true,
        }
    }

    fn seen(seconds: i64, nodes: Vec<NodeSeen>, pods: Vec<PodSeen>) -> Observation {
        Observation { at: at(seconds), nodes, pods, replicas: 3 }
    }

    fn figures(meter: &mut Meter, observation: Observation) -> Figures {
        meter.observe(observation).expect("no gap").figures
    }

    #[test]
    fn a_node_counts_from_its_creation_and_half_of_the_interval_in_which_it_ends() {
        let mut meter = Meter::default();
        assert_eq!(meter.observe(seen(0, vec![node("a", -500)], Vec::new())), None);
        let both = figures(&mut meter, seen(10, vec![node("a", -500), node("b", 7)], Vec::new()));
        assert_eq!((both.node_seconds, both.nodes_added, both.nodes_removed), (13, 1, 0));
        assert_eq!((both.price_micro_seconds, both.replica_seconds), (1_300, 30));
        let one = figures(&mut meter, seen(20, vec![node("b", 7)], Vec::new()));
        assert_eq!((one.node_seconds, one.nodes_added, one.nodes_removed), (15, 0, 1));
        assert_eq!(one.pools["general"].node_seconds, 15);
    }

    #[test]
    fn nodes_of_nobody_count_nowhere_and_nodes_without_a_price_are_named() {
        let mut meter = Meter::default();
        let mine = NodeSeen { counts: false, ..node("mine", -500) };
        let free = NodeSeen { price_per_hour_micro: None, ..node("free", -500) };
        meter.observe(seen(0, vec![mine.clone(), free.clone()], Vec::new()));
        let sums = figures(&mut meter, seen(10, vec![mine, free], Vec::new()));
        assert_eq!((sums.node_seconds, sums.unpriced_node_seconds, sums.price_micro_seconds), (10, 10, 0));
    }

    #[test]
    fn a_pod_waits_from_its_creation_to_the_middle_of_the_interval_in_which_it_is_bound() {
        let mut meter = Meter::default();
        meter.observe(seen(0, Vec::new(), vec![pod("old", -60, None)]));
        let waits =
            figures(&mut meter, seen(10, Vec::new(), vec![pod("old", -60, None), pod("web", 5, None)]));
        assert_eq!(waits.waits.count(), 0);
        let bound = vec![pod("old", -60, Some("a")), pod("web", 5, Some("a")), pod("quick", 12, Some("a"))];
        let sums = figures(&mut meter, seen(20, vec![node("a", 11)], bound));
        assert_eq!((sums.waits.count(), sums.waits.sum), (2, Seconds(10)), "nobody saw how long old waited");
    }

    #[test]
    fn pods_that_end_on_a_node_that_leaves_are_evicted_and_others_are_not() {
        let mut meter = Meter::default();
        let pods =
            || vec![pod("on-a", -60, Some("a")), pod("on-b", -60, Some("b")), pod("on-c", -60, Some("c"))];
        let nodes = || vec![node("a", -500), node("b", -500), node("c", -500)];
        meter.observe(seen(0, nodes(), pods()));
        // b is drained, c is gone with its pod, and the workload on a has become smaller.
        let left = vec![node("a", -500), NodeSeen { leaving: true, ..node("b", -500) }];
        let ending = PodSeen { ending: true, ..pod("on-b", -60, Some("b")) };
        let sums = figures(&mut meter, seen(10, left.clone(), vec![ending.clone()]));
        assert_eq!(sums.evictions, 2);
        assert_eq!(figures(&mut meter, seen(20, left, Vec::new())).evictions, 0, "each counts once");
    }

    #[test]
    fn pods_of_daemon_sets_neither_wait_nor_count_as_evicted() {
        let mut meter = Meter::default();
        let agent = |node| PodSeen { moves: false, ..pod("agent", 1, node) };
        meter.observe(seen(0, vec![node("a", -500)], Vec::new()));
        assert_eq!(figures(&mut meter, seen(2, vec![node("a", -500)], vec![agent(None)])).waits.count(), 0);
        let bound = figures(&mut meter, seen(4, vec![node("a", -500)], vec![agent(Some("a"))]));
        let gone = figures(&mut meter, seen(6, Vec::new(), Vec::new()));
        assert_eq!((bound.waits.count(), gone.evictions), (0, 0));
    }

    #[test]
    fn nothing_counts_over_a_gap() {
        let mut meter = Meter::default();
        meter.observe(seen(0, vec![node("a", -500)], Vec::new()));
        assert_eq!(meter.observe(seen(GAP_MAX.0 + 1, vec![node("a", -500)], Vec::new())), None);
        assert!(meter.observe(seen(GAP_MAX.0 + 2, Vec::new(), Vec::new())).is_some());
    }
}
