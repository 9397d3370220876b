//! From KEDA: ScaledObjects as ScalingPolicies, their cron triggers as schedules, their Prometheus servers, external scalers, HTTP
//! servers and Redis as sources.

mod http;
mod redis;

use std::collections::{BTreeMap, BTreeSet};

use headroom_api::external_grpc::ADDRESS_PATTERN;
use headroom_api::metric::{SCALER_METADATA_MAX, SCALER_VALUE_MAX};
use headroom_core::pods::formula;
use headroom_core::quantity::Quantity;
use headroom_core::window::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use regex::Regex;
use serde_json::{Value, json};

use super::Made;
use super::durations::written;
use super::input::{Kind, Source};
use super::names;
use super::output::Draft;
use super::tables::keda::{ANNOTATIONS, CRON, EXTERNAL, PROMETHEUS, RESOURCE, SCALED_OBJECT, TRIGGERS};
use super::tables::{Becomes, Table, shown as shortened};

/// Kinds that are read from a live cluster.
pub(super) const KINDS: &[Kind] =
    &[Kind { group: "keda.sh", version: "v1alpha1", kind: "ScaledObject", plural: "scaledobjects" }];

/// KEDA's default.
const POLLING_SECONDS: u64 = 30;
/// Default of `workloads.syncPeriod`, and the period of the controller-manager.
const SYNC_SECONDS: u64 = 15;
/// Longest `timing.toZeroAfter`, in seconds.
const TO_ZERO_SECONDS_MAX: u64 = 168 * 3600;
const MAX_REPLICAS: i64 = 100;
/// Fields of a ScaledObject that are whole numbers.
const WHOLE: [&str; 6] = [
    "pollingInterval",
    "cooldownPeriod",
    "initialCooldownPeriod",
    "idleReplicaCount",
    "minReplicaCount",
    "maxReplicaCount",
];
/// Path of the behavior of its HPA in a ScaledObject.
const BEHAVIOR: &str = "advanced.horizontalPodAutoscalerConfig.behavior";
/// Longest that a window may be open.
const WINDOW_SECONDS_MAX: i64 = 168 * 3600;

/// One ScalingPolicy a ScaledObject, and a ClusterScalingPolicy with the Prometheus servers and external scalers.
///
/// # Errors
/// If there is no ScaledObject.
pub(super) fn convert(sources: &[Source]) -> anyhow::Result<Made> {
    let scaled: Vec<&Source> = sources.iter().filter(|source| source.kind() == "ScaledObject").collect();
    anyhow::ensure!(
        !scaled.is_empty(),
        "there is no ScaledObject: name the file that holds one, or use --live"
    );
    let mut servers = Servers::default();
    let mut made = Made::default();
    for source in scaled {
        made.take(convert_one(source, &mut servers));
    }
    super::say_passed_over(&mut made, sources, |source| source.kind() == "ScaledObject");
    if !servers.0.is_empty() {
        let mut policy = Draft::new("ClusterScalingPolicy", None, "default");
        policy.say("Merge these sources into your ClusterScalingPolicy; there is one, named default.");
        for (server, name) in &servers.0 {
            policy.push("workloads.metricSources", server.source(name), "");
            match server {
                Server::Scaler(_, true) => {
                    policy.say(format!("Source {name}: mount the certificate of its CA as its caFile."));
                }
                Server::Redis(_, encrypted, login) if *encrypted || *login => policy.say(format!(
                    "Source {name}: mount the Secret with its password and the certificate of its CA, as far as it names them."
                )),
                Server::Http(_, true) => policy.say(format!(
                    "Source {name}: mount a Secret with name:password of a user that may read as its basicAuthFile."
                )),
                _ => {}
            }
        }
        made.drafts.insert(0, policy);
    }
    Ok(made)
}

/// A server that a trigger names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Server {
    /// By its URL.
    Prometheus(String),
    /// By its address; true if the connection is encrypted.
    Scaler(String, bool),
    /// By its URL; true if it asks for a name and a password.
    Http(String, bool),
    /// By its address; true if the connection is encrypted, and if it asks for a password.
    Redis(String, bool, bool),
}

