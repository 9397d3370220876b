//! Workloads of the cluster, the object that scales each, and those that must yield: resolved from policies and HPAs.
//! Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::labels::ObjectKey;
use headroom_core::pods::amount::Amount;
use headroom_core::pods::defaulting;
use headroom_core::pods::formula::{Formula, Variable};
use headroom_core::pods::input::Options;
use headroom_core::pods::schedules::{Fallback, FallbackDirection, FallbackReplicas, Schedule};
use headroom_core::pods::spec::{HpaSpec, ScaleTargetRef};
use headroom_core::pods::zero::ZeroRules;
use headroom_core::time::UnixTime;
use serde_json::{Value, json};

use super::homes::{Homes, Hpas, Policies};
use super::questions::{Query, in_v2, query};
use super::seconds;
use super::state::without_nulls;
use super::timing::Timing;
use crate::actuate::scale::ScaleTarget;
use headroom_api::common::Quantity;
use headroom_api::conditions::reasons;
use headroom_api::metric::{self, MetricSpec};
use headroom_api::validate::{
    TO_ZERO_AFTER, ValidatedScaling, ValidatedTarget, ValidatedTiming, ValidatedWorkloads, validate_scaling,
};
use headroom_api::{
    FallbackDirection as Direction, HpaOwnership, Mode, PolicyObject, ScalingPolicySpec, SelectionStrategy,
};
use headroom_observe::HpaObject;

/// A policy, and everything in it that decisions are made with.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The policy.
    pub key: ObjectKey,
    /// Its unique id: another policy of the same name has another memory.
    pub uid: Arc<str>,
    /// The edits of it that are known.
    pub generation: i64,
    /// True if the operator acts.
    pub mode: Mode,
    /// The HPA whose workload it is; none for a policy with metrics of its own.
    pub hpa: Option<ObjectKey>,
    /// Spec for the decisions, defaulted.
    pub spec: HpaSpec,
    /// For each metric the question to a declared server, if it is asked there; the spec has an External metric then.
    pub queries: Vec<Option<Query>>,
    /// Other bounds at certain times.
    pub schedules: Vec<Schedule>,
    /// Behavior while the metrics are unknown.
    pub fallback: Option<Fallback>,
    /// Rules for 0 replicas; none for the workload of an HPA, which keeps upstream's.
    pub zero: Option<ZeroRules>,
    /// Formula over those metrics that have a name.
    pub formula: Option<Formula>,
    /// Pods that count as its own.
    pub selection: SelectionStrategy,
    /// Times by which it is evaluated.
    pub timing: Timing,
    /// Whether it may have one replica more while a node is drained.
    pub surge: SurgeLeave,
    /// The object that is scaled; none while nothing is known of it.
    pub target: Option<ScaleTarget>,
    /// True if it is the one who scales its target.
    pub phase: WorkloadPhase,
}

impl Workload {
    /// Message for its policy about settings that are not used as they are.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let surge = (self.surge == SurgeLeave::NotInShards).then(|| {
            "spec.disruption.surge is not used: workloads are divided into shards (--workload-shards)"
                .to_owned()
        });
        let notes: Vec<String> = self.timing.note().into_iter().chain(surge).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// The options of a decision on it, from those of all: its own times, and rules that suit how its pods are counted.
    #[must_use]
    pub fn options(&self, cluster: &Options) -> Options {
        let steady_in_rollouts = self.selection == SelectionStrategy::OwnerReferences;
        Options { steady_in_rollouts, ..self.timing.options(cluster) }
    }
}

/// Whether a workload may have one replica more while a node is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurgeLeave {
    /// Its policy does not ask for it.
    NotAsked,
    /// It may.
    Granted,
    /// Its policy asks for it in vain: with shards the node loop may be in another process.
    NotInShards,
}

