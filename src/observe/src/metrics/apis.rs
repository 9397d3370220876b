//! The cluster's metrics APIs behind the aggregation layer, the declared Prometheus servers and external scalers, as one
//! [`MetricsSource`].

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use headroom_core::pods::input::{PodUsage, PodValue, Sample, ScalerReading};
use headroom_core::pods::moment::Moment;
use headroom_core::pods::selector::Selector;
use headroom_core::pods::spec::{MetricSelector, ScaleTargetRef};
use headroom_core::time::Seconds;
use kube::Client;
use serde::de::DeserializeOwned;

use super::answer::{Absurdity, Answer, Failure, Outage, Question, Why};
use super::budget::Budget;
use super::call::{NUMBER_MAX_BYTES, PODS_MAX_BYTES, SERIES_MAX_BYTES, get};
use super::declared::Declared;
use super::discovery::{CUSTOM, Discovery};
use super::http_source::{HttpQuery, HttpServer, HttpSource};
use super::prometheus::{PrometheusServer, PrometheusSource};
use super::redis_source::{RedisQuery, RedisServer, RedisSource};
use super::scaler::{Called, ConnectScaler, Scaler, ScalerQuery, ScalerSource, ScalerSpec, target_of};
use super::shared::{Keep, Shared};
use super::source::{MetricsSource, not_declared, source_not_declared};
use super::wire::{List, ObjectValue, PodMetrics, SeriesValue};
use crate::host::Host;

const RESOURCE: &str = "metrics.k8s.io";
const EXTERNAL: &str = "external.metrics.k8s.io";

/// Longest that a failed answer serves others before the source is asked again.
const FAILURE_KEPT_MAX: Duration = Duration::from_secs(5);

/// Time for which the metrics and targets of an external scaler serve.
const SPECS_KEPT: Duration = Duration::from_secs(60);

/// Most series of one external metric. They are added up, and the adapters that are in use answer with one or a few.
const SERIES_MAX: usize = 1000;

/// Part of a caller's period in which it is served by the answer to somebody else: less than one, so that it never gets the same
/// answer twice.
pub const SHARED_PART: f32 = 0.9;

/// Deadlines, and for how long an answer serves.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Longest wait for one answer. Default 10 s: less than the period in which workloads are decided on.
    pub deadline: Duration,
    /// Time for which one list of a namespace's pod metrics serves all its workloads. Default 14 s: a period of 15 s
    /// less a second, so that a workload that is asked about each period never gets the same list twice.
    pub share_usage_for: Duration,
    /// Time for which any other answer serves callers that ask the same. Default 5 s.
    pub share_for: Duration,
    /// Samples older than this are stale. Default 5 min.
    pub sample_age_max: Seconds,
    /// Samples from further in the future than this are stale too: a clock is wrong. Default 1 min.
    pub clock_error_max: Seconds,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            share_usage_for: Duration::from_secs(14),
            share_for: Duration::from_secs(5),
            sample_age_max: Seconds(300),
            clock_error_max: Seconds(60),
        }
    }
}

/// Callback for every question that was really asked: its source, and `MetricsRead` or the reason of the failure.
pub type ReadObserver = Arc<dyn Fn(&'static str, &'static str) + Send + Sync>;

/// The metrics of one cluster. A clone shares the answers.
#[derive(Clone)]
pub struct ClusterMetrics {
    client: Client,
    host: Arc<Host>,
    bounds: Bounds,
    budget: Arc<Budget>,
    discovery: Arc<Discovery>,
    usage: Arc<Shared<String, Arc<Vec<PodUsage>>>>,
    pods: Arc<Shared<String, Arc<Vec<PodValue>>>>,
    objects: Arc<Shared<String, Sample>>,
    external: Arc<Shared<String, Arc<Vec<Sample>>>>,
    queries: Arc<Shared<(String, String, String), Sample>>,
    servers: Arc<Declared<PrometheusServer>>,
    numbers: Arc<Shared<(String, HttpQuery), Sample>>,
    http_servers: Arc<Declared<HttpServer>>,
    counts: Arc<Shared<RedisQuery, Sample>>,
    redis_servers: Arc<Declared<RedisServer>>,
    readings: Arc<Shared<ScalerQuery, ScalerReading>>,
    specs: Arc<Shared<ScalerQuery, ScalerSpec>>,
    scalers: Arc<BTreeMap<String, Arc<Scaler>>>,
    observer: Option<ReadObserver>,
    /// Longest age of a shared answer, beside the bounds.
    answer_age_max: Duration,
}

