//! Reads and writes Kubernetes resource quantities with exact integer arithmetic; knows no resource names.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An amount of a resource, exact to a billionth. Amounts too large for Kubernetes are cut to its largest, 2^63 - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    /// Billionths. Never beyond ±[`MAX_NANOS`], so that sums of a few quantities can not overflow.
    nanos: i128,
}

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// The largest amount that Kubernetes knows, 2^63 - 1, in billionths.
const MAX_NANOS: i128 = i64::MAX as i128 * NANOS_PER_UNIT;

/// Decimal exponents are cut to this: with at most [`MAX_LENGTH`] digits anything beyond is 0 or the largest amount.
const MAX_EXPONENT: i64 = 1_000;

/// Longest text that is read, in bytes. No two amounts that differ need more.
pub const MAX_LENGTH: usize = 256;

/// Reason why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// There is no digit where the number should be.
    #[error("no number at its beginning")]
    NoNumber,
    /// Text after the number that is neither a Kubernetes suffix nor an exponent.
    #[error(
        "unknown suffix: use n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3"
    )]
    UnknownSuffix,
    /// The text has more than [`MAX_LENGTH`] bytes.
    #[error("longer than {MAX_LENGTH} characters")]
    TooLong,
}

/// Factor by which the number is multiplied.
#[derive(Clone, Copy)]
enum Scale {
    /// A power of ten.
    Ten(i64),
    /// A power of 1024, from 1 to 6.
    Kibi(u32),
}

impl Quantity {
    /// The quantity that the text stands for: a sign, digits with an optional point, and a suffix (`n u m k M G T P E`,
    /// `Ki Mi Gi Ti Pi Ei`) or an exponent (`e3`, `E-2`). Digits beyond a billionth are rounded up, away from zero;
    /// amounts beyond ±(2^63 - 1) are cut to it. `1E` is an exa, `1E3` a thousand.
    ///
    /// # Errors
    /// If the text is anything else. Never panics.
    ///
    /// ```
    /// use headroom_values::quantity::{Quantity, QuantityError};
    ///
    /// assert_eq!(Quantity::parse("1500m")?.milli(), 1_500);
    /// assert_eq!(Quantity::parse("16Gi")?.units(), 16 << 30);
    /// assert_eq!(Quantity::parse("1.5k")?.units(), 1_500);
    /// assert_eq!(Quantity::parse("100m")?.units(), 1, "rounded up");
    /// assert_eq!(Quantity::parse("4 cores"), Err(QuantityError::UnknownSuffix));
    /// # Ok::<(), QuantityError>(())
    /// ```
    ///
    /// Source: apimachinery pkg/api/resource/quantity.go, ParseQuantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.len() > MAX_LENGTH {
            return Err(QuantityError::TooLong);
        }
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let number_length = unsigned.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, suffix) = unsigned.split_at(number_length);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError::NoNumber);
        }
        let nanos = match parse_suffix(suffix)? {
            Scale::Ten(exponent) => decimal_nanos(whole, fraction, exponent),
            Scale::Kibi(power) => scaled_nanos(whole.bytes(), fraction.as_bytes(), 1_i128 << (10 * power)),
        };
        Ok(Self { nanos: if negative { -nanos } else { nanos } })
    }

    /// So many thousandths, as CPU is counted.
    pub fn from_milli(milli: i64) -> Self {
        Self { nanos: i128::from(milli) * NANOS_PER_MILLI }
    }

    /// So many whole units, as bytes and pods are counted.
    pub fn from_units(units: i64) -> Self {
        Self { nanos: i128::from(units) * NANOS_PER_UNIT }
    }

    /// Thousandths, rounded up away from zero; cut to ±(2^63 - 1).
    pub fn milli(self) -> i64 {
        saturated(divided_away_from_zero(self.nanos, NANOS_PER_MILLI))
    }

    /// Whole units (bytes for memory), rounded up away from zero.
    pub fn units(self) -> i64 {
        saturated(divided_away_from_zero(self.nanos, NANOS_PER_UNIT))
    }

    /// A number of units from float64, to the nearest billionth; what is beyond the range is cut to it, and what is not
    /// a number is 0: callers refuse that before.
    pub fn from_f64(units: f64) -> Self {
        let whole = units.trunc();
        // A cast from float to integer saturates, and makes 0 of what is not a number.
        #[allow(clippy::cast_possible_truncation)]
        let (whole, part) = (whole as i64, ((units - whole) * 1e9).round() as i64);
        let nanos = i128::from(whole) * NANOS_PER_UNIT + i128::from(part);
        Self { nanos: nanos.clamp(-MAX_NANOS, MAX_NANOS) }
    }

    /// As an integer times a power of ten, the way canonical decimal notation splits it: the exponent is a multiple of
    /// three from -9 to 18.
    pub fn decimal_parts(self) -> (i128, i32) {
        let (mut number, mut exponent) = (self.nanos, -9);
        while number != 0 && number % 1000 == 0 && exponent < 18 {
            number /= 1000;
            exponent += 3;
        }
        (number, if number == 0 { 0 } else { exponent })
    }

    /// Canonical decimal notation: the largest of n, u, m, k, M, G, T, P and E that leaves a whole number.
    ///
    /// Source: apimachinery pkg/api/resource/quantity.go, CanonicalizeBytes.
    pub fn to_decimal(self) -> String {
        let (number, exponent) = self.decimal_parts();
        let suffix = match exponent {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            _ => "",
        };
        format!("{number}{suffix}")
    }

    /// Canonical binary notation (Ki, Mi, …) if it is a whole number of at least 1024, else decimal.
    pub fn to_binary(self) -> String {
        let units = self.nanos / NANOS_PER_UNIT;
        if self.nanos % NANOS_PER_UNIT != 0 || units.unsigned_abs() < 1024 {
            return self.to_decimal();
        }
        format_bytes(saturated(units))
    }

    /// True if it is less than zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The sum of two, cut to the largest amount.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { nanos: (self.nanos + other.nanos).clamp(-MAX_NANOS, MAX_NANOS) }
    }

    /// The difference of two, cut to the largest amount.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { nanos: (self.nanos - other.nanos).clamp(-MAX_NANOS, MAX_NANOS) }
    }

    /// Whole units, if there is no fraction.
    pub fn whole_units(self) -> Option<i64> {
        (self.nanos % NANOS_PER_UNIT == 0).then(|| saturated(self.nanos / NANOS_PER_UNIT))
    }

    /// Units as the nearest float.
    #[allow(clippy::cast_precision_loss)]
    pub fn to_f64(self) -> f64 {
        self.nanos as f64 / NANOS_PER_UNIT as f64
    }

    /// True if it is zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_decimal())
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(|error| D::Error::custom(format!("{text:?} is no quantity: {error}")))
    }
}