impl Server {
    /// The source of metrics that is declared for it.
    fn source(&self, name: &str) -> Value {
        match self {
            Self::Prometheus(url) => json!({"name": name, "prometheus": {"url": url}}),
            Self::Scaler(address, false) => {
                json!({"name": name, "externalScaler": {"address": address, "insecure": true}})
            }
            Self::Scaler(address, true) => {
                let tls = json!({"caFile": format!("/etc/headroom/metric-sources/{name}/ca.crt")});
                json!({"name": name, "externalScaler": {"address": address, "tls": tls}})
            }
            Self::Http(url, login) => {
                let mut server = json!({"url": url});
                if *login {
                    server["basicAuthFile"] = format!("/etc/headroom/metric-sources/{name}/login").into();
                    if url.starts_with("http://") {
                        server["allowInsecureCredentials"] = true.into();
                    }
                }
                json!({"name": name, "http": server})
            }
            Self::Redis(address, encrypted, login) => {
                let file = |file: &str| format!("/etc/headroom/metric-sources/{name}/{file}");
                let mut server = json!({"address": address});
                match encrypted {
                    true => server["tls"] = json!({"caFile": file("ca.crt")}),
                    false => server["insecure"] = true.into(),
                }
                if *login {
                    server["passwordFile"] = file("password").into();
                }
                json!({"name": name, "redis": server})
            }
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Prometheus(_) => "prometheus",
            Self::Scaler(..) => "scaler",
            Self::Http(..) => "http",
            Self::Redis(..) => "redis",
        }
    }
}

/// Servers, each with the name that policies use.
#[derive(Default)]
struct Servers(BTreeMap<Server, String>);

impl Servers {
    fn name_of(&mut self, server: Server) -> String {
        if let Some(name) = self.0.get(&server) {
            return name.clone();
        }
        let (Server::Prometheus(url)
        | Server::Scaler(url, _)
        | Server::Http(url, _)
        | Server::Redis(url, ..)) = &server;
        let host = url
            .split("://")
            .nth(1)
            .unwrap_or(url)
            .split(['/', ':', '.'])
            .next()
            .unwrap_or_default()
            .to_owned();
        let mut taken: BTreeSet<String> = self.0.values().cloned().collect();
        let name = names::unique(&host, 63, server.kind(), &mut taken);
        self.0.insert(server, name.clone());
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
    super::say_foreign_target(&mut draft, &scale);
    draft.set("target", json!({"type": "Scale", "scale": scale}), "");
    let mut named: Vec<(usize, &str)> = Vec::new();
    let count = |draft: &Draft| draft.get("metrics").as_array().map_or(0, Vec::len);
    for trigger in spec["triggers"].as_array().into_iter().flatten() {
        let place = count(&draft);
        one_trigger(&mut draft, trigger, servers);
        if let Some(name) = trigger["name"].as_str()
            && place < count(&draft)
        {
            named.push((place, name));
        }
    }
    formula(&mut draft, &spec["advanced"]["scalingModifiers"], &named);
    bounds(&mut draft, spec);
    fallback(&mut draft, spec);
    remarks(&mut draft, metadata, spec);
    Ok(draft)
}

/// Makes the triggers that a formula names its variables, where it can be read here. `named` has the places of metrics with the
/// names of their triggers.
fn formula(draft: &mut Draft, modifiers: &Value, named: &[(usize, &str)]) {
    if !modifiers.is_object() {
        return;
    }
    let expression = text(&modifiers["formula"]);
    let metrics = draft.get("metrics").as_array().cloned().unwrap_or_default();
    let is_in = |name: &str| {
        expression.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).any(|word| word == name)
    };
    let variables: Vec<(usize, &str)> =
        named.iter().copied().filter(|(place, name)| is_in(name) && is_outside(&metrics[*place])).collect();
    let names: Vec<&str> = variables.iter().map(|(_, name)| *name).collect();
    let problem = match formula::check(&expression, &names) {
        Ok(()) if names.is_empty() => Some("it names no trigger that is a metric here".to_owned()),
        read => read.err(),
    };
    if let Some(problem) = problem {
        draft.say(format!("scalingModifiers.formula {expression}: no counterpart: {problem}."));
        return draft.only_preview(
            "the largest of the metrics counts here, by the triggers' own targets, and not scalingModifiers; Apply once \
             spec.formula has the formula",
        );
    }
    let mut kept = Vec::new();
    for (place, mut metric) in metrics.into_iter().enumerate() {
        let name = variables.iter().find(|(of, _)| *of == place).map(|(_, name)| *name);
        match name {
            Some(name) => {
                let dropped = become_variable(&mut metric, name);
                if !dropped.is_empty() {
                    draft.say(format!(
                        "trigger {name}: without effect beside the formula, in KEDA too: {}.",
                        dropped.join(", ")
                    ));
                }
            }
            None if is_outside(&metric) => {
                draft.say(format!(
                    "A trigger that the formula does not name is left out, as in KEDA: {metric}."
                ));
                continue;
            }
            None => {}
        }
        kept.push(metric);
    }
    draft.set("metrics", kept, "");
    draft.set("formula.expression", expression, "");
    let target = text(&modifiers["target"]);
    draft.set(
        "formula.target",
        match modifiers["metricType"].as_str() {
            Some("Value") => json!({"type": "Value", "value": target}),
            _ => json!({"type": "AverageValue", "averageValue": target}),
        },
        "",
    );
    if let Some(activation) = modifiers["activationTarget"].as_str() {
        draft.set("formula.activation", activation, "");
    }
}