impl ClusterMetrics {
    /// Reads through `client`, whose user needs `get` and `list` on the three API groups of metrics, and which must not
    /// retry by itself (`Config::default_retry` off): it would turn every outage into a missed deadline.
    #[must_use]
    pub fn new(client: Client, host: &Arc<Host>, bounds: Bounds) -> Self {
        fn shared<K: Ord + Clone, T: Clone>(host: &Arc<Host>, success: Duration) -> Arc<Shared<K, T>> {
            let failure = Duration::from_secs(1).min(success);
            let keep = Keep { success, failure, failure_max: FAILURE_KEPT_MAX.min(success) };
            Arc::new(Shared::new(host.clone(), keep))
        }
        let budget = Arc::new(Budget::new());
        Self {
            discovery: Arc::new(Discovery::new(client.clone(), host, bounds.deadline, budget.clone())),
            client,
            budget,
            host: host.clone(),
            bounds,
            usage: shared(host, bounds.share_usage_for),
            pods: shared(host, bounds.share_for),
            objects: shared(host, bounds.share_for),
            external: shared(host, bounds.share_for),
            queries: shared(host, bounds.share_for),
            servers: Arc::default(),
            numbers: shared(host, bounds.share_for),
            http_servers: Arc::default(),
            counts: shared(host, bounds.share_for),
            redis_servers: Arc::default(),
            readings: shared(host, bounds.share_for),
            specs: shared(host, SPECS_KEPT),
            scalers: Arc::default(),
            observer: None,
            answer_age_max: Duration::MAX,
        }
    }

    /// The same metrics, with `observer` called for every read.
    #[must_use]
    pub fn observed_by(self, observer: ReadObserver) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The same metrics, with these external scalers, which `connect` calls.
    #[must_use]
    pub fn with_scalers(self, sources: &[ScalerSource], connect: &ConnectScaler) -> Self {
        let scaler = |source: &ScalerSource| {
            (source.name.clone(), Arc::new(Scaler::new(source.clone(), connect(source))))
        };
        Self { scalers: Arc::new(sources.iter().map(scaler).collect()), ..self }
    }

    /// The declared external scaler that a query names, if policies of its namespace may ask it.
    fn scaler(&self, query: &ScalerQuery) -> Answer<(Question, Arc<Scaler>)> {
        let (question, source) = (query.question(), &query.source);
        let Some(scaler) = self.scalers.get(source) else {
            let other = self.of_another_type(&question, source, "externalScaler.source");
            return Err(other.unwrap_or_else(|| not_declared(query)));
        };
        scaler.permits(&question, &query.object.namespace)?;
        Ok((question, scaler.clone()))
    }

    async fn read_scaler(
        &self,
        question: &Question,
        scaler: &Scaler,
        query: &ScalerQuery,
    ) -> Answer<ScalerReading> {
        let deadline = self.bounds.deadline;
        let (metric, target) = match &query.metric {
            Some(metric) if !query.wants_target => (metric.clone(), None),
            _ => {
                let ask = scaler.spec(question, query, deadline);
                let spec = self.specs.get(query, Duration::MAX, ask).await?;
                let target = query.wants_target.then(|| target_of(question, &spec)).transpose()?;
                (spec.name, target)
            }
        };
        scaler.read(question, (query, &metric), target, deadline).await
    }

