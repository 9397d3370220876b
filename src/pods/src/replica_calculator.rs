//! From samples and targets to a proposed number of replicas: groups of pods, missing samples, the direction guard.

use rustc_hash::FxHashMap;

use crate::input::{Options, PodPhase, PodSeen, ReadyCondition};
use crate::moment::Moment;
use crate::numbers::{
    Tolerance, capped_replicas, ceil_64, ceil_replicas, cut_64, float, wrapped_32, wrapped_64, wrapping_sum,
};
use crate::rollout;
use headroom_values::time::Seconds;

/// One pod's sample, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PodSample<'a> {
    pub(super) pod: &'a str,
    pub(super) value: i128,
    pub(super) at: Moment,
    pub(super) window: Seconds,
}

/// A proposal, and the numbers that status shows: those before missing samples are filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    pub(super) ratio: f64,
    pub(super) within_tolerance: bool,
    /// True if the size is kept because there are more pods than it asks for.
    pub(super) kept_in_rollout: bool,
    /// Percent of requests.
    pub(super) utilization: Option<i32>,
    /// Thousandths.
    pub(super) value: Option<i64>,
    /// Thousandths.
    pub(super) average: Option<i64>,
}

/// Everything that a proposal depends on beside samples and target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) now: Moment,
    pub(super) options: &'a Options,
    pub(super) tolerance: Tolerance,
    pub(super) pods: &'a [&'a PodSeen],
    /// `spec.replicas` of the scale.
    pub(super) spec_replicas: i32,
    /// `status.replicas` of the scale.
    pub(super) status_replicas: i32,
}

/// Target that a pod based metric is compared with.
#[derive(Clone, Debug)]
pub(super) enum PodTarget {
    /// Percent of the pods' requests, given in the order of the pods, in thousandths.
    Utilization { percent: i32, requests: Vec<i128> },
    /// Thousandths on average.
    Average(i64),
}

/// Samples by pod, some of which were dropped or filled in.
struct Samples<'a> {
    /// The position of each pod's sample in `values`.
    by_pod: FxHashMap<&'a str, usize>,
    /// Value of each sample and, for utilization, its pod's request; `None` where it was dropped.
    values: Vec<Option<(i128, Option<i128>)>>,
}

