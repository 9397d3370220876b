//! Requirements of a pod and properties of a node, each parsed once; it keeps no state and shares no code with the
//! operator.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::devices::DeviceClaim;
use super::neighbours::{self, Neighbours};
use super::quantity::milli;
use crate::store::{at, number, text};

/// Amounts of resources in thousandths (of CPUs, bytes, pods, devices).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Thousandths of a CPU.
    pub cpu: i64,
    /// Thousandths of a byte.
    pub memory: i64,
    /// Thousandths of a byte of ephemeral storage.
    pub storage: i64,
    /// Thousandths of a pod.
    pub pods: i64,
    /// Extended resources by name.
    pub extended: BTreeMap<Arc<str>, i64>,
}

impl Amounts {
    /// Reads a resource list.
    pub(crate) fn of(list: Option<&Value>) -> Amounts {
        let mut amounts = Amounts::default();
        for (name, quantity) in list.and_then(Value::as_object).into_iter().flatten() {
            *amounts.slot(name) = milli(quantity);
        }
        amounts
    }

    fn slot(&mut self, name: &str) -> &mut i64 {
        match name {
            "cpu" => &mut self.cpu,
            "memory" => &mut self.memory,
            "ephemeral-storage" => &mut self.storage,
            "pods" => &mut self.pods,
            other => self.extended.entry(other.into()).or_insert(0),
        }
    }

    /// Adds `sign` times the other amounts.
    pub(crate) fn add(&mut self, other: &Amounts, sign: i64) {
        self.cpu += sign * other.cpu;
        self.memory += sign * other.memory;
        self.storage += sign * other.storage;
        self.pods += sign * other.pods;
        for (name, amount) in &other.extended {
            *self.extended.entry(name.clone()).or_insert(0) += sign * amount;
        }
    }

    fn raise(&mut self, other: &Amounts) {
        self.cpu = self.cpu.max(other.cpu);
        self.memory = self.memory.max(other.memory);
        self.storage = self.storage.max(other.storage);
        for (name, amount) in &other.extended {
            let slot = self.extended.entry(name.clone()).or_insert(0);
            *slot = (*slot).max(*amount);
        }
    }
}

