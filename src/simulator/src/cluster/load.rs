//! Load of the workloads, and the state of its measurement. Scenario events change it; it changes no object.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::metric::Metric;
use crate::store::{Kind, ObjectKey};

/// Load of a workload by metric, in thousandths of the metric's unit: of a CPU, of a byte of memory, of whatever
/// another one counts. Its running pods have it together, however many they are.
pub type Carried = BTreeMap<Metric, i64>;

/// The load on the cluster's workloads.
#[derive(Debug, Default)]
pub struct Load {
    of_workloads: BTreeMap<(Kind, ObjectKey), Carried>,
    unmeasured_until: Option<Timestamp>,
    missing: BTreeMap<(Kind, ObjectKey), (usize, Timestamp)>,
}

impl Load {
    /// From now on a workload carries so many thousandths of a metric; what it carries of others stays.
    pub fn put(&mut self, kind: Kind, key: ObjectKey, metric: Metric, milli: i64) {
        self.of_workloads.entry((kind, key)).or_default().insert(metric, milli);
    }

    /// Until then nobody measures anything.
    pub fn cut_off(&mut self, until: Timestamp) {
        self.unmeasured_until = self.unmeasured_until.max(Some(until));
    }

    /// Until then the usage of `count` of a workload's pods, the first by name, is missing.
    pub fn miss(&mut self, kind: Kind, key: ObjectKey, count: usize, until: Timestamp) {
        self.missing.insert((kind, key), (count, until));
    }

    /// Returns the number of a workload's pods whose usage is missing now.
    pub fn missing_count(&self, kind: Kind, key: &ObjectKey, now: Timestamp) -> usize {
        let missing = self.missing.get(&(kind, key.clone()));
        missing.filter(|(_, until)| now < *until).map_or(0, |(count, _)| *count)
    }

    /// True if the metrics can be read now.
    pub fn is_measured(&self, now: Timestamp) -> bool {
        self.unmeasured_until.is_none_or(|until| until <= now)
    }

    /// The workloads of a namespace under load, each with what it carries.
    pub fn in_namespace<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = (Kind, &'a ObjectKey, &'a Carried)> + 'a {
        let own = move |(_, key): &&(Kind, ObjectKey)| *key.namespace == *namespace;
        self.of_workloads
            .iter()
            .filter(move |(key, _)| own(key))
            .map(|((kind, key), carried)| (*kind, key, carried))
    }

    /// The workloads of a namespace that carry one metric, each with its thousandths of it.
    pub fn of<'a>(
        &'a self,
        namespace: &'a str,
        metric: &'a Metric,
    ) -> impl Iterator<Item = (Kind, &'a ObjectKey, i64)> + 'a {
        let of = move |carried: &Carried| carried.get(metric).copied();
        self.in_namespace(namespace).filter_map(move |(kind, key, carried)| Some((kind, key, of(carried)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_outage_is_not_cut_short_by_a_shorter_one() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut load = Load::default();
        assert!(load.is_measured(at(0)));
        load.cut_off(at(100));
        load.cut_off(at(50));
        assert!(!load.is_measured(at(99)));
        assert!(load.is_measured(at(100)));
    }

    #[test]
    fn loads_are_distinguished_by_namespace_and_metric() {
        let mut load = Load::default();
        let mut put = |namespace: &str, metric: Metric, milli: i64| {
            load.put(Kind::Deployment, ObjectKey::new(namespace, "web"), metric, milli);
        };
        put("shop", Metric::Cpu, 500);
        put("shop", Metric::Memory, 7);
        put("shop", Metric::Cpu, 900);
        put("other", Metric::Cpu, 100);
        let of_shop = |metric| load.of("shop", &metric).map(|(_, _, milli)| milli).collect::<Vec<_>>();
        assert_eq!((of_shop(Metric::Cpu), of_shop(Metric::Memory)), (vec![900], vec![7]));
        assert_eq!(load.in_namespace("shop").count(), 1);
    }
}