/// CPU as people write it: `2` for whole CPUs, `1500m` otherwise.
pub fn format_cpu(milli: i64) -> String {
    if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") }
}

/// A price in millionths as people write it: `0.0912`. What is below 0 counts as 0.
pub fn format_price(micro: i64) -> String {
    let micro = micro.max(0);
    let decimal = format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000);
    decimal.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Bytes as people write them: the largest of Ki, Mi, Gi, Ti, Pi and Ei that leaves a whole number.
pub fn format_bytes(bytes: i64) -> String {
    let suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut number = bytes;
    let mut power = 0;
    while number != 0 && number % 1024 == 0 && power + 1 < suffixes.len() {
        number /= 1024;
        power += 1;
    }
    format!("{number}{}", suffixes[power])
}

fn parse_suffix(suffix: &str) -> Result<Scale, QuantityError> {
    Ok(match suffix {
        "" => Scale::Ten(0),
        "n" => Scale::Ten(-9),
        "u" => Scale::Ten(-6),
        "m" => Scale::Ten(-3),
        "k" => Scale::Ten(3),
        "M" => Scale::Ten(6),
        "G" => Scale::Ten(9),
        "T" => Scale::Ten(12),
        "P" => Scale::Ten(15),
        "E" => Scale::Ten(18),
        "Ki" => Scale::Kibi(1),
        "Mi" => Scale::Kibi(2),
        "Gi" => Scale::Kibi(3),
        "Ti" => Scale::Kibi(4),
        "Pi" => Scale::Kibi(5),
        "Ei" => Scale::Kibi(6),
        _ => Scale::Ten(parse_exponent(suffix)?),
    })
}

fn parse_exponent(suffix: &str) -> Result<i64, QuantityError> {
    let signed = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::UnknownSuffix)?;
    let digits = signed.strip_prefix(['+', '-']).unwrap_or(signed);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::UnknownSuffix);
    }
    let size = digits.bytes().fold(0_i64, |n, b| (n * 10 + i64::from(b - b'0')).min(MAX_EXPONENT));
    Ok(if signed.starts_with('-') { -size } else { size })
}

