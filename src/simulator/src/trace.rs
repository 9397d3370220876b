//! The ordered trace of a run and its stable hash: two runs of one seed are the same run when their hashes are equal.

use std::fmt;

use jiff::Timestamp;

use super::store::ObjectKey;

/// FNV-1a with 64 bits: stable across processes, platforms and releases, which std's hasher is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StableHash(u64);

impl Default for StableHash {
    fn default() -> StableHash {
        StableHash(0xcbf2_9ce4_8422_2325)
    }
}

impl StableHash {
    /// Takes in bytes; the split over several calls does not matter.
    pub fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Takes in a word and its end, so that `ab`,`c` differs from `a`,`bc`.
    pub fn word(&mut self, word: &str) {
        self.write(word.as_bytes());
        self.write(&[0xff]);
    }

    /// The hash of what was taken in.
    pub fn value(self) -> u64 {
        self.0
    }

    /// The hash of one text.
    pub fn of(text: &str) -> u64 {
        let mut hash = StableHash::default();
        hash.word(text);
        hash.value()
    }
}

impl fmt::Display for StableHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One line of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Time.
    pub at: Timestamp,
    /// Author of the request.
    pub actor: String,
    /// Verb of the request.
    pub verb: &'static str,
    /// Object of the request: plural and key.
    pub object: String,
    /// The HTTP status of the answer.
    pub code: u16,
    /// The store's revision afterwards.
    pub revision: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { at, actor, verb, object, code, revision } = self;
        write!(f, "{at} {actor} {verb} {object} {code} @{revision}")
    }
}

/// The running hash, and the lines themselves where someone wants to read them.
#[derive(Debug, Default)]
pub struct Trace {
    hash: StableHash,
    count: u64,
    kept: Option<Vec<Line>>,
}

impl Trace {
    /// Keeps every line from now on; without it a trace is its hash alone.
    pub fn keep_lines(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// Takes in one call and its result.
    #[allow(clippy::too_many_arguments)]
    pub fn record(
        &mut self,
        at: Timestamp,
        actor: &str,
        verb: &'static str,
        resource: &'static str,
        key: Option<&ObjectKey>,
        code: u16,
        revision: u64,
    ) {
        self.count += 1;
        self.hash.write(&at.as_nanosecond().to_le_bytes());
        for word in [actor, verb, resource, key.map_or("", |k| &k.namespace), key.map_or("", |k| &k.name)] {
            self.hash.word(word);
        }
        self.hash.write(&code.to_le_bytes());
        self.hash.write(&revision.to_le_bytes());
        if let Some(kept) = &mut self.kept {
            let object = key.map_or_else(|| resource.to_owned(), |key| format!("{resource} {key}"));
            kept.push(Line { at, actor: actor.to_owned(), verb, object, code, revision });
        }
    }

    /// The hash of all lines so far.
    pub fn hash(&self) -> StableHash {
        self.hash
    }

    /// Number of lines that were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The kept lines; empty unless `keep_lines` was called.
    pub fn lines(&self) -> &[Line] {
        self.kept.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_do_not_run_into_each_other() {
        let (mut one, mut other) = (StableHash::default(), StableHash::default());
        one.word("ab");
        one.word("c");
        other.word("a");
        other.word("bc");
        assert_ne!(one.value(), other.value());
    }

    #[test]
    fn hash_is_the_same_in_every_process() {
        assert_eq!(format!("{:016x}", StableHash::of("headroom")), "0db1a0331abc39b1");
    }
}
