//! The grammar: tokens become a tree.

use std::sync::Arc;

use super::lexer::{Token, TokenKind, tokens};
use super::syntax::{Entry, Expr};
use super::value::Value;
use super::{CompileError, MAX_NESTING, MAX_ROW, macros};

const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

/// The tree of a text.
pub(super) fn parse(text: &str) -> Result<Expr, CompileError> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    let root = parser.expression()?;
    if !matches!(parser.peek(), TokenKind::End) {
        return Err(parser.error("unexpected text after the expression"));
    }
    Ok(root)
}

pub(super) fn call(function: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Call { function: function.into(), target: None, arguments }
}

impl Parser {
    fn peek(&self) -> &TokenKind {
        // The last token is End, which is never passed.
        &self.tokens[self.at].kind
    }

    fn advance(&mut self) -> TokenKind {
        let kind = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        kind
    }

    pub(super) fn error(&self, text: impl Into<String>) -> CompileError {
        CompileError::Syntax { column: self.tokens[self.at].column, text: text.into() }
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), TokenKind::Symbol(found) if *found == symbol)
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), CompileError> {
        if self.accept(symbol) { Ok(()) } else { Err(self.error(format!("expected {symbol:?}"))) }
    }

    fn expression(&mut self) -> Result<Expr, CompileError> {
        if self.depth == MAX_NESTING {
            return Err(self.error(format!("nested deeper than {MAX_NESTING}")));
        }
        self.depth += 1;
        let found = self.conditional();
        self.depth -= 1;
        found
    }

    fn conditional(&mut self) -> Result<Expr, CompileError> {
        let condition = self.operators(0)?;
        if !self.accept("?") {
            return Ok(condition);
        }
        let yes = self.operators(0)?;
        self.expect(":")?;
        let no = self.expression()?;
        Ok(call("_?_:_", vec![condition, yes, no]))
    }

    /// Binary operators by how loosely they bind.
    fn operators(&mut self, level: usize) -> Result<Expr, CompileError> {
        const LEVELS: [&[&str]; 5] =
            [&["||"], &["&&"], &["==", "!=", "<=", ">=", "<", ">", "in"], &["+", "-"], &["*", "/", "%"]];
        let Some(symbols) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.operators(level + 1)?;
        let mut length = 0;
        loop {
            let symbol = match self.peek() {
                TokenKind::Symbol(symbol) if symbols.contains(symbol) => symbol,
                TokenKind::Name(name) if **name == *"in" && symbols.contains(&"in") => "@in",
                _ => return Ok(left),
            };
            // A chain makes a tree as deep as it is long.
            length += 1;
            if length > MAX_ROW {
                return Err(self.error(format!("more than {MAX_ROW} operators in a row")));
            }
            self.advance();
            let right = self.operators(level + 1)?;
            let function = if symbol == "@in" { "@in".to_owned() } else { format!("_{symbol}_") };
            left = call(&function, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Result<Expr, CompileError> {
        for symbol in ["!", "-"] {
            if !self.is(symbol) {
                continue;
            }
            let mut count = 0_usize;
            while self.accept(symbol) {
                count += 1;
            }
            if symbol == "-"
                && let Some(literal) = self.negative(count)
            {
                return self.members(literal);
            }
            let operand = self.member()?;
            let function = if symbol == "!" { "!_" } else { "-_" };
            return Ok(if count % 2 == 1 { call(function, vec![operand]) } else { operand });
        }
        self.member()
    }

    /// A number with its sign, for which the smallest integer has no positive counterpart.
    fn negative(&mut self, count: usize) -> Option<Expr> {
        let negated = |value: i64| if count % 2 == 1 { value.checked_neg() } else { Some(value) };
        let value = match self.peek() {
            TokenKind::Int(number) if *number == 1 << 63 && count == 1 => Value::Int(i64::MIN),
            TokenKind::Int(number) => Value::Int(negated(i64::try_from(*number).ok()?)?),
            TokenKind::Double(number) => Value::Double(if count % 2 == 1 { -number } else { *number }),
            _ => return None,
        };
        self.advance();
        Some(Expr::Literal(value))
    }

    fn member(&mut self) -> Result<Expr, CompileError> {
        let primary = self.primary()?;
        self.members(primary)
    }

    fn members(&mut self, mut operand: Expr) -> Result<Expr, CompileError> {
        let mut length = 0;
        loop {
            length += 1;
            if length > MAX_ROW {
                return Err(self.error(format!("more than {MAX_ROW} members in a row")));
            }
            if self.accept(".") {
                let optional = self.accept("?");
                let field = self.field()?;
                if !optional && self.accept("(") {
                    let arguments = self.arguments()?;
                    operand = macros::member(self, operand, &field, arguments)?;
                } else {
                    operand = Expr::Select { operand: Box::new(operand), field, optional };
                }
            } else if self.accept("[") {
                let function = if self.accept("?") { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.expect("]")?;
                operand = call(function, vec![operand, index]);
            } else if self.is("{") && matches!(operand, Expr::Name(_) | Expr::Select { .. }) {
                return Err(CompileError::Unsupported("message construction".into()));
            } else {
                return Ok(operand);
            }
        }
    }

    fn field(&mut self) -> Result<Arc<str>, CompileError> {
        match self.peek().clone() {
            TokenKind::Name(name) if !matches!(&*name, "in" | "true" | "false" | "null") => {
                self.advance();
                Ok(name)
            }
            // A method cannot be quoted.
            TokenKind::Quoted(name) => {
                self.advance();
                if self.is("(") { Err(self.error("a method in backquotes")) } else { Ok(name) }
            }
            _ => Err(self.error("expected a field name")),
        }
    }

    /// The rest of a list of arguments, behind its opening.
    fn arguments(&mut self) -> Result<Vec<Expr>, CompileError> {
        let mut arguments = Vec::new();
        if self.accept(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if self.accept(")") {
                return Ok(arguments);
            }
            self.expect(",")?;
        }
    }

    fn primary(&mut self) -> Result<Expr, CompileError> {
        if self.accept("(") {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.accept("[") {
            return self.list();
        }
        if self.accept("{") {
            return self.map();
        }
        // A name with a leading point is looked up in the same, only, container.
        let rooted = self.accept(".");
        let value = match self.peek().clone() {
            TokenKind::Name(name) => return self.name(&name),
            _ if rooted => return Err(self.error("expected a name")),
            TokenKind::Int(number) => match i64::try_from(number) {
                Ok(number) => Value::Int(number),
                Err(_) => return Err(self.error("integer too large")),
            },
            TokenKind::Uint(number) => Value::Uint(number),
            TokenKind::Double(number) => Value::Double(number),
            TokenKind::String(text) => Value::String(text),
            TokenKind::Bytes(bytes) => Value::Bytes(bytes),
            _ => return Err(self.error("expected an expression")),
        };
        self.advance();
        Ok(Expr::Literal(value))
    }

    fn name(&mut self, name: &Arc<str>) -> Result<Expr, CompileError> {
        let literal = match &**name {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            "null" => Some(Value::Null),
            "in" => return Err(self.error("expected an expression")),
            name if RESERVED.contains(&name) => return Err(self.error(format!("{name} is a reserved word"))),
            _ => None,
        };
        self.advance();
        if let Some(value) = literal {
            return Ok(Expr::Literal(value));
        }
        if self.accept("(") {
            let arguments = self.arguments()?;
            return macros::global(self, name, arguments);
        }
        Ok(Expr::Name(name.clone()))
    }

    fn list(&mut self) -> Result<Expr, CompileError> {
        let mut entries = Vec::new();
        while !self.accept("]") {
            let optional = self.accept("?");
            entries.push(Entry { value: self.expression()?, optional });
            if !self.accept(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(Expr::List(entries))
    }

    fn map(&mut self) -> Result<Expr, CompileError> {
        let mut entries = Vec::new();
        while !self.accept("}") {
            let optional = self.accept("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, Entry { value: self.expression()?, optional }));
            if !self.accept(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Expr::Map(entries))
    }
}
