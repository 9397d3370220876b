//! Requirements of a pod on the pods around it: affinity, anti-affinity and spread, as the scheduler filters nodes by
//! them. It shares no code with the operator, so that an error in one of them shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::fit::{NodeShape, PodShape};
use crate::store::{at, number, text};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// The required rules of a pod about other pods, and what others' rules are asked with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Neighbours {
    namespace: String,
    labels: BTreeMap<String, String>,
    affinity: Vec<Term>,
    anti_affinity: Vec<Term>,
    spread: Vec<Spread>,
}

#[derive(Debug, Clone)]
struct Term {
    key: String,
    selector: Selector,
    /// `None` is all namespaces.
    namespaces: Option<Vec<String>>,
}

#[derive(Debug, Clone)]
struct Spread {
    key: String,
    selector: Selector,
    max_skew: i64,
    min_domains: usize,
    /// True if nodes that the pod does not select count too.
    all_nodes: bool,
    /// True if nodes with taints that the pod does not tolerate are left out.
    honours_taints: bool,
}

/// A label selector: all of its expressions hold. None at all selects everything.
#[derive(Debug, Clone, Default)]
struct Selector(Vec<(String, String, Vec<String>)>);

/// Reason why the pods around keep a pod off a node.
pub(crate) type Quarrel = &'static str;

impl Neighbours {
    /// Reads a pod.
    pub(crate) fn of(pod: &Value) -> Neighbours {
        let labels: BTreeMap<String, String> = words(at(pod, &["metadata", "labels"]));
        let namespace = text(pod, &["metadata", "namespace"]).unwrap_or_default().to_owned();
        let terms = |kind: &str| {
            let list = at(pod, &["spec", "affinity", kind, REQUIRED]).and_then(Value::as_array);
            list.into_iter().flatten().map(|term| Term::of(term, &namespace, &labels)).collect()
        };
        let spread = at(pod, &["spec", "topologySpreadConstraints"]).and_then(Value::as_array);
        let hard = |rule: &&Value| text(rule, &["whenUnsatisfiable"]) == Some("DoNotSchedule");
        Neighbours {
            affinity: terms("podAffinity"),
            anti_affinity: terms("podAntiAffinity"),
            spread: spread.into_iter().flatten().filter(hard).map(|rule| Spread::of(rule, &labels)).collect(),
            namespace,
            labels,
        }
    }

    /// True if the pod looks at others at all.
    pub(crate) fn asks(&self) -> bool {
        !(self.affinity.is_empty() && self.anti_affinity.is_empty() && self.spread.is_empty())
    }

    /// True if the pod keeps others away.
    pub(crate) fn repels(&self) -> bool {
        !self.anti_affinity.is_empty()
    }
}

/// The parts of a pod that its neighbours are made of, as one text.
pub(crate) fn signature(pod: &Value, signature: &mut String) {
    let rules: [&[&str]; 5] = [
        &["metadata", "namespace"],
        &["metadata", "labels"],
        &["spec", "affinity", "podAffinity"],
        &["spec", "affinity", "podAntiAffinity"],
        &["spec", "topologySpreadConstraints"],
    ];
    for path in rules {
        if let Some(value) = at(pod, path) {
            signature.push_str(&value.to_string());
        }
        signature.push('|');
    }
}

/// Pods with the nodes they are on, as one pod that looks for a place sees them.
pub(crate) struct Around<'a> {
    pod: &'a PodShape,
    placed: Vec<(&'a PodShape, &'a NodeShape)>,
    /// Matching pods in each domain that has a node which counts, one table a spread rule.
    spreads: Vec<BTreeMap<&'a str, i64>>,
    /// True if no pod anywhere matches all affinity terms of this one, and it matches them itself.
    first_of_its_kind: bool,
}