    async fn observed<T>(&self, source: &'static str, read: impl Future<Output = Answer<T>>) -> Answer<T> {
        let answer = read.await;
        if let Some(observer) = &self.observer {
            observer(source, answer.as_ref().map_or_else(Failure::reason, |_| "MetricsRead"));
        }
        answer
    }

    /// The failure of a question to a source of another type than its metric; `None` if there is no source of this name.
    fn of_another_type(&self, question: &Question, source: &str, field: &str) -> Option<Failure> {
        let (what, type_) = if self.scalers.contains_key(source) {
            ("an external scaler", "ExternalScaler")
        } else if self.servers.has(source) {
            ("a Prometheus server", "Prometheus")
        } else if self.http_servers.has(source) {
            ("an HTTP server", "HTTP")
        } else if self.redis_servers.has(source) {
            ("a Redis server", "Redis")
        } else {
            return None;
        };
        Some(
            question.refused(format_args!(
                "{source} is {what}: use a metric of type {type_}, or correct {field}"
            )),
        )
    }

    /// Takes the declared Prometheus servers in place of those before. A server whose declaration has not changed keeps
    /// its connections. One that cannot be set up answers every query with why.
    pub fn declare(&self, sources: &[PrometheusSource]) {
        self.servers.declare(sources);
    }

    /// Takes the declared HTTP servers in place of those before, as [`Self::declare`].
    pub fn declare_http(&self, sources: &[HttpSource]) {
        self.http_servers.declare(sources);
    }

    /// Takes the declared Redis servers in place of those before, as [`Self::declare`].
    pub fn declare_redis(&self, sources: &[RedisSource]) {
        self.redis_servers.declare(sources);
    }

    async fn read_usage(&self, namespace: &str) -> Answer<Arc<Vec<PodUsage>>> {
        let question = Question::new(RESOURCE, format_args!("pod metrics of namespace {namespace}"));
        let path = format!("/apis/{RESOURCE}/v1beta1/namespaces/{}/pods", segment(namespace, &question)?);
        let list: List<PodMetrics> = self.get(&path, PODS_MAX_BYTES, &question).await?;
        let mut usage: Vec<PodUsage> = list.items().into_iter().map(PodMetrics::usage).collect();
        usage.sort_by(|a, b| a.pod.cmp(&b.pod));
        self.some_fresh(&question, usage.iter().map(|usage| Some(usage.at)))?;
        Ok(Arc::new(usage))
    }

    async fn read_pod_metric(&self, question: &Question, path: &str) -> Answer<Arc<Vec<PodValue>>> {
        let list: List<ObjectValue> = self.custom(question, path, PODS_MAX_BYTES).await?;
        let mut values = Vec::new();
        let mut absurd = None;
        for item in list.items() {
            match item.pod_value() {
                Ok(value) => values.push(value),
                Err(absurdity) => absurd = Some(absurdity),
            }
        }
        if let (true, Some(absurdity)) = (values.is_empty(), absurd) {
            return Err(question.failure(Why::Absurd(absurdity)));
        }
        values.sort_by(|a, b| a.pod.cmp(&b.pod));
        self.some_fresh(question, values.iter().map(|value| value.sample.at))?;
        Ok(Arc::new(values))
    }

    async fn read_object_metric(
        &self,
        question: &Question,
        namespace: &str,
        object: &ScaleTargetRef,
        suffix: &str,
    ) -> Answer<Sample> {
        let group = object.api_version.split_once('/').map_or("", |(group, _)| group);
        let namespace = segment(namespace, question)?;
        let path = if group.is_empty() && object.kind == "Namespace" {
            format!("namespaces/{namespace}/metrics/{suffix}")
        } else {
            let resource = self.discovery.resource(group, &object.kind).await?;
            let name = segment(&object.name, question)?;
            // Cluster-scoped kinds too: a policy must not read what belongs to the whole cluster.
            // Source: k8s.io/metrics custom_metrics/versioned_client.go, namespacedMetrics.GetForObject.
            format!("namespaces/{namespace}/{resource}/{name}/{suffix}")
        };
        let list: List<ObjectValue> = self.custom(question, &path, NUMBER_MAX_BYTES).await?;
        let items = list.items();
        let [item] = items.as_slice() else {
            let why = match items.len() {
                0 => Why::Empty,
                n => Why::Absurd(Absurdity::ManyValues(n)),
            };
            return Err(question.failure(why));
        };
        let sample = item.sample().map_err(|absurdity| question.failure(Why::Absurd(absurdity)))?;
        self.all_fresh(question, [sample.at])?;
        Ok(sample)
    }