/// Gives a metric its name in the formula, and takes away what the formula has in its place, which it returns.
fn become_variable(metric: &mut Value, name: &str) -> Vec<String> {
    metric["name"] = name.into();
    let mut dropped = Vec::new();
    let mut take = |of: &mut Value, member: &str| {
        let found = of.as_object_mut().and_then(|members| members.remove(member));
        dropped.extend(found.map(|value| format!("{member} {value}")));
    };
    take(metric, "activation");
    for source in ["prometheus", "externalScaler", "http", "redis"] {
        if metric[source].is_object() {
            take(&mut metric[source], "target");
            take(&mut metric[source], "targetType");
        }
    }
    // Asking for a member writes a null.
    if let Some(members) = metric.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    dropped
}

/// True if the metric does not come from the pods.
fn is_outside(metric: &Value) -> bool {
    ["External", "ExternalScaler", "HTTP", "Object", "Prometheus", "Redis"]
        .iter()
        .any(|kind| metric["type"] == *kind)
}

fn bounds(draft: &mut Draft, spec: &Value) {
    let max = spec["maxReplicaCount"].as_i64();
    draft.set("maxReplicas", max.unwrap_or(MAX_REPLICAS), if max.is_none() { "KEDA's default" } else { "" });
    let min = spec["minReplicaCount"].as_i64().unwrap_or(0);
    let metrics = draft.get("metrics");
    let has_outside = metrics.as_array().is_some_and(|all| all.iter().any(is_outside));
    if min == 0 && !has_outside {
        draft.set("minReplicas", 1, "minReplicaCount 0 needs a metric that does not come from the pods");
        // By cpu and memory alone KEDA does not scale to 0 either.
        let of_pods = |trigger: &Value| ["cpu", "memory"].iter().any(|kind| trigger["type"] == *kind);
        if !spec["triggers"].as_array().is_some_and(|triggers| triggers.iter().all(of_pods)) {
            draft.only_preview("minReplicaCount 0 is not kept: it would stay at 1");
        }
    } else {
        draft.set("minReplicas", min, "");
    }
    idle(draft, spec, has_outside);
    zero(draft, spec);
    if metrics.is_null() {
        draft.say(
            "No trigger of it is a metric here. A policy without metrics scales by CPU at 80 percent: set the metric that you \
             mean.",
        );
        draft.only_preview("it would scale by CPU, and KEDA does not; Apply once spec.metrics is there");
    }
}

