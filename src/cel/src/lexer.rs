//! Tokens of an expression.

use std::sync::Arc;

use super::CompileError;

/// A token and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    /// Column, counted from 1.
    pub(super) column: usize,
}

/// Kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    Name(Arc<str>),
    /// Digits of an integer without a sign, which may be one more than the largest.
    Int(u64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    /// A field in backquotes.
    Quoted(Arc<str>),
    Symbol(&'static str),
    End,
}

const SYMBOLS: [&str; 27] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", "(", ")", "[", "]",
    "{", "}", ".", ",", ";", "=", "|",
];

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

/// All tokens of a text, with [`TokenKind::End`] as the last.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, CompileError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blank();
        let column = lexer.column();
        let kind = lexer.next()?;
        let end = kind == TokenKind::End;
        tokens.push(Token { kind, column });
        if end {
            return Ok(tokens);
        }
    }
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn column(&self) -> usize {
        self.text[..self.at].chars().count() + 1
    }

    fn error(&self, text: impl Into<String>) -> CompileError {
        CompileError::Syntax { column: self.column(), text: text.into() }
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &str {
        let start = self.at;
        let length = self.rest().find(|c| !wanted(c)).unwrap_or(self.rest().len());
        self.at += length;
        &self.text[start..self.at]
    }

    fn skip_blank(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}'));
            if !self.rest().starts_with("//") {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn next(&mut self) -> Result<TokenKind, CompileError> {
        let Some(first) = self.peek() else { return Ok(TokenKind::End) };
        if let Some((raw, bytes, length)) = self.quote_ahead() {
            self.at += length;
            return self.quoted(raw, bytes);
        }
        if first == '`' {
            self.at += 1;
            let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
            let name: Arc<str> = self.take_while(letters).into();
            if name.is_empty() || !self.rest().starts_with('`') {
                return Err(self.error("a name in backquotes that does not end"));
            }
            self.at += 1;
            return Ok(TokenKind::Quoted(name));
        }
        if first == '_' || first.is_ascii_alphabetic() {
            let name = self.take_while(|c| c == '_' || c.is_ascii_alphanumeric());
            return Ok(TokenKind::Name(name.into()));
        }
        let point = first == '.' && self.rest().chars().nth(1).is_some_and(|c| c.is_ascii_digit());
        if first.is_ascii_digit() || point {
            return self.number();
        }
        for symbol in SYMBOLS {
            if self.rest().starts_with(symbol) && !matches!(symbol, ";" | "=" | "|") {
                self.at += symbol.len();
                return Ok(TokenKind::Symbol(symbol));
            }
        }
        Err(self.error(format!("unexpected character {first:?}")))
    }

    /// True if a quoted text begins here: raw, of bytes, and the length of its prefix.
    fn quote_ahead(&self) -> Option<(bool, bool, usize)> {
        let mut raw = false;
        let mut bytes = false;
        for (length, c) in self.rest().chars().enumerate().take(3) {
            match c {
                '"' | '\'' => return Some((raw, bytes, length)),
                'r' | 'R' if !raw => raw = true,
                'b' | 'B' if !bytes && !raw => bytes = true,
                _ => return None,
            }
        }
        None
    }

    fn quoted(&mut self, raw: bool, bytes: bool) -> Result<TokenKind, CompileError> {
        let Some(quote) = self.peek() else { return Err(self.error("a text that does not end")) };
        let triple: String = std::iter::repeat_n(quote, 3).collect();
        let end = if self.rest().starts_with(&triple) { triple } else { quote.to_string() };
        self.at += end.len();
        let mut found: Vec<u8> = Vec::new();
        loop {
            if self.rest().starts_with(&end) {
                self.at += end.len();
                break;
            }
            let Some(c) = self.peek() else { return Err(self.error("a text that does not end")) };
            if end.len() == 1 && matches!(c, '\n' | '\r') {
                return Err(self.error("a text that does not end on its line"));
            }
            if c == '\\' && !raw {
                self.at += 1;
                self.escape(bytes, &mut found)?;
            } else {
                self.at += c.len_utf8();
                found.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        if bytes {
            return Ok(TokenKind::Bytes(found.into()));
        }
        let text = String::from_utf8(found).map_err(|_| self.error("a text that is not UTF-8"))?;
        Ok(TokenKind::String(text.into()))
    }

    fn escape(&mut self, bytes: bool, found: &mut Vec<u8>) -> Result<(), CompileError> {
        let Some(c) = self.peek() else { return Err(self.error("an escape without a character")) };
        self.at += c.len_utf8();
        let simple = match c {
            'a' => Some(7),
            'b' => Some(8),
            'f' => Some(12),
            'n' => Some(b'\n'),
            'r' => Some(b'\r'),
            't' => Some(b'\t'),
            'v' => Some(11),
            '\\' | '\'' | '"' | '`' | '?' => u8::try_from(c).ok(),
            _ => None,
        };
        if let Some(byte) = simple {
            found.push(byte);
            return Ok(());
        }
        let (digits, radix) = match c {
            'x' | 'X' => (2, 16),
            'u' if !bytes => (4, 16),
            'U' if !bytes => (8, 16),
            '0'..='3' => {
                self.at -= 1;
                (3, 8)
            }
            _ => return Err(self.error(format!("unknown escape \\{c}"))),
        };
        let number = self.rest().get(..digits).and_then(|text| u32::from_str_radix(text, radix).ok());
        let Some(number) = number else { return Err(self.error("an escape without its digits")) };
        self.at += digits;
        if bytes {
            found.extend(u8::try_from(number));
            return Ok(());
        }
        let Some(c) = char::from_u32(number) else { return Err(self.error("an escape of no character")) };
        found.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn number(&mut self) -> Result<TokenKind, CompileError> {
        if self.rest().starts_with("0x") || self.rest().starts_with("0X") {
            self.at += 2;
            let digits = self.take_while(|c| c.is_ascii_hexdigit()).to_owned();
            return self.integer(u64::from_str_radix(&digits, 16).ok());
        }
        let start = self.at;
        let whole = self.take_while(|c| c.is_ascii_digit()).to_owned();
        let mut double = false;
        let mut digits_follow = self.rest().chars();
        if digits_follow.next() == Some('.') && digits_follow.next().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
            double = true;
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            self.at += 1;
            if matches!(self.peek(), Some('+' | '-')) {
                self.at += 1;
            }
            if self.take_while(|c| c.is_ascii_digit()).is_empty() {
                return Err(self.error("an exponent without digits"));
            }
            double = true;
        }
        if double {
            let number = self.text[start..self.at].parse().ok().filter(|number: &f64| number.is_finite());
            return number.map(TokenKind::Double).ok_or_else(|| self.error("invalid number"));
        }
        self.integer(whole.parse().ok())
    }

    fn integer(&mut self, number: Option<u64>) -> Result<TokenKind, CompileError> {
        let Some(number) = number else { return Err(self.error("invalid integer")) };
        if matches!(self.peek(), Some('u' | 'U')) {
            self.at += 1;
            return Ok(TokenKind::Uint(number));
        }
        if number > 1 << 63 {
            return Err(self.error("integer too large"));
        }
        Ok(TokenKind::Int(number))
    }
}
