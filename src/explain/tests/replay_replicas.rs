//! Inputs of decisions on replicas that were written down and read again, or lost their names, give the same decisions.
//! It tests no rule of the decisions.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_core::deletion_cost::DeletionCost;
use headroom_core::history::History;
use headroom_core::labels::ObjectKey;
use headroom_core::pods::after_write;
use headroom_core::pods::amount::Amount;
use headroom_core::pods::decision::{Branch, Limit, WriteOutcome};
use headroom_core::pods::defaulting::defaulted;
use headroom_core::pods::input::{
    ContainerRequests, ContainerUsage, Number, Options, PodPhase, PodRequests, PodSeen, PodUsage, PodValue,
    ReadyCondition, ResourceAmounts, Sample, Scale, ScalerReading, Unknown,
};
use headroom_core::pods::memory::{Memory, Recommendation, ScaleEvent, ZeroMemory};
use headroom_core::pods::moment::Moment;
use headroom_core::pods::record::{DecisionInput, Leave, Reading, ReplicaDecision, ReplicaRecord, Undecided};
use headroom_core::pods::schedules::{Fallback, FallbackDirection, FallbackReplicas, Schedule};
use headroom_core::pods::spec::{
    Behavior, ContainerResourceSource, ExternalSource, HpaSpec, MetricIdentifier, MetricSelector,
    MetricSelectorRequirement, MetricSpec, MetricTarget, ObjectSource, PodsSource, ResourceSource,
    ScaleTargetRef, ScalingPolicyRule, ScalingRules,
};
use headroom_core::pods::status::HpaStatus;
use headroom_core::pods::zero::ZeroRules;
use headroom_core::quantity::Quantity;
use headroom_core::snapshot::Snapshot;
use headroom_core::testing::{NOW, config, world};
use headroom_core::time::{Seconds, UnixTime};
use headroom_core::window::Window;
use headroom_explain::hide::{Hider, hide};

use crate::replay::{Draw, fingerprint};

impl Draw {
    fn signed(&mut self, bound: u64) -> i64 {
        i64::try_from(self.below(bound)).expect("small")
    }

    fn count(&mut self, bound: u64) -> i32 {
        i32::try_from(self.below(bound)).expect("small")
    }

    fn length(&mut self, bound: u64) -> usize {
        usize::try_from(self.below(bound)).expect("small")
    }

    /// A moment up to so many seconds ago, with its fraction of a second.
    fn ago(&mut self, seconds: u64) -> Moment {
        Moment::from_nanos((NOW.0 - self.signed(seconds)) * 1_000_000_000 - self.signed(1_000_000_000))
    }

    fn one_of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.length(u64::try_from(list.len()).expect("small"))].clone()
    }
}

fn target(draw: &mut Draw, kinds: &[&str]) -> MetricTarget {
    let kind = draw.one_of(kinds);
    let mut target = MetricTarget { type_: kind.to_owned(), ..MetricTarget::default() };
    let amount = Some(Amount::parse(draw.one_of(&["1", "500m", "128Mi", "2500", "3k", "70u"])).expect("one"));
    match kind {
        "Utilization" => target.average_utilization = Some(1 + draw.count(120)),
        "Value" => target.value = amount,
        _ => target.average_value = amount,
    }
    target
}

fn identifier(draw: &mut Draw) -> MetricIdentifier {
    let names = ["queue-of-acme", "sum(rate(acme_requests{token=\"hunter2\"}[5m]))", "acme"];
    let selector = draw.chance(50).then(|| MetricSelector {
        match_labels: BTreeMap::from([(
            "tenant".to_owned(),
            if draw.chance(10) { "not a value" } else { "acme" }.to_owned(),
        )]),
        match_expressions: vec![MetricSelectorRequirement {
            key: "shard".to_owned(),
            operator: draw.one_of(&["In", "In", "NotIn", "In", "Exists", "Near"]).to_owned(),
            values: if draw.chance(90) { vec!["acme-1".to_owned(), "acme-2".to_owned()] } else { Vec::new() },
        }],
    });
    MetricIdentifier { name: draw.one_of(&names).to_owned(), selector }
}

