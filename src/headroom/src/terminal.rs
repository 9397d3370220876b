//! Output of all text of the command line: standard output and standard error, without control characters but line
//! breaks and our own colours.

#![allow(clippy::disallowed_methods, reason = "the one place that has the streams")]

use std::io::{self, ErrorKind, IsTerminal, Write};

use headroom_core::printable;

/// Colours that the program itself and its logs use; any other escape sequence is shown as text.
const OUR_COLOURS: [&str; 10] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[3m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[34m",
    "\u{1b}[35m",
    "\u{1b}[36m",
];

/// The text with control characters escaped; line breaks stay.
#[must_use]
pub fn plain(text: &str) -> String {
    printable::lines(text).into_owned()
}

/// The same, and the program's own colours stay. Text from outside has to be made [`printable::line`] before it is coloured.
#[must_use]
pub fn coloured(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, after) = rest.split_at(at);
        shown.push_str(&printable::lines(before));
        let colour = OUR_COLOURS.iter().find(|colour| after.starts_with(**colour));
        let length = colour.map_or(1, |colour| colour.len());
        match colour {
            Some(colour) => shown.push_str(colour),
            None => shown.push_str(&printable::lines("\u{1b}")),
        }
        rest = after.split_at(length).1;
    }
    shown.push_str(&printable::lines(rest));
    shown
}

/// Writes text to standard output. A reader that has closed it, as `… | head` does, is not a failure.
///
/// # Errors
/// If standard output cannot be written.
pub fn print(text: &str) -> io::Result<()> {
    write(&mut io::stdout().lock(), &plain(text))
}

/// The same for text with our own colours.
///
/// # Errors
/// As [`print()`].
pub fn print_coloured(text: &str) -> io::Result<()> {
    write(&mut io::stdout().lock(), &coloured(text))
}

/// Writes what the program itself has generated, such as definitions and completion scripts, without a change.
///
/// # Errors
/// As [`print()`].
pub fn print_generated(text: &[u8]) -> io::Result<()> {
    match io::stdout().lock().write_all(text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes a line to standard error.
pub fn complain(line: &str) {
    // Nobody is left to hear that standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{}", plain(line));
}

/// True if a person reads standard output.
#[must_use]
pub fn is_read_by_a_person() -> bool {
    io::stdout().is_terminal()
}

/// True if a person reads standard error.
#[must_use]
pub fn complaints_are_read_by_a_person() -> bool {
    io::stderr().is_terminal()
}

/// Shows a line on standard error in place of the one that was shown so before.
pub fn show_progress(line: &str) {
    let _ = write(&mut io::stderr().lock(), &progress(line));
}

/// Takes that line away.
pub fn clear_progress() {
    show_progress("");
}

/// Back to the beginning of the line, which is emptied, and the text.
fn progress(line: &str) -> String {
    format!("\r\u{1b}[K{}", printable::line(line))
}

/// Standard error for logs, which come one entry at a time.
#[derive(Clone, Copy, Debug)]
pub struct Log(fn(&str) -> String);

impl Log {
    /// For logs as text, coloured or not.
    #[must_use]
    pub fn text() -> Self {
        Self(coloured)
    }

    /// For logs as JSON.
    #[must_use]
    pub fn json() -> Self {
        Self(|entry| printable::json_text(entry).into_owned())
    }
}

impl Write for Log {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let text = (self.0)(&String::from_utf8_lossy(entry));
        io::stderr().lock().write_all(text.as_bytes())?;
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

fn write(out: &mut impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_colours_stay_and_no_other_sequence() {
        let text = "\u{1b}[1mTITLE\u{1b}[0m\n\u{1b}[8mhidden \u{1b}]0;title\u{7}\u{1b}[2J \u{1b}";
        let shown = coloured(text);
        assert_eq!(
            shown,
            "\u{1b}[1mTITLE\u{1b}[0m\n\\u{1b}[8mhidden \\u{1b}]0;title\\u{7}\\u{1b}[2J \\u{1b}"
        );
        assert!(!plain(text).contains('\u{1b}'));
    }

    #[test]
    fn progress_is_one_line_that_nothing_from_outside_breaks() {
        assert_eq!(progress("a\u{1b}[2J\nb\u{9b}2J"), "\r\u{1b}[Ka\\u{1b}[2J\\nb\\u{9b}2J");
    }

    #[test]
    fn logs_keep_their_form_and_no_sequence_of_others() {
        let entry = "\u{1b}[2m09:00\u{1b}[0m \u{1b}[34mDEBUG\u{1b}[0m a\u{1b}[2J\u{7f}\n";
        let shown = "\u{1b}[2m09:00\u{1b}[0m \u{1b}[34mDEBUG\u{1b}[0m a\\u{1b}[2J\\u{7f}\n";
        assert_eq!(Log::text().0(entry), shown);
        assert_eq!(Log::json().0("{\"message\":\"a\u{7f}\"}\n"), "{\"message\":\"a\\u007f\"}\n");
    }
}
