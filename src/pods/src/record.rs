//! The inputs of decisions on replicas as values that can be written down, read again and decided again.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::decision::{Decision, Rescale, Steps};
use crate::formula::Formula;
use crate::input::{
    Answer, Input, Options, PodPhase, PodRequests, PodSeen, PodUsage, PodValue, ReadyCondition, Sample,
    Scale, ScalerReading, Unknown,
};
use crate::memory::Memory;
use crate::moment::Moment;
use crate::schedules::{Fallback, Schedule};
use crate::spec::{HpaSpec, ScaleTargetRef};
use crate::status::HpaStatus;
use crate::surge::{self, SurgeWish};
use crate::zero::ZeroRules;
use headroom_values::deletion_cost::DeletionCost;
use headroom_values::labels::ObjectKey;

/// Everything that one decision reads, owned, and whether its result is to be carried out.
///
/// Settings and pods stand here themselves, or as a [`WorkloadRecord`] has them: by their places in lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[serde(bound(serialize = "O: Serialize, P: Serialize"))]
#[serde(bound(deserialize = "O: Deserialize<'de>, P: Deserialize<'de>"))]
pub struct DecisionInput<O = Options, P = Arc<PodSeen>> {
    /// The ScalingPolicy. Its namespace is the workload's.
    pub policy: ObjectKey,
    /// Name of the HPA that the policy is for; `None` for a policy with metrics of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa: Option<Arc<str>>,
    /// True if a change may be made.
    pub leave: Leave,
    /// See [`Input::now`].
    pub now: Moment,
    /// See [`Input::options`].
    pub options: O,
    /// See [`Input::spec`].
    pub spec: HpaSpec,
    /// See [`Input::schedules`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<Schedule>,
    /// See [`Input::fallback`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// See [`Input::zero`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero: Option<ZeroRules>,
    /// See [`Input::formula`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<Formula>,
    /// See [`Input::status`].
    pub status: HpaStatus,
    /// See [`Input::memory`].
    pub memory: Memory,
    /// See [`Input::scale`].
    pub scale: Result<Scale, String>,
    /// See [`Input::pods`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<P>,
    /// Wish for one replica more while a node is drained.
    #[serde(default, skip_serializing_if = "SurgeWish::is_none")]
    pub surge: SurgeWish,
    /// See [`Input::rivals`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rivals: Vec<Arc<str>>,
    /// See [`Input::answers`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<Reading>,
}

/// True if a change of replicas may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leave {
    /// It is made.
    Granted,
    /// Mode Preview: it is reported only.
    Preview,
    /// Another controller runs the HPA: it is reported only.
    Observed,
    /// Somebody keeps changing the size back: it waits.
    Held,
}

/// Answer of a metrics API for one metric: an [`Answer`] that borrows nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reading {
    /// See [`Answer::Usage`].
    Usage(Vec<PodUsage>),
    /// See [`Answer::Pods`].
    Pods(Vec<PodValue>),
    /// See [`Answer::Object`].
    Object(Sample),
    /// See [`Answer::External`].
    External(Vec<Sample>),
    /// See [`Answer::Scaler`].
    Scaler(ScalerReading),
    /// See [`Answer::Unknown`].
    Unknown(Unknown),
}

impl Reading {
    fn answer(&self) -> Answer<'_> {
        match self {
            Self::Usage(usage) => Answer::Usage(usage.iter().collect()),
            Self::Pods(values) => Answer::Pods(values.clone()),
            Self::Object(sample) => Answer::Object(sample.clone()),
            Self::External(samples) => Answer::External(samples.clone()),
            Self::Scaler(reading) => Answer::Scaler(reading.clone()),
            Self::Unknown(unknown) => Answer::Unknown(unknown.clone()),
        }
    }
}

impl<O, P> DecisionInput<O, P> {
    /// The same with other settings and pods.
    fn with<O2, P2>(self, options: O2, pods: Vec<P2>) -> DecisionInput<O2, P2> {
        let Self {
            policy,
            hpa,
            leave,
            now,
            options: _,
            spec,
            schedules,
            fallback,
            zero,
            formula,
            status,
            memory,
            scale,
            pods: _,
            surge,
            rivals,
            readings,
        } = self;
        DecisionInput {
            policy,
            hpa,
            leave,
            now,
            options,
            spec,
            schedules,
            fallback,
            zero,
            formula,
            status,
            memory,
            scale,
            pods,
            surge,
            rivals,
            readings,
        }
    }
}

impl DecisionInput {
    /// Decides. The same input always gives the same decision.
    #[must_use]
    pub fn decide(&self) -> Decision {
        let pods: Vec<&PodSeen> = self.pods.iter().map(|pod| &**pod).collect();
        let answers: Vec<Answer<'_>> = self.readings.iter().map(Reading::answer).collect();
        let input = Input {
            now: self.now,
            options: &self.options,
            spec: &self.spec,
            schedules: &self.schedules,
            fallback: self.fallback.as_ref(),
            zero: self.zero.as_ref(),
            formula: self.formula.as_ref(),
            namespace: &self.policy.namespace,
            status: &self.status,
            memory: &self.memory,
            scale: self.scale.as_ref().map_err(String::as_str),
            pods: &pods,
            rivals: &self.rivals,
            answers: &answers,
        };
        surge::decide(&input, self.surge)
    }

    /// Decides, and returns the parts of the decision that a person wants to know.
    #[must_use]
    pub fn decided(&self) -> ReplicaDecision {
        let Decision { rescale, steps, .. } = self.decide();
        ReplicaDecision {
            policy: self.policy.clone(),
            hpa: self.hpa.clone(),
            target: self.spec.scale_target_ref.clone(),
            at: self.now,
            leave: self.leave,
            rescale,
            steps,
        }
    }
}