    async fn read_external(&self, question: &Question, path: &str) -> Answer<Arc<Vec<Sample>>> {
        let list: List<SeriesValue> = self.get(path, SERIES_MAX_BYTES, question).await?;
        let series = list.items();
        if SERIES_MAX < series.len() {
            let message = format!("it has more than {SERIES_MAX} series: narrow the metric's selector");
            return Err(question.failure(Why::Outage(Outage::Garbled(message))));
        }
        let samples: Result<Vec<Sample>, Absurdity> = series.iter().map(SeriesValue::sample).collect();
        let samples = samples.map_err(|absurdity| question.failure(Why::Absurd(absurdity)))?;
        self.all_fresh(question, samples.iter().map(|sample| sample.at))?;
        Ok(Arc::new(samples))
    }

    /// A GET from the API server, within the deadline and the budget.
    async fn get<T: DeserializeOwned>(&self, path: &str, bytes_max: usize, question: &Question) -> Answer<T> {
        get(&self.client, path, self.bounds.deadline, bytes_max, &self.budget, question).await
    }

    /// A GET from the custom metrics API, in the version that is served.
    async fn custom(&self, question: &Question, path: &str, bytes_max: usize) -> Answer<List<ObjectValue>> {
        let version =
            self.discovery.custom_version().await.map_err(|failure| question.failure(failure.why))?;
        let path = format!("/apis/{CUSTOM}/{version}/{path}");
        let answer = self.get(&path, bytes_max, question).await;
        if matches!(&answer, Err(Failure { why: Why::NotRegistered(_), .. })) {
            self.discovery.forget_custom_version();
        }
        answer
    }

    /// Errors with `Empty` if there are none, and with `Stale` if none can be used. A sample without a time is fresh.
    fn some_fresh(&self, question: &Question, times: impl Iterator<Item = Option<Moment>>) -> Answer<()> {
        let mut stale = None;
        for at in times {
            match self.staleness(at) {
                None => return Ok(()),
                Some(why) => {
                    stale = Some(stale.map_or_else(|| why.clone(), |known| younger(known, why.clone())))
                }
            }
        }
        Err(question.failure(stale.unwrap_or(Why::Empty)))
    }

    /// Errors with `Empty` if there are none, and with `Stale` if any is.
    fn all_fresh(&self, question: &Question, times: impl IntoIterator<Item = Option<Moment>>) -> Answer<()> {
        let mut times = times.into_iter().peekable();
        if times.peek().is_none() {
            return Err(question.failure(Why::Empty));
        }
        times.find_map(|at| self.staleness(at)).map_or(Ok(()), |why| Err(question.failure(why)))
    }

    fn staleness(&self, at: Option<Moment>) -> Option<Why> {
        let at = at?;
        let age = Moment::from_jiff(self.host.time()).since(at);
        if self.bounds.sample_age_max < age {
            return Some(Why::Stale { at, age, age_max: self.bounds.sample_age_max });
        }
        (age.0 < -self.bounds.clock_error_max.0).then_some(Why::Stale {
            at,
            age,
            age_max: self.bounds.clock_error_max,
        })
    }
}

