//! Readable part of an object that cannot be decoded: its metadata, and the node it is bound to. It decides nothing.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

/// The rest of an object.
#[derive(Clone, Debug, Default)]
pub struct PartialObject {
    /// Metadata; only names, uid and version when it cannot be decoded either.
    pub metadata: ObjectMeta,
    /// `spec.nodeName`, if it is a word.
    pub node: Option<String>,
    /// Reason why the object cannot be decoded.
    pub error: String,
}

impl PartialObject {
    /// The readable part of `object`, which failed with `error`.
    #[must_use]
    pub fn of(object: &Value, error: &impl ToString) -> Self {
        #[derive(Deserialize)]
        struct Slim {
            #[serde(deserialize_with = "super::slim::meta")]
            metadata: ObjectMeta,
        }
        let word = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let named = || ObjectMeta {
            name: word("/metadata/name"),
            namespace: word("/metadata/namespace"),
            uid: word("/metadata/uid"),
            resource_version: word("/metadata/resourceVersion"),
            ..ObjectMeta::default()
        };
        Self {
            metadata: Slim::deserialize(object).map_or_else(|_| named(), |slim| slim.metadata),
            node: word("/spec/nodeName").filter(|node| !node.is_empty()),
            error: error.to_string(),
        }
    }
}
