//! The arithmetic of replica decisions: that of the controller-manager on amd64, to the bit (decision 53).

use crate::input::Options;
use crate::spec::ScalingRules;

/// The 64-bit sum or product that was computed in 128 bits, wrapped as two's complement.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn wrapped_64(number: i128) -> i128 {
    i128::from(number as i64)
}

/// A 64-bit sum of 64-bit numbers; it wraps.
pub(super) fn wrapping_sum(numbers: impl Iterator<Item = i128>) -> i128 {
    // Fewer than 2^63 numbers of 64 bits: 128 bits hold their sum.
    wrapped_64(numbers.sum())
}

/// The lower 32 bits of a larger number.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn wrapped_32(number: i128) -> i32 {
    number as i32
}

/// A float64 rounded up, as a number of replicas. Beyond 32 bits, and where it is not a number, it is the smallest of
/// them: so amd64 converts.
pub(super) fn ceil_replicas(number: f64) -> i32 {
    truncated_replicas(number.ceil())
}

/// As [`ceil_replicas`], but too many replicas are cut to the largest 32-bit number.
pub(super) fn capped_replicas(number: f64) -> i32 {
    if number > f64::from(i32::MAX) { i32::MAX } else { ceil_replicas(number) }
}

/// A float64 without its fraction, as a number of replicas; beyond 32 bits as in [`ceil_replicas`].
#[allow(clippy::cast_possible_truncation)]
pub(super) fn truncated_replicas(number: f64) -> i32 {
    let within = f64::from(i32::MIN) - 1.0 < number && number < f64::from(i32::MAX) + 1.0;
    if within { number as i32 } else { i32::MIN }
}

/// The number in 64 bits, cut to their range.
pub(super) fn cut_64(number: i128) -> i64 {
    let cut = number.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    i64::try_from(cut).unwrap_or(i64::MAX)
}

/// The nearest float64.
#[allow(clippy::cast_precision_loss)]
pub(super) fn float(number: i128) -> f64 {
    number as f64
}

/// A float64 rounded up, in 64 bits; cut to them.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn ceil_64(number: f64) -> i64 {
    number.ceil() as i64
}

/// Deviations of a metric from its target, as fractions, up to which the size is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    down: f64,
    up: f64,
}

impl Tolerance {
    /// Of a spec: the behavior's own tolerance of each side if the gate is on, else the option.
    ///
    /// Source: podautoscaler horizontal.go, tolerancesForHpa.
    pub(super) fn of(options: &Options, up: Option<&ScalingRules>, down: Option<&ScalingRules>) -> Self {
        let own = |rules: Option<&ScalingRules>| {
            let amount = rules.and_then(|rules| rules.tolerance)?;
            options.gates.configurable_tolerance.then(|| {
                // The integer times the power of ten of the canonical notation: 118m is 118 · 0.001, a hair above 0.118.
                let (number, exponent) = amount.quantity.decimal_parts();
                if exponent == 0 {
                    float(number)
                } else {
                    float(number) * POWERS_OF_TEN[power_index(exponent)]
                }
            })
        };
        Self { down: own(down).unwrap_or(options.tolerance), up: own(up).unwrap_or(options.tolerance) }
    }

    /// True if a ratio of value to target counts as on target; both ends do. What is not a number does not.
    pub(super) fn holds(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }

    /// True if a ratio of value to target is below what still counts as on target.
    pub(super) fn is_below(self, ratio: f64) -> bool {
        ratio < 1.0 - self.down
    }
}

/// From 10^-9 to 10^18 in steps of three, as the nearest float64.
const POWERS_OF_TEN: [f64; 10] = [1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e9, 1e12, 1e15, 1e18];

fn power_index(exponent: i32) -> usize {
    usize::try_from((exponent + 9) / 3).unwrap_or(0).min(POWERS_OF_TEN.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_wrap_as_in_the_reference() {
        let sum = wrapping_sum([i128::from(i64::MAX), 1].into_iter());
        assert_eq!(sum, i128::from(i64::MIN));
        assert_eq!(wrapped_32(i128::from(i32::MAX) + 1), i32::MIN);
    }

    #[test]
    fn floats_beyond_the_range_are_the_smallest_number_unless_they_are_capped() {
        assert_eq!(ceil_replicas(2_147_483_646.5), i32::MAX);
        for beyond in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 2_147_483_647.5] {
            assert_eq!(ceil_replicas(beyond), i32::MIN);
        }
        assert_eq!(capped_replicas(f64::INFINITY), i32::MAX);
        assert_eq!(capped_replicas(2_147_483_647.5), i32::MAX);
        assert_eq!(ceil_64(1e300), i64::MAX);
    }

    #[test]
    fn both_ends_are_within_tolerance_and_not_a_number_is_not() {
        let tolerance = Tolerance::of(&Options::default(), None, None);
        assert!(tolerance.holds(0.9) && tolerance.holds(1.1));
        assert!(!tolerance.holds(0.899_999) && !tolerance.holds(1.100_001) && !tolerance.holds(f64::NAN));
    }
}
