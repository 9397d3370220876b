//! The answers of the three metrics APIs as the wire has them, only the parts that are read.

use std::collections::BTreeMap;
use std::time::Duration;

use headroom_core::pods::input::{ContainerUsage, Number, PodUsage, PodValue, ResourceAmounts, Sample};
use headroom_core::pods::moment::Moment;
use headroom_core::time::Seconds;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;

use super::answer::{Absurdity, quantity};

/// A list of any of the APIs. Go writes `null` for an empty one.
#[derive(Deserialize)]
pub(super) struct List<T> {
    items: Option<Vec<T>>,
}

impl<T> List<T> {
    pub(super) fn items(self) -> Vec<T> {
        self.items.unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct Meta {
    name: String,
}

/// The usage of a pod (metrics.k8s.io).
#[derive(Deserialize)]
pub(super) struct PodMetrics {
    metadata: Meta,
    timestamp: Timestamp,
    /// Go's notation, such as `15.2s`.
    #[serde(default)]
    window: Option<kube::core::Duration>,
    containers: Option<Vec<ContainerMetrics>>,
}

#[derive(Deserialize)]
struct ContainerMetrics {
    name: String,
    usage: Option<BTreeMap<String, Quantity>>,
}

impl PodMetrics {
    /// In core's words. A quantity that cannot be read is left out, which is not 0.
    pub(super) fn usage(self) -> PodUsage {
        let container = |metrics: ContainerMetrics| {
            let amounts = metrics.usage.unwrap_or_default().into_iter();
            let readable = amounts.filter_map(|(name, text)| Some((name, quantity(&text.0).ok()?)));
            ContainerUsage { name: metrics.name.into(), usage: readable.collect::<ResourceAmounts>() }
        };
        PodUsage {
            pod: self.metadata.name.into(),
            at: Moment::from_jiff(self.timestamp),
            window: whole_seconds(self.window.map(Duration::from).unwrap_or_default()),
            containers: self.containers.unwrap_or_default().into_iter().map(container).collect(),
        }
    }
}

/// A value of an object (custom.metrics.k8s.io, both versions).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectValue {
    described_object: Described,
    timestamp: Option<Timestamp>,
    value: Quantity,
}

#[derive(Deserialize)]
struct Described {
    name: String,
}

impl ObjectValue {
    pub(super) fn sample(&self) -> Result<Sample, Absurdity> {
        sample(&self.value, self.timestamp)
    }

    pub(super) fn pod_value(self) -> Result<PodValue, Absurdity> {
        let sample = self.sample()?;
        Ok(PodValue { pod: self.described_object.name.into(), sample })
    }
}

/// A value of a series (external.metrics.k8s.io).
#[derive(Deserialize)]
pub(super) struct SeriesValue {
    timestamp: Option<Timestamp>,
    value: Quantity,
}

impl SeriesValue {
    pub(super) fn sample(&self) -> Result<Sample, Absurdity> {
        sample(&self.value, self.timestamp)
    }
}

fn sample(value: &Quantity, timestamp: Option<Timestamp>) -> Result<Sample, Absurdity> {
    Ok(Sample { value: Number::Quantity(quantity(&value.0)?), at: timestamp.map(Moment::from_jiff) })
}

/// Rounded to the nearest: servers measure windows of 15 s as 14.997 s.
fn whole_seconds(window: Duration) -> Seconds {
    Seconds(i64::try_from((window + Duration::from_millis(500)).as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_usage_is_read_and_what_is_no_quantity_is_left_out() {
        let text = r#"{"kind":"PodMetricsList","metadata":{},"items":[{"metadata":{"name":"web-1","namespace":"d",
            "labels":{"app":"web"}},"timestamp":"2026-11-21T15:00:00Z","window":"14.997s","containers":[
            {"name":"app","usage":{"cpu":"700123456n","memory":"128Mi"}},{"name":"side","usage":{"cpu":"lots"}},
            {"name":"new","usage":null}]}]}"#;
        let list: List<PodMetrics> = serde_json::from_str(text).unwrap();
        let usage: Vec<PodUsage> = list.items().into_iter().map(PodMetrics::usage).collect();
        assert_eq!((&*usage[0].pod, usage[0].window), ("web-1", Seconds(15)));
        assert_eq!(usage[0].at.second().to_rfc3339(), "2026-11-21T15:00:00Z");
        let cpu: Vec<Option<i64>> =
            usage[0].containers.iter().map(|c| c.usage.get("cpu").map(|cpu| cpu.milli())).collect();
        assert_eq!(cpu, [Some(701), None, None]);
        assert_eq!(usage[0].containers[0].usage.get("memory").map(|m| m.units()), Some(128 << 20));
    }

    #[test]
    fn an_empty_list_may_be_null() {
        let list: List<SeriesValue> = serde_json::from_str(r#"{"items":null}"#).unwrap();
        assert!(list.items().is_empty());
    }

    #[test]
    fn a_value_keeps_its_time_and_may_be_a_bare_number() {
        let text = r#"{"describedObject":{"kind":"Service","name":"web"},"metric":{"name":"rps"},
            "timestamp":"2026-11-21T15:00:00Z","windowSeconds":60,"value":12}"#;
        let value: ObjectValue = serde_json::from_str(text).unwrap();
        let sample = value.sample().unwrap();
        assert_eq!(sample.at.map(|at| at.second().to_rfc3339()).as_deref(), Some("2026-11-21T15:00:00Z"));
        let Number::Quantity(quantity) = sample.value else { panic!("it is a number") };
        assert_eq!(quantity.milli(), 12_000);
    }
}
