//! The words of a PromQL query as Prometheus splits them; a character that it does not know is an error.

use super::QueryError;

/// What a token is.
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
    /// Where it begins, in bytes.
    pub(super) start: usize,
}

impl Token<'_> {
    /// Where it ends, in bytes.
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Whether it is one of these keywords, which are read in any case.
    pub(super) fn is_word(&self, words: &[&str]) -> bool {
        self.kind == TokenKind::Name && words.iter().any(|word| self.text.eq_ignore_ascii_case(word))
    }
}

/// Splits a query, one token after the other.
pub(super) struct Lexer<'q> {
    query: &'q str,
    position: usize,
}

/// Longer ones first.
const SYMBOLS: [&str; 25] = [
    "=~", "!~", "==", "!=", ">=", "<=", "=", ">", "<", "+", "-", "*", "/", "%", "^", "(", ")", "{", "}", "[",
    "]", ",", "@", ":", ";",
];

impl<'q> Lexer<'q> {
    pub(super) fn new(query: &'q str) -> Self {
        Self { query, position: 0 }
    }

    /// Where the last token taken has ended.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// The next token, left in place.
    pub(super) fn peek(&self) -> Result<Token<'q>, QueryError> {
        let start = self.skip_blanks();
        let rest = &self.query[start..];
        let token = |kind, length: usize| Token { kind, text: &rest[..length], start };
        let Some(first) = rest.bytes().next() else { return Ok(token(TokenKind::End, 0)) };
        if first.is_ascii_alphabetic() || first == b'_' {
            let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || b"_:".contains(b)).count();
            return Ok(token(TokenKind::Name, length));
        }
        if first.is_ascii_digit() || (first == b'.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            return Ok(token(TokenKind::Number, number_length(rest.as_bytes())));
        }
        if b"\"'`".contains(&first) {
            return match text_length(rest.as_bytes(), first) {
                Some(length) => Ok(token(TokenKind::Text, length)),
                None => Err(self.unknown(start, "the closing quote")),
            };
        }
        match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => Ok(token(TokenKind::Symbol, symbol.len())),
            None => Err(self.unknown(start, "PromQL")),
        }
    }

    /// Takes the next token.
    pub(super) fn next(&mut self) -> Result<Token<'q>, QueryError> {
        let token = self.peek()?;
        self.position = token.end();
        Ok(token)
    }

    fn skip_blanks(&self) -> usize {
        let bytes = self.query.as_bytes();
        let mut position = self.position;
        while let Some(byte) = bytes.get(position) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => position += 1,
                b'#' => position += bytes[position..].iter().take_while(|b| **b != b'\n').count(),
                _ => break,
            }
        }
        position
    }

    fn unknown(&self, start: usize, wanted: &'static str) -> QueryError {
        let found = self.query[start..].chars().take(20).collect::<String>();
        QueryError::Syntax {
            at: self.query[..start].chars().count() + 1,
            wanted,
            found: format!("{found:?}"),
        }
    }
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
