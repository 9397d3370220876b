//! Possible results of reading a metric, each a variant of its own, so that no failure can become a number.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use headroom_core::pods::input::Unknown;
use headroom_core::pods::moment::Moment;
use headroom_core::quantity::Quantity;
use headroom_core::time::Seconds;

/// A value, or why there is none.
pub type Answer<T> = Result<T, Failure>;

/// Subject and source of a read: it begins the message of every failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The API group (`metrics.k8s.io`), or the Prometheus source by its name.
    pub source: Arc<str>,
    /// Subject, such as `pod metric requests-per-second in namespace prod`.
    pub what: Arc<str>,
}

/// Reason why there is no value. `Display` is fit for the message of a condition or event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to get {} from {}: {why}", .question.what, .question.source)]
pub struct Failure {
    /// Subject and source of the read.
    pub question: Question,
    /// Kind of failure.
    pub why: Why,
}

/// Kind of failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The source works and has no sample for this question.
    #[error("no metrics returned")]
    Empty,
    /// The newest sample is older than may be used, or lies further in the future than clocks may differ.
    #[error("{}", age_in_words(*.age, *.age_max))]
    Stale {
        /// Time at which it was taken.
        at: Moment,
        /// Its age; negative for one from the future.
        age: Seconds,
        /// Limit that it exceeded: the highest accepted age, or on the side of the future the highest clock error.
        age_max: Seconds,
    },
    /// A number came that no decision can be based on.
    #[error("{0}")]
    Absurd(Absurdity),
    /// The source did not answer, or not in its own language.
    #[error("{0}")]
    Outage(Outage),
    /// We may not read it. The fix is a role or a token, so it is not an outage.
    #[error("not permitted: {0}")]
    NotPermitted(String),
    /// No such API group is registered with the API server, or no such Prometheus source is declared. Says the fix.
    #[error("{0}")]
    NotRegistered(String),
    /// The question itself is wrong: a selector that does not convert, a query that cannot be read or confined, an
    /// object of a kind that the cluster does not know. Only an edit helps.
    #[error("{0}")]
    Refused(String),
}

/// Error of a number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Absurdity {
    /// Not a number, for example 0/0 in a query.
    #[error("the value is NaN")]
    NotANumber,
    /// Plus or minus infinity, for example 1/0 in a query.
    #[error("the value is infinite")]
    Infinite,
    /// Its thousandths do not fit 63 bits.
    #[error("the value {0} is out of range")]
    OutOfRange(String),
    /// A load cannot be less than none.
    #[error("the value {0} is negative")]
    Negative(String),
    /// The text is not a quantity at all.
    #[error("the value {0:?} is no quantity")]
    NoQuantity(String),
    /// More values than the one that was asked for. Prometheus is asked for two at most, so there may be more.
    #[error("{0} or more values where exactly one is needed")]
    ManyValues(usize),
}

/// Failure of a source to answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Outage {
    /// No answer within the deadline.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Deadline(Duration),
    /// The answer began, and other answers left it no memory until the deadline.
    #[error("not read within {} s: large answers to other questions took the memory for all of them", .0.as_secs_f64())]
    Crowded(Duration),
    /// The connection failed: refused, reset, TLS, name resolution.
    #[error("failed to connect: {0}")]
    Unreachable(String),
    /// The API is registered, and the server behind it cannot be reached or is not ready.
    #[error("the server behind the API is unavailable: {0}")]
    Unavailable(String),
    /// An error status that no other variant covers, with the server's words.
    #[error("{message} (HTTP {code})")]
    Status {
        /// HTTP status.
        code: u16,
        /// The server's words, cut to a readable length.
        message: String,
    },
    /// A call of another protocol than HTTP failed, in its own words.
    #[error("{0}")]
    Call(String),
    /// Something answered that is not what the API promises.
    #[error("the answer cannot be read: {0}")]
    Garbled(String),
}

impl Failure {
    /// The reason of a condition, and the label of a metric: a closed set of words.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.why {
            Why::Empty => "MetricsEmpty",
            Why::Stale { .. } => "MetricsStale",
            Why::Absurd(_) => "MetricsAbsurd",
            Why::Outage(_) => "MetricsOutage",
            Why::NotPermitted(_) => "MetricsNotPermitted",
            Why::NotRegistered(_) => "MetricsNotRegistered",
            Why::Refused(_) => "MetricsQueryRefused",
        }
    }

    /// The reason for the decision: it need not know more than these four ways of not knowing.
    #[must_use]
    pub fn unknown(&self) -> Unknown {
        match &self.why {
            Why::Empty => Unknown::Empty,
            Why::Stale { at, .. } => Unknown::Stale(*at),
            Why::Absurd(_) => Unknown::Absurd(Arc::from(self.to_string())),
            Why::Outage(_) | Why::NotPermitted(_) | Why::NotRegistered(_) | Why::Refused(_) => {
                Unknown::Failed(Arc::from(self.to_string()))
            }
        }
    }
}

