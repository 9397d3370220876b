//! Which nodes the rules of a class accept that depend on the node alone (taints, node selector, required node affinity), each asked
//! once. Answers are kept of nodes of the world only, which stay as they are while a snapshot lasts.

use rustc_hash::FxHashMap;

use crate::scheduling::constraints::{RequiredNodeAffinity, Toleration};
use crate::scheduling::snapshot::{ClassIx, NodeIx, NodeView, Snapshot};
use crate::scheduling::{node_affinity, node_name, taints};
use crate::world::pod::PodClass;
use headroom_values::labels::Labels;

/// Most sets of rules whose answers are kept, a byte a node each. Workloads mostly share a few; with others each look costs what
/// the first one does.
const KEPT_MAX: usize = 64;

/// A set of rules that is not kept: there were [`KEPT_MAX`] before it.
const NOT_KEPT: u32 = u32::MAX;

/// A set of rules that classes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RulesIx(u32);

/// What a class asks of a node itself, amounts apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rules {
    tolerations: Vec<Toleration>,
    node_selector: Labels,
    node_affinity: Option<RequiredNodeAffinity>,
}

/// Answers so far.
#[derive(Debug, Default)]
pub(super) struct OwnRules {
    /// By class, once asked: index into `answers`, or [`NOT_KEPT`].
    of_class: Vec<Option<u32>>,
    indexes: FxHashMap<Rules, u32>,
    /// By rules and node.
    answers: Vec<Vec<Option<bool>>>,
}

impl OwnRules {
    fn answer(&self, class: ClassIx, node: NodeIx) -> Option<bool> {
        let index = self.known_index(class)?;
        *self.answers.get(index as usize)?.get(node.0 as usize)?
    }

    fn keep(&mut self, (class, pod): (ClassIx, &PodClass), node: NodeIx, accepted: bool) {
        let index = self.index(class, pod);
        if let Some(answers) = self.answers.get_mut(index as usize) {
            let at = node.0 as usize;
            if answers.len() <= at {
                answers.resize(at + 1, None);
            }
            answers[at] = Some(accepted);
        }
    }

    fn known_index(&self, class: ClassIx) -> Option<u32> {
        self.of_class.get(class.0 as usize).copied().flatten()
    }

    fn index(&mut self, class: ClassIx, pod: &PodClass) -> u32 {
        if let Some(index) = self.known_index(class) {
            return index;
        }
        let rules = Rules {
            tolerations: pod.tolerations.clone(),
            node_selector: pod.node_selector.clone(),
            node_affinity: pod.node_affinity.clone(),
        };
        let index = match self.indexes.get(&rules) {
            Some(index) => *index,
            None if self.answers.len() == KEPT_MAX => NOT_KEPT,
            None => {
                let index = u32::try_from(self.answers.len()).unwrap_or(NOT_KEPT);
                self.answers.push(Vec::new());
                self.indexes.insert(rules, index);
                index
            }
        };
        let at = class.0 as usize;
        if self.of_class.len() <= at {
            self.of_class.resize(at + 1, None);
        }
        self.of_class[at] = Some(index);
        index
    }
}

impl Snapshot<'_> {
    /// True if the rules that depend on nothing but the class and the node itself hold: neither volumes nor what runs where.
    pub fn own_rules_hold(&mut self, class: ClassIx, node: NodeIx) -> bool {
        if let Some(known) = self.own_rules.answer(class, node) {
            return known;
        }
        let pod = self.class(class).clone();
        let accepted = accepts(&pod, self.node(node));
        if (node.0 as usize) < self.real_count() {
            self.own_rules.keep((class, &pod), node, accepted);
        }
        accepted
    }

    /// The rules of a class that depend on the node alone, which other classes may share; `None` for those whose answers are not kept,
    /// and for those of which each look costs more than one work unit.
    pub fn rules_ix(&mut self, class: ClassIx) -> Option<RulesIx> {
        let index = match self.own_rules.known_index(class) {
            Some(index) => index,
            None => {
                let pod = self.class(class).clone();
                self.own_rules.index(class, &pod)
            }
        };
        (index != NOT_KEPT && self.look_cost(class) == 0).then_some(RulesIx(index))
    }
}

/// True if a class tolerates the taints and the cordon of a node, and asks for labels and a name such as it has.
pub(super) fn accepts(pod: &PodClass, node: &NodeView<'_>) -> bool {
    let tolerated = || {
        node_name::check_unschedulable(node.unschedulable(), &pod.tolerations).is_ok()
            && taints::first_untolerated(node.taints(), &pod.tolerations).is_none()
    };
    let anywhere = pod.node_selector.is_empty() && pod.node_affinity.is_none();
    (node.is_open() || tolerated())
        && (anywhere || node_affinity::matches(&pod.node_selector, pod.node_affinity.as_ref(), node))
}
