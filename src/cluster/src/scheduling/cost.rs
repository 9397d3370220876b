//! Cost of evaluating the rules of a class or of a term, in work units that grow with the length of their lists.

use crate::scheduling::constraints::{
    LabelSelector, NodeSelectorTerm, PodAffinityTerm, RequiredNodeAffinity, Requirement,
};
use crate::world::pod::PodClass;

/// Words that one work unit includes: no more than ordinary pods have.
const WORDS_INCLUDED: usize = 32;
/// Words beyond these that cost one work unit more: they lie scattered in memory.
const WORDS_PER_UNIT: usize = 4;

/// Most words in the rules of a class about other pods. They are looked at for pods of every namespace, at nobody's own
/// expense, so there is a bound for all.
pub(super) const RULE_WORDS_MAX: usize = 512;

/// Work units of looking at so many words, beyond the one that each look costs.
pub(super) fn beyond_one(words: usize) -> u64 {
    u64::try_from(words.saturating_sub(WORDS_INCLUDED) / WORDS_PER_UNIT).unwrap_or(u64::MAX)
}

/// Work units of one look at the rules of a class that depend on the node alone, beyond the first.
pub(super) fn of_class(pod: &PodClass) -> u64 {
    let lists = [
        pod.node_selector.len(),
        pod.node_affinity.as_ref().map_or(0, words_of_affinity),
        pod.tolerations.len(),
        pod.host_ports.len(),
        pod.device_claims.len(),
    ];
    beyond_one(lists.into_iter().sum())
}

/// Work units of asking whether a term matches a pod, the first one included.
pub(super) fn of_term(term: &PodAffinityTerm) -> u64 {
    let selectors = term.selector.iter().chain(&term.namespace_selector);
    1 + beyond_one(term.namespaces.len() + selectors.map(words_of_selector).sum::<usize>())
}

/// Work units of asking whether a selector selects a pod, the first one included.
pub(super) fn of_selector(selector: Option<&LabelSelector>) -> u64 {
    1 + beyond_one(selector.map_or(0, words_of_selector))
}

/// True if a class has more rules about other pods than are evaluated: no node takes its pods, and the pods that they
/// keep away are not simulated.
pub(super) fn says_too_much(pod: &PodClass) -> bool {
    let of_term = |term: &PodAffinityTerm| {
        let selectors = term.selector.iter().chain(&term.namespace_selector);
        1 + term.namespaces.len() + selectors.map(words_of_selector).sum::<usize>()
    };
    let terms = pod.pod_affinity.iter().chain(&pod.pod_anti_affinity).map(of_term);
    let spread = pod.topology_spread.iter();
    let spread = spread.map(|spread| 1 + spread.selector.as_ref().map_or(0, words_of_selector));
    RULE_WORDS_MAX < terms.chain(spread).sum::<usize>()
}

fn words_of_affinity(affinity: &RequiredNodeAffinity) -> usize {
    let of_term = |term: &NodeSelectorTerm| 1 + words(&term.match_expressions) + words(&term.match_fields);
    affinity.terms.iter().map(of_term).sum()
}

fn words_of_selector(selector: &LabelSelector) -> usize {
    selector.match_labels.len() + words(&selector.match_expressions)
}

fn words(requirements: &[Requirement]) -> usize {
    requirements.iter().map(|requirement| 1 + requirement.values.len()).sum()
}
