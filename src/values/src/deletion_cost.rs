//! The deletion cost of a pod: who has set it. It chooses no pod.

/// Annotation by which the ReplicaSet controller ranks pods that are alike otherwise: the lowest goes first; 0 when unset.
///
/// Source: Kubernetes, pkg/apis/core/annotation_key_constants.go, PodDeletionCost.
pub const DELETION_COST_ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Annotation beside it that repeats the cost where the operator has set it.
pub const OWN_DELETION_COST_ANNOTATION: &str = "headroom.dev/deletion-cost";

/// Cost of pods that go before the others.
pub const COST_FIRST: i32 = -1;
/// Cost of pods that go after the others.
pub const COST_LAST: i32 = 1;

/// The deletion cost of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeletionCost {
    /// None.
    #[default]
    Unset,
    /// The operator's: [`COST_FIRST`] or [`COST_LAST`].
    Own(i32),
    /// Somebody else's, whatever its value.
    Foreign,
}

impl DeletionCost {
    /// Reads it from the two annotations as they are written. A cost is the operator's only where both are equal, and
    /// it is one that the operator writes: a value that a person has changed is the person's.
    #[must_use]
    pub fn read(cost: Option<&str>, own: Option<&str>) -> Self {
        let Some(cost) = cost else { return Self::Unset };
        let value = cost.parse().ok().filter(|value| [COST_FIRST, COST_LAST].contains(value));
        value.filter(|_| own == Some(cost)).map_or(Self::Foreign, Self::Own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_the_operators_only_where_both_annotations_agree() {
        let cases = [
            (None, None, DeletionCost::Unset),
            (None, Some("-1"), DeletionCost::Unset),
            (Some("-1"), Some("-1"), DeletionCost::Own(-1)),
            (Some("1"), Some("1"), DeletionCost::Own(1)),
            (Some("-1"), None, DeletionCost::Foreign),
            (Some("0"), None, DeletionCost::Foreign),
            (Some("100"), Some("-1"), DeletionCost::Foreign),
            (Some("100"), Some("100"), DeletionCost::Foreign),
            (Some("much"), Some("much"), DeletionCost::Foreign),
        ];
        for (cost, own, expected) in cases {
            assert_eq!(DeletionCost::read(cost, own), expected, "{cost:?} beside {own:?}");
        }
    }
}
