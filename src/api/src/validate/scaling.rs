//! ScalingPolicy as the rest of the operator sees it: parsed, in range, every default filled in.

use std::time::Duration;

use headroom_core::pods::formula;
use headroom_core::quantity::Quantity;
use headroom_core::window::Window;

use super::workloads::{HOUR, read_sync_period};
use super::{Checker, FieldError};
use crate::json_path::JsonPath;
use crate::metric::{
    Behavior, ExternalScalerMetric, Formula, HttpMetric, MetricSpec, MetricTarget, MetricTargetType,
    MetricType, ObjectName, RedisCount, RedisMetric, SCALER_METADATA_MAX, SCALER_VALUE_MAX, ScalingRules,
};
use crate::scaling_policy::{
    Fallback, FallbackDirection, ReplicaSchedule, ScalingPolicySpec, SelectionStrategy, SurgePolicy, Target,
    TargetType, Timing,
};
use crate::{Mode, common, scaling_policy};

/// Scaling of one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedScaling {
    /// True if the operator acts.
    pub mode: Mode,
    /// Workload that is scaled.
    pub target: ValidatedTarget,
    /// Other bounds at certain times.
    pub schedules: Vec<ValidatedReplicaSchedule>,
    /// Behavior when the metrics cannot be used.
    pub fallback: Option<ValidatedFallback>,
    /// Pods that count as the workload's.
    pub selection: SelectionStrategy,
    /// Times in place of the cluster's.
    pub timing: ValidatedTiming,
    /// True if it may have one replica more while a node is drained.
    pub surge: bool,
}

/// Workload that is scaled, and its metrics.
#[derive(Clone, Debug, PartialEq)]
// One a policy, and most are the large one: a box would save nothing.
#[allow(clippy::large_enum_variant)]
pub enum ValidatedTarget {
    /// The workload of the HPA of this name, by its own metrics.
    Hpa(String),
    /// An object with a scale subresource.
    Scale {
        /// The object.
        object: ObjectName,
        /// Fewest replicas, at most `max`.
        min: i32,
        /// Most replicas, at least 1.
        max: i32,
        /// Never empty: where none are written, CPU at 80 percent.
        metrics: Vec<MetricSpec>,
        /// Formula over those of the metrics that have a name.
        formula: Option<Formula>,
        /// Rates and windows; none for the legacy rules.
        behavior: Option<Behavior>,
    },
}

/// Other bounds while a window is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedReplicaSchedule {
    /// Its name, unique in the policy.
    pub name: String,
    /// Window in which it holds.
    pub window: Window,
    /// Fewest replicas, if it sets it.
    pub min: Option<i32>,
    /// Most replicas, if it sets it; at least `min`.
    pub max: Option<i32>,
}

/// Behavior when the metrics cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidatedFallback {
    /// Time that they must have been unusable.
    pub after: Duration,
    /// Replicas to go to; none to stay.
    pub replicas: Option<i32>,
    /// Direction in which it may move the workload.
    pub direction: FallbackDirection,
}

/// Times of one workload; `None` for those of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidatedTiming {
    /// Time between two evaluations, 1 s to 10 min.
    pub sync_period: Option<Duration>,
    /// Time after its start for which the CPU of a pod that is not ready does not count, at most 1 h.
    pub cpu_initialization_period: Option<Duration>,
    /// A pod that became unready within this time after its start has never been ready, at most 1 h.
    pub initial_readiness_delay: Option<Duration>,
    /// Time for which no metric must have been active before the last replica goes, at most 168 h.
    pub to_zero_after: Option<Duration>,
}

/// Default of `timing.toZeroAfter`, as KEDA's cooldown.
pub const TO_ZERO_AFTER: Duration = Duration::from_mins(5);
/// Longest `timing.toZeroAfter`.
const TO_ZERO_AFTER_MAX: Duration = Duration::from_hours(168);

/// Largest count of replicas.
const MAX_REPLICAS: i32 = 1_000_000;