impl<'a> Around<'a> {
    /// Looks around from the point of view of `pod`.
    pub(crate) fn of(
        pod: &'a PodShape,
        placed: impl Iterator<Item = (&'a PodShape, &'a NodeShape)>,
        nodes: impl Iterator<Item = &'a NodeShape>,
    ) -> Around<'a> {
        let placed: Vec<(&PodShape, &NodeShape)> = placed.collect();
        let own = &pod.neighbours;
        let nodes: Vec<&NodeShape> = if own.spread.is_empty() { Vec::new() } else { nodes.collect() };
        let has_all_keys =
            |node: &NodeShape| own.spread.iter().all(|rule| node.labels.contains_key(&rule.key));
        let spreads = own.spread.iter().map(|rule| {
            let mut counts = BTreeMap::new();
            let counted = |node: &NodeShape| has_all_keys(node) && rule.counts(pod, node);
            for node in nodes.iter().filter(|node| counted(node)) {
                counts.entry(node.labels[&rule.key].as_str()).or_insert(0);
            }
            for (other, node) in placed.iter().filter(|(_, node)| counted(node)) {
                if other.neighbours.namespace == own.namespace
                    && rule.selector.selects(&other.neighbours.labels)
                {
                    *counts.entry(node.labels[&rule.key].as_str()).or_insert(0) += 1;
                }
            }
            counts
        });
        let spreads = spreads.collect();
        let matches_all = |other: &PodShape| own.affinity.iter().all(|term| term.matches(&other.neighbours));
        let first_of_its_kind = !own.affinity.is_empty()
            && matches_all(pod)
            && !placed.iter().any(|(other, _)| matches_all(other));
        Around { pod, spreads, first_of_its_kind, placed }
    }

    /// True if the pods around let the pod onto `node`; the first reason against it otherwise.
    ///
    /// Source: kube-scheduler, interpodaffinity/filtering.go and podtopologyspread/filtering.go.
    pub(crate) fn allow(&self, node: &NodeShape) -> Result<(), Quarrel> {
        self.spread_allows(node)?;
        let own = &self.pod.neighbours;
        for term in &own.affinity {
            let Some(domain) = node.labels.get(&term.key) else {
                return Err("node(s) didn't match pod affinity rules");
            };
            let met = self.placed.iter().any(|(other, there)| {
                there.labels.get(&term.key) == Some(domain)
                    && own.affinity.iter().all(|term| term.matches(&other.neighbours))
            });
            if !met && !self.first_of_its_kind {
                return Err("node(s) didn't match pod affinity rules");
            }
        }
        let same_domain = |term: &Term, there: &NodeShape| {
            node.labels.get(&term.key).is_some_and(|domain| there.labels.get(&term.key) == Some(domain))
        };
        for (other, there) in &self.placed {
            let avoids = |term: &Term| same_domain(term, there) && term.matches(&other.neighbours);
            if own.anti_affinity.iter().any(avoids) {
                return Err("node(s) didn't match pod anti-affinity rules");
            }
            let avoided = |term: &Term| same_domain(term, there) && term.matches(own);
            if other.neighbours.anti_affinity.iter().any(avoided) {
                return Err("node(s) didn't satisfy existing pods anti-affinity rules");
            }
        }
        Ok(())
    }

    fn spread_allows(&self, node: &NodeShape) -> Result<(), Quarrel> {
        let own = &self.pod.neighbours;
        for (rule, counts) in own.spread.iter().zip(&self.spreads) {
            let Some(domain) = node.labels.get(&rule.key) else {
                return Err("node(s) didn't match pod topology spread constraints (missing required label)");
            };
            let lowest = counts.values().min().copied().unwrap_or(0);
            let lowest = if counts.len() < rule.min_domains { 0 } else { lowest };
            let here = counts.get(domain.as_str()).copied().unwrap_or(0);
            let itself = i64::from(rule.selector.selects(&own.labels));
            if rule.max_skew < here + itself - lowest {
                return Err("node(s) didn't match pod topology spread constraints");
            }
        }
        Ok(())
    }
}

