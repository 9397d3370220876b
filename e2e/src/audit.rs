//! Reads the API server's audit log: who wrote what, when, and with which answer; it checks nothing.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::control_plane::{ControlPlane, User};

/// One mutating call, as the API server saw it. Times are the API server's.
#[derive(Debug, Clone)]
pub struct Write {
    pub received_at: Timestamp,
    pub user: String,
    pub user_agent: String,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Plural, such as `nodepools`.
    pub resource: String,
    /// Such as `status` or `eviction`; empty for the object itself.
    pub subresource: String,
    pub namespace: String,
    /// Empty for a create whose name the server makes up.
    pub name: String,
    /// HTTP status of the answer; 0 when there was none.
    pub code: u16,
    /// Body of the request; only calls of the operator keep it.
    pub body: Value,
}

/// A list of writes in the order of the log, narrowed step by step.
///
/// `cluster.writes()?.by(User::Headroom).without("leases").since(steady)` is what the idle test counts.
#[derive(Debug, Clone, Default)]
pub struct Writes(pub Vec<Write>);

impl Writes {
    /// Those of one user.
    pub fn by(self, user: User) -> Self {
        self.keep(|write| write.user == user.name())
    }

    /// Those whose user agent starts with `prefix`.
    pub fn by_agent(self, prefix: &str) -> Self {
        self.keep(|write| write.user_agent.starts_with(prefix))
    }

    /// Those whose user agent contains `part`: the controllers of one program add their own names to it.
    pub fn by_agent_part(self, part: &str) -> Self {
        self.keep(|write| write.user_agent.contains(part))
    }

    /// Those to `resource`, or to a subresource when written as `nodepools/status`.
    pub fn to(self, resource: &str) -> Self {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        self.keep(|write| write.resource == resource && write.subresource == subresource)
    }

    /// All but those to `resource` and its subresources.
    pub fn without(self, resource: &str) -> Self {
        self.keep(|write| write.resource != resource)
    }

    /// Those with this verb.
    pub fn with_verb(self, verb: &str) -> Self {
        self.keep(|write| write.verb == verb)
    }

    /// All but reads.
    pub fn mutating(self) -> Self {
        const READS: [&str; 3] = ["get", "list", "watch"];
        self.keep(|write| !READS.contains(&write.verb.as_str()))
    }

    /// Those to the object of this name.
    pub fn named(self, name: &str) -> Self {
        self.keep(|write| write.name == name)
    }

    /// Those received at `moment` or later.
    pub fn since(self, moment: Timestamp) -> Self {
        self.keep(|write| moment <= write.received_at)
    }

    /// Those that changed something: answered with 2xx.
    pub fn accepted(self) -> Self {
        self.keep(|write| (200..300).contains(&write.code))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of the objects written to, or tried to be written to, each once. A creation that was turned away before
    /// its body was read has none.
    pub fn names(&self) -> BTreeSet<&str> {
        self.0.iter().map(|write| write.name.as_str()).filter(|name| !name.is_empty()).collect()
    }

    /// One line a write, for the message of a failed assertion.
    pub fn describe(&self) -> String {
        let line = |write: &Write| {
            let slash = if write.subresource.is_empty() { "" } else { "/" };
            format!(
                "{} {} {} {}{slash}{} {} -> {}\n",
                write.received_at,
                write.user,
                write.verb,
                write.resource,
                write.subresource,
                write.name,
                write.code
            )
        };
        self.0.iter().map(line).collect()
    }

    fn keep(mut self, rule: impl Fn(&Write) -> bool) -> Self {
        self.0.retain(rule);
        self
    }
}

impl ControlPlane {
    /// All mutating calls so far. The API server logs a call before it answers it, so that a write whose
    /// answer was seen is in the list. Errors without `Options::with_audit_log`.
    pub fn writes(&self) -> Result<Writes> {
        Ok(self.calls()?.mutating())
    }

    /// All calls so far that are recorded: the mutating ones, and after [`crate::control_plane::Options::with_reads_audited`]
    /// the reads of the operator and of the controller-manager too.
    pub fn calls(&self) -> Result<Writes> {
        let path = self.audit_log_path().context("the control plane keeps no audit log")?;
        let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        parse(&text)
    }
}

/// The last line may be half written and is then left out.
fn parse(text: &str) -> Result<Writes> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| Ok(serde_json::from_str::<Event>(line)?.into()))
        .collect::<Result<_>>()
        .map(Writes)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    verb: String,
    user: EventUser,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    #[serde(default)]
    request_object: Value,
    request_received_timestamp: Timestamp,
}

#[derive(Debug, Deserialize)]
struct EventUser {
    username: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl From<Event> for Write {
    fn from(event: Event) -> Self {
        Self {
            received_at: event.request_received_timestamp,
            user: event.user.username,
            user_agent: event.user_agent,
            verb: event.verb,
            group: event.object_ref.api_group,
            resource: event.object_ref.resource,
            subresource: event.object_ref.subresource,
            namespace: event.object_ref.namespace,
            name: event.object_ref.name,
            code: event.response_status.code,
            body: event.request_object,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = concat!(
        r#"{"verb":"patch","user":{"username":"system:serviceaccount:headroom-system:headroom"},"userAgent":"headroom/0.1","objectRef":{"resource":"nodepools","subresource":"status","name":"general","apiGroup":"headroom.dev"},"responseStatus":{"code":200},"requestObject":{"a":1},"requestReceivedTimestamp":"2026-01-01T00:00:01.000000Z"}"#,
        "\n",
        r#"{"verb":"update","user":{"username":"system:serviceaccount:headroom-system:headroom"},"objectRef":{"resource":"leases","namespace":"kube-system","name":"headroom"},"responseStatus":{"code":409},"requestReceivedTimestamp":"2026-01-01T00:00:02.000000Z"}"#,
        "\n",
        r#"{"verb":"cre"#,
    );

    #[test]
    fn writes_are_narrowed_by_user_resource_time_and_answer() {
        let all = parse(LOG).unwrap();
        assert_eq!(all.len(), 2, "the half-written line is left out");
        let status = all.clone().by(User::Headroom).to("nodepools/status");
        assert_eq!((status.len(), &status.0[0].body["a"]), (1, &Value::from(1)));
        assert!(all.clone().to("nodepools").is_empty(), "a write of status is no write of the object");
        assert_eq!(all.clone().since("2026-01-01T00:00:02Z".parse().unwrap()).len(), 1);
        assert_eq!(all.accepted().without("leases").len(), 1);
    }
}
