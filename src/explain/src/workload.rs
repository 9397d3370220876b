//! Reasons for a workload's number of replicas: each step from metric to replicas, and its pending pods.

use headroom_core::labels::ObjectKey;
use headroom_core::time::UnixTime;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::case::Opened;
use super::chain;
use super::evidence::{ConditionSeen, Evidence, HpaSeen, PolicySeen};
use super::explanation::{ExplainedStep, Explanation, PoolAnswer, Stage, about};
use super::owners::{Scaler, Scalers};
use super::pod::{place, verdict_of};
use super::replicas;

/// Most pods of one workload in its timeline.
const PODS_MAX: usize = 3;

/// A Deployment, ReplicaSet, StatefulSet, Job or DaemonSet; `None` when there is no such workload.
#[must_use]
pub fn explain(opened: &Opened<'_>, kind: &str, key: &ObjectKey) -> Option<Explanation> {
    let evidence = &opened.case.evidence;
    let workload = evidence.workload(kind, key)?;
    let mut explanation = Explanation::new(format!("{} {key}", kind.to_lowercase()), opened.now());
    // Nobody but its owner sizes a Job or a DaemonSet, and their pods are not replicas.
    let sized_by_itself = matches!(kind, "Job" | "DaemonSet");
    let word = if sized_by_itself { "pods" } else { "replicas" };
    explanation.fact(word, format!("{} wanted, {} ready", workload.replicas, workload.ready));
    explanation.moment(
        workload.created_at,
        Stage::Replicas,
        "object",
        format!("{} {key} was created", kind.to_lowercase()),
    );
    let scalers = evidence.scalers_of(kind, key);
    if !sized_by_itself || !scalers.acting.is_empty() || !scalers.beside.is_empty() {
        owners(&mut explanation, &scalers, evidence);
    }
    let (policy, hpa) = (scalers.policy(), scalers.hpa());
    chain::scaling(&mut explanation, opened, kind, key, None);
    policy.into_iter().for_each(|policy| steps(&mut explanation, opened, policy));
    if explanation.steps.is_empty() {
        hpa.into_iter().for_each(|hpa| steps_of_hpa(&mut explanation, hpa));
    }
    let waiting = pods(&mut explanation, opened, kind, key);
    chain::evictions(&mut explanation, opened, kind, key);
    let why = policy.and_then(why).or_else(|| hpa.and_then(why_of_hpa)).unwrap_or_default();
    explanation.summary = match (sized_by_itself, workload.replicas) {
        (true, 1) => "1 pod".to_owned(),
        (true, pods) => format!("{pods} pods"),
        (false, count) => format!("{}{why}", replicas(&count.to_string())),
    };
    if waiting > 0 {
        explanation.summary += &format!("; {waiting} of its pods have no node");
    } else if workload.ready < workload.replicas {
        explanation.summary += &format!("; {} are not ready yet", workload.replicas - workload.ready);
    }
    explanation.gaps.clone_from(&evidence.gaps);
    Some(explanation.finished())
}

/// Adds the scalers of the workload, and other objects that name it.
fn owners(explanation: &mut Explanation, scalers: &Scalers<'_>, evidence: &Evidence) {
    match (scalers.acting.len(), scalers.beside.iter().find(|policy| policy.stalled().is_none())) {
        (0, Some(policy)) => {
            explanation.fact("scaled by", format!("nobody: scalingpolicy {} only looks on", policy.key));
        }
        (0, None) => explanation.fact("scaled by", "nobody: its replicas are what was written last"),
        (1, _) => explanation.fact("scaled by", scalers.words(ToString::to_string)),
        _ => {
            let words = scalers.words(ToString::to_string);
            explanation
                .fact("scaled by", format!("{words}: they undo each other's changes; delete all but one"));
        }
    }
    let alone = scalers.acting.is_empty();
    for policy in scalers.beside.iter().filter(|policy| !alone || policy.stalled().is_some()) {
        explanation.fact("beside it", policy.beside());
    }
    for hpa in &scalers.unused {
        explanation.fact("beside it", unused(hpa, evidence));
    }
}

