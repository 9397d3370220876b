//! Sizes that previewed ScalingPolicies would have given their workloads. It knows no node.
//!
//! A policy that is previewed decides from the size that its workload has, by which rates and windows go, and which never becomes
//! what it decides on. So each is decided on twice: from the metrics as they are comes how many replicas the load asks for, and
//! then the policy decides on a size of its own, whose memory is kept here, with that number as its only metric.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_core::labels::ObjectKey;
use headroom_core::pods::after_write;
use headroom_core::pods::amount::Amount;
use headroom_core::pods::decision::WriteOutcome;
use headroom_core::pods::input::{Sample, Unknown};
use headroom_core::pods::memory::Memory;
use headroom_core::pods::moment::Moment;
use headroom_core::pods::record::{self, DecisionInput, Leave, Reading, ReplicaRecord, WorkloadRecord};
use headroom_core::pods::selector::Selector;
use headroom_core::pods::spec::{
    ExternalSource, HpaSpec, MetricIdentifier, MetricSpec, MetricTarget, ScaleTargetRef,
};
use headroom_core::pods::status::HpaStatus;
use headroom_core::pods::zero::ZeroRules;
use headroom_core::quantity::Quantity;
use headroom_core::snapshot::Snapshot;
use headroom_core::world::pod::PodClass;
use headroom_core::world::record::{ControllerRecord, WorldRecord};
use headroom_core::world::workload::ControllerKind;

/// Workloads of previewed policies, by policy.
#[derive(Debug, Default)]
pub(crate) struct Replicas(BTreeMap<ObjectKey, Workload>);

/// One of them.
#[derive(Debug)]
struct Workload {
    /// When it was decided on last.
    at: Moment,
    replicas: i32,
    status: HpaStatus,
    memory: Memory,
    target: ScaleTargetRef,
    selector: Selector,
}

impl Replicas {
    /// Decides on the workloads that were evaluated since the last call, and forgets those of other policies. A workload begins
    /// with the size that it has.
    ///
    /// # Errors
    /// If the snapshot names what is not in it.
    pub(crate) fn follow(&mut self, snapshot: &Snapshot) -> Result<(), record::Error> {
        let Some(record) = &snapshot.replicas else {
            self.0.clear();
            return Ok(());
        };
        let previewed = || record.workloads.iter().filter(|workload| workload.leave == Leave::Preview);
        let names: BTreeSet<&ObjectKey> = previewed().map(|workload| &workload.policy).collect();
        self.0.retain(|policy, _| names.contains(policy));
        let is_new = |workload: &&WorkloadRecord| {
            self.0.get(&workload.policy).is_none_or(|known| known.at != workload.now)
        };
        let evaluated = ReplicaRecord {
            options: record.options.clone(),
            requests: record.requests.clone(),
            workloads: previewed().filter(is_new).cloned().collect(),
            undecided: Vec::new(),
        };
        for input in evaluated.inputs()? {
            let known = self.0.remove(&input.policy);
            if let Some(workload) = Workload::next(known, &input) {
                self.0.insert(input.policy, workload);
            }
        }
        Ok(())
    }

    /// Gives the controllers of the workloads the sizes that they would have.
    pub(crate) fn put(&self, world: &mut WorldRecord) {
        if self.0.is_empty() {
            return;
        }
        let mut of_namespace: BTreeMap<Arc<str>, Vec<&mut ControllerRecord>> = BTreeMap::new();
        for controller in &mut world.controllers {
            if controller.kind != ControllerKind::Job {
                of_namespace.entry(controller.key.namespace.clone()).or_default().push(controller);
            }
        }
        for (policy, workload) in &self.0 {
            if let Some(controllers) = of_namespace.get_mut(&policy.namespace) {
                workload.put(controllers, &world.classes);
            }
        }
    }
}

impl Workload {
    /// The workload after the evaluation of `input`; `None` where its size or its pods are not known.
    fn next(known: Option<Self>, input: &DecisionInput) -> Option<Self> {
        let Ok(scale) = &input.scale else { return known };
        let selector = Selector::parse(&scale.selector).ok()?;
        let target = input.spec.scale_target_ref.clone();
        let workload = match known.filter(|known| known.target == target) {
            Some(known) => Self { selector, ..known },
            None => Self {
                at: input.now,
                replicas: scale.spec_replicas,
                status: HpaStatus::default(),
                memory: Memory::default(),
                target,
                selector,
            },
        };
        Some(workload.decided(input))
    }