/// Converts the size at rest. At 0 with a minimum of at most 1 it is a minimum of 0: whatever is active has a replica.
fn idle(draft: &mut Draft, spec: &Value, has_outside: bool) {
    let Some(idle) = spec["idleReplicaCount"].as_i64() else { return };
    let min = spec["minReplicaCount"].as_i64().unwrap_or(0);
    if idle == 0 && min <= 1 && has_outside {
        return draft.set("minReplicas", 0, "idleReplicaCount 0");
    }
    let why = match idle {
        0 if has_outside => format!("a workload that leaves 0 may have less than {min} replicas here"),
        0 => "only a metric that does not come from the pods can bring a workload back from 0".to_owned(),
        _ => "the size is never under minReplicas, unless it is 0".to_owned(),
    };
    draft.say(format!("idleReplicaCount {idle}: no counterpart: {why}."));
    draft.only_preview("without idleReplicaCount, see above");
}

/// Converts the time until a workload goes to 0.
fn zero(draft: &mut Draft, spec: &Value) {
    let cooldown = spec["cooldownPeriod"].as_u64();
    if draft.get("minReplicas") != json!(0) {
        if let Some(cooldown) = cooldown {
            draft.say(format!("cooldownPeriod {cooldown}: without effect: the size is never 0."));
        }
        return;
    }
    draft.say(
        "If the workload has 0 replicas when this policy is set to Apply, set them to 1: a size of 0 that the policy has \
         not set is left alone.",
    );
    let Some(cooldown) = cooldown else { return };
    let note = format!("cooldownPeriod {cooldown}; windows and rates of behavior hold besides");
    draft.set("timing.toZeroAfter", written(cooldown.min(TO_ZERO_SECONDS_MAX)), &note);
    if TO_ZERO_SECONDS_MAX < cooldown {
        draft.only_preview("cooldownPeriod is longer than timing.toZeroAfter can be");
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
        "external" | "external-push" => external(draft, &shown, trigger, servers),
        "cron" => cron(draft, &shown, data),
        "rabbitmq" => http::rabbitmq(draft, &shown, trigger, servers),
        "nats-jetstream" => http::nats(draft, &shown, trigger, servers),
        "metrics-api" => http::metrics_api(draft, &shown, trigger, servers),
        "redis" => redis::list(draft, &shown, trigger, servers),
        "redis-streams" => redis::stream(draft, &shown, trigger, servers),
        _ => {
            let words = TRIGGERS.iter().find(|(kinds, _)| kinds.contains(&kind)).map(|(_, words)| *words);
            let words = words.map_or_else(
                || {
                    format!(
                        "UNKNOWN type: {} does not have it; scale by its metric in Prometheus",
                        SCALED_OBJECT.release
                    )
                },
                |words| format!("no counterpart: {words}"),
            );
            draft.say(format!("{shown} {}: {words}.", shortened(data)));
            not_kept(draft, &shown);
        }
    }
    if !trigger["authenticationRef"].is_null() {
        let instead = match kind {
            "external" | "external-push" => {
                "the CA of an external scaler, and the certificate and key to show to it, are files that tls of its source names"
            }
            "redis" | "redis-streams" => {
                "the password and the CA of a Redis server are files that passwordFile and tls of its source name"
            }
            "rabbitmq" | "nats-jetstream" | "metrics-api" => {
                "a token, or name:password, and the CA of an HTTP server are files that bearerTokenFile, basicAuthFile and caFile of \
                 its source name"
            }
            _ => {
                "a token of Prometheus, and the CA of its server, are files that bearerTokenFile and caFile of its source \
                 name; other ways to authenticate need a proxy"
            }
        };
        draft.say(format!(
            "{shown}: authenticationRef {}: no counterpart: {instead}.",
            trigger["authenticationRef"]
        ));
        not_kept(draft, &format!("{shown}: authenticationRef"));
    }
    if trigger["useCachedMetrics"] == json!(true) {
        draft.say(format!(
            "{shown}: useCachedMetrics: no counterpart: an answer is shared for the sync period."
        ));
    }
}

/// Makes the draft a preview, because something that the size depends on is missing here.
fn not_kept(draft: &mut Draft, what: &str) {
    draft.only_preview(&format!("without {what}, see above; Apply once something else is in its place"));
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
                draft.say(format!("{shown}: its value {value} is not a percentage. Nothing was made of it."));
                return not_kept(draft, shown);
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
    RESOURCE.say(draft, &format!("{shown}: "), data);
}

