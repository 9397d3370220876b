//! Macros: calls that are not functions because they bind a name.

use std::sync::Arc;

use super::CompileError;
use super::parser::{Parser, call};
use super::syntax::{Each, EachKind, Expr};

/// A call without a target.
pub(super) fn global(parser: &Parser, function: &str, arguments: Vec<Expr>) -> Result<Expr, CompileError> {
    if function != "has" || arguments.len() != 1 {
        return Ok(call(function, arguments));
    }
    match arguments.into_iter().next() {
        Some(Expr::Select { operand, field, optional: false }) => Ok(Expr::Has { operand, field }),
        _ => Err(parser.error("has() wants a field: has(a.b)")),
    }
}

/// A call on a target.
pub(super) fn member(
    parser: &Parser,
    target: Expr,
    function: &Arc<str>,
    arguments: Vec<Expr>,
) -> Result<Expr, CompileError> {
    let count = arguments.len();
    let bound_to_cel = matches!(&target, Expr::Name(name) if **name == *"cel");
    if &**function == "bind" && count == 3 && bound_to_cel {
        let [name, value, body] = taken(parser, arguments)?;
        let name = variable(parser, name)?;
        return Ok(Expr::Bind { name, value: Box::new(value), body: Box::new(body) });
    }
    if matches!(&**function, "optMap" | "optFlatMap") && count == 2 {
        let [name, body] = taken(parser, arguments)?;
        let name = variable(parser, name)?;
        let flat = &**function == "optFlatMap";
        return Ok(Expr::IfPresent { target: Box::new(target), name, body: Box::new(body), flat });
    }
    let Some((kind, names, filtered)) = each_kind(function, count) else {
        let target = Some(Box::new(target));
        return Ok(Expr::Call { function: function.clone(), target, arguments });
    };
    let mut arguments = arguments.into_iter();
    let mut next = || arguments.next().ok_or_else(|| parser.error("an argument is missing"));
    let first = variable(parser, next()?)?;
    let second = if names == 2 { Some(variable(parser, next()?)?) } else { None };
    if second.as_ref() == Some(&first) {
        return Err(parser.error(format!("{first} names two things")));
    }
    let filter = if filtered { Some(next()?) } else { None };
    let body = next()?;
    Ok(Expr::Each(Box::new(Each { kind, range: target, names: (first, second), filter, body })))
}

/// The macro of a name: its kind, how many names it binds, and whether a condition stands before the body.
fn each_kind(function: &str, count: usize) -> Option<(EachKind, usize, bool)> {
    Some(match (function, count) {
        ("all", 2 | 3) => (EachKind::All, count - 1, false),
        ("exists", 2 | 3) => (EachKind::Exists, count - 1, false),
        ("exists_one", 2) => (EachKind::ExistsOne, 1, false),
        ("exists_one" | "existsOne", 3) => (EachKind::ExistsOne, 2, false),
        ("map", 2) => (EachKind::ToList, 1, false),
        ("map", 3) => (EachKind::ToList, 1, true),
        ("filter", 2) => (EachKind::Filter, 1, false),
        ("sortBy", 2) => (EachKind::SortBy, 1, false),
        ("transformList", 3 | 4) => (EachKind::ToList, 2, count == 4),
        ("transformMap", 3 | 4) => (EachKind::ToMap, 2, count == 4),
        ("transformMapEntry", 3 | 4) => (EachKind::ToMapEntries, 2, count == 4),
        _ => return None,
    })
}

fn taken<const N: usize>(parser: &Parser, arguments: Vec<Expr>) -> Result<[Expr; N], CompileError> {
    arguments.try_into().map_err(|_| parser.error("an argument is missing"))
}

fn variable(parser: &Parser, argument: Expr) -> Result<Arc<str>, CompileError> {
    match argument {
        Expr::Name(name) => Ok(name),
        _ => Err(parser.error("a macro wants a simple name for its variable")),
    }
}
