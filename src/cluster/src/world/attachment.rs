//! Volumes that are attached to nodes, whether a pod there uses them or not. Data only, no rule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A VolumeAttachment: a volume that is attached to a node, is to be, or is not detached yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachment {
    /// Its name.
    pub name: Arc<str>,
    /// Name of the node.
    pub node: Arc<str>,
    /// Name of the PersistentVolume.
    pub volume: Arc<str>,
}

/// All VolumeAttachments, by name and by node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attachments {
    by_name: BTreeMap<Arc<str>, VolumeAttachment>,
    /// Names by node; nodes without any are left out.
    by_node: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Attachments {
    /// Volumes attached to a node, by the names of their attachments. One that is attached twice comes twice.
    pub fn of_node(&self, node: &str) -> impl Iterator<Item = &Arc<str>> {
        let names = self.by_node.get(node).into_iter().flatten();
        names.filter_map(|name| self.by_name.get(name)).map(|attachment| &attachment.volume)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &VolumeAttachment> {
        self.by_name.values()
    }

    pub(super) fn insert(&mut self, attachment: VolumeAttachment) {
        self.remove(&attachment.name);
        let of_node = self.by_node.entry(attachment.node.clone()).or_default();
        of_node.insert(attachment.name.clone());
        self.by_name.insert(attachment.name.clone(), attachment);
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(VolumeAttachment { node, .. }) = self.by_name.remove(name) else { return };
        if let Some(names) = self.by_node.get_mut(&node) {
            names.remove(name);
            if names.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    /// Keeps those whose names hold.
    pub(super) fn retain(&mut self, holds: impl Fn(&Arc<str>) -> bool) {
        let gone: Vec<Arc<str>> = self.by_name.keys().filter(|name| !holds(name)).cloned().collect();
        gone.iter().for_each(|name| self.remove(name));
    }
}
