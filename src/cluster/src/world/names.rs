//! Names of nodes by their ids, in a table that whoever names many nodes shares instead of copying each name.

use std::sync::Arc;

use crate::world::NodeId;

/// Names in one chunk: what a change copies at most while somebody shares the table.
const CHUNK: usize = 256;

/// The name of each node id. A clone is one reference, and keeps the names as they were.
#[derive(Clone, Debug, Default)]
pub struct NodeNames {
    chunks: Arc<Vec<Arc<Vec<Arc<str>>>>>,
}

impl NodeNames {
    /// The name of a node that the table was shared with.
    ///
    /// # Panics
    /// If no node had this id then.
    #[must_use]
    pub fn get(&self, id: NodeId) -> &Arc<str> {
        let index = id.0 as usize;
        &self.chunks[index / CHUNK][index % CHUNK]
    }

    /// Gives the id to the node of this name. Ids are given in order: the id is in use already, or the next one.
    pub(super) fn set(&mut self, id: NodeId, name: &Arc<str>) {
        let (chunk, place) = (id.0 as usize / CHUNK, id.0 as usize % CHUNK);
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunk == chunks.len() {
            chunks.push(Arc::new(Vec::with_capacity(CHUNK)));
        }
        let names = Arc::make_mut(&mut chunks[chunk]);
        if place == names.len() {
            names.push(name.clone());
        } else {
            names[place] = name.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_table_keeps_the_names_as_they_were() {
        let mut names = NodeNames::default();
        let name = |index: u32| Arc::from(format!("n{index}"));
        for index in 0..600 {
            names.set(NodeId(index), &name(index));
        }
        let shared = names.clone();
        names.set(NodeId(300), &"other".into());
        names.set(NodeId(600), &"last".into());
        assert_eq!((&**names.get(NodeId(300)), &**names.get(NodeId(600))), ("other", "last"));
        for index in 0..600 {
            assert_eq!(**shared.get(NodeId(index)), *name(index));
        }
    }
}