fn prometheus(draft: &mut Draft, shown: &str, trigger: &Value, servers: &mut Servers) {
    let data = &trigger["metadata"];
    let (url, query, threshold) =
        (text(&data["serverAddress"]), text(&data["query"]), text(&data["threshold"]));
    if url.is_empty() || query.is_empty() || threshold.is_empty() {
        draft.say(format!(
            "{shown} {data}: it lacks serverAddress, query or threshold. Nothing was made of it."
        ));
        return not_kept(draft, shown);
    }
    let source = servers.name_of(Server::Prometheus(url));
    let asked = json!({"query": query, "source": source, "target": target(trigger, &threshold)});
    let mut metric = json!({"type": "Prometheus", "prometheus": asked});
    let active = activation(draft, shown, data, "activationThreshold", &mut metric);
    draft.push("metrics", metric, "");
    draft.say(format!(
        "{shown}: its query sees the policy's own namespace only, by the label that the source names."
    ));
    rest(draft, shown, &PROMETHEUS, data, |key, value| match key {
        "timeout" | "ignoreNullValues" | "namespace" | "metricName" => true,
        "activationThreshold" => active,
        "unsafeSsl" => value == "false",
        "serverAddress" | "query" | "threshold" => true,
        // The answer may be another one without it, or none.
        _ => false,
    });
}

/// Comments on the parameters that became nothing; those without which the number is another one make a preview.
fn rest(draft: &mut Draft, shown: &str, table: &Table, data: &Value, kept: impl Fn(&str, &str) -> bool) {
    table.say(draft, &format!("{shown}: "), data);
    for (key, value) in data.as_object().into_iter().flatten() {
        if !kept(key, &text(value)) {
            not_kept(draft, &format!("{shown}: {key}"));
        }
    }
}

/// Sets the activation of a metric; false if the parameter cannot be used, which a comment says.
fn activation(draft: &mut Draft, shown: &str, data: &Value, parameter: &str, metric: &mut Value) -> bool {
    let activation = text(&data[parameter]);
    let usable = Quantity::parse(&activation).ok().filter(|number| !number.is_negative());
    if usable.is_some_and(|number| !number.is_zero()) {
        metric["activation"] = activation.into();
    } else if usable.is_none() && !activation.is_empty() {
        draft.say(format!(
            "{shown}: {parameter} {activation} is not a quantity of 0 or more. Nothing was made of it."
        ));
    }
    usable.is_some()
}

/// The target of a metric that belongs to no pod.
fn target(trigger: &Value, threshold: &str) -> Value {
    match trigger["metricType"].as_str() {
        Some("Value") => json!({"type": "Value", "value": threshold}),
        _ => json!({"type": "AverageValue", "averageValue": threshold}),
    }
}

/// An external scaler gets the parameters of its trigger as from KEDA: all of them, its own address too.
fn external(draft: &mut Draft, shown: &str, trigger: &Value, servers: &mut Servers) {
    let data = &trigger["metadata"];
    let address = text(&data["scalerAddress"]);
    if !is_address(&address) {
        draft.say(format!(
            "{shown} {}: its scalerAddress is not host:port. Nothing was made of it.",
            shortened(data)
        ));
        return not_kept(draft, shown);
    }
    let of_container = |key: &str| key.ends_with("FromEnv");
    let given = data.as_object().into_iter().flatten().filter(|(key, _)| !of_container(key));
    let metadata: BTreeMap<&str, String> = given.map(|(key, value)| (key.as_str(), text(value))).collect();
    let fits = |value: &String| value.chars().count() <= SCALER_VALUE_MAX;
    if SCALER_METADATA_MAX < metadata.len() || !metadata.values().all(fits) {
        draft.say(format!(
            "{shown} {}: a metric has at most {SCALER_METADATA_MAX} parameters of at most {SCALER_VALUE_MAX} characters. Nothing \
             was made of it.",
            shortened(data)
        ));
        return not_kept(draft, shown);
    }
    let encrypted = text(&data["enableTLS"]) == "true";
    let mut asked =
        json!({"metadata": metadata, "source": servers.name_of(Server::Scaler(address, encrypted))});
    if trigger["metricType"] == "Value" {
        asked["targetType"] = json!("Value");
    }
    if trigger["type"] == "external-push" {
        asked["push"] = json!(true);
    }
    draft.push("metrics", json!({"type": "ExternalScaler", "externalScaler": asked}), "");
    draft.say(format!(
        "{shown}: the server gets {} as the name of the ScaledObject. Where it has several metrics, status says so: name one as \
         metricName, and add a metric for each other one.",
        draft.name()
    ));
    EXTERNAL.say(draft, &format!("{shown}: "), &EXTERNAL.known_part("", data));
    if encrypted {
        not_kept(draft, &format!("{shown}: the file with the CA of its server"));
    }
    for (key, value) in data.as_object().into_iter().flatten().filter(|(key, _)| of_container(key)) {
        draft.say(format!(
            "{shown}: {key} {}: no counterpart: no metric reads a container's variables: write the value as a parameter.",
            shortened(value)
        ));
        not_kept(draft, &format!("{shown}: {key}"));
    }
}