/// True if a policy is the one who scales its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadPhase {
    /// It is.
    Owner,
    /// Only an edit helps: the condition's reason, and what is wrong with the fix.
    Stalled(&'static str, String),
    /// Another owner has the target: which, and why it comes first.
    Conflict(String),
    /// It cannot be used: each field with its fix.
    Invalid(String),
}

/// All workloads, and what is to be done about policies that the operator keeps itself.
#[derive(Clone, Debug, Default)]
pub struct ResolvedWorkloads {
    /// Every policy that something is decided by.
    pub workloads: BTreeMap<ObjectKey, Arc<Workload>>,
    /// The policies of HPAs.
    pub homes: Homes,
}

/// Somebody who wants to scale a target; the least one gets it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claimant {
    /// Before all others: an HPA that the controller-manager runs asks nobody.
    unyielding: std::cmp::Reverse<bool>,
    created_at: UnixTime,
    name: String,
}

impl Claimant {
    /// Returns the message for the policy of `loser`, whose workload this claimant has.
    fn conflict(&self, target: &ScaleTarget, loser: &Self) -> String {
        let ScaleTarget { kind, name, .. } = target;
        let winner = &self.name;
        match (self.unyielding.0, loser.unyielding.0) {
            (true, true) => format!(
                "{kind} {name} is scaled by {winner} too, and the controller-manager runs both HorizontalPodAutoscalers: \
                 delete one of the two"
            ),
            (true, false) => format!(
                "{kind} {name} is scaled by {winner}: while workloads.hpaOwnership is Observe, the controller-manager runs \
                 each HorizontalPodAutoscaler, also one that is newer than this policy: delete one of the two"
            ),
            (false, _) => {
                let why = match self.created_at < loser.created_at {
                    true => "is older",
                    false => "was created in the same second and comes first by name",
                };
                format!("{kind} {name} is scaled by {winner}, which {why}: delete one of the two")
            }
        }
    }
}

impl ResolvedWorkloads {
    /// Workloads that may have one replica more while a node is drained.
    #[must_use]
    pub fn surging(&self) -> Vec<ObjectKey> {
        let granted = self.workloads.iter().filter(|(_, workload)| workload.surge == SurgeLeave::Granted);
        granted.map(|(key, _)| key.clone()).collect()
    }

    /// Lets no workload have one replica more while a node is drained: with shards the node loop may be in another process.
    pub fn without_surges(&mut self) {
        let granted = |workload: &&mut Arc<Workload>| workload.surge == SurgeLeave::Granted;
        for workload in self.workloads.values_mut().filter(granted) {
            Arc::make_mut(workload).surge = SurgeLeave::NotInShards;
        }
    }

    /// Turns every applied workload into a dry run.
    pub fn preview(&mut self) {
        for workload in self.workloads.values_mut().filter(|workload| workload.mode == Mode::Apply) {
            Arc::make_mut(workload).mode = Mode::Preview;
        }
    }
}

