//! From KEDA: ScaledObjects as ScalingPolicies, their cron triggers as schedules, their Prometheus servers as sources.

use std::collections::{BTreeMap, BTreeSet};

use headroom_core::window::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::durations::written;
use super::input::{Kind, Source};
use super::names;
use super::output::Draft;

/// Kinds that are read from a live cluster.
pub const KINDS: &[Kind] =
    &[Kind { group: "keda.sh", version: "v1alpha1", kind: "ScaledObject", plural: "scaledobjects" }];

/// KEDA's defaults.
const POLLING_SECONDS: u64 = 30;
const COOLDOWN_SECONDS: u64 = 300;
/// How long the way down waits where nothing is said.
const WINDOW_SECONDS: u64 = 300;
const MAX_REPLICAS: i64 = 100;
/// Longest that a window may be open.
const WINDOW_SECONDS_MAX: i64 = 168 * 3600;

/// One ScalingPolicy a ScaledObject, and a ClusterScalingPolicy with the Prometheus servers.
///
/// # Errors
/// When there is no ScaledObject, or one has no target.
pub fn convert(sources: &[Source]) -> anyhow::Result<Vec<Draft>> {
    let scaled: Vec<&Source> = sources.iter().filter(|source| source.kind() == "ScaledObject").collect();
    anyhow::ensure!(
        !scaled.is_empty(),
        "there is no ScaledObject: name the file that holds one, or use --live"
    );
    let mut servers = Servers::default();
    let mut drafts = Vec::new();
    for source in scaled {
        drafts.push(convert_one(source, &mut servers)?);
    }
    super::say_passed_over(&mut drafts[0], sources, |source| source.kind() == "ScaledObject");
    if !servers.0.is_empty() {
        let mut policy = Draft::new("ClusterScalingPolicy", None, "default");
        policy.say("Merge these sources into your ClusterScalingPolicy; there is one, named default.");
        for (url, name) in &servers.0 {
            policy.push("workloads.metricSources", json!({"name": name, "prometheus": {"url": url}}), "");
        }
        drafts.insert(0, policy);
    }
    Ok(drafts)
}

/// Prometheus servers by URL, each with the name that policies use.
#[derive(Default)]
struct Servers(BTreeMap<String, String>);

impl Servers {
    fn name_of(&mut self, url: &str) -> String {
        if let Some(name) = self.0.get(url) {
            return name.clone();
        }
        let host = url
            .split("://")
            .nth(1)
            .unwrap_or(url)
            .split(['/', ':', '.'])
            .next()
            .unwrap_or_default()
            .to_owned();
        let mut taken: BTreeSet<String> = self.0.values().cloned().collect();
        let name = names::unique(&host, 63, "prometheus", &mut taken);
        self.0.insert(url.to_owned(), name.clone());
        name
    }
}

fn convert_one(source: &Source, servers: &mut Servers) -> anyhow::Result<Draft> {
    let (metadata, spec) = (&source.object["metadata"], &source.object["spec"]);
    let name = metadata["name"].as_str().ok_or_else(|| anyhow::anyhow!("{}: it has no name", source.from))?;
    let mut draft =
        Draft::new("ScalingPolicy", Some(metadata["namespace"].as_str().unwrap_or("default")), name);
    draft.say(format!(
        "From {} of KEDA. Delete it before this policy is set to Apply: its HPA would be a second owner of the workload.",
        source.title()
    ));
    let target = &spec["scaleTargetRef"];
    let object = target["name"]
        .as_str()
        .ok_or_else(|| anyhow::anyhow!("{}: it has no scaleTargetRef.name", source.title()))?;
    let scale = json!({
        "apiVersion": target["apiVersion"].as_str().unwrap_or("apps/v1"),
        "kind": target["kind"].as_str().unwrap_or("Deployment"),
        "name": object,
    });
    draft.set("target", json!({"type": "Scale", "scale": scale}), "");
    for trigger in spec["triggers"].as_array().into_iter().flatten() {
        one_trigger(&mut draft, trigger, servers);
    }
    bounds(&mut draft, spec);
    fallback(&mut draft, spec);
    remarks(&mut draft, target, metadata, spec);
    Ok(draft)
}

fn bounds(draft: &mut Draft, spec: &Value) {
    let max = spec["maxReplicaCount"].as_i64();
    draft.set("maxReplicas", max.unwrap_or(MAX_REPLICAS), if max.is_none() { "KEDA's default" } else { "" });
    let min = spec["minReplicaCount"].as_i64().unwrap_or(0);
    let metrics = draft.get("metrics");
    let outside =
        |metric: &Value| ["External", "Object", "Prometheus"].iter().any(|kind| metric["type"] == *kind);
    let has_outside = metrics.as_array().is_some_and(|all| all.iter().any(outside));
    if min == 0 && !has_outside {
        draft.set("minReplicas", 1, "minReplicaCount 0 needs a metric that does not come from the pods");
    } else {
        draft.set("minReplicas", min, "");
    }
    if let Some(idle) = spec["idleReplicaCount"].as_i64() {
        draft.say(format!("idleReplicaCount {idle}: no counterpart: the size is never under minReplicas."));
    }
    if metrics.is_null() {
        draft.say(
            "No trigger of it is a metric here. A policy without metrics scales by CPU at 80 percent: set the metric that you \
             mean.",
        );
    }
}

