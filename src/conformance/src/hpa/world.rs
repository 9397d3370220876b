//! Converts a vector's pods and metrics for the core: observed pods, and an answer for each metric.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::deletion_cost::DeletionCost;
use headroom_core::labels::Labels;
use headroom_core::pods::input::{
    Answer, ContainerRequests, ContainerUsage, InitContainerRequests, Number, PodPhase, PodRequests, PodSeen,
    PodUsage, PodValue, ReadyCondition, ResourceAmounts, Sample, Unknown,
};
use headroom_core::pods::moment::Moment;
use headroom_core::pods::selector::Selector;
use headroom_core::pods::spec::{MetricIdentifier, MetricSpec};
use headroom_core::quantity::Quantity;
use headroom_core::time::Seconds;

use super::format::{Container, MetricValue, Metrics, Pod};

/// 2000-01-01T00:00:00Z, from which the vectors count their seconds.
const EPOCH_SECONDS: i64 = 946_684_800;

/// The instant of an offset in seconds.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn at(offset: f64) -> Moment {
    Moment::from_nanos(EPOCH_SECONDS * 1_000_000_000 + (offset * 1e9).round() as i64)
}

/// The offset of whole seconds.
pub(super) fn offset(second: headroom_core::time::UnixTime) -> i64 {
    second.0 - EPOCH_SECONDS
}

