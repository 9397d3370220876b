//! Common Expression Language as Kubernetes compiles and runs it: lexer, parser, type check, evaluator. It knows no device.
//!
//! Of the libraries that Kubernetes 1.34 and later offer, messages and authorization are left out: an expression that uses
//! them fails to compile with [`CompileError::Unsupported`]. Costs are counted in steps and in characters, close to
//! upstream's cost units; the limit is the one of a selector of a device.

mod check;
mod check_macros;
mod declarations;
mod eval;
mod formula;
mod functions;
mod lexer;
mod macros;
mod net;
mod parser;
mod syntax;
#[cfg(test)]
mod tests;
mod times;
mod types;
mod value;
mod version;

pub use types::Type;
pub use value::{Map, Value};
pub use version::{Version, VersionError};

use std::collections::BTreeMap;
use std::sync::Arc;

/// Most cost units that one evaluation may use.
///
/// Source: api/resource/v1 types.go, CELSelectorExpressionMaxCost.
pub const MAX_COST: u64 = 1_000_000;

/// Deepest nesting of parentheses, lists and arguments. Upstream's is 250, which would need a large stack here.
const MAX_NESTING: usize = 100;

/// Most operators of one rank, or members, in a row.
const MAX_ROW: usize = 250;

/// Deepest tree of an expression, which rows deepen too.
const MAX_DEPTH: usize = 300;

/// Longest expression, in bytes; the API server stores none that is longer.
///
/// Source: api/resource/v1 types.go, CELSelectorExpressionMaxLength.
const MAX_LENGTH: usize = 10 * 1024;

/// Reason why an expression does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The text is not an expression.
    #[error("syntax error at column {column}: {text}")]
    Syntax {
        /// Column, counted from 1.
        column: usize,
        /// Description of the error.
        text: String,
    },
    /// The expression does not fit the types of its variables and functions.
    #[error("{0}")]
    Check(String),
    /// Kubernetes knows the function and this program does not.
    #[error("function {0} is not supported by Headroom")]
    Unsupported(String),
}

/// Reason why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuntimeError(pub String);

/// End of the messages about a value that is not known yet.
const UNKNOWN: &str = "is not known yet";

impl RuntimeError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A value is asked for that is not known yet.
    fn unknown(name: &str) -> Self {
        Self(format!("{name} {UNKNOWN}"))
    }

    /// True if the expression depends on a value that is not known yet, see [`Value::Unknown`].
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.0.ends_with(UNKNOWN)
    }

    fn overload() -> Self {
        Self::new("no such overload")
    }
}

fn parsed(text: &str) -> Result<syntax::Expr, CompileError> {
    if text.len() > MAX_LENGTH {
        return Err(CompileError::Syntax {
            column: MAX_LENGTH,
            text: format!("longer than {MAX_LENGTH} bytes"),
        });
    }
    parser::parse(text)
}

/// An expression that compiled.
#[derive(Clone, Debug)]
pub struct Program {
    root: syntax::Expr,
    output: Type,
    /// Patterns that are written out in the expression.
    patterns: BTreeMap<Arc<str>, regex::Regex>,
}

impl Program {
    /// Compiles an expression over these variables.
    ///
    /// # Errors
    /// If it is not an expression, or its types do not fit.
    pub fn compile(text: &str, variables: &[(&str, Type)]) -> Result<Self, CompileError> {
        Self::checked(parsed(text)?, variables)
    }

    /// Compiles a formula over these numbers. Numbers in its text are doubles as they are, and `max`, `min` and `sum` take
    /// several arguments as well as a list.
    ///
    /// # Errors
    /// If it is no expression of numbers, or its value is none.
    pub fn compile_formula(text: &str, variables: &[&str]) -> Result<Self, CompileError> {
        let root = formula::in_doubles(parsed(text)?)?;
        let variables: Vec<(&str, Type)> = variables.iter().map(|name| (*name, Type::Double)).collect();
        let program = Self::checked(root, &variables)?;
        match &program.output {
            Type::Double => Ok(program),
            other => Err(CompileError::Check(format!("its value is of type {other}, and not a number"))),
        }
    }

    fn checked(mut root: syntax::Expr, variables: &[(&str, Type)]) -> Result<Self, CompileError> {
        let checked = check::check(&mut root, variables)?;
        Ok(Self { root, output: checked.output, patterns: checked.patterns })
    }

    /// The type of its value, as far as it is known beforehand.
    #[must_use]
    pub fn output(&self) -> &Type {
        &self.output
    }

    /// Evaluates the expression with these variables.
    ///
    /// # Errors
    /// If an operation fails, or the evaluation costs more than [`MAX_COST`].
    pub fn evaluate(&self, variables: &[(&str, Value)]) -> Result<Value, RuntimeError> {
        let mut run = eval::Run::new(variables, &self.patterns);
        run.value(&self.root)
    }
}
