//! One number out of several metrics: the formula of a policy, its variables, and the proposal that comes of it.

use std::sync::Arc;

use headroom_cel::{Program, Value};
use serde::{Deserialize, Serialize};

use crate::amount::Amount;
use crate::conditions;
use crate::decision::MetricStep;
use crate::input::{Answer, Unknown};
use crate::metric::{self, Evaluated, Failure};
use crate::replica_calculator::Surroundings;
use crate::spec::{MetricSpec, MetricTarget};
use crate::status::MetricStatus;
use headroom_values::quantity::Quantity;

/// A formula over the metrics of a spec that have a name. Those propose nothing themselves: the formula's value is compared
/// with the target in their place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Formula {
    /// Text of the expression.
    pub expression: String,
    /// Names of the metrics, in the order of the spec; `None` for one that proposes for itself.
    pub variables: Vec<Option<Variable>>,
    /// `value`, or `averageValue` over the replicas.
    pub target: MetricTarget,
}

/// A metric as a variable of a formula.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Variable {
    /// Its name.
    pub name: Arc<str>,
    /// Number in its place while it is missing; without it the formula then has no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<Amount>,
}

/// Checks an expression and the types in it, with these variables.
///
/// # Errors
/// Description of the error, for an expression that cannot be read, whose value is no number, or that leaves a variable out.
pub fn check(expression: &str, variables: &[&str]) -> Result<(), String> {
    Program::compile_formula(expression, variables).map_err(|error| error.to_string())?;
    for (index, name) in variables.iter().enumerate() {
        let mut others = variables.to_vec();
        others.remove(index);
        if Program::compile_formula(expression, &others).is_ok() {
            return Err(format!("it does not use metric {name}"));
        }
    }
    Ok(())
}

impl Formula {
    /// The variable that the metric at this place is, if it is one.
    pub(crate) fn variable(&self, index: usize) -> Option<&Variable> {
        self.variables.get(index)?.as_ref()
    }

    /// The same formula with `m0`, `m1` and so on as names, and without comments.
    #[must_use]
    pub fn renamed(&self) -> Self {
        let mut renamed = self.clone();
        let mut names: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for (index, variable) in renamed.variables.iter_mut().enumerate() {
            let Some(variable) = variable else { continue };
            let name: Arc<str> = format!("m{index}").into();
            names.push((std::mem::replace(&mut variable.name, name.clone()), name));
        }
        renamed.expression = String::new();
        for line in self.expression.lines() {
            for word in words(line.split("//").next().unwrap_or_default()) {
                let new = names.iter().find(|(old, _)| **old == *word).map_or(word, |(_, new)| new);
                renamed.expression += new;
            }
            renamed.expression.push('\n');
        }
        renamed.expression.truncate(renamed.expression.trim_end().len());
        renamed
    }
}

/// The text in parts, each either a name or no part of one.
fn words(text: &str) -> Vec<&str> {
    let of_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let named = of_name(first);
        let end = rest.find(|c| of_name(c) != named).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        words.push(word);
        rest = after;
    }
    words
}

/// A variable with its number, or why it has none.
pub(super) struct Known {
    name: Arc<str>,
    number: Result<f64, Failure>,
}

/// The number of one variable, and its metric for the account: it proposes nothing.
pub(super) fn variable(
    around: &Surroundings<'_>,
    spec: &MetricSpec,
    variable: &Variable,
    answer: &Answer<'_>,
) -> (Known, Evaluated) {
    let found = metric::number(around, spec, answer);
    let missing = found.as_ref().err().map(|failure| failure.unknown.clone());
    let number = match (&variable.instead, found) {
        (Some(instead), Err(_)) => Ok(instead.quantity.to_f64()),
        (_, found) => found,
    };
    let step = MetricStep {
        name: format!("metric {}", variable.name),
        value: number.as_ref().ok().map(|number| text(*number)),
        target: None,
        ratio: None,
        within_tolerance: false,
        kept_in_rollout: false,
        proposal: None,
        unknown: missing,
        active: None,
    };
    let evaluated = Evaluated { status: MetricStatus::default(), step, total: None, failure: None };
    (Known { name: variable.name.clone(), number }, evaluated)
}

/// The proposal of the formula.
pub(super) fn evaluate(around: &Surroundings<'_>, formula: &Formula, known: &[Known]) -> Evaluated {
    let reason = conditions::FAILED_COMPUTE_FORMULA;
    let name = format!("formula {}", formula.expression);
    let total = number(formula, known).map(|number| i128::from(Quantity::from_f64(number.max(0.0)).milli()));
    metric::of_total(around, name, reason, &formula.target, total)
}

/// Value of the formula; finite.
fn number(formula: &Formula, known: &[Known]) -> Result<f64, Failure> {
    let Formula { expression, .. } = formula;
    let mut values: Vec<(&str, Value)> = Vec::with_capacity(known.len());
    for Known { name, number } in known {
        match number {
            Ok(number) => values.push((name, Value::Double(*number))),
            Err(Failure { unknown, message }) => {
                let message = format!("formula {expression} has no value: metric {name}: {message}");
                return Err(Failure { unknown: unknown.clone(), message });
            }
        }
    }
    let absurd = |message: String| Failure { unknown: Unknown::Absurd(message.as_str().into()), message };
    let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    let program = Program::compile_formula(expression, &names);
    let program = program.map_err(|error| absurd(format!("formula {expression} cannot be read: {error}")))?;
    match program.evaluate(&values) {
        Ok(Value::Double(number)) if number.is_finite() => Ok(number),
        Ok(Value::Double(number)) => {
            let of =
                |known: &Known| Some(format!("{} is {}", known.name, text(*known.number.as_ref().ok()?)));
            let of: Vec<String> = known.iter().filter_map(of).collect();
            Err(absurd(format!(
                "formula {expression} is {number}, which is no size: {}; does it divide by 0?",
                of.join(", ")
            )))
        }
        Ok(_) => Err(absurd(format!("formula {expression} gives no number"))),
        Err(error) => Err(absurd(format!("formula {expression} has no value: {error}"))),
    }
}

fn text(number: f64) -> String {
    Amount::from_milli(Quantity::from_f64(number).milli()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expression_uses_every_variable_and_no_other_name() {
        assert_eq!(check("max(a, b) / 2", &["a", "b"]), Ok(()));
        assert_eq!(check("a / 2", &["a", "b"]), Err("it does not use metric b".to_owned()));
        assert!(check("a + c", &["a"]).is_err_and(|error| error.contains("undeclared reference to 'c'")));
        assert!(check("a > 1", &["a"]).is_err_and(|error| error.contains("not a number")));
    }

    #[test]
    fn renamed_formula_has_no_word_of_the_users_and_the_same_value() {
        let variable = |name: &str| Some(Variable { name: name.into(), instead: None });
        let formula = Formula {
            expression: "max(secret, 2) // of acme\n + secret2 * 1e3".into(),
            variables: vec![variable("secret"), None, variable("secret2")],
            target: MetricTarget::default(),
        };
        let renamed = formula.renamed();
        assert_eq!(renamed.expression, "max(m0, 2) \n + m2 * 1e3");
        let known = |formula: &Formula| -> Vec<Known> {
            let names = formula.variables.iter().flatten();
            names
                .zip([5.0, 0.5])
                .map(|(one, number)| Known { name: one.name.clone(), number: Ok(number) })
                .collect()
        };
        for formula in [formula, renamed] {
            assert_eq!(number(&formula, &known(&formula)).ok(), Some(505.0));
        }
    }
}
