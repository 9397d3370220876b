//! Sorted label sets and object keys: the small value types that every room shares.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A sorted set of key-value pairs, as labels and annotations are.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Arc<str>, Arc<str>>", into = "BTreeMap<Arc<str>, Arc<str>>")]
pub struct Labels(Vec<(Arc<str>, Arc<str>)>);

impl Labels {
    /// The value of `key`, if present.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|index| &*self.0[index].1)
    }

    /// Sets `key` to `value`, replacing an older value.
    pub fn insert(&mut self, key: impl Into<Arc<str>>, value: impl Into<Arc<str>>) {
        let (key, value) = (key.into(), value.into());
        match self.0.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(index) => self.0[index].1 = value,
            Err(index) => self.0.insert(index, (key, value)),
        }
    }

    /// Removes `key`; nothing happens when it is absent.
    pub fn remove(&mut self, key: &str) {
        if let Ok(index) = self.0.binary_search_by(|(k, _)| (**k).cmp(key)) {
            self.0.remove(index);
        }
    }

    /// All pairs in order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// All pairs in order of their keys, as they are shared.
    pub fn shared(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is no pair.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<BTreeMap<Arc<str>, Arc<str>>> for Labels {
    fn from(pairs: BTreeMap<Arc<str>, Arc<str>>) -> Self {
        pairs.into_iter().collect()
    }
}

impl From<Labels> for BTreeMap<Arc<str>, Arc<str>> {
    fn from(labels: Labels) -> Self {
        labels.0.into_iter().collect()
    }
}

impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut labels = Self::default();
        for (key, value) in pairs {
            labels.insert(key, value);
        }
        labels
    }
}

/// Namespace and name of an object; the namespace of cluster-scoped objects is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectKey {
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Box<str>,
}

impl ObjectKey {
    /// The key of a namespaced object.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Box<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}