fn labels(pairs: &BTreeMap<String, String>) -> Labels {
    pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

fn default_labels() -> Labels {
    [("app", "web")].into_iter().collect()
}

/// The labels of a pod.
pub(super) fn pod_labels(pod: &Pod) -> Labels {
    pod.labels.as_ref().map_or_else(default_labels, labels)
}

fn amounts(container: &Container) -> ResourceAmounts {
    let cpu = container.cpu_request_milli.map(|milli| ("cpu", Quantity::from_milli(milli)));
    let memory = container.mem_request_bytes.map(|bytes| ("memory", Quantity::from_units(bytes)));
    cpu.into_iter().chain(memory).collect()
}

fn requests(container: &Container) -> ContainerRequests {
    ContainerRequests { name: Arc::from(container.name.as_str()), requests: amounts(container) }
}

/// A pod as the core sees it.
pub(super) fn pod(pod: &Pod, default_containers: &[Container]) -> PodSeen {
    let init = |restartable: bool| {
        move |container: &Container| InitContainerRequests { container: requests(container), restartable }
    };
    let containers = pod.containers.as_deref().unwrap_or(default_containers);
    let init_containers =
        pod.sidecars.iter().map(init(true)).chain(pod.init_containers.iter().map(init(false)));
    let condition = |ready| ReadyCondition {
        ready,
        transition_at: pod.ready_transition_offset.map_or(Moment::from_nanos(i64::MIN), at),
    };
    PodSeen {
        name: Arc::from(pod.name.as_str()),
        phase: match pod.phase.as_deref() {
            None | Some("Running") => PodPhase::Running,
            Some("Pending") => PodPhase::Pending,
            Some("Succeeded") => PodPhase::Succeeded,
            Some("Failed") => PodPhase::Failed,
            Some(_) => PodPhase::Unknown,
        },
        deleting: pod.deletion_timestamp.is_some(),
        started_at: pod.start_time_offset.map(at),
        ready: match pod.ready.as_deref() {
            None | Some("True") => Some(condition(Some(true))),
            Some("False") => Some(condition(Some(false))),
            Some("None") => None,
            Some(_) => Some(condition(None)),
        },
        requests: Arc::new(PodRequests {
            containers: containers.iter().map(requests).collect(),
            init_containers: init_containers.collect(),
            pod_level: pod.pod_requests.as_ref().map(amounts),
            overhead: pod.overhead.as_ref().map(amounts).unwrap_or_default(),
        }),
        deletion_cost: DeletionCost::Unset,
    }
}

/// The usage that the metrics API returns for a selector.
pub(super) fn usage(metrics: &Metrics, pods: &[Pod], selector: &Selector, now: f64) -> Vec<PodUsage> {
    let mut found = Vec::new();
    for (name, sample) in &metrics.resource.pods {
        let own = sample.labels.as_ref().map(labels);
        if !selector.matches(&own.unwrap_or_else(|| labels_of(pods, name))) {
            continue;
        }
        let containers = sample.containers.iter().map(|(name, usage)| {
            let cpu = usage.cpu.map(|milli| ("cpu", Quantity::from_milli(milli)));
            let memory = usage.memory.map(|bytes| ("memory", Quantity::from_units(bytes)));
            let usage = cpu.into_iter().chain(memory).collect();
            ContainerUsage { name: Arc::from(name.as_str()), usage }
        });
        found.push(PodUsage {
            pod: Arc::from(name.as_str()),
            at: at(sample.timestamp_offset.unwrap_or(now)),
            window: Seconds(sample.window.unwrap_or(60)),
            containers: containers.collect(),
        });
    }
    found
}

fn labels_of(pods: &[Pod], name: &str) -> Labels {
    pods.iter().find(|pod| pod.name == name).map_or_else(default_labels, pod_labels)
}

fn number(value: &MetricValue) -> Sample {
    let quantity = match value {
        MetricValue::Milli(milli) => Quantity::from_milli(*milli),
        MetricValue::Quantity(amount) => amount.quantity,
    };
    Sample { value: Number::Quantity(quantity), at: None }
}

fn failed<'a>(error: &str) -> Answer<'a> {
    Answer::Unknown(Unknown::Failed(Arc::from(error)))
}

/// True if a metric's own selector lets a series through; one that can not be used lets none.
fn chosen(metric: &MetricIdentifier, pairs: &BTreeMap<String, String>) -> bool {
    Selector::of_metric(metric.selector.as_ref()).is_ok_and(|selector| selector.matches(&labels(pairs)))
}

/// The answer for one metric.
pub(super) fn answer<'a>(
    spec: &MetricSpec,
    metrics: &Metrics,
    usage: &'a [PodUsage],
    pods: &[Pod],
    selector: &Selector,
    namespace: &str,
) -> Answer<'a> {
    if let Some(source) = spec.pods.as_ref().filter(|_| spec.type_ == "Pods") {
        let Some(found) = metrics.custom.pods.get(&source.metric.name) else {
            return Answer::Pods(Vec::new());
        };
        if let Some(error) = &found.error {
            return failed(error);
        }
        if !chosen(&source.metric, &found.metric_labels) {
            return Answer::Pods(Vec::new());
        }
        let values = found.values.iter().filter(|(pod, _)| selector.matches(&labels_of(pods, pod)));
        let value_of = |(pod, value): (&String, &MetricValue)| PodValue {
            pod: Arc::from(pod.as_str()),
            sample: number(value),
        };
        return Answer::Pods(values.map(value_of).collect());
    }
    if let Some(source) = spec.object.as_ref().filter(|_| spec.type_ == "Object") {
        let object = &source.described_object;
        let is_namespace = object.kind == "Namespace" && !object.api_version.contains('/');
        let name = if is_namespace { namespace } else { object.name.as_str() };
        let found = metrics.custom.objects.iter().find(|candidate| {
            candidate.kind == object.kind
                && candidate.name == name
                && candidate.metric == source.metric.name
                && chosen(&source.metric, &candidate.metric_labels)
        });
        return match found.map(|found| (&found.error, &found.value)) {
            Some((None, Some(value))) => Answer::Object(number(value)),
            Some((Some(error), _)) => failed(error),
            Some((None, None)) | None => failed("the object has no such metric"),
        };
    }
    if let Some(source) = spec.external.as_ref().filter(|_| spec.type_ == "External") {
        let Some(found) = metrics.external.get(&source.metric.name) else {
            return Answer::External(Vec::new());
        };
        if let Some(error) = &found.error {
            return failed(error);
        }
        let values = found.values.iter().filter(|value| chosen(&source.metric, &value.labels));
        return Answer::External(values.map(|value| number(&value.value)).collect());
    }
    match &metrics.resource.error {
        Some(error) => failed(error),
        None => Answer::Usage(usage.iter().collect()),
    }
}
