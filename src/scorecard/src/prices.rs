//! Prices of nodes, whoever runs them: those of the pools of Headroom whose nodes look the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::known::Known;
use headroom_core::snapshot::Snapshot;
use headroom_core::world::node::Node;

/// Labels that name the machine type of a node, the first that it has.
const TYPE_LABELS: [&str; 2] = ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"];

/// Prices of an hour in millionths, by what is known of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    pools: BTreeMap<Arc<str>, i64>,
    groups: BTreeMap<Arc<str>, i64>,
    types: BTreeMap<Arc<str>, i64>,
    /// By milli-CPUs and bytes of memory of the machine.
    shapes: BTreeMap<(i64, i64), i64>,
}

impl Prices {
    /// The prices that the pools of `snapshot` and their groups have. Of two that would hold for one machine the lower one does.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut prices = Self::default();
        for pool in &snapshot.config.pools {
            let state = snapshot.world.providers.get(&pool.name).and_then(Known::value);
            for group in state.iter().flat_map(|state| state.groups.values()) {
                let Some(price) = group.price_per_hour_micro else { continue };
                for instance in group.instances.keys() {
                    lower(&mut prices.groups, instance.clone(), price);
                }
                lower(&mut prices.pools, pool.name.clone(), price);
                if let Some(template) = &group.template {
                    prices.note(&template.node.labels, &template.node.capacity, price);
                }
            }
            let Some(price) = pool.price_per_hour_micro else { continue };
            prices.pools.insert(pool.name.clone(), price);
            if let Some(template) = &pool.template {
                prices.note(&template.labels, &template.capacity, price);
            }
        }
        prices
    }

    fn note(
        &mut self,
        labels: &headroom_core::labels::Labels,
        capacity: &headroom_core::resources::Resources,
        price: i64,
    ) {
        if let Some(machine) = TYPE_LABELS.iter().find_map(|label| labels.get(label)) {
            lower(&mut self.types, machine.into(), price);
        }
        lower(&mut self.shapes, (capacity.cpu_milli, capacity.memory_bytes), price);
    }

    /// The price of an hour of a node of `pool`, which is empty for a node of another autoscaler; `None` if nobody knows it.
    #[must_use]
    pub fn of_node(&self, pool: &str, node: &Node) -> Option<i64> {
        let of_machine = || {
            let machine = TYPE_LABELS.iter().find_map(|label| node.labels.get(label))?;
            self.types.get(machine).copied()
        };
        self.groups
            .get(&node.provider_id)
            .or_else(|| self.pools.get(pool))
            .copied()
            .or_else(of_machine)
            .or_else(|| nearest(&self.shapes, shape(node)).copied())
    }

    /// The price of an hour of a node of `pool`; `None` if nobody knows it.
    #[must_use]
    pub fn of_pool(&self, pool: &str) -> Option<i64> {
        self.pools.get(pool).copied()
    }
}

/// Milli-CPUs and bytes of memory of a node; one that reports no capacity is known by what it offers.
pub(crate) fn shape(node: &Node) -> (i64, i64) {
    let (whole, offered) = (&node.capacity, &node.allocatable);
    (whole.cpu_milli.max(offered.cpu_milli), whole.memory_bytes.max(offered.memory_bytes))
}

/// What belongs to the shape that is nearest, of those that differ by a tenth at most: no two providers report the memory of a
/// machine alike.
pub(crate) fn nearest<V>(shapes: &BTreeMap<(i64, i64), V>, (cpu, memory): (i64, i64)) -> Option<&V> {
    // In thousandths of what the node has.
    let apart = |a: i64, b: i64| i128::from(a.abs_diff(b)) * 1000 / i128::from(b.max(1));
    let near = shapes.iter().filter_map(|((of_cpu, of_memory), value)| {
        let (cpu, memory) = (apart(*of_cpu, cpu), apart(*of_memory, memory));
        (cpu <= 100 && memory <= 100).then_some((cpu + memory, value))
    });
    near.min_by_key(|(apart, _)| *apart).map(|(_, value)| value)
}

fn lower<K: Ord>(prices: &mut BTreeMap<K, i64>, key: K, price: i64) {
    let known = prices.entry(key).or_insert(price);
    *known = (*known).min(price);
}

#[cfg(test)]
mod tests {
    use headroom_core::history::History;
    use headroom_core::testing::{NOW, config, node, pool, world};

    use super::*;

    #[test]
    fn a_node_of_another_autoscaler_costs_what_the_pool_of_its_shape_costs() {
        let priced = pool("general").shape("4", "16Gi").with(|pool| pool.price_per_hour_micro = Some(40_000));
        let snapshot = Snapshot::of(&world().build(), &History::default(), &config([priced]), NOW);
        let prices = Prices::of(&snapshot);
        let of = |cpu: &str| prices.of_node("", &node("k1").cpu(cpu).memory("16Gi").build());
        assert_eq!((of("4"), of("8")), (Some(40_000), None));
        assert_eq!((prices.of_pool("general"), prices.of_pool("gpu")), (Some(40_000), None));
    }
}