/// The policy with every default filled in.
///
/// # Errors
/// Every field that can not be used, with its path and what to write instead.
pub fn validate_scaling(spec: &ScalingPolicySpec) -> Result<ValidatedScaling, Vec<FieldError>> {
    // Without `..`: a new field that nobody reads here must not compile.
    let ScalingPolicySpec {
        mode,
        target,
        min_replicas,
        max_replicas,
        metrics,
        formula,
        behavior,
        schedules,
        fallback,
        selection_strategy,
        timing,
        disruption,
    } = spec;
    let mut check = Checker::default();
    let Target { type_, hpa, scale } = target;
    let target = match (type_, hpa, scale) {
        (TargetType::HPA, Some(hpa), None) => {
            let metrics = !metrics.is_empty() || formula.is_some();
            let own = min_replicas.is_some() || max_replicas.is_some() || metrics;
            check.require(
                !own && behavior.is_none(),
                "spec.target",
                "is an HPA, which has bounds, metrics and behavior of its own",
                "remove minReplicas, maxReplicas, metrics and behavior, or use a target of type Scale",
            );
            Some(ValidatedTarget::Hpa(hpa.name.clone()))
        }
        (TargetType::Scale, None, Some(object)) => {
            check.require(
                max_replicas.is_some(),
                "spec.maxReplicas",
                "is missing for a target of type Scale",
                "set spec.maxReplicas",
            );
            read_formula(&mut check, formula.as_ref(), metrics);
            let bounds = (*min_replicas, *max_replicas);
            Some(read_scale(&mut check, object, bounds, (metrics, formula.as_ref()), behavior.as_ref()))
        }
        _ => {
            check.error(
                "spec.target",
                "does not have exactly the member that its type names",
                "set hpa for type HPA, or scale for type Scale, and remove the other",
            );
            None
        }
    };
    let schedules = read_schedules(&mut check, schedules);
    let fallback = fallback.as_ref().map(|fallback| read_fallback(&mut check, fallback));
    let timing = timing.as_ref().map(|timing| read_timing(&mut check, timing)).unwrap_or_default();
    check.require(
        timing.to_zero_after.is_none() || *type_ == TargetType::Scale,
        "spec.timing.toZeroAfter",
        "is for policies with metrics of their own",
        "remove it, or use a target of type Scale",
    );
    let surge = disruption.as_ref().and_then(|disruption| disruption.surge) == Some(SurgePolicy::Allow);
    check.require(
        !surge || scale.as_ref().is_none_or(|object| object.kind == "Deployment"),
        "spec.disruption.surge",
        "is Allow for a target that is not a Deployment, and would keep what an extra pod leaves",
        "remove it",
    );
    let selection = selection_strategy.unwrap_or(match type_ {
        TargetType::HPA => SelectionStrategy::LabelSelector,
        TargetType::Scale => SelectionStrategy::OwnerReferences,
    });
    match target {
        Some(target) => check.finish(ValidatedScaling {
            mode: mode.unwrap_or_default(),
            target,
            schedules,
            fallback,
            selection,
            timing,
            surge,
        }),
        None => Err(check.errors),
    }
}

fn read_timing(check: &mut Checker, timing: &Timing) -> ValidatedTiming {
    let Timing { sync_period, cpu_initialization_period, initial_readiness_delay, to_zero_after } = timing;
    let sync_period =
        sync_period.as_ref().map(|period| read_sync_period(check, Some(period), "spec.timing.syncPeriod"));
    let mut at_most_an_hour = |written: &Option<common::Duration>, field: &str| {
        let path = format!("spec.timing.{field}");
        let length = check.duration(Some(written.as_ref()?), 0, &path);
        check.require(length <= HOUR, &path, "is longer than 1h", "shorten it to at most 1h");
        Some(length.min(HOUR))
    };
    let cpu_initialization_period = at_most_an_hour(cpu_initialization_period, "cpuInitializationPeriod");
    let initial_readiness_delay = at_most_an_hour(initial_readiness_delay, "initialReadinessDelay");
    let to_zero_after = to_zero_after.as_ref().map(|written| {
        let path = "spec.timing.toZeroAfter";
        let length = check.duration(Some(written), 0, path);
        check.require(length <= TO_ZERO_AFTER_MAX, path, "is longer than 168h", "shorten it to at most 168h");
        length.min(TO_ZERO_AFTER_MAX)
    });
    ValidatedTiming { sync_period, cpu_initialization_period, initial_readiness_delay, to_zero_after }
}

