//! The tree of an expression, macros already expanded.

use std::sync::Arc;

use super::value::Value;

/// A part of an expression.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    /// A constant.
    Literal(Value),
    /// A variable or the name of a type.
    Name(Arc<str>),
    /// `operand.field`, or `operand.?field`.
    Select { operand: Box<Expr>, field: Arc<str>, optional: bool },
    /// `has(operand.field)`.
    Has { operand: Box<Expr>, field: Arc<str> },
    /// An operator, a function, or a function of a target.
    Call { function: Arc<str>, target: Option<Box<Expr>>, arguments: Vec<Expr> },
    /// `[a, ?b]`.
    List(Vec<Entry>),
    /// `{a: b, ?c: d}`.
    Map(Vec<(Expr, Entry)>),
    /// A macro that goes through a list or the keys of a map.
    Each(Box<Each>),
    /// `cel.bind(name, value, body)`.
    Bind { name: Arc<str>, value: Box<Expr>, body: Box<Expr> },
    /// `target.optMap(name, body)`, or optFlatMap.
    IfPresent { target: Box<Expr>, name: Arc<str>, body: Box<Expr>, flat: bool },
}

/// An element of a list or a map.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its value.
    pub(super) value: Expr,
    /// True if it is left out when absent.
    pub(super) optional: bool,
}

/// A macro over a range.
#[derive(Clone, Debug)]
pub(super) struct Each {
    pub(super) kind: EachKind,
    pub(super) range: Expr,
    /// The element of a list, the key of a map; with two names index and element, key and value.
    pub(super) names: (Arc<str>, Option<Arc<str>>),
    /// Condition for an element to count, where the macro has it apart from the body.
    pub(super) filter: Option<Expr>,
    pub(super) body: Expr,
}

/// Result that a macro makes of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EachKind {
    All,
    Exists,
    ExistsOne,
    /// `map` and `transformList`.
    ToList,
    Filter,
    ToMap,
    ToMapEntries,
    SortBy,
}