/// `whole.fraction × 10^exponent` in billionths: the point is moved, the digits stay.
fn decimal_nanos(whole: &str, fraction: &str, exponent: i64) -> i128 {
    let digits = || whole.bytes().chain(fraction.bytes());
    let count = whole.len() + fraction.len();
    // Both are at most MAX_LENGTH and MAX_EXPONENT in size.
    let point = i64::try_from(whole.len()).unwrap_or(MAX_EXPONENT) + exponent;
    match usize::try_from(point) {
        Ok(point) => {
            let zeros = std::iter::repeat_n(b'0', point.saturating_sub(count));
            let rest: Vec<u8> = digits().skip(point).collect();
            scaled_nanos(digits().take(point).chain(zeros), &rest, 1)
        }
        Err(_) => {
            let zeros = usize::try_from(-point).unwrap_or(0);
            let rest: Vec<u8> = std::iter::repeat_n(b'0', zeros).chain(digits()).collect();
            scaled_nanos(std::iter::empty(), &rest, 1)
        }
    }
}

/// `whole.fraction × factor` in billionths, rounded up, at most [`MAX_NANOS`]. The factor is at most 2^60.
fn scaled_nanos(whole: impl Iterator<Item = u8>, fraction: &[u8], factor: i128) -> i128 {
    // Units are cut at the largest amount at each digit, so they stay far from overflow.
    let most = i128::from(i64::MAX);
    let units = whole.fold(0_i128, |n, digit| (n * 10 + i128::from(digit - b'0')).min(most));
    // From the last digit to the first: what a digit adds, plus a tenth of what came after it. Rounding down at
    // each step gives the same as rounding down once, and a remainder anywhere means that a part was lost.
    let one = factor * NANOS_PER_UNIT;
    let (part, lost) = fraction.iter().rev().fold((0_i128, false), |(after, lost), digit| {
        let sum = i128::from(digit - b'0') * one + after;
        (sum / 10, lost || sum % 10 != 0)
    });
    (units * factor).saturating_mul(NANOS_PER_UNIT).saturating_add(part + i128::from(lost)).min(MAX_NANOS)
}

fn divided_away_from_zero(number: i128, divisor: i128) -> i128 {
    let quotient = number / divisor;
    if number % divisor == 0 { quotient } else { quotient + number.signum() }
}