fn metric(draw: &mut Draw) -> MetricSpec {
    let mut metric = MetricSpec::default();
    match draw.below(5) {
        0 => {
            metric.type_ = "Resource".to_owned();
            let name = draw.one_of(&["cpu", "memory"]).to_owned();
            metric.resource =
                Some(ResourceSource { name, target: target(draw, &["Utilization", "AverageValue"]) });
        }
        1 => {
            metric.type_ = "ContainerResource".to_owned();
            metric.container_resource = Some(ContainerResourceSource {
                name: "cpu".to_owned(),
                container: draw.one_of(&["acme-app", "acme-side"]).to_owned(),
                target: target(draw, &["Utilization", "AverageValue"]),
            });
        }
        2 => {
            metric.type_ = "Pods".to_owned();
            metric.pods =
                Some(PodsSource { metric: identifier(draw), target: target(draw, &["AverageValue"]) });
        }
        3 => {
            metric.type_ = "Object".to_owned();
            let described_object = ScaleTargetRef {
                api_version: "v1".to_owned(),
                kind: "Service".to_owned(),
                name: "acme-front".to_owned(),
            };
            let target = target(draw, &["Value", "AverageValue"]);
            metric.object = Some(ObjectSource { described_object, metric: identifier(draw), target });
        }
        _ => {
            metric.type_ = "External".to_owned();
            let target = target(draw, &["Value", "AverageValue"]);
            metric.external = Some(ExternalSource { metric: identifier(draw), target });
        }
    }
    metric
}

fn sample(draw: &mut Draw) -> Sample {
    let value = match draw.below(20) {
        0 => Number::NotFinite("NaN of acme".into()),
        1 => Number::Quantity(Quantity::from_milli(-draw.signed(5000))),
        2 => Number::from_f64(1.0e-9 * 1.5),
        3 => Number::Quantity(Quantity::from_units(i64::MAX)),
        _ => Number::Quantity(Quantity::from_milli(draw.signed(20_000))),
    };
    Sample { value, at: draw.chance(80).then(|| draw.ago(320)) }
}

fn reading(draw: &mut Draw, metric: &MetricSpec, pods: &[Arc<PodSeen>]) -> Reading {
    if draw.chance(15) {
        return Reading::Unknown(match draw.below(4) {
            0 => Unknown::Failed("no route to acme".into()),
            1 => Unknown::Empty,
            2 => Unknown::Stale(draw.ago(900)),
            _ => Unknown::Absurd("acme is NaN".into()),
        });
    }
    match metric.type_.as_str() {
        "Resource" | "ContainerResource" => {
            let mut usage = Vec::new();
            for pod in pods {
                if draw.chance(85) {
                    let amounts =
                        ["cpu", "memory"].map(|name| (name, Quantity::from_milli(draw.signed(900))));
                    let containers = ["acme-app", "acme-side"].map(|name| ContainerUsage {
                        name: name.into(),
                        usage: amounts.iter().copied().collect(),
                    });
                    usage.push(PodUsage {
                        pod: pod.name.clone(),
                        at: draw.ago(310),
                        window: Seconds(15),
                        containers: containers.to_vec(),
                    });
                }
            }
            Reading::Usage(usage)
        }
        "Pods" => {
            let value = |pod: &Arc<PodSeen>| PodValue { pod: pod.name.clone(), sample: sample(draw) };
            Reading::Pods(pods.iter().map(value).collect())
        }
        "Object" => Reading::Object(sample(draw)),
        _ if draw.chance(30) => Reading::Scaler(ScalerReading {
            values: vec![sample(draw)],
            target: draw.chance(50).then(|| Quantity::from_milli(draw.signed(5000))),
            active: draw.chance(50).then(|| draw.chance(50)),
        }),
        _ => Reading::External((0..draw.below(3)).map(|_| sample(draw)).collect()),
    }
}

