//! True if two groups' templates are so alike that balancing may swap one for the other. It looks at no sizes.

use std::sync::Arc;

use crate::world::node::Node;
use headroom_values::resources::Resources;

/// Labels that never distinguish groups: place, name, and what kops puts on.
///
/// Source: nodegroupset/compare_nodegroups.go, BasicIgnoredLabels.
const IGNORED: [&str; 6] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "kops.k8s.io/instancegroup",
];

/// Labels that do not distinguish groups of AWS either. Source: nodegroupset/aws_nodegroups.go.
const IGNORED_ON_AWS: [&str; 5] = [
    "alpha.eksctl.io/nodegroup-name",
    "eks.amazonaws.com/nodegroup",
    "k8s.amazonaws.com/eniConfig",
    "lifecycle",
    "topology.ebs.csi.aws.com/zone",
];

/// Fields of two groups that are compared.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparator {
    /// Amounts and labels.
    Generic,
    /// Amounts and labels, those of AWS that differ by group ignored.
    Aws,
    /// Only these labels; each must be there, and one missing on both sides makes them differ.
    Labels(Vec<Arc<str>>),
}

/// Rules by which two groups are similar.
#[derive(Clone, Debug, PartialEq)]
pub struct Similarity {
    /// Fields that are compared.
    pub comparator: Comparator,
    /// Labels ignored besides those that always are.
    pub ignored_labels: Vec<Arc<str>>,
    /// Largest difference of the capacities of memory, as a part of the larger one. Default 0.015.
    pub memory_ratio: f64,
    /// Largest difference of what is allocatable. Default 0.05.
    pub allocatable_ratio: f64,
    /// Largest difference of what is free beside the pods that always run. Default 0.05.
    pub free_ratio: f64,
}

impl Default for Similarity {
    fn default() -> Self {
        Self {
            comparator: Comparator::Generic,
            ignored_labels: Vec::new(),
            memory_ratio: 0.015,
            allocatable_ratio: 0.05,
            free_ratio: 0.05,
        }
    }
}

/// A node as it is compared.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Labels and amounts.
    pub node: &'a Node,
    /// The sum of the requests of the pods that always run there.
    pub requested: &'a Resources,
}

impl Similarity {
    /// True if `a` and `b` are alike; the order does not matter.
    ///
    /// All kinds of capacity are equal but memory, which may differ a little; what is allocatable and what is free may
    /// differ a little each; all labels are equal but the ignored ones. Taints are not compared.
    /// Source: nodegroupset/compare_nodegroups.go, IsCloudProviderNodeInfoSimilar; label_nodegroups.go.
    #[must_use]
    pub fn similar(&self, a: Shape<'_>, b: Shape<'_>) -> bool {
        if let Comparator::Labels(keys) = &self.comparator {
            return keys.iter().all(|key| {
                let value = a.node.labels.get(key);
                value.is_some() && value == b.node.labels.get(key)
            });
        }
        self.capacities_alike(&a.node.capacity, &b.node.capacity)
            && within(&amounts(&a.node.allocatable), &amounts(&b.node.allocatable), self.allocatable_ratio)
            && self.free_alike(a, b)
            && self.labels_alike(a.node, b.node)
    }

    fn capacities_alike(&self, a: &Resources, b: &Resources) -> bool {
        let mut b_but_memory = b.clone();
        b_but_memory.memory_bytes = a.memory_bytes;
        alike(a.memory_bytes, b.memory_bytes, self.memory_ratio) && *a == b_but_memory
    }