fn is_address(text: &str) -> bool {
    Regex::new(ADDRESS_PATTERN).is_ok_and(|pattern| pattern.is_match(text))
}

/// A cron trigger as a schedule: from its start to its end so many replicas at least.
fn cron(draft: &mut Draft, shown: &str, data: &Value) {
    let (zone, start, end) = (text(&data["timezone"]), text(&data["start"]), text(&data["end"]));
    let replicas = text(&data["desiredReplicas"]).parse::<i64>();
    CRON.say(draft, &format!("{shown}: "), data);
    let Some((seconds, varies)) = length(&zone, &start, &end) else {
        draft.say(format!(
            "{shown}: from {start} to {end} in {zone}: not a window of at most 168h that can be read. Nothing was made of it."
        ));
        return not_kept(draft, shown);
    };
    let Ok(replicas) = replicas else {
        draft.say(format!(
            "{shown}: desiredReplicas {} is not a number. Nothing was made of it.",
            data["desiredReplicas"]
        ));
        return not_kept(draft, shown);
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
        draft
            .only_preview(&format!("the schedule {name} is shorter than some windows of {shown}, see above"));
    }
}

/// Returns the shortest length of the next windows, in seconds, and true if their lengths differ; `None` for
/// expressions that cannot be read, and for lengths that a window cannot have.
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

/// Converts the behavior while metrics fail.
///
/// Source: KEDA, pkg/fallback/fallback.go, for the four behaviors.
fn fallback(draft: &mut Draft, spec: &Value) {
    let fallback = &spec["fallback"];
    if fallback.is_null() {
        return;
    }
    let Some(replicas) = fallback["replicas"].as_i64() else {
        draft.say(format!("fallback {fallback}: it has no replicas. Nothing was made of it."));
        return not_kept(draft, "fallback");
    };
    let failures = fallback["failureThreshold"].as_u64().unwrap_or(3);
    let polling = spec["pollingInterval"].as_u64().unwrap_or(POLLING_SECONDS);
    let note = format!("failureThreshold {failures} x pollingInterval {polling}s");
    draft.set("fallback.after", written(failures.saturating_mul(polling).max(1)), &note);
    let behavior = fallback["behavior"].as_str().unwrap_or("static");
    let note = format!("fallback.behavior {behavior}");
    let (size, direction) = match behavior {
        "static" => (replicas.to_string(), Some(("Both", "KEDA goes down to it too".to_owned()))),
        "currentReplicasIfHigher" => (replicas.to_string(), Some(("Up", note))),
        "currentReplicas" => ("Hold".to_owned(), None),
        "currentReplicasIfLower" => {
            draft.say(format!(
                "fallback.behavior {behavior}: no counterpart: KEDA takes replicas above {replicas} away while its metrics fail; \
                 here they stay."
            ));
            not_kept(draft, &format!("fallback.behavior {behavior}"));
            ("Hold".to_owned(), None)
        }
        "scalingModifiers" => {
            draft.say(format!(
                "fallback.behavior {behavior}: no counterpart: the replicas stay as they are while a metric fails; metrics[].fallbackValue \
                 is a number in the place of a metric, {replicas} or another."
            ));
            not_kept(draft, &format!("fallback.behavior {behavior}"));
            ("Hold".to_owned(), None)
        }
        other => {
            draft.say(format!("fallback.behavior {other}: unknown: the replicas stay as they are."));
            not_kept(draft, &format!("fallback.behavior {other}"));
            ("Hold".to_owned(), None)
        }
    };
    match direction {
        Some((direction, note)) => {
            draft.set("fallback.replicas", size, "");
            draft.set("fallback.direction", direction, &note);
        }
        None => draft.set(
            "fallback.replicas",
            size,
            &format!("fallback.behavior {behavior}, replicas {replicas}"),
        ),
    }
}