/// Holds policies and HPAs against each other. A policy in mode Preview writes nothing and so contests nobody; an HPA
/// that the controller-manager runs is written by that, whatever its policy is.
#[must_use]
pub fn resolve(policies: &Policies, hpas: &Hpas, settings: &ValidatedWorkloads) -> ResolvedWorkloads {
    let (ownership, most) = (settings.ownership, settings.max_policies_per_namespace);
    let mut homes = Homes::find(policies, hpas);
    let beyond = beyond(policies, &mut homes, most);
    let mut resolved = ResolvedWorkloads { homes, ..ResolvedWorkloads::default() };
    let mut claims: BTreeMap<ScaleTarget, Vec<(Claimant, Option<ObjectKey>)>> = BTreeMap::new();
    for (key, policy) in policies {
        if resolved.homes.idle.contains(key) {
            continue;
        }
        let (mut workload, claimant) = read(key, policy, hpas, &resolved.homes.of_hpa, settings);
        if beyond.contains(key) && workload.phase == WorkloadPhase::Owner {
            workload.phase = too_many(most);
        }
        if let (Some(target), Some(claimant)) = (&workload.target, claimant)
            && workload.phase == WorkloadPhase::Owner
            && workload.mode != Mode::Preview
        {
            claims.entry(target.clone()).or_default().push((claimant, Some(key.clone())));
        }
        resolved.workloads.insert(key.clone(), Arc::new(workload));
    }
    if ownership == HpaOwnership::Observe {
        let claimed = |hpa: &HpaObject| {
            let home = resolved.homes.of_hpa.get(&hpa.key).and_then(|home| resolved.workloads.get(home));
            home.is_some_and(|home| home.phase == WorkloadPhase::Owner && home.mode != Mode::Preview)
        };
        for hpa in hpas.values().filter(|hpa| !hpa.deleting && !claimed(hpa)) {
            let target = read_spec(&hpa.spec).ok();
            let target = target.and_then(|spec| target_of(&spec.scale_target_ref, &hpa.key.namespace));
            if let Some(target) = target {
                claims.entry(target).or_default().push((claimant_of(hpa, ownership), None));
            }
        }
    }
    for (target, mut claimants) in claims {
        claimants.sort();
        let Some((winner, _)) = claimants.first().cloned() else { continue };
        for (loser, key) in claimants.into_iter().skip(1) {
            if let Some(workload) = key.and_then(|key| resolved.workloads.get_mut(&key)) {
                Arc::make_mut(workload).phase = WorkloadPhase::Conflict(winner.conflict(&target, &loser));
            }
        }
    }
    resolved
}

/// The newest policies of each namespace that are beyond the most that it may have. No further ones are made there.
fn beyond(policies: &Policies, homes: &mut Homes, most: usize) -> BTreeSet<ObjectKey> {
    let mut by_namespace: BTreeMap<&str, Vec<(UnixTime, &ObjectKey)>> = BTreeMap::new();
    for (key, policy) in policies {
        by_namespace.entry(&key.namespace).or_default().push((policy.created_at, key));
    }
    let mut beyond = BTreeSet::new();
    let mut counts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for (namespace, mut all) in by_namespace {
        counts.insert(namespace.into(), all.len());
        if most < all.len() {
            all.sort();
            beyond.extend(all.into_iter().skip(most).map(|(_, key)| key.clone()));
        }
    }
    homes.homeless.retain(|hpa| {
        let count = counts.entry(hpa.key.namespace.clone()).or_default();
        *count += 1;
        *count <= most
    });
    beyond
}

fn too_many(most: usize) -> WorkloadPhase {
    let text = format!(
        "the namespace has more than {most} ScalingPolicies, and this one is among the newest: delete some, or raise \
         workloads.maxPoliciesPerNamespace of the ClusterScalingPolicy"
    );
    WorkloadPhase::Stalled(reasons::TOO_MANY_POLICIES, text)
}