/// An HPA beside a policy that has its workload: a policy of its own names its owner, and without one the owner is
/// unknown yet.
fn unused(hpa: &HpaSeen, evidence: &Evidence) -> String {
    match evidence.home_of(hpa) {
        Some(_) => format!("hpa {}, which nobody runs: the policy is older", hpa.key),
        None => format!(
            "hpa {}, which the operator has not looked at yet: the next status says who scales",
            hpa.key
        ),
    }
}

/// A HorizontalPodAutoscaler; `None` when there is none of this name.
#[must_use]
pub fn explain_hpa(opened: &Opened<'_>, key: &ObjectKey) -> Option<Explanation> {
    let evidence = &opened.case.evidence;
    let hpa = evidence.hpas.iter().find(|hpa| hpa.key == *key)?;
    let mut explanation = Explanation::new(format!("hpa {key}"), opened.now());
    explanation
        .fact("scales", format!("{} {}, {} to {} replicas", hpa.target.0, hpa.target.1, hpa.min, hpa.max));
    let target = ObjectKey::new(key.namespace.clone(), hpa.target.1.as_str());
    chain::scaling(&mut explanation, opened, &hpa.target.0, &target, None);
    let scalers = evidence.scalers_of(&hpa.target.0, &target);
    let looks_on = || scalers.beside.iter().copied().find(|policy| policy.stalled().is_none());
    let policy = evidence.home_of(hpa).or_else(looks_on);
    match policy {
        Some(policy) if policy.acts() => {
            explanation.fact("kept by", format!("scalingpolicy {} ({})", policy.key, policy.mode));
        }
        Some(policy) => explanation.fact("beside it", policy.beside()),
        None => chain::last_scale_of_hpa(&mut explanation, hpa),
    }
    for other in scalers.beside.iter().filter(|one| policy.is_none_or(|policy| policy.key != one.key)) {
        explanation.fact("beside it", other.beside());
    }
    let runs = |scaler: &Scaler<'_>| match scaler {
        Scaler::Hpa(one) => one.key == hpa.key,
        Scaler::Policy(one) => policy.is_some_and(|policy| policy.key == one.key),
    };
    if !scalers.acting.iter().all(runs) {
        explanation.fact("workload scaled by", scalers.words(ToString::to_string));
    }
    policy.into_iter().for_each(|policy| steps(&mut explanation, opened, policy));
    if explanation.steps.is_empty() {
        steps_of_hpa(&mut explanation, hpa);
    }
    conditions(&mut explanation, &hpa.conditions);
    let why = policy.and_then(why).or_else(|| why_of_hpa(hpa)).unwrap_or_default();
    explanation.summary = match hpa.wanted() {
        Some(desired) => format!("{}, {desired} wanted{why}", replicas(&number(hpa.current))),
        None => format!("nobody has written its status yet{why}"),
    };
    explanation.gaps.clone_from(&evidence.gaps);
    Some(explanation.finished())
}

/// A ScalingPolicy; `None` when there is none of this name.
#[must_use]
pub fn explain_policy(opened: &Opened<'_>, key: &ObjectKey) -> Option<Explanation> {
    let evidence = &opened.case.evidence;
    let policy = evidence.policies.iter().find(|policy| policy.key == *key)?;
    let status = &policy.status;
    let mut explanation = Explanation::new(format!("scalingpolicy {key}"), opened.now());
    explanation.fact("scales", format!("{} {} ({})", policy.target.0, policy.target.1, policy.mode));
    if let Some(bounds) = &status.bounds {
        let by = bounds.limited_by.as_deref().map_or(String::new(), |by| format!(", by {by}"));
        explanation
            .fact("bounds", format!("{} to {} replicas{by}", bounds.min_replicas, bounds.max_replicas));
        if !bounds.active_schedules.is_empty() {
            explanation.fact("schedules open", bounds.active_schedules.join(", "));
        }
        if let Some(at) = &bounds.next_schedule_change {
            let at = UnixTime::from_jiff(at.0);
            explanation.next.push(format!("a schedule opens or closes {} ({at})", about(at, opened.now())));
        }
    }
    around_zero(&mut explanation, opened, policy);
    if let Some(contest) = &status.contest {
        let until = UnixTime::from_jiff(contest.hold_until.0);
        explanation.next.push(format!(
            "{} has set the replicas back {} times; nothing is written before {until}",
            contest.manager, contest.count
        ));
    }
    let (kind, name) = match policy.target.0.as_str() {
        "HPA" => {
            let hpa = evidence
                .hpas
                .iter()
                .find(|hpa| hpa.key.namespace == key.namespace && *hpa.key.name == *policy.target.1);
            hpa.map_or_else(|| policy.target.clone(), |hpa| hpa.target.clone())
        }
        _ => policy.target.clone(),
    };
    let target = ObjectKey::new(key.namespace.clone(), name);
    chain::decisions_of_policy(&mut explanation, policy);
    chain::scaling(&mut explanation, opened, &kind, &target, None);
    chain::events(
        &mut explanation,
        evidence.events_of("ScalingPolicy", key),
        Stage::Replicas,
        "scalingpolicy",
    );
    steps(&mut explanation, opened, policy);
    let seen: Vec<ConditionSeen> = status.conditions.iter().map(ConditionSeen::of).collect();
    conditions(&mut explanation, &seen);
    let why = why(policy).unwrap_or_default();
    let count = |count: Option<i32>| number(count.map(i64::from));
    let (current, desired) = (count(status.current_replicas), count(status.desired_replicas));
    explanation.summary = format!("{}, {desired} wanted{why}", replicas(&current));
    explanation.gaps.clone_from(&evidence.gaps);
    Some(explanation.finished())
}

