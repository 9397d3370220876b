//! The conformance suite of providers: one set of checks on the trait that core's operator calls, run by each provider's tests on
//! their model of its cloud.

pub mod checks;
pub mod subject;
pub mod table;

pub use subject::{Fault, Subject};

use futures::future::LocalBoxFuture;

/// Result of one check; the text of a failure or of the reason why it does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider keeps the rule.
    Pass,
    /// The cloud cannot get into this state.
    NotApplicable(&'static str),
    /// The rule is broken.
    Fail(String),
}

impl Outcome {
    /// The cell of the table.
    #[must_use]
    pub fn cell(&self) -> &str {
        match self {
            Self::Pass => "pass",
            Self::NotApplicable(_) => "not applicable",
            Self::Fail(_) => "FAIL",
        }
    }
}

/// A check by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The rule, as the table names it.
    pub rule: &'static str,
    /// Outcome of the case.
    pub outcome: Outcome,
}

/// Runs all checks, each on a subject of its own. `make` brings one whose group has so many running instances, a minimum of 0
/// and a maximum of [`subject::MAX`].
pub async fn run<S, F>(make: F) -> Vec<Row>
where
    S: Subject,
    F: AsyncFn(u32) -> S,
{
    let mut rows = Vec::new();
    for check in checks::all::<S>() {
        let subject = make(check.instances).await;
        let outcome = match (check.body)(subject).await {
            Ok(()) => Outcome::Pass,
            Err(checks::Stop::NotApplicable(reason)) => Outcome::NotApplicable(reason),
            Err(checks::Stop::Broken(words)) => Outcome::Fail(words),
        };
        rows.push(Row { rule: check.rule, outcome });
    }
    rows
}

/// The body of a check.
type Body<S> = fn(S) -> LocalBoxFuture<'static, Result<(), checks::Stop>>;
