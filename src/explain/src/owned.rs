//! Choice of a workload's pod if no pod has the given name and a workload has it. It explains no pod.

use headroom_core::labels::ObjectKey;
use headroom_core::world::pod::Pod;

use super::case::Opened;
use super::chain;
use super::explanation::Explanation;
use super::pod;

/// So many others are named.
const OTHERS_MAX: usize = 5;

/// Explains one of the pods that a workload of this name has made, itself or by a ReplicaSet or Job of its own: the one that
/// waits for the longest, and where none waits the oldest. The others are named in a fact of their own. `None` where no pod
/// belongs to such a workload.
#[must_use]
pub fn explain(opened: &Opened<'_>, owner: &ObjectKey) -> Option<Explanation> {
    let all = opened.world.pods().map(|entry| &entry.pod);
    let mut pods: Vec<(String, &Pod)> =
        all.filter_map(|pod| Some((kind_of_owner(opened, pod, owner)?, pod))).collect();
    pods.sort_by_key(|(_, pod)| (pod.node.is_some(), pod.created_at, pod.key.clone()));
    let (kind, chosen) = pods.first()?;
    let mut explanation = pod::explain(opened, &chosen.key)?;
    if let [_, others @ ..] = pods.as_slice()
        && !others.is_empty()
    {
        let names: Vec<&str> = others.iter().take(OTHERS_MAX).map(|(_, pod)| &*pod.key.name).collect();
        let more = match others.len().saturating_sub(OTHERS_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let rank = if chosen.node.is_none() { "waits for the longest" } else { "oldest, none waits" };
        let kind = kind.to_lowercase();
        explanation.fact(
            "one of",
            format!("{} pods of {kind} {} ({rank}); also {}{more}", pods.len(), owner.name, names.join(" ")),
        );
    }
    Some(explanation)
}

/// Kind of the object of this name among those that have made the pod, directly or not.
fn kind_of_owner(opened: &Opened<'_>, pod: &Pod, owner: &ObjectKey) -> Option<String> {
    if pod.key.namespace != owner.namespace {
        return None;
    }
    let chain = chain::owners_of(opened, pod);
    chain.into_iter().find(|(_, key)| key.name == owner.name).map(|(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::pending;

    fn named(name: &str) -> ObjectKey {
        ObjectKey::new("default", name)
    }

    #[test]
    fn a_workload_stands_for_its_pod_that_waits_for_the_longest() {
        let case = pending();
        let opened = case.open().unwrap();
        for owner in ["web", "web-5d4"] {
            let explanation = explain(&opened, &named(owner)).expect(owner);
            let text = explanation.text();
            assert!(text.starts_with("pod default/web-0: waits"), "{text}");
            assert!(text.contains("2 pods of "), "{text}");
            assert!(text.contains("also web-1"), "{text}");
            assert!(text.contains("NodeSelectorMismatch"), "{text}");
        }
        assert_eq!(explain(&opened, &named("api")), None);
        assert_eq!(explain(&opened, &ObjectKey::new("shop", "web")), None, "another namespace");
    }
}