/// Everything about a pod that decides where it may run. Pods of one template share one shape.
#[derive(Debug, Clone, Default)]
pub struct PodShape {
    /// Containers, init containers and overhead, and the pod itself.
    pub requests: Amounts,
    selector: Vec<(String, String)>,
    /// Terms of the required node affinity, of which one must hold; `None` is no affinity.
    affinity: Option<Vec<Term>>,
    tolerations: Vec<Toleration>,
    /// The one node that a DaemonSet's pod is for.
    pub pinned: Option<Arc<str>>,
    /// Requirements on the pods around it.
    pub(crate) neighbours: Neighbours,
    /// Names of the claims that it mounts.
    pub(crate) claims: Vec<Arc<str>>,
    /// Claims of devices.
    pub(crate) device_claims: Vec<DeviceClaim>,
    /// Volumes whose claims are made for each pod, with what the claims ask for.
    pub(crate) ephemeral: Vec<(Arc<str>, Value)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Term(Vec<Expression>);

#[derive(Debug, Clone)]
struct Expression {
    key: String,
    operator: String,
    values: Vec<String>,
    on_name: bool,
}

#[derive(Debug, Clone)]
struct Toleration {
    key: Option<String>,
    operator: String,
    value: String,
    effect: Option<String>,
    seconds: Option<i64>,
}

/// The parts of a pod's spec that its shape is made of, as one text: equal texts, equal shapes.
pub(crate) fn signature(pod: &Value) -> String {
    let mut signature = String::with_capacity(256);
    let part = |path: &[&str], signature: &mut String| {
        if let Some(value) = at(pod, path) {
            signature.push_str(&value.to_string());
        }
        signature.push('|');
    };
    for list in ["containers", "initContainers"] {
        for container in at(pod, &["spec", list]).and_then(Value::as_array).into_iter().flatten() {
            if let Some(requests) = at(container, &["resources", "requests"]) {
                signature.push_str(&requests.to_string());
            }
            signature.push_str(text(container, &["restartPolicy"]).unwrap_or(";"));
        }
        signature.push('|');
    }
    part(&["spec", "overhead"], &mut signature);
    part(&["spec", "nodeSelector"], &mut signature);
    part(
        &["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"],
        &mut signature,
    );
    part(&["spec", "tolerations"], &mut signature);
    neighbours::signature(pod, &mut signature);
    if at(pod, &["spec", "resourceClaims"]).is_some() {
        part(&["metadata", "namespace"], &mut signature);
        part(&["spec", "resourceClaims"], &mut signature);
    }
    if volumes(pod).any(|volume| claim_of(volume).is_some()) {
        // Claims of one name in two namespaces are two claims.
        part(&["metadata", "namespace"], &mut signature);
        part(&["spec", "volumes"], &mut signature);
    }
    signature
}

fn volumes(pod: &Value) -> impl Iterator<Item = &Value> {
    at(pod, &["spec", "volumes"]).and_then(Value::as_array).into_iter().flatten()
}

/// The part of a volume that names or describes its claim.
fn claim_of(volume: &Value) -> Option<&Value> {
    volume.get("persistentVolumeClaim").or_else(|| volume.get("ephemeral"))
}

impl PodShape {
    /// Reads a pod.
    pub(crate) fn of(pod: &Value) -> PodShape {
        let required = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
        let affinity = at(pod, &required).map(|required| {
            let terms = at(required, &["nodeSelectorTerms"]).and_then(Value::as_array);
            terms.into_iter().flatten().map(Term::of).collect::<Vec<Term>>()
        });
        let pinned = affinity.as_ref().and_then(|terms| match terms.as_slice() {
            [Term(expressions)] => {
                expressions.iter().find(|e| e.on_name && e.operator == "In")?.values.first()
            }
            _ => None,
        });
        let pinned = pinned.map(|name| Arc::from(name.as_str()));
        let selector = at(pod, &["spec", "nodeSelector"]).and_then(Value::as_object);
        let tolerations = at(pod, &["spec", "tolerations"]).and_then(Value::as_array);
        PodShape {
            requests: requests(pod),
            selector: selector
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
                .collect(),
            affinity,
            tolerations: tolerations.into_iter().flatten().map(Toleration::of).collect(),
            pinned,
            neighbours: Neighbours::of(pod),
            device_claims: DeviceClaim::of(pod),
            claims: volumes(pod)
                .filter_map(|volume| text(volume, &["persistentVolumeClaim", "claimName"]).map(Arc::from))
                .collect(),
            ephemeral: volumes(pod)
                .filter_map(|volume| {
                    let spec = at(volume, &["ephemeral", "volumeClaimTemplate", "spec"])?;
                    Some((Arc::from(text(volume, &["name"])?), spec.clone()))
                })
                .collect(),
        }
    }

    /// True if it mounts volumes that are claimed, or claims devices.
    pub(crate) fn mounts(&self) -> bool {
        !self.claims.is_empty() || !self.ephemeral.is_empty() || !self.device_claims.is_empty()
    }

    /// Returns the seconds for which a pod of this shape stays with a `NoExecute` taint; `None` is for ever, 0 not at
    /// all.
    pub(crate) fn stays_for_seconds(&self, key: &str) -> Option<i64> {
        let taint = Taint { key: key.to_owned(), value: String::new(), effect: "NoExecute".to_owned() };
        let mut seconds = Some(0);
        for toleration in self.tolerations.iter().filter(|t| t.tolerates(&taint)) {
            seconds = match (seconds, toleration.seconds) {
                (_, None) => return None,
                (Some(0), Some(own)) => Some(own.max(0)),
                (Some(known), Some(own)) => Some(known.min(own.max(0))),
                (None, Some(_)) => return None,
            };
        }
        seconds
    }
}

/// The requests of a pod: the larger of the running sum and of each start-up phase, plus overhead.
///
/// Source: k8s.io/component-helpers/resource PodRequests.
fn requests(pod: &Value) -> Amounts {
    let mut running = Amounts::default();
    for container in at(pod, &["spec", "containers"]).and_then(Value::as_array).into_iter().flatten() {
        running.add(&Amounts::of(at(container, &["resources", "requests"])), 1);
    }
    let mut sidecars = Amounts::default();
    let mut start = Amounts::default();
    for container in at(pod, &["spec", "initContainers"]).and_then(Value::as_array).into_iter().flatten() {
        let own = Amounts::of(at(container, &["resources", "requests"]));
        if text(container, &["restartPolicy"]) == Some("Always") {
            running.add(&own, 1);
            sidecars.add(&own, 1);
            start.raise(&sidecars);
        } else {
            let mut phase = sidecars.clone();
            phase.add(&own, 1);
            start.raise(&phase);
        }
    }
    running.raise(&start);
    running.add(&Amounts::of(at(pod, &["spec", "overhead"])), 1);
    running.pods = 1_000;
    running
}

impl Term {
    pub(super) fn of(term: &Value) -> Term {
        let mut expressions = Vec::new();
        for (list, on_name) in [("matchExpressions", false), ("matchFields", true)] {
            for expression in at(term, &[list]).and_then(Value::as_array).into_iter().flatten() {
                let values = at(expression, &["values"]).and_then(Value::as_array);
                expressions.push(Expression {
                    key: text(expression, &["key"]).unwrap_or_default().to_owned(),
                    operator: text(expression, &["operator"]).unwrap_or_default().to_owned(),
                    values: values
                        .into_iter()
                        .flatten()
                        .filter_map(Value::as_str)
                        .map(str::to_owned)
                        .collect(),
                    on_name,
                });
            }
        }
        Term(expressions)
    }

