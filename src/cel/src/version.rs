//! Semantic versions as selectors compare them. Build metadata never decides.
//!
//! Source: blang/semver v4, Parse, and apiserver pkg/cel/library/semverlib.go for the lenient form.

use std::cmp::Ordering;
use std::sync::Arc;

/// A version.
#[derive(Clone, Debug)]
pub struct Version {
    /// Major, minor, patch.
    numbers: [u64; 3],
    /// Parts of the pre-release.
    pre: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Number(u64),
    Text(Arc<str>),
}

/// Reason why a text is not a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// It does not have three numbers.
    #[error("No Major.Minor.Patch elements found")]
    NotThreeNumbers,
    /// One of its numbers is not a number, has a leading zero or is too large.
    #[error("invalid number in the version")]
    Number,
    /// Pre-release or build metadata are empty, or have other characters than letters, digits and hyphens.
    #[error("invalid pre-release or build metadata in the version")]
    Suffix,
}

impl Version {
    /// Reads a version of three numbers, with pre-release and build metadata.
    ///
    /// # Errors
    /// If the text is anything else.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(VersionError::NotThreeNumbers);
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        let numbers = [number(major)?, number(minor)?, number(patch)?];
        let pre = pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(part).collect())?;
        if !build.is_none_or(|build| build.split('.').all(is_identifier)) {
            return Err(VersionError::Suffix);
        }
        Ok(Self { numbers, pre })
    }

    /// Reads a version that may have a leading v, fewer than three numbers, and leading zeros.
    ///
    /// # Errors
    /// If the text is not a version even so.
    pub fn parse_lenient(text: &str) -> Result<Self, VersionError> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err(VersionError::Suffix);
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }

    /// Major, minor and patch.
    #[must_use]
    pub fn numbers(&self) -> [u64; 3] {
        self.numbers
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_pre = || match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            // A release comes after its pre-releases.
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        };
        self.numbers.cmp(&other.numbers).then_with(by_pre)
    }
}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Part {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.cmp(b),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
        }
    }
}

fn has_leading_zero(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(text: &str) -> Result<u64, VersionError> {
    if !is_number(text) || has_leading_zero(text) {
        return Err(VersionError::Number);
    }
    text.parse().map_err(|_| VersionError::Number)
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn part(text: &str) -> Result<Part, VersionError> {
    if is_number(text) {
        return number(text).map(Part::Number);
    }
    if is_identifier(text) { Ok(Part::Text(text.into())) } else { Err(VersionError::Suffix) }
}

/// One of the numbers, with what may follow the last, without its leading zeros.
fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let kept = part.trim_start_matches('0');
    if kept.starts_with(|c: char| c.is_ascii_digit()) { kept.to_owned() } else { format!("0{kept}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn pre_releases_come_in_order_before_their_release() {
        let ordered = ["1.0.0-1", "1.0.0-2", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0", "1.0.1"];
        for pair in ordered.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn build_metadata_does_not_decide() {
        assert_eq!(version("1.2.3+a"), version("1.2.3+b.c-d"));
    }

    #[test]
    fn other_texts_are_refused() {
        assert_eq!(Version::parse("550"), Err(VersionError::NotThreeNumbers));
        for text in
            ["", "1.2", "v1.2.3", "01.2.3", "1.2.x", "1.2.3-", "1.2.3+", "1.2.3-01", "1.2.3-a..b", "1.2.-3"]
        {
            assert!(Version::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_lenient_form_fills_up_and_drops_zeros() {
        for (text, same) in
            [("v1.2", "1.2.0"), ("1", "1.0.0"), ("01.02.003-rc1", "1.2.3-rc1"), ("1.00", "1.0.0")]
        {
            assert_eq!(Version::parse_lenient(text).unwrap(), version(same), "{text}");
        }
        assert!(Version::parse_lenient("1.2-rc1").is_err());
    }
}