fn read(
    key: &ObjectKey,
    policy: &PolicyObject<ScalingPolicySpec>,
    hpas: &Hpas,
    homes: &BTreeMap<ObjectKey, ObjectKey>,
    settings: &ValidatedWorkloads,
) -> (Workload, Option<Claimant>) {
    let mut workload = Workload {
        key: key.clone(),
        uid: policy.uid.clone(),
        generation: policy.generation,
        mode: Mode::Apply,
        hpa: None,
        spec: HpaSpec::default(),
        queries: Vec::new(),
        schedules: Vec::new(),
        fallback: None,
        zero: None,
        formula: None,
        selection: SelectionStrategy::default(),
        timing: Timing::of(ValidatedTiming::default(), settings),
        surge: SurgeLeave::NotAsked,
        target: None,
        phase: WorkloadPhase::Owner,
    };
    let validated = match policy.spec.as_ref().map(validate_scaling) {
        Ok(Ok(validated)) => validated,
        Ok(Err(errors)) => {
            let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
            workload.phase = WorkloadPhase::Invalid(words.join("; "));
            return (workload, None);
        }
        Err(problem) => {
            workload.phase = WorkloadPhase::Invalid(format!("spec: it cannot be read: {problem}"));
            return (workload, None);
        }
    };
    let ValidatedScaling { mode, target, schedules, fallback, selection, timing, surge } = validated;
    workload.mode = mode;
    workload.selection = selection;
    workload.surge = if surge { SurgeLeave::Granted } else { SurgeLeave::NotAsked };
    workload.timing = Timing::of(timing, settings);
    let has_timing = timing != ValidatedTiming::default();
    workload.schedules = schedules
        .into_iter()
        .map(|schedule| Schedule {
            name: schedule.name.into(),
            window: schedule.window,
            min_replicas: schedule.min,
            max_replicas: schedule.max,
        })
        .collect();
    workload.fallback = fallback.map(|fallback| Fallback {
        after: seconds(fallback.after),
        replicas: match fallback.replicas {
            None => FallbackReplicas::Hold,
            Some(count) => FallbackReplicas::Replicas {
                count,
                direction: match fallback.direction {
                    Direction::Up => FallbackDirection::Up,
                    Direction::Both => FallbackDirection::Both,
                },
            },
        },
    });
    let claimant = match target {
        ValidatedTarget::Hpa(name) => {
            let hpa = ObjectKey::new(key.namespace.clone(), name);
            workload.hpa = Some(hpa.clone());
            let found = hpas.get(&hpa).map(|hpa| &**hpa);
            match judge_hpa(&mut workload, found, homes.get(&hpa), (settings.ownership, has_timing)) {
                Ok(claimant) => Some(claimant),
                Err(phase) => {
                    workload.phase = phase;
                    None
                }
            }
        }
        ValidatedTarget::Scale { object, min, max, metrics, formula, behavior } => {
            let reference = json!({"apiVersion": object.api_version.as_deref().unwrap_or("v1"),
                "kind": object.kind, "name": object.name});
            workload.queries = metrics.iter().map(|metric| query(metric, key)).collect();
            workload.zero = Some(zero_rules(&metrics, formula.as_ref(), timing));
            let spec = json!({"scaleTargetRef": reference, "minReplicas": min, "maxReplicas": max,
                "metrics": metrics.iter().map(in_v2).collect::<Vec<_>>(), "behavior": behavior});
            let formula = formula.as_ref().map(|formula| read_formula(formula, &metrics)).transpose();
            match (read_spec(&spec), formula) {
                (Ok(spec), Ok(formula)) => (workload.spec, workload.formula) = (spec, formula),
                (Err(problem), _) | (_, Err(problem)) => {
                    workload.phase = WorkloadPhase::Invalid(format!("spec: {problem}"));
                }
            }
            Some(Claimant {
                unyielding: std::cmp::Reverse(false),
                created_at: policy.created_at,
                name: format!("ScalingPolicy {key}"),
            })
        }
    };
    workload.target = target_of(&workload.spec.scale_target_ref, &key.namespace);
    (workload, claimant)
}

