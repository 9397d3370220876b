//! The tokens of a PromQL query as Prometheus splits them; comments, control characters and unknown characters are errors.

use super::QueryError;

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A metric, a function, a label or a keyword. Colons may be in it.
    Name,
    /// A number or a length of time, without a sign.
    Number,
    /// A text with its quotes.
    Text,
    /// A bracket, a comma or an operator.
    Symbol,
    /// Nothing more.
    End,
}

/// A part of the query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'q> {
    pub(super) kind: TokenKind,
    /// As it is written.
    pub(super) text: &'q str,
    /// Start, in bytes.
    pub(super) start: usize,
}

impl Token<'_> {
    /// Returns the end, in bytes.
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// True if it is one of these keywords, which are read in any case.
    pub(super) fn is_word(&self, words: &[&str]) -> bool {
        self.kind == TokenKind::Name && words.iter().any(|word| self.text.eq_ignore_ascii_case(word))
    }
}

/// Longer ones first.
const SYMBOLS: [&str; 25] = [
    "=~", "!~", "==", "!=", ">=", "<=", "=", ">", "<", "+", "-", "*", "/", "%", "^", "(", ")", "{", "}", "[",
    "]", ",", "@", ":", ";",
];

/// All tokens of a query in its order, the last of them [`TokenKind::End`].
///
/// # Errors
/// For comments, control characters, anything but ASCII outside of quotes, and what PromQL does not know.
pub(super) fn tokens(query: &str) -> Result<Vec<Token<'_>>, QueryError> {
    if let Some((start, refused)) = query.char_indices().find(|(_, c)| is_refused(*c)) {
        return Err(character(query, start, refused));
    }
    let mut tokens = Vec::new();
    let mut position = 0;
    loop {
        let token = token_at(query, position)?;
        tokens.push(token);
        if token.kind == TokenKind::End {
            return Ok(tokens);
        }
        position = token.end();
    }
}

/// The tokens as they are sent: each as it was written, texts in double quotes, with one space where there were blanks.
pub(super) fn rendered(tokens: &[Token<'_>]) -> String {
    let mut text = String::new();
    let mut end = tokens.first().map_or(0, |token| token.start);
    for token in tokens {
        if end < token.start && token.kind != TokenKind::End {
            text.push(' ');
        }
        match token.kind {
            TokenKind::Text => push_quoted(token.text, &mut text),
            TokenKind::Name | TokenKind::Number | TokenKind::Symbol | TokenKind::End => {
                text.push_str(token.text)
            }
        }
        end = token.end();
    }
    text
}

/// The same text in double quotes, whatever its quotes were: servers differ in how they read a backslash between backquotes,
/// and so in where such a text ends.
fn push_quoted(text: &str, into: &mut String) {
    let mut inner = text.chars();
    let quote = inner.next();
    inner.next_back();
    into.push('"');
    while let Some(c) = inner.next() {
        match (c, quote) {
            ('\\', Some('`')) => into.push_str("\\\\"),
            // An escape of its own quote is of no use any more; all others are the same in both quotes.
            ('\\', Some(quote)) => match inner.next() {
                Some(escaped) if escaped == quote && quote != '"' => into.push(escaped),
                escaped => into.extend(['\\'].into_iter().chain(escaped)),
            },
            ('"', _) => into.push_str("\\\""),
            ('\n', _) => into.push_str("\\n"),
            _ => into.push(c),
        }
    }
    into.push('"');
}

fn token_at(query: &str, position: usize) -> Result<Token<'_>, QueryError> {
    let blanks = query.bytes().skip(position).take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n')).count();
    let start = position + blanks;
    let rest = &query[start..];
    let token = |kind, length: usize| Token { kind, text: &rest[..length], start };
    let Some(first) = rest.chars().next() else { return Ok(token(TokenKind::End, 0)) };
    if first.is_ascii_alphabetic() || first == '_' {
        let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || b"_:".contains(b)).count();
        return Ok(token(TokenKind::Name, length));
    }
    if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
        return Ok(token(TokenKind::Number, number_length(rest.as_bytes())));
    }
    if matches!(first, '"' | '\'' | '`') {
        return match text_length(rest.as_bytes(), rest.as_bytes()[0]) {
            Some(length) => Ok(token(TokenKind::Text, length)),
            None => Err(unknown(query, start, "the closing quote")),
        };
    }
    if first == '#' || !first.is_ascii() {
        return Err(character(query, start, first));
    }
    match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
        Some(symbol) => Ok(token(TokenKind::Symbol, symbol.len())),
        None => Err(unknown(query, start, "PromQL")),
    }
}

/// True for control characters other than tabs and line feeds. Refused also in quotes, where an escape does the same.
fn is_refused(c: char) -> bool {
    c.is_control() && c != '\t' && c != '\n'
}

/// A character that servers may read in another way than it is read here.
fn character(query: &str, start: usize, c: char) -> QueryError {
    let name = match c {
        '#' => "a comment (#)".to_owned(),
        '\r' => "a carriage return (U+000D)".to_owned(),
        '\u{feff}' => "a byte order mark (U+FEFF)".to_owned(),
        _ => {
            let code = u32::from(c);
            match c {
                _ if c.is_control() => format!("a control character (U+{code:04X})"),
                _ if c.is_whitespace() => format!("a space outside of ASCII (U+{code:04X})"),
                _ => format!("a character outside of ASCII (U+{code:04X})"),
            }
        }
    };
    let fix = match c {
        _ if is_refused(c) => "remove it, or write its escape in quotes",
        '#' => "remove it: servers differ in where a comment ends",
        _ => "remove it: outside of quotes a query is ASCII",
    };
    QueryError::Character { at: query[..start].chars().count() + 1, name, fix }
}

fn unknown(query: &str, start: usize, wanted: &'static str) -> QueryError {
    let found = query[start..].chars().take(20).collect::<String>();
    QueryError::Syntax { at: query[..start].chars().count() + 1, wanted, found: format!("{found:?}") }
}

/// Digits, points, letters (hexadecimal digits, exponents, units of time), and the sign of an exponent.
fn number_length(bytes: &[u8]) -> usize {
    let hexadecimal = bytes.len() > 1 && bytes[0] == b'0' && (bytes[1] | 0x20) == b'x';
    let mut length = 0;
    while let Some(byte) = bytes.get(length) {
        let sign_of_exponent = !hexadecimal
            && matches!(byte, b'+' | b'-')
            && length > 0
            && (bytes[length - 1] | 0x20) == b'e'
            && bytes.get(length + 1).is_some_and(u8::is_ascii_digit);
        if !byte.is_ascii_alphanumeric() && !matches!(byte, b'.' | b'_') && !sign_of_exponent {
            break;
        }
        length += 1;
    }
    length
}

/// With both quotes; `None` if it does not end. Only backquoted texts go over lines, and only they know no escapes.
fn text_length(bytes: &[u8], quote: u8) -> Option<usize> {
    let mut index = 1;
    loop {
        match *bytes.get(index)? {
            byte if byte == quote => return Some(index + 1),
            b'\\' if quote != b'`' => index += 2,
            b'\n' if quote != b'`' => return None,
            _ => index += 1,
        }
    }
}
