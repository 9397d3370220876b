//! What the workloads have to carry, and whether anybody measures it. Scenario events change it; it changes no object.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::simulate::store::{Kind, ObjectKey};

/// The load on the cluster's workloads.
#[derive(Debug, Default)]
pub struct Load {
    milli_cpu: BTreeMap<(Kind, ObjectKey), i64>,
    unmeasured_until: Option<Timestamp>,
    missing: BTreeMap<(Kind, ObjectKey), (usize, Timestamp)>,
}

impl Load {
    /// From now on the pods of a workload use so many thousandths of a CPU together.
    pub fn put(&mut self, kind: Kind, key: ObjectKey, milli_cpu: i64) {
        self.milli_cpu.insert((kind, key), milli_cpu);
    }

    /// Until then nobody measures anything.
    pub fn cut_off(&mut self, until: Timestamp) {
        self.unmeasured_until = self.unmeasured_until.max(Some(until));
    }

    /// Until then the usage of `count` of a workload's pods, the first by name, is missing.
    pub fn miss(&mut self, kind: Kind, key: ObjectKey, count: usize, until: Timestamp) {
        self.missing.insert((kind, key), (count, until));
    }

    /// Of how many of a workload's pods the usage is missing now.
    pub fn missing_count(&self, kind: Kind, key: &ObjectKey, now: Timestamp) -> usize {
        let missing = self.missing.get(&(kind, key.clone()));
        missing.filter(|(_, until)| now < *until).map_or(0, |(count, _)| *count)
    }

    /// Whether the metrics can be read now.
    pub fn is_measured(&self, now: Timestamp) -> bool {
        self.unmeasured_until.is_none_or(|until| until <= now)
    }

    /// The workloads of a namespace under load, each with its thousandths of a CPU.
    pub fn in_namespace<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = (Kind, &'a ObjectKey, i64)> + 'a {
        let of = move |(_, key): &&(Kind, ObjectKey)| *key.namespace == *namespace;
        self.milli_cpu.iter().filter(move |(key, _)| of(key)).map(|((kind, key), load)| (*kind, key, *load))
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
    fn loads_are_told_by_namespace() {
        let mut load = Load::default();
        load.put(Kind::Deployment, ObjectKey::new("shop", "web"), 500);
        load.put(Kind::Deployment, ObjectKey::new("shop", "web"), 900);
        load.put(Kind::Deployment, ObjectKey::new("other", "web"), 100);
        let of_shop: Vec<i64> = load.in_namespace("shop").map(|(_, _, load)| load).collect();
        assert_eq!(of_shop, [900]);
    }
}
