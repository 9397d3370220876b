//! Check of a snapshot before it is read: one pass in little memory that refuses files that are not a snapshot, that
//! hold a key twice, or that would need more memory than any cluster does.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{Error as IoError, ErrorKind, Read};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::case::{Error, FORMAT, VERSION};

/// Limits of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most entries of one list or map: pods of the largest clusters.
    pub entries: u64,
    /// Most memory that all of it takes once it is taken in, in bytes: an estimate, by `OBJECT_BYTES`, `ENTRY_BYTES` and
    /// the lengths of strings.
    pub memory_bytes: u64,
    /// Longest string, in bytes; no object of Kubernetes is larger.
    pub string_bytes: u64,
}

/// The limits of files: three times what the largest cluster that Kubernetes supports (5,000 nodes, 150,000 pods) has. A pod takes
/// 1.8 KB by this estimate.
pub const LIMITS: Limits = Limits { entries: 500_000, memory_bytes: 800 << 20, string_bytes: 4 << 20 };

/// Memory of an object: what most have with defaults for all fields that are not written.
const OBJECT_BYTES: u64 = 256;
/// Memory of an entry of a list or map, beside that of what it holds.
const ENTRY_BYTES: u64 = 32;

/// Reads to the end and refuses what is not a snapshot that this program reads.
///
/// # Errors
/// If it is no JSON, no snapshot, of another version, larger than the limits, or if an object has a key twice.
pub fn check(read: impl Read, limits: Limits) -> Result<(), Error> {
    let mut bytes_left = limits.memory_bytes;
    let mut head = Head::default();
    let strings = ShortStrings { inner: read, max: limits.string_bytes, length: None, escape: false };
    let mut json = serde_json::Deserializer::from_reader(std::io::BufReader::with_capacity(1 << 16, strings));
    Top { walk: Walk { limits, left: &mut bytes_left }, head: &mut head }.deserialize(&mut json)?;
    json.end()?;
    if head.format != FORMAT {
        return Err(Error::Format(head.format));
    }
    if !(1..=VERSION).contains(&head.version) {
        return Err(Error::Version(head.version));
    }
    Ok(())
}

/// Format and version in the file.
#[derive(Debug, Default)]
struct Head {
    format: String,
    version: u32,
}

/// A number of bytes.
fn in_words(bytes: u64) -> String {
    if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

/// Any value: counted, and looked through for keys that are there twice.
struct Walk<'a> {
    limits: Limits,
    left: &'a mut u64,
}

impl Walk<'_> {
    fn again(&mut self) -> Walk<'_> {
        Walk { limits: self.limits, left: self.left }
    }

    /// Counts the `count`th entry of a list or map.
    fn count<E: serde::de::Error>(&mut self, count: u64) -> Result<(), E> {
        if self.limits.entries < count {
            return Err(E::custom(format_args!("a list has more than {} entries", self.limits.entries)));
        }
        self.charge(ENTRY_BYTES)
    }

    /// Counts memory.
    fn charge<E: serde::de::Error>(&mut self, bytes: u64) -> Result<(), E> {
        *self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            let most = in_words(self.limits.memory_bytes);
            E::custom(format_args!("it would take more than {most} of memory: no cluster is as large"))
        })?;
        Ok(())
    }

    /// Counts a text.
    fn charge_text<E: serde::de::Error>(&mut self, text: &str) -> Result<(), E> {
        self.charge(u64::try_from(text.len()).unwrap_or(u64::MAX))
    }

    /// The next key, which no earlier one may be.
    fn key<'de, A: MapAccess<'de>>(
        &mut self,
        map: &mut A,
        known: &mut BTreeSet<String>,
    ) -> Result<Option<String>, A::Error> {
        let Some(key) = map.next_key::<String>()? else { return Ok(None) };
        self.charge_text(&key)?;
        if !known.insert(key.clone()) {
            return Err(A::Error::custom(format_args!("the key {key:?} is there twice")));
        }
        self.count(u64::try_from(known.len()).unwrap_or(u64::MAX))?;
        Ok(Some(key))
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let mut count = 0;
        while list.next_element_seed(self.again())?.is_some() {
            count += 1;
            self.count(count)?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.charge(OBJECT_BYTES)?;
        let mut known = BTreeSet::new();
        while self.key(&mut map, &mut known)?.is_some() {
            map.next_value_seed(self.again())?;
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<(), E> {
        self.charge_text(text)
    }
}

/// The outermost value: an object with its format.
struct Top<'a> {
    walk: Walk<'a>,
    head: &'a mut Head,
}

impl<'de> DeserializeSeed<'de> for Top<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Top<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a snapshot")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut known = BTreeSet::new();
        while let Some(key) = self.walk.key(&mut map, &mut known)? {
            match key.as_str() {
                "format" => self.head.format = map.next_value()?,
                "version" => self.head.version = map.next_value()?,
                _ => map.next_value_seed(self.walk.again())?,
            }
        }
        Ok(())
    }
}

