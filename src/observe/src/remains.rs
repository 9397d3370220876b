//! What can still be read of an object that cannot be decoded: its metadata, and the node it is bound to. It judges nothing.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The rest of an object.
#[derive(Clone, Debug, Default)]
pub struct Remains {
    /// Metadata; only names, uid and version when it cannot be decoded either.
    pub metadata: ObjectMeta,
    /// `spec.nodeName`, if it is a word.
    pub node: Option<String>,
    /// Why the object cannot be decoded.
    pub error: String,
}

impl Remains {
    /// What remains of `object`, which failed with `error`.
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

/// The object itself, or what remains of it. In kube's own guard nothing but the metadata remains.
#[derive(Clone, Debug)]
pub(super) enum Guarded<K> {
    /// It was decoded.
    Whole(K),
    /// It was not.
    Broken(Box<Remains>),
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        if !object.is_object() {
            return Err(D::Error::custom("an object is wanted"));
        }
        Ok(match K::deserialize(&object) {
            Ok(whole) => Self::Whole(whole),
            Err(error) => Self::Broken(Box::new(Remains::of(&object, &error))),
        })
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Whole(whole) => whole.meta(),
            Self::Broken(remains) => &remains.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Whole(whole) => whole.meta_mut(),
            Self::Broken(remains) => &mut remains.metadata,
        }
    }
}
