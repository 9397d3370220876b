//! The arithmetic of replica decisions: 64 bits that wrap as in the reference, or wider ones that are cut at their end.

use crate::config::Profile;
use crate::pods::input::Options;
use crate::pods::spec::ScalingRules;

/// How sums and products behave beyond 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    /// As in the reference: two's complement.
    wraps: bool,
}

impl Numbers {
    pub(super) fn of(profile: Profile) -> Self {
        Self { wraps: profile == Profile::ClusterAutoscaler }
    }

    /// The 64-bit sum or product that was computed in 128 bits: wrapped, or left as it is.
    pub(super) fn settle(self, number: i128) -> i128 {
        if self.wraps { i128::from(low_64(number)) } else { number }
    }

    /// A sum of 64-bit numbers.
    pub(super) fn sum(self, numbers: impl Iterator<Item = i128>) -> i128 {
        // Fewer than 2^63 numbers of 64 bits: 128 bits hold their sum.
        self.settle(numbers.sum())
    }

    /// A 32-bit number out of a larger one.
    pub(super) fn int32(self, number: i128) -> i32 {
        if self.wraps { low_32(number) } else { cut_32(number) }
    }

    /// A float64 rounded up, as a number of replicas. Beyond 32 bits it is cut to them, and what is not a number is 0;
    /// for the reference both are the smallest 32-bit number, as its conversion has it on x86-64.
    pub(super) fn ceil_replicas(self, number: f64) -> i32 {
        self.truncated_replicas(number.ceil())
    }

    /// As [`Self::ceil_replicas`], but too many replicas are cut to the largest 32-bit number for the reference too.
    pub(super) fn capped_replicas(self, number: f64) -> i32 {
        if number > f64::from(i32::MAX) { i32::MAX } else { self.ceil_replicas(number) }
    }

    /// A float64 without its fraction, as a number of replicas; beyond 32 bits as in [`Self::ceil_replicas`].
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn truncated_replicas(self, number: f64) -> i32 {
        let within = f64::from(i32::MIN) - 1.0 < number && number < f64::from(i32::MAX) + 1.0;
        if self.wraps && !within { i32::MIN } else { number as i32 }
    }

    /// `a + b` in 32 bits.
    pub(super) fn plus(self, a: i32, b: i32) -> i32 {
        if self.wraps { a.wrapping_add(b) } else { a.saturating_add(b) }
    }

    /// `a - b` in 32 bits.
    pub(super) fn minus(self, a: i32, b: i32) -> i32 {
        if self.wraps { a.wrapping_sub(b) } else { a.saturating_sub(b) }
    }
}

/// The lower 64 bits: what is left of a sum that wrapped.
#[allow(clippy::cast_possible_truncation)]
fn low_64(number: i128) -> i64 {
    number as i64
}

#[allow(clippy::cast_possible_truncation)]
fn low_32(number: i128) -> i32 {
    number as i32
}

fn cut_32(number: i128) -> i32 {
    let cut = number.clamp(i128::from(i32::MIN), i128::from(i32::MAX));
    i32::try_from(cut).unwrap_or(i32::MAX)
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

/// How far a metric may be off its target, as fractions.
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

    /// Whether a ratio of value to target counts as on target; both ends do. What is not a number does not.
    pub(super) fn holds(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
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
    fn sums_wrap_for_the_reference_and_stay_wide_for_us() {
        let numbers = || [i128::from(i64::MAX), 1].into_iter();
        assert_eq!(Numbers::of(Profile::ClusterAutoscaler).sum(numbers()), i128::from(i64::MIN));
        assert_eq!(Numbers::of(Profile::Headroom).sum(numbers()), i128::from(i64::MAX) + 1);
        assert_eq!(Numbers::of(Profile::Headroom).int32(i128::MAX), i32::MAX);
        assert_eq!(Numbers::of(Profile::Headroom).plus(i32::MAX, 1), i32::MAX);
    }

    #[test]
    fn floats_beyond_the_range_are_cut_to_it() {
        let ours = Numbers::of(Profile::Headroom);
        assert_eq!(ours.ceil_replicas(f64::INFINITY), i32::MAX);
        assert_eq!(ours.ceil_replicas(f64::NEG_INFINITY), i32::MIN);
        assert_eq!(ours.ceil_replicas(2_147_483_647.5), i32::MAX);
        let theirs = Numbers::of(Profile::ClusterAutoscaler);
        assert_eq!(theirs.ceil_replicas(2_147_483_646.5), i32::MAX);
        assert_eq!(theirs.ceil_replicas(2_147_483_647.5), i32::MIN);
        assert_eq!(theirs.capped_replicas(f64::INFINITY), i32::MAX);
        assert_eq!(ceil_64(1e300), i64::MAX);
    }

    #[test]
    fn both_ends_are_within_tolerance_and_not_a_number_is_not() {
        let tolerance = Tolerance::of(&Options::default(), None, None);
        assert!(tolerance.holds(0.9) && tolerance.holds(1.1));
        assert!(!tolerance.holds(0.899_999) && !tolerance.holds(1.100_001) && !tolerance.holds(f64::NAN));
    }
}