fn one_trigger(draft: &mut Draft, trigger: &Value, servers: &mut Servers) {
    let kind = trigger["type"].as_str().unwrap_or_default();
    let data = &trigger["metadata"];
    let shown = trigger["name"]
        .as_str()
        .map_or_else(|| format!("trigger {kind}"), |name| format!("trigger {kind} {name}"));
    match kind {
        "cpu" | "memory" => resource(draft, &shown, kind, trigger),
        "prometheus" => prometheus(draft, &shown, trigger, servers),
        "cron" => cron(draft, &shown, data),
        _ => draft.say(format!(
            "{shown} {data}: no counterpart: scale by what the system tells Prometheus of itself, or by an External metric \
             of a metrics adapter."
        )),
    }
    if trigger["authenticationRef"].is_object() {
        draft.say(format!("{shown}: authenticationRef {}: no counterpart.", trigger["authenticationRef"]));
    }
    if trigger["useCachedMetrics"] == json!(true) {
        draft.say(format!(
            "{shown}: useCachedMetrics: no counterpart: an answer is shared for the sync period."
        ));
    }
}

fn resource(draft: &mut Draft, shown: &str, name: &str, trigger: &Value) {
    let data = &trigger["metadata"];
    let value = text(&data["value"]);
    let old = data["type"].as_str();
    let kind = trigger["metricType"].as_str().or(old).unwrap_or("Utilization");
    let target = match kind {
        "Utilization" => match value.parse::<i64>() {
            Ok(percent) => json!({"type": "Utilization", "averageUtilization": percent}),
            Err(_) => {
                return draft
                    .say(format!("{shown}: its value {value} is no percentage. Nothing was made of it."));
            }
        },
        _ => json!({"type": "AverageValue", "averageValue": value}),
    };
    let metric = match data["containerName"].as_str() {
        Some(container) => json!({
            "type": "ContainerResource",
            "containerResource": {"container": container, "name": name, "target": target},
        }),
        None => json!({"type": "Resource", "resource": {"name": name, "target": target}}),
    };
    draft.push("metrics", metric, "");
    if let Some(activation) = data.get("activationValue") {
        draft.say(format!("{shown}: activationValue {activation}: no counterpart."));
    }
}

fn prometheus(draft: &mut Draft, shown: &str, trigger: &Value, servers: &mut Servers) {
    let data = &trigger["metadata"];
    let (url, query, threshold) =
        (text(&data["serverAddress"]), text(&data["query"]), text(&data["threshold"]));
    if url.is_empty() || query.is_empty() || threshold.is_empty() {
        return draft
            .say(format!("{shown}: it lacks serverAddress, query or threshold. Nothing was made of it."));
    }
    let target = match trigger["metricType"].as_str() {
        Some("Value") => json!({"type": "Value", "value": threshold}),
        _ => json!({"type": "AverageValue", "averageValue": threshold}),
    };
    let source = servers.name_of(&url);
    draft.push(
        "metrics",
        json!({"type": "Prometheus", "prometheus": {"query": query, "source": source, "target": target}}),
        "",
    );
    draft.say(format!(
        "{shown}: its query sees the policy's own namespace only, by the label that the source names."
    ));
    let known = ["serverAddress", "query", "threshold", "metricName"];
    for (key, value) in
        data.as_object().into_iter().flatten().filter(|(key, _)| !known.contains(&key.as_str()))
    {
        let words = match key.as_str() {
            "activationThreshold" => "the workload leaves 0 as soon as the metric asks for a replica",
            "ignoreNullValues" => "no data is never zero here: nothing shrinks, and fallback says what to do",
            "namespace" => "the query is confined to the policy's namespace",
            _ => "the source has an address and a namespace label, and nothing else",
        };
        draft.say(format!("{shown}: {key} {}: no counterpart: {words}.", text(value)));
    }
}

/// A cron trigger as a schedule: from its start to its end so many replicas at least.
fn cron(draft: &mut Draft, shown: &str, data: &Value) {
    let (zone, start, end) = (text(&data["timezone"]), text(&data["start"]), text(&data["end"]));
    let replicas = text(&data["desiredReplicas"]).parse::<i64>();
    let Some((seconds, varies)) = length(&zone, &start, &end) else {
        return draft.say(format!(
            "{shown}: from {start} to {end} in {zone}: not a window of at most 168h that can be read. Nothing was made of it."
        ));
    };
    let Ok(replicas) = replicas else {
        return draft.say(format!(
            "{shown}: desiredReplicas {} is no number. Nothing was made of it.",
            data["desiredReplicas"]
        ));
    };
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for schedule in draft.get("schedules").as_array().into_iter().flatten() {
        taken.insert(text(&schedule["name"]));
    }
    let name = names::unique("cron", 63, "cron", &mut taken);
    let window = json!({"duration": written(seconds), "start": start, "timeZone": zone});
    draft.push(
        "schedules",
        json!({"minReplicas": replicas, "name": name, "window": window}),
        &format!("desiredReplicas, until {end}"),
    );
    if varies {
        draft.say(format!(
            "{shown}: from {start} to {end} is not always as long; the schedule {name} takes the shortest."
        ));
    }
}

