//! The calls that the provider makes, and how they end. It decides nothing.

use std::time::Duration;

use futures::future::BoxFuture;

use super::wire::{Instance, Node, NodeGroup, Options, Template};

/// The end of one call.
pub type Answer<T> = Result<T, CallError>;

/// One function an RPC. Each ends within `deadline`, which the server is sent too.
pub trait Calls: Send + Sync {
    /// Has the server read its cloud anew: sizes and instances stand still without it.
    fn refresh(&self, deadline: Duration) -> BoxFuture<'_, Answer<()>>;
    /// All groups.
    fn node_groups(&self, deadline: Duration) -> BoxFuture<'_, Answer<Vec<NodeGroup>>>;
    /// The id of a node's group; `None` if it belongs to none.
    fn group_of<'a>(&'a self, node: &'a Node, deadline: Duration) -> BoxFuture<'a, Answer<Option<String>>>;
    /// Instances wanted.
    fn target_size<'a>(&'a self, group: &'a str, deadline: Duration) -> BoxFuture<'a, Answer<i32>>;
    /// Instances.
    fn instances<'a>(&'a self, group: &'a str, deadline: Duration) -> BoxFuture<'a, Answer<Vec<Instance>>>;
    /// The template of a new node.
    fn template<'a>(&'a self, group: &'a str, deadline: Duration) -> BoxFuture<'a, Answer<Template>>;
    /// Scale-down settings; `None` if the answer has none.
    fn options<'a>(
        &'a self,
        group: &'a str,
        defaults: &'a Options,
        deadline: Duration,
    ) -> BoxFuture<'a, Answer<Option<Options>>>;
    /// Raises the size by `delta`.
    fn increase<'a>(&'a self, group: &'a str, delta: i32, deadline: Duration) -> BoxFuture<'a, Answer<()>>;
    /// Changes the size by the negative `delta` without deleting an instance.
    fn decrease<'a>(&'a self, group: &'a str, delta: i32, deadline: Duration) -> BoxFuture<'a, Answer<()>>;
    /// Deletes one node and lowers the size with it.
    fn delete<'a>(&'a self, group: &'a str, node: &'a Node, deadline: Duration) -> BoxFuture<'a, Answer<()>>;
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// Kind of failure.
    pub end: End,
    /// In words.
    pub message: String,
}

/// Kind of a call's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// There was no connection: nothing was sent.
    NotSent,
    /// It was sent, and the server's answer is not known.
    NoAnswer,
    /// The server's handler answered with this status.
    Status(Status),
}

/// Statuses by which the provider acts differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 5.
    NotFound,
    /// 9.
    Precondition,
    /// 7 and 16.
    Denied,
    /// 8.
    Exhausted,
    /// 12.
    Unimplemented,
    /// All others: upstream's servers answer every error with 2.
    Other,
}

impl CallError {
    /// Nothing was sent.
    pub fn not_sent(message: impl Into<String>) -> Self {
        Self { end: End::NotSent, message: message.into() }
    }

    /// The answer is not known.
    pub fn no_answer(message: impl Into<String>) -> Self {
        Self { end: End::NoAnswer, message: message.into() }
    }

    /// True if the server's handler answered with this status.
    #[must_use]
    pub fn is(&self, status: Status) -> bool {
        self.end == End::Status(status)
    }

    /// A word for logs and metrics, of a closed set.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.end {
            End::NotSent => "not-sent",
            End::NoAnswer => "no-answer",
            End::Status(Status::NotFound) => "not-found",
            End::Status(Status::Denied) => "denied",
            End::Status(Status::Precondition) => "precondition",
            End::Status(Status::Exhausted) => "exhausted",
            End::Status(Status::Unimplemented) => "unimplemented",
            End::Status(Status::Other) => "error",
        }
    }
}
