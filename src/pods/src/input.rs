//! Input of one replica decision: spec, options, scale, pods and metrics as they were observed. Nothing is fetched
//! here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::formula::Formula;
use crate::memory::Memory;
use crate::moment::Moment;
use crate::schedules::{Fallback, Schedule};
use crate::spec::HpaSpec;
use crate::status::HpaStatus;
use crate::zero::ZeroRules;
use headroom_values::deletion_cost::DeletionCost;
use headroom_values::quantity::Quantity;
use headroom_values::time::Seconds;

/// Everything that one decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Time at which the decision is made. A caller that keeps memory in status gives whole seconds: status holds no finer ones.
    pub now: Moment,
    /// Cluster-wide settings.
    pub options: &'a Options,
    /// The user's spec, defaulted (see [`crate::defaulting`]).
    pub spec: &'a HpaSpec,
    /// Floors and ceilings by time; empty for an HPA without a policy of its own.
    pub schedules: &'a [Schedule],
    /// Behavior while the metrics are unknown; absent: hold, for as long as it takes.
    pub fallback: Option<&'a Fallback>,
    /// Rules of a policy with metrics of its own for 0 replicas; absent for an HPA, which keeps the reference's.
    pub zero: Option<&'a ZeroRules>,
    /// Formula over those metrics that have a name; absent: each metric proposes for itself.
    pub formula: Option<&'a Formula>,
    /// The HPA's namespace; a metric of an object of kind Namespace is asked for by this name.
    pub namespace: &'a str,
    /// The status as it is stored: transition times and the values of failing ticks are taken from it.
    pub status: &'a HpaStatus,
    /// Memory of earlier ticks.
    pub memory: &'a Memory,
    /// The scale subresource, or why it could not be read: resource unknown, no access, timeout.
    pub scale: Result<&'a Scale, &'a str>,
    /// The pods of the namespace that the scale's selector matches, in any order. With an empty or unreadable selector
    /// nobody looks at them.
    pub pods: &'a [&'a PodSeen],
    /// Names of other HPAs of the namespace whose last known selectors match any of these pods, sorted
    /// (see [`crate::selector::Registry::rivals`]).
    pub rivals: &'a [Arc<str>],
    /// One answer for each metric, in the order of the spec. A missing one counts as failed.
    pub answers: &'a [Answer<'a>],
}

/// Options that apply to all workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Options {
    /// Time between two decisions on a workload. Default 15 s.
    pub sync_period: Seconds,
    /// The window downwards where the spec has none. Default 300 s.
    pub downscale_stabilization: Seconds,
    /// Deviation of a metric from its target, as a fraction, up to which the size is kept. Default 0.1.
    pub tolerance: f64,
    /// After a pod's start its CPU samples count only if it was ready for all of them. Default 300 s.
    pub cpu_initialization_period: Seconds,
    /// A pod that became unready so soon after its start was never ready. Default 30 s.
    pub initial_readiness_delay: Seconds,
    /// Samples older than this are stale: they count as missing, and a metric with no
    /// other is unknown. Default 5 min. Samples without a time are never stale.
    pub sample_age_max: Seconds,
    /// True: pods beyond `spec.replicas`, those of a rollout's surge or of a canary, change no size by themselves. False, the
    /// default: they count as in the reference.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steady_in_rollouts: bool,
    /// Feature gates.
    pub gates: Gates,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sync_period: Seconds(15),
            downscale_stabilization: Seconds(300),
            tolerance: 0.1,
            cpu_initialization_period: Seconds(300),
            initial_readiness_delay: Seconds(30),
            sample_age_max: Seconds(300),
            steady_in_rollouts: false,
            gates: Gates::default(),
        }
    }
}

/// The feature gates of Kubernetes that matter here, at their defaults of release 1.35.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gates {
    /// HPAConfigurableTolerance: a tolerance of its own per direction.
    pub configurable_tolerance: bool,
    /// HPAScaleToZero: admission lets minReplicas be 0.
    pub scale_to_zero: bool,
    /// PodLevelResources: requests of a whole pod.
    pub pod_level_resources: bool,
    /// HPAScaleToZero as of release 1.36: the condition ScaledToZero of an HPA says who has set a size of 0.
    #[serde(default)]
    pub scaled_to_zero: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            configurable_tolerance: true,
            scale_to_zero: false,
            pod_level_resources: true,
            scaled_to_zero: false,
        }
    }
}

/// Values of the scale subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scale {
    /// `spec.replicas`.
    pub spec_replicas: i32,
    /// `status.replicas`.
    pub status_replicas: i32,
    /// `status.selector`, as text; empty if the resource has none.
    pub selector: String,
}

/// A pod, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSeen {
    /// Its name.
    pub name: Arc<str>,
    /// `status.phase`.
    pub phase: PodPhase,
    /// True if a deletion timestamp is set.
    pub deleting: bool,
    /// `status.startTime`.
    pub started_at: Option<Moment>,
    /// The Ready condition, if there is one.
    pub ready: Option<ReadyCondition>,
    /// Requests of the pod; shared by the pods of a template.
    pub requests: Arc<PodRequests>,
    /// Its deletion cost. No decision on a number reads it, and no snapshot holds it.
    pub deletion_cost: DeletionCost,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodPhase {
    /// Not all containers have been started.
    Pending,
    /// At least one container runs.
    #[default]
    Running,
    /// All containers ended well.
    Succeeded,
    /// A container failed for good.
    Failed,
    /// The node is silent, or the phase is a word we do not know.
    Unknown,
}

