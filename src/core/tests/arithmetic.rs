//! Arithmetic that must be right for every number: held against the plainest possible reckoning over whole ranges.

use std::collections::BTreeMap;

use headroom_core::config::{Budget, Ceiling, ScaleUp};
use headroom_core::history::{Backoff, History};
use headroom_core::nodes::scale_down::budgets::Allowance;
use headroom_core::nodes::scale_down::utilization::{Share, deciding};
use headroom_core::nodes::state::backoff::{after_failure, forgotten};
use headroom_core::quantity::Quantity;
use headroom_core::reason::Reason;
use headroom_core::testing::{NOW, config, pool};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::world::provider::FailureClass;

/// Each suffix as a fraction: numerator and denominator.
const SUFFIXES: [(&str, i128, i128); 15] = [
    ("n", 1, 1_000_000_000),
    ("u", 1, 1_000_000),
    ("m", 1, 1_000),
    ("", 1, 1),
    ("k", 1_000, 1),
    ("M", 1_000_000, 1),
    ("G", 1_000_000_000, 1),
    ("Ki", 1 << 10, 1),
    ("Mi", 1 << 20, 1),
    ("Gi", 1 << 30, 1),
    ("Ti", 1 << 40, 1),
    ("e3", 1_000, 1),
    ("E6", 1_000_000, 1),
    ("e-3", 1, 1_000),
    ("e0", 1, 1),
];

/// A quotient rounded up, for numbers that are not negative.
fn up(numerator: i128, denominator: i128) -> i64 {
    let quotient = (numerator + denominator - 1) / denominator;
    i64::try_from(quotient).expect("in range")
}

#[test]
fn every_small_quantity_with_every_suffix_is_exact_and_rounds_up() {
    for number in 0..=1_100_i128 {
        for tenths in 0..=1_i128 {
            for (suffix, numerator, denominator) in SUFFIXES {
                let text =
                    if tenths == 0 { format!("{number}{suffix}") } else { format!("{number}.1{suffix}") };
                let quantity = Quantity::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
                let (top, bottom) = ((number * 10 + tenths) * numerator, denominator * 10);
                assert_eq!(quantity.units(), up(top, bottom), "units of {text}");
                assert_eq!(quantity.milli(), up(top * 1_000, bottom), "milli of {text}");
            }
        }
    }
}

#[test]
fn every_percentage_of_every_number_of_nodes_lets_its_share_leave() {
    for percent in 0..=100_u32 {
        for ready in (0..=41_u32).chain([99, 100, 101]) {
            let mut config = config([pool("a")]);
            config.cluster.max_removals = u32::MAX;
            config.cluster.budgets = Vec::new();
            config.pools[0].scale_down.budgets = vec![Budget {
                name: "b".into(),
                ceiling: Ceiling::Percent(percent),
                reasons: Vec::new(),
                window: None,
            }];
            let counts = BTreeMap::from([("a".into(), ready)]);
            let mut allowance = Allowance::new(&config, &History::default(), counts, NOW);
            let taken =
                (0..200).take_while(|_| allowance.take(&config.pools[0], Reason::Empty).is_ok()).count();
            let share = usize::try_from(ready * percent / 100).expect("small");
            let wanted = if percent == 0 { 0 } else { share.max(1) };
            assert_eq!(taken, wanted, "{percent} % of {ready}");
        }
    }
}

#[test]
fn backoffs_of_every_row_of_failures_last_what_the_rule_says() {
    for (initial, max) in (1..=6_i64).flat_map(|initial| (1..=30_i64).map(move |max| (initial, max))) {
        let settings = ScaleUp {
            backoff_initial: Seconds(initial),
            backoff_max: Seconds(max),
            backoff_reset_after: Seconds(100),
            ..ScaleUp::default()
        };
        // Each bit is one more failure: inside the window of the one before, or after it.
        for row in 0..64_u32 {
            let (mut now, mut length) = (1_000_i64, initial);
            let fail = |before: Option<&Backoff>, at: i64| {
                after_failure(before, FailureClass::OutOfCapacity, "full", UnixTime(at), &settings)
            };
            let mut last = fail(None, now);
            for bit in 0..6 {
                let inside = row & (1 << bit) == 0;
                now += if inside { length } else { length + 1 };
                length = if inside { length } else { (length * 2).min(max) };
                assert!(!forgotten(&last, UnixTime(now), &settings));
                last = fail(Some(&last), now);
                assert_eq!(last.until, UnixTime(now + length), "row {row:b}, initial {initial}, max {max}");
                assert_eq!(last.failures, bit + 2);
            }
            assert!(forgotten(&last, UnixTime(now + 101), &settings));
        }
    }
}

/// All shares of small numbers. What is offered is below zero where daemon sets ask for more than the node has.
fn small_shares() -> impl Iterator<Item = Share> + Clone {
    (-3..=3_i64).flat_map(|requested| (-3..=3_i64).map(move |allocatable| Share { requested, allocatable }))
}

/// The quotient in floating point, as the reference takes it: infinite, or not a number, where nothing is offered.
fn quotient(share: Share) -> f64 {
    let float = |number: i64| f64::from(i32::try_from(number).expect("small"));
    float(share.requested) / float(share.allocatable)
}

#[test]
fn the_share_that_decides_is_the_larger_quotient_and_memory_on_a_tie() {
    for cpu in small_shares() {
        for memory in small_shares() {
            let larger = if quotient(cpu) > quotient(memory) { cpu } else { memory };
            assert_eq!(deciding(cpu, memory), larger, "{cpu:?} against {memory:?}");
        }
    }
}

#[test]
fn a_share_exceeds_a_percentage_where_its_quotient_does() {
    for share in small_shares() {
        for (percent, of_one) in [(0, 0.0), (50, 0.5), (100, 1.0)] {
            assert_eq!(share.exceeds_percent(percent), quotient(share) > of_one, "{share:?}, {percent} %");
        }
    }
}
