//! Inputs of the last evaluation of each workload, kept for later questions. It decides only on these inputs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headroom_core::labels::ObjectKey;
use headroom_core::pods::decision::Decision;
use headroom_core::pods::input::{Answer, Input, Options, PodSeen, Scale};
use headroom_core::pods::memory::Memory;
use headroom_core::pods::moment::Moment;
use headroom_core::pods::record::{DecisionInput, Leave, Reading, ReplicaRecord, Undecided};
use headroom_core::pods::status::HpaStatus;
use headroom_core::pods::surge::{self, SurgeWish};

use super::gather::{Gathered, answers};
use super::resolve::Workload;

/// Everything that one decision reads. What is shared with others is held, not copied: one is kept for each workload.
#[derive(Clone, Debug)]
pub struct EvaluationInput {
    /// The policy, and what decisions are made by.
    pub workload: Arc<Workload>,
    /// True if a change may be made.
    pub leave: Leave,
    /// The instant.
    pub now: Moment,
    /// Settings of the cluster.
    pub options: Options,
    /// The status as it is stored.
    pub status: HpaStatus,
    /// Memory of the workload.
    pub memory: Memory,
    /// The scale, or why it could not be read.
    pub scale: Result<Scale, String>,
    /// The pods of the scale's selector.
    pub pods: Vec<Arc<PodSeen>>,
    /// Wish for one replica more while a node is drained.
    pub surge: SurgeWish,
    /// Other HPAs over the same pods.
    pub rivals: Vec<Arc<str>>,
    /// One answer a metric.
    pub gathered: Vec<Gathered>,
}

impl EvaluationInput {
    /// The decision.
    #[must_use]
    pub fn decide(&self) -> Decision {
        let pods: Vec<&PodSeen> = self.pods.iter().map(|pod| &**pod).collect();
        let answers = answers(&self.gathered, &self.pods);
        let input = Input {
            now: self.now,
            options: &self.options,
            spec: &self.workload.spec,
            schedules: &self.workload.schedules,
            fallback: self.workload.fallback.as_ref(),
            zero: self.workload.zero.as_ref(),
            formula: self.workload.formula.as_ref(),
            namespace: &self.workload.key.namespace,
            status: &self.status,
            memory: &self.memory,
            scale: self.scale.as_ref().map_err(String::as_str),
            pods: &pods,
            rivals: &self.rivals,
            answers: &answers,
        };
        surge::decide(&input, self.surge)
    }

    /// The same as a value of its own: of the usage of a namespace only that of the workload's pods.
    #[must_use]
    pub fn input(&self) -> DecisionInput {
        let Self { workload, leave, now, options, status, memory, scale, pods, surge, rivals, gathered } =
            self;
        DecisionInput {
            policy: workload.key.clone(),
            hpa: workload.hpa.as_ref().map(|hpa| Arc::from(&*hpa.name)),
            leave: *leave,
            now: *now,
            options: options.clone(),
            spec: workload.spec.clone(),
            schedules: workload.schedules.clone(),
            fallback: workload.fallback,
            zero: workload.zero.clone(),
            formula: workload.formula.clone(),
            status: status.clone(),
            memory: memory.clone(),
            scale: scale.clone(),
            pods: pods.clone(),
            surge: *surge,
            rivals: rivals.clone(),
            readings: answers(gathered, pods).into_iter().map(reading).collect(),
        }
    }
}

fn reading(answer: Answer<'_>) -> Reading {
    match answer {
        Answer::Usage(usage) => Reading::Usage(usage.into_iter().cloned().collect()),
        Answer::Pods(values) => Reading::Pods(values),
        Answer::Object(sample) => Reading::Object(sample),
        Answer::External(samples) => Reading::External(samples),
        Answer::Scaler(reading) => Reading::Scaler(reading),
        Answer::Unknown(unknown) => Reading::Unknown(unknown),
    }
}

/// Result of the last evaluation of a workload.
#[derive(Clone, Debug)]
pub enum Last {
    /// It was decided on, from this.
    Decided(Arc<EvaluationInput>),
    /// It was not: why, in words.
    Undecided(String),
}

/// The last evaluation of each workload that this replica runs.
#[derive(Debug, Default)]
pub struct LastEvaluations(Mutex<BTreeMap<ObjectKey, Last>>);

impl LastEvaluations {
    /// The record of all of them.
    #[must_use]
    pub fn record(&self) -> ReplicaRecord {
        // What is held is shared: the lock is not held while it is copied.
        let known = self.lock().clone();
        record(known)
    }

    /// A workload was looked at.
    pub(super) fn put(&self, policy: &ObjectKey, last: Last) {
        self.lock().insert(policy.clone(), last);
    }

    /// A workload is known and was not looked at yet.
    pub(super) fn expect(&self, policy: &ObjectKey) {
        let news = || Last::Undecided("it was not looked at yet".to_owned());
        self.lock().entry(policy.clone()).or_insert_with(news);
    }

    /// A policy is gone, or another replica runs its workload.
    pub(super) fn forget(&self, policy: &ObjectKey) {
        self.lock().remove(policy);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Last>> {
        // Each change is one step, so what a panic leaves is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The record of these evaluations.
#[must_use]
pub fn record(evaluations: BTreeMap<ObjectKey, Last>) -> ReplicaRecord {
    let (mut inputs, mut undecided) = (Vec::new(), Vec::new());
    for (policy, last) in evaluations {
        match last {
            Last::Decided(input) => inputs.push(input.input()),
            Last::Undecided(why) => undecided.push(Undecided { policy, why }),
        }
    }
    ReplicaRecord::of(inputs, undecided)
}