impl Question {
    /// A question for `what` to `source`.
    pub fn new(source: &str, what: impl fmt::Display) -> Self {
        Self { source: Arc::from(source), what: Arc::from(what.to_string()) }
    }

    /// The failure of this question.
    #[must_use]
    pub fn failure(&self, why: Why) -> Failure {
        Failure { question: self.clone(), why }
    }

    /// The failure of a question that only an edit helps.
    pub fn refused(&self, message: impl fmt::Display) -> Failure {
        self.failure(Why::Refused(message.to_string()))
    }
}

/// A quantity as a metrics API writes it.
///
/// # Errors
/// If the text is not a quantity, or its thousandths do not fit 63 bits: core would cut it, and a cut value is not what
/// was measured.
pub(super) fn quantity(text: &str) -> Result<Quantity, Absurdity> {
    let quantity = Quantity::parse(text).map_err(|_| Absurdity::NoQuantity(cut(text, 64)))?;
    if quantity.milli() == i64::MAX || quantity.milli() == -i64::MAX {
        return Err(Absurdity::OutOfRange(cut(text, 64)));
    }
    Ok(quantity)
}

/// A float as Prometheus gives it.
///
/// # Errors
/// If it is NaN, infinite, or its thousandths do not fit 63 bits.
pub(super) fn number(number: f64) -> Result<Quantity, Absurdity> {
    if number.is_nan() {
        return Err(Absurdity::NotANumber);
    }
    if number.is_infinite() {
        return Err(Absurdity::Infinite);
    }
    // Quantities know nothing finer than a billionth, and round up to it.
    let number = if number != 0.0 && number.abs() < 1e-9 { 1e-9_f64.copysign(number) } else { number };
    // The shortest decimal text that reads back as the same float, so that 0.1 is 100 thousandths.
    quantity(&number.to_string()).map_err(|_| Absurdity::OutOfRange(format!("{number:e}")))
}

/// The first `length` characters, so that a server's page of HTML does not fill a status.
pub(super) fn cut(text: &str, length: usize) -> String {
    let text = text.trim();
    let mut short: String = text.chars().take(length).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn age_in_words(age: Seconds, age_max: Seconds) -> String {
    if age.0 < 0 {
        format!("the newest sample lies {} in the future, {age_max} is allowed", Seconds(-age.0))
    } else {
        format!("the newest sample is {age} old, {age_max} is allowed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_that_does_not_fit_is_not_cut() {
        for text in ["10E", "-10E", "9223372036854775807"] {
            assert_eq!(quantity(text), Err(Absurdity::OutOfRange(text.to_owned())), "{text}");
        }
        assert_eq!(quantity("many"), Err(Absurdity::NoQuantity("many".to_owned())));
        assert_eq!(quantity("250m").map(Quantity::milli), Ok(250));
    }

    #[test]
    fn floats_are_taken_by_their_shortest_text() {
        for (float, milli) in
            [(0.1, 100), (-2.5, -2500), (1e-9, 1), (-0.0, 0), (5e-324, 1), (12e9, 12_000_000_000_000)]
        {
            let Ok(quantity) = number(float) else { panic!("{float} is a number") };
            assert_eq!(quantity.milli(), milli, "{float}");
        }
        assert_eq!(number(f64::NAN), Err(Absurdity::NotANumber));
        assert_eq!(number(f64::NEG_INFINITY), Err(Absurdity::Infinite));
        assert_eq!(number(1e300), Err(Absurdity::OutOfRange("1e300".to_owned())));
    }

    #[test]
    fn a_stale_sample_says_its_age_and_the_limit() {
        let message = |age: i64| {
            let why = Why::Stale { at: Moment::default(), age: Seconds(age), age_max: Seconds(90) };
            Question::new("prometheus main", "queue_length").failure(why).to_string()
        };
        assert_eq!(
            message(300),
            "unable to get queue_length from prometheus main: the newest sample is 5m old, 1m30s is allowed"
        );
        assert!(message(-400).ends_with("lies 6m40s in the future, 1m30s is allowed"), "{}", message(-400));
    }
}