fn pods(draw: &mut Draw, name: &str, count: i32) -> Vec<Arc<PodSeen>> {
    let requests = |milli: i64| {
        let amounts: ResourceAmounts =
            [("cpu", Quantity::from_milli(milli)), ("memory", Quantity::from_milli(milli * 1000))]
                .into_iter()
                .collect();
        let container = |name: &str| ContainerRequests { name: name.into(), requests: amounts.clone() };
        let containers = vec![container("acme-app"), container("acme-side")];
        Arc::new(PodRequests { containers, ..PodRequests::default() })
    };
    let shared = requests(250);
    let mut pods = Vec::new();
    for number in 0..count {
        let ready = draw.chance(85);
        pods.push(Arc::new(PodSeen {
            name: format!("{name}-{number}").into(),
            phase: draw.one_of(&[
                PodPhase::Running,
                PodPhase::Running,
                PodPhase::Running,
                PodPhase::Pending,
                PodPhase::Failed,
            ]),
            deleting: draw.chance(5),
            started_at: draw.chance(95).then(|| draw.ago(900)),
            ready: draw.chance(95).then(|| ReadyCondition {
                ready: draw.chance(95).then_some(ready),
                transition_at: draw.ago(900),
            }),
            requests: if draw.chance(80) { shared.clone() } else { requests(1 + draw.signed(400)) },
            deletion_cost: DeletionCost::Unset,
        }));
    }
    pods
}

fn rules(draw: &mut Draw) -> ScalingRules {
    let rule = |draw: &mut Draw| ScalingPolicyRule {
        type_: draw.one_of(&["Pods", "Percent"]).to_owned(),
        value: 1 + draw.count(100),
        period_seconds: 15 + draw.count(120),
    };
    ScalingRules {
        stabilization_window_seconds: draw.chance(50).then(|| draw.count(400)),
        select_policy: draw.chance(30).then(|| draw.one_of(&["Max", "Min", "Disabled"]).to_owned()),
        policies: draw.chance(50).then(|| (0..2).map(|_| rule(draw)).collect()),
        tolerance: draw.chance(20).then(|| Amount::from_milli(draw.signed(300))),
    }
}

fn memory(draw: &mut Draw) -> Memory {
    let event = |draw: &mut Draw| ScaleEvent {
        change: 1 + draw.count(5),
        at: draw.ago(600),
        outdated: draw.chance(20),
    };
    let recommendation = |draw: &mut Draw| Recommendation { replicas: draw.count(20), at: draw.ago(400) };
    Memory {
        recommendations: (0..draw.below(5)).map(|_| recommendation(draw)).collect(),
        up_events: (0..draw.below(3)).map(|_| event(draw)).collect(),
        down_events: (0..draw.below(3)).map(|_| event(draw)).collect(),
        unknown_since: draw.chance(40).then(|| draw.ago(600)),
        surged_from: draw.chance(20).then(|| 1 + draw.count(12)),
        zero: draw.chance(50).then(|| ZeroMemory {
            idle_since: draw.chance(50).then(|| draw.ago(600)),
            scaled_at: draw.chance(50).then(|| draw.ago(600)),
        }),
    }
}

