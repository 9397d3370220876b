//! Measures how long nodes take to join: from the request for one to its registration, and from there to Ready. Where nobody says when a
//! node was asked for, the first pod that waited for it does; that has the time that the autoscaler needed to decide in it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use headroom_api::SCORECARD_JOINS_MIN;
use headroom_core::known::Known;
use headroom_core::snapshot::Snapshot;
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::node::Readiness;
use jiff::SignedDuration;

use crate::observation::Observation;
use crate::prices::{nearest, shape};
use crate::whole_seconds;

/// Nodes of which the times are remembered: the newest ones.
const KEPT: usize = 101;
/// A node whose first pod comes later than this was not bought for it.
const LOOKED_AT_FOR: Seconds = Seconds(120);
/// A pod that is older than the node by more than this waited for something else.
const WAIT_MAX: Seconds = Seconds(900);
/// Nodes that are looked at at once; further ones are not measured.
const NEW_MAX: usize = 1000;

/// Assumed until it is measured: from the decision to the registration.
const JOIN_DEFAULT: Seconds = Seconds(45);
/// The shortest join: clocks are read in whole seconds, and no node is there without a wait.
const JOIN_MIN: Seconds = Seconds(1);
/// Assumed until it is measured: from the registration to Ready.
const READY_DEFAULT: Seconds = Seconds(15);

/// Times that nodes took to join.
#[derive(Clone, Debug, Default)]
pub struct Joins {
    began_at: Option<UnixTime>,
    /// Nodes that are new, by unique id, and whether each of the two times is still to be measured.
    new: BTreeMap<Arc<str>, (bool, bool)>,
    joins: VecDeque<i64>,
    readies: VecDeque<i64>,
    /// The joins of nodes like those of each pool.
    by_pool: BTreeMap<Arc<str>, VecDeque<i64>>,
}

impl Joins {
    /// Looks for nodes that have come, and at those that came a short time ago. `asked_at` is known for some, by provider id.
    pub fn observe(
        &mut self,
        snapshot: &Snapshot,
        seen: &Observation,
        asked_at: &BTreeMap<Arc<str>, UnixTime>,
    ) {
        let Some(began_at) = self.began_at else {
            self.began_at = Some(snapshot.now);
            return;
        };
        self.by_pool.retain(|pool, _| snapshot.config.pool(pool).is_some());
        let mut new = std::mem::take(&mut self.new);
        let first_pods = seen.first_pods();
        let shapes = shapes(snapshot);
        for node in &snapshot.world.nodes {
            let age = snapshot.now.since(node.created_at);
            if node.created_at < began_at || LOOKED_AT_FOR.0 + WAIT_MAX.0 < age.0 {
                continue;
            }
            let (mut joins, mut readies) = new.remove(&node.uid).unwrap_or((true, true));
            if readies && node.ready == Readiness::Ready {
                note(&mut self.readies, node.ready_changed_at.since(node.created_at));
                readies = false;
            }
            let since = asked_at.get(&node.provider_id).or_else(|| first_pods.get(&*node.name));
            let waited = since.map(|since| node.created_at.since(*since));
            if let (true, Some(waited)) =
                (joins, waited.filter(|waited| (0..=WAIT_MAX.0).contains(&waited.0)))
            {
                note(&mut self.joins, waited);
                let own = seen.node(&node.name).map(|node| &node.pool);
                let own = own.filter(|pool| snapshot.config.pool(pool).is_some());
                if let Some(pool) = own.or_else(|| nearest(&shapes, shape(node)).copied()) {
                    note(self.by_pool.entry(pool.clone()).or_default(), waited);
                }
                joins = false;
            }
            joins &= age.0 <= LOOKED_AT_FOR.0;
            if self.new.len() < NEW_MAX {
                self.new.insert(node.uid.clone(), (joins, readies));
            }
        }
    }

    /// From a decision to the registration of the node: what is typical of what was measured, in whole seconds, at least [`JOIN_MIN`].
    #[must_use]
    pub fn join(&self) -> Seconds {
        typical(&self.joins).map_or(JOIN_DEFAULT, whole)
    }

    /// The same for nodes of a pool, measured on those that are its own or have its shape; [`Self::join`] where these are
    /// too few.
    #[must_use]
    pub fn join_of(&self, pool: &str) -> Seconds {
        let own = self.by_pool.get(pool).and_then(typical);
        own.map_or_else(|| self.join(), whole)
    }

    /// From the registration to Ready: what is typical of what was measured, with what [`Self::join`] was rounded by, so that the sum of
    /// both is right.
    #[must_use]
    pub fn ready(&self) -> SignedDuration {
        let ready = typical(&self.readies).unwrap_or(SignedDuration::from_secs(READY_DEFAULT.0));
        let join = typical(&self.joins).filter(|join| SignedDuration::from_secs(JOIN_MIN.0) < *join);
        let rounded_by =
            join.map_or(SignedDuration::ZERO, |join| join - SignedDuration::from_secs(whole(join).0));
        (ready + rounded_by).max(SignedDuration::ZERO)
    }

    /// The number of nodes by which the join was measured.
    #[must_use]
    pub fn count(&self) -> usize {
        self.joins.len()
    }
}