/// The one of two kinds of staleness whose sample is younger.
fn younger(a: Why, b: Why) -> Why {
    match (&a, &b) {
        (Why::Stale { at: first, .. }, Why::Stale { at: second, .. }) if first < second => b,
        _ => a,
    }
}

impl MetricsSource for ClusterMetrics {
    fn for_period(&self, period: Duration) -> Option<Arc<dyn MetricsSource>> {
        Some(Arc::new(Self { answer_age_max: period.mul_f32(SHARED_PART), ..self.clone() }))
    }

    fn pod_usage<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Answer<Arc<Vec<PodUsage>>>> {
        async move {
            self.usage
                .get(
                    &namespace.to_owned(),
                    self.answer_age_max,
                    self.observed("resource", self.read_usage(namespace)),
                )
                .await
        }
        .boxed()
    }

    fn pod_metric<'a>(
        &'a self,
        namespace: &'a str,
        metric: &'a str,
        pods: &'a str,
        selector: Option<&'a MetricSelector>,
    ) -> BoxFuture<'a, Answer<Arc<Vec<PodValue>>>> {
        async move {
            let what = format_args!("pod metric {metric} in namespace {namespace}").to_string();
            let question = Question::new(CUSTOM, what);
            let mut path = format!(
                "namespaces/{}/pods/*/{}",
                segment(namespace, &question)?,
                segment(metric, &question)?
            );
            let metric_selector = selector_text(selector, &question)?;
            push_parameters(&mut path, &[("labelSelector", pods), ("metricLabelSelector", &metric_selector)]);
            self.pods
                .get(
                    &path,
                    self.answer_age_max,
                    self.observed("pods", self.read_pod_metric(&question, &path)),
                )
                .await
        }
        .boxed()
    }

    fn object_metric<'a>(
        &'a self,
        namespace: &'a str,
        object: &'a ScaleTargetRef,
        metric: &'a str,
        selector: Option<&'a MetricSelector>,
    ) -> BoxFuture<'a, Answer<Sample>> {
        async move {
            let what = format!("metric {metric} of {} {} in namespace {namespace}", object.kind, object.name);
            let question = Question::new(CUSTOM, what);
            let mut suffix = segment(metric, &question)?;
            push_parameters(&mut suffix, &[("metricLabelSelector", &selector_text(selector, &question)?)]);
            let key = format!("{namespace}/{}/{}/{}/{suffix}", object.api_version, object.kind, object.name);
            let read = self.read_object_metric(&question, namespace, object, &suffix);
            self.objects.get(&key, self.answer_age_max, self.observed("object", read)).await
        }
        .boxed()
    }

    fn external_metric<'a>(
        &'a self,
        namespace: &'a str,
        metric: &'a str,
        selector: Option<&'a MetricSelector>,
    ) -> BoxFuture<'a, Answer<Arc<Vec<Sample>>>> {
        async move {
            let question = Question::new(EXTERNAL, format_args!("metric {metric} in namespace {namespace}"));
            let mut path = format!(
                "/apis/{EXTERNAL}/v1beta1/namespaces/{}/{}",
                segment(namespace, &question)?,
                segment(metric, &question)?
            );
            push_parameters(&mut path, &[("labelSelector", &selector_text(selector, &question)?)]);
            self.external
                .get(
                    &path,
                    self.answer_age_max,
                    self.observed("external", self.read_external(&question, &path)),
                )
                .await
        }
        .boxed()
    }

    fn prometheus<'a>(
        &'a self,
        namespace: &'a str,
        source: &'a str,
        query: &'a str,
    ) -> BoxFuture<'a, Answer<Sample>> {
        async move {
            let question =
                Question::new(&format!("prometheus source {source}"), format_args!("query {query}"));
            let server = self.servers.get(source);
            let Some(server) = server else {
                let field = "prometheus.source";
                let other = self.of_another_type(&question, source, field);
                return Err(other.unwrap_or_else(|| source_not_declared(&question, source, field)));
            };
            let key = (namespace.to_owned(), source.to_owned(), query.to_owned());
            let ask = async {
                let (deadline, now) = (self.bounds.deadline, self.host.time());
                let sample = server.query(&question, namespace, query, deadline, &self.budget, now).await?;
                self.all_fresh(&question, [sample.at])?;
                Ok(sample)
            };
            self.queries.get(&key, self.answer_age_max, self.observed("prometheus", ask)).await
        }
        .boxed()
    }

    fn http<'a>(&'a self, namespace: &'a str, query: &'a HttpQuery) -> BoxFuture<'a, Answer<Sample>> {
        async move {
            let (question, source) = (query.question(), &query.source);
            let server = self.http_servers.get(source);
            let Some(server) = server else {
                let other = self.of_another_type(&question, source, "http.source");
                return Err(other.unwrap_or_else(|| source_not_declared(&question, source, "http.source")));
            };
            let key = (namespace.to_owned(), query.clone());
            let ask = server.read(&question, namespace, query, self.bounds.deadline, &self.budget);
            self.numbers.get(&key, self.answer_age_max, self.observed("http", ask)).await
        }
        .boxed()
    }

    fn redis<'a>(&'a self, namespace: &'a str, query: &'a RedisQuery) -> BoxFuture<'a, Answer<Sample>> {
        async move {
            let (question, source) = (query.question(), &query.source);
            let Some(server) = self.redis_servers.get(source) else {
                let other = self.of_another_type(&question, source, "redis.source");
                return Err(other.unwrap_or_else(|| source_not_declared(&question, source, "redis.source")));
            };
            server.permits(&question, namespace, query)?;
            let ask = server.count(&question, query, self.bounds.deadline);
            self.counts.get(query, self.answer_age_max, self.observed("redis", ask)).await
        }
        .boxed()
    }

    fn external_scaler<'a>(&'a self, query: &'a ScalerQuery) -> BoxFuture<'a, Answer<ScalerReading>> {
        async move {
            let (question, scaler) = self.scaler(query)?;
            let ask = async {
                let deadline = self.bounds.deadline;
                let read = tokio::time::timeout(deadline, self.read_scaler(&question, &scaler, query)).await;
                read.unwrap_or_else(|_| Err(question.failure(Why::Outage(Outage::Deadline(deadline)))))
            };
            self.readings.get(query, self.answer_age_max, self.observed("externalScaler", ask)).await
        }
        .boxed()
    }

    fn activity(&self, query: &ScalerQuery) -> Answer<BoxStream<'static, Called<bool>>> {
        let (_, scaler) = self.scaler(query)?;
        let (readings, query) = (self.readings.clone(), query.clone());
        let reports = scaler.activity(&query.object).inspect(move |report| {
            if report.is_ok() {
                readings.forget(&query);
            }
        });
        Ok(reports.boxed())
    }
}

/// The text form of a metric's selector; empty if there is none, which means no filter.
fn selector_text(selector: Option<&MetricSelector>, question: &Question) -> Answer<String> {
    let converted = Selector::of_metric(selector)
        .map_err(|error| question.refused(format!("metric selector: {error}")))?;
    Ok(converted.to_string())
}

/// A name as one segment of a path.
///
/// # Errors
/// `Refused` for names that upstream's client refuses too: empty, `.`, `..`, or with `/` or `%` in them.
fn segment(name: &str, question: &Question) -> Answer<String> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '%']) {
        return Err(question.refused(format!(
            "{name:?} is no name that can be asked for: it must not be empty, . or .., nor contain / or %"
        )));
    }
    Ok(percent_encoded(name))
}

/// Adds the parameters that are not empty.
fn push_parameters(path: &mut String, parameters: &[(&str, &str)]) {
    let mut separator = '?';
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        path.push(separator);
        path.push_str(name);
        path.push('=');
        path.push_str(&percent_encoded(value));
        separator = '&';
    }
}

/// Everything but the unreserved characters of RFC 3986 as `%XX`.
#[must_use]
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
