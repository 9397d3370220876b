//! Metrics of a workload's load, with the field names of autoscaling/v2; it knows no amounts.

use std::collections::BTreeMap;
use std::fmt;

use headroom_core::pods::spec::{MetricIdentifier, ScaleTargetRef};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::store::{at, text};

/// Metric of a load. Two are equal if their names and selectors are, as they are written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// CPU of the pods.
    Cpu,
    /// Memory of the pods.
    Memory,
    /// A metric that each pod has.
    Pods(MetricIdentifier),
    /// A metric of one object.
    Object(ScaleTargetRef, MetricIdentifier),
    /// A metric that belongs to no object.
    External(MetricIdentifier),
    /// The answer to a query to a Prometheus server.
    Prometheus {
        /// Name of the server.
        source: String,
        /// Text of the query.
        query: String,
    },
    /// The answer of an external scaler.
    ExternalScaler {
        /// Name of the server.
        source: String,
        /// Name of the metric; `None` for the only one.
        metric: Option<String>,
        /// Parameters of the question.
        metadata: BTreeMap<String, String>,
    },
    /// A number in the JSON that an HTTP server gives.
    Http {
        /// Name of the server.
        source: String,
        /// Path below its address.
        path: String,
        /// Place of the number in the answer.
        value: String,
    },
    /// A number that a Redis server counts.
    Redis {
        /// Name of the server.
        source: String,
        /// The key.
        key: String,
        /// Number of the database.
        database: u32,
        /// Consumer group of a stream; `None` where elements are counted.
        group: Option<String>,
    },
}

impl Metric {
    /// Reads the metric of an entry of `spec.metrics` or `status.currentMetrics`; its target and values are ignored.
    /// `None` for a resource other than CPU and memory, for one of a single container, and for what cannot be read.
    #[must_use]
    pub fn of(entry: &Value) -> Option<Metric> {
        let member = member(entry)?;
        Some(match text(entry, &["type"])? {
            "Resource" => match text(member, &["name"])? {
                "cpu" => Metric::Cpu,
                "memory" => Metric::Memory,
                _ => return None,
            },
            "Pods" => Metric::Pods(read(member, "metric")?),
            "Object" => Metric::Object(read(member, "describedObject")?, read(member, "metric")?),
            "External" => Metric::External(read(member, "metric")?),
            "Prometheus" => {
                Metric::Prometheus { source: read(member, "source")?, query: read(member, "query")? }
            }
            "ExternalScaler" => Metric::ExternalScaler {
                source: read(member, "source")?,
                metric: optional(member, "metricName")?,
                metadata: optional(member, "metadata")?,
            },
            "HTTP" => Metric::Http {
                source: read(member, "source")?,
                path: read(member, "path")?,
                value: read(member, "value")?,
            },
            "Redis" => Metric::Redis {
                source: read(member, "source")?,
                key: read(member, "key")?,
                database: optional(member, "database")?,
                group: optional(member, "group")?,
            },
            _ => return None,
        })
    }

    /// The name of the resource that the pods use; `None` if it is not a resource.
    #[must_use]
    pub fn resource(&self) -> Option<&'static str> {
        match self {
            Metric::Cpu => Some("cpu"),
            Metric::Memory => Some("memory"),
            Metric::Pods(_)
            | Metric::Object(..)
            | Metric::External(_)
            | Metric::Prometheus { .. }
            | Metric::ExternalScaler { .. }
            | Metric::Http { .. }
            | Metric::Redis { .. } => None,
        }
    }

    /// True if it is measured where no pod runs, too.
    #[must_use]
    pub fn outlives_pods(&self) -> bool {
        match self {
            Metric::Object(..)
            | Metric::External(_)
            | Metric::Prometheus { .. }
            | Metric::ExternalScaler { .. }
            | Metric::Http { .. }
            | Metric::Redis { .. } => true,
            Metric::Cpu | Metric::Memory | Metric::Pods(_) => false,
        }
    }
}