/// A decision that was made again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaDecision {
    /// The ScalingPolicy.
    pub policy: ObjectKey,
    /// Name of the HPA that the policy is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa: Option<Arc<str>>,
    /// The scale target.
    pub target: ScaleTargetRef,
    /// Time at which the decision was made.
    pub at: Moment,
    /// True if a change may be made.
    pub leave: Leave,
    /// The change of size; `None` if it stays.
    pub rescale: Option<Rescale>,
    /// Steps that led to the size.
    pub steps: Steps,
}

/// The inputs of the last decisions of a cluster, as a file holds them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ReplicaRecord {
    /// Settings, each once: nearly always one.
    pub options: Vec<Options>,
    /// Requests of pods, each distinct value once.
    pub requests: Vec<Arc<PodRequests>>,
    /// The input of the last decision of each workload, in order of their policies.
    pub workloads: Vec<WorkloadRecord>,
    /// Those whose input is not here, in order of their policies.
    pub undecided: Vec<Undecided>,
}

/// A policy whose workload was not decided on, or of whose decision the input is not known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Undecided {
    /// The ScalingPolicy.
    pub policy: ObjectKey,
    /// Reason, in words.
    pub why: String,
}

/// A [`DecisionInput`] whose settings are a place in [`ReplicaRecord::options`].
pub type WorkloadRecord = DecisionInput<usize, PodRecord>;

/// A [`PodSeen`] whose requests stand in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodRecord {
    /// See [`PodSeen::name`].
    pub name: Arc<str>,
    /// See [`PodSeen::phase`]; left out while it is Running.
    #[serde(default, skip_serializing_if = "is_running")]
    pub phase: PodPhase,
    /// See [`PodSeen::deleting`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// See [`PodSeen::started_at`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Moment>,
    /// See [`PodSeen::ready`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<ReadyCondition>,
    /// Place in [`ReplicaRecord::requests`].
    pub requests: usize,
}

fn is_running(phase: &PodPhase) -> bool {
    *phase == PodPhase::Running
}

/// Reason why a record holds no inputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ScalingPolicy {policy} names {list} {place}, and there are only {count}")]
pub struct Error {
    /// The policy.
    pub policy: ObjectKey,
    /// The list whose entry it names.
    pub list: &'static str,
    /// The place it names.
    pub place: usize,
    /// Number of them.
    pub count: usize,
}

impl ReplicaRecord {
    /// The record of these inputs, in any order, and of those that are not known.
    #[must_use]
    pub fn of(mut inputs: Vec<DecisionInput>, mut undecided: Vec<Undecided>) -> Self {
        inputs.sort_by(|a, b| a.policy.cmp(&b.policy));
        undecided.sort();
        let mut record = Self { undecided, ..Self::default() };
        // Never iterated: it finds the place of what is in the list already.
        let mut places: FxHashMap<Arc<PodRequests>, usize> = FxHashMap::default();
        for input in inputs {
            let workload = record.workload(input, &mut places);
            record.workloads.push(workload);
        }
        record
    }

    fn workload(
        &mut self,
        input: DecisionInput,
        places: &mut FxHashMap<Arc<PodRequests>, usize>,
    ) -> WorkloadRecord {
        let options = self.options.iter().position(|one| *one == input.options).unwrap_or_else(|| {
            self.options.push(input.options.clone());
            self.options.len() - 1
        });
        let pods = input.pods.iter().map(|pod| {
            let PodSeen { name, phase, deleting, started_at, ready, requests, deletion_cost: _ } = &**pod;
            let requests = *places.entry(requests.clone()).or_insert_with(|| {
                self.requests.push(requests.clone());
                self.requests.len() - 1
            });
            PodRecord {
                name: name.clone(),
                phase: *phase,
                deleting: *deleting,
                started_at: *started_at,
                ready: *ready,
                requests,
            }
        });
        let pods = pods.collect();
        input.with(options, pods)
    }

    /// The inputs, in order of their policies.
    ///
    /// # Errors
    /// If an entry names a place that is not in its list.
    pub fn inputs(&self) -> Result<Vec<DecisionInput>, Error> {
        self.workloads.iter().cloned().map(|workload| self.input(workload)).collect()
    }

    fn input(&self, mut workload: WorkloadRecord) -> Result<DecisionInput, Error> {
        let pods = std::mem::take(&mut workload.pods);
        let missing = |list, place, count| Error { policy: workload.policy.clone(), list, place, count };
        let options = self.options.get(workload.options);
        let options = options.ok_or_else(|| missing("options", workload.options, self.options.len()))?;
        let pods = pods.into_iter().map(|pod| {
            let PodRecord { name, phase, deleting, started_at, ready, requests } = pod;
            let own = self.requests.get(requests);
            let requests = own.ok_or_else(|| missing("requests", requests, self.requests.len()))?.clone();
            let deletion_cost = DeletionCost::Unset;
            Ok(Arc::new(PodSeen { name, phase, deleting, started_at, ready, requests, deletion_cost }))
        });
        let pods = pods.collect::<Result<_, _>>()?;
        Ok(workload.with(options.clone(), pods))
    }

    /// Makes every decision again, in order of the policies.
    ///
    /// # Errors
    /// If an entry names a place that is not in its list.
    pub fn decide(&self) -> Result<Vec<ReplicaDecision>, Error> {
        Ok(self.inputs()?.iter().map(DecisionInput::decided).collect())
    }
}