/// Positions of pods that need a second look.
#[derive(Default)]
struct Groups {
    ready_count: usize,
    unready: Vec<usize>,
    missing: Vec<usize>,
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";

/// The proposal of a metric of pods. `resource` is the resource's name for Resource and ContainerResource metrics.
///
/// Source: podautoscaler replica_calculator.go, GetResourceReplicas and calcPlainMetricReplicas.
pub(super) fn of_pods(
    around: &Surroundings<'_>,
    resource: Option<&str>,
    samples: &[PodSample<'_>],
    target: &PodTarget,
) -> Result<Proposal, String> {
    if around.pods.is_empty() {
        return Err(NO_PODS.to_owned());
    }
    let mut kept = Samples::of(samples);
    let groups = group(around, resource, samples, &mut kept);
    if kept.values.iter().all(Option::is_none) {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    if let PodTarget::Utilization { requests, .. } = target {
        kept.attach_requests(around.pods, requests);
    }
    let proposal = kept.measure(target)?;
    let ratio = proposal.ratio;
    let grows_with_unready = !groups.unready.is_empty() && ratio > 1.0;
    if !grows_with_unready && groups.missing.is_empty() {
        let within_tolerance = around.tolerance.holds(ratio);
        let counted = count_float(groups.ready_count);
        let kept_in_rollout = !within_tolerance && rollout::keeps_size(around, ratio, counted);
        let replicas = if within_tolerance || kept_in_rollout {
            around.spec_replicas
        } else {
            ceil_replicas(ratio * counted)
        };
        return Ok(Proposal { replicas, within_tolerance, kept_in_rollout, ..proposal });
    }
    kept.fill_missing(around, &groups, target, ratio);
    if grows_with_unready {
        for index in &groups.unready {
            kept.put(around.pods, *index, 0, target);
        }
    }
    let filled = kept.measure(target)?.ratio;
    let turned = (ratio < 1.0 && filled > 1.0) || (ratio > 1.0 && filled < 1.0);
    if around.tolerance.holds(filled) || turned {
        return Ok(Proposal { replicas: around.spec_replicas, within_tolerance: true, ..proposal });
    }
    let counted = count_float(kept.values.iter().flatten().count());
    if rollout::keeps_size(around, filled, counted) {
        return Ok(Proposal { replicas: around.spec_replicas, kept_in_rollout: true, ..proposal });
    }
    let replicas = ceil_replicas(filled * counted);
    // The size may not go in the opposite direction of the metric.
    let against = (filled < 1.0 && replicas > around.spec_replicas)
        || (filled > 1.0 && replicas < around.spec_replicas);
    Ok(Proposal { replicas: if against { around.spec_replicas } else { replicas }, ..proposal })
}

fn count_float(count: usize) -> f64 {
    float(i128::try_from(count).unwrap_or(i128::MAX))
}

/// Puts each pod into its group, and drops the samples of pods that are ignored or unready.
///
/// Source: podautoscaler replica_calculator.go, groupPods.
fn group(
    around: &Surroundings<'_>,
    resource: Option<&str>,
    samples: &[PodSample<'_>],
    kept: &mut Samples<'_>,
) -> Groups {
    let mut groups = Groups::default();
    for (index, pod) in around.pods.iter().enumerate() {
        let position = kept.by_pod.get(&*pod.name).copied();
        let drop_sample = |kept: &mut Samples<'_>| {
            if let Some(value) = position.and_then(|position| kept.values.get_mut(position)) {
                *value = None;
            }
        };
        if pod.deleting || pod.phase == PodPhase::Failed {
            drop_sample(kept);
        } else if pod.phase == PodPhase::Pending {
            drop_sample(kept);
            groups.unready.push(index);
        } else if let Some(sample) = position.and_then(|position| samples.get(position)) {
            if resource == Some("cpu") && is_unready(around, pod, sample) {
                drop_sample(kept);
                groups.unready.push(index);
            } else {
                groups.ready_count += 1;
            }
        } else {
            groups.missing.push(index);
        }
    }
    groups
}

/// True if a pod's CPU sample does not count: it is still starting, or has never been ready.
fn is_unready(around: &Surroundings<'_>, pod: &PodSeen, sample: &PodSample<'_>) -> bool {
    let Some((started_at, ReadyCondition { ready, transition_at })) = pod.started_at.zip(pod.ready) else {
        return true;
    };
    let is_false = ready == Some(false);
    if around.now < started_at.plus(around.options.cpu_initialization_period) {
        is_false || sample.at < transition_at.plus(sample.window)
    } else {
        is_false && transition_at < started_at.plus(around.options.initial_readiness_delay)
    }
}

impl<'a> Samples<'a> {
    /// Of two samples of one pod the later in the list counts.
    fn of(samples: &[PodSample<'a>]) -> Self {
        let mut by_pod = FxHashMap::with_capacity_and_hasher(samples.len(), rustc_hash::FxBuildHasher);
        let mut values = Vec::with_capacity(samples.len());
        for (position, sample) in samples.iter().enumerate() {
            values.push(Some((sample.value, None)));
            if let Some(earlier) = by_pod.insert(sample.pod, position) {
                values[earlier] = None;
            }
        }
        Self { by_pod, values }
    }

    /// Gives each sample its pod's request; samples of unknown pods have none.
    fn attach_requests(&mut self, pods: &[&PodSeen], requests: &[i128]) {
        for (pod, request) in pods.iter().zip(requests) {
            let position = self.by_pod.get(&*pod.name);
            if let Some(Some((_, slot))) = position.and_then(|position| self.values.get_mut(*position)) {
                *slot = Some(*request);
            }
        }
    }

    /// Gives a pod without a sample a value.
    fn put(&mut self, pods: &[&PodSeen], index: usize, value: i128, target: &PodTarget) {
        let request = match target {
            PodTarget::Utilization { requests, .. } => requests.get(index).copied(),
            PodTarget::Average(_) => None,
        };
        debug_assert!(index < pods.len());
        self.values.push(Some((value, request)));
    }

    /// Pods without a sample count as idle when the size would grow, and as on target (with utilization: as using all
    /// that they request, or the target if that is more) when it would shrink.
    fn fill_missing(&mut self, around: &Surroundings<'_>, groups: &Groups, target: &PodTarget, ratio: f64) {
        if ratio == 1.0 || ratio.is_nan() {
            return;
        }
        for index in &groups.missing {
            let value = match target {
                _ if ratio > 1.0 => 0,
                PodTarget::Utilization { percent, requests } => {
                    let request = requests.get(*index).copied().unwrap_or(0);
                    wrapped_64(request * i128::from((*percent).max(100))) / 100
                }
                PodTarget::Average(average) => i128::from(*average),
            };
            self.put(around.pods, *index, value, target);
        }
    }

    /// Value over target, and the numbers for status.
    ///
    /// Source: podautoscaler metrics/utilization.go.
    fn measure(&self, target: &PodTarget) -> Result<Proposal, String> {
        let values = self.values.iter().flatten();
        match target {
            PodTarget::Utilization { percent, .. } => {
                let counted: Vec<(i128, i128)> =
                    values.filter_map(|(value, request)| request.map(|request| (*value, request))).collect();
                let used = wrapping_sum(counted.iter().map(|(value, _)| *value));
                let requested = wrapping_sum(counted.iter().map(|(_, request)| *request));
                if requested == 0 {
                    return Err("no metrics returned matched known pods, or they request nothing".to_owned());
                }
                // Whole percents, cut off: 11.9 percent count as 11.
                let utilization = wrapped_32(wrapped_64(used * 100) / requested);
                let count = i128::try_from(counted.len()).unwrap_or(i128::MAX);
                Ok(Proposal {
                    ratio: f64::from(utilization) / f64::from(*percent),
                    utilization: Some(utilization),
                    average: Some(cut_64(used / count)),
                    ..Proposal::default()
                })
            }
            PodTarget::Average(average_target) => {
                let (mut total, mut count) = (0_i128, 0_i128);
                for (value, _) in values {
                    total += value;
                    count += 1;
                }
                let average = wrapped_64(total) / count.max(1);
                Ok(Proposal {
                    ratio: float(average) / float(i128::from(*average_target)),
                    average: Some(cut_64(average)),
                    ..Proposal::default()
                })
            }
        }
    }
}

/// The proposal of one value for the whole workload (Object and External with `value`), in thousandths.
///
/// Source: podautoscaler replica_calculator.go, getUsageRatioReplicaCount.
pub(super) fn of_value(around: &Surroundings<'_>, value: i128, target: i64) -> Result<Proposal, String> {
    let ratio = float(value) / float(i128::from(target));
    let proposal = Proposal { ratio, value: Some(cut_64(value)), ..Proposal::default() };
    if around.spec_replicas == 0 {
        return Ok(Proposal { replicas: ceil_replicas(ratio), ..proposal });
    }
    if around.tolerance.holds(ratio) {
        return Ok(Proposal { replicas: around.spec_replicas, within_tolerance: true, ..proposal });
    }
    if around.pods.is_empty() {
        return Err(format!("unable to calculate ready pods: {NO_PODS}"));
    }
    let ready = |pod: &&&PodSeen| {
        pod.phase == PodPhase::Running && pod.ready.is_some_and(|condition| condition.ready == Some(true))
    };
    let ready_count = around.pods.iter().filter(ready).count();
    let ready_count = rollout::scaled(around, count_float(ready_count));
    Ok(Proposal { replicas: capped_replicas(ratio * ready_count), ..proposal })
}

/// The proposal of a value that is shared by the replicas (Object and External with `averageValue`), in thousandths.
///
/// Within tolerance it proposes the scale's *status* replicas, and with [`Options::steady_in_rollouts`] its size. `capped`: the
/// reference cuts too many replicas to the largest 32-bit number for External metrics, not for Object metrics.
///
/// Source: podautoscaler replica_calculator.go, GetObjectPerPodMetricReplicas and GetExternalPerPodMetricReplicas.
pub(super) fn of_average(around: &Surroundings<'_>, value: i128, target: i64, capped: bool) -> Proposal {
    let (total, target) = (float(value), float(i128::from(target)));
    let sharing = rollout::sharing(around);
    let replicas_float = f64::from(sharing);
    let ratio = total / (target * replicas_float);
    let within_tolerance = around.tolerance.holds(ratio);
    let replicas = match (within_tolerance, capped) {
        (true, _) => sharing,
        (false, true) => capped_replicas(total / target),
        (false, false) => ceil_replicas(total / target),
    };
    // Divided by no replicas it would not be a number; and a total that was cut has no average.
    let average = if value >= i128::from(i64::MAX) { i64::MAX } else { ceil_64(total / replicas_float) };
    let average = (sharing != 0).then_some(average);
    Proposal { replicas, ratio, within_tolerance, average, ..Proposal::default() }
}
