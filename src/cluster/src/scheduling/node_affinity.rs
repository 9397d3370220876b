//! NodeAffinity: node selector and required node affinity with all operators and matchFields.

use std::sync::Arc;

use crate::scheduling::Refusal;
use crate::scheduling::constraints::{
    LabelSelector, NodeSelectorTerm, Operator, RequiredNodeAffinity, Requirement,
};
use headroom_values::labels::Labels;

/// Fields of a node that node affinity reads: its name and its labels.
pub trait LabelledNode {
    /// The node's name, the only field that matchFields knows.
    fn node_name(&self) -> &str;
    /// The value of a label, if it has it.
    fn label(&self, key: &str) -> Option<&str>;
    /// The values that a label may have which the node will have and nobody knows yet, none where those are not known
    /// either; `None` for every other label. What is asked of such a label must hold for each of them.
    fn open(&self, key: &str) -> Option<&[Arc<str>]> {
        let _ = key;
        None
    }
}

/// True if the label is one of these values, whichever it will be.
#[must_use]
pub fn is_one_of(node: &impl LabelledNode, key: &str, values: &[Arc<str>]) -> bool {
    let wanted = |found: &str| values.iter().any(|value| &**value == found);
    match node.open(key) {
        None => node.label(key).is_some_and(wanted),
        Some(open) => !open.is_empty() && open.iter().all(|value| wanted(value)),
    }
}

/// The value of a node in messages: a label's value, or the values among which its cloud chooses.
#[must_use]
pub fn found(node: &impl LabelledNode, key: &str) -> Option<Arc<str>> {
    match node.open(key) {
        None => node.label(key).map(Arc::from),
        Some([]) => Some("what its cloud chooses".into()),
        Some(open) => {
            let values = open.iter().map(|value| &**value).collect::<Vec<_>>().join(" or ");
            Some(format!("{values} as its cloud chooses").into())
        }
    }
}

/// True if one requirement holds for this node, whatever its open labels will be.
fn holds(requirement: &Requirement, node: &impl LabelledNode) -> bool {
    let Some(open) = node.open(&requirement.key) else {
        return requirement_holds(requirement, node.label(&requirement.key));
    };
    match requirement.operator {
        Operator::Exists => true,
        Operator::DoesNotExist => false,
        Operator::In | Operator::NotIn | Operator::Gt | Operator::Lt => {
            !open.is_empty() && open.iter().all(|value| requirement_holds(requirement, Some(value)))
        }
    }
}

/// True if the node meets the node selector and the required affinity.
///
/// Source: component-helpers, nodeaffinity.go, GetRequiredNodeAffinity.
///
/// # Errors
/// [`Refusal::NodeSelector`] or [`Refusal::NodeAffinity`] with what is missing.
pub fn check(
    selector: &Labels,
    affinity: Option<&RequiredNodeAffinity>,
    node: &impl LabelledNode,
) -> Result<(), Refusal> {
    for (key, wanted) in selector.iter() {
        if node.label(key) != Some(wanted) {
            return Err(Refusal::NodeSelector {
                key: key.into(),
                wanted: wanted.into(),
                found: found(node, key),
            });
        }
    }
    match affinity {
        Some(affinity) if !affinity.terms.iter().any(|term| term_holds(term, node)) => {
            Err(refuse(affinity, node))
        }
        Some(_) | None => Ok(()),
    }
}

/// The same as [`check`] without words.
#[must_use]
pub fn matches(selector: &Labels, affinity: Option<&RequiredNodeAffinity>, node: &impl LabelledNode) -> bool {
    selector.iter().all(|(key, wanted)| node.label(key) == Some(wanted))
        && affinity.is_none_or(|affinity| affinity.terms.iter().any(|term| term_holds(term, node)))
}

/// True if one of the terms holds.
#[must_use]
pub fn any_term_holds(terms: &[NodeSelectorTerm], node: &impl LabelledNode) -> bool {
    terms.iter().any(|term| term_holds(term, node))
}

/// True if all requirements of a term hold; a term without any holds for no node.
fn term_holds(term: &NodeSelectorTerm, node: &impl LabelledNode) -> bool {
    let empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
    !empty
        && term.match_expressions.iter().all(|requirement| holds(requirement, node))
        && term.match_fields.iter().all(|requirement| field_holds(requirement, node))
}

fn field_holds(requirement: &Requirement, node: &impl LabelledNode) -> bool {
    &*requirement.key == "metadata.name" && requirement_holds(requirement, Some(node.node_name()))
}

/// True if one requirement holds for the value found.
///
/// NotIn holds for an absent key. Gt and Lt hold only when both sides are integers.
/// Source: apimachinery, labels/selector.go, Requirement.Matches.
#[must_use]
pub fn requirement_holds(requirement: &Requirement, found: Option<&str>) -> bool {
    let listed = |found: &str| requirement.values.iter().any(|value| &**value == found);
    match requirement.operator {
        Operator::In => found.is_some_and(listed),
        Operator::NotIn => !found.is_some_and(listed),
        Operator::Exists => found.is_some(),
        Operator::DoesNotExist => found.is_none(),
        Operator::Gt | Operator::Lt => {
            let (Some(found), Some(limit)) =
                (found.and_then(|v| v.parse::<i64>().ok()), single_integer(&requirement.values))
            else {
                return false;
            };
            if requirement.operator == Operator::Gt { limit < found } else { found < limit }
        }
    }
}