    /// Only kinds that pods ask for are free: an extended one that pods ask for on one side only makes a difference.
    fn free_alike(&self, a: Shape<'_>, b: Shape<'_>) -> bool {
        let (left, right) = (free(a), free(b));
        let names = |all: &[(Arc<str>, i64)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        names(&left) == names(&right) && within(&left, &right, self.free_ratio)
    }

    fn labels_alike(&self, a: &Node, b: &Node) -> bool {
        let count = |node: &Node| node.labels.iter().filter(|(key, _)| !self.ignores(key)).count();
        count(a) == count(b)
            && a.labels
                .iter()
                .filter(|(key, _)| !self.ignores(key))
                .all(|(key, value)| b.labels.get(key) == Some(value))
    }

    fn ignores(&self, key: &str) -> bool {
        IGNORED.contains(&key)
            || (self.comparator == Comparator::Aws && IGNORED_ON_AWS.contains(&key))
            || self.ignored_labels.iter().any(|ignored| &**ignored == key)
    }
}

/// Every kind with its amount: the built-in ones always, extended ones where there are any.
fn amounts(all: &Resources) -> Vec<(Arc<str>, i64)> {
    let built_in = [
        ("cpu", all.cpu_milli),
        ("memory", all.memory_bytes),
        ("ephemeral-storage", all.ephemeral_bytes),
        ("pods", all.pods),
    ];
    let built_in = built_in.into_iter().map(|(name, amount)| (Arc::from(name), amount));
    built_in.chain(all.extended_iter().map(|(name, amount)| (name.clone(), amount))).collect()
}

/// Returns the resources of the node that its pods do not use, of the kinds that count as requested. The number of pods
/// is not used up.
fn free(shape: Shape<'_>) -> Vec<(Arc<str>, i64)> {
    let offered = &shape.node.allocatable;
    let asked = shape.requested;
    let mut free = Resources::new(
        offered.cpu_milli.saturating_sub(asked.cpu_milli),
        offered.memory_bytes.saturating_sub(asked.memory_bytes),
    );
    free.ephemeral_bytes = offered.ephemeral_bytes.saturating_sub(asked.ephemeral_bytes);
    free.pods = offered.pods;
    let mut all = amounts(&free);
    for (name, amount) in asked.extended_iter() {
        all.push((name.clone(), offered.extended(name).saturating_sub(amount)));
    }
    all
}

/// True if both sides have the same kinds, each about as much.
fn within(a: &[(Arc<str>, i64)], b: &[(Arc<str>, i64)], ratio: f64) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|((left, x), (right, y))| left == right && alike(*x, *y, ratio))
}

/// True if the difference is at most this part of the larger amount.
#[allow(clippy::cast_precision_loss)] // Amounts beyond 2^53 do not occur, and a ratio forgives the last bit.
fn alike(a: i64, b: i64, ratio: f64) -> bool {
    let (larger, smaller) = (a.max(b) as f64, a.min(b) as f64);
    larger - smaller <= larger * ratio
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_values::labels::Labels;

    fn node(cpu_milli: i64, memory_bytes: i64, label: (&str, &str)) -> Node {
        let amounts = Resources::new(cpu_milli, memory_bytes).with_pods(110);
        Node {
            labels: Labels::from_iter([label]),
            allocatable: amounts.clone(),
            capacity: amounts,
            ..Node::default()
        }
    }

    fn similar(rule: &Similarity, a: &Node, b: &Node) -> bool {
        let none = Resources::default();
        rule.similar(Shape { node: a, requested: &none }, Shape { node: b, requested: &none })
    }

    #[test]
    fn zone_does_not_distinguish_groups() {
        let a = node(4000, 16000, ("topology.kubernetes.io/zone", "a"));
        let b = node(4000, 16000, ("topology.kubernetes.io/zone", "b"));
        assert!(similar(&Similarity::default(), &a, &b));
    }

    #[test]
    fn capacity_of_memory_may_differ_by_its_ratio_and_no_more() {
        let (a, label) = (node(4000, 100_000, ("a", "b")), ("a", "b"));
        assert!(similar(&Similarity::default(), &a, &node(4000, 98_500, label)));
        assert!(!similar(&Similarity::default(), &a, &node(4000, 98_499, label)));
    }

    #[test]
    fn balancing_label_missing_on_both_sides_is_no_likeness() {
        let rule = Similarity { comparator: Comparator::Labels(vec!["x".into()]), ..Similarity::default() };
        let a = node(4000, 16000, ("a", "b"));
        assert!(!similar(&rule, &a, &a));
    }

    #[test]
    fn eks_group_names_differ_on_aws_only_in_name() {
        let a = node(4000, 16000, ("eks.amazonaws.com/nodegroup", "a"));
        let b = node(4000, 16000, ("eks.amazonaws.com/nodegroup", "b"));
        assert!(!similar(&Similarity::default(), &a, &b));
        assert!(similar(&Similarity { comparator: Comparator::Aws, ..Similarity::default() }, &a, &b));
    }
}
