//! Measures replica decisions: `cargo run --release -p headroom-core --example bench_pods`. It changes no file.
//!
//! 10,000 workloads of 10 pods each, half of them with a behavior: cpu utilization over real samples, and for every
//! fourth an external metric beside it. Each is decided on once a tick, for several ticks, with its memory of the last.

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::sync::Arc;
use std::time::Instant;

use headroom_core::deletion_cost::DeletionCost;
use headroom_core::pods::decision::WriteOutcome;
use headroom_core::pods::defaulting::defaulted;
use headroom_core::pods::input::{
    Answer, ContainerRequests, ContainerUsage, Input, Options, PodPhase, PodRequests, PodSeen, PodUsage,
    ReadyCondition, ResourceAmounts, Sample, Scale,
};
use headroom_core::pods::memory::Memory;
use headroom_core::pods::moment::Moment;
use headroom_core::pods::spec::{
    Behavior, ExternalSource, HpaSpec, MetricIdentifier, MetricSpec, MetricTarget, ScaleTargetRef,
};
use headroom_core::pods::status::HpaStatus;
use headroom_core::pods::{after_write, decide};
use headroom_core::quantity::Quantity;
use headroom_core::time::{Seconds, UnixTime};

const WORKLOADS: usize = 10_000;
const PODS_EACH: usize = 10;
const TICKS: i64 = 5;
const START: UnixTime = UnixTime(1_800_000_000);

struct Workload {
    spec: HpaSpec,
    scale: Scale,
    pods: Vec<PodSeen>,
    usage: Vec<PodUsage>,
    memory: Memory,
    status: HpaStatus,
}

fn main() {
    let options = Options::default();
    let mut workloads: Vec<Workload> = (0..WORKLOADS).map(workload).collect();
    for tick in 0..TICKS {
        let now = Moment::from(START.plus(Seconds(tick * 15)));
        for workload in &mut workloads {
            workload.usage.iter_mut().for_each(|usage| usage.at = now);
        }
        let begun = Instant::now();
        let n_rescales =
            workloads.iter_mut().map(|workload| run(workload, &options, now)).filter(|r| *r).count();
        let spent = begun.elapsed();
        let pods = WORKLOADS * PODS_EACH;
        println!(
            "tick {tick}: {WORKLOADS} decisions over {pods} pods in {:.1} ms ({:.1} µs each), {n_rescales} rescales",
            spent.as_secs_f64() * 1e3,
            spent.as_secs_f64() * 1e9 / 1e3 / 10_000.0,
        );
    }
}

/// One decision; whether it changes the size.
fn run(workload: &mut Workload, options: &Options, now: Moment) -> bool {
    let pods: Vec<&PodSeen> = workload.pods.iter().collect();
    let answers: Vec<Answer<'_>> = workload
        .spec
        .metrics
        .iter()
        .map(|metric| match metric.type_.as_str() {
            "External" => Answer::External(vec![Sample::of(Quantity::from_units(95))]),
            _ => Answer::Usage(workload.usage.iter().collect()),
        })
        .collect();
    let decision = decide(&Input {
        now,
        options,
        spec: &workload.spec,
        schedules: &[],
        fallback: None,
        zero: None,
        formula: None,
        namespace: "prod",
        status: &workload.status,
        memory: &workload.memory,
        scale: Ok(&workload.scale),
        pods: &pods,
        rivals: &[],
        answers: &answers,
    });
    let rescales = decision.rescale.is_some();
    let tick = after_write(decision, &WriteOutcome::Written { at: now });
    (workload.memory, workload.status) = (tick.memory, tick.status);
    rescales
}

fn workload(index: usize) -> Workload {
    let amounts = |cpu_milli: i64| -> ResourceAmounts {
        [("cpu", Quantity::from_milli(cpu_milli)), ("memory", Quantity::from_units(256 << 20))]
            .into_iter()
            .collect()
    };
    let container = ContainerRequests { name: Arc::from("app"), requests: amounts(500) };
    let requests = Arc::new(PodRequests { containers: vec![container], ..PodRequests::default() });
    let long_ago = Moment::from(UnixTime(START.0 - 86_400));
    let names: Vec<Arc<str>> =
        (0..PODS_EACH).map(|pod| Arc::from(format!("web-{index}-7d9c5b6f4-{pod:05}"))).collect();
    let pods = names.iter().map(|name| PodSeen {
        name: name.clone(),
        phase: PodPhase::Running,
        deleting: false,
        started_at: Some(long_ago),
        ready: Some(ReadyCondition { ready: Some(true), transition_at: long_ago }),
        requests: requests.clone(),
        deletion_cost: DeletionCost::Unset,
    });
    let usage_milli = 250 + i64::try_from(index % 400).unwrap_or(0);
    let usage = names.iter().map(|name| PodUsage {
        pod: name.clone(),
        at: START.into(),
        window: Seconds(60),
        containers: vec![ContainerUsage { name: Arc::from("app"), usage: amounts(usage_milli) }],
    });
    let mut spec = defaulted(&HpaSpec {
        scale_target_ref: ScaleTargetRef {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            name: format!("web-{index}"),
        },
        max_replicas: 50,
        behavior: index.is_multiple_of(2).then(Behavior::default),
        ..HpaSpec::default()
    });
    if index.is_multiple_of(4) {
        spec.metrics.push(external());
    }
    Workload {
        spec,
        scale: Scale { spec_replicas: 10, status_replicas: 10, selector: format!("app=web-{index}") },
        pods: pods.collect(),
        usage: usage.collect(),
        memory: Memory::default(),
        status: HpaStatus::default(),
    }
}

fn external() -> MetricSpec {
    let target = MetricTarget {
        type_: "AverageValue".to_owned(),
        average_value: Some(headroom_core::pods::amount::Amount::from_milli(10_000)),
        ..MetricTarget::default()
    };
    let metric = MetricIdentifier { name: "queue".to_owned(), selector: None };
    let external = Some(ExternalSource { metric, target });
    MetricSpec { type_: "External".to_owned(), external, ..MetricSpec::default() }
}
