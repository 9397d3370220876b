//! Metrics of one workload: questions to the sources, and their answers as the decision takes them.

use std::sync::Arc;

use headroom_core::labels::ObjectKey;
use headroom_core::pods::input::{Answer, PodSeen, PodUsage, PodValue, Sample, ScalerReading, Unknown};
use headroom_core::pods::spec::MetricSpec;

use super::questions::Query;
use super::resolve::Workload;
use headroom_api::SelectionStrategy;
use headroom_observe::metrics::{self, Failure, MetricsSource};
use headroom_report::MetricTrouble;

/// Answer to one question; [`answers`] lends it to the decision.
#[derive(Clone, Debug)]
pub enum Gathered {
    /// Usage of all pods of the namespace, sorted by pod; shared with every workload of the namespace.
    Usage(Arc<Vec<PodUsage>>),
    /// One value a pod.
    Pods(Arc<Vec<PodValue>>),
    /// The one value of an object.
    Object(Sample),
    /// All values of an external metric.
    External(Arc<Vec<Sample>>),
    /// Values, target and activity of an external scaler.
    Scaler(ScalerReading),
    /// Nothing is known.
    Unknown(Unknown),
}

/// All answers, in the order of the spec, and what the sources complained of.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    /// One a metric.
    pub gathered: Vec<Gathered>,
    /// Reason why a metric cannot be used.
    pub troubles: Vec<Option<MetricTrouble>>,
}

impl Load {
    /// Drops the values of pods that are not the workload's: the metrics APIs are asked by a selector, and answer for all pods
    /// that it selects.
    fn keep(&mut self, workload: &Workload, pods: &[Arc<PodSeen>]) {
        if workload.selection == SelectionStrategy::LabelSelector {
            return;
        }
        let is_own = |value: &PodValue| pods.binary_search_by(|pod| pod.name.cmp(&value.pod)).is_ok();
        for gathered in &mut self.gathered {
            if let Gathered::Pods(values) = gathered
                && !values.iter().all(is_own)
            {
                let own: Vec<PodValue> = values.iter().filter(|value| is_own(value)).cloned().collect();
                *gathered = match own.is_empty() {
                    true => Gathered::Unknown(Unknown::Empty),
                    false => Gathered::Pods(Arc::new(own)),
                };
            }
        }
    }
}

/// The answers as the decision takes them: of the usage of a namespace only that of the workload's own pods.
#[must_use]
pub(super) fn answers<'a>(gathered: &'a [Gathered], pods: &[Arc<PodSeen>]) -> Vec<Answer<'a>> {
    let answer = |gathered: &'a Gathered| match gathered {
        Gathered::Usage(list) => {
            let of = |pod: &Arc<PodSeen>| {
                list.binary_search_by(|usage| usage.pod.cmp(&pod.name)).ok().and_then(|place| list.get(place))
            };
            Answer::Usage(pods.iter().filter_map(of).collect())
        }
        Gathered::Pods(values) => Answer::Pods(values.to_vec()),
        Gathered::Object(sample) => Answer::Object(sample.clone()),
        Gathered::External(samples) => Answer::External(samples.to_vec()),
        Gathered::Scaler(reading) => Answer::Scaler(reading.clone()),
        Gathered::Unknown(unknown) => Answer::Unknown(unknown.clone()),
    };
    gathered.iter().map(answer).collect()
}

/// Asks for every metric of a workload, all at once. `selector` is the scale's, as text; `pods` are the workload's, by name.
pub(super) async fn ask(
    source: &dyn MetricsSource,
    workload: &Workload,
    selector: &str,
    pods: &[Arc<PodSeen>],
) -> Load {
    let none = None;
    let questions = workload.spec.metrics.iter().enumerate().map(|(index, metric)| {
        let query = workload.queries.get(index).unwrap_or(&none).as_ref();
        ask_one(source, &workload.key, metric, query, selector)
    });
    let mut load = Load::default();
    for answer in futures::future::join_all(questions).await {
        let (gathered, trouble) = match answer {
            Ok(gathered) => (gathered, None),
            Err(failure) => (Gathered::Unknown(failure.unknown()), Some(trouble(&failure))),
        };
        load.gathered.push(gathered);
        load.troubles.push(trouble);
    }
    load.keep(workload, pods);
    load
}

async fn ask_one(
    source: &dyn MetricsSource,
    key: &ObjectKey,
    metric: &MetricSpec,
    query: Option<&Query>,
    selector: &str,
) -> metrics::Answer<Gathered> {
    let namespace = &*key.namespace;
    match query {
        Some(Query::Prometheus { source: name, query }) => {
            return Ok(Gathered::External(Arc::new(vec![source.prometheus(namespace, name, query).await?])));
        }
        Some(Query::Http(query)) => {
            return Ok(Gathered::External(Arc::new(vec![source.http(namespace, query).await?])));
        }
        Some(Query::Redis(query)) => {
            return Ok(Gathered::External(Arc::new(vec![source.redis(namespace, query).await?])));
        }
        Some(Query::Scaler { query, push: _ }) => {
            return Ok(Gathered::Scaler(source.external_scaler(query).await?));
        }
        None => {}
    }
    let MetricSpec { type_, resource: _, container_resource: _, pods, object, external } = metric;
    Ok(match (type_.as_str(), pods, object, external) {
        ("Resource" | "ContainerResource", ..) => Gathered::Usage(source.pod_usage(namespace).await?),
        ("Pods", Some(pods), ..) => {
            let asked = pods.metric.selector.as_ref();
            Gathered::Pods(source.pod_metric(namespace, &pods.metric.name, selector, asked).await?)
        }
        ("Object", _, Some(object), _) => {
            let (asked, described) = (object.metric.selector.as_ref(), &object.described_object);
            Gathered::Object(source.object_metric(namespace, described, &object.metric.name, asked).await?)
        }
        ("External", _, _, Some(external)) => {
            let asked = external.metric.selector.as_ref();
            Gathered::External(source.external_metric(namespace, &external.metric.name, asked).await?)
        }
        // No member for the type, or no known type: the decision reports it.
        _ => Gathered::Unknown(Unknown::Empty),
    })
}

fn trouble(failure: &Failure) -> MetricTrouble {
    MetricTrouble { reason: failure.reason(), message: failure.to_string() }
}
