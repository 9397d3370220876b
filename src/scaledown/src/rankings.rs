//! Nodes by what is free of them, those of one size apart. It knows nothing of the nodes but their places and their ranks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use headroom_cluster::world::digest::Amounts;

/// Free thousandths of a node's cpu and memory, summed, and its place: the highest is the emptiest, of equal ones the first.
pub(crate) type Ranked = (i64, Reverse<u32>);

/// Rankings of nodes of about one size each. A pod needs so many thousandths of a node of some size at least: nodes that have fewer
/// are not looked at, and there are many of these where most nodes are full.
#[derive(Clone, Debug)]
pub(crate) struct Rankings {
    of_size: Vec<Ranking>,
    /// Index into `of_size` of each place.
    sizes: Vec<u16>,
}

#[derive(Clone, Debug, Default)]
struct Ranking {
    /// At least what any of its nodes offers.
    largest: Amounts,
    ranked: BinaryHeap<Ranked>,
}

/// Nodes with as many binary digits of cpu and of memory are of about one size.
type Digits = (u32, u32);

impl Rankings {
    /// No rankings yet, of nodes that offer so much each.
    pub(crate) fn of(sizes: &[Amounts]) -> Self {
        let mut known: BTreeMap<Digits, u16> = BTreeMap::new();
        let mut of_size: Vec<Ranking> = Vec::new();
        let index = |size: &Amounts| {
            let next = u16::try_from(known.len()).expect("64 times 64 sizes at most");
            let index = *known.entry((digits(size.cpu_milli), digits(size.memory_bytes))).or_insert(next);
            of_size.resize_with(known.len(), Ranking::default);
            let Ranking { largest, .. } = &mut of_size[usize::from(index)];
            *largest = largest.most(*size);
            index
        };
        let sizes = sizes.iter().map(index).collect();
        Self { of_size, sizes }
    }

    /// Ranks these, and no others.
    pub(crate) fn rank_all(&mut self, ranked: impl Iterator<Item = Ranked>) {
        let mut of_size: Vec<Vec<Ranked>> = vec![Vec::new(); self.of_size.len()];
        for one in ranked {
            of_size[self.index(one)].push(one);
        }
        for (ranking, ranked) in self.of_size.iter_mut().zip(of_size) {
            ranking.ranked = ranked.into();
        }
    }

    pub(crate) fn push(&mut self, one: Ranked) {
        let index = self.index(one);
        self.of_size[index].ranked.push(one);
    }

    /// Takes the highest of those that may have these amounts.
    pub(crate) fn pop(&mut self, asked: Amounts) -> Option<Ranked> {
        let may_have = |ranking: &&mut Ranking| ranking.may_have(asked);
        self.of_size
            .iter_mut()
            .filter(may_have)
            .max_by_key(|ranking| ranking.ranked.peek().copied())?
            .ranked
            .pop()
    }

    fn index(&self, (_, Reverse(place)): Ranked) -> usize {
        usize::from(self.sizes[place as usize])
    }
}

impl Ranking {
    /// True if the highest may have these amounts.
    fn may_have(&self, asked: Amounts) -> bool {
        let least = permille(asked.cpu_milli, self.largest.cpu_milli)
            .saturating_add(permille(asked.memory_bytes, self.largest.memory_bytes));
        self.ranked.peek().is_some_and(|(rank, _)| least <= *rank)
    }
}

fn digits(amount: i64) -> u32 {
    i64::BITS - amount.max(0).leading_zeros()
}

/// Thousandths that `part` is of `all`, rounded down; zero of nothing, and of less than nothing.
pub(crate) fn permille(part: i64, all: i64) -> i64 {
    if all <= 0 { 0 } else { part.max(0).saturating_mul(1000) / all }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(cpu_milli: i64, memory_bytes: i64) -> Amounts {
        Amounts { cpu_milli, memory_bytes, pods: 1 }
    }

    /// A node of 2,000 of each that is half free, and one of 16,000 with an eighth.
    fn small_and_large() -> Rankings {
        let mut rankings = Rankings::of(&[amounts(2000, 2000), amounts(16_000, 16_000)]);
        rankings.rank_all([(1000, Reverse(0)), (250, Reverse(1))].into_iter());
        rankings
    }

    #[test]
    fn a_node_with_just_the_amounts_is_found() {
        assert_eq!(small_and_large().pop(amounts(1000, 1000)), Some((1000, Reverse(0))));
        assert_eq!(small_and_large().pop(amounts(2000, 2000)), Some((250, Reverse(1))));
        assert_eq!(
            small_and_large().pop(amounts(2016, 2016)),
            None,
            "a thousandth more than the large one has"
        );
    }

    #[test]
    fn nodes_of_a_size_that_has_too_little_are_passed_over_and_stay() {
        let mut rankings = small_and_large();
        assert_eq!(rankings.pop(amounts(1500, 1500)), Some((250, Reverse(1))));
        assert_eq!(rankings.pop(amounts(1500, 1500)), None);
        assert_eq!(rankings.pop(amounts(0, 0)), Some((1000, Reverse(0))));
    }

    #[test]
    fn of_equal_ranks_the_first_place_comes_first_whatever_its_size() {
        let mut rankings = Rankings::of(&[amounts(16_000, 16_000), amounts(2000, 2000), amounts(2000, 2000)]);
        (0..3).rev().for_each(|place| rankings.push((500, Reverse(place))));
        let order: Vec<u32> =
            std::iter::from_fn(|| rankings.pop(amounts(1, 1)).map(|(_, place)| place.0)).collect();
        assert_eq!(order, [0, 1, 2]);
    }
}
