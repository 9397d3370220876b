//! JSON that loses its control characters and marks of writing direction while it is read. It holds one piece of it.

use std::io::{Error, ErrorKind, Read, Result};

use headroom_core::printable;

/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

/// Reader of `inner` with the replacements of [`printable::json`].
pub(super) struct Clean<R> {
    inner: R,
    /// Read and not yet cleaned: a character or an escape that is cut off.
    raw: Vec<u8>,
    clean: Vec<u8>,
    /// Start of the unread part of `clean`.
    at: usize,
    ended: bool,
}

impl<R: Read> Clean<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, raw: Vec::new(), clean: Vec::new(), at: 0, ended: false }
    }

    fn fill(&mut self) -> Result<()> {
        let limit = u64::try_from(PIECE).unwrap_or(u64::MAX);
        self.ended = self.inner.by_ref().take(limit).read_to_end(&mut self.raw)? == 0;
        let text = match std::str::from_utf8(&self.raw) {
            Ok(text) => text,
            Err(error) if error.error_len().is_some() || self.ended => {
                return Err(Error::new(ErrorKind::InvalidData, "it is not UTF-8"));
            }
            Err(error) => {
                let valid = self.raw.get(..error.valid_up_to()).unwrap_or_default();
                std::str::from_utf8(valid).map_err(|error| Error::new(ErrorKind::InvalidData, error))?
            }
        };
        let length = if self.ended { text.len() } else { before_a_cut_off_escape(text) };
        let piece = text.get(..length).unwrap_or_default();
        self.clean = printable::json(piece).unwrap_or_else(|| piece.to_owned()).into_bytes();
        self.at = 0;
        self.raw.drain(..length);
        Ok(())
    }
}

/// The length of the text without an escape at its end that may go on after it.
fn before_a_cut_off_escape(text: &str) -> usize {
    let Some(last) = text.rfind('\\') else { return text.len() };
    let (before, rest) = text.split_at(last);
    // The second of two backslashes begins nothing.
    let escaped = before.len() - before.trim_end_matches('\\').len();
    let mut rest = rest.chars().skip(1);
    let cut_off = match rest.next() {
        Some('u') => rest.take(4).count() < 4,
        Some(_) => false,
        None => true,
    };
    if escaped % 2 == 0 && cut_off { last } else { text.len() }
}

impl<R: Read> Read for Clean<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while self.at == self.clean.len() && !self.ended {
            self.fill()?;
        }
        let mut rest = self.clean.get(self.at..).unwrap_or_default();
        let length = rest.read(buffer)?;
        self.at += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &[u8]) -> Result<String> {
        let mut clean = String::new();
        Clean::new(text).read_to_string(&mut clean).map(|_| clean)
    }

    #[test]
    fn what_is_longer_than_a_piece_is_cleaned_as_a_whole() {
        let name = |number: usize| format!("\"a\u{202e}{number}\\u001b\\n\u{7f}\u{9b}é😀\"");
        let text = format!("[{}]", (0..9_000).map(name).collect::<Vec<_>>().join(","));
        assert!(2 * PIECE < text.len());
        assert_eq!(cleaned(text.as_bytes()).unwrap(), printable::json(&text).unwrap());
    }

    #[test]
    fn no_escape_is_torn() {
        let tail = |text: &str| text.len() - before_a_cut_off_escape(text);
        assert_eq!(["a", "a\\n", "a\\\\", "a\\u001b", "\\\\u00"].map(tail), [0; 5]);
        assert_eq!(["a\\", "a\\u", "a\\u001", "a\\\\\\"].map(tail), [1, 2, 5, 1]);
    }

    #[test]
    fn what_is_not_utf_8_is_refused() {
        assert!(cleaned(b"[\"a\xff\"]").unwrap_err().to_string().contains("UTF-8"));
        assert!(cleaned("\"é".as_bytes().get(..2).unwrap()).unwrap_err().to_string().contains("UTF-8"));
    }
}