/// How long after its start a window ends, the shortest of the next ones, and whether they differ.
fn length(zone: &str, start: &str, end: &str) -> Option<(u64, bool)> {
    let zone = TimeZone::get(zone).ok()?;
    let (start, end) = (Cron::parse(start).ok()?, Cron::parse(end).ok()?);
    // A date from which on any year is like another; a week of starts is enough to see that they differ.
    let mut at = Timestamp::from_second(1_767_225_600).ok()?;
    let mut lengths = BTreeSet::new();
    for _ in 0..10 {
        let begins = start.next_after(at, &zone)?;
        let ends = end.next_after(begins, &zone)?;
        lengths.insert(ends.duration_since(begins).as_secs());
        at = begins;
    }
    let shortest = *lengths.first()?;
    (0 < shortest && shortest <= WINDOW_SECONDS_MAX)
        .then(|| Some((u64::try_from(shortest).ok()?, 1 < lengths.len())))?
}

fn fallback(draft: &mut Draft, spec: &Value) {
    let fallback = &spec["fallback"];
    let Some(replicas) = fallback["replicas"].as_i64() else { return };
    let failures = fallback["failureThreshold"].as_u64().unwrap_or(3);
    let polling = spec["pollingInterval"].as_u64().unwrap_or(POLLING_SECONDS);
    let note = format!("failureThreshold {failures} x pollingInterval {polling}s");
    draft.set("fallback.after", written((failures * polling).max(1)), &note);
    draft.set("fallback.replicas", replicas.to_string(), "");
    draft.set("fallback.direction", "Both", "KEDA goes down to it too");
    if let Some(behavior) = fallback["behavior"].as_str().filter(|behavior| *behavior != "static") {
        draft.say(format!(
            "fallback.behavior {behavior}: no counterpart: the number holds whatever the size is."
        ));
    }
}

fn remarks(draft: &mut Draft, target: &Value, metadata: &Value, spec: &Value) {
    let polling = spec["pollingInterval"].as_u64().unwrap_or(POLLING_SECONDS);
    draft.say(format!(
        "pollingInterval {polling}: no field of a workload: all are looked at every workloads.syncPeriod (15s) of the \
         ClusterScalingPolicy."
    ));
    let cooldown = spec["cooldownPeriod"].as_u64().unwrap_or(COOLDOWN_SECONDS);
    let behavior = &spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"];
    let window = behavior["scaleDown"]["stabilizationWindowSeconds"].as_u64().unwrap_or(WINDOW_SECONDS);
    draft.say(format!(
        "cooldownPeriod {cooldown}: no counterpart: the way down, to 0 too, waits for \
         behavior.scaleDown.stabilizationWindowSeconds ({window})."
    ));
    if let Some(container) = target["envSourceContainerName"].as_str() {
        draft.say(format!(
            "scaleTargetRef.envSourceContainerName {container}: no effect here: no trigger reads variables."
        ));
    }
    let advanced = &spec["advanced"];
    let hpa = &advanced["horizontalPodAutoscalerConfig"];
    if hpa["behavior"].is_object() {
        draft.set("behavior", hpa["behavior"].clone(), "");
    }
    if let Some(name) = hpa["name"].as_str() {
        draft.say(format!("horizontalPodAutoscalerConfig.name {name}: no effect here: there is no HPA."));
    }
    if advanced["restoreToOriginalReplicaCount"] == json!(true) {
        draft.say(
            "restoreToOriginalReplicaCount: no counterpart: a workload without a policy stays as it is.",
        );
    }
    if advanced["scalingModifiers"].is_object() {
        draft.say(format!(
            "scalingModifiers {}: no counterpart: write the formula as one PromQL query.",
            advanced["scalingModifiers"]
        ));
    }
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        match key.as_str() {
            "autoscaling.keda.sh/paused" | "autoscaling.keda.sh/paused-replicas" => {
                draft.set("mode", "Suspend", &format!("annotation {key}: {}", text(value)));
            }
            _ if key.starts_with("autoscaling.keda.sh/") || key.contains("keda.sh/") => {
                draft.say(format!("annotation {key}: {}: no counterpart.", text(value)));
            }
            _ => {}
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cron_trigger_lasts_from_its_start_to_its_end() {
        assert_eq!(length("Europe/Berlin", "0 8 * * 1-5", "30 18 * * 1-5"), Some((37_800, false)));
        assert_eq!(length("UTC", "0 22 * * *", "0 6 * * *"), Some((28_800, false)));
        assert_eq!(length("UTC", "0 8,12 * * *", "0 14 * * *"), Some((7_200, true)));
        assert_eq!(length("UTC", "0 8 1 * *", "0 8 1 1 *"), None);
        assert_eq!(length("Nowhere/At_All", "0 8 * * *", "0 9 * * *"), None);
    }
}
