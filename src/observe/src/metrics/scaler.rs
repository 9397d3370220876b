//! Servers of KEDA's external scaler protocol: who may ask them, what they are asked, and what their answers mean. It knows no
//! gRPC: the calls are behind [`ScalerCalls`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use headroom_core::pods::input::{Sample, ScalerReading};
use headroom_core::quantity::Quantity;

use super::answer::{Absurdity, Answer, Outage, Question, Why, cut, number, quantity};
use super::declared::permits;
use super::turns::Turns;

/// Values of one answer that are added up. Servers answer with one.
const VALUES_MAX: usize = 1000;
/// Names that a message lists.
const NAMES_MAX: usize = 5;
/// Longest name in a message, in characters.
const NAME_CHARS_MAX: usize = 64;

/// A server of the protocol as ClusterScalingPolicy.workloads.metricSources declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScalerSource {
    /// The name by which ScalingPolicies refer to it.
    pub name: String,
    /// Host and port.
    pub address: String,
    /// Encryption; `None` for plaintext.
    pub tls: Option<ScalerTls>,
    /// Namespaces whose policies may ask it; empty for all.
    pub namespaces: Vec<String>,
}

/// Encryption and authentication, by files that are read again while the operator runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScalerTls {
    /// Certificates of the CAs that may have signed the server's.
    pub ca_file: PathBuf,
    /// The operator's certificate and its key.
    pub identity_files: Option<(PathBuf, PathBuf)>,
    /// Name in the server's certificate; `None` for the address's host.
    pub server_name: Option<String>,
}

/// The question of one metric of a policy to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScalerQuery {
    /// Name of the source.
    pub source: String,
    /// Subject of the question.
    pub object: ScaledObject,
    /// Name of the metric; `None` for the only one that the server has.
    pub metric: Option<String>,
    /// True if the server's own target is wanted.
    pub wants_target: bool,
}

impl ScalerQuery {
    /// The question, for the message of a failure.
    #[must_use]
    pub fn question(&self) -> Question {
        let Self { source, object: ScaledObject { name, namespace, .. }, metric, wants_target: _ } = self;
        let metric = metric.as_deref().map(|metric| format!("metric {metric}"));
        let metric = metric.as_deref().unwrap_or("the metric");
        Question::new(&format!("external scaler {source}"), format_args!("{metric} of {namespace}/{name}"))
    }
}

/// The workload as servers know it: KEDA's ScaledObject, here the ScalingPolicy.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScaledObject {
    /// Name of the policy.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Parameters that the policy sets.
    pub metadata: BTreeMap<String, String>,
}

/// A metric of a server with its target: the number that is set, of two.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScalerSpec {
    /// Its name.
    pub name: String,
    /// The target as a float; counts if it is not 0.
    pub target: f64,
    /// The target as a whole number.
    pub whole_target: i64,
}

/// A value of a metric: the number that is set, of two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScalerValue {
    /// As a float; counts if it is not 0.
    pub value: f64,
    /// As a whole number.
    pub whole: i64,
}

/// End of a call.
pub type Called<T> = Result<T, Why>;

/// The calls of one server. The server is sent `deadline`; each call is made once, and may be dropped.
pub trait ScalerCalls: Send + Sync {
    /// The metrics of a workload, with their targets.
    fn metric_specs<'a>(
        &'a self,
        of: &'a ScaledObject,
        deadline: Duration,
    ) -> BoxFuture<'a, Called<Vec<ScalerSpec>>>;

    /// The values of one metric, whatever names they have in the answer.
    fn metrics<'a>(
        &'a self,
        of: &'a ScaledObject,
        metric: &'a str,
        deadline: Duration,
    ) -> BoxFuture<'a, Called<Vec<ScalerValue>>>;

    /// True if the server has work for the workload.
    fn is_active<'a>(&'a self, of: &'a ScaledObject, deadline: Duration) -> BoxFuture<'a, Called<bool>>;

    /// The activity of a workload each time the server reports it, until the connection or the server ends the stream.
    fn activity(&self, of: &ScaledObject) -> BoxStream<'static, Called<bool>>;
}

/// Makes the calls of a declared server. Nothing is connected before the first one.
pub type ConnectScaler = Arc<dyn Fn(&ScalerSource) -> Arc<dyn ScalerCalls> + Send + Sync>;

/// A declared server with its connections.
pub(super) struct Scaler {
    source: ScalerSource,
    calls: Arc<dyn ScalerCalls>,
    turns: Turns,
}

impl Scaler {
    pub(super) fn new(source: ScalerSource, calls: Arc<dyn ScalerCalls>) -> Self {
        Self { source, calls, turns: Turns::new() }
    }