/// The member of a metric that its type names, such as `containerResource`; `None` where there is none.
#[must_use]
pub fn member(entry: &Value) -> Option<&Value> {
    let kind = text(entry, &["type"])?;
    if kind == "HTTP" {
        return at(entry, &["http"]);
    }
    let first = kind.chars().next()?;
    let rest = &kind[first.len_utf8()..];
    at(entry, &[&format!("{}{rest}", first.to_lowercase())])
}

fn read<T: DeserializeOwned>(member: &Value, field: &str) -> Option<T> {
    T::deserialize(at(member, &[field])?).ok()
}

/// The same, with a default where the field is not there.
fn optional<T: DeserializeOwned + Default>(member: &Value, field: &str) -> Option<T> {
    at(member, &[field]).map_or_else(|| Some(T::default()), |value| T::deserialize(value).ok())
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Metric::Cpu => write!(f, "CPU"),
            Metric::Memory => write!(f, "memory"),
            Metric::Pods(metric) => write!(f, "metric {} of the pods", metric.name),
            Metric::Object(object, metric) => {
                write!(f, "metric {} of {} {}", metric.name, object.kind, object.name)
            }
            Metric::External(metric) => write!(f, "external metric {}", metric.name),
            Metric::Prometheus { source, query } => write!(f, "query {query} to {source}"),
            Metric::ExternalScaler { source, metric: Some(metric), .. } => {
                write!(f, "metric {metric} of external scaler {source}")
            }
            Metric::ExternalScaler { source, metric: None, .. } => write!(f, "external scaler {source}"),
            Metric::Http { source, path, value } => write!(f, "{value} of {path} at {source}"),
            Metric::Redis { source, key, database: _, group: None } => write!(f, "key {key} at {source}"),
            Metric::Redis { source, key, database: _, group: Some(group) } => {
                write!(f, "group {group} on key {key} at {source}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identifier(name: &str) -> MetricIdentifier {
        MetricIdentifier { name: name.to_owned(), selector: None }
    }

    #[test]
    fn a_metric_is_the_same_in_spec_and_status_whatever_its_target_and_value() {
        let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "front"});
        let members = [
            ("Resource", json!({"name": "memory"})),
            ("Pods", json!({"metric": {"name": "rps"}})),
            ("Object", json!({"metric": {"name": "rps"}, "describedObject": ingress})),
            ("External", json!({"metric": {"name": "queue", "selector": {"matchLabels": {"queue": "a"}}}})),
        ];
        for (kind, member) in members {
            let with = |field: &str, value: Value| {
                let mut member = member.clone();
                member[field] = value;
                let mut entry = json!({"type": kind});
                entry[kind.to_lowercase()] = member;
                Metric::of(&entry)
            };
            let asked = with("target", json!({"type": "AverageValue", "averageValue": "5"}));
            assert!(asked.is_some(), "{kind}");
            assert_eq!(asked, with("current", json!({"averageValue": "7"})), "{kind}");
        }
    }

    #[test]
    fn metrics_of_other_selectors_are_others() {
        let external = |selector: Value| {
            Metric::of(
                &json!({"type": "External", "external": {"metric": {"name": "queue", "selector": selector}}}),
            )
        };
        assert_ne!(
            external(json!({"matchLabels": {"queue": "a"}})),
            external(json!({"matchLabels": {"queue": "b"}}))
        );
        assert_eq!(external(Value::Null), Some(Metric::External(identifier("queue"))));
    }

    #[test]
    fn what_cannot_be_measured_is_no_metric() {
        let gpu = json!({"type": "Resource", "resource": {"name": "nvidia.com/gpu"}});
        let container =
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "app"}});
        for entry in [gpu, container, json!({"type": "External"}), json!({"type": "Moon"}), json!({})] {
            assert_eq!(Metric::of(&entry), None, "{entry}");
        }
    }
}
