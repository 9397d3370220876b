//! Nodes as lists show them, each written once for each of its states: clients list thousands of nodes again and again.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::Value;
use serde_json::value::RawValue;

use super::ObjectKey;

/// The last text of each node, with the state that it was made of.
#[derive(Debug, Default)]
pub(crate) struct NodeTexts {
    by_key: FxHashMap<ObjectKey, (Arc<Value>, Arc<RawValue>)>,
}

impl NodeTexts {
    /// The text of a node, which `write` makes where it is not known.
    pub(crate) fn of(
        &mut self,
        key: &ObjectKey,
        node: &Arc<Value>,
        write: impl FnOnce(&Value) -> Arc<RawValue>,
    ) -> Arc<RawValue> {
        if let Some((known, text)) = self.by_key.get(key)
            && Arc::ptr_eq(known, node)
        {
            return text.clone();
        }
        let text = write(node);
        self.by_key.insert(key.clone(), (node.clone(), text.clone()));
        text
    }

    /// Forgets nodes that are gone, where there are more of them than of `there` that are not.
    pub(crate) fn trim(&mut self, there: usize) {
        if 2 * there < self.by_key.len() {
            self.by_key.clear();
        }
    }
}
