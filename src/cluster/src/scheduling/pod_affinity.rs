//! InterPodAffinity: required affinity and anti-affinity, and the anti-affinity of pods that are there already.

use std::sync::Arc;

use crate::scheduling::class_rules::ClassRules;
use crate::scheduling::node_affinity::LabelledNode;
use crate::scheduling::refusal::Refusal;
use crate::scheduling::snapshot::{ClassIx, NodeIx, Snapshot};

/// A term that keeps a pod off a node, by its topology key.
pub(super) enum Term<'p> {
    /// It wants pods that are not there.
    Wants(&'p Arc<str>),
    /// It avoids pods that are there, or they avoid the pod.
    Avoids(&'p Arc<str>),
}

impl Snapshot<'_> {
    /// True if a pod of the class wants to be beside its own kind, and no pod that it could go to is anywhere: where the
    /// first one goes, the others must.
    pub fn is_unanchored(&mut self, class: ClassIx) -> bool {
        self.has_topology_rules(class)
            && self.known_rules(class).is_some_and(|rules| {
                rules.own_kind
                    && !rules.affinity.is_empty()
                    && rules.affinity.iter().all(|(counter, _)| self.counted(*counter).total == 0)
            })
    }

    /// True if affinity lets a pod of the class with these `rules` onto `node`.
    pub(super) fn check_pod_affinity(&self, rules: &ClassRules, node: NodeIx) -> Result<(), Refusal> {
        let Some(term) = self.broken_affinity(rules, node) else { return Ok(()) };
        let (Term::Wants(key) | Term::Avoids(key)) = &term;
        if self.node(node).open(key).is_some() {
            return Err(Refusal::open_domain(self.node(node), key));
        }
        Err(match term {
            Term::Wants(key) => Refusal::PodAffinity { topology_key: key.clone() },
            Term::Avoids(key) => Refusal::PodAntiAffinity { topology_key: key.clone() },
        })
    }

    /// The first term that keeps the pod away.
    ///
    /// Source: kube-scheduler, interpodaffinity/filtering.go: satisfyPodAffinity, satisfyPodAntiAffinity,
    /// satisfyExistingPodsAntiAffinity. The first pod of a series that asks for its own kind is let in where no pod
    /// matches anywhere.
    pub(super) fn broken_affinity<'p>(&self, rules: &'p ClassRules, node: NodeIx) -> Option<Term<'p>> {
        let mut met = true;
        for (counter, key) in &rules.affinity {
            let Some(domain) = self.domain(*counter, node) else { return Some(Term::Wants(key)) };
            met &= 0 < self.counted(*counter).count(domain);
        }
        if !met {
            let none_anywhere = rules.affinity.iter().all(|(counter, _)| self.counted(*counter).total == 0);
            if let (false, Some((_, key))) = (none_anywhere && rules.own_kind, rules.affinity.first()) {
                return Some(Term::Wants(key));
            }
        }
        // A node whose domain the cloud chooses may come to be where the pod must not go.
        let open = |key: &str| self.node(node).open(key).is_some();
        for (counter, key) in &rules.anti_affinity {
            if self.occupied(*counter, node) || open(key) {
                return Some(Term::Avoids(key));
            }
        }
        let guard = rules.guarded_by.iter().find(|(counter, key)| {
            self.occupied(*counter, node) || (0 < self.counted(*counter).total && open(key))
        });
        guard.map(|(_, topology_key)| Term::Avoids(topology_key))
    }

    /// True if the node's domain holds a pod that the counter counts; a node without the key is in no domain.
    fn occupied(&self, counter: usize, node: NodeIx) -> bool {
        self.domain(counter, node).is_some_and(|domain| 0 < self.counted(counter).count(domain))
    }
}
