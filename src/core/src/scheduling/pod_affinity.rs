//! InterPodAffinity: required affinity and anti-affinity, and the anti-affinity of pods that are there already.

use crate::scheduling::refusal::Refusal;
use crate::scheduling::snapshot::{ClassIx, NodeIx, Snapshot};
use crate::scheduling::topology::term_matches;

impl Snapshot<'_> {
    /// Whether affinity lets a pod of `class` onto `node`.
    ///
    /// Source: kube-scheduler, interpodaffinity/filtering.go: satisfyPodAffinity, satisfyPodAntiAffinity,
    /// satisfyExistingPodsAntiAffinity. The first pod of a series that asks for its own kind is let in where no pod
    /// matches anywhere.
    pub(super) fn check_pod_affinity(&mut self, class: ClassIx, node: NodeIx) -> Result<(), Refusal> {
        let rules = self.rules_of(class);
        let pod = self.class(class).clone();
        let mut met = true;
        for (counter, term) in rules.affinity.iter().zip(&pod.pod_affinity) {
            let refusal = Refusal::PodAffinity { topology_key: term.topology_key.clone() };
            let Some(domain) = self.domain(*counter, node) else { return Err(refusal) };
            met &= 0 < self.counted(*counter).count(domain);
        }
        if !met {
            let none_anywhere = rules.affinity.iter().all(|counter| self.counted(*counter).total == 0);
            let own_kind =
                pod.pod_affinity.iter().all(|term| term_matches(term, &pod.namespace, &pod, self.world()));
            if let (false, Some(term)) = (none_anywhere && own_kind, pod.pod_affinity.first()) {
                return Err(Refusal::PodAffinity { topology_key: term.topology_key.clone() });
            }
        }
        for (counter, term) in rules.anti_affinity.iter().zip(&pod.pod_anti_affinity) {
            if self.occupied(*counter, node) {
                return Err(Refusal::PodAntiAffinity { topology_key: term.topology_key.clone() });
            }
        }
        for (counter, topology_key) in &rules.guarded_by {
            if self.occupied(*counter, node) {
                return Err(Refusal::PodAntiAffinity { topology_key: topology_key.clone() });
            }
        }
        Ok(())
    }

    /// Whether the node's domain holds a pod that the counter counts; a node without the key is in no domain.
    fn occupied(&self, counter: usize, node: NodeIx) -> bool {
        self.domain(counter, node).is_some_and(|domain| 0 < self.counted(counter).count(domain))
    }
}
