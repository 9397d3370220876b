//! Prices of nodes, known or by their capacity. It chooses no node.

use headroom_values::resources::Resources;

/// Price of a core for an hour, in millionths. Source: cloudprovider/gce/pricing.go.
const CORE_HOUR_MICRO: i128 = 33_174;
/// Price of a GiB of memory for an hour, likewise.
const GIB_HOUR_MICRO: i128 = 4_446;

/// Price of one node for an hour, in millionths of a currency unit.
///
/// `known` says that the prices of all nodes in the comparison are known; without that every node is valued by its
/// capacity, as the reference's price model values cpu and memory, because prices of two kinds cannot be compared. Rounds
/// down.
#[must_use]
pub(super) fn of_node(price_per_hour_micro: Option<i64>, capacity: &Resources, known: bool) -> i64 {
    match price_per_hour_micro {
        Some(price) if known => price,
        _ => of_amounts(capacity),
    }
}

/// Returns the worth of these amounts for an hour, in millionths of a currency unit.
#[must_use]
pub(super) fn of_amounts(amounts: &Resources) -> i64 {
    let cpu = i128::from(amounts.cpu_milli) * CORE_HOUR_MICRO / 1000;
    let memory = i128::from(amounts.memory_bytes) * GIB_HOUR_MICRO / (1 << 30);
    i64::try_from(cpu + memory).unwrap_or(i64::MAX)
}

/// True if `after` is cheaper than `before` by at least `percent` of `before`, and by something at all.
#[must_use]
pub(super) fn worth_it(before: i64, after: i64, percent: u32) -> bool {
    let saving = i128::from(before) - i128::from(after);
    0 < saving && i128::from(before) * i128::from(percent) <= saving * 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saving_is_worth_it_from_its_least_share_on_and_never_when_there_is_none() {
        assert!(worth_it(1_000, 850, 15) && !worth_it(1_000, 851, 15));
        assert!(!worth_it(1_000, 1_000, 0) && !worth_it(0, 0, 15) && !worth_it(100, 200, 1));
    }

    #[test]
    fn prices_count_only_when_all_are_known() {
        let capacity = Resources::new(4_000, 16 << 30);
        assert_eq!(of_node(Some(7), &capacity, true), 7);
        assert_eq!(of_node(Some(7), &capacity, false), 4 * 33_174 + 16 * 4_446);
        assert_eq!(of_node(None, &capacity, true), of_node(Some(7), &capacity, false));
    }
}