fn remarks(draft: &mut Draft, metadata: &Value, spec: &Value) {
    SCALED_OBJECT.say(draft, "", spec);
    super::say_not_whole(draft, "", spec, &WHOLE);
    super::say_not_whole(draft, "fallback.", &spec["fallback"], &["failureThreshold", "replicas"]);
    match spec["pollingInterval"].as_u64() {
        // Between 1 and the maximum KEDA's HPA is evaluated by the controller-manager, whatever the interval is.
        Some(polling) if (1..SYNC_SECONDS).contains(&polling) => {
            draft.set("timing.syncPeriod", written(polling), &format!("pollingInterval {polling}"));
        }
        Some(polling) => draft.say(format!(
            "pollingInterval {polling}: evaluated each workloads.syncPeriod ({SYNC_SECONDS}s) of the ClusterScalingPolicy, as KEDA's \
             HPA is."
        )),
        None => {}
    }
    let advanced = &spec["advanced"];
    remarks_on_advanced(draft, advanced);
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        annotation(draft, key, &text(value));
    }
}

fn remarks_on_advanced(draft: &mut Draft, advanced: &Value) {
    let hpa = &advanced["horizontalPodAutoscalerConfig"];
    if hpa["behavior"].is_object() {
        let known = SCALED_OBJECT.known_part(BEHAVIOR, &hpa["behavior"]);
        draft.set("behavior", known, "");
    }
    if advanced["restoreToOriginalReplicaCount"] == json!(true) {
        draft.say(
            "restoreToOriginalReplicaCount: no counterpart: a workload without a policy stays as it is.",
        );
    }
}

fn annotation(draft: &mut Draft, key: &str, value: &str) {
    match key {
        "autoscaling.keda.sh/paused" if value == "false" => {
            draft.say(format!("annotation {key}: {value}: nothing is paused here either."));
        }
        "autoscaling.keda.sh/paused" => draft.set("mode", "Suspend", &format!("annotation {key}: {value}")),
        "autoscaling.keda.sh/paused-replicas" => {
            draft.set("mode", "Suspend", &format!("annotation {key}: {value}"));
            draft.say(format!(
                "annotation {key}: {value}: KEDA takes the workload to {value} replicas and holds it there; mode Suspend leaves \
                 it at the size that it has: scale it to {value} by hand."
            ));
        }
        "autoscaling.keda.sh/paused-scale-in" if value != "false" => {
            draft.set("behavior.scaleDown.selectPolicy", "Disabled", &format!("annotation {key}: {value}"));
        }
        "autoscaling.keda.sh/paused-scale-out" if value != "false" => {
            draft.set("behavior.scaleUp.selectPolicy", "Disabled", &format!("annotation {key}: {value}"));
        }
        "autoscaling.keda.sh/force-activation" if value != "false" => {
            if draft.get("minReplicas") == json!(0) {
                draft.set("minReplicas", 1, "");
            }
            draft.note("minReplicas", &format!("annotation {key}: {value}"));
        }
        _ if key.contains("keda.sh/") => {
            let known = ANNOTATIONS.iter().find(|(name, _)| *name == key).map(|(_, becomes)| *becomes);
            let words = match known {
                Some(Becomes::Instead(words)) => format!("no counterpart: {words}"),
                Some(Becomes::Field(_) | Becomes::Shapes(_)) => {
                    "nothing is changed by it here either".to_owned()
                }
                None => format!(
                    "UNKNOWN annotation: {} does not have it. Nothing was made of it",
                    SCALED_OBJECT.release
                ),
            };
            draft.say(format!("annotation {key}: {value}: {words}."));
        }
        _ => {}
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