/// Takes over the HPA's spec, or returns why this policy does not scale by it.
fn judge_hpa(
    workload: &mut Workload,
    hpa: Option<&HpaObject>,
    home: Option<&ObjectKey>,
    (ownership, has_timing): (HpaOwnership, bool),
) -> Result<Claimant, WorkloadPhase> {
    let Some(hpa) = hpa.filter(|hpa| !hpa.deleting) else {
        let name = workload.hpa.as_ref().map(|hpa| hpa.name.to_string()).unwrap_or_default();
        let text = format!(
            "there is no HorizontalPodAutoscaler {name} in this namespace: correct spec.target.hpa.name"
        );
        return Err(WorkloadPhase::Stalled(reasons::HPA_NOT_FOUND, text));
    };
    if let Some(home) = home.filter(|home| **home != workload.key) {
        let text = format!(
            "HorizontalPodAutoscaler {} has the older ScalingPolicy {}: delete one of the two",
            hpa.key.name, home.name
        );
        return Err(WorkloadPhase::Conflict(text));
    }
    match read_spec(&hpa.spec) {
        Ok(spec) => workload.spec = spec,
        Err(problem) => {
            return Err(WorkloadPhase::Invalid(format!(
                "the spec of the HorizontalPodAutoscaler cannot be read: {problem}"
            )));
        }
    }
    workload.queries = vec![None; workload.spec.metrics.len()];
    let by_owner = workload.selection == SelectionStrategy::OwnerReferences;
    let adds = has_timing || by_owner || !workload.schedules.is_empty() || workload.fallback.is_some();
    if ownership == HpaOwnership::Observe && adds {
        let text = "schedules, fallback, timing and selectionStrategy OwnerReferences need an HPA that the operator runs: set \
                    workloads.hpaOwnership of the ClusterScalingPolicy to Replace, or use a target of type Scale instead of \
                    the HPA";
        workload.target = None;
        return Err(WorkloadPhase::Stalled(reasons::HPA_NOT_OWNED, text.to_owned()));
    }
    Ok(claimant_of(hpa, ownership))
}

fn claimant_of(hpa: &HpaObject, ownership: HpaOwnership) -> Claimant {
    Claimant {
        unyielding: std::cmp::Reverse(ownership == HpaOwnership::Observe),
        created_at: hpa.created_at,
        name: format!("HorizontalPodAutoscaler {}", hpa.key),
    }
}

/// A spec in the words of autoscaling/v2, defaulted.
fn read_spec(spec: &Value) -> Result<HpaSpec, String> {
    let spec: HpaSpec = serde_json::from_value(without_nulls(spec)).map_err(|error| error.to_string())?;
    Ok(defaulting::defaulted(&spec))
}

/// The formula for the decision, over these metrics.
fn read_formula(formula: &metric::Formula, metrics: &[MetricSpec]) -> Result<Formula, String> {
    let metric::Formula { expression, target, activation: _ } = formula;
    let target = serde_json::from_value(without_nulls(&json!(target))).map_err(|error| error.to_string())?;
    let variable = |metric: &MetricSpec| {
        let instead = metric.fallback_value.as_ref().and_then(|text| Amount::parse(&text.0).ok());
        Some(Variable { name: metric.name.as_deref()?.into(), instead })
    };
    let variables = metrics.iter().map(variable).collect();
    Ok(Formula { expression: expression.clone(), variables, target })
}

/// The rules for 0 replicas of a policy with these metrics.
fn zero_rules(
    metrics: &[MetricSpec],
    formula: Option<&metric::Formula>,
    timing: ValidatedTiming,
) -> ZeroRules {
    // A number that cannot be read has been refused before.
    let read = |text: &Quantity| Amount::parse(&text.0).unwrap_or_default();
    let of_formula = formula.map(|formula| formula.activation.as_ref());
    let written: Vec<Option<&Quantity>> =
        metrics.iter().map(|metric| metric.activation.as_ref()).chain(of_formula).collect();
    ZeroRules {
        after: seconds(timing.to_zero_after.unwrap_or(TO_ZERO_AFTER)),
        activations: match written.iter().any(Option::is_some) {
            true => written.into_iter().map(|text| text.map(read).unwrap_or_default()).collect(),
            false => Vec::new(),
        },
    }
}

/// The object that a reference names; none where its apiVersion cannot be read.
fn target_of(reference: &ScaleTargetRef, namespace: &Arc<str>) -> Option<ScaleTarget> {
    let (group, version) = reference.api_version.split_once('/').unwrap_or(("", &reference.api_version));
    let readable = !version.contains('/') && !reference.kind.is_empty();
    readable.then(|| ScaleTarget {
        group: group.into(),
        kind: reference.kind.as_str().into(),
        namespace: namespace.clone(),
        name: reference.name.as_str().into(),
    })
}

#[cfg(test)]
mod tests;