    /// A term of a storage class's topologies: labels, each with the values that will do.
    pub(super) fn of_topology(term: &Value) -> Term {
        let pairs = at(term, &["matchLabelExpressions"]).and_then(Value::as_array).into_iter().flatten();
        let listed = |pair: &Value| {
            let values = at(pair, &["values"]).and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(Value::as_str);
            Expression::within(text(pair, &["key"]).unwrap_or_default(), values)
        };
        Term(pairs.map(listed).collect())
    }

    /// A label selector; `None` for one that selects everything.
    pub(super) fn of_selector(selector: &Value) -> Option<Term> {
        let mut term = Term::of(selector);
        for (key, value) in at(selector, &["matchLabels"]).and_then(Value::as_object).into_iter().flatten() {
            term.0.push(Expression::within(key, value.as_str().into_iter()));
        }
        (!term.0.is_empty()).then_some(term)
    }

    /// A label with the values that will do.
    pub(super) fn within<'a>(key: &str, values: impl Iterator<Item = &'a str>) -> Term {
        Term(vec![Expression::within(key, values)])
    }

    /// An empty term matches nothing.
    pub(super) fn holds(&self, node: &NodeShape) -> bool {
        !self.0.is_empty() && self.0.iter().all(|expression| expression.holds(node))
    }
}

impl Expression {
    fn within<'a>(key: &str, values: impl Iterator<Item = &'a str>) -> Expression {
        let values = values.map(str::to_owned).collect();
        Expression { key: key.to_owned(), operator: "In".to_owned(), values, on_name: false }
    }

    fn holds(&self, node: &NodeShape) -> bool {
        let found =
            if self.on_name { Some(&*node.name) } else { node.labels.get(&self.key).map(String::as_str) };
        let listed = || found.is_some_and(|value| self.values.iter().any(|each| each == value));
        let compared = |less: bool| {
            let pair = found
                .and_then(|value| Some((value.parse::<i64>().ok()?, self.values.first()?.parse().ok()?)));
            pair.is_some_and(|(own, limit): (i64, i64)| if less { own < limit } else { limit < own })
        };
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            "Gt" => compared(false),
            "Lt" => compared(true),
            _ => false,
        }
    }
}

impl Toleration {
    fn of(toleration: &Value) -> Toleration {
        Toleration {
            key: text(toleration, &["key"]).filter(|key| !key.is_empty()).map(str::to_owned),
            operator: text(toleration, &["operator"]).unwrap_or("Equal").to_owned(),
            value: text(toleration, &["value"]).unwrap_or_default().to_owned(),
            effect: text(toleration, &["effect"]).filter(|effect| !effect.is_empty()).map(str::to_owned),
            seconds: number(toleration, &["tolerationSeconds"]),
        }
    }