fn single_integer(values: &[Arc<str>]) -> Option<i64> {
    match values {
        [value] => value.parse().ok(),
        _ => None,
    }
}

/// True if a label selector selects these labels; an empty one selects everything.
#[must_use]
pub fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        && selector
            .match_expressions
            .iter()
            .all(|requirement| requirement_holds(requirement, labels.get(&requirement.key)))
}

/// The first requirement that fails, in the order of the pod's spec.
fn refuse(affinity: &RequiredNodeAffinity, node: &impl LabelledNode) -> Refusal {
    for term in &affinity.terms {
        for requirement in &term.match_expressions {
            if !holds(requirement, node) {
                return Refusal::NodeAffinity {
                    wanted: words(requirement).into(),
                    key: requirement.key.clone(),
                    found: found(node, &requirement.key),
                };
            }
        }
        for requirement in &term.match_fields {
            if !field_holds(requirement, node) {
                return Refusal::NodeAffinity {
                    wanted: words(requirement).into(),
                    key: requirement.key.clone(),
                    found: Some(node.node_name().into()),
                };
            }
        }
    }
    Refusal::NodeAffinity { wanted: "a term that can match".into(), key: "".into(), found: None }
}

/// Most values of a requirement in a message.
const VALUES_SHOWN_MAX: usize = 16;

/// A requirement as `kubectl` users write set-based selectors; of a long list only the beginning.
fn words(requirement: &Requirement) -> String {
    let shown = requirement.values.iter().take(VALUES_SHOWN_MAX);
    let mut values = shown.map(|v| &**v).collect::<Vec<_>>().join(", ");
    if VALUES_SHOWN_MAX < requirement.values.len() {
        values.push_str(&format!(" and {} more", requirement.values.len() - VALUES_SHOWN_MAX));
    }
    let key = &requirement.key;
    match requirement.operator {
        Operator::In => format!("{key} in ({values})"),
        Operator::NotIn => format!("{key} notin ({values})"),
        Operator::Exists => format!("{key}"),
        Operator::DoesNotExist => format!("!{key}"),
        Operator::Gt => format!("{key} > {values}"),
        Operator::Lt => format!("{key} < {values}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bare(Labels);

    impl LabelledNode for Bare {
        fn node_name(&self) -> &str {
            "n1"
        }
        fn label(&self, key: &str) -> Option<&str> {
            self.0.get(key)
        }
    }

    fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
        Requirement { key: key.into(), operator, values: values.iter().map(|v| Arc::from(*v)).collect() }
    }

    fn affinity(expressions: Vec<Requirement>, fields: Vec<Requirement>) -> RequiredNodeAffinity {
        RequiredNodeAffinity {
            terms: vec![NodeSelectorTerm { match_expressions: expressions, match_fields: fields }],
        }
    }

    #[test]
    fn each_operator_holds_as_kubernetes_says() {
        let holds =
            |operator, values: &[&str], found| requirement_holds(&requirement("k", operator, values), found);
        assert!(holds(Operator::In, &["a", "b"], Some("b")));
        assert!(!holds(Operator::In, &["a"], None));
        assert!(holds(Operator::NotIn, &["a"], None));
        assert!(!holds(Operator::NotIn, &["a"], Some("a")));
        assert!(holds(Operator::Exists, &[], Some("")));
        assert!(holds(Operator::DoesNotExist, &[], None));
        assert!(holds(Operator::Gt, &["4"], Some("5")));
        assert!(!holds(Operator::Gt, &["5"], Some("5")));
        assert!(holds(Operator::Lt, &["5"], Some("-1")));
        assert!(!holds(Operator::Lt, &["5"], Some("few")));
    }

    #[test]
    fn term_without_requirements_matches_no_node() {
        let node = Bare(Labels::default());
        assert!(check(&Labels::default(), Some(&affinity(vec![], vec![])), &node).is_err());
        assert!(check(&Labels::default(), Some(&RequiredNodeAffinity::default()), &node).is_err());
    }

    #[test]
    fn match_fields_know_the_name_only() {
        let node = Bare(Labels::default());
        let by_name = |key: &str, name: &str| affinity(vec![], vec![requirement(key, Operator::In, &[name])]);
        assert!(check(&Labels::default(), Some(&by_name("metadata.name", "n1")), &node).is_ok());
        assert!(check(&Labels::default(), Some(&by_name("metadata.name", "n2")), &node).is_err());
        assert!(check(&Labels::default(), Some(&by_name("metadata.uid", "n1")), &node).is_err());
    }

    #[test]
    fn selector_refusal_says_what_the_node_has() {
        let node = Bare([("zone", "a")].into_iter().collect());
        let refusal = check(&[("zone", "b")].into_iter().collect(), None, &node).expect_err("other zone");
        assert_eq!(refusal.to_string(), "needs zone=b; node has a");
    }
}
