//! Kubernetes quantities as thousandths; written apart from the operator's parser so that the two share no bug.

use serde_json::Value;

/// The quantity in thousandths, rounded up; saturates, and unreadable text is 0.
pub(crate) fn milli(value: &Value) -> i64 {
    match value {
        Value::String(text) => parse(text).unwrap_or(0),
        Value::Number(number) => parse(&number.to_string()).unwrap_or(0),
        _ => 0,
    }
}

fn parse(text: &str) -> Option<i64> {
    let end =
        text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-' && c != '+').unwrap_or(text.len());
    let (mantissa, suffix) = text.split_at(end);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let negative = whole.starts_with('-');
    let digits = whole.trim_start_matches(['-', '+']);
    // Nine digits behind the point are all that the API keeps (nano).
    let fraction = format!("{:0<9}", fraction.get(..fraction.len().min(9))?);
    let whole: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let nano = whole.checked_mul(1_000_000_000)?.checked_add(fraction.parse().ok()?)?;
    let (numerator, denominator) = factor(suffix)?;
    let scaled = nano.checked_mul(numerator)? / denominator;
    let milli = scaled.div_euclid(1_000_000) + i128::from(scaled.rem_euclid(1_000_000) != 0);
    let milli = i64::try_from(milli).unwrap_or(i64::MAX);
    Some(if negative { -milli } else { milli })
}

fn factor(suffix: &str) -> Option<(i128, i128)> {
    let up = |n: i128| Some((n, 1));
    match suffix {
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1_000)),
        "" => up(1),
        "k" => up(1_000),
        "M" => up(1_000_000),
        "G" => up(1_000_000_000),
        "T" => up(1_000_000_000_000),
        "P" => up(1_000_000_000_000_000),
        "E" => up(1_000_000_000_000_000_000),
        "Ki" => up(1 << 10),
        "Mi" => up(1 << 20),
        "Gi" => up(1 << 30),
        "Ti" => up(1 << 40),
        "Pi" => up(1 << 50),
        "Ei" => up(1 << 60),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            Some(if exponent < 0 { (1, power) } else { (power, 1) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_every_suffix_are_read_in_thousandths() {
        for (text, expected) in [
            ("250m", 250),
            ("2", 2_000),
            ("1.5", 1_500),
            (".5", 500),
            ("1Ki", 1_024_000),
            ("64Gi", 68_719_476_736_000),
            ("1e3", 1_000_000),
            ("100u", 1),
            ("-1", -1_000),
            ("x", 0),
        ] {
            assert_eq!(milli(&Value::from(text)), expected, "{text}");
        }
        assert_eq!(milli(&Value::from(3)), 3_000);
    }
}
