//! Index of label selectors by the labels that they may select, so that not each is asked. It evaluates no selector.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::scheduling::constraints::{LabelSelector, Operator};
use headroom_values::labels::Labels;

/// Most values of one requirement under which a selector is filed; beyond that it is filed under the key alone.
const VALUES_MAX: usize = 32;

/// Selectors by a label that they ask for. Ids must be inserted in ascending order.
#[derive(Debug, Default)]
pub(super) struct SelectorIndex {
    by_value: FxHashMap<Arc<str>, FxHashMap<Arc<str>, Vec<u32>>>,
    by_key: FxHashMap<Arc<str>, Vec<u32>>,
    /// Those that ask for no label in particular.
    rest: Vec<u32>,
}

impl SelectorIndex {
    /// Files a selector under the rarest label that it asks for; an absent one selects nothing and is not filed.
    pub(super) fn insert(&mut self, selector: Option<&LabelSelector>, id: u32) {
        let Some(selector) = selector else { return };
        let rarest = selector.match_labels.shared().min_by_key(|(key, value)| self.filed(key, value));
        if let Some((key, value)) = rarest {
            return self.file(key, value, id);
        }
        let of = |operator| selector.match_expressions.iter().find(move |asked| asked.operator == operator);
        if let Some(listed) = of(Operator::In).filter(|listed| listed.values.len() <= VALUES_MAX) {
            listed.values.iter().for_each(|value| self.file(&listed.key, value, id));
        } else if let Some(present) = of(Operator::In).or_else(|| of(Operator::Exists)) {
            self.by_key.entry(present.key.clone()).or_default().push(id);
        } else {
            self.rest.push(id);
        }
    }

    /// Ids from `from` on whose selectors may select these labels, ascending.
    pub(super) fn candidates(&self, labels: &Labels, from: u32) -> Vec<u32> {
        let later = |ids: &[u32]| ids.partition_point(|id| *id < from);
        let mut found = self.rest[later(&self.rest)..].to_vec();
        for (key, value) in labels.iter() {
            let by_value = self.by_value.get(key).and_then(|values| values.get(value));
            for ids in by_value.into_iter().chain(self.by_key.get(key)) {
                found.extend_from_slice(&ids[later(ids)..]);
            }
        }
        found.sort_unstable();
        found
    }

    fn filed(&self, key: &str, value: &str) -> usize {
        self.by_value.get(key).and_then(|values| values.get(value)).map_or(0, Vec::len)
    }

    fn file(&mut self, key: &Arc<str>, value: &Arc<str>, id: u32) {
        let ids = self.by_value.entry(key.clone()).or_default().entry(value.clone()).or_default();
        if ids.last() != Some(&id) {
            ids.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::constraints::Requirement;

    fn selector(labels: &[(&str, &str)], expressions: Vec<Requirement>) -> LabelSelector {
        LabelSelector { match_labels: labels.iter().copied().collect(), match_expressions: expressions }
    }

    fn asks(key: &str, operator: Operator, values: &[&str]) -> Vec<Requirement> {
        vec![Requirement {
            key: key.into(),
            operator,
            values: values.iter().map(|v| Arc::from(*v)).collect(),
        }]
    }

    #[test]
    fn only_selectors_that_may_select_the_labels_are_candidates() {
        let mut index = SelectorIndex::default();
        let selectors = [
            selector(&[("app", "a")], Vec::new()),
            selector(&[("app", "b")], Vec::new()),
            selector(&[], asks("app", Operator::In, &["a", "c", "a"])),
            selector(&[], asks("tier", Operator::Exists, &[])),
            selector(&[], asks("app", Operator::NotIn, &["a"])),
        ];
        for (id, selector) in (0..).zip(&selectors) {
            index.insert(Some(selector), id);
        }
        index.insert(None, 5);
        let candidates =
            |labels: &[(&str, &str)], from| index.candidates(&labels.iter().copied().collect(), from);
        assert_eq!(candidates(&[("app", "a")], 0), [0, 2, 4]);
        assert_eq!(candidates(&[("app", "a")], 1), [2, 4]);
        assert_eq!(candidates(&[("app", "d"), ("tier", "x")], 0), [3, 4]);
    }

    #[test]
    fn a_selector_with_a_long_list_is_filed_once_under_its_key() {
        let values: Vec<String> = (0..100).map(|value| format!("v-{value}")).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let mut index = SelectorIndex::default();
        index.insert(Some(&selector(&[], asks("app", Operator::In, &values))), 0);
        let labels = |key: &str| [(key, "v-7")].into_iter().collect();
        assert_eq!(
            (index.candidates(&labels("app"), 0), index.candidates(&labels("tier"), 0)),
            (vec![0], vec![])
        );
        assert!(index.by_value.is_empty());
    }

    #[test]
    fn selectors_that_share_one_label_are_filed_under_another() {
        let mut index = SelectorIndex::default();
        for id in 0..100 {
            let own = format!("id-{id}");
            index.insert(Some(&selector(&[("app", "flood"), ("id", &own)], Vec::new())), id);
        }
        let labels = [("app", "flood"), ("id", "id-7")].into_iter().collect();
        assert_eq!(index.candidates(&labels, 0), [0, 7]);
    }
}
