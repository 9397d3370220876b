//! Pods that are alike for planning: of one controller and one class. It orders and places nothing.

use crate::world::pod::Pod;

/// Most groups of one controller; further pods that fit none of them are alone. Source: equivalence/groups.go.
const GROUPS_MAX: usize = 10;

/// Groups of indexes into `pods`, in order of their first pods.
///
/// Pods of DaemonSets and pods without a controller are alone.
/// Source: core/scaleup/equivalence/groups.go, BuildPodGroups.
#[must_use]
pub fn groups(pods: &[&Pod]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, pod) in pods.iter().enumerate() {
        let grouped = pod.owner.as_ref().is_some_and(|owner| &*owner.kind != "DaemonSet");
        let siblings = groups.iter_mut().filter(|group| pods[group[0]].owner == pod.owner).take(GROUPS_MAX);
        match siblings.into_iter().find(|group| grouped && pods[group[0]].class == pod.class) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}