/// The Ready condition of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadyCondition {
    /// True, False, or `None` for Unknown.
    pub ready: Option<bool>,
    /// `lastTransitionTime`; the epoch's beginning of time (the smallest moment) if there is none.
    pub transition_at: Moment,
}

/// Requests of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PodRequests {
    /// Ordinary containers.
    pub containers: Vec<ContainerRequests>,
    /// Init containers, in the order of the spec.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<InitContainerRequests>,
    /// `spec.resources.requests`: requests of the pod as a whole; absent if the pod has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_level: Option<ResourceAmounts>,
    /// `spec.overhead`.
    #[serde(skip_serializing_if = "ResourceAmounts::is_empty")]
    pub overhead: ResourceAmounts,
}

/// Requests of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerRequests {
    /// Its name.
    pub name: Arc<str>,
    /// Its requests; a resource that is not in them is not requested, which is not 0.
    pub requests: ResourceAmounts,
}

/// Requests of an init container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InitContainerRequests {
    /// Name and requests.
    pub container: ContainerRequests,
    /// True if its restart policy is Always: a sidecar, which runs beside the ordinary containers.
    pub restartable: bool,
}

/// Amounts by resource name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResourceAmounts(pub Vec<(Arc<str>, Quantity)>);

impl ResourceAmounts {
    /// The amount of one resource; `None` if it is absent, which is not 0.
    #[must_use]
    pub fn get(&self, resource: &str) -> Option<Quantity> {
        self.0.iter().find(|(name, _)| &**name == resource).map(|(_, amount)| *amount)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, Quantity)> for ResourceAmounts {
    fn from_iter<I: IntoIterator<Item = (N, Quantity)>>(amounts: I) -> Self {
        Self(amounts.into_iter().map(|(name, amount)| (name.into(), amount)).collect())
    }
}

/// Answer of a metrics API to the question for one metric.
#[derive(Clone, Debug)]
pub enum Answer<'a> {
    /// For Resource and ContainerResource: usage of the pods that match the scale's selector.
    Usage(Vec<&'a PodUsage>),
    /// For Pods: one value a pod that matches the scale's selector.
    Pods(Vec<PodValue>),
    /// For Object: its one value.
    Object(Sample),
    /// For External: the values of all series that match.
    External(Vec<Sample>),
    /// For External, where a server of the external scaler protocol was asked.
    Scaler(ScalerReading),
    /// Nothing is known.
    Unknown(Unknown),
}

/// Answer of a server of the external scaler protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScalerReading {
    /// The values of the metric; they are added up.
    pub values: Vec<Sample>,
    /// The server's own target, in the form that the spec's target names by its type. It counts where the spec has no amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Quantity>,
    /// True if the server has work for the workload; `None` if it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
}

/// Reason why a metric has no value. None of these is ever 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unknown {
    /// The call failed, or there is no such API: the words of the error.
    Failed(Arc<str>),
    /// The call succeeded, and nothing was in it. An empty list in an answer means the same.
    Empty,
    /// All samples are older than [`Options::sample_age_max`]; when the newest was taken. Sources may leave it to the
    /// decision to find that out.
    Stale(Moment),
    /// A value that can not be: not a number, infinite, negative.
    Absurd(Arc<str>),
}

/// Usage of one pod as metrics.k8s.io reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodUsage {
    /// The pod.
    pub pod: Arc<str>,
    /// End of the window that was measured.
    pub at: Moment,
    /// Its length.
    pub window: Seconds,
    /// Per container.
    pub containers: Vec<ContainerUsage>,
}

/// Usage of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerUsage {
    /// The container.
    pub name: Arc<str>,
    /// Measured usage; a resource that is not in it was not measured, which is not 0.
    pub usage: ResourceAmounts,
}

/// A custom metric of one pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodValue {
    /// The pod.
    pub pod: Arc<str>,
    /// The value.
    pub sample: Sample,
}

/// One value of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sample {
    /// The number.
    pub value: Number,
    /// Time of the measurement, if the source gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Moment>,
}

impl Sample {
    /// A quantity without a time.
    #[must_use]
    pub fn of(quantity: Quantity) -> Self {
        Self { value: Number::Quantity(quantity), at: None }
    }
}

/// A number as a source reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Number {
    /// A quantity of Kubernetes. One beyond its range is cut to it.
    Quantity(Quantity),
    /// Text that is not a finite number, such as NaN or +Inf.
    NotFinite(Arc<str>),
}

impl Number {
    /// A number from a source that counts in float64, such as Prometheus; exact to a billionth where float64 is,
    /// rounded to the nearest.
    #[must_use]
    pub fn from_f64(number: f64) -> Self {
        if number.is_finite() {
            Self::Quantity(Quantity::from_f64(number))
        } else {
            Self::NotFinite(Arc::from(number.to_string()))
        }
    }
}