/// The input of a decision drawn at random: every kind of metric and of not knowing, schedules, fallbacks, memories.
fn input(draw: &mut Draw, name: &str) -> DecisionInput {
    let metrics: Vec<MetricSpec> = (0..1 + draw.below(3)).map(|_| metric(draw)).collect();
    let current = draw.count(12);
    let count = if draw.chance(90) { current } else { draw.count(5) };
    let pods = pods(draw, name, count);
    let readings = metrics.iter().map(|metric| reading(draw, metric, &pods)).collect();
    let scale_target_ref = ScaleTargetRef {
        api_version: if draw.chance(4) { "a/b/c" } else { "apps/v1" }.to_owned(),
        kind: "Deployment".to_owned(),
        name: name.to_owned(),
    };
    let behavior =
        draw.chance(50).then(|| Behavior { scale_up: Some(rules(draw)), scale_down: Some(rules(draw)) });
    let spec = HpaSpec {
        scale_target_ref,
        min_replicas: draw.chance(70).then(|| draw.count(4)),
        max_replicas: 9 + draw.count(12),
        metrics,
        behavior,
    };
    let schedule = Schedule {
        name: "acme-lunch".into(),
        window: Window::new("Europe/Berlin", "0 0 * * *", 86_400).expect("a window"),
        min_replicas: Some(draw.count(6)),
        max_replicas: draw.chance(50).then(|| draw.count(9)),
    };
    let replicas = match draw.chance(30) {
        true => FallbackReplicas::Hold,
        false => FallbackReplicas::Replicas {
            count: draw.count(9),
            direction: draw.one_of(&[FallbackDirection::Up, FallbackDirection::Both]),
        },
    };
    let odd = draw.one_of(&["app in (acme,globex),tier!=acme,!old,size>3", "", "app==", "app=(acme"]);
    let selector = if draw.chance(20) { odd } else { "app=acme" };
    let scale = Scale { spec_replicas: current, status_replicas: current, selector: selector.to_owned() };
    let mut input = DecisionInput {
        surge: headroom_core::pods::surge::SurgeWish::None,
        policy: ObjectKey::new("acme-shop", name),
        hpa: draw.chance(50).then(|| name.into()),
        leave: draw.one_of(&[Leave::Granted, Leave::Preview, Leave::Observed, Leave::Held]),
        now: Moment::from_nanos(NOW.0 * 1_000_000_000 + draw.signed(999_999_999)),
        options: Options {
            tolerance: f64::from(draw.count(300)) / 1000.0,
            downscale_stabilization: Seconds(draw.signed(400)),
            ..Options::default()
        },
        spec: defaulted(&spec),
        schedules: if draw.chance(30) { vec![schedule] } else { Vec::new() },
        fallback: draw.chance(60).then(|| Fallback { after: Seconds(draw.signed(300)), replicas }),
        zero: draw
            .chance(50)
            .then(|| ZeroRules { after: Seconds(draw.signed(300)), activations: Vec::new() }),
        formula: None,
        status: HpaStatus::default(),
        memory: memory(draw),
        scale: if draw.chance(95) { Ok(scale) } else { Err("deployments \"acme\" not found".to_owned()) },
        pods,
        rivals: if draw.chance(5) { vec!["acme-other".into()] } else { Vec::new() },
        readings,
    };
    if draw.chance(50) {
        // The status of an earlier decision: conditions, values of metrics.
        input.status = after_write(input.decide(), &WriteOutcome::NotWritten).status;
    }
    input
}

/// Some workloads, and one that is not decided on.
pub(crate) fn drawn_replicas(seed: u64) -> ReplicaRecord {
    let mut draw = Draw(seed.wrapping_mul(2).wrapping_add(77));
    let inputs = (0..1 + draw.below(4)).map(|index| input(&mut draw, &format!("acme-{index}"))).collect();
    let undecided = Undecided {
        policy: ObjectKey::new("acme-shop", "acme-idle"),
        why: "acme has an older one".to_owned(),
    };
    ReplicaRecord::of(inputs, vec![undecided])
}

fn snapshot(seed: u64) -> Snapshot {
    let replicas = drawn_replicas(seed);
    Snapshot::of(&world().build(), &History::default(), &config([]), NOW).with_replicas(replicas)
}

fn json(decisions: &[ReplicaDecision]) -> String {
    serde_json::to_string(decisions).expect("decisions are JSON")
}

#[test]
fn a_thousand_snapshots_give_the_same_replicas_after_they_were_written_and_read() {
    let mut branches: BTreeMap<String, u32> = BTreeMap::new();
    let mut limits: BTreeMap<String, u32> = BTreeMap::new();
    let (mut up, mut down) = (0, 0);
    for seed in 0..1000 {
        let snapshot = snapshot(seed);
        let live = snapshot.replay_replicas().expect("a record").expect("it is there");
        let text = serde_json::to_string(&snapshot).expect("JSON");
        let read: Snapshot = serde_json::from_str(&text).expect("what was written can be read");
        assert_eq!(serde_json::to_string(&read).expect("JSON"), text, "seed {seed}: written again");
        let again = read.replay_replicas().expect("a record").expect("it is there");
        assert_eq!(json(&again), json(&live), "seed {seed}");
        for decision in live {
            *branches.entry(format!("{:?}", decision.steps.branch)).or_default() += 1;
            *limits.entry(format!("{:?}", decision.steps.limited_by)).or_default() += 1;
            up += u32::from(decision.rescale.as_ref().is_some_and(|change| change.from < change.to));
            down += u32::from(decision.rescale.as_ref().is_some_and(|change| change.to < change.from));
        }
    }
    let ways = [Branch::NoScale, Branch::Disabled, Branch::AboveMax, Branch::BelowMin, Branch::Metrics]
        .into_iter()
        .chain([Branch::Unknown, Branch::Fallback])
        .map(|branch| format!("{branch:?}"));
    let dull: Vec<String> = ways.filter(|way| branches.get(way).is_none_or(|count| *count < 20)).collect();
    assert!(dull.is_empty(), "too few of {dull:?}: {branches:?}");
    let held = [Limit::ScaleUpLimit, Limit::ScaleDownStabilized, Limit::TooManyReplicas];
    assert!(held.iter().all(|limit| limits.contains_key(&format!("{:?}", Some(limit)))), "{limits:?}");
    assert!(200 < up && 200 < down, "the snapshots are dull: {up} up, {down} down");
}