/// JSON whose strings are not longer than a limit: parsers hold a string as a whole.
struct ShortStrings<R> {
    inner: R,
    max: u64,
    /// Bytes of the string that has begun; `None` between strings.
    length: Option<u64>,
    escape: bool,
}

impl<R: Read> Read for ShortStrings<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.inner.read(buffer)?;
        for byte in buffer.iter().take(length).copied() {
            match (&mut self.length, byte) {
                (None, b'"') => self.length = Some(0),
                (None, _) => {}
                (Some(_), b'"') if !self.escape => self.length = None,
                (Some(count), _) => {
                    *count += 1;
                    if self.max < *count {
                        let message = format!("a string is longer than {} bytes", self.max);
                        return Err(IoError::new(ErrorKind::InvalidData, message));
                    }
                    self.escape = byte == b'\\' && !self.escape;
                }
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Limits = Limits { entries: 10, memory_bytes: 4 << 10, string_bytes: 30 };

    fn refused(text: &str, limits: Limits) -> String {
        let error = check(text.as_bytes(), limits).expect_err(text);
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        format!("{error}: {cause}")
    }

    fn snapshot(rest: &str) -> String {
        format!(r#"{{"format": "headroom.dev/snapshot", "version": 2{rest}}}"#)
    }

    #[test]
    fn snapshots_are_let_through() {
        check(snapshot("").as_bytes(), SMALL).unwrap();
        check(snapshot(r#", "a": [1, -1, 0.5, null, true, "x\"y", {"a": {}}, {"a": []}]"#).as_bytes(), SMALL)
            .unwrap();
    }

    #[test]
    fn keys_that_are_there_twice_are_named() {
        let twice = refused(&snapshot(r#", "input": {"a": {"node": 1, "node": 2}}"#), SMALL);
        assert!(twice.contains(r#"the key "node" is there twice"#), "{twice}");
        let escaped = refused(&snapshot(r#", "input": {"node": 1, "n\u006fde": 2}"#), SMALL);
        assert!(escaped.contains("twice"), "{escaped}");
        let head = refused(&snapshot(r#", "version": 1"#), SMALL);
        assert!(head.contains(r#"the key "version" is there twice"#), "{head}");
    }

    #[test]
    fn lists_strings_and_all_values_have_limits() {
        let list = format!(r#", "a": [{}0]"#, "0,".repeat(10));
        assert!(refused(&snapshot(&list), SMALL).contains("more than 10 entries"));
        for (entry, repeated) in
            [("[0,0,0,0,0,0,0,0,0,0],", 13), ("{},", 15), (r#""abcdefghijklmnopqrstuvwxyz","#, 72)]
        {
            // The head takes some of it.
            let limits = Limits { entries: 100, ..SMALL };
            let lists = |times| format!(r#", "a": [{}0]"#, entry.repeat(times));
            check(snapshot(&lists(repeated * 9 / 10 - 1)).as_bytes(), limits).unwrap();
            assert!(
                refused(&snapshot(&lists(repeated)), limits).contains("more than 4 KiB of memory"),
                "{entry}"
            );
        }
        let keys = format!(
            r#", "a": {{{}}}"#,
            (0..90).map(|n| format!(r#""a-rather-long-key-{n}": 0"#)).collect::<Vec<_>>().join(",")
        );
        assert!(
            refused(&snapshot(&keys), Limits { entries: 100, ..SMALL }).contains("more than 4 KiB of memory")
        );
        let string = format!(r#", "a": "{}""#, "\\\"".repeat(16));
        assert!(refused(&snapshot(&string), SMALL).contains("longer than 30 bytes"));
    }

    #[test]
    fn a_million_nodes_are_refused() {
        let nodes = format!(r#", "input": {{"world": {{"nodes": [{}{{}}]}}}}"#, "{},".repeat(1_000_000));
        assert!(refused(&snapshot(&nodes), LIMITS).contains("more than 500000 entries"));
    }

    #[test]
    fn what_is_no_snapshot_says_so() {
        for (text, word) in [
            ("", "EOF"),
            ("[]", "a snapshot"),
            ("{}", "`format` is"),
            (r#"{"format": "x", "version": 2}"#, "`format` is"),
            (r#"{"format": "headroom.dev/snapshot", "version": 99}"#, "version 99"),
            (r#"{"format": "headroom.dev/snapshot", "version": 2} {}"#, "trailing"),
            (r#"{"format": "headroom.dev/snapshot", "version": 2, "a": ["#, "EOF"),
        ] {
            let said = refused(text, SMALL);
            assert!(said.contains(word), "{text}: {said}");
        }
        let deep = format!(r#", "a": {}"#, "[".repeat(200));
        assert!(refused(&snapshot(&deep), LIMITS).contains("recursion"));
    }
}