/// Adds where the workload is on the way to 0 replicas.
fn around_zero(explanation: &mut Explanation, opened: &Opened<'_>, policy: &PolicySeen) {
    let Some(zero) = &policy.status.zero else { return };
    let mut fact = |name: &str, by: &str, time: Option<&Time>| {
        if let Some(time) = time {
            let at = UnixTime::from_jiff(time.0);
            explanation.fact(name, format!("{by}{at} ({})", about(at, opened.now())));
        }
    };
    fact("no metric active", "since ", zero.idle_since.as_ref());
    fact("set to 0 by", "the operator, at ", zero.scaled_at.as_ref());
}

fn number(count: Option<i64>) -> String {
    count.map_or_else(|| "?".to_owned(), |count| count.to_string())
}

/// `1 replica`, `2 replicas`, `? replicas`.
fn replicas(count: &str) -> String {
    if count == "1" { "1 replica".to_owned() } else { format!("{count} replicas") }
}

/// The recommendation step by step: each metric's proposal, then what made of it the result.
fn steps(explanation: &mut Explanation, opened: &Opened<'_>, policy: &PolicySeen) {
    if let Some(decision) = replicas::of_policy(opened, policy) {
        let at = decision.at.second();
        explanation.fact("decided", format!("{at} ({}), again from the same input", about(at, opened.now())));
        explanation.steps.extend(replicas::steps(decision));
        return;
    }
    let Some(recommendation) = &policy.status.recommendation else { return };
    for metric in &recommendation.metrics {
        let part = |name: &str, value: &Option<String>| {
            value.as_ref().map_or(String::new(), |value| format!(", {name} {value}"))
        };
        let why = match &metric.failure {
            Some(failure) => format!("{}: {failure}", metric.metric),
            None => {
                let active = match metric.active {
                    Some(true) => ", active",
                    Some(false) => ", not active",
                    None => "",
                };
                let (now, target) = (part("now", &metric.current), part("target", &metric.target));
                format!("{}{now}{target}{active}", metric.metric)
            }
        };
        let replicas = number(metric.replicas.map(i64::from));
        explanation.steps.push(ExplainedStep { step: "metric".to_owned(), replicas, why });
    }
    for step in &recommendation.steps {
        explanation.steps.push(ExplainedStep {
            step: step.step.to_lowercase(),
            replicas: step.replicas.to_string(),
            why: step.reason.clone(),
        });
    }
}

/// The steps of an HPA's own status, where no policy has more.
fn steps_of_hpa(explanation: &mut Explanation, hpa: &HpaSeen) {
    for metric in &hpa.metrics {
        explanation.steps.push(ExplainedStep {
            step: "metric".to_owned(),
            replicas: "?".to_owned(),
            why: metric.clone(),
        });
    }
    if !hpa.metrics.is_empty() || hpa.desired.is_some() {
        explanation.steps.push(ExplainedStep {
            step: "result".to_owned(),
            replicas: number(hpa.desired),
            why: format!("between {} and {} replicas", hpa.min, hpa.max),
        });
    }
}

