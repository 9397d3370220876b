//! Damages what is sane, again and again, for tests of whoever reads it: values of an object, or bytes of an answer. Each
//! case follows from its number alone.
//!
//! In-process and without coverage, so that it costs a second in every test run; `hack/fuzz.sh` looks at coverage.

use serde_json::{Value, json};

/// Number of cases by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases that were understood all the same.
    pub read: u64,
    /// Cases that were refused with words.
    pub refused: u64,
}

/// Number of cases that are tried: HEADROOM_CASES, or `usual`.
#[must_use]
pub fn cases(usual: u64) -> u64 {
    std::env::var("HEADROOM_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

/// Tries damaged copies of `sane`, which `read` must understand as it is.
///
/// # Errors
/// The case in words: the sane object was refused, or a damaged one without a word.
pub fn try_objects(
    sane: &Value,
    cases: u64,
    read: impl Fn(&Value) -> Result<(), String>,
) -> Result<Tally, String> {
    read(sane).map_err(|words| format!("the sane object is refused: {words}"))?;
    try_each(cases, |random| {
        let mut object = sane.clone();
        for _ in 0..random.usize(1..4) {
            spoil(&mut object, random);
        }
        read(&object).map_err(|words| (words, object.to_string()))
    })
}

/// Tries damaged copies of `sane`: bytes replaced, by any or by those of `alphabet`, dropped, doubled and cut off.
///
/// # Errors
/// As [`try_objects`].
pub fn try_bytes(
    sane: &[u8],
    alphabet: &[u8],
    cases: u64,
    read: impl Fn(&[u8]) -> Result<(), String>,
) -> Result<Tally, String> {
    read(sane).map_err(|words| format!("the sane answer is refused: {words}"))?;
    try_each(cases, |random| {
        let mut bytes = sane.to_vec();
        for _ in 0..random.usize(1..4) {
            // Never empty: what is cut off keeps a byte, and a lone byte is not taken away.
            let at = random.usize(0..bytes.len());
            match random.u8(0..5) {
                0 => bytes[at] = random.u8(..),
                1 => bytes[at] = alphabet[random.usize(0..alphabet.len())],
                2 if 1 < bytes.len() => drop(bytes.remove(at)),
                2 | 3 => bytes.extend_from_within(at..),
                _ => bytes.truncate(at.max(1)),
            }
        }
        read(&bytes).map_err(|words| (words, String::from_utf8_lossy(&bytes).into_owned()))
    })
}

/// Runs the cases; `one` returns the message of a refusal, and the case.
fn try_each(
    cases: u64,
    one: impl Fn(&mut fastrand::Rng) -> Result<(), (String, String)>,
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for number in 0..cases {
        match one(&mut fastrand::Rng::with_seed(number)) {
            Ok(()) => tally.read += 1,
            Err((words, case)) if words.trim().is_empty() => {
                return Err(format!("case {number} is refused without a word: {case}"));
            }
            Err(_) => tally.refused += 1,
        }
    }
    Ok(tally)
}

/// Returns the values that are put in place of valid ones.
fn nonsense(random: &mut fastrand::Rng) -> Value {
    let words = [
        "",
        " ",
        "\u{0}",
        "\u{202e}web",
        "1e1000",
        "-0",
        "NaN",
        "99999999999999999999",
        "0.0000000000000001n",
        "1Zi",
        "0 0 30 2 *",
        "*/0 * * * *",
        "60 24 32 13 8",
        "9999999h",
        "-5m",
        "P1D",
        "2999-13-45T00:00:00Z",
        "../../etc",
        "{{.}}",
        "(?:(?:(?:a*)*)*)*",
        "deny",
        "true",
    ];
    match random.u8(0..12) {
        0 => Value::Null,
        1 => json!(random.bool()),
        2 => json!(-1),
        3 => json!(i64::MAX),
        4 => json!(u64::MAX),
        5 => json!(1e308),
        6 => json!([]),
        7 => json!({}),
        8 => json!("𝕏\u{301}".repeat(random.usize(1..400))),
        9 => json!([[[{"a": [Value::Null]}]]]),
        _ => json!(words[random.usize(0..words.len())]),
    }
}

/// Puts something wrong somewhere into `value`.
fn spoil(value: &mut Value, random: &mut fastrand::Rng) {
    let here = random.u8(0..6) == 0;
    match value {
        Value::Object(fields) if !here && !fields.is_empty() => {
            let Some(key) = fields.keys().nth(random.usize(0..fields.len())).cloned() else { return };
            if random.u8(0..8) == 0 {
                fields.remove(&key);
            } else {
                spoil(&mut fields[&key], random);
            }
        }
        Value::Array(items) if !here && !items.is_empty() => {
            let index = random.usize(0..items.len());
            match random.u8(0..8) {
                0 => drop(items.remove(index)),
                1 => items.extend(items.clone().into_iter().cycle().take(40).collect::<Vec<_>>()),
                _ => spoil(&mut items[index], random),
            }
        }
        other => *other = nonsense(random),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_without_a_message_is_reported_with_its_case() {
        let read = |bytes: &[u8]| if bytes == b"sane" { Ok(()) } else { Err(String::new()) };
        let message = try_bytes(b"sane", b"x", 100, read).unwrap_err();
        assert!(message.contains("without a word"), "{message}");
        assert!(try_bytes(b"odd", b"x", 1, |_| Err("no".to_owned())).unwrap_err().contains("sane answer"));
    }

    #[test]
    fn cases_are_counted_by_what_became_of_them() {
        let read = |object: &Value| if object["a"] == 1 { Ok(()) } else { Err("another a".to_owned()) };
        let tally = try_objects(&json!({"a": 1, "b": [2]}), 500, read).unwrap();
        assert_eq!(tally.read + tally.refused, 500);
        assert!(100 < tally.read && 100 < tally.refused, "{tally:?}");
    }
}