/// The first pool whose nodes have each shape.
fn shapes(snapshot: &Snapshot) -> BTreeMap<(i64, i64), &Arc<str>> {
    let mut shapes = BTreeMap::new();
    for pool in &snapshot.config.pools {
        let state = snapshot.world.providers.get(&pool.name).and_then(Known::value);
        let of_groups = state.into_iter().flat_map(|state| state.groups.values());
        let of_groups = of_groups.filter_map(|group| Some(&group.template.as_ref()?.node.capacity));
        let own = pool.template.iter().map(|template| &template.capacity);
        for capacity in own.chain(of_groups) {
            shapes.entry((capacity.cpu_milli, capacity.memory_bytes)).or_insert(&pool.name);
        }
    }
    shapes
}

fn note(times: &mut VecDeque<i64>, time: Seconds) {
    if times.len() == KEPT {
        times.pop_front();
    }
    times.push_back(time.0.max(0));
}

/// The mean of the times that are within a second of their median: clocks are read in whole seconds, and the mean is finer.
fn typical(times: &VecDeque<i64>) -> Option<SignedDuration> {
    let mut sorted: Vec<i64> = times.iter().copied().collect();
    sorted.sort_unstable();
    let median = *sorted.get(sorted.len() / 2)?;
    let near: Vec<i64> = sorted.iter().copied().filter(|time| (time - median).abs() <= 1).collect();
    let mean_ms = near.iter().sum::<i64>() * 1000 / i64::try_from(near.len()).ok()?;
    (usize::from(SCORECARD_JOINS_MIN) <= sorted.len()).then(|| SignedDuration::from_millis(mean_ms))
}

/// Whole seconds, at least [`JOIN_MIN`].
fn whole(join: SignedDuration) -> Seconds {
    Seconds(whole_seconds(join)).max(JOIN_MIN)
}

#[cfg(test)]
mod tests {
    use headroom_core::history::History;
    use headroom_core::testing::{NOW, config, node, pod, pool, world};

    use super::*;
    use crate::prices::Prices;

    /// Looks at a cluster of `count` nodes, each made 30 s after a pod that is on it, and ready 12 s later.
    fn look(joins: &mut Joins, after: i64, count: usize) {
        look_with(joins, after, count, &BTreeMap::new());
    }

    fn look_with(joins: &mut Joins, after: i64, count: usize, asked_at: &BTreeMap<Arc<str>, UnixTime>) {
        let mut seen = world();
        for index in 0..count {
            let name = format!("n{index}");
            let made = NOW.plus(Seconds(100));
            seen = seen
                .node(node(&name).with(|node| {
                    (node.created_at, node.ready_changed_at) = (made, made.plus(Seconds(12)));
                }))
                .pod(
                    pod(&format!("web-{index}")).with(|pod| pod.created_at = NOW.plus(Seconds(70))).on(&name),
                );
        }
        let now = NOW.plus(Seconds(after));
        let snapshot = Snapshot::of(&seen.build(), &History::default(), &config([pool("general")]), now);
        joins.observe(&snapshot, &Observation::of(&snapshot, &Prices::default()), asked_at);
    }

    #[test]
    fn three_nodes_are_enough_and_each_is_measured_once() {
        let mut joins = Joins::default();
        look(&mut joins, 0, 0);
        look(&mut joins, 120, 2);
        let default = SignedDuration::from_secs(READY_DEFAULT.0);
        assert_eq!((joins.join(), joins.ready(), joins.count()), (JOIN_DEFAULT, default, 2));
        look(&mut joins, 130, 3);
        look(&mut joins, 140, 3);
        assert_eq!(
            (joins.join(), joins.ready(), joins.count()),
            (Seconds(30), SignedDuration::from_secs(12), 3)
        );
        assert_eq!(joins.join_of("general"), Seconds(30));
    }

    #[test]
    fn times_of_whole_seconds_give_a_mean_that_is_finer_and_outliers_none() {
        let of = |times: &[i64]| typical(&times.iter().copied().collect());
        assert_eq!(of(&[10, 10, 11, 10, 300, 0]), Some(SignedDuration::from_millis(10_250)));
        assert_eq!(of(&[0, 0, 1, 0]), Some(SignedDuration::from_millis(250)));
        assert_eq!(of(&[10, 10]), None, "two are too few");
        let joins = |joins: &[i64], readies: &[i64]| Joins {
            joins: joins.iter().copied().collect(),
            readies: readies.iter().copied().collect(),
            ..Joins::default()
        };
        let sum = |joins: Joins| (joins.join(), joins.ready().as_millis());
        assert_eq!(sum(joins(&[10, 10, 11, 10], &[0, 1, 0, 1])), (Seconds(10), 750));
        assert_eq!(sum(joins(&[10, 11, 11, 11], &[0, 1, 0, 1])), (Seconds(11), 250));
        assert_eq!(
            sum(joins(&[0, 0, 1, 0], &[0, 0, 0, 0])),
            (Seconds(1), 0),
            "no node is there without a wait"
        );
    }

    #[test]
    fn what_an_autoscaler_needed_to_decide_is_left_out_where_the_request_is_known() {
        for (asked_after, join) in [(91, 9), (100, 1)] {
            let mut joins = Joins::default();
            look(&mut joins, 0, 0);
            let at = NOW.plus(Seconds(asked_after));
            let asked_at = (0..3).map(|index| (node(&format!("n{index}")).build().provider_id, at));
            look_with(&mut joins, 120, 3, &asked_at.collect());
            assert_eq!((joins.join(), joins.join_of("general")), (Seconds(join), Seconds(join)));
        }
    }

    #[test]
    fn nodes_that_stood_before_are_not_measured() {
        let mut joins = Joins::default();
        look(&mut joins, 110, 5);
        look(&mut joins, 120, 5);
        assert_eq!(joins.count(), 0);
    }
}