    /// Source: k8s.io/api core/v1, toleration.go, ToleratesTaint.
    fn tolerates(&self, taint: &Taint) -> bool {
        let exists = self.operator == "Exists";
        let numbers = || Some((taint.value.parse::<i64>().ok()?, self.value.parse::<i64>().ok()?));
        let value = match self.operator.as_str() {
            "Exists" => true,
            "Lt" => numbers().is_some_and(|(found, limit)| found < limit),
            "Gt" => numbers().is_some_and(|(found, limit)| limit < found),
            _ => self.value == taint.value,
        };
        self.effect.as_ref().is_none_or(|effect| *effect == taint.effect)
            && self.key.as_ref().map_or(exists, |key| *key == taint.key)
            && value
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Taint {
    key: String,
    value: String,
    effect: String,
}

/// Properties of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeShape {
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    unschedulable: bool,
    /// Amounts that pods can use.
    pub allocatable: Amounts,
}

/// Reason why a pod does not go onto a node, in the scheduler's words.
pub(super) type Misfit = &'static str;

impl NodeShape {
    /// Reads a node.
    pub(crate) fn of(node: &Value) -> NodeShape {
        let word = |value: &Value, field: &str| text(value, &[field]).unwrap_or_default().to_owned();
        let taints = at(node, &["spec", "taints"]).and_then(Value::as_array).into_iter().flatten();
        let labels = at(node, &["metadata", "labels"]).and_then(Value::as_object).into_iter().flatten();
        NodeShape {
            name: text(node, &["metadata", "name"]).unwrap_or_default().into(),
            labels: labels
                .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
                .collect(),
            taints: taints
                .map(|t| Taint { key: word(t, "key"), value: word(t, "value"), effect: word(t, "effect") })
                .collect(),
            unschedulable: at(node, &["spec", "unschedulable"]).and_then(Value::as_bool).unwrap_or(false),
            allocatable: Amounts::of(at(node, &["status", "allocatable"])),
        }
    }

    /// True if nothing but room decides; the first reason against it otherwise.
    pub(crate) fn admits(&self, pod: &PodShape) -> Result<(), Misfit> {
        const AFFINITY: Misfit = "node(s) didn't match Pod's node affinity/selector";
        if pod.pinned.as_ref().is_some_and(|pinned| *pinned != self.name) {
            return Err(AFFINITY);
        }
        if self.unschedulable {
            let key = "node.kubernetes.io/unschedulable".to_owned();
            let cordon = Taint { key, value: String::new(), effect: "NoSchedule".to_owned() };
            if !pod.tolerations.iter().any(|toleration| toleration.tolerates(&cordon)) {
                return Err("node(s) were unschedulable");
            }
        }
        if !self.is_tolerated_by(pod) {
            return Err("node(s) had untolerated taint(s)");
        }
        if self.is_selected_by(pod) { Ok(()) } else { Err(AFFINITY) }
    }

    /// True if the pod tolerates all taints that keep pods away.
    pub(crate) fn is_tolerated_by(&self, pod: &PodShape) -> bool {
        let mut hard = self.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule");
        hard.all(|taint| pod.tolerations.iter().any(|toleration| toleration.tolerates(taint)))
    }

    /// Soft taints that the pod does not tolerate.
    pub(crate) fn soft_taints(&self, pod: &PodShape) -> usize {
        let soft = self.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
        soft.filter(|taint| !pod.tolerations.iter().any(|toleration| toleration.tolerates(taint))).count()
    }

    /// True if the pod's node selector and required node affinity hold.
    pub(crate) fn is_selected_by(&self, pod: &PodShape) -> bool {
        let selected = pod.selector.iter().all(|(key, value)| self.labels.get(key) == Some(value));
        selected && pod.affinity.as_ref().is_none_or(|terms| terms.iter().any(|term| term.holds(self)))
    }

    /// True if the requests fit beside `used`; the first resource that is short otherwise.
    pub(crate) fn has_room(&self, used: &Amounts, requests: &Amounts) -> Result<(), Misfit> {
        let short = |used: i64, wanted: i64, there: i64| 0 < wanted && there - used < wanted;
        let has = &self.allocatable;
        if short(used.pods, requests.pods, has.pods) {
            return Err("Too many pods");
        }
        if short(used.cpu, requests.cpu, has.cpu) {
            return Err("Insufficient cpu");
        }
        if short(used.memory, requests.memory, has.memory) {
            return Err("Insufficient memory");
        }
        if short(used.storage, requests.storage, has.storage) {
            return Err("Insufficient ephemeral-storage");
        }
        let get = |amounts: &Amounts, name: &Arc<str>| amounts.extended.get(name).copied().unwrap_or(0);
        let scarce =
            requests.extended.iter().any(|(name, wanted)| short(get(used, name), *wanted, get(has, name)));
        if scarce { Err("Insufficient extended resources") } else { Ok(()) }
    }
}