    fn decided(self, input: &DecisionInput) -> Self {
        let own = DecisionInput {
            spec: HpaSpec { metrics: vec![wanted_replicas()], ..input.spec.clone() },
            zero: input.zero.as_ref().map(|zero| ZeroRules { activations: Vec::new(), ..zero.clone() }),
            formula: None,
            status: self.status.clone(),
            memory: self.memory.clone(),
            scale: input.scale.clone().map(|mut scale| {
                (scale.spec_replicas, scale.status_replicas) = (self.replicas, self.replicas);
                scale
            }),
            pods: Vec::new(),
            rivals: Vec::new(),
            readings: vec![asked_for(input)],
            ..input.clone()
        };
        let decision = own.decide();
        let replicas = decision.rescale.as_ref().map_or(self.replicas, |change| change.to);
        let tick = after_write(decision, &WriteOutcome::Written { at: input.now });
        Self { at: input.now, replicas, status: tick.status, memory: tick.memory, ..self }
    }

    /// Of several controllers in its namespace, as while a Deployment rolls out, the largest bears the difference.
    fn put(&self, of_namespace: &mut [&mut ControllerRecord], classes: &[Arc<PodClass>]) {
        let named = match self.target.kind.as_str() {
            "ReplicaSet" => Some(ControllerKind::ReplicaSet),
            "StatefulSet" => Some(ControllerKind::StatefulSet),
            "ReplicationController" => Some(ControllerKind::ReplicationController),
            _ => None,
        };
        let is_own = |controller: &ControllerRecord| {
            let labels = classes.get(controller.class).map(|class| &class.labels);
            match named == Some(controller.kind) {
                true => *controller.key.name == *self.target.name,
                false => labels.is_some_and(|labels| self.selector.matches(labels)),
            }
        };
        let mut own: Vec<&mut &mut ControllerRecord> =
            of_namespace.iter_mut().filter(|controller| is_own(controller)).collect();
        own.sort_by_key(|controller| controller.desired);
        let Some((largest, others)) = own.split_last_mut() else { return };
        if largest.desired == 0 && !others.is_empty() {
            // Which of them is the newest nobody says.
            return;
        }
        let rest: u32 = others.iter().map(|controller| controller.desired).sum();
        largest.desired = u32::try_from(self.replicas).unwrap_or(0).saturating_sub(rest);
    }
}

/// Number of replicas that the metrics ask for, as they were read of the pods that there are, without the bounds of the policy.
fn asked_for(input: &DecisionInput) -> Reading {
    let bare = DecisionInput {
        spec: HpaSpec {
            // With 0 the metrics may be inactive.
            min_replicas: input.spec.min_replicas.map(|min| min.min(1)),
            max_replicas: i32::MAX,
            behavior: None,
            ..input.spec.clone()
        },
        schedules: Vec::new(),
        fallback: None,
        scale: input.scale.clone().map(|mut scale| {
            // At 0 no metric would be looked at.
            scale.spec_replicas = scale.spec_replicas.max(1);
            scale
        }),
        ..input.clone()
    };
    match bare.decide().steps.proposed {
        Some(replicas) => Reading::External(vec![Sample::of(Quantity::from_units(i64::from(replicas)))]),
        None => Reading::Unknown(Unknown::Failed("the metrics are not known".into())),
    }
}

/// The metric of that number: one for each replica.
fn wanted_replicas() -> MetricSpec {
    let target = MetricTarget {
        type_: "AverageValue".to_owned(),
        average_value: Some(Amount::from_milli(1000)),
        ..MetricTarget::default()
    };
    let metric = MetricIdentifier { name: "replicas".to_owned(), selector: None };
    MetricSpec {
        type_: "External".to_owned(),
        external: Some(ExternalSource { metric, target }),
        ..MetricSpec::default()
    }
}