/// Conditions that are not as they should be.
fn conditions(explanation: &mut Explanation, conditions: &[ConditionSeen]) {
    for condition in conditions {
        let fine = match &*condition.kind {
            "Ready" | "AbleToScale" | "ScalingActive" | "MetricsAvailable" => "True",
            _ => "False",
        };
        if condition.status != fine {
            let message =
                if condition.message.is_empty() { String::new() } else { format!(": {}", condition.message) };
            explanation.fact(&condition.kind, format!("{}, {}{message}", condition.status, condition.reason));
        }
    }
}

/// The reason that holds a policy's workload where it is.
fn why(policy: &PolicySeen) -> Option<String> {
    let reason = policy.status.reason.as_deref()?;
    let last = policy.status.decisions.first().and_then(|decision| decision.message.as_deref());
    Some(match last.filter(|message| !message.is_empty()) {
        Some(message) => format!(" ({reason}; last change: {message})"),
        None => format!(" ({reason})"),
    })
}

fn why_of_hpa(hpa: &HpaSeen) -> Option<String> {
    let limited = hpa.conditions.iter().find(|one| one.kind == "ScalingLimited" && one.status == "True");
    let failing = hpa.conditions.iter().find(|one| one.kind == "ScalingActive" && one.status == "False");
    failing.or(limited).map(|condition| format!(" ({}: {})", condition.reason, condition.message))
}

/// Adds the reasons for the workload's pending pods; returns how many have no node.
fn pods(explanation: &mut Explanation, opened: &Opened<'_>, kind: &str, key: &ObjectKey) -> usize {
    let mine = |pod: &headroom_core::world::pod::Pod| {
        pod.key.namespace == key.namespace
            && chain::owners_of(opened, pod).iter().any(|(k, one)| k == kind && one == key)
    };
    let waiting: Vec<_> =
        opened.world.unbound().map(|(_, entry)| &entry.pod).filter(|pod| mine(pod)).collect();
    // The newest pods with a place: they are what the last change of size brought.
    let mut placed: Vec<_> = (opened.case.input.world.pods.iter())
        .filter(|record| record.node.is_some() && record.key.namespace == key.namespace)
        .filter_map(|record| opened.world.pod_id(&record.key))
        .map(|id| &opened.world.pod(id).pod)
        .filter(|pod| mine(pod))
        .collect();
    placed.sort_by_key(|pod| std::cmp::Reverse(pod.created_at));
    let newest = |count: usize| format!("the newest {PODS_MAX} of {count} with a node");
    let first = |count: usize| format!("{PODS_MAX} of {count} without a node");
    let more = [
        (placed.len() > PODS_MAX).then(|| newest(placed.len())),
        (waiting.len() > PODS_MAX).then(|| first(waiting.len())),
    ];
    let more: Vec<String> = more.into_iter().flatten().collect();
    if !more.is_empty() {
        explanation.fact("pods shown", more.join(", "));
    }
    for pod in placed.into_iter().take(PODS_MAX) {
        explanation.moment(pod.created_at, Stage::Pod, "object", format!("pod {} was created", pod.key));
        if let Some(node) = &pod.node {
            place(explanation, opened, pod, node);
        }
    }
    for pod in waiting.iter().take(PODS_MAX) {
        explanation.moment(
            pod.created_at,
            Stage::Pod,
            "object",
            format!("pod {} was created and has no node", pod.key),
        );
        let events = opened.case.evidence.events_of("Pod", &pod.key);
        chain::events(explanation, events, Stage::Decision, "pod");
    }
    if let Some(verdict) = waiting.first().and_then(|pod| verdict_of(opened, pod)) {
        for (pool, count) in &verdict.on_new {
            let message = format!("{count} pods go on new nodes");
            explanation.pools.push(PoolAnswer {
                pool: pool.to_string(),
                verdict: "chosen".to_owned(),
                message,
            });
        }
        for refused in &verdict.pools {
            explanation.pools.push(PoolAnswer {
                pool: refused.pool.to_string(),
                verdict: refused.reason.as_str().to_owned(),
                message: refused.message.to_string(),
            });
        }
    }
    waiting.len()
}