fn read_scale(
    check: &mut Checker,
    object: &ObjectName,
    (min, max): (Option<i32>, Option<i32>),
    (metrics, formula): (&[MetricSpec], Option<&Formula>),
    behavior: Option<&Behavior>,
) -> ValidatedTarget {
    let max = check.number(max, 1, (1, MAX_REPLICAS), "spec.maxReplicas");
    let min = check.number(min, 1, (0, MAX_REPLICAS), "spec.minReplicas");
    check.require(
        min <= max,
        "spec.minReplicas",
        "is greater than maxReplicas",
        "lower it, or raise maxReplicas",
    );
    check.require(
        0 < min || metrics.iter().any(is_beyond_pods),
        "spec.minReplicas",
        "is 0 and every metric comes from the pods",
        "raise it, or add a metric of type Object, External, Prometheus, ExternalScaler, HTTP or Redis",
    );
    for (index, metric) in metrics.iter().enumerate() {
        read_metric(check, metric, &format!("spec.metrics[{index}]"));
    }
    if let Some(Behavior { scale_up, scale_down }) = behavior {
        read_rules(check, scale_up.as_ref(), "spec.behavior.scaleUp");
        read_rules(check, scale_down.as_ref(), "spec.behavior.scaleDown");
    }
    ValidatedTarget::Scale {
        object: object.clone(),
        min: min.min(max),
        max,
        metrics: if metrics.is_empty() { vec![default_metric()] } else { metrics.to_vec() },
        formula: formula.cloned(),
        behavior: behavior.cloned(),
    }
}

/// True if the metric does not come from the pods.
fn is_beyond_pods(metric: &MetricSpec) -> bool {
    match metric.type_ {
        MetricType::Object
        | MetricType::External
        | MetricType::Prometheus
        | MetricType::ExternalScaler
        | MetricType::Http
        | MetricType::Redis => true,
        MetricType::Resource | MetricType::ContainerResource | MetricType::Pods => false,
    }
}

