//! Interface of the operator's guard that each call to a cloud passes. It decides nothing here.

use std::time::Duration;

use futures::future::BoxFuture;

/// The only entry point of a cloud's writes.
pub trait Gate: Send + Sync {
    /// Lets one write through if this replica may act, and waits for its end no longer than that holds.
    ///
    /// # Errors
    /// [`Closed`] when nothing was sent, or the end was not seen.
    fn pass<'a>(&'a self, operation: String, call: BoxFuture<'a, End>) -> BoxFuture<'a, Result<(), Closed>>;

    /// Called after each read with its name and how it ended.
    fn read(&self, operation: &str, result: &str);

    /// Called after each call, reads and writes: its action as IAM spells it, how it ended in a word of a closed
    /// set, and how long it took.
    fn ended(&self, action: &'static str, outcome: &'static str, took: Duration) {
        let _ = (action, outcome, took);
    }
}

/// Outcome of a write, in a word for logs and metrics: a code, or `200`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End(pub String);

/// Reason why a write did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// Nothing was sent.
    #[error("{0}")]
    NotSent(String),
    /// It was sent, and its effect is unknown.
    #[error("{0}")]
    EndUnknown(String),
}