#[test]
fn a_record_is_its_inputs_and_shares_what_is_equal() {
    for seed in 0..200 {
        let record = drawn_replicas(seed);
        let inputs = record.inputs().expect("inputs");
        assert_eq!(ReplicaRecord::of(inputs, record.undecided.clone()), record, "seed {seed}");
        let pods: usize = record.workloads.iter().map(|workload| workload.pods.len()).sum();
        assert!(record.requests.len() <= pods);
    }
}

/// Returns the part of a decision that does not depend on names: everything but words.
fn numbers(decision: &ReplicaDecision) -> impl PartialEq + std::fmt::Debug + use<> {
    let steps = &decision.steps;
    let change = decision.rescale.as_ref().map(|change| (change.from, change.to));
    let metrics: Vec<_> = (steps.metrics.iter())
        .map(|one| (one.value.clone(), one.target.clone(), one.ratio.map(f64::to_bits), one.proposal))
        .collect();
    let sizes = (steps.current, steps.proposed, steps.stabilized, steps.rate_limit, steps.desired);
    let bounds = (steps.bounds.min, steps.bounds.max, steps.bounds.next_change);
    (
        decision.leave,
        decision.at,
        steps.branch,
        change,
        metrics,
        sizes,
        bounds,
        steps.limited_by,
        steps.fallback,
    )
}

#[test]
fn hidden_names_are_nowhere_and_replicas_are_decided_alike() {
    for seed in 0..300 {
        let open = snapshot(seed);
        let mut hidden = open.clone();
        let code = |name: &str| format!("x{:016x}", fingerprint(name));
        hide(&mut hidden, &Hider::new(&code, []));
        let text = serde_json::to_string(&hidden).expect("JSON");
        for name in ["acme", "globex", "hunter2", "rate(", "not a value"] {
            assert!(!text.contains(name), "seed {seed}: {name} is still there: {text}");
        }
        let of = |snapshot: &Snapshot| snapshot.replay_replicas().expect("a record").expect("it is there");
        let (before, after) = (of(&open), of(&hidden));
        for decision in &before {
            let coded = code(&decision.policy.name);
            let same = after.iter().find(|one| *one.policy.name == *coded).expect("each is still there");
            assert_eq!(numbers(decision), numbers(same), "seed {seed}");
        }
    }
}

#[test]
fn a_record_that_names_requests_that_are_not_there_is_refused() {
    let mut record =
        (0..).map(drawn_replicas).find(|record| !record.requests.is_empty()).expect("one has pods");
    record.requests.clear();
    let error = record.decide().expect_err("no requests");
    assert!(error.to_string().contains("names requests 0, and there are only 0"), "{error}");
}

#[test]
fn a_snapshot_of_before_replicas_were_noted_says_so_by_having_none() {
    let snapshot = Snapshot::of(&world().build(), &History::default(), &config([]), UnixTime(NOW.0));
    let text = serde_json::to_string(&snapshot).expect("JSON");
    assert!(!text.contains("replicas\":"), "{text}");
    let read: Snapshot = serde_json::from_str(&text).expect("a snapshot");
    assert_eq!(read.replay_replicas().expect("no record"), None);
}
