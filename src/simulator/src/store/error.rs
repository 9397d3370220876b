//! The refusals of the API server as Status bodies; it decides none of them.

use serde_json::{Value, json};

use super::Kind;

/// A refused request: what the server answers, word for word where clients look at the words.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{reason} ({code}): {message}")]
pub struct ApiError {
    /// The HTTP status.
    pub code: u16,
    /// The machine-readable reason, for example `Conflict`.
    pub reason: &'static str,
    /// The sentence for people.
    pub message: String,
    /// `details` of the Status: name, kind, causes, `retryAfterSeconds`.
    pub details: Value,
}

impl ApiError {
    /// A refusal without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { code, reason, message: message.into(), details: Value::Null }
    }

    fn about(code: u16, reason: &'static str, kind: Kind, name: &str, message: String) -> ApiError {
        let info = kind.info();
        let details = json!({"name": name, "group": info.group, "kind": info.plural});
        ApiError { code, reason, message, details }
    }

    /// 404 for an object.
    pub fn not_found(kind: Kind, name: &str) -> ApiError {
        let message = format!("{} {name:?} not found", kind.qualified());
        ApiError::about(404, "NotFound", kind, name, message)
    }

    /// 404 for a path that no resource serves.
    pub fn no_such_path() -> ApiError {
        ApiError::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// 409 for a name that is taken.
    pub fn already_exists(kind: Kind, name: &str) -> ApiError {
        let message = format!("{} {name:?} already exists", kind.qualified());
        ApiError::about(409, "AlreadyExists", kind, name, message)
    }

    /// 409 for a stale resource version or a failed precondition.
    pub fn conflict(kind: Kind, name: &str, why: &str) -> ApiError {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.qualified());
        ApiError::about(409, "Conflict", kind, name, message)
    }

    /// 409 for an optimistic write that lost.
    pub fn modified(kind: Kind, name: &str) -> ApiError {
        ApiError::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 422 for an object that breaks a rule.
    pub fn invalid(kind: Kind, name: &str, why: &str) -> ApiError {
        let message = format!("{} {name:?} is invalid: {why}", kind.info().kind);
        ApiError::about(422, "Invalid", kind, name, message)
    }

    /// 400 for a request that cannot be read.
    pub fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(400, "BadRequest", message)
    }

    /// 405 for a verb that the resource has not.
    pub fn method_not_allowed() -> ApiError {
        ApiError::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// 410: the revision has been compacted.
    pub fn gone(asked: u64, oldest: u64) -> ApiError {
        ApiError::new(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    /// The `v1.Status` object that goes over the wire.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}
