//! The seam to the management cluster's API: one HTTP request, and the changes of one kind. It knows no object.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::Value;

/// Verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads.
    Get,
    /// Replaces a whole object, which carries the version that was read.
    Put,
    /// Changes single fields by a JSON merge patch.
    Patch,
    /// Deletes.
    Delete,
}

impl Verb {
    /// The HTTP method.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Verb.
    pub verb: Verb,
    /// Path without a query, from the root.
    pub path: String,
    /// Query, without `?`; empty for none.
    pub query: String,
    /// Body, if any.
    pub body: Option<Value>,
}

impl Request {
    /// A request to read.
    #[must_use]
    pub fn get(path: String) -> Self {
        Self { verb: Verb::Get, path, query: String::new(), body: None }
    }

    /// Verb and path, as the call log and crash points name it.
    #[must_use]
    pub fn operation(&self) -> String {
        format!("{} {}", self.verb.as_str(), self.path)
    }
}

/// An answer of the API server, whatever its status.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body; null if it is not JSON.
    pub body: Value,
}

/// Reason why a request has no answer of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The server refused: the HTTP status and its words.
    Status(u16, String),
    /// Nothing was sent.
    NotSent(String),
    /// It was sent, and there is no answer: its effect is unknown.
    NoAnswer(String),
}

impl Trouble {
    /// Description for a person.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Status(_, words) | Self::NotSent(words) | Self::NoAnswer(words) => words,
        }
    }

    /// True if the server answered with this status.
    #[must_use]
    pub fn is(&self, status: u16) -> bool {
        matches!(self, Self::Status(found, _) if *found == status)
    }
}

/// A kind that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Group, such as `cluster.x-k8s.io`.
    pub group: &'static str,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: &'static str,
    /// Plural in lower case.
    pub plural: &'static str,
    /// Namespace.
    pub namespace: String,
    /// Label selector; empty for all.
    pub labels: String,
    /// Field selector; empty for all.
    pub fields: String,
}

/// A change of a watched kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A list begins: what it does not show is gone.
    ListBegan,
    /// An object of the list.
    Listed(Value),
    /// The list is whole.
    ListEnded,
    /// An object is there, or has changed.
    Applied(Value),
    /// An object is gone.
    Deleted(Value),
    /// The watch failed and is tried again.
    Failed(Trouble),
}

/// Makes requests of one management cluster.
pub trait Calls: Send + Sync {
    /// One request. It ends by itself if nothing answers.
    fn call(&self, request: Request) -> BoxFuture<'static, Result<Answer, Trouble>>;

    /// The changes of a kind, from a list on, for ever.
    fn watch(&self, watched: Watched) -> BoxStream<'static, Event>;
}

/// Reads annotations of Nodes of the workload cluster.
pub trait Nodes: Send + Sync {
    /// The value of an annotation; `None` if the Node or its annotation is not there.
    fn annotation<'a>(&'a self, node: &'a str, key: &'a str)
    -> BoxFuture<'a, Result<Option<String>, String>>;
}
