//! Distribution of new nodes over the groups of a pool. It knows sizes and bounds, nothing else.

/// One group as balancing sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Nodes it has or has asked for.
    pub current: u32,
    /// Most nodes it may have.
    pub max: u32,
}

/// The group that gets the next node: the smallest with room, the first of several.
#[must_use]
pub fn next_group(sizes: &[Size]) -> Option<usize> {
    sizes
        .iter()
        .enumerate()
        .filter(|(_, size)| size.current < size.max)
        .min_by_key(|(index, size)| (size.current, *index))
        .map(|(index, _)| index)
}

/// The sizes after `new_nodes` more, in the order given; what finds no room is dropped.
///
/// The smallest group grows first, and so on, each up to its maximum.
/// Source: nodegroupset/balancing_node_group_set_processor.go, BalanceScaleUpBetweenGroups.
#[must_use]
pub fn balance(groups: &[Size], new_nodes: u32) -> Vec<u32> {
    let mut sizes: Vec<u32> = groups.iter().map(|group| group.current).collect();
    for (index, size) in grown(groups, new_nodes) {
        sizes[index] = size;
    }
    sizes
}

/// The groups that grow (by index) with their sizes after `new_nodes` more, in the order in which it is done.
///
/// A group at its maximum is left out. One above it is not, as upstream: it takes no node, but it has a place in the order,
/// which decides between equal sizes.
#[must_use]
pub fn grown(groups: &[Size], new_nodes: u32) -> Vec<(usize, u32)> {
    let mut order: Vec<usize> = (0..groups.len()).filter(|i| groups[*i].current != groups[*i].max).collect();
    order.sort_by_key(|index| groups[*index].current);
    let mut sizes: Vec<u32> = groups.iter().map(|group| group.current).collect();
    let room: u64 = order.iter().map(|i| u64::from(groups[*i].max.saturating_sub(groups[*i].current))).sum();
    let mut left = u64::from(new_nodes).min(room);
    let (mut at, mut low) = (0, 0);
    while 0 < left {
        if sizes[order[at]] < groups[order[at]].max {
            sizes[order[at]] += 1;
            left -= 1;
        } else {
            order.swap(at, low);
            low += 1;
        }
        let next_is_smaller = at + 1 < order.len() && sizes[order[at + 1]] < sizes[order[at]];
        at = if next_is_smaller { at + 1 } else { low };
        if at < low {
            at = low;
        }
    }
    let grows = |index: &usize| groups[*index].current < sizes[*index];
    order.into_iter().filter(grows).map(|index| (index, sizes[index])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(groups: &[(u32, u32)], new_nodes: u32, expected: &[u32]) {
        let sizes: Vec<Size> =
            groups.iter().map(|(current, max)| Size { current: *current, max: *max }).collect();
        assert_eq!(balance(&sizes, new_nodes), expected);
    }

    #[test]
    fn smallest_group_grows_first() {
        check(&[(5, 10), (1, 10), (3, 10)], 4, &[5, 4, 4]);
    }

    #[test]
    fn full_groups_leave_the_rest_to_others() {
        check(&[(0, 1), (0, 10)], 5, &[1, 4]);
    }

    #[test]
    fn what_finds_no_room_is_dropped() {
        check(&[(1, 2), (2, 2)], 9, &[2, 2]);
    }

    #[test]
    fn group_above_its_maximum_keeps_its_place_in_the_order() {
        let groups = [(7, 52), (1, 27), (0, 2), (2, 3), (12, 10), (21, 56), (1, 2)];
        check(&groups, 35, &[20, 19, 2, 3, 12, 21, 2]);
    }

    #[test]
    fn group_above_its_maximum_takes_no_room_from_others() {
        check(&[(9, 3), (0, 4)], 9, &[9, 4]);
    }

    #[test]
    fn first_of_equal_groups_gets_the_odd_node() {
        check(&[(0, 9), (0, 9)], 3, &[2, 1]);
    }
}
