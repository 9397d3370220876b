//! Files of bounded size: what is larger is refused instead of being cut off. It knows no format.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Largest manifest, scenario or file to import.
pub const TEXT_BYTES_MAX: u64 = 64 << 20;

/// A reader that fails once more than a number of bytes has come.
#[derive(Debug)]
pub struct Bounded<R> {
    inner: R,
    left: u64,
    max: u64,
}

impl<R: Read> Bounded<R> {
    /// Reads at most `max` bytes of `inner`.
    #[must_use]
    pub fn new(inner: R, max: u64) -> Self {
        Self { inner, left: max, max }
    }

    /// The whole text.
    ///
    /// # Errors
    /// If it is longer, cannot be read, or is not UTF-8.
    pub fn text(mut self) -> Result<String> {
        let mut text = String::new();
        self.read_to_string(&mut text)?;
        Ok(text)
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let length = self.inner.read(buffer)?;
        let taken = u64::try_from(length).unwrap_or(u64::MAX);
        match self.left.checked_sub(taken) {
            Some(left) => self.left = left,
            None => {
                let message = format!("larger than {}", size(self.max));
                return Err(Error::new(ErrorKind::FileTooLarge, message));
            }
        }
        Ok(length)
    }
}

/// The text of a file of at most [`TEXT_BYTES_MAX`].
///
/// # Errors
/// If it is larger, cannot be read, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    Bounded::new(File::open(path)?, TEXT_BYTES_MAX).text()
}

fn size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{bytes} bytes"),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_larger_is_refused_and_not_cut_off() {
        assert_eq!(Bounded::new(&b"four"[..], 4).text().unwrap(), "four");
        let refused = Bounded::new(&b"fifth"[..], 4).text().unwrap_err();
        assert_eq!(refused.to_string(), "larger than 4 bytes");
        let endless = Bounded::new(std::io::repeat(b'a'), 2 << 20).text().unwrap_err();
        assert_eq!(endless.to_string(), "larger than 2 MiB");
    }
}
