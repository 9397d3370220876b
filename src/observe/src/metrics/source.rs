//! The seam between the workloads' loop and whoever measures: questions in, [`Answer`]s out; no source is named here.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use headroom_core::pods::input::{PodUsage, PodValue, Sample, ScalerReading};
use headroom_core::pods::spec::{MetricSelector, ScaleTargetRef};

use super::answer::{Answer, Failure, Question, Why};
use super::http_source::HttpQuery;
use super::redis_source::RedisQuery;
use super::scaler::{Called, ScalerQuery};

/// Source of measured load. Implementations bound every call by a deadline of their own, never retry within a call, and
/// share one call between callers that ask the same at about the same time.
///
/// Nothing here returns 0 or an empty list for "unknown": an empty list is [`super::Why::Empty`].
pub trait MetricsSource: Send + Sync {
    /// The same source for a caller that asks each `period`: it is served by no answer that is older than this. `None` if that
    /// is so already.
    fn for_period(&self, period: Duration) -> Option<Arc<dyn MetricsSource>> {
        let _ = period;
        None
    }

    /// The usage of all pods of a namespace, sorted by pod: one list a namespace and period, shared by all workloads, so
    /// callers pick their pods by name. A resource whose value cannot be read is left out of its container; a pod whose
    /// sample is stale is still in the list, for the decision to count as missing.
    ///
    /// # Errors
    /// `Empty` if no pod of the namespace has a sample, `Stale` if every sample is stale, and all failures of a call.
    fn pod_usage<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Answer<Arc<Vec<PodUsage>>>>;

    /// A custom metric of the pods that `pods` selects (a label selector as text, as a scale subresource has it), one
    /// value a pod, sorted by pod. A pod without a value, or with one that cannot be read, is not in the list.
    ///
    /// # Errors
    /// `Empty`; `Stale` or `Absurd` if no value can be used for that reason; all failures of a call.
    fn pod_metric<'a>(
        &'a self,
        namespace: &'a str,
        metric: &'a str,
        pods: &'a str,
        selector: Option<&'a MetricSelector>,
    ) -> BoxFuture<'a, Answer<Arc<Vec<PodValue>>>>;

    /// A custom metric of one object. For kind Namespace of the core group the workload's own namespace is asked for,
    /// whatever the name. Objects of cluster-scoped kinds are asked for inside of that namespace too, as upstream does.
    ///
    /// # Errors
    /// Every [`super::Why`].
    fn object_metric<'a>(
        &'a self,
        namespace: &'a str,
        object: &'a ScaleTargetRef,
        metric: &'a str,
        selector: Option<&'a MetricSelector>,
    ) -> BoxFuture<'a, Answer<Sample>>;

    /// An external metric: every series that the selector matches, in the order of the answer. Adding them up is the
    /// decision's rule, not the source's.
    ///
    /// # Errors
    /// Every [`super::Why`]. One stale or absurd value fails the whole answer: in a sum, leaving it out would make it 0.
    fn external_metric<'a>(
        &'a self,
        namespace: &'a str,
        metric: &'a str,
        selector: Option<&'a MetricSelector>,
    ) -> BoxFuture<'a, Answer<Arc<Vec<Sample>>>>;

    /// The one value of a PromQL query, asked of the Prometheus source of this name and confined to the namespace.
    ///
    /// # Errors
    /// Every [`super::Why`]; `NotRegistered` for a name that is not declared, `Refused` for a query that cannot be read
    /// or confined.
    fn prometheus<'a>(
        &'a self,
        namespace: &'a str,
        source: &'a str,
        query: &'a str,
    ) -> BoxFuture<'a, Answer<Sample>>;

    /// The number that an HTTP server gives at a place in its JSON; several are added up.
    ///
    /// # Errors
    /// Every [`super::Why`]; `NotRegistered` for a name that is not declared, `NotPermitted` for a source of other namespaces,
    /// `Refused` if what is there is no number.
    fn http<'a>(&'a self, namespace: &'a str, query: &'a HttpQuery) -> BoxFuture<'a, Answer<Sample>> {
        let _ = namespace;
        Box::pin(async { Err(source_not_declared(&query.question(), &query.source, "http.source")) })
    }

    /// A number that a Redis server counts.
    ///
    /// # Errors
    /// Every [`super::Why`]; `NotRegistered` for a name that is not declared, `NotPermitted` for a source of other namespaces or
    /// keys, `Refused` for a key that counts nothing.
    fn redis<'a>(&'a self, namespace: &'a str, query: &'a RedisQuery) -> BoxFuture<'a, Answer<Sample>> {
        let _ = namespace;
        Box::pin(async { Err(source_not_declared(&query.question(), &query.source, "redis.source")) })
    }

    /// Values, target and activity of a metric of an external scaler. Values are the decision's to add up; the target is the
    /// server's own, if the query wants it.
    ///
    /// # Errors
    /// Every [`super::Why`]; `NotRegistered` for a name that is not declared, `NotPermitted` for a source of other namespaces,
    /// `Refused` if the metric's name does not decide. That the server does not tell its activity is not an error.
    fn external_scaler<'a>(&'a self, query: &'a ScalerQuery) -> BoxFuture<'a, Answer<ScalerReading>> {
        Box::pin(async { Err(not_declared(query)) })
    }

    /// The activity of a workload each time that the external scaler reports it. An answer that is shared is not served beyond
    /// such a report. The stream ends with the connection; whoever reads it decides when to open it again.
    ///
    /// # Errors
    /// As [`Self::external_scaler`] before a call is made.
    fn activity(&self, query: &ScalerQuery) -> Answer<BoxStream<'static, Called<bool>>> {
        Err(not_declared(query))
    }
}

/// The failure of a question to a source that is not declared, which `field` of a policy's metric names.
pub(super) fn source_not_declared(question: &Question, source: &str, field: &str) -> Failure {
    question.failure(Why::NotRegistered(format!(
        "no such source: declare {source} in workloads.metricSources of the ClusterScalingPolicy, or correct {field}"
    )))
}

/// The failure of a question to an external scaler that is not declared.
pub(super) fn not_declared(query: &ScalerQuery) -> Failure {
    source_not_declared(&query.question(), &query.source, "externalScaler.source")
}