    /// Errors unless policies of the namespace may ask the server.
    pub(super) fn permits(&self, question: &Question, namespace: &str) -> Answer<()> {
        let ScalerSource { name, namespaces, .. } = &self.source;
        permits(question, (name, "externalScaler"), namespaces, namespace)
    }

    /// The metric that a query means, with the target that the server has for it.
    pub(super) async fn spec(
        &self,
        question: &Question,
        query: &ScalerQuery,
        deadline: Duration,
    ) -> Answer<ScalerSpec> {
        let call = self.calls.metric_specs(&query.object, deadline);
        let specs = self.turns.take(call).await.map_err(|why| question.failure(why))?;
        chosen(question, specs, query.metric.as_deref())
    }

    /// Values and activity of a metric. That the server does not tell the activity costs nothing else.
    pub(super) async fn read(
        &self,
        question: &Question,
        (query, metric): (&ScalerQuery, &str),
        target: Option<Quantity>,
        deadline: Duration,
    ) -> Answer<ScalerReading> {
        let calls = async {
            Ok(futures::join!(
                self.calls.metrics(&query.object, metric, deadline),
                self.calls.is_active(&query.object, deadline)
            ))
        };
        let (values, active) = self.turns.take(calls).await.map_err(|why| question.failure(why))?;
        let values = values.map_err(|why| question.failure(why))?;
        Ok(ScalerReading { values: samples(question, &values)?, target, active: active.ok() })
    }

    /// Reports of a workload's activity.
    pub(super) fn activity(&self, of: &ScaledObject) -> BoxStream<'static, Called<bool>> {
        self.calls.activity(of)
    }
}

impl fmt::Debug for Scaler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scaler").field("source", &self.source).finish_non_exhaustive()
    }
}

/// The metric of that name among those of a server; without a name the only one.
///
/// # Errors
/// `Empty` if the server has none, `Refused` if the name does not decide.
pub fn chosen(question: &Question, specs: Vec<ScalerSpec>, metric: Option<&str>) -> Answer<ScalerSpec> {
    let mut names: Vec<String> =
        specs.iter().take(NAMES_MAX).map(|spec| cut(&spec.name, NAME_CHARS_MAX)).collect();
    if NAMES_MAX < specs.len() {
        names.push("and others".to_owned());
    }
    let names = names.join(", ");
    if specs.is_empty() {
        return Err(question.failure(Why::Empty));
    }
    match metric {
        None if specs.len() == 1 => specs.into_iter().next().ok_or_else(|| question.failure(Why::Empty)),
        None => Err(question.refused(format!(
            "the server has several metrics, {names}: name one as externalScaler.metricName, and add a metric for each other one"
        ))),
        Some(metric) => specs.into_iter().find(|spec| spec.name == metric).ok_or_else(|| {
            question.refused(format!(
                "the server has no metric {metric}, it has {names}: correct externalScaler.metricName"
            ))
        }),
    }
}

/// The target of a metric as the server has it.
///
/// # Errors
/// `Absurd` if it is not more than 0, or cannot be counted with.
pub fn target_of(question: &Question, spec: &ScalerSpec) -> Answer<Quantity> {
    let target = read(spec.target, spec.whole_target).map_err(|why| question.failure(Why::Absurd(why)))?;
    if target.milli() <= 0 {
        return Err(question.refused(
            "the server has no target for it that is more than 0: set externalScaler.target of the metric",
        ));
    }
    Ok(target)
}

/// The values of an answer, as the decision adds them up.
///
/// # Errors
/// `Empty` without a value, `Absurd` if one of them cannot be counted with: a sum without it would be lower than the load.
pub fn samples(question: &Question, values: &[ScalerValue]) -> Answer<Vec<Sample>> {
    if values.is_empty() {
        return Err(question.failure(Why::Empty));
    }
    if VALUES_MAX < values.len() {
        let message = format!("it has more than {VALUES_MAX} values");
        return Err(question.failure(Why::Outage(Outage::Garbled(message))));
    }
    let sample = |value: &ScalerValue| {
        let quantity = read(value.value, value.whole)?;
        if quantity.is_negative() {
            return Err(Absurdity::Negative(quantity.to_decimal()));
        }
        Ok(Sample::of(quantity))
    };
    let read: Result<Vec<Sample>, Absurdity> = values.iter().map(sample).collect();
    read.map_err(|absurdity| question.failure(Why::Absurd(absurdity)))
}

/// The number that is set, of two. Servers of an older generation know the whole number alone.
///
/// Source: KEDA, pkg/scalers/external_scaler.go, GetMetricsAndActivity. Differs: a float that is negative or not a number is not
/// taken for the whole number, which would be 0.
fn read(float: f64, whole: i64) -> Result<Quantity, Absurdity> {
    if float == 0.0 {
        return quantity(&whole.to_string());
    }
    number(float)
}
