//! Formulas over numbers: expressions in which every number is a double, so that `queue / 2` needs no `2.0`.
//!
//! Beside the operators there are `max`, `min` and `sum`, of several arguments or of a list. Texts, macros, fields and maps
//! have no place among numbers and are refused.

use super::CompileError;
use super::syntax::{Entry, Expr};
use super::value::Value;

/// Functions of lists that a formula may call with the elements as arguments.
const OF_LISTS: [&str; 3] = ["max", "min", "sum"];

/// The expression with doubles for integers, and functions of several arguments as functions of a list.
pub(super) fn in_doubles(expr: Expr) -> Result<Expr, CompileError> {
    match expr {
        #[allow(clippy::cast_precision_loss)]
        Expr::Literal(Value::Int(number)) => Ok(Expr::Literal(Value::Double(number as f64))),
        Expr::Literal(Value::Double(_) | Value::Bool(_)) | Expr::Name(_) => Ok(expr),
        Expr::Call { function, target, arguments } => {
            let mut arguments = all(arguments)?;
            let mut target = target.map(|target| in_doubles(*target).map(Box::new)).transpose()?;
            if target.is_none() && OF_LISTS.contains(&&*function) {
                target = Some(Box::new(list_of(std::mem::take(&mut arguments))));
            }
            Ok(Expr::Call { function, target, arguments })
        }
        Expr::List(entries) => {
            let values = entries.into_iter().map(|entry| entry.value).collect();
            Ok(list_of_values(all(values)?))
        }
        Expr::Literal(_)
        | Expr::Select { .. }
        | Expr::Has { .. }
        | Expr::Map(_)
        | Expr::Each(_)
        | Expr::Bind { .. }
        | Expr::IfPresent { .. } => {
            Err(CompileError::Check("a formula has numbers, operators and functions only".to_owned()))
        }
    }
}

fn all(exprs: Vec<Expr>) -> Result<Vec<Expr>, CompileError> {
    exprs.into_iter().map(in_doubles).collect()
}

/// The arguments as a list; a list that is the only argument is it already.
fn list_of(mut arguments: Vec<Expr>) -> Expr {
    match arguments.as_slice() {
        [Expr::List(_)] => arguments.remove(0),
        _ => list_of_values(arguments),
    }
}

fn list_of_values(values: Vec<Expr>) -> Expr {
    Expr::List(values.into_iter().map(|value| Entry { value, optional: false }).collect())
}