/// CPU at 80 percent of the requests. Source: kubernetes pkg/apis/autoscaling/v2/defaults.go.
fn default_metric() -> MetricSpec {
    MetricSpec {
        type_: MetricType::Resource,
        resource: Some(crate::metric::ResourceMetric {
            name: "cpu".to_owned(),
            target: MetricTarget {
                type_: MetricTargetType::Utilization,
                average_utilization: Some(80),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    }
}

/// Checks what the definition's rules may not have seen; the form itself is read by the serde types.
fn read_metric(check: &mut Checker, metric: &MetricSpec, path: &str) {
    let MetricSpec {
        type_,
        name,
        fallback_value,
        activation,
        resource,
        container_resource,
        pods,
        object,
        external,
        prometheus,
        external_scaler,
        http,
        redis,
    } = metric;
    if let Some(RedisMetric { count, group, .. }) = redis {
        let of_group = count.unwrap_or_default() != RedisCount::Elements;
        check.require(
            of_group == group.is_some(),
            &format!("{path}.redis.group"),
            "is the consumer group of which count: Pending or Lag is asked",
            "set both, or remove both",
        );
    }
    if let Some(http) = http {
        check_http(check, http, &format!("{path}.http"));
    }
    if let Some(activation) = activation {
        check.require(
            is_beyond_pods(metric),
            &format!("{path}.activation"),
            "is set for a metric that comes from the pods",
            "remove it",
        );
        check.require(
            Quantity::parse(&activation.0).is_ok_and(|quantity| !quantity.is_negative()),
            &format!("{path}.activation"),
            "is no quantity of 0 or more",
            "write a quantity such as \"5\"",
        );
    }
    if let Some(fallback) = fallback_value {
        check.require(
            name.is_some() && Quantity::parse(&fallback.0).is_ok(),
            &format!("{path}.fallbackValue"),
            "is no quantity, or the metric has no name",
            "write a quantity such as \"5\", and a name",
        );
    }
    if name.is_some() {
        return check_variable(check, metric, path);
    }
    let (target, allowed): (Option<&MetricTarget>, &[MetricTargetType]) = match type_ {
        MetricType::Resource => (
            resource.as_ref().map(|m| &m.target),
            &[MetricTargetType::Utilization, MetricTargetType::AverageValue],
        ),
        MetricType::ContainerResource => (
            container_resource.as_ref().map(|m| &m.target),
            &[MetricTargetType::Utilization, MetricTargetType::AverageValue],
        ),
        MetricType::Pods => (pods.as_ref().map(|m| &m.target), &[MetricTargetType::AverageValue]),
        MetricType::Object => (
            object.as_ref().and_then(|m| m.target.as_ref()),
            &[MetricTargetType::Value, MetricTargetType::AverageValue],
        ),
        MetricType::External => (
            external.as_ref().and_then(|m| m.target.as_ref()),
            &[MetricTargetType::Value, MetricTargetType::AverageValue],
        ),
        MetricType::Prometheus => (
            prometheus.as_ref().and_then(|m| m.target.as_ref()),
            &[MetricTargetType::Value, MetricTargetType::AverageValue],
        ),
        MetricType::Redis => (
            redis.as_ref().and_then(|m| m.target.as_ref()),
            &[MetricTargetType::Value, MetricTargetType::AverageValue],
        ),
        MetricType::Http => (
            http.as_ref().and_then(|m| m.target.as_ref()),
            &[MetricTargetType::Value, MetricTargetType::AverageValue],
        ),
        MetricType::ExternalScaler => match external_scaler {
            Some(asked) if check_scaler(check, asked, &format!("{path}.externalScaler")) => return,
            asked => (
                asked.as_ref().and_then(|asked| asked.target.as_ref()),
                &[MetricTargetType::Value, MetricTargetType::AverageValue],
            ),
        },
    };
    let Some(target) = target else {
        check.error(path, "does not have the member that its type names, with a target", "add that member");
        return;
    };
    check_target(check, target, &format!("a metric of type {type_:?}"), allowed, &format!("{path}.target"));
}

/// Checks a metric that is a variable of the formula.
fn check_variable(check: &mut Checker, metric: &MetricSpec, path: &str) {
    let MetricSpec { type_, object, external, prometheus, external_scaler, http, redis, activation, .. } =
        metric;
    let (present, target) = match type_ {
        MetricType::Object => (object.is_some(), object.as_ref().is_some_and(|m| m.target.is_some())),
        MetricType::External => (external.is_some(), external.as_ref().is_some_and(|m| m.target.is_some())),
        MetricType::Prometheus => {
            (prometheus.is_some(), prometheus.as_ref().is_some_and(|m| m.target.is_some()))
        }
        MetricType::Redis => (redis.is_some(), redis.as_ref().is_some_and(|m| m.target.is_some())),
        MetricType::Http => (http.is_some(), http.as_ref().is_some_and(|m| m.target.is_some())),
        MetricType::ExternalScaler => {
            if let Some(asked) = external_scaler {
                check_scaler(check, asked, &format!("{path}.externalScaler"));
            }
            let own = external_scaler.as_ref();
            (own.is_some(), own.is_some_and(|m| m.target.is_some() || m.target_type.is_some()))
        }
        MetricType::Resource | MetricType::ContainerResource | MetricType::Pods => {
            check.error(
                format!("{path}.name"),
                "is set for a metric that comes from the pods, which is no variable of a formula",
                "remove it",
            );
            return;
        }
    };
    check.require(present, path, "does not have the member that its type names", "add that member");
    check.require(
        !target && activation.is_none(),
        &format!("{path}.name"),
        "makes the metric a variable of the formula, which has the target and the activation",
        "remove target, targetType and activation from the metric",
    );
}

/// Checks the formula of a policy, and the types in its expression.
fn read_formula(check: &mut Checker, formula: Option<&Formula>, metrics: &[MetricSpec]) {
    let names: Vec<&str> = metrics.iter().filter_map(|metric| metric.name.as_deref()).collect();
    check.unique(names.iter().copied(), "spec.metrics");
    check.require(
        formula.is_some() != names.is_empty(),
        "spec.formula",
        "and metrics with a name need each other",
        "set it and the name of each metric that it uses, or remove both",
    );
    let Some(Formula { expression, target, activation }) = formula else { return };
    if let Err(error) = formula::check(expression, &names)
        && !names.is_empty()
    {
        check.error("spec.formula.expression", format!("cannot be used: {error}"), "correct it");
    }
    let allowed = [MetricTargetType::Value, MetricTargetType::AverageValue];
    check_target(check, target, "a formula", &allowed, "spec.formula.target");
    check.require(
        activation
            .as_ref()
            .is_none_or(|text| Quantity::parse(&text.0).is_ok_and(|quantity| !quantity.is_negative())),
        "spec.formula.activation",
        "is no quantity of 0 or more",
        "write a quantity such as \"5\"",
    );
}

fn check_target(
    check: &mut Checker,
    target: &MetricTarget,
    of: &str,
    allowed: &[MetricTargetType],
    path: &str,
) {
    check.require(
        allowed.contains(&target.type_),
        &format!("{path}.type"),
        &format!("{:?} makes no sense for {of}", target.type_),
        &format!("use {}", allowed.iter().map(|t| format!("{t:?}")).collect::<Vec<_>>().join(" or ")),
    );
    let quantity = match target.type_ {
        MetricTargetType::Utilization => {
            check.require(
                target.average_utilization.is_some_and(|percent| 0 < percent),
                &format!("{path}.averageUtilization"),
                "is missing or not more than 0",
                "write a percentage",
            );
            return;
        }
        MetricTargetType::Value => (&target.value, "value"),
        MetricTargetType::AverageValue => (&target.average_value, "averageValue"),
    };
    let (written, field) = quantity;
    let milli = written.as_ref().and_then(|text| Quantity::parse(&text.0).ok()).map(Quantity::milli);
    check.require(
        milli.is_some_and(|milli| 0 < milli),
        &format!("{path}.{field}"),
        "is missing, no quantity, or not more than 0",
        "write a quantity above 0, such as 100m or 1Gi",
    );
}

/// Checks what an HTTP server is asked.
fn check_http(check: &mut Checker, asked: &HttpMetric, path: &str) {
    let HttpMetric { source: _, path: below, value, target: _ } = asked;
    check.require(
        is_http_path(below),
        &format!("{path}.path"),
        "is no path below the source's url",
        "begin it with /, leave out parts that are . or .., and write other signs than letters, digits and -._~!$&'()*+,;=:@/? as %XX",
    );
    if let Err(problem) = JsonPath::parse(value) {
        check.error(
            format!("{path}.value"),
            format!("{value:?} cannot be used: {problem}"),
            "write a JSONPath such as $.messages or $.queues[?@.name=='orders'].messages",
        );
    }
}

/// True if the path, with what is escaped in it, stays below the address that comes before it.
fn is_http_path(path: &str) -> bool {
    let allowed = |(place, byte): (usize, u8)| match byte {
        b'%' => {
            path.get(place + 1..place + 3).is_some_and(|code| code.bytes().all(|b| b.is_ascii_hexdigit()))
        }
        _ => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(&byte),
    };
    let mut plain = path.split('?').next().unwrap_or_default().to_ascii_lowercase();
    // However often a server unescapes it.
    while plain.contains("%25") {
        plain = plain.replace("%25", "%");
    }
    let plain = plain.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    path.starts_with('/')
        && path.bytes().enumerate().all(allowed)
        && !plain.split('/').any(|part| part == "." || part == "..")
}

/// Checks a question to an external scaler. Returns true if its target is the server's own.
fn check_scaler(check: &mut Checker, asked: &ExternalScalerMetric, path: &str) -> bool {
    let ExternalScalerMetric { source: _, metric_name: _, metadata, target, target_type, push: _ } = asked;
    check.require(
        target.is_none() || target_type.is_none(),
        &format!("{path}.targetType"),
        "is the form of the server's own target, and there is a target",
        "remove it, or remove target",
    );
    let fits = |value: &String| value.chars().count() <= SCALER_VALUE_MAX;
    check.require(
        metadata.len() <= SCALER_METADATA_MAX && metadata.values().all(fits),
        &format!("{path}.metadata"),
        "has more than 32 parameters, or one of more than 1024 characters",
        "remove or shorten some",
    );
    target.is_none()
}

fn read_rules(check: &mut Checker, rules: Option<&ScalingRules>, path: &str) {
    let Some(ScalingRules { stabilization_window_seconds, select_policy: _, policies, tolerance }) = rules
    else {
        return;
    };
    check.number(*stabilization_window_seconds, 0, (0, 3600), &format!("{path}.stabilizationWindowSeconds"));
    for (index, policy) in policies.iter().enumerate() {
        let path = format!("{path}.policies[{index}]");
        check.number(Some(policy.value), 1, (1, MAX_REPLICAS), &format!("{path}.value"));
        check.number(Some(policy.period_seconds), 1, (1, 1800), &format!("{path}.periodSeconds"));
    }
    if let Some(tolerance) = tolerance {
        check.require(
            Quantity::parse(&tolerance.0).is_ok_and(|quantity| !quantity.is_negative()),
            &format!("{path}.tolerance"),
            "is no quantity of 0 or more",
            "write a fraction such as \"0.05\"",
        );
    }
}

fn read_schedules(check: &mut Checker, schedules: &[ReplicaSchedule]) -> Vec<ValidatedReplicaSchedule> {
    check.unique(schedules.iter().map(|schedule| schedule.name.as_str()), "spec.schedules");
    let mut read = Vec::with_capacity(schedules.len());
    for (index, schedule) in schedules.iter().enumerate() {
        let scaling_policy::ReplicaSchedule { name, window, min_replicas, max_replicas } = schedule;
        let path = format!("spec.schedules[{index}]");
        let mut bound = |written: &Option<i32>, field: &str| {
            written.map(|n| check.number(Some(n), 0, (0, MAX_REPLICAS), &format!("{path}.{field}")))
        };
        let (min, max) = (bound(min_replicas, "minReplicas"), bound(max_replicas, "maxReplicas"));
        check.require(
            min.or(max).is_some(),
            &path,
            "has no effect",
            "set minReplicas or maxReplicas or both",
        );
        check.require(
            min.is_none_or(|min| max.is_none_or(|max| min <= max)),
            &format!("{path}.minReplicas"),
            "is greater than its maxReplicas",
            "lower it, or raise maxReplicas of the schedule",
        );
        if let Some(window) = check.window(window, &format!("{path}.window")) {
            read.push(ValidatedReplicaSchedule { name: name.clone(), window, min, max });
        }
    }
    read
}

fn read_fallback(check: &mut Checker, fallback: &Fallback) -> ValidatedFallback {
    let Fallback { after, replicas, direction } = fallback;
    let replicas = match replicas.as_deref() {
        None | Some("Hold") => None,
        Some(text) => {
            let number = text.parse().ok().filter(|number| (0..=MAX_REPLICAS).contains(number));
            check.require(
                number.is_some(),
                "spec.fallback.replicas",
                "is neither Hold nor a number of replicas",
                "write Hold, or a number such as \"10\" in quotes",
            );
            number
        }
    };
    ValidatedFallback {
        after: check.duration(after.as_ref(), 180, "spec.fallback.after"),
        replicas,
        direction: direction.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