fn saturated(number: i128) -> i64 {
    // The same on both sides, so that the sign can always be turned.
    let cut = number.clamp(-i128::from(i64::MAX), i128::from(i64::MAX));
    i64::try_from(cut).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, milli: i64, units: i64) {
        let quantity = Quantity::parse(text).unwrap();
        assert_eq!((quantity.milli(), quantity.units()), (milli, units), "{text}");
    }

    #[test]
    fn cpu_is_read_in_thousandths_rounded_up() {
        check("1500m", 1500, 2);
        check("0.1", 100, 1);
        check("1000m", 1000, 1);
        check("1u", 1, 1);
        check("1n", 1, 1);
        check("1.0001", 1001, 2);
        check(".5", 500, 1);
        check("5.", 5000, 5);
        check("+2", 2000, 2);
    }

    #[test]
    fn decimal_suffixes_are_powers_of_ten() {
        for (suffix, units) in
            [("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)]
        {
            check(&format!("3{suffix}"), 3 * units * 1000, 3 * units);
        }
        assert_eq!(Quantity::parse("2P").unwrap().units(), 2_000_000_000_000_000);
        assert_eq!(Quantity::parse("2E").unwrap().units(), 2_000_000_000_000_000_000);
    }

    #[test]
    fn binary_suffixes_are_powers_of_1024() {
        for (power, suffix) in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter().enumerate() {
            let units = 1_i64 << (10 * (power + 1));
            assert_eq!(Quantity::parse(&format!("1{suffix}")).unwrap().units(), units);
            assert_eq!(Quantity::parse(&format!("1.5{suffix}")).unwrap().units(), units / 2 * 3);
        }
    }

    #[test]
    fn exponents_move_the_point() {
        check("1e3", 1_000_000, 1000);
        check("1.5E2", 150_000, 150);
        check("12e-1", 1200, 2);
        check("123456e-6", 124, 1);
        check("0e999", 0, 0);
        check("1e-999", 1, 1);
        assert_eq!(Quantity::parse("1e+2").unwrap(), Quantity::parse("100").unwrap());
    }

    #[test]
    fn a_capital_e_alone_is_exa() {
        assert_eq!(Quantity::parse("1E").unwrap(), Quantity::parse("1e18").unwrap());
    }

    #[test]
    fn huge_amounts_are_cut_to_the_largest() {
        for text in
            ["99999999999999999999", "9e999", "10E", "16Ei", "9223372036854775808", "1e99999999999999999"]
        {
            check(text, i64::MAX, i64::MAX);
            assert_eq!(Quantity::parse(&format!("-{text}")).unwrap().units(), -i64::MAX, "-{text}");
        }
    }

    #[test]
    fn thousandths_of_huge_amounts_are_cut_to_the_same_size_on_both_sides() {
        check("1E", i64::MAX, 1_000_000_000_000_000_000);
        check("-1E", -i64::MAX, -1_000_000_000_000_000_000);
    }

    #[test]
    fn digits_beyond_a_billionth_round_up() {
        assert_eq!(Quantity::parse("1.0000000001").unwrap(), Quantity::parse("1000000001n").unwrap());
        assert_eq!(Quantity::parse("0.0000000000001Ki").unwrap(), Quantity::parse("1n").unwrap());
        assert_eq!(Quantity::parse("-0.0000000001").unwrap(), Quantity::parse("-1n").unwrap());
    }

    #[test]
    fn negative_amounts_round_away_from_zero() {
        check("-1.5", -1500, -2);
        check("-1u", -1, -1);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "-", ".", "m", "1.2.3", "Gi", "e3"] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::NoNumber), "{text}");
        }
        for text in ["1 Gi", "1gi", "1K", "1e", "1e+", "1e1.5", "1Zi", "1mm", "1h", "٣", "1٣", "1e٣"] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
        assert_eq!(Quantity::parse(&"1".repeat(MAX_LENGTH + 1)), Err(QuantityError::TooLong));
    }

    #[test]
    fn amounts_are_written_as_people_write_them() {
        assert_eq!(
            (format_cpu(2000), format_cpu(1500), format_cpu(0)),
            ("2".into(), "1500m".into(), "0".into())
        );
        assert_eq!(format_bytes(64 << 30), "64Gi");
        assert_eq!(format_bytes(1536 << 20), "1536Mi");
        assert_eq!(format_bytes(1000), "1000");
        assert_eq!(format_bytes(0), "0");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_panic(text in "\\PC{0,40}") {
            let _ = Quantity::parse(&text);
        }

        #[test]
        fn any_text_of_the_right_letters_is_read_or_refused_without_panic(text in "[-+]?[0-9.]{0,60}[a-zA-Z]{0,3}[-+]?[0-9]{0,20}") {
            if let Ok(quantity) = Quantity::parse(&text) {
                prop_assert!(quantity.nanos.abs() <= MAX_NANOS);
                prop_assert!(quantity.milli().abs() >= quantity.units().abs() || quantity.units().abs() <= 1);
            }
        }

        #[test]
        fn whole_numbers_are_exact(number in any::<i64>()) {
            let kept = number.max(-i64::MAX);
            prop_assert_eq!(Quantity::parse(&number.to_string()).unwrap().units(), kept);
            prop_assert_eq!(Quantity::parse(&format!("{number}m")).unwrap().milli(), kept);
        }

        #[test]
        fn a_fraction_equals_the_same_number_of_billionths(units in 0_i64..1_000_000, nanos in 0_i64..1_000_000_000) {
            let written = Quantity::parse(&format!("{units}.{nanos:09}")).unwrap();
            prop_assert_eq!(written, Quantity::parse(&format!("{}n", units * 1_000_000_000 + nanos)).unwrap());
        }

        #[test]
        fn suffix_and_exponent_say_the_same(number in 0_u64..1_000_000, fraction in 0_u32..1000) {
            for (suffix, exponent) in [("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)] {
                let plain = format!("{number}.{fraction:03}");
                prop_assert_eq!(
                    Quantity::parse(&format!("{plain}{suffix}")).unwrap(),
                    Quantity::parse(&format!("{plain}e{exponent}")).unwrap()
                );
            }
        }

        #[test]
        fn binary_fractions_are_exact_or_rounded_up(thousandths in 0_u64..1_000_000, power in 1_u32..=4) {
            let suffix = ["Ki", "Mi", "Gi", "Ti"][power as usize - 1];
            let text = format!("{}.{:03}{suffix}", thousandths / 1000, thousandths % 1000);
            let exact_thousandths = u128::from(thousandths) << (10 * power);
            let expected = i64::try_from(exact_thousandths.div_ceil(1000)).unwrap();
            prop_assert_eq!(Quantity::parse(&text).unwrap().units(), expected);
        }

        #[test]
        fn formatting_and_reading_give_the_same_amount(number in 0_i64..) {
            prop_assert_eq!(Quantity::parse(&format_bytes(number)).unwrap().units(), number);
            let milli = number / 1000;
            prop_assert_eq!(Quantity::parse(&format_cpu(milli)).unwrap().milli(), milli);
        }
    }
}