impl Term {
    /// A selector of namespaces knows them by their names only: the simulated cluster keeps no other labels of them.
    fn of(term: &Value, own_namespace: &str, own_labels: &BTreeMap<String, String>) -> Term {
        let listed = at(term, &["namespaces"]).and_then(Value::as_array);
        let mut namespaces: Vec<String> =
            listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let selector = at(term, &["namespaceSelector"]);
        let named =
            selector.and_then(|selector| text(selector, &["matchLabels", "kubernetes.io/metadata.name"]));
        namespaces.extend(named.map(str::to_owned));
        let all = selector.and_then(Value::as_object).is_some_and(serde_json::Map::is_empty);
        if namespaces.is_empty() && selector.is_none() {
            namespaces.push(own_namespace.to_owned());
        }
        let mut labels = Selector::of(at(term, &["labelSelector"]));
        labels.with_keys(term, "matchLabelKeys", "In", own_labels);
        labels.with_keys(term, "mismatchLabelKeys", "NotIn", own_labels);
        Term {
            key: text(term, &["topologyKey"]).unwrap_or_default().to_owned(),
            selector: labels,
            namespaces: if all { None } else { Some(namespaces) },
        }
    }

    fn matches(&self, other: &Neighbours) -> bool {
        self.namespaces.as_ref().is_none_or(|names| names.contains(&other.namespace))
            && self.selector.selects(&other.labels)
    }
}

impl Spread {
    fn of(rule: &Value, own_labels: &BTreeMap<String, String>) -> Spread {
        let mut selector = Selector::of(at(rule, &["labelSelector"]));
        selector.with_keys(rule, "matchLabelKeys", "In", own_labels);
        Spread {
            key: text(rule, &["topologyKey"]).unwrap_or_default().to_owned(),
            selector,
            max_skew: number(rule, &["maxSkew"]).unwrap_or(1),
            min_domains: number(rule, &["minDomains"]).and_then(|count| count.try_into().ok()).unwrap_or(1),
            all_nodes: text(rule, &["nodeAffinityPolicy"]) == Some("Ignore"),
            honours_taints: text(rule, &["nodeTaintsPolicy"]) == Some("Honor"),
        }
    }

    fn counts(&self, pod: &PodShape, node: &NodeShape) -> bool {
        (self.all_nodes || node.is_selected_by(pod)) && (!self.honours_taints || node.is_tolerated_by(pod))
    }
}

impl Selector {
    fn of(selector: Option<&Value>) -> Selector {
        // No selector selects nothing.
        let Some(selector) = selector else {
            return Selector(vec![(String::new(), "Never".to_owned(), Vec::new())]);
        };
        let pairs = words(at(selector, &["matchLabels"]));
        let mut all: Vec<_> =
            pairs.into_iter().map(|(key, value)| (key, "In".to_owned(), vec![value])).collect();
        let expressions = at(selector, &["matchExpressions"]).and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let values = at(expression, &["values"]).and_then(Value::as_array);
            let values = values.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
            let word = |field: &str| text(expression, &[field]).unwrap_or_default().to_owned();
            all.push((word("key"), word("operator"), values));
        }
        Selector(all)
    }

    /// Adds the pod's own values of the labels that `field` of a rule names; those it does not have are left out.
    fn with_keys(&mut self, rule: &Value, field: &str, operator: &str, own: &BTreeMap<String, String>) {
        let keys = at(rule, &[field]).and_then(Value::as_array).into_iter().flatten();
        for key in keys.filter_map(Value::as_str) {
            if let Some(value) = own.get(key) {
                self.0.push((key.to_owned(), operator.to_owned(), vec![value.clone()]));
            }
        }
    }

    fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(key, operator, values)| {
            let found = labels.get(key);
            match operator.as_str() {
                "In" => found.is_some_and(|value| values.contains(value)),
                "NotIn" => found.is_none_or(|value| !values.contains(value)),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
    }
}

fn words(map: Option<&Value>) -> BTreeMap<String, String> {
    let map = map.and_then(Value::as_object).into_iter().flatten();
    map.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

/// A pod's place among others: how many of those that are placed keep others away.
#[derive(Debug, Default)]
pub(crate) struct Repellents(usize);

impl Repellents {
    /// A pod of this shape has come.
    pub(crate) fn came(&mut self, shape: &Arc<PodShape>) {
        self.0 += usize::from(shape.neighbours.repels());
    }

    /// A pod of this shape has gone.
    pub(crate) fn went(&mut self, shape: &Arc<PodShape>) {
        self.0 -= usize::from(shape.neighbours.repels());
    }

    /// True if a pod must look around before it takes a place.
    pub(crate) fn concern(&self, shape: &PodShape) -> bool {
        self.0 != 0 || shape.neighbours.asks()
    }
}
