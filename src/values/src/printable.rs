//! Text that a terminal shows as it is: control characters and marks of writing direction are written as escapes.

use std::borrow::Cow;
use std::fmt::Write as _;

/// True for characters that move the cursor, start an escape sequence, or change the order in which text is shown: C0, DEL,
/// C1, line separators and the marks of the bidirectional algorithm.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    let bidirectional = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || bidirectional || matches!(character, '\u{2028}' | '\u{2029}')
}

/// Text in which only line breaks are left of the characters that [`is_hidden`] names: for text in which the program has set
/// the line breaks.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character != '\n' && is_hidden(character))
}

/// One line without any of the characters that [`is_hidden`] names: for text that comes from outside.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// JSON whose strings hold none of the characters that [`is_hidden`] names, escaped or not, once it is read: they are
/// replaced by what [`line()`] writes for them. `None` where there is nothing to replace.
#[must_use]
pub fn json(text: &str) -> Option<String> {
    let mut scan = JsonScan::default();
    scan.take(text.as_bytes());
    if !scan.found {
        return None;
    }
    let mut clean = String::with_capacity(text.len() + 64);
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => escape_of_json(&mut rest, &mut clean),
            // Line breaks and tabs between values; in strings they are always escaped.
            '\n' | '\t' | '\r' => clean.push(character),
            hidden if is_hidden(hidden) => {
                clean.push('\\');
                write_escape(hidden, &mut clean);
            }
            other => clean.push(other),
        }
    }
    Some(clean)
}

/// JSON of the same meaning whose text holds none of the characters that [`is_hidden`] names, but for line breaks between
/// values: writers of JSON leave DEL, C1 and marks of direction as they are.
#[must_use]
pub fn json_text(text: &str) -> Cow<'_, str> {
    if text.chars().all(|character| character == '\n' || !is_hidden(character)) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\n' => written.push('\n'),
            hidden if is_hidden(hidden) => {
                let _ = write!(written, "\\u{:04x}", u32::from(hidden));
            }
            other => written.push(other),
        }
    }
    Cow::Owned(written)
}

/// Looks for hidden characters in JSON that comes in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonScan {
    /// True once there was one.
    pub found: bool,
    before: [u8; 2],
    escape: bool,
}

impl JsonScan {
    /// Takes the next piece.
    pub fn take(&mut self, piece: &[u8]) {
        for byte in piece.iter().copied() {
            if self.escape {
                self.found |= !matches!(byte, b'"' | b'\\' | b'/');
                self.escape = false;
                self.before = [0; 2];
                continue;
            }
            self.escape = byte == b'\\';
            self.found |= match (self.before, byte) {
                (_, 0x7f)
                | ([_, 0xc2], 0x80..=0x9f)
                | ([_, 0xd8], 0x9c)
                | ([0xe2, 0x80], 0x8e | 0x8f | 0xa8..=0xae)
                | ([0xe2, 0x81], 0xa6..=0xa9) => true,
                (_, low) => low < 0x20 && !matches!(low, b'\n' | b'\t' | b'\r'),
            };
            self.before = [self.before[1], byte];
        }
    }
}

/// The rest of an escape of a JSON string: kept where it stands for a character that is shown.
fn escape_of_json(rest: &mut std::str::Chars<'_>, clean: &mut String) {
    let kept = |clean: &mut String, character: char| {
        clean.push('\\');
        clean.push(character);
    };
    match rest.next() {
        Some('u') => {
            let digits: String = rest.clone().take(4).collect();
            let code = u32::from_str_radix(&digits, 16).ok();
            match code.and_then(char::from_u32).filter(|character| is_hidden(*character)) {
                Some(hidden) => {
                    clean.push('\\');
                    write_escape(hidden, clean);
                    // `nth` takes the four digits that were read.
                    let _ = rest.nth(3);
                }
                // Halves of a pair too, which are never hidden characters.
                None => kept(clean, 'u'),
            }
        }
        Some(control @ ('n' | 'r' | 't' | 'b' | 'f')) => {
            clean.push('\\');
            let hidden = match control {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'b' => '\u{8}',
                _ => '\u{c}',
            };
            write_escape(hidden, clean);
        }
        Some(other) => kept(clean, other),
        None => clean.push('\\'),
    }
}

fn escaped(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&hidden) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if hidden(character) { write_escape(character, &mut written) } else { written.push(character) }
    }
    Cow::Owned(written)
}

fn write_escape(character: char, text: &mut String) {
    match character {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        other => {
            let _ = write!(text, "\\u{{{:x}}}", u32::from(other));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_characters_are_shown_as_escapes() {
        assert_eq!(line("a\u{1b}[2Jb\nc\td"), "a\\u{1b}[2Jb\\nc\\td");
        assert_eq!(lines("a\u{9b}2J\nb\u{202e}c\u{7f}"), "a\\u{9b}2J\nb\\u{202e}c\\u{7f}");
        assert!(matches!(line("web → 3 …"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_without_hidden_characters_is_left_alone() {
        assert_eq!(json(r#"{"a": "say \"yes\" \\ → …", "b": 1}"#), None);
        assert_eq!(json_text("{\n  \"a\": 1\n}"), "{\n  \"a\": 1\n}");
    }

    fn text() -> impl Strategy<Value = String> {
        let nasty = prop::sample::select(vec![
            '\n', '\r', '\t', '\u{8}', '\u{c}', '\u{1b}', '\u{0}', '\u{7f}', '\u{85}', '\u{9b}', '\u{61c}',
            '\u{200e}', '\u{2028}', '\u{202e}', '\u{2066}', '\\', '"', 'u', '😀', '…', 'é',
        ]);
        prop::collection::vec(prop_oneof![nasty, any::<char>()], 0..24).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn strings_of_cleaned_json_are_the_cleaned_strings(text in text()) {
            let raw = serde_json::to_string(&vec![&text]).expect("a string is JSON");
            let clean = json(&raw).unwrap_or(raw);
            let read: Vec<String> = serde_json::from_str(&clean).expect("it is still JSON");
            prop_assert_eq!(&read[0], &*line(&text));
            prop_assert!(!read[0].contains(is_hidden));
        }

        #[test]
        fn shown_json_means_the_same(text in text()) {
            let raw = serde_json::to_string_pretty(&vec![&text]).expect("a string is JSON");
            let shown = json_text(&raw);
            prop_assert!(!shown.contains(|one: char| one != '\n' && is_hidden(one)));
            let read: Vec<String> = serde_json::from_str(&shown).expect("it is still JSON");
            prop_assert_eq!(&read[0], &text);
        }

        #[test]
        fn only_line_breaks_are_left(text in text()) {
            prop_assert!(!line(&text).contains(is_hidden));
            prop_assert!(!lines(&text).contains(|one: char| one != '\n' && is_hidden(one)));
        }
    }
}
