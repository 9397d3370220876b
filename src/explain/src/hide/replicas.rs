//! Takes names out of the inputs of decisions on replicas: metrics and queries have names too, and their words go.

use std::sync::Arc;

use super::{HIDDEN, Hider};
use headroom_core::pods::input::{
    ContainerUsage, Number, PodRequests, PodUsage, Sample, ScalerReading, Unknown,
};
use headroom_core::pods::record::{Reading, ReplicaRecord, Undecided, WorkloadRecord};
use headroom_core::pods::selector::Selector;
use headroom_core::pods::spec::{
    HpaSpec, MetricIdentifier, MetricSelector, MetricSelectorRequirement, MetricSpec, ScaleTargetRef,
};
use headroom_core::pods::status::{HpaStatus, MetricStatus};

impl Hider<'_> {
    pub(super) fn replicas(&self, record: &mut ReplicaRecord) {
        let ReplicaRecord { options: _, requests, workloads, undecided } = record;
        requests.iter_mut().for_each(|requests| self.requests(Arc::make_mut(requests)));
        workloads.iter_mut().for_each(|workload| self.workload(workload));
        for Undecided { policy, why } in undecided.iter_mut() {
            self.key(policy);
            HIDDEN.clone_into(why);
        }
        // Lists are sorted by name, and the names are others now.
        workloads.sort_by(|a, b| a.policy.cmp(&b.policy));
        undecided.sort();
    }

    fn workload(&self, workload: &mut WorkloadRecord) {
        let WorkloadRecord {
            policy,
            hpa,
            leave: _,
            now: _,
            options: _,
            spec,
            schedules,
            fallback: _,
            zero: _,
            formula,
            status,
            memory: _,
            scale,
            pods,
            surge: _,
            rivals,
            readings,
        } = workload;
        self.key(policy);
        self.option(hpa);
        self.spec(spec);
        schedules.iter_mut().for_each(|schedule| schedule.name = self.name(&schedule.name));
        if let Some(formula) = formula {
            *formula = formula.renamed();
        }
        self.status(status);
        match scale {
            Ok(scale) => scale.selector = self.selector_text(&scale.selector),
            Err(why) => HIDDEN.clone_into(why),
        }
        pods.iter_mut().for_each(|pod| pod.name = self.name(&pod.name));
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        self.names(rivals);
        rivals.sort();
        readings.iter_mut().for_each(|reading| self.reading(reading));
    }

    fn spec(&self, spec: &mut HpaSpec) {
        let HpaSpec { scale_target_ref, min_replicas: _, max_replicas: _, metrics, behavior: _ } = spec;
        self.reference(scale_target_ref);
        metrics.iter_mut().for_each(|metric| self.metric(metric));
    }

    fn text(&self, name: &mut String) {
        *name = self.name(name).to_string();
    }

    fn reference(&self, reference: &mut ScaleTargetRef) {
        let ScaleTargetRef { api_version: _, kind: _, name } = reference;
        self.text(name);
    }

    fn metric(&self, metric: &mut MetricSpec) {
        let MetricSpec { type_: _, resource: _, container_resource, pods, object, external } = metric;
        if let Some(source) = container_resource {
            self.text(&mut source.container);
        }
        if let Some(source) = pods {
            self.identifier(&mut source.metric);
        }
        if let Some(source) = object {
            self.reference(&mut source.described_object);
            self.identifier(&mut source.metric);
        }
        if let Some(source) = external {
            self.identifier(&mut source.metric);
        }
    }

    /// The name may be a whole query, and the values of a selector may be anybody's.
    fn identifier(&self, metric: &mut MetricIdentifier) {
        self.text(&mut metric.name);
        let Some(selector) = &mut metric.selector else { return };
        if Selector::of_metric(Some(selector)).is_err() {
            // One that cannot be used stays one, whatever made it so.
            let none = MetricSelectorRequirement { operator: HIDDEN.to_owned(), ..Default::default() };
            *selector = MetricSelector { match_expressions: vec![none], ..MetricSelector::default() };
            return;
        }
        for (key, value) in &mut selector.match_labels {
            *value = self.value(key, value).to_string();
        }
        for expression in &mut selector.match_expressions {
            let MetricSelectorRequirement { key, operator: _, values } = expression;
            values.iter_mut().for_each(|value| *value = self.value(key, value).to_string());
        }
    }

    fn status(&self, status: &mut HpaStatus) {
        let HpaStatus {
            last_scale_time: _,
            current_replicas: _,
            desired_replicas: _,
            current_metrics,
            conditions,
        } = status;
        for metric in current_metrics {
            let MetricStatus { type_: _, resource: _, container_resource, pods, object, external } = metric;
            if let Some(found) = container_resource {
                self.text(&mut found.container);
            }
            if let Some(found) = pods {
                self.identifier(&mut found.metric);
            }
            if let Some(found) = object {
                self.reference(&mut found.described_object);
                self.identifier(&mut found.metric);
            }
            if let Some(found) = external {
                self.identifier(&mut found.metric);
            }
        }
        conditions.iter_mut().for_each(|condition| HIDDEN.clone_into(&mut condition.message));
    }

    /// The selector with codes for its values; one that cannot be read stays one.
    fn selector_text(&self, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        match Selector::parse(text) {
            Ok(selector) => selector.with_values(|key, value| self.value(key, value)).to_string(),
            Err(_) => HIDDEN.to_owned(),
        }
    }

    fn requests(&self, requests: &mut PodRequests) {
        let PodRequests { containers, init_containers, pod_level: _, overhead: _ } = requests;
        let init = init_containers.iter_mut().map(|init| &mut init.container);
        containers.iter_mut().chain(init).for_each(|container| container.name = self.name(&container.name));
    }

    fn reading(&self, reading: &mut Reading) {
        match reading {
            Reading::Usage(usage) => {
                for PodUsage { pod, at: _, window: _, containers } in usage.iter_mut() {
                    *pod = self.name(pod);
                    for ContainerUsage { name, usage: _ } in containers {
                        *name = self.name(name);
                    }
                }
                usage.sort_by(|a, b| a.pod.cmp(&b.pod));
            }
            Reading::Pods(values) => {
                for value in values.iter_mut() {
                    value.pod = self.name(&value.pod);
                    self.sample(&mut value.sample);
                }
                values.sort_by(|a, b| a.pod.cmp(&b.pod));
            }
            Reading::Object(sample) => self.sample(sample),
            Reading::External(samples) | Reading::Scaler(ScalerReading { values: samples, .. }) => {
                samples.iter_mut().for_each(|sample| self.sample(sample));
            }
            Reading::Unknown(Unknown::Failed(why) | Unknown::Absurd(why)) => *why = HIDDEN.into(),
            Reading::Unknown(Unknown::Empty | Unknown::Stale(_)) => {}
        }
    }

    fn sample(&self, sample: &mut Sample) {
        match &mut sample.value {
            Number::NotFinite(text) => *text = HIDDEN.into(),
            Number::Quantity(_) => {}
        }
    }
}
